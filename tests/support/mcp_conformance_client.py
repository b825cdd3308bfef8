"""What the conformance suite starts as a client: `COMMAND URL`, with the calls of some scenarios in a variable."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from praval_tools import Agent, ToolRegistry
from praval_tools.errors import ToolError

VALUES = {"string": "text", "number": 5, "integer": 5, "boolean": True, "object": {}, "array": []}


def list_calls(agent: Agent, registry: ToolRegistry) -> list[tuple[str, dict[str, Any]]]:
    """Return the calls that the scenario lists, else one of each tool with plain values of what it requires."""
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    if "toolCalls" in context:
        return [(f"suite-{call['name']}", call["arguments"]) for call in context["toolCalls"]]
    calls = []
    for name in agent.list_tools():
        schema = read_schema(registry, name)
        arguments = {key: VALUES[schema["properties"][key].get("type", "string")] for key in schema.get("required", ())}
        calls.append((name, arguments))
    schemas = [read_schema(registry, name) for name, _ in calls if name.endswith("json_schema_2020_12_tool")]
    return [(name, {"schema": schemas[0]} if name.endswith("json_schema_echo") else given) for name, given in calls]


def read_schema(registry: ToolRegistry, name: str) -> dict[str, Any]:
    """Return the schema of a tool's arguments."""
    tool = registry.get_tool(name)
    assert tool is not None
    return tool.parameters


def main() -> None:
    """Register the server's tools, and call what the scenario is about."""
    registry = ToolRegistry(name="conformance")
    agent = Agent("tester", registry=registry)
    registry.register_mcp(sys.argv[1], owned_by="tester", namespace="suite", timeout=20)
    for name, arguments in list_calls(agent, registry):
        try:
            print(name, agent.call(name, **arguments))
        except ToolError as error:
            print(name, error)
    registry.close()


if __name__ == "__main__":
    main()
