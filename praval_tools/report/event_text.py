"""Describes an event of the journal in one line: who did what to which tool, and why."""

from __future__ import annotations

from functools import singledispatch

from attrs import frozen

from praval_tools.access import events as changes
from praval_tools.access.permissions import Grant
from praval_tools.journal import events
from praval_tools.journal.recorded_decisions import RecordedDecision
from praval_tools.names import OPERATOR, format_count
from praval_tools.report.text import format_arguments, format_duration, format_time


@frozen
class EventText:
    """
    What a person reads of an event.

    Args:
        actor: Who did it.
        tool: The tool that was called or changed.
        action: What was done, or how it ended.
        reason: The rule, the reason, the error.
        is_good: Whether it went well; None where that does not apply.
        arguments: Those of a call, as recorded: without secrets.
    """

    actor: str
    tool: str
    action: str
    reason: str = ""
    is_good: bool | None = None
    arguments: str = ""


@singledispatch
def describe_event(event: object) -> EventText:
    """Return what a person reads of *event*."""
    return EventText(getattr(event, "by", ""), getattr(event, "tool", ""), type(event).__name__)


# ── calls, approvals, model loops, plugins ───────────────────────────────────────────────────────


def _get_agent(event: events.CallEvent | events.LoopEvent) -> str:
    """Return who did it, with those on whose behalf, where the event says for whom."""
    return " for ".join((event.agent or OPERATOR, *getattr(event, "chain", ())))


def _get_rule(decision: RecordedDecision | None) -> str:
    return "" if decision is None else decision.rule


def _join_reasons(*reasons: str | None) -> str:
    return ": ".join(reason for reason in reasons if reason)


def _with_duration(text: str, milliseconds: float | None) -> str:
    return text if milliseconds is None else f"{text}, {format_duration(milliseconds)}"


@describe_event.register
def _describe_call(event: events.AgentToolCall) -> EventText:
    attempt = f" (attempt {event.attempt})" if event.attempt > 1 else ""
    arguments = format_arguments(event.arguments)
    return EventText(_get_agent(event), event.tool_name, f"call{attempt}", _get_rule(event.decision), None, arguments)


@describe_event.register
def _describe_result(event: events.AgentToolResult) -> EventText:
    reasons = _join_reasons(f"resolved by {event.by}" if event.by else "", event.error_type, event.error)
    action = _with_duration(event.outcome.value, event.latency_ms)
    return EventText(_get_agent(event), event.tool_name, action, reasons, event.outcome == "ok")


@describe_event.register
def _describe_refusal(event: events.CallRefused) -> EventText:
    reason = event.decision.reason if event.decision is not None and not event.decision.allowed else ""
    reasons = _join_reasons(_get_rule(event.decision) if reason else event.error_type, reason or event.error)
    arguments = "" if event.arguments is None else format_arguments(event.arguments)
    return EventText(_get_agent(event), event.tool_name, event.outcome.value, reasons, False, arguments)


@describe_event.register
def _describe_rerun(event: events.CallRerun) -> EventText:
    return EventText(event.by or OPERATOR, event.tool_name, "may run again", f"call {event.tool_call_id}")


@describe_event.register
def _describe_move(event: events.CallMoved) -> EventText:
    return EventText(_get_agent(event), event.tool_name, "repeated by another task", f"call {event.tool_call_id}")


@describe_event.register
def _describe_approval_request(event: events.ApprovalAsked) -> EventText:
    reasons = event.reason or f"risk: {event.risk_level}"
    arguments = format_arguments(event.arguments)
    return EventText(_get_agent(event), event.tool_name, "approval asked", reasons, None, arguments)


@describe_event.register
def _describe_approval_answer(event: events.ApprovalAnswered) -> EventText:
    is_allowed, reasons = event.answer == "allow", _join_reasons(f"{_get_agent(event)}'s call", event.reason)
    edited = "" if event.arguments is None else format_arguments(event.arguments)
    return EventText(event.by, event.tool_name, "approved" if is_allowed else "denied", reasons, is_allowed, edited)


@describe_event.register
def _describe_late_result(event: events.LateResult) -> EventText:
    return EventText(_get_agent(event), event.tool_name, f"late: {event.outcome.value}", event.error or "")


@describe_event.register
def _describe_loop_start(event: events.LoopBegan) -> EventText:
    return EventText(_get_agent(event), "", "loop began", f"with {event.model}" if event.model else "")


@describe_event.register
def _describe_model_reply(event: events.ModelReplied) -> EventText:
    calls = event.reply.get("calls", ()) if isinstance(event.reply, dict) else ()
    content = f"asks for {format_count(len(calls), 'call')}" if calls else "answers"
    action = _with_duration("model replied", event.latency_ms)
    return EventText(_get_agent(event), "", action, f"step {event.step}: {content}")


@describe_event.register
def _describe_plugin_load(event: events.PluginLoaded) -> EventText:
    return EventText(event.plugin, "", "plugin loaded", format_count(len(event.tools), "tool"))


@describe_event.register
def _describe_plugin_failure(event: events.PluginFailed) -> EventText:
    return EventText(event.plugin, "", "plugin failed", f"{event.stage}: {event.error}", False)


# ── changes of who may call what ─────────────────────────────────────────────────────────────────


@describe_event.register
def _describe_change(event: changes.StateEvent) -> EventText:
    action, tool, *details = _describe_change_subject(event)
    known = ", ".join(filter(None, details))
    return EventText(event.person or event.by, tool, action, _join_reasons(known, event.reason))


def _describe_change_subject(event: changes.StateEvent) -> tuple[str, ...]:
    """Return what was changed, of which tool, and details; parts may be empty."""
    match event:
        case changes.ToolAssigned(grant=grant):
            return "assigned", grant.tool, *_list_limits(grant)
        case changes.ToolUnassigned(tool=tool, agent=agent):
            return "unassigned", tool, f"from {agent}"
        case changes.ToolBlocked(block=block):
            return "blocked", block.tool, f"for {block.agent}"
        case changes.ToolUnblocked(tool=tool, agent=agent):
            return "unblocked", tool, f"for {agent}"
        case changes.OwnershipTransferred(tool=tool, to=owner):
            return "transferred", tool, f"to {owner or 'nobody'}"
        case changes.ToolShared(tool=tool):
            return "shared", tool
        case changes.ToolUnshared(tool=tool):
            return "unshared", tool
        case changes.ToolDisabled(kind=kind, name=name):
            return "disabled", name, "" if kind == "tool" else f"the {kind}"
        case changes.ToolEnabled(kind=kind, name=name):
            return "enabled", name, "" if kind == "tool" else f"the {kind}"
        case changes.ToolConfigured(tool=tool, changes=fields):
            return "configured", tool, *sorted(fields)
        case changes.ToolListed(tool=tool, agent=agent):
            return "listed", tool, f"by {agent}"
        case changes.ToolUnregistered(tool=tool):
            return "unregistered", tool
        case changes.GrantRevoked(grant=grant_id):
            return "grant revoked", "", grant_id
        case changes.GrantSpent(grants=grant_ids):
            return "grant spent", "", *grant_ids
        case changes.AgentRetired(agent=agent):
            return "agent retired", "", agent
    return type(event).__name__, ""


def _list_limits(grant: Grant) -> tuple[str, ...]:
    return (
        f"to {grant.agent}",
        "" if grant.max_calls is None else format_count(grant.max_calls, "call"),
        "" if grant.expires is None else f"until {format_time(grant.expires)}",
        "" if grant.where is None else "within bounds",
    )
