"""What praval_tools gives to its users' tests: fixtures, assertions, strategies."""

# Tests of: plugin, assertions, strategies, models

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import annotated_types as at
import attrs
import pytest
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample
from type_classes import Color, Even, Level, Mood, Movie, Pair, UserId

from praval_tools import Agent, Outcome, Tool, ToolCall, ToolRegistry, get_tool_registry, tool
from praval_tools.testing import arguments_for, assert_can_call, assert_cannot_call
from praval_tools.testing.plugin import AgentFactory, isolated_registry

ROOT = Path(__file__).parents[2]


@pytest.fixture
def office() -> Iterator[ToolRegistry]:
    """A registry with a tool of the calculator's, and a clerk; the default one inside the test."""
    with isolated_registry() as registry:
        tool("add", owned_by="calculator")(add)
        Agent("calculator")
        Agent("clerk")
        yield registry


def add(x: int, y: int = 0) -> int:
    """Add two numbers."""
    return x + y


class TestFixtures:
    def test_plugin_in_a_suite_of_its_own(self, tmp_path: Path) -> None:
        """
        A suite that has the plugin gets `tool_registry`, isolated per test, and `agent_factory`.
        """
        (tmp_path / "conftest.py").write_text(
            "from praval_tools.testing.plugin import agent_factory, tool_registry  # noqa: F401\n"
        )
        (tmp_path / "test_mine.py").write_text(SUITE)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
            env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=tmp_path, capture_output=True, text=True, timeout=120,
        )  # fmt: skip

        assert "4 passed" in done.stdout, done.stdout + done.stderr

    def test_plugin_imports_nothing_heavy(self) -> None:
        """
        Loading the plugin brings neither Hypothesis nor the helpers; they come when they are used.
        """
        script = (
            "import sys, praval_tools.testing.plugin, praval_tools.testing\n"
            "heavy = ('hypothesis', 'rich', 'click', 'jsonschema_rs')\n"
            "print([name for name in sys.modules if name.split('.')[0] in heavy"
            " or name.startswith('praval_tools.testing.') and not name.endswith('.plugin')])"
        )
        done = subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
            timeout=60,
        )  # fmt: skip

        assert done.stdout == "[]\n", done.stderr

    def test_isolated_registry_is_the_default_one_inside(self) -> None:
        """
        Inside, the default registry is the isolated one; after it, the former is back and the isolated one closed.
        """
        before = get_tool_registry()
        with isolated_registry() as registry:
            assert get_tool_registry() is registry
        assert get_tool_registry() is before

    def test_agent_factory(self, office: ToolRegistry) -> None:
        """
        The factory declares agents with names, lists and categories, and makes names up.
        """
        make = AgentFactory(office)

        assert [make().name, make("boss").name, make().name] == ["agent_1", "boss", "agent_2"]
        assert make("helper", tools=["add"]).list_tools() == ["add"]

    def test_public_names(self) -> None:
        """
        The package offers its helpers by name, and an unknown name is an AttributeError.
        """
        import praval_tools.testing as testing

        assert {"arguments_for", "assert_can_call", "assert_cannot_call"} <= set(testing.__all__)
        with pytest.raises(AttributeError, match="no attribute 'nope'"):
            _ = testing.nope


SUITE = """
from praval_tools import get_tool_registry, tool
from praval_tools.testing import assert_can_call, assert_cannot_call

def test_first(tool_registry):
    @tool("hello", shared=True)
    def hello(name: str) -> str:
        "Greet."
        return name
    assert [one.name for one in tool_registry] == ["hello"]
    assert get_tool_registry() is tool_registry

def test_second_sees_nothing_of_the_first(tool_registry):
    assert list(tool_registry) == []

def test_agents(tool_registry, agent_factory):
    @tool("add", owned_by="calculator")
    def add(x: int, y: int) -> int:
        "Add."
        return x + y
    calculator, clerk = agent_factory("calculator"), agent_factory()
    assert_can_call(calculator, "add")
    assert_can_call("calculator", add, {"x": 1, "y": 2})
    assert_cannot_call(clerk, "add", rule="no-way")

def test_failure_is_reported(agent_factory):
    import pytest
    with pytest.raises(AssertionError, match="nope"):
        assert_can_call(agent_factory("a"), "nope")
"""


class TestAssertions:
    def test_hold(self, office: ToolRegistry) -> None:
        """
        Names and objects will do; the decision is returned.
        """
        clerk, mine = office.agent("clerk"), office.get_tool("add")

        assert assert_can_call("calculator", "add").rule == "owner"
        assert assert_can_call(office.agent("calculator"), mine).rule == "owner"
        assert assert_cannot_call(clerk, "add", rule="no-way").outcome == "forbidden"
        assert assert_cannot_call("clerk", "ad", rule="unknown", registry=office).outcome == "unknown"

    def test_refusal_tells_every_rule(self, office: ToolRegistry) -> None:
        """
        Where the agent cannot call the tool, the failure says why, rule by rule, and what would change it.
        """
        with pytest.raises(AssertionError) as failure:
            assert_can_call("clerk", "add")
        message = str(failure.value)

        assert message.startswith("'clerk' cannot call 'add'.\n  forbidden by rule 'no-way': ")
        assert "assign_tool_to_agent('add', 'clerk')" in message
        for rule in ("unknown", "disabled", "blocked", "owner", "listed", "shared", "category", "granted"):
            assert f"no  {rule}" in message

    def test_permission_tells_every_rule(self, office: ToolRegistry) -> None:
        """
        Where the agent can call the tool, the failure names the rule that allows it.
        """
        with pytest.raises(AssertionError, match="'calculator' can call 'add'.\n  allowed by rule 'owner'"):
            assert_cannot_call("calculator", "add")

    def test_wrong_rule(self, office: ToolRegistry) -> None:
        """
        The right refusal for the wrong reason is a failure that names both rules.
        """
        office.block("add", "clerk")

        assert_cannot_call("clerk", "add", rule="blocked")
        with pytest.raises(AssertionError, match="by rule 'blocked', not 'no-way'"):
            assert_cannot_call("clerk", "add", rule="no-way")

    def test_arguments_meet_the_bounds(self, office: ToolRegistry) -> None:
        """
        Arguments are checked against the bounds of a grant, and nothing is spent.
        """
        grant = office.grant("add", "clerk", max_calls=1, where={"x": {"maximum": 9}})

        assert_can_call("clerk", "add", {"x": 9})
        assert_cannot_call("clerk", "add", arguments={"x": 10})
        with pytest.raises(AssertionError, match=r"'clerk' cannot call 'add' with \{'x': 10\}"):
            assert_can_call("clerk", "add", {"x": 10})
        assert office.uses_left(grant) == 1


# ── arguments_for ────────────────────────────────────────────────────────────────────────────────


@attrs.frozen
class Point:
    x: int
    y: Annotated[float, at.Ge(0), at.Le(1)] = 0.5


@dataclass
class Tree:
    name: str
    children: list[Tree] = field(default_factory=list)


HINTS: dict[str, Any] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "None": None,
    "bytes": bytes,
    "Any": Any,
    "list": list,
    "dict": dict,
    "list[int]": list[int],
    "dict[str, float]": dict[str, float],
    "dict[int, str]": dict[int, str],
    "dict[date, int]": dict[date, int],
    "dict[float, int]": dict[float, int],
    "tuple": tuple[int, str],
    "tuple, variadic": tuple[int, ...],
    "set": set[str],
    "frozenset": frozenset[int],
    "Sequence": Sequence[bool],
    "Mapping": Mapping[str, int],
    "optional": int | None,
    "union": int | str | None,
    "Literal": Literal["a", 1, None],
    "Enum": Color,
    "IntEnum": Level,
    "StrEnum": Mood,
    "attrs": Point,
    "list of attrs": list[Point],
    "attrs with a validator": Even,
    "dataclass, recursive": Tree,
    "TypedDict": Movie,
    "NamedTuple": Pair,
    "NewType": UserId,
    "datetime": datetime,
    "date": date,
    "time": time,
    "timedelta": timedelta,
    "UUID": uuid.UUID,
    "Decimal": Decimal,
    "Path": Path,
    "Ge": Annotated[int, at.Ge(5)],
    "Gt, Lt": Annotated[float, at.Gt(0), at.Lt(1)],
    "Gt, Lt of int": Annotated[int, at.Gt(1), at.Lt(3)],
    "Gt, Lt between integers": Annotated[float, at.Gt(3), at.Lt(4)],
    "Interval": Annotated[int, at.Interval(ge=-3, lt=4)],
    "MultipleOf": Annotated[int, at.MultipleOf(7), at.Ge(20), at.Le(90)],
    "Ge, Lt of Decimal": Annotated[Decimal, at.Ge(5), at.Lt(9)],
    "MultipleOf of Decimal": Annotated[Decimal, at.MultipleOf(0.25)],
    "MultipleOf of float": Annotated[float, at.MultipleOf(0.25), at.Ge(0), at.Le(3)],
    "Len": Annotated[str, at.MinLen(2), at.MaxLen(3)],
    "Len of list": Annotated[list[int], at.Len(2, 4)],
    "pattern": Annotated[str, re.compile("^[a-z]{2,3}-[0-9]+$")],
    "nested": dict[str, list[tuple[Point | None, Literal["x"]]]],
}


def _taking(hint: Any) -> Tool[..., Any]:
    def take(value, other="left out"):  # type: ignore[no-untyped-def]
        """Take a value."""
        return True

    take.__annotations__ = {"value": hint, "other": str, "return": bool}
    return Tool.from_function(take)


class TestArgumentsFor:
    @pytest.mark.parametrize("name", HINTS)
    def test_every_form_is_accepted(self, name: str) -> None:
        """
        For every row of the type table, whatever is drawn is accepted as it is, and the tool runs.
        """
        taking = _taking(HINTS[name])
        registry = ToolRegistry()
        registry.register_tool(taking)
        caller = Agent("caller", tools=["take"], registry=registry)

        @settings(max_examples=25, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
        @given(arguments_for(taking))
        def check(arguments: dict[str, Any]) -> None:
            assert taking.implementation.validator.is_valid(arguments)
            result = caller.execute(ToolCall(name="take", arguments=arguments))
            assert (Outcome.OK, ()) == (result.outcome, result.repairs), result.error

        check()

    def test_parameters_with_defaults_are_left_out_sometimes(self) -> None:
        """
        Both happen: the optional parameter given, and left out.
        """
        taking = _taking(int)

        assert find(arguments_for(taking), lambda drawn: "other" in drawn)
        assert "other" not in find(arguments_for(taking), lambda drawn: "other" not in drawn)

    def test_reaches_the_limits(self) -> None:
        """
        The limits of a range are drawn, and nothing outside of them.
        """
        values = arguments_for(_taking(HINTS["Interval"]))

        assert [find(values, lambda drawn, n=n: drawn["value"] == n)["value"] for n in (-3, 3)] == [-3, 3]
        with pytest.raises(NoSuchExample):
            find(values, lambda drawn: not -3 <= drawn["value"] < 4, settings=settings(max_examples=200, database=None))

    @pytest.mark.parametrize(
        "schema",
        [
            {"type": "object", "properties": {"q": {"type": ["string", "null"]}}, "required": ["q"]},
            {"type": "object", "properties": {"n": {"oneOf": [{"const": 1}, {"type": "string", "maxLength": 2}]}}},
            {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1},
            {"type": "object", "properties": {"e": {"allOf": [{"type": "integer"}, {"minimum": 3}]}}},
            {"type": "object", "properties": {"u": {"type": "array", "uniqueItems": True, "items": {"enum": [1, 2]}}}},
            {"type": "object", "properties": {"m": {"type": "string", "format": "email"}}, "required": ["m"]},
            {
                "type": "object",
                "properties": {"t": {"$ref": "#/$defs/t"}},
                "$defs": {"t": {"type": "object", "properties": {"t": {"$ref": "#/$defs/t"}}}},
            },
            {},
        ],
    )
    def test_given_schemas(self, schema: dict[str, Any]) -> None:
        """
        Tools whose schema was given by hand are drawn for as well.
        """
        taking = Tool("take", description="Take.", parameters=schema, callable=lambda **given: True)

        @settings(max_examples=25, deadline=None, database=None)
        @given(arguments_for(taking))
        def check(arguments: dict[str, Any]) -> None:
            assert taking.implementation.validator.is_valid(arguments)

        check()

    def test_any_combination_of_parameters(self) -> None:
        """
        Whole functions with several parameters are drawn for, too.
        """

        @tool(register=False)
        def book(room: int, guests: list[str], until: date, note: str | None = None, **extra: float) -> str:
            """Book a room."""
            return note or ""

        @settings(max_examples=50, deadline=None, database=None)
        @given(arguments_for(book), st.data())
        def check(arguments: dict[str, Any], data: Any) -> None:
            assert isinstance(book.run_raw(arguments), str)

        check()
