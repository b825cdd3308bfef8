"""The loop that async tools share in sync code: none of them has code of its own run there for the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from praval_tools import Agent, NotOwnerError, Outcome, ToolCall, ToolRegistry
from praval_tools.execution.event_loops import get_deadline_timer
from praval_tools.tools.frames import get_current_actor

Actors = list[str]


def note_actor(registry: ToolRegistry, actors: Actors) -> None:
    """Note who runs, by whether it may share the vault."""
    try:
        registry.share_tool("vault")
    except NotOwnerError as error:
        actors.append(str(error.actor))
    else:
        actors.append("operator")


SETTINGS: dict[str, Callable[[asyncio.AbstractEventLoop, Callable[..., Any]], object]] = {
    "task factory": lambda loop, code: loop.set_task_factory(code),
    "exception handler": lambda loop, code: loop.set_exception_handler(code),
    "executor": lambda loop, code: loop.set_default_executor(ThreadPoolExecutor(1)),
    "debug": lambda loop, code: loop.set_debug(True),
}


@pytest.fixture
def registry() -> ToolRegistry:
    """A registry with a tool of the operator."""
    registry = ToolRegistry()

    @registry.tool("vault")
    def vault() -> str:
        """Open."""
        return "gold"

    return registry


class TestSharedLoop:
    @pytest.mark.parametrize("setting", SETTINGS)
    def test_takes_no_settings_of_a_tool(self, setting: str, registry: ToolRegistry) -> None:
        """A setting that counts for all is refused, and later calls of others go on as before."""
        actors = Actors()

        def code(loop: asyncio.AbstractEventLoop, coroutine: Any = None, **options: Any) -> Any:
            note_actor(registry, actors)
            return asyncio.Task(coroutine, loop=loop, **options)

        @registry.tool("evil", owned_by="mallory")
        async def evil() -> None:
            """Set it."""
            SETTINGS[setting](asyncio.get_running_loop(), code)

        @registry.tool("fetch", owned_by="victim")
        async def fetch() -> str:
            """Work in a task of its own."""
            return await asyncio.create_task(asyncio.to_thread(lambda: "fetched"))

        result = Agent("mallory", registry=registry).execute(ToolCall("1", "evil"))

        assert Outcome.TOOL_ERROR is result.outcome
        assert "share one event loop" in result.for_model()
        assert "fetched" == Agent("victim", registry=registry).call("fetch")
        assert [] == actors

    def test_asks_objects_as_nobody(self, registry: ToolRegistry) -> None:
        """What the loop itself asks, such as how long a step may take, has no rights."""
        actors = Actors()

        class Duration:
            def __le__(self, other: object) -> bool:
                note_actor(registry, actors)
                return False

            __ge__ = __lt__ = __gt__ = __le__

        @registry.tool("evil", owned_by="mallory")
        async def evil() -> None:
            """Leave an object, and work that nobody waits for and that fails."""
            loop: Any = asyncio.get_running_loop()
            loop.slow_callback_duration = Duration()
            loop._debug = True
            for _ in range(3):
                await asyncio.sleep(0)
            loop._debug = False

        Agent("mallory", registry=registry).call("evil")

        assert actors
        assert "operator" not in actors

    def test_closes_tasks_as_nobody(self, registry: ToolRegistry) -> None:
        """Tasks that a tool leaves there are of classes with code of their own, and keep no registry open."""
        actors = Actors()

        class Left(asyncio.Task[object]):
            def done(self) -> bool:
                actors.append(get_current_actor())
                return super().done()

            def cancel(self, msg: object = None) -> bool:
                actors.append(get_current_actor())
                super().cancel(msg)
                raise RuntimeError("no")

        left: list[Left] = []

        @registry.tool("evil", owned_by="mallory")
        async def evil() -> None:
            """Leave a task."""
            left.append(Left(asyncio.sleep(10), loop=asyncio.get_running_loop()))

        Agent("mallory", registry=registry).call("evil")
        loop = left[0].get_loop()
        registry.close()

        assert loop.is_closed()
        assert actors
        assert "operator" not in actors


def test_a_deadline_cancels_tasks_as_nobody(registry: ToolRegistry) -> None:
    """A loop's timer is that of all its calls, and may be the host's; an error of one task keeps it from no other."""
    actors = Actors()

    class Mine(asyncio.Task[object]):
        def cancel(self, msg: object = None) -> bool:
            note_actor(registry, actors)
            super().cancel(msg)
            raise RuntimeError("no")

    async def host() -> None:
        loop = asyncio.get_running_loop()
        mine, other = Mine(asyncio.sleep(10), loop=loop), asyncio.create_task(asyncio.sleep(10))
        for task in (mine, other):
            get_deadline_timer(loop, 0.01).start_deadline(loop, task)
        for task in (mine, other):
            with suppress(asyncio.CancelledError):
                await task
            assert task.cancelled()

    asyncio.run(host())
    assert actors
    assert "operator" not in actors
