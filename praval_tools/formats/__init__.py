"""
Provider formats: pure functions between our values and a vendor's wire shape, in both directions.

`parse_tool_calls` reads what a model asks for, `result_message` writes what came of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec

from praval_tools.errors import UnknownFormatError
from praval_tools.formats import anthropic, gemini, mcp, openai_chat, openai_responses
from praval_tools.formats.call_reason import REASON, with_reason, without_reason
from praval_tools.formats.format import Format, Offer
from praval_tools.formats.strict import StrictCost, make_strict_schema
from praval_tools.formats.strict_nulls import drop_default_nulls
from praval_tools.names import to_wire_name
from praval_tools.schema.json_input import MalformedArgumentsError, parse_arguments
from praval_tools.tools.call import ToolCall, ToolResult

__all__ = [
    "FORMATS", "REASON", "Format", "Offer", "assistant_message", "export", "format_of", "offered",
    "parse_tool_calls", "result_message", "result_messages", "strict_schema",
]  # fmt: skip

FORMATS: Final[Mapping[str, Format]] = MappingProxyType(
    {
        "openai-chat": openai_chat.FORMAT,
        "openai-responses": openai_responses.FORMAT,
        "openai-response": openai_responses.FORMAT,
        "anthropic": anthropic.FORMAT,
        "gemini": gemini.FORMAT,
        "mcp": mcp.FORMAT,
    }
)
"""The formats that come with the package, by name."""


def format_of(name: str | Format, known: Mapping[str, Format] = FORMATS) -> Format:
    """
    Return the format of this name, one of those *known*; a `Format` is given back as it is.

    Raises:
        UnknownFormatError: No such format; the text lists those that there are.
    """
    if isinstance(name, Format):
        return name
    try:
        return known[name]
    except (KeyError, TypeError):
        raise UnknownFormatError(str(name), known) from None


# ── tools ────────────────────────────────────────────────────────────────────────────────────────


def offered(
    form: Format, offer: Offer, *, strictly: bool = False, reason: bool = False
) -> tuple[Any, StrictCost | None]:
    """
    Return a tool in a format, and what it costs of the strict tools of a request; None: it is not strict.

    Args:
        form: The format.
        offer: The tool, with its own schema.
        strictly: For the provider's strict mode, if it has one and the tool can be strict.
        reason: With the parameter in which the model says why it calls.
    """
    parameters = with_reason(offer.parameters) if reason else offer.parameters
    found = make_strict_schema(parameters, form.rules) if strictly and form.rules is not None else None
    if found is not None:
        return form.export(msgspec.structs.replace(offer, parameters=found[0], strict=True)), found[1]
    return form.export(msgspec.structs.replace(offer, parameters=form.prepare(parameters))), None


def export(
    api_format: str | Format, name: str, description: str, parameters: dict[str, Any], metadata: Any = None,
    *, result: dict[str, Any] | None = None, strict: bool = False, think_augment: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """
    Return one tool in *api_format*; *parameters* becomes part of it.

    Args:
        api_format: `openai-chat`, `openai-responses`, `anthropic`, `gemini`, `mcp`.
        name: The tool's.
        description: What a model reads.
        parameters: JSON Schema of the arguments.
        metadata: The tool's, for formats that carry hints and ownership.
        result: JSON Schema of the result, for formats that carry it.
        strict: For the provider's strict mode; a tool that cannot be strict is exported as it is without.
        think_augment: Ask the model for the reason of each call, as parameter `toolcall_reason`.
    """
    offer = Offer(name=name, description=description, parameters=parameters, metadata=metadata, result=result)
    made: dict[str, Any] = offered(format_of(api_format), offer, strictly=strict, reason=think_augment)[0]
    return made


# ── calls and results ────────────────────────────────────────────────────────────────────────────


def parse_tool_calls(
    api_format: str | Format, response: Any, *, tools: Iterable[Any] | Mapping[str, Any] | None = None,
    strict: bool = False, think_augment: bool = False,
) -> list[ToolCall]:  # fmt: skip
    """
    Return the calls that a model asks for; never raises for what the model wrote.

    Arguments that are no JSON are kept as they are, and the call becomes an `invalid_arguments` result. A call
    without an id, or with that of another, gets one, the same each time.

    Args:
        api_format: The reply's.
        response: A response, its message, parts or items, or the chunks of a stream in a list; dicts or the
            objects of the provider's SDK.
        tools: What was offered, an agent's toolset or tools; wire names become the tools' own then. Without, a
            wire name stays, and the call finds its tool by that.
        strict: The tools were exported so: a null that stands for a default is left out. Needs *tools*.
        think_augment: The tools were exported so: the reason moves from the arguments to `ToolCall.reason`.
    """
    form = format_of(api_format)
    calls = form.calls(response)
    known = {} if tools is None else _index_by_wire_name(tools)
    made = []
    for call in calls:
        tool = known.get(call.name)
        if think_augment and (tool is None or REASON not in tool.parameters.get("properties", {})):
            call = without_reason(call)
        if tool is not None:
            arguments = _drop_strict_nulls(form, tool, call.arguments, think_augment) if strict else call.arguments
            call = msgspec.structs.replace(call, name=tool.name, arguments=arguments)
        made.append(call)
    return made


def _index_by_wire_name(tools: Iterable[Any] | Mapping[str, Any]) -> dict[str, Any]:
    found = list(tools.values() if isinstance(tools, Mapping) else tools)
    return {to_wire_name(one.name): one for one in found} | {one.name: one for one in found}


def _drop_strict_nulls(form: Format, tool: Any, arguments: Any, reason: bool) -> Any:
    """Return arguments without the nulls of a strict mode, where the tool was one of it."""
    if form.rules is None or not form.rules.all_required:
        return arguments
    try:
        given = parse_arguments(arguments)
    except MalformedArgumentsError:
        return arguments
    if not _contains_null(given):
        return arguments
    schema = tool.parameters
    if strict_schema(form, schema, reason=reason) is None:
        return arguments
    return drop_default_nulls(schema, given)


def _contains_null(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(_contains_null, value.values() if isinstance(value, dict) else value))
    return value is None


def strict_schema(form: Format, schema: dict[str, Any], *, reason: bool = False) -> dict[str, Any] | None:
    """Return the schema of a tool in the strict mode of a format; None: it has none, or the tool cannot be strict."""
    found = None if form.rules is None else make_strict_schema(with_reason(schema) if reason else schema, form.rules)
    return None if found is None else found[0]


def result_message(api_format: str | Format, result: ToolResult) -> dict[str, Any]:
    """
    Return what tells a model the result of one call: a message, an item, a block or a part, as the format has it.

    Raises:
        ToolUsageError: The result has no id, and the format needs one.
    """
    return format_of(api_format).result(result)


def result_messages(api_format: str | Format, results: Sequence[ToolResult]) -> list[dict[str, Any]]:
    """Return what goes into the conversation for the results of one reply, in a format's own grouping."""
    return format_of(api_format).results(list(results))


def assistant_message(api_format: str | Format, calls: Sequence[ToolCall], text: str = "") -> Any:
    """
    Return what goes into the conversation for a model's calls: one message.

    For `openai-responses` and `mcp`, in which each call is an item of its own, the list of them.
    """
    form = format_of(api_format)
    made = form.assistant(list(calls), text)
    return made if form.name in ("openai-responses", "mcp") else made[0]
