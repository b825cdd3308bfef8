"""What quotes the arguments of a call in its events: problems, repairs and the reason of the decision."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Final, TypeVar

import attrs
import msgspec

from praval_tools.schema.json_pointer import format_json_path

QuotingT = TypeVar("QuotingT", bound=msgspec.Struct)

_QUOTING_FIELDS: Final = {"problems": ("path", "reason", "given"), "repairs": ("path", "given", "became")}
_VALUE_FIELDS: Final = ("given", "became")


def list_hidden_places(event: object, arguments: object, marker: re.Pattern[str]) -> list[str]:
    """Return the JSON paths of what a *marker* stands for in redacted *arguments*, if *event* quotes any."""
    places, left = list[str](), list[tuple[tuple[str | int, ...], object]]()
    if any(getattr(event, name, ()) for name in _QUOTING_FIELDS):
        left.append(((), arguments))
    while left:
        path, value = left.pop()
        if type(value) is str and marker.fullmatch(value):
            places.append(format_json_path(path))
        elif type(value) is dict:
            left += (((*path, str(key)), item) for key, item in value.items())
        elif type(value) is list:
            left += (((*path, index), item) for index, item in enumerate(value))
    return places


def redact_quotations(
    event: object, redact_text: Callable[[str], str], places: Collection[str], marker: re.Pattern[str]
) -> dict[str, object]:
    """Return what quotes arguments without secrets; what is about one of *places*, in it or around it, has no value."""

    def redact(quoting: QuotingT, fields: tuple[str, ...]) -> QuotingT:
        clean = {name: redact_text(getattr(quoting, name)) for name in fields}
        path = clean["path"]
        for place in places:
            if _is_inside(path, place) or _is_inside(place, path):
                clean |= {name: "a secret" for name in _VALUE_FIELDS if clean.get(name)}
            if _is_inside(path, place) and not marker.fullmatch(path[len(place) + 1 :]):
                clean["path"] = place
        return msgspec.structs.replace(quoting, **clean)

    changes: dict[str, object] = {
        name: tuple(redact(quoting, fields) for quoting in getattr(event, name))
        for name, fields in _QUOTING_FIELDS.items()
        if getattr(event, name, ())
    }
    if (decision := getattr(event, "decision", None)) is not None:
        changes["decision"] = attrs.evolve(decision, reason=redact_text(decision.reason))
    return changes


def _is_inside(path: str, outer: str) -> bool:
    """Tell whether a JSON path is *outer*, or leads to something in it."""
    return path.startswith(outer) and path[len(outer) : len(outer) + 1] in ("", ".", "[")
