"""Draws plots with matplotlib; text of a file is shown as it is, never as a formula."""

from __future__ import annotations

import io
import warnings
from base64 import b64encode
from collections.abc import Sequence
from typing import Any, Final

import matplotlib
import polars as pl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from praval_tools_data.protocol import Answer, Problem, Request
from praval_tools_data.tables import Table, read_table, summarize_error, to_numeric

_MAX_BARS: Final = 100
_BIN_COUNT: Final = 30
_MAX_LABELS: Final = 20


def run(request: Request) -> Answer:
    """Return the picture as PNG in base64, and how many points it shows."""
    try:
        shown = _select_columns(read_table(request), request)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise Problem(
            "column", f"the columns do not fit what was asked for: {summarize_error(error)}", "Use others."
        ) from None
    _check_size(shown.height, request)
    matplotlib.rcdefaults()  # settings of somebody else could have LaTeX read the text
    figure = Figure(figsize=(request["width"] / 100, request["height"] / 100), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a letter that the font lacks, labels that take much room
            warnings.simplefilter("error", RuntimeWarning)
            drawn = (
                _draw_histogram(axes, shown)
                if request["kind"] == "histogram"
                else _draw_columns(axes, shown, request["kind"])
            )
            _add_labels(axes, request, drawn, along=_format_x_label(shown, request))
            out = io.BytesIO()
            figure.savefig(out, format="png", metadata={"Software": None})
    except (ValueError, OverflowError, RuntimeWarning, pl.exceptions.PanicException) as error:
        fix = "Use columns of moderate numbers or dates."
        raise Problem("column", f"the values cannot be drawn: {str(error)[:200]}", fix) from error
    points = shown.height * max(1, shown.width - (request["x"] is not None))
    return {"png": b64encode(out.getvalue()).decode(), "points": points}


def _check_size(height: int, request: Request) -> None:
    limits: dict[str, int] = {"bar": _MAX_BARS, "histogram": request["rows"]}
    most: int = limits[request["kind"]] if request["kind"] in limits else request["points"]
    if height * len(request["y"]) > most:
        fix = "Pass aggregate, to have one point for each value of x, or use a smaller file."
        problem = f"a {request['kind']} plot of it has {height * len(request['y'])} points, and {most} are allowed"
        raise Problem("limit", problem, fix)
    if not height:
        raise Problem("column", "there is nothing to plot", "Use columns that hold values.")


def _select_columns(table: Table, request: Request) -> pl.DataFrame:
    """Return the columns to plot: x first, where there is one, then those of y as numbers."""
    x, function = request["x"], request["aggregate"]
    if x is None and request["kind"] != "histogram":
        raise Problem("column", f"a {request['kind']} plot needs x", "Name the column for it; a histogram needs none.")
    if request["kind"] == "histogram" and (x is not None or function is not None):
        raise Problem("column", "a histogram takes neither x nor aggregate", "Leave them out.")
    counted = function == "count"
    columns = [
        (table.get_column(name) if counted else _to_floats(table.get_column(name), name, request["kind"])).alias(
            f"y{at}"
        )
        for at, name in enumerate(request["y"])
    ]
    if x is None:
        return pl.DataFrame(columns)
    frame = pl.DataFrame([table.get_column(x).alias("x"), *columns]).filter(pl.col("x").is_not_null())
    if function is None:
        return frame
    found = {"sum": pl.Expr.sum, "mean": pl.Expr.mean, "least": pl.Expr.min, "greatest": pl.Expr.max}
    of = found.get(function, pl.Expr.count)
    return frame.group_by("x").agg(of(pl.col(f"y{at}")) for at in range(len(columns))).sort("x")


def _to_floats(series: pl.Series, name: str, kind: str) -> pl.Series:
    return to_numeric(series, name, f"a {kind} plot").cast(pl.Float64)


def _is_time_or_duration(kind: pl.DataType) -> bool:
    """Whether these are times of a day or durations, which matplotlib has no axis for."""
    return kind in (pl.Time, pl.Duration)


def _to_seconds(series: pl.Series) -> pl.Series:
    parts = {"ms": 1e3, "us": 1e6, "ns": 1e9}[getattr(series.dtype, "time_unit", "ns")]
    return series.to_physical().cast(pl.Float64) / parts


def _draw_histogram(axes: Any, shown: pl.DataFrame) -> list[Any]:
    values = [shown.to_series(at).drop_nulls() for at in range(shown.width)]
    return [axes.hist(one.filter(one.is_finite()).to_list(), bins=_BIN_COUNT, alpha=0.7)[2] for one in values]


def _draw_columns(axes: Any, shown: pl.DataFrame, kind: str) -> list[Any]:
    x, named = shown.to_series(0), not (shown.dtypes[0].is_numeric() or shown.dtypes[0].is_temporal())
    at: Sequence[Any] = list(range(shown.height))
    if not named and kind != "bar":
        at = (_to_seconds(x) if _is_time_or_duration(x.dtype) else x).to_list()
    if named or kind == "bar":
        step = max(1, -(-shown.height // _MAX_LABELS))
        labels = [to_plain_line(str(value)) for value in x.to_list()[::step]]
        axes.set_xticks(at[::step], labels, rotation=45, ha="right", parse_math=False)
    drawn, many = [], shown.width - 1
    for number in range(1, shown.width):
        y = shown.to_series(number).cast(pl.Float64).fill_null(float("nan")).to_list()
        if kind == "line":
            drawn += axes.plot(at, y)
        elif kind == "scatter":
            drawn.append(axes.scatter(at, y, s=12))
        else:
            width = 0.8 / many
            drawn.append(axes.bar([place - 0.4 + width * (number - 0.5) for place in at], y, width))
    return drawn


def _format_x_label(shown: pl.DataFrame, request: Request) -> str:
    if request["x"] is None:
        return to_plain_line(request["y"][0])
    in_seconds = request["kind"] != "bar" and _is_time_or_duration(shown.dtypes[0])
    return to_plain_line(request["x"]) + (" (seconds)" if in_seconds else "")


def _add_labels(axes: Any, request: Request, drawn: Sequence[Any], *, along: str) -> None:
    words, names = {"parse_math": False}, [to_plain_line(name) for name in request["y"]]
    axes.set_title(to_plain_line(request["title"]), **words)
    axes.set_xlabel(along, **words)
    if len(names) == 1:
        axes.set_ylabel("rows" if request["kind"] == "histogram" else names[0], **words)
        return
    for text in axes.legend(drawn, [f" {name}" for name in names]).get_texts():  # one that begins with _ is left out
        text.set_parse_math(False)


def to_plain_line(text: str) -> str:
    """Return *text* as one short line without control characters."""
    line = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    return line if len(line) <= 60 else f"{line[:59]}…"
