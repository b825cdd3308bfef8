"""Reads what the files of a configuration declare, each entry with its place, and every problem of all of them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

import attrs
from attrs import define, field, frozen

from praval_tools.config import system
from praval_tools.config.decode import decode_table
from praval_tools.config.files import ConfigDocument
from praval_tools.config.plugins import PluginsConfig, decode_plugins_config
from praval_tools.config.toml_lines import KeyPath
from praval_tools.errors import ConfigError, ConfigProblem, InvalidNameError, ToolError
from praval_tools.names import check_agent_name, check_tool_name, suggest_names
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.tools.plain_managers import plain_manager
from praval_tools.tools.source import Source

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

TOP_KEYS = tuple(attribute.name for attribute in attrs.fields(system.SystemConfig))
"""The keys that a file may have at its top."""


class ProblemIndex:
    """
    Finds the problems of an entry among many.

    Args:
        problems: The problems.
    """

    def __init__(self, problems: Iterable[ConfigProblem]) -> None:
        self._keys: dict[str, list[str]] = {}
        for problem in problems:
            self._keys.setdefault(problem.file, []).append(problem.key)
        for keys in self._keys.values():
            keys.sort()

    def has_problem(self, file: str, key: str) -> bool:
        """Tell whether there is one at *key* of a file, or at something in that."""
        keys = self._keys.get(file, [])
        for start in (key, f"{key}.", f"{key}["):
            position = bisect_left(keys, start)
            if position < len(keys) and (keys[position] == key or (start != key and keys[position].startswith(start))):
                return True
        return False


@frozen(eq=False)
class Located(Generic[T_co]):
    """
    What one entry says, and where it stands.

    Args:
        value: What it says.
        document: The file.
        key: The path of the entry in the file.
    """

    value: T_co
    document: ConfigDocument
    key: KeyPath

    @property
    def line(self) -> int:
        """The line of the entry; 0 where it is not known."""
        return self.document.find_line(self.key)

    def build_source(self) -> Source:
        """Return the place of this entry, for the tools that it declares."""
        return Source(kind="config", file=self.document.file, line=self.line)

    def build_problem(self, expected: str, *key: str | int) -> ConfigProblem:
        """Return a problem of this entry, or of a *key* in it."""
        return self.document.build_problem((*self.key, *key), expected)

    def has_problem(self, problems: ProblemIndex) -> bool:
        """Tell whether one of *problems* is of this entry, or of something in it."""
        return problems.has_problem(self.document.file, self.document.build_problem(self.key, "").key)

    def with_value(self, value: T) -> Located[T]:
        """Return another value of the same place."""
        return Located(value, self.document, self.key)


@define
class ProblemCollector:
    """
    Collects what a registry finds wrong with entries; of those that are known to be wrong, nothing more is said.

    Args:
        known: What is wrong with the declarations.
        found: What the registry finds besides.
    """

    known: Sequence[ConfigProblem] = ()
    found: list[ConfigProblem] = field(factory=list)
    _index: ProblemIndex = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._index = ProblemIndex(self.known)

    def is_known_of(self, entry: Located[object]) -> bool:
        """Tell whether *entry* is known to be wrong."""
        return entry.has_problem(self._index)

    def report(self, entry: Located[object], expected: str, *key: str | int) -> None:
        """Report a problem of *entry*, or of a *key* in it."""
        if not self.is_known_of(entry):
            self.found.append(entry.build_problem(expected, *key))

    @plain_manager
    def collecting(self, entry: Located[object], *key: str | int) -> Iterator[None]:
        """Take an error of a registry as a problem of *entry*, or of a *key* in it."""
        try:
            yield
        except ToolError as error:
            self.report(entry, str(error), *key)

    @property
    def all(self) -> list[ConfigProblem]:
        """All problems."""
        return [*self.known, *self.found]


@define
class Declarations:
    """
    Everything that the files of one configuration declare.

    Args:
        documents: The files.
        scalars: `app`, `autoload` and `name`, where they are given.
        tools: The entries of `tools`.
        servers: MCP servers by name.
        services: OpenAPI documents.
        provided: What each server provides; those of servers that declare nothing are missing.
        categories: Categories by name.
        agents: Agents by name.
        grants: Permissions with terms.
        blocks: Refusals.
        limits: Limits of calls.
        execution: How calls run.
        stats: The statistics.
        journal: The journal.
        telemetry: Spans and metrics of the calls.
        approvals: Who is asked.
        plugins: What is said of plugins; None: nothing.
        schemas: The schemas of tools that can be used, as they are used, by the names of the tools.
        names: Every name of a tool that stands somewhere, also in an entry that is wrong.
        problems: What is wrong.
    """

    documents: tuple[ConfigDocument, ...] = ()
    scalars: dict[str, Located[object]] = field(factory=dict)
    tools: list[Located[system.ToolConfig]] = field(factory=list)
    servers: dict[str, Located[system.ServerConfig]] = field(factory=dict)
    services: list[Located[system.OpenApiConfig]] = field(factory=list)
    provided: dict[str, list[Located[system.ToolConfig]]] = field(factory=dict)
    categories: dict[str, Located[system.CategoryConfig]] = field(factory=dict)
    agents: dict[str, Located[system.AgentConfig]] = field(factory=dict)
    grants: list[Located[system.GrantConfig]] = field(factory=list)
    blocks: list[Located[system.BlockConfig]] = field(factory=list)
    limits: list[Located[system.LimitConfig]] = field(factory=list)
    execution: Located[system.ExecutionConfig] | None = None
    stats: Located[system.StatsConfig] | None = None
    journal: Located[system.JournalConfig] | None = None
    telemetry: Located[system.TelemetryConfig] | None = None
    approvals: Located[system.ApprovalsConfig] | None = None
    plugins: Located[PluginsConfig] | None = None
    schemas: dict[str, JsonSchema] = field(factory=dict)
    names: set[str] = field(factory=set)
    problems: list[ConfigProblem] = field(factory=list)


def iter_tool_references(
    declarations: Declarations,
) -> Iterator[tuple[Located[object], str, tuple[str | int, ...]]]:
    """Yield each entry that names a tool which may come later, with the name, and its key in the entry."""
    for agent in declarations.agents.values():
        for index, name in enumerate(agent.value.tools):
            yield agent, name, ("tools", index)
    for block in declarations.blocks:
        yield block, block.value.tool, ("tool",)
    for limit in declarations.limits:
        if limit.value.tool is not None:
            yield limit, limit.value.tool, ("tool",)


def read_declarations(documents: Iterable[ConfigDocument]) -> Declarations:
    """Return what *documents* declare together; an entry that is wrong is among the problems only."""
    declarations = Declarations(tuple(documents))
    for document in declarations.documents:
        _DocumentReader(document, declarations).read()
    return declarations


class _DocumentReader:
    """Adds what one document declares."""

    def __init__(self, document: ConfigDocument, declarations: Declarations) -> None:
        self._document, self._declarations = document, declarations
        self._problems: list[ConfigProblem] = []
        self._index = ProblemIndex(document.problems)

    def read(self) -> None:
        """Read all sections; of a value that is wrong as YAML, nothing more is said."""
        self._report_unknown_keys()
        self._read_scalars()
        self._read_named("mcp_servers", system.ServerConfig, self._declarations.servers, check_tool_name)
        self._read_named("categories", system.CategoryConfig, self._declarations.categories, str)
        self._read_named("agents", system.AgentConfig, self._declarations.agents, check_agent_name)
        self._declarations.tools += self._read_list("tools", system.ToolConfig)
        self._declarations.services += self._read_list("openapi", system.OpenApiConfig)
        self._declarations.grants += self._read_list("grants", system.GrantConfig)
        self._declarations.blocks += self._read_list("blocks", system.BlockConfig)
        self._declarations.limits += self._read_list("limits", system.LimitConfig)
        for name in ("execution", "stats", "journal", "telemetry", "approvals"):
            self._read_table(name)
        self._read_plugins()
        self._note_names()
        known = {problem.key for problem in self._document.problems}
        own = [problem for problem in self._problems if problem.key not in known or not problem.key]
        self._declarations.problems += [*self._document.problems, *own]

    def _report(self, key: KeyPath, expected: str) -> None:
        self._problems.append(self._document.build_problem(key, expected))

    def _report_unknown_keys(self) -> None:
        for name in self._document.data:
            if name not in TOP_KEYS:
                hint = suggest_names(name, TOP_KEYS, "did you mean ") or f"known are {', '.join(sorted(TOP_KEYS))}"
                self._report((name,), f"unknown key; {hint}")

    def _read_scalars(self) -> None:
        scalars = self._declarations.scalars
        for name, kind, expected in (
            ("app", str, 'a text: "module:registry"'),
            ("autoload", bool, "true or false"),
            ("name", str, "a text"),
        ):
            value = self._document.data.get(name)
            if value is None:
                continue
            if type(value) is not kind or value == "":
                self._report((name,), f"expected {expected}")
            elif (other := scalars.get(name)) is not None:
                self._report_twice((name,), other.document)
            else:
                scalars[name] = Located(value, self._document, (name,))

    def _report_twice(self, key: KeyPath, other: ConfigDocument) -> None:
        self._report(key, f"stands in {other.file} too; keep one of the two")

    def _decode(self, table: object, kind: type[T], key: KeyPath) -> Located[T] | None:
        """Return an entry; None for one that is wrong, or of which a part could not be read."""
        try:
            entry = Located(decode_table(self._document, table, kind, key), self._document, key)
        except ConfigError as error:
            self._problems += error.problems
            return None
        return None if entry.has_problem(self._index) else entry

    def _read_list(self, section: str, kind: type[T]) -> list[Located[T]]:
        entries = self._document.data.get(section)
        if entries is None:
            return []
        if not isinstance(entries, list):
            self._report((section,), f"expected a list: {_LIST_EXAMPLES[section]}")
            return []
        decoded = [self._decode(entry, kind, (section, index)) for index, entry in enumerate(entries)]
        return [entry for entry in decoded if entry is not None]

    def _read_named(
        self, section: str, kind: type[T], entries: dict[str, Located[T]], check_name: Callable[[str], object]
    ) -> None:
        tables = self._document.data.get(section)
        if tables is None:
            return
        if not isinstance(tables, Mapping):
            self._report((section,), f"expected a table of names: {_TABLE_EXAMPLES[section]}")
            return
        for name, table in tables.items():
            key = (section, str(name))
            try:
                check_name(name)
            except InvalidNameError as error:
                self._report(key, str(error))
            entry = self._decode({} if table is None and section != "mcp_servers" else table, kind, key)
            if name in entries:
                self._report_twice(key, entries[name].document)
            elif entry is not None:
                entries[name] = entry

    def _read_table(self, section: str) -> None:
        table = self._document.data.get(section)
        if table is None:
            return
        entry = self._decode(table, _TABLE_KINDS[section], (section,))
        other = getattr(self._declarations, section)
        if other is not None:
            self._report_twice((section,), other.document)
        elif entry is not None:
            setattr(self._declarations, section, entry)

    def _read_plugins(self) -> None:
        sections = [name for name in ("plugins", "sources") if self._document.data.get(name) is not None]
        if not sections:
            return
        plugins, problems = decode_plugins_config(self._document)
        self._problems += problems
        if self._declarations.plugins is not None:
            self._report_twice((sections[0],), self._declarations.plugins.document)
        else:
            self._declarations.plugins = Located(plugins, self._document, (sections[0],))

    def _note_names(self) -> None:
        """Note every name of a tool that an entry has, right or wrong: what refers to it is not a mistake as well."""
        servers = self._document.data.get("mcp_servers")
        lists = [self._document.data.get("tools")]
        for server in servers.values() if isinstance(servers, Mapping) else ():
            lists.append(server.get("provides_tools") if isinstance(server, Mapping) else None)
        for entry in _iter_tables(lists):
            if isinstance(name := entry.get("name"), str):
                self._declarations.names.add(name)


def _iter_tables(lists: Iterable[object]) -> Iterator[Mapping[str, object]]:
    for entries in lists:
        if isinstance(entries, list):
            yield from (entry for entry in entries if isinstance(entry, Mapping))


_LIST_EXAMPLES = {
    "tools": "- name: calculator",
    "openapi": "- {document: shop.yaml, namespace: shop}",
    "grants": "- {tool: calculator, agent: ann}",
    "blocks": "- {tool: calculator, agent: ann}",
    "limits": "- {agent: ann, per_minute: 10}",
}
_TABLE_EXAMPLES = {
    "mcp_servers": "search: {url: https://…}",
    "categories": "files: {enabled: false}",
    "agents": "ann: {tools: [calculator]}",
}
_TABLE_KINDS: dict[str, type[object]] = {
    "execution": system.ExecutionConfig,
    "stats": system.StatsConfig,
    "journal": system.JournalConfig,
    "telemetry": system.TelemetryConfig,
    "approvals": system.ApprovalsConfig,
}
