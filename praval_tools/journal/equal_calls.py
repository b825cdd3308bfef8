"""The recorded calls of one content, by the tasks that made them: each task finds its own again."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from heapq import merge
from itertools import chain, takewhile
from operator import attrgetter
from typing import Final

from praval_tools.journal.digests import compute_digest
from praval_tools.journal.recorded_tasks import RecordedTasks, get_own_path
from praval_tools.journal.replay_entry import ReplayEntry, TaskAtWork
from praval_tools.journal.task_paths import get_branch, get_number, get_outer_path, is_inside


class EqualCalls:
    """
    The recorded calls of one content that were not found yet, in order, by the paths of their tasks.

    A task at first has no record. It goes on with the recorded task whose call it finds first, and then finds that
    one's calls. A call finds the first of these that is left:

    1. one of the recorded task with which its task goes on;
    2. while its task has no record: the next call of a recorded task that the same task began, and with which nobody
       goes on; else of one that was alone, and with which a task went on that has ended;
    3. one that its caller left since the run was opened here, without a result;
    4. one that `_may_take` allows: that is for any task, or that no task at work makes again.

    Args:
        tasks: The tasks that make calls where these are made.
    """

    __slots__ = (
        "_branches", "_last", "_left", "_new", "_only", "_recorded_ids", "_recorded_paths", "_tasks", "_waiting",
    )  # fmt: skip

    def __init__(self, tasks: RecordedTasks) -> None:
        self._tasks = tasks
        self._waiting: dict[str, deque[ReplayEntry]] = {}
        self._left, self._last = list[ReplayEntry](), list[ReplayEntry]()
        self._recorded_ids, self._recorded_paths, self._branches = set[str](), set[str](), set[str]()
        self._only: ReplayEntry | None = None
        """The entry, where it is for any task."""
        self._new: dict[str, deque[str]] = {}  # those with which nobody went on, by who began them; from the first use

    def add(self, entry: ReplayEntry) -> None:
        """Let *entry* be found, which was recorded after those that were added before."""
        self._waiting.setdefault(entry.task, deque()).append(entry)
        path = entry.task
        self._recorded_ids.add(entry.call_id)
        is_free = entry.digest != _NO_ARGUMENTS and not entry.is_of_loop
        self._only = entry if is_free and len(self._recorded_ids) == 1 else None
        if path in self._recorded_paths:
            return
        self._recorded_paths.add(path)
        while path not in self._branches:
            self._branches.add(path)
            path = get_outer_path(path)

    def add_again(self, entry: ReplayEntry, *, first: bool) -> None:
        """
        Let *entry*, which its caller has left without a result, be found again.

        Args:
            entry: The recorded call, or one that was made since the run was opened here.
            first: Before those that were not found yet since then.
        """
        self._left.append(entry)
        waiting = self._waiting.setdefault(entry.task, deque())
        waiting.insert(_count_before(waiting, entry) if first else len(waiting), entry)

    def add_last(self, entry: ReplayEntry) -> None:
        """Let *entry* be found again, by a call that finds no other one."""
        self._last.append(entry)

    def remove(self, entry: ReplayEntry) -> None:
        """Let *entry* be found no more, if it could."""
        for waiting in (self._left, self._last, *self._waiting.values()):
            with suppress(ValueError):
                waiting.remove(entry)

    def is_for_any_task(self, entry: ReplayEntry) -> bool:
        """Tell whether *entry* is the only such call that was recorded, has arguments, and no loop made it."""
        return entry is self._only

    def iter_entries(self, task: TaskAtWork) -> Iterator[ReplayEntry]:
        """Yield the entries that a call of *task* may repeat, those of its own first."""
        if task.path is not None:
            yield from self._iter_waiting(task.path)
        if not task.has_record:
            yield from self._iter_next_calls(task)
        self._left = [entry for entry in self._left if not entry.is_matched]
        yield from self._left
        for path in [path for path, waiting in self._waiting.items() if not waiting or waiting[0].is_matched]:
            next(self._iter_waiting(path), None)  # which forgets it where none is left
        has_own = task.path in self._recorded_paths
        others = [
            other for other in self._waiting if other != task.path and self._may_take(task, other, has_own=has_own)
        ]
        yield from merge(*map(self._iter_waiting, others), key=_get_position)
        yield from (entry for entry in self._last if not entry.is_matched)

    def _iter_next_calls(self, task: TaskAtWork) -> Iterator[ReplayEntry]:
        """Yield the next calls of recorded tasks that began as *task* did, and with which nobody goes on."""
        outer = task.outer_path
        new = self._new.get(outer)
        if new is None:
            own = (path for path in self._recorded_paths if path and get_outer_path(path) == outer)
            new = self._new[outer] = deque(sorted(own, key=get_number))
        while new and (self._tasks.has_begun(new[0]) or new[0] not in self._waiting):
            new.popleft()
        next_calls = chain.from_iterable(self._iter_next_call(path) for path in new if not self._tasks.has_begun(path))
        first = next(next_calls, None)
        if not (task.is_new or self._tasks.has_begun(outer)):  # the program made these before it had the task
            yield from (one for one in self._iter_waiting(outer) if first is None or one.position < first.position)
        if first is not None:
            yield first
        yield from next_calls
        for path in list(self._waiting):
            if self._tasks.is_alone(path) and get_outer_path(path) == outer and not self._tasks.is_at_work(path):
                yield from self._iter_next_call(path)

    def _iter_next_call(self, path: str) -> Iterator[ReplayEntry]:
        """Yield the first of these calls of the task of *path*, if no other call of it comes before."""
        entry = next(self._iter_waiting(path), None)
        if entry is not None and self._tasks.is_next(entry):
            yield entry

    def _iter_waiting(self, path: str) -> Iterator[ReplayEntry]:
        waiting = self._waiting.get(path)
        while waiting and waiting[0].is_matched:
            waiting.popleft()
        if not waiting:
            self._waiting.pop(path, None)
            return
        for entry in waiting:
            if not entry.is_matched:
                yield entry

    def _may_take(self, task: TaskAtWork, other: str, *, has_own: bool) -> bool:
        """
        Tell whether *task* finds calls of the recorded task of *other*, which is not the one with which it goes on.

        As a rule it does not: that one may come to them later. It does where the program has changed, as far as can be
        seen: they were made by a task that began it, and that makes no calls now; by one that it began, and that makes
        none; by one after it, where both were alone; or, while it has no record, by one that nobody goes on with.

        Args:
            task: The task that makes a call.
            other: The path of another one.
            has_own: Whether *task* goes on with a recorded task that made such calls.
        """
        if self._only is not None:  # as where tasks get from a queue what they do
            return True
        path = get_own_path(task)
        if is_inside(path, other):
            return self._tasks.may_take_of_outer(task, other)
        if self._tasks.is_of_another(other, path):
            return False
        is_next = any(map(self._tasks.is_next, self._iter_waiting(other)))
        if is_inside(other, path):
            return is_next
        if task.has_record:
            return has_own and is_next and self._tasks.are_sequential(path, other)
        if get_branch(path, other) in self._branches or self._tasks.belongs_elsewhere(path, other):
            return False
        return self._tasks.is_alone(other) if self._tasks.has_begun(other) else task.path is None or is_next


_get_position: Final = attrgetter("position")
_NO_ARGUMENTS: Final = compute_digest({})


def _count_before(waiting: Iterable[ReplayEntry], entry: ReplayEntry) -> int:
    """Return how many of the equal calls that come first were made before *entry*, which is one of them."""
    before = takewhile(lambda one: one.comes_first and one.position < entry.position, waiting)
    return sum(1 for _ in before)
