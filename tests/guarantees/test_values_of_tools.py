"""What a tool raises or returns brings code of its own; nothing of it ever runs as the operator."""

# Tests of: tools/argument_copies, tools/compiled

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pydantic
import pytest
from bank_rig import bank_registry
from watchers import actors, make_watcher

from praval_tools import NotOwnerError, Outcome, RetryableToolError, ToolCall, ToolError, ToolInDoubtError, ToolRegistry
from praval_tools.tools.frames import get_current_actor

__all__ = ["bank_registry"]

WAYS = ("call", "acall", "execute", "aexecute", "batch", "abatch", "call_json", "text")


def make_faults(attack: Callable[[], None]) -> dict[str, Any]:
    """Return exceptions and values whose classes and attributes run *attack*."""

    class Meta(type):
        @property
        def __name__(cls) -> str:  # type: ignore[override]
            attack()
            return "Meta"

        def __hash__(cls) -> int:
            attack()
            return 1

    class Hashed(type):
        def __hash__(cls) -> int:
            attack()
            return 1

    class Named(Exception, metaclass=Meta):
        pass

    class Classed(Exception):
        @property
        def __class__(self) -> type:
            attack()
            return Exception

    class Retryable(RetryableToolError):
        @property
        def __class__(self) -> type:
            attack()
            return RetryableToolError

    class Read(OSError):
        def __getattribute__(self, name: str) -> Any:
            attack()
            return super().__getattribute__(name)

    class Items(list):  # type: ignore[type-arg]
        @property
        def __class__(self) -> type:
            attack()
            return str

    class DoubtError(ToolInDoubtError):
        @property
        def result(self) -> Any:
            attack()

        @property
        def code(self) -> str:  # type: ignore[override]
            attack()
            return "in-doubt"

        def __setattr__(self, name: str, value: object) -> None:
            if name == "result":
                attack()

    return {
        "metaclass": Named("x"), "class": Classed("x"), "retry": Retryable("x"), "attributes": Read(2, "x"),
        "doubt": DoubtError("x"),
        "value": Items([1]), "value of a metaclass": Hashed("Value", (), {})(),
    }  # fmt: skip


def use(registry: ToolRegistry, way: str, name: str) -> None:
    """Call the tool in one of the ways, as a program does, and look at the result."""
    toolset, call = registry.toolset("mal"), ToolCall("c", name, {}, "mal")
    if way == "call":
        toolset.call(name)
    elif way == "acall":
        asyncio.run(toolset.acall(name))
    elif way == "call_json":
        toolset.call_json(name, "{}")
    elif way == "batch":
        [result.for_model() for result in registry.execute_batch([call, ToolCall("d", name, {}, "mal")])]
    elif way == "abatch":
        asyncio.run(registry.aexecute_batch([call]))
    elif way == "aexecute":
        repr(asyncio.run(registry.aexecute(call)))
    else:
        result = registry.execute(call)
        result.for_model(10 if way == "execute" else None)
        repr(result)


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("engine", [None, "thread"])
@pytest.mark.parametrize("journaled", [False, True], ids=["plain", "journaled"])
@pytest.mark.parametrize(
    "kind", ["metaclass", "class", "retry", "attributes", "doubt", "value", "value of a metaclass"]
)
def test_code_of_what_tools_give(
    registry: ToolRegistry, kind: str, journaled: bool, engine: Any, is_async: bool, tmp_path: Path
) -> None:
    """Classes, attributes and texts of what a tool raises or returns run as the tool, on every way to call it."""
    refused: list[BaseException] = []

    def attack() -> None:
        try:
            registry.share_tool("victim")
        except NotOwnerError as error:
            refused.append(error)

    fault = make_faults(attack)[kind]

    def give() -> Any:
        """Give."""
        if kind.startswith("value"):
            return fault
        raise fault

    async def agive() -> Any:
        """Give."""
        return give()

    if journaled:
        registry.journal = str(tmp_path / "runs.db")
    declare = registry.tool("give", owned_by="mal", retries=int(kind == "retry"), engine=None if is_async else engine)
    declare(agive if is_async else give)
    registry._runtime.options = type(registry._runtime.options)(retry_wait=0.0)
    for way in WAYS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                use(registry, way, "give")
            except Exception as error:  # the typed error of the call
                assert "Error" in type(error).__name__

        assert not registry.get_tool("victim").metadata.shared, way  # type: ignore[union-attr]
    registry.close()


class Model(pydantic.BaseModel):
    """A result whose validator looks who runs."""

    x: int

    @pydantic.field_validator("x")
    @classmethod
    def look(cls, x: int) -> int:
        """Look who runs."""
        actors.append(get_current_actor())
        return x


@dataclass
class Data:
    """A result that looks who runs when it is made."""

    x: int

    def __post_init__(self) -> None:
        actors.append(get_current_actor())


class Rows:
    """A value that looks who runs when it is written."""

    def to_dicts(self) -> list[Any]:
        """Return no rows."""
        actors.append(get_current_actor())
        return []


class Text(str):
    """A text that looks who runs when it is written."""

    def __str__(self) -> str:
        actors.append(get_current_actor())
        return "text"


Word, Row, Table = map(make_watcher, (str, list, dict))


class Items(list):  # type: ignore[type-arg]
    """A list that looks who runs when it is read."""

    def __iter__(self) -> Any:
        actors.append(get_current_actor())
        return super().__iter__()


@pytest.mark.parametrize("way", ["call", "acall", "execute", "call_json"])
@pytest.mark.parametrize("made", [Model, Data])
def test_classes_of_replayed_results(way: str, made: type) -> None:
    """Code of the classes of a recorded result has no rights when it is read back."""
    with ToolRegistry(journal="memory") as registry:

        def give() -> Any:
            """Give."""
            return made(x=1)

        give.__annotations__["return"] = made
        registry.tool("give", shared=True)(give)
        for _ in range(2):
            actors.clear()
            with registry.run("R"):
                use(registry, way, "give")
            assert actors and "operator" not in actors


@pytest.mark.parametrize("journal", [None, "memory"])
@pytest.mark.parametrize(
    "value",
    [
        Rows(), Text("x"), Items([1]), {"a": [Rows()]}, [Text("x")], {Word("a"): [1]}, [{Word("a"): {Word("b"): [1]}}],
        Word("a"), Row([1]), Table(a=1), [Row([1])], {"a": Table(a=[1])},
    ],
    ids=[
        "rows", "text", "items", "rows inside", "text inside", "key", "key inside", "word", "row", "table",
        "row inside", "table inside",
    ],
)  # fmt: skip
@pytest.mark.parametrize("hint", [Any, str, list[Any], dict[str, int]], ids=str)
@pytest.mark.parametrize(
    "way", ["call", "execute", "in a run", "approval", "by nobody", "by nobody, with an id", "unknown", "whole"]
)
def test_values_that_are_passed_on(journal: str | None, value: Any, hint: Any, way: str) -> None:
    """A value that a tool returned, and the program passes to another tool, never runs its code as the operator."""
    with ToolRegistry(journal=journal) as registry:

        def take(x: Any) -> None:
            """Take it."""

        take.__annotations__["x"] = hint
        registry.tool("take", shared=True, requires_approval=way == "approval")(take)
        actors.clear()
        with registry.run("R") if way == "in a run" and journal else nullcontext(), suppress(ToolError):
            if way in ("call", "in a run"):
                registry.agent("mal").call("take", x=value)
            elif way == "by nobody":
                registry.execute_tool("take", x=value)
            elif way == "by nobody, with an id":
                registry.execute("1", "take", {"x": value})
            elif way == "unknown":
                registry.execute(ToolCall("1", "tale", {"x": value}, "mal"))
            elif way == "whole":
                registry.execute(ToolCall("1", "take", value, "mal"))
            else:
                registry.execute(ToolCall("1", "take", {"x": value}, "mal"))
        assert "operator" not in actors


def test_a_value_that_comes_late() -> None:
    """What a tool returns after its time-out is written as the tool."""
    entered, released = threading.Event(), threading.Event()
    with ToolRegistry(journal="memory") as registry:

        @registry.tool("slow", shared=True, timeout=0.3)
        def slow() -> Any:
            """Be slow."""
            entered.set()
            released.wait(10)
            return Rows()

        actors.clear()
        assert Outcome.TIMEOUT is registry.execute(ToolCall("1", "slow", {}, "mal")).outcome
        assert entered.wait(10)
        released.set()
        registry.drain(timeout=10)
    assert ["mal"] == actors


class Checked(type(pydantic.BaseModel)):  # type: ignore[misc]  # its own type has no public name
    """The class of a model that looks who runs when it is asked for its values."""

    def __instancecheck__(cls, value: object) -> bool:
        actors.append(get_current_actor())
        return bool(super().__instancecheck__(value))


class Report(pydantic.BaseModel, metaclass=Checked):
    """A model that looks who runs when it is described and when it reads a value."""

    x: int = 1

    @pydantic.model_validator(mode="before")
    @classmethod
    def look(cls, value: object) -> object:
        """Look who runs."""
        actors.append(get_current_actor())
        return value

    @classmethod
    def model_json_schema(cls, *args: Any, **keywords: Any) -> dict[str, Any]:
        """Look who runs, and return the schema."""
        actors.append(get_current_actor())
        return super().model_json_schema(*args, **keywords)


@pytest.mark.parametrize("journal", [None, "memory"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("hint", [Report, list[Report], dict[str, Report], Report | Data, Report | None], ids=str)
@pytest.mark.parametrize("value", [None, 1, "x", {"x": 1}, [None]], ids=str)
def test_values_of_another_type_than_declared(value: Any, hint: Any, way: str, journal: str | None) -> None:
    """Broken promise: the declared class checked a plain value as the operator, when that was written."""
    with ToolRegistry(journal=journal) as registry:

        def give() -> Any:
            """Give."""
            return value

        give.__annotations__["return"] = hint
        registry.tool("give", shared=True)(give)
        actors.clear()
        with suppress(ToolError):
            use(registry, way, "give")
    assert "operator" not in actors
