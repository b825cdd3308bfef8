"""Shared by the tests that test_fast_path was split into."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from enum import Enum
from functools import wraps
from typing import Any, Literal

from attrs import frozen
from hypothesis import strategies as st

from praval_tools import (
    ToolCallError,
    ToolRegistry,
    ToolResult,
)


class Colour(Enum):
    """A colour."""

    RED = "red"
    BLUE = "blue"


@frozen
class Point:
    """A place."""

    x: float
    y: float = 0.0


def two(x: float, y: float) -> float:
    """Divide, so that some calls raise."""
    return x / y


def many(a: int, b: str = "b", c: bool | None = None, d: list[int] | None = None) -> list[Any]:
    """Take several."""
    return [a, b, c, d]


def forms(point: Point, colour: Colour = Colour.RED, kind: Literal["a", "b"] = "a", when: date | None = None) -> str:
    """Take structured values."""
    return f"{point} {colour} {kind} {when}"


def extra(n: int, **more: int) -> int:
    """Take what comes."""
    return n + sum(more.values())


def exact(amount: Decimal) -> str:
    """Take a decimal."""
    return str(amount)


def none() -> None:
    """Take nothing."""


def hint(text: str = "password=hunter2", token: str = "") -> str:
    """Say what may be secret."""
    return f"{text} {token}"


FUNCTIONS = (two, many, forms, extra, exact, none, hint)


def later(function: Any) -> Any:
    """Return the same as a coroutine function."""

    @wraps(function)
    async def made(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return made


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.integers(), st.floats(), st.text(max_size=3),
    st.sampled_from(["3", "3.5", "true", "red", "a", "2020-02-30", "2020-02-29", "1e400", "NaN", " 3", "[1]", "{}"]),
)  # fmt: skip


values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyn") | st.text(max_size=2), inner),
    max_leaves=5,
)


NAMES = ("x", "y", "a", "b", "c", "d", "point", "colour", "kind", "when", "n", "m", "amount", "self", "name")


arguments = st.one_of(
    st.dictionaries(st.sampled_from(NAMES), values, max_size=4),
    st.fixed_dictionaries({"x": scalars, "y": scalars}),
    st.fixed_dictionaries({"a": scalars}, optional={"b": scalars, "c": scalars, "d": values}),
    st.fixed_dictionaries({"point": values}, optional={"colour": scalars, "kind": scalars, "when": scalars}),
    st.fixed_dictionaries({"n": scalars}, optional={"m": scalars, "k": scalars}),
    st.fixed_dictionaries({"amount": scalars}),
    st.fixed_dictionaries(
        {}, optional={"text": st.sampled_from(["", "token=abcd", '{"api_key": "abcd"}']), "token": scalars}
    ),
    values,
)


names = st.sampled_from([function.__name__ for function in FUNCTIONS])


def seen(result: ToolResult) -> tuple[Any, ...]:
    """Return what must not depend on the path."""
    decision = result.decision
    return (
        result.outcome, repr(result.result), result.error, result.error_type, result.repairs, result.attempts,
        decision and (decision.allowed, decision.rule, decision.reason), result.for_model(),
    )  # fmt: skip


def _called(registry: ToolRegistry, name: str, given_: dict[str, Any]) -> tuple[Any, ...]:
    try:
        return "value", repr(registry.agent("ann").call(name, **given_))
    except ToolCallError as error:
        return type(error).__mro__[:-2], str(error), type(error.__cause__)


def used(registry: ToolRegistry) -> dict[str, Any]:
    """Return how often which tool was used, and how that ended."""
    stats = registry.stats.get_agent_stats().get("ann", {})
    return {name: (one["uses"], one["outcomes"]) for name, one in stats.items()}
