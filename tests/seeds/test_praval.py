"""The Praval seed, key features and architecture: its examples as printed, with our package."""

import pytest
from seed_tools import declare, names

from praval_tools import (
    Agent,
    DuplicateToolError,
    Outcome,
    Tool,
    ToolCall,
    ToolMetadata,
    ToolRegistry,
    UnknownToolWarning,
    get_tool_registry,
    reset_tool_registry,
    tool,
)


@pytest.mark.usefixtures("tool_registry")
class TestDeclarativeDefinition:
    """Key features 1: declarative tool definition."""

    def test_tool_with_keywords(self) -> None:
        """
        `@tool(tool_name=…, owned_by=…, description=…, category=…)` declares a tool with that metadata,
        and the function still adds.
        """

        @tool(
            tool_name="mathematical_add",
            owned_by="calculator",
            description="Add two numbers together",
            category="arithmetic",
        )
        def add_numbers(x: float, y: float) -> float:
            """Add two numbers and return the result."""
            return x + y

        found = get_tool_registry().get_tool("mathematical_add")

        assert found is not None
        metadata = found.metadata
        assert "mathematical_add" == metadata.tool_name
        assert "calculator" == metadata.owned_by
        assert "Add two numbers together" == metadata.description
        assert "arithmetic" == metadata.category
        assert 5.0 == add_numbers(2.0, 3.0)

    def test_description_from_the_docstring(self) -> None:
        """
        Without `description=` the docstring is the description.
        """

        @tool("mathematical_add", owned_by="calculator")
        def add_numbers(x: float, y: float) -> float:
            """Add two numbers and return the result."""
            return x + y

        assert "Add two numbers and return the result." == add_numbers.description


@pytest.mark.usefixtures("tool_registry")
class TestCentralRegistry:
    """Key features 2: tool registry."""

    def test_lists_of_the_registry(self) -> None:
        """
        `get_tools_for_agent` gives the agent's tools, `list_all_tools` everybody's.
        """
        declare("add", owned_by="calculator")
        declare("plot", owned_by="painter")

        registry = get_tool_registry()
        tools = registry.get_tools_for_agent("calculator")
        all_tools = registry.list_all_tools()

        assert ["add"] == names(tools)
        assert ["add", "plot"] == names(all_tools)

    def test_registry_after_reset(self) -> None:
        """
        `reset_tool_registry` lets a new registry follow; what a test put in the default's place stays.
        """
        declare("add", owned_by="calculator")

        reset_tool_registry()

        assert ["add"] == names(get_tool_registry().list_all_tools())

    def test_one_registry_for_all(self) -> None:
        """
        `get_tool_registry` returns the same registry each time.
        """
        assert get_tool_registry() is get_tool_registry()


class TestRegistryOfTheProcess:
    """Key features 2: tool registry, outside of any test's own."""

    def test_reset_makes_a_new_one(self) -> None:
        """
        The process has one registry until a reset; then a new one follows, and the old one is kept by its holders.
        """
        first = get_tool_registry()
        same = get_tool_registry()

        reset_tool_registry()
        second = get_tool_registry()

        assert first is same
        assert first is not second
        assert [] == second.list_all_tools()


@pytest.mark.usefixtures("tool_registry")
class TestAssociation:
    """Key features 3: agent-tool association."""

    def test_direct_ownership(self) -> None:
        """
        `owned_by="agent_name"` gives the tool to that agent and to no other.
        """
        declare("add", owned_by="agent_name")

        assert ["add"] == Agent("agent_name").list_tools()
        assert [] == Agent("stranger").list_tools()

    def test_shared_tools(self) -> None:
        """
        `shared=True` makes a tool available to all agents.
        """
        declare("log", shared=True)

        assert ["log"] == Agent("analyst").list_tools()
        assert ["log"] == Agent("writer").list_tools()

    def test_category(self) -> None:
        """
        Agents can request tools by `category="math"`.
        """
        declare("add", category="math", owned_by="calculator")
        declare("plot", category="charts", owned_by="calculator")

        assert ["add"] == Agent("student", tool_categories=["math"]).list_tools()

    def test_runtime_assignment(self) -> None:
        """
        A tool can be assigned to an agent that is declared already.
        """
        declare("add", owned_by="calculator")
        student = Agent("student")
        assert not student.tool_exists("add")

        assert get_tool_registry().assign_tool_to_agent("add", "student") is True

        assert student.tool_exists("add")


@pytest.mark.usefixtures("tool_registry")
class TestTypeSafety:
    """Key features 4: type safety and validation."""

    @pytest.mark.parametrize(
        ("email", "expected"), [("ada@example.org", True), ("ada@example", False), ("example.org", False)]
    )
    def test_validate_email(self, email: str, expected: bool) -> None:
        """
        The e-mail example runs, called directly and by its owner.
        """

        @tool("validator", owned_by="data_processor")
        def validate_email(email: str) -> bool:
            """Validate email address format."""
            import re

            pattern = r"^[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\.[a-zA-Z]{2,}$"
            return bool(re.match(pattern, email))

        assert expected is validate_email(email)
        assert expected is Agent("data_processor").call("validator", email=email)

    def test_arguments_are_validated(self) -> None:
        """
        An agent's call with an argument of another type does not reach the function.
        """
        declare("validator", owned_by="data_processor")

        result = Agent("data_processor").execute(ToolCall("1", "validator", {"text": 7}))

        assert Outcome.INVALID_ARGUMENTS is result.outcome


class TestMetadataStructure:
    """Architecture: tool metadata structure."""

    def test_defaults(self) -> None:
        """
        `ToolMetadata` has the ten fields of the seed with their defaults.
        """
        metadata = ToolMetadata(tool_name="add")

        assert "add" == metadata.tool_name
        assert metadata.owned_by is None
        assert "" == metadata.description
        assert "general" == metadata.category
        assert metadata.shared is False
        assert "1.0.0" == metadata.version
        assert "" == metadata.author
        assert [] == list(metadata.tags)
        assert {} == metadata.parameters
        assert "Any" == metadata.return_type

    @pytest.mark.usefixtures("tool_registry")
    def test_every_field_is_a_keyword_of_the_decorator(self) -> None:
        """
        Version, author and tags given to `@tool` are in the metadata.
        """
        made = declare("add", version="2.1.0", author="Ada", tags=["math", "basic"])

        assert "2.1.0" == made.metadata.version
        assert "Ada" == made.metadata.author
        assert ["math", "basic"] == list(made.metadata.tags)

    @pytest.mark.usefixtures("tool_registry")
    def test_parameters_and_return_type_are_derived(self) -> None:
        """
        `parameters` and `return_type` say what the signature says.
        """

        @tool("power")
        def power(base: float, exponent: int = 2) -> float:
            """Raise a number to a power."""
            return float(base**exponent)

        assert {
            "base": {"type": "float", "required": True, "default": None},
            "exponent": {"type": "int", "required": False, "default": 2},
        } == power.metadata.parameters
        assert "float" == power.metadata.return_type


class TestRegistryInterface:
    """Architecture: tool registry interface, method by method."""

    def test_register_and_get(self, tool_registry: ToolRegistry) -> None:
        """
        What `register_tool` took, `get_tool` gives; an unknown name gives None.
        """
        made = Tool(name="add", description="Add.", parameters={"x": "number"}, callable=lambda x: x)

        tool_registry.register_tool(made)

        found = tool_registry.get_tool("add")
        assert found is not None
        assert made.fingerprint == found.fingerprint
        assert tool_registry.get_tool("nope") is None

    def test_register_twice_is_refused(self, tool_registry: ToolRegistry) -> None:
        """
        A second tool of the same name does not silently replace the first.
        """
        first = declare("add", owned_by="calculator")

        with pytest.raises(DuplicateToolError):
            declare("add", owned_by="stranger")

        found = tool_registry.get_tool("add")
        assert found is not None
        assert "calculator" == found.metadata.owned_by
        assert first.function is found.function

    def test_tools_for_agent(self, tool_registry: ToolRegistry) -> None:
        """
        `get_tools_for_agent` gives owned, shared and assigned tools, in registration order.
        """
        declare("owned", owned_by="analyst")
        declare("foreign", owned_by="painter")
        declare("shared", shared=True)
        declare("lent", owned_by="painter")
        tool_registry.assign_tool_to_agent("lent", "analyst")

        assert ["owned", "shared", "lent"] == names(tool_registry.get_tools_for_agent("analyst"))

    def test_tools_by_category_and_shared(self, tool_registry: ToolRegistry) -> None:
        """
        `get_tools_by_category` and `get_shared_tools` filter what is registered.
        """
        declare("sin", category="trigonometry", owned_by="math_agent")
        declare("log", category="utility", shared=True)
        declare("cos", category="trigonometry", owned_by="math_agent")

        assert ["sin", "cos"] == names(tool_registry.get_tools_by_category("trigonometry"))
        assert [] == tool_registry.get_tools_by_category("nothing")
        assert ["log"] == names(tool_registry.get_shared_tools())
        assert ["sin", "log", "cos"] == names(tool_registry.list_all_tools())

    def test_assign_and_remove(self, tool_registry: ToolRegistry) -> None:
        """
        Assigning and removing tell whether they did something, and count from the next look on.
        """
        declare("csv_parser", owned_by="reader")

        assert tool_registry.assign_tool_to_agent("csv_parser", "analyst") is True
        assert ["csv_parser"] == names(tool_registry.get_tools_for_agent("analyst"))
        assert tool_registry.remove_tool_from_agent("csv_parser", "analyst") is True
        assert [] == tool_registry.get_tools_for_agent("analyst")
        assert tool_registry.remove_tool_from_agent("csv_parser", "analyst") is False

    def test_assign_an_unknown_tool(self, tool_registry: ToolRegistry) -> None:
        """
        Assigning a tool that does not exist returns False and warns, with the name that was meant.
        """
        declare("csv_parser", owned_by="reader")

        with pytest.warns(UnknownToolWarning, match="csv_parser"):
            assert tool_registry.assign_tool_to_agent("csv_parsre", "analyst") is False

        assert [] == tool_registry.get_tools_for_agent("analyst")

    def test_clear(self, tool_registry: ToolRegistry) -> None:
        """
        After `clear_registry` there is no tool, and nobody keeps one.
        """
        declare("add", owned_by="calculator")

        tool_registry.clear_registry()

        assert [] == tool_registry.list_all_tools()
        assert [] == tool_registry.get_tools_for_agent("calculator")
        assert tool_registry.get_tool("add") is None

    def test_search_and_unregister(self, tool_registry: ToolRegistry) -> None:
        """
        Registry operations of the seed's testing requirements: tools are searched for and removed.
        """
        declare("csv_parser", owned_by="reader", category="files", tags=["text"])
        declare("json_parser", owned_by="reader", category="files", tags=["text", "tree"])
        declare("plot", owned_by="painter", shared=True)

        assert ["csv_parser", "json_parser"] == names(tool_registry.search_tools(name_pattern="parser"))
        assert ["json_parser"] == names(tool_registry.search_tools(category="files", tags=["tree"]))
        assert ["plot"] == names(tool_registry.search_tools(shared_only=True))
        assert tool_registry.unregister_tool("csv_parser") is True
        assert tool_registry.unregister_tool("csv_parser") is False
        assert ["json_parser"] == names(tool_registry.search_tools(owned_by="reader"))

    def test_statistics(self, tool_registry: ToolRegistry) -> None:
        """
        `get_registry_stats` counts tools, shared ones, agents that have some, and categories.
        """
        declare("sin", category="trigonometry", owned_by="math_agent")
        declare("log", category="utility", shared=True)

        stats = tool_registry.get_registry_stats()

        assert 2 == stats["total_tools"]
        assert 1 == stats["shared_tools"]
        assert 1 == stats["agents_with_tools"]
        assert {"trigonometry": 1, "utility": 1} == stats["tools_by_category"]
