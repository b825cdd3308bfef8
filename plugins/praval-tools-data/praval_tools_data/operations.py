"""What the process does with a table: rows, a description, an aggregation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from praval_tools_data.encoding import Encoder
from praval_tools_data.problem import Problem
from praval_tools_data.tables import Table, check_unique_names, count_distinct, read_table, summarize_error, to_numeric


def run(request: Mapping[str, Any]) -> Any:
    """Do what *request* asks for; its keys are those that `plugin` sends."""
    table = read_table(request)
    do = {"read": _read_rows, "describe": _describe_table, "aggregate": _aggregate_rows}[request["do"]]
    try:
        return do(table, request)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise Problem("column", f"the columns do not fit what was asked for: {summarize_error(error)}", "Use others.") from None
    except OverflowError as error:  # dates and durations reach further in files than in Python
        raise Problem("column", f"a value is beyond what can be told: {error}", "Use other columns.") from None


def _read_rows(table: Table, request: Mapping[str, Any]) -> Any:
    names = check_unique_names(request["select"]) if request["select"] is not None else table.names
    numbers = [table.find_column_number(name) for name in names]
    frame = table.frame.slice(request["offset"], request["limit"])
    told = _encode_rows(names, frame.select(frame.columns[number] for number in numbers).iter_rows(), request)
    seen = request["offset"] + len(told["rows"])
    types = [str(table.frame.dtypes[number])[:200] for number in numbers]
    return {**told, "types": types, "total_rows": table.frame.height, "truncated": seen < table.frame.height}


def _encode_rows(names: Iterable[str], rows: Iterable[tuple[Any, ...]], request: Mapping[str, Any]) -> dict[str, Any]:
    encoder, shown = Encoder(request["chars"]), Encoder(200)
    columns, given, cut = [shown.encode_value(name) for name in names], [], 0
    left = request["bytes"] - len(json.dumps(columns))
    for row in rows:
        encoded = encoder.encode_row(row)
        left -= len(json.dumps(encoded)) + 2
        if left < 0:
            break
        given.append(encoded)
        cut = encoder.cut_count
    return {"columns": columns, "rows": given, "cut_values": cut}


def _describe_table(table: Table, request: Mapping[str, Any]) -> Any:
    encoder = Encoder(min(request["chars"], 200))
    columns = [_describe_column(table.frame.to_series(at), name, encoder) for at, name in enumerate(table.names)]
    told = {"rows": table.frame.height, "columns": columns}
    if (size := len(json.dumps(told))) > request["bytes"]:
        problem = f"its description has {size} bytes, and {request['bytes']} are allowed"
        raise Problem("limit", problem, "Read a few columns of it, or ask the operator to raise max_result_bytes.")
    return told


def _describe_column(series: pl.Series, name: str, encoder: Encoder) -> dict[str, Any]:
    kind = series.dtype
    told: dict[str, Any] = {
        "name": encoder.encode_value(name),
        "type": str(kind)[:200],
        "empty": series.null_count(),
        "distinct": count_distinct(series),
        "least": None,
        "greatest": None,
        "mean": None,
        "deviation": None,
    }
    if kind.is_numeric() or kind.is_temporal() or kind in (pl.String, pl.Boolean):
        told["least"], told["greatest"] = encoder.encode_value(series.min()), encoder.encode_value(series.max())
    if kind.is_numeric():
        told["mean"], told["deviation"] = (encoder.encode_value(_to_float(one)) for one in (series.mean(), series.std()))
    return told


def _to_float(value: Any) -> float | None:
    return None if value is None else float(value)


def _aggregate_rows(table: Table, request: Mapping[str, Any]) -> Any:
    keys, wanted = list(check_unique_names(request["by"])), request["aggregations"]
    names = [one["name"] or _get_default_name(one) for one in wanted]
    check_unique_names([*keys, *names])
    numbers = [str(table.find_column_number(key)) for key in keys]
    expressions = [_build_expression(table, one).alias(f"a{at}") for at, one in enumerate(wanted)]
    if keys:
        frame = table.frame.group_by(numbers, maintain_order=True).agg(expressions)
    else:
        frame = table.frame.select(expressions)
    columns = [*keys, *names]
    if request["sort"] is not None:
        if request["sort"] not in columns:
            some = ", ".join(repr(one[:60]) for one in columns[:10])
            raise Problem("column", f"the result has no column {request['sort'][:60]!r}", f"Sort by one of: {some}.")
        at = columns.index(request["sort"])
        frame = frame.sort(frame.columns[at], descending=request["descending"], nulls_last=True, maintain_order=True)
    told = _encode_rows(columns, frame.head(request["limit"]).iter_rows(), request)
    return {**told, "groups": frame.height, "truncated": len(told["rows"]) < frame.height}


def _get_default_name(one: Mapping[str, Any]) -> str:
    return one["function"] if one["column"] is None else f"{one['function']}_{one['column']}"


def _build_expression(table: Table, one: Mapping[str, Any]) -> pl.Expr:
    """Return the aggregation, one of a few known ones; integers are added up without overflow."""
    function, name = one["function"], one["column"]
    if name is None:
        if function != "count":
            raise Problem("column", f"{function} needs a column", "Name one; only count works without.")
        return pl.len()
    series, column = table.get_column(name), pl.col(str(table.find_column_number(name)))
    if function in ("sum", "mean", "median", "deviation"):
        to_numeric(series, name, function)
    if function == "sum" and (series.dtype.is_integer() or series.dtype == pl.Boolean):
        return column.cast(pl.Int128).sum()
    known = {
        "count": column.count, "sum": column.sum, "mean": column.mean, "median": column.median, "least": column.min,
        "greatest": column.max, "deviation": column.std, "distinct": column.n_unique, "first": column.first,
        "last": column.last,
    }  # fmt: skip
    return known[function]()
