"""
Encodes events as JSON and decodes them: one versioned form, strict in what it reads.

`{"v": 1, "type": "agent_tool_call", "id": …, "time": …, "tool_call_id": …, "tool_name": …, "arguments": …}`.
Fields that have their default are left out, except the keys on which a reader of `agent_tool_result` may rely.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum
from types import NoneType
from typing import Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

import attrs
import msgspec

from praval_tools.errors import EventFormatError
from praval_tools.journal.event_subjects import get_subject
from praval_tools.journal.events import EVENT_CLASSES, EVENT_TYPES, EventType, JournalEvent
from praval_tools.journal.storage.protocol import Record
from praval_tools.names import shorten_repr, suggest_names
from praval_tools.schema.encode import to_json_bytes
from praval_tools.schema.json_values import reject_constant
from praval_tools.tools.value_codec import pack_value, unpack_value

EVENT_VERSION: Final = 1
"""Of the form; a reader refuses every other, so raise it with a converter for the old ones."""

_TYPE_NAMES: Final = frozenset(map(str, EVENT_CLASSES))
_ALWAYS_WRITTEN_FIELDS: Final = frozenset({"result", "error", "latency_ms", "arguments"})
_UNWRITTEN_FIELDS: Final = frozenset({"bounds"})
"""The compiled bounds of a grant are compiled again from `where`."""

_MAX_PROBLEMS: Final = 10
_UPGRADE_FIX: Final = "Install the praval-tools release that wrote it, or a newer one."
_DAMAGED_FIX: Final = (
    "The store is damaged, or the text is not an event; look at the row with `praval-tools audit --json`."
)

T = TypeVar("T")


def to_json(event: JournalEvent) -> bytes:
    """
    Return *event* as JSON text.

    Raises:
        EventFormatError: It is not one of the journal's events, or a field of it is not of its declared type.
    """
    kind = type(event)
    name = EVENT_TYPES.get(kind)
    if name is None:
        fix = "What is declared in code is never journaled; only `JournalEvent` is."
        raise EventFormatError(_get_event_id(event), (f"{kind.__name__} has no type",), fix)
    body = {"v": EVENT_VERSION, "type": name.value, **_get_codec(kind).write(event)}
    try:
        return to_json_bytes(body)
    except UnicodeEncodeError:  # half of a surrogate pair, which a model can send: JSON has an escape for it
        return json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        fix = "Make it of values of the types that its class declares."
        raise EventFormatError(_get_event_id(event), (str(error),), fix) from None


def build_record(event: JournalEvent, *, attempt: int | None = None) -> Record:
    """Return the record of *event*, which is the given *attempt* of its call; see `Record`."""
    subject = get_subject(event)
    if event.time is None:
        raise ValueError("time: an event is given its time before it is written")
    return Record(
        type=EVENT_TYPES[type(event)].value,
        body=to_json(event),
        id=event.id,
        time=event.time,
        process=event.process,
        run_id=subject.run_id,
        call_id=subject.tool_call_id,
        agent=subject.agent,
        tool=subject.tool,
        attempt=attempt,
    )


def from_json(data: bytes | str, *, event_id: str = "") -> JournalEvent:
    """
    Return the event that *data* is the JSON text of.

    Args:
        data: What `to_json` returned.
        event_id: For messages about a text that is too damaged to name its event.

    Raises:
        EventFormatError: It is not an event of this version, or not as this version writes it.
    """
    body = _decode_object(data, event_id)
    own_id = body.get("id") or event_id
    event_id = own_id if type(own_id) is str else shorten_repr(own_id)
    version, name = body.pop("v", None), body.pop("type", None)
    if version != EVENT_VERSION or type(version) is not int:
        problem = f"its version is {shorten_repr(version)}, and this release reads {EVENT_VERSION}"
        raise EventFormatError(event_id, ("it has no version" if version is None else problem,), _UPGRADE_FIX)
    if type(name) is not str or name not in _TYPE_NAMES:
        fix = suggest_names(name, sorted(_TYPE_NAMES), "Did you mean ") or _UPGRADE_FIX
        raise EventFormatError(event_id, (f"its type is {shorten_repr(name)}",), fix)
    try:
        event: JournalEvent = _get_codec(EVENT_CLASSES[EventType(name)]).read(body)
    except (TypeError, ValueError, RecursionError) as error:
        problems = _list_problems(error)[:_MAX_PROBLEMS]
        fix = f"Read it with the release that wrote it; this one writes {name} in version {EVENT_VERSION}."
        raise EventFormatError(event_id, [_to_single_line(problem) for problem in problems], fix) from None
    return event


def build_body_decoder(kind: type[T]) -> Callable[[bytes], T]:
    """Return a decoder of some fields of events: fast, and slow for the texts that msgspec refuses."""
    decode_fast = msgspec.json.Decoder(kind).decode

    def decode_body(body: bytes) -> T:
        try:
            return decode_fast(body)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError as error:
            try:
                return msgspec.convert(_decode_with_stdlib(body, ""), kind)
            except EventFormatError:
                raise error from None

    return decode_body


def _to_single_line(text: str) -> str:
    return " ".join(text.split())[:200]


def _decode_object(data: bytes | str, event_id: str) -> dict[str, object]:
    try:
        body = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        body = _decode_with_stdlib(data, event_id)
    if type(body) is not dict:
        raise EventFormatError(event_id, (f"it is {type(body).__name__}, not an object",), _DAMAGED_FIX)
    return body


def _decode_with_stdlib(data: bytes | str, event_id: str) -> object:
    """Decode what msgspec refuses: integers of very many digits, and text with half of a surrogate pair."""
    try:
        return json.loads(data, parse_constant=reject_constant)
    except (ValueError, RecursionError) as error:
        problem = f"it is not JSON ({_to_single_line(str(error))})"
        raise EventFormatError(event_id, (problem,), _DAMAGED_FIX) from None


def _get_event_id(event: object) -> str:
    event_id = getattr(event, "id", "")
    return event_id if type(event_id) is str else ""


# ── fields by their types ────────────────────────────────────────────────────────────────────────

_Reader = Callable[[object], Any]
"""Returns the field's value for a JSON value; raises `TypeError` or `ValueError` for one of another type."""

_Writer = Callable[[Any], object]


class _FieldProblemsError(ValueError):
    """The fields of one object are wrong; the arguments name each."""


class _ObjectCodec:
    """Reads and writes the objects of one class, of attrs or msgspec, by the types of its fields."""

    def __init__(self, kind: type) -> None:
        self._kind = kind
        hints = get_type_hints(kind, localns={"Bounds": object})  # imported there for type checkers only
        defaults = {name: default for name, default in _iter_defaults(kind) if name not in _UNWRITTEN_FIELDS}
        self._readers = {name: _make_reader(hints[name]) for name in defaults}
        self._required = [name for name, default in defaults.items() if default is _REQUIRED]
        self._writers = [
            (name, _make_writer(hints[name]), _REQUIRED if name in _ALWAYS_WRITTEN_FIELDS else default)
            for name, default in defaults.items()
        ]
        if attrs.has(kind):  # the order of the keys in version 1
            self._writers.sort(key=lambda writer: writer[2] is not _REQUIRED)

    def write(self, value: object) -> dict[str, object]:
        body = {}
        for name, write, default in self._writers:
            member = getattr(value, name)
            if default is _REQUIRED or member != default:
                body[name] = member if write is None or member is None else write(member)
        return body

    def read(self, body: object) -> Any:
        members = _require_type(body, dict, "an object")
        values, readers = {}, self._readers
        problems = [f"{name!r} is missing" for name in self._required if name not in members]
        for name, member in members.items():
            if name not in readers:
                problems.append(f"{name!r} is not a known key")
                continue
            try:
                values[name] = readers[name](member)
            except (TypeError, ValueError) as error:
                problems += [f"{name}: {problem}" for problem in _list_problems(error)]
        if problems:
            raise _FieldProblemsError(*sorted(problems))
        return self._kind(**values)


_REQUIRED: Final = object()
_codecs: Final[dict[type, _ObjectCodec]] = {}


def _get_codec(kind: type) -> _ObjectCodec:
    codec = _codecs.get(kind)
    if codec is None:
        codec = _codecs[kind] = _ObjectCodec(kind)
    return codec


def _iter_defaults(kind: type) -> list[tuple[str, object]]:
    """Return the fields of *kind* with their defaults."""
    if attrs.has(kind):
        return [
            (field.name, _REQUIRED if field.default is attrs.NOTHING else field.default) for field in attrs.fields(kind)
        ]
    return [(field.name, _REQUIRED if field.required else field.default) for field in msgspec.structs.fields(kind)]


def _list_problems(error: Exception) -> tuple[str, ...]:
    if isinstance(error, RecursionError):
        return ("it is nested too deeply",)
    return error.args if isinstance(error, _FieldProblemsError) else (str(error),)


def _require_type(value: object, kind: type[T], name: str) -> T:
    if type(value) is not kind:
        raise TypeError(f"{shorten_repr(value)} is not {name}")
    return value


def _require_choice(value: object, choices: tuple[object, ...]) -> object:
    if value not in choices:
        raise ValueError(f"{shorten_repr(value)} is not one of {', '.join(map(repr, choices))}")
    return value


_SCALAR_READERS: Final[dict[object, _Reader]] = {
    Any: unpack_value,
    str: lambda value: _require_type(value, str, "text"),
    bool: lambda value: _require_type(value, bool, "true or false"),
    int: lambda value: _require_type(value, int, "an integer"),
    float: lambda value: float(_require_type(value, int if type(value) is int else float, "a number")),
    datetime: lambda value: datetime.fromisoformat(_require_type(value, str, "text")),
    Mapping[str, Any]: lambda value: _require_type(unpack_value(value), dict, "an object"),
}
_SCALAR_WRITERS: Final[dict[object, _Writer | None]] = {
    **dict.fromkeys((str, bool, int, float)),
    Any: pack_value,
    datetime: datetime.isoformat,
    Mapping[str, Any]: pack_value,
}


def _make_reader(hint: Any) -> _Reader:
    """Return a reader that converts nothing; an integer is a number, true is none."""
    if hint in _SCALAR_READERS:
        return _SCALAR_READERS[hint]
    arguments = get_args(hint)
    if get_origin(hint) is Literal:
        return lambda value: _require_choice(value, arguments)
    if get_origin(hint) is tuple:
        read_item = _make_reader(arguments[0])
        return lambda value: tuple(map(read_item, _require_type(value, list, "a list")))
    if NoneType in arguments:
        read = _make_reader(arguments[0])
        return lambda value: None if value is None else read(value)
    if issubclass(hint, Enum):
        return lambda value: hint(_require_type(value, str, "text"))
    return lambda value: _get_codec(hint).read(value)


def _make_writer(hint: Any) -> _Writer | None:
    """Return a writer of values that are not None, or None where they are written as they are."""
    if hint in _SCALAR_WRITERS:
        return _SCALAR_WRITERS[hint]
    arguments = get_args(hint)
    if get_origin(hint) is tuple:
        write_item = _make_writer(arguments[0])
        return None if write_item is None else lambda items: list(map(write_item, items))
    if NoneType in arguments:
        return _make_writer(arguments[0])
    if get_origin(hint) is Literal or issubclass(hint, Enum):
        return None
    return lambda value: _get_codec(hint).write(value)
