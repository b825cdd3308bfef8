"""The order in which coroutines that run beside each other get recorded results of their calls."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import count
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from praval_tools.execution.event_loops import is_event_loop_running

if TYPE_CHECKING:
    import asyncio

    _Waiting: TypeAlias = list[tuple[int, int, asyncio.Future[None]]]

_PATIENCE: Final = 20
"""How many rounds of its loop a coroutine has to make its next call, which it may do by way of tasks of its own."""
_MAX_LATE: Final = 100
"""How many results may wait in vain for calls that were made before them; then the order is given up."""


class RepeatableCall(Protocol):
    """A recorded call."""

    was_requested: bool
    """Whether it was made again."""


class ReplayOrder:
    """
    Has coroutines wait for recorded results until what came before them has happened again.

    A recorded result is there at once, so that one coroutine would make all its calls before another made its first.
    Here results come in their order, and each after the calls that were made before it came: so coroutines find what
    they share in memory as it was, and calls by position their records.

    Args:
        calls: The recorded calls, each with the number of the last result that had come when it was made.
    """

    def __init__(self, calls: Iterable[tuple[int, RepeatableCall]]) -> None:
        self._calls, self._next = sorted(calls, key=itemgetter(0)), 0
        self._waiting: dict[asyncio.AbstractEventLoop, _Waiting] = {}
        self._numbers = count()
        self._late_count = 0

    @property
    def has_ended(self) -> bool:
        """Whether nobody waits, and no recorded call is left that was made before a result."""
        return self._next == len(self._calls) and not self._waiting

    async def wait(self, recorded_number: int | None) -> None:
        """
        Wait for the turn of a result.

        Args:
            recorded_number: The number of its record in the run; none for a new result, which comes after all others.
        """
        if not is_event_loop_running():
            return  # nobody else makes calls meanwhile
        import asyncio
        from heapq import heappush

        number = sys.maxsize if recorded_number is None else recorded_number
        loop = asyncio.get_running_loop()
        waiting = self._waiting.get(loop)
        is_first = waiting is None or number < waiting[0][0]
        if is_first and not self._lacks_call(number):
            return  # without a wait, as in the first life: what comes next may be the caller's next call
        future: asyncio.Future[None] = loop.create_future()
        if waiting is None:
            for ended in [other for other in list(self._waiting) if other.is_closed()]:
                self._waiting.pop(ended, None)
            waiting = self._waiting[loop] = []
            loop.call_soon(self._release, loop, waiting, 0)
        heappush(waiting, (number, next(self._numbers), future))
        await future

    def _release(self, loop: asyncio.AbstractEventLoop, waiting: _Waiting, rounds: int) -> None:
        """Release the results whose turn it is, or the first that waited in vain; go on in the loop's next round."""
        from heapq import heappop

        before, is_late = self._next, rounds > _PATIENCE
        while waiting and (is_late or not self._lacks_call(waiting[0][0])):
            future = heappop(waiting)[-1]
            if not future.done():  # else its caller was cancelled
                future.set_result(None)
                self._note_late(is_late=is_late)
                is_late, rounds = False, 0
        if waiting:
            loop.call_soon(self._release, loop, waiting, rounds + 1 if self._next == before else 0)
        else:
            del self._waiting[loop]

    def _note_late(self, *, is_late: bool) -> None:
        """Count the results that waited in vain; give up the order after many, as the program makes other calls now."""
        self._late_count += is_late
        if self._late_count > _MAX_LATE:
            self._next = len(self._calls)

    def _lacks_call(self, number: int) -> bool:
        """Tell whether a call was not made again that was made before the result."""
        calls, place = self._calls, self._next
        while place < len(calls) and calls[place][1].was_requested:
            place += 1
        self._next = max(self._next, place)  # which other loops move, too
        return place < len(calls) and calls[place][0] < number
