"""A null that stands for a default is left out, also where no schema shows the default; one that is a value stays."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from math import inf
from typing import Annotated, Any, NotRequired, TypedDict

import attrs
import pytest
from pydantic import BaseModel, Field

from praval_tools import Secret, Tool, ToolRegistry
from praval_tools.formats import parse_tool_calls

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
    registry = ToolRegistry(strict_arguments=True)
    registry.register_tool(tool.with_metadata(shared=True))
    assert registry.schemas("ann", "openai-chat", strict=True)[0]["function"]["strict"]
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

    def test_stand_for_defaults_of_the_class_that_has_all_the_names(self, bound: bool) -> None:
        """Broken promise: a class with more names decided, in which the null could not even be left out."""
        tool = Tool.from_function(take_titles, "take")

        expected = take_titles(ByTitle(), [ByTitle()])
        assert expected == call_strictly(tool, {"title": {"key": None}, "same": [{"key": None}]}, bound=bound)

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
