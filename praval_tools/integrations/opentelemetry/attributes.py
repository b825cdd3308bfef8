"""The names and values of the attributes of spans and metrics."""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from praval_tools.access.records import Principal
from praval_tools.names import get_class_name
from praval_tools.schema.json_values import replace_surrogates
from praval_tools.tools.call import Outcome, ToolCall, ToolResult
from praval_tools.tools.tool import AnyTool

Attributes: TypeAlias = "dict[str, str | bool | int | float | tuple[str, ...]]"

OPERATION: Final = "execute_tool"
OTHER: Final = "_OTHER"
"""What the conventions write for a value that is none of those known."""

_MAX_TEXT: Final = 256
_MAX_DESCRIPTION: Final = 1_024

_ERRORS: Final = frozenset({Outcome.TOOL_ERROR, Outcome.TIMEOUT, Outcome.IN_DOUBT, Outcome.ENGINE_LOST})
"""Outcomes that are errors of a span: refusals and calls that wait are none."""

EVENTS_BY_OUTCOME: Final = {
    Outcome.APPROVAL_REQUIRED.value: "praval.approval.required",
    **dict.fromkeys(
        (
            Outcome.INVALID_ARGUMENTS.value, Outcome.UNKNOWN_TOOL.value, Outcome.FORBIDDEN.value,
            Outcome.DISABLED.value, Outcome.APPROVAL_DENIED.value, Outcome.LIMITED.value,
        ),
        "praval.call.refused",
    ),
}  # fmt: skip
"""The event of a span whose call ended so."""


class KnownNames:
    """Lets so many different names through, and calls all others `_OTHER`: a metric keeps a series for each."""

    def __init__(self, limit: int = 1_000) -> None:
        self._limit, self._names = limit, set[str]()

    def limit(self, name: str) -> str:
        """Return *name*, or `_OTHER` where there were too many others before."""
        if name in self._names:
            return name
        if len(self._names) >= self._limit:
            return OTHER
        self._names.add(name)
        return name


class Ending(msgspec.Struct, frozen=True):
    """
    How a call ended.

    Args:
        outcome: The outcome; empty where a mistake of the host program was raised in place of a result.
        rule: The rule that decided; empty where none did.
        error: The type of the error; empty where the end is none, as of refusals and calls that wait.
    """

    outcome: str = ""
    rule: str = ""
    error: str = ""


def describe_result(result: ToolResult) -> Ending:
    """Return how a call ended that has a result."""
    rule = "" if result.decision is None else result.decision.rule
    error = (clean_text(result.error_type) or OTHER) if result.outcome in _ERRORS else ""
    return Ending(result.outcome.value, rule, error)


def describe_interruption(kind: type[BaseException]) -> Ending:
    """Return how a call ended in whose place *kind* was raised: a cancellation, or a mistake of the host program."""
    if issubclass(kind, Exception):
        return Ending(error=clean_text(get_class_name(kind)))
    return Ending(Outcome.CANCELLED.value)


def clean_text(value: object, limit: int = _MAX_TEXT) -> str:
    """Return a text as any exporter can write it; an empty one for anything else."""
    return replace_surrogates(value[:limit]) if type(value) is str else ""


def drop_empty(attributes: Attributes) -> Attributes:
    """Return the attributes without empty texts and lists."""
    return {name: value for name, value in attributes.items() if value not in ("", ())}


def build_start_attributes(call: ToolCall, principal: Principal | None, tool: AnyTool | None) -> Attributes:
    """Return what is known of a call before it is decided; samplers see it."""
    attributes: Attributes = {
        "gen_ai.operation.name": OPERATION,
        "gen_ai.tool.name": clean_text(call.name if tool is None else tool.name),
        "gen_ai.tool.call.id": clean_text(call.tool_call_id),
        "gen_ai.conversation.id": clean_text(call.run_id),
    }
    if principal is not None:
        attributes["gen_ai.agent.name"] = clean_text(principal.agent)
        attributes["praval.call.on_behalf_of"] = tuple(map(clean_text, principal.chain))
    if tool is not None:
        attributes["gen_ai.tool.type"] = get_tool_type(tool)
        attributes["gen_ai.tool.description"] = clean_text(tool.description, _MAX_DESCRIPTION)
        attributes["praval.tool.owner"] = clean_text(tool.metadata.owned_by)
    return drop_empty(attributes)


def get_tool_type(tool: AnyTool) -> str:
    """Return what the conventions call a tool: a `function` here, or an `extension` that calls a service."""
    source = tool.metadata.source
    return "extension" if source is not None and source.kind in ("mcp", "openapi") else "function"


def build_end_attributes(call: ToolCall, ending: Ending, result: ToolResult | None) -> Attributes:
    """Return what the end of a call adds to its span."""
    attributes: Attributes = {
        "gen_ai.tool.call.id": clean_text(call.tool_call_id),
        "gen_ai.conversation.id": clean_text(call.run_id),
        "praval.call.outcome": ending.outcome,
        "praval.decision.rule": ending.rule,
        "error.type": ending.error,
    }
    if result is not None:
        attributes["gen_ai.conversation.id"] = clean_text(result.run_id or call.run_id)
        attributes["praval.call.attempts"] = result.attempts
        attributes["praval.call.repairs"] = len(result.repairs)
        attributes["praval.call.replayed"] = result.replayed
        attributes["praval.approval.id"] = clean_text(result.approval_id)
    return drop_empty(attributes)
