"""Builds the results of calls: of refused, failed and cancelled ones, and of those that returned."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from praval_tools.access.other_registry import with_other_registry
from praval_tools.access.queries import find_similar_callable_tools
from praval_tools.access.records import Principal
from praval_tools.errors import format_suggestion
from praval_tools.execution.context import SCOPE
from praval_tools.execution.effects import RunTool
from praval_tools.execution.failures import classify_failure
from praval_tools.execution.runtime import Runtime
from praval_tools.names import shorten_repr
from praval_tools.schema.coercion import Repair
from praval_tools.tools.call import Outcome, ToolCall, ToolResult
from praval_tools.tools.decision import Decision
from praval_tools.tools.implementation import BoundArguments
from praval_tools.tools.tool import AnyTool

_OK: Final = Outcome.OK  # looking up a member of an enumeration is slow


def _describe_misplaced_name(call: ToolCall) -> str:
    """Return how to write a call whose name is not a text; an empty text for others."""
    if isinstance(call.name, str):
        return ""
    name, arguments = shorten_repr(call.tool_call_id or "…"), shorten_repr(call.name)
    return f"A ToolCall begins with its id, and its name is a text: ToolCall(name={name}, arguments={arguments})."


def build_refused_result(
    runtime: Runtime,
    call: ToolCall,
    principal: Principal | None,
    decision: Decision,
    bound: BoundArguments | None = None,
    sent_name: str | None = None,
) -> ToolResult:
    """
    Return the result of a refusal; its text is for the model and names nothing that the model may not see.

    Args:
        runtime: That of the registry.
        call: The call.
        principal: The caller; None for the operator.
        decision: The refusal.
        bound: The arguments, where they were bound.
        sent_name: The tool's name as the caller sent it, where it means another.
    """
    state = runtime.access_store.get_fresh_state()
    name = call.name if isinstance(call.name, str) else shorten_repr(call.name)
    if (record := state.find_tool_record(name)) is not None:
        decision = replace(decision, owner=record.tool.metadata.owned_by)
    shown_name = name if sent_name is None else sent_name
    shown = shorten_repr(shown_name, 140)
    outcome = {"unknown": Outcome.UNKNOWN_TOOL, "disabled": Outcome.DISABLED}.get(decision.outcome, Outcome.FORBIDDEN)
    if outcome is Outcome.UNKNOWN_TOOL or runtime.options.refusals == "hide":
        similar = () if principal is None else find_similar_callable_tools(state, principal, name, runtime.clock.now())
        text = f"Tool {shown} not found.{format_suggestion(similar) if similar else ''}"
        text = _describe_misplaced_name(call) or text
        if record is None and runtime.options.refusals != "hide":
            decision = with_other_registry(decision, runtime.access_store, name)
        outcome, code, name = Outcome.UNKNOWN_TOOL, "unknown-tool", shown_name
    elif outcome is Outcome.DISABLED:
        text, code = f"Tool {shown} is disabled.", "disabled"
    else:
        why = f" with these arguments. {decision.reason}" if decision.rule == "out-of-bounds" else "."
        text, code = f"Tool {shown} is forbidden for this agent{why}", "forbidden"
    return ToolResult(
        call.tool_call_id, name, call.agent, outcome, None, text, code,
        repairs=bound.repairs if bound else (), decision=decision,
    )  # fmt: skip


def build_no_agent_result(call: ToolCall, reason: str = "The call names no agent.") -> ToolResult:
    """Return the result of a call that names no agent."""
    name = call.name if isinstance(call.name, str) else shorten_repr(call.name)
    decision = Decision(False, "forbidden", "no-agent", None, name, reason,
                        "Pass agent=…, or call through an agent's toolset.")  # fmt: skip
    text = "A call without an agent is forbidden." if call.agent is None else reason
    text = _describe_misplaced_name(call) or text
    return ToolResult(call.tool_call_id, name, None, Outcome.FORBIDDEN, None, text, "forbidden", decision=decision)


def build_success_result(run: RunTool, value: object, started: float) -> ToolResult:
    """Return the result of a call that returned."""
    return ToolResult(
        run.call_id, run.tool.name, run.call.agent, _OK, value, None, None,
        (run.runtime.clock.monotonic() - started) * 1000, run.attempts, run.bound_arguments.repairs, False,
        run.path.decision, None, run.runtime.get_max_result_size(run.tool),
    )  # fmt: skip


def build_run_cancelled_result(run: RunTool, started: float) -> ToolResult:
    """Return the result of a call that was cancelled, although what awaits it was not."""
    latency = (run.runtime.clock.monotonic() - started) * 1000
    return build_cancelled_result(
        run.call_id, run.tool, run.call.agent, latency, run.path.decision, run.bound_arguments.repairs, run.attempts
    )


def build_tool_error_result(run: RunTool, error: BaseException, started: float) -> ToolResult:
    """Return the result of a call whose function raised."""
    outcome, error_type = classify_failure(run.tool.name, error)
    return ToolResult(
        run.call_id, run.tool.name, run.call.agent, outcome, None,
        run.runtime.render_error(run.tool, error, run.frame[SCOPE]), error_type,
        (run.runtime.clock.monotonic() - started) * 1000, run.attempts, run.bound_arguments.repairs, False,
        run.path.decision, error,
    )  # fmt: skip


def build_not_run_result(run: RunTool, outcome: Outcome, text: str, code: str) -> ToolResult:
    """Return the result of a call that was decided and did not run."""
    return ToolResult(
        run.call_id, run.tool.name, run.call.agent, outcome, None, text, code, None, run.attempts,
        run.bound_arguments.repairs, decision=run.path.decision,
    )  # fmt: skip


def build_timeout_result(
    call_id: str | None, tool: AnyTool, agent: str | None, seconds: float, decision: Decision | None,
    *, still_runs: bool = False, repairs: tuple[Repair, ...] = (), attempts: int = 1,
) -> ToolResult:  # fmt: skip
    """Return the result of a call that timed out; *still_runs*: its function may still be running."""
    hint = " It may still be running." if still_runs else ""
    return ToolResult(
        call_id, tool.name, agent, Outcome.TIMEOUT, None,
        f"Tool {tool.name!r} did not finish within {seconds:g} s.{hint}", "tool-timeout",
        seconds * 1000, attempts, repairs, decision=decision,
    )  # fmt: skip


def build_cancelled_result(
    call_id: str | None, tool: AnyTool, agent: str | None, latency: float | None, decision: Decision | None,
    repairs: tuple[Repair, ...] = (), attempts: int = 1,
) -> ToolResult:  # fmt: skip
    """Return the result of a call that was cancelled, although what awaits it was not."""
    return ToolResult(
        call_id, tool.name, agent, Outcome.CANCELLED, None, f"Tool {tool.name!r} was cancelled.", "cancelled",
        latency, attempts, repairs, False, decision,
    )  # fmt: skip
