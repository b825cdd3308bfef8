"""Finds the tools of a registry by their names in Praval, and keeps what only Praval's registry remembers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from weakref import WeakValueDictionary

from attrs import define, field

from praval_tools.access.permissions import Grant
from praval_tools.access.records import AccessRecord
from praval_tools.access.state import AccessState, get_declarer
from praval_tools.compat.praval.conversion import (
    JsonObject,
    PravalRegistration,
    get_praval_name,
    get_registration,
    make_fallback_name,
    to_agent_name,
    to_plain_key,
    to_registry_name,
    to_registry_tool,
)
from praval_tools.compat.praval.model import Tool, make_tool_error
from praval_tools.errors import DuplicateToolError, ToolError
from praval_tools.names import OPERATOR
from praval_tools.registry.registry import ToolRegistry, get_runtime
from praval_tools.tools.tool import AnyTool

ASSIGNED_REASON = "assigned through Praval's interface"
SHARED_REASON = "shared with every agent"
"""Why an agent keeps a shared tool that was removed from it: in Praval, sharing is not undone that way."""

_CATALOGUE_ATTRIBUTE = "_praval_catalogue"


@define(eq=False)
class PravalCatalogue:
    """
    The tools of a registry under their names in Praval.

    Args:
        registry: The registry of `praval_tools`, which holds the tools and the grants.
        agents: Every agent that ever had a tool of its own.
        categories: Every category that ever had a tool.
        removed_tools: Tools that were removed from their owners, by their names in the registry, with the owner.
        reported_tools: By agent, the tools that it was reported to have because it owns them or they are shared.
        attachments: The attachments of Praval's agents to the registry, by `id`.
    """

    registry: ToolRegistry
    agents: dict[str, None] = field(factory=dict)
    categories: dict[str, None] = field(factory=dict)
    removed_tools: dict[tuple[str, str], None] = field(factory=dict)
    reported_tools: dict[str, set[str]] = field(factory=dict)
    attachments: WeakValueDictionary[int, object] = field(factory=WeakValueDictionary)

    def find_tool(self, name: str) -> AnyTool | None:
        """Return the tool that has *name* in Praval."""
        return self.find_declared_tool(name) or self._find_tool(name, self.registry.get_tool)

    def find_declared_tool(self, name: str) -> AnyTool | None:
        """Return the tool that has *name* in Praval, if it was declared already; no plugin is loaded for that."""
        tools = self._get_state().tools
        return self._find_tool(name, lambda candidate: tools[candidate].tool if candidate in tools else None)

    def _find_tool(self, name: str, get_tool: Callable[[str], AnyTool | None]) -> AnyTool | None:
        name = to_plain_key(name)
        for candidate in (to_registry_name(name), make_fallback_name(name)):
            tool = get_tool(candidate)
            if tool is not None and get_praval_name(tool) == name:
                return tool
        return None

    def _get_state(self) -> AccessState:
        return get_runtime(self.registry).access_store.get_current_state()

    def get_access(self, tool: str, agent: str) -> AccessRecord:
        """Return what is recorded of an agent and a tool, both by their names in the registry."""
        return self._get_state().get_access(agent, tool)

    def register(
        self, tool: Tool, name: str, parameters: JsonObject | None = None, entry: Mapping[str, object] | None = None
    ) -> str:
        """
        Register a tool of Praval's.

        Returns:
            Its name in the registry.

        Raises:
            ToolError: The name is taken, or whoever is running may not register it.
        """
        name = to_plain_key(name)
        for candidate in dict.fromkeys((to_registry_name(name), make_fallback_name(name))):
            converted = to_registry_tool(tool, candidate, parameters, entry)
            try:
                self.registry.register_tool(converted)
            except DuplicateToolError as error:
                if self.find_declared_tool(name) is not None:  # another thread was first
                    raise make_tool_error(f"Tool '{name}' is already registered") from error
            except ToolError as error:
                raise make_tool_error(str(error)) from error
            else:
                if (registration := get_registration(converted)) is not None:
                    self.remember(registration)
                    self._restore_removed(registration)
                return candidate
        raise make_tool_error(f"Tool '{name}' is already registered")

    def remember(self, registration: PravalRegistration) -> None:
        """Remember the owner and the category of a tool."""
        if registration.owner:
            self.agents[registration.owner] = None
        if registration.category:
            self.categories[registration.category] = None

    def _restore_removed(self, registration: PravalRegistration) -> None:
        """Give a tool that was removed from its owner, and is registered anew, back to its owner, as Praval does."""
        owner = to_agent_name(registration.owner) if registration.owner else None
        for tool, agent in [pair for pair in self.removed_tools if pair[0] == registration.registered_name]:
            if registration.shared or agent == owner:
                self.removed_tools.pop((tool, agent), None)
                reason = ASSIGNED_REASON if agent == owner else SHARED_REASON
                self.registry.assign_tool_to_agent(tool, agent, reason=reason)

    def unregister(self, tool: AnyTool) -> bool:
        """Unregister a tool; remember the agents that get it back when it is registered again."""
        for grant in self.registry.grants(tool=tool):
            is_of_praval = grant.by == OPERATOR and grant.reason in (ASSIGNED_REASON, SHARED_REASON)
            if is_of_praval and not get_declarer(tool) and self.get_access(tool.name, grant.agent).removed:
                self.removed_tools[tool.name, grant.agent] = None
        return self.registry.unregister_tool(tool)

    def remove_from_agent(self, name: str, agent_name: str) -> bool:
        """
        Remove a tool from an agent, both by their names in Praval; a shared tool stays callable, as in Praval.

        Returns:
            Whether it owned the tool, or it was assigned to it.
        """
        tool, agent = self.find_tool(name), to_agent_name(agent_name)
        if tool is None:
            return False
        access = self.get_access(tool.name, agent)
        owned = tool.metadata.owned_by == agent and not access.removed
        grants = self.registry.grants(tool=tool, agent=agent)
        assigned = [grant for grant in grants if not is_of_sharing(grant)]
        if not (owned or assigned):
            return False
        if owned:
            self.registry.remove_tool_from_agent(tool, agent)
        for grant in assigned:
            self.registry.revoke(grant)
        if owned or access.removed:
            if not get_declarer(tool):  # else a later tool of the name is another one
                self.removed_tools[tool.name, agent] = None
            if tool.metadata.shared:
                self.registry.assign_tool_to_agent(tool, agent, reason=SHARED_REASON)
        return True

    def has_own_tools(self, agent_name: str) -> bool:
        """Tell whether an agent has a tool for another reason than that it is shared."""
        agent = to_agent_name(agent_name)
        owned = any(tool.metadata.owned_by == agent for tool in self.registry.get_tools_for_agent(agent))
        return owned or not all(map(is_of_sharing, self.registry.grants(agent=agent)))


def is_of_sharing(grant: Grant) -> bool:
    """Tell whether an agent has a grant only since the tool is shared; agents write reasons as they like."""
    return grant.by == OPERATOR and grant.reason == SHARED_REASON


def get_catalogue(registry: ToolRegistry) -> PravalCatalogue:
    """Return the catalogue of a registry, always the same one."""
    catalogue: PravalCatalogue | None = registry.__dict__.get(_CATALOGUE_ATTRIBUTE)
    if catalogue is None:
        fresh = PravalCatalogue(registry)
        for record in registry.state.tools.values():
            if (registration := get_registration(record.tool)) is not None:
                fresh.remember(registration)
        catalogue = registry.__dict__.setdefault(_CATALOGUE_ATTRIBUTE, fresh)
    return catalogue
