"""The thread engine and the background loop: nothing hangs, whatever waits for what."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import weakref
from typing import Any

import pytest

from praval_tools import Outcome, ToolCall, ToolRegistry, current_agent, current_call
from praval_tools.execution.threads import NoRoomError, ThreadEngine


@pytest.fixture
def registry() -> ToolRegistry:
    """A registry with tools that call deeper, by threads and by the background loop."""
    made = ToolRegistry()

    @made.tool("down", shared=True, engine="thread")
    def down(left: int) -> int:
        """Call itself on another thread."""
        return 0 if left == 0 else 1 + current_agent().call("down", left=left - 1)

    @made.tool("over", shared=True, engine="thread")
    def over(left: int) -> int:
        """Call an async tool from a thread."""
        return 0 if left == 0 else 1 + current_agent().call("back", left=left - 1)

    @made.tool("back", shared=True)
    async def back(left: int) -> int:
        """Call a sync tool, which gets a thread."""
        return 0 if left == 0 else 1 + await current_agent().acall("over", left=left - 1)

    return made


class TestThreads:
    def test_nested_deeper_than_there_are_threads(self, registry: ToolRegistry) -> None:
        """A hundred nested calls run, and two hundred end as `limited`, which the outer ones report."""
        ann = registry.agent("ann")
        assert 100 == ann.call("down", left=100)
        result = ann.execute(ToolCall("1", "down", {"left": 200}))
        assert (Outcome.TOOL_ERROR, True) == (result.outcome, "No thread is free" in str(result.error))
        assert 3 == ann.call("down", left=3)

    def test_many_that_go_over_the_background_loop(self, registry: ToolRegistry) -> None:
        """Sixty threads that wait for the background loop, whose tools wait for threads, all end."""
        calls = [ToolCall(str(at), "over", {"left": 4}) for at in range(60)]
        results = registry.agent("ann").execute_batch(calls, max_parallel=60)
        assert {Outcome.OK, Outcome.TOOL_ERROR, Outcome.LIMITED} >= {one.outcome for one in results}
        assert 4 == registry.agent("ann").call("over", left=4)

    def test_after_all_are_lost(self) -> None:
        """Where every thread is away, what waits and what comes is refused; once one is back, work is done."""
        engine, go, begun = ThreadEngine(size=1, cap=1), threading.Event(), threading.Event()
        first = engine.submit(lambda: (begun.set(), go.wait(30)))
        begun.wait(30)
        waiting = engine.submit(lambda: "late")
        engine.lose()
        refused = engine.submit(lambda: "later")
        assert [NoRoomError, NoRoomError] == [type(one.error) for one in (waiting, refused)]
        go.set()
        first.wait(30)
        engine.found()
        last = engine.submit(lambda: "done")
        last.wait(30)
        assert "done" == last.value

    def test_closed(self) -> None:
        """A closed engine ends what waits at once, and takes nothing."""
        engine, go, begun = ThreadEngine(size=1), threading.Event(), threading.Event()
        engine.submit(lambda: (begun.set(), go.wait(30)))
        begun.wait(30)
        waiting = engine.submit(lambda: "late")
        engine.close()
        engine.close()
        assert "StaleError" == type(waiting.error).__name__
        assert "StaleError" == type(engine.submit(lambda: "later").error).__name__
        go.set()

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
    @pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
    def test_after_a_fork(self, registry: ToolRegistry) -> None:
        """A forked process has threads and a background loop of its own."""
        ann = registry.agent("ann")
        assert 2 == ann.call("over", left=2)
        child = os.fork()
        if child == 0:
            try:
                right = ann.call("over", left=2) == 2 and ann.call("down", left=3) == 3
            except BaseException:
                right = False
            os._exit(0 if right else 1)
        assert 0 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert 2 == ann.call("over", left=2)

    def test_each_listener_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """One that raises is reported, and neither keeps the others from being told nor costs the engine its thread."""
        reported, told, go = list[Any](), list[int](), threading.Event()
        monkeypatch.setattr(threading, "excepthook", reported.append)
        engine = ThreadEngine(size=1, cap=1)
        for number in range(2):
            job = engine.submit(go.wait)
            job.when_done(lambda: 1 / 0)
            job.when_done(lambda number=number: told.append(number))  # type: ignore[misc]
            go.set()
            assert job.wait(10)
        assert engine.submit(lambda: None).wait(10)  # the only thread is there, and has told of what came before
        assert [0, 1] == told
        assert [ZeroDivisionError] * 2 == [one.exc_type for one in reported]
        engine.close()


class TestBackgroundLoop:
    def test_a_task_that_exits(self, registry: ToolRegistry) -> None:
        """SystemExit in a task of an async tool is that tool's error; the loop lives on."""

        @registry.tool("exits", shared=True)
        async def exits() -> None:
            """Exit in a task."""

            async def child() -> None:
                sys.exit(3)

            await asyncio.gather(child())

        ann = registry.agent("ann")
        result = ann.execute(ToolCall("1", "exits", {}))
        assert (Outcome.TOOL_ERROR, "SystemExit") == (result.outcome, result.error_type)
        assert 0 == ann.call("back", left=0)

    def test_a_tool_that_cancels_itself(self, registry: ToolRegistry) -> None:
        """A CancelledError that nobody sent is an outcome, run once, and no neighbour's matter."""
        runs: list[int] = []

        @registry.tool("cancels", shared=True)
        async def cancels() -> None:
            """Cancel itself."""
            runs.append(1)
            raise asyncio.CancelledError

        calls = [ToolCall("1", "cancels", {}), ToolCall("2", "back", {"left": 0})]
        ann = registry.agent("ann")
        expected = [Outcome.CANCELLED, Outcome.OK]
        assert expected == [one.outcome for one in ann.execute_batch(calls)]
        assert expected == [one.outcome for one in asyncio.run(ann.aexecute_batch(calls))]
        registry.add_policy(lambda *_: None)
        assert expected == [one.outcome for one in asyncio.run(ann.aexecute_batch(calls))]
        assert 3 == len(runs)

    def test_cancelling_who_waits(self, registry: ToolRegistry) -> None:
        """Cancelling the task that awaits a tool cancels the tool and comes back as CancelledError."""
        ended: list[str] = []

        @registry.tool("waits", shared=True)
        async def waits() -> None:
            """Wait."""
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("cancelled")

        async def main() -> bool:
            task = asyncio.create_task(registry.agent("ann").acall("waits"))
            await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.wait([task])
            return task.cancelled()

        assert asyncio.run(main())
        assert ["cancelled"] == ended


class Big:
    """Something whose end can be seen."""


class TestFrames:
    def test_tasks_that_start_tasks(self) -> None:
        """Tools whose tasks call tools whose tasks call tools keep no chain of what is over."""
        registry = ToolRegistry()
        alive: weakref.WeakSet[Big] = weakref.WeakSet()
        most: list[int] = []

        @registry.tool("step", shared=True, timeout=60)
        async def step(left: int, load: Any = None) -> None:
            """Start the next step."""
            mine = current_agent()
            big = Big()
            alive.add(big)
            if left:
                tasks.append(asyncio.create_task(mine.acall("step", left=left - 1)))
            await asyncio.sleep(0)
            gc.collect() if left % 50 == 0 else None
            most.append(len(alive))

        tasks: list[asyncio.Task[Any]] = []

        async def main() -> None:
            await registry.agent("ann").acall("step", left=400)
            while tasks:
                await tasks.pop()

        asyncio.run(main())
        assert max(most) < 120

    def test_very_many_deep(self) -> None:
        """A long chain of such tasks ends without harm."""
        registry = ToolRegistry(timeout=None)
        tasks: list[asyncio.Task[Any]] = []

        @registry.tool("again", shared=True)
        async def again(left: int) -> None:
            """Go on in a task."""
            if left:
                tasks.append(asyncio.create_task(current_agent().acall("again", left=left - 1)))

        async def main() -> None:
            await registry.agent("ann").acall("again", left=20_000)
            while tasks:
                await tasks.pop()

        asyncio.run(main())

    def test_nested_calls_name_the_call_that_they_were_made_from(self) -> None:
        """A call from inside of a tool carries the id of that tool's call, so that calls form a tree."""
        registry = ToolRegistry()

        @registry.tool("inner", shared=True)
        def inner() -> list[Any]:
            """Tell."""
            call = current_call()
            assert call is not None
            return [call.name, call.tool_call_id, call.parent_id]

        @registry.tool("outer", shared=True)
        def outer() -> list[Any]:
            """Call the inner one twice."""
            mine = current_agent()
            return [mine.call("inner"), mine.execute(ToolCall("given", "inner", {})).result, *inner_of(mine)]

        def inner_of(mine: Any) -> list[Any]:
            call = current_call()
            assert call is not None
            return [call.tool_call_id, call.parent_id]

        for _ in ("short road", "pipeline"):
            first, second, own, above = registry.execute(ToolCall("top", "outer", {}, "ann")).result
            assert ("top", None, "top", "top", "given") == (own, above, first[2], second[2], second[1])
            assert None is registry.execute(ToolCall("alone", "inner", {}, "ann")).result[2]
            registry.add_policy(lambda *_: None)

    def test_the_call_inside_is_the_call_outside(self) -> None:
        """`current_call()` is the call that was given, on both roads; an id that is made inside is the result's."""
        registry = ToolRegistry()

        @registry.tool("who", owned_by="ann")
        def who() -> list[Any]:
            """Tell."""
            call = current_call()
            assert call is not None
            return [call.tool_call_id, call.run_id, call.name, call.agent]

        for _ in ("short road", "pipeline"):
            result = registry.execute(ToolCall("id 7", "who", {}, "ann", "run 1"))
            assert ["id 7", "run 1", "who", "ann"] == result.result
            made = registry.execute(ToolCall(None, "who", {}, "ann"))
            assert made.tool_call_id == made.result[0]
            registry.add_policy(lambda *_: None)
