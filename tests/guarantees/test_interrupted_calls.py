"""Nothing starts without its durable event, and whatever stops a call or its journal, the journal says so."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from write_ahead_rig import CALL, RESULT, Execute, Rig, call, execute, make_canceller, path, rig  # noqa: F401

from praval_tools import (
    Outcome,
    ToolUsageError,
)
from praval_tools.errors import JournalError, JournalWarning
from praval_tools.journal import Answer, Item
from praval_tools.registry.registry import get_runtime


def _full(items: Sequence[Item]) -> Any:
    raise JournalError("runs.db", "the disk is full", "Free space.")


@pytest.mark.usefixtures("recording_path")
class TestStopped:
    """Whatever stops a call, the run knows how it stands: now and when it is opened again."""

    @pytest.mark.parametrize("error", [KeyboardInterrupt, GeneratorExit])
    def test_interrupted_tool(self, rig: Rig, execute: Execute, error: type[BaseException]) -> None:
        """A `BaseException` that is not an `Exception` is recorded and raised again; the call is in doubt."""

        @rig.registry.tool("stop", owned_by="ann", engine="thread")
        def stop(number: int) -> int:
            """Be stopped."""
            rig.ran.append(number)
            raise error

        with rig.registry.run("r") as run:
            with pytest.raises(error):
                execute(rig.registry, call(name="stop"))
            assert ["c"] == [recorded.tool_call_id for recorded in run.in_doubt]
        with rig.registry.run("r"):
            assert Outcome.IN_DOUBT is execute(rig.registry, call(name="stop")).outcome
        assert [1] == rig.ran

    def test_the_journal_fails_then(self, rig: Rig, execute: Execute) -> None:
        """Where that cannot be recorded, what stopped the call is raised all the same, with a warning."""

        @rig.registry.tool("stop", owned_by="ann")
        def stop(number: int) -> int:
            """Be interrupted."""
            raise KeyboardInterrupt

        rig.store.fails.add(RESULT)
        with rig.registry.run("r") as run:
            with pytest.raises(KeyboardInterrupt), pytest.warns(JournalWarning, match="disk is full"):
                execute(rig.registry, call(name="stop"))
            assert ["c"] == [recorded.tool_call_id for recorded in run.in_doubt]

    def test_cancelled_before_its_intent_landed(self, rig: Rig) -> None:
        """A task that is cancelled while its call event is written ran nothing, and the call may run later."""

        async def work() -> None:
            async with rig.registry.run("r") as run:
                task = asyncio.ensure_future(rig.registry.aexecute(call(name="aadd")))
                rig.store.before = make_canceller(rig, task, CALL)
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert [] == rig.ran
                assert [] == run.in_doubt
                assert 2 == (await rig.registry.aexecute(call(name="aadd"))).result
            async with rig.registry.run("r"):
                assert (await rig.registry.aexecute(call(name="aadd"))).replayed

        asyncio.run(work())
        assert [1] == rig.ran

    def test_cancelled_before_its_intent_landed_and_opened_anew(self, rig: Rig) -> None:
        """So does the next opening."""

        async def work() -> None:
            async with rig.registry.run("r"):
                task = asyncio.ensure_future(rig.registry.aexecute(call(name="aadd")))
                rig.store.before = make_canceller(rig, task, CALL)
                with pytest.raises(asyncio.CancelledError):
                    await task
            async with rig.registry.run("r") as run:
                assert [] == run.in_doubt
                assert 2 == (await rig.registry.aexecute(call(name="aadd"))).result

        asyncio.run(work())
        assert [1] == rig.ran

    @pytest.mark.parametrize("idempotent", [True, None])
    def test_cancelled_before_its_result_landed(self, rig: Rig, idempotent: bool | None) -> None:
        """A task that is cancelled while its result is written: the result counts, and nothing runs again."""

        @rig.registry.tool("pay", owned_by="ann", idempotent=idempotent)
        async def pay(number: int) -> int:
            """Pay."""
            rig.ran.append(number)
            return len(rig.ran)

        async def work() -> None:
            async with rig.registry.run("r") as run:
                task = asyncio.ensure_future(rig.registry.aexecute(call(name="pay")))
                rig.store.before = make_canceller(rig, task, RESULT)
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert [] == run.in_doubt
                again = await rig.registry.aexecute(call(name="pay"))
                assert (1, True) == (again.result, again.replayed)

        asyncio.run(work())
        assert [1] == rig.ran

    @pytest.mark.parametrize("learns", [True, False])
    def test_cancelled_twice_before_its_result_landed(self, rig: Rig, learns: bool) -> None:
        """
        Cancelled again meanwhile: the result is written all the same, and the run gives it back.

        If it never learns it, the tool runs again, as it may; the result that was recorded first is the result.
        """

        @rig.registry.tool("pay", owned_by="ann", idempotent=True)
        async def pay(number: int) -> int:
            """Pay."""
            rig.ran.append(number)
            return len(rig.ran)

        async def work() -> None:
            async with rig.registry.run("r") as run:
                task = asyncio.ensure_future(rig.registry.aexecute(call(name="pay")))
                left = [True, True]

                def see(kind: str) -> None:
                    if kind == RESULT and left:
                        left.pop()
                        task.cancel()
                        if not left and not learns:
                            rig.store.submit = _full

                rig.store.before = see
                with pytest.raises(asyncio.CancelledError):
                    await task
                while learns and run.in_doubt:
                    await asyncio.sleep(0.001)
                again = await rig.registry.aexecute(call(name="pay"))
                assert (1, True, "c") == (again.result, again.replayed, again.tool_call_id)
                assert [] == run.in_doubt
                third = await rig.registry.aexecute(call(name="pay"))
                assert (1, True) == (third.result, third.replayed)
                while RESULT not in rig.types():
                    await asyncio.sleep(0.001)

        asyncio.run(work())
        assert [1] * (1 if learns else 2) == rig.ran
        assert 1 == rig.types().count(RESULT)
        assert rig.registry.journal.stats().get_all_stats() == rig.registry.stats.get_all_stats()

    def test_stopped_call_that_is_stopped_again(self, rig: Rig) -> None:
        """A call that was cancelled, and again while that is written, is recorded once and counted once."""
        inside = asyncio.Event()

        @rig.registry.tool("hang", owned_by="ann")
        async def hang(number: int) -> None:
            """Hang."""
            inside.set()
            await asyncio.sleep(3600)

        async def work() -> None:
            async with rig.registry.run("r") as run:
                task = asyncio.ensure_future(rig.registry.aexecute(call(name="hang")))
                await inside.wait()
                rig.store.before = make_canceller(rig, task, RESULT)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert ["c"] == [recorded.tool_call_id for recorded in run.in_doubt]

        asyncio.run(work())
        rig.registry.execute(call(call_id="after"))  # written after all that waits
        assert 2 == rig.types().count(RESULT)
        assert rig.registry.journal.stats().get_all_stats() == rig.registry.stats.get_all_stats()

    def test_interrupted_while_its_result_is_written(self, rig: Rig) -> None:
        """The same in sync code."""
        append = rig.store.append

        def interrupted(items: Sequence[Item]) -> list[Answer]:
            answers = append(items)
            if items[0].records[0].type == RESULT:
                rig.store.append = append
                raise KeyboardInterrupt
            return answers

        with rig.registry.run("r") as run:
            rig.store.append = interrupted
            with pytest.raises(KeyboardInterrupt):
                rig.registry.execute(call())
            assert [] == run.in_doubt
            assert rig.registry.execute(call()).replayed
        assert [1] == rig.ran

    def test_a_coroutine_that_is_closed(self, rig: Rig) -> None:
        """A call whose coroutine is thrown away inside of its tool is in doubt."""

        @rig.registry.tool("hang", owned_by="ann", timeout=None)
        async def hang(number: int) -> None:
            """Hang."""
            rig.ran.append(number)
            await asyncio.sleep(3600)

        with rig.registry.run("r") as run:
            loop = asyncio.new_event_loop()
            work = loop.create_task(rig.registry.aexecute(call(name="hang")))
            while not rig.ran:
                loop.run_until_complete(asyncio.sleep(0))
            work._log_destroy_pending = False
            work.get_coro().close()
            loop.close()
            assert ["c"] == [recorded.tool_call_id for recorded in run.in_doubt]
        with rig.registry.run("r"):
            assert Outcome.IN_DOUBT is rig.registry.execute(call(name="hang")).outcome

    @pytest.mark.parametrize("waits_for", ["a thread", "its turn"])
    def test_a_coroutine_that_is_closed_while_its_tool_waits(self, rig: Rig, waits_for: str) -> None:
        """Broken promise: the call was free to be made again, and its tool ran all the same once it could."""
        entered, go_on, runtime = threading.Semaphore(0), threading.Event(), get_runtime(rig.registry)

        def hold(number: int) -> int:
            """Hold a thread."""
            entered.release()
            assert go_on.wait(60)
            return number

        @rig.registry.tool("pay", owned_by="ann", concurrency_safe=waits_for == "a thread", engine="thread")
        def pay(number: int) -> int:
            """Pay."""
            rig.ran.append(number)
            return number

        def is_waiting() -> bool:
            if waits_for == "a thread":
                return bool(runtime.threads._jobs)
            return len(runtime.exclusive_gate._waiters) == 1

        rig.registry.tool("hold", owned_by="ann", engine="thread")(hold)
        holders = 32 if waits_for == "a thread" else 1

        async def work() -> None:
            async with rig.registry.run("r") as run:
                held = [asyncio.ensure_future(rig.registry.aexecute(call(name="hold", call_id=f"h{number}")))
                        for number in range(holders)]  # fmt: skip
                for _ in held:
                    assert await asyncio.to_thread(entered.acquire, timeout=60)
                paid = asyncio.ensure_future(rig.registry.aexecute(call(name="pay", call_id="paid")))
                while not is_waiting():
                    await asyncio.sleep(0.001)
                paid.get_coro().close()
                paid.cancel()
                go_on.set()
                await asyncio.wait([*held, paid])
                if waits_for == "a thread":
                    assert [] == run.in_doubt
                    again = await rig.registry.aexecute(call(name="pay", call_id="paid"))
                    assert (1, False) == (again.result, again.replayed)
                else:
                    assert ["paid"] == [recorded.tool_call_id for recorded in run.in_doubt]

        asyncio.run(work())
        assert rig.registry.drain(timeout=60) == 0
        assert ([1] if waits_for == "a thread" else []) == rig.ran

    @pytest.mark.parametrize("end", ["interrupt", "time-out"])
    def test_an_async_tool_whose_loop_is_busy_begins_no_more(self, rig: Rig, end: str) -> None:
        """Broken promise: recorded as stopped before its tool was entered, it ran once the loop was free again."""
        busy, go_on = threading.Event(), threading.Event()

        @rig.registry.tool("parse", owned_by="ann", timeout=None)
        async def parse(number: int) -> None:
            """Block the loop."""
            busy.set()
            assert go_on.wait(60)

        @rig.registry.tool("pay", owned_by="ann", timeout=0.01 if end == "time-out" else None)
        async def pay(number: int) -> int:
            """Pay."""
            rig.ran.append(number)
            return number

        thread = threading.Thread(target=rig.registry.execute, args=(call(name="parse"),))
        with rig.registry.run("r") as run:
            thread.start()
            assert busy.wait(60)
            if end == "interrupt":
                threading.Timer(0.1, signal.pthread_kill, (threading.main_thread().ident or 0, signal.SIGINT)).start()
                with pytest.raises(KeyboardInterrupt):
                    rig.registry.execute(call(name="pay", call_id="paid"))
            else:
                assert Outcome.TIMEOUT is rig.registry.execute(call(name="pay", call_id="paid")).outcome
            assert [] == run.in_doubt
            go_on.set()
            thread.join()
            assert 0 == rig.registry.drain(timeout=60)
            assert [] == rig.ran
            again = rig.registry.execute(call(name="pay", call_id="paid"))
        assert ([1], 1) == (rig.ran, again.result) if end == "interrupt" else ([], None) == (rig.ran, again.result)

    def test_a_sync_call_of_an_async_tool_in_a_loop(self, rig: Rig) -> None:
        """A refusal of the driver leaves the call free to run, in this opening and the next."""

        async def work() -> None:
            async with rig.registry.run("r") as run:
                with pytest.raises(ToolUsageError, match="'aadd' is async"):
                    rig.registry.execute(call(name="aadd"))
                assert [] == run.in_doubt
                assert 2 == (await rig.registry.aexecute(call(name="aadd"))).result

        asyncio.run(work())
