"""Time and ids for what is recorded; whoever records is handed a `Clock`, so that tests can set it."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from random import Random
from typing import Protocol


class Clock(Protocol):
    """Where a registry takes time and ids from; tests pass their own."""

    def now(self) -> datetime:
        """Return the present moment, with the UTC time zone."""

    def monotonic(self) -> float:
        """Return seconds from an arbitrary start that never go back, for durations."""

    def new_id(self) -> str:
        """Return an id that no other call, grant or event has; best one that sorts behind those made before."""


_random = Random(os.urandom(32))  # noqa: S311  # ids are unique, and hide nothing
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _random.seed(os.urandom(32)))


class SystemClock:
    """
    The machine's clock, and ids that begin with the time: 64 bits of nanoseconds, 64 random ones.

    So those of calls that are made one after the other lie side by side in an index, and a group of them changes few
    pages of the store, where random ones would each change one of their own.
    """

    __slots__ = ()

    def now(self) -> datetime:
        return datetime.now(UTC)

    monotonic = staticmethod(time.perf_counter)

    def new_id(self) -> str:
        return (time.time_ns() << 64 | _random.getrandbits(64)).to_bytes(16, "big").hex()
