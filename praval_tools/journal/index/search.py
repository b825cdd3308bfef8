"""Searches the events of an index, from the latest one back, in steps that bound what one search costs."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final

from attrs import frozen

from praval_tools.access.events import GrantSpent, StateEvent
from praval_tools.journal.events import EVENT_CLASSES, EventType
from praval_tools.journal.index.counting import UNCOUNTED
from praval_tools.journal.index.index import JournalIndex
from praval_tools.journal.storage.protocol import Record, Store
from praval_tools.journal.storage.rows import to_microseconds
from praval_tools.names import OPERATOR

MAX_SEARCH_SECONDS: Final = 0.1
"""After how many seconds a search returns what it found, and where to go on."""

FAILED: Final = "failed"
"""As an outcome of a search: every call that began, and did not end well."""
REFUSED: Final = "refused"
"""As an outcome of a search: every call that did not begin, as refusals are counted."""

ACCESS_CHANGES: Final = "access_changes"
"""As a type of a search: every change of who may call what; that calls use up a grant is none."""
APPROVALS: Final = "approvals"
"""As a type of a search: approvals that were asked for, and the answers."""

_TYPE_GROUPS: Final = {
    ACCESS_CHANGES: tuple(
        name.value for name, kind in EVENT_CLASSES.items() if issubclass(kind, StateEvent) and kind is not GrantSpent
    ),
    APPROVALS: (EventType.APPROVAL_ASKED.value, EventType.APPROVAL_ANSWERED.value),
}
_FIRST_STEP, _MAX_STEP, _STEP_GROWTH = 20_000, 200_000, 4
_EXPORT_PAGE: Final = 500


@frozen(kw_only=True)
class EventQuery:
    """
    Which events are searched; None: all.

    Args:
        agent: The agent that calls, or that a change is about; `operator`: calls of the host program.
        tool: The tool.
        outcome: How a call ended; `failed` or `refused`: in any of the outcomes that are counted so.
        rule: The rule that decided on a call.
        type: The event's type; `access_changes` or `approvals`: any of the types of that kind.
        since: From then on.
        until: Before then.
    """

    agent: str | None = None
    tool: str | None = None
    outcome: str | None = None
    rule: str | None = None
    type: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def list_conditions(self) -> tuple[str, list[object]]:
        """Return the conditions in SQL, and their parameters."""
        conditions, values = list[str](), list[object]()
        if self.outcome == FAILED:
            conditions.append("type = 'agent_tool_result' AND outcome IS NOT 'ok'")
        elif self.outcome == REFUSED:
            conditions.append("type = 'call_refused' AND outcome NOT IN (?, ?)")
            values += UNCOUNTED
        if (types := _TYPE_GROUPS.get(self.type or "")) is not None:
            conditions.append(f"type IN ({', '.join('?' * len(types))})")
            values += types
        for name in ("tool", "outcome", "rule", "type"):
            value = getattr(self, name)
            is_group = value in ((FAILED, REFUSED) if name == "outcome" else _TYPE_GROUPS if name == "type" else ())
            if value is not None and not is_group:
                conditions.append(f"{name} = ?")
                values.append(value)
        if self.agent == OPERATOR:
            conditions.append("agent IS NULL AND tool IS NOT NULL")
        elif self.agent is not None:
            conditions.append("agent = ?")
            values.append(self.agent)
        for condition, moment in (("time >= ?", self.since), ("time < ?", self.until)):
            if moment is not None:
                conditions.append(condition)
                values.append(to_microseconds(moment))
        return "".join(f" AND {condition}" for condition in conditions), values


@frozen(kw_only=True)
class EventPage:
    """
    Some of the events that were searched, the latest first.

    Args:
        records: The events.
        before: Pass it to go on, to events before this number; None: there are no more.
        is_partial: Time was up before the page was full.
    """

    records: tuple[Record, ...]
    before: int | None
    is_partial: bool = False


def search_events(
    index: JournalIndex, store: Store, query: EventQuery, *, before: int | None = None, limit: int = 50,
    clock: Callable[[], float] = time.monotonic,
) -> EventPage:  # fmt: skip
    """
    Return the latest events that fit a query.

    Args:
        index: The index of the journal.
        store: The store of the journal.
        query: What they must be.
        before: Only events before this number.
        limit: How many at most.
        clock: Seconds; after `MAX_SEARCH_SECONDS` the search ends, at least one step from where it began.
    """
    deadline, step, numbers = clock() + MAX_SEARCH_SECONDS, _FIRST_STEP, list[int]()
    with index.read() as connection:
        lowest, highest = _find_bounds(connection, query)
        end = highest + 1 if before is None else min(before, highest + 1)
        condition, values = query.list_conditions()
        select = f"SELECT seq FROM events WHERE seq < ? AND seq >= ?{condition} ORDER BY seq DESC LIMIT ?"  # noqa: S608
        while end > lowest:
            start = max(end - step, lowest)
            rows = connection.execute(select, (end, start, *values, limit - len(numbers)))
            numbers += [int(number) for (number,) in rows]
            if len(numbers) == limit:
                end = numbers[-1]
                break
            end, step = start, min(step * _STEP_GROWTH, _MAX_STEP)
            if clock() > deadline:
                break
    records = tuple(reversed(list(store.read(numbers=numbers))))
    is_more = end > lowest
    return EventPage(records=records, before=end if is_more else None, is_partial=is_more and len(numbers) < limit)


def iter_events(index: JournalIndex, store: Store, query: EventQuery) -> Iterator[Record]:
    """Yield all events that fit a query, the oldest first, in pages, so that memory is bounded."""
    with index.read() as connection:
        lowest, highest = _find_bounds(connection, query)
    condition, values = query.list_conditions()
    select = f"SELECT seq FROM events WHERE seq >= ? AND seq <= ?{condition} ORDER BY seq LIMIT ?"  # noqa: S608
    while lowest <= highest:
        with index.read() as connection:
            rows = connection.execute(select, (lowest, highest, *values, _EXPORT_PAGE)).fetchall()
        numbers = [int(number) for (number,) in rows]
        if not numbers:
            return
        yield from store.read(numbers=numbers)
        lowest = numbers[-1] + 1


def _find_bounds(connection: sqlite3.Connection, query: EventQuery) -> tuple[int, int]:
    """Return the first and the last number that can fit; without any, an empty range."""
    (highest,) = connection.execute("SELECT max(seq) FROM events").fetchone()
    (lowest,) = connection.execute("SELECT min(seq) FROM events").fetchone()
    if highest is None:
        return 1, 0
    if query.since is None and query.until is None:
        return lowest, highest
    since = 0 if query.since is None else to_microseconds(query.since)
    until = 1 << 62 if query.until is None else to_microseconds(query.until)
    bounds = "SELECT min(seq), max(seq) FROM events INDEXED BY events_time WHERE time >= ? AND time < ?"
    first, last = connection.execute(bounds, (since, until)).fetchone()
    return (1, 0) if first is None else (first, last)


def list_values(index: JournalIndex, column: str) -> list[str]:
    """Return the outcomes or rules (*column*) that occur, for a choice; there are few of them."""
    if column not in ("outcome", "rule"):
        raise ValueError(f"column: {column!r} is neither 'outcome' nor 'rule'")
    # from one value to the next in the index, not over all of its rows
    select = f"""
        WITH RECURSIVE found(value) AS (
            SELECT min({column}) FROM events WHERE {column} IS NOT NULL
            UNION ALL SELECT (SELECT min({column}) FROM events WHERE {column} > value) FROM found
            WHERE value IS NOT NULL)
        SELECT value FROM found WHERE value IS NOT NULL LIMIT 200"""  # noqa: S608
    with index.read() as connection:
        return [str(value) for (value,) in connection.execute(select)]
