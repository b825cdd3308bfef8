# Tests of: runs/recorder, journal/replay, execution/batch_turns
"""Calls that are made again: each of several equal ones is the one that it was, and a batch never waits for itself."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any, Literal

import pytest

from praval_tools import Allow, ApprovalRequest, Ask, Outcome, ToolCall, ToolContext, ToolInDoubtError, ToolRegistry

Match = Literal["content", "position"]
MATCHES: list[Match] = ["content", "position"]
CALL = ToolCall(None, "draw", {}, "ann")


@pytest.mark.parametrize("match", MATCHES)
def test_stopped_calls_are_made_again_in_their_order(match: Match, tmp_path: Path) -> None:
    """Two equal calls are cancelled while a handler is asked, and made again: a replay gives each its own result."""
    numbers = itertools.count()

    async def live(is_slow: bool) -> list[object]:
        was_asked = asyncio.Event()
        with ToolRegistry(journal=tmp_path / "j.db") as registry:

            @registry.tool("draw", owned_by="ann", requires_approval=True)
            async def draw() -> int:
                """Draw."""
                return next(numbers)

            async def answer(request: ApprovalRequest) -> Allow:
                was_asked.set()
                if is_slow and not is_over:
                    await asyncio.Event().wait()
                return Allow()

            async def make_both() -> list[object]:
                return [one.result for one in await asyncio.gather(*(registry.aexecute(CALL) for _ in range(2)))]

            is_over = False
            registry.set_approval_handler(answer)
            async with registry.run("r", match=match):
                if is_slow:
                    task = asyncio.create_task(make_both())
                    await was_asked.wait()
                    task.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await task
                    is_over = True
                return await make_both()

    lives = [asyncio.run(live(is_slow)) for is_slow in (True, False)]

    assert [0, 1] == sorted(lives[0], key=str)
    assert lives[0] == lives[1]


@pytest.mark.parametrize("match", MATCHES)
def test_resolved_calls_are_made_again_in_their_order(match: Match, tmp_path: Path) -> None:
    """Both of two equal calls are resolved, one after the other, and made again."""
    lives = list[list[object]]()
    for life in range(3):
        with ToolRegistry(journal=tmp_path / "j.db") as registry:

            @registry.tool("draw", owned_by="ann")
            def draw() -> int:
                """Draw."""
                raise ToolInDoubtError("the line went dead")

            with registry.run("r", match=match) as run:
                results = [registry.execute(CALL), registry.execute(CALL)]
                if life == 1:
                    for number, doubtful in enumerate(run.in_doubt):
                        run.resolve(doubtful, result=number)
                    results = [registry.execute(CALL), registry.execute(CALL)]
                lives.append([one.result for one in results])

    assert [[None, None], [0, 1], [0, 1]] == lives


def test_a_refused_call_leaves_the_one_in_doubt_to_the_next(tmp_path: Path) -> None:
    """An idempotent call in doubt that a policy refuses is made again under another id with its own key."""
    keys, is_refused = list[str | None](), [False]
    outcomes = list[Outcome]()
    for ids in ("a", "bc"):
        with ToolRegistry(journal=tmp_path / "j.db") as registry:
            registry.add_policy(lambda agent, tool, arguments: "not now" if is_refused[0] else None, name="later")

            @registry.tool("pay", owned_by="ann", idempotent=True)
            def pay(context: ToolContext) -> str:
                """Pay."""
                keys.append(context.idempotency_key)
                if len(keys) == 1:
                    raise ToolInDoubtError("the line went dead")
                return "paid"

            with registry.run("r") as run:
                for call_id in ids:
                    is_refused[0] = call_id == "b"
                    outcomes.append(registry.execute(ToolCall(call_id, "pay", {}, "ann")).outcome)
                if ids == "bc":
                    assert [] == run.in_doubt

    assert [Outcome.IN_DOUBT, Outcome.FORBIDDEN, Outcome.OK] == outcomes
    assert ["r/a", "r/a"] == keys


def test_a_tool_that_runs_again_finds_its_calls_in_their_order(tmp_path: Path) -> None:
    """It was stopped between two equal calls, of which the second is recorded, too."""
    numbers, results = itertools.count(), list[Any]()
    for stops in ([2], [1, 0]):
        with ToolRegistry(journal=tmp_path / "j.db") as registry:

            @registry.tool("draw", owned_by="ann")
            def draw() -> int:
                """Draw."""
                return next(numbers)

            @registry.tool("outer", owned_by="ann", idempotent=True)
            def outer() -> list[int]:
                """Draw twice."""
                drawn = list[int]()
                for _ in range(2):
                    drawn.append(registry.toolset("ann").call("draw"))  # called while it is open
                    if len(drawn) == stop[0]:
                        raise KeyboardInterrupt
                return drawn

            with registry.run("r"):
                for number in stops:
                    stop = [number]
                    try:
                        results.append(registry.execute(ToolCall("o", "outer", {}, "ann")).result)
                    except KeyboardInterrupt:
                        results.append(None)

    assert [None, None, [0, 1]] == results


def test_the_id_of_a_call_that_was_only_asked_about_has_another_place(tmp_path: Path) -> None:
    """By position, it names a later call now."""
    calls = [ToolCall(None, "pay", {"amount": 5}, "ann"), ToolCall("same", "pay", {"amount": 2}, "ann")]
    lives = [[ToolCall("same", "pay", {"amount": 1}, "ann")], calls, calls]
    results = list[list[object]]()
    for life, made in enumerate(lives):
        with ToolRegistry(journal=tmp_path / "j.db") as registry:

            @registry.tool("pay", owned_by="ann", requires_approval=True)
            def pay(amount: int) -> int:
                """Pay."""
                return amount

            def answer(request: ApprovalRequest) -> Allow:
                if life == 0:  # called while it is open
                    raise KeyboardInterrupt
                return Allow()

            registry.set_approval_handler(answer)
            try:
                with registry.run("r", match="position"):
                    results.append([registry.execute(call).result for call in made])
            except KeyboardInterrupt:
                results.append([])

    assert [[], [5, 2], [5, 2]] == results


def test_a_batch_whose_policy_makes_a_batch_does_not_wait_for_itself() -> None:
    """Threads that wait for their turn are replaced, so that there is one for what the policy calls."""
    with ToolRegistry(journal="memory") as registry:

        @registry.tool("work", owned_by="ann")
        def work(number: int) -> int:
            """Work."""
            return number

        @registry.tool("rate", owned_by="bob")
        def rate(number: int) -> int:
            """Rate."""
            return number

        def look(agent: str | None, tool: object, arguments: object) -> Ask | None:
            if agent == "ann":
                registry.agent("bob").execute_batch([ToolCall(None, "rate", {"number": one}) for one in range(2)])
            return None

        registry.add_policy(look, name="look")
        calls = [ToolCall(None, "work", {"number": number}) for number in range(64)]
        with registry.run("r"):
            results = registry.agent("ann").execute_batch(calls, max_parallel=64)

    assert list(range(64)) == [one.result for one in results]
