"""Putting a plugin to work: its tools, agents, policy and hooks come into force together, or not at all."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from praval_tools.access import events
from praval_tools.access.records import AgentProfile, Principal
from praval_tools.access.state import AccessState
from praval_tools.config.plugins import PluginTable
from praval_tools.errors import DuplicateAgentError, PluginError
from praval_tools.execution.hooks import PluginContribution
from praval_tools.names import get_collision_keys
from praval_tools.plugins.admission import Admission
from praval_tools.plugins.contents import PluginContents
from praval_tools.plugins.discovery import InstalledPlugin
from praval_tools.plugins.hook_caller import HOOK_PREFIX, ApprovalHook, AuthorizationHook, FailureReporter, ObserverHook
from praval_tools.plugins.staging import RequestedAgent, get_plugin_principal


def activate_plugin(
    home: Any,
    found: InstalledPlugin,
    brought: PluginContents,
    passed: Admission,
    table: PluginTable,
    report: FailureReporter,
) -> None:
    """
    Have a plugin in force in the registry *home* from now on, in the place of what it brought before.

    Raises:
        PluginError: A name is taken by the host, or by another plugin; nothing is changed.
    """
    hooks = home._runtime.hooks
    before = next((one for one in hooks.contributions if _get_key(one) == (found.distribution, found.entry_point)), None)
    others = [one for one in hooks.contributions if one is not before]
    made = _build_contribution(home, found, brought, passed, table, report)
    _check_extension_clashes(found, made, others)
    with home.as_operator(), home.change():
        _replace_tools(home, found, passed, before)
        _replace_policy(home, made, brought, before, report)
        _replace_agents(home, found, made.agents, before)
    for agent in (one.agent for one in brought.agents if table.trust):
        if agent.registry._runtime.is_staging:  # from now on theirs is this registry
            agent._initialize(home, Principal(agent.name), agent._function)
            home._declared_agents[agent.name] = agent
    home._runtime.install_hooks(hooks.with_replaced(before, made))


def deactivate_plugin(home: Any, found: InstalledPlugin) -> None:
    """Take out of the registry *home* what a plugin brought, and what it loaded for tables of `[[sources]]`."""
    for before in home._runtime.hooks.contributions:
        if before.distribution == found.distribution and before.entry_point.split(", sources[")[0] == found.entry_point:
            _deactivate(home, found, before)


def _deactivate(home: Any, found: InstalledPlugin, before: PluginContribution) -> None:
    with home.as_operator(), home.change():
        for name in _list_remaining_tools(found, before, home._access_store.get_current_state()):
            home.unregister_tool(name, reason=f"{found} is left out")
        if before.policy:
            home._access_store.commit(lambda _: [events.PolicyRemoved(name=before.policy)])
        _replace_agents(home, found, (), before)
    home._runtime.install_hooks(home._runtime.hooks.with_replaced(before, None))


def _get_key(one: PluginContribution) -> tuple[str, str]:
    return one.distribution, one.entry_point


def _build_contribution(
    home: Any,
    found: InstalledPlugin,
    brought: PluginContents,
    passed: Admission,
    table: PluginTable,
    report: FailureReporter,
) -> PluginContribution:
    def build_observers(name: str) -> tuple[ObserverHook, ...]:
        hook = brought.hooks.get(HOOK_PREFIX + name)
        return () if hook is None else (ObserverHook(hook, home, report),)

    approve = brought.hooks.get(f"{HOOK_PREFIX}approve") if table.trust else None
    return PluginContribution(
        distribution=found.distribution, entry_point=found.entry_point, tools=tuple(one.name for one in passed.tools),
        policy=f"{get_plugin_principal(found)}/{found.entry_point}" if f"{HOOK_PREFIX}authorize" in brought.hooks else "",
        agents=tuple(_rename_listed_tools(one, passed.registered_names) for one in brought.agents if table.trust),
        before=build_observers("before_call"), after=build_observers("after_call"),
        approve=() if approve is None else (ApprovalHook(approve, home, report),),
        **{kind: brought.extensions.get(kind, {}) for kind in ("engines", "formats", "journals", "sources")},
    )  # fmt: skip


def _check_extension_clashes(
    found: InstalledPlugin, made: PluginContribution, others: Iterable[PluginContribution]
) -> None:
    for kind in ("engines", "formats", "journals", "sources"):
        for other in others if getattr(made, kind) else ():
            for name in getattr(made, kind):
                if name in getattr(other, kind):
                    text = (
                        f"{HOOK_PREFIX}{kind} brings {name!r}, which {other.distribution} brings already; uninstall one"
                    )
                    raise PluginError(str(found), "clash", text)


def _replace_tools(home: Any, found: InstalledPlugin, passed: Admission, before: PluginContribution | None) -> None:
    """Register the plugin's tools in the place of those that it had."""
    fresh = {tool.name for tool in passed.tools}
    for name in _list_remaining_tools(found, before, home._access_store.get_current_state()):
        if name not in fresh:
            home.unregister_tool(name, reason=f"{found} does not bring it any more")

    def plan(state: AccessState) -> list[events.AnyStateEvent]:
        mine = _list_remaining_tools(found, before, state)
        for tool in passed.tools:
            for holder in filter(None, map(state.names_by_wire_key.get, get_collision_keys(tool.name))):
                if holder not in mine or holder != tool.name:
                    raise PluginError(
                        str(found), "clash", _describe_clash(found, tool.name, holder, state.tools[holder].tool)
                    )
        return [events.ToolRegistered(tool=tool, replaces=tool.name in state.tools) for tool in passed.tools]

    home._access_store.commit(plan)


def _list_remaining_tools(found: InstalledPlugin, before: PluginContribution | None, state: AccessState) -> list[str]:
    """Return what is still the plugin's of the tools that it brought: the host may have put its own in their place."""
    brought = before.tools if before is not None else ()
    sources = {name: state.tools[name].tool.metadata.source for name in brought if name in state.tools}
    return [name for name, one in sources.items() if one is not None and one.distribution == found.distribution]


def _describe_clash(found: InstalledPlugin, name: str, holder: str, other: Any) -> str:
    meta, twin = other.metadata, "" if holder == name else f", which is {name!r} on the wire"
    owner = "without an owner" if meta.owned_by is None else f"owned by {meta.owned_by!r}"
    return (
        f"its tool {name!r} clashes with {holder!r}{twin}, {owner} ({meta.source or 'code'}). "
        f'Set namespace = "…" for it in [plugins."{found.distribution}"], or leave the tool out with allow = [...].'
    )


def _replace_policy(
    home: Any,
    made: PluginContribution,
    brought: PluginContents,
    before: PluginContribution | None,
    report: FailureReporter,
) -> None:
    if before is not None and before.policy:
        home._access_store.commit(lambda _: [events.PolicyRemoved(name=before.policy)])
    if made.policy:
        policy = AuthorizationHook(brought.hooks[f"{HOOK_PREFIX}authorize"], home, report)
        home._access_store.commit(lambda _: [events.PolicyAdded(name=made.policy, policy=policy)])


def _rename_listed_tools(one: RequestedAgent, names: Mapping[str, str]) -> AgentProfile:
    """Return what the plugin asks for its agent; what that lists is spelled as the operator renamed it."""
    return replace(one.profile, tools=tuple(names.get(tool, tool) for tool in one.profile.tools))


def _replace_agents(
    home: Any, found: InstalledPlugin, agents: Collection[AgentProfile], before: PluginContribution | None
) -> None:
    """Declare the agents of a trusted plugin, and retire those that it declared before and does not any more."""
    known = before.agents if before is not None else ()
    places = {one.name: one.place for one in known}
    for fresh in agents:
        held = home._access_store.get_current_state().get_profile(fresh.name)
        if held.declared and not held.retired and places.get(fresh.name) != held.place:
            error = DuplicateAgentError(fresh.name, held.place or "an earlier place", fresh.place)
            raise PluginError(str(found), "clash", str(error))
        if held.retired or fresh not in known:  # else the operator may have listed more for it
            home._access_store.commit(lambda _, fresh=fresh: [events.AgentDeclared(profile=fresh)])
    for name in sorted(places.keys() - {one.name for one in agents}):
        held = home._access_store.get_current_state().get_profile(name)
        if held.place == places[name] and not held.retired:
            home.retire_agent(name, reason=f"{found} declares it no more")
