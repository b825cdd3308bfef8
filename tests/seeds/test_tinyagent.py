"""The tinyAgent seed: its examples as printed, with our package in the place of its own."""

import inspect
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from praval_tools import (
    Agent,
    Outcome,
    Tool,
    ToolCall,
    ToolDefinitionError,
    ToolDefinitionWarning,
    ToolError,
    ToolRegistry,
    tool,
)


@tool(register=False)
def query_db(sql: str) -> str:
    """Execute a SQL query and return results."""
    with closing(sqlite3.connect("app.db")) as conn:
        return json.dumps(conn.execute(sql).fetchall())


@tool(register=False)
def transform_json(data: str, jq_filter: str) -> str:
    """Apply a jq-style filter to JSON data."""
    parsed = json.loads(data)
    return json.dumps(parsed[int(jq_filter.strip(".[]"))])


class TestToolClass:
    """Core components: Tool class."""

    def test_fields(self) -> None:
        """
        A tool has `name`, `fn`, `doc`, `signature` and `json_schema`.
        """

        def search_web(query: str) -> str:
            """Search the web for information"""
            return f"results for {query}"

        made = tool(register=False)(search_web)

        assert "search_web" == made.name
        assert search_web is made.fn
        assert "Search the web for information" == made.doc
        assert inspect.signature(search_web) == made.signature
        assert "object" == made.json_schema["type"]
        assert {"query": {"type": "string"}} == made.json_schema["properties"]
        assert ["query"] == made.json_schema["required"]

    def test_names_of_the_diagram(self) -> None:
        """
        The diagram's names `func`, `description` and `parameters` are there beside those of the class.
        """
        assert query_db.fn is query_db.func
        assert "Execute a SQL query and return results." == query_db.description
        assert query_db.json_schema == query_db.parameters

    def test_call_is_a_direct_proxy(self) -> None:
        """
        Calling the tool passes positional and keyword arguments to the function, unchanged, and gives its value.
        """
        seen: list[Any] = []

        @tool(register=False)
        def remember(first: list, second: int = 2) -> str:
            """Remember what was given."""
            seen.append((first, second))
            return "done"

        items = [object()]

        assert "done" == remember(items, second=5)
        assert "done" == remember(first=items)
        assert [(items, 5), (items, 2)] == seen
        assert items is seen[0][0]

    def test_exceptions_pass(self) -> None:
        """
        Runtime exceptions of a direct call come from the tool as they are.
        """
        with pytest.raises(IndexError):
            transform_json("[]", ".[0]")

    @pytest.mark.parametrize("field", ["name", "description", "parameters", "fn", "metadata"])
    def test_simple_and_frozen(self, field: str) -> None:
        """
        No hidden state: a tool cannot be changed after it was made.
        """
        with pytest.raises(AttributeError):
            setattr(query_db, field, "changed")


class TestDecorator:
    """Core components: @tool decorator; usage patterns: creating tools."""

    def test_bare(self, tool_registry: ToolRegistry) -> None:
        """
        `@tool` infers the name and returns a Tool object, not the function.
        """

        # auto-infers name from function
        @tool
        def search_web(query: str) -> str:
            """Search the web for information"""
            return f"five results for {query}"

        assert isinstance(search_web, Tool)
        assert "search_web" == search_web.name
        assert "five results for cats" == search_web("cats")

    def test_named(self, tool_registry: ToolRegistry) -> None:
        """
        `@tool(name="web_search")` names the tool.
        """

        @tool(name="web_search")
        def search_web(query: str) -> str:
            """Search the web for information"""
            return f"five results for {query}"

        assert "web_search" == search_web.name

    def test_name_in_front(self, tool_registry: ToolRegistry) -> None:
        """
        The signature is `tool(name=None)`: the name may be positional, and may be left out with the brackets kept.
        """

        def search_web(query: str) -> str:
            """Search the web for information"""
            return query

        assert "web_search" == tool("web_search")(search_web).name
        assert "search_web" == tool()(search_web).name


class TestToolsWithAgents:
    """Usage patterns: using tools with agents; agent integration; tool execution."""

    @pytest.fixture
    def agent(self, tool_registry: ToolRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Agent:
        """The seed's agent, with its two tools and nothing else, beside a small `app.db`."""
        monkeypatch.chdir(tmp_path)
        with closing(sqlite3.connect("app.db")) as conn:
            conn.execute("create table users (name text)")
            conn.execute("insert into users values ('ada'), ('grace')")
            conn.commit()
        # Pass to agent - what you see is what you get
        return Agent("react", tools=[query_db, transform_json])

    def test_what_you_see_is_what_you_get(self, agent: Agent, tool_registry: ToolRegistry) -> None:
        """
        The agent has the tools that it was given, and no other.
        """

        @tool(owned_by="other")
        def hidden(text: str) -> str:
            """Stay hidden."""
            return text

        assert ["query_db", "transform_json"] == agent.list_tools()
        assert Outcome.FORBIDDEN is agent.execute(ToolCall("1", "hidden", {"text": "x"})).outcome

    def test_tool_map(self, agent: Agent) -> None:
        """
        The agent's map goes from a tool's name to the tool, and is called with `**arguments`.
        """
        arguments = {"sql": "select name from users"}

        result = agent.tools["query_db"](**arguments)

        assert ["query_db", "transform_json"] == list(agent.tools)
        assert '[["ada"], ["grace"]]' == result
        assert '["grace"]' == agent.tools["transform_json"](data=result, jq_filter=".[1]")

    def test_direct_execution(self, agent: Agent) -> None:
        """
        `tool_obj(arg1, arg2)` calls the original function.
        """
        assert "2" == transform_json("[1, 2]", ".[1]")
        assert "[[2]]" == query_db("select count(*) from users")

    @pytest.mark.parametrize("wrong", [object(), 7, {"name": "query_db"}, None])
    def test_other_objects(self, tool_registry: ToolRegistry, wrong: object) -> None:
        """
        An object that is not a tool is refused with the seed's `TypeError("Expected Tool object …")`.
        """
        with pytest.raises(TypeError, match="Expected Tool object"):
            Agent("react", tools=[query_db, wrong])

        assert [] == tool_registry.agents
        assert [] == tool_registry.list_all_tools()

    def test_two_agents_of_the_same_tool(self, agent: Agent) -> None:
        """
        One tool object may be passed to several agents.
        """
        second = Agent("second", tools=[query_db])

        assert ["query_db"] == second.list_tools()
        assert "[[2]]" == second.call("query_db", sql="select count(*) from users")


class TestFailFast:
    """Validation rules: fail-fast requirements."""

    def test_no_hints_at_all(self) -> None:
        """
        The seed's bad tool raises `ToolDefinitionError` when it is defined, naming parameter and return type.
        """
        with pytest.raises(ToolDefinitionError) as caught:
            # This raises ToolDefinitionError
            @tool
            def bad_tool(arg):  # No type hints, no return type
                return "fail"

        assert 2 == len(caught.value.problems)
        assert "bad_tool" == caught.value.tool
        assert "'arg'" in str(caught.value)
        assert "return" in str(caught.value)

    def test_no_parameter_hint(self) -> None:
        """
        One parameter without a hint suffices.
        """
        with pytest.raises(ToolDefinitionError, match="'limit'"):

            @tool(register=False)
            def search(query: str, limit=5) -> str:
                """Search."""
                return query

    def test_no_return_hint(self) -> None:
        """
        A missing return type raises `ToolDefinitionError`.
        """
        with pytest.raises(ToolDefinitionError, match="return"):

            @tool(register=False)
            def search(query: str):
                """Search."""
                return query

    @pytest.mark.parametrize("wrong", [7, None, object()])
    def test_not_callable(self, wrong: object) -> None:
        """
        A tool must be a function.
        """
        with pytest.raises(ToolDefinitionError):
            Tool.from_function(wrong, name="thing", description="A thing.")  # type: ignore[arg-type]

    def test_class(self) -> None:
        """
        A class is refused.
        """
        with pytest.raises(ToolDefinitionError):

            @tool(register=False)
            class Search:
                """Search."""

    def test_unbound_method(self) -> None:
        """
        A method in a class body, with its bare `self`, is refused, and the error says what to use.
        """
        with pytest.raises(ToolDefinitionError, match="register_object"):

            class Search:
                @tool(register=False)
                def search(self, query: str) -> str:
                    """Search."""
                    return query

    @pytest.mark.parametrize("hint", [object, sqlite3.Connection, type, complex])
    def test_parameter_without_json_form(self, hint: type) -> None:
        """
        A parameter whose type has no JSON form is refused, and named with its type.
        """

        def take(value: Any) -> str:
            """Take a value."""
            return str(value)

        take.__annotations__["value"] = hint

        with pytest.raises(ToolDefinitionError, match="'value'") as caught:
            Tool.from_function(take)

        assert hint.__name__ in str(caught.value)

    def test_error_class(self) -> None:
        """
        `ToolDefinitionError` is an exception of the package.
        """
        assert issubclass(ToolDefinitionError, ToolError)


class TestSoftRequirements:
    """Validation rules: soft requirements."""

    def test_missing_docstring(self) -> None:
        """
        The seed's quiet tool is made, and warns at the line that declares it.
        """
        with pytest.warns(ToolDefinitionWarning, match="quiet_tool") as caught:
            # This emits warning
            @tool(register=False)
            def quiet_tool(arg: str) -> str:  # No docstring
                return "ok"

        assert "ok" == quiet_tool("x")
        assert 1 == len(caught)
        assert __file__ == caught[0].filename

    def test_with_docstring_no_warning(self) -> None:
        """
        A tool with a docstring is silent.
        """

        @tool(register=False)
        def say_ok(arg: str) -> str:
            """Say ok."""
            return "ok"

        assert "Say ok." == say_ok.description


def fake_search() -> Tool[..., object]:
    """Return the tool of the text."""
    # Easy to mock
    return Tool(
        name="fake_search",
        func=lambda q: f"fake result for {q}",
        description="Fake search tool",
        parameters={"q": "string"},
    )


class TestTestability:
    """Design choice reasoning: testability."""

    def test_fake_tool(self, tool_registry: ToolRegistry) -> None:
        """
        A fake made of a lambda and `parameters={"q": "string"}` is a tool that an agent takes.
        """
        fake_tool = fake_search()

        agent = Agent("react", tools=[fake_tool])

        assert "fake result for cats" == fake_tool("cats")
        assert "fake result for cats" == agent.call("fake_search", q="cats")
        assert "Fake search tool" == fake_tool.description

    def test_short_parameters(self, tool_registry: ToolRegistry) -> None:
        """
        The short form of the parameters means required properties of those types, and is enforced.
        """
        fake_tool = fake_search()
        agent = Agent("react", tools=[fake_tool])

        assert "object" == fake_tool.parameters["type"]
        assert {"q": {"type": "string"}} == fake_tool.parameters["properties"]
        assert ["q"] == fake_tool.parameters["required"]
        assert Outcome.INVALID_ARGUMENTS is agent.execute(ToolCall("1", "fake_search", {"q": 7})).outcome
        assert Outcome.INVALID_ARGUMENTS is agent.execute(ToolCall("2", "fake_search", {})).outcome


class TestExplicitStyle:
    """Philosophy: explicit over magic."""

    def test_registered_nowhere(self, tool_registry: ToolRegistry) -> None:
        """
        With `register=False` a tool is in no registry until an agent is given it.
        """
        assert [] == tool_registry.list_all_tools()

        Agent("react", tools=[query_db])

        assert ["query_db"] == [one.name for one in tool_registry.list_all_tools()]

    def test_no_auto_discovery(self, tool_registry: ToolRegistry) -> None:
        """
        With `auto_discover_tools=False` an agent has what it was passed, though others share theirs.
        """

        @tool(shared=True)
        def log(text: str) -> str:
            """Log a text."""
            return text

        agent = Agent("react", tools=[query_db], auto_discover_tools=False)

        assert ["query_db"] == agent.list_tools()
