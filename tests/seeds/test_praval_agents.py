"""The Praval seed, agent integration: its examples as printed, with our package; methods, validation, errors."""

import pytest
from seed_tools import declare, spore

from praval_tools import (
    Agent,
    Outcome,
    ToolCall,
    ToolDefinitionWarning,
    ToolError,
    ToolExecutionError,
    ToolRegistry,
    ToolValidationError,
    UnknownToolError,
    agent,
    current_agent,
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
