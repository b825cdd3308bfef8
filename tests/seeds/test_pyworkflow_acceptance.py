"""The PyWorkflow seed's event-sourced execution, and its acceptance list point by point."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Dict, List  # noqa: UP035 - the seed names them

import pytest

import praval_tools
from praval_tools import (
    AsyncTool,
    Outcome,
    Tool,
    ToolCall,
    ToolDefinition,
    ToolExecutionError,
    ToolRegistry,
    ToolResult,
    get_global_registry,
    tool,
)
from praval_tools.journal.codec import from_json, to_json
from praval_tools.journal.events import AgentToolCall, AgentToolResult, EventType

Execute = Callable[..., ToolResult]


class World:
    """A journaled registry with the seed's tools, and how often each of them ran."""

    def __init__(self, path: Path) -> None:
        self.path, self.ran = path, list[str]()
        self.registry = ToolRegistry(journal=path)

        @tool(registry=self.registry)
        async def web_search(query: str) -> str:
            """Search the web for information."""
            self.ran.append("web_search")
            await asyncio.sleep(0)
            return f"response of {query}, {len(self.ran)}"

        @tool(registry=self.registry)
        def calculator(expression: str) -> float:
            """Evaluate a mathematical expression."""
            self.ran.append("calculator")
            return float(eval(expression))

        @tool(name="get_weather", description="Get current weather for a location", registry=self.registry)
        async def fetch_weather(location: str, units: str = "celsius") -> dict:
            """Fetch weather data from API."""
            self.ran.append("get_weather")
            return {"temp": 22, "conditions": "sunny"}

        @tool(registry=self.registry)
        def broken(query: str) -> str:
            """Fail."""
            self.ran.append("broken")
            raise ValueError(f"no {query} here")

    def again(self) -> "World":
        """Close the registry; return the world as another process would make it."""
        self.registry.close()
        return World(self.path)

    def events(self) -> list[Any]:
        """Return what was recorded of calls, in order."""
        assert self.registry.journal is not None
        return [one for one in self.registry.journal.events() if isinstance(one, AgentToolCall | AgentToolResult)]

    def stored(self) -> list[dict[str, Any]]:
        """Return the same as the JSON that is stored."""
        assert self.registry.journal is not None
        return [json.loads(one.body) for one in self.registry.journal.store.read() if one.call_id is not None]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Give a fresh world."""
    made = World(tmp_path / "runs.db")
    yield made
    made.registry.close()


def _sync(registry: ToolRegistry, *call: Any) -> ToolResult:
    return registry.execute(*call)


def _async(registry: ToolRegistry, *call: Any) -> ToolResult:
    async def wait() -> ToolResult:
        return await registry.aexecute(*call)

    return asyncio.run(wait())


@pytest.fixture(params=[_sync, _async], ids=["sync", "async"])
def execute(request: pytest.FixtureRequest) -> Execute:
    """Give both ways of executing in turn."""
    made: Execute = request.param
    return made


CALLS = [
    ("1", "web_search", {"query": "cats"}),
    ("2", "calculator", {"expression": "1 + 2"}),
    ("3", "get_weather", {"location": "Rome"}),
]


class TestEvents:
    """Event sourcing integration: on first execution."""

    def test_types(self) -> None:
        """The two types are named as in the seed, and are text."""
        assert EventType.AGENT_TOOL_CALL == "agent_tool_call"
        assert EventType.AGENT_TOOL_RESULT == "agent_tool_result"
        assert isinstance(EventType.AGENT_TOOL_CALL, str)
        assert (EventType.AGENT_TOOL_CALL, EventType.AGENT_TOOL_RESULT) == (AgentToolCall.type, AgentToolResult.type)

    def test_of_a_success(self, world: World, execute: Execute) -> None:
        """A call is recorded before, with id, name, arguments and time; then its result, with latency and no error."""
        with world.registry.run("r"):
            execute(world.registry, *CALLS[1])

        call, result = world.events()
        assert ("r", "2", "calculator", {"expression": "1 + 2"}) == (
            call.run_id, call.tool_call_id, call.tool_name, call.arguments
        )  # fmt: skip
        assert ("r", "2", "calculator", 3.0, None) == (
            result.run_id, result.tool_call_id, result.tool_name, result.result, result.error
        )  # fmt: skip
        assert result.latency_ms >= 0
        assert call.time.utcoffset() is not None and call.time <= result.time

    def test_of_an_error(self, world: World, execute: Execute) -> None:
        """A tool that raises leaves a result event with the exception's text and no result."""
        with world.registry.run("r"):
            execute(world.registry, "9", "broken", {"query": "cats"})

        result = world.events()[-1]
        assert (None, "no cats here", "ValueError") == (result.result, result.error, result.error_type)
        assert result.latency_ms >= 0

    def test_keys_of_their_json(self, world: World) -> None:
        """The JSON has the seed's keys, in the store too, and an event comes back from it as it was."""
        world.registry.execute(*CALLS[1])

        for event, stored in zip(world.events(), world.stored(), strict=True):
            written = json.loads(to_json(event))
            assert {**stored, "time": ...} == {**written, "time": ...}
            assert event == from_json(json.dumps(stored))
            assert event == from_json(to_json(event))
            assert event.type == written["type"]
            assert ("2", "calculator") == (written["tool_call_id"], written["tool_name"])
        assert {"expression": "1 + 2"} == world.stored()[0]["arguments"]
        assert {"result", "latency_ms"} <= set(world.stored()[1])
        assert world.stored()[1].get("error") is None


class TestReplay:
    """Event sourcing integration: on replay."""

    def test_cached_results(self, world: World, execute: Execute) -> None:
        """Recorded results come back without the function being run, of their values, in another process's stead."""
        with world.registry.run("r"):
            live = [execute(world.registry, *one) for one in CALLS]
        again = world.again()
        with again.registry.run("r"):
            replayed = [execute(again.registry, *one) for one in CALLS]

        assert [] == again.ran
        assert [True] * 3 == [one.replayed for one in replayed]
        for one, other in zip(live, replayed, strict=True):
            assert one.result == other.result
            assert type(one.result) is type(other.result)
            assert (one.tool_call_id, one.name, one.error, one.latency_ms) == (
                other.tool_call_id, other.name, other.error, other.latency_ms
            )  # fmt: skip
        again.registry.close()

    def test_cached_errors(self, world: World, execute: Execute) -> None:
        """So do recorded errors, as results and as what `call` raises."""
        call = ("9", "broken", {"query": "cats"})
        with world.registry.run("r"):
            live = execute(world.registry, *call)
        again = world.again()
        with again.registry.run("r"):
            replayed = execute(again.registry, *call)
        with again.registry.run("r"), pytest.raises(ValueError, match="no cats here") as caught:
            again.registry.execute_tool("broken", query="cats")

        assert [] == again.ran
        assert (live.outcome, live.error, live.error_type) == (replayed.outcome, replayed.error, replayed.error_type)
        assert isinstance(caught.value, ToolExecutionError)
        again.registry.close()

    def test_not_found_is_executed_and_recorded(self, world: World, execute: Execute) -> None:
        """What has no recorded result is executed, and recorded: the next replay has it."""
        with world.registry.run("r"):
            execute(world.registry, *CALLS[0])
        for expected in (["calculator"], []):
            world = world.again()
            with world.registry.run("r"):
                execute(world.registry, *CALLS[0])
                assert 3.0 == execute(world.registry, *CALLS[1]).result
            assert expected == world.ran
        world.registry.close()

    def test_recorded_in_sync_code_replayed_in_async_code(self, world: World) -> None:
        """It makes no difference which of the two recorded and which replays."""
        with world.registry.run("r"):
            live = _sync(world.registry, *CALLS[0])
        with world.registry.run("r"):
            assert live.result == _async(world.registry, *CALLS[0]).result
        assert ["web_search"] == world.ran


@pytest.mark.usefixtures("tool_registry")
class TestAcceptance:
    """The acceptance criteria, in the seed's order."""

    def test_types_defined(self) -> None:
        """ToolDefinition and ToolResult types defined."""
        assert {"name": "n", "description": "d", "parameters": {}} == ToolDefinition("n", "d", {}).to_dict()
        result = ToolResult("1", "n", result=2)
        assert ("1", "n", 2, None, None) == (
            result.tool_call_id, result.name, result.result, result.error, result.latency_ms
        )  # fmt: skip

    def test_decorator(self) -> None:
        """@tool decorator with automatic schema generation from type hints."""

        @tool
        def search(query: str, limit: int = 10) -> list:
            """Search."""
            return [query] * limit

        assert search._is_tool
        assert isinstance(search._tool_definition, ToolDefinition)
        assert ["query"] == search._tool_definition.parameters["required"]
        assert "integer" == search._tool_definition.parameters["properties"]["limit"]["type"]

    def test_registry(self) -> None:
        """ToolRegistry class with register/execute methods."""
        registry = ToolRegistry()
        schema = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
        registry.register("double", lambda x: 2 * x, ToolDefinition("double", "Double.", schema))

        assert 4 == registry.execute(tool_call_id="1", tool_name="double", arguments={"x": 2}).result
        assert ["double"] == [one.name for one in registry.get_tool_definitions()]

    def test_global_registry(self) -> None:
        """Global registry instance (get_global_registry())."""

        @tool
        def search(query: str) -> str:
            """Search."""
            return query

        assert get_global_registry() is get_global_registry()
        assert "search" in get_global_registry()

    def test_event_integration(self, world: World, execute: Execute) -> None:
        """Event integration: AGENT_TOOL_CALL and AGENT_TOOL_RESULT events."""
        for one in CALLS:
            execute(world.registry, *one)

        expected = [
            (kind, one[0]) for one in CALLS for kind in (EventType.AGENT_TOOL_CALL, EventType.AGENT_TOOL_RESULT)
        ]
        assert expected == [(one.type, one.tool_call_id) for one in world.events()]

    def test_replay_safe(self, world: World, execute: Execute) -> None:
        """Replay-safe execution (cached results from events): no event is added, no function run."""
        for _ in range(3):
            with world.registry.run("r"):
                assert 3.0 == execute(world.registry, *CALLS[1]).result

        assert ["calculator"] == world.ran
        assert 2 == len(world.events())

    def test_sync_and_async_tools(self, world: World, execute: Execute) -> None:
        """Support for both sync and async tools."""
        assert isinstance(world.registry.get_tool("web_search"), AsyncTool)
        assert not isinstance(world.registry.get_tool("calculator"), AsyncTool)
        assert ["response of cats, 1", 3.0] == [execute(world.registry, *one).result for one in CALLS[:2]]

    def test_error_handling(self, world: World, execute: Execute) -> None:
        """Error handling and error events: whatever goes wrong is a result and an event."""
        failed = execute(world.registry, "1", "broken", {"query": "cats"})
        unknown = execute(world.registry, "2", "telescope", {})
        wrong = execute(world.registry, "3", "calculator", {"expresion": "1"})

        assert (Outcome.TOOL_ERROR, "no cats here") == (failed.outcome, failed.error)
        assert (unknown.error or "").startswith("Tool 'telescope' not found")
        assert Outcome.INVALID_ARGUMENTS is wrong.outcome
        assert world.registry.journal is not None
        ends = [(one.tool_call_id, one.error) for one in world.registry.journal.events() if hasattr(one, "outcome")]
        assert [("1", failed.error), ("2", unknown.error), ("3", wrong.error)] == ends

    def test_unit_tests(self) -> None:
        """Unit tests for decorator, registry, and event replay: there are, beside this file and above it."""
        here = Path(__file__).parent
        assert {"class TestDecorator:", "class TestRegistry:"} <= set(
            (here / "test_pyworkflow.py").read_text().split("\n")
        )
        assert (here.parent / "guarantees" / "test_kill.py").exists()

    def test_integration(self, world: World) -> None:
        """Integration test: tool execution + replay, of an agent whose loop is run twice."""
        world.registry.assign_tool_to_agent("web_search", "researcher")
        world.registry.assign_tool_to_agent("calculator", "researcher")

        async def loop(registry: ToolRegistry) -> list[Any]:
            me = registry.agent("researcher")
            async with registry.run("research"):
                found = await me.acall("web_search", query="cats")
                asked = ToolCall("c", "calculator", json.dumps({"expression": f"{len(found)} * 2"}), "researcher")
                return [found, (await registry.aexecute(asked)).result]

        live = asyncio.run(loop(world.registry))
        again = world.again()
        again.registry.assign_tool_to_agent("web_search", "researcher")
        again.registry.assign_tool_to_agent("calculator", "researcher")

        assert live == asyncio.run(loop(again.registry))
        assert [] == again.ran
        again.registry.close()

    def test_documentation(self) -> None:
        """Documentation with examples: on every name that the seed uses, and pages that show tools and a run."""
        for name in ("tool", "ToolRegistry", "ToolDefinition", "ToolResult", "get_global_registry"):
            assert getattr(praval_tools, name).__doc__, name
        pages = [one.read_text() for one in (Path(__file__).parents[2] / "docs").rglob("*.md")]
        for shown in ("@tool", "registry.run("):
            assert any(shown in one for one in pages), shown

    @pytest.mark.parametrize(
        ("hint", "expected"),
        [
            (str, {"type": "string"}),
            (int, {"type": "integer"}),
            (float, {"type": "number"}),
            (bool, {"type": "boolean"}),
            (List[int], {"type": "array", "items": {"type": "integer"}}),  # noqa: UP006
            (Dict[str, float], {"type": "object", "additionalProperties": {"type": "number"}}),  # noqa: UP006
        ],
    )
    def test_schema(self, hint: Any, expected: dict[str, Any]) -> None:
        """JSON Schema generation from Python type hints (str, int, float, bool, List, Dict)."""

        def take(value: Any) -> str:
            """Take a value."""
            return str(value)

        take.__annotations__["value"] = hint
        made: Tool[..., Any] = tool(take)

        assert expected == made.definition.parameters["properties"]["value"]
