"""Reads, describes and aggregates tables, in the process that works on a file."""

from __future__ import annotations

import json
from collections.abc import Iterable

import polars as pl

from praval_tools_data.encoding import Encoder
from praval_tools_data.protocol import Answer, Problem, Request
from praval_tools_data.tables import Table, check_unique_names, count_distinct, read_table, summarize_error, to_numeric


def run(request: Request) -> Answer:
    """Do what *request* asks for; its keys are those that `plugin` sends."""
    table = read_table(request)
    do = {"read": _read_rows, "describe": _describe_table, "aggregate": _aggregate_rows}[request["do"]]
    try:
        return do(table, request)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise Problem(
            "column", f"the columns do not fit what was asked for: {summarize_error(error)}", "Use others."
        ) from None
    except OverflowError as error:  # dates and durations reach further in files than in Python
        raise Problem("column", f"a value is out of range: {error}", "Use other columns.") from None


def _read_rows(table: Table, request: Request) -> Answer:
    names = check_unique_names(request["select"]) if request["select"] is not None else table.names
    numbers = [table.find_column_number(name) for name in names]
    frame = table.frame.slice(request["offset"], request["limit"])
    answer = _encode_rows(names, frame.select(frame.columns[number] for number in numbers).iter_rows(), request)
    seen = request["offset"] + len(answer["rows"])
    types = [str(table.frame.dtypes[number])[:200] for number in numbers]
    return {**answer, "types": types, "total_rows": table.frame.height, "truncated": seen < table.frame.height}


def _encode_rows(names: Iterable[str], rows: Iterable[tuple[object, ...]], request: Request) -> Answer:
    encoder, shown = Encoder(request["chars"]), Encoder(200)
    columns, encoded_rows, cut = [shown.encode_value(name) for name in names], list[list[object]](), 0
    left = request["bytes"] - len(json.dumps(columns))
    for row in rows:
        encoded = encoder.encode_row(row)
        left -= len(json.dumps(encoded)) + 2
        if left < 0:
            break
        encoded_rows.append(encoded)
        cut = encoder.cut_count
    return {"columns": columns, "rows": encoded_rows, "cut_values": cut}


def _describe_table(table: Table, request: Request) -> Answer:
    encoder = Encoder(min(request["chars"], 200))
    columns = [_describe_column(table.frame.to_series(at), name, encoder) for at, name in enumerate(table.names)]
    answer = {"rows": table.frame.height, "columns": columns}
    if (size := len(json.dumps(answer))) > request["bytes"]:
        problem = f"its description has {size} bytes, and {request['bytes']} are allowed"
        raise Problem("limit", problem, "Read a few columns of it, or ask the operator to raise max_result_bytes.")
    return answer


def _describe_column(series: pl.Series, name: str, encoder: Encoder) -> Answer:
    kind = series.dtype
    answer: Answer = {
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
        answer["least"], answer["greatest"] = encoder.encode_value(series.min()), encoder.encode_value(series.max())
    if kind.is_numeric():
        answer["mean"], answer["deviation"] = (
            encoder.encode_value(_to_float(value)) for value in (series.mean(), series.std())
        )
    return answer


def _to_float(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _aggregate_rows(table: Table, request: Request) -> Answer:
    keys, aggregations = list(check_unique_names(request["by"])), request["aggregations"]
    names = [aggregation["name"] or _get_default_name(aggregation) for aggregation in aggregations]
    check_unique_names([*keys, *names])
    numbers = [str(table.find_column_number(key)) for key in keys]
    expressions = [
        _build_expression(table, aggregation).alias(f"a{index}") for index, aggregation in enumerate(aggregations)
    ]
    if keys:
        frame = table.frame.group_by(numbers, maintain_order=True).agg(expressions)
    else:
        frame = table.frame.select(expressions)
    columns = [*keys, *names]
    if request["sort"] is not None:
        if request["sort"] not in columns:
            some = ", ".join(repr(name[:60]) for name in columns[:10])
            raise Problem("column", f"the result has no column {request['sort'][:60]!r}", f"Sort by one of: {some}.")
        index = columns.index(request["sort"])
        frame = frame.sort(frame.columns[index], descending=request["descending"], nulls_last=True, maintain_order=True)
    answer = _encode_rows(columns, frame.head(request["limit"]).iter_rows(), request)
    return {**answer, "groups": frame.height, "truncated": len(answer["rows"]) < frame.height}


def _get_default_name(aggregation: Request) -> str:
    function, column = aggregation["function"], aggregation["column"]
    return str(function) if column is None else f"{function}_{column}"


def _build_expression(table: Table, aggregation: Request) -> pl.Expr:
    """Return the aggregation, one of a few known ones; integers are added up without overflow."""
    function, name = aggregation["function"], aggregation["column"]
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
