"""What a provider format is: functions from our values to a vendor's wire shape, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from attrs import frozen

from praval_tools.errors import ToolUsageError
from praval_tools.formats.strict import StrictCost, StrictRules
from praval_tools.schema.encode import encode, to_json_bytes
from praval_tools.schema.json_input import MalformedArgumentsError, parse_arguments
from praval_tools.schema.json_values import replace_surrogates_in_json
from praval_tools.tools.call import ToolCall, ToolResult
from praval_tools.tools.content import Content, to_content_blocks

WireObject = dict[str, Any]


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """
    One tool as it is offered to a model.

    Args:
        name: The tool's own.
        description: What the model reads.
        parameters: JSON Schema, as the format takes it.
        metadata: The tool's; None: nothing else is known.
        result: JSON Schema of the result, where it is known.
        strict: The schema is one for the provider's strict mode.
    """

    name: str
    description: str
    parameters: WireObject
    metadata: Any = None
    result: WireObject | None = None
    strict: bool = False


@frozen(kw_only=True, eq=False)
class Format:
    """
    One provider format; every function is pure.

    Args:
        name: What it is asked for by.
        export: Writes a tool.
        calls: Reads the calls out of a reply: a response, a message, its parts, or the chunks of a stream.
        result: Writes the result of a call.
        results: Writes what goes into the conversation for the results of one reply.
        assistant: Writes what goes into the conversation for the calls of a model, with what it said.
        user: Writes what a person says.
        prepare: Makes of a tool's schema one that the provider takes, strict or not.
        rules: Of its strict mode; None: it has none.
        budget: What the strict tools of one request may have together; None: any number.
    """

    name: str
    export: Callable[[Offer], WireObject]
    calls: Callable[[Any], list[ToolCall]]
    result: Callable[[ToolResult], WireObject]
    results: Callable[[Sequence[ToolResult]], list[WireObject]]
    assistant: Callable[[Sequence[ToolCall], str], list[WireObject]]
    user: Callable[[str], WireObject]
    prepare: Callable[[WireObject], WireObject]
    rules: StrictRules | None = None
    budget: StrictCost | None = None


def require_call_id(one: ToolCall | ToolResult) -> str:
    """
    Return the id that ties a result to its call.

    Raises:
        ToolUsageError: There is none.
    """
    if one.tool_call_id:
        return one.tool_call_id
    raise ToolUsageError(
        f"The {type(one).__name__} of {one.name!r} has no id, and this format ties a result to its call by the id: "
        f"make the call by parse_tool_calls, or as ToolCall(tool_call_id=…).",
        "no-call-id",
    )


def get_content_blocks(result: ToolResult) -> list[Content] | None:
    """Return the blocks of a result that worked; None: it is JSON, text or an error."""
    return to_content_blocks(result.result) if result.success else None


def to_json_value(result: ToolResult) -> Any:
    """Return the value of a result that worked as JSON; its text where it has no JSON form, or is to be cut."""
    try:
        value = encode(result.result)
    except Exception:  # the seam to whatever a tool returned, whose text says what is wrong
        return result.for_model()
    fits = result.max_size is None or len(to_json_bytes(replace_surrogates_in_json(value))) <= result.max_size
    return value if fits else result.for_model()


def to_arguments_object(call: ToolCall) -> dict[str, Any]:
    """Return the arguments as an object; what is none stands under `INVALID_JSON`, as Anthropic asks for."""
    try:
        return parse_arguments(call.arguments)
    except MalformedArgumentsError:
        raw = call.arguments
        text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
        return {"INVALID_JSON": text.encode("utf-8", "replace").decode()}


def make_data_url(block: Content) -> str:
    """Return the data of a block as a `data:` URL."""
    return f"data:{block.mime_type};base64,{encode_base64(block)}"


def encode_base64(block: Content) -> str:
    """Return the data of a block as base64."""
    from base64 import b64encode

    return b64encode(block.data or b"").decode()
