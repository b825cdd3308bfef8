"""Tools of a registry for agents of the OpenAI Agents SDK; extra `openai-agents`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final
from weakref import WeakKeyDictionary

from attrs import frozen

from praval_tools.errors import MissingExtraError

try:
    from agents import Agent as SdkAgent
    from agents import AgentBase, FunctionTool, RunContextWrapper, TContext, Tool, ToolApprovalItem, Usage
    from agents.tool import ToolOutputFileContent, ToolOutputImage, ToolOutputText
    from agents.tool_context import ToolContext
except ModuleNotFoundError as error:
    if error.name != "agents":
        raise
    raise MissingExtraError("praval_tools.integrations.openai_agents", "openai-agents") from error

from praval_tools.formats.format import WireObject, get_content_blocks, make_data_url
from praval_tools.integrations.framework_calls import (
    asks_for_approval,
    execute_approved,
    find_toolset,
    identify_call,
    make_call_id,
)
from praval_tools.names import to_wire_name
from praval_tools.registry.agents import Agent
from praval_tools.registry.registry import ToolRegistry
from praval_tools.registry.toolset import Toolset
from praval_tools.schema.json_values import replace_surrogates
from praval_tools.tools.call import Outcome, ToolCall, ToolResult
from praval_tools.tools.content import Content

__all__ = ["RegistryAgent", "tools_for"]

_FRAMEWORK: Final = "the OpenAI Agents SDK"
_NOBODY: Final = SdkAgent[object]("praval-tools")
"""The agent of a decision that is about no agent's call."""


@dataclass
class RegistryAgent(SdkAgent[TContext]):
    """
    An agent of the SDK that has the tools which the agent of its name in a registry may call.

    The tools are read anew before each request to the model, also those that are registered later; each call is
    decided again. Refusals and failures come back to the model as the output of the tool.
    A call that needs approval interrupts the run, and runs once when the run is resumed with the approval.
    The context of the run is that of tools that declare `ToolContext[Deps]`.
    Hand-offs, `as_tool` and `clone` work as with any other agent; `tools` are further ones, of the SDK alone.

    Args:
        registry: Where the tools are.
        registry_agent: Whose tools they are, such as a delegate; None: of the agent that has the name of this one.
    """

    registry: ToolRegistry = field(kw_only=True, repr=False, compare=False)
    registry_agent: Agent | str | None = field(default=None, kw_only=True, compare=False)
    """Not `agent`: the SDK takes what a receiver of a hand-off has under that name for the agent to run."""

    async def get_all_tools(self, run_context: RunContextWrapper[TContext]) -> list[Tool]:
        """
        Return the tools of the SDK alone, and those that the agent may call now.

        Raises:
            ToolUsageError: Nobody said which agent it is, or another one was given than runs.
        """
        toolset = find_toolset(self.registry, self.registry_agent, self.name, _FRAMEWORK)
        calls = _Calls(self.registry, self.name if self.registry_agent is None else self.registry_agent)
        tools = [calls.build_tool(schema) for schema in toolset.schemas("openai-responses")]
        return [*await super().get_all_tools(run_context), *tools]


def tools_for(registry: ToolRegistry, agent: Agent | str) -> list[Tool]:
    """
    Return the tools of a registry as a fixed list for one agent of the SDK, each offered while *agent* may call it.

    They do all that the tools of a `RegistryAgent` do, except that tools which are registered later are not among them.

    Args:
        registry: Where the tools are.
        agent: Whose tools they are; the SDK's agent has the same name.
    """
    fixed = _FixedTools(registry, agent)
    return [fixed.build_fixed_tool(to_wire_name(tool.name)) for tool in registry.list_all_tools()]


class _Calls:
    """
    Makes the calls of one agent.

    Args:
        registry: Where the tools are.
        agent: Whose they are.
    """

    def __init__(self, registry: ToolRegistry, agent: Agent | str) -> None:
        self._registry, self._agent = registry, agent
        self._made: list[tuple[ToolCall, Usage, ToolResult]] = []
        """Calls that had a result when the SDK asked whether they need approval, with the usage of their run."""

    def find_toolset(self, running: AgentBase[object] | None) -> Toolset:
        """Return the tools of the agent, which is the one that runs."""
        return find_toolset(self._registry, self._agent, None if running is None else running.name, _FRAMEWORK)

    def build_tool(self, schema: WireObject) -> FunctionTool:
        """Return a tool of the SDK, of a schema in the format of the Responses API."""
        name: str = schema["name"]

        async def invoke(context: ToolContext[object], arguments: str) -> object:
            return await self._invoke(context, name, arguments)

        tool = FunctionTool(name, "", {}, invoke, strict_json_schema=False)
        self.update_tool(tool, schema)
        return tool

    def update_tool(self, tool: FunctionTool, schema: WireObject) -> None:
        """Have a tool say what *schema* says, and whether its calls may need approval."""
        name = tool.name

        async def needs_approval(context: RunContextWrapper[object], arguments: WireObject, call_id: str) -> bool:
            return await self._needs_approval(context, ToolCall(call_id, name, arguments))

        tool.description, tool.params_json_schema = schema["description"], schema["parameters"]
        # with a function the SDK also asks a person about every call whose arguments are no JSON
        tool.needs_approval = needs_approval if asks_for_approval(self.find_toolset(None), name) else False

    async def _needs_approval(self, context: RunContextWrapper[object], call: ToolCall) -> bool:
        """Tell whether a call waits for a person, and have the registry ask for it; it is not made otherwise."""
        toolset = self.find_toolset(None)
        if not asks_for_approval(toolset, call.name, call.arguments):
            return False
        own = identify_call(toolset, call, partial(_has_request, context))
        result = await toolset.aexecute(own, deps=context.context)
        if result.outcome is Outcome.APPROVAL_REQUIRED:
            _keep_request(context, str(result.approval_id))
            return True
        self._made.append((call, context.usage, result))  # it was answered or recorded before, or is refused
        return False

    async def _invoke(self, context: ToolContext[object], name: str, arguments: str) -> object:
        toolset, call_id = self.find_toolset(context.agent), context.tool_call_id
        call, was_shown = ToolCall(call_id, name, arguments), partial(_has_request, context)
        result = self._take_result(call, context.usage)
        if result is None and context.is_tool_approved(name, call_id):
            result = await execute_approved(
                self._registry, toolset, call, _FRAMEWORK, deps=context.context, was_shown=was_shown
            )
        elif result is None:
            if asks_for_approval(toolset, name):
                call = identify_call(toolset, call, was_shown)
            else:
                call = ToolCall(make_call_id(toolset, call_id), name, arguments)
            result = await toolset.aexecute(call, deps=context.context)
        return _to_output(result)

    def _take_result(self, call: ToolCall, usage: Usage) -> ToolResult | None:
        """
        Return the result that a call had before it was made, if it had one; once, and in its own run alone.

        A run keeps one object for its *usage*, which belongs to it alone.
        """
        for index, (asked, usage_then, result) in enumerate(self._made):
            same_id = (asked.tool_call_id, asked.name) == (call.tool_call_id, call.name)
            if same_id and usage_then is usage and asked.arguments == _read_arguments(call.arguments):
                del self._made[index]
                return result
        return None


def _read_arguments(text: str) -> object:
    """Return what the SDK reads of arguments when it asks whether a call needs approval."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _keep_request(context: RunContextWrapper[object], request_id: str) -> None:
    """
    Keep with a run, and with its stored states, that it waits for a request.

    Other runs may make equal calls with equal ids. Of what a tool can change, the SDK stores decisions about calls and
    nothing else: the request is kept as the rejection of a tool with a name that no tool can have.
    """
    item = ToolApprovalItem(_NOBODY, {"type": "praval_tools_request"}, _name_request(request_id))
    context.reject_tool(item, always_reject=True)


def _has_request(context: RunContextWrapper[object], request_id: str) -> bool:
    """Tell whether a run has waited for a request."""
    return context.is_tool_approved(_name_request(request_id), "") is False


def _name_request(request_id: str) -> str:
    return f"praval-tools: request {request_id}"


class _FixedTools(_Calls):
    """Makes the calls of one agent from a list that stays, and decides at each step which of its tools are offered."""

    def __init__(self, registry: ToolRegistry, agent: Agent | str) -> None:
        super().__init__(registry, agent)
        self._steps: WeakKeyDictionary[RunContextWrapper[object], _Step] = WeakKeyDictionary()
        self.find_toolset(None)  # raises where it is not a valid name

    def build_fixed_tool(self, name: str) -> FunctionTool:
        """Return a tool of the SDK that is offered in the steps in which the agent may call it."""
        tool = self.build_tool({"name": name, "description": "", "parameters": {"type": "object", "properties": {}}})

        def is_enabled(context: RunContextWrapper[object], running: AgentBase[object]) -> bool:
            schema = self._list_schemas(context, running).get(name)
            if schema is not None:
                self.update_tool(tool, schema)
            return schema is not None

        tool.is_enabled = is_enabled
        return tool

    def _list_schemas(self, context: RunContextWrapper[object], running: AgentBase[object]) -> Mapping[str, WireObject]:
        """
        Return what the agent may call, by name, as it was when the step began.

        The SDK asks again before it runs the calls of a reply, and would end the run for a tool that was revoked
        meanwhile; that call is refused where it is made. Each step has an input of its own.
        """
        step = self._steps.get(context)
        if step is None or step.input is not context.turn_input:
            schemas = self.find_toolset(running).schemas("openai-responses")
            step = self._steps[context] = _Step(context.turn_input, {schema["name"]: schema for schema in schemas})
        return step.schemas


@frozen
class _Step:
    """One request to a model, with the tools that it offers."""

    input: object
    schemas: Mapping[str, WireObject]


# ── results ──────────────────────────────────────────────────────────────────────────────────────────────


def _to_output(result: ToolResult) -> object:
    """Return what the model gets of a result: text, or texts, images and files."""
    blocks = get_content_blocks(result)
    return result.for_model() if blocks is None else [_render_block(block) for block in blocks]


def _render_block(block: Content) -> ToolOutputText | ToolOutputImage | ToolOutputFileContent:
    if block.type == "image":
        return ToolOutputImage(image_url=make_data_url(block))
    if block.type == "resource" and block.data is not None and block.mime_type == "application/pdf":
        return ToolOutputFileContent(file_data=make_data_url(block), filename=block.name or "file.pdf")
    return ToolOutputText(text=replace_surrogates(block.described))
