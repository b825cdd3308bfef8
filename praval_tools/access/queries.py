"""What a state shows: pure functions behind the registry's lists, searches, exports and explanations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from praval_tools.access.records import Principal
from praval_tools.access.rules import AccessResolution, choose_path, list_tried_rules, resolve_access
from praval_tools.access.state import AccessState, sort_by_registration
from praval_tools.errors import ToolError
from praval_tools.names import suggest_names
from praval_tools.tools.decision import Decision
from praval_tools.tools.implementation import BoundArguments
from praval_tools.tools.tool import Tool

ArgumentBinder = Callable[[Tool[..., Any], Any], BoundArguments]
PolicyRefusal = Callable[[Tool[..., Any], BoundArguments], Decision | None]


def find_tool(state: AccessState, name: str) -> Tool[..., Any] | None:
    """Return the tool of this name as it is now; None: there is none."""
    record = state.find_tool_record(name)
    return None if record is None else record.tool


def select_tools(state: AccessState, names: Iterable[str]) -> list[Tool[..., Any]]:
    """Return the tools of these names, in registration order."""
    return [state.tools[name].tool for name in sort_by_registration(state, names)]


def search_tools(
    state: AccessState, name_pattern: str | None, category: str | None, owner: str | None, shared_only: bool,
    tags: Iterable[str] | None,
) -> list[Tool[..., Any]]:  # fmt: skip
    """Return the tools that meet every condition; any of *tags* suffices, *name_pattern* is a part of the name."""
    wanted: list[Collection[str]] = [state.get_tools_by_label("shared", "")] if shared_only else []
    wanted += [
        state.get_tools_by_label(kind, value) for kind, value in (("category", category), ("owner", owner)) if value
    ]
    if tags:
        wanted.append({name for tag in tags for name in state.get_tools_by_label("tag", tag)})
    names: Collection[str] = min(wanted, key=len) if wanted else state.tools
    found = [name for name in names if all(name in one for one in wanted)]
    if name_pattern:
        found = [name for name in found if name_pattern.lower() in name.lower()]
    return select_tools(state, found)


def compute_stats(state: AccessState) -> dict[str, Any]:
    """Return the counts that Praval's registry gives; agents with tools own, list or were granted one."""
    categories = {str(value): len(names) for (kind, value), names in state.tools_by_label.items() if kind == "category"}
    owners = {value for kind, value in state.tools_by_label if kind == "owner" and value is not None}
    granted = {name for name, held in state.access_by_agent.items() if any(one.grants for one in held.values())}
    listing = {name for name, profile in state.profiles.items() if any(tool in state.tools for tool in profile.tools)}
    return {
        "total_tools": len(state.tools),
        "shared_tools": len(state.get_tools_by_label("shared", "")),
        "agents_with_tools": len(owners | granted | listing),
        "categories": len(categories),
        "tools_by_category": dict(sorted(categories.items())),
    }


def describe_tool(state: AccessState, name: str, usage: Any) -> dict[str, Any] | None:
    """Return definition, metadata and figures of a tool; None: no such tool. The figures: None where it is unused."""
    record = state.find_tool_record(name)
    if record is None:
        return None
    tool = record.tool
    return {
        "definition": tool.definition.to_dict(), "metadata": tool.metadata.to_dict(),
        "usage_stats": usage.get_stats(name),
    }  # fmt: skip


def list_callable_tools(state: AccessState, who: Principal, now: datetime) -> list[Tool[..., Any]]:
    """Return the tools that *who* may call, in registration order."""
    return [one.record.tool for one in list_permitting_resolutions(state, who, now) if one.record is not None]


def find_candidate_tools(state: AccessState, who: Principal) -> list[str]:
    """Return the tools that any rule could give *who* or those for whom it acts, in registration order."""
    names: set[str] = set()
    member: Principal | None = who
    while member is not None:
        names.update(state.find_candidate_tools(member.agent))
        member = member.delegation.parent if member.delegation is not None else None
    return sort_by_registration(state, names)


def list_permitting_resolutions(state: AccessState, who: Principal, now: datetime) -> list[AccessResolution]:
    """Return the verdicts on the tools that *who* may call, in registration order."""
    verdicts = (resolve_access(state, who, name, now) for name in find_candidate_tools(state, who))
    return [one for one in verdicts if one.refusal is None and one.record is not None]


def explain_decision(
    state: AccessState,
    who: Principal,
    tool: str,
    now: datetime,
    arguments: Any,
    bind_arguments: ArgumentBinder,
    find_policy_refusal: PolicyRefusal,
) -> Decision:
    """
    Return the decision with every rule that was tried.

    Args:
        state: What is so now.
        who: Who asks.
        tool: For which tool.
        now: When.
        arguments: What the call would pass, as a call takes it; None: not asked.
        bind: Makes of the arguments what the tool will get.
        ask: Gives the refusal of a policy, if one refuses.
    """
    verdict = resolve_access(state, who, tool, now)
    decision = verdict.decision
    if verdict.record is not None and verdict.refusal is None and arguments is not None:
        decision = _decide_on_arguments(verdict, verdict.record.tool, arguments, bind_arguments, find_policy_refusal)
    if verdict.record is None:
        decision = replace(decision, remedy=_suggest_tool(state, who, tool) or decision.remedy)
    return replace(decision, tried=list_tried_rules(state, who, tool, now, decision))


def _decide_on_arguments(
    verdict: AccessResolution, tool: Tool[..., Any], arguments: Any, bind: ArgumentBinder, ask: PolicyRefusal
) -> Decision:
    definition, first = tool.implementation, verdict.decision
    try:
        bound = bind(tool, arguments)
    except ToolError as error:  # the arguments do not fit, or the definition leads nowhere
        return Decision(False, "forbidden", error.code, first.agent, first.tool, str(error), "Mend the arguments.")
    _, decision = choose_path(verdict, bound.arguments, lambda: definition.fill_defaults(bound))
    refusal = ask(tool, bound) if decision.allowed else None
    return decision if refusal is None else refusal


def _suggest_tool(state: AccessState, who: Principal, tool: str) -> str:
    """Return what may have been meant by the name of an unknown tool."""
    if who.agent in state.tools and tool in state.profiles:
        return f"{who.agent!r} is a tool and {tool!r} an agent: swap the two, explain(agent, tool)."
    return suggest_names(tool, state.tools, "Did you mean ")
