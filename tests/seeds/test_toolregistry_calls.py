"""The ToolRegistry seed: `execute_tool_calls` and `get_schemas` of its registry, with our package."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from toolregistry_functions import divide, multiply

from praval_tools import Tool, ToolCall, ToolContext, ToolRegistry, ToolUsageError, UnknownToolError


@pytest.fixture
def registry() -> ToolRegistry:
    """A registry with two tools, one of them with a limit on its result."""
    registry = ToolRegistry()
    registry.register(Tool.from_function(multiply))
    registry.register(Tool.from_function(divide))
    registry.tool("letters", max_result_size=100)(_letters)
    return registry


def _letters(count: int) -> str:
    """Return many letters."""
    return "x" * count


def call(call_id: str, name: str, arguments: Any) -> Any:
    """Return a call as the `openai` SDK gives it."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return SimpleNamespace(id=call_id, type="function", function=SimpleNamespace(name=name, arguments=text))


class TestExecuteToolCalls:
    def test_the_text_of_each_result_by_its_call(self, registry: ToolRegistry) -> None:
        """
        The calls of a message run side by side, and what a model reads of each is found by its id.
        """
        answers = registry.execute_tool_calls(
            [call("a", "multiply", {"a": 2, "b": 3}), call("b", "divide", {"a": 1, "b": 4})]
        )

        assert {"a": "6.0", "b": "0.25"} == answers

    def test_failures_are_texts(self, registry: ToolRegistry) -> None:
        """
        An unknown tool, an exception and bad arguments are texts, and touch no other call.
        """
        answers = registry.execute_tool_calls(
            [call("a", "nope", {}), call("b", "divide", {"a": 1, "b": 0}), call("c", "divide", '{"a": 1'),
             call("d", "divide", {"a": 1, "b": 1})]
        )  # fmt: skip

        assert "Tool 'nope' not found." in answers["a"]
        assert "ZeroDivisionError" in answers["b"]
        assert "is not JSON" in answers["c"]
        assert "1.0" == answers["d"]

    def test_from_async_code(self, registry: ToolRegistry) -> None:
        """
        The async form gives the same texts, of an agent and of the operator, and runs async tools side by side.
        """
        registry.assign_tool_to_agent("multiply", "student")
        calls = [call("a", "multiply", {"a": 2, "b": 3}), call("b", "divide", {"a": 1, "b": 4})]

        async def run() -> list[dict[str, str]]:
            return [
                await registry.aexecute_tool_calls(calls),
                await registry.aexecute_tool_calls(calls, agent="student"),
            ]

        assert [registry.execute_tool_calls(calls), registry.execute_tool_calls(calls, agent="student")] == asyncio.run(
            run()
        )

    def test_deps_reach_the_tools(self, registry: ToolRegistry) -> None:
        """
        What the program passes as `deps` is there for tools that declare it, in both forms.
        """

        @registry.tool("tenant")
        def tenant(context: ToolContext[str]) -> str:
            """Name the tenant."""
            return context.deps

        calls = [call("a", "tenant", {})]

        assert {"a": "acme"} == registry.execute_tool_calls(calls, deps="acme")
        assert {"a": "acme"} == asyncio.run(registry.aexecute_tool_calls(calls, deps="acme"))

    def test_results_are_cut(self, registry: ToolRegistry) -> None:
        """
        `max_result_size` holds for what is executed through the registry; a direct call gives the whole.
        """
        answers = registry.execute_tool_calls([call("a", "letters", {"count": 1_000})])
        tool = registry.get_tool("letters")

        assert 100 >= len(answers["a"])
        assert tool is not None
        assert 1_000 == len(tool.run_raw({"count": 1_000}))

    def test_as_an_agent(self, registry: ToolRegistry) -> None:
        """
        With `agent=` they are that agent's calls, and refused where it may not call; inside of an agent they are its.
        """
        registry.assign_tool_to_agent("multiply", "student")
        calls = [call("a", "multiply", {"a": 2, "b": 3}), call("b", "divide", {"a": 1, "b": 4})]

        @registry.tool("homework", owned_by="student")
        def homework() -> dict[str, str]:
            """Do the homework."""
            return registry.execute_tool_calls(calls)

        for answers in (
            registry.execute_tool_calls(calls, agent="student"),
            registry.agent("student").call("homework"),
            registry.execute_tool_calls(
                [ToolCall("a", "multiply", {"a": 2, "b": 3}, "student"), ToolCall("b", "divide", {}, "student")]
            ),
        ):
            assert "6.0" == answers["a"]
            assert "forbidden" in answers["b"]

    @pytest.mark.parametrize("api_format", ["anthropic", "gemini", "openai-responses"])
    def test_calls_of_other_providers(self, api_format: str, registry: ToolRegistry) -> None:
        """
        Blocks, parts and items do as well, whichever provider sent them.
        """
        given = {"a": 2, "b": 3}
        calls: Any = {
            "anthropic": [{"type": "tool_use", "id": "x", "name": "multiply", "input": given}],
            "gemini": [{"function_call": {"id": "x", "name": "multiply", "args": given}}],
            "openai-responses": [
                {"type": "function_call", "call_id": "x", "name": "multiply", "arguments": json.dumps(given)}
            ],
        }[api_format]

        assert {"x": "6.0"} == registry.execute_tool_calls(calls)

    def test_a_whole_reply_is_refused(self, registry: ToolRegistry) -> None:
        """
        It may have been cut, so its calls are not run unseen; the error says what takes it.
        """
        reply = {"choices": [{"message": {"tool_calls": []}, "finish_reason": "length"}]}
        with pytest.raises(ToolUsageError, match=r"message\.tool_calls"):
            registry.execute_tool_calls(reply)  # type: ignore[arg-type]

    def test_one_id_twice(self, registry: ToolRegistry) -> None:
        """
        Two calls with one id have both an answer.
        """
        calls = [call("a", "multiply", {"a": 2, "b": 3}), call("a", "multiply", {"a": 2, "b": 4})]

        assert ["6.0", "8.0"] == list(registry.execute_tool_calls(calls).values())


class TestGetSchemas:
    def test_every_tool(self, registry: ToolRegistry) -> None:
        """
        All tools of the registry in a format, but those that are disabled.
        """
        registry.disable("letters")
        schemas = registry.get_schemas(api_format="anthropic")

        assert ["multiply", "divide"] == [one["name"] for one in schemas]
        assert [tool.get_schema() for tool in registry if tool.name != "letters"] == registry.get_schemas()

    def test_one_tool(self, registry: ToolRegistry) -> None:
        """
        The tool of a name alone; an unknown name is an error with near ones.
        """
        assert ["divide"] == [one["function"]["name"] for one in registry.get_schemas("divide")]
        with pytest.raises(UnknownToolError, match="'divide'"):
            registry.get_schemas("divid")
