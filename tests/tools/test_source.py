"""Declaring again: modules and notebook cells that run again, and tools that are replaced."""

# Tests of: source

from __future__ import annotations

import importlib
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from watchers import actors, make_watcher

from praval_tools import Agent, DuplicateToolError, Tool, ToolRegistry, agent
from praval_tools.tools.source import find_function_name

SOURCE = '''
@registry.tool("add", owned_by="ann")
def add(x: int) -> int:
    """Add {what}."""
    return x + {what}

Agent("ann", registry=registry)

@agent(registry=registry)
def bob() -> None:
    """Be an agent of a function."""
'''


@pytest.fixture
def registry() -> ToolRegistry:
    """An empty registry."""
    return ToolRegistry()


class Notebook:
    """Runs cells as a notebook's kernel does: each under a file name that is made of its text."""

    def __init__(self, registry: ToolRegistry) -> None:
        self.names: dict[str, Any] = {
            "__name__": "__main__", "__spec__": None, "get_ipython": lambda: None,
            "registry": registry, "Agent": Agent, "agent": agent,
        }  # fmt: skip

    def run(self, cell: str) -> None:
        """Run a cell."""
        exec(compile(cell, f"/tmp/kernel/{hash(cell)}.py", "exec"), self.names)


class TestNotebook:
    @pytest.mark.parametrize("second", [1, 2], ids=["unchanged", "edited"])
    def test_a_cell_that_runs_again(self, registry: ToolRegistry, second: int) -> None:
        """Its tools and agents replace themselves in place, whether it was edited or not."""
        notebook = Notebook(registry)
        notebook.run(SOURCE.format(what=1))

        notebook.run(SOURCE.format(what=second))

        assert (["add"], ["ann", "bob"]) == ([tool.name for tool in registry], registry.agents)
        assert 3 + second == registry.agent("ann").call("add", x=3)

    def test_twice_in_one_cell(self, registry: ToolRegistry) -> None:
        """A second function of the name in the same cell is a duplicate, as in a module."""
        cell = SOURCE.format(what=1).split("Agent")[0]
        with pytest.raises(DuplicateToolError):
            Notebook(registry).run(cell * 2)

        assert 1 == len(registry)


class TestModule:
    def test_that_is_reloaded(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, registry: ToolRegistry) -> None:
        """Its tools replace themselves in place, with the new function."""
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        head = f"from {__name__} import HELD, Agent, agent\nregistry = HELD['registry']\n"
        HELD["registry"] = registry
        (tmp_path / "reloaded.py").write_text(head + SOURCE.format(what=1))
        made = importlib.import_module("reloaded")
        registry.register_tool(Tool.from_function(print_nothing))
        (tmp_path / "reloaded.py").write_text(head + SOURCE.format(what=20))

        importlib.reload(made)
        monkeypatch.delitem(sys.modules, "reloaded")

        assert ["add", "print_nothing"] == [tool.name for tool in registry]
        assert 23 == registry.agent("ann").call("add", x=3)

    def test_a_function_that_declares_twice(self, registry: ToolRegistry) -> None:
        """A `def` inside of a function that runs twice is a duplicate: nobody can tell whether it is meant."""
        registry.tool(inner())
        with pytest.raises(DuplicateToolError, match="replace=True"):
            registry.tool(inner())


HELD: dict[str, ToolRegistry] = {}


def print_nothing() -> None:
    """Print nothing."""


def inner() -> Any:
    """Return a function that is another one each time."""

    def nothing() -> None:
        """Do nothing."""

    return nothing


class TestReplaced:
    def test_keeps_what_belongs_to_the_name(self, registry: ToolRegistry) -> None:
        """Its place, owner, flags, grants with their counts, removals, blocks and settings outlast the definition."""
        for name in ("first", "tool", "last"):
            registry.register_tool(Tool.from_function(print_nothing, name, owned_by="ann"))
        grant = registry.grant("tool", "bob", max_calls=2)
        registry.agent("bob").call("tool")
        registry.remove_tool_from_agent("tool", "ann")
        registry.block("tool", "eve")
        registry.configure("tool", risk_level="high")
        registry.share_tool("first")

        for name in ("tool", "first"):
            registry.register_tool(Tool.from_function(inner(), name, owned_by="new"), replace=True)

        assert ["first", "tool", "last"] == [tool.name for tool in registry]
        assert ("ann", "high") == (
            registry.get_tool("tool").metadata.owned_by, registry.get_tool("tool").metadata.risk_level  # type: ignore[union-attr]
        )  # fmt: skip
        assert ["no-way", "granted", "blocked", "no-way"] == [
            registry.explain(agent, "tool").rule for agent in ("ann", "bob", "eve", "new")
        ]
        assert (1, "shared") == (registry.uses_left(grant), registry.explain("zoe", "first").rule)

    def test_calls_in_flight_keep_the_old_one(self, registry: ToolRegistry) -> None:
        """A call that is inside when its tool is replaced ends as what it began."""
        inside, replaced = threading.Event(), threading.Event()

        @registry.tool("which", shared=True)
        def old() -> str:
            """Wait, and say which."""
            inside.set()
            return "old" if replaced.wait(10) else "late"

        @registry.tool("new")
        def new() -> str:
            """Say which."""
            return "new"

        results: list[str] = []
        caller = threading.Thread(target=lambda: results.append(registry.agent("ann").call("which")))
        caller.start()
        inside.wait(10)
        registry.register_tool(Tool.from_function(new.function, "which"), replace=True)
        results.append(registry.agent("ann").call("which"))
        replaced.set()
        caller.join()

        assert ["new", "old"] == results


class SlyKind(type):
    """Says that its classes have another name."""

    @property
    def __name__(cls) -> str:  # type: ignore[override]
        return "other"


class Sly(metaclass=SlyKind):
    """Is called without a name of its own."""

    def __call__(self) -> None:
        """Do nothing."""


class TestNames:
    """The name of a tool that is given none."""

    def test_is_read_without_code_of_the_name(self) -> None:
        """The name of a function may be of a class with code of its own, which the host would run."""

        def get() -> None:
            """Get."""

        get.__name__ = make_watcher(str, ("__str__", "__len__", "__eq__", "__hash__"))("get")
        actors.clear()

        assert "get" == find_function_name(get)
        assert str is type(find_function_name(get))
        assert [] == actors

    def test_of_another_callable(self) -> None:
        """It is that of its class, whatever the metaclass says."""
        assert "Sly" == find_function_name(Sly())
