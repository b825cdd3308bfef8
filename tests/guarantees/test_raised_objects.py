"""Exceptions of an agent's class run no code of it as the host, whatever they leave on their way out."""

# Tests of: execution/batch, execution/event_loops

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from praval_tools import Agent, NotOwnerError, ToolCall, ToolRegistry

Seen = list[tuple[str, str]]


def make_error_class(registry: ToolRegistry, seen: Seen, base: type[BaseException]) -> type[BaseException]:
    """Return a class of errors whose methods note who runs them."""
    is_busy: list[bool] = []

    def note(method: str) -> None:
        if is_busy:
            return
        is_busy.append(True)
        try:
            registry.share_tool("vault")
        except NotOwnerError as error:
            seen.append((method, str(error.actor)))
        else:
            seen.append((method, "operator"))
        finally:
            is_busy.clear()

    class Kind(type):
        def __eq__(cls, other: object) -> bool:
            note("__eq__ of its class")
            return cls is other

        def __hash__(cls) -> int:
            note("__hash__ of its class")
            return 1

    class Raised(base, metaclass=Kind):  # type: ignore[misc, valid-type]
        def __setattr__(self, name: str, value: object) -> None:
            note(f"__setattr__ {name}")
            super().__setattr__(name, value)

        def __getattribute__(self, name: str) -> object:
            note(name)
            return super().__getattribute__(name)

        def __bool__(self) -> bool:
            note("__bool__")
            return True

        def __eq__(self, other: object) -> bool:
            note("__eq__")
            return self is other

        def __hash__(self) -> int:
            note("__hash__")
            return 1

        def __repr__(self) -> str:
            note("__repr__")
            return "raised"

    return Raised


def run(work: Coroutine[Any, Any, object]) -> None:
    """Run the host's work; what it raises is kept from the loop, which would ask it for its class."""

    async def keep() -> None:
        with suppress(BaseException):
            await work

    asyncio.run(keep())


def call_inside(registry: ToolRegistry, call: Callable[[], object]) -> None:
    """Call inside of blocks of the registry."""
    with registry.change():
        call()


async def await_inside(registry: ToolRegistry, mallory: Agent) -> None:
    """Await inside of a run."""
    async with registry.run("1"):
        await mallory.acall("evil_async")


Way = Callable[[ToolRegistry, Agent], object]

WAYS: dict[str, Way] = {
    "function": lambda registry, mallory: mallory(),
    "function in a change": lambda registry, mallory: call_inside(registry, mallory),
    "function in two changes": lambda registry, mallory: call_inside(registry, lambda: call_inside(registry, mallory)),
    "tool": lambda registry, mallory: mallory.call("evil"),
    "tool that runs alone": lambda registry, mallory: mallory.call("evil_alone"),
    "async tool that runs alone": lambda registry, mallory: run(mallory.acall("evil_async_alone")),  # type: ignore[arg-type]
    "async tool in sync code": lambda registry, mallory: mallory.call("evil_async"),
    "async tool": lambda registry, mallory: run(mallory.acall("evil_async")),  # type: ignore[arg-type]
    "async tool in a run": lambda registry, mallory: run(await_inside(registry, mallory)),
    "batch": lambda registry, mallory: mallory.execute_batch([ToolCall(None, "evil"), ToolCall(None, "evil_async")]),
    "async batch": lambda registry, mallory: run(
        mallory.aexecute_batch([ToolCall(None, "evil"), ToolCall(None, "evil_async")])
    ),
}
BASES = [Exception, StopIteration, asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit, BaseException]


def declare(base: type[BaseException], seen: Seen) -> Agent:
    """Return an agent whose function and tools raise."""
    registry = ToolRegistry(journal="memory")
    raised = make_error_class(registry, seen, base)

    @registry.tool("vault")
    def vault() -> str:
        """Open."""
        return "gold"

    def evil() -> str:
        """Raise."""
        raise raised("x")

    async def evil_async() -> str:
        """Raise."""
        await asyncio.sleep(0)
        raise raised("x")

    registry.tool("evil", owned_by="mallory")(evil)
    registry.tool("evil_async", owned_by="mallory")(evil_async)
    registry.tool("evil_alone", owned_by="mallory", concurrency_safe=False)(evil)
    registry.tool("evil_async_alone", owned_by="mallory", concurrency_safe=False)(evil_async)
    return Agent("mallory", registry=registry, function=evil)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("way", WAYS)
def test_run_nothing_as_the_host(way: str, base: type[BaseException]) -> None:
    """Neither the blocks of the registry, nor event loops, threads and batches ask or set anything of them."""
    seen = Seen()
    mallory = declare(base, seen)

    with suppress(BaseException):
        WAYS[way](mallory.registry, mallory)

    assert [] == [entry for entry in seen if entry[1] == "operator"]


class Fatal(BaseException):
    """What ends a call without a result."""


def test_end_a_batch_as_they_are() -> None:
    """What a call of an async batch raises comes out of it, after the others were cancelled and have ended."""
    registry, ended = ToolRegistry(), list[str]()

    @registry.tool("fail", owned_by="clerk")
    async def fail() -> None:
        """Fail."""
        raise Fatal

    @registry.tool("wait", owned_by="clerk")
    async def wait() -> None:
        """Wait."""
        try:
            await asyncio.sleep(10)
        finally:
            ended.append("wait")

    clerk = Agent("clerk", registry=registry)

    async def host() -> None:
        with pytest.raises(Fatal):
            await clerk.aexecute_batch([ToolCall("1", "wait"), ToolCall("2", "fail")])

    asyncio.run(host())
    assert ["wait"] == ended
