"""The order in which the calls of a batch find their records and begin new ones, though threads make them at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from threading import Event
from typing import Final

from praval_tools.tools.context_settings import ContextSetting, use_setting


class Turn:
    """
    The turn of one call of a batch.

    Args:
        previous: That of the call before it; None for the first one.
        release_thread: Lets another thread replace this one while it waits.
    """

    __slots__ = ("_end", "_previous", "_release_thread", "is_taken")

    def __init__(
        self, previous: Turn | None, release_thread: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        self._previous, self._release_thread = previous, release_thread
        self._end, self.is_taken = Event(), False

    @property
    def is_over(self) -> bool:
        """Whether the next call may have its turn."""
        return self._end.is_set()

    def wait(self) -> None:
        """Wait until it is the turn of this call."""
        if self._previous is not None:
            self._previous.wait_for_end(self._release_thread)
            self._previous = None

    def wait_for_end(self, release_thread: Callable[[], AbstractContextManager[None]]) -> None:
        """Wait until it is over."""
        if not self.is_over:
            with release_thread():
                self._end.wait()

    def end(self) -> None:
        """Let the next call have its turn, once all before this one had theirs."""
        self.wait()
        self._end.set()


NO_TURN: Final = Turn(None)
"""That of a call that waits for no other."""
NO_TURN.end()

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


def take_turn() -> Turn:
    """Return the turn of the call of a batch that this context makes; others, and calls inside of it, have none."""
    turn = _current_turn.get()
    if turn is None or turn.is_taken:
        return NO_TURN
    turn.is_taken = True
    return turn
