"""The interface of a provider format (`Format`), and helpers that the formats share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeAlias, TypeVar

from attrs import field, frozen

from praval_tools.errors import ToolUsageError
from praval_tools.formats.strict import StrictCost, StrictRules
from praval_tools.names import call_or_default, get_class_name, to_plain_text
from praval_tools.schema.encode import to_json_bytes
from praval_tools.schema.json_input import MalformedArgumentsError, parse_arguments
from praval_tools.schema.json_values import replace_surrogates_in_json
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.tools.call import ToolCall, ToolResult, encode_value, list_content_blocks
from praval_tools.tools.content import Content
from praval_tools.tools.metadata import ToolMetadata
from praval_tools.tools.truncation import truncate_blocks

WireObject: TypeAlias = dict[str, Any]
"""A JSON object as a provider sends or takes it."""


@frozen(kw_only=True)
class Offer:
    """
    One tool as it is offered to a model.

    Args:
        name: The tool's own.
        description: What the model reads.
        parameters: JSON Schema, as the format takes it.
        metadata: The tool's; None where nothing else is known.
        result: JSON Schema of the result, where it is known.
        strict: The schema is one for the provider's strict mode.
    """

    name: str
    description: str
    parameters: JsonSchema
    metadata: ToolMetadata | None = None
    result: JsonSchema | None = None
    strict: bool = False


def _render_plain_user(text: str) -> WireObject:
    return {"role": "user", "content": text}


_ValuesT = ParamSpec("_ValuesT")
_WrittenT = TypeVar("_WrittenT")


def _write_as_utf8(write: Callable[_ValuesT, _WrittenT]) -> Callable[_ValuesT, _WrittenT]:
    """Return *write* so that no half of a surrogate pair, in an id or wherever a model put it, stops a request."""

    @wraps(write)
    def write_as_utf8(*values: _ValuesT.args, **named: _ValuesT.kwargs) -> _WrittenT:
        written: _WrittenT = replace_surrogates_in_json(write(*values, **named))
        return written

    return write_as_utf8


@frozen(kw_only=True, eq=False)
class Format:
    """
    One provider format; every function is pure.

    Halves of surrogate pairs are replaced in what it writes into a conversation.

    Args:
        name: Its name, by which it is looked up.
        export: Writes a tool.
        calls: Reads the calls out of a reply: a response, a message, its parts, or the chunks of a stream.
        result: Writes the result of a call.
        results: Writes what goes into the conversation for the results of one reply; by default, each result alone.
        assistant: Writes what goes into the conversation for the text and the calls of a model.
        user: Writes what a person says.
        prepare: Turns a tool's schema into one that the provider takes, strict or not.
        rules: Those of its strict mode; None where it has none.
        budget: What the strict tools of one request may have together; None for any number.
    """

    name: str
    export: Callable[[Offer], WireObject]
    calls: Callable[[Any], list[ToolCall]]
    result: Callable[[ToolResult], WireObject]
    results: Callable[[Sequence[ToolResult]], list[WireObject]] = field()
    assistant: Callable[[Sequence[ToolCall], str], list[WireObject]]
    user: Callable[[str], WireObject] = _render_plain_user
    prepare: Callable[[JsonSchema], JsonSchema]
    rules: StrictRules | None = None
    budget: StrictCost | None = None

    @results.default
    def _render_each_result(self) -> Callable[[Sequence[ToolResult]], list[WireObject]]:
        return lambda results: [self.result(result) for result in results]

    def __attrs_post_init__(self) -> None:
        for name in ("result", "results", "assistant", "user"):
            object.__setattr__(self, name, _write_as_utf8(getattr(self, name)))


def require_call_id(item: ToolCall | ToolResult) -> str:
    """
    Return the id that ties a result to its call.

    Raises:
        ToolUsageError: There is none.
    """
    if item.tool_call_id:
        return item.tool_call_id
    raise ToolUsageError(
        f"The {type(item).__name__} of {item.name!r} has no id, and this format ties a result to its call by the id: "
        f"make the call by parse_tool_calls, or as ToolCall(tool_call_id=…).",
        "no-call-id",
    )


def get_content_blocks(result: ToolResult) -> list[Content] | None:
    """Return the content blocks that a model reads of a successful result; None where it is JSON, text or an error."""
    blocks = list_content_blocks(result) if result.success else None
    return blocks if blocks is None or result.max_size is None else truncate_blocks(blocks, result.max_size)


def to_json_value(result: ToolResult) -> Any:
    """Return the value of a successful result as JSON; its text where it has no JSON form, or is too large."""
    try:
        value = encode_value(result)
    except Exception:  # the seam to whatever a tool returned, whose text says what is wrong
        return result.for_model()
    fits = result.max_size is None or len(to_json_bytes(replace_surrogates_in_json(value))) <= result.max_size
    return value if fits else result.for_model()


def to_arguments_object(call: ToolCall) -> WireObject:
    """Return the arguments as an object; malformed ones stand under `INVALID_JSON`, as Anthropic asks for."""
    try:
        return parse_arguments(call.arguments)
    except MalformedArgumentsError:
        raw = call.arguments
        if isinstance(raw, bytes):
            text = raw.decode("utf-8", "replace")
        else:  # Python writes no number of very many digits
            text = call_or_default(lambda: to_plain_text(raw), get_class_name(type(raw)))
        return {"INVALID_JSON": text.encode("utf-8", "replace").decode()}


def make_data_url(block: Content) -> str:
    """Return the data of a block as a `data:` URL."""
    return f"data:{block.mime_type};base64,{encode_base64(block)}"


def encode_base64(block: Content) -> str:
    """Return the data of a block as base64."""
    from base64 import b64encode

    return b64encode(block.data or b"").decode()
