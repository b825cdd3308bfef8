"""Checks requests to grant, lend and revoke access to a tool, and returns the events that do it; pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import msgspec
from attrs import evolve
from msgspec.structs import replace

from praval_tools.access import events
from praval_tools.access.bounds.given_bounds import to_plain_bounds
from praval_tools.access.commands import EventList, get_tool_record, refuse_untrusted_plugin, require_owner
from praval_tools.access.permissions import (
    Grant,
    compile_bounds,
    get_terms_key,
    has_same_key,
    has_time_zone,
    list_request_keys,
    resolve_expiry,
)
from praval_tools.access.records import MAX_CHAIN_LENGTH, GrantRecord, Principal, ToolRecord
from praval_tools.access.redeclaration import plan_redeclaration
from praval_tools.access.rules import can_satisfy_all, list_lineage, list_live_lineage, resolve_access
from praval_tools.access.state import (
    EMPTY_MAP,
    AccessState,
    find_ended_grant,
    find_pending_grants_ended_by,
    get_tool_origin,
)
from praval_tools.errors import GrantError, NotOwnerError, ToolUsageError, UnknownGrantError
from praval_tools.names import OPERATOR, format_count, has_type, shorten_repr, to_plain_text
from praval_tools.values.plain_times import to_plain_time


class GrantRequest(msgspec.Struct, frozen=True, kw_only=True):
    """
    What somebody asks to be granted.

    Its texts, times and bounds are plain: what others read and compare later runs no code of who asked.
    """

    tool: str
    agent: str
    key: str | None = None
    reason: str = ""
    expires: datetime | timedelta | None = None
    max_calls: int | None = None
    where: Mapping[str, object] | None = None
    delegable: bool = False
    person: str = ""

    def __post_init__(self) -> None:
        plain = {
            "key": None if self.key is None else to_plain_text(self.key),
            "reason": to_plain_text(self.reason),
            "expires": to_plain_time(self.expires),
            "where": to_plain_bounds(self.where),
        }
        for name, value in plain.items():
            msgspec.structs.force_setattr(self, name, value)


class AssignmentDeclined(Exception):
    """The operator's code assigns what is blocked, or was taken away: nothing happens, and the caller says so."""


def plan_grant(
    state: AccessState, request: GrantRequest, actor: str, now: datetime, new_id: str, known_state: AccessState
) -> tuple[EventList, Grant, str]:
    """
    Plan a grant.

    Args:
        state: For which it is planned.
        request: What is asked for.
        actor: Who asks.
        now: The moment.
        new_id: For the grant, where it has no key that it follows from.
        known_state: The state that this process knew when it was asked for.

    Returns:
        The events, the grant (perhaps one that is recorded already), and a warning.
    """
    record = get_tool_record(state, request.tool)
    lenders = _find_lendable_grants(state, record, request.agent, actor, now)
    if (previous := find_same_key_grant(state, request, actor)) is not None:
        if previous.id not in state.grants or state.grants[previous.id].has_ended(now):
            return [], previous, ""
        declared = _build_grant(record, request, actor, previous.made or now, new_id)
        if lenders is not None:  # what is left out follows from the grant that it was lent from
            left_out = [name for name in ("expires", "max_calls") if not getattr(declared, name)]
            inherited = {name: getattr(previous, name) for name in left_out}
            declared = evolve(declared, **inherited)
        return plan_redeclaration(state, record, previous, declared, actor)
    grant = _build_grant(record, request, actor, now, _derive_id(state, record, request, actor) or new_id)
    if grant.key is None and (identical := _find_identical_grant(state, grant, lenders, now)) is not None:
        return [], identical, ""
    if lenders is not None:
        grant = _lend_from_first_sufficient_grant(state, record, grant, lenders)
    if grant.key is None:
        _refuse_earlier_removal(state, grant)
        _refuse_unknown_removal(state, grant, known_state)
    event = events.ToolAssigned(grant=grant, by=actor, reason=request.reason)
    return [event], grant, _warn_if_ineffective(state, grant, now)


def require_authority(state: AccessState, request: GrantRequest, actor: str, now: datetime) -> None:
    """Refuse what *actor* could not grant anew, whatever it made with the key of *request* before."""
    record = get_tool_record(state, request.tool)
    lenders = _find_lendable_grants(state, record, request.agent, actor, now)
    grant = _build_grant(record, request, actor, now, "")
    if lenders is not None:
        _lend_from_first_sufficient_grant(state, record, grant, lenders)


def _find_identical_grant(
    state: AccessState, grant: Grant, lenders: list[GrantRecord] | None, now: datetime
) -> Grant | None:
    """Return a live grant with the terms of *grant*, which may be lent from one of *lenders*; None: there is none."""
    for one in [grant] if lenders is None else [_inherit_terms(grant, lender) for lender in lenders]:
        for grant_id in state.grant_ids_by_terms.get(get_terms_key(one)) or ():
            identical = state.grants[grant_id]
            if not identical.has_ended(now) and identical.narrowed_by is None:
                return identical.grant
    return None


def _refuse_earlier_removal(state: AccessState, grant: Grant) -> None:
    """Refuse what was removed in an earlier process: start-up code, which does not know, must not bring it back."""
    access = state.get_access(grant.agent, grant.tool)
    if access.removal == "earlier" or any(key in access.ended_requests for key in list_request_keys(grant)):
        raise AssignmentDeclined(
            f"{grant.tool!r} was removed from {grant.agent!r} before this process looked; the assignment changes "
            f"nothing. To give it back, say so with a new key: key='…'."
        )


def _refuse_unknown_removal(state: AccessState, grant: Grant, known_state: AccessState) -> None:
    """Refuse what another process removed since *known_state*: who asks does not know of that yet."""
    if state.revision == known_state.revision:
        return
    access, known_access = state.get_access(grant.agent, grant.tool), known_state.get_access(grant.agent, grant.tool)
    keys = set(list_request_keys(grant))
    known_records = filter(None, map(state.find_grant, known_access.grants))
    is_ended = any(
        record.end_reason and record.end_origin != "here" and not keys.isdisjoint(list_request_keys(record.grant))
        for record in known_records
    )
    if is_ended or (access.removal == "elsewhere" and not known_access.removed):
        raise AssignmentDeclined(
            f"Another process has just taken {grant.tool!r} from {grant.agent!r}; the assignment changes nothing. "
            f"To give it back, assign it again."
        )


def _derive_id(state: AccessState, record: ToolRecord, request: GrantRequest, actor: str) -> str | None:
    """Return the id of a grant with a key, the same in each process that makes it; None if it has none, or it waits."""
    if request.key is None:
        return None
    from hashlib import sha256

    source = get_tool_origin(record.tool)
    made = repr((actor, request.key, request.tool, request.agent, source))
    grant_id = sha256(made.encode()).hexdigest()[:32]
    stored = state.stored_changes.get(request.tool) or EMPTY_MAP
    is_taken = grant_id in state.grants or any((kind, grant_id, source) in stored for kind in ("grant", "ended"))
    return None if is_taken else grant_id


def find_same_key_grant(state: AccessState, request: GrantRequest, actor: str) -> Grant | None:
    """
    Return the grant that *actor* made with the key of *request*, ended or not; None where there is none.

    One that ended counts also where the tool is not any more what it was made for; one that waits does not.

    Raises:
        GrantError: The key stands for the grant of another tool, or to another agent.
    """
    if request.key is None:
        return None
    old_id = state.grant_ids_by_key.get((actor, request.key))
    if old_id is None:
        return find_ended_grant(state, request.tool, request.agent, actor, request.key)
    old = state.grants[old_id].grant
    if (old.tool, old.agent) != (request.tool, request.agent):
        problem = f"key {request.key!r} stands for the grant of {old.tool!r} to {old.agent!r}"
        raise GrantError(request.tool, [problem])
    return old


def _build_grant(record: ToolRecord, request: GrantRequest, actor: str, now: datetime, new_id: str) -> Grant:
    problems, bounds = [], None
    if request.max_calls is not None and (type(request.max_calls) is not int or request.max_calls < 1):
        problems.append(f"max_calls={shorten_repr(request.max_calls)} is not a whole number from 1 on")
    if type(request.delegable) is not bool:
        problems.append(f"delegable={shorten_repr(request.delegable)} is neither True nor False")
    expires, problem = _resolve_expiry(request.expires, now)
    if problem:
        problems.append(problem)
    if request.where is not None:
        try:
            bounds = compile_bounds(record.tool.implementation, request.where, request.tool)
        except GrantError as error:
            problems.extend(error.problems)
    if problems:
        raise GrantError(request.tool, problems)
    return Grant(
        id=new_id, by=actor, made=now, bounds=bounds, **{**msgspec.structs.asdict(request), "expires": expires}
    )


def _resolve_expiry(expires: object, now: datetime) -> tuple[datetime | None, str]:
    """Return the moment in UTC that *expires* means, and what is wrong with it."""
    if not isinstance(expires, datetime | timedelta | None):
        return None, f"expires={shorten_repr(expires)} is neither a timedelta nor a datetime"
    if isinstance(expires, datetime) and not has_time_zone(expires):
        return None, "expires is a datetime without a time zone; use datetime.now(UTC) + … or a timedelta"
    try:
        moment = resolve_expiry(expires, now)
        if moment is not None and moment <= now:
            return None, "expires is not in the future"
        return None if moment is None else moment.astimezone(UTC), ""
    except OverflowError:
        return None, "expires is too far away; leave it out for a grant without an end"


def _find_lendable_grants(
    state: AccessState, record: ToolRecord, agent: str, actor: str, now: datetime
) -> list[GrantRecord] | None:
    """Return the grants that *actor* may lend from, the latest first; None where it needs none: operator, owner."""
    tool, owner = record.tool.name, record.tool.metadata.owned_by
    if actor == OPERATOR:
        if state.get_access(agent, tool).blocks:
            raise AssignmentDeclined(
                f"{agent!r} is blocked from {tool!r}; the assignment changes nothing. "
                f"Lift the block first: unblock({tool!r}, {agent!r})."
            )
        return None
    refuse_untrusted_plugin(record, actor, "lend")
    access = state.get_access(actor, tool)
    has_lost_it = access.removed and not access.grants
    if access.blocks or has_lost_it or state.get_profile(actor).retired:
        why = "a block names it" if access.blocks else "it was removed from it" if has_lost_it else "it is retired"
        raise NotOwnerError(actor, "lend", tool, None if owner == actor else owner, why)
    if state.get_access(agent, tool).blocks:
        raise NotOwnerError(actor, f"lend to {agent!r} the", tool, None, "a block names them")
    if owner == actor and not access.removed:
        return None
    held = sorted(map(state.grants.__getitem__, access.grants), key=lambda grant: grant.seq, reverse=True)
    lendable = [held_grant for held_grant in held if held_grant.grant.delegable and is_live(state, held_grant, now)]
    if not lendable:
        why = "it was removed from its owner, and no delegable grant gave it back" if owner == actor else ""
        raise NotOwnerError(actor, "lend", tool, owner, why)
    return lendable


def describe_loss(state: AccessState, request: GrantRequest, actor: str) -> str:
    """
    Return why *actor* cannot lend what it lent in an earlier process; empty where it did not lend it then.

    Start-up code, which does not know what has changed since, lends as it did then.
    """
    tool, agent = request.tool, request.agent
    changes = (stored.change for stored in state.list_stored_changes(tool))
    if not any(
        isinstance(change, events.ToolAssigned) and change.origin == "earlier"
        and (change.grant.by, change.grant.agent) == (actor, agent)
        for change in changes
    ):  # fmt: skip
        return ""
    access = state.get_access(actor, tool)
    if state.get_access(agent, tool).blocks:
        why = f"{agent!r} is blocked from it"
    elif access.blocks:
        why = f"{actor!r} is blocked from it"
    elif access.removed and not access.grants:
        why = f"it was removed from {actor!r}"
    else:
        why = f"{actor!r} is retired" if state.get_profile(actor).retired else "what it could lend from has ended"
    return f"{actor!r} cannot lend {tool!r} to {agent!r} any more: {why}. Nothing was changed."


def _lend_from_first_sufficient_grant(
    state: AccessState, record: ToolRecord, grant: Grant, lenders: list[GrantRecord]
) -> Grant:
    """Return the grant as lent from the first lender that is wide enough, or raise what the last one lacks."""
    for parent in lenders[:-1]:
        try:
            return _lend_from_grant(state, record, grant, parent)
        except GrantError:
            continue
    return _lend_from_grant(state, record, grant, lenders[-1])


def is_live(state: AccessState, record: GrantRecord, now: datetime) -> bool:
    """Tell whether neither a grant nor one that it came from has ended."""
    return bool(list_live_lineage(state, record.grant.id, now))


def _lend_from_grant(state: AccessState, record: ToolRecord, grant: Grant, parent: GrantRecord) -> Grant:
    source, left, problems = parent.grant, parent.calls_left, []
    if source.expires is not None and grant.expires is not None and grant.expires > source.expires:
        problems.append(f"it would outlast the grant that it comes from, which ends {source.expires.isoformat()}")
    if left is not None and grant.max_calls is not None and grant.max_calls > left:
        calls = format_count(grant.max_calls, "call")
        problems.append(f"it would admit {calls} where the grant that it comes from has {left} left")
    lineage = [grant, *(ancestor.grant for ancestor in list_lineage(state, source.id))]
    if len(lineage) > MAX_CHAIN_LENGTH:
        problems.append(f"it would be lent on {len(lineage)} times in a row; more than {MAX_CHAIN_LENGTH} are too many")
    bounds = tuple(ancestor.bounds for ancestor in lineage if ancestor.bounds is not None)
    if len(bounds) > 1 and not can_satisfy_all(bounds, record.tool.implementation):
        problems.append("no arguments meet its bounds and those of the grant that it comes from")
    if problems:
        raise GrantError(grant.tool, problems)
    return _inherit_terms(grant, parent)


def _inherit_terms(grant: Grant, parent: GrantRecord) -> Grant:
    """Return *grant* as lent from *parent*, with its end and what is left of it where these are left out."""
    expires = grant.expires or parent.grant.expires
    max_calls = grant.max_calls if grant.max_calls is not None else parent.calls_left
    return evolve(grant, parent=parent.grant.id, expires=expires, max_calls=max_calls)


def _warn_if_ineffective(state: AccessState, grant: Grant, now: datetime) -> str:
    """Return a warning where the grant's limits narrow nothing, since a rule without limits permits the calls."""
    if grant.max_calls is None and grant.expires is None and grant.bounds is None:
        return ""
    resolution = resolve_access(state, Principal(grant.agent), grant.tool, now)
    if resolution.paths and not resolution.paths[0].grants:
        return (
            f"This grant narrows nothing: {resolution.decision.reason} "
            f"Remove the tool first: remove_tool_from_agent({grant.tool!r}, {grant.agent!r})."
        )
    return ""


def plan_removal(state: AccessState, tool: str, agent: str, actor: str, reason: str) -> EventList:
    """
    Plan a removal: of every permission for the operator, else of the grants that *actor* may revoke.

    Nothing is recorded of a name that neither a tool nor the agent's list has: a block is, for a tool that comes later.
    """
    access = state.get_access(agent, tool)
    if actor == OPERATOR:
        event = events.ToolUnassigned(tool=tool, agent=agent, by=actor, reason=reason)
        can_come = tool in state.tools or tool in state.get_profile(agent).tools
        has_effect = (can_come and not access.removed) or access.grants or find_pending_grants_ended_by(state, event)
        return [event] if has_effect else []
    revocable = [grant_id for grant_id in access.grants if _may_revoke(state, state.grants[grant_id], actor)]
    if not revocable:
        require_owner(state, actor, f"remove from {agent!r} the", tool)
    return [events.GrantRevoked(grant=grant_id, by=actor, reason=reason) for grant_id in revocable]


def plan_revocation(state: AccessState, grant_id: str, actor: str, reason: str) -> EventList:
    """Plan a revocation; only the operator revokes a grant that waits for its tool."""
    event = events.GrantRevoked(grant=grant_id, by=actor, reason=reason)
    waiting = state.find_known_grant(grant_id) if actor == OPERATOR and state.find_grant(grant_id) is None else None
    if waiting is not None:
        counting_id = None if waiting.key is None else state.grant_ids_by_key.get((waiting.by, waiting.key))
        counting = None if counting_id is None else state.grants[counting_id]
        is_same = counting is not None and not counting.end_reason and has_same_key(counting.grant, waiting)
        if is_same and counting_id is not None:
            return [replace(event, grant=counting_id)]
        return [event] if find_pending_grants_ended_by(state, event) else []
    record = get_grant_record(state, grant_id)
    if actor != OPERATOR and not _may_revoke(state, record, actor):
        require_owner(state, actor, "revoke a grant of", record.grant.tool)
    return [] if record.end_reason else [event]


def get_grant_record(state: AccessState, grant_id: str) -> GrantRecord:
    """
    Return a grant.

    Raises:
        UnknownGrantError: There is none of this id.
    """
    record = state.find_grant(grant_id)
    if record is None:
        raise UnknownGrantError(grant_id[:80])
    return record


def _may_revoke(state: AccessState, record: GrantRecord, actor: str) -> bool:
    """Tell whether *actor* owns the tool, or the grant came from one that it holds."""
    if state.get_profile(actor).retired:
        return False
    tool_record = state.find_tool_record(record.grant.tool)
    if tool_record is not None and tool_record.tool.metadata.owned_by == actor:
        return True
    return any(ancestor.grant.agent == actor for ancestor in list_lineage(state, record.grant.parent))


def get_grant_id(grant: Grant | str) -> str:
    """
    Return the id of a grant that is given as object or by its id.

    Raises:
        ToolUsageError: It is neither.
    """
    grant_id = grant.id if has_type(grant, Grant) else grant
    if not has_type(grant_id, str):
        raise ToolUsageError(f"{shorten_repr(grant)} is neither a grant nor the id of one.")
    return to_plain_text(grant_id)


def list_grants(state: AccessState, filters: Mapping[str, str], now: datetime | None) -> list[Grant]:
    """Return the grants whose fields have the values of *filters*, the oldest first; *now* None: ended ones too."""
    records = sorted(state.grants.values(), key=lambda record: record.seq)
    if now is not None:
        records = [record for record in records if record.narrowed_by is None and is_live(state, record, now)]
    grants = [record.grant for record in records]
    return [grant for grant in grants if all(getattr(grant, name) == value for name, value in filters.items())]
