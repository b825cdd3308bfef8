"""
Type handlers (schema, decoding, encoding) for values written as text: times, UUIDs, decimals, bytes, paths.

Each has one pattern that says exactly which texts are decoded.
The pattern is in the schema, too, because validators differ on `format`:
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

from praval_tools.lazy_regex import LazyRegex
from praval_tools.names import get_class_name
from praval_tools.schema.json_values import INT_LIMIT, LOWER_INT_LIMIT, is_utf8_encodable
from praval_tools.schema.scalars import make_unencodable_error
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.schema.type_handler import (
    DecodeHook,
    DecodeHookFactory,
    EncodeHook,
    EncodeHookFactory,
    Mismatch,
    SchemaBuilder,
    TypeHandler,
    Unencodable,
)
from praval_tools.schema.type_hints import Hint, is_path_type

_YEAR: Final = "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
_DATE: Final = _YEAR + "-[0-9]{2}-[0-9]{2}"
_CLOCK: Final = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
_OFFSET: Final = "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
_SECONDS: Final = r"[0-9]{1,12}(?:\.[0-9]{1,6})?S"
_TIME_PARTS: Final = f"(?:[0-9]{{1,8}}H(?:[0-9]{{1,8}}M)?(?:{_SECONDS})?|[0-9]{{1,8}}M(?:{_SECONDS})?|{_SECONDS})"

DATE_PATTERN: Final = f"^{_DATE}$"
DATETIME_PATTERN: Final = f"^{_DATE}T{_CLOCK}{_OFFSET}$"
TIME_PATTERN: Final = f"^{_CLOCK}{_OFFSET}?$"
DURATION_PATTERN: Final = f"^-?P(?:[0-9]{{1,7}}W|[0-9]{{1,8}}D(?:T{_TIME_PARTS})?|T{_TIME_PARTS})$"
BASE64_PATTERN: Final = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
DECIMAL_PATTERN: Final = r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,4})?$"
UUID_PATTERN: Final = "^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"

_DURATION_PART: Final = LazyRegex(r"([0-9.]+)([WDHMS])")
_UNITS: Final = {"W": "weeks", "D": "days", "H": "hours", "M": "minutes"}


def make_text_decode_hook(pattern: str, parse: Callable[[str], Any], reason: str) -> DecodeHook:
    """Return the hook that takes text which matches *pattern* whole and which *parse* can read."""
    whole = LazyRegex(pattern[1:-1])

    def decode(value: object, _: object) -> Any:
        if type(value) is not str or whole.fullmatch(value) is None:
            raise Mismatch(reason)
        try:
            return parse(value)
        except (ValueError, OverflowError, ArithmeticError):
            raise Mismatch(reason) from None

    return decode


class _TextFormat(msgspec.Struct, frozen=True):
    """A type that JSON carries as text: what the text looks like, how it is read, and how it is written."""

    kind: type
    name: str
    pattern: str
    read: Callable[[str], Any]
    write: Callable[[Any], str]
    schema: JsonSchema

    def to_handler(self) -> TypeHandler:
        hook = make_text_decode_hook(self.pattern, self.read, f"is not {self.name}")
        return TypeHandler(
            name=self.name,
            types=(self.kind,),
            build_schema=lambda hint, builder: {"type": "string", **self.schema},
            make_decode_hook=lambda hint, decoders: hook,
            make_encode_hook=lambda hint, encoders: self._encode,
        )

    def _encode(self, value: object) -> str:
        if not isinstance(value, self.kind) or (self.kind is date and isinstance(value, datetime)):
            raise make_unencodable_error(get_class_name(self.kind), value)
        return self.write(value)


# ── times ────────────────────────────────────────────────────────────────────────────────────────


def _write_datetime(value: datetime) -> str:
    offset = datetime.utcoffset(value)
    if offset is None:
        raise Unencodable("the datetime has no time zone; give it one: datetime.now(UTC)")
    if offset % timedelta(minutes=1):
        value = datetime.astimezone(value, UTC)
    return _abbreviate_utc(datetime.isoformat(value))


def _write_time(value: time) -> str:
    offset, text = time.utcoffset(value), time.isoformat(value)
    if value.tzinfo is not None and (offset is None or offset % timedelta(minutes=1)):
        raise Unencodable("the time has no fixed offset in whole minutes")
    return _abbreviate_utc(text)


def _abbreviate_utc(text: str) -> str:
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


_MAX_UNIT_COUNT: Final = 99_999_999
_MAX_SECONDS: Final = 999_999_999_999


def _write_duration(value: timedelta) -> str:
    """Write days first and what is left in smaller units; each unit holds no more than can be read back."""
    value = timedelta.__add__(value, timedelta())  # a subclass may calculate in its own way
    sign, rest = ("-", -value) if value < timedelta() else ("", value)
    text = ""
    for unit, mark in ((timedelta(days=1), "D"), (timedelta(hours=1), "H"), (timedelta(minutes=1), "M")):
        count = min(rest // unit, _MAX_UNIT_COUNT)
        rest -= count * unit
        text += f"{count}{mark}" if count else ""
        text += "T" if mark == "D" else ""
    seconds, fraction = divmod(rest, timedelta(seconds=1))
    if seconds > _MAX_SECONDS:
        raise Unencodable("the timedelta is too long")
    if rest:
        text += f"{seconds}" + (f".{fraction.microseconds:06d}".rstrip("0") if fraction else "") + "S"
    return f"{sign}P{text.removesuffix('T')}" if value else "PT0S"


# ── Decimal: text or number ──────────────────────────────────────────────────────────────────────


DECIMAL_TEXT_SCHEMA: Final[JsonSchema] = {"type": "string", "pattern": DECIMAL_PATTERN}


def _build_decimal_schema(hint: Hint, _: SchemaBuilder) -> JsonSchema:
    return {"anyOf": [dict(DECIMAL_TEXT_SCHEMA), {"type": "number"}]}


_decode_decimal_text = make_text_decode_hook(DECIMAL_PATTERN, Decimal, "is not a decimal number")


def _make_decimal_decode_hook(hint: Hint, decoders: DecodeHookFactory) -> DecodeHook:
    return _decode_decimal_text if decoders.exact else _decode_decimal


def _decode_decimal(value: object, _: object) -> Decimal:
    if type(value) is str:
        return Decimal(_decode_decimal_text(value, None))
    if type(value) is int and LOWER_INT_LIMIT < value < INT_LIMIT:
        return Decimal(value)
    if type(value) is float and value - value == 0:
        return Decimal(repr(value))  # what the text said, not the binary fraction next to it
    raise Mismatch("is not a finite decimal number")


def _make_decimal_encode_hook(hint: Hint, _: EncodeHookFactory) -> EncodeHook:
    return lambda value: str(_check_decimal(value))


def _check_decimal(value: object) -> Decimal:
    if not isinstance(value, Decimal):
        raise make_unencodable_error("Decimal", value)
    number = Decimal(value)
    if not number.is_finite():
        raise Unencodable(f"Decimal {number} has no JSON form")
    if abs(number.adjusted()) > 9_990:
        raise Unencodable("the Decimal's exponent has more than four digits")
    return number


# ── paths ────────────────────────────────────────────────────────────────────────────────────────


def _make_path_decode_hook(hint: Hint, _: DecodeHookFactory) -> DecodeHook:
    def decode(value: object, _: object) -> Any:
        if type(value) is not str or not is_utf8_encodable(value):
            raise Mismatch("is not a path as text")
        return hint(value)

    return decode


def _find_path_problem(hint: type) -> str | None:
    try:
        hint("")
    except NotImplementedError:
        return "this system has no such paths; take PurePath"
    return None


def _make_path_encode_hook(hint: type, _: EncodeHookFactory) -> EncodeHook:
    def encode(value: object) -> str:
        if not isinstance(value, hint):
            raise make_unencodable_error(get_class_name(hint), value)
        if not is_utf8_encodable(text := str(value)):
            raise Unencodable("the path holds bytes that are not UTF-8 text")
        return text

    return encode


def _write_base64(value: bytes) -> str:
    return b2a_base64(bytes.__getitem__(value, slice(None)), newline=False).decode()


_TEXT_FORMATS: Final = (
    _TextFormat(bytes, "bytes in base64", BASE64_PATTERN, a2b_base64, _write_base64,
                {"contentEncoding": "base64", "pattern": BASE64_PATTERN}),
    _TextFormat(datetime, "a date-time with offset (RFC 3339)", DATETIME_PATTERN, datetime.fromisoformat,
                _write_datetime, {"format": "date-time", "pattern": DATETIME_PATTERN}),
    _TextFormat(date, "a date (RFC 3339)", DATE_PATTERN, date.fromisoformat, date.isoformat,
                {"format": "date", "pattern": DATE_PATTERN}),
    _TextFormat(time, "a time (RFC 3339)", TIME_PATTERN, time.fromisoformat, _write_time, {"pattern": TIME_PATTERN}),
    _TextFormat(timedelta, "a duration (ISO 8601, weeks to seconds)", DURATION_PATTERN, _read_duration,
                _write_duration, {"pattern": DURATION_PATTERN}),
    _TextFormat(UUID, "a UUID", UUID_PATTERN, UUID, UUID.__str__, {"format": "uuid"}),
)  # fmt: skip

TEXT_HANDLERS: Final = (
    *(text_format.to_handler() for text_format in _TEXT_FORMATS),
    TypeHandler(
        name="a decimal number",
        types=(Decimal,),
        constrainable_types=frozenset({"number"}),
        build_schema=_build_decimal_schema,
        make_decode_hook=_make_decimal_decode_hook,
        make_encode_hook=_make_decimal_encode_hook,
    ),
    TypeHandler(
        name="a path",
        matches=is_path_type,
        find_problem=_find_path_problem,
        build_schema=lambda hint, builder: {"type": "string"},
        make_decode_hook=_make_path_decode_hook,
        make_encode_hook=_make_path_encode_hook,
    ),
)
