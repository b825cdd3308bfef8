"""
Events as JSON, and back: one versioned form, strict in what it reads.

`{"v": 1, "type": "agent_tool_call", "id": …, "time": …, "tool_call_id": …, "tool_name": …, "arguments": …}`.
What an event does not say is left out, save the keys that a reader of `agent_tool_result` may rely on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from typing import Any, Final, NoReturn, TypeVar, get_args, get_origin

import attrs
import msgspec
from cattrs import BaseValidationError, transform_error
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override
from cattrs.preconf.msgspec import MsgspecJsonConverter, make_converter

from praval_tools.access.bounds.bounds import Bounds
from praval_tools.access.permissions import Grant
from praval_tools.errors import EventFormatError, Problem
from praval_tools.journal.events import EVENT_CLASSES, EVENT_TYPES, EventType, JournalEvent, StoredAccessEvent
from praval_tools.journal.value_codec import pack_value, unpack_value
from praval_tools.names import find_similar_names, shorten_repr
from praval_tools.schema.coercion import Repair
from praval_tools.schema.encode import to_json_bytes
from praval_tools.tools.call import Outcome

EVENT_VERSION: Final = 1
"""Of the form; a reader refuses every other, so raise it with a converter for the old ones."""

_ALWAYS_WRITTEN_FIELDS: Final = frozenset({"result", "error", "latency_ms", "arguments"})
_HEADER_KEYS: Final = ("v", "type")
_MAX_PROBLEMS: Final = 10

attrs.resolve_types(Grant, None, {"Bounds": Bounds})  # named there for type checkers only


def to_json(event: JournalEvent) -> bytes:
    """
    Return *event* as JSON text.

    Raises:
        EventFormatError: It is none of the journal's events, or a field of it is not of its declared type.
    """
    kind = type(event)
    name = EVENT_TYPES.get(kind)
    if name is None:
        fix = "What is declared in code is never journaled; only `JournalEvent` is."
        raise EventFormatError(_get_event_id(event), (f"{kind.__name__} has no type",), fix)
    body = {"v": EVENT_VERSION, "type": name.value, **_get_converter().unstructure(event, kind)}
    try:
        return to_json_bytes(body)
    except UnicodeEncodeError:  # half of a surrogate pair, which a model can send: JSON has an escape for it
        return json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        fix = "Make it of values of the types that its class declares."
        raise EventFormatError(_get_event_id(event), (str(error),), fix) from None


def from_json(data: bytes | str, *, event_id: str = "") -> JournalEvent:
    """
    Return the event that *data* is the JSON text of.

    Args:
        data: What `to_json` gave.
        event_id: For messages about a text that is too damaged to name its event.

    Raises:
        EventFormatError: It is no event of this version, or not as this version writes it.
    """
    body = _decode_object(data, event_id)
    own_id = body.get("id") or event_id
    event_id = own_id if type(own_id) is str else shorten_repr(own_id)
    if (version := body.get("v")) != EVENT_VERSION or type(version) is not int:
        _raise_unknown_version(event_id, version)
    name = body.get("type")
    if type(name) is not str or name not in _TYPE_NAMES:
        similar = find_similar_names(name, _TYPE_NAMES) if type(name) is str else ()
        fix = f"Did you mean {similar[0]!r}?" if similar else "Read it with the release that wrote it, or a newer one."
        raise EventFormatError(event_id, (f"its type is {shorten_repr(name)}",), fix)
    fields = {key: one for key, one in body.items() if key not in _HEADER_KEYS}
    try:
        made: JournalEvent = _get_converter().structure(fields, EVENT_CLASSES[EventType(name)])
    except (BaseValidationError, TypeError, ValueError, RecursionError) as error:
        fix = f"Read it with the release that wrote it; this one writes {name} in version {EVENT_VERSION}."
        raise EventFormatError(event_id, _list_problems(error), fix) from None
    return made


T = TypeVar("T")


def build_body_decoder(kind: type[T]) -> Callable[[bytes], T]:
    """Return what reads some fields of events quickly, and slowly what a model can send: see `_decoded_slowly`."""
    quickly = msgspec.json.Decoder(kind).decode

    def decode_body(body: bytes) -> T:
        try:
            return quickly(body)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError as error:
            try:
                return msgspec.convert(_decode_with_stdlib(body, ""), kind)
            except EventFormatError:
                raise error from None

    return decode_body


_TYPE_NAMES: Final = frozenset(map(str, EVENT_CLASSES))


def _raise_unknown_version(event_id: str, version: Any) -> NoReturn:
    said = "it has no version"
    if version is not None:
        said = f"its version is {shorten_repr(version)}, and this release reads {EVENT_VERSION}"
    raise EventFormatError(event_id, (said,), "Install the praval-tools release that wrote it, or a newer one.")


def _list_problems(error: Exception) -> tuple[str, ...]:
    if isinstance(error, BaseValidationError):
        return tuple(
            _to_single_line(one) for one in transform_error(error, format_exception=_format_exception)[:_MAX_PROBLEMS]
        )
    return ("it is nested too deeply",) if isinstance(error, RecursionError) else (_to_single_line(str(error)),)


def _format_exception(error: BaseException, _: type | None) -> str:
    return "required field missing" if isinstance(error, KeyError) else str(error)


def _to_single_line(text: str) -> str:
    return " ".join(text.split())[:200]


def _decode_object(data: bytes | str, event_id: str) -> dict[str, Any]:
    try:
        body = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        body = _decode_with_stdlib(data, event_id)
    if type(body) is not dict:
        raise EventFormatError(event_id, (f"it is {type(body).__name__}, no object",), _DAMAGED_FIX)
    return body


def _decode_with_stdlib(data: bytes | str, event_id: str) -> Any:
    """Decode what msgspec refuses: integers of very many digits, and text with half of a surrogate pair."""
    try:
        return json.loads(data, parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        raise EventFormatError(event_id, (f"it is no JSON ({_to_single_line(str(error))})",), _DAMAGED_FIX) from None


_DAMAGED_FIX: Final = "The store is damaged, or the text is no event; look at the row with `praval-tools audit --json`."


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _get_event_id(event: Any) -> str:
    found = getattr(event, "id", "")
    return found if type(found) is str else ""


# ── the converter ────────────────────────────────────────────────────────────────────────────────


@cache
def _get_converter() -> MsgspecJsonConverter:
    converter: Any = make_converter(forbid_extra_keys=True)
    for kind in (str, int, float, bool):
        converter.register_structure_hook(kind, _make_strict_hook(kind))
    converter.register_structure_hook(Outcome, lambda value, _: Outcome(_make_strict_hook(str)(value, str)))
    converter.register_structure_hook(
        datetime, lambda value, _: datetime.fromisoformat(_make_strict_hook(str)(value, str))
    )
    converter.register_unstructure_hook(datetime, datetime.isoformat)
    converter.register_structure_hook_factory(attrs.has, _make_attrs_structure_hook)
    converter.register_structure_hook_factory(_is_tuple, _make_tuple_structure_hook)
    converter.register_unstructure_hook_factory(attrs.has, _make_attrs_unstructure_hook)
    for struct in (Repair, Problem, *get_args(StoredAccessEvent)):  # one by one: cattrs leaves other structs to msgspec
        converter.register_structure_hook(struct, _make_struct_structure_hook(struct, converter))
        converter.register_unstructure_hook(struct, _make_struct_unstructure_hook(struct, converter))
    return converter  # type: ignore[no-any-return]


def _make_strict_hook(kind: type) -> Callable[[Any, Any], Any]:
    """Return a hook that converts nothing; an integer is a number, true is none."""
    accepted = (int, float) if kind is float else (kind,)

    def check_type(value: Any, _: Any) -> Any:
        if type(value) not in accepted:
            raise TypeError(f"{shorten_repr(value)} is no {kind.__name__}")
        return float(value) if kind is float else value

    return check_type


def _accepts_any_value(hint: Any) -> bool:
    """Tell whether a field takes any value, which is then packed."""
    return hint is Any or hint == Mapping[str, Any] or hint == Mapping[str, Any] | None


def _unpack_field(value: Any, hint: Any) -> Any:
    made = unpack_value(value)
    if hint is Any or type(made) is dict or (made is None and hint != Mapping[str, Any]):
        return made
    raise TypeError(f"{shorten_repr(value)} is no object")


def _make_attrs_unstructure_hook(kind: Any, converter: MsgspecJsonConverter) -> Callable[[Any], Any]:
    attrs.resolve_types(kind)
    overrides: dict[str, Any] = {"bounds": override(omit=True)} if kind is Grant else {}
    for one in attrs.fields(kind):
        if one.name not in overrides:
            overrides[one.name] = override(
                omit_if_default=one.name not in _ALWAYS_WRITTEN_FIELDS,
                unstruct_hook=pack_value if _accepts_any_value(one.type) else None,
            )
    return make_dict_unstructure_fn(kind, converter, **overrides)


def _make_attrs_structure_hook(kind: Any, converter: MsgspecJsonConverter) -> Callable[[Any, Any], Any]:
    attrs.resolve_types(kind)
    overrides: dict[str, Any] = {"bounds": override(omit=True)} if kind is Grant else {}
    for one in attrs.fields(kind):
        if _accepts_any_value(one.type):
            overrides[one.name] = override(struct_hook=_unpack_field)
    made = make_dict_structure_fn(kind, converter, _cattrs_forbid_extra_keys=True, **overrides)
    return lambda value, hint: made(_require_type(value, dict, "object"), hint)


def _require_type(value: Any, kind: type, name: str) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{shorten_repr(value)} is no {name}")
    return value


def _is_tuple(hint: Any) -> bool:
    return get_origin(hint) is tuple


def _make_tuple_structure_hook(hint: Any, converter: MsgspecJsonConverter) -> Callable[[Any, Any], Any]:
    item, *_ = get_args(hint)
    hook = converter.get_structure_hook(item)
    return lambda value, _: tuple(hook(one, item) for one in _require_type(value, list, "list"))


def _make_struct_unstructure_hook(kind: Any, converter: MsgspecJsonConverter) -> Callable[[Any], Any]:
    fields = [
        (
            one.name,
            pack_value if _accepts_any_value(one.type) else converter.get_unstructure_hook(one.type),
            one.default,
        )
        for one in msgspec.structs.fields(kind)
    ]

    def unstructure_struct(value: Any) -> dict[str, Any]:
        made = {}
        for name, hook, default in fields:
            if (found := getattr(value, name)) != default:
                made[name] = hook(found)
        return made

    return unstructure_struct


def _make_struct_structure_hook(kind: Any, converter: MsgspecJsonConverter) -> Callable[[Any, Any], Any]:
    fields = {
        one.name: (one.type, _unpack_field if _accepts_any_value(one.type) else converter.get_structure_hook(one.type))
        for one in msgspec.structs.fields(kind)
    }
    required = [one.name for one in msgspec.structs.fields(kind) if one.required]

    def structure_struct(value: Any, _: Any) -> Any:
        _require_type(value, dict, "object")
        problems = [f"{name!r} is missing" for name in required if name not in value]
        problems += [f"{name!r} is no known key" for name in value if name not in fields]
        made = {}
        for name in fields.keys() & value.keys():
            hint, hook = fields[name]
            try:
                made[name] = hook(value[name], hint)
            except BaseValidationError as error:
                problems += [f"{name}: {one}" for one in _list_problems(error)]
            except (TypeError, ValueError, LookupError) as error:
                problems.append(f"{name}: {error}")
        if problems:
            raise ValueError("; ".join(sorted(problems)))
        return kind(**made)

    return structure_struct
