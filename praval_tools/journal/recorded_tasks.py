"""The tasks that made the recorded calls, and the tasks that go on with them since the run was opened here."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from praval_tools.journal.replay_entry import ReplayEntry, TaskAtWork
from praval_tools.journal.task_paths import MAX_DEPTH, get_outer_path, is_inside, join_path, split_path


class RecordedTasks:
    """
    The tasks that made calls in the program itself, or inside of one call.

    Args:
        entries: Their recorded calls, in order.
    """

    __slots__ = ("_alone", "_first_paths", "_last_numbers", "_left", "_live_tasks", "_loop_paths")

    def __init__(self, entries: Iterable[ReplayEntry] = ()) -> None:
        self._left: dict[str, deque[ReplayEntry]] = {}
        self._live_tasks: dict[str, TaskAtWork] = {}
        self._last_numbers: dict[str, tuple[int, int]] = {}
        """The highest number and group of those that a task began, by its path."""
        self._first_paths: dict[tuple[str, int], str] = {}
        """The first task of each group, by who began it."""
        self._alone = set[str]()
        """Those beside which no other task made calls."""
        self._loop_paths: dict[str, str] = {}
        """The task that made the first call of a loop, by what the ids of its calls begin with."""
        for entry in entries:
            self._loop_paths.setdefault(entry.call_id.partition(".")[0], entry.task)
            if entry.task not in self._left:
                self._left[entry.task] = deque()
                self._note_path(entry.task)
            self._left[entry.task].append(entry)

    def _note_path(self, path: str) -> None:
        if not path:
            return
        outer, number, group = split_path(path)
        last_number, last_group = self._last_numbers.get(outer, (0, 0))
        self._last_numbers[outer] = max(number, last_number), max(group, last_group)
        first = self._first_paths.setdefault((outer, group), path)
        if first == path:
            self._alone.add(path)
        else:
            self._alone.discard(first)

    def get_next(self, path: str) -> ReplayEntry | None:
        """Return the first recorded call of a task that was not made again."""
        left = self._left.get(path)
        while left and left[0].is_matched:
            left.popleft()
        return left[0] if left else None

    def is_next(self, entry: ReplayEntry) -> bool:
        """Tell whether its task made no call before *entry* that was not made again."""
        first = self.get_next(entry.task)
        return first is None or entry.comes_first or entry.position <= first.position

    def has_begun(self, path: str) -> bool:
        """Tell whether a task went on with the calls of the one of *path*."""
        return path in self._live_tasks

    def is_at_work(self, path: str) -> bool:
        """Tell whether a task goes on with the calls of the one of *path*, and may make more of them."""
        task = self._live_tasks.get(path)
        return task is not None and not task.has_ended

    def is_alone(self, path: str) -> bool:
        """Tell whether no other task of its group made calls."""
        return path in self._alone

    def are_sequential(self, path: str, other: str) -> bool:
        """Tell whether the same task began the two, one after the other, and each was alone."""
        return get_outer_path(path) == get_outer_path(other) and self.is_alone(path) and self.is_alone(other)

    def list_free_loops(self, task: TaskAtWork, loops: Iterable[str]) -> list[str]:
        """
        Return the loops with which *task* may go on, those first whose calls it made.

        Args:
            task: The task that begins a loop.
            loops: What the ids of their calls begin with, up to a dot.
        """
        own_path = task.outer_path if task.path is None else task.path
        paths = {loop: self._loop_paths.get(loop, "") for loop in loops}
        own = [loop for loop, path in paths.items() if own_path and path and is_inside(path, own_path)]
        free = [loop for loop, path in paths.items() if not self._is_of_another(path, own_path)]
        return list(dict.fromkeys((*own, *free)))

    def _is_of_another(self, path: str, own_path: str) -> bool:
        """Tell whether calls of *path* were made inside of a task with which another one goes on, beside *own_path*."""
        while path and not is_inside(own_path, path):
            if self.is_at_work(path):
                return True
            path = get_outer_path(path)
        return False

    def note_call(self, task: TaskAtWork, entry: ReplayEntry, *, made_equal_calls: bool) -> None:
        """
        Note that *task* makes the call of *entry* again, or a new one; it goes on with the task of *entry* if it can.

        Args:
            task: The task that makes the call.
            entry: The call.
            made_equal_calls: Whether the recorded task with which it goes on made such calls.
        """
        path = entry.task
        if path in self._left and self._may_go_on(task, path, made_equal_calls=made_equal_calls):
            task.path, task.has_record = path, True
        elif task.path is None:
            task.path = self._make_path(task)
        if task.path in self._left:
            self._live_tasks[task.path] = task

    def _may_go_on(self, task: TaskAtWork, path: str, *, made_equal_calls: bool) -> bool:
        if task.path == path or is_inside(task.outer_path, path) or self.is_at_work(path):
            return False
        if not task.has_record:
            return True
        own = task.path
        if not own or self.get_next(own) is not None:  # it is the first task, or has calls of its own to make again
            return False
        return not made_equal_calls or self.are_sequential(own, path)

    def _make_path(self, task: TaskAtWork) -> str:
        """Return a path that no other task has, in the group of those beside it."""
        outer = task.outer_path
        while outer.count(".") >= MAX_DEPTH - 1:
            outer = get_outer_path(outer)
        number, group = self._last_numbers.get(outer, (0, 0))
        beside = next((path for path in task.iter_paths_beside() if path and get_outer_path(path) == outer), None)
        path = join_path(outer, number + 1, group + 1 if beside is None else split_path(beside)[2])
        self._note_path(path)
        return path
