"""The PyWorkflow seed: its examples as printed, with our package in the place of its own."""

import asyncio
import inspect
import threading
from typing import Any, Dict, List  # noqa: UP035 - the seed names them

import pytest

from praval_tools import (
    AsyncTool,
    Outcome,
    Tool,
    ToolDefinition,
    ToolDefinitionWarning,
    ToolRegistry,
    ToolResult,
    agent,
    current_agent,
    get_global_registry,
    get_tool_registry,
    tool,
)


async def fetched(address: str) -> str:
    """Stand for the network of the seed's examples: give control away once, then answer."""
    await asyncio.sleep(0)
    return f"response of {address}"


def properties(made: Tool[..., Any]) -> dict[str, Any]:
    """Return the schema of each parameter."""
    found: dict[str, Any] = made.definition.parameters["properties"]
    return found


class TestCoreTypes:
    """Core types."""

    def test_tool_definition(self) -> None:
        """
        `ToolDefinition` holds name, description and JSON Schema, and `to_dict` gives exactly these.
        """
        schema = {"type": "object", "properties": {}, "required": []}

        definition = ToolDefinition(name="search", description="Search.", parameters=schema)

        assert {"name": "search", "description": "Search.", "parameters": schema} == definition.to_dict()

    def test_tool_result(self) -> None:
        """
        `ToolResult` is made of call id, name and result; error and latency are None unless given.
        """
        result = ToolResult(tool_call_id="1", name="search", result=[1, 2])

        assert ("1", "search", [1, 2]) == (result.tool_call_id, result.name, result.result)
        assert result.error is None
        assert result.latency_ms is None


@pytest.mark.usefixtures("tool_registry")
class TestDecorator:
    """@tool decorator, and usage examples: basic tool, tool with custom metadata."""

    def test_async_tool(self) -> None:
        """
        A bare `@tool` on an `async def` declares a tool that is awaited.
        """

        @tool
        async def web_search(query: str) -> str:
            """Search the web for information."""
            return await fetched(f"https://api.search.com?q={query}")

        assert isinstance(web_search, AsyncTool)
        assert inspect.isawaitable(pending := web_search(query="cats"))
        assert "response of https://api.search.com?q=cats" == asyncio.run(pending)
        assert "web_search" == web_search.name
        assert "Search the web for information." == web_search.description

    def test_sync_tool(self) -> None:
        """
        A bare `@tool` on a `def` declares a tool that is called.
        """

        @tool
        def calculator(expression: str) -> float:
            """Evaluate a mathematical expression."""
            # Safely evaluate (use a proper parser in production)
            return eval(expression)

        assert 7 == calculator("1 + 2 * 3")
        assert "calculator" == calculator.name
        assert "Evaluate a mathematical expression." == calculator.description

    def test_custom_metadata(self) -> None:
        """
        `name=` and `description=` win over the function's name and docstring.
        """

        @tool(name="get_weather", description="Get current weather for a location")
        async def fetch_weather(location: str, units: str = "celsius") -> dict:
            """Fetch weather data from API."""
            # Implementation
            return {"temp": 22, "conditions": "sunny"}

        assert "get_weather" == fetch_weather.name
        assert "Get current weather for a location" == fetch_weather.description
        assert {"temp": 22, "conditions": "sunny"} == asyncio.run(fetch_weather("Rome"))
        assert get_global_registry().get_tool("fetch_weather") is None
        assert ["location"] == fetch_weather.definition.parameters["required"]
        assert {"type": "string", "default": "celsius"} == properties(fetch_weather)["units"]

    def test_marks_on_the_tool(self) -> None:
        """
        `_is_tool` and `_tool_definition` are there as the seed sets them.
        """

        @tool
        def calculator(expression: str) -> float:
            """Evaluate a mathematical expression."""
            return float(expression)

        assert calculator._is_tool is True
        assert isinstance(calculator._tool_definition, ToolDefinition)
        assert "calculator" == calculator._tool_definition.name
        assert calculator.parameters == calculator._tool_definition.parameters

    def test_function_stays_visible(self) -> None:
        """
        As after `functools.wraps`, name, docstring and signature are the function's.
        """

        @tool(name="other")
        def calculator(expression: str) -> float:
            """Evaluate a mathematical expression."""
            return float(expression)

        assert "calculator" == calculator.__name__
        assert "Evaluate a mathematical expression." == calculator.__doc__
        assert ["expression"] == list(inspect.signature(calculator).parameters)

    def test_registry_keyword(self) -> None:
        """
        `registry=` names where the tool goes; the global registry does not get it.
        """
        mine = ToolRegistry()

        @tool(registry=mine)
        def calculator(expression: str) -> float:
            """Evaluate a mathematical expression."""
            return float(expression)

        assert "calculator" in mine
        assert "calculator" not in get_global_registry()

    def test_global_registry(self) -> None:
        """
        Without `registry=` the tool is in the global registry, which is the one that Praval's name gives.
        """

        @tool
        def calculator(expression: str) -> float:
            """Evaluate a mathematical expression."""
            return float(expression)

        assert "calculator" in get_global_registry()
        assert get_global_registry() is get_tool_registry()


@pytest.mark.usefixtures("tool_registry")
class TestSchema:
    """@tool decorator: JSON Schema from the signature's type hints."""

    @pytest.mark.parametrize(
        ("hint", "expected"),
        [
            (str, "string"),
            (int, "integer"),
            (float, "number"),
            (bool, "boolean"),
            (list, "array"),
            (dict, "object"),
            (list[int], "array"),
            (dict[str, int], "object"),
            (List, "array"),  # noqa: UP006
            (Dict, "object"),  # noqa: UP006
            (List[str], "array"),  # noqa: UP006
            (Dict[str, float], "object"),  # noqa: UP006
        ],
    )
    def test_type(self, hint: Any, expected: str) -> None:
        """
        Each hint of the acceptance criteria has the JSON type that the seed gives it.
        """

        def take(value: Any) -> str:
            """Take a value."""
            return str(value)

        take.__annotations__["value"] = hint

        assert expected == properties(tool(take))["value"]["type"]

    def test_required_and_optional(self) -> None:
        """
        The schema is an object; a parameter without a default is required, one with a default is not.
        """

        @tool
        def search(query: str, limit: int = 10, exact: bool = False) -> list:
            """Search."""
            return [query, limit, exact]

        schema = search.definition.parameters

        assert "object" == schema["type"]
        assert ["query", "limit", "exact"] == list(schema["properties"])
        assert ["query"] == schema["required"]


class TestRegistry:
    """ToolRegistry: register and definitions."""

    def test_register_with_definition(self) -> None:
        """
        `register(name, func, definition)` takes a function under a name, with the definition as given.
        """

        def search(query):
            return [query]

        schema = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
        registry = ToolRegistry()

        registry.register("search", search, ToolDefinition("search", "Search the web.", schema))

        assert [ToolDefinition("search", "Search the web.", schema)] == registry.get_tool_definitions()
        assert ["cats"] == registry.execute("1", "search", {"query": "cats"}).result

    def test_register_an_async_function(self) -> None:
        """
        An async function that is registered under a name is run and awaited.
        """

        async def search(query):
            return await fetched(query)

        schema = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
        with ToolRegistry() as registry:
            registry.register("search", search, ToolDefinition("search", "Search the web.", schema))

            assert "response of cats" == registry.execute("1", "search", {"query": "cats"}).result

    def test_definitions(self, tool_registry: ToolRegistry) -> None:
        """
        `get_tool_definitions` gives every definition, `get_tool_definitions_dict` the same as dicts.
        """

        @tool
        def add(x: int, y: int) -> int:
            """Add two numbers."""
            return x + y

        @tool
        async def wait(seconds: float) -> None:
            """Wait a while."""

        definitions = tool_registry.get_tool_definitions()

        assert ["add", "wait"] == [one.name for one in definitions]
        assert all(isinstance(one, ToolDefinition) for one in definitions)
        assert [one.to_dict() for one in definitions] == tool_registry.get_tool_definitions_dict()
        assert {"name", "description", "parameters"} == set(tool_registry.get_tool_definitions_dict()[0])

    def test_global_registry_is_one(self) -> None:
        """
        `get_global_registry` makes one registry and returns it from then on.
        """
        assert get_global_registry() is get_global_registry()


class TestExecution:
    """ToolRegistry: execute."""

    @pytest.fixture(autouse=True)
    def tools(self, tool_registry: ToolRegistry) -> None:
        """Declare a sync tool, an async one, and one that fails."""

        @tool
        def calculator(expression: str) -> float:
            """Evaluate a mathematical expression."""
            return eval(expression)

        @tool
        async def web_search(query: str) -> str:
            """Search the web for information."""
            return await fetched(query)

        @tool
        async def broken(query: str) -> str:
            """Fail."""
            raise RuntimeError("the network is down")

    def test_awaited(self, tool_registry: ToolRegistry) -> None:
        """
        The awaitable form runs sync and async tools by call id, name and arguments.
        """

        async def both() -> list[ToolResult]:
            return [
                await tool_registry.aexecute("call-1", "calculator", {"expression": "1 + 2"}),
                await tool_registry.aexecute("call-2", "web_search", {"query": "cats"}),
            ]

        first, second = asyncio.run(both())

        assert ("call-1", "calculator", 3, None) == (first.tool_call_id, first.name, first.result, first.error)
        assert ("call-2", "web_search") == (second.tool_call_id, second.name)
        assert "response of cats" == second.result
        assert all(one.latency_ms is not None and one.latency_ms >= 0 for one in (first, second))

    def test_from_sync_code(self, tool_registry: ToolRegistry) -> None:
        """
        From sync code `execute` runs both kinds, too.
        """
        assert 3 == tool_registry.execute("1", "calculator", {"expression": "1 + 2"}).result
        assert "response of cats" == tool_registry.execute("2", "web_search", {"query": "cats"}).result

    def test_keywords(self, tool_registry: ToolRegistry) -> None:
        """
        The second and third parameter are called `tool_name` and `arguments`, as in the seed.
        """
        result = tool_registry.execute("1", tool_name="calculator", arguments={"expression": "2 * 3"})

        assert 6 == result.result

    def test_every_parameter_by_its_name(self, tool_registry: ToolRegistry) -> None:
        """
        All three parameters can be given by the seed's names.
        """
        result = tool_registry.execute(tool_call_id="1", tool_name="calculator", arguments={"expression": "2 * 3"})

        assert ("1", 6) == (result.tool_call_id, result.result)

    def test_unknown_tool(self, tool_registry: ToolRegistry) -> None:
        """
        An unknown name is a result, not an exception, with the seed's text.
        """
        result = tool_registry.execute("1", "telescope", {})

        assert ("1", "telescope") == (result.tool_call_id, result.name)
        assert result.result is None
        assert (result.error or "").startswith("Tool 'telescope' not found")
        assert Outcome.UNKNOWN_TOOL is result.outcome

    def test_error_of_the_tool(self, tool_registry: ToolRegistry) -> None:
        """
        What a tool raises is a result whose error is the exception's text, with the time it took.
        """
        for result in (
            tool_registry.execute("1", "broken", {"query": "cats"}),
            asyncio.run(tool_registry.aexecute("1", "broken", {"query": "cats"})),
        ):
            assert result.result is None
            assert "the network is down" == result.error
            assert result.latency_ms is not None
            assert Outcome.TOOL_ERROR is result.outcome

    def test_wrong_arguments(self, tool_registry: ToolRegistry) -> None:
        """
        Arguments that do not fit are a result, too.
        """
        result = tool_registry.execute("1", "calculator", {"expresion": "1 + 2"})

        assert Outcome.INVALID_ARGUMENTS is result.outcome
        assert "expresion" in (result.error or "")


@pytest.mark.usefixtures("tool_registry")
class TestToolsInAgent:
    """Usage examples: using tools in agent."""

    def test_research_agent(self) -> None:
        """
        `@agent(tools=[web_search, calculator])` on an async function names the agent after it and gives it both.
        """

        @tool
        async def web_search(query: str) -> str:
            """Search the web for information."""
            return await fetched(f"https://api.search.com?q={query}")

        @tool
        def calculator(expression: str) -> float:
            """Evaluate a mathematical expression."""
            # Safely evaluate (use a proper parser in production)
            return eval(expression)

        @agent(tools=[web_search, calculator])
        async def research_agent(query: str):
            """Research assistant with web search and calculation."""

        assert "research_agent" == research_agent.name
        assert "Research assistant with web search and calculation." == research_agent.__doc__
        assert ["web_search", "calculator"] == research_agent.list_tools()
        assert asyncio.run(research_agent("cats")) is None
        assert 3 == research_agent.call("calculator", expression="1 + 2")

    def test_agent_uses_its_tools(self) -> None:
        """
        The agent's coroutine awaits an async tool and a sync one alike.
        """

        @tool
        async def web_search(query: str) -> str:
            """Search the web for information."""
            return await fetched(query)

        @tool
        def calculator(expression: str) -> float:
            """Evaluate a mathematical expression."""
            return eval(expression)

        @agent(tools=[web_search, calculator])
        async def research_agent(query: str):
            """Research assistant with web search and calculation."""
            me = current_agent()
            return await me.acall("web_search", query=query), await me.acall("calculator", expression="6 * 7")

        assert ("response of cats", 42) == asyncio.run(research_agent("cats"))

    def test_sync_tool_from_async_code_leaves_the_loop(self) -> None:
        """
        A sync tool that is awaited runs in another thread than the event loop.
        """

        @tool
        def where() -> int:
            """Return the thread's number."""
            return threading.get_ident()

        @agent(tools=[where])
        async def asking():
            return threading.get_ident(), await current_agent().acall("where")

        loop_thread, tool_thread = asyncio.run(asking())

        assert loop_thread != tool_thread

    def test_definitions_for_the_model(self) -> None:
        """
        The agent's schemas carry name, description and parameters of each of its tools.
        """

        @tool
        def calculator(expression: str) -> float:
            """Evaluate a mathematical expression."""
            return eval(expression)

        @agent(tools=[calculator])
        async def research_agent(query: str):
            """Research assistant."""

        assert [
            {
                "name": "calculator",
                "description": "Evaluate a mathematical expression.",
                "input_schema": calculator.definition.parameters,
            }
        ] == research_agent.schemas("anthropic")


@pytest.mark.usefixtures("tool_registry")
class TestMissingDescription:
    """@tool decorator: description defaults to the docstring."""

    def test_no_docstring(self) -> None:
        """
        A tool with neither docstring nor description is declared, with a warning and an empty description.
        """
        with pytest.warns(ToolDefinitionWarning, match="quiet"):

            @tool
            def quiet(text: str) -> str:
                return text

        assert "" == quiet.description
