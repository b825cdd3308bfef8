"""Keys, items and classes in what a tool returned run no code as whoever passes it to a tool with another hint."""

# Tests of: schema/data_classes, schema/scalars, schema/json_values, schema/dict_keys
# Tests of: schema/codegen, tools/implementation

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import attrs
import pytest
from annotated_types import Ge, MinLen
from pydantic import BaseModel
from watchers import Odd, WatchedClass, actors, make_watcher

from praval_tools import Tool, ToolCall, ToolError, ToolRegistry

Word, Number, Pair, Group = map(make_watcher, (str, int, tuple, frozenset))


@dataclass
class Data:
    amount: float = 1


@attrs.define
class Attributes:
    amount: float = 1


class Typed(TypedDict):
    amount: float


class Named(NamedTuple):
    amount: float


class Model(BaseModel):
    amount: float = 1


@dataclass(frozen=True)
class Outer:
    inner: Data
    many: tuple[Data, ...] = ()


class Colour(Enum):
    RED = "red"
    TWO = 2


HINTS: dict[str, Any] = {
    "dataclass": Data, "attrs": Attributes, "TypedDict": Typed, "NamedTuple": Named, "model": Model, "outer": Outer,
    "list": list[Data], "dict": dict[str, Data], "optional": Data | None, "union": Data | Attributes,
    "many classes": Outer | list[Data] | Model, "Literal": Literal["amount", 2], "Enum": Colour, "texts": list[Colour],
    "set": set[Colour], "set of texts": set[str], "keys": dict[Colour, int], "numbers": dict[int, int],
    "flags": dict[bool, int], "dates": dict[date, int], "items": tuple[Colour, int], "bounded": Annotated[int, Ge(1)],
    "long": Annotated[list[Any], MinLen(1)], "Any": Any, "plain dict": dict, "number": int, "bytes": bytes,
}  # fmt: skip
KEYS: dict[str, Callable[[], Any]] = {
    "text": lambda: Word("amount"), "flag": lambda: Word("true"), "object": lambda: Odd("amount"),
    "number": lambda: Number(2), "tuple": lambda: Pair(("a",)), "frozenset": lambda: Group(["a"]),
    "metaclass": WatchedClass("Value", (), {"__hash__": lambda self: 1}),
}  # fmt: skip
SHAPES: dict[str, Callable[[Any], Any]] = {
    "itself": lambda key: key,
    "key": lambda key: {key: 1},
    "second key": lambda key: {"amount": 1, key: 1},
    "item": lambda key: [key, 1],
    "key in a list": lambda key: [{key: 1}, {key: 1}],
    "key in a dict": lambda key: {"inner": {key: 1}, "many": [{key: 1}]},
    "member": lambda key: {"amount": key},
    "key of a member": lambda key: {"amount": {key: 1}},
}
WAYS: dict[str, Callable[[ToolRegistry, Any], object]] = {
    "call": lambda registry, found: registry.agent("ann").call("take", x=found),
    "acall": lambda registry, found: asyncio.run(registry.agent("ann").acall("take", x=found)),
    "execute": lambda registry, found: registry.execute(ToolCall("1", "take", {"x": found}, "ann")).for_model(),
    "by nobody": lambda registry, found: registry.execute_tool("take", x=found),
    "explain": lambda registry, found: registry.explain("ann", "take", {"x": found}),
    "more": lambda registry, found: registry.agent("ann").call("take_more", y=found),
    "run_raw": lambda registry, found: get_tool(registry).run_raw({"x": found}),
}


def get_tool(registry: ToolRegistry) -> Tool[..., Any]:
    tool = registry.get_tool("take")
    assert tool is not None
    return tool


def make_registry(hint: Any, journal: str | None) -> ToolRegistry:
    registry = ToolRegistry(journal=journal)

    def take(x: Any) -> None:
        """Take it."""

    def take_more(**more: Any) -> None:
        """Take it."""

    take.__annotations__["x"] = take_more.__annotations__["more"] = hint
    registry.tool("take", shared=True)(take)
    registry.tool("take_more", shared=True)(take_more)
    return registry


@pytest.mark.parametrize(
    ("journal", "way"), [*((None, way) for way in WAYS), ("memory", "call"), ("memory", "execute")]
)
@pytest.mark.parametrize("hint", HINTS)
def test_run_no_code(hint: str, way: str, journal: str | None) -> None:
    """Broken promise: keys of a dict hashed, compared and showed themselves as the agent that passed it on."""
    with make_registry(HINTS[hint], journal) as registry:
        for key, make_key in KEYS.items():
            for shape, make_shape in SHAPES.items():
                found = make_shape(make_key())
                actors.clear()
                with suppress(ToolError):
                    WAYS[way](registry, found)
                assert [] == [actor for actor in actors if not actor.startswith("tool:")], (key, shape)
