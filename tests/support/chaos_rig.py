"""Places for the chaos tests: a caller's registry, its workers, and the marks that tools leave."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import chaos_app
import pytest
from attrs import frozen
from engine_rig import make_journal
from worker_rig import WorkerHome, make_worker_home

from praval_tools import JournalError, ToolCall, ToolRegistry, ToolResult

PLACES = (("redis", "sqlite"), ("rabbitmq", "postgres"))
"""Brokers, each with a store."""


@frozen
class Place:
    """A caller's registry, and its workers."""

    registry: ToolRegistry
    home: WorkerHome
    file: Path

    @property
    def marks(self) -> int:
        """How many marks tools have left."""
        return self.file.stat().st_size

    def execute(self, name: str, **arguments: Any) -> ToolResult:
        """Run a call of ann's."""
        return self.registry.execute(ToolCall(None, name, arguments, "ann"))

    def begin(self, name: str, **arguments: Any) -> Callable[[], ToolResult]:
        """Begin a call of ann's in a thread; return what waits for its result, or raises what the call raised."""
        results: list[ToolResult | JournalError] = []

        def execute() -> None:
            try:
                results.append(self.execute(name, **arguments))
            except JournalError as error:
                results.append(error)

        thread = threading.Thread(target=execute, daemon=True)
        thread.start()

        def wait() -> ToolResult:
            thread.join(60)
            assert results, "the call has no outcome"
            (result,) = results
            if isinstance(result, JournalError):
                raise result
            return result

        return wait

    def wait_for_marks(self, count: int = 1) -> None:
        """Wait until tools have left that many."""
        wait_until(lambda: self.marks >= count)

    def make_registry(self) -> ToolRegistry:
        """Return one more registry of the same tools, as another process has it."""
        return chaos_app.make_registry(self.home.journal, self.home.broker, self.home.owner)


def wait_until(is_true: Callable[[], object], seconds: float = 30) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


@contextmanager
def open_place(broker: str, store: str, folder: Path, port: int | None = None) -> Iterator[Place]:
    """Yield a place without a worker, which speaks to the broker at *port*."""
    file = folder / "marks"
    file.touch()
    with (
        make_journal(store, folder) as journal,
        make_worker_home(broker, str(journal), folder, "chaos_app", port) as home,
    ):
        with chaos_app.make_registry(home.journal, home.broker, home.owner) as registry:
            chaos_app.grant_all(registry)
            yield Place(registry, home, file)


@pytest.fixture(params=PLACES, ids="-".join)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A place without a worker, on each broker."""
    with open_place(*request.param, tmp_path) as place:
        yield place
