"""The short road and the pipeline give the same answer for the same call."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from enum import Enum
from functools import wraps
from itertools import count
from typing import Any, Literal

import attrs
import msgspec
import pytest
from attrs import frozen
from hypothesis import example, given
from hypothesis import strategies as st

from praval_tools import Agent, Outcome, ToolCall, ToolCallError, ToolExecutionError, ToolRegistry, ToolResult, tool
from praval_tools.runs.fast_recording import JournaledFastCall


class Colour(Enum):
    """A colour."""

    RED = "red"
    BLUE = "blue"


@frozen
class Point:
    """A place."""

    x: float
    y: float = 0.0


def two(x: float, y: float) -> float:
    """Divide, so that some calls raise."""
    return x / y


def many(a: int, b: str = "b", c: bool | None = None, d: list[int] | None = None) -> list[Any]:
    """Take several."""
    return [a, b, c, d]


def forms(point: Point, colour: Colour = Colour.RED, kind: Literal["a", "b"] = "a", when: date | None = None) -> str:
    """Take structured values."""
    return f"{point} {colour} {kind} {when}"


def extra(n: int, **more: int) -> int:
    """Take what comes."""
    return n + sum(more.values())


def exact(amount: Decimal) -> str:
    """Take a decimal."""
    return str(amount)


def none() -> None:
    """Take nothing."""


def hint(text: str = "password=hunter2", token: str = "") -> str:
    """Say what may be secret."""
    return f"{text} {token}"


FUNCTIONS = (two, many, forms, extra, exact, none, hint)


def later(function: Any) -> Any:
    """Return the same as a coroutine function."""

    @wraps(function)
    async def made(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return made


def homes(**more: Any) -> tuple[ToolRegistry, ToolRegistry]:
    """Return a registry whose calls take the short road, and one whose calls cannot."""
    made = (ToolRegistry(name="short", **more), ToolRegistry(name="long", **more))
    for registry in made:
        for function in FUNCTIONS:
            tool(function.__name__, owned_by="ann", registry=registry)(function)

            tool(f"{function.__name__}_later", owned_by="ann", registry=registry)(later(function))
        Agent("ann", registry=registry)
    made[1].add_policy(lambda agent, tool, arguments: None)
    return made


SHORT, LONG = homes()
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.integers(), st.floats(), st.text(max_size=3),
    st.sampled_from(["3", "3.5", "true", "red", "a", "2020-02-30", "2020-02-29", "1e400", "NaN", " 3", "[1]", "{}"]),
)  # fmt: skip
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyn") | st.text(max_size=2), inner),
    max_leaves=5,
)
NAMES = ("x", "y", "a", "b", "c", "d", "point", "colour", "kind", "when", "n", "m", "amount", "self", "name")
arguments = st.one_of(
    st.dictionaries(st.sampled_from(NAMES), values, max_size=4),
    st.fixed_dictionaries({"x": scalars, "y": scalars}),
    st.fixed_dictionaries({"a": scalars}, optional={"b": scalars, "c": scalars, "d": values}),
    st.fixed_dictionaries({"point": values}, optional={"colour": scalars, "kind": scalars, "when": scalars}),
    st.fixed_dictionaries({"n": scalars}, optional={"m": scalars, "k": scalars}),
    st.fixed_dictionaries({"amount": scalars}),
    st.fixed_dictionaries(
        {}, optional={"text": st.sampled_from(["", "token=abcd", '{"api_key": "abcd"}']), "token": scalars}
    ),
    values,
)
names = st.sampled_from([function.__name__ for function in FUNCTIONS])


def seen(result: ToolResult) -> tuple[Any, ...]:
    """Return what must not depend on the road."""
    decision = result.decision
    return (
        result.outcome, repr(result.result), result.error, result.error_type, result.repairs, result.attempts,
        decision and (decision.allowed, decision.rule, decision.reason), result.for_model(),
    )  # fmt: skip


class TestSameAnswer:
    @given(names, arguments)
    @example("two", {"x": 1, "y": 0})
    @example("two", {"x": True, "y": 1})
    @example("many", {"a": 10**400})
    def test_results(self, name: str, given_: Any) -> None:
        """
        Outcome, value, error, repairs and decision are the same; twice, so that the lane is known.
        """
        call = ToolCall("1", name, given_, "ann")
        expected = seen(LONG.execute(call))

        assert expected == seen(SHORT.execute(call)) == seen(SHORT.execute(call))

    @given(names, arguments)
    def test_results_of_text(self, name: str, given_: Any) -> None:
        """
        The same for arguments as JSON text and bytes.
        """
        text = json.dumps(given_)
        call = ToolCall("1", name, text, "ann")
        expected = seen(LONG.execute(call))

        assert expected == seen(SHORT.execute(call))
        assert expected == seen(SHORT.execute(ToolCall("1", name, text.encode(), "ann")))

    @given(names, arguments)
    def test_async_results(self, name: str, given_: Any) -> None:
        """
        The same for awaited calls.
        """
        call = ToolCall("1", f"{name}_later", given_, "ann")

        async def both() -> tuple[ToolResult, ToolResult]:
            return await LONG.aexecute(call), await SHORT.aexecute(call)

        expected, found = asyncio.run(both())

        assert seen(expected) == seen(found)

    @given(names, st.dictionaries(st.sampled_from(NAMES), values, max_size=3))
    def test_values_and_errors(self, name: str, given_: dict[str, Any]) -> None:
        """
        `call` gives the same value or raises the same error.
        """
        given_.pop("self", None)
        given_.pop("name", None)

        assert _called(LONG, name, given_) == _called(SHORT, name, given_)


def _called(registry: ToolRegistry, name: str, given_: dict[str, Any]) -> tuple[Any, ...]:
    try:
        return "value", repr(registry.agent("ann").call(name, **given_))
    except ToolCallError as error:
        return type(error).__mro__[:-2], str(error), type(error.__cause__)


def journaled() -> tuple[ToolRegistry, ToolRegistry]:
    """Return the same two with journals that have one key."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRAVAL_TOOLS_KEY", "the same for both")
        return homes(journal="memory")


JOURNALED = journaled()
runs = count()


def told(registry: ToolRegistry, run: str) -> list[str]:
    """Return what the journal holds of a run, but for the ids, times and durations of its events."""
    assert registry.journal is not None
    return [_shown(one) for one in registry.journal.events(run_id=run)]


def _shown(one: Any) -> str:
    fields = attrs.asdict(one, recurse=False) if attrs.has(type(one)) else msgspec.structs.asdict(one)
    made = len(fields["tool_call_id"]) > 2
    return repr(
        {name: value for name, value in fields.items() if name not in _OTHER and not (made and "call_id" in name)}
    )


_OTHER = {"id", "time", "latency_ms", "started", "ended", "seq"}


def lives(registry: ToolRegistry, run: str, calls: list[ToolCall], *, later: bool) -> list[Any]:
    """Return what three lives of a run of these calls show; the short road is made for the second call."""

    async def all_of() -> list[ToolResult]:
        return [await registry.aexecute(one) for one in calls]

    shown: list[Any] = []
    for _ in range(3):
        with registry.run(run) as opened:
            results = asyncio.run(all_of()) if later else [registry.execute(one) for one in calls]
            kept = [_shown(one) for one in opened.calls]
            same = [any(one.tool_call_id == other.tool_call_id for other in opened.calls) for one in results]
            shown += [[(seen(one), one.replayed) for one in results], same, kept, len(opened.unused)]
    return [*shown, told(registry, run), used(registry)]


def used(registry: ToolRegistry) -> dict[str, Any]:
    """Return how often which tool was used, and how that ended."""
    stats = registry.stats.get_agent_stats().get("ann", {})
    return {name: (one["uses"], one["outcomes"]) for name, one in stats.items()}


class TestJournaled:
    @given(names, st.lists(arguments, min_size=1, max_size=2), st.booleans(), st.booleans())
    @example("two", [{"x": 1, "y": 2}], False, False)
    @example("two", [{"x": 1, "y": 0}], True, False)
    @example("two", [{"x": 1, "y": 0}, {"x": 1, "y": 1}], True, True)
    @example("many", [{"a": 1, "d": [1, 2]}], True, True)
    @example("hint", [{"token": "abcdef"}], False, False)
    @example("hint", [{}, {"text": "x\ud800"}], False, True)
    def test_what_is_written_and_replayed(self, name: str, given_: list[Any], later: bool, named: bool) -> None:
        """
        Results, records, what the run tells, statistics and replays are the same, for sync and awaited calls.
        """
        name = f"{name}_later" if later else name
        ids = [f"{number}" if named else None for number in range(3 * len(given_))]
        calls = [ToolCall(one, name, part, "ann") for one, part in zip(ids, given_ * 3, strict=True)]
        run = f"run-{next(runs)}"

        short, long = (lives(registry, run, calls, later=later) for registry in JOURNALED)

        assert long == short

    @pytest.mark.parametrize("later", [False, True])
    def test_the_short_road_is_taken(self, later: bool) -> None:
        """
        The registry without a policy takes it from the second call on, so that the two are compared.
        """
        name, taken = "two_later" if later else "two", []
        for registry in JOURNALED:
            with pytest.MonkeyPatch.context() as patch:
                began = JournaledFastCall.build_start_record
                patch.setattr(JournaledFastCall, "build_start_record", lambda *given: taken.append(registry) or began(*given))
                lives(registry, f"run-{next(runs)}", [ToolCall(None, name, {"x": 1, "y": 2}, "ann")] * 3, later=later)

        assert [JOURNALED[0]] * 2 == taken[-2:]
        assert JOURNALED[1] not in taken


class TestJson:
    @pytest.mark.parametrize("registry", [SHORT, LONG], ids=["short", "long"])
    def test_text_in_text_out(self, registry: ToolRegistry) -> None:
        """
        `call_json` takes JSON text and gives JSON text, in the declared form of the result.
        """
        toolset = registry.toolset("ann")

        assert b"0.5" == toolset.call_json("two", '{"x": 1, "y": 2}')
        assert b"0.5" == toolset.call_json("two", b'{"x": "1", "y": 2}')
        assert b'[1,"b",null,[1,2]]' == toolset.call_json("many", '{"a": 1, "d": [1, 2]}')
        assert b"null" == toolset.call_json("none", "")
        assert b"0.5" == asyncio.run(toolset.acall_json("two_later", '{"x": 1, "y": 2}'))

    def test_a_result_without_a_json_form_is_an_error(self) -> None:
        """
        What cannot be encoded names its type.
        """
        registry = ToolRegistry()

        @tool(registry=registry, shared=True)
        def bad() -> float:
            """Give what JSON has not."""
            return float("nan")

        toolset = registry.toolset("ann")
        for _ in range(2):
            with pytest.raises(ToolCallError, match="nan has no JSON form"):
                toolset.call_json("bad", "{}")
        assert Outcome.OK is registry.execute(ToolCall("1", "bad", {}, "ann")).outcome


def test_what_is_running_finds_no_error_of_the_look_for_its_lane() -> None:
    registry = ToolRegistry()
    seen: list[BaseException | None] = []

    @registry.tool(shared=True)
    def short() -> None:
        """Run in a lane from the second call on."""
        seen.append(sys.exception())

    @registry.tool(shared=True, retries=1)
    def long() -> None:
        """Run in the pipeline, always."""
        seen.append(sys.exception())

    mine = registry.toolset("a")
    for name in ("short", "long"):
        mine[name]()
        mine.call(name)
    with pytest.raises(ToolCallError) as refused:
        mine.call("nowhere")
    assert seen == [None] * 4
    assert refused.value.__context__ is None


def test_a_result_that_can_be_read_once_is_read_once() -> None:
    registry = ToolRegistry()

    def numbers() -> Iterator[int]:
        yield 1
        raise ValueError("no more")

    @registry.tool(shared=True)
    def give() -> Any:
        """Give what breaks when it is written."""
        return {"numbers": numbers()}

    for _ in ("the longer way", "the short road"):
        with pytest.raises(ToolExecutionError, match="no more") as caught:
            registry.toolset("a").call_json("give", "{}")
        assert isinstance(caught.value, ValueError)
