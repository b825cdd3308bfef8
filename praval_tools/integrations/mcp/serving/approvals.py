"""
Asks the user of an MCP client to approve a call (elicitation), and reads the answer.

An MCP client never uses the id of a request again, so a call is known by its agent, tool and arguments: once the
operator has answered, the next equal call over MCP is the one that was approved, or denied. What a client's user
answers is for that one call.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import mcp_types as types
from mcp.shared.exceptions import MCPError
from msgspec.structs import replace

from praval_tools.access.records import Principal
from praval_tools.execution.approvals import Approvals, make_digest
from praval_tools.integrations.foreign_text import quote_name
from praval_tools.integrations.framework_calls import iter_entries_of_equal_calls, needs_approval, record_denial
from praval_tools.integrations.mcp.serving.reports import RequestContext
from praval_tools.registry.toolset import Toolset, get_executor
from praval_tools.tools.call import ToolCall, ToolResult
from praval_tools.tools.decision import Allow, ApprovalAnswer, ApprovalEntry, ApprovalRequest, Deny
from praval_tools.tools.plain_managers import plain_manager

_APPROVAL_KEY: Final = "approval"
_SCHEMA: Final = {
    "type": "object",
    "properties": {"approve": {"type": "boolean", "title": "Approve", "description": "Whether the tool may run."}},
    "required": ["approve"],
}


class ClientRequests:
    """
    The requests for an approval of the calls of one server, each of which is one call's alone while that is made.

    A client without a way back gets a request with the answer to its call, and calls again with what its user said.
    """

    def __init__(self) -> None:
        self._claimed_call_ids, self._shown_ids = set[str](), set[str]()

    @plain_manager
    def claim(
        self, toolset: Toolset, call: ToolCall, preferred_id: str | None, *, is_answered: bool
    ) -> Iterator[tuple[ToolCall, ApprovalEntry | None]]:
        """
        Give a call the request of an equal one that waits, or whose answer was not used yet; None where there is none.

        During the block no equal call gets that request, or one that the call itself makes.

        Args:
            toolset: The tools of the agent.
            call: The call, with an id of its own; yielded with that of the request.
            preferred_id: The request of which the client says that the call brings its answer.
            is_answered: The call brings that: no other request will do.
        """

        def is_free(entry: ApprovalEntry) -> bool:
            request = entry.request
            if request.tool_call_id in self._claimed_call_ids:
                return False
            return request.id == preferred_id or not (is_answered or self._is_of_another_call(entry))

        entry = find_equal_entry(toolset, call, is_free, preferred_id)
        if (
            entry is not None
            and entry.answer is None
            and not (is_answered or needs_approval(toolset, call.name, call.arguments))
        ):
            entry = None  # it is left to a later call
        if entry is not None:
            call = replace(call, tool_call_id=entry.request.tool_call_id)
            self._shown_ids.discard(entry.request.id)
        call_id = str(call.tool_call_id)
        self._claimed_call_ids.add(call_id)
        try:
            yield call, entry
        finally:
            self._claimed_call_ids.discard(call_id)

    def _is_of_another_call(self, entry: ApprovalEntry) -> bool:
        """Tell whether the user of a client was asked, who has not answered yet, or has answered."""
        if entry.answer is None:
            return entry.request.id in self._shown_ids
        return entry.answer.by == _describe_user(entry.request.agent)

    def build_input_request(
        self, request: ApprovalRequest, waiting: Iterable[ApprovalRequest]
    ) -> types.InputRequiredResult:
        """
        Return the answer to a call by which a client without a way back is asked to ask its user, and call again.

        Args:
            request: What its user is asked; no other client is, unless somebody answers it first.
            waiting: All requests that wait.
        """
        self._shown_ids = (self._shown_ids & {one.id for one in waiting}) | {request.id}
        elicitation = types.ElicitRequest(
            params=types.ElicitRequestFormParams(message=_describe_request(request), requested_schema=_SCHEMA)
        )
        return types.InputRequiredResult(input_requests={_APPROVAL_KEY: elicitation}, request_state=request.id)


def make_client_call_id(toolset: Toolset) -> str:
    """Return an id for a call over MCP, by which all processes with the registry's journal know it from other calls."""
    runtime = get_executor(toolset).runtime
    new_id = runtime.clock.new_id()
    return f"{new_id}/{_sign_call_id(runtime.approvals, new_id)}"


def _is_client_call_id(approvals: Approvals, call_id: str) -> bool:
    new_id, _, signature = call_id.partition("/")
    return signature == _sign_call_id(approvals, new_id)


def _sign_call_id(approvals: Approvals, new_id: str) -> str:
    return "mcp-" + make_digest(approvals, b"mcp " + new_id.encode("utf-8", "surrogatepass"))[:12]


def find_equal_entry(
    toolset: Toolset, call: ToolCall, is_wanted: Callable[[ApprovalEntry], bool], preferred_id: str | None = None
) -> ApprovalEntry | None:
    """
    Return the request of an equal call over MCP of the agent, which waits or whose answer was not used yet.

    Args:
        toolset: The tools of the agent.
        call: The call.
        is_wanted: Tells which requests will do.
        preferred_id: The request that is taken rather than any other.
    """
    approvals = get_executor(toolset).runtime.approvals

    def is_over_mcp(entry: ApprovalEntry) -> bool:
        return is_wanted(entry) and _is_client_call_id(approvals, entry.request.tool_call_id)

    return next(iter_entries_of_equal_calls(toolset, call, is_over_mcp, preferred_id), None)


def get_elicited_answer(params: types.CallToolRequestParams, principal: Principal) -> ApprovalAnswer | None:
    """Return what the client's user answered to the request that is the call's state; None where it brings none."""
    return _read_answer((params.input_responses or {}).get(_APPROVAL_KEY), principal)


def deny_call(toolset: Toolset, call: ToolCall, entry: ApprovalEntry | None, answer: Deny) -> ToolResult:
    """Record a call that the client's user denied, and end its request, whatever the operator answered to that."""
    text = f"The approval of tool {quote_name(call.name)} was denied: {answer.reason}."
    if entry is None:
        return record_denial(toolset, call, text)
    get_executor(toolset).runtime.approvals.discard_request(entry.request)
    return record_denial(toolset, call, text, entry.request.id)


def is_left_open(params: types.CallToolRequestParams, request_id: str | None) -> bool:
    """Tell whether the call brings what the client's user answered to the request, which is pending all the same."""
    return params.request_state == request_id and _APPROVAL_KEY in (params.input_responses or {})


def may_elicit(context: RequestContext) -> bool:
    """Tell whether the client can ask its user for an approval."""
    capabilities = context.session.client_capabilities
    elicitation = None if capabilities is None else capabilities.elicitation
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


async def elicit_answer(
    context: RequestContext, request: ApprovalRequest, principal: Principal
) -> ApprovalAnswer | None:
    """Have the client ask its user; None where the user has not decided, or could not be asked."""
    try:
        text = _describe_request(request)
        answer = await context.session.elicit_form(text, _SCHEMA, related_request_id=context.request_id)
    except MCPError:
        return None
    return _read_answer(answer, principal)


def _read_answer(answer: object, principal: Principal) -> ApprovalAnswer | None:
    """Return what an elicitation's answer means: only an explicit yes is one."""
    if not isinstance(answer, types.ElicitResult) or answer.action == "cancel":
        return None
    by = _describe_user(principal.agent)
    if answer.action == "accept" and (answer.content or {}).get("approve") is True:
        return Allow(by=by)
    return Deny("the client's user declined", by)


def _describe_user(agent: str | None) -> str:
    """Return whose an answer of a client's user is: it is for the call that was shown, and for no equal one."""
    return f"client of {agent}"


def _describe_request(request: ApprovalRequest) -> str:
    """
    Return what a person is asked, with the very arguments that the tool would get.

    A model writes these, and the reason may quote it: neither adds a line, nor anything that cannot be seen.
    """
    reason = f"\nReason: {' '.join(request.reason.split())}" if request.reason else ""
    arguments = json.dumps(request.arguments, indent=2, ensure_ascii=False)
    text = f"May {request.agent} run {request.tool} (risk: {request.risk_level})?{reason}\nArguments: {arguments}"
    return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)
