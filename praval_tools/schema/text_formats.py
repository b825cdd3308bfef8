"""
Rows of the table for values that JSON carries as text: times, identifiers, decimals, bytes, paths.

Each has one pattern that says exactly what is structured.
It stands in the schema, too, because what validators make of `format` differs:
jsonschema-rs takes the dates 0000-01-01 and 2-00-01-01, a second 60 and the duration P1Y, and refuses PT1.5S.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import msgspec

from praval_tools.lazy_regex import Pattern
from praval_tools.schema.json_values import INT_LIMIT
from praval_tools.schema.scalars import refuse
from praval_tools.schema.type_handler import (
    Encode,
    Encodes,
    Form,
    Hook,
    JsonSchema,
    Mismatch,
    Schemas,
    Structures,
    Unencodable,
    encodable,
)
from praval_tools.schema.type_hints import is_path

_YEAR: Final = "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
_DATE: Final = _YEAR + "-[0-9]{2}-[0-9]{2}"
_CLOCK: Final = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
_OFFSET: Final = "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
_SECONDS: Final = r"[0-9]{1,12}(?:\.[0-9]{1,6})?S"
_PARTS: Final = f"(?:[0-9]{{1,8}}H(?:[0-9]{{1,8}}M)?(?:{_SECONDS})?|[0-9]{{1,8}}M(?:{_SECONDS})?|{_SECONDS})"

DATE: Final = f"^{_DATE}$"
DATETIME: Final = f"^{_DATE}T{_CLOCK}{_OFFSET}$"
TIME: Final = f"^{_CLOCK}{_OFFSET}?$"
DURATION: Final = f"^-?P(?:[0-9]{{1,7}}W|[0-9]{{1,8}}D(?:T{_PARTS})?|T{_PARTS})$"
BASE64: Final = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
DECIMAL: Final = r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,4})?$"
UUID_TEXT: Final = "^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"

_DURATION_PART: Final = Pattern(r"([0-9.]+)([WDHMS])")
_UNITS: Final = {"W": "weeks", "D": "days", "H": "hours", "M": "minutes"}


def text_structure(pattern: str, parse: Callable[[str], Any], reason: str) -> Hook:
    """Return the hook that takes text which matches *pattern* whole and which *parse* can read."""
    whole = Pattern(pattern[1:-1])

    def structure(value: Any, _: Any) -> Any:
        if type(value) is not str or whole.fullmatch(value) is None:
            raise Mismatch(reason)
        try:
            return parse(value)
        except (ValueError, OverflowError, ArithmeticError):
            raise Mismatch(reason) from None

    return structure


class _Text(msgspec.Struct, frozen=True):
    """A type that JSON carries as text: what the text looks like, how it is read, and how it is written."""

    kind: type
    name: str
    pattern: str
    read: Callable[[str], Any]
    write: Callable[[Any], str]
    schema: JsonSchema

    def row(self) -> Form:
        hook = text_structure(self.pattern, self.read, f"is not {self.name}")
        return Form(
            name=self.name,
            types=(self.kind,),
            schema=lambda hint, schemas: {"type": "string", **self.schema},
            structure=lambda hint, structures: hook,
            encode=lambda hint, encodes: self._encode,
        )

    def _encode(self, value: Any) -> str:
        if not isinstance(value, self.kind) or (self.kind is date and isinstance(value, datetime)):
            raise refuse(self.kind.__name__, value)
        return self.write(value)


# ── times ────────────────────────────────────────────────────────────────────────────────────────


def _write_datetime(value: datetime) -> str:
    offset = value.utcoffset()
    if offset is None:
        raise Unencodable(f"datetime {value.isoformat()} has no time zone; give it one: datetime.now(UTC)")
    if offset % timedelta(minutes=1):
        value = value.astimezone(UTC)
    return _ended(value.isoformat())


def _write_time(value: time) -> str:
    offset = value.utcoffset()
    if value.tzinfo is not None and (offset is None or offset % timedelta(minutes=1)):
        raise Unencodable(f"time {value!r} has no fixed offset in whole minutes")
    return _ended(value.isoformat())


def _ended(text: str) -> str:
    return f"{text[:-6]}Z" if text.endswith("+00:00") else text


def _read_duration(text: str) -> timedelta:
    total = timedelta()
    for amount, unit in _DURATION_PART.findall(text):
        if unit == "S":
            whole, _, fraction = amount.partition(".")
            total += timedelta(seconds=int(whole), microseconds=int(fraction.ljust(6, "0")[:6] or 0))
        else:
            total += timedelta(**{_UNITS[unit]: int(amount)})
    return -total if text.startswith("-") else total


_MOST: Final = 99_999_999
_MOST_SECONDS: Final = 999_999_999_999


def _write_duration(value: timedelta) -> str:
    """Write days first and what is left in smaller units; each unit holds no more than can be read back."""
    sign, rest = ("-", -value) if value < timedelta() else ("", value)
    text = ""
    for unit, mark in ((timedelta(days=1), "D"), (timedelta(hours=1), "H"), (timedelta(minutes=1), "M")):
        count = min(rest // unit, _MOST)
        rest -= count * unit
        text += f"{count}{mark}" if count else ""
        text += "T" if mark == "D" else ""
    seconds, fraction = divmod(rest, timedelta(seconds=1))
    if seconds > _MOST_SECONDS:
        raise Unencodable(f"timedelta of {value.days} days is too long")
    if rest:
        text += f"{seconds}" + (f".{fraction.microseconds:06d}".rstrip("0") if fraction else "") + "S"
    return f"{sign}P{text.removesuffix('T')}" if value else "PT0S"


# ── Decimal: text or number ──────────────────────────────────────────────────────────────────────


def _decimal_schema(hint: Any, _: Schemas) -> JsonSchema:
    return {"anyOf": [{"type": "string", "pattern": DECIMAL}, {"type": "number"}]}


_decimal_text = text_structure(DECIMAL, Decimal, "is not a decimal number")


def _decimal_structure(hint: Any, structures: Structures) -> Hook:
    return _decimal_text if structures.exact else _decimal


def _decimal(value: Any, _: Any) -> Decimal:
    if type(value) is str:
        return Decimal(_decimal_text(value, None))
    if type(value) is int and -INT_LIMIT < value < INT_LIMIT:
        return Decimal(value)
    if type(value) is float and value - value == 0:
        return Decimal(repr(value))  # what the text said, not the binary fraction next to it
    raise Mismatch("is not a finite decimal number")


def _decimal_encode(hint: Any, encodes: Encodes) -> Encode:
    return _checked_decimal if encodes.keep_decimal else lambda value: str(_checked_decimal(value))


def _checked_decimal(value: Any) -> Decimal:
    if not isinstance(value, Decimal):
        raise refuse("Decimal", value)
    if not value.is_finite():
        raise Unencodable(f"Decimal {value} has no JSON form")
    if abs(value.adjusted()) > 9_990:
        raise Unencodable("the Decimal's exponent has more than four digits")
    return value


# ── paths ────────────────────────────────────────────────────────────────────────────────────────


def _path_structure(hint: Any, _: Structures) -> Hook:
    def structure(value: Any, _: Any) -> Any:
        if type(value) is not str or not (value.isascii() or encodable(value)):
            raise Mismatch("is not a path as text")
        return hint(value)

    return structure


def _path_problem(hint: type) -> str | None:
    try:
        hint("")
    except NotImplementedError:
        return "this system has no such paths; take PurePath"
    return None


def _path_encode(hint: type, _: Encodes) -> Encode:
    def encode(value: Any) -> str:
        if not isinstance(value, hint):
            raise refuse(hint.__name__, value)
        if not encodable(text := str(value)):
            raise Unencodable("the path holds bytes that are no UTF-8 text")
        return text

    return encode


def _base64(value: bytes) -> str:
    return b2a_base64(value, newline=False).decode()


TEXTS: Final = (
    _Text(
        bytes,
        "bytes in base64",
        BASE64,
        a2b_base64,
        _base64,
        {"contentEncoding": "base64", "pattern": BASE64},
    ).row(),
    _Text(
        datetime,
        "a date-time with offset (RFC 3339)",
        DATETIME,
        datetime.fromisoformat,
        _write_datetime,
        {"format": "date-time", "pattern": DATETIME},
    ).row(),
    _Text(
        date,
        "a date (RFC 3339)",
        DATE,
        date.fromisoformat,
        date.isoformat,
        {"format": "date", "pattern": DATE},
    ).row(),
    _Text(time, "a time (RFC 3339)", TIME, time.fromisoformat, _write_time, {"pattern": TIME}).row(),
    _Text(
        timedelta,
        "a duration (ISO 8601, weeks to seconds)",
        DURATION,
        _read_duration,
        _write_duration,
        {"pattern": DURATION},
    ).row(),
    _Text(UUID, "a UUID", UUID_TEXT, UUID, str, {"format": "uuid"}).row(),
    Form(
        name="a decimal number",
        types=(Decimal,),
        takes=frozenset({"number"}),
        schema=_decimal_schema,
        structure=_decimal_structure,
        encode=_decimal_encode,
    ),
    Form(
        name="a path",
        fits=is_path,
        problem=_path_problem,
        schema=lambda hint, schemas: {"type": "string"},
        structure=_path_structure,
        encode=_path_encode,
    ),
)
