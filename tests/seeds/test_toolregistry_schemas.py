"""The ToolRegistry seed (its page on `Tool`), schemas and registries: the examples as printed, with our package."""

import pytest
from toolregistry_functions import calculate_area, divide, fetch_data, multiply

from praval_tools import (
    DuplicateToolError,
    Tool,
    ToolMetadata,
    ToolRegistry,
)

FORMATS = ["openai-chat", "openai-response", "anthropic", "gemini"]


class TestFromFunction:
    """API reference: from_function."""

    def test_extracts(self) -> None:
        """
        Name, description and schema come from the function.
        """
        tool = Tool.from_function(calculate_area)

        assert "calculate_area" == tool.name
        assert "Calculate the area of a rectangle." == tool.description
        assert {"length": {"type": "number"}, "width": {"type": "number"}} == tool.parameters["properties"]
        assert ["length", "width"] == tool.parameters["required"]

    def test_overrides(self) -> None:
        """
        `name`, `description` and `metadata` win over what the function says, in the seed's order.
        """
        tool = Tool.from_function(calculate_area, "area", "The area.", None, None, ToolMetadata("any", tags=["math"]))

        assert "area" == tool.name
        assert "The area." == tool.description
        assert ["math"] == list(tool.metadata.tags)

    def test_unnamed_lambda(self) -> None:
        """
        A lambda without a name is a ValueError; a named one is taken.
        """
        with pytest.raises(ValueError, match="name"):
            Tool.from_function(lambda a: a, description="Return it.")

        assert 7 == Tool.from_function(lambda a: a, name="same", description="Return it.").run_raw({"a": 7})


class TestSchemas:
    """API reference: get_schema, describe, get_json_schema; parameter schema format."""

    @pytest.mark.parametrize("api_format", FORMATS)
    def test_every_format(self, api_format: str) -> None:
        """
        Each format names and describes the tool.
        """
        schema = Tool.from_function(multiply).get_schema(api_format)

        inner = schema.get("function", schema)
        assert ("multiply", "Multiply two numbers.") == (inner["name"], inner["description"])

    def test_default_format(self) -> None:
        """
        Without a format it is that of OpenAI's chat completions.
        """
        tool = Tool.from_function(multiply)

        assert {
            "type": "function",
            "function": {"name": "multiply", "description": "Multiply two numbers.", "parameters": tool.parameters},
        } == tool.get_schema()

    def test_unknown_format(self) -> None:
        """
        A format that does not exist is an error that lists those that do.
        """
        with pytest.raises(ValueError, match="anthropic"):
            Tool.from_function(multiply).get_schema("fax")

    def test_deprecated_names(self) -> None:
        """
        `describe` and `get_json_schema` give what `get_schema` gives, with a `DeprecationWarning`.
        """
        tool = Tool.from_function(multiply)

        with pytest.warns(DeprecationWarning, match="get_schema"):
            assert tool.get_schema("anthropic") == tool.describe("anthropic")
        with pytest.warns(DeprecationWarning, match="get_schema"):
            assert tool.get_schema() == tool.get_json_schema()

    def test_parameter_schema_format(self) -> None:
        """
        Parameters of every JSON type, with description and default, are kept as given.
        """
        given = {
            "type": "object",
            "properties": {
                "text": {"type": "string", "description": "A text"},
                "count": {"type": "number", "description": "A count", "default": 1},
                "deep": {"type": "boolean", "description": "Whether to go deep"},
                "rows": {"type": "array", "description": "Rows"},
                "options": {"type": "object", "description": "Options"},
            },
            "required": ["text", "deep"],
        }

        tool = Tool(name="all", description="Take all.", parameters=given, callable=lambda **given: given)

        assert given == tool.parameters
        assert {"text": "a", "deep": True, "count": 1} == tool.run_raw({"text": "a", "deep": True})


class TestWithRegistry:
    """Integration with ToolRegistry."""

    def test_register_and_execute(self) -> None:
        """
        `registry.register(tool)`, then `registry.execute_tool(name, **parameters)`.
        """

        def tool_name(param1: str, param2: str) -> str:
            """Join two texts."""
            return f"{param1} {param2}"

        registry = ToolRegistry()
        tool_instance = Tool.from_function(tool_name)

        # Register tool with registry
        registry.register(tool_instance)

        # Execute tool through registry
        result = registry.execute_tool("tool_name", param1="value1", param2="value2")

        assert "value1 value2" == result

    def test_async_tool(self) -> None:
        """
        `execute_tool` runs an async tool as well.
        """
        registry = ToolRegistry()
        registry.register(Tool.from_function(fetch_data))

        with registry:
            assert {"url": "x", "data": "sample"} == registry.execute_tool("fetch_data", url="x")

    def test_parameter_called_name(self) -> None:
        """
        A tool may have a parameter called `name`.
        """

        def greet(name: str) -> str:
            """Greet somebody."""
            return f"Hello {name}"

        registry = ToolRegistry()
        registry.register(Tool.from_function(greet))

        assert "Hello Ada" == registry.execute_tool("greet", name="Ada")

    def test_names_are_unique(self) -> None:
        """
        A tool's name is unique within a registry.
        """
        registry = ToolRegistry()
        registry.register(Tool.from_function(multiply))

        with pytest.raises(DuplicateToolError):
            registry.register(Tool.from_function(divide, name="multiply"))
