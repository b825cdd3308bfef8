"""The order in which the calls of a batch find their records and begin new ones, though threads make them at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Event
from typing import Final

from praval_tools.tools.context_settings import ContextSetting, use_setting


class _Turn:
    """
    The turn of one call of a batch.

    Args:
        previous: That of the call before it.
    """

    __slots__ = ("_previous", "is_over")

    def __init__(self, previous: _Turn | None) -> None:
        self._previous, self.is_over = previous, Event()

    def wait(self) -> None:
        """Wait until it is the turn of this call."""
        if (previous := self._previous) is not None:
            previous.is_over.wait()
            self._previous = None

    def end(self) -> None:
        """Let the next call have its turn, once all before this one had theirs."""
        self.wait()
        self.is_over.set()


_current_turn: Final = ContextSetting[_Turn]()


def give_turns(indexes: Sequence[int], run_call: Callable[[int], None]) -> Callable[[int], None]:
    """Return *run_call* so that records are found, or begun, in the order of *indexes*: equal calls find their own."""
    turns: dict[int, _Turn] = {}
    previous: _Turn | None = None
    for index in indexes:
        previous = turns[index] = _Turn(previous)

    def run_in_turn(index: int) -> None:
        turn = turns[index]
        try:
            with use_setting(_current_turn, turn):
                run_call(index)
        finally:
            turn.end()

    return run_in_turn


def has_turn() -> bool:
    """Tell whether it is the turn of the call of this context, or will be."""
    turn = _current_turn.get()
    return turn is not None and not turn.is_over.is_set()


def wait_for_turn() -> None:
    """Wait until the calls of its batch that come before the one of this context have their records."""
    if (turn := _current_turn.get()) is not None:
        turn.wait()


def end_turn() -> None:
    """Let the next call of the batch find its record: that of this context has its own, or needs none."""
    if (turn := _current_turn.get()) is not None:
        turn.end()
