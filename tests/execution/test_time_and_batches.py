# Tests of: batch, drivers, exclusive, event_loops, context
"""Time-outs, event loops, the context of calls, and batches, on the fast path and in the pipeline."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import pytest
from execution_rig import LATE, WAIT, Body, Own, Run, awaited, batch, body, every_way, home, mine, ran, shared, within  # noqa: F401

from praval_tools import Agent, Outcome, ToolCall, ToolContext, ToolRegistry, errors
from praval_tools.execution.context import current_call
from praval_tools.registry.decorators import current_agent

VAR: ContextVar[str] = ContextVar("var", default="unset")


async def on_loop(work: Callable[[], Any]) -> Any:
    """Do sync work where a loop runs."""
    return work()


class TestTime:
    def test_a_sync_tool_may_still_run(self, home: ToolRegistry) -> None:
        """
        The time-out of a sync tool says that it may still run; the tool can see it, and drains at its end.
        """
        released, seen = threading.Event(), list[bool]()

        @shared(timeout=0.3)
        def stay(context: ToolContext) -> None:
            released.wait(WAIT)
            seen.append(context.cancelled)

        results = [home.execute(mine("stay")), asyncio.run(home.aexecute(mine("stay")))]

        assert [f"Tool 'stay' did not finish within 0.3 s.{LATE}"] * 2 == [one.error for one in results]
        released.set()
        assert (0, [True, True]) == (home.drain(timeout=WAIT), seen)

    def test_a_call_that_never_got_a_thread_is_not_tried_again(self) -> None:
        """Broken promise: it was tried again without end, whatever `retries` said, until a thread was free."""
        registry, entered, go_on = ToolRegistry(retries=1, retry_wait=0), threading.Semaphore(0), threading.Event()

        @registry.tool("hold", shared=True)
        def hold() -> None:
            """Hold a thread."""
            entered.release()
            assert go_on.wait(WAIT)

        @registry.tool("send", shared=True, idempotent=True, timeout=0.01)
        def send() -> None:
            """Send."""

        def fill() -> None:
            registry.execute_batch([ToolCall(None, "hold", {}, "ann")] * 32, 32)

        thread = threading.Thread(target=fill)
        thread.start()
        for _ in range(32):
            assert entered.acquire(timeout=WAIT)
        result = registry.execute(ToolCall(None, "send", {}, "ann"))
        go_on.set()
        thread.join()
        assert (Outcome.TIMEOUT, 0) == (result.outcome, result.attempts)
        registry.close()

    def test_every_attempt_that_still_runs_counts_towards_concurrent(self) -> None:
        """Broken promise: only the last one did, and another call was let in beside an earlier one."""
        registry, events, ended = ToolRegistry(retry_wait=0), [threading.Event() for _ in range(3)], list[int]()

        @registry.tool("send", shared=True, idempotent=True, timeout=0.05, retries=1)
        def send() -> None:
            """Send."""
            assert (event := waits.pop(0)).wait(WAIT)
            ended.append(events.index(event))

        waits = list(events)
        registry.limits.set(tool="send", concurrent=1)
        call = ToolCall(None, "send", {}, "ann")
        assert (Outcome.TIMEOUT, 2) == ((result := registry.execute(call)).outcome, result.attempts)
        events[1].set()
        while ended != [1]:
            threading.Event().wait(0.001)
        assert Outcome.LIMITED is registry.execute(call).outcome
        events[0].set()
        assert 0 == registry.drain(timeout=WAIT)
        events[2].set()
        assert Outcome.OK is registry.execute(call).outcome
        registry.close()

    @pytest.mark.parametrize("answer", [None, ZeroDivisionError, SystemExit])
    def test_a_swallowed_cancellation(self, home: ToolRegistry, body: Body, answer: type[BaseException] | None) -> None:
        """
        Broken promise: a tool that timed out is late, whatever it answers; the caller stays uncancelled.

        It was `ok` where the loop waited for its value, and `timeout` where sync code gave up waiting.
        """
        home.configure("probe_later", timeout=0.01)

        async def stubborn() -> None:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            await asyncio.sleep(0)
            if answer is not None:
                raise answer

        body.append(stubborn)
        results = [*every_way(home, mine("probe_later")), *home.execute_batch([mine("probe_later")] * 2)]

        assert {Outcome.TIMEOUT} == {result.outcome for result in results}
        assert (Outcome.TIMEOUT, 0) == asyncio.run(awaited(home, "probe_later"))
        with pytest.raises(errors.ToolTimeoutError):
            home.toolset("ann").call("probe_later")
        with pytest.raises(errors.ToolTimeoutError):
            asyncio.run(home.toolset("ann").acall("probe_later"))

    def test_somebody_elses_time_out(self, home: ToolRegistry, body: Body) -> None:
        """
        A time-out of the tool's own is its error and no outcome `timeout`; the caller's is the caller's.
        """

        async def wait(seconds: float | None = None) -> None:
            async with asyncio.timeout(seconds):
                await (home.toolset("ann").acall("probe_later") if seconds else asyncio.Event().wait())

        body.append(wait)
        with pytest.raises(TimeoutError) as caught:
            asyncio.run(wait(0.01))
        body.append(lambda: asyncio.wait_for(asyncio.Event().wait(), 0.001))

        assert {"TimeoutError"} == {one.error_type for one in every_way(home, mine("probe_later"))}
        assert TimeoutError is type(caught.value)

    @pytest.mark.parametrize("name", ["give_up", "give_up_later"])
    def test_a_cancellation_of_the_tools_own(self, home: ToolRegistry, name: str) -> None:
        """
        A `CancelledError` that the tool raises is not a time-out, and leaves nobody cancelled.
        """
        assert (Outcome.CANCELLED, 0) == asyncio.run(awaited(home, name))
        assert Outcome.CANCELLED is home.execute(mine(name)).outcome

    @pytest.mark.parametrize("is_recorded", [False, True])
    def test_a_cancellation_that_comes_by_a_greenlet(self, *, is_recorded: bool) -> None:
        """What async code under sync code raises there, as of SQLAlchemy, is the cancellation of the task."""
        concurrency = pytest.importorskip("sqlalchemy.util.concurrency")
        with ToolRegistry(journal="memory" if is_recorded else None) as registry:
            started = asyncio.Event()

            async def wait() -> None:
                started.set()
                await asyncio.Event().wait()

            @registry.tool("query", shared=True)
            def query() -> None:
                """Query."""
                concurrency.await_only(wait())

            async def main() -> None:
                work = concurrency.greenlet_spawn(registry.execute, ToolCall(None, "query", {}, "ann"))
                task = asyncio.ensure_future(work)
                await started.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task

            asyncio.run(main())

    def test_in_a_task_that_was_cancelled_before(self, home: ToolRegistry) -> None:
        """
        A time-out in the clean-up of a cancelled task is a time-out.
        """

        async def main() -> Any:
            asyncio.current_task().cancel()  # type: ignore[union-attr]
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
            return await awaited(home, "slow_later")

        assert (Outcome.TIMEOUT, 1) == asyncio.run(main())

    @pytest.mark.parametrize("name", ["probe", "probe_later"])
    def test_cancelling_the_awaiting_task(self, home: ToolRegistry, body: Body, name: str) -> None:
        """
        It raises at once and cancels an async tool, as its agent; a sync one in its thread goes on to its end.
        """
        entered, released, seen = threading.Semaphore(0), threading.Event(), list[str]()

        async def wait() -> None:
            try:
                entered.release()
                await asyncio.Event().wait()
            finally:
                seen.append(current_agent().name)

        async def main() -> list[Any]:
            tasks = [asyncio.create_task(one) for one in (home.toolset("ann").acall(name), home.aexecute(mine(name)))]
            await asyncio.to_thread(lambda: [entered.acquire(timeout=WAIT) for _ in tasks])
            for task in tasks:
                task.cancel()
            return [type(one) for one in await asyncio.gather(*tasks, return_exceptions=True)]

        body.append(wait if name == "probe_later" else lambda: entered.release() or released.wait(WAIT))
        found, inside = asyncio.run(main()), home.drain(timeout=0)
        released.set()

        assert ([asyncio.CancelledError] * 2, 0) == (found, home.drain(timeout=WAIT))
        assert (inside, seen) == ((2, []) if name == "probe" else (0, ["ann", "ann"]))


class TestContext:
    def test_a_sync_call_where_a_loop_runs(self, home: ToolRegistry) -> None:
        """
        Every sync way to an async tool is refused on a loop's thread, and names `acall`.
        """
        ann = home.toolset("ann")
        ways: list[Callable[[], Any]] = [
            lambda: ann.call("add_later"), lambda: ann.execute(mine("add_later")), ann["add_later"],
            lambda: home.execute(mine("add_later")), lambda: home.execute_tool("add_later"),
        ]  # fmt: skip

        for way in ways:
            with pytest.raises(errors.ToolUsageError, match="await acall") as caught:
                asyncio.run(on_loop(way))
            assert "sync-call-in-event-loop" == caught.value.code

    def test_such_a_call_inside_a_tool(self, home: ToolRegistry, body: Body) -> None:
        """
        Where a tool makes that mistake it is the tool's error: `execute` raises nothing.
        """
        body.append(lambda: current_agent().call("add_later"))

        assert Outcome.TOOL_ERROR == asyncio.run(on_loop(lambda: home.execute(mine("probe")).outcome))

    def test_one_background_loop(self, home: ToolRegistry, body: Body) -> None:
        """
        Sync code's calls of async tools share one loop, from whatever thread; another registry has its own.
        """
        body.append(lambda: id(asyncio.get_running_loop()))
        with home.fork() as other, ThreadPoolExecutor(2) as pool:
            ids = pool.map(lambda _: home.execute(mine("probe_later")).result, range(4))
            assert {home.toolset("ann").call("probe_later")} == set(ids)
            assert home.toolset("ann").call("probe_later") != other.toolset("ann").call("probe_later")

    @pytest.mark.parametrize("name", ["probe", "probe_later"])
    def test_current_call(self, home: ToolRegistry, body: Body, name: str) -> None:
        """
        `current_call()` in a tool is the call as it was given, by every way, with an id of its own if it had none.
        """
        body.append(current_call)
        call = ToolCall("7", name, {}, "ann", "run", ("boss",))

        assert 8 == len({one.result.tool_call_id for one in every_way(home, ToolCall(None, name, {}, "ann"))} - {None})
        assert [call] * 8 == [one.result for one in every_way(home, call)]
        assert current_call() is None

    @pytest.mark.parametrize("name", ["add", "add_later"])
    def test_an_id_is_made_for_who_asks(self, home: ToolRegistry, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        A call without id gets one where something needs it, and none is made where nothing does.
        """
        monkeypatch.setattr(ToolCall, "with_id", lambda _: pytest.fail("an id was made"))

        assert [None] * 8 == [one.tool_call_id for one in every_way(home, ToolCall(None, name, {}, "ann"))]

    def test_context_variables(self, home: ToolRegistry, body: Body, batch: Run) -> None:
        """
        A tool sees its caller's context variables in every thread and loop.
        """
        VAR.set("set")
        body.append(VAR.get)
        calls = [mine("probe"), mine("probe_later")] * 2
        results = [*(one for call in calls for one in every_way(home, call)), *batch(home, calls)]

        assert {"set"} == {one.result for one in results}

    def test_tool_context(self, home: ToolRegistry) -> None:
        """
        A `ToolContext` parameter is filled in, never shown to a model, and cannot be passed.
        """

        @shared()
        def look(context: ToolContext, x: int) -> list[Any]:
            return [context.agent, context.chain, context.tool_call_id, context.run_id, context.registry is home, x]

        results = every_way(home, ToolCall("7", "look", {"x": 1}, "ann", "run"))

        assert [["ann", (), "7", "run", True, 1]] * 8 == [one.result for one in results]
        assert ["bob", ("ann",)] == Agent("ann").delegate("bob").call("look", x=1)[:2]
        assert ["x"] == list(look.parameters["properties"])
        assert Outcome.INVALID_ARGUMENTS is home.execute(mine("look", x=1, context={})).outcome

    def test_generators(self, home: ToolRegistry) -> None:
        """
        A generator or async generator as a tool gives a list, made as its agent; its error is the tool's.
        """

        @shared()
        def steps(x: int) -> Iterator[Any]:
            yield [current_agent().name, 1 / x]

        @shared()
        async def asteps(x: int) -> AsyncIterator[Any]:
            await asyncio.sleep(0)
            yield [current_agent().name, 1 / x]

        for name in ("steps", "asteps"):
            assert [[["ann", 0.5]]] * 8 == [one.result for one in every_way(home, mine(name, x=2))]
            assert {"ZeroDivisionError"} == {one.error_type for one in every_way(home, mine(name, x=0))}


class TestBatch:
    def test_results_in_call_order(self, home: ToolRegistry, batch: Run) -> None:
        """
        Calls run side by side, and their results stand in call order, though the last ends first.
        """
        turns = [threading.Event() for _ in range(3)]

        @shared()
        def turn(x: int) -> int:
            assert x == 2 or turns[x + 1].wait(WAIT)
            turns[x].set()
            return x

        calls = (ToolCall(str(x), "turn", {"x": x}, "ann") for x in range(3))

        assert [("0", 0), ("1", 1), ("2", 2)] == [(one.tool_call_id, one.result) for one in batch(home, calls)]

    def test_failures_and_junk(self, home: ToolRegistry, batch: Run) -> None:
        """
        Each failure and each item that is not a call has a result of its own, and concerns no other call.
        """
        wrong = [None, 3, mine("boom"), mine("leave_later"), mine("ad"), ToolCall("1", "add"), mine("off")]
        results = batch(home, [one for bad in wrong for one in (mine("add", x=3), bad)])
        kinds = ["invalid-call", "invalid-call", "Own", "SystemExit", "unknown-tool", "forbidden", "disabled"]

        assert [3] * 7 == [one.result for one in results[::2]]
        assert kinds == [one.error_type for one in results[1::2]]

    @pytest.mark.parametrize("count", [1, 3])
    def test_in_an_async_tool_of_the_registrys_loop(self, home: ToolRegistry, count: int) -> None:
        """Broken promise: a sync batch there waited for the loop in which it was made, until its time was over."""

        @home.tool("team", owned_by="ann")
        async def team() -> list[str]:
            """Run a batch."""
            calls = [mine("add_later") for _ in range(count)] + [mine("add", x=3)]
            return [str(one.error or one.result) for one in home.agent("ann").execute_batch(calls)]

        *refused, added = home.execute(mine("team")).result
        assert "3" == added
        assert count == sum("await acall" in text for text in refused)

    @pytest.mark.parametrize("name", ["give_up", "give_up_later"])
    def test_a_cancellation_of_a_tools_own(self, home: ToolRegistry, ran: list[str], batch: Run, name: str) -> None:
        """
        A tool that ends in a `CancelledError` runs once and is one failure among the results.

        Broken promise: of a sync tool, None was in the list, or the caller got the `CancelledError`.
        """
        found = [one.success for one in batch(home, [mine("add"), mine(name), mine("add")])]

        assert ([True, False, True], ["add", "add", "give_up"]) == (found, sorted(ran))

    def test_what_must_run_alone(self, home: ToolRegistry, body: Body, ran: list[str], batch: Run) -> None:
        """
        While a tool that is not `concurrency_safe` is inside nothing else is, in a batch and by threads of one's own.
        """
        met, inside, pause = list[bool](), list[int](), threading.Event()

        def enter(alone: bool) -> None:
            inside.append(alone)
            met.append(len(inside) > 1 and any(inside))
            pause.wait(0.02)
            inside.remove(alone)

        shared(name="together")(lambda: enter(False))
        body.append(lambda: enter(True))
        calls = [mine(name) for name in ("together", "alone", "alone_later") * 2]
        with ThreadPoolExecutor(6) as pool:
            results = [*batch(home, calls), *pool.map(home.execute, calls)]

        assert ([True] * 12, [False] * 12) == ([one.success for one in results], met)

    def test_max_parallel(self, home: ToolRegistry, body: Body, batch: Run) -> None:
        """
        Exactly as many calls as `max_parallel` says are inside at once.
        """
        pair, inside, most = threading.Barrier(2, timeout=WAIT), list[int](), list[int]()

        def meet() -> None:
            inside.append(1)
            pair.wait()
            most.append(len(inside))
            pair.wait()
            inside.pop()

        body.append(meet)
        assert ([True] * 6, [2] * 6) == ([one.success for one in batch(home, [mine("probe")] * 6, 2)], most)

    def test_an_interrupt_begins_no_more_calls(self, home: ToolRegistry) -> None:
        """Broken promise: after Ctrl-C, the calls of a batch that had not begun began all the same."""
        begun, go_on = list[int](), threading.Event()

        @home.tool("step", shared=True)
        def step(number: int) -> None:
            """Take a step."""
            begun.append(number)
            if number == 0:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            assert go_on.wait(WAIT)

        with pytest.raises(KeyboardInterrupt):
            home.execute_batch([ToolCall(None, "step", {"number": number}, "ann") for number in range(4)], 1)
        go_on.set()
        assert home.drain(timeout=WAIT) == 0
        assert [0] == begun
