"""A table in memory: named columns of text, the kind of each, filtering and grouping of rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Literal

from attrs import field, frozen

from praval_tools.errors import ToolUsageError
from praval_tools.names import find_similar_names

Kind = Literal["number", "yes/no", "text"]
RowFilter = Mapping[str, Sequence[str]] | None

_YES_NO_VALUES = {"yes": 1.0, "no": 0.0, "true": 1.0, "false": 0.0}


@frozen(kw_only=True)
class Column:
    """
    One column of a table.

    Args:
        name: Its heading.
        values: One text per row, empty where the value is missing.
    """

    name: str
    values: Sequence[str] = field(repr=False)

    @cached_property
    def kind(self) -> Kind:
        """The kind of all filled cells."""
        filled = {value for value in self.values if value}
        if filled and all(value.lower() in _YES_NO_VALUES for value in filled):
            return "yes/no"
        return "number" if filled and all(_parse_number(value) is not None for value in filled) else "text"

    @cached_property
    def numbers(self) -> list[float | None]:
        """The values as numbers (yes is 1, no is 0), None where there is none."""
        parse = _parse_yes_no if self.kind == "yes/no" else _parse_number
        parsed = {value: parse(value) for value in set(self.values)}
        return [parsed[value] for value in self.values]

    @cached_property
    def distinct(self) -> tuple[str, ...]:
        """The filled values without repetition, in order of appearance."""
        return tuple(dict.fromkeys(value for value in self.values if value))


@frozen(kw_only=True)
class Table:
    """
    Rows under named columns.

    Args:
        name: What the user calls it: a file name.
        unit: What one row is: "flight"; an s makes the plural.
        columns: At least one; all of one length.
    """

    name: str
    unit: str = "row"
    columns: tuple[Column, ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.columns[0].values)

    @cached_property
    def _columns_by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    def get_column(self, name: str) -> Column:
        """
        Return the column of this name.

        Raises:
            ToolUsageError: There is none; the text names similar ones.
        """
        if name in self._columns_by_name:
            return self._columns_by_name[name]
        names = find_similar_names(name, self._columns_by_name) or tuple(self._columns_by_name)[:8]
        raise ToolUsageError(f"No column {name!r} in {self.name}; there is {', '.join(map(repr, names))}.")

    def select_rows(self, only: RowFilter = None) -> Iterable[int]:
        """Return the numbers of the rows whose cells have one of the values that *only* names for their column."""
        rows: Iterable[int] = range(len(self))
        for name, allowed in (only or {}).items():
            values, allowed_values = self.get_column(name).values, set(allowed)
            rows = [row for row in rows if values[row] in allowed_values]
        return rows

    def group_rows(self, by: Sequence[str], rows: Iterable[int]) -> Iterator[tuple[tuple[str, ...], list[int]]]:
        """Yield each combination of the values of *by* with its rows, in order of appearance."""
        keys = [self.get_column(name).values for name in by]
        groups: dict[tuple[str, ...], list[int]] = {}
        for row in rows:
            groups.setdefault(tuple(values[row] for values in keys), []).append(row)
        yield from groups.items()

    def get_record(self, row: int) -> dict[str, str]:
        """Return one row as a mapping from heading to text."""
        return {column.name: column.values[row] for column in self.columns}


def _parse_yes_no(text: str) -> float | None:
    return _YES_NO_VALUES.get(text.lower())


def _parse_number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
