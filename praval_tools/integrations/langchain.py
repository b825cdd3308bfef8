"""Tools of a registry for agents of LangChain and graphs of LangGraph; extra `langchain`."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from typing import Annotated, Final, Literal, TypeAlias, cast

from praval_tools.access.records import Principal
from praval_tools.errors import MissingExtraError, ToolUsageError

try:
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
    from langchain.agents.middleware.types import ContextT, ResponseT, StateT
    from langchain_core.messages import AIMessage, ToolMessage
    from langchain_core.messages import ToolCall as LangChainCall
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool, StructuredTool, ToolException
    from langgraph.config import get_config
    from langgraph.errors import GraphInterrupt
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.types import Command, interrupt
except ModuleNotFoundError as error:
    if error.name not in ("langchain", "langgraph", "langchain_core"):
        raise
    raise MissingExtraError("praval_tools.integrations.langchain", "langchain") from error

from attrs import evolve, frozen
from pydantic import BaseModel, Discriminator, Field, PrivateAttr, create_model

from praval_tools.formats.format import WireObject, encode_base64, get_content_blocks
from praval_tools.integrations.framework_calls import (
    answer_request,
    answer_waiting,
    apply_edit,
    asks_for_approval,
    deny_call_of_other_run,
    execute,
    execute_async,
    find_entry_of_call,
    find_toolset,
    is_still_asked,
    list_waiting,
    make_call_id,
)
from praval_tools.integrations.langchain_imports import import_tools
from praval_tools.names import OPERATOR, has_type
from praval_tools.registry.agents import Agent
from praval_tools.registry.registry import ToolRegistry
from praval_tools.registry.toolset import Toolset
from praval_tools.schema.json_values import replace_surrogates
from praval_tools.tools.call import Outcome, ToolCall, ToolResult
from praval_tools.tools.content import Content
from praval_tools.tools.decision import Allow, ApprovalEntry, ApprovalRequest, Deny
from praval_tools.tools.frames import get_current_actor

__all__ = ["ToolAccess", "import_tools", "tools_for"]

_FRAMEWORK: Final = "LangChain"
_MAX_LISTS: Final = 1_024
_CHECKPOINTER: Final = "__pregel_checkpointer"
"""Where LangGraph tells a node of the checkpointer; it says so nowhere else."""

_ToolAnswer: TypeAlias = "ToolMessage | Command[object]"
_ToolInput: TypeAlias = "str | WireObject | LangChainCall"
_Pause: TypeAlias = Literal["possible", "shared task", "no checkpointer", "never"]


def tools_for(registry: ToolRegistry, agent: Agent | str) -> list[StructuredTool]:
    """
    Return the tools that an agent may call now, for `bind_tools`, `ToolNode` and `create_agent`.

    The list stays as it is; each call is decided anew. A call that needs approval fails, and says so: an agent with
    `ToolAccess` pauses instead.

    Args:
        registry: Where the tools are.
        agent: Whose tools they are.
    """
    toolset = registry.toolset(agent)
    return [*_build_tools(toolset.schemas_json("anthropic"), _Caller(registry, toolset))]


class ToolAccess(AgentMiddleware[StateT, ContextT, ResponseT]):
    """
    Offers the tools that an agent may call at each request to the model, and decides each call again.

    The agent is the one that is given, or that of the registry with the name of the running LangChain agent, so that
    one middleware serves all of them. Tools of the program's own stay beside those of the registry, and win where
    both have a name. Refusals, failures and arguments that do not fit reach the model as tool messages with the
    status `error`. A call that needs approval interrupts the graph, and on resume runs once.
    The context of the run is the deps of tools that declare `ToolContext[Deps]`.

    Args:
        registry: Where the tools are.
        agent: Whose tools they are; None: of the agent that has the name of the running one.
    """

    def __init__(self, registry: ToolRegistry, agent: Agent | str | None = None) -> None:
        super().__init__()
        self._registry, self._agent = registry, agent
        self._lists: dict[tuple[bytes, Principal], list[_RegistryTool]] = {}
        if agent is not None:
            registry.toolset(agent)  # raises where it is not a valid name

    def __repr__(self) -> str:
        return f"<ToolAccess of {'the running agent' if self._agent is None else repr(self._agent)}>"

    # ── requests to the model ────────────────────────────────────────────────────────────────────

    def wrap_model_call(
        self, request: ModelRequest[ContextT], handler: Callable[[ModelRequest[ContextT]], ModelResponse[ResponseT]]
    ) -> ModelResponse[ResponseT]:
        """
        Offer the model what the agent may call now.

        Raises:
            ToolUsageError: Nobody said which agent it is, or another one was given than runs.
        """
        return self._check_agent(handler(self._offer_tools(request)))

    async def awrap_model_call(
        self,
        request: ModelRequest[ContextT],
        handler: Callable[[ModelRequest[ContextT]], Awaitable[ModelResponse[ResponseT]]],
    ) -> ModelResponse[ResponseT]:
        """Do what `wrap_model_call` does, for async code."""
        return self._check_agent(await handler(self._offer_tools(request)))

    def _offer_tools(self, request: ModelRequest[ContextT]) -> ModelRequest[ContextT]:
        own = [tool for tool in request.tools if not isinstance(tool, _RegistryTool)]
        taken = {tool.name for tool in own if isinstance(tool, BaseTool)}
        return request.override(tools=[*own, *(tool for tool in self._list_tools() if tool.name not in taken)])

    def _list_tools(self) -> list[_RegistryTool]:
        toolset = self._find_toolset()
        text = toolset.schemas_json("anthropic")
        tools = self._lists.get((text, toolset.principal))
        if tools is None:
            if len(self._lists) >= _MAX_LISTS:
                self._lists.clear()
            tools = _build_tools(text, _Caller(self._registry, toolset))
            self._lists[text, toolset.principal] = tools
        return tools

    def _find_toolset(self) -> Toolset:
        running = None if self._agent is not None else get_config().get("metadata", {}).get("lc_agent_name")
        return find_toolset(self._registry, self._agent, running, _FRAMEWORK)

    def _check_agent(self, response: ModelResponse[ResponseT]) -> ModelResponse[ResponseT]:
        """
        Return *response*, which has the name of the agent that runs.

        Before, only the configuration says it, and an agent without a name has that of the one that called it.
        """
        expected = self._find_toolset().agent
        for message in response.result:
            if message.name and message.name != expected and isinstance(message, AIMessage):
                find_toolset(self._registry, expected, message.name, _FRAMEWORK)
        return response

    # ── calls ────────────────────────────────────────────────────────────────────────────────────

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], _ToolAnswer]
    ) -> _ToolAnswer:
        """
        Call a tool in the agent's name; one of the program's own as if this middleware was not there.

        Raises:
            ToolUsageError: Nobody said which agent it is, or a person is to approve and the graph cannot pause.
        """
        return handler(self._take_over(request))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[_ToolAnswer]]
    ) -> _ToolAnswer:
        """Do what `wrap_tool_call` does, for async code."""
        return await handler(self._take_over(request))

    def _take_over(self, request: ToolCallRequest) -> ToolCallRequest:
        """Return *request* with a tool that calls the registry, whatever name the model made up."""
        if request.tool is not None and not isinstance(request.tool, _RegistryTool):
            return request
        call, runtime = request.tool_call, request.runtime
        message = _find_message(request.state, call["id"])
        author = None if message is None else message.name
        if self._agent is None and not author:
            find_toolset(self._registry, None, None, _FRAMEWORK)
        toolset = self._find_toolset()
        caller = _Caller(
            self._registry, toolset,
            call_id=_build_call_id(runtime.config, call, message), deps=runtime.context,
            refusal="This call was made by another agent." if author and author != toolset.agent else "",
            pause=_find_pause(runtime.config, message),
        )  # fmt: skip
        return request.override(tool=_RegistryTool(caller, call["name"]))


# ── tools ────────────────────────────────────────────────────────────────────────────────────────────────


class _AnyArguments(BaseModel):
    """The input of a tool whose JSON Schema is the registry's, which also checks it."""


class _RegistryTool(StructuredTool):
    """A tool whose arguments reach the registry, whatever they are called; those of `StructuredTool` do not."""

    _caller: _Caller = PrivateAttr()

    def __init__(self, caller: _Caller, name: str, description: str = "", schema: WireObject | None = None) -> None:
        super().__init__(
            name=name,
            description=description,
            args_schema=schema or {"type": "object", "properties": {}},
            handle_tool_error=True,
        )
        self._caller = caller

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return a model without fields: LangGraph looks there for what it is to inject."""
        return _AnyArguments

    def invoke(self, input: _ToolInput, config: RunnableConfig | None = None, **kwargs: object) -> object:
        """Call the tool."""
        return BaseTool.invoke(self._identify(input, config), input, config, **kwargs)

    async def ainvoke(self, input: _ToolInput, config: RunnableConfig | None = None, **kwargs: object) -> object:
        """Call the tool from async code."""
        return await BaseTool.ainvoke(self._identify(input, config), input, config, **kwargs)

    def _identify(self, input: _ToolInput, config: RunnableConfig | None) -> _RegistryTool:
        """Return this tool for one call, which knows the id that the framework gave it."""
        if self._caller.call_id is not None or not isinstance(input, dict) or input.get("type") != "tool_call":
            return self
        config, caller, call = config or {}, self._caller, cast("LangChainCall", input)
        is_in_graph = bool(config.get("configurable", {}).get("checkpoint_ns"))
        call_id = _build_call_id(config, call) if is_in_graph else make_call_id(caller.toolset, str(call["id"]))
        return _RegistryTool(evolve(caller, call_id=call_id), self.name)

    def _run(self, /, *args: object, **arguments: object) -> object:
        return self._caller.call(self.name, arguments)

    async def _arun(self, /, *args: object, **arguments: object) -> object:
        return await self._caller.acall(self.name, arguments)


def _build_tools(text: bytes, caller: _Caller) -> list[_RegistryTool]:
    return [
        _RegistryTool(caller, schema["name"], schema["description"], schema["input_schema"])
        for schema in json.loads(text)
    ]


# ── calls ────────────────────────────────────────────────────────────────────────────────────────────────


@frozen
class _Caller:
    """
    Who calls, and what LangGraph knows of the call.

    Args:
        registry: Where the tools are.
        toolset: Those of the agent.
        call_id: Identifies the call wherever it is made again; None: the registry gives it an id.
        deps: For tools that declare `ToolContext[Deps]`.
        refusal: What a model reads instead of a result; empty where the call may be made.
        pause: Whether an approval can interrupt the graph, or why not.
    """

    registry: ToolRegistry
    toolset: Toolset
    call_id: str | None = None
    deps: object = None
    refusal: str = ""
    pause: _Pause = "never"

    def call(self, name: str, arguments: WireObject) -> object:
        """Return what the model gets of a call; raise `ToolException` where it failed."""
        call, is_asked = self._begin(name, arguments)
        waiting: set[str] | None = list_waiting(self.registry) if self.pause == "possible" else set()
        result = execute(self.toolset, call, self.deps, is_asked)
        while result.outcome is Outcome.APPROVAL_REQUIRED and self._ask(call, result, waiting):
            waiting = None
            result = execute(self.toolset, call, self.deps, is_asked)
        return _to_content(result)

    async def acall(self, name: str, arguments: WireObject) -> object:
        """Do what `call` does, for async code."""
        call, is_asked = self._begin(name, arguments)
        waiting: set[str] | None = list_waiting(self.registry) if self.pause == "possible" else set()
        result = await execute_async(self.toolset, call, self.deps, is_asked)
        while result.outcome is Outcome.APPROVAL_REQUIRED and self._ask(call, result, waiting):
            waiting = None
            result = await execute_async(self.toolset, call, self.deps, is_asked)
        return _to_content(result)

    def _begin(self, name: str, arguments: WireObject) -> tuple[ToolCall, bool]:
        """Return the call, and whether a person is asked about it whatever the tool says now."""
        if self.refusal:
            raise ToolException(self.refusal)
        call = ToolCall(self.call_id, name, arguments)
        entry = find_entry_of_call(self.toolset, call) if self.pause == "possible" else None
        is_asked = is_still_asked(self.toolset, call, entry)
        if is_asked or self.pause != "possible" or asks_for_approval(self.toolset, name, arguments):
            return call, is_asked
        if entry is None and (denied := deny_call_of_other_run(self.toolset, call)) is not None:
            raise ToolException(denied.for_model())
        return (call, False) if entry is None else self._ask_before_handler(call, entry)

    def _ask_before_handler(self, call: ToolCall, entry: ApprovalEntry) -> tuple[ToolCall, bool]:
        """Return what `_begin` does for a call that waits, where the registry has got a handler meanwhile."""
        if get_current_actor() != OPERATOR:
            return call, False
        request = entry.request
        about = _describe_request(call, request.agent, request.reason, request)
        answer = _read_answer(interrupt(about, response_schema=_build_answer_type(call.name)))
        if isinstance(answer, Deny):
            answer_waiting(self.registry, request.id, answer)
            return call, True
        if answer.arguments is None:
            return call, False
        applied = apply_edit(self.registry, self.toolset, call, entry, answer)
        if isinstance(applied, ToolResult):
            raise ToolException(applied.for_model())
        return applied

    def _ask(self, call: ToolCall, result: ToolResult, waiting: set[str] | None) -> bool:
        """
        Interrupt the graph for an approval; once it is resumed, return whether the call is to be made again.

        LangGraph runs the whole call again then, and hands out answers by order: one counts only for a request that
        waited before the graph was resumed. *waiting* is None where that one was used by another resumption meanwhile.
        """
        if waiting is None:
            return answer_request(self.registry, result, set(), Deny())
        if self.pause == "never" or get_current_actor() != OPERATOR:  # nobody can approve for a person in a tool
            return False
        if self.pause == "shared task":
            raise ToolException(f"{result.for_model()} Make this call again, with no other call beside it.")
        if self.pause == "no checkpointer":
            raise ToolUsageError(
                f"Tool {result.name!r} needs an approval, and this agent of {_FRAMEWORK} cannot pause for it: "
                f"give it a checkpointer, create_agent(…, checkpointer=InMemorySaver()), and run it with a thread_id."
            )
        about = _describe_approval(call, result, self.registry)
        answer = interrupt(about, response_schema=_build_answer_type(call.name))
        return answer_request(self.registry, result, waiting, _read_answer(answer))


def _find_pause(config: RunnableConfig, message: AIMessage | None) -> _Pause:
    """
    Return whether an approval can interrupt the graph.

    Calls that share a task, as in a `ToolNode` that gets a whole message, also share its interrupts, so an answer
    could go to another call; `create_agent` gives each call a task of its own.
    """
    if not config.get("configurable", {}).get(_CHECKPOINTER):
        return "no checkpointer"
    path = config.get("metadata", {}).get("langgraph_path") or ("",)
    is_alone = path[0] == "__pregel_push" or message is None or len(message.tool_calls) == 1
    return "possible" if is_alone else "shared task"


def _find_message(state: object, call_id: str | None) -> AIMessage | None:
    """Return the message of the model that made a call."""
    messages = state.get("messages") if isinstance(state, dict) else getattr(state, "messages", state)
    for message in reversed(messages if isinstance(messages, list) else []):
        if isinstance(message, AIMessage) and any(call["id"] == call_id for call in message.tool_calls):
            return message
    return None


def _build_call_id(config: RunnableConfig, call: LangChainCall, message: AIMessage | None = None) -> str:
    """
    Return what identifies a call in its conversation, also when it is made again after a pause, or from a checkpoint.

    Providers repeat ids from one reply to the next, which has an id of its own; those in one reply are numbered.
    """
    configurable = config.get("configurable", {})
    reply = configurable.get("checkpoint_ns", "") if message is None or message.id is None else message.id
    of_equal_ids = [one for one in (message.tool_calls if message else ()) if one["id"] == call["id"]]
    number = f"#{of_equal_ids.index(call)}" if call in of_equal_ids and call != of_equal_ids[0] else ""
    return f"{configurable.get('thread_id', '')}/{reply}{number}/{call['id']}"


# ── approvals ────────────────────────────────────────────────────────────────────────────────────────────


class ApproveDecision(BaseModel, extra="forbid"):
    """A person approves a call."""

    type: Literal["approve"]


class RejectDecision(BaseModel, extra="forbid"):
    """A person rejects a call."""

    type: Literal["reject"]
    message: str = ""


class EditDecision(BaseModel, extra="forbid"):
    """A person has a call run with other arguments."""

    type: Literal["edit"]
    edited_action: EditedAction


class EditedAction(BaseModel, extra="forbid"):
    """The call with other arguments."""

    name: str
    args: WireObject


_Decision: TypeAlias = "ApproveDecision | RejectDecision | EditDecision"


def _build_answer_type(name: str) -> type[_Decision]:
    """Return what a person may answer: a decision of LangChain's `HumanInTheLoopMiddleware`, about this tool."""
    same_name = Annotated[str, Field(pattern=f"^{re.escape(name)}$")]
    edit = create_model(
        "EditDecision",
        __base__=EditDecision,
        edited_action=create_model("EditedAction", __base__=EditedAction, name=same_name),
    )
    return cast("type[_Decision]", Annotated[ApproveDecision | RejectDecision | edit, Discriminator("type")])


def _read_answer(answer: _Decision) -> Allow | Deny:
    if isinstance(answer, RejectDecision):
        return Deny(answer.message or "a person rejected it", by=_FRAMEWORK)
    edited = answer.edited_action.args if isinstance(answer, EditDecision) else None
    return Allow(edited, by=_FRAMEWORK, reason=f"a person approved it in {_FRAMEWORK}")


def _describe_approval(call: ToolCall, result: ToolResult, registry: ToolRegistry) -> WireObject:
    """Return what the person who approves is to know, in the form of LangChain's `ToolApprovalRequest`."""
    request = next((request for request in registry.approvals.pending() if request.id == result.approval_id), None)
    about = _describe_request(call, result.agent, result.error if request is None else request.reason, request)
    return {**about, "approval_id": result.approval_id}


def _describe_request(
    call: ToolCall, agent: str | None, reason: str | None, request: ApprovalRequest | None
) -> WireObject:
    return {
        "type": "tool_approval",
        "tool_call_id": str(call.tool_call_id).rpartition("/")[2],
        "name": call.name,
        "args": call.arguments if request is None else request.arguments,  # what the tool gets
        "description": f"Agent {agent!r} calls {call.name!r}, which needs an approval: {reason}",
        "agent": agent,
        "approval_id": None if request is None else request.id,
        "reason": reason,
        "risk_level": None if request is None else request.risk_level,
    }


# ── results ──────────────────────────────────────────────────────────────────────────────────────────────


def _to_content(result: ToolResult) -> object:
    """
    Return the content of a tool message.

    Raises:
        ToolException: The call failed.
        GraphInterrupt: The tool asks a person, or an agent that it runs does: LangGraph makes the call again on resume.
    """
    if has_type(result.exception, GraphInterrupt):
        raise result.exception
    if not result.success:
        raise ToolException(result.for_model())
    blocks = get_content_blocks(result)
    if blocks is None or all(_find_block_type(block) == "text" for block in blocks):
        return result.for_model()
    return [_render_block(block) for block in blocks]


def _render_block(block: Content) -> WireObject:
    kind = _find_block_type(block)
    if kind == "text":
        return {"type": kind, "text": replace_surrogates(block.described)}
    return {"type": kind, "base64": encode_base64(block), "mime_type": block.mime_type}


def _find_block_type(block: Content) -> str:
    """Return the type of LangChain's block for *block*; a tool message holds no sound."""
    if not block.data or block.type == "audio":
        return "text"
    return "image" if block.type == "image" else "file"
