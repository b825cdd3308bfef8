"""Praval's registry interface over a `praval_tools` registry: a view, without a catalogue of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, Self
from weakref import WeakKeyDictionary, WeakValueDictionary

from attrs import define, field

from praval_tools.compat.praval.conversion import (
    PravalRegistration,
    get_registration,
    make_fallback_name,
    refresh_praval_tool,
    to_agent_name,
    to_praval_tool,
    to_registry_name,
    to_registry_tool,
)
from praval_tools.compat.praval.errors import make_tool_error
from praval_tools.compat.praval.model import Tool
from praval_tools.errors import DuplicateToolError, ToolError
from praval_tools.registry import default
from praval_tools.registry.registry import ToolRegistry as OurRegistry
from praval_tools.tools.tool import Tool as OurTool

ASSIGNED_REASON: Final = "assigned through Praval's interface"
SHARED_REASON: Final = "shared with every agent"
"""Why an agent keeps a shared tool that was taken from it: in Praval, sharing is not taken back that way."""


@define(eq=False)
class PravalState:
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
    removed_tools: dict[tuple[str, str], None] = field(factory=dict)
    reported_tools: dict[str, set[str]] = field(factory=dict)
    attachments: WeakValueDictionary[int, Any] = field(factory=WeakValueDictionary)


class ToolRegistry:
    """
    What Praval's registry does, done in a `praval_tools` registry, which `registry` gives.

    Every question is answered from there, so that a tool, grant or block from elsewhere counts here, too.
    Lists come in the order of registration; Praval's come in any order.
    """

    _tool_class: ClassVar[type] = Tool

    def __init__(self) -> None:
        self._bind_registry(OurRegistry(name="praval"))

    def _bind_registry(self, registry: OurRegistry) -> Self:
        self.registry = registry
        self._converted_tools: WeakKeyDictionary[Any, Tool] = WeakKeyDictionary()
        self._praval_state: PravalState = registry.__dict__.setdefault("_praval_memory", PravalState())
        for one in registry.list_all_tools():
            if (mark := get_registration(one)) is not None:
                self._praval_state.agents.update({mark.owner: None} if mark.owner else {})
                self._praval_state.categories.update({mark.category: None} if mark.category else {})
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
        if self._find_tool(name) is not None:
            raise make_tool_error(f"Tool '{name}' is already registered")
        self._register(tool, name)

    def _register(
        self, tool: Tool, name: str, parameters: Mapping[str, Any] | None = None, entry: Mapping[str, Any] | None = None
    ) -> PravalRegistration:
        for candidate in dict.fromkeys((to_registry_name(name), make_fallback_name(name))):
            one = to_registry_tool(tool, candidate, parameters, entry)
            try:
                self.registry.register_tool(one)
            except DuplicateToolError as error:
                if self._find_tool(name) is not None:  # another thread was first
                    raise make_tool_error(f"Tool '{name}' is already registered") from error
            except ToolError as error:
                raise make_tool_error(str(error)) from error
            else:
                return self._track_registration(get_registration(one))
        raise make_tool_error(f"Tool '{name}' is already registered")

    def _track_registration(self, mark: Any) -> PravalRegistration:
        if mark.owner:
            self._praval_state.agents[mark.owner] = None
        if mark.category:
            self._praval_state.categories[mark.category] = None
        self._restore_removed(mark)
        return mark  # type: ignore[no-any-return]

    def _restore_removed(self, mark: PravalRegistration) -> None:
        """Let a tool that was taken from its owner, and is new now, be its owner's again, as in Praval."""
        owner = to_agent_name(mark.owner) if mark.owner else None
        for pair in [one for one in self._praval_state.removed_tools if one[0] == mark.registered_name]:
            if mark.shared or pair[1] == owner:
                self._praval_state.removed_tools.pop(pair, None)
                self.registry.assign_tool_to_agent(*pair, reason=ASSIGNED_REASON if pair[1] == owner else SHARED_REASON)

    def _unregister(self, tool: OurTool[..., Any]) -> bool:
        """Take a tool out; what was given back once is given back again when it returns, unless it was taken since."""
        for grant in self.registry.grants(tool=tool):
            if grant.reason in (ASSIGNED_REASON, SHARED_REASON) and self._get_access(tool, grant.agent).removed:
                self._praval_state.removed_tools[tool.name, grant.agent] = None
        return self.registry.unregister_tool(tool)

    def _get_access(self, tool: OurTool[..., Any], agent: str) -> Any:
        return self.registry._access_store.get_current_state().get_access(agent, tool.name)

    def _find_tool(self, name: Any) -> OurTool[..., Any] | None:
        """Return the tool that has this name here."""
        for candidate in (to_registry_name(name), make_fallback_name(name)):
            found = self.registry.get_tool(candidate)
            if found is not None and _get_praval_name(found) == name:
                return found
        return None

    def _convert_tool(self, tool: OurTool[..., Any]) -> Tool:
        mark = get_registration(tool)
        if mark is not None:
            return refresh_praval_tool(tool, mark)  # type: ignore[no-any-return]
        made = self._converted_tools.get(tool)
        return (
            made if made is not None else self._converted_tools.setdefault(tool, to_praval_tool(tool, self._tool_class))
        )

    def get_tool(self, tool_name: str) -> Tool | None:
        """Return the tool of this name; None: there is none."""
        found = self._find_tool(tool_name)
        return None if found is None else self._convert_tool(found)

    def list_all_tools(self) -> list[Tool]:
        """Return every tool."""
        return [self._convert_tool(one) for one in self.registry.list_all_tools()]

    def get_tools_by_category(self, category: str) -> list[Tool]:
        """Return the tools of a category."""
        return [
            self._convert_tool(one)
            for one in self.registry.list_all_tools()
            if _get_praval_category(one) == category and category
        ]

    def get_shared_tools(self) -> list[Tool]:
        """Return the shared tools."""
        return [self._convert_tool(one) for one in self.registry.get_shared_tools()]

    def get_tools_for_agent(self, agent_name: str) -> list[Tool]:
        """Return the tools that the agent may call now."""
        return [self._convert_tool(one) for one in self.registry.get_tools_for_agent(to_agent_name(agent_name))]

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
        held = dict.fromkeys(self._praval_state.categories, 0)
        for category in filter(None, map(_get_praval_category, tools)):
            held[category] = held.get(category, 0) + 1
        known = {to_agent_name(one) for one in self._praval_state.agents}
        others = {one.metadata.owned_by for one in tools if one.metadata.owned_by is not None}
        others |= {one.agent for one in self.registry.grants() if one.reason != SHARED_REASON}
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
        found = self._find_tool(tool_name)
        if found is None:
            return False
        self._praval_state.agents[agent_name] = None
        return self.registry.assign_tool_to_agent(found, to_agent_name(agent_name), reason=ASSIGNED_REASON)

    def remove_tool_from_agent(self, tool_name: str, agent_name: str) -> bool:
        """Take a tool from an agent; False: it was not assigned. A shared tool stays callable, as in Praval."""
        found, agent = self._find_tool(tool_name), to_agent_name(agent_name)
        if found is None:
            return False
        access = self._get_access(found, agent)
        owned = found.metadata.owned_by == agent and not access.removed
        assigned = [one for one in self.registry.grants(tool=found, agent=agent) if one.reason != SHARED_REASON]
        if not (owned or assigned):
            return False
        if owned:
            self.registry.remove_tool_from_agent(found, agent)
        for one in assigned:
            self.registry.revoke(one)
        if owned or access.removed:
            self._praval_state.removed_tools[found.name, agent] = None
            if found.metadata.shared:
                self.registry.assign_tool_to_agent(found, agent, reason=SHARED_REASON)
        return True

    def unregister_tool(self, tool_name: str) -> bool:
        """Take a tool out; False: there was none."""
        found = self._find_tool(tool_name)
        return found is not None and self._unregister(found)

    def unregister_owned_tool(self, tool_name: str, func: Callable[..., Any], owned_by: str) -> bool:
        """Take a tool out if it is *func*, owned by *owned_by*; False: it is not."""
        found = self._find_tool(tool_name)
        if (
            found is None
            or self._convert_tool(found).func is not func
            or self._convert_tool(found).metadata.owned_by != owned_by
        ):
            return False
        gone = self._unregister(found)
        if gone and not self._has_own_tools(owned_by):
            self._praval_state.agents.pop(owned_by, None)
        return gone

    def _has_own_tools(self, agent_name: str) -> bool:
        """Tell whether anything but sharing gives the agent a tool."""
        agent = to_agent_name(agent_name)
        own = [one for one in self.registry.get_tools_for_agent(agent) if one.metadata.owned_by == agent]
        return bool(own) or any(one.reason != SHARED_REASON for one in self.registry.grants(agent=agent))

    def clear_registry(self) -> None:
        """Take out every tool and assignment that came through this interface; what came otherwise stays."""
        with self.registry.change():
            for one in self.registry.list_all_tools():
                if get_registration(one) is not None:
                    self._unregister(one)
            for grant in self.registry.grants():
                if grant.reason == ASSIGNED_REASON:
                    self.registry.revoke(grant)
        self._praval_state.agents.clear()
        self._praval_state.categories.clear()
        self._praval_state.reported_tools.clear()


def _get_praval_name(tool: OurTool[..., Any]) -> Any:
    mark = get_registration(tool)
    return tool.name if mark is None else mark.name


def _get_praval_category(tool: OurTool[..., Any]) -> Any:
    mark = get_registration(tool)
    return tool.metadata.category if mark is None else mark.category


def get_view(registry: OurRegistry) -> ToolRegistry:
    """Return Praval's view of a registry, always the same one."""
    made = registry.__dict__.get("_praval_view")
    if made is None:
        fresh = object.__new__(ToolRegistry)._bind_registry(registry)
        made = registry.__dict__.setdefault("_praval_view", fresh)
    return made  # type: ignore[no-any-return]


def get_tool_registry() -> ToolRegistry:
    """Return the view of the default registry of `praval_tools`."""
    return get_view(default.get_tool_registry())


def reset_tool_registry() -> None:
    """Clear the registry, and let a new one follow."""
    get_tool_registry().clear_registry()
    default.reset_tool_registry()
