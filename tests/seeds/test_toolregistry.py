"""The ToolRegistry seed (its page on `Tool`), tools: the examples as printed, with our package."""

import asyncio
from typing import Any

import pytest
from toolregistry_functions import calculate_area, divide, fetch_data, multiply

from praval_tools import (
    AsyncTool,
    DuplicateToolError,
    Tool,
    ToolArgumentsError,
    ToolDefinitionError,
    ToolDefinitionWarning,
    ToolMetadata,
    ToolRegistry,
)


def parts(tool: Tool[..., Any]) -> tuple[str, str | None, str | None, str]:
    """Return the four names of a tool: name, namespace, method name, qualified name."""
    return tool.name, tool.namespace, tool.method_name, tool.qualified_name


class TestBasicTool:
    """Usage example: basic tool creation; core attributes."""

    @pytest.fixture
    def area_tool(self) -> Tool[..., Any]:
        """The tool of the example."""
        # Create a Tool instance
        return Tool(
            name="calculate_area",
            description="Calculate the area of a rectangle",
            parameters={
                "type": "object",
                "properties": {
                    "length": {"type": "number", "description": "Length of rectangle"},
                    "width": {"type": "number", "description": "Width of rectangle"},
                },
                "required": ["length", "width"],
            },
            callable=calculate_area,
            is_async=False,
        )

    def test_attributes(self, area_tool: Tool[..., Any]) -> None:
        """
        The seven core attributes hold what was given.
        """
        assert "calculate_area" == area_tool.name
        assert "Calculate the area of a rectangle" == area_tool.description
        assert ["length", "width"] == list(area_tool.parameters["properties"])
        assert ["length", "width"] == area_tool.parameters["required"]
        assert "Length of rectangle" == area_tool.parameters["properties"]["length"]["description"]
        assert calculate_area is area_tool.callable
        assert area_tool.is_async is False
        assert area_tool.namespace is None
        assert area_tool.method_name is None
        assert isinstance(area_tool.metadata, ToolMetadata)

    def test_qualified_name_falls_back_to_the_name(self, area_tool: Tool[..., Any]) -> None:
        """
        Without a namespace the qualified name is the name.
        """
        assert "calculate_area" == area_tool.qualified_name

    def test_callable_interface(self, area_tool: Tool[..., Any]) -> None:
        """
        The tool is called directly, or with a dict of parameters.
        """
        assert 6.0 == area_tool(2.0, 3.0)
        assert 6.0 == area_tool.run_raw({"length": 2.0, "width": 3.0})

    def test_parameters_are_validated(self, area_tool: Tool[..., Any]) -> None:
        """
        The given schema is enforced: a missing and a wrong parameter are both named.
        """
        with pytest.raises(ToolArgumentsError) as caught:
            area_tool.run_raw({"length": [1]})

        assert "length" in str(caught.value)
        assert "width" in str(caught.value)

    def test_the_function_is_not_serialised(self, area_tool: Tool[..., Any]) -> None:
        """
        The dict of a tool holds name, description and parameters, never the function.
        """
        assert {"name", "description", "parameters"} == set(area_tool.to_dict())

    @pytest.mark.parametrize("field", ["name", "description", "parameters", "callable", "namespace", "is_async"])
    def test_immutable(self, area_tool: Tool[..., Any], field: str) -> None:
        """
        Design: a tool cannot be changed after it was made, nor through the schema that it gives.
        """
        with pytest.raises(AttributeError):
            setattr(area_tool, field, None)
        area_tool.parameters["properties"].clear()

        assert ["length", "width"] == list(area_tool.parameters["properties"])

    def test_is_async_is_checked(self) -> None:
        """
        `is_async` that contradicts the function is an error.
        """
        with pytest.raises(ToolDefinitionError, match="is_async"):
            Tool(name="area", description="Area.", parameters={}, callable=calculate_area, is_async=True)


class TestNamespaced:
    """Usage examples: tool with a namespace; namespaced tool from a function."""

    def test_given_namespace(self) -> None:
        """
        A tool whose name carries the namespace keeps it, and has all three names.
        """
        # Create a tool with namespace and method_name fields
        math_tool = Tool(
            name="math_ops-multiply",
            description="Multiply two numbers",
            parameters={
                "type": "object",
                "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
                "required": ["a", "b"],
            },
            callable=lambda a, b: a * b,
            is_async=False,
            namespace="math_ops",
            method_name="multiply",
        )

        # Access the qualified name
        assert "math_ops-multiply" == math_tool.qualified_name
        assert "math_ops" == math_tool.namespace
        assert "multiply" == math_tool.method_name
        assert "math_ops-multiply" == math_tool.name
        assert 6 == math_tool.run_raw({"a": 2, "b": 3})

    def test_from_function(self) -> None:
        """
        `from_function(multiply, namespace="math_ops")` makes all four names.
        """
        # Create a tool with namespace using from_function()
        tool = Tool.from_function(multiply, namespace="math_ops")

        assert ("math_ops-multiply", "math_ops", "multiply", "math_ops-multiply") == parts(tool)

    def test_custom_method_name(self) -> None:
        """
        A given `method_name` is the name after the namespace.
        """
        # You can also provide a custom method_name
        tool2 = Tool.from_function(multiply, namespace="math_ops", method_name="mul")

        assert ("math_ops-mul", "math_ops", "mul", "math_ops-mul") == parts(tool2)

    def test_tools_of_two_namespaces_live_side_by_side(self) -> None:
        """
        Namespaces avoid collisions: one function twice in a registry, in two groups.
        """
        registry = ToolRegistry()
        registry.register(Tool.from_function(multiply, namespace="math_ops"))
        registry.register(Tool.from_function(multiply, namespace="matrix"))

        assert ["math_ops-multiply", "matrix-multiply"] == [tool.name for tool in registry]
        with pytest.raises(DuplicateToolError):
            registry.register(Tool.from_function(multiply, namespace="matrix"))


class TestUpdateNamespace:
    """Usage example: updating a namespace; API reference: update_namespace."""

    def test_tool_without_a_namespace(self) -> None:
        """
        The named lambda of the example gets its namespace, and all four names.
        """
        # Create a tool without namespace
        with pytest.warns(ToolDefinitionWarning, match="multiply"):
            math_tool = Tool.from_function(lambda a, b: a * b, name="multiply")

        # Update with namespace
        math_tool = math_tool.update_namespace("math_operations")

        expected = ("math_operations-multiply", "math_operations", "multiply", "math_operations-multiply")
        assert expected == parts(math_tool)
        assert 6 == math_tool.run_raw({"a": 2, "b": 3})

    def test_metadata_follows(self) -> None:
        """
        The metadata names the tool by its new name.
        """
        tool = Tool.from_function(multiply).update_namespace("math")

        assert "math-multiply" == tool.metadata.tool_name
        assert "math-multiply" == tool.definition.name

    def test_existing_namespace_stays(self) -> None:
        """
        Without `force` an existing namespace is not changed.
        """
        tool = Tool.from_function(multiply, namespace="math_ops").update_namespace("other")

        assert ("math_ops-multiply", "math_ops", "multiply", "math_ops-multiply") == parts(tool)

    def test_force(self) -> None:
        """
        With `force=True` the existing namespace is replaced.
        """
        tool = Tool.from_function(multiply, namespace="math_ops").update_namespace("other", force=True)

        assert ("other-multiply", "other", "multiply", "other-multiply") == parts(tool)

    def test_custom_method_name_survives(self) -> None:
        """
        The method name recovers the base name without ambiguity, even with a `-` in it.
        """
        tool = Tool.from_function(multiply, namespace="math", method_name="mul-fast")

        assert "other-mul-fast" == tool.update_namespace("other", force=True).name

    def test_dot_as_separator(self) -> None:
        """
        `sep="."` joins with a dot.
        """
        assert "math.multiply" == Tool.from_function(multiply).update_namespace("math", sep=".").name

    def test_prefix_in_a_name_of_from_function(self) -> None:
        """
        A prefix in the name that `from_function` was given is an existing namespace like any other.
        """
        tool = Tool.from_function(multiply, name="old_namespace.multiply")

        assert "old_namespace.multiply" == tool.update_namespace("new_namespace").name
        assert "new_namespace-multiply" == tool.update_namespace("new_namespace", force=True).name


class TestAsyncTool:
    """Usage example: async tools; API reference: arun_raw."""

    @pytest.fixture
    def async_tool(self) -> Tool[..., Any]:
        """The tool of the example."""
        # Create async tool
        return Tool(
            name="fetch_data",
            description="Fetch data from URL",
            parameters={
                "type": "object",
                "properties": {"url": {"type": "string", "description": "URL to fetch from"}},
                "required": ["url"],
            },
            callable=fetch_data,
            is_async=True,
        )

    def test_awaited(self, async_tool: Tool[..., Any]) -> None:
        """
        An async tool is awaited, called directly or by `arun_raw`.
        """
        expected = {"url": "https://example.org", "data": "sample"}

        assert async_tool.is_async is True
        assert isinstance(async_tool, AsyncTool)
        assert expected == asyncio.run(async_tool(url="https://example.org"))
        assert expected == asyncio.run(async_tool.arun_raw({"url": "https://example.org"}))

    def test_from_sync_code(self, async_tool: Tool[..., Any]) -> None:
        """
        `run_raw` runs it where no event loop runs.
        """
        assert {"url": "x", "data": "sample"} == async_tool.run_raw({"url": "x"})

    def test_detected(self) -> None:
        """
        `from_function` sees by itself whether a function is async.
        """
        assert Tool.from_function(fetch_data).is_async is True
        assert Tool.from_function(multiply).is_async is False

    def test_sync_tool_awaited(self) -> None:
        """
        `arun_raw` runs a sync tool, too.
        """
        assert 6.0 == asyncio.run(Tool.from_function(multiply).arun_raw({"a": 2, "b": 3}))


class TestRunning:
    """Usage example: executing tools with run_raw() and run()."""

    @pytest.fixture
    def tool(self) -> Tool[..., Any]:
        """The tool of the example."""
        return Tool.from_function(divide)

    def test_run_raw(self, tool: Tool[..., Any]) -> None:
        """
        `run_raw` validates and gives the value.
        """
        assert 5.0 == tool.run_raw({"a": 10, "b": 2})

    def test_run_raw_raises(self, tool: Tool[..., Any]) -> None:
        """
        `run_raw` lets the tool's own exception through.
        """
        with pytest.raises(ZeroDivisionError):
            tool.run_raw({"a": 10, "b": 0})
        with pytest.raises(ZeroDivisionError):
            asyncio.run(tool.arun_raw({"a": 10, "b": 0}))

    def test_run_gives_a_text(self, tool: Tool[..., Any]) -> None:
        """
        `run` and `arun` turn the exception into the seed's text, with a `DeprecationWarning`.
        """
        with pytest.raises(ZeroDivisionError) as raised:
            divide(10.0, 0.0)  # its text differs between Python versions, and from that of integers
        expected = f"Error executing divide: {raised.value}"

        with pytest.warns(DeprecationWarning):
            result = tool.run({"a": 10, "b": 0})
        with pytest.warns(DeprecationWarning):
            awaited = asyncio.run(tool.arun({"a": 10, "b": 0}))

        assert expected == result == awaited
        assert expected.endswith("division by zero")

    def test_run_names_bad_arguments(self, tool: Tool[..., Any]) -> None:
        """
        Arguments that do not fit become a text as well.
        """
        with pytest.warns(DeprecationWarning):
            result = tool.run({"a": 10})

        assert result.startswith("Error executing divide: ")
        assert "b" in result

    def test_run_without_an_error(self, tool: Tool[..., Any]) -> None:
        """
        What is deprecated is the swallowing of an error: a run that succeeds gives its result and is silent.
        """
        assert 5.0 == tool.run({"a": 10, "b": 2})
        assert 5.0 == asyncio.run(tool.arun({"a": 10, "b": 2}))
