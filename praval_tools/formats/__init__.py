"""
Provider formats: converts tools, calls and results between our values and each vendor's JSON.

`parse_tool_calls` reads which calls a model asks for, `result_message` writes their results.
"""

from praval_tools.formats.conversion import (
    FORMATS,
    REASON,
    assistant_message,
    export,
    format_of,
    offered,
    parse_tool_calls,
    result_message,
    result_messages,
    strict_schema,
)
from praval_tools.formats.format import Format, Offer

__all__ = [
    "FORMATS", "REASON", "Format", "Offer", "assistant_message", "export", "format_of", "offered",
    "parse_tool_calls", "result_message", "result_messages", "strict_schema",
]  # fmt: skip
