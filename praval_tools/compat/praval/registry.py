"""Praval's `ToolRegistry`, as an interface over a registry of `praval_tools`, which holds the tools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar
from weakref import WeakKeyDictionary

from praval_tools.compat.praval.catalogue import ASSIGNED_REASON, PravalCatalogue, get_catalogue, is_of_sharing
from praval_tools.compat.praval.conversion import (
    get_praval_category,
    get_registration,
    refresh_praval_tool,
    to_agent_name,
    to_plain_key,
    to_praval_tool,
)
from praval_tools.compat.praval.model import Tool, make_tool_error
from praval_tools.misuse import explain_misuse_and_take_plain_arguments
from praval_tools.names import OPERATOR
from praval_tools.registry import default
from praval_tools.registry.registry import ToolRegistry as OurRegistry
from praval_tools.tools.finalizers import run_finalizer
from praval_tools.tools.frames import activate_tool_frame
from praval_tools.tools.tool import AnyTool

_VIEW_ATTRIBUTE = "_praval_view"


@explain_misuse_and_take_plain_arguments
class ToolRegistry:
    """
    What Praval's registry does, done in a `praval_tools` registry, which `registry` gives.

    Every question is answered from there, so that a tool, grant or block from elsewhere counts here, too.
    Lists come in the order of registration; Praval's come in any order.
    """

    registry: OurRegistry
    _catalogue: PravalCatalogue
    _converted_tools: WeakKeyDictionary[AnyTool, Tool]
    _tool_class: ClassVar[type[Tool]] = Tool

    def __init__(self) -> None:
        _bind(self, OurRegistry(name="praval"))

    # ── the tools ────────────────────────────────────────────────────────────────────────────────

    def register_tool(self, tool: Tool) -> None:
        """
        Register a tool.

        A name that is not legal in `praval_tools`, or that clashes there with another on the wire, stays as it
        is here; `registry.problems()` says which name it has there.

        Raises:
            ToolError: The name is taken, or whoever is running may not register it.
        """
        name = to_plain_key(tool.metadata.tool_name)
        if self._catalogue.find_declared_tool(name) is not None:
            raise make_tool_error(f"Tool '{name}' is already registered")
        self._catalogue.register(tool, name)

    def _convert_tool(self, tool: AnyTool) -> Tool:
        registration = get_registration(tool)
        if registration is not None:
            return refresh_praval_tool(tool, registration)
        converted = self._converted_tools.get(tool)
        if converted is None:
            converted = self._converted_tools.setdefault(tool, to_praval_tool(tool, self._tool_class))
        return converted

    def get_tool(self, tool_name: str) -> Tool | None:
        """Return the tool of this name; None where there is none."""
        tool = self._catalogue.find_tool(tool_name)
        return None if tool is None else self._convert_tool(tool)

    def list_all_tools(self) -> list[Tool]:
        """Return every tool."""
        return [self._convert_tool(tool) for tool in self.registry.list_all_tools()]

    def get_tools_by_category(self, category: str) -> list[Tool]:
        """Return the tools of a category."""
        tools, category = self.registry.list_all_tools(), to_plain_key(category)
        return [self._convert_tool(tool) for tool in tools if category and get_praval_category(tool) == category]

    def get_shared_tools(self) -> list[Tool]:
        """Return the shared tools."""
        return [self._convert_tool(tool) for tool in self.registry.get_shared_tools()]

    def get_tools_for_agent(self, agent_name: str) -> list[Tool]:
        """Return the tools that the agent may call now."""
        return [self._convert_tool(tool) for tool in self.registry.get_tools_for_agent(to_agent_name(agent_name))]

    def search_tools(
        self, name_pattern: str | None = None, category: str | None = None, owned_by: str | None = None,
        shared_only: bool = False, tags: list[str] | None = None,
    ) -> list[Tool]:  # fmt: skip
        """Return the tools that meet every condition; any of *tags* suffices, *name_pattern* is a part of the name."""
        tools = self.list_all_tools()
        with activate_tool_frame("(search)"):  # their metadata are objects of whoever registered them
            return [
                tool
                for tool in tools
                if (not name_pattern or name_pattern.lower() in tool.metadata.tool_name.lower())
                and (not category or tool.metadata.category == category)
                and (not owned_by or tool.metadata.owned_by == owned_by)
                and (not shared_only or tool.metadata.shared)
                and (not tags or any(tag in tool.metadata.tags for tag in tags))
            ]

    def get_registry_stats(self) -> dict[str, Any]:
        """Return how many tools, agents and categories there are; those without tools left count, too."""
        tools = self.registry.list_all_tools()
        tools_by_category = dict.fromkeys(self._catalogue.categories, 0)
        for category in filter(None, map(get_praval_category, tools)):
            tools_by_category[category] = tools_by_category.get(category, 0) + 1
        agents = {to_agent_name(agent) for agent in self._catalogue.agents}
        agents |= {tool.metadata.owned_by for tool in tools if tool.metadata.owned_by is not None}
        agents |= {grant.agent for grant in self.registry.grants() if not is_of_sharing(grant)}
        return {
            "total_tools": len(tools),
            "shared_tools": len(self.registry.get_shared_tools()),
            "agents_with_tools": len(agents),
            "categories": len(tools_by_category),
            "tools_by_category": tools_by_category,
        }

    # ── who may call ─────────────────────────────────────────────────────────────────────────────

    def assign_tool_to_agent(self, tool_name: str, agent_name: str) -> bool:
        """Assign a tool to an agent; return False where there is no such tool, or the agent is blocked from it."""
        tool = self._catalogue.find_tool(tool_name)
        if tool is None:
            return False
        name = to_plain_key(agent_name)
        is_assigned = self.registry.assign_tool_to_agent(tool, to_agent_name(name), reason=ASSIGNED_REASON)
        if is_assigned:
            self._catalogue.agents[name] = None
        return is_assigned

    def remove_tool_from_agent(self, tool_name: str, agent_name: str) -> bool:
        """Remove a tool from an agent, and tell whether it was assigned; a shared tool stays callable, as in Praval."""
        return self._catalogue.remove_from_agent(tool_name, agent_name)

    def unregister_tool(self, tool_name: str) -> bool:
        """Unregister a tool, and tell whether there was one."""
        tool = self._catalogue.find_tool(tool_name)
        return tool is not None and self._catalogue.unregister(tool)

    def unregister_owned_tool(self, tool_name: str, func: Callable[..., Any], owned_by: str) -> bool:
        """Unregister a tool if it is *func*, owned by *owned_by*, and tell whether it is."""
        return run_finalizer(self._unregister_owned_tool, tool_name, func, owned_by)  # a collected agent calls it

    def _unregister_owned_tool(self, tool_name: str, func: Callable[..., object], owned_by: str) -> bool:
        tool = self._catalogue.find_tool(tool_name)
        if tool is None:
            return False
        converted = self._convert_tool(tool)
        with activate_tool_frame(tool.name):  # its classes may have code of their own
            is_same = converted.func is func and bool(converted.metadata.owned_by == owned_by)
        if not is_same:
            return False
        was_registered = self._catalogue.unregister(tool)
        if was_registered and not self._catalogue.has_own_tools(owned_by):
            self._catalogue.agents.pop(owned_by, None)
        return was_registered

    def clear_registry(self) -> None:
        """Take out every tool and assignment that came through this interface; what came otherwise stays."""
        with self.registry.change():
            for tool in self.registry.list_all_tools():
                if get_registration(tool) is not None:
                    self._catalogue.unregister(tool)
            for grant in self.registry.grants():
                if grant.by == OPERATOR and grant.reason == ASSIGNED_REASON:
                    self.registry.revoke(grant)
        self._catalogue.agents.clear()
        self._catalogue.categories.clear()
        self._catalogue.reported_tools.clear()


V = TypeVar("V", bound=ToolRegistry)


def _bind(view: ToolRegistry, registry: OurRegistry) -> None:
    view.registry, view._catalogue = registry, get_catalogue(registry)
    view._converted_tools = WeakKeyDictionary()


def build_view(kind: type[V], registry: OurRegistry) -> V:
    """Return a new view of a registry, of class *kind*."""
    view = object.__new__(kind)
    _bind(view, registry)
    return view


def get_tool_registry() -> ToolRegistry:
    """Return the view of the default registry of `praval_tools`, always the same one."""
    registry = default.get_tool_registry()
    view: ToolRegistry | None = registry.__dict__.get(_VIEW_ATTRIBUTE)
    return view or registry.__dict__.setdefault(_VIEW_ATTRIBUTE, build_view(ToolRegistry, registry))


def reset_tool_registry() -> None:
    """Clear the registry, and let a new one follow."""
    get_tool_registry().clear_registry()
    default.reset_tool_registry()
