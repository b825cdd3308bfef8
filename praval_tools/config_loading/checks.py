"""Checks what configurations declare, as far as that can be seen without a registry: every problem, with its place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

import attrs

from praval_tools.config.system import GrantConfig, LimitConfig, ServerConfig, ToolConfig
from praval_tools.config.times import parse_span, parse_time
from praval_tools.config_loading.declarations import Declarations, Located
from praval_tools.config_loading.services import check_services
from praval_tools.errors import ConfigProblem, InvalidNameError, ToolUsageError
from praval_tools.execution.runtime import RegistryOptions
from praval_tools.names import (
    check_agent_name,
    check_tool_name,
    get_collision_keys,
    normalize_distribution_name,
    suggest_names,
)
from praval_tools.plugins.discovery import find_plugins
from praval_tools.registry.telemetry import CONTENT_SIZES
from praval_tools.schema.supplied_schema import check_supplied_schema, find_misspelt_keywords
from praval_tools.tools.metadata import iter_invalid_values

_DOTTED_NAME: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_LIMITS: Final = ("per_minute", "concurrent", "per_run")
_MAX_GRANTS_OF_A_PAIR: Final = 100
_INTERNAL_KEYS: Final = ("module", "function", "engine", "concurrency_safe")
"""What only a tool has whose function runs here."""
METADATA_KEYS: Final = tuple(
    attribute.name
    for attribute in attrs.fields(ToolConfig)
    if attribute.name
    not in ("name", "source", "module", "function", "mcp_server_name", "parameters_schema", "inputSchema")
)
"""The keys of a tool that are fields of its metadata."""


def check_declarations(declarations: Declarations) -> list[ConfigProblem]:
    """Return what is wrong; tools of servers are sorted to these, in `declarations.provided`."""
    return [
        *_assign_to_servers(declarations),
        *_check_tools(declarations),
        *_check_servers(declarations),
        *check_services(declarations),
        *_check_names(declarations),
        *_check_terms(declarations),
        *_check_settings(declarations),
    ]


def list_tools(declarations: Declarations) -> Iterator[Located[ToolConfig]]:
    """Yield the entries of all tools: those with functions first."""
    yield from declarations.tools
    for entries in declarations.provided.values():
        yield from entries


def _assign_to_servers(declarations: Declarations) -> Iterator[ConfigProblem]:
    for name, server in declarations.servers.items():
        if (entries := server.value.provides_tools) is not None:
            declarations.provided[name] = [
                Located(entry, server.document, (*server.key, "provides_tools", index))
                for index, entry in enumerate(entries)
            ]
    internal: list[Located[ToolConfig]] = []
    for tool in declarations.tools:
        entry = tool.value
        if entry.source != "mcp":
            internal.append(tool)
            continue
        if entry.mcp_server_name is None:
            yield tool.build_problem("missing: a tool with `source: mcp` names its server", "mcp_server_name")
        elif entry.mcp_server_name not in declarations.servers:
            hint = suggest_names(entry.mcp_server_name, declarations.servers)
            text = f"there is no such server among mcp_servers.{hint}"
            yield tool.build_problem(text, "mcp_server_name")
        else:
            declarations.provided.setdefault(entry.mcp_server_name, []).append(tool)
    declarations.tools = internal


def _check_tools(declarations: Declarations) -> Iterator[ConfigProblem]:
    holders: dict[str, Located[ToolConfig]] = {}
    for tool in list_tools(declarations):
        yield from _check_tool_name(tool, holders)
        yield from _check_schema(tool, declarations)
        values = {name: getattr(tool.value, name) for name in METADATA_KEYS}
        for name, problem in iter_invalid_values(values):
            yield tool.build_problem(problem, name)
        yield from _find_contradictions(tool)
    for tool in declarations.tools:
        yield from _check_internal(tool)
    for name, entries in declarations.provided.items():
        for tool in entries:
            yield from _check_provided(tool, name)


def _check_tool_name(tool: Located[ToolConfig], holders: dict[str, Located[ToolConfig]]) -> Iterator[ConfigProblem]:
    try:
        keys = get_collision_keys(check_tool_name(tool.value.name))
    except InvalidNameError as error:
        yield tool.build_problem(str(error), "name")
        return
    holder = next((holders[key] for key in keys if key in holders), None)
    if holder is not None:
        place = f"{holder.document.file}, line {holder.line}"
        other = holder.value.name
        same = "has it too" if other == tool.value.name else f"has {other!r}, the same for models"
        yield tool.build_problem(f"the names of tools are unique; {place} {same}", "name")
    for key in keys:
        holders.setdefault(key, tool)


def _check_schema(tool: Located[ToolConfig], declarations: Declarations) -> Iterator[ConfigProblem]:
    entry = tool.value
    if entry.parameters_schema is not None and entry.inputSchema is not None:
        yield tool.build_problem("parameters_schema says the same; keep one of the two", "inputSchema")
    for key in ("parameters_schema", "inputSchema"):
        if (schema := getattr(entry, key)) is not None:
            checked, problems = check_supplied_schema(schema)
            declarations.schemas.setdefault(entry.name, checked)
            for problem in problems:
                yield tool.build_problem(problem.removeprefix("parameters: "), key)
            for path, keyword in find_misspelt_keywords(schema):
                text = f"not a keyword of JSON Schema; did you mean {keyword!r}? Else begin it with x-"
                yield tool.build_problem(text, key, *path)


def _find_contradictions(tool: Located[ToolConfig]) -> Iterator[ConfigProblem]:
    entry = tool.value
    if entry.read_only and entry.destructive:
        yield tool.build_problem("read_only and destructive contradict each other; drop one of them", "destructive")
    if entry.read_only and entry.idempotent is False:
        text = "what is read_only can be repeated, so idempotent is not false; drop one of them"
        yield tool.build_problem(text, "idempotent")
    if entry.shared and entry.private:
        yield tool.build_problem("shared and private contradict each other; drop one of them", "private")


def _check_internal(tool: Located[ToolConfig]) -> Iterator[ConfigProblem]:
    entry = tool.value
    for key in ("module", "function"):
        if (value := getattr(entry, key)) is None:
            yield tool.build_problem("missing: a tool is a function of a module, or has `source: mcp`", key)
        elif not _DOTTED_NAME.fullmatch(value):
            expected = "package.module" if key == "module" else "the name of a function"
            yield tool.build_problem(f"expected {expected}, without a path, a suffix or brackets", key)
    if entry.mcp_server_name is not None:
        yield tool.build_problem("is for tools with `source: mcp`", "mcp_server_name")


def _check_provided(tool: Located[ToolConfig], server: str) -> Iterator[ConfigProblem]:
    entry = tool.value
    for key in _INTERNAL_KEYS:
        if getattr(entry, key) is not None:
            yield tool.build_problem("is for tools whose function runs here; this one the server runs", key)
    if entry.source == "internal":
        yield tool.build_problem("is mcp for the tools of a server; leave it out", "source")
    if entry.mcp_server_name not in (None, server):
        yield tool.build_problem("it stands below another server; leave it out", "mcp_server_name")
    if entry.parameters_schema is None and entry.inputSchema is None:
        yield tool.build_problem("missing: the JSON Schema of its arguments", "inputSchema")


def _check_servers(declarations: Declarations) -> Iterator[ConfigProblem]:
    for server in declarations.servers.values():
        entry = server.value
        if (entry.url is None) == (entry.command is None):
            expected = "give one of url and command" if entry.url is None else "a url goes without a command"
            yield server.build_problem(expected, *(() if entry.url is None else ("command",)))
        elif entry.url is None:
            for key, is_given in (("auth", entry.auth is not None), ("headers_env", bool(entry.headers_env))):
                if is_given:
                    yield server.build_problem("is for a url; the process of a command gets variables by env", key)
        elif not entry.url.startswith("${") and "://" not in entry.url.partition(" ")[0]:
            yield server.build_problem("expected a URL: http:// or https://, then the host and the path", "url")
        elif entry.env:
            yield server.build_problem("is for the process of a command; a url takes auth or headers_env", "env")
        yield from _check_server_values(server)


def _check_server_values(server: Located[ServerConfig]) -> Iterator[ConfigProblem]:
    entry = server.value
    for key in ("timeout", "connect_timeout", "max_message_bytes", "max_tools"):
        if (number := getattr(entry, key)) is not None and not 0 < number < float("inf"):
            yield server.build_problem("expected a positive number", key)
    for key, check in (("owned_by", check_agent_name), ("namespace", check_tool_name)):
        if (name := getattr(entry, key)) is not None:
            try:
                check(name)
            except InvalidNameError as error:
                yield server.build_problem(str(error), key)


def _check_names(declarations: Declarations) -> Iterator[ConfigProblem]:
    for grant in declarations.grants:
        yield from _check_pair(grant, grant.value.tool, grant.value.agent)
    for block in declarations.blocks:
        yield from _check_pair(block, block.value.tool, block.value.agent)
    for limit in declarations.limits:
        yield from _check_pair(limit, limit.value.tool, limit.value.agent)
    for agent in declarations.agents.values():
        for index, name in enumerate(agent.value.tools):
            try:
                check_tool_name(name)
            except InvalidNameError as error:
                yield agent.build_problem(str(error), "tools", index)
        for index, name in enumerate(agent.value.tool_categories):
            if not name.strip():
                yield agent.build_problem("expected the name of a category", "tool_categories", index)


def _check_pair(entry: Located[object], tool: str | None, agent: str | None) -> Iterator[ConfigProblem]:
    for key, name, check in (("tool", tool, check_tool_name), ("agent", agent, check_agent_name)):
        try:
            if name is not None:
                check(name)
        except InvalidNameError as error:
            yield entry.build_problem(str(error), key)


def _check_terms(declarations: Declarations) -> Iterator[ConfigProblem]:
    counts: dict[tuple[str, str], int] = {}
    for grant in declarations.grants:
        pair = grant.value.tool, grant.value.agent
        counts[pair] = counts.get(pair, 0) + 1
        if counts[pair] > _MAX_GRANTS_OF_A_PAIR:
            text = f"there are more than {_MAX_GRANTS_OF_A_PAIR} grants of this tool to this agent; join their bounds"
            yield grant.build_problem(text)
        try:
            read_expiry(grant.value)
        except ValueError as error:
            yield grant.build_problem(str(error), "expires")
        if grant.value.max_calls is not None and grant.value.max_calls < 1:
            yield grant.build_problem("expected a whole number from 1 on", "max_calls")
    places: dict[tuple[str | None, str | None], Located[LimitConfig]] = {}
    for limit in declarations.limits:
        entry = limit.value
        if entry.agent is None and entry.tool is None:
            yield limit.build_problem("a limit names an agent, a tool, or both")
        numbers = {name: getattr(entry, name) for name in _LIMITS}
        if all(number is None for number in numbers.values()):
            yield limit.build_problem(f"a limit has a number: {', '.join(_LIMITS)}")
        for name, number in numbers.items():
            if number is not None and number < 1:
                yield limit.build_problem("expected a whole number from 1 on", name)
        if (other := places.setdefault((entry.agent, entry.tool), limit)) is not limit:
            place = f"{other.document.file}, line {other.line}"
            yield limit.build_problem(f"{place} limits the same calls; put the numbers into one entry")


def read_expiry(entry: GrantConfig) -> datetime | timedelta | None:
    """
    Return when a grant expires: a moment in UTC, or a time span.

    Raises:
        ValueError: It is neither; the text says what is expected.
    """
    if entry.expires is None:
        return None
    text = entry.expires.isoformat() if isinstance(entry.expires, datetime) else entry.expires
    try:
        moment = parse_time(text) or parse_span(text)
    except OverflowError:
        raise ValueError("the time span is too long") from None
    if moment is None or moment == timedelta(0):
        raise ValueError("expected a moment such as 2030-01-31T18:00:00Z, or a time span such as 90m, 2h, 7d")
    return moment


def _check_settings(declarations: Declarations) -> Iterator[ConfigProblem]:
    if (execution := declarations.execution) is not None:
        for attribute in attrs.fields(type(execution.value)):
            name = {"max_retries": "retries"}.get(attribute.name, attribute.name)
            if (value := getattr(execution.value, attribute.name)) is None:
                continue
            try:
                RegistryOptions(**{name: value})
            except ToolUsageError as error:
                _, _, text = str(error).partition(f"{name}: ")
                yield execution.build_problem(text.rstrip("."), attribute.name)
    if (journal := declarations.journal) is not None:
        for name in ("warn_run_events", "max_run_events"):
            if (number := getattr(journal.value, name)) is not None and number < 1:
                yield journal.build_problem("expected a whole number from 1 on", name)
        if not journal.value.path:
            yield journal.build_problem("expected the path of a file, or memory", "path")
    size = None if (telemetry := declarations.telemetry) is None else telemetry.value.max_content_size
    if telemetry is not None and size is not None and size not in CONTENT_SIZES:
        expected = f"expected a whole number from {CONTENT_SIZES[0]} to {CONTENT_SIZES[-1]:,}"
        yield telemetry.build_problem(expected, "max_content_size")
    if (approvals := declarations.approvals) is not None:
        module, _, function = approvals.value.handler.partition(":")
        if not all(map(_DOTTED_NAME.fullmatch, (module, function))):
            yield approvals.build_problem("expected module:function", "handler")
    yield from _find_missing_plugins(declarations)


def _find_missing_plugins(declarations: Declarations) -> Iterator[ConfigProblem]:
    if (plugins := declarations.plugins) is None:
        return
    installed = {plugin.distribution for plugin in find_plugins()}
    tables = plugins.document.data.get("plugins")
    spellings = {normalize_distribution_name(name): name for name in tables} if isinstance(tables, Mapping) else {}
    for name, table in plugins.value.plugins.items():
        if table.enabled and name not in installed:
            hint = suggest_names(name, installed, "did you mean ") or "install it, or set enabled: false"
            text = f"no plugin of this name is installed; {hint}"
            yield plugins.document.build_problem(("plugins", spellings.get(name, name)), text)


def sort_problems(problems: Iterable[ConfigProblem]) -> list[ConfigProblem]:
    """Return problems by file and line, each once."""
    return sorted(dict.fromkeys(problems), key=lambda problem: (problem.file, problem.line, problem.key))
