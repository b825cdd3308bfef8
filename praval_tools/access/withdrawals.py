"""Plans what leaves one registry, or is replaced in it, while other programs on its journal keep what they have."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Set

from praval_tools.access.commands import EventList
from praval_tools.access.events import AgentDeclared, AnyStateEvent, GrantRevoked, ToolRegistered, ToolWithdrawn
from praval_tools.access.records import AgentProfile
from praval_tools.access.restore import is_other_version
from praval_tools.access.state import AccessState
from praval_tools.names import OPERATOR, find_file_label
from praval_tools.tools.tool import AnyTool


def plan_withdrawal(
    state: AccessState, tools: Collection[str], reason: str, files: Set[str] = frozenset()
) -> EventList:
    """
    Plan that *tools* leave this registry, save those that are not there: their grants wait in the journal.

    Without a journal, they end; what files grant is made again once these are loaded again.

    Args:
        state: The state.
        tools: The names of the tools.
        reason: Why they leave.
        files: What stands for the files that are loaded just now: what they grant of the tools ends.
    """
    withdrawn = [ToolWithdrawn(tool=tool, reason=reason) for tool in tools if tool in state.tools]
    return [*_plan_revocations(state, tools, reason, files), *withdrawn]


def plan_replacement(state: AccessState, tool: AnyTool) -> EventList:
    """Plan that *tool* takes the place of the one of its name; another version gets what it would after a start."""
    is_other = is_other_version(state.tools[tool.name], tool)
    ends = _plan_revocations(state, [tool.name], "another version took its place") if is_other else ()
    return [*ends, ToolRegistered(tool=tool, replaces=True, redeclares=True, is_other_version=is_other)]


def _plan_revocations(
    state: AccessState, tools: Collection[str], reason: str, files: Set[str] = frozenset()
) -> Iterator[AnyStateEvent]:
    """Plan that what files grant of *tools* ends: what these *files* do, and what no journal holds."""
    for record in state.grants.values():
        grant, label = record.grant, find_file_label(record.grant.key)
        if not label or grant.by != OPERATOR or grant.tool not in tools or record.end_reason:
            continue
        if label in files or not record.stored:
            yield GrantRevoked(grant=grant.id, by=label, reason=reason)


def plan_agent_withdrawal(state: AccessState, agent: str, place: str, reason: str) -> EventList:
    """Plan that an agent that *place* declared is retired in this registry alone; other programs may declare it."""
    profile = state.get_profile(agent)
    if profile.place != place or profile.retired:
        return []
    retired = AgentProfile(name=agent, declared=True, retired=True, place=place)
    return [AgentDeclared(profile=retired, reason=reason)]
