"""Brings the tools of Praval's own registry, and of its agents' dictionaries, into a registry of `praval_tools`."""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from attrs import frozen

from praval_tools.compat.praval.catalogue import ASSIGNED_REASON, PravalCatalogue, get_catalogue
from praval_tools.compat.praval.conversion import (
    JsonObject,
    get_praval_name,
    get_registration,
    to_agent_name,
    to_registry_name,
    to_registry_tool,
)
from praval_tools.compat.praval.model import Tool, ToolMetadata
from praval_tools.compat.praval.registry import ToolRegistry as View
from praval_tools.errors import DuplicateToolError, ToolUsageError
from praval_tools.integrations.praval.praval_modules import PravalObject, import_praval_module
from praval_tools.registry import default
from praval_tools.registry.catalogue import COLLISIONS, Collisions
from praval_tools.registry.registry import ToolRegistry
from praval_tools.tools.tool import AnyTool
from praval_tools.tools.tool import Tool as OurTool

Entry = Mapping[str, Any]
"""What an agent's own dictionary says of one tool."""

ReplaceOwn = Literal["all", "left", "none"]
MoveOutcome = Literal["registered", "completed", "same", "renamed", "replaced", "left out"]


@frozen
class Moved:
    """
    What came of one tool.

    Args:
        name: Its name in Praval.
        tool: Its name in the registry; of a tool that was left out, the name of the one that stays.
        source: `registry`, or the agent whose dictionary it was in.
        done: `registered`, `completed` (the registry had it without its schema), `same` (it was there),
            `renamed`, `replaced`, or `left out`.
    """

    name: str
    tool: str
    source: str
    done: MoveOutcome


@frozen
class Migration:
    """
    What was done, tool by tool, and who was given which tool.

    Args:
        moved: One row for every place where a tool was found.
        assigned: Tool and agent of every grant that was made, both by their names here.
    """

    moved: tuple[Moved, ...]
    assigned: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        rows = [f"{row.done:<10}  {row.name} from {row.source}{_format_target(row)}" for row in self.moved]
        return "\n".join([*rows, *(f"assigned    {tool} to {agent}" for tool, agent in self.assigned)])


def _format_target(row: Moved) -> str:
    if row.done == "left out":
        return f": {row.tool!r} stays as it is"
    return f" as {row.tool}" if row.tool != row.name else ""


class ToolMigrator:
    """
    Brings tools into a registry, and records what it does.

    Args:
        catalogue: The registry's tools under their names in Praval.
        collisions: What happens where another tool has the name.
        replace_own: Which of its own earlier tools an agent's tool replaces: `all` when it is declared, `left` over
            from an agent of this name when it is attached and no other one is, `none` when it is migrated.
    """

    def __init__(self, catalogue: PravalCatalogue, collisions: Collisions, *, replace_own: ReplaceOwn = "none") -> None:
        if collisions not in COLLISIONS:
            raise ToolUsageError(f"collisions={collisions!r} is none of {', '.join(map(repr, COLLISIONS))}.")
        self.catalogue, self.registry = catalogue, catalogue.registry
        self.collisions, self.replace_own = collisions, replace_own
        self._moved: list[Moved] = []
        self._assigned: list[tuple[str, str]] = []

    @property
    def report(self) -> Migration:
        """What was done."""
        return Migration(tuple(self._moved), tuple(self._assigned))

    def migrate_tool(self, tool: Tool, source: str, entry: Entry | None = None) -> str | None:
        """
        Bring one tool into the registry.

        Returns:
            The name of the tool in the registry; None where it was left out.
        """
        name = tool.metadata.tool_name
        holder = self.catalogue.find_tool(name)
        if holder is not None and not is_made_from(holder, tool.func):
            holder = self._find_renamed(tool) or holder
        schema = _get_json_schema(entry)
        done: MoveOutcome
        if holder is None:
            registered, done = self.catalogue.register(tool, name, schema, entry), "registered"
        elif is_made_from(holder, tool.func):
            registered, done = holder.name, "completed" if self._complete_schema(holder, entry) else "same"
        elif self.collisions == "replace" or self._is_replaceable(holder, source):
            self.registry.register_tool(to_registry_tool(tool, holder.name, schema, entry), replace=True)
            registered, done = holder.name, "replaced"
        elif self.collisions == "keep":
            registered, done = holder.name, "left out"
        elif self.collisions == "rename":
            return self._migrate_renamed(tool, source, entry)
        else:
            place = "Praval's registry" if source == "registry" else f"Praval's agent {source!r}"
            owner, origin = holder.metadata.owned_by, str(holder.metadata.source or "code")
            raise DuplicateToolError(holder.name, owner, origin, tool.metadata.owned_by or None, place, holder.name)
        self._moved.append(Moved(name, registered, source, done))
        return None if done == "left out" else registered

    def _find_renamed(self, tool: Tool) -> AnyTool | None:
        """Return the tool that an earlier migration made of *tool*, under the name that it got then."""
        suffix = f"-{to_registry_name(tool.metadata.tool_name)}"
        renamed = (other for other in self.registry if get_registration(other) is not None)
        return next(
            (other for other in renamed if is_made_from(other, tool.func) and get_praval_name(other).endswith(suffix)),
            None,
        )

    def _is_replaceable(self, tool: AnyTool, source: str) -> bool:
        """Tell whether a tool is one of the agent's own that another one of its own replaces."""
        if self.replace_own == "none" or tool.metadata.owned_by != to_agent_name(source):
            return False
        registration = get_registration(tool)
        is_from_agent = registration is not None and not hasattr(registration.tool.func, "_praval_tool")
        return self.replace_own == "all" or is_from_agent

    def _migrate_renamed(self, tool: Tool, source: str, entry: Entry | None) -> str | None:
        original, renamed = tool.metadata.tool_name, copy.copy(tool)
        prefix = to_registry_name((tool.metadata.owned_by or "praval") if source == "registry" else source)
        for number in itertools.count(1):
            suffix = "" if number == 1 else f"-{number}"
            name = f"{prefix}-{to_registry_name(original)}"[: 128 - len(suffix)] + suffix
            renamed.metadata = dataclasses.replace(tool.metadata, tool_name=name)
            holder = self.catalogue.find_tool(name)
            if holder is None:
                break
            if is_made_from(holder, tool.func) or self._is_replaceable(holder, source):
                return self.migrate_tool(renamed, source, entry)
        registered = self.catalogue.register(renamed, name, _get_json_schema(entry), entry)
        self._moved.append(Moved(original, registered, source, "renamed"))
        return registered

    def _complete_schema(self, tool: AnyTool, entry: Entry | None) -> bool:
        """Give a tool that Praval registered without its schema the one that the agent's dictionary has."""
        registration, schema = get_registration(tool), _get_json_schema(entry)
        if registration is None or schema is None or registration.entry is not None:
            return False
        completed = to_registry_tool(registration.tool, tool.name, schema, entry)
        if not self.registry.grants(tool=tool):  # else it is replaced, and counts as changed for those who have it
            self.registry.unregister_tool(tool)
        self.registry.register_tool(completed, replace=True)
        return True

    def assign_tool(self, name: str, agent: str) -> None:
        """Assign a tool that the agent has in Praval, unless it was removed here, or a rule allows it anyway."""
        access = self.catalogue.get_access(name, agent)
        if access.removed or access.blocks or self.registry.explain(agent, name).allowed:
            return
        if self.registry.grants(tool=name, agent=agent, ended=True):
            return
        if self.registry.assign_tool_to_agent(name, agent, reason=ASSIGNED_REASON):
            self._assigned.append((name, agent))


def is_made_from(tool: AnyTool, function: object) -> bool:
    """Tell whether a tool is made of a function of Praval's."""
    if isinstance(function, OurTool):
        return function.implementation is tool.implementation
    registration = get_registration(tool)
    return function is tool.function or (registration is not None and registration.function is function)


def _get_json_schema(entry: Entry | None) -> JsonObject | None:
    """Return the JSON Schema of an entry, or None where the entry has Praval's own form, and the function says more."""
    parameters = (entry or {}).get("parameters")
    return parameters if isinstance(parameters, Mapping) and parameters.get("type") == "object" else None


def build_entry_tool(name: str, entry: Entry, agent: str) -> Tool:
    """Return an entry of an agent's dictionary as a tool of Praval's."""
    tool, function, labels = object.__new__(Tool), entry["function"], entry.get("metadata") or {}
    declared = getattr(function, "_praval_tool_metadata", None)
    parameters = entry.get("parameters") if _get_json_schema(entry) is None else {}
    tool.func = function
    tool.metadata = ToolMetadata(
        tool_name=name,
        owned_by=agent if declared is None else declared.owned_by,
        description=str(entry.get("description") or ""),
        category=str(labels.get("category", "general")),
        parameters=dict(parameters or {}),
        requires_approval=bool(entry.get("requires_approval")),
        risk_level=str(entry.get("risk_level") or "low"),
        approval_reason=str(entry.get("approval_reason") or ""),
    )
    return tool


def migrate_catalogue(catalogue: PravalCatalogue, old: PravalObject, collisions: Collisions) -> Migration:
    """Bring in the tools and assignments of a registry of Praval's; all or nothing."""
    migrator = ToolMigrator(catalogue, collisions)
    if old is None or (isinstance(old, View) and old.registry is catalogue.registry):
        return migrator.report
    with catalogue.registry.change():
        tools_by_agent: Mapping[str, set[str]] = getattr(old, "_agent_tools", {})
        for tool in old.list_all_tools():
            name, owner = tool.metadata.tool_name, tool.metadata.owned_by
            registered = migrator.migrate_tool(tool, "registry")
            if registered is None:
                continue
            if owner and name not in tools_by_agent.get(owner, {name}):
                catalogue.remove_from_agent(name, owner)
            for agent in sorted(agent for agent, names in tools_by_agent.items() if name in names and agent != owner):
                migrator.assign_tool(registered, to_agent_name(agent))
    return migrator.report


def migrate_agent(
    catalogue: PravalCatalogue,
    agent: PravalObject,
    collisions: Collisions,
    reported_tools: Iterable[str] = (),
    *,
    replace_own: ReplaceOwn = "none",
) -> Migration:
    """Bring in what an agent's own dictionary holds; it keeps its tools, unless the rule that allowed one has ended."""
    migrator, allowed_by_rule = ToolMigrator(catalogue, collisions, replace_own=replace_own), set(reported_tools)
    with catalogue.registry.change():
        for name, entry in _order_entries(catalogue, agent):
            registered = migrator.migrate_tool(build_entry_tool(name, entry, agent.name), agent.name, entry)
            if registered is not None and name not in allowed_by_rule:
                migrator.assign_tool(registered, to_agent_name(agent.name))
    return migrator.report


def _order_entries(catalogue: PravalCatalogue, agent: PravalObject) -> list[tuple[str, Entry]]:
    """Return an agent's entries in the order of registration: Praval fills its dictionary from a set."""
    old = import_praval_module("praval.core.tool_registry")._global_registry
    names = dict.fromkeys(map(get_praval_name, catalogue.registry.list_all_tools()))
    names.update(dict.fromkeys(tool.metadata.tool_name for tool in (old.list_all_tools() if old is not None else ())))
    names.update(dict.fromkeys(agent.tools))
    return [(name, agent.tools[name]) for name in names if name in agent.tools]


def migrate(
    registry: ToolRegistry | None = None,
    *,
    agents: Iterable[PravalObject] | None = None,
    collisions: Collisions = "error",
) -> Migration:
    """
    Bring the tools of Praval's registry and of its agents' own dictionaries into *registry*; all or nothing.

    Nothing in Praval changes. Done twice, nothing is doubled.

    Args:
        registry: None: the default one.
        agents: Agents, or functions decorated with Praval's `@agent`; None: all that are on its Reef or in its
            agent registry. An `Agent` that is in neither is found by nobody: name it.
        collisions: Where another tool has the name: `error`; `rename` the new one, after its owner or agent;
            `keep` the registered one; `replace` it.

    Raises:
        MissingExtraError: Praval is not installed.
        DuplicateToolError: Two tools have one name, and *collisions* is `error`.
    """
    module = import_praval_module("praval.core.tool_registry")
    registry = default.get_tool_registry() if registry is None else registry
    catalogue = get_catalogue(registry)
    praval_agents = list(_find_agents() if agents is None else map(get_praval_agent, agents))
    with registry.change():
        reports = [migrate_catalogue(catalogue, module._global_registry, collisions)]
        for agent in praval_agents:
            if isinstance(agent.tools, dict):  # else it is attached
                reported = catalogue.reported_tools.get(agent.name, ())
                reports.append(migrate_agent(catalogue, agent, collisions, reported))
    moved = tuple(row for report in reports for row in report.moved)
    return Migration(moved, tuple(pair for report in reports for pair in report.assigned))


def get_praval_agent(value: PravalObject) -> PravalObject:
    """
    Return Praval's agent behind a decorated function, or the agent itself.

    Raises:
        TypeError: It is neither.
    """
    agent_class = import_praval_module("praval.core.agent").Agent
    agent = value if isinstance(value, agent_class) else getattr(value, "_praval_agent", None)
    if not isinstance(agent, agent_class):
        raise TypeError(f"Expected an agent of Praval's, or a function decorated with its @agent, got {value!r}.")
    return agent


def _find_agents() -> Iterator[PravalObject]:
    """Yield the agents that Praval knows of, each once: those on the Reef, then those in its agent registry."""
    agent_class = import_praval_module("praval.core.agent").Agent
    reef = import_praval_module("praval.core.reef")._get_existing_reef()
    subscribed = [
        getattr(handler, "__self__", None)
        for channel in (reef.channels.values() if reef is not None else ())
        for handlers in list(channel.subscribers.values())
        for handler in list(handlers)
    ]
    registered = import_praval_module("praval.core.registry").get_registry().get_all_agents().values()
    candidates = (*subscribed, *registered)
    yield from {id(agent): agent for agent in candidates if isinstance(agent, agent_class)}.values()
