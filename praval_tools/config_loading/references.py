"""Finds names in a configuration that nothing has: of tools, of agents and of categories."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator

from praval_tools.config_loading.declarations import Declarations, Located, iter_tool_references
from praval_tools.errors import ConfigProblem, UnknownToolError
from praval_tools.names import find_similar_names, suggest_names

_KEYS_OF_PLUGINS = ("autoload", "plugins", "sources")
"""Those that may bring tools, and trusted ones agents, whose names do not stand in the files."""
_KEYS_OF_MORE_TOOLS = ("mcp_servers", "openapi", *_KEYS_OF_PLUGINS)
"""Those that may bring tools whose names do not stand in the files."""
_NAMELESS = re.compile(r"(tools(\[\d+\](\.name)?)?)?")
"""The key of a problem because of which the name of a tool may be missing: the file, the section, an entry."""


def find_unknown_tools(
    declarations: Declarations, known: Collection[str], may_come: Callable[[str], bool]
) -> Iterator[ConfigProblem]:
    """
    Yield a problem for each name that agents list, and blocks and limits are about, and that no tool has.

    Args:
        declarations: What the files declare.
        known: The names of the tools that there are.
        may_come: Whether a tool of a name may come once servers are connected and documents read.
    """
    for entry, name, key in iter_tool_references(declarations):
        if name not in known and not may_come(name):
            yield entry.build_problem(str(UnknownToolError(name, find_similar_names(name, known))), *key)


def find_unknown_agents(declarations: Declarations, known: Collection[str]) -> Iterator[ConfigProblem]:
    """
    Yield a problem for each name of an agent that is not declared; where files declare none, a program declares them.

    Args:
        declarations: What the files declare.
        known: The names of the agents that there are.
    """
    for entry, name, key in _iter_agent_references(declarations) if declarations.agents else ():
        if name is not None and name not in known:
            hint = suggest_names(name, known) or " Declare it in agents, or check the spelling."
            yield entry.build_problem(f"Agent {name!r} is not declared.{hint}", key)


def find_unknown_categories(declarations: Declarations, known: Collection[str]) -> Iterator[ConfigProblem]:
    """Yield a problem for each category that agents request, or that is disabled, and that no tool has."""
    references: list[tuple[Located[object], str, tuple[str | int, ...]]] = [
        (agent, name, ("tool_categories", index))
        for agent in declarations.agents.values()
        for index, name in enumerate(agent.value.tool_categories)
    ]
    references += [(entry, name, ()) for name, entry in declarations.categories.items() if not entry.value.enabled]
    for entry, name, key in references:
        if name not in known:
            hint = suggest_names(name, known) or " Declare a tool of it, or check the spelling."
            yield entry.build_problem(f"No tool has the category {name!r}.{hint}", *key)


def find_names_beside(declarations: Declarations, problems: Collection[ConfigProblem]) -> Iterator[ConfigProblem]:
    """Yield unknown tools and agents of files that cannot be loaded, as far as their *problems* let that be seen."""
    keys = {problem.key for problem in problems}
    present = {name for document in declarations.documents for name, value in document.data.items() if value}
    if present.isdisjoint(_KEYS_OF_MORE_TOOLS) and not any(map(_NAMELESS.fullmatch, keys)):
        yield from find_unknown_tools(declarations, declarations.names, lambda tool: False)
    has_agents = not any(not key or key.partition(".")[0] == "agents" for key in keys)
    if has_agents and present.isdisjoint(_KEYS_OF_PLUGINS):
        yield from find_unknown_agents(declarations, declarations.agents)


def _iter_agent_references(declarations: Declarations) -> Iterator[tuple[Located[object], str | None, str]]:
    """Yield each entry that names an agent, with the name, and its key in the entry."""
    for grant in declarations.grants:
        yield grant, grant.value.agent, "agent"
    for block in declarations.blocks:
        yield block, block.value.agent, "agent"
    for limit in declarations.limits:
        yield limit, limit.value.agent, "agent"
    for tools in (declarations.tools, *declarations.provided.values()):
        for tool in tools:
            yield tool, tool.value.owned_by, "owned_by"
    for server in declarations.servers.values():
        yield server, server.value.owned_by, "owned_by"
    for service in declarations.services:
        yield service, service.value.owned_by, "owned_by"
    if (plugins := declarations.plugins) is not None:
        for name, table in plugins.value.plugins.items():
            key = plugins.value.get_table_key(name)
            yield Located(table, plugins.document, key), table.owned_by, "owned_by"
