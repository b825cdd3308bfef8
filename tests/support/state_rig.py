"""The stores, the clock and the calls with which the tests of surviving state begin."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from store_rig import make_database, make_location
from survivors import spend

from praval_tools import (
    ToolCall,
    ToolRegistry,
    ToolResult,
)
from praval_tools.clock import SystemClock
from praval_tools.journal.storage.memory import MemoryStore

START = datetime(2030, 1, 1, tzinfo=UTC)


class Hand(SystemClock):
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.at = START

    def now(self) -> datetime:
        """Return the moment to which it was moved."""
        return self.at


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store is."""
    return tmp_path / "runs.db"


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Where a journal of each kind is; what holds for one holds for the others."""
    if request.param == "postgres":
        monkeypatch.setenv("PRAVAL_TOOLS_KEY", "a key that all processes share")
        with make_database() as url:
            yield url
    else:
        yield path if request.param == "sqlite" else MemoryStore()


@pytest.fixture(params=["sqlite", "postgres"])
def shared(request: pytest.FixtureRequest, path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path | str]:
    """Where a journal is that several processes share."""
    monkeypatch.setenv("PRAVAL_TOOLS_KEY", "a key that all processes share")
    with make_location(request.param, path.parent) as where:
        yield where


def call(registry: ToolRegistry, tool: str, agent: str = "clerk", **arguments: Any) -> ToolResult:
    """Return what comes of a call."""
    return registry.execute(ToolCall(None, tool, arguments, agent))


def outcome(registry: ToolRegistry, tool: str, agent: str = "clerk", **arguments: Any) -> str:
    """Return how a call ends."""
    return str(call(registry, tool, agent, **arguments).outcome)


def grew(registry: ToolRegistry) -> int:
    """Return how many events the journal has."""
    assert registry.journal is not None
    return sum(1 for _ in registry.journal.read())


def make_renamed_spend() -> Any:
    """Return another `spend`, from the same place, whose parameter has another name."""

    def pay(sum: int) -> int:
        """Spend."""
        return sum

    pay.__module__, pay.__qualname__ = spend.__module__, spend.__qualname__
    return pay


def make_foreign_tool(name: str = "other") -> Any:
    """Return a function from another module."""

    def pay(amount: int = 0) -> int:
        """Spend."""
        return amount

    pay.__module__, pay.__qualname__ = name, "spend"
    return pay
