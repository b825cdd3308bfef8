"""An event in a line: who did what to which tool, and why."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from attrs import frozen

from praval_tools.access import events as facts
from praval_tools.cli.times import format_duration, format_time
from praval_tools.journal import events
from praval_tools.journal.events import RecordedDecision
from praval_tools.names import OPERATOR


@frozen
class EventText:
    """
    What a person reads of an event.

    Args:
        who: Who did it.
        tool: What it was done to or with.
        what: What was done, or what came of it.
        why: The rule, the reason, the error.
        good: None: neither good nor bad.
    """

    who: str
    tool: str
    what: str
    why: str = ""
    good: bool | None = None


@singledispatch
def describe_event(event: Any) -> EventText:
    """Return what a person reads of *event*."""
    return EventText(getattr(event, "by", ""), getattr(event, "tool", ""), type(event).__name__)


def _get_agent_name(event: Any) -> str:
    return event.agent or OPERATOR


def _get_rule(decision: RecordedDecision | None) -> str:
    return "" if decision is None else decision.rule


@describe_event.register
def _describe_call(event: events.AgentToolCall) -> EventText:
    again = f" (attempt {event.attempt})" if event.attempt > 1 else ""
    return EventText(_get_agent_name(event), event.tool_name, f"call{again}", _get_rule(event.decision))


@describe_event.register
def _describe_result(event: events.AgentToolResult) -> EventText:
    by = f"resolved by {event.by}" if event.by else ""
    why = ": ".join(one for one in (by, event.error_type, event.error) if one)
    took = format_duration(event.latency_ms)
    good = event.outcome == "ok"
    return EventText(
        _get_agent_name(event), event.tool_name, f"{event.outcome.value}{f', {took}' if took else ''}", why, good
    )


@describe_event.register
def _describe_refusal(event: events.CallRefused) -> EventText:
    reason = event.decision.reason if event.decision is not None and not event.decision.allowed else ""
    rule = _get_rule(event.decision) if reason else (event.error_type or "")
    why = ": ".join(one for one in (rule, reason or event.error) if one)
    return EventText(_get_agent_name(event), event.tool_name, event.outcome.value, why, False)


@describe_event.register
def _describe_rerun(event: events.CallRerun) -> EventText:
    return EventText(event.by or OPERATOR, event.tool_name, "may run again", f"call {event.tool_call_id}")


@describe_event.register
def _describe_approval_request(event: events.ApprovalAsked) -> EventText:
    return EventText(
        _get_agent_name(event), event.tool_name, "approval asked", event.reason or f"risk: {event.risk_level}"
    )


@describe_event.register
def _describe_approval_answer(event: events.ApprovalAnswered) -> EventText:
    word = "approved" if event.answer == "allow" else "denied"
    about = f"{_get_agent_name(event)}'s call"
    return EventText(
        event.by, event.tool_name, word, f"{about}: {event.reason}" if event.reason else about, word[0] == "a"
    )


@describe_event.register
def _describe_late_result(event: events.LateResult) -> EventText:
    return EventText(_get_agent_name(event), event.tool_name, f"late: {event.outcome.value}", event.error or "")


@describe_event.register
def _describe_loop_start(event: events.LoopBegan) -> EventText:
    return EventText(_get_agent_name(event), "", "loop began", f"with {event.model}" if event.model else "")


@describe_event.register
def _describe_model_reply(event: events.ModelReplied) -> EventText:
    calls = event.reply.get("calls", ()) if isinstance(event.reply, dict) else ()
    asks = f"asks for {len(calls)} call{'' if len(calls) == 1 else 's'}" if calls else "answers"
    took = format_duration(event.latency_ms)
    return EventText(
        _get_agent_name(event), "", f"model replied{f', {took}' if took else ''}", f"step {event.step}: {asks}"
    )


@describe_event.register
def _describe_plugin_load(event: events.PluginLoaded) -> EventText:
    return EventText(event.plugin, "", "plugin loaded", f"{len(event.tools)} tools")


@describe_event.register
def _describe_plugin_failure(event: events.PluginFailed) -> EventText:
    return EventText(event.plugin, "", "plugin failed", f"{event.stage}: {event.error}", False)


# ── acts ─────────────────────────────────────────────────────────────────────────────────────────


def _format_reason(reason: str, *details: str) -> str:
    told = ", ".join(one for one in details if one)
    return f"{told}: {reason}" if told and reason else told or reason


@describe_event.register
def _describe_assignment(event: facts.ToolAssigned) -> EventText:
    grant = event.grant
    calls = "" if grant.max_calls is None else f"{grant.max_calls} call{'' if grant.max_calls == 1 else 's'}"
    until = "" if grant.expires is None else f"until {format_time(grant.expires)}"
    bounds = "" if grant.where is None else "within bounds"
    return EventText(
        event.by, grant.tool, "assigned", _format_reason(grant.reason, f"to {grant.agent}", calls, until, bounds)
    )


@describe_event.register
def _describe_unassignment(event: facts.ToolUnassigned) -> EventText:
    return EventText(event.by, event.tool, "unassigned", _format_reason(event.reason, f"from {event.agent}"))


@describe_event.register
def _describe_block(event: facts.ToolBlocked) -> EventText:
    return EventText(event.by, event.block.tool, "blocked", _format_reason(event.reason, f"for {event.block.agent}"))


@describe_event.register
def _describe_unblock(event: facts.ToolUnblocked) -> EventText:
    return EventText(event.by, event.tool, "unblocked", _format_reason(event.reason, f"for {event.agent}"))


@describe_event.register
def _describe_transfer(event: facts.OwnershipTransferred) -> EventText:
    return EventText(event.by, event.tool, "transferred", _format_reason(event.reason, f"to {event.to or 'nobody'}"))


@describe_event.register
def _describe_share(event: facts.ToolShared) -> EventText:
    return EventText(event.by, event.tool, "shared", event.reason)


@describe_event.register
def _describe_unshare(event: facts.ToolUnshared) -> EventText:
    return EventText(event.by, event.tool, "unshared", event.reason)


@describe_event.register
def _describe_disable(event: facts.ToolDisabled) -> EventText:
    return EventText(event.by, event.name, "disabled", _format_reason(event.reason, _format_kind(event.kind)))


@describe_event.register
def _describe_enable(event: facts.ToolEnabled) -> EventText:
    return EventText(event.by, event.name, "enabled", _format_reason(event.reason, _format_kind(event.kind)))


def _format_kind(kind: str) -> str:
    return "" if kind == "tool" else f"the {kind}"


@describe_event.register
def _describe_configuration(event: facts.ToolConfigured) -> EventText:
    return EventText(event.by, event.tool, "configured", _format_reason(event.reason, *sorted(event.changes)))


@describe_event.register
def _describe_listing(event: facts.ToolListed) -> EventText:
    return EventText(event.by, event.tool, "listed", _format_reason(event.reason, f"by {event.agent}"))


@describe_event.register
def _describe_unregistration(event: facts.ToolUnregistered) -> EventText:
    return EventText(event.by, event.tool, "unregistered", event.reason)


@describe_event.register
def _describe_revocation(event: facts.GrantRevoked) -> EventText:
    return EventText(event.by, "", "grant revoked", _format_reason(event.reason, event.grant))


@describe_event.register
def _describe_grant_use(event: facts.GrantSpent) -> EventText:
    return EventText(event.by, "", "grant spent", _format_reason(event.reason, *event.grants))


@describe_event.register
def _describe_retirement(event: facts.AgentRetired) -> EventText:
    return EventText(event.by, "", "agent retired", _format_reason(event.reason, event.agent))
