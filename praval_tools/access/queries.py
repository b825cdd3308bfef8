"""What a state shows: pure functions behind the registry's lists, searches, exports and explanations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from praval_tools.access.records import Principal
from praval_tools.access.rules import Verdict, choose, judge, tried
from praval_tools.access.state import State, in_order
from praval_tools.errors import ToolError
from praval_tools.names import near
from praval_tools.tools.decision import Decision
from praval_tools.tools.implementation import Bound
from praval_tools.tools.tool import Tool

Bind = Callable[[Tool[..., Any], Any], Bound]
Ask = Callable[[Tool[..., Any], Bound], Decision | None]


def tool_of(state: State, name: str) -> Tool[..., Any] | None:
    """Return the tool of this name as it is now; None: there is none."""
    record = state.record(name)
    return None if record is None else record.tool


def tools_of(state: State, names: Iterable[str]) -> list[Tool[..., Any]]:
    """Return the tools of these names, in registration order."""
    return [state.tools[name].tool for name in in_order(state, names)]


def search(
    state: State, name_pattern: str | None, category: str | None, owner: str | None, shared_only: bool,
    tags: Iterable[str] | None,
) -> list[Tool[..., Any]]:  # fmt: skip
    """Return the tools that meet every condition; any of *tags* suffices, *name_pattern* is a part of the name."""
    wanted: list[Collection[str]] = [state.labelled("shared", "")] if shared_only else []
    wanted += [state.labelled(kind, value) for kind, value in (("category", category), ("owner", owner)) if value]
    if tags:
        wanted.append({name for tag in tags for name in state.labelled("tag", tag)})
    names: Collection[str] = min(wanted, key=len) if wanted else state.tools
    found = [name for name in names if all(name in one for one in wanted)]
    if name_pattern:
        found = [name for name in found if name_pattern.lower() in name.lower()]
    return tools_of(state, found)


def stats(state: State) -> dict[str, Any]:
    """Return the counts that Praval's registry gives; agents with tools own, list or were granted one."""
    categories = {str(value): len(names) for (kind, value), names in state.labels.items() if kind == "category"}
    owners = {value for kind, value in state.labels if kind == "owner" and value is not None}
    granted = {name for name, held in state.accesses.items() if any(one.grants for one in held.values())}
    listing = {name for name, profile in state.agents.items() if any(tool in state.tools for tool in profile.tools)}
    return {
        "total_tools": len(state.tools),
        "shared_tools": len(state.labelled("shared", "")),
        "agents_with_tools": len(owners | granted | listing),
        "categories": len(categories),
        "tools_by_category": dict(sorted(categories.items())),
    }


def tool_info(state: State, name: str, usage: Any) -> dict[str, Any] | None:
    """Return definition, metadata and figures of a tool; None: no such tool. The figures: None where it is unused."""
    record = state.record(name)
    if record is None:
        return None
    tool = record.tool
    return {
        "definition": tool.definition.to_dict(), "metadata": tool.metadata.to_dict(),
        "usage_stats": usage.get_stats(name),
    }  # fmt: skip


def callable_tools(state: State, who: Principal, now: datetime) -> list[Tool[..., Any]]:
    """Return the tools that *who* may call, in registration order."""
    return [one.record.tool for one in permitting(state, who, now) if one.record is not None]


def candidates(state: State, who: Principal) -> list[str]:
    """Return the tools that any rule could give *who* or those for whom it acts, in registration order."""
    names: set[str] = set()
    member: Principal | None = who
    while member is not None:
        names.update(state.candidates(member.agent))
        member = member.delegation.parent if member.delegation is not None else None
    return in_order(state, names)


def permitting(state: State, who: Principal, now: datetime) -> list[Verdict]:
    """Return the verdicts on the tools that *who* may call, in registration order."""
    verdicts = (judge(state, who, name, now) for name in candidates(state, who))
    return [one for one in verdicts if one.refusal is None and one.record is not None]


def explained(
    state: State, who: Principal, tool: str, now: datetime, arguments: Any, bind: Bind, ask: Ask
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
    verdict = judge(state, who, tool, now)
    decision = verdict.decision
    if verdict.record is not None and verdict.refusal is None and arguments is not None:
        decision = _on_arguments(verdict, verdict.record.tool, arguments, bind, ask)
    if verdict.record is None:
        decision = replace(decision, remedy=_meant(state, who, tool) or decision.remedy)
    return replace(decision, tried=tried(state, who, tool, now, decision))


def _on_arguments(verdict: Verdict, tool: Tool[..., Any], arguments: Any, bind: Bind, ask: Ask) -> Decision:
    definition, first = tool.definition_, verdict.decision
    try:
        bound = bind(tool, arguments)
    except ToolError as error:  # the arguments do not fit, or the definition leads nowhere
        return Decision(False, "forbidden", error.code, first.agent, first.tool, str(error), "Mend the arguments.")
    _, decision = choose(verdict, bound.arguments, lambda: definition.filled(bound))
    refusal = ask(tool, bound) if decision.allowed else None
    return decision if refusal is None else refusal


def _meant(state: State, who: Principal, tool: str) -> str:
    """Return what may have been meant by the name of an unknown tool."""
    if who.agent in state.tools and tool in state.agents:
        return f"{who.agent!r} is a tool and {tool!r} an agent: swap the two, explain(agent, tool)."
    match = near(tool, state.tools)
    return f"Did you mean {' or '.join(map(repr, match))}?" if match else ""
