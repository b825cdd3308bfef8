"""
Reads files into tables.

The columns of a frame are named by their number: `pl.col` takes some names for patterns (`*`, `^…$`).
The names of the file stay beside it, and are data.
"""

from __future__ import annotations

import codecs
import io
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

import polars as pl
from attrs import frozen

from praval_tools_data.protocol import Problem, Request

_CHUNK_SIZE: Final = 1_048_576
_RAISE_LIMIT_FIX: Final = "Use a smaller file, or ask the operator to raise {}."


@frozen
class Table:
    """A frame, and the names of its columns as the file spells them."""

    frame: pl.DataFrame
    names: tuple[str, ...]

    def find_column_number(self, name: str) -> int:
        """Return the number of a column."""
        if name in self.names:
            return self.names.index(name)
        near = get_close_matches(name, self.names, 3, 0.5) or list(self.names[:10])
        listed = ", ".join(repr(other[:60]) for other in near)
        raise Problem("column", f"there is no column {name[:60]!r}", f"Columns are, for example: {listed}.")

    def get_column(self, name: str) -> pl.Series:
        """Return a column."""
        return self.frame.to_series(self.find_column_number(name))


def read_table(request: Request) -> Table:
    """Read the file that *request* names by its descriptor, within the limits that it gives."""
    data = _read_limited(request["file"], request["file_bytes"])
    read = _READERS[request["format"]]
    try:
        frame = read(data, request)
    except pl.exceptions.PolarsError as error:
        fix = f"Check the file, or pass the format that it has: {', '.join(_READERS)}."
        raise Problem("format", f"it cannot be read as {request['format']}: {summarize_error(error)}", fix) from None
    except pl.exceptions.PanicException as error:
        problem = f"reading it as {request['format']} failed: {summarize_error(error)}"
        raise Problem("format", problem, "The file is damaged; use another.") from None
    if frame.height > request["rows"]:
        raise Problem("limit", f"it has more than {request['rows']} rows", _RAISE_LIMIT_FIX.format("max_rows"))
    _check_width(frame.width, request)
    names = tuple(frame.columns)
    return Table(frame.rename({name: str(number) for number, name in enumerate(names)}), names)


def _read_limited(file: int, most: int) -> bytes:
    with os.fdopen(file, "rb") as opened:
        data = opened.read(most + 1)
    if len(data) > most:
        raise Problem("limit", f"it has more than {most} bytes", _RAISE_LIMIT_FIX.format("max_file_bytes"))
    return data


def _check_width(width: int, request: Request) -> None:
    if width > request["columns"]:
        problem = f"it has {width} columns, and {request['columns']} are allowed"
        raise Problem("limit", problem, _RAISE_LIMIT_FIX.format("max_columns"))


def summarize_error(error: BaseException) -> str:
    """Return what polars says in one line, without its advice to programmers."""
    first = " ".join(str(error).strip().partition("\n\n")[0].split())
    return first[:300] or type(error).__name__


def _read_csv(data: bytes, request: Request) -> pl.DataFrame:
    separator = request["separator"]
    _check_text(data)
    first = data.lstrip(b"\xef\xbb\xbf\r\n").partition(b"\n")[0]
    if first.count(separator.encode()) > 4 * request["columns"]:  # some may stand in quotes
        problem = f"its first line has too many values: {request['columns']} columns are allowed"
        raise Problem("limit", problem, _RAISE_LIMIT_FIX.format("max_columns"))
    return pl.read_csv(
        io.BytesIO(data),
        separator=separator,
        infer_schema_length=None,  # n_rows would make it overlook a quote that is never closed
        try_parse_dates=True,
    )


def _check_text(data: bytes) -> None:
    """Refuse what is not UTF-8: polars looks at values only, not at names, and unpacks what is compressed."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(data), _CHUNK_SIZE):
            decoder.decode(data[start : start + _CHUNK_SIZE])
        decoder.decode(b"", True)
    except UnicodeDecodeError as error:
        fix = "Save it as UTF-8, and not compressed, or pass the format that it has."
        raise Problem("format", f"it is not UTF-8 text (byte 0x{error.object[error.start]:02x})", fix) from None


def _read_json(data: bytes, request: Request) -> pl.DataFrame:
    return pl.read_json(io.BytesIO(data), infer_schema_length=None)


def _read_jsonl(data: bytes, request: Request) -> pl.DataFrame:
    return pl.read_ndjson(io.BytesIO(data), infer_schema_length=None)


def _read_parquet(data: bytes, request: Request) -> pl.DataFrame:
    """Read Parquet, once the numbers that its end tells are within the limits; they may lie, the memory does not."""
    _check_width(len(pl.read_parquet_schema(io.BytesIO(data))), request)
    rows = pl.scan_parquet(io.BytesIO(data)).select(pl.len()).collect().item()
    if rows > request["rows"]:
        raise Problem(
            "limit", f"it has {rows} rows, and {request['rows']} are allowed", _RAISE_LIMIT_FIX.format("max_rows")
        )
    return pl.read_parquet(io.BytesIO(data))


_READERS: Final[Mapping[str, Callable[[bytes, Request], pl.DataFrame]]] = {
    "csv": _read_csv,
    "json": _read_json,
    "jsonl": _read_jsonl,
    "parquet": _read_parquet,
}


def to_numeric(series: pl.Series, name: str, purpose: str) -> pl.Series:
    """Return *series* as numbers, truth values as 1 and 0."""
    if series.dtype == pl.Boolean:
        return series.cast(pl.Int64)
    if not series.dtype.is_numeric():
        fix = "Use a column of numbers, or count its rows."
        raise Problem("column", f"{purpose} needs numbers, and {name[:60]!r} holds {series.dtype}", fix)
    return series


def count_distinct(series: pl.Series) -> int | None:
    """Return how many different values there are; None where they cannot be compared."""
    try:
        return series.n_unique()
    except pl.exceptions.PolarsError:
        return None


def check_unique_names(names: Sequence[str]) -> Sequence[str]:
    """Refuse names that are given twice."""
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        fix = "Give each column of the result a name of its own."
        raise Problem("column", f"{twice[0][:60]!r} is there twice", fix)
    return names
