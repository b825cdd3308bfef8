"""Strict modes: what a provider takes no more of makes a tool non-strict, and what only narrows is described."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from format_rig import (
    check_openai_strict,
    check_wire,
    depth,
    is_strict,
    schema_in,
    tool_of,
)

from praval_tools import Tool, ToolRegistry
from praval_tools.formats import export

STRICT = ["openai-chat", "openai-responses", "anthropic"]


@attrs.frozen
class Branch:
    value: int
    left: Branch | None = None


def _small(value: int) -> int:
    """Give it back."""
    return value


class TestStrictLimits:
    """A schema at a limit is strict, one beyond is exported as it is, never an exception."""

    @staticmethod
    def strict(schema: dict[str, Any], api_format: str = "openai-chat") -> bool:
        made = tool_of(schema).get_schema(api_format, strict=True)
        check_wire(api_format, made)
        return is_strict(made)

    @staticmethod
    def closed(**properties: Any) -> dict[str, Any]:
        return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}

    @pytest.mark.parametrize(("count", "fits"), [(5_000, True), (5_001, False)])
    def test_properties(self, count: int, fits: bool) -> None:
        """At most 5,000 properties."""
        assert fits == self.strict(self.closed(**{f"p{at}": {"type": "null"} for at in range(count)}))

    @pytest.mark.parametrize(("count", "fits"), [(1_000, True), (1_001, False)])
    def test_enums(self, count: int, fits: bool) -> None:
        """At most 1,000 values of enums, all together."""
        half = [{"type": "integer", "enum": [*range(count // 2)]},
                {"type": "integer", "enum": [*range(count - count // 2)]}]  # fmt: skip
        assert fits == self.strict(self.closed(a=half[0], b=half[1]))

    @pytest.mark.parametrize(("length", "fits"), [(59, True), (61, False)])
    def test_a_long_enum(self, length: int, fits: bool) -> None:
        """An enum of more than 250 texts has at most 15,000 characters."""
        values = [f"{at:0{length}}" for at in range(251)]
        assert fits == self.strict(self.closed(a={"type": "string", "enum": values}))

    @pytest.mark.parametrize(("letters", "fits"), [(120_000, True), (120_001, False)])
    def test_characters(self, letters: int, fits: bool) -> None:
        """At most 120,000 characters of names and enum values."""
        names = [f"{at:0>1000}" for at in range(119)]
        assert fits == self.strict(self.closed(**{one: {"type": "null"} for one in names},
                                               **{"x" * (letters - 119_000): {"type": "null"}}))  # fmt: skip

    @pytest.mark.parametrize(("levels", "fits"), [(10, True), (11, False)])
    def test_levels(self, levels: int, fits: bool) -> None:
        """At most ten levels of objects and lists, those behind references counted."""
        inner: dict[str, Any] = {"type": "string"}
        for _ in range(levels - 1):
            inner = self.closed(a=inner)
        schema = self.closed(a=inner)
        assert levels == depth(schema, schema)
        assert fits == self.strict(schema)
        behind = {**self.closed(a={"$ref": "#/$defs/deep"}), "$defs": {"deep": inner}}
        assert fits == self.strict(behind)

    def test_what_refers_to_itself(self) -> None:
        """OpenAI takes recursion, Anthropic does not."""

        def climb(tree: Branch) -> int:
            """Climb."""
            return tree.value

        tool = Tool.from_function(climb)
        openai = tool.get_schema("openai-chat", strict=True)
        check_openai_strict(schema_in("openai-chat", openai))
        assert is_strict(openai) and not is_strict(tool.get_schema("anthropic", strict=True))

    @pytest.mark.parametrize("key", [
        "allOf", "not", "if", "patternProperties", "dependentRequired", "dependentSchemas", "propertyNames",
    ])  # fmt: skip
    @pytest.mark.parametrize("api_format", STRICT)
    def test_keywords_that_cannot_be_left_out(self, key: str, api_format: str) -> None:
        """A schema with one of these is not strict, at its root or below."""
        value: Any = {"allOf": [{}], "dependentRequired": {}, "dependentSchemas": {}, "patternProperties": {}}.get(
            key, {"type": "string"}
        )
        inner = {**self.closed(b={"type": "string"}), key: value}
        assert not self.strict(self.closed(a=inner), api_format)
        assert not self.strict(inner, api_format)

    def test_what_only_narrows_moves_into_the_description(self) -> None:
        """A limit that the mode has no word for is described to the model in words, and checked by us."""
        schema = self.closed(a={"type": "string", "maxLength": 3, "description": "A."})
        made = tool_of(schema).get_schema("openai-chat", strict=True)

        assert {"type": "string", "description": "A.\n\n{maxLength: 3}"} == schema_in("openai-chat", made)[
            "properties"
        ]["a"]

    def test_one_of_becomes_any_of(self) -> None:
        """`oneOf` has no place in strict mode, `anyOf` has."""
        schema = self.closed(a={"oneOf": [{"type": "string"}, {"type": "integer"}]})
        made = schema_in("openai-chat", tool_of(schema).get_schema("openai-chat", strict=True))

        assert {"anyOf": [{"type": "string"}, {"type": "integer"}]} == made["properties"]["a"]

    def test_definitions_that_grow_without_end_are_given_up(self) -> None:
        """Definitions each of which holds the next one twice, described, do not fill the memory."""
        described = lambda at: {"$ref": f"#/$defs/d{at}", "description": "again"}
        defs = {f"d{at}": self.closed(a=described(at + 1), b=described(at + 1)) for at in range(40)}
        defs["d40"] = {"type": "string"}
        root = {**self.closed(a=described(0)), "$defs": defs}
        assert not is_strict(export("openai-chat", "made", "Made.", root, strict=True))

    def test_a_request_of_anthropic_has_twenty_strict_tools(self) -> None:
        """Beyond what one request may have, tools are there without the mode."""
        with ToolRegistry() as registry:
            for at in range(25):
                registry.tool(f"t{at:02}", shared=True)(_small)
            registry.tool("u", shared=True)(_wide)
            made = registry.schemas("ann", "anthropic", strict=True)

        assert 26 == len(made)
        strict = [one for one in made if is_strict(one)]
        assert 20 == len(strict)
        assert 20 == sum(map(is_strict, made[:20]))


def _wide(
    a: int = 1, b: int = 1, c: int = 1, d: int = 1, e: int = 1, f: int = 1, g: int = 1, h: int = 1, i: int = 1,
    j: int = 1, k: int = 1, m: int = 1, n: int = 1,
) -> int:  # fmt: skip
    """Add them."""
    return a + b + c + d + e + f + g + h + i + j + k + m + n
