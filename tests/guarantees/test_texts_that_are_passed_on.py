"""Texts and objects that a tool returned run no code as anybody else, wherever the host or an agent passes them on."""

# Tests of: registry/toolset, registry/dispatch, execution/batch, execution/limits, schema/json_input, tools/call

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any
from uuid import UUID

import pytest
from watchers import Odd, actors, make_watcher

from praval_tools import Agent, Outcome, ToolCall, ToolContext, ToolError, ToolRegistry, current_call

Text, Data, Buffer, Table = map(make_watcher, (str, bytes, bytearray, dict))


@pytest.fixture
def registry() -> ToolRegistry:
    """Return a registry in which bank and others may call a shared tool."""
    made = ToolRegistry()

    @made.tool("pay", owned_by="bank", shared=True)
    def pay(x: int = 1) -> int:
        """Pay."""
        return x

    actors.clear()
    return made


FOUND = {Text("x"): 1}

WAYS: dict[str, Callable[[ToolRegistry], object]] = {
    "call": lambda registry: registry.toolset("bank").call(Text("pay")),
    "acall": lambda registry: asyncio.run(registry.toolset("bank").acall(Text("pay"))),
    "call_json": lambda registry: registry.toolset("bank").call_json(Text("pay"), "{}"),
    "acall_json": lambda registry: asyncio.run(registry.toolset("bank").acall_json(Text("pay"), "{}")),
    "execute": lambda registry: registry.execute(ToolCall(Text("1"), Text("pay"), {}, Text("bank"))),
    "batch": lambda registry: registry.execute_batch([ToolCall(Text("1"), Text("pay"), {}, Text("bank"))]),
    "batch of one toolset": lambda registry: registry.toolset("bank").execute_batch([ToolCall(None, Text("pay"))] * 2),
    "async batch": lambda registry: asyncio.run(registry.aexecute_batch([ToolCall("1", Text("pay"), {}, "bank")] * 2)),
    "wrong batch": lambda registry: registry.execute_batch([Odd()]),  # type: ignore[list-item]
    "tool calls": lambda registry: registry.execute_tool_calls(
        [{"id": Text("1"), "function": {"name": Text("pay"), "arguments": Text("{}")}}], agent="bank"
    ),
    "limit": lambda registry: (
        registry.limits.set(tool=Text("pay"), per_minute=9), registry.toolset("bank").call("pay")
    ),
    "schemas": lambda registry: registry.get_schemas(Text("pay")),
    "add_tool": lambda registry: registry.agent("zoe").add_tool(Text("pay")),
    "run id": lambda registry: registry.execute(ToolCall("1", "pay", {}, "bank", Odd())),  # type: ignore[arg-type]
    "call id": lambda registry: registry.execute(ToolCall(Odd(), "pay", {}, "bank")),  # type: ignore[arg-type]
    "text": lambda registry: registry.execute(ToolCall("1", "pay", Text('{"x": 1}'), "bank")),
    "bytes": lambda registry: registry.execute(ToolCall("1", "pay", Data(b'{"x": 1}'), "bank")),
    "bytearray": lambda registry: registry.execute(ToolCall("1", "pay", Buffer(b'{"x": 1}'), "bank")),
    "explain": lambda registry: registry.explain(Text("bank"), Text("pay"), FOUND),
    "explain an unknown tool": lambda registry: registry.explain("bank", Text("pat")),
    "search": lambda registry: registry.search(Text("pay")),
    "grant": lambda registry: registry.grant("pay", Text("zoe"), reason=Text("r"), key=Text("k")),
    "block": lambda registry: registry.block(Text("pay"), Text("zoe")),
    "by tags": lambda registry: registry.disable_by_tags(any=[Text("slow")]),
    "transfer": lambda registry: registry.transfer_ownership(Text("pay"), Text("zoe")),
    "format": lambda registry: registry.get_schemas("pay", Text("mcp")),
    "nested": lambda registry: registry.execute(ToolCall("1", "pay", {"x": [Text("a"), Table(a=1)]}, "bank")),
    "JSON text": lambda registry: registry.toolset("bank").call_json("pay", Text('{"x": 1}')),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_by_the_host(registry: ToolRegistry, way: str) -> None:
    """Broken promise: names and arguments compared and measured themselves as the operator, or as the caller."""
    with suppress(ToolError):
        WAYS[way](registry)
    assert {"operator", "bank"}.isdisjoint(actors)


def test_run_ids_of_an_agent_are_no_keys_of_limits(registry: ToolRegistry) -> None:
    """Broken promise: the run of an agent's call was compared with those of all later calls, as their callers."""
    registry.limits.set(tool="pay", per_run=5)

    @registry.tool("attack", owned_by="mal")
    def attack() -> None:
        """Call with an object as the run."""
        registry.execute(ToolCall("1", "pay", {}, "mal", run_id=Odd()))  # type: ignore[arg-type]

    assert registry.execute(ToolCall("1", "attack", {}, "mal")).success
    actors.clear()
    for run in ("Odd", "R", "R"):
        assert registry.execute(ToolCall("1", "pay", {}, "bank", run_id=run)).success
    assert actors == []


def test_what_a_tool_reads_of_its_call_is_plain(registry: ToolRegistry) -> None:
    """Code of the tool that compares its run or id runs none of the caller's."""
    seen: list[object] = []

    @registry.tool("look", owned_by="bank", shared=True)
    def look() -> bool:
        """Look at the call."""
        call = current_call()
        assert call is not None
        seen.extend((call.run_id == "R", call.reason == "R", call.tool_call_id == "R"))
        return True

    call = ToolCall(Odd(), "look", {}, "mal", Odd(), reason=Odd())  # type: ignore[arg-type]
    for _ in range(2):
        assert registry.execute(call).success
    assert (seen, set(actors)) == ([False] * 6, {"tool:(repr)"})


def test_a_run_id_that_is_not_a_text_raises_nothing(registry: ToolRegistry) -> None:
    """Where the tool needs an approval, the call waits for one like any other."""
    registry.tool("send", shared=True, requires_approval=True, description="Send.")(lambda: 1)
    result = registry.execute(ToolCall("1", "send", {}, "bank", run_id=Odd()))  # type: ignore[arg-type]
    assert result.outcome is Outcome.APPROVAL_REQUIRED


@pytest.mark.parametrize("kind", ["sync", "async", "inside another agent"])
def test_keywords_of_a_context_manager_that_decorates(registry: ToolRegistry, kind: str) -> None:
    """Broken promise: Python built the keywords anew, as whoever calls what is decorated, and so hashed their names."""

    @contextmanager
    def visit(**options: int) -> Any:
        yield

    @asynccontextmanager
    async def avisit(**options: int) -> Any:
        yield

    make: Any = Agent(
        "mal", registry=registry, function=lambda: (avisit if kind == "async" else visit)(**{Text("a"): 1})
    )
    manager = make()
    actors.clear()

    @manager  # type: ignore[untyped-decorator]
    def work() -> int:
        return 5

    @manager  # type: ignore[untyped-decorator]
    async def awork() -> int:
        return 5

    if kind == "async":
        assert asyncio.run(awork()) == 5
    elif kind == "sync":
        assert work() == 5
    else:
        other: Any = Agent("bob", registry=registry, function=work)
        assert other() == 5
    assert set(actors) <= {"mal"}


class Tenant(str):
    """A text that is a value of the program."""

    @property
    def schema(self) -> str:
        """Return the schema of its tables."""
        return f"tenant_{self}"


def test_values_of_the_program_stay_as_they_are() -> None:
    """Dependencies, and a list that tools and program share, are handed to tools as they are."""
    registry, shared = ToolRegistry(), [Tenant("a")]

    @registry.tool("look", owned_by="ann")
    def look(context: ToolContext[Any]) -> str:
        """Look."""
        if isinstance(context.deps, list):
            context.deps.append("b")
            return "added"
        return str(context.deps.schema)

    call = ToolCall("1", "look", {}, "ann")
    assert registry.execute(call, deps=Tenant("x")).result == "tenant_x"
    assert registry.toolset("ann", deps=Tenant("y")).call("look") == "tenant_y"
    assert registry.execute(call, deps=shared).result == "added"
    assert shared == ["a", "b"]


def test_ids_that_are_not_texts_keep_calls_apart() -> None:
    """Two calls of a run with two UUIDs as ids are two calls."""
    with ToolRegistry(journal="memory") as registry:
        registry.tool("pay", owned_by="ann", description="Pay.")(lambda: 1)
        made: Any = ToolCall
        with registry.run("R") as run:
            results = [registry.execute(made(UUID(int=number), "pay", {}, "ann")) for number in (1, 2, 1)]
            ids = [call.tool_call_id for call in run.calls]
    assert [result.replayed for result in results] == [False, False, True]
    assert ids == [str(UUID(int=1)), str(UUID(int=2))]
