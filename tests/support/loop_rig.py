"""A registry with recorded tools, and one way to run a loop in sync, async and streamed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from praval_tools import (
    ToolRegistry,
)
from praval_tools.loop import (
    LoopEnded,
    LoopResult,
    ToolLoop,
)

RAN: list[Any] = []


@pytest.fixture
def registry() -> Iterator[ToolRegistry]:
    """A registry with a journal and a tool that adds; what ran is in `RAN`."""
    RAN.clear()
    with ToolRegistry(journal="memory") as made:
        made.tool("add", shared=True)(add)
        made.tool("post", shared=True, requires_approval=True)(post)
        yield made


def add(x: int, y: int = 0) -> int:
    """Add two numbers."""
    RAN.append((x, y))
    return x + y


def post(text: str) -> str:
    """Post a text."""
    RAN.append(text)
    return f"posted {text}"


@pytest.fixture(params=["sync", "async", "stream", "astream"])
def run(request: pytest.FixtureRequest) -> Callable[..., LoopResult]:
    """Runs a loop in one of the four ways."""

    def by(loop: ToolLoop, prompt: Any = "Go.", run_id: str | None = None) -> LoopResult:
        if request.param == "sync":
            return loop.run(prompt, run_id)
        if request.param == "async":
            return asyncio.run(loop.arun(prompt, run_id))
        if request.param == "stream":
            *_, last = loop.stream(prompt, run_id)
        else:

            async def read() -> Any:
                return [one async for one in loop.astream(prompt, run_id)]

            *_, last = asyncio.run(read())
        assert isinstance(last, LoopEnded)
        return last.result

    return by


Run = Callable[..., LoopResult]
