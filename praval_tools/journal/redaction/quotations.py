"""What quotes the arguments of a call: problems and repairs, which say nothing of what is hidden in their place."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import attrs
import msgspec

from praval_tools.journal.redaction.nested_json import parse_nested_json
from praval_tools.journal.redaction.secret_search import ShortSecrets
from praval_tools.names import shorten_repr
from praval_tools.schema.coercion import LEFT_OUT
from praval_tools.schema.json_pointer import split_json_path
from praval_tools.schema.secret_names import NAMING_KEYS
from praval_tools.schema.written_secrets import JsonPlace, has_at
from praval_tools.tools.value_codec import PythonValue, is_plain_json, normalize_value, pack_value

QuotingT = TypeVar("QuotingT", bound=msgspec.Struct)

HIDDEN_VALUE: Final = "a secret"
"""What stands for a hidden value, or for its key, in messages."""

_QUOTING_FIELDS: Final = {"problems": ("path", "reason", "given"), "repairs": ("path", "given", "became")}
_Redact = Callable[[PythonValue], PythonValue]
_Parts = Sequence[tuple[str, str | int]]


class _Place(msgspec.Struct):
    """
    What may be shown of the place of a value.

    Args:
        path: Its JSON path, which ends at what is hidden, or at the marker of a key in that.
        is_hidden: The value is hidden, or something in it.
        hidden_keys: The keys that the whole path names and this one does not.
    """

    path: str
    is_hidden: bool
    hidden_keys: list[str]


def hide_quoted_values(
    quotings: Sequence[QuotingT],
    arguments: PythonValue,
    redact: _Redact,
    make_marker: Callable[[str], str],
    named_items: int,
) -> tuple[QuotingT, ...]:
    """
    Return problems or repairs without what is hidden in the places that they name, however short that is.

    Args:
        quotings: The problems or repairs.
        arguments: Those that they are about; they may be anything.
        redact: Returns arguments with markers for their secrets.
        make_marker: Returns the marker of a secret key.
        named_items: The items of an array that the schema tells apart, at most.
    """
    if quotings and not is_plain_json(arguments):
        arguments = normalize_value(arguments)
    return tuple(_hide_quoted_value(quoting, arguments, redact, make_marker, named_items) for quoting in quotings)


def _hide_quoted_value(
    quoting: QuotingT, arguments: PythonValue, redact: _Redact, make_marker: Callable[[str], str], named_items: int
) -> QuotingT:
    texts: dict[str, str] = msgspec.structs.asdict(quoting)
    parts = split_json_path(texts["path"])
    *containers, whole = _follow(parts, arguments)
    value = _read_value(texts["given"] if texts.get("became", LEFT_OUT) == LEFT_OUT else texts["became"], whole)
    place = _find_shown_place(parts, _build_arguments(parts, containers, value, named_items), redact, make_marker)
    if not place.is_hidden and not place.hidden_keys:
        return quoting
    changes = {"path": place.path, "reason": texts["reason"]}
    for key in place.hidden_keys:
        changes["reason"] = changes["reason"].replace(shorten_repr(key, 64), HIDDEN_VALUE)
    if place.is_hidden:
        changes |= {name: HIDDEN_VALUE for name in ("given", "became") if texts.get(name)}
    return msgspec.structs.replace(quoting, **changes)


def hide_quoted_places(
    quotings: Sequence[QuotingT], arguments: PythonValue, places: ShortSecrets
) -> tuple[QuotingT, ...]:
    """Return problems or repairs without the secrets that are hidden in places of the arguments, or inside of them."""
    return tuple(_hide_quoted_place(quoting, [place for (place, _), part in places.items()
                                              if has_at(arguments, place, part)]) for quoting in quotings)  # fmt: skip


def _hide_quoted_place(quoting: QuotingT, places: Sequence[JsonPlace]) -> QuotingT:
    texts: dict[str, str] = msgspec.structs.asdict(quoting)
    parts = split_json_path(texts["path"])
    steps = tuple(step for _, step in parts)
    found = [place for place in places if place[: len(steps)] == steps or steps[: len(place)] == place]
    if not found:
        return quoting
    changes = {name: HIDDEN_VALUE for name in ("given", "became") if texts.get(name)}
    if len(steps) > len(found[0]):  # what is inside of a secret is one
        changes["path"] = "$" + "".join(text for text, _ in parts[: len(found[0])])
    return msgspec.structs.replace(quoting, **changes)


def _follow(parts: _Parts, arguments: PythonValue) -> list[PythonValue]:
    """Return *arguments* and the value at each step of a path, parsed where it is JSON text; None for what is not."""
    values = [parse_nested_json(arguments)]
    for _, step in parts:
        value = values[-1]
        if isinstance(value, dict):
            value = value.get(step)
        else:
            is_item = isinstance(value, list | tuple) and isinstance(step, int) and step < len(value)
            value = value[step] if is_item else None
        values.append(parse_nested_json(value))
    return values


def _read_value(text: str, whole: PythonValue) -> PythonValue:
    """Return the value that is quoted: *whole*, if that is known, where the text was shortened; None for no text."""
    if "…" in text and whole is not None:
        return whole
    try:
        value: PythonValue = json.loads(text) if text else None
    except ValueError:
        return text
    return value


def _build_arguments(
    parts: _Parts, containers: Sequence[PythonValue], value: PythonValue, named_items: int
) -> PythonValue:
    """
    Return arguments in which *value* is the last of its array or object.

    What stands before it in an object are the texts in the same one of *containers* that may name the value.
    """
    for (_, step), container in zip(reversed(parts), reversed(containers), strict=True):
        if isinstance(step, int):
            value = [*[None] * min(step, named_items), value]
        elif step == "value" and isinstance(container, dict):
            names = {key: name for key in NAMING_KEYS if type(name := container.get(key)) is str}
            value = {**names, step: value}
        else:
            value = {step: value}
    return value


def _find_shown_place(parts: _Parts, given: PythonValue, redact: _Redact, make_marker: Callable[[str], str]) -> _Place:
    """Return what may be shown of the place to which the *parts* of a path lead in the arguments that were *given*."""
    clean, place = redact(given), _Place("$", False, [])
    for number, (text, step) in enumerate(parts):
        if isinstance(given, dict) and isinstance(clean, dict):
            (*_, (key, clean)), given = clean.items(), given[step]
            place.path += text if key == step else f".{key}"
            place.hidden_keys += [] if key == step else [str(step)]
        elif isinstance(given, list) and isinstance(clean, list):
            clean, given = clean[-1], given[-1]
            place.path += text
        else:  # a marker stands for all of it
            place.path += f".{make_marker(step)}" if isinstance(step, str) else ""
            place.hidden_keys += [key for _, key in parts[number:] if isinstance(key, str)]
            break
    place.is_hidden = pack_value(clean) != pack_value(given)
    return place


def redact_quotations(event: object, redact_text: Callable[[str], str]) -> dict[str, object]:
    """Return what quotes arguments in *event*, without secrets: problems, repairs and the reason of the decision."""

    def redact(quoting: QuotingT, fields: tuple[str, ...]) -> QuotingT:
        return msgspec.structs.replace(quoting, **{name: redact_text(getattr(quoting, name)) for name in fields})

    changes: dict[str, object] = {
        name: tuple(redact(quoting, fields) for quoting in getattr(event, name))
        for name, fields in _QUOTING_FIELDS.items()
        if getattr(event, name, ())
    }
    if (decision := getattr(event, "decision", None)) is not None:
        changes["decision"] = attrs.evolve(decision, reason=redact_text(decision.reason))
    return changes
