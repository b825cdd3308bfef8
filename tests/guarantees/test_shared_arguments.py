"""What a tool does to its arguments reaches neither the caller, nor the conversation, nor another call."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import pytest

from praval_tools import Tool, ToolCall, ToolRegistry
from praval_tools.loop import ToolLoop
from praval_tools.testing import fake_model


class Typed(TypedDict):
    rows: Any


@dataclass
class Plain:
    rows: Any


GIVEN: dict[str, Any] = {"rows": [[1], {"a": [2]}]}
HINTS = [
    Any, dict, dict[str, Any], Mapping[str, Any], Any | None, dict[str, Any] | list[Any], dict[str, list[Any]],
    dict[str, Sequence[Any]], dict[str, tuple[Any, ...]], Typed, Plain,
]  # fmt: skip


def change(value: Any) -> None:
    """Change all of a value."""
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ():
        change(inner)
    if isinstance(value, Plain):
        change(value.rows)
    elif isinstance(value, dict):
        value["changed"] = True
    elif isinstance(value, list):
        value.append("changed")


def annotate(hint: Any) -> Callable[..., int]:
    """Return a function that changes its argument of this type."""

    def take(value: hint) -> int:  # type: ignore[valid-type]
        """Take."""
        change(value)
        return 1

    take.__annotations__ = {"value": hint, "return": int}
    return take


@pytest.fixture(params=[None, "memory"])
def registry(request: pytest.FixtureRequest) -> ToolRegistry:
    """A registry without a journal, and with one."""
    return ToolRegistry(journal=request.param)


def call_in_every_way(registry: ToolRegistry, arguments: dict[str, Any]) -> None:
    """Make the call in every way."""
    toolset = registry.toolset("ann")
    call = ToolCall(None, "take", arguments, "ann")
    assert [True] * 3 == [result.success for result in (registry.execute(call), *registry.execute_batch([call] * 2))]
    assert [1, 1, 1] == [
        toolset.call("take", **arguments),
        toolset["take"](**arguments),
        toolset.functions()[0](**arguments),
    ]


@pytest.mark.parametrize("hint", HINTS, ids=str)
def test_the_caller_keeps_its_own(registry: ToolRegistry, hint: Any) -> None:
    """Broken promise: where a type says nothing of the items, the tool got the caller's own lists and dicts."""
    registry.tool("take", shared=True)(annotate(hint))
    given = {"value": copy.deepcopy(GIVEN)}

    call_in_every_way(registry, given)

    assert {"value": GIVEN} == given


def test_of_a_supplied_schema(registry: ToolRegistry) -> None:
    """The same where the schema was given, as for tools of other servers."""
    schema = {"type": "object", "properties": {"value": {}}, "required": ["value"]}
    registry.register_tool(Tool("take", "Take.", schema, annotate(Any)))
    registry.share_tool("take")
    given = {"value": copy.deepcopy(GIVEN)}

    call_in_every_way(registry, given)

    assert {"value": GIVEN} == given


def test_additional_parameters(registry: ToolRegistry) -> None:
    """The same for what `**kwargs` takes."""

    @registry.tool("take", shared=True)
    def take(**more: Any) -> int:
        """Take."""
        change(more)
        return 1

    given = {"value": copy.deepcopy(GIVEN)}
    call_in_every_way(registry, given)

    assert {"value": GIVEN} == given


@pytest.mark.parametrize("api_format", ["anthropic", "gemini"])
def test_the_conversation_keeps_what_the_model_wrote(registry: ToolRegistry, api_format: str) -> None:
    """Broken promise: the model read that it had called with what the tool made of the arguments."""
    registry.tool("take", shared=True)(annotate(dict[str, Any]))
    block = {"type": "tool_use", "id": "a", "name": "take", "input": {"value": GIVEN}}
    part = {"functionCall": {"id": "a", "name": "take", "args": {"value": GIVEN}}}
    reply: dict[str, Any] = {
        "anthropic": {"role": "assistant", "stop_reason": "tool_use", "content": [block]},
        "gemini": {"candidates": [{"finishReason": "STOP", "content": {"role": "model", "parts": [part]}}]},
    }[api_format]
    sent = copy.deepcopy(reply)
    model = fake_model(reply, "done", api_format=api_format)

    result = ToolLoop(registry.agent("ann"), model).run("go")

    assert sent == reply
    assert "changed" not in str(result.messages) and "changed" not in str(model.requests[1].messages)
