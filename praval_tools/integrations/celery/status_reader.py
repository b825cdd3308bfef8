"""Reads from the store how far the calls are that workers run: one thread for all calls of a registry."""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Final

from praval_tools.errors import JournalError
from praval_tools.journal.storage.worker_calls import CallState, CallStatus, WorkerCallTable

_PAUSES: Final = ((0.1, 0.002), (2.0, 0.01), (float("inf"), 0.05))
"""By the age of the youngest call in seconds: how long the reader pauses between two looks."""
_PAUSE_PER_CALL: Final = 0.0003
"""The pause is at least so many seconds for each call that is looked for: many answers are read at once then."""
_PAUSE_AFTER_ERROR: Final = 0.5
_CLOSE_SECONDS: Final = 5.0
"""How long `close` waits for what the thread does at that moment."""


class WatchedCall:
    """A call whose progress is looked for; `wait` hands over each change of it once."""

    def __init__(self, call_id: str) -> None:
        self.id = call_id
        self._changes: SimpleQueue[CallStatus | None] = SimpleQueue()
        self._last: CallStatus | None = None

    def take(self, status: CallStatus) -> None:
        """Take what was read, where it is news."""
        if status != self._last:
            self._last = status
            self._changes.put(status)

    def wake(self) -> None:
        """End the waiting, once, without a change."""
        self._changes.put(None)

    def wait(self, seconds: float) -> CallStatus | None:
        """Return the next change; None: there is none until *seconds* have passed, or somebody ended the waiting."""
        try:
            return self._changes.get(timeout=max(seconds, 0))
        except Empty:
            return None


class StatusReader:
    """
    Reads how far calls are while somebody waits for one.

    Args:
        table: Where they are.
    """

    def __init__(self, table: WorkerCallTable) -> None:
        self._table = table
        self._lock = threading.RLock()  # entered itself: an interrupt may come inside of `Condition.__enter__`
        self._condition = threading.Condition(self._lock)
        self._calls: dict[str, WatchedCall] = {}
        self._ended: list[str] = []
        self._thread: threading.Thread | None = None
        self._begun = 0.0

    def watch(self, call_id: str) -> WatchedCall:
        """Look for the progress of a call from now on."""
        watched = WatchedCall(call_id)
        with self._lock:
            self._calls[call_id] = watched
            before, self._begun = self._begun, monotonic()
            if self._begun - before > _PAUSES[0][0]:  # else it looks soon anyway
                self._condition.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="praval-tools-workers", daemon=True)
                self._thread.start()
        return watched

    def forget(self, call_id: str) -> None:
        """Look for it no more; it is deleted soon."""
        with self._lock:
            self._calls.pop(call_id, None)
            self._ended.append(call_id)

    def close(self) -> None:
        """Wait for the thread, which ends with the last call: after the store is closed, it must not read there."""
        with self._lock:
            thread = self._thread
            self._condition.notify()
        if thread is not None:
            thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._calls and not self._ended:
                    self._thread = None
                    return
                watched, ended, self._ended = dict(self._calls), self._ended, []
            try:
                if ended:
                    self._table.delete(ended)  # where it fails, workers delete them some day
                found = {status.id: status for status in self._table.read(list(watched))}
            except JournalError:  # it may be back before the time of a call is over, which says so
                pause = _PAUSE_AFTER_ERROR
            else:
                pause = self._get_pause(len(watched)) if watched else 0
                for call_id, call in watched.items():
                    call.take(found.get(call_id) or CallStatus(call_id, CallState.GIVEN_UP, is_lost=True))
            with self._lock:
                self._condition.wait(pause)

    def _get_pause(self, call_count: int) -> float:
        age = monotonic() - self._begun
        return max(next(pause for limit, pause in _PAUSES if age < limit), call_count * _PAUSE_PER_CALL)
