"""Strands Agents with functions as tools, which its decorator `tool` makes of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any

from framework_contract import Request, Script, ToolAnswer
from function_frameworks import FunctionFramework, write_arguments
from strands import Agent, tool
from strands.models import Model


class ScriptedModel(Model):
    """A model that replies by a script."""

    def __init__(self, script: Script) -> None:
        self.script = script

    def update_config(self, **_: Any) -> None:
        pass

    def get_config(self) -> Any:
        return {}

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("a model that replies by a script is asked for no structured output")

    async def stream(self, messages: Any, tool_specs: Any = None, *_: Any, **__: Any) -> AsyncIterator[Any]:
        offered = {one["name"]: one["inputSchema"]["json"] for one in tool_specs or ()}
        reply = self.script.reply(Request(offered, read_answers(messages)))
        yield {"messageStart": {"role": "assistant"}}
        for start, delta in write_blocks(reply):
            yield {"contentBlockStart": {"start": start}}
            yield {"contentBlockDelta": {"delta": delta}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if isinstance(reply, str) else "tool_use"}}


def write_blocks(reply: Any) -> Iterable[tuple[Any, Any]]:
    """Return start and content of each block of a reply."""
    if isinstance(reply, str):
        return [({}, {"text": reply})]
    return [
        ({"toolUse": {"name": made.name, "toolUseId": made.id}}, {"toolUse": {"input": write_arguments(made)}})
        for made in reply
    ]


def read_answers(messages: Sequence[Any]) -> list[ToolAnswer]:
    """Return the answers that came last."""
    results = [block["toolResult"] for block in messages[-1]["content"] if "toolResult" in block]
    return [
        ToolAnswer(
            result["toolUseId"], "".join(part["text"] for part in result["content"]), result["status"] == "error"
        )
        for result in results
    ]


class Strands(FunctionFramework):
    """Strands Agents."""

    failure = RuntimeError

    def run(self, functions: Iterable[Callable[..., Any]], model: Script) -> str:
        tools = [tool(function) for function in functions]
        return str(Agent(model=ScriptedModel(model), tools=tools, callback_handler=None)("Go.")).strip()
