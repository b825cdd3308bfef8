"""`ToolCollection`: a named group of tools that are assigned to agents together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from praval_tools.access.commands import get_tool_record
from praval_tools.misuse import explain_misuse_and_take_plain_arguments
from praval_tools.names import find_name, format_count, get_name
from praval_tools.registry.agents import Agent, AgentTool, ensure_registered
from praval_tools.registry.default import get_tool_registry
from praval_tools.registry.registry import ToolRegistry, get_runtime
from praval_tools.tools.tool import AnyTool


@explain_misuse_and_take_plain_arguments
class ToolCollection:
    """
    A named group of tools of one registry.

    Args:
        name: For people.
        description: For people.
        registry: None: the default one.
    """

    def __init__(self, name: str, description: str = "", registry: ToolRegistry | None = None) -> None:
        self.name, self.description = name, description
        self.registry = registry if registry is not None else get_tool_registry()
        self._names: dict[str, None] = {}

    def __repr__(self) -> str:
        return f"<ToolCollection {self.name!r}: {format_count(len(self), 'tool')}>"

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return len(self.get_tools())

    def __iter__(self) -> Iterator[AnyTool]:
        return iter(self.get_tools())

    def __contains__(self, tool: object) -> bool:
        return find_name(tool) in self._names

    def add_tool(self, tool: AgentTool) -> None:
        """Add a tool by name, object or function; what is in no registry is registered."""
        if isinstance(tool, str):
            get_tool_record(get_runtime(self.registry).access_store.get_fresh_state(), tool)
        self._names[ensure_registered(self.registry, tool, None)] = None

    def remove_tool(self, tool: str | AnyTool) -> bool:
        """Take a tool out of the group and tell whether it was in it; no agent loses the tool."""
        is_member = tool in self
        self._names.pop(get_name(tool), None)
        return is_member

    def get_tools(self) -> list[AnyTool]:
        """Return the tools that are registered now, in the order in which they were added."""
        return [tool for name in self._names if (tool := self.registry.get_tool(name)) is not None]

    def assign_to_agent(self, agent: str | Agent, **options: Any) -> int:
        """Assign every tool to an agent; returns how many assignments stand."""
        return sum(self.registry.assign_tool_to_agent(tool, agent, **options) for tool in self.get_tools())
