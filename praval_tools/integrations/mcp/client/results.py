"""Converts an MCP server's answer to a call into the value of the tool."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

from mcp_types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    TextContent,
    TextResourceContents,
)

from praval_tools.integrations.foreign_text import clean_text, remove_secret_bytes
from praval_tools.integrations.mcp.client.errors import McpToolError
from praval_tools.schema.json_pointer import format_json_path
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.schema.validator import compile_schema, iter_errors, shorten_text
from praval_tools.tools.content import Content

_UNKNOWN_TYPE = "application/octet-stream"


def read_result(
    result: CallToolResult | InputRequiredResult, result_schema: JsonSchema | None, secrets: Sequence[str] = ()
) -> object:
    """
    Return the value of a call: its media, with the texts between them; else its structured content; else its text.

    Args:
        result: The answer, whose texts hold no secrets.
        result_schema: What the structured content has to fit.
        secrets: What must not be in its media, nor in its error.

    Raises:
        McpToolError: The server says that the tool failed, or the value is not what the tool promises.
    """
    if isinstance(result, InputRequiredResult):
        raise McpToolError("The tool asks its caller for more input, which cannot be given from here.")
    blocks = [_read_block(block, secrets) for block in result.content]
    text = "\n".join(block.text or "" for block in blocks if block.type == "text")
    if result.is_error:
        raise McpToolError(clean_text(text, secrets) or "The tool failed, and its server did not say why.")
    structured = result.structured_content
    if result_schema is not None:
        _check_structured(structured, result_schema)
    if any(block.type != "text" for block in blocks):
        return _list_blocks(blocks)
    return structured if structured is not None else text


def _list_blocks(blocks: Sequence[Content]) -> Content | list[Content | str]:
    if len(blocks) == 1:
        return blocks[0]
    return [block.text or "" if block.type == "text" else block for block in blocks]


def _check_structured(value: object, schema: JsonSchema) -> None:
    try:
        error = next(iter(iter_errors(compile_schema(schema, takes_iso_8601=True), value)), None)
    except ValueError as problem:
        raise McpToolError(f"The result cannot be checked against its outputSchema: {problem}") from None
    if error is not None:  # what came may be secret, its keys too: only what the schema says is shown
        place = shorten_text(format_json_path(error.schema_path))
        raise McpToolError(f"The result does not fit the outputSchema of its tool, by its {place}.")


def _read_block(block: ContentBlock, secrets: Sequence[str]) -> Content:
    if isinstance(block, TextContent):
        return Content.of_text(block.text)
    if isinstance(block, ImageContent | AudioContent):
        make = Content.image if isinstance(block, ImageContent) else Content.audio
        return make(_decode_base64(block.data, secrets), block.mime_type or _UNKNOWN_TYPE)
    if isinstance(block, EmbeddedResource):
        resource = block.resource
        uri, mime_type = str(resource.uri) or "about:blank", resource.mime_type or ""
        if isinstance(resource, TextResourceContents):
            return Content.resource(uri, text=resource.text, mime_type=mime_type)
        return Content.resource(uri, data=_decode_base64(resource.blob, secrets), mime_type=mime_type)
    return Content.link(str(block.uri) or "about:blank", block.name or "resource", mime_type=block.mime_type or "")


def _decode_base64(text: str, secrets: Sequence[str]) -> bytes:
    try:
        return remove_secret_bytes(base64.b64decode(text, validate=True), secrets)
    except (binascii.Error, ValueError):
        raise McpToolError("The result holds data that is not valid base64.") from None
