"""Whoever leaves a run waits for what is written of it, so that the next one who opens it reads that."""

# Tests of: runs/run, runs/event_writer

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextvars import copy_context
from pathlib import Path
from typing import Any

import process_tools
import pytest
from write_ahead_rig import FailingStore, StoppedCall

from praval_tools import Allow, Outcome, ToolCall, ToolRegistry, ToolResult
from praval_tools.errors import RegistryClosedError, RunBusyError
from praval_tools.journal import Answer, Item
from praval_tools.journal.storage.sql_store import SqlStore
from praval_tools.registry.registry import get_runtime


def begin_to_close(registry: ToolRegistry) -> threading.Thread:
    """Close a registry in a thread; return once it takes no more calls."""
    thread = threading.Thread(target=registry.close)
    thread.start()
    while not get_runtime(registry).access_store.closed:
        threading.Event().wait(0.001)
    return thread


class BusyStore(FailingStore):
    """A store whose writer is kept busy until somebody waits for it."""

    def __init__(self, store: SqlStore) -> None:
        super().__init__(store)
        self.gate = threading.Event()

    def keep_busy(self) -> None:
        """Have the writer wait; what is appended from now on is not written meanwhile."""
        is_busy = threading.Event()

        def wait(_: object) -> None:
            is_busy.set()
            self.gate.wait(20)

        self.before = lambda kind: None
        self.gate.clear()
        self.store.submit([]).add_done_callback(wait)
        is_busy.wait(20)

    def append(self, items: Sequence[Item]) -> list[Answer]:
        self.gate.set()
        return super().append(items)

    def read_types(self) -> list[str]:
        """Return the types of the records of the run as another process reads them."""
        with SqlStore(Path(self.name)) as other:
            return [record.type for record in other.read(run_id="r")]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[BusyStore]:
    """Give a store."""
    store = BusyStore(SqlStore(tmp_path / "runs.db"))
    yield store
    store.gate.set()
    store.store.close()


@pytest.mark.parametrize("mode", ["content", "position", "id"])
def test_a_request_that_was_written_as_its_caller_was_cancelled(mode: Any, store: BusyStore) -> None:
    """Broken promise: the run was opened again before it was written, and what a person answered to it was lost."""
    registry, call = ToolRegistry(journal=store), ToolCall("x" if mode == "id" else None, "pay", {}, "ann")

    @registry.tool("pay", owned_by="ann", requires_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    async def make_call() -> None:
        async with registry.run("r", mode):
            task = asyncio.ensure_future(registry.aexecute(call))

            def cancel(kind: str) -> None:
                if kind == "call_refused":
                    store.keep_busy()
                    task.cancel()

            store.before = cancel
            with pytest.raises(asyncio.CancelledError):
                await task

    async def make_call_again() -> Any:
        async with registry.run("r", mode):
            return (await registry.aexecute(call)).outcome

    asyncio.run(make_call())
    assert ["approval_asked", "call_refused"] == store.read_types()
    (request,) = registry.approvals.pending()
    registry.approvals.answer(request.id, Allow())
    assert [Outcome.OK] * 2 == [asyncio.run(make_call_again()) for _ in range(2)]
    registry.close()


def test_the_request_of_a_call_that_outlives_the_run(store: BusyStore) -> None:
    """Broken promise: the run could be opened before it was written, and the call that was made again asked anew."""
    registry, call = ToolRegistry(journal=store), ToolCall(None, "pay", {}, "ann")

    @registry.tool("pay", owned_by="ann", requires_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    async def make_call() -> None:
        is_written = asyncio.Event()

        def keep_busy(kind: str) -> None:
            if kind == "call_refused":
                store.keep_busy()
                is_written.set()

        async with registry.run("r"):
            store.before = keep_busy
            task = asyncio.ensure_future(registry.aexecute(call))
            await is_written.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(RunBusyError):
            registry.run("r").__enter__()
        store.append([])
        async with registry.run("r"):
            assert Outcome.APPROVAL_REQUIRED is (await registry.aexecute(call)).outcome

    asyncio.run(make_call())
    assert 1 == len(registry.approvals.pending())
    registry.close()


def test_results_for_which_no_call_waited(store: BusyStore) -> None:
    """With `durability="intent"` a result that was not lost in a crash leaves no call in doubt."""
    with ToolRegistry(journal=store, durability="intent") as registry:

        @registry.tool("pay", owned_by="ann")
        def pay() -> str:
            """Pay."""
            store.keep_busy()
            return "paid"

        with registry.run("r"):
            assert "paid" == registry.toolset("ann").call("pay")
        assert ["agent_tool_call", "agent_tool_result"] == store.read_types()


def test_but_no_coroutine_that_nobody_awaits_any_more(store: BusyStore) -> None:
    """
    It may be the writer's own thread that drops the last reference to it: there, nothing can be waited for.

    The run is free once all is written.
    """
    registry = ToolRegistry(journal=store)

    @registry.tool("pay", owned_by="ann", requires_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    async def make_call() -> None:
        async with registry.run("r"):
            store.before = lambda kind: store.keep_busy()
            await registry.aexecute(ToolCall(None, "pay", {}, "ann"))

    async def drop_call() -> None:
        work = make_call()
        work.send(None)
        work.close()

    asyncio.run(drop_call())
    assert not store.gate.is_set()
    with pytest.raises(RunBusyError):
        registry.run("r").__enter__()
    store.append([])
    with registry.run("r"):
        pass
    registry.close()


@pytest.mark.parametrize("mode", ["content", "position", "id"])
def test_a_result_that_was_written_as_its_coroutine_was_dropped(mode: Any, tmp_path: Path) -> None:
    """Broken promise: one effect. The call was in doubt where it was made again, while its result was written."""
    store, paid = FailingStore(SqlStore(tmp_path / "runs.db")), list[str]()
    registry, call = ToolRegistry(journal=store), ToolCall("x" if mode == "id" else None, "pay", {}, "ann")

    @registry.tool("pay", owned_by="ann")
    async def pay() -> str:
        """Pay."""
        paid.append("paid")
        return "paid"

    async def drop_call() -> None:
        kinds = list[str]()
        store.before = kinds.append
        with pytest.raises(asyncio.CancelledError):
            await StoppedCall(registry.aexecute(call), lambda _: "agent_tool_result" in kinds, drops=True)

    with registry.run("r", mode) as run:
        asyncio.run(drop_call())
        assert [] == run.in_doubt
        assert mode != "id" or "paid" == asyncio.run(registry.aexecute(call)).result
    with registry.run("r", mode):
        assert "paid" == asyncio.run(registry.aexecute(call)).result
    assert ["paid"] == paid
    registry.close()
    store.store.close()


@pytest.mark.parametrize("mode", ["content", "position", "id"])
@pytest.mark.parametrize("made_again", ["at once", "later"])
def test_a_start_that_was_written_as_its_coroutine_was_dropped(mode: Any, made_again: str, tmp_path: Path) -> None:
    """Broken promise: what was stopped before its tool was entered has not run; it was in doubt, or refused."""
    store = FailingStore(SqlStore(tmp_path / "runs.db"))
    registry, call = ToolRegistry(journal=store), ToolCall("x" if mode == "id" else None, "pay", {}, "ann")

    @registry.tool("pay", owned_by="ann")
    async def pay() -> str:
        """Pay."""
        return "paid"

    async def drop_call() -> None:
        kinds = list[str]()
        store.before = kinds.append
        with pytest.raises(asyncio.CancelledError):
            await StoppedCall(registry.aexecute(call), lambda _: "agent_tool_call" in kinds, drops=True)

    with registry.run("r", mode) as run:
        asyncio.run(drop_call())
        asyncio.run(drop_call())
        assert [] == run.in_doubt
        assert made_again == "later" or "paid" == asyncio.run(registry.aexecute(call)).result
    with registry.run("r", mode):
        result = asyncio.run(registry.aexecute(call))
    assert ("paid", made_again == "at once") == (result.result, result.replayed)
    registry.close()
    store.store.close()


@pytest.mark.parametrize("is_wrapped", [False, True])
@pytest.mark.parametrize("idempotent", [True, None])
def test_a_tool_that_makes_calls_as_the_registry_closes(
    tmp_path: Path, idempotent: bool | None, is_wrapped: bool
) -> None:
    """Broken promise: it was recorded as failed for ever, where a kill at that moment would have left it in doubt."""
    inside, closed, done = threading.Event(), threading.Event(), list[int]()

    def start() -> ToolRegistry:
        registry = ToolRegistry(journal=tmp_path / "runs.db")

        @registry.tool("take_step", owned_by="ann")
        def take_step(number: int) -> int:
            """Take a step."""
            done.append(number)
            return number

        @registry.tool("walk", owned_by="ann", idempotent=idempotent)
        def walk() -> int:
            """Walk."""
            first = registry.agent("ann").call("take_step", number=1)
            inside.set()
            assert closed.wait(20)
            try:
                return int(first + registry.agent("ann").call("take_step", number=2))
            except RegistryClosedError as error:
                if not is_wrapped:
                    raise
                raise ValueError("no second step") from error

        return registry

    def work() -> None:
        with first.run("r"):
            results.append(first.execute(ToolCall("c", "walk", {}, "ann")))

    first, results = start(), list[ToolResult]()
    thread = threading.Thread(target=work)
    thread.start()
    assert inside.wait(20)
    close = begin_to_close(first)
    closed.set()
    thread.join()
    close.join()
    assert [Outcome.IN_DOUBT] == [result.outcome for result in results]
    with start() as registry, registry.run("r"):
        again = registry.execute(ToolCall("c", "walk", {}, "ann"))
    expected = (Outcome.OK, [1, 2]) if idempotent else (Outcome.IN_DOUBT, [1])
    assert expected == (again.outcome, done)


@pytest.mark.parametrize("idempotent", [True, None])
def test_a_tool_that_makes_calls_after_its_run_was_left(tmp_path: Path, idempotent: bool | None) -> None:
    """Broken promise: the next call of a tool that a cancelled caller left behind was refused: it failed for ever."""
    registry, inside, left, done = ToolRegistry(journal=tmp_path / "r.db"), threading.Event(), threading.Event(), []

    @registry.tool("take_step", owned_by="ann")
    def take_step(number: int) -> int:
        """Take a step."""
        done.append(number)
        return number

    @registry.tool("walk", owned_by="ann", idempotent=idempotent)
    def walk() -> int:
        """Walk."""
        first = registry.agent("ann").call("take_step", number=1)
        inside.set()
        assert left.wait(20)
        return int(first + registry.agent("ann").call("take_step", number=2))

    @registry.tool("lead", owned_by="ann", idempotent=True)
    def lead() -> str:
        """Have somebody walk."""
        registry.agent("ann").call("walk")
        return "ok"

    @registry.tool("guide", owned_by="ann", idempotent=True)
    def guide() -> str:
        """Have somebody lead."""
        return str(registry.agent("ann").call("lead"))

    async def cancel() -> None:
        async with registry.run("r"):
            task = asyncio.ensure_future(registry.agent("ann").acall("guide"))
            while not inside.is_set():
                await asyncio.sleep(0.001)
            task.cancel()
            await asyncio.wait([task])
        left.set()

    asyncio.run(cancel())
    registry.drain(timeout=20)
    with registry, registry.run("r"):
        again = registry.agent("ann").execute(ToolCall(None, "guide", {}))
    assert (("ok", [1, 2]) if idempotent else (None, [1])) == (again.result, done)


@pytest.mark.parametrize("end", ["the run is left", "the registry closes"])
def test_a_tool_in_another_process_that_makes_calls_too_late(tmp_path: Path, end: str) -> None:
    """Broken promise: it was recorded as failed for ever, as nobody saw in its error which call was refused."""
    registry, path, results = ToolRegistry(journal=tmp_path / "r.db"), tmp_path / "mark", list[ToolResult]()
    registry.tool("get_pid", shared=True)(process_tools.get_pid)
    registry.tool("call_late", shared=True, engine="process")(process_tools.call_late)

    def work() -> None:
        results.append(registry.execute(ToolCall("c", "call_late", {"path": str(path)}, "ann")))

    with registry.run("r"):
        thread = threading.Thread(target=copy_context().run, args=(work,))
        thread.start()
        while not path.exists():
            threading.Event().wait(0.001)
        if end == "the registry closes":
            close = begin_to_close(registry)
            path.unlink()
            thread.join()
            close.join()
    if end == "the run is left":
        path.unlink()
        thread.join()
        registry.close()
    assert [Outcome.IN_DOUBT] == [result.outcome for result in results]
