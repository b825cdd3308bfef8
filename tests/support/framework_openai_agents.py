"""The OpenAI Agents SDK, as the tests of all frameworks run it: once by `RegistryAgent`, once by `tools_for`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import takewhile
from typing import Any

from agents import Agent, FunctionTool, RunConfig, Runner, RunState
from agents.testing import ModelCall as SdkCall
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from event_loop_scope import new_event_loop
from framework_contract import Answers, Framework, Outcome, Request, Script, ToolAnswer, Waiting

from praval_tools import ToolRegistry
from praval_tools.integrations.openai_agents import RegistryAgent, tools_for

RUN_CONFIG = RunConfig(tracing_disabled=True, tool_not_found_behavior="return_error_to_model")

_FAILURE = re.compile(r"not found|is forbidden|is not an? |Error: |needs an approval|denied|not approved")
"""What a failure says; the SDK has no mark for one."""


def make_model(script: Script) -> ScriptedModel:
    """Return a model that replies by a script, with ids that no other call of the run has, as the SDK demands."""

    def reply(call: SdkCall) -> list[Any]:
        tools = {tool.name: tool.params_json_schema for tool in call.tools if isinstance(tool, FunctionTool)}
        answer = script.reply(Request(tools, read_answers(call.input)))
        if isinstance(answer, str):
            return [assistant_message(answer)]
        number = len(script.requests)
        return [function_call(made.name, _to_text(made.arguments), call_id=f"{made.id}@{number}") for made in answer]

    return ScriptedModel([ModelStep.respond(reply) for _ in script.replies])


def _to_text(arguments: Mapping[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def read_answers(items: Any) -> list[ToolAnswer]:
    """Return what a model got for its last calls."""
    found = [] if isinstance(items, str) else takewhile(is_answer, reversed(items))
    answers = [(item["call_id"].partition("@")[0], item["output"]) for item in found]
    return [ToolAnswer(call_id, str(text), bool(_FAILURE.search(str(text)))) for call_id, text in reversed(answers)]


def is_answer(item: Mapping[str, Any]) -> bool:
    """Tell whether an item of a conversation is the output of a tool."""
    return item.get("type") == "function_call_output"


class OpenAiAgents(Framework):
    """The OpenAI Agents SDK, with agents that are `RegistryAgent`s."""

    name = "openai-agents"
    module = "agents"
    can_edit = False

    def make_adapter(self, registry: ToolRegistry, agent: Any = None) -> tuple[ToolRegistry, Any]:
        return registry, agent

    def make_agent(self, adapter: tuple[ToolRegistry, Any], name: str, model: Script) -> Agent[Any]:
        registry, agent = adapter
        return RegistryAgent(name=name, model=make_model(model), registry=registry, registry_agent=agent)

    async def run(self, agent: Agent[Any], prompt: str = "Go.", *, deps: Any = None) -> Outcome:
        return _read_outcome(await Runner.run(agent, prompt, context=deps, run_config=RUN_CONFIG))

    def run_sync(self, agent: Agent[Any], prompt: str = "Go.") -> Outcome:
        with new_event_loop():
            return _read_outcome(Runner.run_sync(agent, prompt, run_config=RUN_CONFIG))

    async def resume(self, agent: Agent[Any], outcome: Outcome, answers: Answers) -> Outcome:
        stored = _rename_agent(json.loads(outcome.state), agent.name)
        state: RunState[Any, Any] = await RunState.from_json(agent, stored)
        for item in state.get_interruptions():
            if answers[(item.call_id or "").partition("@")[0]]:
                state.approve(item)
            else:
                state.reject(item)
        return _read_outcome(await Runner.run(agent, state, run_config=RUN_CONFIG))

    def alter_arguments(self, outcome: Outcome, call_id: str, arguments: Mapping[str, Any]) -> Outcome:
        def alter(stored: Any) -> Any:
            if isinstance(stored, list):
                return [alter(member) for member in stored]
            if not isinstance(stored, dict):
                return stored
            altered = {name: alter(member) for name, member in stored.items() if name != "tool_invocations"}
            if "arguments" in stored and str(stored.get("call_id", "")).partition("@")[0] == call_id:
                altered["arguments"] = json.dumps(arguments)
            return altered

        return Outcome(outcome.text, outcome.waiting, json.dumps(alter(json.loads(outcome.state))))


def _rename_agent(stored: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a stored state as the state of an agent of another name, which it does not check."""
    old = stored["current_agent"]["name"]
    text = json.dumps(stored).replace(f'"name": {json.dumps(old)}', f'"name": {json.dumps(name)}')
    renamed: dict[str, Any] = json.loads(text)
    return renamed


class OpenAiAgentsTools(OpenAiAgents):
    """The OpenAI Agents SDK, with plain agents that have a fixed list of tools."""

    name = "openai-agents-tools"

    def make_agent(self, adapter: tuple[ToolRegistry, Any], name: str, model: Script) -> Agent[Any]:
        registry, agent = adapter
        tools = tools_for(registry, name if agent is None else agent)
        return Agent(name=name, model=make_model(model), tools=tools)


def _read_outcome(result: Any) -> Outcome:
    if not result.interruptions:
        return Outcome(result.final_output, (), None)
    waiting = [
        Waiting(item.call_id.partition("@")[0], item.name, json.loads(item.arguments)) for item in result.interruptions
    ]
    return Outcome(None, waiting, result.to_state().to_string())
