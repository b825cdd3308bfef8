"""A configuration of a registry: loaded, loaded again when asked or when a file changes, and what is wrong with it."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

from attrs import frozen

from praval_tools.access.commands import require_operator
from praval_tools.access.problems import RegistryProblem
from praval_tools.config.files import (
    ConfigDocument,
    FileSignature,
    find_documents,
    list_config_paths,
    read_document,
)
from praval_tools.config_loading.change import ConfigurationChange, build_tools
from praval_tools.config_loading.checks import check_declarations, sort_problems
from praval_tools.config_loading.declarations import (
    Declarations,
    ProblemCollector,
    read_declarations,
)
from praval_tools.config_loading.environment import expand_declarations
from praval_tools.config_loading.in_force import InForce
from praval_tools.config_loading.plugins_in_force import ChosenPlugins, choose_plugins, names_plugins
from praval_tools.config_loading.references import find_unknown_agents, find_unknown_categories, find_unknown_tools
from praval_tools.config_loading.services import read_services
from praval_tools.config_loading.settings import RegistrySettings
from praval_tools.config_loading.watcher import watch_files
from praval_tools.errors import (
    ConfigError,
    ConfigProblem,
    ToolError,
    ToolUsageError,
    get_user_stacklevel,
)
from praval_tools.execution.context import resolve_actor
from praval_tools.forks import handle_forks
from praval_tools.names import format_count
from praval_tools.plugins.loader import warn_or_raise
from praval_tools.plugins.plugin_load import PluginLoad
from praval_tools.registry.registry import ToolRegistry, get_runtime
from praval_tools.tools.plain_managers import plain_manager


def read_files(paths: Sequence[str | os.PathLike[str]]) -> list[ConfigDocument]:
    """
    Return the documents of *paths*; without any, of `PRAVAL_TOOLS_CONFIG`, else of the working directory.

    Raises:
        ConfigError: There is none, or the working directory has two that exclude each other.
    """
    named = [Path(path) for path in paths] or list_config_paths()
    if named:
        return [read_document(path) for path in named]
    documents = find_documents(Path())
    if not documents:
        names = "praval_tools.toml, [tool.praval_tools] in pyproject.toml, tools.yml, config.yml or mcp.yml"
        raise ConfigError([ConfigProblem("", f"there is no configuration here: {names}")])
    return documents


class ConfigWarning(RuntimeWarning):
    """A configuration is in force, but for a server that could not be reached, or a grant to who is blocked."""


@frozen
class Reading:
    """
    What the files say, checked as far as that needs no registry.

    Args:
        declarations: What they declare.
        problems: What is wrong with that.
    """

    declarations: Declarations
    problems: tuple[ConfigProblem, ...]

    @property
    def files(self) -> tuple[Path, ...]:
        """The files."""
        return tuple(Path(document.file) for document in self.declarations.documents)


def read_configuration(paths: Sequence[str | os.PathLike[str]], variables: Mapping[str, str] | None = None) -> Reading:
    """Return what the files of a configuration say, with everything that is wrong with it."""
    declarations = read_declarations(read_files(paths))
    expansion = expand_declarations(declarations, os.environ if variables is None else variables)
    checks = check_declarations(declarations)
    return Reading(declarations, (*declarations.problems, *expansion.problems, *checks))


class ConfigurationSource:
    """
    The configuration of a registry; made by `registry.configure_from`.

    Args:
        registry: The registry.
        paths: Its files; none: those of `PRAVAL_TOOLS_CONFIG`, else of the working directory.
        has_journal: Whether the journal that it names is that of the registry; otherwise the caller looks after that.
    """

    def __init__(
        self, registry: ToolRegistry, paths: Sequence[str | os.PathLike[str]], *, has_journal: bool = True
    ) -> None:
        self._registry, self._paths, self._runtime = registry, tuple(paths), get_runtime(registry)
        self._in_force = InForce()
        self._settings, self._has_journal = RegistrySettings.of(registry), has_journal
        self._make_locks()
        handle_forks(self, in_child=ConfigurationSource._make_locks)
        self._problems: list[RegistryProblem] = []
        self._reload_error: ToolError | None = None
        self._stop_watching: Callable[[], None] | None = None
        self._name = ""

    def _make_locks(self) -> None:
        """Make the locks that let one thread load once; a forked child has its own, since its parent may be loading."""
        self._lock, self._load_lock = threading.RLock(), threading.Lock()

    @plain_manager
    def _hold_lock(self) -> Iterator[None]:
        """
        Let no other thread load.

        Raises:
            ToolUsageError: This thread loads already: code that it imports, or a plugin, asks for it.
        """
        with self._lock:
            if self._load_lock.locked():
                text = f"{self._name or 'The configuration'} is being loaded, and code that it imports loads it again."
                raise ToolUsageError(f"{text} Reload after the import.", "reload-in-load")
            with self._load_lock:  # no flag: an interrupt before it is set back would leave it set
                yield

    def __repr__(self) -> str:
        return f"<ConfigurationSource {self._name!r}: {format_count(len(self.tools), 'tool')}>"

    @property
    def name(self) -> str:
        """`config:` and the names of its files; what each declares is recorded as `config:` and the name of that."""
        return self._name

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that were read last."""
        return tuple(Path(document.file) for document in self._declarations.documents)

    @property
    def signatures(self) -> tuple[FileSignature, ...]:
        """What tells the content that was read last from any other."""
        return tuple(document.signature for document in self._declarations.documents if document.signature is not None)

    @property
    def in_force(self) -> InForce:
        """What other configurations ask about: its files, and what they declare."""
        return InForce(dict(self._in_force.files), self._declarations)

    @property
    def _declarations(self) -> Declarations:
        return self._in_force.declarations

    @property
    def tools(self) -> list[str]:
        """The names of the tools that it has brought, those of its servers not counted."""
        return list(self._in_force.tools)

    @property
    def fingerprints(self) -> Mapping[str, str]:
        """The fingerprint of each of its tools, by name."""
        return {name: tool.fingerprint for name, (_, tool) in self._in_force.tools.items()}

    @property
    def reload_error(self) -> ToolError | None:
        """Why the files as they are now are not in force; None where they are."""
        return self._reload_error

    def refresh(self) -> None:
        """
        Read the files again, and put into force what they say now, all of it at once.

        Raises:
            ConfigError: With every problem; what was in force stays so.
        """
        _refuse_agents()
        with self._hold_lock():  # held from the reading on: what was read earlier never replaces what was read later
            before = self._in_force
            try:
                self._load_allowed(read_configuration(self._paths), connect=True)
            except Exception as error:
                self._reload_error = None
                if self._in_force is before:  # else it is a warning that is raised as an error
                    problem = ConfigProblem("", f"cannot be put into force: {type(error).__name__}")
                    self._reload_error = error if isinstance(error, ToolError) else ConfigError([problem])
                raise
            self._reload_error = None

    def accept(self, tool: str) -> None:
        """
        Raise: a configuration holds no tool back.

        Raises:
            ToolUsageError: Always.
        """
        raise ToolUsageError(f"{self.name} holds no tool back; what its files say counts.")

    def list_problems(self) -> list[RegistryProblem]:
        """Return what is wrong: files that are not in force, servers that could not be reached."""
        problems = list(self._problems)
        if self._reload_error is not None:
            text = f"The files changed, and are not in force: {str(self._reload_error).rstrip('.')}."
            remedy = "Correct them; what they said before counts."
            problems.append(RegistryProblem("configuration", self.name, text, remedy))
        return problems

    def close(self) -> None:
        """
        Stop watching the files; what they brought stays.

        For the operator.
        """
        require_operator(resolve_actor(None, "close a configuration"), "close a configuration")
        stop, self._stop_watching = self._stop_watching, None
        if stop is not None:
            stop()

    def watch(self) -> None:
        """
        Watch the files until the source or its registry is closed: after each change they are loaded again.

        For the operator.

        Raises:
            MissingExtraError: watchfiles is not installed.
        """
        require_operator(resolve_actor(None, "watch a configuration"), "watch a configuration")
        if self._stop_watching is None:
            self._stop_watching = watch_files(self)

    def find_unknown_names(self) -> Iterator[ConfigProblem]:
        """Yield a problem for each name of a tool, an agent or a category that nothing has; see `references`."""
        state, in_force = self._registry.state, self._in_force
        yield from find_unknown_tools(self._declarations, state.tools, in_force.may_have)
        yield from find_unknown_agents(self._declarations, self._registry.agents)
        if not in_force.list_unread_sources():
            categories = {name for kind, name in state.tools_by_label if kind == "category" and name}
            yield from find_unknown_categories(self._declarations, categories)

    def list_unread_sources(self) -> list[str]:
        """Return the servers and documents that may bring tools whose names are not declared, in words."""
        return self._in_force.list_unread_sources()

    # ── loading ──────────────────────────────────────────────────────────────────────────────────

    def load(self, reading: Reading, *, connect: bool = True) -> None:
        """
        Put what was read into force.

        Args:
            reading: What the files say.
            connect: Connect the servers of which no tools are declared; a check does not.

        Raises:
            NotOwnerError: Somebody else than the operator loads it.
            ConfigError: With every problem; nothing was changed.
        """
        _refuse_agents()
        with self._hold_lock():
            self._load_allowed(reading, connect)

    def _load_allowed(self, reading: Reading, connect: bool) -> None:
        self._runtime.access_store.refuse_calls()
        if self._runtime.access_store.has_own_change(counts_drafts=True):
            raise ToolUsageError(
                "A module that is being discovered loads a configuration: what fails in it could not be undone. "
                "Load configurations before or after discover_tools().",
                "load-in-discovery",
            )
        if self._registry.state.frozen:
            raise ToolUsageError("The registry is frozen: load configurations before freeze().", "frozen")
        self._load(reading, connect)

    def _load(self, reading: Reading, connect: bool) -> None:
        """Put it all into force at once; then connect servers and warn, which changes nothing of that."""
        previous = self._in_force
        names_any = any(map(names_plugins, (reading.declarations, self._declarations)))
        with self._settings.lock if names_any else nullcontext():
            change, plugins = self._apply(reading, connect)
        kept = set(map(id, self._in_force.list_sources()))
        for source in previous.list_sources():
            if id(source) not in kept:
                source.close()
        if connect:
            self._connect_servers(change)
        for entry in self._in_force.blocked_grants:
            text = f"The grant of {entry.value.tool!r} to {entry.value.agent!r} is not made: a block refuses it."
            lift = f"unblock({entry.value.tool!r}, {entry.value.agent!r})"
            remedy = f"Take the grant out of the file; or load it again once the block is lifted: {lift}."
            self._problems.append(RegistryProblem("grant", entry.value.tool, text, remedy))
            warnings.warn(f"{text} {remedy}", ConfigWarning, get_user_stacklevel())
        change.warn()
        if plugins is not None:
            warn_or_raise(plugins.reports, strict=False)

    def _apply(self, reading: Reading, connect: bool) -> tuple[ConfigurationChange, PluginLoad | None]:
        """Do first what may fail and changes nothing, then make the change."""
        declarations, problems = reading.declarations, ProblemCollector(reading.problems)
        tools = build_tools(declarations, self._in_force, problems)
        services = read_services(self._registry, declarations, self._in_force.services, problems, connect=connect)
        settings = self._settings.prepare(
            self, declarations, self._declarations, problems, has_journal=self._has_journal
        )
        choice, plugins = self._stage_plugins(declarations, problems)
        awaits_plugins = bool(problems.all) and choice.may_bring_tools(self._registry)
        name = self._name or self._build_name(reading.files)
        change = ConfigurationChange(
            self._registry, declarations, self._in_force, self._list_others(), problems, awaits_plugins=awaits_plugins
        )

        def adopt(in_force: InForce) -> None:
            self._in_force, self._name, self._problems = in_force, name, []
            self._runtime.sources.setdefault(name, self)
            if plugins is not None:
                plugins.store.configured = choice.names if choice else None

        try:
            with nullcontext() if plugins is None else plugins.applying():
                change.apply(tools, services, settings, plugins, adopt)
        except ConfigError as error:
            raise ConfigError(sort_problems(error.problems)) from None
        return change, plugins

    def _stage_plugins(
        self, declarations: Declarations, problems: ProblemCollector
    ) -> tuple[ChosenPlugins, PluginLoad | None]:
        """Stage what all configurations name, again where code that runs for that loads another of them meanwhile."""
        choice, staged, plugins = self._choose_plugins(declarations, problems), None, None
        while not problems.all and choice != staged:
            staged, plugins = choice, choice.stage(self._registry)
            choice = self._choose_plugins(declarations, problems)
        return choice, plugins

    def _choose_plugins(self, declarations: Declarations, problems: ProblemCollector) -> ChosenPlugins:
        return choose_plugins(declarations, [other.declarations for other in self._list_others()], problems)

    def _list_others(self) -> list[InForce]:
        return [source.in_force for source in _list_sources(self._registry) if source is not self]

    def _build_name(self, files: Sequence[Path]) -> str:
        """Return a name that no other source has: with the folders of the files, where only these differ."""
        name = f"config:{'+'.join(path.name for path in files)}"
        return name if name not in self._runtime.sources else f"config:{'+'.join(map(os.path.abspath, files))}"

    def _connect_servers(self, change: ConfigurationChange) -> None:
        """Connect the servers of which no tools are declared, and make the grants that wait for their tools."""
        for declaration, source in self._in_force.servers.values():
            connect = getattr(source, "connect", None)
            if declaration.tools is not None or connect is None or source.tools:
                continue
            try:
                connect()
            except ToolError as error:
                remedy = "See whether it runs; it is asked again when the registry is refreshed."
                self._problems.append(RegistryProblem("mcp-server", declaration.name, str(error), remedy))
                warnings.warn(str(error), ConfigWarning, get_user_stacklevel())
        if self._in_force.waiting_grants:
            for problem in change.make_waiting_grants():
                self._problems.append(RegistryProblem("grant", problem.key, str(problem), "Correct the entry."))
            for entry in self._in_force.waiting_grants:
                text = f"The grant of {entry.value.tool!r} to {entry.value.agent!r} is not made: there is no such tool."
                self._problems.append(RegistryProblem("grant", entry.value.tool, text, "See what its server lists."))


def _refuse_agents() -> None:
    require_operator(resolve_actor(None, "load a configuration"), "load a configuration")


def find_source(registry: ToolRegistry, files: Sequence[Path]) -> ConfigurationSource | None:
    """Return the source of these files that a registry has, if it has one."""
    wanted = [path.resolve() for path in files]
    sources = _list_sources(registry)
    return next((source for source in sources if [path.resolve() for path in source.files] == wanted), None)


def _list_sources(registry: ToolRegistry) -> list[ConfigurationSource]:
    return [source for source in get_runtime(registry).sources.values() if isinstance(source, ConfigurationSource)]
