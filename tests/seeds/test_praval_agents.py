"""The Praval seed, from its agent integration on: its examples as printed, with our package."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from seed_tools import declare, names, spore

from praval_tools import (
    Agent,
    DiscoveryError,
    Outcome,
    ToolCall,
    ToolCollection,
    ToolDefinitionWarning,
    ToolError,
    ToolExecutionError,
    ToolRegistry,
    ToolValidationError,
    UnknownToolError,
    agent,
    current_agent,
    discover_tools,
    get_tool_registry,
    tool,
)


@pytest.mark.usefixtures("tool_registry")
class TestEnhancedAgent:
    """Integration with the existing agent system: the enhanced @agent decorator."""

    def test_all_three_ways_at_once(self) -> None:
        """
        Listed tools, requested categories and owned tools add up; nothing else is there.
        """
        declare("math_add", owned_by="math_agent")
        declare("math_multiply", owned_by="math_agent")
        declare("math_divide", owned_by="math_agent")
        declare("round", category="arithmetic", owned_by="math_agent")
        declare("area", category="geometry", owned_by="math_agent")
        declare("memory", owned_by="calculator")

        @agent(
            "calculator",
            tools=["math_add", "math_multiply"],  # Specific tools
            tool_categories=["arithmetic", "geometry"],  # Tool categories
            auto_discover_tools=True,  # Automatically find owned tools
        )
        def calculator_agent(spore):
            pass

        assert ["math_add", "math_multiply", "round", "area", "memory"] == calculator_agent.list_tools()

    def test_without_auto_discovery(self) -> None:
        """
        With `auto_discover_tools=False` owned and shared tools are not found; listed ones are.
        """
        declare("math_add", owned_by="math_agent")
        declare("memory", owned_by="calculator")
        declare("log", shared=True)

        @agent("calculator", tools=["math_add"], auto_discover_tools=False)
        def calculator_agent(spore):
            pass

        assert ["math_add"] == calculator_agent.list_tools()

    def test_listed_before_declared(self, tool_registry: ToolRegistry) -> None:
        """
        A listed name that does not exist yet is reported as a problem and works once it does.
        """

        @agent("calculator", tools=["math_add"])
        def calculator_agent(spore):
            pass

        assert [] == calculator_agent.list_tools()
        assert [("unknown-tool", "calculator")] == [(one.kind, one.subject) for one in tool_registry.problems()]

        declare("math_add", owned_by="math_agent")

        assert ["math_add"] == calculator_agent.list_tools()

    def test_the_function_is_still_there(self) -> None:
        """
        The decorated agent is callable like the function and keeps its name and docstring.
        """

        @agent("calculator")
        def calculator_agent(spore):
            """Calculate."""
            return spore.knowledge["query"]

        assert "2 + 3" == calculator_agent(spore(query="2 + 3"))
        assert "calculator_agent" == calculator_agent.__name__
        assert "Calculate." == calculator_agent.__doc__
        assert "calculator" == calculator_agent.name


@pytest.mark.usefixtures("tool_registry")
class TestToolMethods:
    """Integration with the existing agent system: tool method exposure."""

    def test_the_four_methods(self) -> None:
        """
        `add_tool`, `remove_tool`, `list_tools` and `tool_exists` of the example do what they say.
        """
        declare("csv_parser", owned_by="reader")
        declare("xml_parser", owned_by="processor")
        declare("json_parser", owned_by="processor")

        @agent("processor")
        def data_processor(spore):
            pass

        assert ["xml_parser", "json_parser"] == data_processor.list_tools()

        # Enhanced tool access
        data_processor.add_tool("csv_parser")
        assert data_processor.remove_tool("xml_parser") is True

        assert ["csv_parser", "json_parser"] == data_processor.list_tools()
        assert data_processor.tool_exists("json_parser") is True
        assert data_processor.tool_exists("csv_parser") is True
        assert data_processor.tool_exists("xml_parser") is False

    def test_removed_tool_cannot_be_called_and_comes_back(self) -> None:
        """
        A removed tool is refused, even to its owner, until `add_tool` gives it back.
        """
        declare("xml_parser", owned_by="processor")
        processor = Agent("processor")
        processor.remove_tool("xml_parser")

        result = processor.execute(ToolCall("1", "xml_parser", {"text": "<a/>"}))
        processor.add_tool("xml_parser")

        assert Outcome.FORBIDDEN is result.outcome
        assert "<a/>" == processor.call("xml_parser", text="<a/>")

    def test_add_an_unknown_tool(self) -> None:
        """
        Adding a name that no tool has is an error that names the near one.
        """
        declare("csv_parser", owned_by="reader")

        with pytest.raises(UnknownToolError) as caught:
            Agent("processor").add_tool("csv_parsr")

        assert ("csv_parser",) == caught.value.near

    def test_remove_what_it_does_not_have(self) -> None:
        """
        Removing a tool that the agent could not call returns False.
        """
        declare("csv_parser", owned_by="reader")

        assert Agent("processor").remove_tool("csv_parser") is False


class TestToolValidation:
    """Error handling and validation: tool validation."""

    def test_missing_type_hints(self, tool_registry: ToolRegistry) -> None:
        """
        A function without type hints raises `ToolValidationError` on registration, and leaves no trace.
        """
        with pytest.raises(ToolValidationError) as caught:
            # Automatic validation on registration
            @tool("invalid_tool", owned_by="agent1")
            def bad_tool(x, y):  # Missing type hints
                return x + y  # Will raise ToolValidationError

        text = str(caught.value)
        assert "invalid_tool" in text
        assert "'x'" in text
        assert "'y'" in text
        assert tool_registry.get_tool("invalid_tool") is None
        assert [] == tool_registry.get_tools_for_agent("agent1")

    def test_it_is_an_exception_of_the_package(self) -> None:
        """
        `ToolValidationError` is an exception class that `except ToolError` and `except ValueError` catch.
        """
        assert issubclass(ToolValidationError, Exception)
        assert issubclass(ToolValidationError, ToolError)
        assert issubclass(ToolValidationError, ValueError)


@pytest.mark.usefixtures("tool_registry")
class TestRuntimeErrors:
    """Error handling and validation: runtime error handling."""

    @pytest.fixture(autouse=True)
    def safe_divide(self, tool_registry: ToolRegistry) -> None:
        """Declare the tool of the seed, as printed."""
        with pytest.warns(ToolDefinitionWarning, match="safe_divide"):

            @tool("safe_divide", owned_by="calculator")
            def divide(x: float, y: float) -> float:
                if y == 0:
                    raise ValueError("Division by zero")
                return x / y

    def test_except_value_error_in_the_agent(self) -> None:
        """
        `except ValueError` in the agent catches the tool's ValueError, with the tool's text.
        """

        # Agent automatically handles tool errors
        @agent("calculator")
        def calc_agent(spore):
            try:
                # Tool execution is automatically wrapped in error handling
                return {"result": current_agent().tools.call("safe_divide", **spore.knowledge)}
            except ValueError as e:
                return {"error": str(e)}

        assert {"result": 2.5} == calc_agent(spore(x=5, y=2))
        assert {"error": "Division by zero"} == calc_agent(spore(x=5, y=0))

    def test_by_subscription(self) -> None:
        """
        A tool taken from the toolset by its name raises the same.
        """

        @agent("calculator")
        def calc_agent(spore):
            try:
                return current_agent().tools["safe_divide"](x=5, y=0)
            except ValueError as e:
                return {"error": str(e)}

        assert {"error": "Division by zero"} == calc_agent(spore())

    def test_async_agent(self) -> None:
        """
        An `async def` agent catches it too.
        """
        import asyncio

        @agent("calculator")
        async def calc_agent(spore):
            try:
                return {"result": await current_agent().acall("safe_divide", **spore.knowledge)}
            except ValueError as e:
                return {"error": str(e)}

        assert {"error": "Division by zero"} == asyncio.run(calc_agent(spore(x=5, y=0)))
        assert {"result": 2.5} == asyncio.run(calc_agent(spore(x=5, y=2)))

    def test_the_wrapping_error_knows_the_tool(self) -> None:
        """
        The error is a `ToolExecutionError` that knows tool, type and cause.
        """
        with pytest.raises(ToolExecutionError) as caught:
            Agent("calculator").call("safe_divide", x=1, y=0)

        assert isinstance(caught.value, ValueError)
        assert "ValueError" == caught.value.error_type
        assert "safe_divide" == caught.value.tool
        assert isinstance(caught.value.__cause__, ValueError)

    def test_as_a_result(self) -> None:
        """
        `execute` never raises: the tool's failure is a result.
        """
        result = Agent("calculator").execute(ToolCall("1", "safe_divide", {"x": 1, "y": 0}))

        assert Outcome.TOOL_ERROR is result.outcome
        assert "ValueError" == result.error_type
        assert "Division by zero" in (result.error or "")

    def test_other_exceptions_are_not_value_errors(self) -> None:
        """
        `except ValueError` does not catch a tool's KeyError.
        """

        @tool("lookup", owned_by="calculator")
        def lookup(key: str) -> str:
            """Look up a key in an empty table."""
            return dict[str, str]()[key]

        with pytest.raises(KeyError) as caught:
            Agent("calculator").call("lookup", key="x")

        assert not isinstance(caught.value, ValueError)


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
    def project(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
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
        before = set(sys.modules)
        yield tmp_path
        for name in set(sys.modules) - before:
            del sys.modules[name]

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
class TestIntrospection:
    """Tool discovery and introspection: tool introspection."""

    def test_printed_example(self, capsys: pytest.CaptureFixture[str]) -> None:
        """
        The four prints of the example show name, owner, category and parameters.
        """

        @tool("calculator_add", owned_by="calculator")
        def add(x: float, y: float) -> float:
            """Add two numbers."""
            return x + y

        registry = get_tool_registry()

        tool_info = registry.get_tool("calculator_add")
        print(f"Name: {tool_info.metadata.tool_name}")
        print(f"Owner: {tool_info.metadata.owned_by}")
        print(f"Category: {tool_info.metadata.category}")
        print(f"Parameters: {tool_info.metadata.parameters}")

        number = {"type": "float", "required": True, "default": None}
        assert [
            "Name: calculator_add",
            "Owner: calculator",
            "Category: general",
            f"Parameters: { {'x': number, 'y': number} }",
        ] == capsys.readouterr().out.splitlines()

    def test_present_owner(self, tool_registry: ToolRegistry) -> None:
        """
        Introspection shows the owner of now, not the one of the declaration.
        """
        declare("add", owned_by="calculator")
        tool_registry.transfer_ownership("add", "abacus")

        found = tool_registry.get_tool("add")

        assert found is not None
        assert "abacus" == found.metadata.owned_by


@pytest.mark.usefixtures("tool_registry")
class TestBackwardCompatibility:
    """Backward compatibility, and the migration guide."""

    def test_before(self, tool_registry: ToolRegistry) -> None:
        """
        The old decorator `agent._praval_agent.tool` still declares a tool, which migrates into the registry:
        owned by the agent and callable by it.
        """

        # Before (current approach)
        @agent("calculator")
        def calc_agent(spore):
            pass

        with pytest.warns(ToolDefinitionWarning, match="add"):

            @calc_agent._praval_agent.tool
            def add(x: float, y: float) -> float:
                return x + y

        found = tool_registry.get_tool("add")
        assert found is not None
        assert "calculator" == found.metadata.owned_by
        assert ["add"] == calc_agent.list_tools()
        assert 5.0 == calc_agent.call("add", x=2, y=3)
        assert 5.0 == add(2, 3)

    def test_after(self) -> None:
        """
        The new approach gives the same agent the same tool.
        """
        with pytest.warns(ToolDefinitionWarning, match="add"):
            # After (new approach)
            @tool("add", owned_by="calculator")
            def add(x: float, y: float) -> float:
                return x + y

        @agent("calculator")
        def calc_agent(spore):
            pass

        assert ["add"] == calc_agent.list_tools()
        assert 5.0 == calc_agent.call("add", x=2, y=3)

    def test_agent_tool(self) -> None:
        """
        `agent.tool` works on the agent itself, bare and with a name.
        """
        calculator = Agent("calculator")

        @calculator.tool
        def add(x: float, y: float) -> float:
            """Add two numbers."""
            return x + y

        @calculator.tool("times", category="arithmetic")
        def multiply(x: float, y: float) -> float:
            """Multiply two numbers."""
            return x * y

        assert ["add", "times"] == calculator.list_tools()
        assert 6.0 == calculator.call("times", x=2, y=3)
        assert "arithmetic" == multiply.metadata.category

    def test_missing_hints_in_the_old_decorator(self, tool_registry: ToolRegistry) -> None:
        """
        The old decorator asks for type hints as well; its error is a ValueError.
        """
        calculator = Agent("calculator")

        with pytest.raises(ValueError, match="'x'"):

            @calculator._praval_agent.tool
            def bad_tool(x) -> float:
                """Return it."""
                return float(x)

        assert [] == calculator.list_tools()
        assert [] == tool_registry.list_all_tools()

    def test_agent_keeps_its_behaviour(self) -> None:
        """
        An agent that never heard of tools takes its arguments, returns its value and raises as before.
        """

        @agent("plain")
        def plain(spore, scale=1):
            if scale < 0:
                raise KeyError(scale)
            return spore.knowledge["x"] * scale

        assert 3 == plain(spore(x=3))
        assert 6 == plain(spore(x=3), scale=2)
        with pytest.raises(KeyError, match="-1"):
            plain(spore(x=3), scale=-1)

    def test_migrated_tools_can_be_lent(self, tool_registry: ToolRegistry) -> None:
        """
        A tool of the old system takes part in the new one: it can be assigned to another agent.
        """
        calculator, student = Agent("calculator"), Agent("student")

        @calculator._praval_agent.tool
        def add(x: float, y: float) -> float:
            """Add two numbers."""
            return x + y

        tool_registry.assign_tool_to_agent("add", "student")

        assert 5.0 == student.call("add", x=2, y=3)


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


@pytest.mark.usefixtures("tool_registry")
class TestIntegration:
    """Testing requirements: integration tests."""

    def test_execution_within_agent_context(self) -> None:
        """
        A tool knows on whose behalf it runs.
        """

        @tool("whoami", shared=True)
        def whoami() -> str:
            """Name the agent that is running."""
            return current_agent().name

        @agent("analyst")
        def analyst(spore):
            return current_agent().tools.call("whoami")

        assert "analyst" == analyst(spore())

    def test_cross_agent_sharing(self, tool_registry: ToolRegistry) -> None:
        """
        Sharing a tool opens it to all agents, unsharing closes it for all but its owner.
        """
        declare("export", owned_by="exporter")
        exporter, analyst = Agent("exporter"), Agent("analyst")

        tool_registry.share_tool("export")
        shared = (exporter.tool_exists("export"), analyst.tool_exists("export"))
        tool_registry.unshare_tool("export")

        assert (True, True) == shared
        assert (True, False) == (exporter.tool_exists("export"), analyst.tool_exists("export"))

    def test_lookup_in_a_large_registry(self, tool_registry: ToolRegistry) -> None:
        """
        Among a thousand tools of a hundred owners each agent sees its own ten, and finds them by name.
        """
        for number in range(1000):
            declare(f"tool_{number}", owned_by=f"agent_{number % 100}")

        assert [f"tool_{number}" for number in range(7, 1000, 100)] == tool_registry.agent("agent_7").list_tools()
        assert "x" == tool_registry.agent("agent_7").call("tool_907", text="x")
        assert tool_registry.agent("agent_7").tool_exists("tool_908") is False


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
