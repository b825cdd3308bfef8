"""
Numbers records as rows of the database, and groups those of several appends, which the database writes at once.

A group is numbered by what this process knows of the store; `Database.insert_group` tells how far that is off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from praval_tools.journal.storage.protocol import Answer, Item, Record, Status
from praval_tools.journal.storage.rows import RUN_COLUMN, RUN_SEQ_COLUMN, TIME_COLUMN, EventRow, record_to_row

_DONE: Final = Status.DONE  # looking up a member of an enumeration is slow


class RunCounters(msgspec.Struct):
    """What is known of a run: its number, and how many records it has."""

    number: int
    length: int


def number_records(
    records: Sequence[Record],
    seq: int,
    revision: int,
    get_run: Callable[[Record, int], RunCounters],
    rows: list[EventRow],
) -> Answer:
    """
    Add the rows of one item's *records* to *rows*, and return the answer to it.

    Args:
        records: What is appended.
        seq: The last number in the store before them.
        revision: The state's revision.
        get_run: Returns the counters of the run of a record that gets this number in the store.
        rows: The rows of the items before.
    """
    if not records:
        raise ValueError("an item needs at least one record")
    first, run_seq = seq + 1, None
    for number, record in enumerate(records, first):
        if record.run_id is None:
            rows.append(record_to_row(record, number, None, None))
            continue
        run = get_run(record, number)
        run.length += 1
        rows.append(record_to_row(record, number, run.number, run.length))
        if number == first:
            run_seq = run.length
    return Answer(_DONE, first, run_seq, revision)


def find_run_ends(rows: Iterable[EventRow]) -> dict[int, tuple[int, int]]:
    """Return the length and the latest time of the runs in *rows*, by their numbers."""
    ends: dict[int, tuple[int, int]] = {}
    for row in rows:
        run, time = row[RUN_COLUMN], row[TIME_COLUMN]
        if run is not None:
            if run in ends and ends[run][1] > time:
                time = ends[run][1]
            ends[run] = row[RUN_SEQ_COLUMN], time
    return ends


class WriteGroup(msgspec.Struct):
    """
    Records that the database writes at once, in one statement.

    Args:
        first_seq: The number of the first event.
        rows: Those of the events.
        run_ends: The length and the latest time of the runs afterwards, by their numbers.
        answers: To each item, once it is written.
        revision: The state's revision, on which the items depend.
        seq: The store's last record afterwards.
        runs: The counters of the runs afterwards, by their ids.
    """

    first_seq: int
    rows: list[EventRow]
    run_ends: dict[int, tuple[int, int]]
    answers: list[Answer]
    revision: int
    seq: int
    runs: dict[str, RunCounters]


def build_group(
    items: Sequence[Item], seq: int, revision: int, known_runs: Mapping[str, RunCounters], max_rows: int
) -> WriteGroup | None:
    """
    Return *items* as a group for a store at *seq* and *revision*.

    Returns:
        The group; None: it is too large, or some item needs more than an insert.
    """
    runs: dict[str, RunCounters] = {}

    def get_run(record: Record, _: int) -> RunCounters:
        run_id = record.run_id or ""
        if run_id not in runs:
            runs[run_id] = replace(known_runs[run_id])
        return runs[run_id]

    last_seq, rows, answers = seq, list[EventRow](), list[Answer]()
    for item in items:
        is_stale = item.revision is not None and item.revision != revision
        if is_stale or item.spend or item.rows or item.uses or not item.records:
            return None
        try:
            answers.append(number_records(item.records, last_seq, revision, get_run, rows))
        except KeyError:  # an unknown run
            return None
        last_seq += len(item.records)
    run_ends = find_run_ends(rows)
    if 1 + len(rows) + len(run_ends) > max_rows or any(type(row[-1]) is not bytes for row in rows):
        return None
    return WriteGroup(seq + 1, rows, run_ends, answers, revision, last_seq, runs)
