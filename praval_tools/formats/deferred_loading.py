"""Rewrites requests so that the provider itself loads the tools that a search found: Anthropic, OpenAI Responses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Final, TypeAlias

from attrs import frozen

from praval_tools.formats.format import WireObject, to_arguments_object
from praval_tools.formats.response_fields import get_items, get_member, get_text
from praval_tools.tools.call import ToolCall

SEARCH_TOOL_NAME: Final = "search_tools"
"""The name of the tool by which models find others; its result is a list of objects that have a `name`."""

Messages: TypeAlias = Sequence[WireObject]


@frozen(kw_only=True)
class DeferredRequest:
    """
    What a request sends where some of its tools were found by a search.

    Args:
        messages: The conversation.
        search: The search tool.
        tools: The tools that are sent in every request.
        found: Those that a search found, by the name under which they travel, in the order in which they were found.
    """

    messages: Messages
    search: WireObject
    tools: Sequence[WireObject]
    found: Mapping[str, WireObject]


DeferredLoader: TypeAlias = Callable[[DeferredRequest], tuple[list[WireObject], list[WireObject]]]
"""Returns the messages and the tools as the provider takes them."""


def load_for_anthropic(request: DeferredRequest) -> tuple[list[WireObject], list[WireObject]]:
    """Send what was found with `defer_loading`, and refer to it in the results by `tool_reference` blocks."""
    messages, search_ids = list[WireObject](), set[object]()
    for message in request.messages:
        content = get_items(message, "content")
        if get_member(message, "role") == "assistant":
            search_ids = {get_member(block, "id") for block in content if _is_anthropic_search(block)}
        elif any(get_member(block, "tool_use_id") in search_ids for block in content):
            blocks = [_refer(block, request.found) if _answers(block, search_ids) else block for block in content]
            message = {**message, "content": blocks}
        messages.append(message)
    later_tools = [{**tool, "defer_loading": True} for tool in request.found.values()]
    return messages, [request.search, *request.tools, *later_tools]


def _is_anthropic_search(block: object) -> bool:
    return get_text(block, "type") == "tool_use" and get_text(block, "name") == SEARCH_TOOL_NAME


def _answers(block: object, search_ids: set[object]) -> bool:
    is_result = get_member(block, "type") == "tool_result" and not get_member(block, "is_error")
    return bool(is_result and get_member(block, "tool_use_id") in search_ids)


def _refer(block: WireObject, found: Mapping[str, WireObject]) -> WireObject:
    """Return the result of a search with references to the tools that are sent; as it is where none of them is."""
    names = [name for name in _read_names(block.get("content")) if name in found]
    references = [{"type": "tool_reference", "tool_name": name} for name in names]
    return {**block, "content": references} if references else block


def load_for_responses(request: DeferredRequest) -> tuple[list[WireObject], list[WireObject]]:
    """Offer a `tool_search` that the client executes, and give what was found in its `tool_search_output` items."""
    items, search_ids, loaded = list[WireObject](), set[object](), set[str]()
    for item in request.messages:
        kind, call_id = get_member(item, "type"), get_member(item, "call_id")
        if kind == "function_call" and get_member(item, "name") == SEARCH_TOOL_NAME:
            search_ids.add(call_id)
            arguments = to_arguments_object(ToolCall(arguments=item.get("arguments")))
            item = {**_make_search_item("tool_search_call", call_id), "arguments": arguments}
        elif kind == "function_call_output" and call_id in search_ids:
            search_ids.discard(call_id)  # another call may have it again
            names = [name for name in _read_names(item.get("output")) if name in request.found]
            loaded.update(names)
            tools = [{**request.found[name], "defer_loading": True} for name in names]
            item = {**_make_search_item("tool_search_output", call_id), "tools": tools}
        items.append(item)
    rest = [tool for name, tool in request.found.items() if name not in loaded]
    search = {key: request.search[key] for key in ("description", "parameters")}
    return items, [{"type": "tool_search", "execution": "client", **search}, *request.tools, *rest]


def _make_search_item(kind: str, call_id: object) -> WireObject:
    return {"type": kind, "call_id": call_id, "execution": "client", "status": "completed"}


def _read_names(text: object) -> Iterator[str]:
    """Yield the names in the result of a search, as far as it is one."""
    with suppress(ValueError, RecursionError):
        items = json.loads(text) if isinstance(text, str) else None
        for item in get_items(items):
            yield get_text(item, "name")


LOADERS: Final[Mapping[str, DeferredLoader]] = MappingProxyType(
    {"anthropic": load_for_anthropic, "openai-responses": load_for_responses}
)
"""The formats of providers that load tools later by themselves, by name."""
