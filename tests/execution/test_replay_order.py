"""Coroutines beside each other get recorded results in their order, each after the calls that were made before it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import attrs
import pytest

from praval_tools.execution.replay_order import ReplayOrder


@attrs.define
class Call:
    """A recorded call."""

    was_requested: bool = True


def release(calls: Iterable[tuple[int, Call]], *numbers: int | None) -> list[int | None]:
    """Return the order in which results reach those who wait for them in this order."""
    order, released = ReplayOrder(calls), list[int | None]()

    async def wait(number: int | None) -> None:
        await order.wait(number)
        released.append(number)

    async def main() -> None:
        await asyncio.gather(*map(wait, numbers))

    asyncio.run(main())
    return released


def test_come_in_their_order() -> None:
    """Whoever asks first."""
    assert [2, 3, 5, 9] == release([(0, Call(was_requested=False))], 5, 2, 9, 3)


def test_that_are_new_come_last() -> None:
    """In the next life they are recorded after the others."""
    assert [2, 5, None, None] == release([(0, Call(was_requested=False))], None, 5, None, 2)


def test_that_come_next_are_there_at_once() -> None:
    """The caller makes its next call before another coroutine does, as it did where nothing had to be waited for."""
    assert [5, 2] == release([(0, Call())], 5, 2)


def test_come_after_the_calls_that_were_made_before() -> None:
    """A coroutine that comes to its next call by way of tasks of its own makes it before the next result comes."""
    next_call = Call(was_requested=False)
    order, seen = ReplayOrder([(1, next_call)]), list[str]()

    async def make_next_call() -> None:
        await order.wait(1)
        for _ in range(3):
            await asyncio.create_task(asyncio.sleep(0))
        next_call.was_requested = True
        seen.append("call")

    async def wait() -> None:
        await order.wait(2)
        seen.append("result")

    async def main() -> None:
        await asyncio.gather(wait(), make_next_call())

    asyncio.run(main())
    assert ["call", "result"] == seen


@pytest.mark.parametrize("count", [1, 1_000])
def test_do_not_wait_for_calls_that_nobody_makes_again(count: int) -> None:
    """A program that has changed, or that waits for something else before its next call, goes on."""
    assert [1, 2, 3] == release([(1, Call(was_requested=False)) for _ in range(count)], 3, 1, 2)


def test_of_cancelled_callers_hold_up_nobody() -> None:
    """Nor does a loop that ended while somebody waited in it."""
    order = ReplayOrder([(1, Call(was_requested=False))])

    async def cancel() -> None:
        first = asyncio.create_task(order.wait(2))
        await asyncio.sleep(0)
        first.cancel()
        await order.wait(3)

    async def leave() -> None:
        asyncio.get_running_loop().create_task(order.wait(2))
        await asyncio.sleep(0)

    for work in (cancel, leave, cancel):
        asyncio.run(work())


def test_of_several_loops() -> None:
    """Threads whose loops wait for results of one run hold up none of each other."""
    order = ReplayOrder([(number, Call()) for number in range(2_000)])

    async def wait() -> None:
        await asyncio.gather(*map(order.wait, range(2_000)))

    with ThreadPoolExecutor(3) as threads:
        for done in [threads.submit(asyncio.run, wait()) for _ in range(3)]:
            done.result(60)


def test_without_a_loop() -> None:
    """Code that drives coroutines itself gets them at once."""
    with pytest.raises(StopIteration):
        ReplayOrder([(0, Call(was_requested=False))]).wait(5).send(None)
