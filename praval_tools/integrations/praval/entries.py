"""Read-only dicts and lists that Praval reads as an attached agent's tools, and the functions that it calls in them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextvars import Context, copy_context
from typing import Any, Final, TypeVar

T = TypeVar("T")

Arguments = dict[str, Any]

_MISSING: Final = object()


class ToolEntry(dict[str, Any]):
    """
    What Praval reads of one tool, built from the registry.

    It is built anew whenever it is read, so that a change to it would be lost; it refuses changes.
    """

    shown: list[str] = []
    """What a person who is asked for an approval is shown of the tool; empty where nobody is asked."""

    def __setitem__(self, key: str, value: object) -> None:
        raise TypeError(
            f"The agent is attached, and {self.get('name')!r} is read from the registry: "
            f"registry.configure({self.get('name')!r}, {key}=…) changes it."
        )

    def __delitem__(self, key: str) -> None:
        self[key] = None

    def update(self, *args: Any, **fields: object) -> None:
        """Refuse the change."""
        self[next(iter(dict(*args, **fields)), "")] = None

    def __reduce__(self) -> tuple[object, ...]:
        return dict, (dict(self),)


class LiveList(list[T]):
    """
    A list that is read anew whenever it is iterated: Praval copies its tools once a chat.

    Args:
        read_items: Returns what is in it now.
        allowed_names: The tools that the chat was narrowed to; None: all.
    """

    def __init__(self, read_items: Callable[[], list[T]], allowed_names: tuple[str, ...] | None = None) -> None:
        super().__init__(read_items())
        self._read_items, self.allowed_names = read_items, allowed_names

    def __iter__(self) -> Iterator[T]:
        fresh = self._read_items()
        self[:] = fresh  # for those who look at the list without iterating
        return iter(fresh)

    def __len__(self) -> int:
        return len(self._read_items())

    def __bool__(self) -> bool:
        return bool(self._read_items())


def build_entry_function(
    name: str,
    call: Callable[[Arguments], object],
    acall: Callable[[Arguments], Awaitable[object]],
    *,
    signature: inspect.Signature | None,
    is_async: bool | None,
) -> Callable[..., Any]:
    """
    Return the function of an entry.

    Praval checks arguments by the function's signature before the registry does.
    This one accepts any: to Praval a parameter without a hint is a known one, and `**arguments` are extras.

    Args:
        name: Its `__name__`: providers offer the tool under it.
        call: Calls the tool from sync code.
        acall: Calls it from async code.
        signature: The tool's own, for arguments that are given by position.
        is_async: Whether it returns an awaitable; None: at each call, if an event loop runs in this thread.
    """

    def function(*args, _=_MISSING, **arguments):  # type: ignore[no-untyped-def]
        if _ is not _MISSING:
            arguments["_"] = _
        if args:
            positional = signature.bind_partial(*args).arguments if signature is not None else {}
            arguments = {**positional, **arguments}
        if is_async or (is_async is None and _is_loop_running()):
            return _run_in_context(lambda: acall(arguments), copy_context())
        return call(arguments)

    function.__name__ = function.__qualname__ = name
    return function


def _is_loop_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _run_in_context(call: Callable[[], Awaitable[T]], context: Context) -> T:
    """Run in the context of the chat: Praval may run an awaitable in a thread of its own."""

    async def run() -> T:
        return await call()

    return await asyncio.get_running_loop().create_task(run(), context=context)
