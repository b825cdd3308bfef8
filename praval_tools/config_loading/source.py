"""A configuration of a registry: loaded, loaded again when asked or when a file changes, and what is wrong with it."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from attrs import frozen

from praval_tools.access.commands import require_operator
from praval_tools.access.problems import RegistryProblem
from praval_tools.config.files import (
    ConfigDocument,
    find_documents,
    list_config_paths,
    read_document,
)
from praval_tools.config.plugins import PluginsConfig
from praval_tools.config_loading.change import ConfigurationChange, InForce, build_tools
from praval_tools.config_loading.checks import check_declarations, sort_problems
from praval_tools.config_loading.declarations import (
    Declarations,
    ProblemCollector,
    iter_tool_references,
    read_declarations,
)
from praval_tools.config_loading.environment import expand_declarations
from praval_tools.config_loading.settings import RegistrySettings
from praval_tools.errors import (
    ConfigError,
    ConfigProblem,
    ToolError,
    ToolUsageError,
    UnknownToolError,
    get_user_stacklevel,
)
from praval_tools.execution.approvals import ApprovalHandler
from praval_tools.execution.context import resolve_actor
from praval_tools.forks import handle_forks
from praval_tools.names import find_similar_names
from praval_tools.plugins.loader import load_plugins
from praval_tools.registry.registry import ToolRegistry, get_runtime


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
    """A configuration is in force, but for a server that could not be reached."""


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
        self._in_force, self._declarations = InForce(), Declarations()
        self._settings = RegistrySettings(registry, self._runtime.options, has_journal)
        self._plugins: PluginsConfig | None = None
        self._make_lock()
        handle_forks(self, in_child=ConfigurationSource._make_lock)
        self._problems: list[RegistryProblem] = []
        self._reload_error: ToolError | None = None
        self._stop_watching: Callable[[], None] | None = None
        self._name = ""

    def _make_lock(self) -> None:
        """Make the lock that lets one thread reload; a forked child has its own, since its parent may be reloading."""
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<ConfigurationSource {self._name!r}: {len(self.tools)} tools>"

    @property
    def name(self) -> str:
        """`config:` and the names of its files: what its blocks and revocations are recorded as."""
        return self._name

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that were read last."""
        return tuple(Path(document.file) for document in self._declarations.documents)

    @property
    def is_watched(self) -> bool:
        """Whether the files are watched."""
        return self._stop_watching is not None

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
        require_operator(resolve_actor(None, "reload a configuration"), "reload a configuration")
        with self._lock:  # held from the reading on: what was read earlier never replaces what was read later
            try:
                self._load_allowed(read_configuration(self._paths), connect=True)
            except ToolError as error:
                self._reload_error = error
                raise
            except Exception as error:  # what a plugin raises, for one
                problem = ConfigProblem("", f"cannot be put into force: {type(error).__name__}")
                self._reload_error = ConfigError([problem])
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
            text = f"The files changed, and are not in force: {self._reload_error}"
            remedy = "Correct them; what they said before counts."
            problems.append(RegistryProblem("configuration", self.name, text, remedy))
        return problems

    def close(self) -> None:
        """Stop watching the files; what they brought stays."""
        stop, self._stop_watching = self._stop_watching, None
        if stop is not None:
            stop()

    def set_watcher(self, stop: Callable[[], None]) -> None:
        """Have *stop* called when the source or its registry is closed."""
        self._stop_watching = stop

    def find_unknown_tools(self) -> Iterator[ConfigProblem]:
        """Yield a problem for each name that agents list, and blocks and limits are about, and that no tool has."""
        known = self._registry.state.tools
        servers = [declaration for declaration, _ in self._in_force.servers.values()]
        for entry, name, key in iter_tool_references(self._declarations):
            if name not in known and not any(server.may_have(name) for server in servers):
                yield entry.build_problem(str(UnknownToolError(name, find_similar_names(name, known))), *key)

    # ── loading ──────────────────────────────────────────────────────────────────────────────────

    def load(self, reading: Reading, *, connect: bool = True) -> None:
        """
        Put what was read into force.

        Args:
            reading: What the files say.
            connect: Connect the servers of which no tools are declared; a check does not.

        Raises:
            ConfigError: With every problem; nothing was changed.
        """
        with self._lock:
            self._load_allowed(reading, connect)

    def _load_allowed(self, reading: Reading, connect: bool) -> None:
        self._runtime.access_store.refuse_calls()
        if self._registry.state.frozen:
            raise ToolUsageError("The registry is frozen: load configurations before freeze().", "frozen")
        self._load(reading, connect)

    def _load(self, reading: Reading, connect: bool) -> None:
        declarations, problems = reading.declarations, ProblemCollector(list(reading.problems))
        label = self._name or self._build_name(reading.files)
        if not problems.known:
            self._load_plugins(declarations)
        tools = build_tools(declarations, self._in_force, problems)
        handler = self._settings.find_handler(declarations, problems)
        self._settings.check_journal(declarations, self._declarations, problems)
        change = ConfigurationChange(self._registry, label, declarations, self._in_force, problems)
        previous = self._in_force
        try:
            self._in_force = change.apply(tools)
        except ConfigError as error:
            raise ConfigError(sort_problems(error.problems)) from None
        self._name, self._declarations, self._problems = label, declarations, []
        self._runtime.sources.setdefault(label, self)
        self._settings.apply(declarations)
        if declarations.approvals is not None:
            self._registry.set_approval_handler(cast("ApprovalHandler", handler))
        kept = {id(source) for _, source in self._in_force.servers.values()}
        for _, source in previous.servers.values():
            if id(source) not in kept:
                source.close()
        if connect:
            self._connect_servers(change)

    def _build_name(self, files: Sequence[Path]) -> str:
        """Return a name that no other source has: with the folders of the files, where only these differ."""
        name = f"config:{'+'.join(path.name for path in files)}"
        return name if name not in self._runtime.sources else f"config:{'+'.join(map(str, files))}"

    def _load_plugins(self, declarations: Declarations) -> None:
        """Load the plugins that have tables, or all of them with `autoload`; again only where that changed."""
        autoload = declarations.scalars.get("autoload")
        takes_all = autoload is not None and autoload.value is True
        plugins = PluginsConfig() if declarations.plugins is None else declarations.plugins.value
        named = [name for name, table in plugins.plugins.items() if table.enabled]
        if not (takes_all or named or plugins.sources or self._plugins is not None):
            return
        if self._plugins is None or _get_tables(self._plugins) != _get_tables(plugins):
            left_out = [] if self._plugins is None or takes_all else sorted(self._plugins.plugins.keys() - set(named))
            only = None if takes_all else [*named, *left_out]
            load_plugins(self._registry, only=only, exclude=left_out, config=plugins)
        self._plugins = plugins

    def _connect_servers(self, change: ConfigurationChange) -> None:
        """Connect the servers of which no tools are declared, and make the grants that wait for their tools."""
        for declaration, source in self._in_force.servers.values():
            connect = getattr(source, "connect", None)
            if declaration.tools is not None or connect is None or source.tools:
                continue
            try:
                connect()
            except ToolError as error:
                remedy = "See whether it runs; registry.refresh() asks it again."
                self._problems.append(RegistryProblem("mcp-server", declaration.name, str(error), remedy))
                warnings.warn(str(error), ConfigWarning, get_user_stacklevel())
        if self._in_force.waiting_grants:
            for problem in change.make_waiting_grants():
                self._problems.append(RegistryProblem("grant", problem.key, str(problem), "Correct the entry."))
            for entry in self._in_force.waiting_grants:
                text = f"The grant of {entry.value.tool!r} to {entry.value.agent!r} is not made: there is no such tool."
                self._problems.append(RegistryProblem("grant", entry.value.tool, text, "See what its server lists."))


def find_source(registry: ToolRegistry, files: Sequence[Path]) -> ConfigurationSource | None:
    """Return the source of these files that a registry has, if it has one."""
    wanted = [path.resolve() for path in files]
    sources = [source for source in get_runtime(registry).sources.values() if isinstance(source, ConfigurationSource)]
    return next((source for source in sources if [path.resolve() for path in source.files] == wanted), None)


def _get_tables(plugins: PluginsConfig) -> tuple[object, ...]:
    return plugins.plugins, plugins.sources, plugins.autoload
