"""The order in which the calls of a batch find what was recorded of them, though threads make them at once."""

from __future__ import annotations

from threading import Event
from typing import Final

from praval_tools.tools.context_settings import ContextSetting


class Turn:
    """
    The turn of one call of a batch.

    Args:
        previous: That of the call before it.
    """

    __slots__ = ("_is_over", "_previous")

    def __init__(self, previous: Turn | None) -> None:
        self._previous, self._is_over = previous, Event()

    def wait(self) -> None:
        """Wait until it is the turn of this call."""
        if (previous := self._previous) is not None:
            previous._is_over.wait()
            self._previous = None

    def end(self) -> None:
        """Let the next call have its turn, once all before this one had theirs."""
        self.wait()
        self._is_over.set()


current_turn: Final = ContextSetting[Turn]()
"""The turn of the call that this context makes; over by the time that its tool is entered."""


def wait_for_turn() -> None:
    """Wait until the calls of its batch that come before the one of this context have found their records."""
    if (turn := current_turn.get()) is not None:
        turn.wait()


def end_turn() -> None:
    """Let the next call of the batch find its record: that of this context has found its own, or has none."""
    if (turn := current_turn.get()) is not None:
        turn.end()
