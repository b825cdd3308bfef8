# Tests of: encode, dict_keys
"""Results use the same forms as arguments: what is encoded and structured again is the same value."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, NamedTuple, TypedDict, Union, get_args, get_origin
from uuid import UUID

import attrs
import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from type_classes import Color, Json, Level, Mood
from type_strategies import FORMS, Tree, ask, echo, hints, json_for, resolved_alias

from praval_tools import Outcome, Tool, ToolCall, ToolRegistry
from praval_tools.schema.signature import read_signature
from praval_tools.schema.type_handler import Mismatch, Unencodable
from praval_tools.schema.type_hints import is_type_alias
from praval_tools.tools.compiled import CompiledSignature

QUIET = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}
ONE_WAY = {"dataclass": "an InitVar is gone after __init__"}
"""Rows whose values cannot be read back from an instance, and why."""

BOTH_WAYS = [name for name in FORMS if name not in ONE_WAY]


def compiled(hint: Any) -> CompiledSignature:
    """Return what is compiled of a function that takes and gives *hint*."""

    def function(value: Any) -> Any:
        return value

    function.__annotations__.update({"value": hint, "return": hint})
    return CompiledSignature(read_signature(function), function)


@cache
def row(name: str) -> CompiledSignature:
    """Return what is compiled for one row of the table."""
    return compiled(FORMS[name])


def there_and_back(made: CompiledSignature, value: Any) -> Any:
    """Return *value* encoded to text and structured from it, the text valid under the result's schema."""
    text = made.encode_result_text(value)
    plain = json.loads(text)
    schema = made.result_schema
    if schema is not None:
        assert jsonschema_rs.validator_for(schema, validate_formats=True).is_valid(plain), (plain, schema)
    assert plain == json.loads(json.dumps(made.encode_result(value)))
    return made.decode_result(plain)


def same(expected: Any, actual: Any) -> bool:
    """Tell whether two values are equal and of the same types throughout; sets in any order."""
    if type(expected) is not type(actual):
        return False
    if isinstance(expected, list | tuple):
        return len(expected) == len(actual) and all(map(same, expected, actual))
    if isinstance(expected, dict):
        return expected.keys() == actual.keys() and all(same(one, actual[key]) for key, one in expected.items())
    return bool(expected == actual)


class TestEachRow:
    @pytest.mark.parametrize("name", BOTH_WAYS)
    def test_encode_then_structure_is_the_identity(self, name: str) -> None:
        """Any value of the row comes back equal and of the same types, and its JSON fits the result schema."""
        made = row(name)

        @settings(max_examples=40, **QUIET)
        @given(json_for(FORMS[name]))
        def comes_back(drawn: Any) -> None:
            value = made.decode_arguments({"value": drawn})["value"]
            assert same(value, there_and_back(made, value)), value

        comes_back()

    @pytest.mark.parametrize("name", BOTH_WAYS)
    def test_encoding_is_stable(self, name: str) -> None:
        """Encoding what came back gives the same bytes: sets are in order, numbers in one spelling."""
        made = row(name)

        @settings(max_examples=15, **QUIET)
        @given(json_for(FORMS[name]))
        def stays(drawn: Any) -> None:
            value = made.decode_arguments({"value": drawn})["value"]
            assert made.encode_result_text(value) == made.encode_result_text(there_and_back(made, value))

        stays()


class TestNested:
    @settings(max_examples=150, **QUIET)
    @given(st.data())
    def test_rows_inside_rows_come_back(self, data: st.DataObject) -> None:
        """The same for rows nested in rows; in a union, text may come back as another member with the same JSON."""
        hint = data.draw(hints())
        made = compiled(hint)
        value = made.decode_arguments({"value": data.draw(json_for(hint, 2))})["value"]
        try:
            text = made.encode_result_text(value)
        except Unencodable as error:  # a dataclass with an InitVar, drawn inside
            assert "cannot be read back" in str(error)
            return
        back = made.decode_result(json.loads(text))

        assert text == made.encode_result_text(back)
        assert same(value, back) or has_union(hint), (value, back)


def has_union(hint: Any) -> bool:
    """Tell whether there is a union of several types with values in *hint*: str | date has two for one text."""
    if is_type_alias(hint):
        return hint is Json or has_union(resolved_alias(hint))
    members = [one for one in get_args(hint) if one is not type(None)]
    if get_origin(hint) in (Union, UnionType) and len(members) > 1:
        return True
    return get_origin(hint) is not Literal and any(map(has_union, members))


FIXED = timezone(timedelta(hours=5, minutes=30))
VALUES: list[tuple[Any, Any]] = [
    (datetime, datetime(2026, 1, 2, 3, 4, 5, 678_900, FIXED)),
    (datetime, datetime.max.replace(tzinfo=UTC)),
    (datetime, datetime.min.replace(tzinfo=UTC)),
    (date, date.min),
    (date, date.max),
    (time, time(23, 59, 59, 999_999)),
    (time, time(0, 0, tzinfo=UTC)),
    (timedelta, timedelta(microseconds=1)),
    (timedelta, -timedelta(days=1, microseconds=1)),
    (timedelta, timedelta()),
    (timedelta, timedelta(days=99_999_999, hours=23)),
    (Decimal, Decimal("1.10")),
    (Decimal, Decimal("-0")),
    (Decimal, Decimal("1E+5")),
    (Decimal, Decimal("0.1") ** 30),
    (bytes, bytes(range(256))),
    (UUID, UUID(int=0)),
    (UUID, UUID(int=2**128 - 1)),
    (Path, Path("/a b/é")),
    (float, 5e-324),
    (float, 1.7976931348623157e308),
    (float, -0.0),
    (float, 0.1 + 0.2),
    (int, 2**64),
    (int, -(2**200)),
    (str, "\0\n\"\\\U0001f600\u2028"),
    (set[str], {"b", "a", "é"}),
    (frozenset[int | str], frozenset({1, "1"})),
    (dict[int, dict[Color, set[date]]], {1: {Color.RED: {date(2026, 1, 1), date(2025, 1, 1)}}, -1: {}}),
    (dict[float, int], {0.1: 1, -2.5: 2, 1e22: 3}),
    (dict[bool, Level], {True: Level.LOW, False: Level.HIGH}),
    (dict[datetime, Mood], {datetime(2026, 1, 1, tzinfo=UTC): Mood.GOOD}),
    (tuple[int, tuple[str, ...], None], (1, ("a", "b"), None)),
    (Tree, Tree(1, Tree(2), Tree(3, None, Tree(4)))),
    (Json, {"a": [1, 1.5, True, None, {"b": []}]}),
    (int | float, 3), (int | float, 3.0), (float | int, 3), (float | int, 3.5),
    (int | str, "3"), (bool | int, True), (bool | int, 1), (Decimal | str, Decimal("1.5")),
    (date | datetime, date(2026, 1, 1)), (date | datetime, datetime(2026, 1, 1, tzinfo=UTC)),
    (list[int] | list[str], []), (list[int] | list[str], ["a"]), (UUID | int, UUID(int=1)),
]  # fmt: skip
"""Hint, value: the ends of each range, and the values that are easily mixed up."""


class TestValues:
    @pytest.mark.parametrize(
        ("hint", "value"), VALUES, ids=lambda one: ascii(sorted(one) if type(one) is set else one)[:40]
    )
    def test_at_the_ends_of_the_ranges_come_back(self, hint: Any, value: Any) -> None:
        """Extreme and easily confused values come back equal, of the same type, in the same spelling."""
        made = there_and_back(compiled(hint), value)

        assert same(value, made)
        assert isinstance(value, set | frozenset | dict) or repr(value) == repr(made)


DURATIONS = [
    "P14285715W",
    "-P99999999W",
    "P99999999DT24H",
    "P99999999DT99999999H99999999M999999999999S",
    "PT999999999999S",
]


class TestDurations:
    @pytest.mark.parametrize("text", DURATIONS)
    def test_that_can_be_read_can_be_written(self, text: str) -> None:
        """The longest durations that are taken as arguments have a form as results."""
        made = compiled(timedelta)
        try:
            value = made.decode_arguments({"value": text})["value"]
        except Mismatch:  # longer than durations can be: refused on the way in
            return

        assert same(value, there_and_back(made, value))


class Span(NamedTuple):
    start: date
    end: date | None = None


class Person(TypedDict):
    name: str


@attrs.frozen
class Item:
    price: Decimal
    _code: bytes = b""


@dataclass
class Order:
    items: list[Item]
    spans: set[Span]
    who: Person | None = None


ORDER = Order([Item(Decimal("1.10"), b"\xff"), Item(Decimal(3))], {Span(date(2026, 1, 1))}, {"name": "x"})
ORDER_JSON = {
    "items": [{"price": "1.10", "code": "/w=="}, {"price": "3", "code": ""}],
    "spans": [{"start": "2026-01-01", "end": None}],
    "who": {"name": "x"},
}


class TestThroughACall:
    def test_what_one_tool_gives_another_takes(self) -> None:
        """The JSON of a result is a valid argument of the same hint, and stands for the same value."""

        def give() -> Order:
            """Give."""
            return ORDER

        taking = echo(Order)
        shown = ask(Tool.from_function(give), {}).for_model()

        assert ORDER_JSON == json.loads(shown)
        assert ORDER == ask(taking, {"value": json.loads(shown)}, strict_arguments=True).result

    def test_the_result_schema_is_the_schema_of_the_same_argument(self) -> None:
        """A hint has one form: as a result it says what it says as an argument."""

        def give(value: Order) -> Order:
            """Give."""
            return value

        made = Tool.from_function(give)

        assert made.parameters["properties"]["value"] == made.result_schema

    def test_text_in_text_out_is_the_identity(self) -> None:
        """A call from JSON text to JSON text gives back what it got."""

        def give(value: Order) -> Order:
            """Give."""
            return value

        registry = ToolRegistry()
        registry.register_tool(Tool.from_function(give))
        registry.assign_tool_to_agent("give", "agent")

        text = json.dumps({"value": ORDER_JSON})
        assert ORDER_JSON == json.loads(registry.agent("agent").tools.call_json("give", text))


class Unshown:
    """An object without a JSON form."""


def circle() -> list[Any]:
    """Return a list that holds itself."""
    made: list[Any] = []
    made.append(made)
    return made


UNFIT: list[tuple[Any, Any]] = [
    (int, "x"), (int, None), (int, True), (int, 1.5), (str, 3), (bool, 1), (None, 0), (float, "1"),
    (float, float("nan")), (float, float("inf")), (list[int], ["x"]), (list[int], "ab"), (list[int], {"a": 1}),
    (dict[str, int], [("a", 1)]), (tuple[int, str], (1,)), (set[int], [1, 1]),
    (Color, "RED"), (Level, 3), (datetime, datetime(2026, 1, 1)), (date, datetime(2026, 1, 1, tzinfo=UTC)),
    (Decimal, Decimal("NaN")), (Order, {"items": 1}), (Person, {"nme": "x"}), (Item, Order([], set())),
    (str, "\ud800"), (Any, Unshown()), (Any, [Unshown()]), (Any, float("nan")), (list, circle()), (Any, 10**5000),
    (Path, 3), (UUID, 3), (bytes, "x"),
]  # fmt: skip
"""Hint, and a value that is none of it and whose JSON is none either."""


class TestUnfitResults:
    @pytest.mark.parametrize(("hint", "value"), UNFIT, ids=lambda one: ascii(one)[:30] if one != 10**5000 else "huge")
    def test_are_refused_naming_the_place(self, hint: Any, value: Any) -> None:
        """A result that is not what was declared has no JSON: an error that says so, and no other exception."""
        made = compiled(hint)

        with pytest.raises(Exception) as caught:
            made.encode_result(value)
        assert "Unencodable" == type(caught.value).__name__
        assert str(caught.value)

    def test_the_place_is_a_path(self) -> None:
        """The error leads to the item that is wrong."""
        with pytest.raises(Unencodable, match=r"\$\.items\[1\]\.price"):
            compiled(Order).encode_result(Order([Item(Decimal(1)), Item("x")], set()))  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("hint", "value", "expected"),
        [
            (list[int], (1, 2), [1, 2]),
            (float, 3, 3),
            (Color, "red", "red"),
            (Person, {"name": "x"}, {"name": "x"}),
            (date, "2026-01-01", "2026-01-01"),
            (Item, {"price": 1}, {"price": 1}),
            (set[int], [1], [1]),
            (dict[str, int], {1: 1}, {"1": 1}),
        ],
        ids=ascii,
    )
    def test_another_type_with_the_declared_json_is_taken(self, hint: Any, value: Any, expected: Any) -> None:
        """What is not of the declared class but is its JSON goes through."""
        assert expected == compiled(hint).encode_result(value)

    def test_a_call_keeps_the_python_value(self) -> None:
        """`result` is what the function gave, as Python; only text for a model or a wire is encoded."""

        def give() -> Order:
            """Give."""
            return ORDER

        result = giving(give).execute(ToolCall("1", "give", {}, "agent"))

        assert Outcome.OK is result.outcome
        assert result.result is ORDER


def giving(function: Any) -> ToolRegistry:
    """Return a registry with one tool `give` of *function* that an agent may call."""
    registry = ToolRegistry()
    registry.register_tool(Tool.from_function(function, name="give", description="Give."))
    registry.assign_tool_to_agent("give", "agent")
    return registry


class TestEnumsOfOddValues:
    def test_come_back(self) -> None:
        """An Enum whose values are lists, truth values and numbers keeps its members apart."""

        class Odd(Enum):
            ONE = 1
            YES = True
            HALF = 0.5
            PAIR = (1, "x")
            TEXT = "1"

        made = compiled(list[Odd])

        assert list(Odd) == there_and_back(made, list(Odd))
