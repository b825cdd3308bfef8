"""Reads pages of runs, of the calls of one run, and of calls that have no result."""

from __future__ import annotations

import os
import socket
from datetime import datetime
from typing import Final

from attrs import evolve, frozen

from praval_tools.journal.history import History, build_history
from praval_tools.journal.index.index import JournalIndex
from praval_tools.journal.journal import Journal
from praval_tools.journal.storage.protocol import Record
from praval_tools.journal.storage.rows import from_microseconds

_MAX_WHOLE_RUN: Final = 1_000
"""How many events of a run are read at once; of longer runs the events of the calls of a page are."""


@frozen(kw_only=True)
class RunSummary:
    """
    One run, in numbers.

    Args:
        run_id: Its id.
        first: When its first event happened.
        last: When its latest one did.
        latest_seq: The number of its latest event in the store.
        events: How many events it has.
        calls: How many calls began.
        failed: How many calls failed.
        refused: How many calls were refused.
        open_calls: How many calls have no result: they run, or are in doubt.
    """

    run_id: str
    first: datetime
    last: datetime
    latest_seq: int
    events: int
    calls: int
    failed: int
    refused: int
    open_calls: int


@frozen(kw_only=True)
class OpenCall:
    """
    A call of a run that started and has no result that counts: it runs, or is in doubt.

    Args:
        run_id: The run.
        call_id: The call.
        agent: Who called; None for the operator.
        tool: The tool.
        started: When it started the last time.
        process: Which process started it.
        seq: The number of the event of that start.
        may_rerun: Somebody resolved that it may run again.
        has_ended: It ended in doubt: cancelled, its worker lost, or its tool said so.
    """

    run_id: str
    call_id: str
    agent: str | None
    tool: str
    started: datetime
    process: str
    seq: int
    may_rerun: bool
    has_ended: bool = False

    @property
    def is_running(self) -> bool:
        """Whether it may run still: its process runs on this machine; of other machines nothing is known."""
        return not self.has_ended and is_process_alive(self.process)


def is_process_alive(process: str) -> bool:
    """Tell whether a process, as events name it, runs on this machine; of other machines nothing is known."""
    host, _, number = process.rpartition(":")
    if host != socket.gethostname() or not number.isdigit():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        return True
    return True


_SELECT_RUNS: Final = """
    SELECT run_id, first, last, latest, events, calls, failed, refused,
    (SELECT count(*) FROM open_calls WHERE open_calls.run_id = runs.run_id AND NOT may_rerun) FROM runs"""


def _to_summary(row: tuple[str, int, int, int, int, int, int, int, int]) -> RunSummary:
    run_id, first, last, latest, events, calls, failed, refused, open_calls = row
    return RunSummary(
        run_id=run_id, first=from_microseconds(first), last=from_microseconds(last), latest_seq=latest,
        events=events, calls=calls, failed=failed, refused=refused, open_calls=open_calls,
    )  # fmt: skip


def list_runs(index: JournalIndex, *, before: int | None = None, words: str = "", limit: int = 50) -> list[RunSummary]:
    """
    Return runs, those in which something happened last first.

    Args:
        index: The index of the journal.
        before: Only runs whose latest event has a lower number; to go on, that of the last one that was returned.
        words: Only runs whose id begins with this.
        limit: How many at most.
    """
    select = f"{_SELECT_RUNS} WHERE latest < ? AND substr(run_id, 1, ?) = ? ORDER BY latest DESC LIMIT ?"
    with index.read() as connection:
        rows = connection.execute(select, (before or 1 << 62, len(words), words, limit)).fetchall()
    return [_to_summary(row) for row in rows]


def find_run(index: JournalIndex, run_id: str) -> RunSummary | None:
    """Return a run; None where nothing of it is indexed."""
    with index.read() as connection:
        row = connection.execute(f"{_SELECT_RUNS} WHERE run_id = ?", (run_id,)).fetchone()
    return None if row is None else _to_summary(row)


@frozen(kw_only=True)
class CallPage:
    """
    Some calls of a run, in order.

    Args:
        history: The calls.
        start: How many calls of the run are before them.
        next_start: Where the next page begins; None: it is the last one.
    """

    history: History
    start: int
    next_start: int | None


def read_call_page(
    index: JournalIndex, journal: Journal, run: RunSummary, *, start: int = 0, limit: int = 50
) -> CallPage:
    """Return calls of a run, from the one before which there are *start*."""
    with index.read() as connection:
        select = (
            "SELECT seq FROM starts WHERE run = (SELECT number FROM runs WHERE run_id = ?) "
            "ORDER BY seq LIMIT ? OFFSET ?"
        )
        numbers = [int(seq) for (seq,) in connection.execute(select, (run.run_id, limit + 1, start))]
    store, records = journal.store, list[Record]()
    if run.events <= _MAX_WHOLE_RUN:
        records = list(store.read(run_id=run.run_id))
    starts = store.read(numbers=numbers[:limit])
    call_ids = list(dict.fromkeys(record.call_id for record in starts if record.call_id is not None))
    if run.events > _MAX_WHOLE_RUN:
        found = (record for name in call_ids for record in store.read(run_id=run.run_id, call_id=name))
        records = sorted(found, key=lambda record: record.seq or 0)
    history, wanted = build_history(journal, records=records), set(call_ids)
    calls = [call for call in history.calls if call.record.tool_call_id in wanted]
    numbered = tuple(evolve(call, number=start + place) for place, call in enumerate(calls, 1))
    next_start = start + limit if len(numbers) > limit else None
    return CallPage(history=evolve(history, calls=numbered), start=start, next_start=next_start)


def read_latest_calls(journal: Journal, *, after_seq: int | None = None, limit: int = 300) -> tuple[History, int]:
    """
    Return the calls of the latest events.

    Args:
        journal: The journal.
        after_seq: Only events after this number; None: the latest *limit*.
        limit: How many events at most, the latest of them.

    Returns:
        The calls, and the number of the latest event.
    """
    last_seq = journal.store.last_seq()
    records = list(journal.store.read(after_seq=max(after_seq or 0, last_seq - limit)))
    return build_history(journal, records=records), max(last_seq, records[-1].seq or 0 if records else 0)


def list_open_calls(index: JournalIndex, *, before: int | None = None, limit: int = 50) -> list[OpenCall]:
    """
    Return calls of runs that started and have no result, the latest first.

    Args:
        index: The index of the journal.
        before: Only calls whose start has a lower number.
        limit: How many at most.
    """
    columns = "run_id, call_id, agent, tool, time, process, seq, may_rerun, has_ended"
    select = f"SELECT {columns} FROM open_calls WHERE seq < ? AND NOT may_rerun ORDER BY seq DESC LIMIT ?"  # noqa: S608
    with index.read() as connection:
        rows = connection.execute(select, (before or 1 << 62, limit)).fetchall()
    return [
        OpenCall(
            run_id=run_id, call_id=call_id, agent=agent, tool=tool, started=from_microseconds(time), process=process,
            seq=seq, may_rerun=bool(may_rerun), has_ended=bool(has_ended),
        )
        for run_id, call_id, agent, tool, time, process, seq, may_rerun, has_ended in rows
    ]  # fmt: skip


def count_open_calls(index: JournalIndex) -> int:
    """Return how many calls of runs started and have no result."""
    with index.read() as connection:
        return int(connection.execute("SELECT count(*) FROM open_calls WHERE NOT may_rerun").fetchone()[0])
