"""The order in which coroutines that run beside each other get recorded results of their calls."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    import asyncio

_PATIENCE: Final = 10
"""How many rounds of its loop a coroutine has to make its next call, which it may do by way of tasks of its own."""


class BegunCall(Protocol):
    """A recorded call, as far as its turn is concerned."""

    begun_number: int
    """The number in its run of the record with which it began."""
    was_requested: bool
    """Whether it was made again."""


class ReplayOrder:
    """
    Has coroutines wait for recorded results until what was recorded before has happened again.

    A recorded result is there at once, so that one coroutine would make all its calls before another made its first.
    Results that come in their order, each after the calls that began before it, let equal calls find their own records.

    Args:
        calls: The recorded calls.
    """

    def __init__(self, calls: Iterable[BegunCall]) -> None:
        self._calls, self._next = sorted(calls, key=lambda call: call.begun_number), 0
        self._queues: dict[asyncio.AbstractEventLoop, _Queue] = {}

    async def wait(self, number: int) -> None:
        """Wait for the turn of the result whose record has this number in the run."""
        import asyncio

        loop = asyncio.get_running_loop()
        queue = self._queues.get(loop)
        if queue is None:
            queue = self._queues[loop] = _Queue()
            loop.call_soon(self._release, loop, queue, 0)
        await queue.add(number, loop.create_future())

    def _release(self, loop: asyncio.AbstractEventLoop, queue: _Queue, rounds: int) -> None:
        """Release the first result if it is its turn; the rest follows in later rounds of the loop."""
        if not queue.is_busy and not self._lacks_call(queue.first_number):
            queue.release()
            rounds = 0
        elif rounds < _PATIENCE:
            rounds += 1
        elif queue.is_busy:
            queue.is_busy, rounds = False, 0
        else:  # nobody makes that call again, or only after something else
            self._next += 1
        if queue.is_empty:
            del self._queues[loop]
        else:
            loop.call_soon(self._release, loop, queue, rounds)

    def _lacks_call(self, number: int) -> bool:
        """Tell whether a call that began before the record with this number was not made again yet."""
        while self._next < len(self._calls) and self._calls[self._next].was_requested:
            self._next += 1
        return self._next < len(self._calls) and self._calls[self._next].begun_number < number


class _Queue:
    """What the coroutines of one loop wait for."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = count()
        self.is_busy = False
        """Whether the coroutine that got the last result may still be on its way to its next call."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is waited for."""
        return not self._waiting

    @property
    def first_number(self) -> int:
        """The number of the result that comes next."""
        return self._waiting[0][0]

    def add(self, number: int, future: asyncio.Future[None]) -> asyncio.Future[None]:
        """Return *future*, which ends when it is the turn of the result with this number."""
        self.is_busy = False
        heappush(self._waiting, (number, next(self._numbers), future))
        return future

    def release(self) -> None:
        """Let the caller of the first result go on."""
        future = heappop(self._waiting)[-1]
        if not future.done():  # else its caller was cancelled
            future.set_result(None)
            self.is_busy = True
