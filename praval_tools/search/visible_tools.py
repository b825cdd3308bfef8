"""The tools that a principal may call, kept up to date: only what a change of the state concerns is judged again."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from praval_tools.access.queries import find_candidate_tools
from praval_tools.access.records import Principal, ToolRecord, list_members
from praval_tools.access.rules import resolve_access
from praval_tools.access.state import EMPTY_MAP, AccessState


class VisibleTools:
    """
    The records of the tools that *principal* may call, by name, as of the last `update`; not thread-safe.

    Args:
        principal: None: the operator, who sees every tool that is not disabled.
    """

    def __init__(self, principal: Principal | None) -> None:
        self._principal = principal
        self._members = () if principal is None else list_members(principal)
        self._state: AccessState | None = None
        self._unsettled: set[str] = set()
        self.records: dict[str, ToolRecord] = {}

    def update(self, state: AccessState, now: datetime) -> set[str]:
        """Let the records be those of *state* and *now*, as the resolver says of each tool; return what changed."""
        changed = set[str]()
        for name in {*self._find_concerned(state), *self._unsettled}:
            record, is_settled = self._judge(state, name, now)
            if record is not self.records.get(name):
                changed.add(name)
            self._unsettled.discard(name) if is_settled else self._unsettled.add(name)
            if record is None:
                self.records.pop(name, None)
            else:
                self.records[name] = record
        self._state = state
        return changed

    def _find_concerned(self, state: AccessState) -> Iterable[str]:
        """Return the tools of which *state* may say something else than the last one."""
        last = self._state
        if state is last:
            return ()
        if last is None or self._have_new_profiles(last, state):
            return {*self._list_candidates(state), *self.records}
        concerned = last.tools.find_changed_keys(state.tools)
        for kind, value in last.disabled.keys() ^ state.disabled.keys():
            concerned |= {value} if kind == "tool" else state.get_tools_by_label(kind, value).keys()
        for member in self._members:
            before, after = (version.access_by_agent.get(member) or EMPTY_MAP for version in (last, state))
            concerned |= before.find_changed_keys(after)
        for grant_id in last.grants.find_changed_keys(state.grants) if self._members else ():
            record = state.grants.get(grant_id) or last.grants[grant_id]
            concerned.add(record.grant.tool)
        return concerned

    def _have_new_profiles(self, last: AccessState, state: AccessState) -> bool:
        return any(last.profiles.get(member) is not state.profiles.get(member) for member in self._members)

    def _list_candidates(self, state: AccessState) -> Iterable[str]:
        return state.tools if self._principal is None else find_candidate_tools(state, self._principal)

    def _judge(self, state: AccessState, name: str, now: datetime) -> tuple[ToolRecord | None, bool]:
        """
        Return the record of a tool if it may be called, and whether only another state can alter that.

        What time alone does is to end grants; a type hint may be defined at any time.
        """
        record = state.find_tool_record(name)
        if record is None:
            return None, True
        is_resolved = not record.tool.implementation.has_unresolved_hints
        if self._principal is None:
            is_visible = is_resolved and state.find_disabled_record(record.tool) is None
            return record if is_visible else None, is_resolved
        resolution = resolve_access(state, self._principal, name, now)
        if resolution.refusal is None:
            return record, any(path.is_unconditional for path in resolution.paths)
        return None, is_resolved
