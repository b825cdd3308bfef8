"""Clocks: the source of times and ids, which tests can replace."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Protocol

from praval_tools.forks import handle_forks

if TYPE_CHECKING:
    from random import Random


class Clock(Protocol):
    """The source of a registry's times and ids; tests pass their own."""

    def now(self) -> datetime:
        """Return the present moment, with the UTC time zone."""

    def monotonic(self) -> float:
        """Return seconds from an arbitrary start that never go back, for durations."""

    def new_id(self) -> str:
        """Return an id that no other call, grant or event has; best one that sorts after those made before."""


@cache
def _get_random() -> Random:
    """Return the source of the random bits of ids, which no two processes share; imported for the first id."""
    from random import Random

    source = Random(os.urandom(32))  # noqa: S311  # ids are unique, and hide nothing
    handle_forks(source, in_child=lambda source: source.seed(os.urandom(32)))
    return source


class SystemClock:
    """
    The machine's clock, and ids that begin with the time: 64 bits of nanoseconds, 64 random ones.

    Ids of successive calls are neighbours in an index, so that a group of them changes few pages of the store;
    random ones would change a page each.
    """

    __slots__ = ()

    def now(self) -> datetime:
        return datetime.now(UTC)

    monotonic = staticmethod(time.perf_counter)

    def new_id(self) -> str:
        return (time.time_ns() << 64 | _get_random().getrandbits(64)).to_bytes(16, "big").hex()
