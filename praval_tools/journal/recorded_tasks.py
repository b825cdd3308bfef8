"""The tasks that made the recorded calls, and the tasks that go on with them since the run was opened here."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from praval_tools.journal.replay_entry import ReplayEntry, TaskAtWork
from praval_tools.journal.task_paths import (
    MAX_DEPTH,
    get_branch,
    get_number,
    get_outer_path,
    is_inside,
    iter_outer_paths,
    join_path,
    split_path,
)


class RecordedTasks:
    """
    The tasks that made calls in the program itself, or inside of one call.

    Args:
        entries: Their recorded calls, in order.
        loop_paths: Those that began the recorded loops, by the ids of these.
    """

    __slots__ = ("_alone", "_first_paths", "_last_numbers", "_left", "_live_tasks", "_loop_paths")

    def __init__(self, entries: Iterable[ReplayEntry], loop_paths: dict[str, str]) -> None:
        self._left: dict[str, deque[ReplayEntry]] = {}
        """The calls of each task that were not made again, by its path."""
        self._live_tasks: dict[str, TaskAtWork] = {}
        """Who goes on with each, or did last."""
        self._last_numbers: dict[str, tuple[int, int]] = {}
        """The highest number and group of those that a task began, by its path."""
        self._first_paths: dict[tuple[str, int], str] = {}
        """The first task of each group, by who began it."""
        self._alone = set[str]()
        """Those beside which no other task made calls."""
        self._loop_paths = loop_paths
        for entry in entries:
            self._add_path(entry.task).append(entry)
        for path in loop_paths.values():
            self._add_path(path)

    def _add_path(self, path: str) -> deque[ReplayEntry]:
        if path not in self._left:
            self._left[path] = deque()
            self._note_path(path)
        return self._left[path]

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

    def is_of_another(self, path: str, own_path: str) -> bool:
        """Tell whether a task at work goes on with the one of *path*, or began it, that did not begin *own_path*."""
        return any(self.is_at_work(outer) for outer in iter_outer_paths(path) if not is_inside(own_path, outer))

    def belongs_elsewhere(self, path: str, other: str) -> bool:
        """Tell whether the task of *path*, or the one of *other*, was begun inside of a recorded one, the other not."""
        return get_branch(path, other) in self._left or get_branch(other, path) != other

    def may_take_of_outer(self, task: TaskAtWork, outer: str) -> bool:
        """Tell whether *task* may make the calls of *outer* again, which began it: the program had no task there."""
        if outer != task.outer_path or task.has_record or task.is_new:
            return False
        return task.path is None or not self.has_begun(outer)

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
        """Tell whether the same task began the two, *other* after the one of *path*, and each was alone."""
        if not (self.is_alone(path) and self.is_alone(other) and get_outer_path(path) == get_outer_path(other)):
            return False
        return get_number(path) < get_number(other)

    def list_free_loops(self, task: TaskAtWork, loop_ids: Iterable[str]) -> list[str]:
        """Return the ids of the loops with which *task* may go on, those first that it began."""
        own_path = get_own_path(task)
        paths = {loop_id: self._loop_paths.get(loop_id, "") for loop_id in loop_ids}
        own = [loop_id for loop_id, path in paths.items() if path == task.path]
        new = [] if task.has_record else [
            loop_id for loop_id, path in paths.items()
            if path and not self.has_begun(path) and get_outer_path(path) == task.outer_path
        ]  # fmt: skip
        new.sort(key=lambda loop_id: get_number(paths[loop_id]))
        others = [loop_id for loop_id, path in paths.items() if self._may_take_loop(task, path, own_path)]
        return list(dict.fromkeys((*own, *new, *others)))

    def _may_take_loop(self, task: TaskAtWork, path: str, own_path: str) -> bool:
        """Tell whether *task*, whose path is *own_path* or will be beside that, may take a loop that another began."""
        if is_inside(own_path, path):
            return self.may_take_of_outer(task, path)
        if self.is_of_another(path, own_path):
            return False
        if is_inside(path, own_path):
            return True
        return not (task.has_record or self.has_begun(path) or self.belongs_elsewhere(own_path, path))

    def note_loop(self, task: TaskAtWork, loop_id: str) -> None:
        """Note that *task* begins a recorded loop again, or a new one: it counts as a call of it."""
        self.note_call(task, self._loop_paths.get(loop_id))
        self._loop_paths.setdefault(loop_id, task.path or "")

    def note_call(self, task: TaskAtWork, path: str | None) -> None:
        """
        Note that *task* makes a call again that the task of *path* made; it goes on with that one if it can.

        Args:
            task: The task that makes the call.
            path: Who made it; None: it is a new one.
        """
        if path in self._left and self._may_go_on(task, path):
            task.path, task.has_record = path, True
        elif task.path is None:
            task.path, task.is_new = self._make_path(task), path is None
        if task.path in self._left:
            self._live_tasks[task.path] = task

    def _may_go_on(self, task: TaskAtWork, path: str) -> bool:
        if task.path == path or is_inside(task.outer_path, path) or self.is_at_work(path):
            return False
        if not task.has_record:
            return not self.belongs_elsewhere(get_own_path(task), path)
        own = task.path
        if not own or self.get_next(own) is not None:  # it is the first task, or has calls of its own to make again
            return False
        return self.are_sequential(own, path)

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


def get_own_path(task: TaskAtWork) -> str:
    """Return the path of *task*; of one that has made no call, a path beside those of the tasks that began with it."""
    return f"{task.outer_path}.?" if task.path is None else task.path


class TasksByCall(dict[str | None, RecordedTasks]):
    """
    The tasks that make calls, by the call inside of which they do; None: those of the program itself.

    Args:
        loops: For each recorded loop: the call inside of which it was begun, its id, and the path of who began it.
    """

    def __init__(self, loops: Iterable[tuple[str | None, str, str]]) -> None:
        super().__init__()
        self._loop_paths: dict[str | None, dict[str, str]] = {}
        for outer_call, loop_id, path in loops:
            self._loop_paths.setdefault(outer_call, {})[loop_id] = path

    def __missing__(self, outer_call: str | None) -> RecordedTasks:
        return self.set_calls(outer_call, [])

    def set_calls(self, outer_call: str | None, entries: Iterable[ReplayEntry]) -> RecordedTasks:
        """Forget who made calls inside of a call since the run was opened here; return those that made *entries*."""
        tasks = self[outer_call] = RecordedTasks(entries, self._loop_paths.setdefault(outer_call, {}))
        return tasks
