"""
Completes what a tool's function returned: iterators are read, once, into a list.

Whoever gets the value gets what is recorded of it. What only an `await` would give is refused where none is possible.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Iterator
from operator import is_
from types import CoroutineType
from typing import Any, Final

from praval_tools.errors import ToolUsageError

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
            f"Tool {name!r} returned what only an await gives ({kind.__name__}): await it in the tool, "
            f"and declare what wraps an async function as `async def`."
        )
    return value


async def complete_awaited(value: Any, name: str) -> object:
    """Return the value of what an async tool's function gave: awaited, or the items of an async generator."""
    if isinstance(value, AsyncIterable):
        return [item async for item in value]
    return complete_value(await value if isinstance(value, Awaitable) else value, name)


def materialize_iterators(value: Any) -> Any:
    """Return *value* with the iterators inside its lists, tuples and dicts read into lists; itself without any."""
    kind = type(value)
    if kind is dict:
        items = {key: materialize_iterators(item) for key, item in value.items()}
        return value if all(items[key] is item for key, item in value.items()) else items
    if kind is list or kind is tuple:
        members = [materialize_iterators(item) for item in value]
        return value if all(map(is_, members, value)) else kind(members)
    return materialize_iterators(list(value)) if issubclass(kind, Iterator) else value
