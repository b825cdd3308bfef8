"""What a model reads of a result, what an error says, and what survives pickling."""

# Tests of: call, content, truncation, shown_fields

from __future__ import annotations

import asyncio
import json
import pickle
import re
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from praval_tools import (
    Ask,
    Deny,
    Outcome,
    Tool,
    ToolAccessError,
    ToolCall,
    ToolError,
    ToolExecutionError,
    ToolRegistry,
    ToolResult,
)
from praval_tools.errors import (
    ReplayMismatchError,
    RetryableToolError,
    RunBusyError,
    ToolInDoubtError,
    UnusedCallsError,
)
from praval_tools.journal import AgentToolCall, AgentToolResult
from praval_tools.schema.encode import to_json_bytes
from praval_tools.tools.truncation import truncate_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)

HARD: dict[str, Any] = {
    "not a number": float("nan"),
    "infinite": [float("inf")],
    "an object": object(),
    "too many digits": 10**5000,
    "a set of objects": {1: {object()}},
    "half a pair": "half \ud800",
    "half a pair inside": {"\ud800": 1},
    "bytes": b"\xff",
}


class Unsayable(Exception):
    """An exception that cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


class TestForModel:
    @pytest.mark.parametrize("name", HARD)
    def test_always_a_text(self, name: str) -> None:
        """Whatever a tool returned, the model gets a text that can be sent."""
        text = ToolResult("1", "t", "ann", Outcome.OK, HARD[name]).for_model()
        assert text.encode()

    def test_says_what_has_no_json_form(self) -> None:
        """A value without JSON form is named by its type."""
        assert "object" in ToolResult("1", "t", "ann", Outcome.OK, [object()]).for_model()

    @given(JSON, st.integers(1, 300))
    def test_cut_json_is_json(self, value: Any, limit: int) -> None:
        """JSON that is cut is valid, never longer than the limit, and whole where it fits."""
        whole, text = to_json_bytes(value).decode(), truncate_json(value, limit)
        assert len(text) <= limit
        json.loads(text)
        if len(whole) <= limit:
            assert value == json.loads(text)

    def test_head_and_tail(self) -> None:
        """A long list keeps its first and last items, and says how many are left out."""
        kept = json.loads(truncate_json(list(range(1000)), 120))
        left = 1000 - (len(kept) - 1)
        assert [0, 999, f"…[{left} items left out]…"] == [
            kept[0],
            kept[-1],
            next(one for one in kept if isinstance(one, str)),
        ]

    @given(st.text(), st.integers(1, 300))
    def test_cut_text(self, value: str, limit: int) -> None:
        """Text is cut in its middle, never longer than the limit, and whole where it fits."""
        text = value * 50
        shown = ToolResult("1", "t", "ann", Outcome.OK, text).for_model(limit)
        assert len(shown) <= limit
        if len(text) <= limit:
            assert text == shown
        elif (found := re.search(r"…\[(\d+) characters left out\]…", shown)) is not None:
            assert text.startswith(shown[: found.start()])
            assert text.endswith(shown[found.end() :])
            assert found.start() > 0

    def test_type_and_message_of_an_error(self) -> None:
        """A model reads the type and the message of an error, and nothing of where it was raised."""
        with ToolRegistry() as registry:

            @registry.tool("fails", shared=True)
            def fails() -> None:
                """Fail."""
                raise ValueError("no")

            for _ in ("fast path", "pipeline"):
                assert "ValueError: no" == registry.execute(ToolCall("1", "fails", {}, "ann")).for_model()
                registry.add_policy(lambda *_: None)

    def test_max_result_size(self) -> None:
        """The tool's limit counts, else the registry's, on both paths; the host gets the whole value."""
        registry = ToolRegistry(max_result_size=50)

        @registry.tool("rows", owned_by="ann")
        def rows() -> list[int]:
            """Give rows."""
            return list(range(100))

        @registry.tool("more", owned_by="ann", max_result_size=80)
        def more() -> list[int]:
            """Give more."""
            return list(range(100))

        for _ in ("fast path", "pipeline"):
            got = {name: registry.execute(ToolCall("1", name, {}, "ann")) for name in ("rows", "more")}
            assert [100, 100] == [len(one.result) for one in got.values()]
            assert 30 < len(got["rows"].for_model()) <= 50 < len(got["more"].for_model()) <= 80
            registry.add_policy(lambda *_: None)

    @pytest.mark.parametrize("value", [{"balance": 1_234_567}, [[-12.5]], {"a": {"b": 10**20}}, {"open": True}])
    def test_no_other_value_stands_for_one_that_is_cut(self, value: Any) -> None:
        """Whatever the limit, a number that a model reads is one of the value's."""
        for limit in range(3, len(json.dumps(value)) + 1):
            text = ToolResult("1", "t", "ann", result=value, max_size=limit).for_model()
            assert len(text) <= limit
            assert json.loads(text) == value or "…" in text

    def test_errors_are_capped(self) -> None:
        """An error's text is capped whatever the tool's limit says."""
        result = ToolResult("1", "t", "ann", Outcome.TOOL_ERROR, None, "x" * 100_000, "ValueError", max_size=90_000)
        assert 4_000 == len(result.for_model())


class Table:
    """A table whose library gives its rows by `to_dict`."""

    columns = ("a",)

    def to_dict(self, orient: str) -> Any:
        """Give the rows, where they are asked for."""
        return [{"a": 1}] if orient == "records" else {"a": {0: 1}}


class Rows:
    """A table whose library gives its rows by `to_dicts`."""

    def to_dicts(self) -> list[dict[str, Any]]:
        """Give the rows."""
        return [{"a": 1}, {"a": Decimal("2.5")}]


class TestOtherLibraries:
    def results_of(self, value: Any) -> list[Any]:
        """Return what a model, JSON and the journal get where a tool returns *value*."""
        with ToolRegistry(journal="memory") as registry:

            @registry.tool("give", shared=True)
            def give() -> Any:
                """Give it."""
                return value

            result = registry.execute(ToolCall("1", "give", {}, "ann"))
            (written,) = [one.event.result for one in registry.journal.read(type="agent_tool_result")]
            return [
                json.loads(result.for_model()),
                json.loads(registry.toolset("ann").call_json("give", "{}")),
                written,
            ]

    def test_tables(self) -> None:
        """A table is its rows, by the method of its own that gives them."""
        assert [[{"a": 1}, {"a": "2.5"}]] * 3 == self.results_of(Rows())
        assert [[{"a": 1}]] * 3 == self.results_of(Table())

    def test_arrays(self) -> None:
        """Arrays and scalars of numpy are lists and numbers, also inside of others."""
        numpy = pytest.importorskip("numpy")
        value = {"rows": numpy.array([[1, 2], [3, 4]]), "one": numpy.float64(0.5), "yes": numpy.bool_(True)}
        assert [{"rows": [[1, 2], [3, 4]], "one": 0.5, "yes": True}] * 3 == self.results_of(value)

    def test_what_json_has_not(self) -> None:
        """A NaN inside of an array reaches no JSON."""
        numpy = pytest.importorskip("numpy")
        text = ToolResult("1", "t", "ann", Outcome.OK, numpy.array([float("nan")])).for_model()
        assert "no JSON form" in text

    def test_models(self) -> None:
        """A pydantic model is its fields."""
        pydantic = pytest.importorskip("pydantic")
        made = pydantic.create_model("Made", a=(int, ...), b=(date, ...))(a=1, b=date(2030, 1, 2))
        assert [{"a": 1, "b": "2030-01-02"}] * 3 == self.results_of(made)


class TestErrors:
    def test_exceptions_that_cannot_be_shown(self) -> None:
        """An exception whose text raises is a result like any other, in tools, policies and subscribers."""
        registry = ToolRegistry()

        @registry.tool("odd", owned_by="ann")
        def odd() -> None:
            """Raise."""
            raise Unsayable

        for _ in ("fast path", "pipeline"):
            result = registry.execute(ToolCall("1", "odd", {}, "ann"))
            assert (Outcome.TOOL_ERROR, "Unsayable") == (result.outcome, result.error_type)
            with pytest.raises(ToolError, match="cannot be shown"):
                registry.agent("ann").call("odd")
            leave = registry.add_policy(lambda *_: None)
        leave()

        def raising(*_: object) -> None:
            raise Unsayable

        registry.add_policy(raising)
        assert Outcome.FORBIDDEN is registry.execute(ToolCall("1", "odd", {}, "ann")).outcome
        registry.subscribe(raising)
        with pytest.warns(RuntimeWarning, match="Unsayable"):
            registry.share_tool("odd")

    def test_masked_arguments_of_inner_calls(self) -> None:
        """
        Broken promise: masked errors hide what a tool did not say on purpose; arguments of an inner call were shown.
        """
        registry = ToolRegistry(errors="masked")

        @registry.tool(shared=True)
        def inner(amount: int) -> int:
            """Take."""
            return amount

        @registry.tool(shared=True)
        def outer() -> int:
            """Call."""
            return registry.agent("intern").tools.call("inner", amount="secret")

        result = registry.execute(ToolCall("1", "outer", {}, "intern"))

        assert Outcome.TOOL_ERROR is result.outcome and "secret" not in result.for_model()

    @pytest.mark.parametrize("way", ["toolset", "agent", "acall"])
    def test_masked_arguments_by_every_way_to_call(self, way: str) -> None:
        """The error that a caller gets, and what a model reads of it, quotes none either."""
        registry = ToolRegistry(errors="masked")
        intern = registry.agent("intern")

        @registry.tool(shared=True)
        def inner(amount: int) -> int:
            """Take."""
            return amount

        def ask(name: str, **arguments: Any) -> Any:
            if way == "toolset":
                return intern.tools.call(name, **arguments)
            return intern.call(name, **arguments) if way == "agent" else asyncio.run(intern.acall(name, **arguments))

        @registry.tool(shared=True)
        def outer() -> Any:
            """Call."""
            return ask("inner", amount="secret")

        with pytest.raises(ToolExecutionError) as caught:
            ask("outer")
        assert "error id" in str(caught.value) and "secret" not in str(caught.value)
        assert "secret" not in caught.value.result.for_model() + repr(caught.value)

    def test_masked(self) -> None:
        """`errors="masked"` hides what was not raised on purpose, and shows what was."""
        registry = ToolRegistry(errors="masked")

        @registry.tool("fails", owned_by="ann", retry_on=(ConnectionError,))
        def fails(how: str) -> None:
            """Fail."""
            raise {"odd": KeyError("secret"), "again": RetryableToolError("later"), "net": ConnectionError("down")}[how]

        shown = {how: registry.execute(ToolCall("1", "fails", {"how": how}, "ann")) for how in ("odd", "again", "net")}
        assert "secret" not in repr(shown["odd"])
        assert "error id" in str(shown["odd"].error)
        assert ["later", "down"] == [shown["again"].error, shown["net"].error]

    def test_carry_their_result(self) -> None:
        """Every error of a call carries the result that says the same, on the fast path and in the pipeline."""
        registry = ToolRegistry()

        @registry.tool("fails", owned_by="ann")
        def fails() -> None:
            """Fail."""
            raise ValueError("no")

        for _ in ("fast path", "pipeline"):
            with pytest.raises(ValueError, match="no") as caught:
                registry.agent("ann").call("fails")
            assert (Outcome.TOOL_ERROR, "ann") == (caught.value.result.outcome, caught.value.result.agent)
            registry.add_policy(lambda *_: None)

    def test_survive_pickling(self) -> None:
        """Refusals by grant, block, policy, retirement, delegation and switch travel to another process."""
        registry = ToolRegistry()

        @registry.tool("add", owned_by="ann")
        def add(x: int) -> int:
            """Add."""
            return x

        registry.grant("add", "bob", where={"x": {"maximum": 1}})
        registry.block("add", "cid")
        registry.grant("add", "dan")
        registry.retire_agent("dan")
        sub = registry.agent("ann").delegate("sub", tools=[])
        agents = [*map(registry.agent, ("bob", "cid", "dan", "eve")), sub]
        errors = []
        for one in agents:
            with pytest.raises(ToolAccessError) as caught:
                one.call("add", x=5)
            errors.append(caught.value)
        registry.add_policy(lambda *_: Deny("no"))
        with pytest.raises(ToolAccessError) as caught:
            registry.agent("ann").call("add", x=5)
        for error in (*errors, caught.value):
            again = pickle.loads(pickle.dumps(error))
            assert (str(error), error.decision.rule) == (str(again), again.decision.rule)
            assert error.result.outcome is again.result.outcome


class TestPolicies:
    def test_get_a_copy_of_their_own(self) -> None:
        """A policy that changes the arguments it is shown changes nothing of what the tool gets."""
        registry = ToolRegistry()

        @registry.tool("sum", owned_by="ann")
        def total(rows: list[Any]) -> Any:
            """Sum up."""
            return rows

        registry.add_policy(lambda agent, tool, arguments: arguments["rows"].append(99))
        assert [[1]] == registry.agent("ann").call("sum", rows=[[1]])

    def test_ask_and_odd_answers(self) -> None:
        """A request for approval is an outcome; an async policy refuses, and says why."""
        registry = ToolRegistry()

        @registry.tool("add", owned_by="ann")
        def add(x: int) -> int:
            """Add."""
            return x

        leave = registry.add_policy(lambda *_: Ask("big"))
        assert Outcome.APPROVAL_REQUIRED is registry.execute(ToolCall("1", "add", {"x": 1}, "ann")).outcome
        leave()

        async def later(*_: object) -> None:
            """Answer later."""

        registry.add_policy(later)
        decision = registry.explain("ann", "add", {"x": 1})
        assert ("policy", True) == (decision.rule, "async" in decision.reason)

    def test_what_is_checked_is_what_runs(self) -> None:
        """A caller that changes nested values while its call is decided changes nothing of what the tool gets."""
        registry, given = ToolRegistry(), {"rows": [[1]]}

        def send(**arguments: Any) -> Any:
            """Send."""
            return arguments["rows"]

        schema = {"type": "object", "properties": {"rows": {"type": "array", "items": {"maxItems": 1}}}}
        registry.register_tool(Tool("send", "Send.", schema, send))
        registry.grant("send", "bob", where={"rows": {"maxItems": 1}})

        def late(agent: str, tool: Any, arguments: Any) -> None:
            given["rows"].append([2])

        registry.add_policy(late)
        assert [[1]] == registry.execute(ToolCall("1", "send", given, "bob")).result


def test_explain_never_raises_for_the_arguments_sake() -> None:
    """`explain` with arguments that do not fit says so in its decision, JSON text is taken as a call takes it."""
    registry = ToolRegistry()

    @registry.tool("add", owned_by="ann")
    def add(x: Decimal) -> str:
        """Add."""
        return str(x)

    for wrong in ({"x": "many"}, {"y": 1}, "[1]", "{", 7, {"x": float("nan")}):
        decision = registry.explain("ann", "add", wrong)
        assert (False, "invalid-arguments") == (decision.allowed, decision.rule)
    assert registry.explain("ann", "add", '{"x": "1.5"}').allowed
    assert "'add'" in registry.explain("ann", "ad").remedy


class TestIds:
    def test_errors_name_runs_and_calls_alike(self) -> None:
        """Each error about a run or a call has `run_id` and `call_id`, after pickling too; the old names stay."""
        for error in (
            RunBusyError("r", "here"),
            ReplayMismatchError("r", "c", "this", "that"),
            ToolInDoubtError("unknown", "r", "c"),
        ):
            again = pickle.loads(pickle.dumps(error))
            assert ("r", "r") == (again.run_id, again.run)
            assert getattr(again, "call", None) == getattr(again, "call_id", None)
        unused = UnusedCallsError("r", ["c"])
        assert ("r", ("c",), ("c",)) == (unused.run_id, unused.call_ids, unused.calls)

    def test_results_events_and_errors_name_one_call_alike(self) -> None:
        """The id of a call is the same in its result, in its events, and in the error that is raised for it."""
        registry = ToolRegistry(journal="memory")

        @registry.tool(shared=True)
        def fail(value: int) -> int:
            """Fail."""
            raise ValueError("no")

        result = registry.execute(ToolCall("mine", "fail", {"value": 1}, "ann"))
        with pytest.raises(ToolError) as wrong:
            registry.toolset("ann").call("fail", value="x")
        with pytest.raises(ValueError, match="no") as raised:
            registry.toolset("ann").call("fail", value=1)
        assert registry.journal is not None
        events = list(registry.journal.events())
        refused = [event.tool_call_id for event in events if "call_refused" == event.type]
        asked = [event.tool_call_id for event in events if isinstance(event, AgentToolCall)]
        ended = [event.tool_call_id for event in events if isinstance(event, AgentToolResult)]

        assert ["mine", raised.value.result.tool_call_id] == asked == ended
        assert ("mine", [wrong.value.result.tool_call_id]) == (result.tool_call_id, refused)


class TestEmptyDelegate:
    def test_its_toolset_says_why_it_is_empty(self) -> None:
        """A delegate's empty toolset shows which of the two may call nothing."""
        registry = ToolRegistry()
        registry.register_tool(Tool.from_function(lambda: None, "pay", "Pay.", owned_by="ann"))
        ann, bob = registry.agent("ann"), registry.agent("bob")

        assert "'sub' itself may call nothing; assign it tools, or delegate with" in repr(ann.delegate("sub").tools)
        assert "'bob', for which it acts, may call nothing" in repr(bob.delegate("ann").tools)
        assert "mode='inherit' and tools= leave nothing" in repr(ann.delegate("sub", [], "inherit").tools)
        assert "empty>" in repr(bob.tools)


class TestRepresentations:
    @pytest.mark.parametrize("arguments", [{"to": "ann", "pin": "4711-4711"}, '{"pin": "4711-4711"}', ["4711-4711"]])
    def test_of_calls_hold_no_values(self, arguments: Any) -> None:
        """A call in a log, or shown by `rich`, has the names of its arguments, whatever form they came in."""
        call = ToolCall("c", "pay", arguments, "ann", reason="since the pin is 4711-4711")
        shown = "{'to': …, 'pin': …}" if isinstance(arguments, dict) else f"<{type(arguments).__name__}>"

        assert f"ToolCall(tool_call_id='c', name='pay', arguments={shown}, agent='ann', reason=<str>)" == repr(call)
        assert "4711" not in f"{call} {[call]} {call.__rich_repr__()}"
        assert "ToolCall()" == repr(ToolCall())

    def test_of_results_hold_no_values(self) -> None:
        """A result in a log, or shown by `rich`, says how the call ended; its value and its error may hold secrets."""
        registry = ToolRegistry()

        @registry.tool("log_in", owned_by="ann")
        def log_in(pin: str) -> str:
            """Log in."""
            if pin == "0000-4711":
                raise ValueError(f"not the pin: {pin}")
            return f"logged in by {pin}"

        results = [registry.execute(ToolCall("c", "log_in", {"pin": pin}, "ann")) for pin in ("4711-4711", "0000-4711")]
        results.append(registry.execute(ToolCall("c", "log_in", {"pin": ["4711-4711"]}, "ann")))

        assert ["ok", "tool_error", "invalid_arguments"] == [result.outcome for result in results]
        assert "4711-4711" in results[0].result and "0000-4711" in (results[1].error or "")
        for result in results:
            assert "4711" not in f"{result} {[result]} {result.__rich_repr__()}"
            assert repr(result).startswith("ToolResult(tool_call_id='c', name='log_in', agent='ann', outcome=")
        assert repr(results[0]).endswith("result=<str>)")
        assert repr(results[1]).endswith("error=<str>, error_type='ValueError')")
