"""Who may change what: pure plans that turn a wish into events, or refuse it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from attrs import evolve, frozen

from praval_tools import facts
from praval_tools.access import GrantRecord, ToolRecord, dead, judge
from praval_tools.errors import (
    AccessWarning,
    DuplicateAgentError,
    DuplicateToolError,
    GrantError,
    NotOwnerError,
    ToolUsageError,
    UnknownToolError,
)
from praval_tools.model.bounds import Bounds, satisfiable
from praval_tools.model.permissions import (
    AgentProfile,
    Block,
    Grant,
    Principal,
    expiry,
    is_aware,
)
from praval_tools.model.tool import Tool
from praval_tools.naming import OPERATOR, fold, near, shorten
from praval_tools.state import State

Events = list[facts.Event]


def known(state: State, tool: str) -> ToolRecord:
    """Return the tool's record, or raise `UnknownToolError` with near names."""
    record = state.record(tool)
    if record is None:
        raise UnknownToolError(tool, near(tool, state.tools))
    return record


def operator_only(actor: str, verb: str, tool: str | None = None) -> None:
    """Refuse everybody but the operator."""
    if actor != OPERATOR:
        raise NotOwnerError(actor, verb, tool, None)


def own(state: State, actor: str, verb: str, tool: str) -> ToolRecord | None:
    """Return the tool's record if *actor* is the operator or its owner; None: the operator, no such tool."""
    record = state.record(tool)
    if actor == OPERATOR:
        return record
    owner = record.tool.metadata.owned_by if record is not None else None
    if owner != actor:
        raise NotOwnerError(actor, verb, tool, owner)
    if state.profile(actor).retired:
        raise NotOwnerError(actor, verb, tool, None, "it is retired")
    return record


def register(state: State, tool: Tool[..., Any], actor: str, *, replace: bool, reason: str) -> Events:
    """Plan a registration; a module or notebook cell that runs again replaces its tools in place."""
    holder = state.folded.get(fold(tool.name))
    owner = tool.metadata.owned_by
    if actor != OPERATOR and owner not in (None, actor):
        raise NotOwnerError(actor, f"register for {owner!r} the", tool.name, None)
    if holder is None:
        return [facts.ToolRegistered(tool=tool, by=actor, reason=reason)]
    old = state.tools[holder].tool
    again = holder == tool.name and tool.definition_.same_place(old.definition_)
    if holder != tool.name or not (replace or again):
        raise DuplicateToolError(
            holder, old.metadata.owned_by, str(old.metadata.source or "code"), owner,
            str(tool.metadata.source or "code"),
        )  # fmt: skip
    own(state, actor, "replace", holder)
    return [facts.ToolRegistered(tool=tool, replaces=True, by=actor, reason=reason)]


def declare(state: State, profile: AgentProfile, actor: str, same_place: bool) -> Events:
    """Plan the declaration of an agent; only the operator's code declares agents."""
    operator_only(actor, f"declare the agent {profile.name!r}")
    old = state.profile(profile.name)
    if old.declared and not old.retired and not same_place:
        raise DuplicateAgentError(profile.name, old.place or "an earlier place", profile.place)
    return [facts.AgentDeclared(profile=profile, by=actor)]


@frozen(kw_only=True)
class Wish:
    """What somebody asks to be granted."""

    tool: str
    agent: str
    key: str | None = None
    reason: str = ""
    expires: datetime | timedelta | None = None
    max_calls: int | None = None
    where: Mapping[str, Any] | None = None
    delegable: bool = False


def grant(state: State, wish: Wish, actor: str, now: datetime, new_id: str) -> tuple[Events, Grant, str]:
    """Plan a grant; returns the events, the grant (perhaps one that stands already), and a warning."""
    record = known(state, wish.tool)
    if wish.key is not None and (old := state.keys.get(wish.key)) is not None:
        return [], _same(state.grants[old].grant, wish), ""
    made = _checked(record, wish, actor, now, new_id)
    parent = _lender(state, record, made, actor, now)
    if parent is not None:
        made = _narrower(state, record, made, parent, now)
    for grant_id in state.access(made.agent, made.tool).grants:
        old_one = state.grants[grant_id]
        if made.key is None and not dead(old_one, now) and _identical(old_one.grant, made):
            return [], old_one.grant, ""
    return [facts.ToolAssigned(grant=made, by=actor, reason=wish.reason)], made, _idle(state, made, now)


def _same(old: Grant, wish: Wish) -> Grant:
    if (old.tool, old.agent) != (wish.tool, wish.agent):
        raise GrantError(wish.tool, [f"key {wish.key!r} stands for the grant of {old.tool!r} to {old.agent!r}"])
    return old


def _checked(record: ToolRecord, wish: Wish, actor: str, now: datetime, new_id: str) -> Grant:
    problems, bounds = [], None
    until = None
    if wish.max_calls is not None and (type(wish.max_calls) is not int or wish.max_calls < 1):
        problems.append(f"max_calls={shorten(wish.max_calls)} is not a whole number from 1 on")
    if not isinstance(wish.expires, datetime | timedelta | None):
        problems.append(f"expires={shorten(wish.expires)} is neither a timedelta nor a datetime")
    elif isinstance(wish.expires, datetime) and not is_aware(wish.expires):
        problems.append("expires is a datetime without a time zone; use datetime.now(UTC) + … or a timedelta")
    else:
        try:
            until = expiry(wish.expires, now)
        except OverflowError:
            problems.append("expires is too far away; leave it out for a grant without an end")
        if until is not None and until <= now:
            problems.append("expires is not in the future")
    if wish.where is not None:
        try:
            schema = record.tool.definition_.compiled.parameters_schema
            bounds = Bounds.compile(wish.where, schema, wish.tool)
        except GrantError as error:
            problems.extend(error.problems)
    if problems:
        raise GrantError(wish.tool, problems)
    return Grant(
        id=new_id, tool=wish.tool, agent=wish.agent, by=actor, key=wish.key, reason=wish.reason, expires=until,
        max_calls=wish.max_calls, where=wish.where, delegable=wish.delegable, made=now, bounds=bounds,
    )  # fmt: skip


def _lender(state: State, record: ToolRecord, made: Grant, actor: str, now: datetime) -> GrantRecord | None:
    """Return the grant that *actor* lends from; None where it needs none: the operator, the owner."""
    if actor == OPERATOR:
        if state.access(made.agent, made.tool).blocks:
            raise Blocked(made.tool, made.agent)
        return None
    tool, owner = made.tool, record.tool.metadata.owned_by
    access = state.access(actor, tool)
    if access.blocks or access.removed and not access.grants or state.profile(actor).retired:
        raise NotOwnerError(actor, "lend", tool, owner, "it is blocked from it, lost it, or is retired")
    if state.access(made.agent, tool).blocks:
        raise NotOwnerError(actor, f"lend to {made.agent!r} the", tool, None, "a block names them")
    if owner == actor and not access.removed:
        return None
    held = [state.grants[one] for one in access.grants if state.grants[one].grant.delegable]
    live = [one for one in held if not _ended(state, one, now)]
    if not live:
        raise NotOwnerError(actor, "lend", tool, owner)
    return live[-1]


class Blocked(Exception):
    """The operator assigns a blocked tool: nothing happens, and the caller says so."""

    def __init__(self, tool: str, agent: str) -> None:
        super().__init__(tool, agent)
        self.message = f"{agent!r} is blocked from {tool!r}; the assignment changes nothing. Lift it with unblock()."
        self.category = AccessWarning


def _ended(state: State, one: GrantRecord, now: datetime) -> bool:
    while True:
        if dead(one, now):
            return True
        if one.grant.parent is None:
            return False
        one = state.grants[one.grant.parent]


def _narrower(state: State, record: ToolRecord, made: Grant, parent: GrantRecord, now: datetime) -> Grant:
    above, problems = parent.grant, []
    if above.expires is not None and made.expires is not None and made.expires > above.expires:
        problems.append(f"it would outlast the grant that it comes from, which ends {above.expires.isoformat()}")
    left = parent.left
    if left is not None and made.max_calls is not None and made.max_calls > left:
        problems.append(f"it would admit {made.max_calls} calls where the grant that it comes from has {left} left")
    every, one = ([made.bounds] if made.bounds else []), parent
    while True:
        if one.grant.bounds is not None:
            every.append(one.grant.bounds)
        if one.grant.parent is None:
            break
        one = state.grants[one.grant.parent]
    if len(every) > 1 and not satisfiable(every, record.tool.definition_.compiled.parameters_schema):
        problems.append("no arguments meet its bounds and those of the grant that it comes from")
    if problems:
        raise GrantError(made.tool, problems)
    return evolve(
        made, parent=above.id, expires=made.expires or above.expires,
        max_calls=made.max_calls if made.max_calls is not None else left,
    )  # fmt: skip


def _identical(old: Grant, new: Grant) -> bool:
    same = ("by", "reason", "expires", "max_calls", "delegable", "parent")
    return all(getattr(old, name) == getattr(new, name) for name in same) and old.bounds == new.bounds


def _idle(state: State, made: Grant, now: datetime) -> str:
    """Return a warning where the grant's limits narrow nothing, since the agent has an open way."""
    if made.max_calls is None and made.expires is None and made.bounds is None:
        return ""
    verdict = judge(state, Principal(made.agent), made.tool, now)
    if verdict.refusal is None and verdict.paths and not verdict.paths[0].grants:
        return (
            f"This grant narrows nothing: {verdict.decision.reason} "
            f"Remove the tool first: remove_tool_from_agent({made.tool!r}, {made.agent!r})."
        )
    return ""


def remove(state: State, tool: str, agent: str, actor: str, reason: str) -> Events:
    """Plan a removal: all ways for the operator, else the grants over which *actor* has a say."""
    access = state.access(agent, tool)
    if actor == OPERATOR:
        if access.removed and not access.grants:
            return []
        return [facts.ToolUnassigned(tool=tool, agent=agent, by=actor, reason=reason)]
    mine = [one for one in access.grants if _has_say(state, state.grants[one], actor)]
    if not mine:
        own(state, actor, f"remove from {agent!r} the", tool)
    return [facts.GrantRevoked(grant=one, by=actor, reason=reason) for one in mine]


def revoke(state: State, grant_id: str, actor: str, reason: str) -> Events:
    """Plan a revocation."""
    one = state.grant(grant_id)
    if one is None:
        raise GrantError(shorten(grant_id), ["there is no grant of this id"])
    if actor != OPERATOR and not _has_say(state, one, actor):
        own(state, actor, "revoke a grant of", one.grant.tool)
    return [] if one.ended else [facts.GrantRevoked(grant=grant_id, by=actor, reason=reason)]


def _has_say(state: State, one: GrantRecord, actor: str) -> bool:
    """Whether *actor* owns the tool, or the grant came from one that it holds."""
    record = state.record(one.grant.tool)
    if state.profile(actor).retired:
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


def block(state: State, tool: str, agent: str, actor: str, reason: str) -> tuple[Events, Block]:
    """Plan a block; it may come before the tool."""
    own(state, actor, "block an agent from", tool)
    made = Block(tool=tool, agent=agent, by=actor, reason=reason)
    if made in state.access(agent, tool).blocks:
        return [], made
    return [facts.ToolBlocked(block=made, by=actor, reason=reason)], made


def unblock(state: State, tool: str, agent: str, actor: str, reason: str) -> Events:
    """Plan the lifting of a block: one's own, or all of them for the operator."""
    own(state, actor, "unblock", tool)
    blocks = state.access(agent, tool).blocks
    mine = [one for one in blocks if actor in (OPERATOR, one.by)]
    if blocks and not mine:
        raise NotOwnerError(actor, "unblock", tool, None, f"{blocks[0].by!r} set the block")
    setter = None if actor == OPERATOR else actor
    return [facts.ToolUnblocked(tool=tool, agent=agent, setter=setter, by=actor, reason=reason)] if mine else []


_KINDS = ("tool", "namespace", "category", "tag")


def target(state: State, name: str | None, given: Mapping[str, str | None], off: bool) -> tuple[str, str]:
    """Return the one thing that is to be switched, as kind and name; *off*: look among the disabled ones too."""
    named = [(kind, value) for kind, value in given.items() if value is not None]
    if (name is not None) + len(named) != 1:
        raise ToolUsageError("Name exactly one tool, namespace, category or tag.")
    wanted: list[tuple[str, str | None]] = [*named] or [(kind, name) for kind in _KINDS]
    found = [(kind, value) for kind, value in wanted if value is not None and _exists(state, kind, value, off)]
    if len(found) == 1:
        return found[0]
    text = str(named[0][1] if named else name)
    if not found:
        raise UnknownToolError(text, near(text, _all_names(state)), "It is no tool, namespace, category or tag.")
    kinds = ", ".join(kind for kind, _ in found)
    raise ToolUsageError(f"{text!r} is several things ({kinds}); say which, for example {found[0][0]}={text!r}.")


def _exists(state: State, kind: str, value: str, off: bool) -> bool:
    if off and (kind, value) in state.disabled:
        return True
    return value in state.tools if kind == "tool" else bool(state.labelled(kind, value))


def _all_names(state: State) -> list[str]:
    return [*state.tools, *(value for kind, value in state.labels if value and kind not in ("owner", "shared"))]
