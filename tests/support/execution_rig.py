"""Tools, fixtures and helpers of the tests of calls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from praval_tools import Outcome, ToolCall, ToolRegistry, ToolResult
from praval_tools.registry.decorators import tool

WAIT = 30
"""Seconds after which what hangs fails the test."""


Body = list[Callable[..., Any]]


Run = Callable[..., list[ToolResult]]


class Own(LookupError):
    """An exception of the tool's own."""


FAULTS: dict[str, BaseException] = {
    "boom": Own("oops"), "leave": SystemExit(3), "stop": KeyboardInterrupt(), "give_up": asyncio.CancelledError(),
}  # fmt: skip


KINDS: dict[str, dict[str, Any]] = {
    "add": {}, "off": {"tags": ["off"]}, "asked": {"requires_approval": True}, "alone": {"concurrency_safe": False},
    "theirs": {"owned_by": "bob", "shared": False}, "slow": {"timeout": 0.01}, "probe": {}, **dict.fromkeys(FAULTS, {}),
}  # fmt: skip


def shared(**more: Any) -> Any:
    """Declare a tool for everybody."""
    return tool(**{"shared": True, "description": "For a test.", **more})


def stock(name: str, ran: list[str], body: Body, **more: Any) -> None:
    """Declare a sync and an awaited tool: they fail by their name, or do what *body* says."""

    def now(x: int = 0) -> Any:
        ran.append(name)
        if name in FAULTS:
            raise type(FAULTS[name])(*FAULTS[name].args)
        return body[-1]() if name in ("probe", "alone", "slow") else x

    async def later(x: int = 0) -> Any:
        value = now(x) if name != "slow" else asyncio.Event().wait()
        return await value if hasattr(value, "__await__") else value

    shared(name=name, **more)(now)
    shared(name=f"{name}_later", **more)(later)


@pytest.fixture
def ran() -> list[Any]:
    """What the tools of a test note when they run, such as their names or arguments."""
    return []


@pytest.fixture
def body() -> Body:
    """What the tools `probe` and `alone` do; `slow` waits."""
    return [lambda: threading.Event().wait(0.1)]


@pytest.fixture(params=["fast", "pipeline"])
def home(request: pytest.FixtureRequest, tool_registry: ToolRegistry, ran: list[str], body: Body) -> ToolRegistry:
    """The default registry with tools of all kinds: its calls take the fast path, or need the pipeline."""
    for name, more in KINDS.items():
        stock(name, ran, body, **more)
    tool_registry.disable(tag="off")
    if request.param == "pipeline":
        tool_registry.add_policy(lambda agent, tool, arguments: None)
    return tool_registry


@pytest.fixture(params=["sync", "async"])
def batch(request: pytest.FixtureRequest) -> Run:
    """Run a batch, in both forms."""
    sync = request.param == "sync"
    return lambda home, *given: home.execute_batch(*given) if sync else asyncio.run(home.aexecute_batch(*given))


def mine(tool_name: str, **arguments: Any) -> ToolCall:
    """Return a call of ann's."""
    return ToolCall("1", tool_name, arguments, "ann")


def every_way(home: ToolRegistry, call: ToolCall) -> list[ToolResult]:
    """Run a call by each method twice, so that the second finds a fast function where there can be one."""
    ways = [home.toolset("ann"), home] * 2
    return [one.execute(call) for one in ways] + [asyncio.run(one.aexecute(call)) for one in ways]


async def awaited(home: ToolRegistry, name: str) -> tuple[Any, int]:
    """Return how an awaited call ends, and how often its task is cancelled after it."""
    try:
        found: Any = (await home.aexecute(mine(name))).outcome
    except asyncio.CancelledError:
        found = Outcome.CANCELLED
    await asyncio.sleep(0)
    return found, asyncio.current_task().cancelling()  # type: ignore[union-attr]


def within(work: Callable[[], Any]) -> list[Any]:
    """Return what *work* gives, in a list that is empty where it hangs."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()), daemon=True)
    thread.start()
    thread.join(WAIT)
    return found


LATE = " It may still be running."
