"""Makes of declarations one change of a registry: all of it, or nothing, with every problem."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from weakref import ref

from praval_tools.access import events
from praval_tools.access.state import AccessState
from praval_tools.access.withdrawals import plan_replacement, plan_withdrawal
from praval_tools.config.system import ServerConfig, ToolConfig
from praval_tools.config_loading.access_plan import AccessPlan
from praval_tools.config_loading.declarations import Declarations, Located, ProblemCollector
from praval_tools.config_loading.functions import build_function_tool, is_missing_function
from praval_tools.config_loading.in_force import InForce
from praval_tools.config_loading.labels import label_files
from praval_tools.config_loading.servers import ServerDeclaration, build_server
from praval_tools.config_loading.services import ServiceInForce
from praval_tools.config_loading.settings import SettingsChange
from praval_tools.errors import (
    AccessWarning,
    ConfigError,
    ConfigProblem,
    DuplicateToolError,
    JournalError,
    MissingExtraError,
    ToolDefinitionError,
    ToolError,
    get_user_stacklevel,
)
from praval_tools.execution.protocols import ToolSource
from praval_tools.names import get_collision_keys
from praval_tools.plugins.plugin_load import PluginLoad
from praval_tools.registry.mcp_servers import make_mcp_source
from praval_tools.registry.registry import ToolRegistry, get_runtime
from praval_tools.tools.deferred import DeferredImplementation
from praval_tools.tools.tool import AnyTool


def build_tools(
    declarations: Declarations, previous: InForce, problems: ProblemCollector
) -> dict[str, tuple[ToolConfig, AnyTool]]:
    """Return the tools that are functions: those of before where nothing is said differently."""
    tools = dict[str, tuple[ToolConfig, AnyTool]]()
    for entry in declarations.tools:
        old = previous.tools.get(entry.value.name)
        if old is not None and old[0] == entry.value and not _failed_to_import(*old):
            tools[entry.value.name] = old
            continue
        if problems.is_known_of(entry):
            continue
        try:
            tool = build_function_tool(entry, declarations.schemas.get(entry.value.name))
            tools[entry.value.name] = (entry.value, tool)
        except ToolDefinitionError as error:
            for problem in error.problems:
                problems.report(entry, problem, "function")
    return tools


def _failed_to_import(entry: ToolConfig, tool: AnyTool) -> bool:
    """Tell whether the function of a tool could not be imported, when it was called or as the file was loaded."""
    is_complete = entry.description is not None and (entry.parameters_schema or entry.inputSchema) is not None
    is_deferred = isinstance(tool.implementation, DeferredImplementation)
    return is_missing_function(tool) or (is_deferred and not is_complete)


class ConfigurationChange:
    """
    Puts declarations into force in a registry, in the place of what a configuration brought before.

    Args:
        registry: The registry.
        declarations: What is declared.
        previous: What it brought before.
        others: What other configurations have brought.
        problems: What is wrong with the declarations; receives what the registry finds.
        awaits_plugins: Plugins that it names are not loaded, for what is wrong with it: any tool may be one of theirs.
    """

    def __init__(
        self, registry: ToolRegistry, declarations: Declarations, previous: InForce, others: Sequence[InForce],
        problems: ProblemCollector, *, awaits_plugins: bool = False,
    ) -> None:  # fmt: skip
        self._registry, self._declarations, self.problems = registry, declarations, problems
        self._previous = previous
        self._runtime, self._store = get_runtime(registry), get_runtime(registry).access_store
        foreign = {label: path for other in others for label, path in other.files.items()}
        has_journal = registry.journal is not None or declarations.journal is not None
        labels = label_files(declarations.documents, previous.files, foreign, problems, has_journal=has_journal)
        self._new = InForce({label: os.path.abspath(file) for file, label in labels.items()}, declarations)
        self._own_files = self._new.files.keys() | (previous.files.keys() - foreign.keys())
        self._access = AccessPlan(
            declarations, labels, self._own_files, previous, self._new, problems, self._runtime.clock,
            awaits_plugins=awaits_plugins,
        )  # fmt: skip
        self._made_sources: list[ToolSource] = []
        self._is_in_force = False

    def apply(
        self, tools: dict[str, tuple[ToolConfig, AnyTool]], services: dict[str, ServiceInForce],
        settings: SettingsChange, plugins: PluginLoad | None, when_published: Callable[[InForce], object],
    ) -> None:  # fmt: skip
        """
        Put it all into force at once, with the settings and plugins that it needs.

        Args:
            tools: The tools.
            services: The documents of services.
            settings: The settings.
            plugins: The plugins; None: nothing changes of these.
            when_published: Called with what is in force as soon as it counts, maybe twice; sources of before that are
                not among it are to be closed.

        Raises:
            ConfigError: With every problem, those of `problems` before too; nothing was changed.
        """
        with suppress(JournalError):  # raised again where the change is stored
            self._store.load_other_changes()
        sources, servers = dict(self._runtime.sources), self._build_servers()
        self._made_sources += [
            service.source
            for name, service in services.items()
            if service.source is not None and service is not self._previous.services.get(name)
        ]

        def finish() -> None:
            self._is_in_force = True
            settings.finish()
            if plugins is not None:
                plugins.set_in_force()
            when_published(self._new)

        try:
            with self._registry.as_operator(), self._store.change(is_whole=True, when_published=finish):
                self._change_access(tools, servers, services, plugins)
                settings.enter()
                if plugins is not None:
                    plugins.record()
        except BaseException:
            if not self._is_in_force:  # else it was interrupted later
                settings.undo()
                self._runtime.sources.clear()
                self._runtime.sources.update(sources)
                for source in self._made_sources:
                    source.close()
            raise
        when_published(self._new)  # an outer change may come to count later: others are loaded inside it

    def _change_access(
        self, tools: dict[str, tuple[ToolConfig, AnyTool]], servers: dict[str, ServerDeclaration],
        services: dict[str, ServiceInForce], plugins: PluginLoad | None,
    ) -> None:  # fmt: skip
        access = self._access
        self._store.commit(access.plan_gone_agents)
        self._withdraw_tools(tools)  # first of all: a plugin may bring them from now on
        self._withdraw_servers(servers)
        self._withdraw_services(services)
        if plugins is not None:
            plugins.activate(self._own_files)
        self._add_tools(tools)
        self._add_servers(servers)
        self._add_services(services)
        for plan in (access.plan_agents, access.plan_blocks, access.plan_disabling, access.plan_grants):
            self._store.commit(plan)
        self._store.commit(self._refuse_problems)

    def make_waiting_grants(self) -> list[ConfigProblem]:
        """Make the grants again, now that servers are connected; return what is wrong with some."""

        def plan(state: AccessState) -> list[events.AnyStateEvent]:
            self.problems.found.clear()  # of an earlier plan
            return self._access.plan_grants(state)

        with self._registry.as_operator():
            self._store.commit(plan)
        return self.problems.found

    def warn(self) -> None:
        """Warn of what is doubtful about the grants that were made."""
        for doubt in self._access.doubts.values():
            warnings.warn(doubt, AccessWarning, get_user_stacklevel())

    @property
    def _state(self) -> AccessState:
        return self._store.get_current_state()

    def _commit(self, *changes: events.AnyStateEvent) -> None:
        self._store.commit(lambda _: list(changes))

    def _refuse_problems(self, _: AccessState) -> list[events.AnyStateEvent]:
        """Plan nothing; raise where something is wrong, also with what was planned again."""
        if problems := self.problems.all:
            raise ConfigError(problems)
        return []

    # ── tools ────────────────────────────────────────────────────────────────────────────────────

    def _list_own_tools(self) -> set[str]:
        return {name for name, (_, tool) in self._previous.tools.items() if self._is_registered(name, tool)}

    def _withdraw_tools(self, tools: dict[str, tuple[ToolConfig, AnyTool]]) -> None:
        self._withdraw(sorted(self._list_own_tools() - tools.keys()), "its configuration does not declare it any more")

    def _add_tools(self, tools: dict[str, tuple[ToolConfig, AnyTool]]) -> None:
        own = self._list_own_tools()
        entries = {entry.value.name: entry for entry in self._declarations.tools}
        changes: list[events.AnyStateEvent] = []
        for name, (_, tool) in tools.items():
            if name in own:
                if self._previous.tools[name][1] is not tool:
                    self._store.commit(partial(plan_replacement, tool=tool))
            elif (holder := self._find_holder(name)) is not None:
                self.problems.report(entries[name], str(_make_duplicate_error(holder, name)), "name")
            else:
                tool.implementation.find_store = ref(self._store)
                changes.append(events.ToolRegistered(tool=tool))
        self._commit(*changes)
        self._new.tools = tools

    def _find_holder(self, name: str) -> AnyTool | None:
        """Return the tool that has a name already, or one that is the same on the wire."""
        holders = filter(None, map(self._state.names_by_wire_key.get, get_collision_keys(name)))
        holder = next(holders, None)
        return None if holder is None else self._state.tools[holder].tool

    def _is_registered(self, name: str, tool: AnyTool) -> bool:
        record = self._state.tools.get(name)
        return record is not None and record.tool.implementation is tool.implementation

    def _build_servers(self) -> dict[str, ServerDeclaration]:
        return {
            name: build_server(name, server, self._declarations.provided.get(name))
            for name, server in self._declarations.servers.items()
        }

    def _withdraw_servers(self, declared: dict[str, ServerDeclaration]) -> None:
        for name, (declaration, source) in self._previous.servers.items():
            if declared.get(name) == declaration:
                self._new.servers[name] = (declaration, source)
                continue
            if self._runtime.sources.get(source.name) is source:
                del self._runtime.sources[source.name]
            self._withdraw(tuple(source.tools), "its configuration changed its server")

    def _add_servers(self, declared: dict[str, ServerDeclaration]) -> None:
        for name, declaration in declared.items():
            if name not in self._new.servers:
                self._add_server(declaration)

    def _add_server(self, declaration: ServerDeclaration) -> None:
        server = self._declarations.servers[declaration.name]
        try:
            source = make_mcp_source(
                self._registry, declaration.address, declaration.build_options(), server.build_source()
            )
        except (ToolError, MissingExtraError, ModuleNotFoundError) as error:
            filled = _has_variables(server)
            text = "its address, with the environment filled in, cannot be used" if filled else str(error)
            self.problems.report(server, text, "url" if server.value.url is not None else "command")
            return
        self._made_sources.append(source)
        self._new.servers[declaration.name] = (declaration, source)
        registered = set(source.tools)
        for tool in self._declarations.provided.get(declaration.name, ()):
            if tool.value.name not in registered:
                self._report_left_out(tool)

    def _withdraw_services(self, services: dict[str, ServiceInForce]) -> None:
        for name, service in self._previous.services.items():
            if service.source is not None and services.get(name) is not service:
                if self._runtime.sources.get(name) is service.source:
                    del self._runtime.sources[name]
                self._withdraw(tuple(service.source.tools), "its configuration changed its document")

    def _add_services(self, services: dict[str, ServiceInForce]) -> None:
        entries = {entry.value.namespace: entry for entry in self._declarations.services}
        for name, service in services.items():
            if service.source is not None and service is not self._previous.services.get(name):
                with self.problems.collecting(entries[name], "namespace"):
                    service.source.register()
        self._new.services = services

    def _withdraw(self, tools: Sequence[str], reason: str) -> None:
        """Take tools out of this registry; grants that are still declared are made again for those in their place."""
        self._store.commit(lambda state: plan_withdrawal(state, tools, reason, self._own_files))

    def _report_left_out(self, tool: Located[ToolConfig]) -> None:
        holder = self._find_holder(tool.value.name)
        if holder is None:
            self.problems.report(tool, "the tool cannot be taken of its server; see its schema")
        else:
            self.problems.report(tool, str(_make_duplicate_error(holder, tool.value.name)), "name")


def _make_duplicate_error(holder: AnyTool, name: str) -> DuplicateToolError:
    source = str(holder.metadata.source or "code")
    return DuplicateToolError(holder.name, holder.metadata.owned_by, source, None, "", name)


def _has_variables(server: Located[ServerConfig]) -> bool:
    """Tell whether the address of a server is filled in from the environment; what comes of that may be secret."""
    table: object = server.document.data["mcp_servers"][server.key[-1]]
    return isinstance(table, Mapping) and "${" in f"{table.get('url')}{table.get('command')}"
