"""Limits how often somebody may try to log in: from one address, and in all."""

from __future__ import annotations

from typing import Final

from attrs import define

from praval_tools.clock import Clock

MAX_ATTEMPTS_OF_ADDRESS: Final = 10
"""How many wrong tokens may come from one address in a span."""
MAX_ATTEMPTS: Final = 100
"""How many may come from all addresses."""
SPAN_SECONDS: Final = 60.0
MAX_ADDRESSES: Final = 1_000
"""Of how many addresses attempts are counted at once; where there are more, the limit of all holds for them."""


@define
class _Count:
    began: float
    attempts: int = 0


class LoginLimits:
    """
    Counts attempts to log in; those that succeed are taken back.

    Args:
        clock: Tells when a span is over.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._all = _Count(clock.monotonic())
        self._addresses: dict[str, _Count] = {}

    def count_attempt(self, address: str) -> int:
        """
        Count an attempt, before anything is compared: attempts that come at once count one by one.

        Returns:
            0, or after how many seconds the next one is taken; this one is not.
        """
        now = self._clock.monotonic()
        if now - self._all.began >= SPAN_SECONDS:
            self._all = _Count(now)
        count = self._find_count(address, now)
        waits = [
            SPAN_SECONDS - (now - each.began)
            for each, limit in ((count, MAX_ATTEMPTS_OF_ADDRESS), (self._all, MAX_ATTEMPTS))
            if each.attempts >= limit
        ]
        if waits:
            return int(max(waits)) + 1
        count.attempts += 1
        self._all.attempts += 1
        return 0

    def take_back(self, address: str) -> None:
        """Forget an attempt: it succeeded."""
        for count in (self._all, self._addresses.get(address)):
            if count is not None and count.attempts:
                count.attempts -= 1

    @property
    def address_count(self) -> int:
        """Of how many addresses attempts are counted."""
        return len(self._addresses)

    def _find_count(self, address: str, now: float) -> _Count:
        count = self._addresses.get(address)
        if count is None or now - count.began >= SPAN_SECONDS:
            self._addresses.pop(address, None)
            count = self._addresses[address] = _Count(now)  # the last one: they stand in the order of their spans
            if len(self._addresses) > MAX_ADDRESSES:
                del self._addresses[next(iter(self._addresses))]
        return count
