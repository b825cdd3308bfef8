"""Microsoft's Agent Framework with functions as tools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from agent_framework import Agent, BaseChatClient, ChatResponse, Content, FunctionInvocationLayer, Message
from framework_contract import Request, Script, ToolAnswer
from function_frameworks import FunctionFramework, write_arguments


class ScriptedClient(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    """A chat client that replies by a script."""

    def __init__(self, script: Script) -> None:
        super().__init__()
        self.script = script

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **_: Any) -> Any:
        async def reply() -> ChatResponse[Any]:
            offered = {one.name: one.parameters() for one in options.get("tools") or ()}
            made = self.script.reply(Request(offered, read_answers(messages)))
            contents: list[Any] = (
                [made]
                if isinstance(made, str)
                else [Content.from_function_call(one.id, one.name, arguments=write_arguments(one)) for one in made]
            )
            return ChatResponse(messages=[Message(role="assistant", contents=contents)])

        return reply()


def read_answers(messages: Sequence[Any]) -> list[ToolAnswer]:
    """Return the answers that came last."""
    results = [content for content in messages[-1].contents if content.type == "function_result"]
    return [ToolAnswer(result.call_id, str(result.result), result.exception is not None) for result in results]


class AgentFramework(FunctionFramework):
    """Microsoft's Agent Framework, which hides what exceptions say from models: its failures are texts."""

    failure = str

    def run(self, functions: Iterable[Callable[..., Any]], model: Script) -> str:
        agent = Agent(client=ScriptedClient(model), name="Clerk", tools=list(functions))

        async def main() -> str:
            return (await agent.run("Go.")).text

        return asyncio.run(main())
