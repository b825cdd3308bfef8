# Tests of: strict_nulls, union_branches
"""A null that stands for a default is left out, also where no schema shows the default; one that is a value stays."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from enum import Enum
from math import inf
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import attrs
import pytest
from format_rig import is_strict
from pydantic import BaseModel, Field

from praval_tools import Secret, Tool, ToolRegistry
from praval_tools.formats import export, parse_tool_calls

SECRET = "kT7vQ2xW9zRfoo"


@dataclass
class Box:
    sizes: list[int] | None = field(default_factory=lambda: [7])
    pin: Annotated[str | None, Secret] = SECRET


@attrs.frozen
class Part:
    api_token: str | None = SECRET
    sizes: list[int] | None = attrs.field(factory=lambda: [7])


class Model(BaseModel):
    sizes: list[int] | None = Field(default_factory=lambda: [7])
    password: str | None = SECRET
    box: Box | None = Box()
    limit: float | None = inf


@dataclass
class ByNumber:
    key: int
    limit: int | None


@dataclass
class ByName:
    key: str
    limit: int | None = 100


@dataclass
class Letter:
    to: str


class Row(TypedDict):
    note: NotRequired[str | None]


class Unwritable:
    """Has no JSON form."""


def take_parameters(
    count: int | None = 3, api_token: str | None = SECRET, pin: Annotated[str | None, Secret] = SECRET,
    odd: int | None = Unwritable(),  # type: ignore[assignment]
) -> Any:  # fmt: skip
    """Take."""
    return [count, api_token, pin, type(odd).__name__]


def take_classes(box: Box, parts: list[Part], one: Part | int, model: Model) -> Any:
    """Take."""
    return f"{box} {parts} {one} {model}"


def take_lists(parts: list[Letter] | list[Part], groups: list[list[Letter]] | list[list[Part] | list[int]]) -> Any:
    """Take."""
    return f"{parts} {groups}"


@dataclass
class ByIndex:
    key: int
    unit: str = "px"


@dataclass
class ByTitle:
    key: str | None = "main"


def take_titles(title: ByIndex | ByTitle, same: list[ByIndex] | list[ByTitle]) -> Any:
    """Take."""
    return f"{title} {same}"


def take_keys(first: ByNumber | ByName, second: ByName | ByNumber, many: list[ByNumber] | list[ByName]) -> Any:
    """Take."""
    return f"{first} {second} {many}"


def take_row(row: Row) -> Any:
    """Take."""
    return row


NULLS = {"sizes": None, "pin": None}
PART_NULLS = {"api_token": None, "sizes": None}
MODEL = {"sizes": None, "password": None, "box": NULLS, "limit": None}


def call_strictly(tool: Tool[..., Any], arguments: dict[str, Any], *, bound: bool = True) -> Any:
    """Return the result of a call that a model made in strict mode."""
    assert is_openai_strict(tool)
    return run_call(tool, arguments, bound=bound)


def is_openai_strict(tool: Tool[..., Any]) -> bool:
    """Tell whether a tool is sent to OpenAI as strict; both of its formats say the same."""
    schemas: Any = [tool.get_schema(name, strict=True) for name in ("openai-chat", "openai-responses")]
    chat, responses = schemas[0]["function"].get("strict", False), schemas[1]["strict"]
    assert chat == responses
    return bool(chat)


def run_call(tool: Tool[..., Any], arguments: dict[str, Any], *, bound: bool = True) -> Any:
    """Return the result of a call that a model made, or its error."""
    registry = ToolRegistry(strict_arguments=True)
    registry.register_tool(tool.with_metadata(shared=True))
    reply = {"tool_calls": [{"id": "1", "function": {"name": "take", "arguments": json.dumps(arguments)}}]}
    tools: Any = registry.toolset("ann") if bound else [tool]
    (call,) = parse_tool_calls("openai-chat", reply, tools=tools, strict=True)
    result = registry.agent("ann").execute(call)
    return result.result if result.success else result.error


@pytest.mark.parametrize("bound", [True, False])
class TestNulls:
    def test_stand_for_defaults_of_parameters(self, bound: bool) -> None:
        """Broken promise: a null overwrote a default that the schema does not show."""
        tool = Tool.from_function(take_parameters, "take")
        arguments = dict.fromkeys(("count", "api_token", "pin", "odd"))

        assert [3, SECRET, SECRET, "Unwritable"] == call_strictly(tool, arguments, bound=bound)

    def test_stand_for_defaults_of_fields(self, bound: bool) -> None:
        """At any depth, also where a factory makes the default, and in pydantic models."""
        tool = Tool.from_function(take_classes, "take")
        arguments = {"box": NULLS, "parts": [PART_NULLS], "one": PART_NULLS, "model": MODEL}

        expected = take_classes(Box(), [Part()], Part(), Model())
        assert expected == call_strictly(tool, arguments, bound=bound)

    def test_stand_for_defaults_of_fields_in_a_union_of_lists(self, bound: bool) -> None:
        """Broken promise: the items of the second list got None in place of their defaults."""
        tool = Tool.from_function(take_lists, "take")
        arguments = {"parts": [PART_NULLS], "groups": [[PART_NULLS], [], [1]]}

        expected = take_lists([Part()], [[Part()], [], [1]])
        assert expected == call_strictly(tool, arguments, bound=bound)

    def test_stand_for_defaults_of_the_class_that_the_types_tell(self, bound: bool) -> None:
        """Broken promise: the first class with these names decided: a null stayed, or one that is wanted went."""
        tool = Tool.from_function(take_keys, "take")
        named, numbered = {"key": "ann", "limit": None}, {"key": 1, "limit": None}
        arguments = {"first": named, "second": numbered, "many": [named]}

        expected = take_keys(ByName("ann"), ByNumber(1, None), [ByName("ann")])
        assert expected == call_strictly(tool, arguments, bound=bound)

    def test_are_not_written_where_they_would_hide_the_class(self, bound: bool) -> None:
        """Broken promise: a class with more names decided, in which the null could not even be left out."""
        tool = Tool.from_function(take_titles, "take")

        arguments = {"title": {"key": "main"}, "same": [{"key": "main"}]}
        assert not is_openai_strict(tool)
        assert take_titles(ByTitle(), [ByTitle()]) == run_call(tool, arguments, bound=bound)

    def test_stay_where_there_is_no_default(self, bound: bool) -> None:
        """What may be left out, and has no default in code or schema, is null where a model says so."""
        tool = Tool.from_function(take_row, "take")
        properties = {"note": {"type": ["string", "null"]}}
        schema = {"type": "object", "properties": properties, "additionalProperties": False}
        supplied = Tool("take", "Take.", schema, lambda **given: given)

        assert {"note": None} == call_strictly(tool, {"row": {"note": None}}, bound=bound)
        assert {"note": None} == call_strictly(supplied, {"note": None}, bound=bound)

    def test_stand_for_defaults_of_supplied_schemas(self, bound: bool) -> None:
        """Hidden ones of the schema, and those of the function."""
        text = {"type": ["string", "null"]}
        inner = {"type": "object", "properties": {"token": {**text, "default": SECRET}}, "additionalProperties": False}
        properties = {"token": {**text, "default": SECRET}, "key": text, "inner": inner}
        schema = {
            "type": "object", "properties": properties, "required": ["inner"], "additionalProperties": False,
        }  # fmt: skip
        tool = Tool("take", "Take.", schema, lambda inner, token="", key=SECRET: [token, key, inner.get("token", 1)])

        arguments = {"token": None, "key": None, "inner": {"token": None}}
        assert SECRET not in json.dumps(tool.parameters)
        assert [SECRET, SECRET] == call_strictly(tool, arguments, bound=bound)[:2]
        assert None is not call_strictly(tool, arguments, bound=bound)[2]


def test_no_tool_shows_the_defaults_that_nulls_stand_for() -> None:
    """What parsing reads of a tool says that there are defaults, not what they are."""
    registry = ToolRegistry()
    registry.tool("take", shared=True)(take_parameters)
    registry.tool("more", shared=True)(take_classes)

    for tool in registry.toolset("ann").values():
        assert SECRET not in json.dumps(tool.blank_schema) and "default" in json.dumps(tool.blank_schema)


class Kind(Enum):
    CUBE = "cube"


@dataclass
class Circle:
    size: int = 1
    kind: Literal["circle"] = "circle"


@attrs.frozen
class Square:
    size: int = 1
    kind: Literal["square"] = "square"


class Cube(BaseModel):
    size: int = 1
    kind: Kind = Kind.CUBE


class Cone(BaseModel):
    size: int = 1
    kind: Literal["cone"] = "cone"


class Ball(BaseModel):
    size: int = 1
    kind: Literal["ball"] = "ball"


@dataclass
class Walk:
    to: str
    pace: int = 5


@dataclass
class Wait:
    minutes: int | None
    pace: int = 5


@dataclass
class Rest:
    minutes: str
    pace: int = 5


@dataclass
class Inches:
    size: int = 1
    inches: bool = True


@dataclass
class Meters:
    size: int = 1
    meters: bool = True


@dataclass
class Trip:
    step: Walk | Wait
    back: Trip | None = None


@dataclass
class Stay:
    step: Rest
    back: Trip | None = None


@dataclass
class Node:
    leaves: list[Node] | list[Circle] | None = None
    kind: Literal["node"] = "node"


@dataclass
class Left:
    inner: Left | Right | None = None
    size: int = 1


@dataclass
class Right:
    inner: Left | Right | None = None
    count: int = 1


@dataclass
class Outer:
    inner: Outer | None
    size: int = 1


@dataclass
class Other:
    inner: Other | None
    size: int = 1


@dataclass
class MayBeUnnamed:
    size: int = 1
    kind: Literal["circle"] | None = "circle"


@dataclass
class Unset:
    size: int = 1
    password: Literal["unset"] = "unset"


@dataclass
class Plain:
    size: int = 1


def make_taker(hint: Any) -> Tool[..., Any]:
    """Return a tool that says what it got under *hint*."""

    def take(value: Any) -> str:
        """Take."""
        return repr(value)

    take.__annotations__ = {"value": hint, "return": str}
    return Tool.from_function(take, "take")


CIRCLE, SQUARE = {"size": None, "kind": "circle"}, {"size": None, "kind": "square"}
CUBE, BALL, CONE = ({"size": None, "kind": kind} for kind in ("cube", "ball", "cone"))
NODE = {"leaves": None, "kind": "node"}
WALK, WAIT, REST = {"to": "x", "pace": None}, {"minutes": None, "pace": None}, {"minutes": "3", "pace": None}
DISTINCT: list[tuple[Any, list[tuple[Any, Any]]]] = [
    (Circle | Square, [(CIRCLE, Circle()), (SQUARE, Square())]),
    (Square | Circle | Cube | Ball | int | None, [(CUBE, Cube()), (BALL, Ball()), (CIRCLE, Circle()), (3, 3)]),
    (Annotated[Cone | Ball, Field(discriminator="kind")], [(CONE, Cone()), (BALL, Ball())]),
    (Walk | Wait, [(WALK, Walk("x")), (WAIT, Wait(None))]),
    (Wait | Rest, [(WAIT, Wait(None)), (REST, Rest("3")), ({**WAIT, "minutes": 3}, Wait(3))]),
    (Circle | Walk, [(CIRCLE, Circle()), (WALK, Walk("x"))]),
    (list[Circle] | list[Square] | Cube, [([CIRCLE], [Circle()]), ([SQUARE], [Square()]), ([], []), (CUBE, Cube())]),
    (list[list[Walk | Wait]] | list[list[Cube]], [
        ([[WALK], [WAIT]], [[Walk("x")], [Wait(None)]]), ([[CUBE]], [[Cube()]]),
    ]),
    (Trip | Stay, [
        ({"step": REST, "back": None}, Stay(Rest("3"))),
        ({"step": WAIT, "back": {"step": WALK, "back": None}}, Trip(Wait(None), Trip(Walk("x")))),
    ]),
    (Node | Circle, [({**NODE, "leaves": [NODE]}, Node([Node()])), (CIRCLE, Circle())]),
    (Inches | None, [({"size": None, "inches": None}, Inches()), (None, None)]),
    (Inches | list[Inches] | str, [([{"size": 2, "inches": None}], [Inches(2)]), ("x", "x")]),
]  # fmt: skip
"""Unions, and what a model writes for values of each class in them."""
INDISTINCT: list[Any] = [
    Inches | Meters, Walk | Inches | Meters | None, list[Inches] | list[Meters], list[Inches | Meters],
    list[list[Inches]] | list[list[Meters]], list[Inches | Circle] | list[Meters], list[Inches] | list[Circle] | Square,
    Left | Right, Left, Outer | Other, ByIndex | ByTitle, MayBeUnnamed | Square, Unset | Square,
    Plain | Circle, Trip | Inches | Meters,
]  # fmt: skip


class TestUnions:
    @pytest.mark.parametrize(("hint", "cases"), DISTINCT, ids=str)
    def test_of_classes_that_what_is_written_distinguishes_are_strict(self, hint: Any, cases: Any) -> None:
        """Broken promise: a class with a default of its own for what names it was read as the first of them."""
        tool = make_taker(hint)

        for written, value in cases:
            assert repr(value) == call_strictly(tool, {"value": written})

    @pytest.mark.parametrize("hint", INDISTINCT, ids=str)
    def test_of_classes_that_only_defaults_tell_apart_are_not_strict(self, hint: Any) -> None:
        """Broken promise: a value of the second class became one of the first once its nulls were left out."""
        assert not is_openai_strict(make_taker(hint))

    def test_of_such_classes_are_strict_where_nothing_is_null_in_place_of_a_default(self) -> None:
        """Anthropic's mode leaves out what has a default."""
        assert make_taker(Inches | Meters).get_schema("anthropic", strict=True)["strict"]

    def test_have_constants_that_cannot_be_null(self) -> None:
        """A model always writes what names the class; what has another default, or an unknown one, may be null."""
        kind = {"type": "string", "enum": ["a"]}
        properties = {
            "same": {**kind, "default": "a"}, "const": {"type": "string", "const": "a", "default": "a"},
            "behind": {"$ref": "#/$defs/kind", "default": "a"}, "other": {**kind, "default": "b"}, "unknown": kind,
            "more": {"type": "string", "enum": ["a", "b"], "default": "a"},
            "truth": {"type": "integer", "enum": [1], "default": True},
        }  # fmt: skip
        schema = {"type": "object", "properties": properties, "additionalProperties": False, "$defs": {"kind": kind}}
        made = export("openai-chat", "made", "Made.", schema, strict=True)["function"]["parameters"]

        nullable = {name for name, inner in made["properties"].items() if None in inner["enum"]}
        assert list(properties) == made["required"]
        assert {"other", "unknown", "more", "truth"} == nullable

    @pytest.mark.parametrize("inner", [
        {"anyOf": [{"$ref": "#/$defs/x"}, {"$ref": "#/$defs/y"}]},
        {"anyOf": [{"type": "array", "items": {"$ref": f"#/$defs/{name}"}} for name in "xy"]},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "required": ["a"],
         "additionalProperties": False},
    ], ids=str)  # fmt: skip
    def test_without_end_are_not_strict(self, inner: Any) -> None:
        """What is not found out in a bounded number of steps does not tell classes apart."""
        schema = {
            "type": "object", "properties": {"a": {"anyOf": [{"$ref": "#/$defs/x"}, {"$ref": "#/$defs/y"}]}},
            "required": ["a"], "additionalProperties": False, "$defs": {"x": inner, "y": copy.deepcopy(inner)},
        }  # fmt: skip

        assert not is_strict(export("openai-chat", "made", "Made.", schema, strict=True))

    def test_of_very_many_classes_are_not_strict(self) -> None:
        """Each pair is compared, up to a bound."""
        branches = [
            {"type": "object", "properties": {f"p{number}": {"type": "null"}}, "required": [f"p{number}"],
             "additionalProperties": False} for number in range(400)
        ]  # fmt: skip
        for count, fits in ((100, True), (400, False)):
            schema = {
                "type": "object", "properties": {"a": {"anyOf": branches[:count]}}, "required": ["a"],
                "additionalProperties": False,
            }  # fmt: skip
            assert fits is is_strict(export("openai-chat", "made", "Made.", schema, strict=True))
