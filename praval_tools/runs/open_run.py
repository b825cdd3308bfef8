"""A run that this process holds open, and the current run of a context."""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import Any, Final, NoReturn

from praval_tools.errors import JournalError, JournalWarning, ToolUsageError, get_user_stacklevel
from praval_tools.execution.replay_order import ReplayOrder
from praval_tools.forks import ForkSafeLock, first_use_property
from praval_tools.journal.process_name import get_process_name
from praval_tools.journal.replay import Recording
from praval_tools.journal.replay_entry import ReplayEntry
from praval_tools.journal.replay_turns import group_recorded_calls
from praval_tools.journal.storage.protocol import Lease
from praval_tools.names import format_count
from praval_tools.runs.calling_tasks import CallingTask, TaskReference, refer_to_task
from praval_tools.tools.context_settings import ContextSetting, use_setting


class Attempt:
    """
    One attempt of a call in a run.

    `lacks_call` tells whether a call from inside of it came too late, and was refused for that; `is_repeated` whether
    the call is made again, and so finds what this attempt did.

    Args:
        outer: The attempt from inside of which the call is made.
    """

    __slots__ = ("_first_task", "_is_given_up", "_outers", "_task", "is_repeated", "lacks_call")

    def __init__(self, outer: Attempt | None) -> None:
        self._outers, self._is_given_up = [outer], False
        self._task: TaskReference = refer_to_task()
        self._first_task: CallingTask | None = None
        self.lacks_call = self.is_repeated = False

    @property
    def first_task(self) -> CallingTask:
        """The task that runs it, of those that make calls inside of it."""
        if self._first_task is None:
            self._first_task = CallingTask(task=self._task)
        return self._first_task

    def make_next(self) -> Attempt:
        """Give it up, and return the next attempt of the same call, for which the same ones wait."""
        following = Attempt(None)
        following._outers, self._is_given_up = self._outers, True
        return following

    def give_up(self) -> None:
        """Note that nobody waits for it any more, while it may go on, or what it left behind."""
        self._is_given_up = True

    def add_outer(self, outer: Attempt | None) -> None:
        """Note that an equal call inside of *outer* waits for it, too; None: the program's own call."""
        if outer is None or not outer.is_inside(self):
            self._outers.append(outer)

    def is_inside(self, other: Attempt) -> bool:
        """Tell whether it is *other*, or inside of it."""
        return self is other or any(outer is not None and outer.is_inside(other) for outer in self._outers)

    @property
    def is_given_up(self) -> bool:
        """Whether it was given up, or everything around it."""
        return self._is_given_up or self.lacks_caller

    @property
    def lacks_caller(self) -> bool:
        """Whether all from inside of which its call was made were given up."""
        return all(outer is not None and outer.is_given_up for outer in self._outers)


class OpenRun:
    """
    A run that this process holds open.

    Args:
        recorder: The recorder of the registry.
        lease: Keeps other processes from opening the run.
        recording: The recorded calls of the run.
        event_count: How many events of the run are recorded.
        strict_fingerprint: Refuse recorded calls whose tool has changed.
    """

    def __init__(
        self, recorder: Any, lease: Lease, recording: Recording, event_count: int, *, strict_fingerprint: bool
    ) -> None:
        self.recorder, self.lease, self.recording = recorder, lease, recording
        self.run_id, self.strict_fingerprint = lease.run_id, strict_fingerprint
        self.process, self.closed = get_process_name(), False
        self.outer_run, self._outer_attempt, self._first_task = current_run.get(), current_attempt.get(), CallingTask()
        self._loops: dict[str, tuple[object, Attempt | None]] = {}  # by id: who has it, in which attempt of a call
        self._ended_loops: dict[str, Attempt | None] = {}
        self.last_position = 0
        """That of the call whose result reached its caller last."""
        self.attempts: dict[str, Attempt] = {}  # the last one by the id of a call
        self._loops_lock = ForkSafeLock()
        self.event_count, self._has_warned = event_count, False
        self.has_unawaited_writes = False
        self.active_calls: list[None] = []  # `append` and `pop` are atomic: `close` and a new call see each other

    def get_first_task(self) -> CallingTask:
        """Return the task that opened the run, or that runs the attempt of a call from inside of which it is asked."""
        attempt = current_attempt.get()
        return self._first_task if attempt is None or attempt is self._outer_attempt else attempt.first_task

    def find_replay_order(self, entry: ReplayEntry) -> ReplayOrder | None:
        """Return the order in which the code that made a call gets results; None where nothing recorded is left."""
        order = self._replay_orders.get(self.recording.find_outer_call(entry.parent_id))
        return None if order is None or order.has_ended else order

    @first_use_property
    def _replay_orders(self) -> dict[str | None, ReplayOrder]:
        """By the call inside of which that code runs: who works in another one makes no call that it could make."""
        return {outer_call: ReplayOrder(calls) for outer_call, calls in group_recorded_calls(self.recording).items()}

    def count_event(self) -> None:
        """Count an event that was recorded; warn once where there are unusually many."""
        self.event_count += 1
        limit = self.recorder.runtime.options.warn_run_events
        if self.event_count >= limit and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"Run {self.run_id!r} has {format_count(self.event_count, 'event')}, and most likely goes round in "
                f"circles; ToolRegistry(warn_run_events=…) sets when this is said.",
                JournalWarning,
                stacklevel=get_user_stacklevel(),
            )

    @property
    def is_full(self) -> bool:
        """Whether the run has as many events as it may have."""
        return self.event_count >= int(self.recorder.runtime.options.max_run_events)

    def close(self) -> None:
        """Take no more calls; the last active call releases the lease."""
        self.closed = True
        self.release_if_idle()

    def check_open(self, attempt: Attempt | None = None) -> None:
        """
        Check that a call may go on, which has put itself into `active_calls`.

        The caller enters itself there, removes itself and calls `release_if_idle` in a `try` of its own, since an
        interrupt may come before or after any function.

        Args:
            attempt: The last one of the call that goes on; None: the call begins, inside of that of this context.

        Raises:
            ToolUsageError: The run is not open here any more, or the call inside of which this is was given up.
        """
        if self.closed or self.process != get_process_name():
            note_late_call()
            self._raise_not_open()
        outer = current_attempt.get()
        if attempt.lacks_caller if attempt is not None else outer is not None and outer.is_given_up:
            note_late_call()
            raise ToolUsageError(
                "The call inside of which this one is made was given up: it ran out of time, was cancelled, or is "
                "made again. It makes no more calls in its run.",
                "call-given-up",
            )

    def take_loop(self, loop_id: str, taker: object) -> bool:
        """Take a loop, to go on with it; False: it goes on in other work, or ended in a call that is not made again."""
        with self._loops_lock:
            _, attempt = self._loops.get(loop_id, (None, None))
            is_free = loop_id not in self._loops or (attempt is not None and attempt.is_given_up)
            ended = self._ended_loops.get(loop_id)
            if not is_free or (loop_id in self._ended_loops and (ended is None or not ended.is_repeated)):
                return False
            self._ended_loops.pop(loop_id, None)
            self._loops[loop_id] = taker, current_attempt.get()
            return True

    def leave_loop(self, loop_id: str, taker: object, *, has_ended: bool) -> None:
        """Let a loop be taken again, unless it has ended, or somebody else than *taker* has it."""
        with self._loops_lock:
            holder, attempt = self._loops.get(loop_id, (None, None))
            if holder is taker:
                if has_ended:
                    self._ended_loops[loop_id] = attempt
                self._loops.pop(loop_id, None)

    def wait_for_writes(self) -> None:
        """Wait for the records that are on their way, and for which nobody waits."""
        has_unawaited_writes, self.has_unawaited_writes = self.has_unawaited_writes, False  # later ones are noted anew
        if has_unawaited_writes:
            with suppress(JournalError):  # the caller whose record it was has the error
                self.recorder.store.append([])  # waits for all that was appended before

    def release_if_idle(self) -> None:
        """Release the lease if the run is closed and no call is active, after what was written of a late one."""
        if not self.closed or self.active_calls:
            return
        if self.has_unawaited_writes:
            with suppress(JournalError):  # where the store takes nothing any more, nothing is on its way
                self.recorder.store.submit([]).add_done_callback(lambda _: self.lease.release())
                return
        self.lease.release()

    def _raise_not_open(self) -> NoReturn:
        """
        Refuse a call that comes after the end of the run, or from a forked process.

        Raises:
            ToolUsageError: The run is not open here any more.
        """
        if self.closed:
            raise ToolUsageError(
                f"Run {self.run_id!r} was closed; calls of its tasks come too late. Await them inside the run.",
                "run-closed",
            )
        raise ToolUsageError(
            f"Run {self.run_id!r} is open in the process that this one was forked from; a run is open in one "
            f"place at a time. Open a run of its own here.",
            "run-closed",
        )


current_run: Final = ContextSetting[OpenRun]()
"""The run to which the calls of this context belong; if it is another registry's, one of its outer runs may match."""


current_attempt: Final = ContextSetting[Attempt]()
"""The attempt of a call in a run from inside of which this context calls."""


def note_late_call() -> None:
    """Note in the attempt of this context that a call from inside of it is refused, as it comes too late."""
    if (attempt := current_attempt.get()) is not None:
        attempt.lacks_call = True


def find_run_of(recorder: object) -> OpenRun | None:
    """Return the current run of *recorder*, if this context is in one."""
    run = current_run.get()
    while run is not None and run.recorder is not recorder:
        run = run.outer_run
    return run


def use_run(run: OpenRun | None) -> use_setting[OpenRun]:
    """Make calls of the registry of *run* belong to it in this context; with None, leave the context as it is."""
    return _UNCHANGED if run is None or run is find_run_of(run.recorder) else use_setting(current_run, run)


_UNCHANGED: Final = use_setting(current_run, None)
"""Leaves any context as it is, and keeps nothing of it."""
