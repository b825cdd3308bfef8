# Tests of: threads, jobs, event_loops, selection, context
"""The thread engine and the background loop: nothing hangs, whatever waits for what."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import sys
import threading
import weakref
from typing import Any

import pytest

from praval_tools import Outcome, ToolCall, ToolRegistry, current_agent, current_call
from praval_tools.execution.engines.threads import NoFreeThreadError, ThreadEngine


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
        engine.mark_thread_blocked()
        refused = engine.submit(lambda: "later")
        assert [NoFreeThreadError, NoFreeThreadError] == [type(one.error) for one in (waiting, refused)]
        go.set()
        first.wait(30)
        engine.mark_thread_available()
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
        assert "StaleDecisionError" == type(waiting.error).__name__
        assert "StaleDecisionError" == type(engine.submit(lambda: "later").error).__name__
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

    def test_each_callback_is_called(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """One that raises is reported, and neither stops the others nor costs the engine its thread."""
        reported, called, go = list[Any](), list[int](), threading.Event()
        monkeypatch.setattr(threading, "excepthook", reported.append)
        engine = ThreadEngine(size=1, cap=1)
        for number in range(2):
            job = engine.submit(go.wait)
            job.add_done_callback(lambda: 1 / 0)
            job.add_done_callback(lambda number=number: called.append(number))  # type: ignore[misc]
            go.set()
            assert job.wait(10)
        assert engine.submit(lambda: None).wait(10)  # the only thread is there, and has called what came before
        assert [0, 1] == called
        assert [ZeroDivisionError] * 2 == [one.exc_type for one in reported]
        engine.close()


HERE, AWAY = "here", "away"


def where_of(place: int) -> str:
    """Say whether *place* is the thread that asks."""
    return HERE if place == threading.get_ident() else AWAY


class TestWhere:
    @pytest.mark.parametrize(
        ("home", "more", "sync", "awaited"),
        [
            (None, {}, HERE, AWAY),
            (None, {"speed": "instant"}, HERE, HERE),
            (None, {"speed": "instant", "timeout": 30}, AWAY, AWAY),
            (None, {"speed": "instant", "engine": "thread"}, AWAY, AWAY),
            (None, {"timeout": 30}, AWAY, AWAY),
            (None, {"engine": "inline"}, HERE, HERE),
            (None, {"engine": "thread"}, AWAY, AWAY),
            ("thread", {}, AWAY, AWAY),
            ("inline", {}, HERE, HERE),
            ("thread", {"engine": "inline"}, HERE, HERE),
            ("inline", {"engine": "thread"}, AWAY, AWAY),
        ],
    )
    def test_sync_tools_run(self, home: str | None, more: dict[str, Any], sync: str, awaited: str) -> None:
        """In the thread that calls, or in another: by who calls, by the tool's engine, and else by the registry's."""
        with ToolRegistry(engine=home) as registry:
            registry.tool("place", shared=True, description="Tell.", **more)(lambda: threading.get_ident())
            mine, call = registry.toolset("ann"), ToolCall("1", "place", {}, "ann")

            async def later() -> list[str]:
                return [where_of(await mine.acall("place")), where_of((await registry.aexecute(call)).result)]

            for _ in ("fast path", "pipeline"):
                now = [where_of(mine.call("place")), where_of(registry.execute(call).result)]
                assert ([sync] * 2, [awaited] * 2) == (now, asyncio.run(later()))
                registry.add_policy(lambda *_: None)

    @pytest.mark.parametrize("journal", [None, "memory"])
    @pytest.mark.parametrize(("mine", "more", "place"), [
        ("thread", {}, AWAY), ("inline", {"engine": "thread"}, HERE), ("thread", {"engine": "inline"}, AWAY),
        ("inline", {"timeout": 30}, AWAY),
    ])  # fmt: skip
    def test_a_call_runs_where_it_says(self, journal: str | None, mine: str, more: dict[str, Any], place: str) -> None:
        """A call's own engine counts before its tool's, from sync and async code, in a batch, and in a run."""
        with ToolRegistry(engine="inline", journal=journal) as registry:
            registry.tool("place", shared=True, description="Tell.", **more)(lambda: threading.get_ident())
            tools, call = registry.toolset("ann"), ToolCall(None, "place", {}, "ann", engine=mine)
            for _ in range(3):
                assert place == where_of(registry.execute(call).result)
                assert place == where_of(tools.execute(call).result)
                assert place == where_of(tools.execute_batch([call])[0].result)
                assert place == where_of(asyncio.run(registry.aexecute(call)).result)
                assert place == where_of(asyncio.run(tools.aexecute(call)).result)
            if journal is not None:
                with registry.run("r"):
                    assert [place] * 3 == [where_of(tools.execute(call).result) for _ in range(3)]

    @pytest.mark.parametrize("engine", ["", "nowhere", 5, "x" * 10_000])
    def test_a_call_names_no_engine(self, engine: Any) -> None:
        """An engine that does not exist is reported, and nothing runs."""
        ran: list[str] = []
        with ToolRegistry() as registry:
            registry.tool("note", shared=True, description="Note.")(lambda: ran.append("note"))
            for _ in range(2):
                result = registry.execute(ToolCall("1", "note", {}, "ann", engine=engine))
                assert ("tool_error", "unknown-engine") == (result.outcome, result.error_type)
                assert "no loaded plugin brings" in str(result.error)
                assert len(str(result.error)) < 500
        assert [] == ran

    def test_async_tools_run(self) -> None:
        """On the loop of async code that calls, in its thread; from sync code in another."""

        async def place() -> int:
            return threading.get_ident()

        async def later() -> str:
            return where_of(await registry.toolset("ann").acall("place"))

        with ToolRegistry() as registry:
            registry.tool("place", shared=True, description="Tell.")(place)
            for _ in ("fast path", "pipeline"):
                assert (HERE, AWAY) == (asyncio.run(later()), where_of(registry.toolset("ann").call("place")))
                registry.add_policy(lambda *_: None)

    def test_batches_run(self) -> None:
        """A sync batch of more than one call runs in threads, one call by itself in place."""
        with ToolRegistry() as registry:
            registry.tool("place", shared=True, description="Tell.")(lambda: threading.get_ident())
            for size, expected in ((1, HERE), (2, AWAY)):
                results = registry.execute_batch([ToolCall(str(at), "place", {}, "ann") for at in range(size)])
                assert [expected] * size == [where_of(one.result) for one in results]

    def test_sync_calls_need_no_loop(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A sync call of a sync tool makes no event loop, on either path, in a thread or in a batch."""
        monkeypatch.setattr(asyncio.BaseEventLoop, "__init__", lambda _: 1 / 0)
        with ToolRegistry() as registry:
            registry.tool("place", shared=True, description="Tell.")(lambda: threading.get_ident())
            registry.tool("away", shared=True, description="Tell.", engine="thread")(lambda: threading.get_ident())
            for _ in ("fast path", "pipeline"):
                calls = [ToolCall(name, name, {}, "ann") for name in ("place", "away")]
                results = [*map(registry.execute, calls), *registry.execute_batch(calls)]
                assert [Outcome.OK] * 4 == [one.outcome for one in results]
                registry.add_policy(lambda *_: None)


class TestDeadlines:
    def test_the_registrys_time_out(self) -> None:
        """It is 30 s where none is given, and counts for async tools and threads, not for a sync tool in place."""

        def slow() -> None:
            threading.Event().wait(0.1)

        async def slow_later() -> None:
            await asyncio.sleep(30)

        assert 30 == inspect.signature(ToolRegistry).parameters["timeout"].default
        with ToolRegistry(timeout=0.01) as registry:
            registry.tool("slow", shared=True, description="Wait.")(slow)
            registry.tool("away", shared=True, description="Wait.", engine="thread")(slow)
            registry.tool("later", shared=True, description="Wait.")(slow_later)
            calls = [ToolCall(name, name, {}, "ann") for name in ("slow", "away", "later")]
            for _ in ("fast path", "pipeline"):
                now = [registry.execute(one).outcome for one in calls]
                awaited = [asyncio.run(registry.aexecute(one)).outcome for one in calls]
                assert ([Outcome.OK] + [Outcome.TIMEOUT] * 2, [Outcome.TIMEOUT] * 3) == (now, awaited)
                registry.add_policy(lambda *_: None)
            assert 0 == registry.drain(timeout=30)

    def test_have_one_timer(self) -> None:
        """A hundred calls that are awaited at once set one timer of the loop."""
        timers: list[float] = []

        async def main() -> list[Any]:
            loop, go = asyncio.get_running_loop(), asyncio.Event()
            set_timer = loop.call_later

            def counted(seconds: float, *more: Any) -> Any:
                timers.append(seconds)
                return set_timer(seconds, *more)

            @registry.tool("wait", shared=True)
            async def wait() -> str:
                """Wait."""
                await go.wait()
                return "done"

            loop.call_later = counted  # type: ignore[method-assign, assignment]
            tasks = [asyncio.create_task(registry.toolset("ann").acall("wait")) for _ in range(100)]
            await asyncio.sleep(0)
            go.set()
            return await asyncio.gather(*tasks)

        with ToolRegistry(timeout=25) as registry:
            assert (["done"] * 100, [25]) == (asyncio.run(main()), timers)


class TestFastFunctions:
    def test_are_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Plans and verdicts are kept for so many tools, and what is forgotten is made again."""
        monkeypatch.setattr("praval_tools.execution.fast_function_cache._MAX_FAST_FUNCTIONS", 4)
        monkeypatch.setattr("praval_tools.execution.pipeline._MAX_CACHED_VERDICTS", 4)
        with ToolRegistry() as registry:
            mine, kept = registry.toolset("ann"), list[int]()
            for at in range(20):
                registry.tool(f"tool_{at}", shared=True, description="Tell.")(lambda at=at: at)
            for at in [*range(20)] * 2:
                assert [at, at] == [mine.call(f"tool_{at}"), mine.execute(ToolCall("1", f"tool_{at}")).result]
                kept += [len(mine._fast_cache.sync_functions), len(registry._runtime.verdict_cache[1])]
            assert 0 < max(kept) <= 5


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

        for _ in ("fast path", "pipeline"):
            first, second, own, above = registry.execute(ToolCall("top", "outer", {}, "ann")).result
            assert ("top", None, "top", "top", "given") == (own, above, first[2], second[2], second[1])
            assert None is registry.execute(ToolCall("alone", "inner", {}, "ann")).result[2]
            registry.add_policy(lambda *_: None)

    def test_the_call_inside_is_the_call_outside(self) -> None:
        """`current_call()` is the call that was passed, on each path; an id that is made inside is the result's."""
        registry = ToolRegistry()

        @registry.tool("who", owned_by="ann")
        def who() -> list[Any]:
            """Tell."""
            call = current_call()
            assert call is not None
            return [call.tool_call_id, call.run_id, call.name, call.agent]

        for _ in ("fast path", "pipeline"):
            result = registry.execute(ToolCall("id 7", "who", {}, "ann", "run 1"))
            assert ["id 7", "run 1", "who", "ann"] == result.result
            made = registry.execute(ToolCall(None, "who", {}, "ann"))
            assert made.tool_call_id == made.result[0]
            registry.add_policy(lambda *_: None)
