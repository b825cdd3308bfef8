"""A journaled registry whose tools fail, time out or need approval; used by the tests of journaled calls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from praval_tools import (
    ApprovalRequest,
    RetryableToolError,
    ToolCall,
    ToolRegistry,
    ToolResult,
)

Ask = Callable[[ApprovalRequest], Any]


class JournaledRig:
    """A registry over a file, with tools that go wrong, driven from sync or from async code."""

    def __init__(self, path: Path, driver: str, **options: Any) -> None:
        self.path, self.driver = path, driver
        self.ran: list[Any] = []
        self.gate = threading.Event()
        self.registry = ToolRegistry(journal=path, retry_wait=0, **options)
        self._declare(self.registry)

    def _declare(self, registry: ToolRegistry) -> None:
        ran, gate = self.ran, self.gate

        @registry.tool("pay", owned_by="ann", requires_approval=True)
        def pay(to: str, amount: int = 1) -> int:
            """Pay."""
            ran.append((to, amount))
            return amount

        @registry.tool("slow", owned_by="ann", timeout=0.02)
        def slow(fail: bool = False) -> str:
            """Come late."""
            gate.wait(30)
            if fail:
                raise ValueError("late and wrong")
            return "late"

        @registry.tool("odd", owned_by="ann")
        def odd() -> Any:
            """Give what has no JSON form."""
            ran.append("odd")
            return threading.Lock()

        @registry.tool("big", owned_by="ann", max_result_size=100)
        def big(size: int) -> str:
            """Give a lot."""
            ran.append("big")
            return "x" * size

        @registry.tool("flaky", owned_by="ann", retries=2)
        def flaky() -> int:
            """Succeed the third time."""
            ran.append("flaky")
            if len(ran) < 3:
                raise RetryableToolError("not yet")
            return len(ran)

        @registry.tool("broken", owned_by="ann")
        def broken() -> None:
            """Fail."""
            raise ValueError("the inner reason")

        @registry.tool("add", owned_by="ann")
        def add(x: int) -> int:
            """Add."""
            ran.append(x)
            return x + 1

        @registry.tool("outer", owned_by="ann")
        def outer() -> list[Any]:
            """Call others."""
            me = registry.agent("ann").tools
            return [me.call("add", x=1), me.execute(ToolCall(None, "nope", {})).outcome.value]

    def call(self, tool: str, arguments: Any = None, agent: Any = "ann", name: str | None = None) -> ToolResult:
        """Return what comes of a call."""
        call = ToolCall(name, tool, {} if arguments is None else arguments, agent)
        if self.driver == "sync":
            return self.registry.execute(call)
        return asyncio.run(self.registry.aexecute(call))

    def ask(self, handler: Ask) -> None:
        """Set an approval handler, sync or async."""

        async def later(request: ApprovalRequest) -> Any:
            await asyncio.sleep(0)
            return handler(request)

        self.registry.set_approval_handler(handler if self.driver == "sync" else later)

    def events(self, kind: Any = object) -> list[Any]:
        """Return the events of a kind."""
        assert self.registry.journal is not None
        return [event for event in self.registry.journal.events() if isinstance(event, kind)]

    def types(self) -> list[str]:
        """Return the types of the events of calls, in order."""
        return [event.type.value for event in self.events() if hasattr(event, "tool_call_id")]

    def reopen(self, **options: Any) -> JournaledRig:
        """Return a rig over the same journal, as the next process would have it."""
        self.gate.set()
        self.registry.close()
        return JournaledRig(self.path, self.driver, **options)


@pytest.fixture(params=["sync", "async"])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A rig for each driver: sync and async."""
    rig = JournaledRig(tmp_path / "runs.db", request.param)
    yield rig
    rig.gate.set()
    rig.registry.close()
