"""Statements run in this process, by the same code as in the one of their own, without the time that a start costs."""

from __future__ import annotations

from typing import Any

from praval_tools_sql.statements import Database

_REQUEST = {
    "do": "query", "timeout": 5.0, "memory": 0, "superuser": False, "rows": 100, "bytes": 100_000, "chars": 1_000,
    "parameters": {}, "schema": None,
}  # fmt: skip


def tried(url: object, sql: str = "", **more: Any) -> Any:
    """Run a statement on the database of this URL, or of this file; what cannot be done is a `Problem`."""
    given = {**_REQUEST, "url": str(url) if "://" in str(url) else f"sqlite:///{url}", "sql": sql, **more}
    return getattr(Database(given), given["do"])()
