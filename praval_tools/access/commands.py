"""Who may change what: pure plans that turn a wish into events, or refuse it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from praval_tools.access import events
from praval_tools.access.records import (
    AgentProfile,
    Block,
    Target,
)
from praval_tools.access.rules import Disabled, ToolRecord
from praval_tools.access.state import State
from praval_tools.errors import (
    DuplicateAgentError,
    DuplicateToolError,
    NotOwnerError,
    ToolUsageError,
    UnknownAgentError,
    UnknownToolError,
)
from praval_tools.names import OPERATOR, is_agent_name, keys_of, name_of, near
from praval_tools.tools.metadata import unknown_fields
from praval_tools.tools.tool import Tool

Events = list[events.Event]


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


def may_give(record: ToolRecord, actor: str, verb: str) -> None:
    """Refuse a plugin that gives others what is its own, where the operator does not trust it."""
    source = record.tool.metadata.source
    if actor.startswith("plugin:") and source is not None and not source.trusted:
        why = "the operator has not granted that; trust = true in the configuration of the plugin does"
        raise NotOwnerError(actor, verb, record.tool.name, None, why)


def register(state: State, tool: Tool[..., Any], actor: str, *, replace: bool, reason: str) -> Events:
    """Plan a registration; a module or notebook cell that runs again replaces its tools in place."""
    holder = next((one for key in keys_of(tool.name) if (one := state.folded.get(key)) is not None), None)
    owner = tool.metadata.owned_by
    if actor != OPERATOR and owner not in (None, actor):
        raise NotOwnerError(actor, f"register for {owner!r} the", tool.name, None)
    if actor != OPERATOR and owner is None and is_agent_name(actor):
        tool = tool.with_metadata(owned_by=actor)  # what an agent brings is its own
    if holder is None:
        return [events.ToolRegistered(tool=tool, by=actor, reason=reason)]
    old = state.tools[holder].tool
    again = holder == tool.name and _ships(tool) == _ships(old) and tool.definition_.place.again(old.definition_.place)
    if holder != tool.name or not (replace or again):
        raise DuplicateToolError(
            holder, old.metadata.owned_by, str(old.metadata.source or "code"), owner,
            str(tool.metadata.source or "code"), tool.name,
        )  # fmt: skip
    own(state, actor, "replace", holder)
    return [events.ToolRegistered(tool=tool, replaces=True, by=actor, reason=reason)]


def _ships(tool: Tool[..., Any]) -> str:
    """Return the distribution that ships a tool; another one never takes its place."""
    return tool.metadata.source.distribution if tool.metadata.source is not None else ""


def declare(state: State, profile: AgentProfile, actor: str, same_place: bool) -> Events:
    """Plan the declaration of an agent; only the operator's code declares agents."""
    operator_only(actor, f"declare the agent {profile.name!r}")
    old = state.profile(profile.name)
    if old.declared and not old.retired and not same_place:
        raise DuplicateAgentError(profile.name, old.place or "an earlier place", profile.place)
    return [events.AgentDeclared(profile=profile, by=actor)]


def block(state: State, made: Block) -> Events:
    """Plan a block; it may come before the tool."""
    own(state, made.by, "block an agent from", made.tool)
    standing = state.access(made.agent, made.tool).blocks
    return [] if made in standing else [events.ToolBlocked(block=made, by=made.by, reason=made.reason)]


def unblock(state: State, tool: str, agent: str, actor: str, reason: str) -> Events:
    """Plan the lifting of a block: one's own, or all of them for the operator."""
    record = state.record(tool)
    if actor != OPERATOR and (record is None or record.tool.metadata.owned_by != actor):
        raise NotOwnerError(actor, "unblock", tool, None, "a block is lifted by who set it and owns the tool still")
    own(state, actor, "unblock", tool)
    blocks = state.access(agent, tool).blocks
    mine = [one for one in blocks if actor in (OPERATOR, one.by)]
    if blocks and not mine:
        raise NotOwnerError(actor, "unblock", tool, None, f"{blocks[0].by!r} set the block")
    setter = None if actor == OPERATOR else actor
    return [events.ToolUnblocked(tool=tool, agent=agent, setter=setter, by=actor, reason=reason)] if mine else []


def unregister(state: State, tool: str, actor: str, reason: str) -> Events:
    """Plan that a tool leaves; nothing where there is none."""
    record = own(state, actor, "unregister", tool)
    return [] if record is None else [events.ToolUnregistered(tool=tool, by=actor, reason=reason)]


def transfer(state: State, tool: str, to: str, actor: str, reason: str) -> Events:
    """Plan that a tool gets another owner; nothing where it has it already."""
    record = _owned(state, actor, "transfer", tool)
    may_give(record, actor, "transfer")
    if record.tool.metadata.owned_by == to:
        return []
    return [events.OwnershipTransferred(tool=tool, to=to, by=actor, reason=reason)]


def share(state: State, tool: str, actor: str, reason: str) -> Events:
    """Plan that a tool is shared; nothing where it is."""
    record = _owned(state, actor, "share", tool)
    may_give(record, actor, "share")
    return [] if record.tool.metadata.shared else [events.ToolShared(tool=tool, by=actor, reason=reason)]


def unshare(state: State, tool: str, actor: str, reason: str) -> Events:
    """Plan that a tool is shared no more; nothing where it is not."""
    record = _owned(state, actor, "unshare", tool)
    return [events.ToolUnshared(tool=tool, by=actor, reason=reason)] if record.tool.metadata.shared else []


def _owned(state: State, actor: str, verb: str, tool: str) -> ToolRecord:
    own(state, actor, verb, tool)
    return known(state, tool)


def clear(actor: str, reason: str) -> Events:
    """Plan that everything is forgotten."""
    operator_only(actor, "clear the registry")
    return [events.RegistryCleared(by=actor, reason=reason)]


def policy_name(state: State, label: str) -> str:
    """Return the name in which a new policy acts; a label that is taken gets a number."""
    taken = {one.name for one in state.policies}
    names = (f"policy:{label}{f'#{number}' if number > 1 else ''}" for number in range(1, len(taken) + 2))
    return next(name for name in names if name not in taken)


def remove_policy(name: str, actor: str) -> Events:
    """Plan the end of a policy."""
    operator_only(actor, "remove a policy")
    return [events.PolicyRemoved(name=name, by=actor)]


_KINDS = ("tool", "namespace", "category", "tag")


def target(state: State, name: str | None, given: Target, off: bool) -> tuple[str, str]:
    """Return the one thing that is to be switched, as kind and name; *off*: look among the disabled ones too."""
    if odd := given.keys() - set(_KINDS):
        raise TypeError(f"{', '.join(sorted(odd))}: name a tool, namespace, category or tag.")
    named = [(kind, name_of(value)) for kind, value in given.items() if value is not None]
    if (name is not None) + len(named) != 1:
        raise ToolUsageError("Name exactly one tool, namespace, category or tag.")
    wanted: list[tuple[str, str | None]] = [*named] or [(kind, name) for kind in _KINDS]
    found = [(kind, value) for kind, value in wanted if value is not None and _exists(state, kind, value, off)]
    if len(found) == 1:
        return found[0]
    text = str(wanted[0][1])
    if not found:
        raise UnknownToolError(text, near(text, _names(state, [kind for kind, _ in wanted])),
                               what=" or ".join(kind for kind, _ in wanted))  # fmt: skip
    kinds = ", ".join(kind for kind, _ in found)
    raise ToolUsageError(f"{text!r} is several things ({kinds}); say which, for example {found[0][0]}={text!r}.")


def _exists(state: State, kind: str, value: str, off: bool) -> bool:
    if off and (kind, value) in state.disabled:
        return True
    return value in state.tools if kind == "tool" else bool(state.labelled(kind, value))


def _names(state: State, kinds: Sequence[str]) -> list[str]:
    tools = state.tools if "tool" in kinds else ()
    return [*tools, *(value for kind, value in state.labels if value and kind in kinds)]


def switch(
    state: State, on: bool, name: str | None, given: Target, actor: str, reason: str
) -> Events:
    """Plan that a tool, namespace, category or tag is switched off or on; nothing where it is, for that reason."""
    operator_only(actor, "enable" if on else "disable", name)
    what, text = target(state, name, given, on)
    standing = state.disabled.get((what, text))
    if standing == (None if on else Disabled(what, text, actor, reason)):
        return []
    fact = events.ToolEnabled if on else events.ToolDisabled
    return [fact(kind=what, name=text, by=actor, reason=reason)]


_VERBS = frozenset(("tool_name", "owned_by", "shared", "parameters", "return_type", "source"))
_CONVERTED = frozenset(("tags", "retry_on", "extra"))
"""Taken in several forms, iterators among them, and kept in one."""


def configure(state: State, tool: str, changes: Mapping[str, Any], actor: str, reason: str) -> Events:
    """Plan that fields of a tool's metadata are overridden; nothing where all of them are, with these values."""
    operator_only(actor, "configure", tool)
    if fixed := _VERBS & changes.keys():
        raise ToolUsageError(f"configure cannot set {', '.join(sorted(fixed))}; there are verbs for that.")
    record = known(state, tool)
    if wrong := unknown_fields(changes):
        raise ToolUsageError("; ".join(wrong))
    fresh = record.tool.metadata.replace(**changes)
    made = {name: getattr(fresh, name) if name in _CONVERTED else value for name, value in changes.items()}
    configured = dict(record.configured)
    if all(name in configured and configured[name] == value for name, value in made.items()):
        return []
    return [events.ToolConfigured(tool=tool, changes=made, by=actor, reason=reason)]


def retire(state: State, agent: str, actor: str, reason: str) -> Events:
    """Plan the end of an agent."""
    operator_only(actor, f"retire the agent {agent!r}")
    if agent not in state.agents and agent not in state.accesses and not state.labelled("owner", agent):
        raise UnknownAgentError(agent, near(agent, state.agents))
    return [events.AgentRetired(agent=agent, by=actor, reason=reason)]
