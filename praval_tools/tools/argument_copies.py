"""Copies arguments of calls: what is judged, run and recorded is what the caller gave at one moment."""

from __future__ import annotations

from typing import TypeVar, cast

from praval_tools.names import get_class_name, has_type, to_plain_text
from praval_tools.schema.json_input import copy_containers
from praval_tools.schema.json_values import are_scalars
from praval_tools.tools.frames import activate_tool_frame

K = TypeVar("K")
T = TypeVar("T")


def copy_arguments(arguments: T) -> T:
    """
    Return a copy of *arguments* whose names run no code of their own.

    Keys deeper inside, which may hash and compare themselves, have no rights meanwhile.
    """
    given: object = arguments
    if type(given) is not dict:
        with activate_tool_frame("(arguments)"):
            return copy_containers(arguments)
    copied: dict[object, object] = given.copy()
    if is_plain(copied):
        return cast("T", copied)
    with activate_tool_frame("(arguments)"):
        return cast("T", copy_containers(copied if are_scalars(copied) else _with_plain_names(copied)))


def is_plain(arguments: dict[K, object]) -> bool:
    """Tell whether all names and values are scalars of plain types; nobody may change *arguments* meanwhile."""
    return are_scalars(arguments) and are_scalars(arguments.values())


def _with_plain_names(arguments: dict[object, object]) -> dict[object, object]:
    """
    Return *arguments* with plain texts as names.

    A key that is not a text, or is the text of another one, becomes an object that is refused with its class's name.
    """
    named = dict[object, object]()
    for key, value in arguments.items():
        name = to_plain_text(key) if has_type(key, str) else key
        if name in named or not are_scalars((name,)):
            name = type(get_class_name(type(key)), (), {})()
        named[name] = value
    return named
