"""Queries on an access state: pure functions behind the registry's lists, searches and counts."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any, Final, Protocol

from praval_tools.access.records import AccessRecord, Principal
from praval_tools.access.rules import AccessResolution, list_live_lineage, resolve_access
from praval_tools.access.state import AccessState, sort_by_registration
from praval_tools.errors import ToolUsageError, UnknownToolError
from praval_tools.names import find_similar_names, has_type, is_valid_agent_name, shorten_repr
from praval_tools.tools.tool import AnyTool

_MAX_SIMILAR_TOOLS: Final = 12
"""Of how many tools whose names resemble an unknown one it is decided whether they may be named."""


class UsageSource(Protocol):
    """Where the usage figures of tools come from."""

    def get_stats(self, tool: str, /) -> object:
        """Return the figures of a tool; None where it is unused."""


def find_tool(state: AccessState, name: str) -> AnyTool | None:
    """Return the tool of this name as it is now, if there is one."""
    record = state.find_tool_record(name)
    return None if record is None else record.tool


def select_tools(state: AccessState, names: Iterable[str]) -> list[AnyTool]:
    """Return the tools of these names, in registration order."""
    return [state.tools[name].tool for name in sort_by_registration(state, names)]


def search_tools(
    state: AccessState, name_pattern: str | None, category: str | None, owner: str | None, shared_only: bool,
    tags: Iterable[str] | None,
) -> list[AnyTool]:  # fmt: skip
    """Return the tools that meet every condition; any of *tags* suffices, *name_pattern* is a part of the name."""
    labels = (("category", category), ("owner", owner))
    matches: list[Collection[str]] = [state.get_tools_by_label(kind, value) for kind, value in labels if value]
    if shared_only:
        matches.append(state.get_tools_by_label("shared", ""))
    if tags:
        matches.append({name for tag in tags for name in state.get_tools_by_label("tag", tag)})
    smallest: Collection[str] = min(matches, key=len) if matches else state.tools
    names = [name for name in smallest if all(name in match for match in matches)]
    if name_pattern is not None:
        if not has_type(name_pattern, str):
            raise ToolUsageError(f"name_pattern={shorten_repr(name_pattern)} is not a text.")
        names = [name for name in names if name_pattern.lower() in name.lower()]
    return select_tools(state, names)


def compute_stats(state: AccessState) -> dict[str, Any]:
    """Return the counts that Praval's registry gives; agents with tools own, list or were granted one."""
    categories = {str(value): len(names) for (kind, value), names in state.tools_by_label.items() if kind == "category"}
    owners = {value for kind, value in state.tools_by_label if kind == "owner" and value is not None}
    granted = {
        name for name, access in state.access_by_agent.items() if any(record.grants for record in access.values())
    }
    listing = {name for name, profile in state.profiles.items() if any(tool in state.tools for tool in profile.tools)}
    return {
        "total_tools": len(state.tools),
        "shared_tools": len(state.get_tools_by_label("shared", "")),
        "agents_with_tools": len(owners | granted | listing),
        "categories": len(categories),
        "tools_by_category": dict(sorted(categories.items())),
    }


def describe_tool(state: AccessState, name: str, usage: UsageSource) -> dict[str, object] | None:
    """Return definition, metadata and usage figures of a tool, if there is one."""
    tool = find_tool(state, name)
    if tool is None:
        return None
    definition, metadata = tool.definition.to_dict(), tool.metadata.to_dict()
    return {"definition": definition, "metadata": metadata, "usage_stats": usage.get_stats(name)}


def find_candidate_tools(state: AccessState, principal: Principal) -> list[str]:
    """Return the tools that any rule could give *principal* or its delegators, in registration order."""
    names = {name for agent in (principal.agent, *principal.chain) for name in state.find_candidate_tools(agent)}
    return sort_by_registration(state, names)


def find_similar_callable_tools(state: AccessState, principal: Principal, name: str, now: datetime) -> list[str]:
    """Return the names that resemble *name*, of tools that *principal* may call; never that name itself."""
    similar = find_similar_names(name, find_candidate_tools(state, principal), _MAX_SIMILAR_TOOLS)
    others = (tool for tool in similar if tool != name)
    return [tool for tool in others if resolve_access(state, principal, tool, now).refusal is None][:3]


def list_undeclared_agents(state: AccessState, now: datetime) -> list[str]:
    """Return the names, sorted, of agents that nobody declares, and that own a tool or hold a live grant."""
    owners = {str(value) for kind, value in state.tools_by_label if kind == "owner" and value is not None}
    holders = {
        agent
        for agent, accesses in state.access_by_agent.items()
        if not state.get_profile(agent).declared
        and any(has_live_grant(state, access, now) for access in accesses.values())
    }
    names = holders | {owner for owner in owners if is_valid_agent_name(owner)}
    return sorted(name for name in names if not state.get_profile(name).declared)


def has_live_grant(state: AccessState, access: AccessRecord, now: datetime) -> bool:
    """Tell whether one of the grants that *access* records is live."""
    return any(list_live_lineage(state, grant_id, now) for grant_id in access.grants)


def list_permitting_resolutions(state: AccessState, principal: Principal, now: datetime) -> list[AccessResolution]:
    """Return the resolutions for the tools that *principal* may call, in registration order."""
    resolutions = (resolve_access(state, principal, name, now) for name in find_candidate_tools(state, principal))
    return [resolution for resolution in resolutions if resolution.refusal is None]


def list_callable_tools(state: AccessState, principal: Principal, now: datetime) -> list[AnyTool]:
    """Return the tools that *principal* may call, in registration order."""
    resolutions = list_permitting_resolutions(state, principal, now)
    return [resolution.record.tool for resolution in resolutions if resolution.record is not None]


def list_enabled_tools(state: AccessState, name: str | None) -> list[AnyTool]:
    """
    Return the tools that are not disabled, in registration order.

    Args:
        state: The state.
        name: Only the tool of this name; None: all.

    Raises:
        UnknownToolError: There is no such tool.
    """
    if name is not None and (name := state.resolve_tool_name(name)) not in state.tools:
        raise UnknownToolError(name, find_similar_names(name, state.tools))
    tools = select_tools(state, state.tools if name is None else [name])
    return [tool for tool in tools if state.find_disabled_record(tool) is None]
