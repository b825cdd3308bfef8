"""Types that contain themselves by name work like classes that do; what never ends is an error of the declaration."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Annotated, Any, Optional, TypeVar, Union

import jsonschema_rs
import pytest
from typing_extensions import TypeAliasType

from praval_tools import Outcome, Tool, ToolArgumentsError, ToolCall, ToolDefinitionError, ToolRegistry
from praval_tools.formats import FORMATS

T = TypeVar("T")

JSON = Union[dict[str, "JSON"], list["JSON"], str, None]  # noqa: UP007
Chain = Optional[list["Chain"]]  # noqa: UP045
Rows = list["Cells"]
Cells = dict[str, "Rows"]
Nested = list["Nested"]
Declared = TypeAliasType("Declared", "dict[str, Declared] | list[Declared] | str | None")


@dataclass
class Holder:
    value: JSON
    more: list[JSON]


ITSELF = "ITSELF"
UNION_OF_ITSELF = Union["UNION_OF_ITSELF", int]
FIRST = "SECOND"
SECOND = Optional["FIRST"]
ALIAS_OF_ITSELF = TypeAliasType("ALIAS_OF_ITSELF", "ALIAS_OF_ITSELF | int")
GROWING = TypeAliasType("GROWING", "list[GROWING[list[T]]]", type_params=(T,))
DEEP: Any = int
for _ in range(3000):
    DEEP = list[DEEP]

ENDLESS = {
    "itself": "ITSELF", "union of itself": UNION_OF_ITSELF, "each other": "FIRST", "alias of itself": ALIAS_OF_ITSELF,
    "growing": GROWING[int], "deep": DEEP,
}  # fmt: skip
DEEP_LIST: Any = []
for _ in range(50):
    DEEP_LIST = [DEEP_LIST]
RECURSIVE: dict[str, tuple[Any, Any, Any]] = {
    "union": (JSON, {"a": ["b", None, {"c": []}]}, {"a": ["b", 3]}),
    "by name": ("JSON", {"a": ["b", None, {"c": []}]}, {"a": ["b", 3]}),
    "in text": ("JSON | int", {"a": "b"}, {"a": [[3]]}),
    "optional": (Chain, [[None], []], [["a"]]),
    "each other": (Rows, [{"a": [{"b": []}]}], [{"a": [{"b": 3}]}]),
    "nested": (Nested, DEEP_LIST, [[3]]),
    "alias": (Declared, {"a": ["b", None]}, {"a": [3]}),
    "in a class": (Holder, {"value": {"a": []}, "more": [["a"]]}, {"value": 3, "more": []}),
}


def make_tool(hint: Any) -> Tool[..., Any]:
    """Return a tool that takes and returns a value of this type."""

    def take(value: Any) -> Any:
        """Take."""
        return value

    take.__annotations__.update({"value": hint, "return": hint})
    return Tool.from_function(take, shared=True)


@pytest.mark.parametrize("name", RECURSIVE)
class TestTypesThatContainThemselves:
    def test_have_a_schema_that_says_what_calls_take(self, name: str) -> None:
        """Broken promise: `JSON = Union[dict[str, "JSON"], …]` raised a bare RecursionError."""
        hint, fitting, wrong = RECURSIVE[name]
        tool = make_tool(hint)
        validator = jsonschema_rs.validator_for(tool.json_schema)

        assert [True, False] == [validator.is_valid({"value": value}) for value in (fitting, wrong)]
        assert tool.metadata.parameters["value"]["type"]

    def test_are_exported_in_every_format(self, name: str) -> None:
        """No export recurses for ever."""
        tool = make_tool(RECURSIVE[name][0])

        for provider in FORMATS:
            assert json.dumps(tool.get_schema(provider))

    def test_end_alike_in_every_call(self, name: str) -> None:
        """
        What fits comes back, what does not is reported, also in deep and endless values, and with a journal.

        Broken promise: redaction took a step for each way to reach a value, three times as many at each level.
        """
        hint, fitting, wrong = RECURSIVE[name]
        endless: list[Any] = []
        endless.append(endless)
        with ToolRegistry(journal="memory") as recording, ToolRegistry() as plain:
            for registry in (recording, plain):
                registry.register_tool(make_tool(hint))
                results = [
                    registry.execute(ToolCall(None, "take", {"value": value}, "ann"))
                    for value in (fitting, wrong, endless)
                ]
                assert [Outcome.OK, Outcome.INVALID_ARGUMENTS, Outcome.INVALID_ARGUMENTS] == [
                    result.outcome for result in results
                ]
                with pytest.raises(ToolArgumentsError):
                    registry.toolset("ann").call("take", value=wrong)

    def test_are_defined_once(self, name: str) -> None:
        """A reference met in several places is one definition."""
        schema = make_tool(RECURSIVE[name][0]).json_schema

        assert not [definition for definition in schema["$defs"] if definition.endswith("_2")]


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("name", ENDLESS)
def test_what_never_ends_is_an_error_of_the_declaration(name: str, strict: bool) -> None:
    """Broken promise: a hint with no JSON form is refused with its parameter, and with what to use instead."""

    def take(value: Any) -> None:
        """Take."""

    take.__annotations__["value"] = ENDLESS[name]

    with pytest.raises(ToolDefinitionError, match=r"parameter 'value': .*(put it inside a list|make it a class)"):
        Tool.from_function(take, strict=strict)


def test_a_result_inside_of_itself_is_an_error_of_the_tool() -> None:
    """A value that never ends cannot be a result, whatever the type allows."""

    def give() -> JSON:
        """Give."""
        endless: list[Any] = []
        endless.append(endless)
        return endless

    with ToolRegistry(journal="memory") as registry:
        registry.register_tool(Tool.from_function(give, shared=True))
        result = registry.execute(ToolCall("1", "give", {}, "ann"))

    assert Outcome.TOOL_ERROR is result.outcome


def test_long_patterns_of_one_beginning_are_two() -> None:
    """Broken promise: two parameters shared the check of the first one's pattern, as both were written alike."""
    words = "|".join(f"user-{number:04d}" for number in range(25))
    registry = ToolRegistry()

    def move(read: Any, write: Any) -> str:
        """Move."""
        return f"{read} {write}"

    move.__annotations__ |= {
        "read": Annotated[str, re.compile(f"^({words}|reader)$")],
        "write": Annotated[str, re.compile(f"^({words}|writer)$")],
    }
    registry.tool("move", owned_by="ann")(move)
    outcomes = [
        registry.execute(ToolCall("1", "move", {"read": "reader", "write": write}, "ann")).outcome
        for write in ("writer", "reader")
    ]
    assert ["ok", "invalid_arguments"] == outcomes
