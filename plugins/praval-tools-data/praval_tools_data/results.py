"""What the tools take and return."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from annotated_types import MaxLen, MinLen
from attrs import frozen

AggregateFunction = Literal[
    "count", "sum", "mean", "median", "least", "greatest", "deviation", "distinct", "first", "last"
]
ColumnName = Annotated[str, MaxLen(1_000)]


@frozen(kw_only=True)
class Aggregation:
    """One column of the result: a function of a column; `count` without a column counts rows."""

    function: AggregateFunction
    column: ColumnName | None = None
    name: Annotated[str, MinLen(1), MaxLen(200)] | None = None


@frozen(kw_only=True)
class Page:
    """
    Rows of a file, each a list in the order of `columns`, and how many rows the file has.

    Dates are in ISO 8601, decimals are text, bytes are base64.
    `truncated` says that there are more rows, `cut_values` how many values were cut because of their length.
    """

    columns: list[str]
    types: list[str]
    rows: list[list[Any]]
    total_rows: int
    truncated: bool
    cut_values: int


@frozen(kw_only=True)
class ColumnSummary:
    """What a column holds; what does not apply to its type is null."""

    name: str
    type: str
    empty: int
    distinct: int | None
    least: Any
    greatest: Any
    mean: Any
    deviation: Any


@frozen(kw_only=True)
class Summary:
    """What a file holds."""

    rows: int
    columns: list[ColumnSummary]


@frozen(kw_only=True)
class Groups:
    """One row for each group, and how many groups there are; `truncated` where not all are shown."""

    columns: list[str]
    rows: list[list[Any]]
    groups: int
    truncated: bool
    cut_values: int


@frozen(kw_only=True)
class Picture:
    """Where the picture is, its size, and how many points it shows."""

    path: str
    bytes: int
    width: int
    height: int
    points: int
