"""Activates a plugin in a registry: its tools, agents, policy and hooks together, or none of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from praval_tools.access.commands import plan_agent_withdrawal, plan_withdrawal
from praval_tools.access.events import AgentDeclared, AnyStateEvent, PolicyAdded, PolicyRemoved, ToolRegistered
from praval_tools.access.records import AgentProfile
from praval_tools.access.state import AccessState
from praval_tools.config.plugins import PluginTable
from praval_tools.errors import DuplicateAgentError
from praval_tools.execution.hooks import PluginContribution, get_contribution_key
from praval_tools.execution.plugin_code import run_as
from praval_tools.names import get_collision_keys
from praval_tools.plugins.admission import Admission
from praval_tools.plugins.contents import EXTENSION_KINDS, PluginContents
from praval_tools.plugins.discovery import InstalledPlugin
from praval_tools.plugins.plugin_hooks import (
    HOOK_PREFIX,
    ApprovalHook,
    AuthorizationHook,
    FailureReporter,
    ObserverHook,
)
from praval_tools.registry.agents import adopt_agent
from praval_tools.registry.registry import ToolRegistry, get_runtime
from praval_tools.tools.tool import AnyTool

_SOURCE_MARK: Final = ", sources["
"""What stands in the entry point of a contribution that a plugin loaded for a table, before the table's number."""
_AUTHORIZE_HOOK = f"{HOOK_PREFIX}authorize"
_NO_CONTRIBUTION = PluginContribution("", "")


def activate_plugin(
    registry: ToolRegistry,
    plugin: InstalledPlugin,
    contents: PluginContents,
    admission: Admission,
    table: PluginTable,
    report_failure: FailureReporter,
) -> None:
    """
    Put a plugin into force, in the place of what it brought before.

    Raises:
        PluginError: A name is taken by the host, or by another plugin; nothing is changed.
    """
    runtime = get_runtime(registry)
    hooks = runtime.hooks
    previous = next((other for other in hooks.contributions if get_contribution_key(other) == plugin.key), None)
    contribution = _build_contribution(registry, plugin, contents, admission, table, report_failure)
    _check_extension_clashes(plugin, contribution, (other for other in hooks.contributions if other is not previous))
    replacement = _Replacement(registry, plugin, previous or _NO_CONTRIBUTION)
    with registry.as_operator(), registry.change():
        replacement.replace_tools(admission.tools)
        authorize = contents.hooks.get(_AUTHORIZE_HOOK)
        policy = None if authorize is None else AuthorizationHook(authorize, registry, report_failure)
        replacement.replace_policy(contribution.policy, policy)
        replacement.replace_agents(contribution.agents)
    for requested in contents.agents if table.trust else ():
        with run_as(plugin.principal):  # its class may be the plugin's
            adopt_agent(requested.agent, registry)  # its module keeps the object
    runtime.install_hooks(hooks.with_replaced(previous, contribution))


def deactivate_plugin(registry: ToolRegistry, plugin: InstalledPlugin) -> None:
    """Take out of a registry what a plugin brought, and what it loaded for `[[sources]]` tables."""
    for previous in get_runtime(registry).hooks.contributions:
        if (previous.distribution, previous.entry_point.split(_SOURCE_MARK)[0]) == plugin.key:
            _deactivate(registry, plugin, previous)


def deactivate_sources(registry: ToolRegistry, kept: int) -> None:
    """Take out of a registry what plugins loaded for `[[sources]]` tables after the first *kept*."""
    for previous in get_runtime(registry).hooks.contributions:
        _, _, rest = previous.entry_point.partition(_SOURCE_MARK)
        if rest and int(rest.rstrip("]")) >= kept:
            plugin = InstalledPlugin(distribution=previous.distribution, entry_point=previous.entry_point)
            _deactivate(registry, plugin, previous)


def _deactivate(registry: ToolRegistry, plugin: InstalledPlugin, previous: PluginContribution) -> None:
    runtime, replacement = get_runtime(registry), _Replacement(registry, plugin, previous)
    with registry.as_operator(), registry.change():
        replacement.withdraw_tools(keep=(), reason=f"{plugin} is left out")
        replacement.replace_policy("", None)
        replacement.replace_agents(())
    runtime.install_hooks(runtime.hooks.with_replaced(previous, None))


def _build_contribution(
    registry: ToolRegistry,
    plugin: InstalledPlugin,
    contents: PluginContents,
    admission: Admission,
    table: PluginTable,
    report_failure: FailureReporter,
) -> PluginContribution:
    def build_observers(name: str) -> tuple[ObserverHook, ...]:
        hook = contents.hooks.get(HOOK_PREFIX + name)
        return () if hook is None else (ObserverHook(hook, registry, report_failure),)

    approve = contents.hooks.get(f"{HOOK_PREFIX}approve") if table.trust else None
    requested_agents = contents.agents if table.trust else ()
    return PluginContribution(
        distribution=plugin.distribution,
        entry_point=plugin.entry_point,
        tools=tuple(tool.name for tool in admission.tools),
        policy=f"{plugin.principal}/{plugin.entry_point}" if _AUTHORIZE_HOOK in contents.hooks else "",
        agents=tuple(_rename_listed_tools(agent.profile, admission.registered_names) for agent in requested_agents),
        before=build_observers("before_call"),
        after=build_observers("after_call"),
        approve=() if approve is None else (ApprovalHook(approve, registry, report_failure),),
        **{kind: contents.extensions.get(kind, {}) for kind in EXTENSION_KINDS},
    )


def _rename_listed_tools(profile: AgentProfile, names: Mapping[str, str]) -> AgentProfile:
    """Return the profile that a plugin requests for an agent, with the tools' names in the registry."""
    return msgspec.structs.replace(profile, tools=tuple(names.get(tool, tool) for tool in profile.tools))


def _check_extension_clashes(
    plugin: InstalledPlugin, contribution: PluginContribution, others: Iterable[PluginContribution]
) -> None:
    brought = [(kind, name) for kind in EXTENSION_KINDS for name in getattr(contribution, kind)]
    for other in others if brought else ():
        for kind, name in brought:
            if name in getattr(other, kind):
                text = f"{HOOK_PREFIX}{kind} brings {name!r}, which {other.distribution} brings already"
                raise plugin.make_error("clash", f"{text}; uninstall one")


class _Replacement(msgspec.Struct, frozen=True):
    """
    Replaces what a plugin brought to a registry, inside `registry.change()`.

    Args:
        registry: The registry.
        plugin: The plugin.
        previous: What it brought before.
    """

    registry: ToolRegistry
    plugin: InstalledPlugin
    previous: PluginContribution

    @property
    def state(self) -> AccessState:
        """The state that the change has led to so far."""
        return get_runtime(self.registry).access_store.get_current_state()

    def commit(self, *events: AnyStateEvent) -> None:
        """Change the state by *events*."""
        get_runtime(self.registry).access_store.commit(lambda _: events)

    def list_previous_tools(self) -> list[str]:
        """Return the names of the tools that still are the plugin's: the host may have replaced some by its own."""
        tools = self.state.tools
        sources = {name: tools[name].tool.metadata.source for name in self.previous.tools if name in tools}
        own = self.plugin.distribution
        return [name for name, source in sources.items() if source is not None and source.distribution == own]

    def withdraw_tools(self, keep: Iterable[str], reason: str) -> None:
        """Take the tools that the plugin brought before out of this registry, but not those that it brings again."""
        kept = set(keep)
        names = [name for name in self.list_previous_tools() if name not in kept]
        self.commit(*plan_withdrawal(self.state, names, reason))

    def replace_tools(self, tools: tuple[AnyTool, ...]) -> None:
        """Register *tools* in the place of those that the plugin brought before."""
        self.withdraw_tools((tool.name for tool in tools), f"{self.plugin} does not bring it any more")
        state, own = self.state, self.list_previous_tools()
        for tool in tools:
            for holder in filter(None, map(state.names_by_wire_key.get, get_collision_keys(tool.name))):
                if holder not in own or holder != tool.name:
                    text = _describe_clash(self.plugin, tool.name, holder, state.tools[holder].tool)
                    raise self.plugin.make_error("clash", text)
        known = state.tools
        self.commit(*(ToolRegistered(tool=tool, replaces=tool.name in known, redeclares=True) for tool in tools))

    def replace_policy(self, name: str, policy: AuthorizationHook | None) -> None:
        """Add the plugin's policy in the place of the one that it brought before."""
        if self.previous.policy:
            self.commit(PolicyRemoved(name=self.previous.policy))
        if policy is not None:
            self.commit(PolicyAdded(name=name, policy=policy, takes_principal=True))

    def replace_agents(self, agents: tuple[AgentProfile, ...]) -> None:
        """Declare *agents*, and retire here those that the plugin declared before and does not declare any more."""
        known = self.previous.agents
        places = {profile.name: profile.place for profile in known}
        for fresh in agents:
            profile = self.state.get_profile(fresh.name)
            if profile.declared and not profile.retired and places.get(fresh.name) != profile.place:
                error = DuplicateAgentError(fresh.name, profile.place or "an earlier place", fresh.place)
                raise self.plugin.make_error("clash", str(error))
            is_kept = profile.retired or fresh in known  # the operator retired it, or may have listed more for it
            if fresh.name not in places or not is_kept:
                self.commit(AgentDeclared(profile=fresh))
        for name in sorted(places.keys() - {profile.name for profile in agents}):
            self.commit(*plan_agent_withdrawal(self.state, name, places[name], f"{self.plugin} declares it no more"))


def _describe_clash(plugin: InstalledPlugin, name: str, holder: str, other: AnyTool) -> str:
    metadata, wire_name = other.metadata, "" if holder == name else f", which is {name!r} on the wire"
    owner = "without an owner" if metadata.owned_by is None else f"owned by {metadata.owned_by!r}"
    return (
        f"its tool {name!r} clashes with {holder!r}{wire_name}, {owner} ({metadata.source or 'code'}). "
        f'Set namespace = "…" for it in [plugins."{plugin.distribution}"], or leave the tool out with allow = [...].'
    )
