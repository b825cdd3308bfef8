"""The fast path and the pipeline give the same answer for the same call, with policies, limits and hooks or without."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import threading
from collections.abc import Iterator
from itertools import count
from typing import Any

import attrs
import msgspec
import pytest
from fast_path_rig import (
    FUNCTIONS,
    NAMES,
    _called,
    arguments,
    later,
    names,
    seen,
    used,
    values,
)
from hypothesis import example, given
from hypothesis import strategies as st

from praval_tools import (
    Agent,
    Outcome,
    ToolCall,
    ToolCallError,
    ToolExecutionError,
    ToolRegistry,
    ToolResult,
    tool,
)
from praval_tools.execution.effects import RunTool
from praval_tools.runs.call_plans import CallPlan


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
                build = CallPlan.build_fast_run

                def build_fast_run(plan: CallPlan, progress: Any) -> RunTool | None:
                    run = build(plan, progress)
                    if run is not None:
                        taken.append(registry)
                    return run

                patch.setattr(CallPlan, "build_fast_run", build_fast_run)
                lives(registry, f"run-{next(runs)}", [ToolCall(None, name, {"x": 1, "y": 2}, "ann")] * 3, later=later)

        assert [JOURNALED[0]] * 2 == taken[-2:]
        assert JOURNALED[1] not in taken


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


class TestGarbage:
    """Calls leave nothing behind that only the garbage collector frees: its rounds stop all threads."""

    @pytest.mark.parametrize("is_held", [False, True])
    def test_of_calls_while_somebody_changes_something(self, is_held: bool) -> None:
        """While another thread holds a change open, calls go on, and leave no more cycles than at other times."""
        registry, opened, over = ToolRegistry(), threading.Event(), threading.Event()
        tool("add", description="Add one.", owned_by="ann", registry=registry)(lambda x: x + 1)
        ann = registry.toolset("ann")

        def hold() -> None:
            with registry.change():
                registry.block("add", "bob")
                opened.set()
                over.wait(60)

        def call_often() -> None:
            for number in range(100):
                assert number + 1 == ann.call("add", x=number)
                assert number + 1 == ann.execute(ToolCall("1", "add", {"x": number})).result

        call_often()
        thread = threading.Thread(target=hold)
        if is_held:
            thread.start()
            opened.wait(60)
        garbage = []
        gc.disable()
        try:
            for _ in range(3):  # other threads and the test runner leave garbage, too, but not in each round
                gc.collect()
                call_often()
                garbage.append(gc.collect())
        finally:
            gc.enable()
            over.set()
        if is_held:
            thread.join()

        assert min(garbage) < 100
