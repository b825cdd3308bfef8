"""Praval's `@tool` decorator, tool listing, discovery and `ToolCollection`."""

from __future__ import annotations

import glob
import hashlib
import importlib
import importlib.util
import logging
from collections.abc import Callable
from typing import Any

from praval_tools.compat.praval.conversion import RISK_LEVELS, to_plain_key
from praval_tools.compat.praval.model import Tool, ToolMetadata, make_tool_error
from praval_tools.compat.praval.registry import get_tool_registry
from praval_tools.misuse import explain_misuse_and_take_plain_arguments


def tool(
    tool_name: str | None = None, owned_by: str | None = None, description: str | None = None,
    category: str = "general", shared: bool = False, version: str = "1.0.0", author: str = "",
    tags: list[str] | None = None, requires_approval: bool = False, risk_level: str = "low", approval_reason: str = "",
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:  # fmt: skip
    """
    Register a function as a tool and return the function itself.

    An unknown `risk_level` becomes `low`, as in Praval.

    Raises:
        ToolError: A type hint is missing, or the name is taken.
    """

    def decorator(func: Callable[..., Any]) -> Callable[..., Any]:
        risk = str(risk_level or "low").strip().lower()
        metadata = ToolMetadata(
            tool_name=tool_name or func.__name__, owned_by=owned_by,
            description=description or (func.__doc__ or "").strip(), category=category, shared=shared,
            version=version, author=author, tags=tags or [], requires_approval=requires_approval,
            risk_level=risk if risk in RISK_LEVELS else "low", approval_reason=approval_reason or "",
        )  # fmt: skip
        return _register_function(func, metadata)  # type: ignore[no-any-return]

    return decorator


def _register_function(func: Any, metadata: ToolMetadata) -> Any:
    name = metadata.tool_name
    try:
        registered = Tool(func, metadata)
    except Exception as error:  # Praval raises one error, whatever is wrong
        raise make_tool_error(f"Failed to create tool '{name}': {error}") from error
    registry = get_tool_registry()
    try:
        registry.register_tool(registered)
    except Exception as error:  # the same
        raise make_tool_error(f"Failed to register tool '{name}': {error}") from error
    func._praval_tool, func._praval_tool_name, func._praval_tool_metadata = registered, name, metadata
    func.get_metadata = lambda: metadata
    func.get_tool_info = registered.to_dict
    func.execute_as_tool = registered.execute
    return func


def get_tool_info(tool_func: Callable[..., Any]) -> dict[str, Any]:
    """
    Return what a decorated function says about itself.

    Raises:
        ValueError: It is not decorated.
    """
    if not hasattr(tool_func, "_praval_tool"):
        raise ValueError("Function is not decorated with @tool")
    return tool_func._praval_tool.to_dict()  # type: ignore[no-any-return]


def is_tool(func: Callable[..., Any]) -> bool:
    """Tell whether a function is decorated with `@tool`."""
    return hasattr(func, "_praval_tool")


def discover_tools(module: str | None = None, pattern: str | None = None, category: str | None = None) -> list[Tool]:
    """
    Import a module or the files of a pattern, and return every registered tool; with *category* only filter.

    What cannot be imported is logged and left out, as in Praval; `praval_tools.discover_tools` raises.
    """
    registry, category = get_tool_registry(), to_plain_key(category)
    if category:
        return registry.get_tools_by_category(category)
    if module:
        _run_and_log(f"import module '{module}'", lambda: importlib.import_module(module))
    for path in glob.glob(pattern, recursive=True) if pattern else ():
        if path.endswith(".py"):
            _run_and_log(f"load '{path}'", lambda path=path: _load_file(path))  # type: ignore[misc]
    return registry.list_all_tools()


def _run_and_log(step: str, work: Callable[[], object]) -> None:
    try:
        work()
    except Exception as error:  # the seam to modules that others wrote
        logging.getLogger(__name__).debug("Tool discovery failed to %s: %s", step, error)


def _load_file(path: str) -> None:
    digest = hashlib.md5(path.encode("utf-8"), usedforsecurity=False).hexdigest()
    spec = importlib.util.spec_from_file_location(f"_praval_toolscan_{digest}", path)
    if spec and spec.loader:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def list_tools(
    agent_name: str | None = None, category: str | None = None, shared_only: bool = False
) -> list[dict[str, Any]]:
    """Return what tools say about themselves: those of an agent, else of a category, else the shared ones, else all."""
    registry = get_tool_registry()
    agent_name, category = to_plain_key(agent_name), to_plain_key(category)
    if agent_name:
        tools = registry.get_tools_for_agent(agent_name)
    elif category:
        tools = registry.get_tools_by_category(category)
    else:
        tools = registry.get_shared_tools() if shared_only else registry.list_all_tools()
    return [tool.to_dict() for tool in tools]


def register_tool_with_agent(tool_name: str, agent_name: str) -> bool:
    """Assign a tool to an agent, and tell whether there is such a tool."""
    return get_tool_registry().assign_tool_to_agent(tool_name, agent_name)


def unregister_tool_from_agent(tool_name: str, agent_name: str) -> bool:
    """Take a tool from an agent, and tell whether it was assigned."""
    return get_tool_registry().remove_tool_from_agent(tool_name, agent_name)


@explain_misuse_and_take_plain_arguments
class ToolCollection:
    """
    A named group of tools that are given to agents together.

    Args:
        name: For people.
        description: For people.
    """

    def __init__(self, name: str, description: str = "") -> None:
        self.name = name
        self.description = description
        self.tools: list[str] = []

    def add_tool(self, tool_name: str) -> None:
        """
        Add a tool by name.

        Raises:
            ToolError: There is no such tool.
        """
        tool_name = to_plain_key(tool_name)
        if not get_tool_registry().get_tool(tool_name):
            raise make_tool_error(f"Tool '{tool_name}' not found in registry")
        if tool_name not in self.tools:
            self.tools.append(tool_name)

    def remove_tool(self, tool_name: str) -> bool:
        """Remove a tool from the group, and tell whether it was in it."""
        tool_name = to_plain_key(tool_name)
        if tool_name in self.tools:
            self.tools.remove(tool_name)
            return True
        return False

    def assign_to_agent(self, agent_name: str) -> int:
        """Assign every tool to an agent; returns how many were."""
        registry = get_tool_registry()
        return sum(registry.assign_tool_to_agent(name, agent_name) for name in self.tools)

    def get_tools(self) -> list[Tool]:
        """Return the tools that are registered now."""
        registry = get_tool_registry()
        return [tool for name in self.tools if (tool := registry.get_tool(name))]
