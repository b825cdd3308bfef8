"""
Drop-in replacement for `praval.tools` and `praval.core.tool_registry`, over a registry of this package.

Code written for those modules changes its import and nothing else; `praval` need not be installed.
What it registers and assigns is in `praval_tools.get_tool_registry()`, with owners, sharing and grants.
"""

from praval_tools.compat.praval.model import Tool, ToolError, ToolMetadata
from praval_tools.compat.praval.registry import ToolRegistry, get_tool_registry, reset_tool_registry
from praval_tools.compat.praval.tools import (
    ToolCollection,
    discover_tools,
    get_tool_info,
    is_tool,
    list_tools,
    register_tool_with_agent,
    tool,
    unregister_tool_from_agent,
)

__all__ = [
    "Tool", "ToolCollection", "ToolError", "ToolMetadata", "ToolRegistry", "discover_tools", "get_tool_info",
    "get_tool_registry", "is_tool", "list_tools", "register_tool_with_agent", "reset_tool_registry", "tool",
    "unregister_tool_from_agent",
]  # fmt: skip
