"""The fast path and the pipeline give the same answer for the same call, with policies, limits and hooks or without."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
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
from clocks import HandClock
from hypothesis import example, given
from hypothesis import strategies as st

from praval_tools import (
    Agent,
    Ask,
    Outcome,
    ToolCall,
    ToolCallError,
    ToolExecutionError,
    ToolRegistry,
    ToolResult,
    tool,
)
from praval_tools.execution.fast_path import find_fast_path
from praval_tools.execution.hooks import CallHooks
from praval_tools.registry.registry import get_runtime
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
    """Return a registry whose calls take the fast path, and one whose calls need the pipeline by its options."""
    made = (ToolRegistry(name="fast", **more), ToolRegistry(name="pipeline", max_argument_depth=63, **more))
    for registry in made:
        for function in FUNCTIONS:
            tool(function.__name__, owned_by="ann", registry=registry)(function)

            tool(f"{function.__name__}_later", owned_by="ann", registry=registry)(later(function))
        Agent("ann", registry=registry)
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
    """Return what must not depend on the path."""
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
        Outcome, value, error, repairs and decision are the same; twice, so that the fast function is known.
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


def list_events(registry: ToolRegistry, run: str) -> list[str]:
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
    """Return what three lives of a run of these calls show; the fast path is built for the second call."""

    async def all_of() -> list[ToolResult]:
        return [await registry.aexecute(one) for one in calls]

    shown: list[Any] = []
    for _ in range(3):
        with registry.run(run) as opened:
            results = asyncio.run(all_of()) if later else [registry.execute(one) for one in calls]
            kept = [_shown(one) for one in opened.calls]
            same = [any(one.tool_call_id == other.tool_call_id for other in opened.calls) for one in results]
            shown += [[(seen(one), one.replayed) for one in results], same, kept, len(opened.unused)]
    return [*shown, list_events(registry, run), used(registry)]


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
        Results, records, the events of the run, statistics and replays are the same, for sync and awaited calls.
        """
        name = f"{name}_later" if later else name
        ids = [f"{number}" if named else None for number in range(3 * len(given_))]
        calls = [ToolCall(one, name, part, "ann") for one, part in zip(ids, given_ * 3, strict=True)]
        run = f"run-{next(runs)}"

        short, long = (lives(registry, run, calls, later=later) for registry in JOURNALED)

        assert long == short

    @pytest.mark.parametrize("later", [False, True])
    def test_the_fast_path_is_taken(self, later: bool) -> None:
        """
        One of the two registries takes it from the second call on, so that the two are compared.
        """
        name, taken = "two_later" if later else "two", []
        for registry in JOURNALED:
            with pytest.MonkeyPatch.context() as patch:
                began = JournaledFastCall.build_start_record
                patch.setattr(
                    JournaledFastCall, "build_start_record", lambda *given: taken.append(registry) or began(*given)
                )
                lives(registry, f"run-{next(runs)}", [ToolCall(None, name, {"x": 1, "y": 2}, "ann")] * 3, later=later)

        assert [JOURNALED[0]] * 2 == taken[-2:]
        assert JOURNALED[1] not in taken


class Ward:
    """A registry with a policy, a limit and hooks, whose calls take the fast path or need the pipeline."""

    def __init__(self, policy: Callable[[Ward, Any], Any], *, needs_pipeline: bool) -> None:
        self.registry = ToolRegistry(max_argument_depth=63 if needs_pipeline else 64, clock=HandClock())
        self.log: list[Any] = []
        for function in (two, many, extra):
            tool(function.__name__, owned_by="ann", registry=self.registry)(self._logged(function))
            tool(f"{function.__name__}_later", owned_by="ann", registry=self.registry)(later(self._logged(function)))
        Agent("ann", registry=self.registry)
        Agent("bob", registry=self.registry)
        self.registry.add_policy(lambda agent, tool, arguments: self._ask(policy, arguments), name="guard")
        self.registry.limits.set(agent="ann", concurrent=1, per_minute=4)
        get_runtime(self.registry).install_hooks(CallHooks(before=(self._before,), after=(self._after,)))

    def _logged(self, function: Any) -> Any:
        @wraps(function)
        def logged(*args: Any, **kwargs: Any) -> Any:
            self.log.append(("run", args, kwargs))
            return function(*args, **kwargs)

        return logged

    def _ask(self, policy: Callable[[Ward, Any], Any], arguments: Any) -> Any:
        self.log.append(("policy", repr(arguments)))
        return policy(self, arguments)

    def _before(self, *, call: ToolCall, tool: Any, arguments: Any) -> None:
        self.log.append(("before", call.tool_call_id, repr(call.arguments), tool.name, repr(arguments)))

    def _after(self, *, call: ToolCall, tool: Any, result: ToolResult) -> None:
        self.log.append(("after", call.tool_call_id, repr(call.arguments), tool and tool.name, seen(result)))

    @property
    def places(self) -> list[tuple[int, int]]:
        """What is used of the limits: calls in flight, and calls begun."""
        usages = get_runtime(self.registry).limits.list_usages("ann", "two")
        return [(one.in_flight, len(one.recent_starts)) for one in usages]


def _raise_error(_: Ward, __: Any) -> None:
    raise ValueError("the policy is broken")


async def _answer_later(_: Ward, __: Any) -> None:
    """Answer in a coroutine, which no policy may."""


POLICIES: dict[str, Callable[[Ward, Any], Any]] = {
    "nothing": lambda ward, arguments: None,
    "deny": lambda ward, arguments: "no",
    "ask": lambda ward, arguments: Ask("are you sure?"),
    "raise": _raise_error,
    "async": _answer_later,
    "junk": lambda ward, arguments: 7,
    "change its copy": lambda ward, arguments: arguments.clear(),
    "revoke the tool": lambda ward, arguments: ward.registry.block("two", "ann") and None,
    "change something else": lambda ward, arguments: ward.registry.assign_tool_to_agent("many", "bob") and None,
    "remove the limit": lambda ward, arguments: ward.registry.limits.set(agent="ann"),
    "disable all": lambda ward, arguments: ward.registry.disable("two"),
}


class TestSteps:
    @pytest.mark.parametrize("policy", POLICIES)
    @pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
    def test_each_step_is_taken_once(self, policy: str, is_async: bool) -> None:
        """
        Policies, limits and hooks see the same, in the same order and as often, and the results are the same.

        Also where the policy raises, is async, changes its copy of the arguments, or changes the registry between
        its answer and the entry into the function; the fifth call is over the limit.
        """
        name = "two_later" if is_async else "two"
        requests: list[Any] = [{"x": 1, "y": 2}, {"x": "1", "y": 2}, {"x": 1.0, "y": 0}, {"x": []}, '{"x": 3, "y": 4}']
        shown = []
        for needs_pipeline in (False, True):
            ward = Ward(POLICIES[policy], needs_pipeline=needs_pipeline)
            for number, request in enumerate([*requests, *requests]):
                call = ToolCall(str(number), name, request, "ann")
                run = ward.registry.aexecute(call) if is_async else None
                ward.log.append(seen(ward.registry.execute(call) if run is None else asyncio.run(run)))
                ward.log.append(ward.places)
            ward.registry.close()
            shown.append(ward.log)

        assert shown[1] == shown[0]

    @given(st.sampled_from(["two", "many", "extra"]), arguments, st.sampled_from(sorted(POLICIES)))
    def test_values_and_errors(self, name: str, given_: Any, policy: str) -> None:
        """
        `call` gives the same value or raises the same error.
        """
        given_ = (
            {key: one for key, one in given_.items() if key not in ("self", "name")} if type(given_) is dict else {}
        )
        shown = []
        for needs_pipeline in (False, True):
            ward = Ward(POLICIES[policy], needs_pipeline=needs_pipeline)
            shown.append([_called(ward.registry, name, given_), ward.log, ward.places])
            ward.registry.close()

        assert shown[1] == shown[0]

    def test_the_fast_path_is_taken(self) -> None:
        """
        With a policy, a limit and hooks there is a fast function, so that the two are compared.
        """
        for needs_pipeline in (False, True):
            ward = Ward(POLICIES["nothing"], needs_pipeline=needs_pipeline)
            path = find_fast_path(get_runtime(ward.registry), ward.registry.agent("ann").principal, "two")
            assert needs_pipeline is (path.tool is None)

    def test_a_place_is_given_back(self) -> None:
        """
        Of eight threads as many run at once as the limit says; the place of each is free when it has ended.
        """
        registry, inside, most = ToolRegistry(), list[None](), list[int]()

        @registry.tool(shared=True)
        def stay() -> None:
            """Stay a moment."""
            inside.append(None)
            most.append(len(inside))
            time.sleep(0.001)
            inside.pop()

        registry.limits.set(tool="stay", concurrent=3)

        def work() -> list[Outcome]:
            return [registry.execute(ToolCall(None, "stay", {}, "ann")).outcome for _ in range(30)]

        with ThreadPoolExecutor(8) as pool:
            outcomes = [one for future in [pool.submit(work) for _ in range(8)] for one in future.result()]

        assert {Outcome.OK, Outcome.LIMITED} == set(outcomes)
        assert 3 == max(most)
        assert [0] == [one.in_flight for one in get_runtime(registry).limits.list_usages("ann", "stay")]

    def test_an_operators_call_takes_one_place(self) -> None:
        """
        The operator is not an agent, so its call counts once for a limit of the tool.
        """
        registry = ToolRegistry()
        registry.tool("two", shared=True)(two)
        registry.limits.set(tool="two", per_minute=2)

        outcomes = [registry.execute(str(number), "two", {"x": 1, "y": 2}).outcome for number in range(3)]

        assert [Outcome.OK, Outcome.OK, Outcome.LIMITED] == outcomes


class TestJson:
    @pytest.mark.parametrize("registry", [SHORT, LONG], ids=["fast", "pipeline"])
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


def test_what_is_running_finds_no_error_of_the_search_for_its_fast_path() -> None:
    registry = ToolRegistry()
    seen: list[BaseException | None] = []

    @registry.tool(shared=True)
    def short() -> None:
        """Run on the fast path."""
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

    for _ in range(2):
        with pytest.raises(ToolExecutionError, match="no more") as caught:
            registry.toolset("a").call_json("give", "{}")
        assert isinstance(caught.value, ValueError)
