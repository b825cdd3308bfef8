"""What the tools return."""

from __future__ import annotations

from typing import Any

from attrs import frozen


@frozen(kw_only=True)
class TableName:
    """A table or a view."""

    name: str
    kind: str


@frozen(kw_only=True)
class Tables:
    """The tables and views of a schema, and the names of the schemas; `truncated` where there are more."""

    tables: list[TableName]
    schemas: list[str]
    truncated: bool


@frozen(kw_only=True)
class Column:
    """A column of a table; `type` and `default` as the database spells them."""

    name: str
    type: str
    nullable: bool
    default: str | None
    primary_key: bool


@frozen(kw_only=True)
class ForeignKey:
    """Columns that name a row of another table."""

    columns: list[str]
    table: str
    referred: list[str]


@frozen(kw_only=True)
class Index:
    """An index."""

    columns: list[str]
    unique: bool


@frozen(kw_only=True)
class Description:
    """What a table is made of."""

    columns: list[Column]
    foreign_keys: list[ForeignKey]
    indexes: list[Index]


@frozen(kw_only=True)
class Rows:
    """
    The rows of a result, each a list in the order of `columns`.

    Dates are in ISO 8601, decimals are text, bytes are base64.
    `truncated` says that there are more rows, `cut_values` how many values were cut because of their length.
    """

    columns: list[str]
    rows: list[list[Any]]
    truncated: bool
    cut_values: int


@frozen(kw_only=True)
class Change:
    """What a statement changed: how many rows, and what it returned of them."""

    affected: int
    rows: Rows
