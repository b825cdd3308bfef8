"""Loops that are stopped, and begun again: in the same opening of their run, or in the next."""

# Tests of: runs/model_log, loop/state_machine

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import nullcontext
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest
from loop_rig import RAN, add, registry  # noqa: F401
from write_ahead_rig import FailingStore

from praval_tools import Allow, ToolCall, ToolContext, ToolRegistry, ToolUsageError
from praval_tools.errors import RegistryClosedError
from praval_tools.journal.storage.sql_store import SqlStore
from praval_tools.loop import StopReason, ToolLoop
from praval_tools.testing import fake_model


class TestStopped:
    def test_a_loop_whose_run_was_left(self, registry: ToolRegistry) -> None:
        """Broken promise: what its model said later was recorded, and the run answered from it at its next opening."""
        asked, go_on, errors = threading.Event(), threading.Event(), list[str]()

        def answer(request: Any) -> str:
            asked.set()
            assert go_on.wait(60)
            return "Too late."

        def begin() -> None:
            with pytest.raises(ToolUsageError, match="was closed") as caught:
                ToolLoop(registry.agent("ann"), fake_model(answer)).run("Go.")
            errors.append(caught.value.code)

        with registry.run("r"):
            thread = threading.Thread(target=copy_context().run, args=(begin,))
            thread.start()
            assert asked.wait(60)
        go_on.set()
        thread.join()
        assert ["run-closed"] == errors
        assert "In time." == ToolLoop(registry.agent("ann"), fake_model("In time.")).run("Go.", "r").text

    @pytest.mark.parametrize("opens", [True, False])
    def test_a_loop_that_is_cancelled_and_begun_again(self, tmp_path: Path, opens: bool) -> None:
        """Broken promise: cancelled while it was written that it began, it asked for all again at the next start."""
        registry = ToolRegistry(journal=tmp_path / "runs.db")
        ann = registry.agent("ann")

        async def begin(run_id: str, model: Any) -> str:
            async with registry.run(run_id) if opens else nullcontext():
                return str((await ToolLoop(ann, model).arun("Go.", run_id)).text)

        async def main(turns: int) -> None:
            run_id = f"r{turns}"
            task = asyncio.ensure_future(begin(run_id, fake_model("First.", "First.")))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            said = await begin(run_id, fake_model("Second."))
            assert said == await begin(run_id, fake_model())

        with registry:
            for turns in range(12):
                asyncio.run(main(turns))

    def test_a_loop_that_is_cancelled_and_begun_again_in_one_opening(self, tmp_path: Path) -> None:
        """Broken promise: its reply, which was still being written, was asked for again, and called again later."""
        path, asked, written = tmp_path / "runs.db", list[int](), list[str]()
        store = FailingStore(SqlStore(path))
        store.before = written.append
        registry = ToolRegistry(journal=store)
        registry.tool("add", shared=True)(add)

        def reply(request: Any) -> Any:
            asked.append(request.step)
            if asked == [1]:  # another process is writing, for a moment
                other = sqlite3.connect(path, check_same_thread=False)
                other.execute("BEGIN IMMEDIATE")
                threading.Timer(0.3, other.close).start()
            return ToolCall(f"c{len(asked)}", "add", {"x": 1}) if request.step == 1 else "Done."

        async def main() -> None:
            async with registry.run("r", match="id"):
                task = asyncio.ensure_future(begin())
                while "model_replied" not in written:
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
                await begin()
            async with registry.run("r", match="id"):
                await begin()

        begin = lambda: ToolLoop(registry.agent("ann"), fake_model(reply, reply)).arun("Go.")
        with registry:
            RAN.clear()
            asyncio.run(main())
        store.store.close()
        assert ([(1, 0)], [1, 2]) == (RAN, asked)

    def test_a_loop_that_was_stopped_before_its_first_reply_is_continued(self, registry: ToolRegistry) -> None:
        """Begun again in the same opening, it is the same loop: the next start finds its replies."""
        with registry.run("r"):
            with pytest.raises(KeyboardInterrupt):
                ToolLoop(registry.agent("ann"), fake_model(KeyboardInterrupt())).run("Go.")
            said = ToolLoop(registry.agent("ann"), fake_model("Said.")).run("Go.").text

        assert "Said." == said == ToolLoop(registry.agent("ann"), fake_model()).run("Go.", "r").text

    @pytest.mark.parametrize("again", ["run", "resume"])
    def test_a_loop_that_did_not_end_is_gone_on_with_in_the_same_opening(
        self, registry: ToolRegistry, again: str
    ) -> None:
        """Broken promise: it was begun anew, and called again; `resume` said that there is no loop."""
        model = fake_model(("add", {"x": 1}), ConnectionError(), ("post", {"text": "a"}), "Done.")
        loop = ToolLoop(registry.agent("ann"), model, retries=0)
        go_on = {"run": lambda: loop.run("Go."), "resume": lambda: loop.resume("r")}[again]
        with registry.run("r"):
            with pytest.raises(ConnectionError):
                loop.run("Go.")
            asks = go_on()
            assert StopReason.APPROVAL_REQUIRED == asks.reason
            registry.approvals.answer(asks.waiting[0], Allow())
            assert "Done." == go_on().text
        assert [(1, 0), "a"] == RAN

    @pytest.mark.parametrize("stop", ["time-out", "cancellation"])
    def test_the_loop_of_an_attempt_that_was_given_up_is_continued_by_the_next(self, tmp_path: Path, stop: str) -> None:
        """Broken promise: both had a loop of their own, and the next start went on with that of the first one."""
        asked, go_on, ended = list[int](), threading.Event(), threading.Event()

        def reply(request: Any) -> Any:
            asked.append(request.step)
            if len(asked) == 1:
                assert go_on.wait(60)
                return ToolCall("first", "add", {"x": 100})
            return ToolCall(f"c{len(asked)}", "add", {"x": 1}) if request.step == 1 else "Done."

        def start() -> ToolRegistry:
            registry = ToolRegistry(journal=tmp_path / "runs.db", retry_wait=0)
            registry.tool("add", shared=True)(add)

            @registry.tool(
                "ask", owned_by="bob", idempotent=True, timeout=0.3 if stop == "time-out" else None, retries=1
            )
            def ask() -> str:
                """Ask."""
                is_first = not asked
                try:
                    return str(ToolLoop(registry.agent("ann"), model).run("Go.").text)
                finally:
                    if is_first:
                        ended.set()

            return registry

        async def make_call(registry: ToolRegistry) -> Any:
            call = ToolCall("c", "ask", {}, "bob")
            with registry.run("r"):
                if stop == "cancellation":
                    task = asyncio.ensure_future(registry.aexecute(call))
                    while not asked:
                        await asyncio.sleep(0.001)
                    task.cancel()
                    await asyncio.wait([task])
                said = (await registry.aexecute(call)).result
                go_on.set()
                await asyncio.to_thread(ended.wait, 60)
                return said

        RAN.clear()
        model = fake_model(*[reply] * 3)
        with start() as registry:
            assert "Done." == asyncio.run(make_call(registry))
            assert registry.journal is not None
            assert 1 == len(list(registry.journal.read(type="loop_began")))
        assert ([(1, 0)], [1, 1, 2]) == (RAN, asked)

    def test_equal_loops_in_threads_are_resumed_each_by_one(self, tmp_path: Path) -> None:
        """Broken promise: two that began at once went on with the same recorded loop, and one was left."""
        asked = list[object]()

        def reply(request: Any) -> Any:
            if request.step > 1:
                return f"Done: {request.messages[-1]['content']}"
            asked.append(None)
            return ToolCall("c", "add", {"x": len(asked)})

        async def run_loops(registry: ToolRegistry) -> list[str]:
            loop = ToolLoop(registry.agent("ann"), fake_model(*[reply] * 12))
            with registry.run("r"):
                work = (asyncio.to_thread(loop.run, "Go. " + "word " * 20_000) for _ in range(6))
                return sorted(str(ended.text) for ended in await asyncio.gather(*work))

        said = []
        for _ in range(3):
            with ToolRegistry(journal=tmp_path / "runs.db") as registry:
                registry.tool("add", shared=True)(add)
                said.append(asyncio.run(run_loops(registry)))
        assert said[0] == said[1] == said[2]
        assert 6 == len(asked) == len(set(said[0]))

    def test_a_call_that_could_not_be_made_ends_the_loop(self, tmp_path: Path) -> None:
        """Broken promise: the model was shown it, and paid otherwise; the resumed loop made the call as well."""
        RAN.clear()

        async def wire(x: int) -> None:
            """Wire."""
            RAN.append(x)

        model = fake_model(("wire", {"x": 1}), "Done.")
        with ToolRegistry(journal=tmp_path / "runs.db") as registry:
            registry.tool("wire", shared=True)(wire)
            loop = ToolLoop(registry.agent("ann"), model)

            async def main() -> str:
                with pytest.raises(ToolUsageError, match="'wire' is async"):
                    loop.run("Go.", "r")
                assert [] == RAN
                return str((await loop.aresume("r")).text)

            assert "Done." == asyncio.run(main())
        assert [1] == RAN

    def test_a_loop_in_a_full_run_is_resumed_from_what_is_recorded(self, tmp_path: Path) -> None:
        """Broken promise: the model was shown that a call is refused, and a resumed loop made it, and answered that."""
        RAN.clear()
        model = fake_model(("add", {"x": 1}), ("add", {"x": 2}), "I could not add 2.")
        with ToolRegistry(journal=tmp_path / "runs.db", max_run_events=2) as registry:
            registry.tool("add", shared=True)(add)
            assert "I could not add 2." == ToolLoop(registry.agent("ann"), model).run("Go.", "r").text
        assert [(1, 0)] == RAN
        with ToolRegistry(journal=tmp_path / "runs.db") as registry:
            registry.tool("add", shared=True)(add)
            assert "Added." == ToolLoop(registry.agent("ann"), fake_model(("add", {"x": 2}), "Added.")).resume("r").text
        assert [(1, 0), (2, 0)] == RAN

    @pytest.mark.parametrize("stream", [True, False])
    def test_a_loop_whose_registry_closes_before_its_calls(self, stream: bool) -> None:
        """Broken promise: an internal error reached the program."""
        registry = ToolRegistry()

        @registry.tool("report", shared=True)
        def report(context: ToolContext) -> None:
            """Report."""

        def reply(request: Any) -> Any:
            registry.close()
            return ("report", {})

        loop = ToolLoop(registry.agent("ann"), fake_model(reply))
        with pytest.raises(RegistryClosedError):
            list(loop.stream("Go.")) if stream else loop.run("Go.")
