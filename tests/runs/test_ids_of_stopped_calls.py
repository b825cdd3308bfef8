"""Equal calls with and without an id of their own, some of them stopped before their tool was entered."""

# Tests of: journal/replay, model_log, call_records

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from praval_tools import ToolCall, ToolRegistry, ToolUsageError
from praval_tools.errors import ReplayMismatchError
from praval_tools.loop import ToolLoop
from praval_tools.testing import fake_model

Step = tuple[str | None, str, bool]
"""The id of a call, to whom it sends, and whether the first life stops it before its tool is entered."""


class Program:
    """Sends letters in one run, again in each of its lives."""

    def __init__(self, steps: list[Step], mode: Any) -> None:
        self.steps, self.mode = steps, mode
        self.sent: list[str] = []
        self.registry = ToolRegistry(journal="memory")
        self.registry.tool("send", owned_by="ann")(self._send)

    async def _send(self, to: str) -> int:
        """Send a letter; return the number of the letter."""
        self.sent.append(to)
        return len(self.sent)

    def begin(self) -> list[Any]:
        """Live for the first time: make all calls, and stop those that are to be stopped."""
        return self._live(lambda step: self._stop(step) if step[2] else self._make(step))

    def live_again(self) -> list[Any]:
        """Make all calls; return their values."""
        return self._live(self._make)

    def _live(self, take: Any) -> list[Any]:
        async def work() -> list[Any]:
            async with self.registry.run("r", self.mode, strict=True):
                return [await take(step) for step in self.steps]

        return asyncio.run(work())

    async def _make(self, step: Step) -> Any:
        return (await self.registry.aexecute(_build_call(step))).result

    async def _stop(self, step: Step) -> None:
        with pytest.raises(ToolUsageError, match="event loop"):  # an async tool cannot be waited for here
            self.registry.execute(_build_call(step))


def _build_call(step: Step) -> ToolCall:
    return ToolCall(step[0], "send", {"to": step[1]}, "ann")


def _number_ids(steps: list[tuple[bool, str, bool]]) -> list[Step]:
    return [(f"c{number}" if has_id else None, to, stops) for number, (has_id, to, stops) in enumerate(steps)]


any_steps = st.lists(st.tuples(st.booleans(), st.sampled_from("ab"), st.booleans()), max_size=6).map(_number_ids)


@pytest.mark.parametrize("mode", ["content", "id", "position"])
@example(steps=[(None, "a", True), ("same", "a", True)])
@example(steps=[(None, "a", True), ("same", "a", False)])
@example(steps=[("a", "a", True), (None, "a", False), ("c", "a", False)])
@given(steps=any_steps)
def test_each_call_has_an_effect_of_its_own(mode: Any, steps: list[Step]) -> None:
    """
    Whichever calls were stopped: the next life makes up for them, no two calls share a result, and that stays so.

    With `match="position"` a program that gave up a call may be refused.
    """
    program = Program(steps, mode)
    first = program.begin()
    wanted = Counter(to for _, to, _ in steps)
    try:
        later = [program.live_again() for _ in range(3)]
    except ReplayMismatchError:
        assert mode == "position"
        assert len(wanted) > 1
        assert wanted >= Counter(program.sent)
        return
    assert wanted == Counter(program.sent)
    assert later[0] == later[1] == later[2]
    assert sorted(later[0]) == list(range(1, len(steps) + 1))
    assert set(later[0]) >= {value for value in first if value is not None}


@given(steps=any_steps, orders=st.lists(st.randoms(use_true_random=False), min_size=3, max_size=3))
def test_in_any_order(steps: list[Step], orders: list[Any]) -> None:
    """In whatever order later lives make the calls, such as several at once, none gets the result of another."""
    program = Program([(call_id, "a", stops) for call_id, _, stops in steps], "content")
    program.begin()
    for order in orders:
        order.shuffle(program.steps)
        assert list(range(1, len(steps) + 1)) == sorted(program.live_again())
    assert len(steps) == len(program.sent)


@pytest.mark.parametrize("stops", [0, 1, 2])
def test_the_id_that_the_library_made(stops: int) -> None:
    """Given back, it means the call that got it, in each life; so nothing runs again."""
    program = Program([], "content")

    async def live() -> list[Any]:
        async with program.registry.run("r"):
            first = await program.registry.aexecute(_build_call((None, "a", False)))
            again = await program.registry.aexecute(_build_call((first.tool_call_id, "a", False)))
            return [first.result, again.result]

    program.steps = [(None, "a", True)] * stops
    program.begin()
    assert [[1, 1]] * 3 == [asyncio.run(live()) for _ in range(3)]
    assert ["a"] == program.sent


def test_a_loop_whose_call_was_given_to_an_equal_one() -> None:
    """The call of a recorded reply runs if another call got its result, also where its secrets are not recorded."""
    registry, used = ToolRegistry(journal="memory"), list[str]()

    @registry.tool("log_in", owned_by="ann")
    async def log_in(password: str) -> str:
        """Log in."""
        used.append(password)
        return f"session {len(used)}"

    call = ToolCall(None, "log_in", {"password": "open sesame"}, "ann")

    async def run_loop() -> list[Any]:
        model = fake_model(("log_in", {"password": "open sesame"}), "Done.")
        return [one.result for one in (await ToolLoop(registry.agent("ann"), model).arun("Go.")).results]

    async def begin() -> list[Any]:
        async with registry.run("r"):
            with pytest.raises(ToolUsageError, match="event loop"):
                registry.execute(call)
            return await run_loop()

    async def live_again() -> list[Any]:
        async with registry.run("r"):
            return [(await registry.aexecute(call)).result, *await run_loop()]

    assert ["session 1"] == asyncio.run(begin())
    assert [["session 1", "session 2"]] * 2 == [asyncio.run(live_again()) for _ in range(2)]
    assert ["open sesame"] * 2 == used
