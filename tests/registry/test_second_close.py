# Tests of: execution/runtime, registry/registry
"""Who closes a registry while somebody else does waits, too, until the calls inside have ended and are recorded."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from praval_tools import Agent, ToolRegistry
from praval_tools.journal import open_journal
from praval_tools.registry.registry import get_runtime


class Rig:
    """A registry in which a thread makes a call that lasts until it is let go."""

    def __init__(self, where: Path) -> None:
        self.where, self.entered, self.may_end, self.got = where, threading.Event(), threading.Event(), list[object]()
        self.registry = ToolRegistry(journal=where)
        self.ann = Agent("ann", registry=self.registry)

        @self.registry.tool("pay", owned_by="ann")
        def pay() -> str:
            """Pay."""
            self.entered.set()
            self.may_end.wait()
            return "paid"

        self.worker = threading.Thread(target=self._work)
        self.worker.start()
        self.entered.wait()

    def _work(self) -> None:
        with self.registry.run("r"):
            self.got.append(self.ann.call("pay"))

    def check(self) -> None:
        """Check that the call ended, and is recorded."""
        self.worker.join()
        assert ["paid"] == self.got
        with open_journal(self.where) as journal:
            assert [False] == [call.in_doubt for call in journal.calls("r")]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """The registry and its call, which ends at the latest with the test."""
    rig = Rig(tmp_path / "runs.db")
    yield rig
    rig.may_end.set()


@pytest.mark.parametrize("is_async", [False, True])
def test_while_the_first_waits(rig: Rig, is_async: bool) -> None:
    """Broken promise: the second one closed the journal, and the result of the call was lost."""
    first = threading.Thread(target=rig.registry.close)
    first.start()
    while not get_runtime(rig.registry).closing_event.wait(0.01):  # until the first one has begun
        assert first.is_alive()
    second = threading.Thread(target=lambda: asyncio.run(rig.registry.aclose()) if is_async else rig.registry.close())
    second.start()
    second.join(0.05)
    assert second.is_alive()
    rig.may_end.set()
    first.join()
    second.join()
    rig.check()


def test_after_the_first_was_interrupted(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first one did not do, the second one does."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("praval_tools.execution.runtime.Runtime.drain", interrupt)
        rig.registry.close()
    second = threading.Thread(target=rig.registry.close)
    second.start()
    rig.may_end.set()
    second.join()
    rig.check()
