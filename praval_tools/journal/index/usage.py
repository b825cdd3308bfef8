"""Statistics of an index: calls, failures, refusals and durations by day, tool and agent."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Final, Literal

from attrs import frozen

from praval_tools.journal.events import EventType
from praval_tools.journal.index.counting import ALL_DAYS, UNCOUNTED
from praval_tools.journal.index.index import JournalIndex
from praval_tools.journal.storage.rows import from_microseconds, to_microseconds
from praval_tools.names import OPERATOR

Kind = Literal["all", "tool", "agent"]

_EPOCH: Final = date(1970, 1, 1)
_NANOSECONDS_PER_MS: Final = 1_000_000
_MAX_DURATIONS: Final = 500
_MAX_PARTNER_EVENTS: Final = 10_000
_MAX_RECENT_EVENTS: Final = 2_000
_SUMS: Final = "sum(ok), sum(failed), sum(refused), sum(ns)"


@frozen(kw_only=True)
class CallSum:
    """
    How many calls ended, and how.

    Args:
        name: The tool, the agent, or empty.
        day: The UTC day; None: of several days.
        ok: Ended well.
        failed: Started, and failed.
        refused: Did not start: forbidden, limited, wrong arguments, denied.
        total_ms: What those that ended well took together.
    """

    name: str = ""
    day: date | None = None
    ok: int = 0
    failed: int = 0
    refused: int = 0
    total_ms: float = 0.0

    @property
    def calls(self) -> int:
        """How many calls ended."""
        return self.ok + self.failed + self.refused

    @property
    def average_ms(self) -> float | None:
        """What a call that ended well took on average; None: there is none."""
        return self.total_ms / self.ok if self.ok else None


def _to_sum(name: str, day: int | None, sums: Sequence[int | None]) -> CallSum:
    ok, failed, refused, ns = (number or 0 for number in sums)
    moment = None if day is None else _EPOCH + timedelta(days=day)
    return CallSum(
        name=name, day=moment, ok=ok, failed=failed, refused=refused, total_ms=ns / _NANOSECONDS_PER_MS
    )  # fmt: skip


def _to_day_number(day: date) -> int:
    return (day - _EPOCH).days


def sum_by_day(index: JournalIndex, kind: Kind = "all", name: str = "", *, since: date, until: date) -> list[CallSum]:
    """Return a sum for each day with calls of all tools, or of one tool or agent; both days are included."""
    select = """
        WITH RECURSIVE wanted(day) AS (SELECT ? UNION ALL SELECT day + 1 FROM wanted WHERE day < ?)
        SELECT day, ok, failed, refused, ns FROM wanted JOIN days USING (day) WHERE kind = ? AND name = ?
        ORDER BY day"""
    days = max(_to_day_number(since), 1), _to_day_number(until)
    with index.read() as connection:
        rows = connection.execute(select, (*days, kind, name)).fetchall()
    return [_to_sum(name, day, sums) for day, *sums in rows]


def sum_since(index: JournalIndex, since: datetime) -> CallSum:
    """Return the sum of all calls that ended from *since* on."""
    select = """
        SELECT count(*) FILTER (WHERE type = ? AND outcome = 'ok'),
        count(*) FILTER (WHERE type = ? AND outcome IS NOT 'ok'),
        count(*) FILTER (WHERE type = ? AND outcome NOT IN (?, ?)),
        CAST(total(latency) FILTER (WHERE type = ? AND outcome = 'ok') * 1000000 AS INTEGER)
        FROM events WHERE time >= ?"""
    result, refused = EventType.AGENT_TOOL_RESULT.value, EventType.CALL_REFUSED.value
    with index.read() as connection:
        values = (result, result, refused, *UNCOUNTED, result, to_microseconds(since))
        return _to_sum("", None, connection.execute(select, values).fetchone())


def count_events_since(index: JournalIndex, since: datetime) -> int:
    """Return how many events of any type there are from *since* on."""
    with index.read() as connection:
        (count,) = connection.execute(
            "SELECT count(*) FROM events WHERE time >= ?", (to_microseconds(since),)
        ).fetchone()
    return int(count)


def sum_all(index: JournalIndex, kind: Kind = "all", name: str = "") -> CallSum:
    """Return the sum of all days."""
    select = "SELECT ok, failed, refused, ns FROM days WHERE kind = ? AND name = ? AND day = ?"
    with index.read() as connection:
        row = connection.execute(select, (kind, name, ALL_DAYS)).fetchone()
    return CallSum(name=name) if row is None else _to_sum(name, None, row)


Order = Literal["calls", "failed", "refused", "time"]
_ORDERS: Final = {
    "calls": "sum(ok + failed + refused)", "failed": "sum(failed)", "refused": "sum(refused)", "time": "sum(ns)",
}  # fmt: skip


def rank_names(
    index: JournalIndex, kind: Literal["tool", "agent"], *, since: date | None = None, until: date | None = None,
    order: Order = "calls", limit: int = 20,
) -> list[CallSum]:  # fmt: skip
    """Return the tools or agents with the most calls, failures, refusals or time; without days, of all days."""
    if since is None and until is None:
        days, values = "day = ?", [ALL_DAYS]
    else:
        days = "day BETWEEN ? AND ?"
        values = [max(_to_day_number(since or _EPOCH), 1), _to_day_number(until or date.max)]
    select = (
        f"SELECT name, {_SUMS} FROM days WHERE kind = ? AND {days} GROUP BY name "  # noqa: S608
        f"ORDER BY {_ORDERS[order]} DESC, name LIMIT ?"
    )
    with index.read() as connection:
        return [_to_sum(name, None, sums) for name, *sums in connection.execute(select, (kind, *values, limit))]


def rank_partners(
    index: JournalIndex, *, tool: str | None = None, agent: str | None = None, limit: int = 20
) -> list[CallSum]:
    """Return the agents that called *tool* most, or the tools that *agent* called most, in the latest 10,000 events."""
    partner, condition, values = ("agent", "tool = ?", [tool]) if tool is not None else ("tool", "agent = ?", [agent])
    if tool is None and agent == OPERATOR:
        condition, values = "agent IS NULL AND tool IS NOT NULL", []
    select = f"""
        SELECT coalesce({partner}, '{OPERATOR}') AS name,
        count(*) FILTER (WHERE type = 'agent_tool_result' AND outcome = 'ok'),
        count(*) FILTER (WHERE type = 'agent_tool_result' AND outcome <> 'ok'),
        count(*) FILTER (WHERE type = 'call_refused' AND outcome NOT IN ('unknown_tool', 'approval_required')),
        CAST(1e6 * total(latency) FILTER (WHERE type = 'agent_tool_result' AND outcome = 'ok') AS INTEGER)
        FROM (SELECT * FROM events WHERE {condition} ORDER BY seq DESC LIMIT {_MAX_PARTNER_EVENTS})
        WHERE outcome IS NOT NULL GROUP BY name ORDER BY count(*) DESC, name LIMIT ?"""  # noqa: S608
    with index.read() as connection:
        return [_to_sum(name, None, sums) for name, *sums in connection.execute(select, (*values, limit))]


def count_outcomes(index: JournalIndex, kind: Literal["tool", "agent"], name: str) -> list[tuple[str, int]]:
    """Return how the calls of a tool or by an agent ended, the most frequent first, in the latest 10,000 events."""
    select = f"""
        SELECT outcome, count(*) FROM (SELECT outcome FROM events WHERE {kind} = ? ORDER BY seq DESC
        LIMIT {_MAX_PARTNER_EVENTS}) WHERE outcome IS NOT NULL GROUP BY outcome
        ORDER BY count(*) DESC, outcome"""  # noqa: S608
    with index.read() as connection:
        return [(str(outcome), int(number)) for outcome, number in connection.execute(select, (name,))]


def find_latest_uses(index: JournalIndex, agent: str) -> dict[str, datetime]:
    """Return when an agent last called each tool, refusals aside, as far as its latest 2,000 events say."""
    select = f"""
        SELECT tool, max(time) FROM (SELECT tool, time, type FROM events WHERE agent = ? ORDER BY seq DESC
        LIMIT {_MAX_RECENT_EVENTS}) WHERE tool IS NOT NULL AND type = 'agent_tool_call' GROUP BY tool"""  # noqa: S608
    with index.read() as connection:
        return {str(tool): from_microseconds(time) for tool, time in connection.execute(select, (agent,))}


def list_durations(index: JournalIndex, tool: str, *, limit: int = _MAX_DURATIONS) -> list[float]:
    """Return the milliseconds that the latest calls of a tool took that ended well, the shortest first."""
    select = """
        SELECT latency FROM events INDEXED BY events_tool WHERE tool = ? AND outcome = 'ok' ORDER BY seq DESC LIMIT ?"""
    with index.read() as connection:
        rows = connection.execute(select, (tool, limit)).fetchall()
    return sorted(float(latency) for (latency,) in rows if latency is not None)


def find_quantile(durations: Sequence[float], share: float) -> float | None:
    """Return the duration below which the given share of sorted *durations* is; None: there are none."""
    return durations[min(int(share * len(durations)), len(durations) - 1)] if durations else None
