"""
A group of plain records as the rows of one statement: see `sqlite.build_group_insert`.

The rows have the columns of the events. Rows without a body set counters: the first one the store's (`seq` and
`run_seq` are the last record and the revision that it must be at, `time` is the last record afterwards), the last ones
those of the runs (`run_seq` is the length, `time` that of the latest record).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from praval_tools.journal.storage.protocol import Answer, Item, Status
from praval_tools.journal.storage.rows import TIME_COLUMN, record_to_row

MAX_GROUP_ROWS: Final = 80
"""A statement is cached for each number of rows, 60 KB on average; a larger group is written in several statements."""


class RunCounters(msgspec.Struct):
    """What is known of a run: its number, how many records it has, and the time of the latest one of a group."""

    number: int
    length: int
    last_time: int = 0


class WriteGroup(msgspec.Struct):
    """
    Records that the database writes at once, if the store has the counters for which the group was built.

    Args:
        row_count: How many rows there are.
        values: Those of all rows, one after the other.
        answers: To each item, once it is written.
        seq: The store's last record afterwards.
        runs: The counters of the runs afterwards, by their ids.
    """

    row_count: int
    values: tuple[Any, ...]
    answers: list[Answer]
    seq: int
    runs: dict[str, RunCounters]


def build_group(
    items: Sequence[Item], seq: int, revision: int, known_runs: Mapping[str, RunCounters]
) -> WriteGroup | None:
    """
    Return *items* as a group for a store at *seq* and *revision*.

    Returns:
        The group; None: it is too large, or some item needs more than an insert.
    """
    first_seq, event_values, answers = seq, list[Any](), list[Answer]()
    runs: dict[str, RunCounters] = {}
    for item in items:
        is_stale = item.revision is not None and item.revision != revision
        if is_stale or item.spend or item.rows or item.uses or not item.records:
            return None
        item_seq, item_run_seq = seq + 1, None
        for record in item.records:
            seq += 1
            if type(record.body) is not bytes:
                return None
            if record.run_id is None:
                event_values += record_to_row(record, seq, None, None)
                continue
            run = runs.get(record.run_id)
            if run is None:
                known_run = known_runs.get(record.run_id)
                if known_run is None:
                    return None
                run = runs[record.run_id] = RunCounters(known_run.number, known_run.length)
            run.length += 1
            row = record_to_row(record, seq, run.number, run.length)
            event_values += row
            run.last_time = max(run.last_time, row[TIME_COLUMN])
            if seq == item_seq:
                item_run_seq = run.length
        answers.append(Answer(Status.DONE, item_seq, item_run_seq, revision))
    row_count = 1 + seq - first_seq + len(runs)
    if row_count > MAX_GROUP_ROWS:
        return None
    values = [first_seq, None, revision, *[None] * 5, seq, None, None, None, *event_values]
    for run in runs.values():
        values += (None, run.number, run.length, *[None] * 5, run.last_time, None, None, None)
    return WriteGroup(row_count, tuple(values), answers, seq, runs)
