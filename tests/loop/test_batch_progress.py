"""What tools report of their progress reaches the subscribers of the registry and the readers of a loop's stream."""

# Tests of: tools/reports

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from loop_rig import registry  # noqa: F401

from praval_tools import ToolContext, ToolProgress, ToolRegistry
from praval_tools.loop import CallsEnded, LoopEnded, ToolLoop
from praval_tools.testing import fake_model


def declare_copy(registry: ToolRegistry, gate: threading.Event) -> None:
    """Declare a sync and an async tool that report progress, wait for *gate*, and report again."""

    @registry.tool("copy", shared=True)
    def copy(files: int, context: ToolContext) -> int:
        """Copy files."""
        context.progress(1, files, "first")
        assert gate.wait(20)
        context.progress(files, files, message="last")
        return files

    @registry.tool("acopy", shared=True)
    async def acopy(files: int, context: ToolContext) -> int:
        """Copy files."""
        context.progress(1, files, "first")
        while not gate.is_set():
            await asyncio.sleep(0)
        context.progress(files, files, message="last")
        return files


def read_stream(loop: ToolLoop, gate: threading.Event, *, is_async: bool) -> list[Any]:
    """Return the events of a loop; *gate* opens once the first progress was read."""
    events: list[Any] = []
    if not is_async:
        for event in loop.stream("Go."):
            events.append(event)
            gate.set() if isinstance(event, ToolProgress) else None
        return events

    async def read() -> None:
        async for event in loop.astream("Go."):
            events.append(event)
            gate.set() if isinstance(event, ToolProgress) else None

    asyncio.run(read())
    return events


class TestStreams:
    @pytest.mark.parametrize("journal", [None, "memory"])
    @pytest.mark.parametrize("is_async", [False, True])
    @pytest.mark.parametrize("name", ["copy", "acopy"])
    def test_progress_comes_while_the_tool_runs(self, name: str, is_async: bool, journal: str | None) -> None:
        """
        The stream yields it at once: the tool here goes on only when its first report was read.

        The promise was broken: progress went nowhere.
        """
        gate = threading.Event()
        with ToolRegistry(journal=journal) as registry:
            declare_copy(registry, gate)
            loop = ToolLoop(registry.agent("ann"), fake_model([(name, {"files": 3})], "Done."))
            events = read_stream(loop, gate, is_async=is_async)

        progress = [one for one in events if isinstance(one, ToolProgress)]
        (ended,) = [one for one in events if isinstance(one, CallsEnded)]
        assert [(1, 3, "first"), (3, 3, "last")] == [(one.done, one.total, one.message) for one in progress]
        assert {(name, "ann", ended.results[0].tool_call_id)} == {
            (one.tool, one.agent, one.tool_call_id) for one in progress}  # fmt: skip
        assert events.index(progress[-1]) < events.index(ended)
        assert "Done." == events[-1].result.text

    def test_only_the_calls_of_the_loop_are_heard(self, registry: ToolRegistry) -> None:
        """What a call of somebody else reports at the same time is not in the stream."""
        gate = threading.Event()
        gate.set()
        declare_copy(registry, gate)

        @registry.tool("wait", shared=True)
        def wait(context: ToolContext) -> str:
            """Wait while another thread copies."""
            thread = threading.Thread(target=lambda: registry.agent("bob").call("copy", files=9))
            thread.start()
            thread.join(20)
            context.progress(1)
            return "waited"

        loop = ToolLoop(registry.agent("ann"), fake_model([("wait",), ("copy", {"files": 2})], "Done."))
        progress = [one for one in loop.stream("Go.") if isinstance(one, ToolProgress)]

        assert [("copy", 2), ("copy", 2), ("wait", None)] == sorted((one.tool, one.total) for one in progress)

    def test_whoever_stops_reading_leaves_no_call_running(self, registry: ToolRegistry) -> None:
        """Closing the stream in the middle of a batch waits for its calls; begun again, the run repeats none."""
        gate, ran = threading.Event(), []

        @registry.tool("copy", shared=True)
        def copy(context: ToolContext) -> str:
            """Copy."""
            context.progress(1)
            assert gate.wait(20)
            ran.append(1)
            return "copied"

        events = ToolLoop(registry.agent("ann"), fake_model(("copy",))).stream("Go.", "r")
        while not isinstance(next(events), ToolProgress):
            pass
        gate.set()
        events.close()
        assert [1] == ran

        ended = ToolLoop(registry.agent("ann"), fake_model("Done.")).run("Go.", "r")
        assert (["copied"], [1]) == ([one.result for one in ended.results], ran)

    def test_cancelling_ends_the_calls(self, registry: ToolRegistry) -> None:
        """A task that reads the stream and is cancelled cancels the tools."""
        state: list[str] = []

        @registry.tool("wait", shared=True)
        async def wait(context: ToolContext) -> None:
            """Wait for ever."""
            context.progress(1)
            try:
                await asyncio.sleep(3600)
            finally:
                state.append("ended")

        async def main() -> None:
            async def read() -> None:
                async for event in ToolLoop(registry.agent("ann"), fake_model(("wait",))).astream("Go."):
                    if isinstance(event, ToolProgress):
                        task.cancel()

            task = asyncio.create_task(read())
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        assert ["ended"] == state

    def test_an_error_of_the_batch_comes_out(self, registry: ToolRegistry) -> None:
        """A tool that fails is a result, as without progress."""

        @registry.tool("fail", shared=True)
        def fail(context: ToolContext) -> None:
            """Fail."""
            raise ValueError("no")

        *_, last = ToolLoop(registry.agent("ann"), fake_model(("fail",), "Sorry.")).stream("Go.")
        assert isinstance(last, LoopEnded)
        assert ["tool_error"] == [one.outcome for one in last.result.results]


class TestSubscribers:
    def test_every_call_is_heard(self, registry: ToolRegistry) -> None:
        """A subscriber of the registry hears progress in order, whoever calls, and without a loop."""
        gate, heard = threading.Event(), list[Any]()
        gate.set()
        declare_copy(registry, gate)
        end = registry.subscribe(heard.append)
        registry.agent("ann").call("copy", files=2)
        asyncio.run(registry.agent("ann").acall("acopy", files=3))
        end()
        registry.agent("ann").call("copy", files=4)

        progress = [one for one in heard if isinstance(one, ToolProgress)]
        assert [("copy", 1, 2), ("copy", 2, 2), ("acopy", 1, 3), ("acopy", 3, 3)] == [
            (one.tool, one.done, one.total) for one in progress]  # fmt: skip

    @pytest.mark.filterwarnings("ignore::praval_tools.SubscriberWarning")
    def test_a_subscriber_that_fails_does_not_fail_the_tool(self, registry: ToolRegistry) -> None:
        """The tool goes on, and the subscriber is warned of."""
        gate = threading.Event()
        gate.set()
        declare_copy(registry, gate)
        registry.subscribe(lambda event: 1 / 0)

        assert 2 == registry.agent("ann").call("copy", files=2)

    def test_not_once_the_call_has_ended(self, registry: ToolRegistry) -> None:
        """A context that a tool leaves behind reports nothing any more."""
        left, heard = list[ToolContext](), list[Any]()

        @registry.tool("leave", shared=True)
        def leave(context: ToolContext) -> None:
            """Leave the context behind."""
            left.append(context)

        registry.subscribe(heard.append)
        registry.agent("ann").call("leave")
        left[0].progress(1)

        assert [] == [one for one in heard if isinstance(one, ToolProgress)]
