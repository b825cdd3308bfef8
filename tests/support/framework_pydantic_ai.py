"""Pydantic AI, as the tests of all frameworks run it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from event_loop_scope import new_event_loop
from framework_contract import (
    Answers,
    Framework,
    ModelCall,
    Outcome,
    Request,
    Script,
    ToolAnswer,
    Waiting,
)
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ToolApproved
from pydantic_ai.messages import ModelMessage, ModelResponse, RetryPromptPart, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from praval_tools import ToolRegistry
from praval_tools.integrations.pydantic_ai import AgentToolset


def make_model(script: Script) -> FunctionModel:
    """Return a model that replies by a script."""

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        tools = {tool.name: tool.parameters_json_schema for tool in info.function_tools}
        answer = script.reply(Request(tools, read_answers(messages[-1].parts)))
        if isinstance(answer, str):
            return ModelResponse([TextPart(answer)])
        return ModelResponse([ToolCallPart(call.name, _to_args(call), call.id) for call in answer])

    return FunctionModel(reply)


def _to_args(call: ModelCall) -> str | dict[str, Any]:
    return call.arguments if isinstance(call.arguments, str) else dict(call.arguments)


def read_answers(parts: Sequence[Any]) -> list[ToolAnswer]:
    """Return what a model got for its calls."""
    answers = []
    for part in parts:
        if isinstance(part, ToolReturnPart):
            answers.append(ToolAnswer(part.tool_call_id, part.model_response_str(), part.outcome != "success"))
        elif isinstance(part, RetryPromptPart):
            answers.append(ToolAnswer(part.tool_call_id, part.model_response(), True))
    return answers


class PydanticAi(Framework):
    """Pydantic AI."""

    name = "pydantic-ai"
    module = "pydantic_ai"

    def make_adapter(self, registry: ToolRegistry, agent: Any = None) -> AgentToolset:
        return AgentToolset(registry, agent)

    def make_agent(self, adapter: AgentToolset, name: str, model: Script) -> Agent[Any, Any]:
        return Agent(
            make_model(model), name=name, toolsets=[adapter], output_type=[str, DeferredToolRequests], retries=3
        )

    async def run(self, agent: Agent[Any, Any], prompt: str = "Go.", *, deps: Any = None) -> Outcome:
        return _read_outcome(await agent.run(prompt, deps=deps))

    def run_sync(self, agent: Agent[Any, Any], prompt: str = "Go.") -> Outcome:
        with new_event_loop():
            return _read_outcome(agent.run_sync(prompt))

    async def resume(self, agent: Agent[Any, Any], outcome: Outcome, answers: Answers) -> Outcome:
        approvals = {
            call_id: answer if isinstance(answer, bool) else ToolApproved(override_args=dict(answer))
            for call_id, answer in answers.items()
        }
        results = DeferredToolResults(approvals=approvals)
        return _read_outcome(await agent.run(message_history=outcome.state, deferred_tool_results=results))

    def alter_arguments(self, outcome: Outcome, call_id: str, arguments: Mapping[str, Any]) -> Outcome:
        messages = deepcopy(outcome.state)
        (part,) = [part for part in messages[-1].parts if getattr(part, "tool_call_id", None) == call_id]
        part.args = dict(arguments)
        return Outcome(outcome.text, outcome.waiting, messages)


def _read_outcome(result: Any) -> Outcome:
    messages = result.all_messages()
    if isinstance(result.output, DeferredToolRequests):
        waiting = [Waiting(part.tool_call_id, part.tool_name, part.args_as_dict()) for part in result.output.approvals]
        return Outcome(None, waiting, messages)
    return Outcome(result.output, (), messages)
