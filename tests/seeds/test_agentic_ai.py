"""The Agentic-AI seed: what it says of tools, their calls, formats and statistics, statement by statement."""

import asyncio
import json
import threading
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from praval_tools import (
    Outcome,
    RetryableToolError,
    Tool,
    ToolCall,
    ToolContext,
    ToolDefinition,
    ToolMetadata,
    ToolRegistry,
    ToolResult,
)
from praval_tools.formats import parse_tool_calls, result_message
from praval_tools.loop import ToolLoop
from praval_tools.testing import fake_model

SCHEMA = {
    "type": "object",
    "properties": {"expression": {"type": "string", "description": "The mathematical expression..."}},
    "required": ["expression"],
}


def calculate(expression: str) -> float:
    """Perform mathematical calculations."""
    return float(sum(map(float, expression.split("+"))))


async def search(query: str) -> list[str]:
    """Search the web for a given query."""
    await asyncio.sleep(0)
    return [query]


@pytest.fixture
def registry() -> ToolRegistry:
    """The seed's calculator, its schema given as in `tools.yml`, and an async tool from elsewhere."""
    registry = ToolRegistry()
    calculator = Tool(
        name="calculator", description="Perform mathematical calculations...", parameters=SCHEMA, callable=calculate,
        metadata=ToolMetadata("calculator", category="core_utils", speed="fast", safety="sandboxed", shared=True),
    )  # fmt: skip
    registry.register_tool(calculator)
    registry.tool("perform_web_search", safety="external", shared=True)(search)
    return registry


class TestDefinitions:
    """Defining tools: the fields of a definition and their defaults."""

    def test_fields(self, registry: ToolRegistry) -> None:
        """
        Name, description, schema, category, speed and safety are kept as they are declared.
        """
        tool = registry.get_tool("calculator")
        assert tool is not None

        assert SCHEMA == tool.parameters
        assert ToolDefinition("calculator", "Perform mathematical calculations...", SCHEMA) == tool.definition
        assert ("core_utils", "fast", "sandboxed") == (
            tool.metadata.category, tool.metadata.speed, tool.metadata.safety)  # fmt: skip

    def test_defaults(self) -> None:
        """
        Speed is "medium" and safety "native" where nothing is said; the category of the seed may be left out.
        """
        metadata = Tool.from_function(calculate).metadata

        assert ("medium", "native", "general") == (metadata.speed, metadata.safety, metadata.category)

    @pytest.mark.parametrize("speed", ["instant", "fast", "medium", "slow"])
    @pytest.mark.parametrize("safety", ["native", "sandboxed", "external"])
    def test_values(self, speed: Any, safety: Any) -> None:
        """
        Each speed and safety level that the seed names is one.
        """
        metadata = ToolMetadata("any", speed=speed, safety=safety)

        assert (speed, safety) == (metadata.speed, metadata.safety)

    def test_source_is_kept(self, registry: ToolRegistry) -> None:
        """
        A definition says where its tool comes from.
        """
        tool = registry.get_tool("perform_web_search")
        assert tool is not None

        source = tool.metadata.source
        assert source is not None
        assert "code" == source.kind
        assert str(source.file).endswith("test_agentic_ai.py")


class TestUnifiedDiscovery:
    """One list of all available tools, formatted for a provider."""

    def test_one_list(self, registry: ToolRegistry) -> None:
        """
        All tools are in one list, whatever they come from, and found by name and category.
        """
        assert ["calculator", "perform_web_search"] == [tool.name for tool in registry.list_all_tools()]
        assert ["calculator"] == [tool.name for tool in registry.get_tools_by_category("core_utils")]

    @pytest.mark.parametrize("api_format", ["openai-chat", "openai-responses", "anthropic", "gemini"])
    def test_format_for_a_model(self, api_format: str, registry: ToolRegistry) -> None:
        """
        The definitions are formatted for the provider of a model, those of the calling agent.
        """
        registry.block("perform_web_search", "assistant")

        for schemas, names in (
            (registry.get_schemas(api_format=api_format), ["calculator", "perform_web_search"]),
            (registry.schemas("assistant", api_format), ["calculator"]),
        ):
            assert names == [schema.get("function", schema)["name"] for schema in schemas]

    def test_categories_can_be_disabled(self, registry: ToolRegistry) -> None:
        """
        A category that is switched off takes its tools out of the list and refuses their calls.
        """
        registry.disable(category="core_utils")

        assert ["perform_web_search"] == list(registry.toolset("assistant"))
        result = registry.agent("assistant").execute(ToolCall("1", "calculator", {"expression": "1"}))
        assert Outcome.DISABLED is result.outcome


class TestExecution:
    """The execution flow, steps 6 to 11, and the executor's error handling."""

    def test_awaited(self, registry: ToolRegistry) -> None:
        """
        Sync and async functions are awaited alike, and both give a `ToolResult`.
        """
        assistant = registry.agent("assistant")

        async def main() -> list[ToolResult]:
            return [
                await assistant.aexecute(ToolCall("1", "calculator", {"expression": "1+2"})),
                await assistant.aexecute(ToolCall("2", "perform_web_search", {"query": "cats"})),
            ]

        assert [(True, 3.0), (True, ["cats"])] == [(one.success, one.result) for one in asyncio.run(main())]

    def test_not_found(self, registry: ToolRegistry) -> None:
        """
        A name that no tool has gives an error result, and no exception.
        """
        result = asyncio.run(registry.agent("assistant").aexecute(ToolCall("1", "nope", {})))

        assert (False, Outcome.UNKNOWN_TOOL) == (result.success, result.outcome)
        assert "nope" in str(result.error)

    def test_errors_become_results(self, registry: ToolRegistry) -> None:
        """
        What a function raises, and arguments that do not fit, are results with an error.
        """
        assistant = registry.agent("assistant")
        raised = assistant.execute(ToolCall("1", "calculator", {"expression": "one"}))
        unfit = assistant.execute(ToolCall("2", "calculator", {}))

        assert (Outcome.TOOL_ERROR, "ValueError") == (raised.outcome, raised.error_type)
        assert Outcome.INVALID_ARGUMENTS is unfit.outcome
        assert "expression" in str(unfit.error)

    def test_timeout(self) -> None:
        """
        A call has 30 s where nothing else is said, and one that takes longer is a result.
        """
        registry, entered = ToolRegistry(), threading.Event()

        @registry.tool("slow", timeout=0.05, shared=True)
        async def slow() -> None:
            """Take for ever."""
            entered.set()
            await asyncio.sleep(3600)

        result = asyncio.run(registry.agent("assistant").aexecute(ToolCall("1", "slow", {})))

        assert entered.is_set()
        assert Outcome.TIMEOUT is result.outcome
        assert 30 == signature(ToolRegistry).parameters["timeout"].default

    def test_retries(self) -> None:
        """
        Errors that are marked retryable are tried again, so often as the tool says; others are not.
        """
        registry = ToolRegistry(retry_wait=0)
        attempts: list[str] = []

        @registry.tool("flaky", retries=3, shared=True)
        def flaky(retryable: bool) -> str:
            """Fail twice."""
            attempts.append("")
            if len(attempts) < 3:
                raise RetryableToolError("busy") if retryable else ValueError("broken")
            return "done"

        result = registry.agent("assistant").execute(ToolCall("1", "flaky", {"retryable": True}))
        assert ("done", 3) == (result.result, len(attempts))
        attempts.clear()
        result = registry.agent("assistant").execute(ToolCall("2", "flaky", {"retryable": False}))
        assert (Outcome.TOOL_ERROR, 1) == (result.outcome, len(attempts))

    def test_the_loop(self, registry: ToolRegistry) -> None:
        """
        The prompt is processed until the model gives its final content: ask, parse, execute, answer, ask again.
        """
        model = fake_model(("calculator", {"expression": "1+2"}), "It is 3.")
        ended = asyncio.run(ToolLoop(registry.agent("assistant"), model).arun("What is 1+2?"))

        assert "It is 3." == ended.text
        assert ["calculator", "perform_web_search"] == [one["function"]["name"] for one in model.requests[0].tools]
        assert {"role": "tool", "tool_call_id": "call_1", "content": "3.0"} == model.requests[1].messages[-1]

    @pytest.mark.parametrize("api_format", ["openai-chat", "anthropic", "gemini"])
    def test_result_messages(self, api_format: str) -> None:
        """
        A result is formatted into a message for the provider, errors included.
        """
        for result in (ToolResult("1", "calculator", result=3.0), ToolResult("1", "calculator", error="busy")):
            said = json.dumps(result_message(api_format, result))
            assert ("busy" if result.error else "3.0") in said


class TestArgumentsOfOpenai:
    """Provider-specific tool call handling."""

    def test_text_is_parsed(self) -> None:
        """
        The JSON text that OpenAI sends becomes a dictionary.
        """
        function = {"name": "get_weather", "arguments": '{"location": "New York", "unit": "celsius"}'}
        (call,) = parse_tool_calls({"tool_calls": [{"id": "1", "function": function}]})

        assert {"location": "New York", "unit": "celsius"} == call.arguments

    def test_text_that_cannot_be_parsed_is_kept(self, registry: ToolRegistry) -> None:
        """
        Text that is not JSON is kept as it came; the call with it is a result, and runs nothing.
        """
        function = {"name": "calculator", "arguments": '{"expression": "1+'}
        (call,) = parse_tool_calls({"tool_calls": [{"id": "1", "function": function}]})
        result = registry.agent("assistant").execute(call)

        assert '{"expression": "1+' == call.arguments
        assert Outcome.INVALID_ARGUMENTS is result.outcome


class TestStatistics:
    """Tool usage statistics: what is recorded, kept and given back."""

    def test_recorded_by_itself(self, registry: ToolRegistry) -> None:
        """
        Each execution is counted, success or not, with the times and the durations of those that succeeded.
        """
        registry.stats.track_usage = True
        assistant = registry.agent("assistant")
        assistant.execute(ToolCall("1", "calculator", {"expression": "1+2"}))
        assistant.execute(ToolCall("2", "calculator", {"expression": "one"}))

        stats = registry.stats.get_stats("calculator")
        assert stats is not None
        assert (2, 1, 1) == (stats["uses"], stats["successes"], stats["failures"])
        assert stats["first_used"] <= stats["last_used"]
        assert stats["total_duration_ms"] == stats["avg_duration_ms"] >= 0
        assert {"calculator": stats} == registry.stats.get_all_stats()

    def test_switched_off(self, registry: ToolRegistry) -> None:
        """
        With `track_usage` off nothing is counted.
        """
        registry.stats.track_usage = False
        registry.agent("assistant").execute(ToolCall("1", "calculator", {"expression": "1+2"}))

        assert registry.stats.get_stats("calculator") is None

    def test_with_the_definition(self, registry: ToolRegistry) -> None:
        """
        `get_tool_info` gives the definition together with its `usage_stats`.
        """
        registry.stats.track_usage = True
        registry.agent("assistant").execute(ToolCall("1", "calculator", {"expression": "1+2"}))
        info = registry.get_tool_info("calculator")

        assert info is not None
        assert "calculator" == info["definition"]["name"]
        assert 1 == info["usage_stats"]["uses"]

    def test_counted_by_hand(self, registry: ToolRegistry) -> None:
        """
        `update_stats` counts a use that the host made itself, with the seed's parameters.
        """
        registry.stats.track_usage = True
        registry.stats.update_stats("calculator", True, duration_ms=4.0, request_id="r-1")
        registry.stats.update_stats("calculator", False)

        stats = registry.stats.get_stats("calculator")
        assert stats is not None
        assert (2, 1, 4.0) == (stats["uses"], stats["failures"], stats["avg_duration_ms"])

    def test_saved_and_loaded(self, registry: ToolRegistry, tmp_path: Path) -> None:
        """
        The figures are saved as JSON, in a folder that is made, and loaded by the next session.
        """
        path = tmp_path / "data" / "tool_stats.json"
        registry.stats.track_usage = True
        registry.stats.update_stats("calculator", True, duration_ms=4.0)
        registry.stats.save_stats(path)
        other = ToolRegistry()
        other.stats.load_stats(path)

        assert registry.stats.get_all_stats() == other.stats.get_all_stats()
        assert "calculator" in json.loads(path.read_text())["tools"]


def test_context_of_a_call(registry: ToolRegistry) -> None:
    """
    A tool may ask which request it serves; the seed's `request_id` is the id of the call.
    """

    @registry.tool("whoami", shared=True)
    def whoami(context: ToolContext) -> list[str | None]:
        """Say who calls."""
        return [context.agent, context.tool_call_id]

    assert ["assistant", "r-1"] == registry.agent("assistant").execute(ToolCall("r-1", "whoami")).result
