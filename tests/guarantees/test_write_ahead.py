"""Nothing starts without its durable event, and whatever stops a call or its journal, the journal says so."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from write_ahead_rig import CALL, RESULT, Execute, Rig, call, execute, make_canceller, path, rig  # noqa: F401

from praval_tools import (
    Allow,
    Outcome,
    RetryableToolError,
    ToolContext,
)
from praval_tools.errors import JournalError, JournalWarning, RegistryClosedError
from praval_tools.journal import Item
from praval_tools.journal.storage.sql_store import SqlStore


class TestIntent:
    """`durability="intent"`: the call event is durable before the start, the result is not waited for."""

    @pytest.fixture
    def rig(self, path: Path) -> Iterator[Rig]:
        """Give a registry that does not wait for results."""
        made = Rig(path, durability="intent")
        yield made
        made.close()

    def test_still_written_ahead(self, rig: Rig, execute: Execute) -> None:
        """No call starts without its event."""
        rig.store.fails.add(CALL)
        with pytest.raises(JournalError, match="Nothing was run"):
            execute(rig.registry, call())
        assert [] == rig.ran

    def test_replays(self, rig: Rig, execute: Execute) -> None:
        """Results are there at once in the run that is open, and in the next."""
        with rig.registry.run("r"):
            execute(rig.registry, call())
            assert execute(rig.registry, call()).replayed
        rig.store.store.append([])
        rig.close()
        again = Rig(rig.path)
        with again.registry.run("r"):
            assert execute(again.registry, call()).replayed
        again.close()

    def test_read_only_in_one_commit(self, rig: Rig, execute: Execute) -> None:
        """Call and result of a tool that changes nothing go in one item."""
        items: list[list[str]] = []
        append, aappend = rig.store.append, rig.store.aappend
        rig.store.append = lambda given: (
            items.extend([record.type for record in item.records] for item in given) or append(given)
        )
        rig.store.aappend = lambda given: (
            items.extend([record.type for record in item.records] for item in given) or aappend(given)
        )

        execute(rig.registry, call(name="look"))

        assert [[CALL, RESULT]] == items

    def test_read_only_that_was_interrupted(self, rig: Rig, execute: Execute) -> None:
        """A read-only call that something stopped is recorded as a whole, and found again by its id."""

        @rig.registry.tool("stop", owned_by="ann", read_only=True)
        def stop(number: int) -> int:
            """Be interrupted."""
            raise KeyboardInterrupt

        with rig.registry.run("r"), pytest.raises(KeyboardInterrupt):
            execute(rig.registry, call(name="stop"))
        assert [CALL, RESULT] == rig.types()
        with rig.registry.run("r") as run:
            assert ["c"] == [recorded.tool_call_id for recorded in run.in_doubt]
            assert Outcome.IN_DOUBT is execute(rig.registry, call(name="stop")).outcome

    def test_a_lost_result(self, rig: Rig, execute: Execute) -> None:
        """A result that cannot be written is warned of; its call is in doubt in the next opening."""
        rig.store.fails.add(RESULT)
        with rig.registry.run("r"), pytest.warns(JournalWarning, match="result.*lost"):
            assert 2 == execute(rig.registry, call()).result
        rig.store.fails.clear()
        with rig.registry.run("r"):
            assert Outcome.IN_DOUBT is execute(rig.registry, call()).outcome


@pytest.mark.usefixtures("recording_path")
class TestDoubtStays:
    """A call that was in doubt stays so until it has really run again, or somebody says what came of it."""

    @pytest.fixture
    def doubtful(self, rig: Rig) -> Rig:
        """Leave a doubtful call of a tool that honours its key behind."""
        hurt = [True]

        @rig.registry.tool("pay", owned_by="ann", idempotent=True)
        def pay(number: int) -> int:
            """Pay, and be interrupted the first time."""
            rig.ran.append(number)
            if hurt:
                hurt.clear()
                raise KeyboardInterrupt
            return number + 1

        with rig.registry.run("r"), pytest.raises(KeyboardInterrupt):
            rig.registry.execute(call(name="pay"))
        return rig

    @pytest.mark.parametrize("how", ["block", "disable", "unregister", "limit"])
    def test_a_refusal_does_not_end_it(self, doubtful: Rig, how: str) -> None:
        """A call in doubt that may not run today is refused, and stays in doubt: it may have done its work."""
        registry = doubtful.registry
        if how == "block":
            registry.block("pay", "ann")
        elif how == "disable":
            registry.disable("pay")
        elif how == "limit":
            registry.limits.set(tool="pay", per_minute=1)
            registry.execute(call(name="pay", call_id="other"))
        else:
            tool = registry.get_tool("pay")
            registry.unregister_tool("pay")
        for _ in range(2):
            with registry.run("r") as run:
                assert not registry.execute(call(name="pay")).success
                assert ["c"] == [recorded.tool_call_id for recorded in run.in_doubt]
        (info,) = registry.journal.runs()
        assert 1 == info.in_doubt
        if how == "unregister":
            registry.register_tool(tool)
        elif how == "block":
            registry.unblock("pay", "ann")
        elif how == "disable":
            registry.enable("pay")
        else:
            registry.limits.set(tool="pay")
        with registry.run("r") as run:
            assert 2 == registry.execute(call(name="pay")).result
            assert [] == run.in_doubt

    def test_cancelled_before_it_ran_again(self, doubtful: Rig) -> None:
        """A second run that is stopped before it began changes nothing."""
        registry = doubtful.registry

        async def work() -> None:
            async with registry.run("r") as run:
                task = asyncio.ensure_future(registry.aexecute(call(name="pay")))
                doubtful.store.before = make_canceller(doubtful, task, CALL)
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert ["c"] == [recorded.tool_call_id for recorded in run.in_doubt]

        asyncio.run(work())
        with registry.run("r") as run:
            assert ["c"] == [recorded.tool_call_id for recorded in run.in_doubt]
            assert 2 == registry.execute(call(name="pay")).result

    def test_rerun_that_is_refused(self, rig: Rig) -> None:
        """A call that a person let run again, and that may not today, may run another day."""

        @rig.registry.tool("stop", owned_by="ann")
        def stop(number: int) -> int:
            """Be interrupted the first time."""
            rig.ran.append(number)
            if len(rig.ran) == 1:
                raise KeyboardInterrupt
            return number

        with rig.registry.run("r"), pytest.raises(KeyboardInterrupt):
            rig.registry.execute(call(name="stop"))
        rig.registry.disable("stop")
        with rig.registry.run("r") as run:
            run.resolve("c", rerun=True)
            assert Outcome.DISABLED is rig.registry.execute(call(name="stop")).outcome
        rig.registry.enable("stop")
        with rig.registry.run("r"):
            assert 1 == rig.registry.execute(call(name="stop")).result


@pytest.mark.usefixtures("recording_path")
class TestLate:
    """Functions that end after their call was given up."""

    def _slow(self, rig: Rig, **metadata: Any) -> tuple[threading.Event, threading.Event]:
        go, over = threading.Event(), threading.Event()

        @rig.registry.tool("slow", owned_by="ann", timeout=0.01, **metadata)
        def slow(number: int, context: ToolContext) -> int:
            """Take long."""
            rig.ran.append(number)
            assert go.wait(60)
            over.set()
            return number + 1

        return go, over

    def test_a_late_result_changes_nothing(self, rig: Rig, execute: Execute) -> None:
        """The outcome stays `timeout`, also in a replay; the late result is in the journal."""
        go, over = self._slow(rig)
        written = threading.Event()
        submit = rig.store.submit

        def watched(items: Sequence[Item]) -> Any:
            done = submit(items)
            done.add_done_callback(lambda _: written.set())
            return done

        rig.store.submit = watched
        with rig.registry.run("r"):
            assert Outcome.TIMEOUT is execute(rig.registry, call(name="slow")).outcome
            go.set()
            assert written.wait(60)
        with rig.registry.run("r"):
            again = execute(rig.registry, call(name="slow"))
        assert (Outcome.TIMEOUT, True) == (again.outcome, again.replayed)
        assert [CALL, RESULT, "late_result"] == rig.types()

    def test_after_the_journal_was_closed(self, rig: Rig) -> None:
        """A function that ends when the journal is gone frees its thread and its place all the same."""
        go, over = self._slow(rig)
        rig.registry.limits.set(tool="slow", concurrent=1)
        failed: list[Any] = []
        before, threading.excepthook = threading.excepthook, failed.append
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                assert Outcome.TIMEOUT is rig.registry.execute(call(name="slow")).outcome
                rig.store.store.close()
                go.set()
                assert over.wait(60)
                assert 0 == rig.registry.drain(timeout=60)
                ended = rig.registry._runtime.threads
                while ended._blocked:
                    pass
                rig.registry.close()
        finally:
            threading.excepthook = before
        assert [] == failed
        assert ["lost" in str(warning.message) for warning in caught] == [True]


class TestClosing:
    @pytest.mark.parametrize("kind", [CALL, RESULT])
    def test_waits_for_what_is_being_written(self, rig: Rig, execute: Execute, kind: str) -> None:
        """Whoever closes the registry and then its store, meanwhile in another thread, leaves no call in doubt."""
        closer = threading.Thread(target=rig.close)

        def close_meanwhile(event_type: str) -> None:
            if event_type == kind and closer.ident is None:
                closer.start()
                closer.join(0.2)  # which a `close` that waits does not use to end

        rig.store.before = close_meanwhile
        if kind == CALL:
            with pytest.raises(RegistryClosedError):
                execute(rig.registry, call())
        else:
            assert 2 == execute(rig.registry, call()).result
        closer.join(60)
        with closing(SqlStore(rig.path)) as store:
            types = [record.type for record in store.read() if record.call_id is not None]
        assert ([CALL, kind if kind == RESULT else "call_rerun"], kind == RESULT) == (types, rig.ran == [1])


@pytest.mark.usefixtures("recording_path")
class TestRetriesAndApprovals:
    def test_retries_are_one_call(self, rig: Rig, execute: Execute) -> None:
        """Each attempt is written ahead; there is one result, and a replay gives it without another try."""
        rig.close()
        again = Rig(rig.path, retries=2, retry_wait=0)

        @again.registry.tool("flaky", owned_by="ann")
        def flaky(number: int) -> int:
            """Fail twice."""
            again.ran.append(number)
            if len(again.ran) < 3:
                raise RetryableToolError("later")
            return number

        with again.registry.run("r"):
            assert 3 == execute(again.registry, call(name="flaky")).attempts
        with again.registry.run("r"):
            assert execute(again.registry, call(name="flaky")).replayed
        assert [CALL, CALL, CALL, RESULT] == again.types()
        again.close()

    def test_the_journal_fails_between_attempts(self, rig: Rig, execute: Execute) -> None:
        """An attempt that cannot be written ahead does not begin."""
        rig.close()
        again = Rig(rig.path, retries=2, retry_wait=0)

        @again.registry.tool("flaky", owned_by="ann")
        def flaky(number: int) -> int:
            """Fail, and fill the disk."""
            again.ran.append(number)
            again.store.fails.add(CALL)
            raise RetryableToolError("later")

        with again.registry.run("r") as run:
            with pytest.raises(JournalError):
                execute(again.registry, call(name="flaky"))
            assert ["c"] == [recorded.tool_call_id for recorded in run.in_doubt]
        assert [1] == again.ran
        again.close()

    def test_approval_and_resend(self, rig: Rig, execute: Execute) -> None:
        """A call that waits for an approval is sent again and runs once; the answer is found by the next process."""

        @rig.registry.tool("wire", owned_by="ann", requires_approval=True)
        def wire(number: int) -> int:
            """Wire money."""
            rig.ran.append(number)
            return number

        with rig.registry.run("r"):
            assert Outcome.APPROVAL_REQUIRED is execute(rig.registry, call(name="wire")).outcome
            assert Outcome.APPROVAL_REQUIRED is execute(rig.registry, call(name="wire")).outcome
            rig.registry.approvals.answer("c", Allow(by="eve"))
        assert [] == rig.ran
        with rig.registry.run("r"):
            assert 1 == execute(rig.registry, call(name="wire")).result
            assert execute(rig.registry, call(name="wire")).replayed
        with rig.registry.run("r") as run:
            assert execute(rig.registry, call(name="wire")).replayed
            assert [] == run.in_doubt
        assert [1] == rig.ran

    def test_an_answer_that_cannot_be_written_does_not_count(self, rig: Rig) -> None:
        """An approval counts once it is durable."""

        @rig.registry.tool("wire", owned_by="ann", requires_approval=True)
        def wire(number: int) -> int:
            """Wire money."""
            rig.ran.append(number)
            return number

        rig.registry.execute(call(name="wire"))
        rig.store.fails.add("approval_answered")
        with pytest.raises(JournalError):
            rig.registry.approvals.answer("c", Allow(by="eve"))
        rig.store.fails.clear()

        assert Outcome.APPROVAL_REQUIRED is rig.registry.execute(call(name="wire")).outcome
        assert [] == rig.ran
