"""Functions and classes that tools are made of, and helpers that make and call them."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from type_strategies import ask

from praval_tools import (
    Outcome,
    Tool,
    ToolDefinitionError,
    ToolDefinitionWarning,
)  # fmt: skip

if TYPE_CHECKING:
    pass  # type: ignore[import-not-found]


class Opaque:
    """A class without fields."""


class Counter:
    """Counts from a start."""

    def __init__(self, start: int) -> None:
        self.start = start

    def plus(self, step: int) -> int:
        """Add."""
        return self.start + step

    async def later(self, step: int) -> int:
        """Add later."""
        return self.start + step

    @staticmethod
    def twice(number: int) -> int:
        """Double."""
        return 2 * number

    @classmethod
    def named(cls, text: str) -> str:
        """Name."""
        return f"{cls.__name__} {text}"

    def __call__(self, step: int, *, times: int = 1) -> int:
        """Add many times."""
        return self.start + step * times


def add(first: int, second: int = 2) -> int:
    """Add."""
    return first + second


def no_hint(first, second: int) -> int:  # type: ignore[no-untyped-def]
    """Do."""


def opaque(first: Opaque) -> None:
    """Do."""


def refusal(make: Callable[[], object]) -> ToolDefinitionError:
    """Return the error of a definition that must be refused."""
    with warnings.catch_warnings(), pytest.raises(ToolDefinitionError) as caught:
        warnings.simplefilter("ignore", ToolDefinitionWarning)
        make()
    return caught.value


def ran(function: Any, arguments: dict[str, Any], **more: Any) -> Any:
    """Return the value of a call of a tool made of *function*."""
    result = ask(Tool.from_function(function, **more), arguments)
    assert Outcome.OK is result.outcome, result.error
    return result.result


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap *function*."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper
