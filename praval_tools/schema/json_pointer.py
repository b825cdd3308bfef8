"""JSON pointers (`#/rows/3`), read, written and followed; JSON paths (`$.rows[3]`), which messages show."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from praval_tools.lazy_regex import LazyRegex
from praval_tools.names import shorten_repr

_PATH_STEP: Final = LazyRegex(
    r"""\.(?P<name>\w+)|\[(?P<index>\d+)\]|\[(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]"""
)


def resolve_pointer(root: object, pointer: object, default: object = None) -> Any:
    """
    Follow a pointer such as `#/$defs/Address` or `#/items/0`.

    Args:
        root: The document that the pointer starts from.
        pointer: The text of a `$ref`; anything else counts as unresolved.
        default: What to return for an unresolved pointer; pass a sentinel to tell it from null.

    Returns:
        The value at the pointer; *default* where there is none, or where the pointer leaves the document.
    """
    if not isinstance(pointer, str) or (pointer != "#" and not pointer.startswith("#/")):
        return default
    value: Any = root
    for step in split_pointer(pointer):
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return default
    return value


def split_pointer(pointer: str) -> tuple[str, ...]:
    """Return the keys and indexes that a pointer such as `#/paths/~1pets` names: `("paths", "/pets")`."""
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])


def join_pointer(steps: Iterable[str]) -> str:
    """Return the pointer that names *steps*, as `split_pointer` reads them."""
    return "#" + "".join(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in steps)


def format_json_path(steps: Iterable[str | int]) -> str:
    """Return a JSON path: `$.rows[3].amount`; keys that are not identifiers are quoted."""
    text = "$"
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.isidentifier() and step.isascii() and len(step) <= 64:
            text += f".{step}"
        else:
            text += f"[{shorten_repr(step, 64)}]"
    return text


def split_json_path(path: str) -> list[tuple[str, str | int]]:
    """Return the steps of a JSON path, each with its text; of a shortened key, or path, what is left is the step."""
    return list(_iter_path_steps(path))


def _iter_path_steps(path: str) -> Iterator[tuple[str, str | int]]:
    position = 1
    while position < len(path):
        match = _PATH_STEP.match(path, position)
        if match is None:
            yield path[position:], path[position:]
            return
        position = match.end()
        if match["index"]:
            yield match[0], int(match["index"])
        else:
            yield match[0], match["name"] or _read_literal(match["text"])


def _read_literal(text: str) -> str:
    try:
        return str(ast.literal_eval(text))
    except (ValueError, SyntaxError):  # a shortened key, cut inside of an escape
        return text
