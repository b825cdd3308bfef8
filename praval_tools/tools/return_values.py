"""
Completes what a tool's function returned: iterators are read, once, into a list.

Whoever gets the value gets what is recorded of it. What only an `await` would give is refused where none is possible.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Iterator
from types import CoroutineType
from typing import Any, Final

from praval_tools.errors import ToolUsageError
from praval_tools.names import get_class_name
from praval_tools.schema.spellings import read_marked_values
from praval_tools.schema.tables import take_apart_once
from praval_tools.schema.written_secrets import read_written_secrets
from praval_tools.tools.async_generators import read_items
from praval_tools.tools.value_codec import is_plain_json

COMPLETE_TYPES: Final = frozenset({str, int, float, bool, type(None), bytes, list, dict, tuple, set, frozenset})
"""Values of these types are complete as they are."""


def complete_value(value: object, name: str) -> object:
    """
    Return the value of a tool, of an iterator the list of its items.

    Raises:
        ToolUsageError: It is awaitable or asynchronous: an `await` was forgotten.
    """
    kind = type(value)
    if kind in COMPLETE_TYPES:
        return value
    if issubclass(kind, Iterator):
        return list(value)  # type: ignore[call-overload]
    if issubclass(kind, Awaitable | AsyncIterable):
        if isinstance(value, CoroutineType):
            value.close()
        raise ToolUsageError(
            f"Tool {name!r} returned what only an await gives ({get_class_name(kind)}): await it in the tool, "
            f"and declare what wraps an async function as `async def`."
        )
    return value


async def complete_awaited(value: Any, name: str) -> object:
    """Return the value of what an async tool's function gave: awaited, or the items of an async generator."""
    if isinstance(value, AsyncIterable):
        return await read_items(value)
    return complete_value(await value if isinstance(value, Awaitable) else value, name)


def copy_complete(value: Any) -> Any:
    """
    Return a copy of *value*: of its dicts, lists and tuples, with the iterators inside them read into lists.

    What the tool does to them later is not seen; other objects are the same ones.
    """
    kind = type(value)
    if kind is dict:
        return {key: copy_complete(item) for key, item in value.items()}
    if kind is list or kind is tuple:
        return kind([copy_complete(item) for item in value])
    if kind is set:
        return value.copy()
    return copy_complete(list(value)) if issubclass(kind, Iterator) else value


def write_complete(
    value: object, write: Callable[[object], tuple[object, tuple[str, ...]]], marked_values: list[object]
) -> tuple[object, object, tuple[str, ...]]:
    """
    Return a complete copy of what a tool returned, its JSON, and what is needed to read that.

    It runs code of the value's classes, so a frame without rights is active around it.

    Args:
        value: What the tool returned.
        write: Returns the last two.
        marked_values: Receives what classes mark as secret in the value, also where it cannot be written.

    Raises:
        Unencodable: It has no JSON form; its own code, and iterators, may raise anything else.
    """
    with take_apart_once():
        complete = copy_complete(value)
        found = [] if is_plain_json(complete) else read_marked_values(complete)
        marked_values += found
        json, union_members = write(complete)
        if found:
            marked_values += read_written_secrets(complete, json)
        return complete, json, union_members
