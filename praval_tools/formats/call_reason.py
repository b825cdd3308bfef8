"""The reason parameter: a model says with each call why it makes it; the tool never sees that."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from praval_tools.schema.json_input import MalformedArgumentsError, parse_arguments
from praval_tools.tools.call import ToolCall

REASON: Final = "toolcall_reason"
_REASON_DESCRIPTION: Final = (
    "Why you call this tool now, in one sentence. It is kept in the records and not given to the tool."
)


def with_reason(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return *parameters* that ask for a reason, too; as they are where the tool has a parameter of that name."""
    properties = parameters.get("properties", {})
    if REASON in properties or not isinstance(properties, dict):
        return parameters
    asked = {"type": "string", "description": _REASON_DESCRIPTION}
    return {
        **parameters, "type": "object", "properties": {REASON: asked, **properties},
        "required": [REASON, *parameters.get("required", ())],
    }  # fmt: skip


def without_reason(call: ToolCall) -> ToolCall:
    """Return *call* with the reason beside its arguments; as it is where it gives none."""
    try:
        arguments = parse_arguments(call.arguments)
    except MalformedArgumentsError:
        return call
    if REASON not in arguments:
        return call
    said = arguments[REASON]
    left = {key: value for key, value in arguments.items() if key != REASON}
    return msgspec.structs.replace(call, arguments=left, reason=said if isinstance(said, str) else "")
