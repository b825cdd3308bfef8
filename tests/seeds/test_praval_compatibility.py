"""The Praval seed, backward compatibility and integration tests: its examples as printed, with our package."""

import pytest
from seed_tools import declare, spore

from praval_tools import (
    Agent,
    ToolDefinitionWarning,
    ToolRegistry,
    agent,
    current_agent,
    tool,
)


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
