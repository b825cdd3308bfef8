"""A handler that ends the program, by `sys.exit` or Ctrl-C, leaves nothing half-done: its call is made again as new."""

# Tests of: execution/drivers, journal/replay

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from praval_tools import Allow, Outcome, ToolCall, ToolRegistry, ToolResult
from praval_tools.execution.hooks import CallHooks
from praval_tools.registry.registry import get_runtime


class Program:
    """A registry whose tool needs an approval and runs alone, once at a time; in a run, where it has a journal."""

    def __init__(self, place: str) -> None:
        self.place, self.ran = place, list[int]()
        self.registry = ToolRegistry(journal=None if place == "no journal" else "memory")
        self.registry.limits.set(tool="wire", concurrent=1, per_run=1)

        @self.registry.tool("wire", shared=True, requires_approval=True, concurrency_safe=False)
        def wire(amount: int) -> int:
            """Wire."""
            self.ran.append(amount)
            return amount

    def call(self, *, is_awaited: bool, call_id: str | None = "1") -> ToolResult:
        """Make the call, in the run where there is one."""
        request = ToolCall(call_id, "wire", {"amount": 5}, "ann")
        run: AbstractContextManager[Any] = nullcontext()
        if self.place not in ("no journal", "journal"):
            run = self.registry.run("night", match=self.place)  # type: ignore[arg-type]
        with run:
            return asyncio.run(self.registry.aexecute(request)) if is_awaited else self.registry.execute(request)


@pytest.mark.parametrize("place", ["no journal", "journal", "id", "content", "position"])
@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("is_awaited", [False, True])
class TestHandlersThatEndTheProgram:
    @pytest.mark.parametrize("is_async", [False, True])
    def test_leave_nothing_half_done(
        self, place: str, kind: type[BaseException], is_awaited: bool, is_async: bool
    ) -> None:
        """What it raises reaches the program; nothing waits, runs or is counted; asked again, it may allow the call."""

        def leave(request: object) -> Allow:
            raise kind("bye")

        async def leave_async(request: object) -> Allow:
            await asyncio.sleep(0)
            return leave(request)

        program = Program(place)
        program.registry.approvals.handler = leave_async if is_async else leave
        with pytest.raises(kind, match="bye"):
            program.call(is_awaited=is_awaited)
        assert ([], 0) == (program.registry.approvals.pending(), program.registry.drain(timeout=0))
        program.registry.approvals.handler = lambda request: Allow()
        assert (Outcome.OK, 5) == ((result := program.call(is_awaited=is_awaited)).outcome, result.result)
        assert [5] == program.ran

    def test_after_the_answer(self, place: str, kind: type[BaseException], is_awaited: bool) -> None:
        """A program that ends between the answer and the start makes the call once when it goes on."""

        def leave(**shown: object) -> None:
            if not left:
                left.append(shown)
                raise kind("bye")

        left = list[object]()
        program = Program(place)
        program.registry.approvals.handler = lambda request: Allow()
        get_runtime(program.registry).install_hooks(CallHooks(before=(leave,)))
        with pytest.raises(kind, match="bye"):
            program.call(is_awaited=is_awaited)
        assert Outcome.OK is program.call(is_awaited=is_awaited).outcome
        assert [5] == program.ran
