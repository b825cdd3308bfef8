"""
Asks the user of an MCP client to approve a call (elicitation), and reads the answer.

An MCP client never uses the id of a request again, so a call is known by its agent, tool and arguments: once a person
has answered, the next equal call is the one that was approved, or denied.
"""

from __future__ import annotations

import json
from collections.abc import Container
from typing import Final

import mcp_types as types
from mcp.shared.exceptions import MCPError
from msgspec.structs import replace

from praval_tools.access.records import Principal
from praval_tools.errors import ToolArgumentsError, ToolDefinitionError
from praval_tools.execution.approvals import list_entries_of_tool
from praval_tools.execution.context import FrameScope, activate_frame, make_frame
from praval_tools.execution.pipeline import bind_arguments
from praval_tools.execution.policies import render_for_review
from praval_tools.integrations.mcp.serving.reports import RequestContext
from praval_tools.registry.toolset import Toolset, get_executor
from praval_tools.tools.call import ToolCall
from praval_tools.tools.decision import Allow, ApprovalAnswer, ApprovalEntry, ApprovalRequest, Decision, Deny

_APPROVAL_KEY: Final = "approval"
_SCHEMA: Final = {
    "type": "object",
    "properties": {"approve": {"type": "boolean", "title": "Approve", "description": "Whether the tool may run."}},
    "required": ["approve"],
}


def find_entry(
    toolset: Toolset, call: ToolCall, asked: Container[str], preferred_id: str | None
) -> ApprovalEntry | None:
    """
    Return the request for an approval of an equal call, which waits or whose answer was not used yet.

    Args:
        toolset: The tools of the agent.
        call: The call.
        asked: The requests that the user of another call answers now: these are that call's alone.
        preferred_id: The request of which the client says that the call brings its answer; others of equal calls wait.
    """
    runtime, principal = get_executor(toolset).runtime, toolset.principal
    state = runtime.access_store.get_fresh_state()
    record = state.find_tool_record(state.resolve_tool_name(call.name))
    if record is None:
        return None
    tool, approvals = record.tool, runtime.approvals
    entries = list_entries_of_tool(approvals, tool.name, principal)
    entries = [entry for entry in entries if entry.request.id not in asked]
    if not entries:
        return None
    try:
        with activate_frame(make_frame(FrameScope(runtime.registry, principal, principal.agent))):
            bound = bind_arguments(runtime, tool, call.arguments)
    except (ToolArgumentsError, ToolDefinitionError):  # the call itself says what does not fit
        return None
    arguments = render_for_review(tool, bound, principal.agent)
    if isinstance(arguments, Decision):  # the call is refused for it
        return None
    call = replace(call, agent=principal.agent, on_behalf_of=principal.chain)
    for entry in sorted(entries, key=lambda entry: entry.request.id != preferred_id):
        equal_call = replace(call, tool_call_id=entry.request.tool_call_id)
        if approvals.build_request(equal_call, principal, tool, arguments, "").digest == entry.request.digest:
            return entry
    return None


def get_elicited_answer(
    params: types.CallToolRequestParams, entry: ApprovalEntry | None, principal: Principal
) -> ApprovalAnswer | None:
    """Return what the client's user answered to the request of *entry*; None where the call brings no answer to it."""
    if entry is None or entry.answer is not None or params.request_state != entry.request.id:
        return None
    return _read_answer((params.input_responses or {}).get(_APPROVAL_KEY), principal)


def was_left_open(params: types.CallToolRequestParams, request_id: str | None) -> bool:
    """Tell whether the call brings what the client's user answered to the request, which is pending all the same."""
    return params.request_state == request_id and _APPROVAL_KEY in (params.input_responses or {})


def may_elicit(context: RequestContext) -> bool:
    """Tell whether the client can ask its user for an approval."""
    capabilities = context.session.client_capabilities
    elicitation = None if capabilities is None else capabilities.elicitation
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


def build_input_request(request: ApprovalRequest) -> types.InputRequiredResult:
    """Return the answer to a call by which a client without a way back is asked to ask its user, and call again."""
    elicitation = types.ElicitRequest(
        params=types.ElicitRequestFormParams(message=_describe_request(request), requested_schema=_SCHEMA)
    )
    return types.InputRequiredResult(input_requests={_APPROVAL_KEY: elicitation}, request_state=request.id)


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
    by = f"client of {principal.agent}"
    if answer.action == "accept" and (answer.content or {}).get("approve") is True:
        return Allow(by=by)
    return Deny("the client's user declined", by)


def _describe_request(request: ApprovalRequest) -> str:
    """
    Return what a person is asked, with the very arguments that the tool would get.

    A model writes these, and the reason may quote it: neither adds a line, nor anything that cannot be seen.
    """
    reason = f"\nReason: {' '.join(request.reason.split())}" if request.reason else ""
    arguments = json.dumps(request.arguments, indent=2, ensure_ascii=False)
    text = f"May {request.agent} run {request.tool} (risk: {request.risk_level})?{reason}\nArguments: {arguments}"
    return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)
