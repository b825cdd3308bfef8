"""Records and items for the tests of the store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from praval_tools.journal import INTENT, Item, Record

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def record(name: str = "e", *, at: float = 0, **given: Any) -> Record:
    """Return a record that happened *at* seconds after noon."""
    values = {"type": "note", "body": b"{}", "process": "tests", **given}
    return Record(id=name, time=NOON + timedelta(seconds=at), **values)


def intent(call: str, run: str | None = "run", **given: Any) -> Item:
    """Return the item that says that a call is about to run."""
    item = {name: given.pop(name) for name in ("revision", "spend", "rows", "uses") if name in given}
    made = record(f"{call}-0", type="agent_tool_call", run_id=run, call_id=call, attempt=INTENT, **given)
    return Item((made,), **item)


def result(call: str, run: str | None = "run", attempt: int = 1, **given: Any) -> Item:
    """Return the item that says how a call ended."""
    name = f"{call}-{attempt}"
    return Item((record(name, type="agent_tool_result", run_id=run, call_id=call, attempt=attempt, **given),))


def note(name: str = "note", **given: Any) -> Item:
    """Return an item of one plain record."""
    return Item((record(name, **given),))
