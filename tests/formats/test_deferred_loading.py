"""Deferred loading: messages and tools as providers that have it take them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from praval_tools.formats import FORMATS, parse_tool_calls
from praval_tools.formats.deferred_loading import LOADERS, DeferredRequest
from praval_tools.tools.call import Outcome, ToolCall, ToolResult

FOUND = [{"name": "mail", "description": "Send mail."}, {"name": "gone", "description": "Is gone."}]
SEARCH = {"name": "search_tools", "description": "Find tools.", "parameters": {"type": "object"}}


def make_result(call_id: str, name: str, result: Any) -> ToolResult:
    """Return a result; None stands for a call that failed."""
    if result is None:
        return ToolResult(call_id, name, "ann", Outcome.TOOL_ERROR, error="No.")
    return ToolResult(call_id, name, "ann", Outcome.OK, result)


def load(api_format: str, steps: list[list[tuple[str, str, Any]]], found: tuple[str, ...] = ("mail",)) -> Any:
    """Return messages and tools for a conversation of steps: the id, the name and the result of each call."""
    messages: list[Any] = [{"role": "user", "content": "Go."}]
    for calls in steps:
        messages += FORMATS[api_format].assistant([ToolCall(one, name, {"query": "x"}) for one, name, _ in calls], "")
        messages += FORMATS[api_format].results([make_result(*call) for call in calls])
    tools = {name: {"name": name} for name in found}
    before = json.dumps(messages)
    made = LOADERS[api_format](
        DeferredRequest(messages=messages, search=SEARCH, tools=[{"name": "other"}], found=tools)
    )
    assert before == json.dumps(messages)
    return made


class TestAnthropic:
    def test_references(self) -> None:
        """Results of searches refer to the tools that are sent, which are deferred; other results stay."""
        messages, tools = load("anthropic", [[("a", "search_tools", FOUND), ("b", "other", FOUND)]])
        first, second = messages[2]["content"]
        assert [{"type": "tool_reference", "tool_name": "mail"}] == first["content"]
        assert FOUND == json.loads(second["content"])
        assert [SEARCH, {"name": "other"}, {"name": "mail", "defer_loading": True}] == tools

    def test_what_stays_plain(self) -> None:
        """A failed search, one that was cut, one whose tools are all gone, and a later call with the same id."""
        steps = [
            [("a", "search_tools", None)], [("a", "search_tools", '[{"name": "mai…')],
            [("a", "search_tools", FOUND[1:])], [("a", "search_tools", [])], [("a", "other", FOUND)],
        ]  # fmt: skip
        messages, _ = load("anthropic", steps)
        assert "tool_reference" not in json.dumps(messages)


class TestResponses:
    def test_calls_and_outputs(self) -> None:
        """A search is a `tool_search_call`, and its output holds what is sent; what was found elsewhere is a tool."""
        steps = [[("a", "search_tools", FOUND), ("b", "other", FOUND)]]
        messages, tools = load("openai-responses", steps, ("mail", "earlier"))
        assert ["tool_search_call", "function_call", "tool_search_output", "function_call_output"] == [
            one["type"] for one in messages[1:]
        ]
        assert {"query": "x"} == messages[1]["arguments"]
        assert [{"name": "mail", "defer_loading": True}] == messages[3]["tools"]
        assert ["tool_search", None, None] == [one.get("type") for one in tools]
        assert ["other", "earlier"] == [one["name"] for one in tools[1:]]

    def test_failed_searches(self) -> None:
        """Every search has an output, also one that failed or was cut; an id used again means the later call."""
        steps = [[("a", "search_tools", None)], [("a", "search_tools", "[{")], [("a", "other", FOUND)]]
        messages, _ = load("openai-responses", steps)
        assert [[], []] == [one["tools"] for one in messages if one.get("type") == "tool_search_output"]
        assert FOUND == json.loads(messages[-1]["output"])

    def test_a_search_is_read_as_a_call(self) -> None:
        """A search that the client executes is a call, whole and streamed; one of the provider's is none."""
        item = {"type": "tool_search_call", "call_id": "c", "execution": "client", "arguments": {"query": "x"}}
        hosted = {**item, "execution": "server", "call_id": None}
        whole: Any = {"object": "response", "output": [hosted, item]}
        event = {"type": "response.output_item.done", "output_index": 0, "item": item}
        for reply in (whole, [event]):
            (call,) = parse_tool_calls("openai-responses", reply)
            assert ("c", "search_tools", {"query": "x"}) == (call.tool_call_id, call.name, call.arguments)


@pytest.mark.parametrize("api_format", list(LOADERS))
@given(result=st.recursive(st.none() | st.text() | st.integers(), lambda some: st.lists(some) | st.dictionaries(
    st.sampled_from(["name", "x"]), some)))  # fmt: skip
def test_any_result(api_format: str, result: Any) -> None:
    """Whatever stands where the result of a search is expected, nothing raises."""
    load(api_format, [[("a", "search_tools", result)]])
