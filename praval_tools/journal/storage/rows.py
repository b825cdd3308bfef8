"""Converts records to rows of the table of events, and back; times are whole microseconds since 1970, UTC."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from praval_tools.journal.storage.protocol import Record

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
RUN_COLUMN, RUN_SEQ_COLUMN, TIME_COLUMN = 1, 2, 8  # positions in a row

EventRow = tuple[Any, ...]
"""The columns of an event, in the order of the table."""


def to_microseconds(time: datetime) -> int:
    """
    Return *time* as a number.

    Raises:
        TypeError: The time has no time zone.
    """
    return (time - _EPOCH) // _MICROSECOND


def from_microseconds(number: int) -> datetime:
    """Return the time of which `to_microseconds` made *number*."""
    return _EPOCH + timedelta(microseconds=number)


def record_to_row(record: Record, seq: int, run: int | None, run_seq: int | None) -> EventRow:
    """Return *record* in the order of the columns of the events."""
    return (
        seq, run, run_seq, record.type, record.call_id, record.attempt, record.agent, record.tool,
        to_microseconds(record.time), record.id, record.process, record.body,
    )  # fmt: skip


def row_to_record(row: Sequence[Any]) -> Record:
    """Return the record of a row of the events, followed by the id of its run."""
    seq, _, run_seq, type, call_id, attempt, agent, tool, time, id, process, body, run_id = row
    return Record(
        type=type, body=body, id=id, time=from_microseconds(time), process=process, run_id=run_id,
        call_id=call_id, agent=agent, tool=tool, attempt=attempt, seq=seq, run_seq=run_seq,
    )  # fmt: skip
