"""The order in which the calls of a batch find their records and begin new ones, though threads make them at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from threading import Event
from typing import Final

from praval_tools.tools.context_settings import ContextSetting, use_setting


class Turn:
    """
    The turn of one call of a batch.

    Args:
        previous: That of the call before it.
        release_thread: Lets another thread replace this one while it waits.
    """

    __slots__ = ("_is_taken", "_previous", "_release_thread", "is_over")

    def __init__(self, previous: Turn | None, release_thread: Callable[[], AbstractContextManager[None]]) -> None:
        self._previous, self._release_thread = previous, release_thread
        self.is_over, self._is_taken = Event(), False

    def take(self) -> bool:
        """Take it for the call that it is of, which comes first in its context; False for the calls inside of that."""
        was_taken, self._is_taken = self._is_taken, True
        return not was_taken

    def wait(self) -> None:
        """Wait until it is the turn of this call."""
        if (previous := self._previous) is not None:
            if not previous.is_over.is_set():
                with self._release_thread():
                    previous.is_over.wait()
            self._previous = None

    def end(self) -> None:
        """Let the next call have its turn, once all before this one had theirs."""
        self.wait()
        self.is_over.set()


_current_turn: Final = ContextSetting[Turn]()


def give_turns(
    indexes: Sequence[int], run_call: Callable[[int], None], release_thread: Callable[[], AbstractContextManager[None]]
) -> Callable[[int], None]:
    """
    Return *run_call* so that records are found, or begun, in the order of *indexes*: equal calls find their own.

    Args:
        indexes: The calls.
        run_call: Runs one of them.
        release_thread: Lets another thread replace this one while it waits.
    """
    turns: dict[int, Turn] = {}
    previous: Turn | None = None
    for index in indexes:
        previous = turns[index] = Turn(previous, release_thread)

    def run_in_turn(index: int) -> None:
        turn = turns[index]
        try:
            with use_setting(_current_turn, turn):
                run_call(index)
        finally:
            turn.end()

    return run_in_turn


def take_turn() -> Turn | None:
    """Return the turn of the call of a batch that this context makes; None for other calls, and those inside of it."""
    turn = _current_turn.get()
    return turn if turn is not None and turn.take() else None
