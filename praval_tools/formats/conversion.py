"""Converts tools, calls, results and messages to and from the provider format of a given name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeAlias

import msgspec
from attrs import evolve

from praval_tools.errors import ToolUsageError, UnknownFormatError
from praval_tools.formats import anthropic, gemini, mcp, openai_chat, openai_responses
from praval_tools.formats.detection import find_formats
from praval_tools.formats.format import Format, Offer, WireObject
from praval_tools.formats.response_fields import assign_call_ids
from praval_tools.formats.schema_root import allow_member, refer_to_defined_root, remove_boolean_properties
from praval_tools.formats.strict import StrictCost, make_strict_schema
from praval_tools.formats.strict_nulls import contains_null, drop_default_nulls
from praval_tools.names import has_type, shorten_repr, to_plain_text, to_wire_name
from praval_tools.schema.json_input import MalformedArgumentsError, parse_arguments
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.tools.call import ToolCall, ToolResult
from praval_tools.tools.metadata import ToolMetadata
from praval_tools.tools.tool import Tool

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

REASON: Final = "toolcall_reason"
"""The parameter in which a model says why it makes a call; the tool never sees it."""

_ArgumentsParser: TypeAlias = Callable[[object], dict[str, object]]

_REASON_DESCRIPTION: Final = (
    "Why you call this tool now, in one sentence. It is kept in the records and not given to the tool."
)


class ExportedTool(Protocol):
    """The part of a tool that parsing its calls needs."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def parameters(self) -> JsonSchema:
        """The JSON Schema of its arguments."""


def format_of(name: str | Format, known: Mapping[str, Format] = FORMATS) -> Format:
    """
    Return the format of this name among those *known*; a `Format` is returned as it is.

    Raises:
        UnknownFormatError: There is no such format; the text lists those that there are.
    """
    if isinstance(name, Format):
        return name
    try:
        return known[name]
    except (KeyError, TypeError):
        raise UnknownFormatError(to_plain_text(name), known) from None


def detect_format(response: object) -> Format:
    """
    Return the format in which a reply is, by its shape.

    Raises:
        ToolUsageError: It has the shape of no format, or of several that would read different calls.
    """
    forms = find_formats(response, dict.fromkeys(FORMATS.values()))
    if len(forms) == 1:
        return forms[0]
    names = ", ".join(form.name for form in forms or dict.fromkeys(FORMATS.values()))
    problem = f"may be in several formats: {names}" if forms else f"is in none of the formats: {names}"
    raise ToolUsageError(
        f"{shorten_repr(response)} {problem}. Name its format: parse_tool_calls('anthropic', reply).",
        "unknown-reply-format",
    )


# ── tools ────────────────────────────────────────────────────────────────────────────────────────


def offered(
    form: Format, offer: Offer, *, strictly: bool = False, reason: bool = False
) -> tuple[WireObject, StrictCost | None]:
    """
    Return a tool in a format, and its share of the budget for strict tools; None where it is not strict.

    Args:
        form: The format.
        offer: The tool, with its own schema.
        strictly: For the provider's strict mode, if it has one and the tool can be strict.
        reason: With the parameter in which the model says why it makes the call.
    """
    parameters = _prepare_parameters(offer.parameters, reason)
    strict = make_strict_schema(parameters, form.rules) if strictly and form.rules is not None else None
    if strict is not None:
        return form.export(evolve(offer, parameters=strict[0], strict=True)), strict[1]
    return form.export(evolve(offer, parameters=form.prepare(parameters))), None


def export(
    api_format: str | Format, name: str, description: str, parameters: JsonSchema,
    metadata: ToolMetadata | None = None, *, result: JsonSchema | None = None, strict: bool = False,
    think_augment: bool = False,
) -> WireObject:  # fmt: skip
    """
    Return one tool in *api_format*; *parameters* becomes part of it.

    Args:
        api_format: `openai-chat`, `openai-responses`, `anthropic`, `gemini`, `mcp`.
        name: The tool's.
        description: What a model reads.
        parameters: JSON Schema of the arguments.
        metadata: The tool's, for formats that carry hints and ownership.
        result: JSON Schema of the result, for formats that carry it.
        strict: For the provider's strict mode; a tool that cannot be strict is exported as non-strict.
        think_augment: Ask the model for the reason of each call, as parameter `toolcall_reason`.
    """
    offer = Offer(name=name, description=description, parameters=parameters, metadata=metadata, result=result)
    return offered(format_of(api_format), offer, strictly=strict, reason=think_augment)[0]


def strict_schema(form: Format, schema: JsonSchema, *, reason: bool = False) -> JsonSchema | None:
    """Return the schema of a tool in the strict mode of a format, or None where it cannot be strict."""
    strict = make_strict_schema(_prepare_parameters(schema, reason), form.rules) if form.rules else None
    return None if strict is None else strict[0]


def _prepare_parameters(parameters: JsonSchema, reason: bool) -> JsonSchema:
    """Return *parameters* as they are offered in every format, with the reason parameter if there is to be one."""
    plain = remove_boolean_properties(parameters)
    return _add_reason_parameter(plain) if reason else plain


def _add_reason_parameter(parameters: JsonSchema) -> JsonSchema:
    """Return *parameters* with the reason parameter; unchanged where the tool has a parameter of that name."""
    properties = parameters.get("properties", {})
    if REASON in properties or not isinstance(properties, dict):
        return parameters
    reason = {"type": "string", "description": _REASON_DESCRIPTION}
    parameters = allow_member(refer_to_defined_root(parameters), REASON)
    required = [REASON, *parameters.get("required", ())]
    properties = {REASON: reason, **parameters.get("properties", {})}
    return {**parameters, "type": "object", "properties": properties, "required": required}


# ── calls and results ────────────────────────────────────────────────────────────────────────────


def parse_tool_calls(
    api_format: object, response: object = msgspec.UNSET, *,
    tools: Iterable[ExportedTool] | Mapping[str, ExportedTool] | None = None,
    strict: bool = False, think_augment: bool = False,
) -> list[ToolCall]:  # fmt: skip
    """
    Return the calls that a model asks for; never raises for what the model wrote.

    Arguments that are JSON text are parsed. What is not the text of an object, or longer than a registry takes by
    default, is kept as it is, and the call becomes an `invalid_arguments` result. A call without an id, or with that
    of another, gets an id, the same each time.

    Args:
        api_format: The reply's; left out, as in `parse_tool_calls(reply)`, or None: it is found by the reply's shape.
        response: A response, its message, parts or items, or the chunks of a stream in a list; dicts or the
            objects of the provider's SDK.
        tools: The offered tools, an agent's toolset or a list; wire names become the tools' own then. Without, a
            wire name stays, and the call finds its tool by that.
        strict: The tools were exported so: a null that stands for a default is left out. Needs *tools*.
        think_augment: The tools were exported so: the reason moves from the arguments to `ToolCall.reason`.

    Raises:
        ToolUsageError: No format is named, and the reply has the shape of none, or of several that differ.
    """
    if response is msgspec.UNSET:
        api_format, response = None, api_format
    form = detect_format(response) if api_format is None else format_of(api_format)  # type: ignore[arg-type]
    calls = read_tool_calls(form, response, tools=tools, strict=strict, think_augment=think_augment)
    return list(map(_parse_text_arguments, calls))


def read_tool_calls(
    form: Format, response: object, *, tools: Iterable[ExportedTool] | Mapping[str, ExportedTool] | None = None,
    strict: bool = False, think_augment: bool = False,
    parse: _ArgumentsParser = parse_arguments,
) -> list[ToolCall]:  # fmt: skip
    """
    Do what `parse_tool_calls` does, and leave arguments that are text to the registry, whose limits hold for it.

    Where something in them has to be changed first, *parse* reads them, by the same limits.
    """
    offered_tools = list(tools.values() if isinstance(tools, Mapping) else tools or ())
    tools_by_name = {to_wire_name(tool.name): tool for tool in offered_tools}
    tools_by_name |= {tool.name: tool for tool in offered_tools}
    calls = []
    for call in form.calls(response):
        tool = tools_by_name.get(call.name)
        if think_augment and (tool is None or REASON not in tool.parameters.get("properties", {})):
            call = _extract_reason(call, parse)
        if tool is not None:
            if strict:
                call = _drop_strict_nulls(form, tool, call, think_augment, parse)
            call = msgspec.structs.replace(call, name=tool.name)
        calls.append(call)
    return calls


def _parse_text_arguments(call: ToolCall) -> ToolCall:
    if not isinstance(call.arguments, str | bytes):
        return call
    try:
        return msgspec.structs.replace(call, arguments=parse_arguments(call.arguments))
    except MalformedArgumentsError:
        return call


def read_call_list(calls: object) -> list[ToolCall]:
    """
    Return the calls in a list: `ToolCall`s, or calls as a provider sent them, such as `message.tool_calls`.

    Raises:
        ToolUsageError: It is not a list, or its items are in no known format.
    """
    if not isinstance(calls, list | tuple):
        raise ToolUsageError(
            f"{shorten_repr(calls)} is not a list of calls: pass message.tool_calls, or parse_tool_calls(reply). "
            f"ToolLoop takes whole replies, and runs no calls of one that was cut.",
            "no-calls",
        )
    return assign_call_ids(calls) if all(has_type(call, ToolCall) for call in calls) else parse_tool_calls(calls)


def _extract_reason(call: ToolCall, parse: _ArgumentsParser) -> ToolCall:
    """Return *call* with the reason beside its arguments; unchanged where it has none."""
    try:
        arguments = dict(parse(call.arguments))
    except MalformedArgumentsError:
        return call
    if REASON not in arguments:
        return call
    reason = arguments.pop(REASON)
    return msgspec.structs.replace(call, arguments=arguments, reason=reason if isinstance(reason, str) else "")


def _drop_strict_nulls(
    form: Format, tool: ExportedTool, call: ToolCall, reason: bool, parse: _ArgumentsParser
) -> ToolCall:
    """Return *call* without the nulls of a strict mode, where the tool was exported as strict."""
    if form.rules is None or not form.rules.all_required:
        return call
    try:
        arguments = parse(call.arguments)
    except MalformedArgumentsError:
        return call
    if not contains_null(arguments) or strict_schema(form, tool.parameters, reason=reason) is None:
        return call
    return msgspec.structs.replace(call, arguments=drop_default_nulls(_read_blank_schema(tool), arguments))


def _read_blank_schema(tool: ExportedTool) -> JsonSchema:
    """Return the schema of the arguments, which has null as each default also where the tool hides them, if known."""
    if isinstance(tool, Tool):
        return tool.implementation.compiled.blank_schema
    schema: JsonSchema = getattr(tool, "blank_schema", tool.parameters)
    return schema


def result_message(api_format: str | Format, result: ToolResult) -> WireObject:
    """
    Return what reports the result of one call to a model: a message, an item, a block or a part, as the format has it.

    Raises:
        ToolUsageError: The result has no id, and the format needs one.
    """
    return format_of(api_format).result(result)


def result_messages(api_format: str | Format, results: Sequence[ToolResult]) -> list[WireObject]:
    """Return what goes into the conversation for the results of one reply, in a format's own grouping."""
    return format_of(api_format).results(list(results))


def assistant_message(api_format: str | Format, calls: Sequence[ToolCall], text: str = "") -> Any:
    """
    Return what goes into the conversation for a model's calls: one message.

    For `openai-responses` and `mcp`, in which each call is an item of its own, the list of them.
    """
    form = format_of(api_format)
    messages = form.assistant(list(calls), text)
    return messages if form.name in ("openai-responses", "mcp") else messages[0]
