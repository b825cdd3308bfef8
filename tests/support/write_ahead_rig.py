"""A registry over a store that fails on request, for the tests of what is written before and after a call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from praval_tools import (
    ToolCall,
    ToolRegistry,
    ToolResult,
)
from praval_tools.errors import JournalError
from praval_tools.journal import Answer, Item
from praval_tools.journal.storage.sql_store import SqlStore

Execute = Callable[[ToolRegistry, ToolCall], Any]


def execute_sync(registry: ToolRegistry, call: ToolCall) -> Any:
    return registry.execute(call)


def execute_async(registry: ToolRegistry, call: ToolCall) -> Any:
    async def wait() -> Any:
        return await registry.aexecute(call)

    return asyncio.run(wait())


@pytest.fixture(params=[execute_sync, execute_async], ids=["sync", "async"])
def execute(request: pytest.FixtureRequest) -> Execute:
    """Give both drivers in turn."""
    execute: Execute = request.param
    return execute


class FailingStore:
    """A store that fails as a disk would: at the types of events in `fails`, or where `before` raises."""

    def __init__(self, store: SqlStore) -> None:
        self.store = store
        self.fails: set[str] = set()
        self.before: Callable[[str], None] = lambda kind: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def _check(self, items: Sequence[Item]) -> None:
        for item in items:
            for record in item.records:
                self.before(record.type)
                if record.type in self.fails:
                    raise JournalError(self.store.name, "the disk is full", "Free space.")

    def append(self, items: Sequence[Item]) -> list[Answer]:
        self._check(items)
        return self.store.append(items)

    def submit(self, items: Sequence[Item]) -> Any:
        self._check(items)
        return self.store.submit(items)

    def aappend(self, items: Sequence[Item]) -> Awaitable[list[Answer]]:
        self._check(items)
        return self.store.aappend(items)


class StoppedCall:
    """
    Awaits the call that *work* makes, and cancels its task, or drops the work, while that waits.

    Args:
        work: The work.
        stops: Tells from how often it has waited whether it is stopped now.
        drops: Drop it, as a loop does that is closed.
    """

    def __init__(self, work: Coroutine[Any, Any, ToolResult], stops: Callable[[int], bool], *, drops: bool) -> None:
        self.work, self.stops, self.drops = work, stops, drops

    def __await__(self) -> Generator[Any, None, ToolResult]:
        steps, count, error = self.work.__await__(), 0, None
        task = asyncio.current_task()
        assert task is not None
        while True:
            try:
                waited = steps.send(None) if error is None else steps.throw(error)
            except StopIteration as end:
                result: ToolResult = end.value
                return result
            count, error = count + 1, None
            if self.stops(count):
                if self.drops:
                    self.work.close()
                    raise asyncio.CancelledError
                task.cancel()
            try:
                yield waited
            except BaseException as raised:
                error = raised


class Rig:
    """A registry over a store that fails at will, and a tool that says when it ran."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.path, self.ran = path, list[int]()
        self.store = FailingStore(SqlStore(path))
        self.registry = ToolRegistry(journal=self.store, **options)

        @self.registry.tool("add", owned_by="ann")
        def add(number: int) -> int:
            """Add one."""
            self.ran.append(number)
            return number + 1

        @self.registry.tool("aadd", owned_by="ann")
        async def aadd(number: int) -> int:
            """Add one."""
            self.ran.append(number)
            return number + 1

        @self.registry.tool("look", owned_by="ann", read_only=True)
        def look(number: int) -> int:
            """Look."""
            self.ran.append(number)
            return number + 1

    def close(self) -> None:
        """Close registry and store."""
        self.registry.close()
        self.store.store.close()

    def types(self) -> list[str]:
        """Return the types of what was written of calls."""
        return [record.type for record in self.store.store.read() if record.call_id is not None]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of the journal."""
    return tmp_path / "runs.db"


@pytest.fixture
def rig(path: Path) -> Iterator[Rig]:
    """Give a registry over a store that fails at will."""
    rig = Rig(path)
    yield rig
    rig.close()


def call(number: int = 1, name: str = "add", call_id: str | None = "c") -> ToolCall:
    """Return a call that ann makes."""
    return ToolCall(call_id, name, {"number": number}, "ann")


CALL, RESULT = "agent_tool_call", "agent_tool_result"


def make_canceller(rig: Rig, task: asyncio.Future[Any], kind: str) -> Callable[[str], None]:
    """Return a function that cancels *task* once, when an event of *kind* is about to be written."""

    def cancel_at(event_type: str) -> None:
        if event_type == kind:
            rig.store.before = lambda _: None
            task.cancel()

    return cancel_at
