"""An MCP server whose tools are those of one agent, or of the agent for which each request's token stands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from typing import Final, TypeAlias

import anyio
import mcp_types as types
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError

from praval_tools.errors import ToolUsageError
from praval_tools.formats.format import WireObject
from praval_tools.integrations.framework_calls import execute_async
from praval_tools.integrations.mcp.serving.approvals import (
    ClientRequests,
    deny_call,
    elicit_answer,
    find_equal_entry,
    get_elicited_answer,
    is_left_open,
    make_client_call_id,
    may_elicit,
)
from praval_tools.integrations.mcp.serving.list_notifier import Notify, ToolListNotifier
from praval_tools.integrations.mcp.serving.listing import ListingCache, find_input_schema, render_answer
from praval_tools.integrations.mcp.serving.reports import (
    RequestContext,
    forward_reports,
    get_connection,
    set_log_level,
)
from praval_tools.integrations.mcp.serving.token_shares import ThreadShares
from praval_tools.registry.agents import Agent
from praval_tools.registry.registry import ToolRegistry
from praval_tools.registry.toolset import Toolset
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.tools.call import Outcome, ToolCall, ToolResult
from praval_tools.tools.decision import ApprovalAnswer, ApprovalEntry, Deny
from praval_tools.tools.frames import refuse_others_than_operator
from praval_tools.tools.plain_managers import plain_async_manager

_Capabilities: TypeAlias = "dict[str, WireObject] | None"

_MAX_LISTENERS: Final = 10_000
"""Most clients of one server that are notified of changes."""

_CANCEL_SECONDS: Final = 1.0
"""How long a cancelled call may take to end before its client's connection goes on without it."""


def server(
    registry: ToolRegistry, *, agent: str | Agent, name: str = "praval-tools", elicit_approvals: bool = False
) -> Server[ToolListNotifier]:
    """
    Return an MCP server with the tools of one agent, for any transport of the SDK.

    It lists exactly what the agent may call, and every call is the agent's: decided, checked and recorded as any other.

    Args:
        registry: Where the tools are.
        agent: Whose tools they are; it need not be declared.
        name: What the server calls itself.
        elicit_approvals: A client's user may approve calls that need an approval, where the client can ask; otherwise
            such calls wait for the operator, and the same call passes once after a yes.
    """
    toolset = registry.toolset(agent)
    return ToolServer(registry, lambda: toolset, name=name, elicit_approvals=elicit_approvals)


class ToolServer(Server[ToolListNotifier]):
    """
    The SDK's low-level server with the tools of agents.

    Args:
        registry: Where the tools are.
        get_toolset: Returns the tools of the agent that the request being served speaks for.
        name: What the server calls itself.
        elicit_approvals: A client's user may approve calls.
        make_guard: Returns what tells whether the client of the request being served may still be served.
        thread_shares: How many threads an agent may use at once; None: all.
    """

    def __init__(
        self, registry: ToolRegistry, get_toolset: Callable[[], Toolset], *, name: str, elicit_approvals: bool,
        make_guard: Callable[[], Callable[[], bool]] = lambda: lambda: True,
        thread_shares: ThreadShares | None = None,
    ) -> None:  # fmt: skip
        self._registry, self._get_toolset, self._elicits_approvals = registry, get_toolset, elicit_approvals
        self._make_guard, self._thread_shares = make_guard, thread_shares
        self._listings = ListingCache()
        self._requests = ClientRequests()
        if elicit_approvals:
            refuse_others_than_operator("let the users of clients approve calls")
        super().__init__(
            name, version=version("praval-tools"), lifespan=_run_notifier,
            on_subscriptions_listen=self._listen, get_tool_input_schema=self._find_input_schema,
        )  # fmt: skip
        self.add_request_handler("tools/call", types.CallToolRequestParams, self._call_tool)
        self.add_request_handler("tools/list", types.PaginatedRequestParams, self._list_tools)
        self.add_request_handler("logging/setLevel", types.SetLevelRequestParams, set_log_level)
        self.add_notification_handler("notifications/initialized", types.NotificationParams, self._notify_session)

    @property
    def registry(self) -> ToolRegistry:
        """Where the tools are."""
        return self._registry

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *more: _Capabilities, **options: _Capabilities
    ) -> InitializationOptions:
        """Return the options of the handshake, which say that clients are notified of changes of the list."""
        changes = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(changes, *more, **options)

    # ── tools ────────────────────────────────────────────────────────────────────────────────────

    async def _list_tools(self, context: RequestContext, params: types.PaginatedRequestParams) -> dict[str, object]:
        if params.cursor is not None:
            raise MCPError(types.INVALID_PARAMS, "Unknown cursor: the list has one page.")
        return self._listings.get(self._get_toolset()).build_answer(context.protocol_version)

    def _find_input_schema(self, name: str) -> JsonSchema | None:
        return find_input_schema(self._get_toolset(), name)

    async def _call_tool(
        self, context: RequestContext, params: types.CallToolRequestParams
    ) -> dict[str, object] | types.InputRequiredResult:
        toolset = self._get_toolset()
        output = self._listings.find_output(toolset, params.name)
        call = ToolCall(make_client_call_id(toolset), params.name, params.arguments or {})
        answer = get_elicited_answer(params, toolset.principal) if self._elicits_approvals else None
        async with forward_reports(context):
            claim = self._requests.claim(toolset, call, params.request_state, is_answered=answer is not None)
            with claim as (claimed_call, entry):
                result = await self._run_answered(toolset, claimed_call, entry, answer)
                was_left_open = is_left_open(params, result.approval_id)
                if self._elicits_approvals and may_elicit(context) and not was_left_open:
                    asked = await self._ask_user(context, toolset, claimed_call, result)
                    if not isinstance(asked, ToolResult):
                        return asked
                    result = asked
        if result.outcome is Outcome.UNKNOWN_TOOL:
            raise MCPError(types.INVALID_PARAMS, result.for_model())
        return render_answer(result, output)

    async def _run_answered(
        self, toolset: Toolset, call: ToolCall, entry: ApprovalEntry | None, answer: ApprovalAnswer | None
    ) -> ToolResult:
        """
        Run a call that is about *entry*, to whose request its client's user may have given an answer.

        A no ends it, whatever became of the request meanwhile, and whatever the operator says.
        """
        if entry is not None and answer is not None:
            with self._registry.as_operator(), suppress(ToolUsageError):  # the operator was faster: that answer counts
                self._registry.approvals.answer(entry.request.id, answer)
        if isinstance(answer, Deny):
            return deny_call(toolset, call, entry, answer)
        is_asked = entry is not None and (entry.answer is not None or answer is not None)
        return await self._run_call(toolset, call, is_asked=is_asked)

    async def _ask_user(
        self, context: RequestContext, toolset: Toolset, call: ToolCall, result: ToolResult
    ) -> ToolResult | types.InputRequiredResult:
        """Have the client ask its user where a call needs an approval; return the result, or what asks it."""
        waiting = self._registry.approvals.pending() if result.outcome is Outcome.APPROVAL_REQUIRED else []
        request = next((one for one in waiting if one.id == result.approval_id), None)
        if request is None:
            return result
        if not context.session.can_send_request:
            return self._requests.build_input_request(request, waiting)
        answer = await elicit_answer(context, request, toolset.principal)
        if answer is None:
            return result
        self._refuse_ended_client()
        entry = find_equal_entry(toolset, call, lambda entry: entry.request.id == request.id)
        return await self._run_answered(toolset, call, entry, answer)

    async def _run_call(self, toolset: Toolset, call: ToolCall, *, is_asked: bool) -> ToolResult:
        """
        Run a call, once its agent has a thread for it and its client may still make it.

        Where a person *is_asked* about it, that counts whatever the tool and the policies say by then.
        """
        if self._thread_shares is None:
            return await _run_call(toolset, call, is_asked)
        async with self._thread_shares.take(toolset, call.name) as has_waited:
            if has_waited:
                self._refuse_ended_client()
            return await _run_call(toolset, call, is_asked)

    def _refuse_ended_client(self) -> None:
        """Refuse a call whose client may be served no more, now that the call has waited."""
        if not self._make_guard()():
            raise MCPError(types.INVALID_REQUEST, "The token was revoked, or has expired, before the call began.")

    # ── changes of the list ──────────────────────────────────────────────────────────────────────

    async def _notify_session(self, context: RequestContext, params: types.NotificationParams) -> None:
        """Tell a client of the handshake era of changes, once it is ready, until its session ends."""
        connection = get_connection(context)
        if context.lifespan_context.client_count >= _MAX_LISTENERS or "praval_tools.followed" in connection.state:
            return
        connection.state["praval_tools.followed"] = True
        remove = self._add_client(context, context.session.send_tool_list_changed)
        connection.exit_stack.callback(remove)

    async def _listen(
        self, context: RequestContext, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Serve the stream by which a client of the modern era is notified of changes."""
        if context.lifespan_context.client_count >= _MAX_LISTENERS:
            raise MCPError(types.INTERNAL_ERROR, "Subscription limit reached")
        bus = InMemorySubscriptionBus()
        remove = self._add_client(context, partial(bus.publish, ToolsListChanged()))
        try:
            return await ListenHandler(bus)(context, params)
        finally:
            remove()

    def _add_client(self, context: RequestContext, notify: Notify) -> Callable[[], None]:
        """Notify the client of a request whenever its list changes, unless it may no longer; return what ends that."""
        may_be_notified = self._make_guard()

        async def notify_if_allowed() -> None:
            if may_be_notified():
                await notify()

        return context.lifespan_context.add_client(self._get_toolset(), notify_if_allowed)


@plain_async_manager
async def _run_notifier(served: Server[ToolListNotifier]) -> AsyncIterator[ToolListNotifier]:
    """Notify the clients of a server of changes of their lists while the server runs."""
    if not isinstance(served, ToolServer):
        raise TypeError(f"{served!r} is not a ToolServer")
    notifier = ToolListNotifier(served.registry)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(notifier.run)
        yield notifier
        tasks.cancel_scope.cancel()


async def _run_call(toolset: Toolset, call: ToolCall, is_asked: bool) -> ToolResult:
    """
    Run a call; where the client cancels it, the tool is cancelled once, and the call recorded as cancelled.

    It runs in a task of its own: the scopes of anyio cancel again at each await, which would cut the record off.
    """
    ended = asyncio.Event()  # wakes the request a turn of the event loop sooner than `asyncio.shield` does
    task = asyncio.ensure_future(_run_and_set(toolset, call, is_asked, ended))
    try:
        await ended.wait()
    except asyncio.CancelledError:
        task.cancel()
        with anyio.move_on_after(_CANCEL_SECONDS, shield=True):
            await asyncio.wait([task])
        task.add_done_callback(_consume_outcome)
        raise
    return task.result()


async def _run_and_set(toolset: Toolset, call: ToolCall, is_asked: bool, ended: asyncio.Event) -> ToolResult:
    try:
        return await execute_async(toolset, call, None, is_asked)
    finally:
        ended.set()


def _consume_outcome(task: asyncio.Future[ToolResult]) -> None:
    """Look at the outcome of a call that nobody waits for any more, so that asyncio does not complain."""
    if not task.cancelled():
        task.exception()
