"""The tools that the official conformance suite of the Model Context Protocol asks servers for, as its texts say."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

from praval_tools import Agent, Content, Tool, ToolContext, ToolRegistry

AGENT = "conformance"
PAUSE = 0.05
"""Seconds between two messages of a tool; the suite asks for about this long."""

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
WAV = b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0@\x1f\0\0@\x1f\0\0\x01\0\x08\0data\0\0\0\0"

SCHEMA_2020_12: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

HEADER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}, "query": {"type": "string"}},
    "required": ["region", "query"],
    "additionalProperties": False,
}


def build_registry() -> ToolRegistry:
    """Return a registry whose one agent may call every tool of the suite."""
    registry = ToolRegistry(name="conformance")
    Agent(AGENT, registry=registry)
    _declare_contents(registry)
    _declare_messages(registry)
    registry.register(
        Tool(
            "json_schema_2020_12_tool",
            "Tool with JSON Schema 2020-12 features",
            SCHEMA_2020_12,
            _accept,
            owned_by=AGENT,
        )
    )
    registry.register(Tool("test_custom_header", "Takes a header.", HEADER_SCHEMA, _accept, owned_by=AGENT))
    return registry


def _accept(**arguments: Any) -> str:
    """Accept any arguments."""
    return json.dumps(arguments)


def _declare_contents(registry: ToolRegistry) -> None:
    """Declare the tools that return one kind of content each."""

    @registry.tool("test_simple_text", owned_by=AGENT)
    def simple_text() -> str:
        """Return a text."""
        return "This is a simple text response for testing."

    @registry.tool("test_image_content", owned_by=AGENT)
    def image_content() -> Content:
        """Return an image."""
        return Content.image(PNG, "image/png")

    @registry.tool("test_audio_content", owned_by=AGENT)
    def audio_content() -> Content:
        """Return a sound."""
        return Content(type="audio", data=WAV, mime_type="audio/wav")

    @registry.tool("test_embedded_resource", owned_by=AGENT)
    def embedded_resource() -> Content:
        """Return a resource."""
        return Content(
            type="resource",
            uri="test://embedded-resource",
            mime_type="text/plain",
            text="This is an embedded resource content.",
        )

    @registry.tool("test_multiple_content_types", owned_by=AGENT)
    def multiple_content_types() -> list[Content]:
        """Return three kinds of content."""
        return [
            Content.of_text("Multiple content types test:"),
            Content.image(PNG, "image/png"),
            Content(
                type="resource",
                uri="test://mixed-content-resource",
                mime_type="application/json",
                text='{"test":"data","value":123}',
            ),
        ]


def _declare_messages(registry: ToolRegistry) -> None:
    """Declare the tools that fail, report progress, write messages, and change the list."""

    @registry.tool("test_error_handling", owned_by=AGENT)
    def error_handling() -> str:
        """Fail."""
        raise RuntimeError("This tool intentionally returns an error for testing")

    @registry.tool("test_tool_with_progress", owned_by=AGENT)
    def tool_with_progress(context: ToolContext) -> str:
        """Report progress three times."""
        context.progress(0, 100)
        time.sleep(PAUSE)
        context.progress(50, 100)
        time.sleep(PAUSE)
        context.progress(100, 100)
        return "done"

    @registry.tool("test_tool_with_logging", owned_by=AGENT)
    def tool_with_logging(context: ToolContext) -> str:
        """Write three messages."""
        context.log("Tool execution started")
        time.sleep(PAUSE)
        context.log("Tool processing data")
        time.sleep(PAUSE)
        context.log("Tool execution completed")
        return "done"

    @registry.tool("test_logging_tool", owned_by=AGENT)
    def logging_tool(context: ToolContext) -> str:
        """Write one message."""
        context.log("a message")
        return "done"

    @registry.tool("test_streaming_elicitation", owned_by=AGENT, requires_approval=True)
    def streaming_elicitation() -> str:
        """Wait for an approval."""
        return "done"

    @registry.tool("test_trigger_tool_change", owned_by=AGENT)
    def trigger_tool_change() -> str:
        """Change what the agent may call: it declares one more tool of its own."""
        name = f"extra_{len(registry)}"
        registry.tool(name)(_return_nothing)
        return name


def _return_nothing() -> None:
    """Return nothing."""
