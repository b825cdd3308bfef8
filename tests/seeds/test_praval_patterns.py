"""The Praval seed, its four usage patterns: the examples as printed, with our package."""

import math

import pytest
from seed_tools import declare, spore

from praval_tools import (
    Agent,
    ToolDefinitionWarning,
    ToolRegistry,
    agent,
    current_agent,
    get_tool_registry,
    tool,
)


@pytest.mark.usefixtures("tool_registry")
class TestPatternOne:
    """Usage pattern 1: agent-specific tools."""

    def test_tools_of_the_calculator(self) -> None:
        """
        Tools owned by "calculator" are available to the agent of that name automatically; each warns that
        it has no docstring.
        """
        with pytest.warns(ToolDefinitionWarning, match="calculator_add"):

            @tool("calculator_add", owned_by="calculator")
            def add(x: float, y: float) -> float:
                return x + y

        with pytest.warns(ToolDefinitionWarning, match="calculator_multiply"):

            @tool("calculator_multiply", owned_by="calculator")
            def multiply(x: float, y: float) -> float:
                return x * y

        @agent("calculator")
        def calculator_agent(spore):
            # Tools are automatically available to this agent
            query = spore.knowledge.get("query", "")  # noqa: F841
            return {"result": "calculation complete"}

        assert {"result": "calculation complete"} == calculator_agent(spore(query="2 + 3"))
        assert ["calculator_add", "calculator_multiply"] == calculator_agent.list_tools()
        assert 5.0 == calculator_agent.call("calculator_add", x=2, y=3)
        assert 6.0 == calculator_agent.call("calculator_multiply", x=2, y=3)
        assert 5.0 == add(2, 3)
        assert 6.0 == multiply(2, 3)

    def test_tools_inside_the_agent(self) -> None:
        """
        The agent's function calls its tools as the current agent.
        """

        @tool("calculator_add", owned_by="calculator")
        def add(x: float, y: float) -> float:
            """Add two numbers."""
            return x + y

        @agent("calculator")
        def calculator_agent(spore):
            x, y = spore.knowledge["numbers"]
            return {"result": current_agent().tools.call("calculator_add", x=x, y=y)}

        assert {"result": 5.0} == calculator_agent(spore(numbers=(2, 3)))

    def test_order_does_not_matter(self) -> None:
        """
        A tool that is declared after its agent belongs to it as well.
        """

        @agent("calculator")
        def calculator_agent(spore):
            return {"result": "calculation complete"}

        declare("calculator_add", owned_by="calculator")

        assert ["calculator_add"] == calculator_agent.list_tools()


@pytest.mark.usefixtures("tool_registry")
class TestPatternTwo:
    """Usage pattern 2: shared tools."""

    def test_logger_of_all_agents(self, caplog: pytest.LogCaptureFixture) -> None:
        """
        A shared tool is available to all agents automatically, and each of them can run it.
        """
        with pytest.warns(ToolDefinitionWarning, match="logger"):

            @tool("logger", shared=True, category="utility")
            def log_message(level: str, message: str) -> str:
                import logging

                logger = logging.getLogger("praval.tools")
                getattr(logger, level.lower())(message)
                return f"Logged: {message}"

        # Available to all agents automatically
        @agent("data_processor")
        def processor_agent(spore):
            # Can use the logger tool
            pass

        @agent("analyzer")
        def analyzer_agent(spore):
            # Can also use the logger tool
            pass

        assert processor_agent(spore()) is None
        assert ["logger"] == processor_agent.list_tools()
        assert ["logger"] == analyzer_agent.list_tools()
        assert "Logged: one" == processor_agent.call("logger", level="WARNING", message="one")
        assert "Logged: two" == analyzer_agent.call("logger", level="ERROR", message="two")
        assert "Logged: three" == log_message("warning", "three")
        assert [
            ("praval.tools", 30, "one"),
            ("praval.tools", 40, "two"),
            ("praval.tools", 30, "three"),
        ] == caplog.record_tuples


@pytest.mark.usefixtures("tool_registry")
class TestPatternThree:
    """Usage pattern 3: category-based tools."""

    @pytest.fixture(autouse=True)
    def trigonometry(self, tool_registry: ToolRegistry) -> None:
        """Declare the two functions of the seed, as printed."""
        with pytest.warns(ToolDefinitionWarning):

            @tool("sin", category="trigonometry", owned_by="math_agent")
            def sine(angle: float) -> float:
                import math

                return math.sin(math.radians(angle))

            @tool("cos", category="trigonometry", owned_by="math_agent")
            def cosine(angle: float) -> float:
                import math

                return math.cos(math.radians(angle))

    def test_agent_requests_all_trigonometry_tools(self) -> None:
        """
        An agent that requests the category gets its tools, though another agent owns them.
        """

        @agent("scientific_calculator", tool_categories=["trigonometry"])
        def sci_calc_agent(spore):
            # Gets access to trigonometry category tools
            pass

        assert ["sin", "cos"] == sci_calc_agent.list_tools()
        assert math.isclose(0.5, sci_calc_agent.call("sin", angle=30))
        assert math.isclose(0.5, sci_calc_agent.call("cos", angle=60))

    def test_owner_has_them_too(self) -> None:
        """
        The owner calls its tools without requesting their category.
        """
        assert ["sin", "cos"] == Agent("math_agent").list_tools()

    def test_tool_that_joins_the_category_later(self) -> None:
        """
        A request of a category covers tools that are declared after it.
        """
        calculator = Agent("scientific_calculator", tool_categories=["trigonometry"])

        declare("tan", category="trigonometry", owned_by="math_agent")

        assert ["sin", "cos", "tan"] == calculator.list_tools()


@pytest.mark.usefixtures("tool_registry")
class TestPatternFour:
    """Usage pattern 4: dynamic tool assignment."""

    def test_runtime_tool_assignment(self) -> None:
        """
        Both assignments of the example succeed, and the agent calls what it got.
        """
        declare("advanced_math", owned_by="math_agent")
        declare("data_export", owned_by="exporter")
        calculator = Agent("calculator")

        # Runtime tool assignment
        registry = get_tool_registry()
        assert registry.assign_tool_to_agent("advanced_math", "calculator") is True
        assert registry.assign_tool_to_agent("data_export", "calculator") is True

        assert ["advanced_math", "data_export"] == calculator.list_tools()
        assert "pi" == calculator.call("advanced_math", text="pi")

    def test_agent_declared_after_the_assignment(self) -> None:
        """
        The agent need not exist when the tool is assigned to its name.
        """
        declare("advanced_math", owned_by="math_agent")
        get_tool_registry().assign_tool_to_agent("advanced_math", "calculator")

        assert ["advanced_math"] == Agent("calculator").list_tools()

    def test_assignment_inside_a_run(self) -> None:
        """
        A tool that is taken away while the agent runs is gone at its next call.
        """
        declare("data_export", owned_by="exporter")
        registry = get_tool_registry()
        registry.assign_tool_to_agent("data_export", "calculator")

        @agent("calculator")
        def calculator_agent(spore):
            before = current_agent().tool_exists("data_export")
            with registry.as_operator():
                registry.remove_tool_from_agent("data_export", "calculator")
            return before, current_agent().tool_exists("data_export")

        assert (True, False) == calculator_agent(spore())
