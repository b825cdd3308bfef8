"""Tools of Praval's old system, from its registry and from each agent's own dictionary."""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from attrs import frozen

from praval_tools.compat.praval.conversion import get_registration, to_agent_name, to_registry_name, to_registry_tool
from praval_tools.compat.praval.model import Tool, ToolMetadata
from praval_tools.compat.praval.registry import ASSIGNED_REASON, get_view
from praval_tools.compat.praval.registry import ToolRegistry as View
from praval_tools.errors import DuplicateToolError, ToolUsageError
from praval_tools.integrations.praval.praval_modules import import_praval_module
from praval_tools.registry import default
from praval_tools.registry.registry import ToolRegistry
from praval_tools.tools.tool import Tool as OurTool

Collisions = Literal["error", "rename", "keep", "replace"]
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
        rows = [f"{one.done:<10}  {one.name} from {one.source}" + _format_target(one) for one in self.moved]
        return "\n".join([*rows, *(f"assigned    {tool} to {agent}" for tool, agent in self.assigned)])


def _format_target(row: Moved) -> str:
    if row.done == "left out":
        return f": {row.tool!r} stays as it is"
    return f" as {row.tool}" if row.tool != row.name else ""


class ToolMigrator:
    """
    Brings tools into a registry, and keeps a record of it.

    Args:
        view: Praval's view of the registry.
        collisions: What happens where another tool has the name.
        again: Which of its own earlier tools an agent's tool replaces: `all` when it is declared, `left` over from
            an agent of this name when it is attached and no other one is, `none` when it is migrated.
    """

    def __init__(self, view: View, collisions: Collisions, *, replace_own: ReplaceOwn = "none") -> None:
        if collisions not in ("error", "rename", "keep", "replace"):
            raise ToolUsageError(f"collisions={collisions!r} is none of 'error', 'rename', 'keep', 'replace'.")
        self.view, self.registry, self.collisions, self.replace_own = view, view.registry, collisions, replace_own
        self.moved: list[Moved] = []
        self.assigned: list[tuple[str, str]] = []

    @property
    def report(self) -> Migration:
        """What was done."""
        return Migration(tuple(self.moved), tuple(self.assigned))

    def migrate_tool(self, tool: Any, source: str, entry: Mapping[str, Any] | None = None) -> str | None:
        """Bring one tool; returns its name in the registry, None: it was left out."""
        name, found = tool.metadata.tool_name, self.view._find_tool(tool.metadata.tool_name)
        if found is not None and not is_made_from(
            found, tool.func
        ):  # perhaps it is here, under the name that it got then
            found = next(
                (one for one in self.registry if is_made_from(one, tool.func) and _has_name_suffix(one, name)), found
            )
        if found is not None and is_made_from(found, tool.func):
            done: MoveOutcome = "completed" if self._complete_schema(found, entry) else "same"
            self.moved.append(Moved(name, found.name, source, done))
            return str(found.name)
        schema = _get_json_schema(entry)
        if found is None:
            return self._record_move(
                tool, source, "registered", self.view._register(tool, name, schema, entry).registered_name
            )
        if self.collisions == "replace" or self._is_replaceable(found, source):
            made = to_registry_tool(tool, found.name, schema, entry)
            self.registry.register_tool(made, replace=True)
            return self._record_move(tool, source, "replaced", found.name)
        if self.collisions == "keep":
            self.moved.append(Moved(name, found.name, source, "left out"))
            return None
        if self.collisions == "rename":
            return self._migrate_renamed(tool, source, schema, entry)
        place = "Praval's registry" if source == "registry" else f"Praval's agent {source!r}"
        raise DuplicateToolError(
            found.name, found.metadata.owned_by, str(found.metadata.source or "code"), tool.metadata.owned_by or None,
            place, found.name,
        )  # fmt: skip

    def _is_replaceable(self, found: OurTool[..., Any], source: str) -> bool:
        """Tell whether a tool is one of the agent's own that another one of its own replaces."""
        if self.replace_own == "none" or found.metadata.owned_by != to_agent_name(source):
            return False
        mark = get_registration(found)
        by_agent = mark is not None and not hasattr(mark.tool.func, "_praval_tool")
        return self.replace_own == "all" or by_agent

    def _migrate_renamed(self, tool: Any, source: str, schema: Any, entry: Mapping[str, Any] | None) -> str | None:
        old, other = tool.metadata.tool_name, copy.copy(tool)
        space = to_registry_name((tool.metadata.owned_by or "praval") if source == "registry" else source)
        for at in itertools.count(1):
            number = "" if at == 1 else f"-{at}"
            name = f"{space}-{to_registry_name(old)}"[: 128 - len(number)] + number
            other.metadata = dataclasses.replace(tool.metadata, tool_name=name)
            found = self.view._find_tool(name)
            if found is None:
                break
            if is_made_from(found, tool.func) or self._is_replaceable(found, source):
                return self.migrate_tool(other, source, entry)
        mark = self.view._register(other, other.metadata.tool_name, schema, entry)
        return self._record_move(tool, source, "renamed", mark.registered_name)

    def _complete_schema(self, found: OurTool[..., Any], entry: Mapping[str, Any] | None) -> bool:
        """Give a tool that Praval registered without its schema the one that the agent's dictionary has."""
        mark, schema = get_registration(found), _get_json_schema(entry)
        if mark is None or schema is None or mark.entry is not None:
            return False
        made = to_registry_tool(mark.tool, found.name, schema, entry)
        if not self.registry.grants(tool=found):  # else it is replaced, and counts as changed for those who have it
            self.registry.unregister_tool(found)
        self.registry.register_tool(made, replace=True)
        return True

    def _record_move(self, tool: Any, source: str, done: MoveOutcome, name: str) -> str:
        self.moved.append(Moved(tool.metadata.tool_name, name, source, done))
        return name

    def assign_tool(self, name: str, agent: str) -> None:
        """Give an agent a tool that it has in Praval, unless it was taken away here, or a rule gives it anyway."""
        access = self.registry._access_store.get_current_state().get_access(agent, name)
        if access.removed or access.blocks or self.registry.explain(agent, name).allowed:
            return
        if self.registry.grants(tool=name, agent=agent, ended=True):
            return
        if self.registry.assign_tool_to_agent(name, agent, reason=ASSIGNED_REASON):
            self.assigned.append((name, agent))


def is_made_from(tool: OurTool[..., Any], function: Any) -> bool:
    """Tell whether a tool is made of a function of Praval's."""
    mark = get_registration(tool)
    if isinstance(function, OurTool):
        return function.implementation is tool.implementation
    return function is tool.function or (mark is not None and mark.tool.func is function)


def _has_name_suffix(tool: OurTool[..., Any], name: Any) -> bool:
    mark = get_registration(tool)
    return mark is not None and str(mark.name).endswith(f"-{to_registry_name(name)}")


def _get_json_schema(entry: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the JSON Schema of an entry; None: it has Praval's own form, and the function says more."""
    given = (entry or {}).get("parameters")
    return given if isinstance(given, Mapping) and given.get("type") == "object" else None


def build_entry_tool(name: str, entry: Mapping[str, Any], agent: str) -> Tool:
    """Return an entry of an agent's dictionary as a tool of Praval's."""
    made: Tool = object.__new__(Tool)
    function, told = entry["function"], entry.get("metadata") or {}
    declared = getattr(function, "_praval_tool_metadata", None)
    legacy = entry.get("parameters") if _get_json_schema(entry) is None else {}
    made.func = function
    made.metadata = ToolMetadata(
        tool_name=name, owned_by=agent if declared is None else declared.owned_by,
        description=str(entry.get("description") or ""), category=str(told.get("category", "general")),
        parameters=dict(legacy or {}), requires_approval=bool(entry.get("requires_approval")),
        risk_level=str(entry.get("risk_level") or "low"), approval_reason=str(entry.get("approval_reason") or ""),
    )  # fmt: skip
    return made


def migrate_catalogue(view: View, old: Any, collisions: Collisions) -> Migration:
    """Bring in the tools and assignments of a registry of Praval's; all or nothing."""
    mover = ToolMigrator(view, collisions)
    if old is None or (isinstance(old, View) and old.registry is view.registry):
        return mover.report
    with view.registry.change():
        held: Mapping[str, set[str]] = getattr(old, "_agent_tools", {})
        for tool in old.list_all_tools():
            name, owner = tool.metadata.tool_name, tool.metadata.owned_by
            here = mover.migrate_tool(tool, "registry")
            if here is None:
                continue
            if owner and name not in held.get(owner, {name}):
                view.remove_tool_from_agent(name, owner)
            for agent in sorted(one for one, names in held.items() if name in names and one != owner):
                mover.assign_tool(here, to_agent_name(agent))
    return mover.report


def migrate_agent(
    view: View,
    agent: Any,
    collisions: Collisions,
    reported_tools: Iterable[str] = (),
    *,
    replace_own: ReplaceOwn = "none",
) -> Migration:
    """Bring in what an agent's own dictionary holds; it keeps what it has, unless a right that gave it is gone."""
    mover, by_right = ToolMigrator(view, collisions, replace_own=replace_own), set(reported_tools)
    with view.registry.change():
        for name, entry in _order_entries(view, agent):
            here = mover.migrate_tool(build_entry_tool(name, entry, agent.name), agent.name, entry)
            if here is not None and name not in by_right:
                mover.assign_tool(here, to_agent_name(agent.name))
    return mover.report


def _order_entries(view: View, agent: Any) -> list[tuple[str, Any]]:
    """Return an agent's entries in the order of registration: Praval fills its dictionary from a set."""
    old = import_praval_module("praval.core.tool_registry")._global_registry
    known = [*view.list_all_tools(), *(old.list_all_tools() if old is not None else ())]
    names = dict.fromkeys(one.metadata.tool_name for one in known)
    names.update(dict.fromkeys(agent.tools))
    return [(name, agent.tools[name]) for name in names if name in agent.tools]


def migrate(
    registry: ToolRegistry | None = None, *, agents: Iterable[Any] | None = None, collisions: Collisions = "error"
) -> Migration:
    """
    Bring the tools of Praval's registry and of its agents' own dictionaries into *registry*; all or nothing.

    Nothing in Praval changes. Done twice, nothing is doubled.

    Args:
        registry: None: the default one.
        agents: Agents, or functions decorated with Praval's `@agent`; None: all that are on its Reef or in its
            agent registry. An `Agent` that is in neither is found by nobody: name it.
        collisions: Where another tool has the name: `error`; `rename` the one that comes, after its owner or agent;
            `keep` the one that is here; `replace` it.

    Raises:
        MissingExtraError: Praval is not installed.
        DuplicateToolError: Two tools have one name, and *collisions* is `error`.
    """
    module = import_praval_module("praval.core.tool_registry")
    registry = default.get_tool_registry() if registry is None else registry
    view, found = get_view(registry), list(_find_agents() if agents is None else map(get_praval_agent, agents))
    with registry.change():
        reports = [migrate_catalogue(view, module._global_registry, collisions)]
        handed = view._praval_state.reported_tools
        reports += [
            migrate_agent(view, one, collisions, handed.get(one.name, ())) for one in found if not _is_attached(one)
        ]
    return Migration(
        tuple(row for one in reports for row in one.moved), tuple(row for one in reports for row in one.assigned)
    )


def _is_attached(agent: Any) -> bool:
    return not isinstance(agent.tools, dict)


def get_praval_agent(one: Any) -> Any:
    """
    Return Praval's agent behind a decorated function, or the agent itself.

    Raises:
        TypeError: It is neither.
    """
    kind = import_praval_module("praval.core.agent").Agent
    found = one if isinstance(one, kind) else getattr(one, "_praval_agent", None)
    if not isinstance(found, kind):
        raise TypeError(f"Expected an agent of Praval's, or a function decorated with its @agent, got {one!r}.")
    return found


def _find_agents() -> Iterator[Any]:
    """Yield the agents that Praval knows of, each once: those on the Reef, then those in its agent registry."""
    kind, reef = (
        import_praval_module("praval.core.agent").Agent,
        import_praval_module("praval.core.reef")._get_existing_reef(),
    )
    handlers = [
        handler
        for channel in (reef.channels.values() if reef is not None else ())
        for listening in list(channel.subscribers.values())
        for handler in list(listening)
    ]
    known = [getattr(handler, "__self__", None) for handler in handlers]
    known += import_praval_module("praval.core.registry").get_registry().get_all_agents().values()
    yield from {id(one): one for one in known if isinstance(one, kind)}.values()
