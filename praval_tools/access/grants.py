"""Grants: who may lend what to whom, how narrow, and how it ends; pure plans like those of `authority`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec
from attrs import evolve

from praval_tools.access import events
from praval_tools.access.commands import EventList, get_tool_record, refuse_untrusted_plugin, require_owner
from praval_tools.access.records import MAX_CHAIN_LENGTH, Grant, Principal, is_aware, resolve_expiry
from praval_tools.access.rules import GrantRecord, ToolRecord, can_satisfy_all, get_end_reason, resolve_access
from praval_tools.access.state import AccessState, find_pending_grants_ended_by
from praval_tools.errors import GrantError, NotOwnerError, UnknownGrantError
from praval_tools.lazy_import import load
from praval_tools.names import OPERATOR, shorten_repr


class GrantRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody asks to be granted."""

    tool: str
    agent: str
    key: str | None = None
    reason: str = ""
    expires: datetime | timedelta | None = None
    max_calls: int | None = None
    where: Mapping[str, Any] | None = None
    delegable: bool = False


def plan_grant(
    state: AccessState, wish: GrantRequest, actor: str, now: datetime, new_id: str
) -> tuple[EventList, Grant, str]:
    """Plan a grant; returns the events, the grant (perhaps one that stands already), and a warning."""
    record = get_tool_record(state, wish.tool)
    lenders = _find_lendable_grants(state, record, wish.agent, actor, now)
    if wish.key is not None and (old := state.grant_ids_by_key.get(wish.key)) is not None:
        return [], _check_same_key_grant(state.grants[old].grant, wish), ""
    made = _build_grant(record, wish, actor, now, new_id)
    if lenders is not None:
        made = _lend_from_first_fitting(state, record, made, lenders)
    if made.key is None:
        for grant_id in state.get_access(made.agent, made.tool).grants:
            old_one = state.grants[grant_id]
            if not get_end_reason(old_one, now) and _has_same_terms(old_one.grant, made):
                return [], old_one.grant, ""
        _refuse_stored_removal(state, made)
    return [events.ToolAssigned(grant=made, by=actor, reason=wish.reason)], made, _warn_if_ineffective(state, made, now)


def _refuse_stored_removal(state: AccessState, made: Grant) -> None:
    """Refuse what an earlier process lost: start-up code, which knows nothing of that, must not bring it back."""
    access = state.get_access(made.agent, made.tool)
    removed = access.removed and access.removal_stored
    if removed or any(_is_same_request(state.grants[one].grant, made) for one in access.stored_ended_grants):
        raise AssignmentDeclined(
            f"{made.tool!r} was taken from {made.agent!r} before this process looked; the assignment changes nothing. "
            f"To give it back, say so with a new key: key='…'."
        )


def _check_same_key_grant(old: Grant, wish: GrantRequest) -> Grant:
    if (old.tool, old.agent) != (wish.tool, wish.agent):
        raise GrantError(wish.tool, [f"key {wish.key!r} stands for the grant of {old.tool!r} to {old.agent!r}"])
    return old


def _build_grant(record: ToolRecord, wish: GrantRequest, actor: str, now: datetime, new_id: str) -> Grant:
    problems, bounds = [], None
    until = None
    if wish.max_calls is not None and (type(wish.max_calls) is not int or wish.max_calls < 1):
        problems.append(f"max_calls={shorten_repr(wish.max_calls)} is not a whole number from 1 on")
    if not isinstance(wish.expires, datetime | timedelta | None):
        problems.append(f"expires={shorten_repr(wish.expires)} is neither a timedelta nor a datetime")
    elif isinstance(wish.expires, datetime) and not is_aware(wish.expires):
        problems.append("expires is a datetime without a time zone; use datetime.now(UTC) + … or a timedelta")
    else:
        try:
            until = resolve_expiry(wish.expires, now)
        except OverflowError:
            problems.append("expires is too far away; leave it out for a grant without an end")
        if until is not None and until <= now:
            problems.append("expires is not in the future")
    if wish.where is not None:
        try:
            tool_bounds: Any = load("praval_tools.access.bounds.tool_bounds")  # needed by grants with bounds
            bounds = tool_bounds.compile_tool_bounds(record.tool.implementation, wish.where, wish.tool)
        except GrantError as error:
            problems.extend(error.problems)
    if problems:
        raise GrantError(wish.tool, problems)
    return Grant(
        id=new_id, tool=wish.tool, agent=wish.agent, by=actor, key=wish.key, reason=wish.reason, expires=until,
        max_calls=wish.max_calls, where=wish.where, delegable=wish.delegable, made=now, bounds=bounds,
    )  # fmt: skip


def _find_lendable_grants(
    state: AccessState, record: ToolRecord, agent: str, actor: str, now: datetime
) -> list[GrantRecord] | None:
    """Return the grants that *actor* may lend from, the latest first; None where it needs none: operator, owner."""
    tool, owner = record.tool.name, record.tool.metadata.owned_by
    if actor == OPERATOR:
        if state.get_access(agent, tool).blocks:
            raise AssignmentDeclined(
                f"{agent!r} is blocked from {tool!r}; the assignment changes nothing. Lift it with unblock()."
            )
        return None
    refuse_untrusted_plugin(record, actor, "lend")
    access = state.get_access(actor, tool)
    lost = access.removed and not access.grants
    if access.blocks or lost or state.get_profile(actor).retired:
        why = "a block names it" if access.blocks else "it was removed from it" if lost else "it is retired"
        raise NotOwnerError(actor, "lend", tool, None if owner == actor else owner, why)
    if state.get_access(agent, tool).blocks:
        raise NotOwnerError(actor, f"lend to {agent!r} the", tool, None, "a block names them")
    if owner == actor and not access.removed:
        return None
    held = [state.grants[one] for one in reversed(access.grants) if state.grants[one].grant.delegable]
    live = [one for one in held if not is_over(state, one, now)]
    if not live:
        why = "it was taken from its owner, and no delegable grant gave it back" if owner == actor else ""
        raise NotOwnerError(actor, "lend", tool, owner, why)
    return live


def _lend_from_first_fitting(state: AccessState, record: ToolRecord, made: Grant, lenders: list[GrantRecord]) -> Grant:
    """Return the grant as lent from the first lender that is wide enough, or raise what the last one lacks."""
    for parent in lenders[:-1]:
        try:
            return _lend_from(state, record, made, parent)
        except GrantError:
            continue
    return _lend_from(state, record, made, lenders[-1])


class AssignmentDeclined(Exception):
    """The operator assigns what is blocked, or was taken away: nothing happens, and the caller says so."""


def is_over(state: AccessState, one: GrantRecord, now: datetime) -> bool:
    """Tell whether a grant, or one that it came from, is no way any more."""
    while True:
        if get_end_reason(one, now):
            return True
        if one.grant.parent is None:
            return False
        one = state.grants[one.grant.parent]


def _lend_from(state: AccessState, record: ToolRecord, made: Grant, parent: GrantRecord) -> Grant:
    above, problems = parent.grant, []
    if above.expires is not None and made.expires is not None and made.expires > above.expires:
        problems.append(f"it would outlast the grant that it comes from, which ends {above.expires.isoformat()}")
    left = parent.calls_left
    if left is not None and made.max_calls is not None and made.max_calls > left:
        problems.append(f"it would admit {made.max_calls} calls where the grant that it comes from has {left} left")
    every, one, line = ([made.bounds] if made.bounds else []), parent, 1
    while True:
        line += 1
        if one.grant.bounds is not None:
            every.append(one.grant.bounds)
        if one.grant.parent is None:
            break
        one = state.grants[one.grant.parent]
    if line > MAX_CHAIN_LENGTH:
        problems.append(f"it would be lent on {line} times in a row; more than {MAX_CHAIN_LENGTH} are too many")
    if len(every) > 1 and not can_satisfy_all(tuple(every), record.tool.implementation):
        problems.append("no arguments meet its bounds and those of the grant that it comes from")
    if problems:
        raise GrantError(made.tool, problems)
    return evolve(
        made, parent=above.id, expires=made.expires or above.expires,
        max_calls=made.max_calls if made.max_calls is not None else left,
    )  # fmt: skip


def _is_same_request(old: Grant, new: Grant) -> bool:
    """Tell whether *new* is what made *old*, asked again: also where both last as long, each from its own start on."""
    span = _get_duration(new)
    return _has_same_terms(
        old, evolve(new, expires=old.expires) if span is not None and span == _get_duration(old) else new
    )


def _get_duration(one: Grant) -> timedelta | None:
    return None if one.expires is None or one.made is None else one.expires - one.made


def _has_same_terms(old: Grant, new: Grant) -> bool:
    same = ("by", "reason", "expires", "max_calls", "delegable", "parent")
    return all(getattr(old, name) == getattr(new, name) for name in same) and old.bounds == new.bounds


def _warn_if_ineffective(state: AccessState, made: Grant, now: datetime) -> str:
    """Return a warning where the grant's limits narrow nothing, since the agent has an open way."""
    if made.max_calls is None and made.expires is None and made.bounds is None:
        return ""
    verdict = resolve_access(state, Principal(made.agent), made.tool, now)
    if verdict.refusal is None and verdict.paths and not verdict.paths[0].grants:
        return (
            f"This grant narrows nothing: {verdict.decision.reason} "
            f"Remove the tool first: remove_tool_from_agent({made.tool!r}, {made.agent!r})."
        )
    return ""


def plan_removal(state: AccessState, tool: str, agent: str, actor: str, reason: str) -> EventList:
    """Plan a removal: all ways for the operator, else the grants over which *actor* has a say."""
    access = state.get_access(agent, tool)
    if actor == OPERATOR:
        event = events.ToolUnassigned(tool=tool, agent=agent, by=actor, reason=reason)
        return (
            [] if access.removed and not access.grants and not find_pending_grants_ended_by(state, event) else [event]
        )
    mine = [one for one in access.grants if _may_revoke(state, state.grants[one], actor)]
    if not mine:
        require_owner(state, actor, f"remove from {agent!r} the", tool)
    return [events.GrantRevoked(grant=one, by=actor, reason=reason) for one in mine]


def plan_revocation(state: AccessState, grant_id: str, actor: str, reason: str) -> EventList:
    """Plan a revocation, also of a grant that waits for its tool: that is the operator's."""
    if actor == OPERATOR and state.find_grant(grant_id) is None and state.has_stored_grant(grant_id):
        event = events.GrantRevoked(grant=grant_id, by=actor, reason=reason)
        return [event] if find_pending_grants_ended_by(state, event) else []
    one = get_grant_record(state, grant_id)
    if actor != OPERATOR and not _may_revoke(state, one, actor):
        require_owner(state, actor, "revoke a grant of", one.grant.tool)
    return [] if one.end_reason else [events.GrantRevoked(grant=grant_id, by=actor, reason=reason)]


def get_grant_record(state: AccessState, grant_id: str) -> GrantRecord:
    """
    Return a grant.

    Raises:
        UnknownGrantError: There is none of this id.
    """
    one = state.find_grant(grant_id)
    if one is None:
        raise UnknownGrantError(grant_id[:80])
    return one


def _may_revoke(state: AccessState, one: GrantRecord, actor: str) -> bool:
    """Whether *actor* owns the tool, or the grant came from one that it holds."""
    record = state.find_tool_record(one.grant.tool)
    if state.get_profile(actor).retired:
        return False
    if record is not None and record.tool.metadata.owned_by == actor:
        return True
    parent = one.grant.parent
    while parent is not None:
        above = state.grants[parent].grant
        if above.agent == actor:
            return True
        parent = above.parent
    return False


def list_grants(state: AccessState, filters: Mapping[str, str], now: datetime | None) -> list[Grant]:
    """Return the grants whose fields are as *fits* says, the oldest first; *now* None: also those that are over."""
    found = sorted(state.grants.values(), key=lambda one: one.seq)
    kept = (one.grant for one in found if now is None or not is_over(state, one, now))
    return [one for one in kept if all(getattr(one, key) == value for key, value in filters.items())]
