"""A registry over one journal file, a gate for its calls, and a check of the whole file; used by the tests of runs."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from praval_tools import (
    ToolCall,
    ToolRegistry,
    current_agent,
)
from praval_tools.journal import open_journal


class Rig:
    """A registry over one file whose tools count how often they run."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.ran: list[Any] = []
        self.path = path
        self.registry = ToolRegistry(journal=path, **options)
        self.registry.tool("add", owned_by="ann")(self._add)
        self.registry.tool("aadd", owned_by="ann")(self._aadd)

    def _add(self, number: int) -> int:
        """Add one."""
        self.ran.append(number)
        return number + 1

    async def _aadd(self, number: int) -> int:
        """Add one."""
        await asyncio.sleep(0)
        self.ran.append(number)
        return number + 1

    def call(self, call_id: str | None, number: int, name: str = "add", **more: Any) -> Any:
        """Make one call."""
        return self.registry.execute(ToolCall(call_id, name, {"number": number}, "ann", **more))

    def reopen(self, **options: Any) -> Rig:
        """Close the registry, and return one in its place."""
        self.registry.close()
        return Rig(self.path, **options)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of the journal."""
    return tmp_path / "runs.db"


@pytest.fixture
def rig(path: Path) -> Iterator[Rig]:
    """Give a registry with two tools."""
    rig = Rig(path)
    yield rig
    rig.registry.close()


def open_bank(path: Path, paid: list[int], *, is_async: bool = False, **metadata: Any) -> ToolRegistry:
    """Return a registry over one file, whose tool `pay` adds to *paid* what it pays."""
    registry = ToolRegistry(journal=path)

    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    async def apay(amount: int) -> str:
        """Pay."""
        return pay(amount)

    registry.tool("pay", owned_by="ann", **metadata)(apay if is_async else pay)
    return registry


def check_journal(path: Path) -> Counter[str]:
    """Check that the numbering has no gaps or repeats, and return how many results each call has."""
    with open_journal(path) as journal:
        entries = list(journal.read())
    seqs = [entry.seq for entry in entries]
    assert sorted(set(seqs)) == seqs
    for run in {entry.event.run_id for entry in entries} - {None}:
        places = [entry.run_seq for entry in entries if entry.event.run_id == run]
        assert list(range(1, len(places) + 1)) == places
    return Counter(entry.event.tool_call_id for entry in entries if entry.type == "agent_tool_result")


class Gate:
    """A tool whose calls wait inside until they are let go."""

    def __init__(self, registry: ToolRegistry, **metadata: Any) -> None:
        self.inside, self.go = threading.Event(), threading.Event()
        self.runs = 0
        self.error: BaseException | None = None

        @registry.tool("gate", owned_by="ann", **metadata)
        def gate(number: int) -> int:
            """Wait."""
            return self._wait_inside(number)

        @registry.tool("agate", owned_by="ann", **metadata)
        async def agate(number: int) -> int:
            """Wait."""
            self.runs += 1
            self.inside.set()
            while not self.go.is_set():
                await asyncio.sleep(0.001)
            if self.error is not None:
                raise self.error
            return number + 1

    def _wait_inside(self, number: int) -> int:
        self.runs += 1
        self.inside.set()
        assert self.go.wait(60)
        if self.error is not None:
            raise self.error
        return number + 1


def add_outer_tool(rig: Rig) -> None:
    """Register a tool that calls `add`."""

    @rig.registry.tool("outer", owned_by="ann", idempotent=True)
    def outer(number: int) -> int:
        """Call another tool."""
        return int(current_agent().call("add", number=number * 10))
