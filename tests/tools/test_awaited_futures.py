"""What an agent's code waits for, of a class of its own, is asked nothing as somebody else; waiting goes on as ever."""

# Tests of: tools/awaited_futures

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from typing import Any, TypeVar

import pytest

from praval_tools import Agent, NotOwnerError, Outcome, ToolCall, ToolRegistry

T = TypeVar("T")
Seen = list[tuple[str, str]]
"""Who ran which method."""


class Probe:
    """
    Notes who runs the methods of an agent's objects, by what they may not do.

    Args:
        registry: It has the operator's tool `vault`.
    """

    def __init__(self, registry: ToolRegistry) -> None:
        self.registry, self.seen = registry, Seen()

        @registry.tool("vault")
        def vault() -> str:
            """Open."""
            return "gold"

    def note(self, method: str) -> None:
        """Try to share the vault, and note who was refused."""
        try:
            self.registry.share_tool("vault")
        except NotOwnerError as error:
            self.seen.append((method, str(error.actor)))
        else:
            self.seen.append((method, "operator"))

    def get_actors(self) -> set[str]:
        """Return who ran anything."""
        return {actor for _, actor in self.seen}


class Methods:
    """The methods that a task calls, each of which notes who runs it."""

    probe: Probe

    def add_done_callback(self, function: Any, *, context: Any = None) -> None:
        self.probe.note("add_done_callback")
        super().add_done_callback(function, context=context)  # type: ignore[misc]

    def get_loop(self) -> asyncio.AbstractEventLoop:
        self.probe.note("get_loop")
        return super().get_loop()  # type: ignore[misc, no-any-return]

    def result(self) -> object:
        self.probe.note("result")
        return super().result()  # type: ignore[misc]

    def cancel(self, msg: object = None) -> bool:
        self.probe.note("cancel")
        return super().cancel(msg)  # type: ignore[misc, no-any-return]

    def __repr__(self) -> str:
        self.probe.note("__repr__")
        return "mine"


class OwnFuture(Methods, asyncio.Future[object]):
    """A future of an agent's class."""


class OwnTask(Methods, asyncio.Task[object]):
    """A task of an agent's class."""


class Bare:
    """An object that is yielded as if it were a future."""

    def __init__(self, probe: Probe, blocking: object) -> None:
        self.probe, self.blocking = probe, blocking

    @property
    def _asyncio_future_blocking(self) -> object:
        self.probe.note("blocking")
        return self.blocking

    def get_loop(self) -> object:
        """Return no loop at all."""
        self.probe.note("get_loop")
        return object()

    def __repr__(self) -> str:
        self.probe.note("__repr__")
        return "bare"

    def __await__(self) -> Generator[object, object, None]:
        yield self


@pytest.fixture
def probe() -> Probe:
    """The probe of a registry."""
    probe = Probe(ToolRegistry())
    Methods.probe = probe
    return probe


async def wait_for_future() -> object:
    """Await a future of the agent's class."""
    loop = asyncio.get_running_loop()
    future = OwnFuture(loop=loop)
    loop.call_later(0.02, lambda: future.done() or future.set_result("waited"))
    return await future


async def wait_for_task() -> object:
    """Await a task of the agent's class."""
    return await OwnTask(asyncio.sleep(0.02, "waited"), loop=asyncio.get_running_loop())


async def wait_behind_task() -> object:
    """Await a plain task, which waits for a future of the agent's class."""
    return await asyncio.create_task(wait_for_future())


async def wait_behind_group() -> object:
    """Await a group of futures, one of them of the agent's class."""
    return (await asyncio.gather(wait_for_task(), wait_for_future()))[0]


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run the host's work; `asyncio.run` asks at its end whatever tasks there are, which is not the subject here."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


Wait = Callable[[], Awaitable[object]]
WAITS: list[Wait] = [wait_for_future, wait_for_task, wait_behind_task, wait_behind_group]


def declare(probe: Probe, wait: Wait, timeout: float | None = None) -> Agent:
    """Return the agent whose function and tool `evil` wait."""

    async def evil() -> str:
        """Wait."""
        return str(await wait())

    probe.registry.tool("evil", owned_by="mallory", timeout=timeout)(evil)
    return Agent("mallory", registry=probe.registry, function=wait)


async def cancel_soon(work: Awaitable[object]) -> None:
    """Cancel what has begun to wait."""
    task = asyncio.ensure_future(work)
    for _ in range(3):
        await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


WAYS: dict[str, Callable[[Agent], object]] = {
    "acall": lambda mallory: run(mallory.acall("evil")),  # type: ignore[arg-type]
    "call": lambda mallory: mallory.call("evil"),
    "function": lambda mallory: run(mallory()),
    "aexecute": lambda mallory: run(mallory.registry.aexecute(ToolCall(None, "evil", {}, "mallory"))),
    "batch": lambda mallory: run(mallory.aexecute_batch([ToolCall(None, "evil", {})])),
    "acall, cancelled": lambda mallory: run(cancel_soon(mallory.acall("evil"))),
    "function, cancelled": lambda mallory: run(cancel_soon(mallory())),
}
"""How the host waits for an agent's code."""


class TestWhoRuns:
    @pytest.mark.parametrize("wait", WAITS)
    @pytest.mark.parametrize("way", WAYS)
    def test_what_the_agent_waits_for(self, way: str, wait: Wait, probe: Probe) -> None:
        """No method of a future or task of an agent's class runs as the host that awaits the agent's code."""
        WAYS[way](declare(probe, wait))

        assert {"mallory"} == probe.get_actors()

    @pytest.mark.parametrize("wait", WAITS)
    @pytest.mark.parametrize("way", ["acall", "call"])
    def test_at_the_end_of_its_time(self, way: str, wait: Wait, probe: Probe) -> None:
        """Nor does one whose call takes too long."""
        with suppress(Exception):
            WAYS[way](declare(probe, wait, timeout=0.005))

        assert {"mallory"} == probe.get_actors()

    def test_a_task_that_is_returned(self, probe: Probe) -> None:
        """Nor does one of a task that a function of the agent returned."""
        mallory = Agent(
            "mallory",
            registry=probe.registry,
            function=lambda: OwnTask(asyncio.sleep(0.01, "returned"), loop=asyncio.get_running_loop()),
        )

        async def host() -> object:
            return await mallory()

        assert "returned" == run(host())
        assert {"mallory"} == probe.get_actors()

    @pytest.mark.parametrize("blocking", [True, False, None], ids=str)
    def test_objects_that_are_no_futures(self, blocking: bool | None, probe: Probe) -> None:
        """What a task cannot wait for is refused as ever, and its code runs as the agent's."""

        async def wait() -> object:
            return await Bare(probe, blocking)

        mallory = declare(probe, wait)

        with pytest.raises(RuntimeError, match=r"bad yield|different loop"):
            run(mallory())
        assert {"mallory"} == probe.get_actors()

    def test_plain_futures_that_do_not_fit(self, probe: Probe) -> None:
        """A future of another loop is refused without being quoted with its value."""
        other = asyncio.new_event_loop()

        async def wait() -> object:
            future = other.create_future()
            future.add_done_callback(Bare(probe, None))  # type: ignore[arg-type]
            return await future

        with pytest.raises(RuntimeError, match="different loop"):
            run(declare(probe, wait)())
        other.close()
        assert set() == probe.get_actors()


class TestWaiting:
    @pytest.mark.parametrize("wait", WAITS)
    def test_gives_the_value(self, wait: Wait, probe: Probe) -> None:
        """The work goes on with the value of what it waited for."""
        assert "waited" == declare(probe, wait).call("evil")

    @pytest.mark.parametrize("kind", [asyncio.Future, OwnFuture])
    def test_raises_the_error(self, kind: type[asyncio.Future[object]], probe: Probe) -> None:
        """The work gets the error, and may go on."""

        async def wait() -> object:
            future = kind(loop=asyncio.get_running_loop())
            asyncio.get_running_loop().call_soon(future.set_exception, KeyError("lost"))
            try:
                return await future
            except KeyError as error:
                return error.args[0]

        assert "lost" == declare(probe, wait).call("evil")

    @pytest.mark.parametrize("kind", [asyncio.Task, OwnTask])
    def test_a_cancellation_reaches_the_innermost_work(self, kind: type[asyncio.Task[object]], probe: Probe) -> None:
        """It has its message there, and the host waits until that work has cleaned up."""
        notes: list[object] = []

        async def clean_up() -> None:
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError as error:
                await asyncio.sleep(0.01)
                notes.append(error.args)
                raise

        async def wait() -> object:
            return await kind(clean_up(), loop=asyncio.get_running_loop())

        async def host(mallory: Agent) -> None:
            task = asyncio.ensure_future(mallory())
            await asyncio.sleep(0.005)
            task.cancel("enough")
            with pytest.raises(asyncio.CancelledError):
                await task
            assert task.cancelled()

        run(host(declare(probe, wait)))
        assert [("enough",)] == notes

    def test_work_that_swallows_its_cancellation_gives_its_value(self, probe: Probe) -> None:
        """A task that ends well in spite of it ends the work well, as where the host awaits that task itself."""

        async def swallow() -> str:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(10)
            return "well"

        async def wait() -> object:
            return await OwnTask(swallow(), loop=asyncio.get_running_loop())

        async def host(mallory: Agent) -> object:
            task = asyncio.ensure_future(mallory())
            await asyncio.sleep(0.005)
            task.cancel()
            return await task

        assert "well" == run(host(declare(probe, wait)))

    def test_a_future_that_refuses_to_be_cancelled_keeps_nobody(self, probe: Probe) -> None:
        """The work itself is cancelled then."""

        class Stubborn(OwnFuture):
            def cancel(self, msg: object = None) -> bool:
                return False

        async def wait() -> object:
            return await Stubborn(loop=asyncio.get_running_loop())

        async def host(mallory: Agent) -> None:
            task = asyncio.ensure_future(mallory())
            await asyncio.sleep(0.005)
            task.cancel()
            await task

        with pytest.raises(asyncio.CancelledError):
            run(host(declare(probe, wait)))

    @pytest.mark.parametrize("wait", WAITS)
    def test_a_time_limit_of_the_host_counts(self, wait: Wait, probe: Probe) -> None:
        """`asyncio.timeout` around the agent's code ends in a `TimeoutError`, and leaves no cancellation behind."""

        async def host(mallory: Agent) -> int:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.005):
                    await mallory()
            task = asyncio.current_task()
            assert task is not None
            return task.cancelling()

        assert 0 == run(host(declare(probe, wait)))

    @pytest.mark.parametrize("is_async", [True, False])
    def test_a_task_does_not_wait_for_itself(self, is_async: bool, probe: Probe) -> None:
        """Broken promise: a call ended by itself; one whose tool awaited its own task never did."""

        @probe.registry.tool("wait", owned_by="mallory")
        async def wait() -> None:
            """Wait for the task that runs this."""
            task = asyncio.current_task()
            assert task is not None
            await task

        call = ToolCall("1", "wait", {}, "mallory")
        result = asyncio.run(probe.registry.aexecute(call)) if is_async else probe.registry.execute(call)

        assert Outcome.TOOL_ERROR is result.outcome and "Task cannot await on itself" in str(result.error)

    @pytest.mark.parametrize("wait", WAITS)
    def test_a_time_limit_of_the_agent_counts(self, wait: Wait, probe: Probe) -> None:
        """So does one inside of it."""

        async def wait_briefly() -> str:
            try:
                async with asyncio.timeout(0.005):
                    await wait()
            except TimeoutError:
                return "late"
            return "in time"

        assert "late" == declare(probe, wait_briefly).call("evil")

    def test_without_a_loop_whoever_drives_the_work_gets_what_it_yields(self, probe: Probe) -> None:
        """Such as another kind of event loop, for its own objects."""
        sign = object()

        class Sign:
            def __await__(self) -> Generator[object, object, object]:
                return (yield sign)

        async def wait() -> object:
            return await Sign()

        work: Any = declare(probe, wait)()
        assert sign is work.send(None)
        with pytest.raises(StopIteration, match="answer"):
            work.send("answer")

    def test_a_change_that_a_future_leaves_open_is_undone(self, probe: Probe) -> None:
        """Nobody waits for the lock of a `change()` that a method of it opened."""

        class Opening(OwnFuture):
            def add_done_callback(self, function: Any, *, context: Any = None) -> None:
                probe.registry.change().__enter__()
                super().add_done_callback(function, context=context)

        async def wait() -> object:
            return await Opening(loop=asyncio.get_running_loop())

        result = run(declare(probe, wait).aexecute_batch([ToolCall("1", "evil", {})]))[0]

        assert Outcome.OK is not result.outcome
        assert "left a change()" in result.for_model()
        probe.registry.share_tool("vault")
