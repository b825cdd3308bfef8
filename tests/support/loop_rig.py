"""A registry with recorded tools, and one way to run a loop in sync, async and streamed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from praval_tools import ToolRegistry
from praval_tools.loop import LoopEnded, LoopResult, ToolLoop

RAN: list[Any] = []


@pytest.fixture
def registry() -> Iterator[ToolRegistry]:
    """A registry with a journal and a tool that adds; the arguments of its calls are in `RAN`."""
    RAN.clear()
    with ToolRegistry(journal="memory") as registry:
        registry.tool("add", shared=True)(add)
        registry.tool("post", shared=True, requires_approval=True)(post)
        yield registry


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
    """Run a loop in sync or async code, streamed or not."""

    def run_loop(loop: ToolLoop, prompt: Any = "Go.", run_id: str | None = None) -> LoopResult:
        if request.param == "sync":
            return loop.run(prompt, run_id)
        if request.param == "async":
            return asyncio.run(loop.arun(prompt, run_id))
        if request.param == "stream":
            *_, last = loop.stream(prompt, run_id)
        else:

            async def read() -> Any:
                return [event async for event in loop.astream(prompt, run_id)]

            *_, last = asyncio.run(read())
        assert isinstance(last, LoopEnded)
        return last.result

    return run_loop


Run = Callable[..., LoopResult]
