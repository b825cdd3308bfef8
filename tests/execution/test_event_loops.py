"""The loop that async tools share in sync code: none of them has code of its own run there for the others."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import ContextVar
from typing import Any

import pytest

from praval_tools import Agent, NotOwnerError, Outcome, ToolCall, ToolContext, ToolRegistry, use_registry
from praval_tools.execution.event_loops import get_deadline_timer
from praval_tools.tools.frames import get_current_actor

Actors = list[str]
Collection = Callable[[ToolRegistry, threading.Event], None]


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
    "stop": lambda loop, code: loop.stop(),
    "shutdown of the executor": lambda loop, code: loop.shutdown_default_executor(),
    "shutdown of async generators": lambda loop, code: loop.shutdown_asyncgens(),
}

ERRORS = [RuntimeError, asyncio.CancelledError, SystemExit, KeyboardInterrupt]


def collect_as_agent(registry: ToolRegistry, ended: threading.Event) -> None:
    """Have the collector run in the work of an agent that may share the vault, and wait for what it causes."""
    registry.execute(ToolCall(name="collect", agent="bob"), deps=ended)


def collect_in(block: Callable[[ToolRegistry], AbstractContextManager[object]]) -> Collection:
    """Have the collector run in a block of the host, and wait for what it causes."""

    def collect(registry: ToolRegistry, ended: threading.Event) -> None:
        with block(registry):
            gc.collect()
            assert ended.wait(30)

    return collect


COLLECTIONS: dict[str, Collection] = {
    "host": collect_in(lambda registry: nullcontext()),
    "run": collect_in(lambda registry: registry.run("errands")),
    "current registry": collect_in(use_registry),
    "person": collect_in(lambda registry: registry.as_operator(person="ann")),
    "agent": collect_as_agent,
}


@pytest.fixture
def registry() -> Iterator[ToolRegistry]:
    """A registry with a vault, and an agent that owns it and has the collector run."""
    registry = ToolRegistry(journal="memory")

    @registry.tool("vault", owned_by="bob")
    def vault() -> str:
        """Open."""
        return "gold"

    @registry.tool("collect", owned_by="bob")
    def collect(context: ToolContext[threading.Event]) -> None:
        """Collect."""
        gc.collect()
        assert context.deps.wait(30)

    gc.disable()  # else it may collect before
    yield registry
    gc.enable()


class TestSharedLoop:
    @pytest.mark.parametrize("setting", SETTINGS)
    def test_takes_no_settings_of_a_tool(self, setting: str, registry: ToolRegistry) -> None:
        """What counts for all, such as a setting or its end, is refused, and later calls of others go on as before."""
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

    @pytest.mark.parametrize("collect", COLLECTIONS.values(), ids=COLLECTIONS)
    def test_ends_collected_generators_as_nobody(self, registry: ToolRegistry, collect: Collection) -> None:
        """The collector may find a generator that a tool began while the work of others runs."""
        actors = Actors()
        ended = threading.Event()

        async def count() -> AsyncIterator[int]:
            try:
                yield 1
            finally:
                note_actor(registry, actors)
                ended.set()

        @registry.tool("evil", owned_by="mallory")
        async def evil() -> None:
            """Leave a generator that only the collector finds."""
            cycle: list[object] = [numbers := count()]
            cycle.append(cycle)
            await anext(numbers)

        Agent("mallory", registry=registry).call("evil")
        collect(registry, ended)

        assert actors == ["tool:(loop)"]

    @pytest.mark.parametrize("collect", COLLECTIONS.values(), ids=COLLECTIONS)
    def test_reports_failed_tasks_as_nobody(
        self, registry: ToolRegistry, collect: Collection, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Nobody asked for the exception of a task that the collector finds, so asyncio has it written."""
        actors, ended = Actors(), threading.Event()

        class NoisyError(Exception):
            def __str__(self) -> str:
                note_actor(registry, actors)
                ended.set()
                return "an error"

        async def fail() -> None:
            raise NoisyError

        @registry.tool("evil", owned_by="mallory")
        async def evil() -> None:
            """Leave a task that only the collector finds."""
            cycle: list[object] = [asyncio.create_task(fail())]
            cycle.append(cycle)
            await asyncio.wait(cycle[:1])  # type: ignore[type-var]

        Agent("mallory", registry=registry).call("evil")
        collect(registry, ended)

        assert "an error" in caplog.text
        assert set(actors) == {"tool:(loop)"}

    def test_says_that_a_subprocess_has_ended_as_nobody(self, registry: ToolRegistry) -> None:
        """Asyncio waits for it in a thread of its own."""
        actors = Actors()

        class Protocol(asyncio.SubprocessProtocol):
            def __init__(self) -> None:
                self.ended = asyncio.get_running_loop().create_future()

            def process_exited(self) -> None:
                note_actor(registry, actors)
                self.ended.set_result(None)

        @registry.tool("evil", owned_by="mallory")
        async def evil() -> None:
            """Run a program that ends when its input does."""
            transport, protocol = await asyncio.get_running_loop().subprocess_exec(
                Protocol, sys.executable, "-c", "input()", stdout=None, stderr=None
            )
            pipe: Any = transport.get_pipe_transport(0)
            pipe.write(b"\n")
            await protocol.ended
            transport.close()

        Agent("mallory", registry=registry).call("evil")

        assert actors == ["tool:(loop)"]

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

    def test_calls_from_threads_have_the_variables_of_the_thread(self, registry: ToolRegistry) -> None:
        """And no rights; a variable that such a call sets is set in that call alone."""
        actors, variable = Actors(), ContextVar("variable", default="unset")

        @registry.tool("fetch", owned_by="clerk")
        async def fetch() -> list[str]:
            """Have two threads call back, one after the other; the first one sets a variable."""
            loop, seen = asyncio.get_running_loop(), list[str]()

            def call_back(value: str | None) -> asyncio.Future[None]:
                called = loop.create_future()

                def note() -> None:
                    note_actor(registry, actors)
                    seen.append(variable.get())
                    variable.set("changed")
                    called.set_result(None)

                def work() -> None:
                    if value is not None:
                        variable.set(value)
                    loop.call_soon_threadsafe(note)

                threading.Thread(target=work).start()
                return called

            await call_back("of the thread")
            await call_back(None)
            return seen

        assert ["of the thread", "unset"] == Agent("clerk", registry=registry).call("fetch")
        assert ["tool:(loop)"] * 2 == actors

    def test_makes_tasks_of_others_itself(self, registry: ToolRegistry) -> None:
        """A task factory that a tool sets by the method of the base class makes none of them."""
        actors = Actors()

        def make(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> Any:
            note_actor(registry, actors)
            return asyncio.Task(coroutine, loop=loop, **options)

        @registry.tool("evil", owned_by="mallory")
        async def evil() -> None:
            """Set it."""
            loop: Any = asyncio.get_running_loop()
            asyncio.BaseEventLoop.set_task_factory(loop, make)

        @registry.tool("fetch", owned_by="victim")
        async def fetch() -> str:
            """Work in a task of its own."""
            task = asyncio.create_task(asyncio.to_thread(lambda: "fetched"), name="work")
            return f"{await task} by {task.get_name()}"

        Agent("mallory", registry=registry).call("evil")

        assert "fetched by work" == Agent("victim", registry=registry).call("fetch")
        assert [] == actors

    @pytest.mark.parametrize("error", ERRORS)
    @pytest.mark.parametrize("method", ["cancel", "done", "get_loop", "add_done_callback", "__hash__"])
    def test_closes_tasks_whatever_another_raises(
        self, method: str, error: type[BaseException], registry: ToolRegistry
    ) -> None:
        """A task whose class raises as it is asked keeps no other task from its end, and no registry open."""
        ends, is_closing = list[str](), list[bool]()

        def fail(self: object, *args: Any, **options: Any) -> Any:
            if is_closing:
                raise error
            return getattr(asyncio.Task, method)(self, *args, **options)

        kind: Any = type("Left", (asyncio.Task,), {method: fail})
        left: list[asyncio.Task[None]] = []

        async def wait(name: str) -> None:
            try:
                await asyncio.sleep(60)
            finally:
                ends.append(name)

        async def leave() -> None:
            left.append(kind(wait("evil"), loop=asyncio.get_running_loop()))
            left.extend(asyncio.create_task(wait(f"other {number}")) for number in range(3))
            await asyncio.sleep(0)

        registry.tool("leave", description="Leave tasks.", owned_by="mallory")(leave)
        Agent("mallory", registry=registry).call("leave")
        loop = left[0].get_loop()
        is_closing.append(True)
        registry.close()
        is_closing.clear()  # asyncio asks tasks of all loops
        left[0]._log_destroy_pending = False  # type: ignore[attr-defined]  # it may not have ended itself

        assert loop.is_closed()
        assert {"other 0", "other 1", "other 2"} <= set(ends)


@pytest.mark.parametrize("error", ERRORS)
def test_a_deadline_counts_whatever_another_task_raises(error: type[BaseException]) -> None:
    """Tasks whose deadlines have passed with that of a task that raises as it is cancelled are cancelled, too."""

    class Mine(asyncio.Task[object]):
        def cancel(self, msg: object = None) -> bool:
            super().cancel(msg)
            raise error

    loop = asyncio.new_event_loop()
    mine, other = Mine(asyncio.sleep(10), loop=loop), loop.create_task(asyncio.sleep(10))
    for task in (mine, other):
        get_deadline_timer(loop, 0.01).start_deadline(loop, task)
    while not other.done():
        with suppress(KeyboardInterrupt):
            loop.run_until_complete(asyncio.wait([other]))
    loop.close()

    assert other.cancelled()


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
