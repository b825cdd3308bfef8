# Tests of: frames
"""What a function returns ends alike on every way to call it, and its code runs without anybody's rights."""

from __future__ import annotations

import asyncio
import functools
import json
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from praval_tools import NotOwnerError, Outcome, Tool, ToolCall, ToolExecutionError, ToolRegistry
from praval_tools.formats import result_message


async def fetch() -> int:
    """Fetch."""
    return 1


async def count_up() -> AsyncIterator[int]:
    """Count."""
    yield 1
    yield 2


def forget() -> int:
    """Forget to await."""
    return fetch()  # type: ignore[return-value]


async def forget_inside() -> int:
    """Forget to await."""
    return fetch()  # type: ignore[return-value]


@functools.wraps(count_up)
def wrap_generator() -> Any:
    """Wrap."""
    return count_up()


@functools.wraps(count_up)
async def wrap_generator_async() -> Any:
    """Wrap."""
    return count_up()


class Waits:
    def __await__(self) -> Iterator[Any]:
        return iter(())


def return_awaitable() -> dict[str, int]:
    """Return what only an await gives."""
    return Waits()  # type: ignore[return-value]


def square() -> list[int]:
    """Square."""
    return map(pow, [1, 2], [2, 2])  # type: ignore[return-value]


def pair_up() -> Any:
    """Pair."""
    return zip([1], [2], strict=True)


def generate() -> list[int]:
    """Generate."""
    return (number for number in [1, 2])  # type: ignore[return-value]


async def square_async() -> list[int]:
    """Square."""
    return map(pow, [1, 2], [2, 2])  # type: ignore[return-value]


REFUSED = [forget, forget_inside, wrap_generator, wrap_generator_async, return_awaitable]
COMPLETED: list[tuple[Callable[..., Any], list[Any]]] = [
    (square, [1, 4]), (pair_up, [(1, 2)]), (generate, [1, 2]), (square_async, [1, 4]), (count_up, [1, 2]),
]  # fmt: skip


def iter_outcomes(function: Callable[..., Any], journaled: bool) -> Iterator[tuple[str, Outcome, Any]]:
    """Yield each way to call a tool of this function, with its outcome and value."""
    for options in ({}, {"timeout": 5.0}, {"engine": "thread"}, {"concurrency_safe": False}):
        tool = Tool.from_function(function, "get", shared=True, **options)
        with ToolRegistry(journal="memory") if journaled else ToolRegistry() as registry:
            registry.register_tool(tool)
            tools = registry.agent("intern").tools
            if options != {"engine": "thread"} or not tool.is_async:
                ways: dict[str, Callable[[], Any]] = {
                    "call": lambda: tools.call("get"),
                    "acall": lambda: asyncio.run(tools.acall("get")),
                    "bound": lambda: tools["get"](),
                    "run_raw": lambda: tool.run_raw({}),
                    "arun_raw": lambda: asyncio.run(tool.arun_raw({})),
                }
                for way, run in ways.items():
                    try:
                        value = run()
                        value = asyncio.run(value) if asyncio.iscoroutine(value) else value
                        yield f"{way} {options}", Outcome.OK, value
                    except Exception as error:
                        assert "await" in str(error)
                        yield f"{way} {options}", Outcome.TOOL_ERROR, None
            call = ToolCall("1", "get", {}, "intern")
            for result in (
                registry.execute(call),
                asyncio.run(registry.aexecute(call)),
                *registry.execute_batch([call, call]),
            ):
                yield f"result {options}", result.outcome, result.result


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize("journaled", [False, True], ids=["plain", "journaled"])
class TestEveryWay:
    @pytest.mark.parametrize("function", REFUSED, ids=lambda function: function.__name__)
    def test_a_forgotten_await_is_an_error_of_the_tool(self, function: Callable[..., Any], journaled: bool) -> None:
        """
        Broken promise: one pipeline for every path; a forgotten `await` was `ok` on one way and an error on another.
        """
        outcomes = list(iter_outcomes(function, journaled))

        assert [(way, Outcome.TOOL_ERROR, None) for way, _, _ in outcomes] == outcomes

    @pytest.mark.parametrize(("function", "value"), COMPLETED, ids=lambda one: getattr(one, "__name__", ""))
    def test_iterators_are_read_into_a_list(self, function: Callable[..., Any], value: Any, journaled: bool) -> None:
        """
        Broken promise: what the caller gets is what is recorded; the journal emptied the iterator of the caller.
        """
        outcomes = list(iter_outcomes(function, journaled))

        assert [(way, Outcome.OK, value) for way, _, _ in outcomes] == outcomes


class TestJsonCalls:
    """`call_json` and `acall_json` end as the other ways do."""

    @pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
    @pytest.mark.parametrize("arguments", ["{}", " { } "], ids=["plain", "spaced"])
    @pytest.mark.parametrize("function", REFUSED, ids=lambda function: function.__name__)
    def test_a_forgotten_await_is_an_error_of_the_tool(self, function: Callable[..., Any], arguments: str) -> None:
        """What only an await gives has no JSON text."""
        with ToolRegistry() as registry:
            registry.register_tool(Tool.from_function(function, "get", shared=True))
            tools = registry.agent("intern").tools

            for run in (tools.call_json, lambda *given: asyncio.run(tools.acall_json(*given))):
                with pytest.raises(ToolExecutionError, match="await"):
                    run("get", arguments)

    @pytest.mark.parametrize(("function", "value"), COMPLETED, ids=lambda one: getattr(one, "__name__", ""))
    def test_iterators_are_read_into_a_list(self, function: Callable[..., Any], value: list[Any]) -> None:
        """The text is that of the list."""
        with ToolRegistry() as registry:
            registry.register_tool(Tool.from_function(function, "get", shared=True))
            tools = registry.agent("intern").tools
            texts = [tools.call_json("get", "{}"), asyncio.run(tools.acall_json("get", "{}"))]

        assert [json.loads(json.dumps(value))] * 2 == [json.loads(text) for text in texts]


class TestRecordedValues:
    def test_iterators_inside_of_a_value_are_recorded_as_they_are_returned(self) -> None:
        """Live and replayed values are equal where iterators are inside of lists and dicts."""
        registry = ToolRegistry(journal="memory")

        @registry.tool(shared=True)
        def get() -> dict[str, Any]:
            """Get."""
            return {"rows": map(str, [1, 2]), "more": [iter([3])]}

        with registry.run("r"):
            live = registry.execute(ToolCall("1", "get", {}, "intern"))
            replayed = registry.execute(ToolCall("1", "get", {}, "intern"))

        assert {"rows": ["1", "2"], "more": [[3]]} == live.result == replayed.result
        assert replayed.replayed


def make_values(registry: ToolRegistry, attempts: list[str]) -> list[Any]:
    """Return values whose own code tries to take rights, as nobody but the operator may."""

    def take_rights() -> None:
        try:
            registry.share_tool("vault")
        except Exception as error:
            attempts.append(type(error).__name__)
        else:
            attempts.append("did it")

    class Table:
        def to_dicts(self) -> list[int]:
            take_rights()
            return [1]

    class Text(str):
        __slots__ = ()

        def isascii(self) -> bool:
            take_rights()
            return True

        def __str__(self) -> str:
            take_rights()
            return "text"

    class Rows(list[int]):
        def __iter__(self) -> Iterator[int]:
            take_rights()
            return iter([1])

    return [Table(), Text("text"), Rows([1]), {"inside": Table()}]


class TestCodeOfValues:
    @pytest.mark.parametrize("index", range(4))
    def test_code_of_a_value_never_speaks_as_the_operator(self, index: int) -> None:
        """
        Broken promise: a tool runs in the name of its caller; code of its value ran as the operator later on.
        """
        attempts: list[str] = []
        registry = ToolRegistry()
        registry.register_tool(Tool.from_function(fetch, "vault", owned_by="boss"))
        value = make_values(registry, attempts)[index]

        @registry.tool(shared=True)
        def get() -> Any:
            """Get."""
            return value

        result = registry.execute(ToolCall("1", "get", {}, "intern"))
        result.for_model()
        result.for_model(20)
        registry.agent("intern").tools.call_json("get", "{}")
        for api_format in ("openai-chat", "openai-responses", "anthropic", "gemini", "mcp"):
            result_message(api_format, result)

        assert "did it" not in attempts
        assert not registry.get_tool("vault").metadata.shared

    def test_code_of_a_value_does_not_become_the_operator(self) -> None:
        """Nor does it say that it is: what has no rights gets none by `as_operator`."""
        registry, refusals = ToolRegistry(), list[str]()

        class Values:
            def tolist(self) -> list[int]:
                with pytest.raises(NotOwnerError) as caught, registry.as_operator():
                    registry.share_tool("get")
                refusals.append(str(caught.value))
                return [1]

        @registry.tool(owned_by="intern")
        def get() -> Any:
            """Get."""
            return Values()

        assert "[1]" == registry.execute(ToolCall("1", "get", {}, "intern")).for_model()
        assert all("'tool:get' may not act as the operator" in text for text in refusals) and refusals

    def test_errors_of_a_value_are_texts(self) -> None:
        """Code of a value that ends the program is an error of the tool, also for `call_json`."""

        class Ends:
            def tolist(self) -> None:
                raise SystemExit(3)

        registry = ToolRegistry()

        @registry.tool(shared=True)
        def get() -> Any:
            """Get."""
            return Ends()

        assert "SystemExit" in registry.execute(ToolCall("1", "get", {}, "intern")).for_model()
        with pytest.raises(ToolExecutionError):
            registry.agent("intern").tools.call_json("get", "{}")


class HoldsAnything(BaseModel):
    rows: Any


class HoldsIterable(BaseModel):
    rows: Iterable[int]


@dataclass
class Rows:
    rows: Any


HOLDERS: dict[str, Callable[[Iterator[int]], Any]] = {
    "dataclass": Rows,
    "model": lambda rows: HoldsAnything(rows=[{"in": rows}]),
    "iterable of a model": lambda rows: HoldsIterable.model_construct(rows=rows),
    "model in a dataclass": lambda rows: Rows(HoldsAnything(rows=rows)),
    "ordered": lambda rows: OrderedDict(rows=rows),
    "deque": lambda rows: deque([rows]),
}


@pytest.mark.parametrize("name", HOLDERS)
class TestIteratorsThatStay:
    def test_nobody_empties_them(self, name: str) -> None:
        """Broken promise: who gets the value gets what is recorded; the journal, or a text for a model, emptied it."""
        registry = ToolRegistry()

        @registry.tool(shared=True)
        def get() -> Any:
            """Get."""
            return HOLDERS[name](iter([1, 2]))

        result = registry.execute(ToolCall("1", "get", {}, "intern"))

        assert "iterator" in result.for_model()
        assert "1, 2" in str(drain(result.result))

    def test_with_a_journal_they_are_an_error_of_the_tool(self, name: str) -> None:
        """What cannot be recorded without emptying it is refused, with its place."""
        registry = ToolRegistry(journal="memory")

        @registry.tool(shared=True)
        def get() -> Any:
            """Get."""
            return HOLDERS[name](iter([1, 2]))

        result = registry.execute(ToolCall("1", "get", {}, "intern"))

        assert Outcome.TOOL_ERROR is result.outcome
        assert "iterator" in str(result.error) and ("rows" in str(result.error) or "[0]" in str(result.error))


def drain(value: Any) -> Any:
    """Return *value* with its iterators read."""
    if isinstance(value, Iterator):
        return list(value)
    if isinstance(value, BaseModel | Rows):
        return drain(vars(value))
    if isinstance(value, dict):
        return {key: drain(item) for key, item in value.items()}
    return [drain(item) for item in value] if isinstance(value, list | deque) else value


def test_keys_that_are_one_text_in_json_are_refused() -> None:
    """Broken promise: no silent loss; of the keys 1 and "1" one was dropped."""
    registry = ToolRegistry()

    @registry.tool(shared=True)
    def get() -> Any:
        """Get."""
        return {"in": {1: "a", "1": "b"}}

    assert "$.in['1']: another key has the same text" in registry.execute(ToolCall("1", "get", {}, "ann")).for_model()
