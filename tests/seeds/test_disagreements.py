"""Where the seeds disagree, or can't hold as printed: one class per row of the specification's table."""

import asyncio
import inspect
import subprocess
import sys
from typing import Any

import pytest

from praval_tools import (
    Agent,
    AsyncTool,
    DuplicateToolError,
    NotOwnerError,
    Outcome,
    Tool,
    ToolCall,
    ToolDefinitionError,
    ToolRegistry,
    ToolResult,
    UnknownToolError,
    UnknownToolWarning,
    get_global_registry,
    get_tool_registry,
    tool,
    use_registry,
)


def multiply(a: float, b: float) -> float:
    """Multiply two numbers."""
    return a * b


class Counter:
    """Counts from a start; its methods are tools."""

    def __init__(self, start: int) -> None:
        self.value = start

    def increase(self, by: int = 1) -> int:
        """Increase the counter."""
        self.value += by
        return self.value

    async def double(self) -> int:
        """Double the counter."""
        self.value *= 2
        return self.value

    @classmethod
    def kind(cls) -> str:
        """Name the class."""
        return cls.__name__

    @staticmethod
    def limit() -> int:
        """Return the largest value."""
        return 100


@pytest.mark.usefixtures("tool_registry")
class TestCategoryOnlyOnRequest:
    """Row: Praval's pattern 3, in which an agent without `tool_categories` gets a category."""

    @pytest.mark.parametrize(("options", "expected"), [({}, []), ({"tool_categories": ["trigonometry"]}, ["sin"])])
    def test_with_and_without_the_request(self, options: dict[str, Any], expected: list[str]) -> None:
        """
        An agent gets the tools of a category if it requests it, and else does not.
        """

        @tool("sin", category="trigonometry", owned_by="math_agent")
        def sine(angle: float) -> float:
            """Return the sine of an angle."""
            return angle

        scientific_calculator = Agent("scientific_calculator", **options)

        assert expected == scientific_calculator.list_tools()
        assert bool(expected) is scientific_calculator.execute(ToolCall("1", "sin", {"angle": 1})).success


class TestUntypedParameter:
    """Row: PyWorkflow takes an untyped parameter for a string; others refuse it, or leave it open."""

    def test_error(self) -> None:
        """
        A parameter without a hint is a definition error.
        """
        with pytest.raises(ToolDefinitionError, match="'query'"):

            @tool(register=False)
            def search(query) -> str:
                """Search."""
                return str(query)

    @pytest.mark.parametrize("given", ["cats", 7, [1, 2], {"a": None}, None])
    def test_unconstrained_if_not_strict(self, given: Any) -> None:
        """
        With `strict=False` the parameter takes any JSON value, unchanged, not only a string.
        """

        @tool(register=False, strict=False)
        def search(query) -> list:
            """Search."""
            return [query]

        assert "type" not in search.parameters["properties"]["query"]
        assert [given] == search.run_raw({"query": given})


class TestSyncAndAsync:
    """Row: PyWorkflow's `await registry.execute(...)`, and its wrapper that is always async."""

    def test_execute_and_aexecute(self, tool_registry: ToolRegistry) -> None:
        """
        `execute` returns the result itself, `aexecute` something to be awaited.
        """
        tool_registry.register_tool(Tool.from_function(multiply))

        direct = tool_registry.execute("1", "multiply", {"a": 2, "b": 3})
        pending = tool_registry.aexecute("2", "multiply", {"a": 2, "b": 3})

        assert isinstance(direct, ToolResult)
        assert inspect.isawaitable(pending)
        assert 6.0 == direct.result == asyncio.run(pending).result

    def test_a_tool_is_as_async_as_its_function(self) -> None:
        """
        Calling the tool of a `def` gives its value, calling that of an `async def` an awaitable.
        """

        async def fetch(url: str) -> str:
            """Fetch a page."""
            return url

        plain, awaited = Tool.from_function(multiply), Tool.from_function(fetch)

        assert 6.0 == plain(2.0, 3.0)
        assert not inspect.iscoroutinefunction(type(plain).__call__)
        assert isinstance(awaited, AsyncTool)
        assert inspect.iscoroutinefunction(type(awaited).__call__)
        assert "x" == asyncio.run(awaited("x"))


class TestRegisteringAgain:
    """Row: in PyWorkflow registering a name again overwrites."""

    def test_duplicate_is_an_error(self, tool_registry: ToolRegistry) -> None:
        """
        A name that is taken raises `DuplicateToolError` with both owners, in every form of registering.
        """
        tool("multiply", owned_by="calculator")(multiply)

        def other(a: float) -> float:
            """Do something else."""
            return a

        with pytest.raises(DuplicateToolError) as caught:
            tool("multiply", owned_by="stranger")(other)
        with pytest.raises(DuplicateToolError):
            tool_registry.register("multiply", other)

        assert ("calculator", "stranger") == (caught.value.owner, caught.value.new_owner)
        assert "replace=True" in str(caught.value)
        assert 6.0 == Agent("calculator").call("multiply", a=2, b=3)

    def test_replace_on_purpose(self, tool_registry: ToolRegistry) -> None:
        """
        `replace=True` replaces in place: the owner stays, and whoever could call the tool calls the new one.
        """
        tool("multiply", owned_by="calculator")(multiply)
        tool_registry.assign_tool_to_agent("multiply", "student")

        @tool("multiply", replace=True)
        def better(a: float, b: float) -> float:
            """Multiply two numbers, and negate."""
            return -a * b

        found = tool_registry.get_tool("multiply")
        assert found is not None
        assert "calculator" == found.metadata.owned_by
        assert -6.0 == tool_registry.agent("student").call("multiply", a=2, b=3)

    def test_an_agent_cannot_replace_what_another_owns(self, tool_registry: ToolRegistry) -> None:
        """
        Another owner's tool is replaced by the operator only.
        """
        tool("multiply", owned_by="calculator")(multiply)

        with pytest.raises(NotOwnerError):
            tool_registry.register_tool(Tool.from_function(multiply), replace=True, by="stranger")


class TestDefaultRegistry:
    """Row: tinyAgent has no global registry; PyWorkflow and Praval have one."""

    def test_default(self, tool_registry: ToolRegistry) -> None:
        """
        Without more words a tool goes to the default registry, known by the names of both seeds.
        """
        tool(multiply)

        assert get_tool_registry() is get_global_registry()
        assert "multiply" in get_tool_registry()

    def test_registry_keyword(self, tool_registry: ToolRegistry) -> None:
        """
        `registry=` sends a tool elsewhere; None means the default one.
        """
        mine = ToolRegistry()

        tool(registry=mine)(multiply)
        tool("times", registry=None)(multiply)

        assert ["multiply"] == [one.name for one in mine]
        assert ["times"] == [one.name for one in tool_registry]

    def test_registered_nowhere(self, tool_registry: ToolRegistry) -> None:
        """
        `register=False` makes a tool that is in no registry.
        """
        made = tool(register=False)(multiply)

        assert isinstance(made, Tool)
        assert [] == tool_registry.list_all_tools()

    def test_use_registry(self) -> None:
        """
        `use_registry` makes another registry the default one inside.
        """
        mine = ToolRegistry()

        with use_registry(mine):
            tool(multiply)

        assert "multiply" in mine
        assert mine is not get_tool_registry()


class TestWhatTheDecoratorReturns:
    """Row: the decorator returns the function (Praval, PyWorkflow) or a Tool (tinyAgent)."""

    def test_callable_tool(self) -> None:
        """
        It returns a `Tool` that is called like the function and looks like it.
        """
        made = tool(register=False)(multiply)

        assert isinstance(made, Tool)
        assert callable(made)
        assert 6.0 == made(2.0, b=3.0)
        assert multiply is made.function
        assert multiply is made.__wrapped__
        assert ("multiply", "Multiply two numbers.") == (made.__name__, made.__doc__)
        assert inspect.signature(multiply) == inspect.signature(made)


class TestUpdateNamespaceCopies:
    """Row: ToolRegistry's tools are frozen, yet `update_namespace` changes them; three examples never worked."""

    def test_copy(self) -> None:
        """
        A copy is returned, and the tool itself keeps its name.
        """
        before = Tool.from_function(multiply)

        after = before.update_namespace("math")

        assert "math-multiply" == after.name
        assert ("multiply", None) == (before.name, before.namespace)
        assert before.function is after.function

    def test_first_example(self) -> None:
        """
        A tool without a namespace gets it in front.
        """
        made = Tool(name="example_tool", description="An example.", parameters={}, callable=lambda: 1)

        assert "new_namespace-example_tool" == made.update_namespace("new_namespace").name

    def test_second_example(self) -> None:
        """
        Without `force` an existing prefix stays as it is, dot and all.
        """
        made = Tool(name="old_namespace.example_tool", description="An example.", parameters={}, callable=lambda: 1)

        assert "old_namespace.example_tool" == made.update_namespace("new_namespace", force=False).name

    def test_third_example(self) -> None:
        """
        With `force` the prefix is replaced, joined by the separator that was asked for.
        """
        made = Tool(name="old_namespace.example_tool", description="An example.", parameters={}, callable=lambda: 1)

        after = made.update_namespace("new_namespace", force=True, sep=".")

        assert "new_namespace.example_tool" == after.name
        assert ("new_namespace", "example_tool") == (after.namespace, after.method_name)

    def test_method_name_counts(self) -> None:
        """
        A given `method_name` is the name after the namespace, in the constructor and in a copy.
        """
        made = Tool("multiply", "Multiply.", None, multiply, namespace="math", method_name="mul")

        assert "math-mul" == made.name == made.qualified_name
        assert "other-mul" == made.with_namespace("other", force=True).name


class TestNoPydantic:
    """Row: ToolRegistry has `parameters_model`, pydantic, and a reason parameter that is always on."""

    def test_no_model_and_no_reason_parameter(self) -> None:
        """
        A tool has no pydantic model, and only the parameters of its function.
        """
        made = Tool.from_function(multiply)

        assert not hasattr(made, "parameters_model")
        assert ["a", "b"] == list(made.parameters["properties"])
        for api_format in ("openai-chat", "openai-responses", "anthropic", "gemini", "mcp"):
            assert "toolcall_reason" not in str(made.get_schema(api_format))

    def test_pydantic_is_not_imported(self) -> None:
        """
        Declaring a tool and calling it with checked arguments imports no pydantic.
        """
        done = subprocess.run([sys.executable, "-c", WITHOUT_PYDANTIC], capture_output=True, text=True, timeout=60)

        assert ("6.0 False\n", "") == (done.stdout, done.stderr)


WITHOUT_PYDANTIC = '''
import sys
from praval_tools import Agent, tool

@tool(owned_by="calculator")
def multiply(a: float, b: float) -> float:
    """Multiply two numbers."""
    return a * b

print(Agent("calculator").call("multiply", a=2, b=3), "pydantic" in sys.modules)
'''


@pytest.mark.usefixtures("tool_registry")
class TestMethodsAreTools:
    """Row: tinyAgent refuses methods."""

    def test_bound_methods(self) -> None:
        """
        A bound method is a tool without `self`, and works on its object.
        """
        counter = Counter(5)
        calculator = Agent("calculator", tools=[counter.increase])

        assert {"by": {"type": "integer", "default": 1}} == tool(register=False)(counter.increase).parameters[
            "properties"
        ]
        assert 7 == calculator.call("increase", by=2)
        assert 7 == counter.value

    def test_async_class_and_static_methods(self) -> None:
        """
        Async, class and static methods are tools as well.
        """
        counter = Counter(5)
        calculator = Agent("calculator", tools=[counter.double, Counter.kind, Counter.limit])

        assert 10 == asyncio.run(calculator.acall("double"))
        assert "Counter" == calculator.call("kind")
        assert 100 == calculator.call("limit")

    def test_two_objects_under_two_names(self) -> None:
        """
        The same method of two objects makes two tools.
        """
        first, second = Counter(1), Counter(10)
        tool("first", owned_by="calculator")(first.increase)
        tool("second", owned_by="calculator")(second.increase)

        assert [2, 11] == [Agent("calculator").call("first"), Agent("auditor", tools=["second"]).call("second")]


class TestDescriptionsOfParameters:
    """Row: tinyAgent makes descriptions of parameters from their hints."""

    def test_none_are_made(self) -> None:
        """
        A parameter that nobody described has no description; the schema says its type.
        """
        assert {"a": {"type": "number"}, "b": {"type": "number"}} == Tool.from_function(multiply).parameters[
            "properties"
        ]

    def test_written_ones_are_kept(self) -> None:
        """
        A description in the docstring is the parameter's.
        """

        def power(base: float, exponent: float) -> float:
            """
            Raise a number to a power.

            Args:
                base: What is raised.
            """
            return float(base**exponent)

        properties = Tool.from_function(power).parameters["properties"]

        assert {"type": "number", "description": "What is raised."} == properties["base"]
        assert {"type": "number"} == properties["exponent"]


class TestUnknownValues:
    """Row: in Praval an unknown `risk_level` becomes "low", and unknown names are dropped."""

    @pytest.mark.parametrize(
        "wrong",
        [{"risk_level": "crticial"}, {"risk_level": "LOW"}, {"speed": "warp"}, {"safety": "none"}, {"risk": "high"}],
    )
    def test_unknown_metadata(self, wrong: dict[str, str], tool_registry: ToolRegistry) -> None:
        """
        A value or field that does not exist is a definition error, and nothing is registered.
        """
        with pytest.raises(ToolDefinitionError) as caught:
            tool(**wrong)(multiply)

        assert next(iter(wrong)) in str(caught.value)
        assert [] == tool_registry.list_all_tools()

    @pytest.mark.parametrize("level", ["low", "medium", "high", "critical"])
    def test_known_levels(self, level: str) -> None:
        """
        The four levels are kept as given.
        """
        assert level == tool(register=False, risk_level=level)(multiply).metadata.risk_level

    def test_unknown_tools(self, tool_registry: ToolRegistry) -> None:
        """
        A tool's name that does not exist is reported in every place that takes one.
        """
        analyst = Agent("analyst", tools=["multiplyy"])
        tool(multiply)

        with pytest.raises(UnknownToolError):
            analyst.add_tool("nope")
        with pytest.raises(UnknownToolError):
            tool_registry.grant("nope", "analyst")
        with pytest.warns(UnknownToolWarning):
            assert tool_registry.assign_tool_to_agent("nope", "analyst") is False

        problems = [one for one in tool_registry.problems() if one.kind == "unknown-tool"]
        assert ["analyst"] == [one.subject for one in problems]
        assert "'multiplyy'" in problems[0].message
        assert "'multiply'" in problems[0].remedy

    def test_unknown_tool_at_a_call(self, tool_registry: ToolRegistry) -> None:
        """
        Calling a name that does not exist is an outcome of its own.
        """
        assert Outcome.UNKNOWN_TOOL is Agent("analyst").execute(ToolCall("1", "nope", {})).outcome
