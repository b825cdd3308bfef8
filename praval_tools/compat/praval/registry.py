"""Praval's registry interface over a `praval_tools` registry: a view, without a catalogue of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, Self
from weakref import WeakKeyDictionary, WeakValueDictionary

from attrs import define, field

from praval_tools.compat.praval.conversion import Mark, mark_of, name_for, ours, principal, refreshed, stand_in, viewed
from praval_tools.compat.praval.errors import tool_error
from praval_tools.compat.praval.model import Tool
from praval_tools.errors import DuplicateToolError, ToolError
from praval_tools.registry import default
from praval_tools.registry.registry import ToolRegistry as OurRegistry
from praval_tools.tools.tool import Tool as OurTool

ASSIGNED: Final = "assigned through Praval's interface"
SHARED: Final = "shared with every agent"
"""Why an agent keeps a shared tool that was taken from it: in Praval, sharing is not taken back that way."""


@define(eq=False)
class Memory:
    """
    What Praval's registry remembers and nobody else needs.

    Args:
        agents: Who ever had a tool of its own.
        categories: Every category that ever had a tool.
        taken: Tools, by their names here, that were taken from their owners.
        handed: The tools that agents were told to have by their rights.
        attached: What ties agents of Praval's to the registry now, by its `id`.
    """

    agents: dict[str, None] = field(factory=dict)
    categories: dict[str, None] = field(factory=dict)
    taken: dict[tuple[str, str], None] = field(factory=dict)
    handed: dict[str, set[str]] = field(factory=dict)
    attached: WeakValueDictionary[int, Any] = field(factory=WeakValueDictionary)


class ToolRegistry:
    """
    What Praval's registry does, done in a `praval_tools` registry, which `registry` gives.

    Every question is answered from there, so that a tool, grant or block from elsewhere counts here, too.
    Lists come in the order of registration; Praval's come in any order.
    """

    _tool_class: ClassVar[type] = Tool

    def __init__(self) -> None:
        self._over(OurRegistry(name="praval"))

    def _over(self, registry: OurRegistry) -> Self:
        self.registry = registry
        self._derived: WeakKeyDictionary[Any, Tool] = WeakKeyDictionary()
        self._memory: Memory = registry.__dict__.setdefault("_praval_memory", Memory())
        for one in registry.list_all_tools():
            if (mark := mark_of(one)) is not None:
                self._memory.agents.update({mark.owner: None} if mark.owner else {})
                self._memory.categories.update({mark.category: None} if mark.category else {})
        return self

    # ── the catalogue ────────────────────────────────────────────────────────────────────────────

    def register_tool(self, tool: Tool) -> None:
        """
        Register a tool.

        A name that is not legal in `praval_tools`, or that clashes there with another on the wire, stays as it
        is here; `registry.problems()` says which name it has there.

        Raises:
            ToolError: The name is taken, or who is running may not register it.
        """
        name = tool.metadata.tool_name
        if self._find(name) is not None:
            raise tool_error(f"Tool '{name}' is already registered")
        self._registered(tool, name)

    def _registered(
        self, tool: Tool, name: str, parameters: Mapping[str, Any] | None = None, entry: Mapping[str, Any] | None = None
    ) -> Mark:
        for candidate in dict.fromkeys((name_for(name), stand_in(name))):
            one = ours(tool, candidate, parameters, entry)
            try:
                self.registry.register_tool(one)
            except DuplicateToolError as error:
                if self._find(name) is not None:  # another thread was first
                    raise tool_error(f"Tool '{name}' is already registered") from error
            except ToolError as error:
                raise tool_error(str(error)) from error
            else:
                return self._seen(mark_of(one))
        raise tool_error(f"Tool '{name}' is already registered")

    def _seen(self, mark: Any) -> Mark:
        if mark.owner:
            self._memory.agents[mark.owner] = None
        if mark.category:
            self._memory.categories[mark.category] = None
        self._given_back(mark)
        return mark  # type: ignore[no-any-return]

    def _given_back(self, mark: Mark) -> None:
        """Let a tool that was taken from its owner, and is new now, be its owner's again, as in Praval."""
        owner = principal(mark.owner) if mark.owner else None
        for pair in [one for one in self._memory.taken if one[0] == mark.registered]:
            if mark.shared or pair[1] == owner:
                self._memory.taken.pop(pair, None)
                self.registry.assign_tool_to_agent(*pair, reason=ASSIGNED if pair[1] == owner else SHARED)

    def _out(self, tool: OurTool[..., Any]) -> bool:
        """Take a tool out; what was given back once is given back again when it returns, unless it was taken since."""
        for grant in self.registry.grants(tool=tool):
            if grant.reason in (ASSIGNED, SHARED) and self._access(tool, grant.agent).removed:
                self._memory.taken[tool.name, grant.agent] = None
        return self.registry.unregister_tool(tool)

    def _access(self, tool: OurTool[..., Any], agent: str) -> Any:
        return self.registry._ledger.present().access(agent, tool.name)

    def _find(self, name: Any) -> OurTool[..., Any] | None:
        """Return the tool that has this name here."""
        for candidate in (name_for(name), stand_in(name)):
            found = self.registry.get_tool(candidate)
            if found is not None and _name(found) == name:
                return found
        return None

    def _shown(self, tool: OurTool[..., Any]) -> Tool:
        mark = mark_of(tool)
        if mark is not None:
            return refreshed(tool, mark)  # type: ignore[no-any-return]
        made = self._derived.get(tool)
        return made if made is not None else self._derived.setdefault(tool, viewed(tool, self._tool_class))

    def get_tool(self, tool_name: str) -> Tool | None:
        """Return the tool of this name; None: there is none."""
        found = self._find(tool_name)
        return None if found is None else self._shown(found)

    def list_all_tools(self) -> list[Tool]:
        """Return every tool."""
        return [self._shown(one) for one in self.registry.list_all_tools()]

    def get_tools_by_category(self, category: str) -> list[Tool]:
        """Return the tools of a category."""
        return [self._shown(one) for one in self.registry.list_all_tools() if _category(one) == category and category]

    def get_shared_tools(self) -> list[Tool]:
        """Return the shared tools."""
        return [self._shown(one) for one in self.registry.get_shared_tools()]

    def get_tools_for_agent(self, agent_name: str) -> list[Tool]:
        """Return the tools that the agent may call now."""
        return [self._shown(one) for one in self.registry.get_tools_for_agent(principal(agent_name))]

    def search_tools(
        self, name_pattern: str | None = None, category: str | None = None, owned_by: str | None = None,
        shared_only: bool = False, tags: list[str] | None = None,
    ) -> list[Tool]:  # fmt: skip
        """Return the tools that meet every condition; any of *tags* suffices, *name_pattern* is a part of the name."""
        return [
            one
            for one in self.list_all_tools()
            if (not name_pattern or name_pattern.lower() in one.metadata.tool_name.lower())
            and (not category or one.metadata.category == category)
            and (not owned_by or one.metadata.owned_by == owned_by)
            and (not shared_only or one.metadata.shared)
            and (not tags or any(tag in one.metadata.tags for tag in tags))
        ]

    def get_registry_stats(self) -> dict[str, Any]:
        """Return how many tools, agents and categories there are; those without tools left count, too."""
        tools = self.registry.list_all_tools()
        held = dict.fromkeys(self._memory.categories, 0)
        for category in filter(None, map(_category, tools)):
            held[category] = held.get(category, 0) + 1
        known = {principal(one) for one in self._memory.agents}
        others = {one.metadata.owned_by for one in tools if one.metadata.owned_by is not None}
        others |= {one.agent for one in self.registry.grants() if one.reason != SHARED}
        return {
            "total_tools": len(tools),
            "shared_tools": len(self.registry.get_shared_tools()),
            "agents_with_tools": len(known | others),
            "categories": len(held),
            "tools_by_category": held,
        }

    # ── who may call ─────────────────────────────────────────────────────────────────────────────

    def assign_tool_to_agent(self, tool_name: str, agent_name: str) -> bool:
        """Assign a tool to an agent; False: there is no such tool, or the agent is blocked from it."""
        found = self._find(tool_name)
        if found is None:
            return False
        self._memory.agents[agent_name] = None
        return self.registry.assign_tool_to_agent(found, principal(agent_name), reason=ASSIGNED)

    def remove_tool_from_agent(self, tool_name: str, agent_name: str) -> bool:
        """Take a tool from an agent; False: it was not assigned. A shared tool stays callable, as in Praval."""
        found, agent = self._find(tool_name), principal(agent_name)
        if found is None:
            return False
        access = self._access(found, agent)
        owned = found.metadata.owned_by == agent and not access.removed
        assigned = [one for one in self.registry.grants(tool=found, agent=agent) if one.reason != SHARED]
        if not (owned or assigned):
            return False
        if owned:
            self.registry.remove_tool_from_agent(found, agent)
        for one in assigned:
            self.registry.revoke(one)
        if owned or access.removed:
            self._memory.taken[found.name, agent] = None
            if found.metadata.shared:
                self.registry.assign_tool_to_agent(found, agent, reason=SHARED)
        return True

    def unregister_tool(self, tool_name: str) -> bool:
        """Take a tool out; False: there was none."""
        found = self._find(tool_name)
        return found is not None and self._out(found)

    def unregister_owned_tool(self, tool_name: str, func: Callable[..., Any], owned_by: str) -> bool:
        """Take a tool out if it is *func*, owned by *owned_by*; False: it is not."""
        found = self._find(tool_name)
        if found is None or self._shown(found).func is not func or self._shown(found).metadata.owned_by != owned_by:
            return False
        gone = self._out(found)
        if gone and not self._has_own(owned_by):
            self._memory.agents.pop(owned_by, None)
        return gone

    def _has_own(self, agent_name: str) -> bool:
        """Tell whether anything but sharing gives the agent a tool."""
        agent = principal(agent_name)
        own = [one for one in self.registry.get_tools_for_agent(agent) if one.metadata.owned_by == agent]
        return bool(own) or any(one.reason != SHARED for one in self.registry.grants(agent=agent))

    def clear_registry(self) -> None:
        """Take out every tool and assignment that came through this interface; what came otherwise stays."""
        with self.registry.change():
            for one in self.registry.list_all_tools():
                if mark_of(one) is not None:
                    self._out(one)
            for grant in self.registry.grants():
                if grant.reason == ASSIGNED:
                    self.registry.revoke(grant)
        self._memory.agents.clear()
        self._memory.categories.clear()
        self._memory.handed.clear()


def _name(tool: OurTool[..., Any]) -> Any:
    mark = mark_of(tool)
    return tool.name if mark is None else mark.name


def _category(tool: OurTool[..., Any]) -> Any:
    mark = mark_of(tool)
    return tool.metadata.category if mark is None else mark.category


def view_of(registry: OurRegistry) -> ToolRegistry:
    """Return Praval's view of a registry, always the same one."""
    made = registry.__dict__.get("_praval_view")
    if made is None:
        fresh = object.__new__(ToolRegistry)._over(registry)
        made = registry.__dict__.setdefault("_praval_view", fresh)
    return made  # type: ignore[no-any-return]


def get_tool_registry() -> ToolRegistry:
    """Return the view of the default registry of `praval_tools`."""
    return view_of(default.get_tool_registry())


def reset_tool_registry() -> None:
    """Clear the registry, and let a new one follow."""
    get_tool_registry().clear_registry()
    default.reset_tool_registry()
