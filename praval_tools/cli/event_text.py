"""An event in a line: who did what to which tool, and why."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from attrs import frozen

from praval_tools.access import events as facts
from praval_tools.cli.times import clock, lasted
from praval_tools.journal import events
from praval_tools.journal.events import DecisionNote
from praval_tools.names import OPERATOR


@frozen
class Line:
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
def line(event: Any) -> Line:
    """Return what a person reads of *event*."""
    return Line(getattr(event, "by", ""), getattr(event, "tool", ""), type(event).__name__)


def _who(event: Any) -> str:
    return event.agent or OPERATOR


def _decided(decision: DecisionNote | None) -> str:
    return "" if decision is None else decision.rule


@line.register
def _call(event: events.AgentToolCall) -> Line:
    again = f" (attempt {event.attempt})" if event.attempt > 1 else ""
    return Line(_who(event), event.tool_name, f"call{again}", _decided(event.decision))


@line.register
def _result(event: events.AgentToolResult) -> Line:
    by = f"resolved by {event.by}" if event.by else ""
    why = ": ".join(one for one in (by, event.error_type, event.error) if one)
    took = lasted(event.latency_ms)
    good = event.outcome == "ok"
    return Line(_who(event), event.tool_name, f"{event.outcome.value}{f', {took}' if took else ''}", why, good)


@line.register
def _refused(event: events.CallRefused) -> Line:
    reason = event.decision.reason if event.decision is not None and not event.decision.allowed else ""
    rule = _decided(event.decision) if reason else (event.error_type or "")
    why = ": ".join(one for one in (rule, reason or event.error) if one)
    return Line(_who(event), event.tool_name, event.outcome.value, why, False)


@line.register
def _rerun(event: events.CallRerun) -> Line:
    return Line(event.by or OPERATOR, event.tool_name, "may run again", f"call {event.tool_call_id}")


@line.register
def _asked(event: events.ApprovalAsked) -> Line:
    return Line(_who(event), event.tool_name, "approval asked", event.reason or f"risk: {event.risk_level}")


@line.register
def _answered(event: events.ApprovalAnswered) -> Line:
    word = "approved" if event.answer == "allow" else "denied"
    about = f"{_who(event)}'s call"
    return Line(event.by, event.tool_name, word, f"{about}: {event.reason}" if event.reason else about, word[0] == "a")


@line.register
def _late(event: events.LateResult) -> Line:
    return Line(_who(event), event.tool_name, f"late: {event.outcome.value}", event.error or "")


@line.register
def _began(event: events.LoopBegan) -> Line:
    return Line(_who(event), "", "loop began", f"with {event.model}" if event.model else "")


@line.register
def _replied(event: events.ModelReplied) -> Line:
    calls = event.reply.get("calls", ()) if isinstance(event.reply, dict) else ()
    asks = f"asks for {len(calls)} call{'' if len(calls) == 1 else 's'}" if calls else "answers"
    took = lasted(event.latency_ms)
    return Line(_who(event), "", f"model replied{f', {took}' if took else ''}", f"step {event.step}: {asks}")


@line.register
def _loaded(event: events.PluginLoaded) -> Line:
    return Line(event.plugin, "", "plugin loaded", f"{len(event.tools)} tools")


@line.register
def _failed(event: events.PluginFailed) -> Line:
    return Line(event.plugin, "", "plugin failed", f"{event.stage}: {event.error}", False)


# ── acts ─────────────────────────────────────────────────────────────────────────────────────────


def _why(reason: str, *details: str) -> str:
    told = ", ".join(one for one in details if one)
    return f"{told}: {reason}" if told and reason else told or reason


@line.register
def _assigned(event: facts.ToolAssigned) -> Line:
    grant = event.grant
    calls = "" if grant.max_calls is None else f"{grant.max_calls} call{'' if grant.max_calls == 1 else 's'}"
    until = "" if grant.expires is None else f"until {clock(grant.expires)}"
    bounds = "" if grant.where is None else "within bounds"
    return Line(event.by, grant.tool, "assigned", _why(grant.reason, f"to {grant.agent}", calls, until, bounds))


@line.register
def _unassigned(event: facts.ToolUnassigned) -> Line:
    return Line(event.by, event.tool, "unassigned", _why(event.reason, f"from {event.agent}"))


@line.register
def _blocked(event: facts.ToolBlocked) -> Line:
    return Line(event.by, event.block.tool, "blocked", _why(event.reason, f"for {event.block.agent}"))


@line.register
def _unblocked(event: facts.ToolUnblocked) -> Line:
    return Line(event.by, event.tool, "unblocked", _why(event.reason, f"for {event.agent}"))


@line.register
def _transferred(event: facts.OwnershipTransferred) -> Line:
    return Line(event.by, event.tool, "transferred", _why(event.reason, f"to {event.to or 'nobody'}"))


@line.register
def _shared(event: facts.ToolShared) -> Line:
    return Line(event.by, event.tool, "shared", event.reason)


@line.register
def _unshared(event: facts.ToolUnshared) -> Line:
    return Line(event.by, event.tool, "unshared", event.reason)


@line.register
def _disabled(event: facts.ToolDisabled) -> Line:
    return Line(event.by, event.name, "disabled", _why(event.reason, _kind(event.kind)))


@line.register
def _enabled(event: facts.ToolEnabled) -> Line:
    return Line(event.by, event.name, "enabled", _why(event.reason, _kind(event.kind)))


def _kind(kind: str) -> str:
    return "" if kind == "tool" else f"the {kind}"


@line.register
def _configured(event: facts.ToolConfigured) -> Line:
    return Line(event.by, event.tool, "configured", _why(event.reason, *sorted(event.changes)))


@line.register
def _listed(event: facts.ToolListed) -> Line:
    return Line(event.by, event.tool, "listed", _why(event.reason, f"by {event.agent}"))


@line.register
def _unregistered(event: facts.ToolUnregistered) -> Line:
    return Line(event.by, event.tool, "unregistered", event.reason)


@line.register
def _revoked(event: facts.GrantRevoked) -> Line:
    return Line(event.by, "", "grant revoked", _why(event.reason, event.grant))


@line.register
def _spent(event: facts.GrantSpent) -> Line:
    return Line(event.by, "", "grant spent", _why(event.reason, *event.grants))


@line.register
def _retired(event: facts.AgentRetired) -> Line:
    return Line(event.by, "", "agent retired", _why(event.reason, event.agent))
