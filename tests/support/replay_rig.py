"""Results of a tool that returns a given value under a given hint: live, and replayed by the next program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from praval_tools import ToolCall, ToolRegistry, ToolResult


def make_giver(hint: Any, value: Any) -> Callable[[], Any]:
    """Return a function that returns *value* under *hint*."""

    def give() -> Any:
        """Give."""
        return value

    give.__annotations__["return"] = hint
    return give


def open_registry(path: Path, give: Callable[[], Any]) -> ToolRegistry:
    """Return a registry with this journal that has the tool *give*."""
    registry = ToolRegistry(journal=path)
    registry.tool(owned_by="ann")(give)
    return registry


def give_in_run(path: Path, give: Callable[[], Any]) -> ToolResult:
    """Return the result of the one call of a run, live the first time and replayed later."""
    with open_registry(path, give) as registry, registry.run("r"):
        return registry.execute(ToolCall("c", "give", {}, "ann"))


def iter_results(hint: Any, value: Any, path: Path) -> Iterator[ToolResult]:
    """Yield the live result of a tool that returns *value* under *hint*, and the replayed one."""
    for _ in range(2):
        yield give_in_run(path, make_giver(hint, value))
