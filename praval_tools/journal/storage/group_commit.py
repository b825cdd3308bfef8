"""
A group of plain records as the rows of one statement: see `Database.at_once`.

The rows have the columns of the events. One without a body says how far something is then: the first one the store
(`seq` and `run_seq` are the last record and the revision that it must be at, `time` is the last record then),
the last ones the runs (`run_seq` is the length, `time` that of the latest record).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from praval_tools.journal.storage.protocol import Answer, Item, Status
from praval_tools.journal.storage.rows import TIME_COLUMN, record_to_row

MAX_GROUP_ROWS: Final = 80
"""A statement is kept for each number of rows, 60 KB on average; a larger group goes another way."""


class RunCounters(msgspec.Struct):
    """What is known of a run: its number, how many records it has, and the time of the latest one of a group."""

    number: int
    length: int
    last_time: int = 0


class WriteGroup(msgspec.Struct):
    """
    Records that the database takes in at once, if it stands where they were made for.

    Args:
        rows: How many there are.
        values: Those of all rows, one after the other.
        answers: To each item, once it is written.
        seq: The store's last record then.
        runs: How far the runs are then, by their ids.
    """

    row_count: int
    values: tuple[Any, ...]
    answers: list[Answer]
    seq: int
    runs: dict[str, RunCounters]


def build_group(items: Sequence[Item], seq: int, revision: int, known: Mapping[str, RunCounters]) -> WriteGroup | None:
    """Return *items* as a group for a store at *seq* and *revision*; None: some item needs more, or a look first."""
    first, events, answers = seq, list[Any](), list[Answer]()
    runs: dict[str, RunCounters] = {}
    for item in items:
        stale = item.revision is not None and item.revision != revision
        if stale or item.spend or item.rows or item.uses or not item.records:
            return None
        begin, of_run = seq + 1, None
        for one in item.records:
            seq += 1
            run = _count_record(one.run_id, runs, known)
            if (run is None and one.run_id is not None) or type(one.body) is not bytes:
                return None
            if run is None:
                events += record_to_row(one, seq, None, None)
                continue
            made = record_to_row(one, seq, run.number, run.length)
            events += made
            run.last_time = max(run.last_time, made[TIME_COLUMN])
            if seq == begin:
                of_run = run.length
        answers.append(Answer(Status.DONE, begin, of_run, revision))
    rows = 1 + seq - first + len(runs)
    if rows > MAX_GROUP_ROWS:
        return None
    values = [first, None, revision, *[None] * 5, seq, None, None, None, *events]
    for run in runs.values():
        values += (None, run.number, run.length, *[None] * 5, run.last_time, None, None, None)
    return WriteGroup(rows, tuple(values), answers, seq, runs)


def _count_record(
    name: str | None, runs: dict[str, RunCounters], known: Mapping[str, RunCounters]
) -> RunCounters | None:
    """Return the run with one more record; None: nothing is known of it."""
    if name is None:
        return None
    run = runs.get(name)
    if run is None:
        there = known.get(name)
        if there is None:
            return None
        run = runs[name] = RunCounters(there.number, there.length)
    run.length += 1
    return run
