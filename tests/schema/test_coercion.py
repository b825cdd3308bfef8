"""The table of what a model may give for each type: taken as it is, repaired and recorded, or refused."""

from __future__ import annotations

from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any, Literal, NotRequired, TypedDict

import pytest
from type_strategies import ask, echo, given_tool

from praval_tools import Outcome, Tool, ToolCall, ToolRegistry, ToolResult


class Color(Enum):
    RED = "red"
    THREE = 3


class Level(IntEnum):
    LOW = 1


class Point(TypedDict):
    x: int


Choice = Literal["a", 3, True]
JSON_TYPES = {
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "str": "string",
    "list": "array",
    "dict": "object",
}
HINTS: dict[str, Any] = {
    "int": int, "float": float, "bool": bool, "str": str, "list": list, "dict": dict,
    "list[int]": list[int], "object": Point, "enum": Color, "IntEnum": Level, "Literal": Choice,
}  # fmt: skip

EXACT: list[tuple[str, Any, Any]] = [
    ("int", 3, 3), ("int", -2, -2), ("int", 2**70, 2**70), ("int", 3.0, 3), ("int", -0.0, 0), ("int", 1e15, 10**15),
    ("float", 3.7, 3.7), ("float", 3, 3.0), ("float", -1, -1.0), ("float", 0, 0.0),
    ("bool", True, True), ("bool", False, False),
    ("str", "x", "x"), ("str", "", ""), ("str", "3", "3"), ("str", "true", "true"), ("str", "null", "null"),
    ("str", "[1]", "[1]"), ("str", '{"x": 1}', '{"x": 1}'), ("str", " 3", " 3"), ("str", "٣", "٣"),
    ("list", [], []), ("list", [1, "x", None], [1, "x", None]), ("list[int]", [1, 2.0], [1, 2]),
    ("dict", {}, {}), ("dict", {"a": [1]}, {"a": [1]}), ("object", {"x": 1}, {"x": 1}),
    ("enum", "red", Color.RED), ("enum", 3, Color.THREE), ("IntEnum", 1, Level.LOW),
    ("Literal", "a", "a"), ("Literal", 3, 3), ("Literal", True, True),
]  # fmt: skip
"""Row *exact JSON type*, and 3.0 for int: type, given, what the function gets."""

REPAIRED: list[tuple[str, str, Any]] = [
    ("int", "3", 3), ("int", "-3", -3), ("int", "0", 0), ("int", "3.0", 3), ("int", "1e3", 1000),
    ("int", "9" * 30, int("9" * 30)),
    ("float", "3", 3.0), ("float", "3.5", 3.5), ("float", "-0.25", -0.25), ("float", "1e3", 1000.0),
    ("float", "2E-2", 0.02),
    ("bool", "true", True), ("bool", "false", False),
    ("list", "[]", []), ("list", "[1, \"x\"]", [1, "x"]), ("list", " [1]\n", [1]),
    ("list[int]", "[1, 2]", [1, 2]), ("list[int]", '["1", 2]', [1, 2]),
    ("dict", "{}", {}), ("dict", '{"a": {"b": 1}}', {"a": {"b": 1}}),
    ("object", '{"x": 1}', {"x": 1}), ("object", '{"x": "1"}', {"x": 1}),
]  # fmt: skip
"""The rows that repair text: type, given, what the function gets."""

_NO_NUMBER = (" 3", "3 ", "1_000", "+3", "٣", "03", "3.", ".5", "0x3", "1,5", "", "x", "NaN", "inf", "-inf", "Infinity",
              "1e400", "-1e400", "null", "3\n", "[3]", "--3", "1e", "９")  # fmt: skip
_NO_TRUTH = ("True", "TRUE", "False", "yes", "no", "on", "1", "0", "3", "3.5", "", " true", "true ", "t", "null")
_NO_LIST = ("1, 2", "[1, 2", "x", "", "{}", '{"a": 1}', "(1, 2)", "[1] [2]", "[NaN]", "['a']", "null", "3", '"[1]"')
_NO_OBJECT = ("x: 1", '{"x": 1', "", "[]", "[1]", "{'x': 1}", '{"x": 1} 2', '{"x": 1, "x": 2}', "null", "3")
REFUSED: list[tuple[str, Any]] = [
    *(("int", value) for value in (3.7, -0.5, 1e400, True, False, None, [], [3], {}, *_NO_NUMBER)),
    *(("int", value) for value in ("3.7", "true", "1e-2")),
    *(("float", value) for value in (True, False, None, [], {}, float("nan"), 1e400, -1e400, *_NO_NUMBER, "true")),
    *(("bool", value) for value in (1, 0, 1.0, 0.0, None, [], {}, *_NO_TRUTH)),
    *(("str", value) for value in (3, 3.7, 1.0, True, False, None, [], ["x"], {}, float("nan"))),
    *(("list", value) for value in (1, 1.5, True, None, {}, {"a": 1}, *_NO_LIST)),
    *(("list[int]", value) for value in (["x"], [3.7], [True], [None], [[1]], '["x"]', "[3.7]", "[true]", *_NO_LIST)),
    *(("dict", value) for value in (1, 1.5, True, None, [], [["a", 1]], *_NO_OBJECT)),
    *(("object", value) for value in ({}, {"x": True}, {"x": None}, {"x": 1, "y": 2}, '{"x": null}', *_NO_OBJECT)),
    *(("enum", value) for value in ("RED", "Red", "3", "red ", '"red"', 1, True, None, [], {}, 3.5, "")),
    *(("IntEnum", value) for value in ("1", "LOW", True, 2, None, 1.5, [], {})),
    *(("Literal", value) for value in ("A", "3", "true", False, 1, 0, None, 3.5, [], ["a"], {}, "")),
]  # fmt: skip
"""The last row, and the neighbours of every repair: type, given."""


def shown(value: Any) -> str:
    """Return *value* as the name of a test."""
    return ascii(value)[:40]


def same(expected: Any, actual: Any) -> bool:
    """Tell whether two values are equal and of the same types throughout."""
    return (repr(expected), type(expected)) == (repr(actual), type(actual))


def hinted(kind: str, **more: Any) -> Tool[..., Any]:
    """Return a tool that gives back its `value` of the type called *kind*."""
    return echo(HINTS[kind], **more)


def value_of(result: ToolResult) -> Any:
    """Return the value of a call that must have gone well."""
    assert Outcome.OK is result.outcome, result.error
    return result.result


def assert_refused(result: ToolResult) -> None:
    """Assert that the arguments were refused and nothing was repaired."""
    assert Outcome.INVALID_ARGUMENTS is result.outcome
    assert result.result is None
    assert () == result.repairs
    assert 0 == result.attempts


class TestExactType:
    @pytest.mark.parametrize(("kind", "value", "expected"), EXACT, ids=shown)
    def test_is_taken_as_it_is(self, kind: str, value: Any, expected: Any) -> None:
        """A value of the right JSON type becomes its Python value, with nothing to record."""
        result = ask(hinted(kind), {"value": value})

        assert same(expected, value_of(result))
        assert () == result.repairs

    @pytest.mark.parametrize(("kind", "value", "expected"), EXACT, ids=shown)
    def test_is_taken_where_arguments_are_strict(self, kind: str, value: Any, expected: Any) -> None:
        """Strict arguments only turn repairs off."""
        assert same(expected, value_of(ask(hinted(kind), {"value": value}, strict_arguments=True)))


class TestText:
    @pytest.mark.parametrize(("kind", "text", "expected"), REPAIRED, ids=shown)
    def test_that_spells_the_value_is_repaired_and_recorded(self, kind: str, text: str, expected: Any) -> None:
        """A number, truth value, list or object spelled as text is taken, and the result says so."""
        result = ask(hinted(kind), {"value": text})

        assert same(expected, value_of(result))
        assert "$.value" == result.repairs[0].path
        assert "was spelled as text" == result.repairs[0].reason

    @pytest.mark.parametrize(("kind", "text", "_"), REPAIRED, ids=shown)
    def test_is_refused_where_the_registry_is_strict(self, kind: str, text: str, _: Any) -> None:
        """`strict_arguments=True` of the registry turns every repair off."""
        assert_refused(ask(hinted(kind), {"value": text}, strict_arguments=True))

    @pytest.mark.parametrize(("kind", "text", "_"), REPAIRED, ids=shown)
    def test_is_refused_where_the_tool_is_strict(self, kind: str, text: str, _: Any) -> None:
        """`strict_arguments=True` of the tool turns every repair off."""
        assert_refused(ask(hinted(kind, strict_arguments=True), {"value": text}))

    def test_is_repaired_where_the_tool_is_lenient_in_a_strict_registry(self) -> None:
        """What the tool says about strictness counts before what the registry says."""
        assert 3 == value_of(ask(echo(int, strict_arguments=False), {"value": "3"}, strict_arguments=True))

    def test_is_recorded_with_place_and_values(self) -> None:
        """Each repair says where, what was given, what it became, and why."""
        result = ask(echo(dict[str, list[int]]), {"value": {"rows": [1, "2", "3"]}})

        assert {"rows": [1, 2, 3]} == value_of(result)
        assert [("$.value.rows[1]", '"2"', "2"), ("$.value.rows[2]", '"3"', "3")] == [
            (one.path, one.given, one.became) for one in result.repairs
        ]

    def test_that_was_given_is_not_changed(self) -> None:
        """Repairs are made on a copy: the caller's own arguments stay as they were."""
        given = {"value": {"rows": ["1"]}}
        value_of(ask(echo(dict[str, list[int]]), given))

        assert {"value": {"rows": ["1"]}} == given


class TestRefused:
    @pytest.mark.parametrize(("kind", "value"), REFUSED, ids=shown)
    def test_the_value_is_never_guessed_at(self, kind: str, value: Any) -> None:
        """What is neither the type nor its one spelling is refused, and the tool does not run."""
        assert_refused(ask(hinted(kind), {"value": value}))


class TestNull:
    @pytest.mark.parametrize(
        ("kind", "default"),
        [("int", 7), ("float", 1.5), ("bool", True), ("str", "x"), ("list", [1]), ("dict", {"a": 1}),
         ("object", {"x": 1}),         ("enum", Color.RED), ("IntEnum", Level.LOW), ("Literal", "a")],
    )  # fmt: skip
    def test_for_a_parameter_with_a_default_is_left_out(self, kind: str, default: Any) -> None:
        """Null where leaving out was meant gives the default, and is recorded."""
        result = ask(echo(HINTS[kind], default), {"value": None})

        assert same(default, value_of(result))
        assert [("$.value", "null", "left out")] == [(one.path, one.given, one.became) for one in result.repairs]

    @pytest.mark.parametrize("kind", HINTS)
    def test_for_a_parameter_without_a_default_is_refused(self, kind: str) -> None:
        """Null is not a value of any other type."""
        assert_refused(ask(hinted(kind), {"value": None}))

    @pytest.mark.parametrize("kind", HINTS)
    def test_stays_null_where_null_is_allowed(self, kind: str) -> None:
        """A nullable parameter gets None, even where it has another default."""
        result = ask(echo(HINTS[kind] | None, 1), {"value": None})

        assert value_of(result) is None
        assert () == result.repairs

    def test_is_refused_where_arguments_are_strict(self) -> None:
        """Leaving out is a repair, too."""
        assert_refused(ask(echo(int, 7), {"value": None}, strict_arguments=True))


class TestUnion:
    @pytest.mark.parametrize(
        ("hint", "value", "expected"),
        [
            (int | str, "3", "3"), (str | int, 3, 3), (int | str, 3, 3), (bool | str, "true", "true"),
            (list[int] | str, "[1]", "[1]"), (float | str, "3.5", "3.5"), (float | int, 3, 3), (int | float, 3.0, 3.0),
            (float | int, 3.5, 3.5), (bool | int, 1, 1), (bool | int, True, True), (int | bool, True, True),
            (list[float] | list[int], [1, 2], [1, 2]), (Literal["3"] | int, "3", "3"), (Decimal | int, 3, 3),
            (int | Decimal, "3", Decimal(3)),
        ],
        ids=shown,
    )  # fmt: skip
    def test_an_exact_match_beats_repair_and_widening(self, hint: Any, value: Any, expected: Any) -> None:
        """What fits a member as it stands is that member, wherever it stands in the union."""
        result = ask(echo(hint), {"value": value})

        assert same(expected, value_of(result))
        assert () == result.repairs

    @pytest.mark.parametrize(
        ("hint", "value", "expected"),
        [(int | None, "3", 3), (int | bool, "true", True), (bool | int, "3", 3), (int | list[int], "[1]", [1]),
         (int | float, "3.5", 3.5), (list[int] | dict[str, int], '{"a": "1"}', {"a": 1}),
         (int | list[int], ["1"], [1])],
        ids=shown,
    )  # fmt: skip
    def test_what_fits_no_member_is_repaired_to_the_first_that_it_spells(
        self, hint: Any, value: Any, expected: Any
    ) -> None:
        """Repair comes where nothing fits, and only the repairs of the member taken are recorded."""
        result = ask(echo(hint), {"value": value})

        assert same(expected, value_of(result))
        assert result.repairs

    @pytest.mark.parametrize(
        ("hint", "value"),
        [(int | None, "null"), (list[int] | None, "null"), (int | bool, "True"), (int | bool, 1.5), (int | float, " 3"),
         (Literal[1, 2] | None, "1"), (list[int] | dict[str, int], "[true]"), (int | list[int], {})],
        ids=shown,
    )  # fmt: skip
    def test_what_spells_no_member_is_refused(self, hint: Any, value: Any) -> None:
        """A union repairs no more than its members would."""
        assert_refused(ask(echo(hint), {"value": value}))


class Refund(TypedDict):
    order: str
    note: NotRequired[str]


class Cancel(TypedDict):
    order: str
    reason: NotRequired[str]


class Page(TypedDict):
    number: int
    name: NotRequired[str]


class RefundBox(TypedDict):
    inner: Refund


class CancelBox(TypedDict):
    inner: Cancel


class Everything(TypedDict):
    limit: NotRequired[int]


class TestNullsInUnions:
    @pytest.mark.parametrize(
        ("hint", "value"),
        [
            (Refund | Cancel, {"order": "a", "reason": None}),
            (Page | Everything, {"name": None}),
            (list[Refund] | list[Cancel], [{"order": "a", "reason": None}]),
            (RefundBox | CancelBox, {"inner": {"order": "a", "reason": None}}),
            (Refund | Cancel, '{"order": "a", "reason": null}'),
        ],
        ids=[
            "of classes that they tell apart",
            "of a class that lacks something else",
            "of items of lists",
            "of classes inside of others",
            "in a text",
        ],
    )
    def test_are_refused(self, hint: Any, value: Any) -> None:
        """Broken promise: the null was left out, and the object was one of another class, which had no such field."""
        registry = ToolRegistry()
        registry.register_tool(make_tool(hint))
        assert Outcome.INVALID_ARGUMENTS is registry.execute(ToolCall(None, "take", {"value": value}, "ann")).outcome

    def test_that_are_none(self) -> None:
        """Broken promise: the text of an object that fits two classes was refused, though nothing is left out."""
        registry = ToolRegistry()
        registry.register_tool(make_tool(Refund | Cancel))
        result = registry.execute(ToolCall(None, "take", {"value": '{"order": "a"}'}, "ann"))
        assert {"order": "a"} == result.result

    def test_of_a_class_that_the_rest_tells(self) -> None:
        """The null is left out where the object is of one class without it."""
        registry = ToolRegistry()
        registry.register_tool(make_tool(Page | Everything))
        result = registry.execute(ToolCall(None, "take", {"value": {"number": "3", "name": None}}, "ann"))
        assert {"number": 3} == result.result


def make_tool(hint: Any) -> Tool[..., Any]:
    """Return a tool that gives its value back."""

    def take(value: Any) -> Any:
        """Take."""
        return value

    take.__annotations__["value"] = hint
    return Tool.from_function(take, "take", shared=True)


class TestWhole:
    @pytest.mark.parametrize(
        "raw", [{"value": 3}, '{"value": 3}', b'{"value": 3}', bytearray(b'{"value": 3}'), ' {"value":3}\n']
    )
    def test_arguments_are_an_object_or_its_text(self, raw: Any) -> None:
        """A dict, text or bytes say the same, and reading them is not a repair."""
        result = ask(echo(int), raw)

        assert 3 == value_of(result)
        assert () == result.repairs

    @pytest.mark.parametrize("raw", [None, "", b"", "  \n", "null", b"null", "{}", {}])
    def test_empty_text_and_null_mean_no_arguments(self, raw: Any) -> None:
        """Models send nothing, empty text or null for a tool without arguments."""
        assert 7 == value_of(ask(echo(int, 7), raw))
        assert "$.value" == ask(echo(int), raw).exception.problems[0].path  # type: ignore[union-attr]

    @pytest.mark.parametrize(
        "raw", ["[]", "3", '"x"', "true", "{", "value=3", "{} {}", b"\xff", [1], 3, True, object(), {1}]
    )
    def test_what_is_no_object_is_refused(self, raw: Any) -> None:
        """Text that spells no object, and values that are none, are bad arguments like any other."""
        result = ask(echo(int, 7), raw)

        assert_refused(result)
        assert ["$"] == [one.path for one in result.exception.problems]  # type: ignore[union-attr]

    def test_unknown_keys_are_refused_with_near_names(self) -> None:
        """A misspelt parameter is named together with the one that was meant."""
        result = ask(echo(int, 7), {"valeu": 3})

        assert_refused(result)
        assert "unknown parameter 'valeu'; did you mean 'value'?" in str(result.error)

    @pytest.mark.parametrize(("key", "expected"), [("1", 1), ("-20", -20), ("0", 0)])
    def test_integer_keys_come_as_text_without_repair(self, key: str, expected: int) -> None:
        """The keys of `dict[int, …]` can only be text in JSON, so nothing was repaired."""
        result = ask(echo(dict[int, str]), {"value": {key: "x"}}, strict_arguments=True)

        assert {expected: "x"} == value_of(result)
        assert () == result.repairs

    @pytest.mark.parametrize("key", ["x", "1.0", "01", "+1", " 1", "٣", "", "1_0", "-0"])
    def test_keys_that_spell_no_integer_are_refused(self, key: str) -> None:
        """Keys have one spelling per value: no two keys of an object become one."""
        assert_refused(ask(echo(dict[int, str]), {"value": {key: "x"}}))


def typed(kind: str) -> Tool[..., Any]:
    """Return a tool whose given schema wants `value` of the type called *kind*."""
    return given_tool({"type": "object", "properties": {"value": {"type": JSON_TYPES[kind]}}, "required": ["value"]})


class TestGivenSchema:
    @pytest.mark.parametrize(("kind", "value", "_"), [one for one in EXACT if one[0] in JSON_TYPES], ids=shown)
    def test_takes_the_exact_type(self, kind: str, value: Any, _: Any) -> None:
        """A tool with a given schema takes the same values; they stay the JSON that they are."""
        result = ask(typed(kind), {"value": value})

        assert same({"value": value}, value_of(result))
        assert () == result.repairs

    @pytest.mark.parametrize(("kind", "text", "expected"), [one for one in REPAIRED if one[0] in JSON_TYPES], ids=shown)
    def test_repairs_where_one_type_is_named(self, kind: str, text: str, expected: Any) -> None:
        """The same repairs are made and recorded where the schema names the type."""
        result = ask(typed(kind), {"value": text})

        assert {"value": expected} == value_of(result)
        assert "$.value" == result.repairs[0].path

    @pytest.mark.parametrize(("kind", "value"), [one for one in REFUSED if one[0] in JSON_TYPES], ids=shown)
    def test_refuses_the_same_values(self, kind: str, value: Any) -> None:
        """What is refused for a hint is refused for the same type in a given schema."""
        assert_refused(ask(typed(kind), {"value": value}))

    @pytest.mark.parametrize(
        ("extra", "outcome"), [(True, Outcome.OK), (False, Outcome.INVALID_ARGUMENTS), (None, Outcome.OK)]
    )
    def test_decides_itself_about_unknown_keys(self, extra: bool | None, outcome: Outcome) -> None:
        """Only `additionalProperties` of a given schema says whether other keys are refused."""
        schema: dict[str, Any] = {"type": "object", "properties": {"value": {"type": "integer"}}}
        if extra is not None:
            schema["additionalProperties"] = extra

        assert outcome is ask(given_tool(schema), {"value": 1, "more": 2}).outcome

    def test_fills_its_declared_defaults_in(self) -> None:
        """The function gets the defaults of the schema, a fresh copy at each call."""
        schema = {"type": "object", "properties": {"n": {"type": "integer"}, "rows": {"type": "array", "default": [1]}}}
        tool = given_tool(schema)
        value_of(ask(tool, {"n": 2}))["rows"].append(9)

        assert {"n": 2, "rows": [1]} == value_of(ask(tool, {"n": 2}))

    def test_null_is_left_out_where_the_property_is_not_required(self) -> None:
        """Null for an optional property of another type is repaired to leaving it out."""
        schema = {"type": "object", "properties": {"n": {"type": "integer", "default": 5}}}
        result = ask(given_tool(schema), {"n": None})

        assert {"n": 5} == value_of(result)
        assert ["left out"] == [one.became for one in result.repairs]

    def test_strictness_counts_there_too(self) -> None:
        """A strict registry repairs nothing for tools with a given schema."""
        assert_refused(ask(typed("int"), {"value": "3"}, strict_arguments=True))

    @pytest.mark.parametrize(
        ("part", "value", "expected"),
        [
            ({"$ref": "#/$defs/count"}, "3", 3),
            ({"allOf": [{"type": "integer"}, {"minimum": 2}]}, "3", 3),
            ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "3", 3),
            ({"type": ["integer", "null"]}, "3", 3),
            ({"type": "array", "prefixItems": [{"type": "integer"}]}, ["3"], [3]),
            ({"type": "object", "additionalProperties": {"type": "boolean"}}, {"a": "true"}, {"a": True}),
        ],
        ids=shown,
    )
    def test_repairs_through_references_and_branches(self, part: dict[str, Any], value: Any, expected: Any) -> None:
        """A type is found behind a reference, in `allOf`, and beside null."""
        schema = {"type": "object", "properties": {"value": part}, "$defs": {"count": {"type": "integer"}}}
        result = ask(given_tool(schema), {"value": value})

        assert {"value": expected} == value_of(result)
        assert 1 == len(result.repairs)

    @pytest.mark.parametrize(
        "part",
        [{}, {"type": ["integer", "string"]}, {"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"enum": ["3", 3]},
         {"const": "3"}, {"minimum": 5}, {"not": {"type": "array"}}],
        ids=shown,
    )  # fmt: skip
    def test_leaves_text_alone_where_text_is_valid(self, part: dict[str, Any]) -> None:
        """Text that is valid where it stands is never touched."""
        result = ask(given_tool({"type": "object", "properties": {"value": part}}), {"value": "3"})

        assert {"value": "3"} == value_of(result)
        assert () == result.repairs

    @pytest.mark.parametrize(
        "part", [{"enum": [3]}, {"const": 3}, {"enum": [True, None]}, {"not": {"type": "string"}}], ids=shown
    )
    def test_repairs_nothing_where_no_type_is_named(self, part: dict[str, Any]) -> None:
        """Choices are by value, and a place without a type has no spelling to repair."""
        assert_refused(ask(given_tool({"type": "object", "properties": {"value": part}}), {"value": "3"}))
