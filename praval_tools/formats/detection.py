"""Finds the format of a provider's reply by its shape."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from praval_tools.formats.format import Format
from praval_tools.formats.response_fields import get_items, get_member, get_text
from praval_tools.names import has_type
from praval_tools.tools.call import ToolCall

_MEMBERS: Final = {
    "openai-chat": ("choices",),
    "openai-responses": ("output",),
    "anthropic": ("stop_reason",),
    "gemini": ("candidates", "parts", "functionCall"),
    "mcp": ("params",),
}
"""The members that replies of one format have, and those of no other."""

_TYPES: Final = {
    "openai-chat": ("function",),
    "openai-responses": ("response.", "function_call", "custom_tool_call", "reasoning"),
    "anthropic": ("tool_use", "message_", "content_block_", "thinking"),
}
"""The `type` of replies, or of their parts, in one format; the beginnings of them end in `.` or `_`."""


def find_formats(response: object, forms: Iterable[Format]) -> list[Format]:
    """
    Return those of *forms* in which *response* may be.

    Its members and types decide; where they do not, such as for a message with nothing but a text, the calls: formats
    that read the same calls do not count as several.
    """
    parts = [response, *get_items(response), *get_items(response, "content")]
    forms = list(forms)
    shaped = [form for form in forms if any(_has_shape(form.name, part) for part in parts)]
    if len(shaped) == 1:
        return shaped
    if shaped or _is_message(response):
        return _drop_equal(response, shaped or [form for form in forms if form.name != "mcp"])
    return []


def _has_shape(name: str, part: object) -> bool:
    if has_type(part, ToolCall):
        return False
    type_name = get_text(part, "type")
    if any(type_name == kind or (kind[-1] in "._" and type_name.startswith(kind)) for kind in _TYPES.get(name, ())):
        return True
    legacy = get_member(part, "function_call")
    if legacy is not None and name in ("openai-chat", "gemini"):
        return get_member(legacy, "arguments" if name == "openai-chat" else "args") is not None
    if name == "openai-chat" and (calls := get_member(part, "tool_calls")) is not None:
        return all(get_member(call, "function", "custom") is not None for call in get_items(calls))
    return any(get_member(part, member) is not None for member in _MEMBERS.get(name, ()))


def _is_message(response: object) -> bool:
    """Tell whether *response* is a message, or a list of parts, that asks for no calls in a way that a format has."""
    if get_text(response, "type") == "text" or isinstance(response, list | tuple):
        return not response or all(get_text(part, "type") == "text" for part in get_items(response))
    return get_member(response, "role") is not None


def _drop_equal(response: object, forms: list[Format]) -> list[Format]:
    """Return *forms* without those that read the same calls as an earlier one."""
    readings = [form.calls(response) for form in forms]
    return [form for at, form in enumerate(forms) if readings[at] not in readings[:at]]
