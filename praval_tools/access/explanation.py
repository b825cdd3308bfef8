"""Explains a decision: every rule in order, whether it holds, why, and what would change the decision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from msgspec.structs import replace

from praval_tools.access.records import GrantRecord, Principal, ToolRecord
from praval_tools.access.rules import (
    AccessRecords,
    AccessResolution,
    choose_path,
    iter_grantless_rules,
    list_live_lineage,
    resolve_access,
)
from praval_tools.access.state import AccessState
from praval_tools.errors import ToolError
from praval_tools.names import describe_author, format_count, suggest_names
from praval_tools.tools.decision import Decision, Tried
from praval_tools.tools.implementation import BoundArguments
from praval_tools.tools.tool import AnyTool

ArgumentBinder = Callable[[AnyTool, object], BoundArguments]
"""Turns the arguments of a call into what the tool will get, or raises."""

PolicyRefusal = Callable[[AnyTool, BoundArguments], Decision | None]
"""Returns the refusal of a policy, if one refuses."""


def explain_decision(
    state: AccessState, principal: Principal, tool: str, now: datetime, arguments: object,
    bind_arguments: ArgumentBinder, find_policy_refusal: PolicyRefusal,
) -> Decision:  # fmt: skip
    """Return the decision with every rule that was tried; on *arguments*, as of a call, unless they are None."""
    resolution = resolve_access(state, principal, tool, now)
    decision = resolution.decision
    if resolution.record is None:
        decision = replace(decision, remedy=_suggest_tool(state, principal, tool) or decision.remedy)
    elif resolution.refusal is None and arguments is not None:
        decision = _decide_on_arguments(
            resolution, resolution.record.tool, arguments, bind_arguments, find_policy_refusal
        )
    return replace(decision, tried=_list_tried_rules(state, principal, tool, now, decision))


def _decide_on_arguments(
    resolution: AccessResolution, tool: AnyTool, arguments: object, bind: ArgumentBinder, find_refusal: PolicyRefusal
) -> Decision:
    try:
        bound = bind(tool, arguments)
    except ToolError as error:  # the arguments do not fit, or the definition has an unresolved type hint
        first, remedy = resolution.decision, "Correct the arguments."
        return Decision(False, "forbidden", error.code, first.agent, first.tool, str(error), remedy)
    _, decision = choose_path(resolution, bound, tool.implementation)
    refusal = find_refusal(tool, bound) if decision.allowed else None
    return decision if refusal is None else refusal


def _suggest_tool(state: AccessState, principal: Principal, tool: str) -> str:
    """Return what may have been meant by the name of an unknown tool."""
    if principal.agent in state.tools and tool in state.profiles:
        return f"{principal.agent!r} is a tool and {tool!r} an agent: swap the two, explain(agent, tool)."
    return suggest_names(tool, state.tools, "Did you mean ")


def _list_tried_rules(
    records: AccessRecords, principal: Principal, tool: str, now: datetime, decision: Decision
) -> tuple[Tried, ...]:
    """Return every rule in order; where *decision* is on arguments that break a grant's bounds, the grant fails."""
    record = records.find_tool_record(tool)
    if record is None:
        return (Tried("unknown", True, f"there is no tool {tool!r}", "register it"),)
    rows = [Tried("unknown", False, f"{tool!r} is registered")]
    off = records.find_disabled_record(record.tool)
    if off is None:
        rows.append(Tried("disabled", False, "it is enabled"))
    else:
        rows.append(Tried("disabled", True, f"{off.kind} {off.name!r} is disabled", f"enable({off.kind}={off.name!r})"))
    members = (principal.agent, *principal.chain)
    blocks = [(member, block) for member in members for block in records.get_access(member, tool).blocks[:1]]
    if blocks:
        member, block = blocks[0]
        why = f"blocked by {describe_author(block.by, block.person)}"
        rows.append(Tried("blocked", True, why, f"unblock({tool!r}, {member!r})"))
    else:
        rows.append(Tried("blocked", False, "no block names the two"))
    retired = [member for member in members if records.get_profile(member).retired]
    rows += [Tried("retired", True, f"{member!r} is retired", "declare it again") for member in retired]
    if decision.rule == "delegation":
        rows.append(Tried("delegation", True, decision.reason, decision.remedy))
    while principal.delegation is not None and principal.delegation.mode == "inherit":
        principal = principal.delegation.parent
    return (*rows, *_iter_tried_permissions(records, principal.agent, record, now, decision))


def _iter_tried_permissions(
    records: AccessRecords, agent: str, record: ToolRecord, now: datetime, decision: Decision
) -> Iterator[Tried]:
    """Yield the rules that permit; where the tool was removed, only a grant is proposed: nothing else gives it back."""
    tool = record.tool.name
    access = records.get_access(agent, tool)
    removed = " (but the tool was removed from this agent)" if access.removed else ""
    for tried in iter_grantless_rules(records.get_profile(agent), record):
        if access.removed:
            tried = replace(tried, holds=False, why=tried.why + (removed if tried.holds else ""), change="")
        yield tried
    live = [lineage[0] for grant_id in access.grants if (lineage := list_live_lineage(records, grant_id, now))]
    breaks_bounds = not decision.allowed and decision.rule == "out-of-bounds"
    why = decision.reason if breaks_bounds else _describe_grants(live)
    wider = ", where={…}" if breaks_bounds else ""  # without bounds it would permit every call
    change = f"assign_tool_to_agent({tool!r}, {agent!r}{wider})"
    yield Tried("granted", bool(live) and not breaks_bounds, why, change)
    if decision.rule == "policy":
        yield Tried("policy", True, decision.reason, decision.remedy)


def _describe_grants(live: list[GrantRecord]) -> str:
    if not live:
        return "no live grant names the two"
    record = live[0]
    left = record.calls_left
    limits = "" if left is None else f", {format_count(left, 'call')} left"
    if record.grant.expires is not None:
        limits += f", until {record.grant.expires.isoformat(timespec='seconds')}"
    if record.grant.where is not None:
        limits += ", with bounds on its arguments"
    more = f" and {len(live) - 1} more" if len(live) > 1 else ""
    return f"granted by {describe_author(record.grant.by, record.grant.person)}{limits}{more}"
