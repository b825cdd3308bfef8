"""Writes events as lines: JSON, and CSV that no spreadsheet runs as formulas."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from praval_tools.errors import EventFormatError
from praval_tools.journal.codec import from_json
from praval_tools.journal.storage.protocol import Record
from praval_tools.report.event_text import EventText, describe_event
from praval_tools.report.text import sanitize_text

CSV_COLUMNS: Final = (
    "seq", "time", "type", "agent", "tool", "run", "call", "who", "what", "why", "arguments", "process",
)  # fmt: skip

NOT_JSON: Final = (msgspec.DecodeError, UnicodeError, RecursionError)
"""What msgspec raises for a body that it cannot decode."""
_FORMULA_STARTS: Final = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
_FORMULA_AFTER_SEMICOLON: Final = re.compile(r"(;[\s'\"]*)(?=[=+\-@＝＋－＠])")
_LINES_PER_CHUNK: Final = 200
_MAX_CELL: Final = 32_000  # a spreadsheet's cell holds little more


def find_json_object(body: bytes) -> str | None:
    """Return an event's JSON in ASCII; None where it is not a JSON object."""
    try:
        if type(msgspec.json.decode(body)) is dict and body.isascii() and b"\x7f" not in body and len(body) > 2:
            return body.decode("ascii")
    except NOT_JSON:
        pass  # Python's slower parser also takes very long numbers and halves of surrogate pairs
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return json.dumps(value) if isinstance(value, dict) and value else None


def write_json_line(record: Record) -> tuple[str, bool]:
    """Return an event as a line of JSON, a damaged one as text; and whether it could be read."""
    text = find_json_object(record.body.strip())
    is_readable = text is not None
    if text is None:
        text = json.dumps({"id": record.id, "damaged": record.body.decode("utf-8", "backslashreplace")})
    return f'{{"seq": {record.seq}, "run_seq": {json.dumps(record.run_seq)}, {text[1:]}\n', is_readable


def describe_record(record: Record) -> EventText:
    """Return what a person reads of a record; of a damaged one, what is wrong with it."""
    try:
        return describe_event(from_json(record.body, event_id=record.id))
    except EventFormatError as error:
        return EventText(record.agent or "", record.tool or "", "unreadable", "; ".join(error.problems), False)


def protect_cell(value: object) -> str:
    """Return a cell of a CSV file: a spreadsheet shows it, and runs nothing, whatever it begins with."""
    text = sanitize_text("" if value is None else value, max_length=_MAX_CELL)
    text = _FORMULA_AFTER_SEMICOLON.sub(r"\1'", text)  # where the language has decimal commas, cells end there
    return f"'{text}" if text.lstrip("'\" ").startswith(_FORMULA_STARTS) else text


def iter_csv(records: Iterable[Record]) -> Iterator[str]:
    """Yield records as CSV, some lines at a time, the names of the columns first."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    writer.writerow(CSV_COLUMNS)
    for number, record in enumerate(records, 1):
        text = describe_record(record)
        cells = (
            record.time.isoformat(), record.type, record.agent, record.tool, record.run_id, record.call_id, text.actor,
            text.action, text.reason, text.arguments, record.process,
        )  # fmt: skip
        writer.writerow((record.seq, *map(protect_cell, cells)))
        if number % _LINES_PER_CHUNK == 0:
            yield buffer.getvalue()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue()
