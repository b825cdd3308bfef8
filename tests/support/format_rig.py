"""What providers publish about tools, written down a second time: checks that share no code with the exports."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from praval_tools import Tool

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
TYPES = {"object", "array", "string", "integer", "number", "boolean", "null"}
OPENAI_KEYS = {
    "type", "properties", "required", "additionalProperties", "items", "enum", "anyOf", "$ref", "$defs", "title",
    "description", "default", "pattern", "format", "multipleOf", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "minItems", "maxItems",
}  # fmt: skip
OPENAI_FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}


def nodes(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every schema in a strict one."""
    left = [schema]
    while left:
        one = left.pop()
        yield one
        left += [*one.get("properties", {}).values(), *one.get("$defs", {}).values(), *one.get("anyOf", ())]
        left += [one["items"]] if "items" in one else []


def check_openai_strict(schema: dict[str, Any]) -> None:
    """Fail unless OpenAI's strict mode takes *schema*, by its published rules."""
    assert "object" == schema["type"] and not {"anyOf", "oneOf", "enum", "$ref"} & schema.keys()
    names = enums = letters = 0
    for one in nodes(schema):
        assert not one.keys() - OPENAI_KEYS, one
        assert one.get("default", 0) is not None, "no default: null"
        assert len(one) == 1 or "$ref" not in one, "a reference stands alone"
        kinds = one.get("type", [])
        kinds = kinds if isinstance(kinds, list) else [kinds]
        assert ({"anyOf", "$ref"} & one.keys()) or (kinds and set(kinds) <= TYPES), one
        if "object" in kinds:
            assert one["additionalProperties"] is False
            assert [*one["properties"]] == one["required"]
            names += len(one["required"])
            letters += sum(map(len, one["required"]))
        assert "array" not in kinds or isinstance(one["items"], dict)
        assert one.get("format", "date") in OPENAI_FORMATS
        enums += len(one.get("enum", ()))
        texts = sum(map(len, map(str, one.get("enum", ()))))
        assert len(one.get("enum", ())) <= 250 or texts <= 15_000
        letters += texts + sum(map(len, one.get("$defs", {})))
    assert names <= 5_000 and enums <= 1_000 and letters <= 120_000
    assert depth(schema, schema) <= 10
    jsonschema_rs.meta.validate(schema)


def depth(schema: dict[str, Any], root: dict[str, Any], seen: tuple[str, ...] = ()) -> int:
    """Return the levels of objects and lists, those of a definition inside of itself once."""
    if "$ref" in schema:
        pointer = schema["$ref"]
        if pointer in seen:
            return 0
        found = root if pointer == "#" else root["$defs"][pointer.rpartition("/")[2]]
        return depth(found, root, (*seen, pointer))
    inside = [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]
    below = 1 + max((depth(one, root, seen) for one in inside), default=0) if inside else 0
    beside = max((depth(one, root, seen) for one in schema.get("anyOf", ())), default=0)
    return max(below, beside, int("properties" in schema))


def check_anthropic_strict(schema: dict[str, Any]) -> None:
    """Fail unless Anthropic's strict mode takes *schema*, by its published rules and by its own SDK."""
    allowed = {"type", "properties", "required", "additionalProperties", "items", "enum", "anyOf", "$ref", "$defs",
               "title", "description", "default", "format", "minItems"}  # fmt: skip
    optional = unions = 0
    for one in nodes(schema):
        assert not one.keys() - allowed, one
        if one.get("type") == "object":
            assert one["additionalProperties"] is False
        assert one.get("minItems", 0) in (0, 1)
        optional += len(set(one.get("properties", ())) - set(one.get("required", ())))
        inside = one.get("properties", {}).values()
        unions += sum("anyOf" in each or isinstance(each.get("type"), list) for each in inside)
    assert optional <= 24 and unions <= 16
    jsonschema_rs.meta.validate(schema)


def sdk(name: str) -> Any:
    """Return a provider's SDK, or skip the test where it is not installed."""
    return pytest.importorskip(name, reason=f"the SDK {name!r} is not installed")


def fits(kind: Any, value: Any) -> None:
    """Fail unless *value* is what the SDK's own type says; keys that it does not know are wrong, too."""
    adapter = sdk("pydantic").TypeAdapter(kind)
    made = adapter.validate_python(value)
    if isinstance(value, dict) and isinstance(made, dict):
        assert value.keys() <= made.keys(), value.keys() - made.keys()


def check_wire(api_format: str, tool: dict[str, Any]) -> None:
    """Fail unless the provider's SDK takes an exported tool, under a name that the provider takes."""
    match api_format:
        case "openai-chat":
            fits(sdk("openai").types.chat.ChatCompletionToolParam, tool)
            tool, schema = tool["function"], tool["function"]["parameters"]
            if tool.get("strict"):
                check_openai_strict(schema)
        case "openai-responses" | "openai-response":
            fits(sdk("openai").types.responses.FunctionToolParam, tool)
            schema = tool["parameters"]
            if tool["strict"]:
                check_openai_strict(schema)
        case "anthropic":
            fits(sdk("anthropic").types.ToolParam, tool)
            schema = tool["input_schema"]
            if tool.get("strict"):
                check_anthropic_strict(schema)
        case "gemini":
            made = sdk("google.genai.types").FunctionDeclaration.model_validate(tool)
            schema = made.parameters_json_schema
            assert "$schema" not in schema
        case "mcp":
            made = sdk("mcp.types").Tool.model_validate(tool, extra="forbid")
            assert made.title and tool == {**tool, **made.model_dump(by_alias=True, exclude_none=True)}
            schema = made.input_schema
            assert re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", tool["name"])
    assert "object" == schema["type"]
    if api_format != "mcp":
        assert NAME.fullmatch(tool["name"]), tool["name"]
        assert not {"anyOf", "oneOf", "allOf", "not", "enum"} & schema.keys()


def tool_of(schema: dict[str, Any], name: str = "made") -> Tool[..., Any]:
    """Return a tool whose schema is given."""
    return Tool(name=name, description="Made.", parameters=schema, callable=lambda **given: given)


def schema_in(api_format: str, made: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an exported tool."""
    made = made.get("function", made)
    return made.get("parameters") or made.get("input_schema") or made["parameters_json_schema"]


def is_strict(made: dict[str, Any]) -> bool:
    """Tell whether an exported tool is one for a strict mode."""
    return bool(made.get("function", made).get("strict"))
