"""Parses the arguments of a call into a JSON object, or says every reason why they are not one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final, TypeVar

import msgspec

from praval_tools.errors import Problem
from praval_tools.names import get_class_name, has_type, shorten_repr, to_plain_scalar
from praval_tools.schema.json_pointer import format_json_path
from praval_tools.schema.json_values import (
    INT_LIMIT,
    LOWER_INT_LIMIT,
    MAX_DEPTH,
    SCALAR_TYPES,
    find_scalar_problem,
    iter_json_problems,
    shorten_value,
)
from praval_tools.values.builtin_iteration import iterate_items_without_overrides, iterate_without_overrides

T = TypeVar("T")

MAX_BYTES: Final = 1 << 20
_MAX_PREVIEW: Final = 400
_SHALLOW_LENGTH: Final = 120
"""Text of this length cannot be nested too deeply: a level takes two characters."""
_MAX_SIMPLE_LENGTH: Final = 65_536

_decode_json: Final = msgspec.json.Decoder().decode


class MalformedArgumentsError(Exception):
    """The given arguments are not a JSON object; `problems` says why."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)


def make_malformed_error(reason: str, *, given: object = None) -> MalformedArgumentsError:
    """Return the error for one problem."""
    preview = "" if given is None else shorten_value(given)
    return MalformedArgumentsError([Problem(path="$", reason=reason, given=preview, wanted="a JSON object")])


def try_parse_simple(raw: object) -> dict[str, Any] | None:
    """
    Return the JSON object that *raw* spells, or None where only `parse_arguments` can tell.

    With as many colons as keys, no key stands twice, and nothing but empty objects and lists is inside.
    """
    text: Any = raw
    if type(raw) is bytes:
        opening, colon = b"[", b":"
    elif type(raw) is str:
        opening, colon = "[", ":"  # type: ignore[assignment]
    else:
        return None
    if len(text) > _SHALLOW_LENGTH and (len(text) > _MAX_SIMPLE_LENGTH or opening in text):
        return None
    try:
        value = _decode_json(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return value if type(value) is dict and text.count(colon) == len(value) else None


def parse_arguments(raw: object, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH) -> dict[str, Any]:
    """
    Return the JSON object that *raw* is or spells; empty text and None are `{}`.

    A dict is given back as it is where nothing in it has to change (tuples become lists, other dicts plain ones).

    Args:
        raw: A dict, JSON text, or bytes of it.
        max_bytes: How long text may be.
        max_depth: How deep values may be nested.

    Raises:
        MalformedArgumentsError: It is something else, too long, too deep, or has a key twice or no JSON form.
    """
    raw = to_plain_scalar(raw)
    if has_type(raw, dict):
        normalized: dict[str, Any] = normalize_json(raw, max_depth)
        return normalized
    if raw is None:
        return {}
    if not has_type(raw, (str, bytes, bytearray)):
        raise make_malformed_error(f"is {get_class_name(type(raw))}, not a JSON object or its text", given=raw)
    if len(raw) > max_bytes:
        raise make_malformed_error(f"is longer than {max_bytes} bytes")
    value = parse_json(raw, max_bytes=max_bytes, max_depth=max_depth)
    if value is None:
        return {}
    if type(value) is not dict:
        raise make_malformed_error("is JSON, but not an object", given=value)
    return value


def parse_json(text: str | bytes | bytearray, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH) -> Any:
    """
    Return the JSON value that *text* spells; empty text is None.

    Raises:
        MalformedArgumentsError: It is malformed, too long or too deep, or has a key twice or an invalid number.
    """
    plain: Any = to_plain_scalar(text)
    try:
        data = plain.encode() if type(plain) is str else bytes(plain)
    except UnicodeEncodeError:
        raise make_malformed_error("holds half of a surrogate pair") from None
    if len(data) > max_bytes:
        raise make_malformed_error(f"is longer than {max_bytes} bytes")
    if not data.strip():
        return None
    try:
        value = _decode_json(data)
    except UnicodeDecodeError as error:
        raise make_malformed_error(
            f"is not UTF-8 from byte {error.start} on", given=data[:80].decode("utf-8", "replace")
        ) from None
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        return _parse_refused_json(data, error, max_depth)
    except RecursionError:
        raise make_malformed_error(f"is nested more than {max_depth} levels deep") from None
    object_count = data.count(b"{")
    if object_count + data.count(b"[") > max_depth:
        normalize_json(value, max_depth)
    if object_count > 1 or (object_count == 1 and (type(value) is not dict or data.count(b":") != len(value))):
        _parse_without_duplicates(data)
    return value


def parse_typed_json(text: str) -> object:
    """
    Return the JSON value that a person typed.

    Raises:
        ValueError: It is none, or no store and no tool could take it: it has a key twice, a number beyond those of
            floating point or half of a surrogate pair, or is nested too deeply.
    """
    if not text.strip():
        raise ValueError("it is empty")
    try:
        value: object = parse_json(text)
    except MalformedArgumentsError as error:
        what, _, detail = error.problems[0].reason.partition("is not JSON: ")
        raise ValueError(detail or f"it {what}") from None
    return value


def _parse_refused_json(data: bytes, error: Exception, max_depth: int) -> Any:
    """Accept integers that the fast decoder refuses; say what is wrong with everything else."""
    if isinstance(error, msgspec.ValidationError) and "Integer" in str(error):
        return normalize_json(_parse_without_duplicates(data), max_depth)
    reason = "holds a number that is too large" if "out of range" in str(error) else f"is not JSON: {error}"
    if "\\ud" in data[:10_000].decode("utf-8", "replace").lower() and "truncated" in str(error):
        reason = "holds half of a surrogate pair"
    raise make_malformed_error(reason, given=data[:80].decode("utf-8", "replace")) from None


def _parse_without_duplicates(data: bytes) -> Any:
    """Decode once more, looking for keys that stand twice in one object."""
    duplicates: list[str] = []

    def collect_members(members: list[tuple[str, Any]]) -> dict[str, Any]:
        collected = dict(members)
        if len(collected) != len(members):
            counts = Counter(key for key, _ in members)
            duplicates.extend(key for key, count in counts.items() if count > 1)
        return collected

    import json

    try:
        value = json.loads(data, object_pairs_hook=collect_members)
    except RecursionError:
        raise make_malformed_error("is nested too deeply") from None
    except ValueError as error:
        reason = "holds a number of too many digits" if "digits" in str(error) else f"is not usable JSON: {error}"
        raise make_malformed_error(reason[:120]) from None
    if duplicates:
        raise MalformedArgumentsError(
            Problem(path="$", reason=f"has the key {shorten_repr(key)} twice in one object", wanted="each key once")
            for key in dict.fromkeys(duplicates[:20])
        )
    return value


def normalize_json(value: Any, max_depth: int = MAX_DEPTH) -> Any:
    """
    Return *value* if all in it is JSON, tuples as lists and other mappings as dicts.

    Raises:
        MalformedArgumentsError: With the first twenty places that are not.
    """
    if next(iter_json_problems(value, max_depth), None) is None:
        return value
    places = islice(iter_json_problems(value, max_depth, exact=False), 20)
    problems = [
        Problem(
            path=format_json_path(path) if len(path) <= max_depth else f"{format_json_path(path[:3])}…",
            reason=reason,
            given="" if item is None else shorten_value(item),
        )
        for path, reason, item in places
    ]
    if problems:
        raise MalformedArgumentsError(sorted(problems, key=lambda problem: problem.path))
    return copy_json(value)


def copy_json(value: Any) -> Any:
    """Return a copy of a JSON value that shares nothing with it: plain dicts and lists throughout."""
    if type(value) is dict:
        copied = value.copy()  # of one moment: another thread may change it
        if not SCALAR_TYPES.issuperset(map(type, copied.values())):  # as most are, and far faster
            for key, item in copied.items():
                if type(item) not in SCALAR_TYPES:
                    copied[key] = copy_json(item)
        return copied
    if has_type(value, dict):  # of a class of its own, whose code does not count
        members = iterate_items_without_overrides(value)
        return {key: item if type(item) in SCALAR_TYPES else copy_json(item) for key, item in members}
    if has_type(value, (list, tuple)):
        items = value.copy() if type(value) is list else iterate_without_overrides(value)
        return [item if type(item) in SCALAR_TYPES else copy_json(item) for item in items]
    return value


def copy_containers(value: T) -> T:
    """
    Return *value* with copies of the dicts, lists and tuples in it, each of one moment: another thread may change it.

    Values of other classes, which may run code of their own, stay as they are; so does what is nested too deeply.
    """
    given: object = value
    if type(given) is dict:
        copied = given.copy()
        if SCALAR_TYPES.issuperset(map(type, copied.values())):  # as most are, and far faster
            return copied  # type: ignore[return-value]  # of the same type
    try:
        return _copy_containers(value, {})  # type: ignore[return-value]  # of the same type
    except RecursionError:
        return value


def _copy_containers(value: object, copies: dict[int, tuple[object, object]]) -> object:
    """Return the copy of *value*; *copies* keeps what was copied, too, so that its id stays its own."""
    if (known := copies.get(id(value))) is not None:
        return known[1]
    copied: object = value
    if type(value) is tuple:
        copied = tuple(_copy_containers(item, copies) for item in value)
        copies[id(value)] = value, copied
    elif type(value) is dict:
        copied = members = value.copy()
        copies[id(value)] = value, copied
        for key, item in members.items():
            if type(item) not in SCALAR_TYPES:
                members[key] = _copy_containers(item, copies)
    elif type(value) is list:
        copied = items = value.copy()
        copies[id(value)] = value, copied
        for index, item in enumerate(items):
            if type(item) not in SCALAR_TYPES:
                items[index] = _copy_containers(item, copies)
    return copied


def preview_json(value: object) -> str:
    """Return *value* as JSON text of at most 80 characters."""
    text, truncated = "", _truncate_value(value)
    if type(truncated) in SCALAR_TYPES and not find_scalar_problem(truncated):
        is_number = type(truncated) in (int, float)
        text = repr(truncated) if is_number else msgspec.json.encode(truncated).decode()  # fast: for each repair
    else:
        for piece in _iter_json_pieces(truncated):
            text += piece
            if len(text) > _MAX_PREVIEW:  # longer text is not written to its end
                break
    if len(text) > _MAX_PREVIEW:
        return f"{text[:56]}…"
    return text if len(text) <= 80 else f"{text[:56]}…{text[-20:]}"


def _iter_json_pieces(value: object) -> Iterator[str]:
    from json import JSONEncoder

    return JSONEncoder(ensure_ascii=False, default=repr).iterencode(value)


def _truncate_value(value: Any, levels: int = 4) -> Any:
    """Return the beginning of *value*, as much as could be shown, so that long texts and large numbers cost nothing."""
    if isinstance(value, str):
        return value[:_MAX_PREVIEW]
    if isinstance(value, int):
        return value if LOWER_INT_LIMIT < value < INT_LIMIT else "a number of more than 4300 digits"
    if isinstance(value, dict | list) and levels == 0:
        return value if not value else "…"
    if isinstance(value, dict):
        return {
            _truncate_value(key): _truncate_value(item, levels - 1) for key, item in islice(value.items(), _MAX_PREVIEW)
        }
    return [_truncate_value(item, levels - 1) for item in value[:_MAX_PREVIEW]] if isinstance(value, list) else value
