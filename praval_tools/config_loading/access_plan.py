"""Plans what declarations change of agents, blocks, disabled categories and grants, for any state of a registry."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Set
from datetime import datetime, timedelta
from hashlib import sha256

from msgspec.structs import replace

from praval_tools.access import events
from praval_tools.access.grants import GrantRequest, plan_grant
from praval_tools.access.permissions import Grant, GrantTerms
from praval_tools.access.records import AgentProfile, Block
from praval_tools.access.state import AccessState, get_block_key, get_declarer, get_disabling_key
from praval_tools.access.transitions import apply_events
from praval_tools.access.withdrawals import plan_agent_withdrawal
from praval_tools.clock import Clock
from praval_tools.config.system import AgentConfig, GrantConfig
from praval_tools.config_loading.checks import read_expiry
from praval_tools.config_loading.declarations import Declarations, Located, ProblemCollector
from praval_tools.config_loading.in_force import InForce
from praval_tools.errors import DuplicateAgentError, UnknownToolError
from praval_tools.names import OPERATOR, check_agent_name, find_file_label, find_similar_names
from praval_tools.tools.frames import get_current_person


class AccessPlan:
    """
    Plans the access that is declared; each plan may be asked again, where another process changed something meanwhile.

    Args:
        declarations: What is declared.
        labels: What stands for each file in records.
        own: What stands for the files of this configuration, those of before too.
        previous: What it brought before.
        new: What it brings now; receives what is planned.
        problems: Receives what is wrong.
        clock: Time and ids for new grants.
        awaits_plugins: Any tool may be one of a plugin that is not loaded.
    """

    def __init__(
        self, declarations: Declarations, labels: Mapping[str, str], own: Set[str], previous: InForce,
        new: InForce, problems: ProblemCollector, clock: Clock, *, awaits_plugins: bool,
    ) -> None:  # fmt: skip
        self._declarations, self._labels, self._own, self._awaits_plugins = declarations, labels, own, awaits_plugins
        self._previous, self._new, self._problems, self._clock = previous, new, problems, clock
        self.doubts: dict[str, str] = {}
        """What is doubtful about grants, by their keys."""

    def plan_gone_agents(self, state: AccessState) -> Iterator[events.AnyStateEvent]:
        """Plan that agents that are not declared any more are retired here alone: other programs may declare them."""
        known = self._previous.agents
        for name in sorted(known.keys() - self._declarations.agents.keys()):
            yield from plan_agent_withdrawal(state, name, known[name].place, "not declared any more")

    def plan_agents(self, state: AccessState) -> Iterator[events.AnyStateEvent]:
        """Plan the agents that are declared."""
        known, self._new.agents = self._previous.agents, {}
        for name, entry in self._declarations.agents.items():
            profile, old = self._build_profile(name, entry), state.get_profile(name)
            before = known.get(name)
            if before is not None and old.place == before.place and _has_same_terms(before, profile):
                self._new.agents[name] = before
                continue
            if old.declared and not old.retired and (before is None or old.place != before.place):
                error = DuplicateAgentError(name, old.place or "an earlier place", profile.place)
                self._problems.report(entry, str(error))
                continue
            self._new.agents[name] = profile
            if before is None or not old.retired:
                since = () if before is None else (tool for tool in old.tools if tool not in before.tools)
                tools = tuple(dict.fromkeys((*profile.tools, *since)))
                yield events.AgentDeclared(profile=replace(profile, tools=tools))

    def _build_profile(self, name: str, entry: Located[AgentConfig]) -> AgentProfile:
        value = entry.value
        return AgentProfile(
            name=name, tools=tuple(dict.fromkeys(value.tools)), tool_categories=value.tool_categories,
            auto_discover_tools=value.auto_discover_tools, declared=True, place=f"{entry.document.file}:{entry.line}",
            config_file=entry.document.file,
        )  # fmt: skip

    def _get_label(self, entry: Located[object]) -> str:
        """Return what stands for the file of *entry* in records."""
        return self._labels[entry.document.file]

    def plan_blocks(self, state: AccessState) -> Iterator[events.AnyStateEvent]:
        """Plan the end of the blocks that are not declared any more, and the declared ones that nobody lifted."""
        entries = [(self._get_label(entry), entry.value) for entry in self._declarations.blocks]
        blocks = [Block(tool=entry.tool, agent=entry.agent, by=by, reason=entry.reason) for by, entry in entries]
        declared = set({(block.by, block.tool, block.agent): block for block in blocks}.values())
        accesses = (access for tools in state.access_by_agent.values() for access in tools.values())
        own = {block for access in accesses for block in access.blocks if block.by in self._own}
        previous = self._previous.blocks
        lifted = {block for block in previous if get_block_key(block.tool, block.agent, block.by) in state.lifted}
        for block in (own | lifted) - declared:
            yield events.ToolUnblocked(tool=block.tool, agent=block.agent, setter=block.by, by=block.by)
        for block in sorted(declared - own - lifted, key=lambda block: (block.agent, block.tool)):
            yield events.ToolBlocked(block=block, by=block.by, reason=block.reason)
        self._new.blocks = declared

    def plan_disabling(self, state: AccessState) -> Iterator[events.AnyStateEvent]:
        """Plan which categories are enabled again, and which are disabled, as for blocks."""
        categories = self._declarations.categories.items()
        declared = {(self._get_label(entry), name) for name, entry in categories if not entry.value.enabled}
        records = (off for disablings in state.disabled.values() for off in disablings if off.kind == "category")
        own = {(off.by, off.name) for off in records if off.by in self._own}
        previous = self._previous.disabled
        lifted = {
            (label, name) for label, name in previous if get_disabling_key("category", name, label) in state.lifted
        }
        for label, name in sorted((own | lifted) - declared):
            yield events.ToolEnabled(kind="category", name=name, setter=label, by=label)
        for label, name in sorted(declared - own - lifted):
            yield events.ToolDisabled(kind="category", name=name, by=label, reason="enabled: false")
        self._new.disabled = declared

    def plan_grants(self, state: AccessState) -> list[events.AnyStateEvent]:
        """Plan the end of the grants that are not declared any more, and the declared ones whose tools are there."""
        keyed = self._key_grants(state)
        planned = self._plan_ends(state, keyed)
        state = apply_events(state, planned)
        self._new.waiting_grants, self._new.blocked_grants = [], []
        for key, entry in keyed.items():
            made = self._plan_grant(state, key, entry) if self._has_tool(state, entry) else []
            state = apply_events(state, made)
            planned += made
        return planned

    def _key_grants(self, state: AccessState) -> dict[str, Located[GrantConfig]]:
        """Return the declared grants by their keys: file and terms, with a number where such a grant was made."""
        keyed, numbers, withdrawn = dict[str, Located[GrantConfig]](), Counter[str](), _list_withdrawn_keys(state)
        for entry in self._declarations.grants:
            if self._problems.is_known_of(entry):
                continue
            key = base = f"{self._get_label(entry)}:{_compute_digest(entry.value)}"
            while key in keyed or key in withdrawn:
                numbers[base] += 1
                key = f"{base}#{numbers[base]}"
            keyed[key] = entry
        return keyed

    def _plan_ends(self, state: AccessState, declared: Container[str]) -> list[events.AnyStateEvent]:
        """Plan the end of the grants that are not declared any more, also of those that wait for their tools."""
        grants = [record.grant for record in state.grants.values() if not record.end_reason]
        grants += [grant for _, grant in state.iter_pending_grants(None)]
        return [
            events.GrantRevoked(grant=grant.id, by=label, reason="not declared any more")
            for grant in grants
            if grant.by == OPERATOR and (label := find_file_label(grant.key)) in self._own and grant.key not in declared
        ]

    def _has_tool(self, state: AccessState, entry: Located[GrantConfig]) -> bool:
        """
        Tell whether the tool is there; if not, it is awaited, a problem of its own, or one of this entry.

        One that code of an agent declared while it ran is another tool: the grant waits for the operator's.
        """
        name = entry.value.tool
        record = state.find_tool_record(name)
        if record is not None and not get_declarer(record.tool):
            return True
        if record is not None or self._new.may_have(name):
            self._new.waiting_grants.append(entry)
        elif name not in self._declarations.names and not self._awaits_plugins:
            similar = find_similar_names(name, [*state.tools, *self._declarations.names])
            self._problems.report(entry, str(UnknownToolError(name, similar)), "tool")
        return False

    def _plan_grant(self, state: AccessState, key: str, entry: Located[GrantConfig]) -> list[events.AnyStateEvent]:
        """Plan a grant, unless the agent is blocked: a block at run time is not a mistake of the file."""
        tool, agent, now = entry.value.tool, entry.value.agent, self._clock.now()
        if state.get_access(agent, tool).blocks:
            self._new.blocked_grants.append(entry)
            return []
        with self._problems.collecting(entry, *(("where",) if entry.value.where is not None else ())):
            terms, person = _read_terms(key, entry.value), get_current_person()
            request = GrantRequest(tool=tool, agent=check_agent_name(agent), person=person, **terms)
            planned, _, doubt = plan_grant(state, request, OPERATOR, now, self._clock.new_id(), state)
            if doubt:
                self.doubts[key] = doubt
            return planned
        return []


def _list_withdrawn_keys(state: AccessState) -> set[str]:
    """Return the keys of the grants that ended since no file declared them any more, and by nobody else."""
    withdrawn, ended_by_others = set[str](), set[str]()
    for grant, is_withdrawn in _iter_ended_grants(state):
        if grant.by == OPERATOR and grant.key is not None:
            if is_withdrawn:
                withdrawn.add(grant.key)
            elif grant.parent is None:  # the end of a grant whose place another took is that of both
                ended_by_others.add(grant.key)
    return withdrawn - ended_by_others


def _iter_ended_grants(state: AccessState) -> Iterator[tuple[Grant, bool]]:
    """Yield the grants that ended, also those without tools, with whether the file of their key ended them."""
    for record in state.grants.values():
        if record.end_reason:
            yield record.grant, record.end_reason == f"revoked by {find_file_label(record.grant.key)!r}"
    for tool in state.stored_changes:
        changes = state.list_stored_changes(tool)
        enders = {stored.key: stored.change.by for stored in changes if isinstance(stored.change, events.GrantRevoked)}
        for stored in changes:
            if stored.key in enders and isinstance(stored.change, events.ToolAssigned):
                grant = stored.change.grant
                yield grant, enders[stored.key] == find_file_label(grant.key)


def _has_same_terms(first: AgentProfile, second: AgentProfile) -> bool:
    return (first.tools, first.tool_categories, first.auto_discover_tools) == (
        second.tools, second.tool_categories, second.auto_discover_tools
    )  # fmt: skip


def _read_terms(key: str, entry: GrantConfig) -> GrantTerms:
    expires: datetime | timedelta | None
    try:
        expires = read_expiry(entry)
    except ValueError:  # among the problems already
        expires = None
    return {
        "key": key, "reason": entry.reason, "expires": expires, "max_calls": entry.max_calls, "where": entry.where,
        "delegable": entry.delegable,
    }  # fmt: skip


def _compute_digest(entry: GrantConfig) -> str:
    """Return what is equal for equal entries: whoever changes the terms of a grant declares another one."""
    values = [entry.tool, entry.agent, entry.max_calls, str(entry.expires), entry.where, entry.delegable, entry.reason]
    return sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()[:16]
