"""A union that contains itself costs time in proportion to the value, valid or wrong, however deep it is nested."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from praval_tools import Outcome, Tool, ToolArgumentsError, ToolCall, ToolRegistry


@dataclass
class Left:
    child: Left | Right | list[Left | Right] | None
    values: list[list[int]]
    made: ClassVar[int] = 0

    def __post_init__(self) -> None:
        Left.made += 1


@dataclass
class Right:
    child: Left | Right | list[Left | Right] | None
    values: list[list[str]]
    made: ClassVar[int] = 0

    def __post_init__(self) -> None:
        Right.made += 1


def nest_children(levels: int, leaf: Any) -> Any:
    """Return an object in which only the last member of each object tells `Right` from `Left`."""
    value = leaf
    for _ in range(levels):
        value = {"child": value, "values": [["text"]]}
    return value


class Counted(list[Any]):
    """A list that counts how often it is read."""

    reads = 0

    def __iter__(self) -> Any:
        Counted.reads += 1
        return super().__iter__()


class LeftRow(TypedDict):
    child: LeftRow | RightRow | None
    values: list[int]


class RightRow(TypedDict):
    child: LeftRow | RightRow | None
    values: list[str]


class LeftModel(BaseModel):
    child: LeftModel | RightModel | None
    values: list[list[int]]


class RightModel(BaseModel):
    child: LeftModel | RightModel | None
    values: list[list[str]]


def take(hint: Any) -> Tool[..., Any]:
    """Return a tool that takes a value of this type."""

    def take(value: Any) -> None:
        """Take."""

    take.__annotations__["value"] = hint
    return Tool.from_function(take)


class TestUnionsThatContainThemselves:
    """A value 28 levels deep would take 2^28 steps, and more, if each level tried what is inside of it twice."""

    def test_a_wrong_leaf_is_reported_in_little_work(self) -> None:
        """
        Broken promise: reporting what is wrong costs time in proportion to the size; 1 KB of JSON took a minute.
        """
        leaf = {"child": None, "values": [[None]]}

        with pytest.raises(ToolArgumentsError) as caught:
            take(Left | Right).run_raw({"value": nest_children(28, leaf)})

        assert "$.value" == caught.value.problems[0].path

    def test_a_valid_value_is_decoded_once(self) -> None:
        """A member of a union that fails late does not have what is inside of it made again by the next one."""
        Left.made = Right.made = 0

        take(Left | Right).run_raw({"value": nest_children(28, None)})

        assert Left.made + Right.made <= 2 * 28  # once for each of the two unions that it is in

    def test_a_repair_deep_inside_is_found_in_little_work(self) -> None:
        """Arguments that a model spelled almost right are repaired, however many branches could be tried."""
        text = json.dumps(nest_children(2, None))

        take(Left | Right).run_raw({"value": nest_children(20, text)})

    def test_given_schemas(self) -> None:
        """The same for unions, and for schemas that all have to hold, in a schema that was supplied."""
        for keyword in ("anyOf", "oneOf", "allOf"):
            branches = [{"type": "object", "properties": {"a": {"$ref": "#/$defs/t"}, "b": {"type": "null"}}}] * 3
            schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/t"}}, "$defs": {"t": {keyword: branches}}}
            value: Any = 5
            for _ in range(28):
                value = {"a": value}
            with pytest.raises(ToolArgumentsError):
                Tool("given", "Give.", schema, lambda **values: None).run_raw(value)

    def test_models_of_pydantic(self) -> None:
        """What pydantic would take exponential time for is refused, with the reason."""
        tool = take(RightModel)

        tool.run_raw({"value": nest_children(8, None)})
        with pytest.raises(ToolArgumentsError, match="levels deep"):
            tool.run_raw({"value": nest_children(28, None)})

    @pytest.mark.parametrize("leaf", [None, 5], ids=["valid", "wrong"])
    def test_a_result_is_encoded_in_little_work(self, leaf: Any) -> None:
        """
        Broken promise: recording costs time in proportion to the result; each level encoded what is inside twice.
        """
        value: Any = leaf
        for _ in range(40):
            value = {"child": value, "values": Counted(["text"])}
        Counted.reads = 0

        def give() -> LeftRow | RightRow:
            """Give."""
            return value  # type: ignore[no-any-return]

        with ToolRegistry(journal="memory") as registry:
            registry.register_tool(Tool.from_function(give, shared=True))
            result = registry.execute(ToolCall("1", "give", {}, "ann"))

        assert (Outcome.OK if leaf is None else Outcome.TOOL_ERROR) is result.outcome
        assert Counted.reads <= 10 * 40

    @pytest.mark.parametrize(
        "more",
        [{"patternProperties": {"^a": {"$ref": "#/$defs/t"}}}, {"if": {"properties": {"a": {"$ref": "#/$defs/t"}}}}],
        ids=["patternProperties", "if"],
    )
    def test_schemas_that_hold_for_one_member_twice(self, more: dict[str, Any]) -> None:
        """
        Broken promise: an error report costs time in proportion to the value; each level had its problems twice.
        """
        part = {"type": ["object", "null"], "properties": {"a": {"$ref": "#/$defs/t"}}, **more}
        schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/t"}}, "$defs": {"t": part}}
        value: Any = 5
        for _ in range(40):
            value = {"a": value}

        with pytest.raises(ToolArgumentsError) as caught:
            Tool("given", "Give.", schema, lambda **values: None).run_raw(value)

        assert 1 == len(caught.value.problems)
