"""Tools of a registry for agents of Pydantic AI; extra `pydantic-ai`."""

from __future__ import annotations

import json
from typing import Final

from praval_tools.errors import MissingExtraError

try:
    from pydantic_ai import ApprovalRequired, FunctionToolset, ModelRetry, RunContext, Tool, ToolFailed, UserError
    from pydantic_ai.messages import BinaryContent, ModelResponse, ToolCallPart
    from pydantic_ai.tools import ToolDefinition
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
except ModuleNotFoundError as error:
    if error.name != "pydantic_ai":
        raise
    raise MissingExtraError("praval_tools.integrations.pydantic_ai", "pydantic-ai") from error

from pydantic_core import SchemaValidator, core_schema

from praval_tools.formats.format import WireObject, get_content_blocks, to_json_value
from praval_tools.integrations.framework_calls import execute_approved, find_agent
from praval_tools.registry.agents import Agent
from praval_tools.registry.registry import ToolRegistry
from praval_tools.schema.json_values import replace_surrogates
from praval_tools.tools.call import Outcome, ToolCall, ToolResult
from praval_tools.tools.content import Content, describe_blocks

__all__ = ["AgentToolset", "function_toolset"]

_FRAMEWORK: Final = "Pydantic AI"
_ANY_OBJECT: Final = SchemaValidator(core_schema.dict_schema(keys_schema=core_schema.str_schema()))
"""Parses arguments and checks nothing in them: the registry does, and says better what is wrong."""
_MAX_LISTS: Final = 1_024


class AgentToolset(AbstractToolset[object]):
    """
    The tools that an agent may call, read anew before each request to the model; each call is decided again.

    The agent is the one that is given, or that of the registry with the name of the running Pydantic AI agent, so that
    one toolset serves all of them.
    Arguments that do not fit come back to the model as a retry, which spends the budget of retries; refusals and
    failures as a failed tool return, which does not. A call that needs approval pauses the run
    (`DeferredToolRequests`), and on resume runs once, with the arguments that were approved.
    The deps of the run are those of tools that declare `ToolContext[Deps]`.

    Args:
        registry: Where the tools are.
        agent: Whose tools they are; None: of the agent that has the name of the running one.
        id: Identifies the toolset among those of one agent, as durable execution needs it.
    """

    def __init__(self, registry: ToolRegistry, agent: Agent | str | None = None, *, id: str | None = None) -> None:
        self._registry, self._agent, self._id = registry, agent, id
        self._lists: dict[tuple[bytes, int], dict[str, ToolsetTool[object]]] = {}
        if agent is not None:
            registry.toolset(agent)  # raises where it is not a valid name

    @property
    def id(self) -> str | None:
        """Identifies the toolset among those of one agent."""
        return self._id

    def __repr__(self) -> str:
        return f"<AgentToolset of {'the running agent' if self._agent is None else repr(self._agent)}>"

    async def get_tools(self, ctx: RunContext[object]) -> dict[str, ToolsetTool[object]]:
        """
        Return the tools that the agent may call now.

        Raises:
            ToolUsageError: Nobody said which agent it is, or another one was given than runs.
        """
        agent = find_agent(self._agent, None if ctx.agent is None else ctx.agent.name, _FRAMEWORK)
        text = self._registry.schemas_json(agent, "anthropic")
        tools = self._lists.get((text, ctx.max_retries))
        if tools is None:
            if len(self._lists) >= _MAX_LISTS:
                self._lists.clear()
            tools = {schema["name"]: self._build_tool(schema, ctx.max_retries) for schema in json.loads(text)}
            self._lists[text, ctx.max_retries] = tools
        return dict(tools)

    def _build_tool(self, schema: WireObject, max_retries: int) -> ToolsetTool[object]:
        definition = ToolDefinition(
            name=schema["name"], description=schema["description"], parameters_json_schema=schema["input_schema"]
        )
        return ToolsetTool(toolset=self, tool_def=definition, max_retries=max_retries, args_validator=_ANY_OBJECT)

    async def call_tool(
        self, name: str, tool_args: WireObject, ctx: RunContext[object], tool: ToolsetTool[object] | None = None
    ) -> object:
        """
        Call a tool in the agent's name.

        Raises:
            ModelRetry: The arguments do not fit.
            ApprovalRequired: A person is to approve the call.
            ToolFailed: The call was refused, or failed.
        """
        (time, part), running, registry = _find_call(ctx), ctx.agent, self._registry
        call_id = f"{ctx.conversation_id}/{time}/{ctx.tool_call_id}"
        agent = find_agent(self._agent, None if running is None else running.name, _FRAMEWORK)
        if not ctx.tool_call_approved and type(agent) is str:
            result = await registry.aexecute(ToolCall(call_id, name, tool_args, agent), deps=ctx.deps)
            return _to_return_value(result, registry)
        toolset, call = registry.toolset(agent), ToolCall(call_id, name, tool_args)
        if not ctx.tool_call_approved:
            result = await toolset.aexecute(call, deps=ctx.deps)
        else:
            asked = tool_args if part is None else _read_arguments(part)
            edited = None if repr(asked) == repr(tool_args) else tool_args  # 1 == True, and is another
            if edited is not None:
                call = ToolCall(call_id, name, asked)
            result = await execute_approved(registry, toolset, call, _FRAMEWORK, edited=edited, deps=ctx.deps)
        return _to_return_value(result, registry)


def function_toolset(registry: ToolRegistry, agent: Agent | str, *, id: str | None = None) -> FunctionToolset[object]:
    """
    Return the tools that an agent may call now as a toolset of functions, which Pydantic AI runs on Temporal.

    The list stays as it is; each call is decided anew.

    Args:
        registry: Where the tools are.
        agent: Whose tools they are.
        id: Identifies the toolset among those of one agent; Temporal needs it.
    """
    toolset = AgentToolset(registry, agent)
    return FunctionToolset(
        [_build_function_tool(toolset, schema) for schema in registry.schemas(agent, "anthropic")], id=id
    )


def _build_function_tool(toolset: AgentToolset, schema: WireObject) -> Tool[object]:
    name: str = schema["name"]

    async def call(ctx: RunContext[object], /, **arguments: object) -> object:
        return await toolset.call_tool(name, arguments, ctx)

    return Tool.from_schema(call, name, schema["description"], schema["input_schema"], takes_ctx=True)


# ── calls ────────────────────────────────────────────────────────────────────────────────────────────────


def _find_call(ctx: RunContext[object]) -> tuple[str, ToolCallPart | None]:
    """
    Return when the reply came that made the running call, and its part of that reply.

    Providers repeat the ids of calls from one reply to the next, processors of the history leave replies out, and after
    an approval the arguments may be others. In an activity, as on Temporal, nobody knows the reply.
    """
    try:
        messages, call_id = ctx.messages, ctx.tool_call_id
    except UserError:  # the context of an activity has none
        return "", None
    for message in reversed(messages):
        if isinstance(message, ModelResponse):
            for part in message.parts:
                if isinstance(part, ToolCallPart) and part.tool_call_id == call_id:
                    return message.timestamp.isoformat(), part
    return "", None


def _read_arguments(part: ToolCallPart) -> WireObject:
    arguments: WireObject = (
        _ANY_OBJECT.validate_json(part.args or "{}")
        if isinstance(part.args, str)
        else _ANY_OBJECT.validate_python(part.args or {})
    )
    return arguments


def _to_return_value(result: ToolResult, registry: ToolRegistry) -> object:
    """Return what the model gets of a result, or raise what Pydantic AI makes of a failure."""
    if result.success:
        blocks = get_content_blocks(result)
        return to_json_value(result) if blocks is None else _render_blocks(blocks)
    text = result.for_model()
    if result.outcome is Outcome.INVALID_ARGUMENTS:
        raise ModelRetry(text)
    if result.outcome is Outcome.APPROVAL_REQUIRED:
        raise ApprovalRequired(metadata=_describe_approval(result, registry))
    raise ToolFailed(text)


def _describe_approval(result: ToolResult, registry: ToolRegistry) -> WireObject:
    """Return what the person who approves is to know besides tool and arguments."""
    request = next((request for request in registry.approvals.pending() if request.id == result.approval_id), None)
    about: WireObject = {"approval_id": result.approval_id, "agent": result.agent, "reason": result.error}
    if request is not None:
        about |= {"risk_level": request.risk_level, "reason": request.reason, "arguments": request.arguments}
    return about


def _render_blocks(blocks: list[Content]) -> object:
    """Return texts as text and what has bytes as they are; the rest is described."""
    if not any(block.data for block in blocks):
        return replace_surrogates(describe_blocks(blocks))
    return [
        BinaryContent(block.data, media_type=block.mime_type) if block.data else replace_surrogates(block.described)
        for block in blocks
    ]
