"""Checks requests to change access (register, transfer, block, disable …) and returns the events that do it; pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from praval_tools.access import events
from praval_tools.access.permissions import SwitchTarget
from praval_tools.access.records import AgentProfile, Block, ToolRecord
from praval_tools.access.restore import is_other_version
from praval_tools.access.state import AccessState, get_declarer, get_tool_origin, list_shared_sources
from praval_tools.errors import (
    DuplicateAgentError,
    DuplicateToolError,
    NotOwnerError,
    ToolUsageError,
    UnknownAgentError,
    UnknownToolError,
)
from praval_tools.names import OPERATOR, find_similar_names, get_collision_keys, get_name, is_valid_agent_name
from praval_tools.tools.metadata import describe_unknown_fields
from praval_tools.tools.tool import AnyTool

EventList = list[events.AnyStateEvent]


def get_tool_record(state: AccessState, tool: str) -> ToolRecord:
    """Return the tool's record, or raise `UnknownToolError` with similar names."""
    record = state.find_tool_record(tool)
    if record is None:
        raise UnknownToolError(tool, find_similar_names(tool, state.tools))
    return record


def require_operator(actor: str, verb: str, tool: str | None = None) -> None:
    """Refuse everybody but the operator."""
    if actor != OPERATOR:
        raise NotOwnerError(actor, verb, tool, None)


def require_owner(state: AccessState, actor: str, verb: str, tool: str) -> ToolRecord | None:
    """
    Refuse everybody but the operator and the tool's owner.

    Returns:
        The tool's record; None where the operator names a tool that does not exist.
    """
    record = state.find_tool_record(tool)
    if actor == OPERATOR:
        return record
    owner = record.tool.metadata.owned_by if record is not None else None
    if owner != actor:
        raise NotOwnerError(actor, verb, tool, owner)
    if state.get_profile(actor).retired:
        raise NotOwnerError(actor, verb, tool, None, "it is retired")
    return record


def describe_earlier_transfer(state: AccessState, tool: str, actor: str, verb: str) -> str:
    """
    Return why *actor*, the declared owner, may do nothing: the tool was transferred in an earlier process.

    Start-up code does not know of that; for everybody else, and later transfers, the text is empty.
    """
    record = state.find_tool_record(tool)
    if record is None or record.declared_metadata is None:
        return ""
    owner, origin = record.tool.metadata.owned_by, get_tool_origin(record.tool)
    if record.declared_metadata.owned_by != actor or owner == actor:
        return ""
    for stored in state.list_stored_changes(tool):
        change = stored.change
        if not isinstance(change, events.OwnershipTransferred) or stored.source != origin:
            continue
        if change.to == owner and change.origin == "earlier":
            return (
                f"{tool!r} was transferred from {actor!r} to {owner!r} before this process looked: {actor!r} may not "
                f"{verb} it any more, and nothing was changed. Do it as {owner!r}, or give the tool back: "
                f"transfer_ownership({tool!r}, {actor!r})."
            )
    return ""


def refuse_untrusted_plugin(record: ToolRecord, actor: str, verb: str) -> None:
    """Refuse a plugin that gives others what is its own, where the operator does not trust it."""
    source = record.tool.metadata.source
    if actor.startswith("plugin:") and source is not None and not source.trusted:
        why = "the operator has not granted that; trust = true in the configuration of the plugin does"
        raise NotOwnerError(actor, verb, record.tool.name, None, why)


def plan_freeze(state: AccessState, actor: str, reason: str) -> EventList:
    """Plan the end of declarations; nothing where they have ended."""
    require_operator(actor, "freeze the registry")
    return [] if state.frozen else [events.RegistryFrozen(by=actor, reason=reason)]


def _refuse_if_frozen(state: AccessState, what: str) -> None:
    if state.frozen:
        raise ToolUsageError(f"The registry is frozen: {what} comes too late. Declare it before freeze().", "frozen")


def plan_registration(state: AccessState, tool: AnyTool, actor: str, *, replace: bool, reason: str) -> EventList:
    """Plan a registration; a module or notebook cell that runs again replaces its tools in place."""
    _refuse_if_frozen(state, f"tool {tool.name!r}")
    holders = map(state.names_by_wire_key.get, get_collision_keys(tool.name))
    holder = next((name for name in holders if name is not None), None)
    owner = tool.metadata.owned_by
    if actor != OPERATOR and owner not in (None, actor):
        raise NotOwnerError(actor, f"register for {owner!r} the", tool.name, None)
    if actor != OPERATOR and owner is None and is_valid_agent_name(actor):
        tool = tool.with_metadata(owned_by=actor)  # an agent owns what it registers
    if holder is None:
        return [events.ToolRegistered(tool=tool, by=actor, reason=reason)]
    old = state.tools[holder].tool
    is_rerun = (
        holder == tool.name
        and get_tool_origin(tool) == get_tool_origin(old)
        and tool.implementation.site.is_rerun_of(old.implementation.site)
    )
    if holder != tool.name or not (replace or is_rerun):
        source, new_source = str(old.metadata.source or "code"), str(tool.metadata.source or "code")
        raise DuplicateToolError(holder, old.metadata.owned_by, source, owner, new_source, tool.name)
    require_owner(state, actor, "replace", holder)
    is_of_code = bool(get_declarer(tool) or get_declarer(old))  # the host's own versions follow one another
    is_other = is_of_code and is_other_version(state.tools[holder], tool)
    return [events.ToolRegistered(tool=tool, replaces=True, is_other_version=is_other, by=actor, reason=reason)]


def plan_agent_declaration(state: AccessState, profile: AgentProfile, actor: str, same_place: bool) -> EventList:
    """Plan the declaration of an agent; only the operator's code declares agents."""
    require_operator(actor, f"declare the agent {profile.name!r}")
    _refuse_if_frozen(state, f"agent {profile.name!r}")
    old = state.get_profile(profile.name)
    if old.declared and not old.retired and not same_place:
        raise DuplicateAgentError(profile.name, old.place or "an earlier place", profile.place)
    return [events.AgentDeclared(profile=profile, by=actor)]


def plan_block(state: AccessState, block: Block) -> EventList:
    """Plan a block; it may come before the tool. It counts for each tool of the name, whatever its source."""
    record = require_owner(state, block.by, "block an agent from", block.tool)
    _refuse_to_change_blocks(record, block.by, "block an agent from", block.tool)
    if block in state.get_access(block.agent, block.tool).blocks:
        return []
    return [events.ToolBlocked(block=block, by=block.by, reason=block.reason)]


def _refuse_to_change_blocks(record: ToolRecord | None, actor: str, verb: str, tool: str) -> None:
    """Refuse an owner whose tool is not the host's: blocks count for each tool of a name, so for the host's, too."""
    source = None if record is None else record.tool.metadata.source
    if actor == OPERATOR or source is None:
        return
    if source.declared_by or source.kind == "plugin":
        origin = f"was declared by code of {source.declared_by!r}" if source.declared_by else f"is of {source}"
        why = f"a block counts for each tool of that name, and this one {origin}"
        raise NotOwnerError(actor, verb, tool, None, why)


def plan_unblock(state: AccessState, tool: str, agent: str, actor: str, reason: str) -> EventList:
    """Plan that a block is lifted: the actor's own, or all of them for the operator."""
    record = state.find_tool_record(tool)
    if actor != OPERATOR and (record is None or record.tool.metadata.owned_by != actor):
        raise NotOwnerError(actor, "unblock", tool, None, "a block is lifted by who set it and owns the tool still")
    require_owner(state, actor, "unblock", tool)
    _refuse_to_change_blocks(record, actor, "unblock", tool)
    blocks = state.get_access(agent, tool).blocks
    if not blocks:
        return []
    if not any(actor in (OPERATOR, block.by) for block in blocks):
        raise NotOwnerError(actor, "unblock", tool, None, f"{blocks[0].by!r} set the block")
    setter = None if actor == OPERATOR else actor
    return [events.ToolUnblocked(tool=tool, agent=agent, setter=setter, by=actor, reason=reason)]


def plan_unregistration(state: AccessState, tool: str, actor: str, reason: str) -> EventList:
    """Plan that a tool is unregistered; nothing where there is none."""
    record = require_owner(state, actor, "unregister", tool)
    return [] if record is None else [events.ToolUnregistered(tool=tool, by=actor, reason=reason)]


def plan_transfer(state: AccessState, tool: str, to: str, actor: str, reason: str) -> EventList:
    """Plan that a tool gets another owner; nothing where it has it already."""
    record = _require_owned_tool(state, actor, "transfer", tool)
    refuse_untrusted_plugin(record, actor, "transfer")
    if record.tool.metadata.owned_by == to:
        return []
    return [events.OwnershipTransferred(tool=tool, to=to, by=actor, reason=reason)]


def plan_share(state: AccessState, tool: str, actor: str, reason: str) -> EventList:
    """Plan that a tool is shared; nothing where it is."""
    record = _require_owned_tool(state, actor, "share", tool)
    refuse_untrusted_plugin(record, actor, "share")
    return [] if record.tool.metadata.shared else [events.ToolShared(tool=tool, by=actor, reason=reason)]


def plan_unshare(state: AccessState, tool: str, actor: str, reason: str) -> EventList:
    """Plan that a tool is not shared any more, and no sharing of it waits; nothing where that is so."""
    record = _require_owned_tool(state, actor, "unshare", tool)
    has_effect = record.tool.metadata.shared or list_shared_sources(state, tool)
    return [events.ToolUnshared(tool=tool, by=actor, reason=reason)] if has_effect else []


def _require_owned_tool(state: AccessState, actor: str, verb: str, tool: str) -> ToolRecord:
    require_owner(state, actor, verb, tool)
    return get_tool_record(state, tool)


def plan_clear(actor: str, reason: str) -> EventList:
    """Plan that everything is forgotten."""
    require_operator(actor, "clear the registry")
    return [events.RegistryCleared(by=actor, reason=reason)]


def make_policy_name(state: AccessState, label: str) -> str:
    """Return the name of a new policy; a label that is taken gets a number."""
    taken = {policy.name for policy in state.policies}
    names = (f"policy:{label}{f'#{number}' if number > 1 else ''}" for number in range(1, len(taken) + 2))
    return next(name for name in names if name not in taken)


def plan_policy_removal(name: str, actor: str) -> EventList:
    """Plan the end of a policy."""
    require_operator(actor, "remove a policy")
    return [events.PolicyRemoved(name=name, by=actor)]


_SWITCH_KINDS = ("tool", "namespace", "category", "tag")


def resolve_switch_target(
    state: AccessState, name: str | None, target: SwitchTarget, include_disabled: bool
) -> tuple[str, str]:
    """Return the kind and name of what is to be switched; *include_disabled*: also where only a record names it."""
    if unknown := target.keys() - set(_SWITCH_KINDS):
        raise TypeError(f"{', '.join(sorted(unknown))}: name a tool, namespace, category or tag.")
    named = [(kind, get_name(value)) for kind, value in target.items() if value is not None]
    if (name is not None) + len(named) != 1:
        raise ToolUsageError("Name exactly one tool, namespace, category or tag.")
    kinds, text = ([named[0][0]], named[0][1]) if name is None else (list(_SWITCH_KINDS), name)
    matches = [kind for kind in kinds if _target_exists(state, kind, text, include_disabled)]
    if len(matches) == 1:
        return matches[0], text
    if not matches:
        similar = find_similar_names(text, _list_target_names(state, kinds))
        raise UnknownToolError(text, similar, what=" or ".join(kinds))
    raise ToolUsageError(
        f"{text!r} is several things ({', '.join(matches)}); say which, for example {matches[0]}={text!r}."
    )


def _target_exists(state: AccessState, kind: str, value: str, include_disabled: bool) -> bool:
    if include_disabled and (kind, value) in state.disabled:
        return True
    return value in state.tools if kind == "tool" else bool(state.get_tools_by_label(kind, value))


def _list_target_names(state: AccessState, kinds: Sequence[str]) -> list[str]:
    tools = state.tools if "tool" in kinds else ()
    return [*tools, *(value for kind, value in state.tools_by_label if value and kind in kinds)]


def plan_switch(
    state: AccessState, on: bool, name: str | None, target: SwitchTarget, actor: str, reason: str
) -> EventList:
    """Plan that a tool, namespace, category or tag is disabled or enabled; nothing where it is, for that reason."""
    require_operator(actor, "enable" if on else "disable", name)
    kind, target_name = resolve_switch_target(state, name, target, on)
    records = state.disabled.get((kind, target_name), ())
    if on:
        return [events.ToolEnabled(kind=kind, name=target_name, by=actor, reason=reason)] if records else []
    if any((record.by, record.reason) == (actor, reason) for record in records):
        return []
    return [events.ToolDisabled(kind=kind, name=target_name, by=actor, reason=reason)]


def plan_disabling_by_tags(
    state: AccessState, any_of: Collection[str], all_of: Collection[str], actor: str, reason: str
) -> EventList:
    """Plan that each tool is disabled that has one of some tags, and every one of others."""
    require_operator(actor, "disable by tags")
    if isinstance(any_of, str) or isinstance(all_of, str) or not (any_of or all_of):
        raise ToolUsageError("Name the tags: disable_by_tags(any=['network'], all=['slow']).")
    tags = {name: set(record.tool.metadata.all_tags) for name, record in state.tools.items()}
    return [
        event
        for name, own in tags.items()
        if own.issuperset(all_of) and (not any_of or not own.isdisjoint(any_of))
        for event in plan_switch(state, False, None, {"tool": name}, actor, reason)
    ]


_FIELDS_WITH_COMMANDS = frozenset(("tool_name", "owned_by", "shared", "parameters", "return_type", "source"))
_CONVERTED_FIELDS = frozenset(("tags", "retry_on", "extra"))
"""Accepted in several forms, iterators among them, and stored in one."""


def plan_configuration(
    state: AccessState, tool: str, changes: Mapping[str, object], actor: str, reason: str
) -> EventList:
    """Plan that fields of a tool's metadata are overridden; nothing where all of them are, with these values."""
    require_operator(actor, "configure", tool)
    if refused := _FIELDS_WITH_COMMANDS & changes.keys():
        raise ToolUsageError(f"configure cannot set {', '.join(sorted(refused))}; there are methods for that.")
    record = get_tool_record(state, tool)
    if problems := describe_unknown_fields(changes):
        raise ToolUsageError("; ".join(problems))
    metadata = record.tool.metadata.replace(**changes)
    values = {name: getattr(metadata, name) if name in _CONVERTED_FIELDS else value for name, value in changes.items()}
    overrides = dict(record.overrides)
    if all(name in overrides and overrides[name] == value for name, value in values.items()):
        return []
    return [events.ToolConfigured(tool=tool, changes=values, by=actor, reason=reason)]


def plan_retirement(state: AccessState, agent: str, actor: str, reason: str) -> EventList:
    """Plan the end of an agent."""
    require_operator(actor, f"retire the agent {agent!r}")
    is_mentioned = agent in state.profiles or agent in state.access_by_agent
    if not is_mentioned and not state.get_tools_by_label("owner", agent):
        raise UnknownAgentError(agent, find_similar_names(agent, state.profiles))
    return [events.AgentRetired(agent=agent, by=actor, reason=reason)]
