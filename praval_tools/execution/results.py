"""The results of calls that did not come back from their function, and of those that did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from praval_tools.access.records import Principal
from praval_tools.execution.context import SITE
from praval_tools.execution.event_loops import ExpiredError
from praval_tools.execution.failures import StoppedError, type_name
from praval_tools.names import near, shorten
from praval_tools.tools.call import Outcome, ToolCall, ToolResult
from praval_tools.tools.decision import Decision
from praval_tools.tools.implementation import Bound

if TYPE_CHECKING:
    from praval_tools.execution.effects import Run
    from praval_tools.execution.runtime import Runtime


def refused(
    runtime: Runtime, call: ToolCall, who: Principal | None, decision: Decision, bound: Bound | None = None
) -> ToolResult:
    """Return the result of a refusal; its text is for the model and names nothing that the model may not see."""
    name = call.name if isinstance(call.name, str) else shorten(call.name)
    shown = shorten(name, 140)
    outcome = {"unknown": Outcome.UNKNOWN_TOOL, "disabled": Outcome.DISABLED}.get(decision.outcome, Outcome.FORBIDDEN)
    if outcome is Outcome.UNKNOWN_TOOL or runtime.options.refusals == "hide":
        own = runtime.visible(who) if who is not None else ()
        match = near(name, own)
        hint = f" Did you mean {' or '.join(map(repr, match))}?" if match else ""
        outcome, text, code = Outcome.UNKNOWN_TOOL, f"Tool {shown} not found.{hint}", "unknown-tool"
    elif outcome is Outcome.DISABLED:
        text, code = f"Tool {shown} is disabled.", "disabled"
    else:
        why = f" with these arguments. {decision.reason}" if decision.rule == "granted" else "."
        text, code = f"Tool {shown} is forbidden for this agent{why}", "forbidden"
    return ToolResult(
        call.tool_call_id, name, call.agent, outcome, None, text, code,
        repairs=bound.repairs if bound else (), decision=decision,
    )  # fmt: skip


def nobody(call: ToolCall, why: str = "The call names no agent.") -> ToolResult:
    """Return the result of a call that names no agent."""
    name = call.name if isinstance(call.name, str) else shorten(call.name)
    decision = Decision(False, "forbidden", "no-agent", None, name, why,
                        "Pass agent=…, or call through an agent's toolset.")  # fmt: skip
    text = "A call without an agent is forbidden." if call.agent is None else why
    return ToolResult(call.tool_call_id, name, None, Outcome.FORBIDDEN, None, text, "forbidden", decision=decision)


def succeeded(run: Run, value: Any, started: float) -> ToolResult:
    """Return the result of a call that returned."""
    return ToolResult(
        run.call_id, run.tool.name, run.call.agent, Outcome.OK, value, None, None,
        (run.runtime.clock.monotonic() - started) * 1000, run.attempts, run.bound.repairs, False, run.path.decision,
        None, run.runtime.most(run.tool),
    )  # fmt: skip


def cancelled(run: Run, started: float) -> ToolResult:
    """Return the result of a call that was cancelled although nobody cancelled who awaits it."""
    latency = (run.runtime.clock.monotonic() - started) * 1000
    return stopped(run.call_id, run.tool, run.call.agent, latency, run.path.decision, run.bound.repairs)


def broke(run: Run, error: BaseException, started: float) -> ToolResult:
    """Return the result of a call whose function raised."""
    return ToolResult(
        run.call_id, run.tool.name, run.call.agent, Outcome.TOOL_ERROR, None,
        run.runtime.shown(run.tool, error, run.frame[SITE]), type_name(error),
        (run.runtime.clock.monotonic() - started) * 1000, run.attempts, run.bound.repairs, False,
        run.path.decision, error,
    )  # fmt: skip


def ended_badly(run: Run, error: BaseException, started: float) -> ToolResult:
    """Return the result of a call out of whose lane *error* came."""
    if isinstance(error, ExpiredError):
        seconds = run.runtime.timeout(run.tool) or 0.0
        return late(run.call_id, run.tool, run.call.agent, seconds, run.path.decision, repairs=run.bound.repairs)
    return cancelled(run, started) if isinstance(error, StoppedError) else broke(run, error, started)


def stopped_by(run: Run, outcome: Outcome, text: str, code: str) -> ToolResult:
    """Return the result of a call that was decided and did not run."""
    return ToolResult(
        run.call_id, run.tool.name, run.call.agent, outcome, None, text, code, None, run.attempts, run.bound.repairs,
        decision=run.path.decision,
    )  # fmt: skip


def late(
    call_id: str | None, tool: Any, agent: str | None, seconds: float, decision: Any, runs: bool = False,
    repairs: tuple[Any, ...] = (),
) -> ToolResult:  # fmt: skip
    """Return the result of a call that ran out of time; *runs*: its function may run on."""
    more = " It may still be running." if runs else ""
    return ToolResult(
        call_id, tool.name, agent, Outcome.TIMEOUT, None,
        f"Tool {tool.name!r} did not finish within {seconds:g} s.{more}", "tool-timeout",
        seconds * 1000, 1, repairs, decision=decision,
    )  # fmt: skip


def stopped(
    call_id: str | None, tool: Any, agent: str | None, latency: float | None, decision: Any,
    repairs: tuple[Any, ...] = (),
) -> ToolResult:  # fmt: skip
    """Return the result of a call that was cancelled although nobody cancelled who awaits it."""
    return ToolResult(
        call_id, tool.name, agent, Outcome.CANCELLED, None, f"Tool {tool.name!r} was cancelled.", "cancelled",
        latency, 1, repairs, False, decision,
    )  # fmt: skip
