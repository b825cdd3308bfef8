"""Drives async generators of tools and agents, so that whoever drives one also ends it, in the same context."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable
from types import AsyncGeneratorType, coroutine
from typing import TypeVar

from praval_tools.tools.frames import Work

T = TypeVar("T")


def send_first(generator: AsyncGenerator[object, object], value: object) -> Awaitable[object]:
    """Begin an async generator that its driver alone ends: an event loop, or the collector, would do so as the host."""
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(firstiter=None, finalizer=_leave_to_driver)
    try:
        return generator.asend(value)
    finally:
        sys.set_asyncgen_hooks(*hooks)


def _leave_to_driver(generator: object) -> None:
    pass


async def read_items(items: AsyncIterable[object]) -> list[object]:
    """Return the items of what a tool gave."""
    iterator, read = aiter(items), list[object]()
    try:
        if type(iterator) is AsyncGeneratorType:
            read.append(await await_step(send_first(iterator, None)))
        while True:
            read.append(await await_step(anext(iterator)))
    except StopAsyncIteration:
        return read


async def await_step(step: Awaitable[T]) -> T:
    """
    Await a step of an async iterator; where the coroutine that awaits it is closed, the generator ends, too.

    Python 3.11 closes the step alone, and what the generator waits in ends later, in the context of whoever drops it.
    """
    value: T = await _throw_all_into(step.__await__())
    return value


@coroutine
def _throw_all_into(step: Work) -> Work:
    resume, value = step.send, None
    while True:
        try:
            waiting = resume(value)
        except StopIteration as end:
            return end.value
        try:
            resume, value = step.send, (yield waiting)
        except BaseException as error:  # `yield from` would close it where this is the end of the coroutine
            resume, value = step.throw, error
