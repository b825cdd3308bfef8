"""Reads the calls and the results out of the messages of a conversation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from praval_tools.formats.conversion import ExportedTool, read_tool_calls
from praval_tools.formats.format import Format
from praval_tools.formats.response_fields import get_items, get_member, get_text
from praval_tools.tools.call import ToolCall

_RESULT_MEMBERS: Final = (("tool_call_id", "content"), ("tool_use_id", "content"), ("call_id", "output"))
"""The id of the call and what the tool returned, in messages, blocks and items that hold a result."""


def read_past_calls(
    form: Format, message: object, find_tool: Callable[[ToolCall], ExportedTool | None]
) -> list[ToolCall]:
    """
    Return the calls in one message, or item, without the reasons that a model gave for them.

    Args:
        form: Its format.
        message: As JSON.
        find_tool: Returns the tool that is called, if there is one.
    """
    for response in (message, [message]):  # an item is one of a list
        with suppress(Exception):  # the seam to a plugin's format, which may read whole replies alone
            if calls := form.calls(response):
                tools = [tool for call in calls if (tool := find_tool(call)) is not None]
                return read_tool_calls(form, response, tools=tools, think_augment=True)
    return []


def read_past_results(message: object) -> Iterator[tuple[str, str, object]]:
    """Yield of each result in one message, or item, the id of its call, the tool's name, and JSON or text; or empty."""
    for part in (message, *get_items(message, "content"), *get_items(message, "parts")):
        if (answer := get_member(part, "function_response", "functionResponse")) is not None:
            response = get_member(answer, "response")
            value = get_member(response, "result", "output")
            yield get_text(answer, "id"), get_text(answer, "name"), response if value is None else value
        if get_text(part, "role") == "function":  # what became messages with the role `tool`
            yield "", get_text(part, "name"), get_member(part, "content")
        for id_name, name in _RESULT_MEMBERS:
            if call_id := get_text(part, id_name):
                value = get_member(part, name)
                for text in [get_text(block, "text") for block in get_items(value)] or [value]:
                    yield call_id, "", text
