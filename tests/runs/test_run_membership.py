"""Runs under concurrency, and what repeats a recorded call: one result per call id, one place per run."""

# Tests of: run

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import suppress
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest
from runs_rig import Gate, Rig, add_outer_tool, check_journal, path, rig  # noqa: F401

from praval_tools import (
    ToolCall,
    ToolRegistry,
    ToolUsageError,
)
from praval_tools.errors import RunBusyError


class LateCall:
    """A call that waits before it is made, the first time, and whose refusals are kept."""

    def __init__(self, rig: Rig) -> None:
        self.begun, self.go_on, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.errors: list[str] = []
        self._agent = rig.registry.agent("ann")

    def call(self, number: int) -> int:
        """Make the call."""
        is_first = not self.begun.is_set()
        self.begun.set()
        try:
            assert not is_first or self.go_on.wait(60)
            return int(self._agent.call("add", number=number))
        except ToolUsageError as error:
            self.errors.append(error.code)
            raise
        finally:
            if is_first:
                self.ended.set()


class TestBelonging:
    """Which calls belong to a run."""

    def test_toolset_in_plain_threads(self, rig: Rig) -> None:
        """The run's toolset carries the run into threads that know nothing of it, in every way of calling."""
        results: dict[str, Any] = {}
        rig.registry.assign_tool_to_agent("add", "bob")
        with rig.registry.run("r") as run:
            tools = run.toolset("ann")

            def work() -> None:
                results["call"] = tools.call("add", number=1)
                results["bound"] = tools["add"](number=2)
                results["json"] = tools.call_json("add", b'{"number": 3}')
                results["execute"] = tools.execute(ToolCall("e", "add", {"number": 4})).result
                results["batch"] = tools.execute_batch([ToolCall(f"b{at}", "add", {"number": at}) for at in (5, 6)])
                results["acall"] = asyncio.run(tools.acall("aadd", number=7))
                results["for"] = tools.execute(ToolCall("f", "add", {"number": 8}, on_behalf_of=("bob",))).result
                results["afor"] = asyncio.run(
                    tools.aexecute(ToolCall("g", "add", {"number": 9}, on_behalf_of=("bob",)))
                ).result

            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            assert list(range(1, 10)) == sorted(recorded.arguments["number"] for recorded in run.calls)
        assert [2, 3, b"4", 5, 8, 9, 10] == [
            results[name] for name in ("call", "bound", "json", "execute", "acall", "for", "afor")
        ]

    def test_nested_calls_of_a_named_run(self, rig: Rig) -> None:
        """A call that names its run takes those from inside of it along."""
        add_outer_tool(rig)
        with rig.registry.run("r") as run:
            thread = threading.Thread(target=rig.call, args=("a", 1, "outer"), kwargs={"run_id": "r"})
            thread.start()
            thread.join()
            assert ["outer", "add"] == [recorded.tool_name for recorded in run.calls]
            assert ["a"] == [recorded.parent_id for recorded in run.calls[1:]]

    def test_nested_calls_of_a_named_run_in_async_code(self, rig: Rig) -> None:
        """Broken promise: those of an awaited call were in no run, and were made again at the next opening."""
        add_outer_tool(rig)

        @rig.registry.tool("aouter", owned_by="ann")
        async def aouter(number: int) -> int:
            """Call another tool."""
            await asyncio.sleep(0)
            return int(await rig.registry.agent("ann").acall("add", number=number))

        for opening in range(2):
            with rig.registry.run("r") as run:
                for name in ("outer", "aouter"):
                    call = ToolCall(name, name, {"number": 1}, "ann", run_id="r")
                    thread = threading.Thread(target=lambda call=call: asyncio.run(rig.registry.aexecute(call)))
                    thread.start()
                    thread.join()
                parents = [recorded.parent_id for recorded in run.calls if recorded.tool_name == "add"]
                assert ["outer", "aouter"] == parents, opening
        assert [10, 1] == rig.ran

    def test_runs_of_two_registries(self, rig: Rig, tmp_path: Path) -> None:
        """A run inside of another registry's run takes nothing from that one."""
        other = Rig(tmp_path / "other.db")
        with rig.registry.run("r") as run, other.registry.run("s") as inner:
            rig.call("a", 1)
            other.call("b", 2)
            assert (["a"], ["b"]) == tuple([recorded.tool_call_id for recorded in each.calls] for each in (run, inner))
        other.registry.close()

    def test_a_run_inside_of_a_run(self, rig: Rig) -> None:
        """Calls belong to the innermost run."""
        with rig.registry.run("r") as run:
            with rig.registry.run("s") as inner:
                rig.call("a", 1)
            rig.call("b", 2)
            assert (["b"], ["a"]) == tuple([recorded.tool_call_id for recorded in each.calls] for each in (run, inner))

    def test_a_run_that_is_not_open(self, rig: Rig) -> None:
        """A call that names a run that is not open here is refused, and nothing runs."""
        with pytest.raises(ToolUsageError, match="not open here"):
            rig.call("a", 1, run_id="r")
        assert [] == rig.ran

    def test_closed_while_tasks_are_inside(self, rig: Rig) -> None:
        """A task inside ends as it should and is recorded; one that comes later is refused."""
        gate = Gate(rig.registry)

        async def late() -> Any:
            async with rig.registry.run("r"):
                call = ToolCall("c", "agate", {"number": 1}, "ann")
                inside = asyncio.ensure_future(rig.registry.aexecute(call))

                async def after() -> Any:
                    await inside
                    return await rig.registry.aexecute(ToolCall("d", "aadd", {"number": 1}, "ann"))

                later = asyncio.ensure_future(after())
                while not gate.inside.is_set():
                    await asyncio.sleep(0)
            with pytest.raises(RunBusyError):
                await rig.registry.run("r").__aenter__()
            gate.go.set()
            assert 2 == (await inside).result
            with pytest.raises(ToolUsageError, match="too late"):
                await later
            async with rig.registry.run("r"):
                return await rig.registry.aexecute(call)

        assert asyncio.run(late()).replayed
        assert [] == rig.ran

    def test_work_that_was_left_behind_is_not_of_the_next_opening(self, rig: Rig) -> None:
        """Broken promise: its calls that name the run, as those of loops do, ran in the next opening of it."""
        with rig.registry.run("r"):
            left_behind = copy_context()
        with rig.registry.run("r"):
            for run_id in (None, "r"):
                with pytest.raises(ToolUsageError, match="too late"):
                    left_behind.run(rig.call, "a", 1, run_id=run_id)
        assert [] == rig.ran

    @pytest.mark.parametrize("end", ["time-out", "error"])
    @pytest.mark.parametrize("kind", ["sync", "async"])
    def test_an_attempt_that_was_given_up_makes_no_more_calls(self, rig: Rig, kind: str, end: str) -> None:
        """Broken promise: what it left went on beside the next attempt, and both made the call inside of it."""
        rig = rig.reopen(retry_wait=0)
        attempts, late = list[int](), LateCall(rig)

        def pay_alone(number: int) -> None:
            with suppress(ToolUsageError):
                late.call(number)

        def start_pay(number: int) -> int:
            """Pay."""
            attempts.append(number)
            if len(attempts) == 1 and end == "error":
                threading.Thread(target=copy_context().run, args=(pay_alone, number)).start()
                raise ConnectionError
            return late.call(number)

        async def start_pay_async(number: int) -> int:
            """Pay."""
            if end == "error":
                return start_pay(number)
            attempts.append(number)
            return await asyncio.to_thread(late.call, number)

        rig.registry.tool(
            "pay_all", owned_by="ann", idempotent=True, timeout=0.3 if end == "time-out" else None, retries=1,
            retry_on=(ConnectionError,),
        )(start_pay if kind == "sync" else start_pay_async)  # fmt: skip
        with rig.registry.run("r"):
            assert 2 == rig.call("a", 1, "pay_all").result
            late.go_on.set()
            assert late.ended.wait(60)
            assert 0 == rig.registry.drain(timeout=60)
        assert ([1, 1], [1], ["call-given-up"]) == (attempts, rig.ran, late.errors)
        rig.registry.close()

    @pytest.mark.parametrize("end", ["time-out", "cancellation"])
    def test_a_call_inside_of_an_attempt_that_was_given_up_makes_no_more_calls(self, rig: Rig, end: str) -> None:
        """Broken promise: it had lost what it was made inside of, once another tool was called there first."""
        rig = rig.reopen(retry_wait=0)
        agent, late = rig.registry.agent("ann"), LateCall(rig)

        @rig.registry.tool("settle", owned_by="ann")
        def settle(number: int) -> int:
            """Settle."""
            return late.call(number)

        timeout = 0.3 if end == "time-out" else 60

        @rig.registry.tool("order", owned_by="ann", idempotent=True, timeout=timeout, retries=1)
        async def order(number: int) -> int:
            """Order."""
            return await asyncio.to_thread(agent.call, "settle", number=number)

        async def make_call() -> int:
            call = ToolCall("a", "order", {"number": 1}, "ann")
            async with rig.registry.run("r"):
                if end == "cancellation":
                    task = asyncio.ensure_future(rig.registry.aexecute(call))
                    assert await asyncio.to_thread(late.begun.wait, 60)
                    task.cancel()
                    await asyncio.wait([task])
                again = asyncio.ensure_future(rig.registry.aexecute(call))
                if end == "cancellation":  # the next one waits for it, and has it go on
                    await asyncio.wait([again], timeout=0.1)
                    late.go_on.set()
                result = (await again).result
                late.go_on.set()
                assert await asyncio.to_thread(late.ended.wait, 60)
            return int(result)

        assert 2 == asyncio.run(make_call())
        assert ([1], [] if end == "cancellation" else ["call-given-up"]) == (rig.ran, late.errors)
        rig.registry.close()

    def test_a_call_that_others_wait_for_is_tried_again(self, rig: Rig) -> None:
        """Broken promise: its next attempt was refused, as who had made it first was given up, and it was in doubt."""
        rig = rig.reopen(retry_wait=0.05)
        begun, go_on, tries = threading.Event(), threading.Event(), list[int]()

        @rig.registry.tool("fetch", owned_by="ann", retries=1, retry_on=(ConnectionError,))
        def fetch(number: int) -> int:
            """Fetch."""
            tries.append(number)
            begun.set()
            assert go_on.wait(60)
            if len(tries) == 1:
                raise ConnectionError
            return int(rig.registry.agent("ann").call("add", number=number))

        @rig.registry.tool("order", owned_by="ann", idempotent=True)
        def order(number: int) -> int:
            """Order."""
            return int(rig.registry.agent("ann").call("fetch", number=number))

        async def make_call() -> Any:
            call = ToolCall("a", "order", {"number": 1}, "ann")
            async with rig.registry.run("r"):
                task = asyncio.ensure_future(rig.registry.aexecute(call))
                assert await asyncio.to_thread(begun.wait, 60)
                task.cancel()
                await asyncio.wait([task])
                again = asyncio.ensure_future(rig.registry.aexecute(call))
                await asyncio.wait([again], timeout=0.1)
                go_on.set()
                return (await again).result

        assert 2 == asyncio.run(make_call())
        assert ([1, 1], [1]) == (tries, rig.ran)
        rig.registry.close()

    @pytest.mark.parametrize("outer", ["ann", "bob"])
    def test_tools_of_runs_of_two_registries(self, tmp_path: Path, outer: str) -> None:
        """Broken promise: a tool of the outer run that calls one of the inner run made that call in no run."""
        first, second = ToolRegistry(journal=tmp_path / "a.db"), ToolRegistry(journal=tmp_path / "b.db")
        results = list[Any]()

        @second.tool("send", owned_by="bob")
        def send() -> None:
            """Send."""

        @first.tool("order", owned_by="ann")
        def order() -> None:
            """Order."""
            results.append(second.agent("bob").execute(ToolCall(None, "send", {})))

        runs = [first.run("A"), second.run("B")]
        with first, second:
            with runs[0 if outer == "ann" else 1], runs[1 if outer == "ann" else 0]:
                results.append(first.agent("ann").execute(ToolCall(None, "order", {})))
        assert ["B", "A"] == [result.run_id for result in results]

    def test_forked_inside_of_a_run(self, rig: Rig) -> None:
        """A forked process is refused in its parent's run, has one of its own, and the parent goes on."""
        with rig.registry.run("r"):
            rig.call("a", 1)
            forked = os.fork()
            if not forked:
                code = 1
                try:
                    try:
                        rig.call("b", 2)
                    except ToolUsageError as error:
                        with rig.registry.run("s"):
                            code = 0 if "forked" in str(error) and rig.call("c", 3).result == 4 else 2
                finally:
                    os._exit(code)
            assert 0 == os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1])
            assert 3 == rig.call("b", 2).result
        assert {"a": 1, "b": 1, "c": 1} == check_journal(rig.path)
