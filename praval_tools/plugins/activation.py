"""Putting a plugin to work: its tools, agents, policy and hooks come into force together, or not at all."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from praval_tools.access import events
from praval_tools.access.records import AgentProfile, Principal
from praval_tools.access.state import State
from praval_tools.config.plugins import PluginTable
from praval_tools.errors import DuplicateAgentError, PluginError
from praval_tools.execution.hooks import Plugged
from praval_tools.names import keys_of
from praval_tools.plugins.admission import Passed
from praval_tools.plugins.contents import Brought
from praval_tools.plugins.discovery import Found
from praval_tools.plugins.hook_caller import PREFIX, Answering, Authorizing, Noting, Reporting
from praval_tools.plugins.staging import Wished, actor_of


def plug(
    home: Any, found: Found, brought: Brought, passed: Passed, table: PluginTable, report: Reporting
) -> None:
    """
    Have a plugin in force in the registry *home* from now on, in the place of what it brought before.

    Raises:
        PluginError: A name is taken by the host, or by another plugin; nothing is changed.
    """
    hooks = home._runtime.hooks
    before = next((one for one in hooks.plugged if _place(one) == (found.distribution, found.entry_point)), None)
    others = [one for one in hooks.plugged if one is not before]
    made = _plugged(home, found, brought, passed, table, report)
    _refuse_taken(found, made, others)
    with home.as_operator(), home.change():
        _exchange(home, found, passed, before)
        _exchange_policy(home, made, brought, before, report)
        _declare(home, found, made.agents, before)
    for agent in (one.agent for one in brought.agents if table.trust):
        if agent.registry._runtime.staging:  # from now on theirs is this registry
            agent._set(home, Principal(agent.name), agent._function)
            home._declared[agent.name] = agent
    home._runtime.plug(hooks.exchanged(before, made))


def unplug(home: Any, found: Found) -> None:
    """Take out of the registry *home* what a plugin brought, and what it loaded for tables of `[[sources]]`."""
    for before in home._runtime.hooks.plugged:
        if before.distribution == found.distribution and before.entry_point.split(", sources[")[0] == found.entry_point:
            _unplug(home, found, before)


def _unplug(home: Any, found: Found, before: Plugged) -> None:
    with home.as_operator(), home.change():
        for name in _still_of(found, before, home._ledger.present()):
            home.unregister_tool(name, reason=f"{found} is left out")
        if before.policy:
            home._ledger.commit(lambda _: [events.PolicyRemoved(name=before.policy)])
        _declare(home, found, (), before)
    home._runtime.plug(home._runtime.hooks.exchanged(before, None))


def _place(one: Plugged) -> tuple[str, str]:
    return one.distribution, one.entry_point


def _plugged(
    home: Any, found: Found, brought: Brought, passed: Passed, table: PluginTable, report: Reporting
) -> Plugged:
    def noting(name: str) -> tuple[Noting, ...]:
        hook = brought.hooks.get(PREFIX + name)
        return () if hook is None else (Noting(hook, home, report),)

    approve = brought.hooks.get(f"{PREFIX}approve") if table.trust else None
    return Plugged(
        distribution=found.distribution, entry_point=found.entry_point, tools=tuple(one.name for one in passed.tools),
        policy=f"{actor_of(found)}/{found.entry_point}" if f"{PREFIX}authorize" in brought.hooks else "",
        agents=tuple(_renamed(one, passed.renamed) for one in brought.agents if table.trust),
        before=noting("before_call"), after=noting("after_call"),
        approve=() if approve is None else (Answering(approve, home, report),),
        **{kind: brought.named.get(kind, {}) for kind in ("engines", "formats", "journals", "sources")},
    )  # fmt: skip


def _refuse_taken(found: Found, made: Plugged, others: Iterable[Plugged]) -> None:
    for kind in ("engines", "formats", "journals", "sources"):
        for other in others if getattr(made, kind) else ():
            for name in getattr(made, kind):
                if name in getattr(other, kind):
                    text = f"{PREFIX}{kind} brings {name!r}, which {other.distribution} brings already; uninstall one"
                    raise PluginError(str(found), "clash", text)


def _exchange(home: Any, found: Found, passed: Passed, before: Plugged | None) -> None:
    """Register the plugin's tools in the place of those that it had."""
    fresh = {tool.name for tool in passed.tools}
    for name in _still_of(found, before, home._ledger.present()):
        if name not in fresh:
            home.unregister_tool(name, reason=f"{found} does not bring it any more")

    def plan(state: State) -> list[events.Event]:
        mine = _still_of(found, before, state)
        for tool in passed.tools:
            for holder in filter(None, map(state.folded.get, keys_of(tool.name))):
                if holder not in mine or holder != tool.name:
                    raise PluginError(str(found), "clash", _clash(found, tool.name, holder, state.tools[holder].tool))
        return [events.ToolRegistered(tool=tool, replaces=tool.name in state.tools) for tool in passed.tools]

    home._ledger.commit(plan)


def _still_of(found: Found, before: Plugged | None, state: State) -> list[str]:
    """Return what is still the plugin's of the tools that it brought: the host may have put its own in their place."""
    brought = before.tools if before is not None else ()
    sources = {name: state.tools[name].tool.metadata.source for name in brought if name in state.tools}
    return [name for name, one in sources.items() if one is not None and one.distribution == found.distribution]


def _clash(found: Found, name: str, holder: str, other: Any) -> str:
    meta, twin = other.metadata, "" if holder == name else f", which is {name!r} on the wire"
    owner = "without an owner" if meta.owned_by is None else f"owned by {meta.owned_by!r}"
    return (
        f"its tool {name!r} clashes with {holder!r}{twin}, {owner} ({meta.source or 'code'}). "
        f'Set namespace = "…" for it in [plugins."{found.distribution}"], or leave the tool out with allow = [...].'
    )


def _exchange_policy(home: Any, made: Plugged, brought: Brought, before: Plugged | None, report: Reporting) -> None:
    if before is not None and before.policy:
        home._ledger.commit(lambda _: [events.PolicyRemoved(name=before.policy)])
    if made.policy:
        policy = Authorizing(brought.hooks[f"{PREFIX}authorize"], home, report)
        home._ledger.commit(lambda _: [events.PolicyAdded(name=made.policy, policy=policy)])


def _renamed(one: Wished, names: Mapping[str, str]) -> AgentProfile:
    """Return what the plugin asks for its agent; what that lists is spelled as the operator renamed it."""
    return replace(one.profile, tools=tuple(names.get(tool, tool) for tool in one.profile.tools))


def _declare(home: Any, found: Found, agents: Collection[AgentProfile], before: Plugged | None) -> None:
    """Declare the agents of a trusted plugin, and retire those that it declared before and does not any more."""
    known = before.agents if before is not None else ()
    places = {one.name: one.place for one in known}
    for fresh in agents:
        held = home._ledger.present().profile(fresh.name)
        if held.declared and not held.retired and places.get(fresh.name) != held.place:
            error = DuplicateAgentError(fresh.name, held.place or "an earlier place", fresh.place)
            raise PluginError(str(found), "clash", str(error))
        if held.retired or fresh not in known:  # else the operator may have listed more for it
            home._ledger.commit(lambda _, fresh=fresh: [events.AgentDeclared(profile=fresh)])
    for name in sorted(places.keys() - {one.name for one in agents}):
        held = home._ledger.present().profile(name)
        if held.place == places[name] and not held.retired:
            home.retire_agent(name, reason=f"{found} declares it no more")
