"""An attached agent's `tools`: the dictionary that Praval reads and writes, live and checked."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, ItemsView, Iterator, Mapping, MutableMapping, ValuesView
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, Final

from praval_tools.errors import ToolUsageError
from praval_tools.names import to_wire_name

if TYPE_CHECKING:
    from praval_tools.integrations.praval.attachment import Attachment

_MISSING: Final = object()


class ToolEntry(dict[str, Any]):
    """
    What Praval is told of one tool, read from the registry.

    It is made anew whenever it is asked for, so that a change to it would be lost; it refuses changes.
    """

    def __setitem__(self, key: str, value: Any) -> None:
        raise TypeError(
            f"The agent is attached, and {self.get('name')!r} is read from the registry: "
            f"registry.configure({self.get('name')!r}, {key}=…) changes it."
        )

    def __delitem__(self, key: str) -> None:
        self[key] = None

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Refuse the change."""
        self[next(iter(dict(*args, **kwargs)), "")] = None

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


class AgentToolEntries(MutableMapping[str, dict[str, Any]]):
    """The tools that the agent may call now, under the names that they were declared with."""

    def __init__(self, attachment: Attachment) -> None:
        self.attachment = attachment
        self.written: dict[str, Any] = {}
        self.deleted: set[str] = set()

    def __iter__(self) -> Iterator[str]:
        return iter(self.attachment.names())

    def __len__(self) -> int:
        return len(self.attachment.names())

    def __getitem__(self, name: str) -> dict[str, Any]:
        here = self.attachment.names().get(name)
        found = self.attachment.entries((here,)) if here is not None else ()
        if not found:
            raise KeyError(name)
        return found[0]

    def values(self) -> ValuesView[dict[str, Any]]:
        """Return the entries of one moment: a tool that is taken away while they are gone through is no error."""
        return self._snapshot_entries().values()

    def items(self) -> ItemsView[str, dict[str, Any]]:
        """Return names and entries of one moment."""
        return self._snapshot_entries().items()

    def _snapshot_entries(self) -> dict[str, dict[str, Any]]:
        names = {to_wire_name(here): name for name, here in self.attachment.names().items()}
        found = {one["name"]: one for one in self.attachment.entries()}
        return {name: found[wire] for wire, name in names.items() if wire in found}

    def __setitem__(self, name: str, entry: dict[str, Any]) -> None:
        if not isinstance(entry, Mapping) or not callable(entry.get("function")):
            raise ToolUsageError(f"An entry of an agent's tools has a 'function'; {name!r} got {entry!r}.")
        self.attachment.take(name, entry)
        self.written[name] = entry
        self.deleted.discard(name)

    def __delitem__(self, name: str) -> None:
        self.attachment.drop(name)
        self.written.pop(name, None)
        self.deleted.add(name)

    def __repr__(self) -> str:
        return f"<tools of {self.attachment.agent.name!r}: {', '.join(self) or 'none'}>"


class LiveList(list[Any]):
    """
    A list that is read anew from *source* whenever it is gone through: Praval copies its tools once a chat.

    Args:
        source: Gives what is in it now.
        names: What the chat was narrowed to; None: everything.
    """

    def __init__(self, source: Callable[[], list[Any]], names: tuple[str, ...] | None = None) -> None:
        super().__init__(source())
        self._read_items, self.allowed_names = source, names

    def __iter__(self) -> Iterator[Any]:
        fresh = self._read_items()
        self[:] = fresh  # for those who look at the list without going through it
        return iter(fresh)

    def __len__(self) -> int:
        return len(self._read_items())

    def __bool__(self) -> bool:
        return bool(self._read_items())


def build_entry_function(
    name: str, call: Callable[[dict[str, Any]], Any], acall: Callable[[dict[str, Any]], Awaitable[Any]],
    *, signature: inspect.Signature | None, awaited: bool | None,
) -> Callable[..., Any]:  # fmt: skip
    """
    Return what stands in an entry as its function.

    Praval checks arguments by the function's signature before we do; it lets all through here, since it takes
    the parameter without a hint for one that it knows, and the rest for extras.

    Args:
        name: What `__name__` is: providers offer the tool under it.
        call: Calls the tool from sync code.
        acall: Calls it from async code.
        signature: The tool's own, for arguments that are given by position.
        awaited: Whether the result is to be awaited; None: where an event loop runs in this thread.
    """

    def function(*args, _=_MISSING, **arguments):  # type: ignore[no-untyped-def]
        if _ is not _MISSING:
            arguments["_"] = _
        if args:
            positional = signature.bind_partial(*args).arguments if signature is not None else {}
            arguments = {**positional, **arguments}
        if awaited or (awaited is None and _is_loop_running()):
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


async def _run_in_context(make: Callable[[], Awaitable[Any]], context: Context) -> Any:
    """Run in the context of the chat: Praval may run what is to be awaited in a thread of its own."""

    async def run() -> Any:
        return await make()

    return await asyncio.get_running_loop().create_task(run(), context=context)
