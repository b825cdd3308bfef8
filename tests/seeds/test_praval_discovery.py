"""The Praval seed, discovery and collections of tools: its examples as printed, with our package."""

import importlib
from pathlib import Path

import pytest
from seed_tools import declare, names

from praval_tools import (
    Agent,
    DiscoveryError,
    ToolCollection,
    ToolRegistry,
    discover_tools,
    tool,
)

MATH_TOOLS = '''
from praval_tools import tool

@tool("{prefix}_add", category="mathematics", owned_by="calculator")
def add(x: float, y: float) -> float:
    """Add two numbers."""
    return x + y

@tool("{prefix}_plot", category="charts", owned_by="painter")
def plot(x: float) -> str:
    """Plot a number."""
    return f"{{x}}"
'''


class TestDiscovery:
    """Tool discovery and introspection: tool discovery."""

    @pytest.fixture(autouse=True)
    def project(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A package `my_project` with `math_tools`, and files `*_tool.py` beside it; the working directory."""
        package = tmp_path / "my_project"
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "math_tools.py").write_text(MATH_TOOLS.format(prefix="math"))
        (tmp_path / "first_tool.py").write_text(MATH_TOOLS.format(prefix="first"))
        (tmp_path / "second_tool.py").write_text(MATH_TOOLS.format(prefix="second"))
        (tmp_path / "other.py").write_text(MATH_TOOLS.format(prefix="other"))
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(tmp_path)
        importlib.invalidate_caches()
        return tmp_path

    def test_in_a_module(self, tool_registry: ToolRegistry) -> None:
        """
        `discover_tools("my_project.math_tools")` imports the module; its tools are returned and registered.
        """
        tools = discover_tools("my_project.math_tools")

        assert ["math_add", "math_plot"] == names(tools)
        assert ["math_add", "math_plot"] == names(tool_registry.list_all_tools())
        assert 3.0 == Agent("calculator").call("math_add", x=1, y=2)

    def test_in_a_package(self, tool_registry: ToolRegistry) -> None:
        """
        A package is walked.
        """
        assert ["math_add", "math_plot"] == names(discover_tools("my_project"))
        assert 2 == len(tool_registry)

    def test_with_a_pattern(self, tool_registry: ToolRegistry) -> None:
        """
        `discover_tools(pattern="*_tool.py")` loads the files that match, and no other.
        """
        tools = discover_tools(pattern="*_tool.py")

        assert ["first_add", "first_plot", "second_add", "second_plot"] == names(tools)
        assert names(tools) == names(tool_registry.list_all_tools())

    def test_by_category(self, tool_registry: ToolRegistry) -> None:
        """
        `discover_tools(category="mathematics")` filters what is registered.
        """
        declare("integrate", category="mathematics", owned_by="calculator")
        declare("plot", category="charts", owned_by="painter")

        math_tools = discover_tools(category="mathematics")

        assert ["integrate"] == names(math_tools)

    def test_filters_combine(self, tool_registry: ToolRegistry) -> None:
        """
        A category beside a pattern narrows what the files gave.
        """
        declare("integrate", category="mathematics", owned_by="calculator")

        found = discover_tools(pattern="*_tool.py", category="mathematics")

        assert ["first_add", "second_add"] == names(found)

    def test_module_that_imports_another(self, project: Path, tool_registry: ToolRegistry) -> None:
        """
        What is found in a module does not depend on whether it, or one that it imports, was loaded before.
        """
        (project / "my_project" / "more_tools.py").write_text(
            "import my_project.math_tools\n" + MATH_TOOLS.format(prefix="more")
        )

        first = names(discover_tools("my_project.more_tools"))
        again = names(discover_tools("my_project.more_tools"))

        assert first == again
        assert {"more_add", "more_plot"} <= set(first)

    def test_file_that_fails(self, project: Path, tool_registry: ToolRegistry) -> None:
        """
        A file that fails is reported with its error after the others were loaded, and its tools are withdrawn.
        """
        (project / "failing_tool.py").write_text(MATH_TOOLS.format(prefix="failing") + "\nraise OSError('no disk')\n")

        with pytest.raises(DiscoveryError) as caught:
            discover_tools(pattern="*_tool.py")

        expected = ["first_add", "first_plot", "second_add", "second_plot"]
        assert ["no disk"] == [str(one) for one in caught.value.exceptions]
        assert expected == names(list(caught.value.found))
        assert expected == names(tool_registry.list_all_tools())

    def test_module_that_does_not_exist(self, tool_registry: ToolRegistry) -> None:
        """
        A module that cannot be found is an error, not an empty list.
        """
        with pytest.raises(DiscoveryError):
            discover_tools("my_project.nothing")

    def test_twice(self, tool_registry: ToolRegistry) -> None:
        """
        Looking a second time finds the same and changes nothing.
        """
        first = names(discover_tools(pattern="*_tool.py")) + names(discover_tools("my_project.math_tools"))
        again = names(discover_tools(pattern="*_tool.py")) + names(discover_tools("my_project.math_tools"))

        assert first == again
        assert 6 == len(tool_registry)


@pytest.mark.usefixtures("tool_registry")
class TestToolCollections:
    """Architecture: core components: ToolCollection groups related tools."""

    def test_group_is_assigned_at_once(self) -> None:
        """
        All tools of a group go to an agent in one step.
        """
        declare("sin", owned_by="math_agent")
        cos = declare("cos", owned_by="math_agent")
        group = ToolCollection("trigonometry", "Angles and ratios")
        group.add_tool("sin")
        group.add_tool(cos)

        assert 2 == group.assign_to_agent("student")

        assert ["sin", "cos"] == names(group.get_tools())
        assert ["sin", "cos"] == names(list(group))
        assert ["sin", "cos"] == Agent("student").list_tools()

    def test_tool_leaves_the_group(self) -> None:
        """
        A tool that was taken out of the group is not assigned with it.
        """
        declare("sin", owned_by="math_agent")
        declare("cos", owned_by="math_agent")
        group = ToolCollection("trigonometry")
        group.add_tool("sin")
        group.add_tool("cos")

        assert group.remove_tool("cos") is True
        assert 1 == group.assign_to_agent("student")
        assert ["sin"] == Agent("student").list_tools()


class TestDiscoveringAgain:
    """Seed, "Tool Discovery": scanning is harmless, whatever was imported before."""

    def module(self, path: Path, name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
        (path / f"{name}.py").write_text(text)
        monkeypatch.syspath_prepend(path)

    def test_a_module_that_was_imported_before_is_found_by_another_registry(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each registry gets the tools of a module, except those declared for nowhere."""
        text = (
            "from praval_tools import tool\n@tool(shared=True)\ndef bee() -> int:\n    'Buzz.'\n    return 1\n"
            "@tool(register=False)\ndef hidden() -> int:\n    'Hide.'\n    return 1\n"
        )
        self.module(tmp_path, "found_twice_module", text, monkeypatch)

        for _ in range(2):
            registry = ToolRegistry()
            found = discover_tools("found_twice_module", registry=registry)
            assert ["bee"] == [one.name for one in found] == [one.name for one in registry]

    def test_a_module_that_fails_leaves_neither_tools_nor_agents(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What it declared or replaced before it failed is as it was."""
        registry = ToolRegistry()
        kept = tool("kept", registry=registry, description="Stay.")(lambda: None)
        text = (
            "from praval_tools import agent, tool\n@tool(shared=True)\ndef half() -> int:\n    'Half.'\n    return 1\n"
            "@tool('kept', replace=True)\ndef other() -> int:\n    'Other.'\n    return 1\n"
            "@agent('halfagent')\ndef work() -> None:\n    'Work.'\nraise ValueError('broken')\n"
        )
        self.module(tmp_path, "half_broken_module", text, monkeypatch)

        with pytest.raises(DiscoveryError):
            discover_tools("half_broken_module", registry=registry)

        assert (["kept"], []) == ([one.name for one in registry], registry.agents)
        assert kept.implementation is registry.get_tool("kept").implementation  # type: ignore[union-attr]
