"""CrewAI with functions as tools, which its decorator `tool` makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from crewai import Agent, BaseLLM, Crew, Task
from crewai.tools import tool
from framework_contract import Request, Script, ToolAnswer
from function_frameworks import FunctionFramework, write_arguments


class ScriptedModel(BaseLLM):
    """A model that replies by a script."""

    script: Any

    def call(self, messages: Any, tools: Any = None, *_: Any, **__: Any) -> Any:
        offered = {one["function"]["name"]: one["function"]["parameters"] for one in tools or ()}
        reply = self.script.reply(Request(offered, read_answers(messages)))
        if isinstance(reply, str):
            return reply
        return [
            {"id": made.id, "type": "function", "function": {"name": made.name, "arguments": write_arguments(made)}}
            for made in reply
        ]

    async def acall(self, *args: Any, **options: Any) -> Any:
        return self.call(*args, **options)

    def supports_function_calling(self) -> bool:
        return True


def read_answers(messages: Sequence[Any]) -> list[ToolAnswer]:
    """Return the answers that came after the last reply."""
    answers: list[ToolAnswer] = []
    for message in reversed(messages):
        if message["role"] == "assistant":
            break
        if message["role"] == "tool":
            text = message["content"]
            answers.insert(0, ToolAnswer(message["tool_call_id"], text, text.startswith("Error")))
    return answers


class CrewAi(FunctionFramework):
    """CrewAI, with a crew of one agent."""

    failure = RuntimeError

    def run(self, functions: Iterable[Callable[..., Any]], model: Script) -> str:
        agent = Agent(
            role="Clerk",
            goal="Serve customers.",
            backstory="You work in a shop.",
            llm=ScriptedModel(model="scripted", script=model),
            tools=[tool(function) for function in functions],
        )
        task = Task(description="Go.", expected_output="An answer.", agent=agent)
        return str(Crew(agents=[agent], tasks=[task]).kickoff())
