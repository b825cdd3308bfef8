"""Activates plugins in a registry: the tools, agents, policy and hooks of each together, or none of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set

import msgspec

from praval_tools.access.events import AgentDeclared, AnyStateEvent, PolicyAdded, PolicyRemoved, ToolRegistered
from praval_tools.access.records import AgentProfile
from praval_tools.access.state import AccessState
from praval_tools.access.withdrawals import plan_agent_withdrawal, plan_replacement, plan_withdrawal
from praval_tools.config.plugins import PluginTable
from praval_tools.errors import DuplicateAgentError
from praval_tools.execution.hooks import PluginContribution
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

_AUTHORIZE_HOOK = f"{HOOK_PREFIX}authorize"
_NO_CONTRIBUTION = PluginContribution("", "")


class StagedPlugin(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """
    What a plugin brings, collected and admitted, and not in force yet.

    Args:
        plugin: The plugin.
        contents: Everything that it brings.
        admission: What of its tools the operator admits.
        table: What the operator says of it.
        source: The `[[sources]]` table that it was loaded for; None: it is the plugin itself.
    """

    plugin: InstalledPlugin
    contents: PluginContents
    admission: Admission
    table: PluginTable
    source: Mapping[str, object] | None = None


class Activation:
    """
    Puts plugins into force in a registry and takes them out, inside `registry.change()`.

    Args:
        registry: The registry.
        files: What stands for the files that are loaded; none: a program loads the plugins.
        report_failure: Receives the failures of hooks.
    """

    def __init__(self, registry: ToolRegistry, files: Set[str], report_failure: FailureReporter) -> None:
        self._registry, self._files, self._report_failure = registry, files, report_failure
        self.hooks = get_runtime(registry).hooks
        """What is to be installed once the change is published: no call uses it before."""

    def take_out(self, previous: PluginContribution) -> None:
        """Take out what a plugin brought."""
        plugin = InstalledPlugin(distribution=previous.distribution, entry_point=previous.entry_point)
        replacement = _Replacement(self._registry, self._files, plugin, previous)
        replacement.withdraw_tools(keep=(), reason=f"{plugin} is left out")
        replacement.replace_policy("", None)
        replacement.withdraw_agents(keep=())
        self.hooks = self.hooks.with_replaced(previous, None)

    def make_room(self, staged: StagedPlugin, previous: PluginContribution) -> None:
        """Take out what a plugin brought before and does not bring any more: another may bring it now."""
        replacement = _Replacement(self._registry, self._files, staged.plugin, previous)
        names, agents = (tool.name for tool in staged.admission.tools), staged.contents.agents
        replacement.withdraw_tools(names, f"{staged.plugin} does not bring it any more")
        replacement.withdraw_agents(agent.profile.name for agent in agents if staged.table.trust)
        self.hooks = self.hooks.with_replaced(previous, None)

    def put_in(self, staged: StagedPlugin, previous: PluginContribution | None) -> None:
        """
        Put into force what a plugin brings, in the place of what it brought before: after `make_room` of that.

        Raises:
            PluginError: A name is taken by the host, or by another plugin; nothing is changed.
        """
        contribution = _build_contribution(self._registry, staged, self._report_failure)
        _check_extension_clashes(staged.plugin, contribution, self.hooks.contributions)
        replacement = _Replacement(self._registry, self._files, staged.plugin, previous or _NO_CONTRIBUTION)
        with self._registry.change():
            replacement.replace_tools(staged.admission.tools)
            authorize = staged.contents.hooks.get(_AUTHORIZE_HOOK)
            policy = None
            if authorize is not None:
                policy = AuthorizationHook(authorize, self._registry, self._report_failure)
            replacement.replace_policy(contribution.policy, policy)
            replacement.declare_agents(contribution.agents)
        self.hooks = self.hooks.with_replaced(None, contribution)


def adopt_agents(registry: ToolRegistry, staged: StagedPlugin) -> None:
    """Let the agents of a trusted plugin that is in force, whose objects its module keeps, belong to a registry."""
    for requested in staged.contents.agents if staged.table.trust else ():
        with run_as(staged.plugin.principal):  # its class may be the plugin's
            adopt_agent(requested.agent, registry)


def _build_contribution(
    registry: ToolRegistry, staged: StagedPlugin, report_failure: FailureReporter
) -> PluginContribution:
    plugin, contents, admission, table = staged.plugin, staged.contents, staged.admission, staged.table

    def build_observers(name: str) -> tuple[ObserverHook, ...]:
        hook = contents.hooks.get(HOOK_PREFIX + name)
        return () if hook is None else (ObserverHook(hook, registry, report_failure),)

    approve = contents.hooks.get(f"{HOOK_PREFIX}approve") if table.trust else None
    requested_agents = contents.agents if table.trust else ()
    return PluginContribution(
        distribution=plugin.distribution,
        entry_point=plugin.entry_point,
        source=staged.source,
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
        files: What stands for the files that are loaded.
        plugin: The plugin.
        previous: What it brought before.
    """

    registry: ToolRegistry
    files: Set[str]
    plugin: InstalledPlugin
    previous: PluginContribution

    @property
    def state(self) -> AccessState:
        """The state that the change has led to so far."""
        return get_runtime(self.registry).access_store.get_current_state()

    def commit(self, plan: Callable[[AccessState], Iterable[AnyStateEvent]]) -> None:
        """Change the state by what *plan* makes of it."""
        get_runtime(self.registry).access_store.commit(plan)

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
        self.commit(lambda state: plan_withdrawal(state, names, reason, self.files))

    def replace_tools(self, tools: tuple[AnyTool, ...]) -> None:
        """Register *tools* in the place of those of their names that the plugin brought before."""
        state, own = self.state, self.list_previous_tools()
        for tool in tools:
            for holder in filter(None, map(state.names_by_wire_key.get, get_collision_keys(tool.name))):
                if holder not in own or holder != tool.name:
                    text = _describe_clash(self.plugin, tool.name, holder, state.tools[holder].tool)
                    raise self.plugin.make_error("clash", text)

        def plan(state: AccessState) -> Iterator[AnyStateEvent]:
            for tool in tools:
                if tool.name in state.tools:
                    yield from plan_replacement(state, tool)
                else:
                    yield ToolRegistered(tool=tool)

        self.commit(plan)

    def replace_policy(self, name: str, policy: AuthorizationHook | None) -> None:
        """Add the plugin's policy in the place of the one that it brought before."""
        if self.previous.policy:
            self.commit(lambda _: [PolicyRemoved(name=self.previous.policy)])
        if policy is not None:
            self.commit(lambda _: [PolicyAdded(name=name, policy=policy, takes_principal=True)])

    def withdraw_agents(self, keep: Iterable[str]) -> None:
        """Retire here the agents that the plugin declared before, but not those that it declares again."""
        places = {profile.name: profile.place for profile in self.previous.agents}
        gone = sorted(places.keys() - set(keep))

        def plan(state: AccessState) -> Iterator[AnyStateEvent]:
            for name in gone:
                yield from plan_agent_withdrawal(state, name, places[name], f"{self.plugin} declares it no more")

        self.commit(plan)

    def declare_agents(self, agents: tuple[AgentProfile, ...]) -> None:
        """Declare *agents*; those that the plugin declared before stay as they are, where nothing is said anew."""
        self.commit(lambda state: self._plan_agents(state, agents))

    def _plan_agents(self, state: AccessState, agents: tuple[AgentProfile, ...]) -> Iterator[AnyStateEvent]:
        known = self.previous.agents
        places = {profile.name: profile.place for profile in known}
        for fresh in agents:
            profile = state.get_profile(fresh.name)
            if profile.declared and not profile.retired and places.get(fresh.name) != profile.place:
                error = DuplicateAgentError(fresh.name, profile.place or "an earlier place", fresh.place)
                raise self.plugin.make_error("clash", str(error))
            is_kept = profile.retired or fresh in known  # the operator retired it, or may have listed more for it
            if fresh.name not in places or not is_kept:
                yield AgentDeclared(profile=fresh)


def _describe_clash(plugin: InstalledPlugin, name: str, holder: str, other: AnyTool) -> str:
    metadata, wire_name = other.metadata, "" if holder == name else f", which is {name!r} on the wire"
    owner = "without an owner" if metadata.owned_by is None else f"owned by {metadata.owned_by!r}"
    return (
        f"its tool {name!r} clashes with {holder!r}{wire_name}, {owner} ({metadata.source or 'code'}). "
        f'Set namespace = "…" for it in [plugins."{plugin.distribution}"], or leave the tool out with allow = [...].'
    )
