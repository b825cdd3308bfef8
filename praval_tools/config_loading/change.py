"""Makes of declarations one change of a registry: all of it, or nothing, with every problem."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from hashlib import sha256
from weakref import ref

from attrs import define, field

from praval_tools.access import events
from praval_tools.access.records import AgentProfile, Block
from praval_tools.access.state import AccessState
from praval_tools.config.system import AgentConfig, GrantConfig, ServerConfig, ToolConfig
from praval_tools.config_loading.checks import read_expiry
from praval_tools.config_loading.declarations import Declarations, Located, ProblemCollector
from praval_tools.config_loading.functions import build_function_tool, is_missing_function
from praval_tools.config_loading.labels import find_label, label_files
from praval_tools.config_loading.servers import ServerDeclaration, build_server
from praval_tools.config_loading.services import ServiceInForce
from praval_tools.config_loading.settings import SettingsChange
from praval_tools.errors import (
    ConfigError,
    ConfigProblem,
    DuplicateAgentError,
    DuplicateToolError,
    MissingExtraError,
    ToolDefinitionError,
    ToolError,
    UnknownToolError,
)
from praval_tools.execution.protocols import ToolSource
from praval_tools.names import OPERATOR, find_similar_names, get_collision_keys
from praval_tools.registry.mcp_servers import make_mcp_source
from praval_tools.registry.registry import ToolRegistry, get_runtime
from praval_tools.tools.deferred import DeferredImplementation
from praval_tools.tools.tool import AnyTool


@define
class InForce:
    """
    What a configuration has brought to a registry.

    Args:
        files: The paths of its files, by what stands for them in records.
        tools: The tools that are functions, with their entries, by name.
        servers: The servers, with what is declared of them, by name.
        services: The OpenAPI documents, by their namespaces.
        agents: The profiles that were declared, by name.
        blocks: The blocks that were declared.
        disabled: The categories that were disabled, each after what stands for its file.
        waiting_grants: Grants of tools that a server may bring once it is connected.
        blocked_grants: Grants that are not made, since a block refuses the agent the tool.
    """

    files: dict[str, str] = field(factory=dict)
    tools: dict[str, tuple[ToolConfig, AnyTool]] = field(factory=dict)
    servers: dict[str, tuple[ServerDeclaration, ToolSource]] = field(factory=dict)
    services: dict[str, ServiceInForce] = field(factory=dict)
    agents: dict[str, AgentProfile] = field(factory=dict)
    blocks: set[Block] = field(factory=set)
    disabled: set[tuple[str, str]] = field(factory=set)
    waiting_grants: list[Located[GrantConfig]] = field(factory=list)
    blocked_grants: list[Located[GrantConfig]] = field(factory=list)

    def may_have(self, tool: str) -> bool:
        """Tell whether a tool of this name may come, once servers are connected and documents read."""
        may_come = any(declaration.may_have(tool) for declaration, _ in self.servers.values())
        return may_come or any(service.may_have(tool) for service in self.services.values())

    def list_unread_sources(self) -> list[str]:
        """Return the servers and documents that may bring tools whose names are not declared."""
        servers = [
            f"MCP server {name!r}"
            for name, (declaration, source) in self.servers.items()
            if declaration.tools is None and not source.tools
        ]
        services = [f"OpenAPI document {name!r}" for name, service in self.services.items() if service.source is None]
        return [*servers, *services]

    def list_sources(self) -> list[ToolSource]:
        """Return the servers, and the documents that are read."""
        services = [service.source for service in self.services.values() if service.source is not None]
        return [*(source for _, source in self.servers.values()), *services]


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
        self._previous, self._others, self._awaits_plugins = previous, others, awaits_plugins
        self._runtime, self._store = get_runtime(registry), get_runtime(registry).access_store
        foreign = {label: path for other in others for label, path in other.files.items()}
        has_journal = registry.journal is not None or declarations.journal is not None
        self._labels = label_files(declarations.documents, foreign, problems, has_journal=has_journal)
        self._new = InForce({label: os.path.abspath(file) for file, label in self._labels.items()})
        self._own = self._new.files.keys() | (previous.files.keys() - foreign.keys())
        self._made_sources: list[ToolSource] = []

    def apply(
        self, tools: dict[str, tuple[ToolConfig, AnyTool]], services: dict[str, ServiceInForce],
        settings: SettingsChange,
    ) -> InForce:  # fmt: skip
        """
        Put it all into force at once, with the settings that it needs.

        Returns:
            What is in force now; sources of before that are not among it are to be closed.

        Raises:
            ConfigError: With every problem, those of `problems` before too; nothing was changed.
        """
        sources = dict(self._runtime.sources)
        self._made_sources += [
            service.source
            for name, service in services.items()
            if service.source is not None and service is not self._previous.services.get(name)
        ]
        try:
            with self._registry.as_operator(), self._store.change(is_whole=True):
                self._replace_tools(tools)
                self._replace_servers()
                self._replace_services(services)
                grants = self._key_grants()
                self._end_grants(grants)  # before their agents, whose retirement would end them for good
                self._replace_agents()
                self._replace_blocks()
                self._replace_disabled_categories()
                self._make_grants(grants)
                if problems := self.problems.all:
                    raise ConfigError(problems)
                settings.enter()
        except BaseException:
            settings.undo()
            self._runtime.sources.clear()
            self._runtime.sources.update(sources)
            for source in self._made_sources:
                source.close()
            raise
        settings.finish()
        return self._new

    def make_waiting_grants(self) -> list[ConfigProblem]:
        """Make the grants again, now that servers are connected; return what is wrong with some."""
        with self._registry.as_operator(), self._registry.change():
            grants = self._key_grants()
            self._end_grants(grants)
            self._make_grants(grants)
        return self.problems.found

    @property
    def _state(self) -> AccessState:
        return self._store.get_current_state()

    def _commit(self, *changes: events.AnyStateEvent) -> None:
        self._store.commit(lambda _: list(changes))

    @contextmanager
    def _collecting(self, entry: Located[object], *key: str | int) -> Iterator[None]:
        """Take an error of the registry as a problem of *entry*."""
        try:
            yield
        except ToolError as error:
            self.problems.report(entry, str(error), *key)

    # ── tools ────────────────────────────────────────────────────────────────────────────────────

    def _replace_tools(self, tools: dict[str, tuple[ToolConfig, AnyTool]]) -> None:
        own = {name for name, (_, tool) in self._previous.tools.items() if self._is_registered(name, tool)}
        for name in own - tools.keys():
            self._registry.unregister_tool(name, reason="its configuration does not declare it any more")
        entries = {entry.value.name: entry for entry in self._declarations.tools}
        changes: list[events.AnyStateEvent] = []
        for name, (_, tool) in tools.items():
            if name in own:
                if self._previous.tools[name][1] is not tool:
                    changes.append(events.ToolRegistered(tool=tool, replaces=True, redeclares=True))
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

    def _replace_servers(self) -> None:
        declared = {
            name: build_server(name, server, self._declarations.provided.get(name))
            for name, server in self._declarations.servers.items()
        }
        for name, (declaration, source) in self._previous.servers.items():
            if declared.get(name) == declaration:
                self._new.servers[name] = (declaration, source)
                continue
            if self._runtime.sources.get(source.name) is source:
                del self._runtime.sources[source.name]
            for tool in source.tools:
                self._registry.unregister_tool(tool, reason="its configuration changed its server")
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

    def _replace_services(self, services: dict[str, ServiceInForce]) -> None:
        for name, service in self._previous.services.items():
            if service.source is not None and services.get(name) is not service:
                if self._runtime.sources.get(name) is service.source:
                    del self._runtime.sources[name]
                for tool in service.source.tools:
                    self._registry.unregister_tool(tool, reason="its configuration changed its document")
        entries = {entry.value.namespace: entry for entry in self._declarations.services}
        for name, service in services.items():
            if service.source is not None and service is not self._previous.services.get(name):
                with self._collecting(entries[name], "namespace"):
                    service.source.register()
        self._new.services = services

    def _report_left_out(self, tool: Located[ToolConfig]) -> None:
        holder = self._find_holder(tool.value.name)
        if holder is None:
            self.problems.report(tool, "the tool cannot be taken of its server; see its schema")
        else:
            self.problems.report(tool, str(_make_duplicate_error(holder, tool.value.name)), "name")

    # ── agents ───────────────────────────────────────────────────────────────────────────────────

    def _replace_agents(self) -> None:
        known = self._previous.agents
        for name, entry in self._declarations.agents.items():
            profile, old = self._build_profile(name, entry), self._state.get_profile(name)
            before = known.get(name)
            if before is not None and old.place == before.place and _has_same_terms(before, profile):
                self._new.agents[name] = before
                continue
            if old.declared and not old.retired and (before is None or old.place != before.place):
                error = DuplicateAgentError(name, old.place or "an earlier place", profile.place)
                self.problems.report(entry, str(error))
                continue
            self._new.agents[name] = profile
            if before is None or not old.retired:
                self._commit(events.AgentDeclared(profile=profile))
        for name in sorted(known.keys() - self._declarations.agents.keys()):
            profile = self._state.get_profile(name)
            if profile.place == known[name].place and not profile.retired:  # other programs may declare it
                retired = AgentProfile(name=name, declared=True, retired=True, place=profile.place)
                self._commit(events.AgentDeclared(profile=retired))

    def _build_profile(self, name: str, entry: Located[AgentConfig]) -> AgentProfile:
        value = entry.value
        return AgentProfile(
            name=name, tools=tuple(dict.fromkeys(value.tools)), tool_categories=value.tool_categories,
            auto_discover_tools=value.auto_discover_tools, declared=True, place=f"{entry.document.file}:{entry.line}",
            config_file=entry.document.file,
        )  # fmt: skip

    # ── what refuses ─────────────────────────────────────────────────────────────────────────────

    def _get_label(self, entry: Located[object]) -> str:
        """Return what stands for the file of *entry* in records."""
        return self._labels[entry.document.file]

    def _replace_blocks(self) -> None:
        entries = [(self._get_label(entry), entry.value) for entry in self._declarations.blocks]
        blocks = [Block(tool=entry.tool, agent=entry.agent, by=by, reason=entry.reason) for by, entry in entries]
        declared = set({(block.by, block.tool, block.agent): block for block in blocks}.values())
        for block in self._list_own_blocks() - declared:
            self._commit(events.ToolUnblocked(tool=block.tool, agent=block.agent, setter=block.by, by=block.by))
        present = self._list_own_blocks()
        for block in sorted(declared - present - self._previous.blocks, key=lambda block: (block.agent, block.tool)):
            self._commit(events.ToolBlocked(block=block, by=block.by, reason=block.reason))
        self._new.blocks = declared

    def _list_own_blocks(self) -> set[Block]:
        accesses = (access for tools in self._state.access_by_agent.values() for access in tools.values())
        return {block for access in accesses for block in access.blocks if block.by in self._own}

    def _replace_disabled_categories(self) -> None:
        categories = self._declarations.categories.items()
        declared = {(self._get_label(entry), name) for name, entry in categories if not entry.value.enabled}
        records = [record for record in self._state.disabled.values() if record.kind == "category"]
        ended = {(record.by, record.name) for record in records if record.by in self._own} - declared
        for label, name in sorted(ended):
            self._commit(events.ToolEnabled(kind="category", name=name, by=label))
        again = {name for _, name in ended}  # of the files that disable a category, one is recorded
        present = declared.union(*(other.disabled for other in self._others))
        due = (declared - self._previous.disabled) | {(label, name) for label, name in present if name in again}
        for label, name in sorted(due):
            if ("category", name) not in self._state.disabled:
                self._commit(events.ToolDisabled(kind="category", name=name, by=label, reason="enabled: false"))
        self._new.disabled = declared

    # ── grants ───────────────────────────────────────────────────────────────────────────────────

    def _key_grants(self) -> dict[str, Located[GrantConfig]]:
        """Return the declared grants by their keys: file and terms, with a number where such a grant was made."""
        keyed, numbers = dict[str, Located[GrantConfig]](), Counter[str]()
        for entry in self._declarations.grants:
            if self.problems.is_known_of(entry):
                continue
            key = base = f"{self._get_label(entry)}:{_compute_digest(entry.value)}"
            while key in keyed or self._was_withdrawn(key):
                numbers[base] += 1
                key = f"{base}#{numbers[base]}"
            keyed[key] = entry
        return keyed

    def _end_grants(self, declared: Container[str]) -> None:
        """End the grants that were declared before and are not any more, also those that wait for their tools."""
        grants = [record.grant for record in self._state.grants.values() if not record.end_reason]
        for stored in self._state.iter_pending_grants(None):
            if isinstance(stored.change, events.ToolAssigned) and not self._new.may_have(stored.tool):
                grants.append(stored.change.grant)
        for grant in grants:
            label = find_label(grant.key)
            if grant.by == OPERATOR and label in self._own and grant.key not in declared:
                self._commit(events.GrantRevoked(grant=grant.id, by=label, reason="not declared any more"))

    def _make_grants(self, declared: Mapping[str, Located[GrantConfig]]) -> None:
        """Make the grants whose tools are there."""
        self._new.waiting_grants, self._new.blocked_grants = [], []
        for key, entry in declared.items():
            if self._has_tool(entry):
                self._make_grant(key, entry)

    def _has_tool(self, entry: Located[GrantConfig]) -> bool:
        """Tell whether the tool is there; if not, it is awaited, a problem of its own, or one of this entry."""
        name = entry.value.tool
        if name in self._state.tools:
            return True
        if self._new.may_have(name):
            self._new.waiting_grants.append(entry)
        elif name not in self._declarations.names and not self._awaits_plugins:
            similar = find_similar_names(name, [*self._state.tools, *self._declarations.names])
            self.problems.report(entry, str(UnknownToolError(name, similar)), "tool")
        return False

    def _was_withdrawn(self, key: str) -> bool:
        """Tell whether the grant of this key ended because its file did not declare it any more."""
        record = self._state.find_grant(self._state.grant_ids_by_key.get((OPERATOR, key)) or "")
        return record is not None and record.end_reason == f"revoked by {find_label(key)!r}"

    def _make_grant(self, key: str, entry: Located[GrantConfig]) -> None:
        """Make a grant, unless the agent is blocked: a block at run time is not a mistake of the file."""
        if self._state.get_access(entry.value.agent, entry.value.tool).blocks:
            self._new.blocked_grants.append(entry)
            return
        grant: Callable[..., object] = self._registry.grant
        with self._collecting(entry, *(("where",) if entry.value.where is not None else ())):
            grant(entry.value.tool, entry.value.agent, key=key, **_read_terms(entry.value))


def _make_duplicate_error(holder: AnyTool, name: str) -> DuplicateToolError:
    source = str(holder.metadata.source or "code")
    return DuplicateToolError(holder.name, holder.metadata.owned_by, source, None, "", name)


def _has_variables(server: Located[ServerConfig]) -> bool:
    """Tell whether the address of a server is filled in from the environment; what comes of that may be secret."""
    table: object = server.document.data["mcp_servers"][server.key[-1]]
    return isinstance(table, Mapping) and "${" in f"{table.get('url')}{table.get('command')}"


def _has_same_terms(first: AgentProfile, second: AgentProfile) -> bool:
    return (first.tools, first.tool_categories, first.auto_discover_tools) == (
        second.tools, second.tool_categories, second.auto_discover_tools
    )  # fmt: skip


def _read_terms(entry: GrantConfig) -> dict[str, object]:
    expires: datetime | timedelta | None
    try:
        expires = read_expiry(entry)
    except ValueError:  # among the problems already
        expires = None
    return {
        "expires": expires, "max_calls": entry.max_calls, "where": entry.where, "delegable": entry.delegable,
        "reason": entry.reason,
    }  # fmt: skip


def _compute_digest(entry: GrantConfig) -> str:
    """Return what is equal for equal entries: whoever changes the terms of a grant declares another one."""
    values = [entry.tool, entry.agent, entry.max_calls, str(entry.expires), entry.where, entry.delegable, entry.reason]
    return sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()[:16]
