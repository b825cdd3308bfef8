"""The recorded calls of one content, by the tasks that made them: each task finds its own again."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from heapq import merge
from itertools import takewhile
from operator import attrgetter
from typing import Final

from praval_tools.journal.replay_entry import ReplayEntry, TaskAtWork


class EqualCalls:
    """
    The recorded calls of one content that were not found yet, in order, by the paths of their tasks.

    A call finds the first of these that is left:

    1. one of its own task;
    2. where that has none in the record: one of tasks that came one after another (`*`), of a task with its number in
       another group, or of the task that began it;
    3. one that its caller left since the run was opened here, without a result;
    4. where its task has none in the record: one of a task that makes no such calls now, as where the program has
       changed; else one of a task that has not begun, as where the program has fewer of them now.

    It finds none of a task that works beside it, which may come to its call later.

    Args:
        live_tasks: The tasks that made any call since the run was opened here, by their paths; None for one that found
            no call of its path yet.
    """

    __slots__ = (
        "_by_number", "_caller_paths", "_left", "_live_tasks", "_recorded_branches", "_recorded_paths", "_taken_paths",
        "_waiting",
    )  # fmt: skip

    def __init__(self, live_tasks: Mapping[str, TaskAtWork | None]) -> None:
        self._live_tasks = live_tasks
        self._waiting: dict[str, deque[ReplayEntry]] = {}
        self._left: list[ReplayEntry] = []
        self._recorded_paths, self._caller_paths, self._taken_paths = set[str](), set[str](), set[str]()
        self._by_number: dict[str, list[str]] = {}
        self._recorded_branches = set[str]()

    def add(self, entry: ReplayEntry, *, first: bool, is_for_any_task: bool) -> None:
        """
        Let *entry* be found.

        Args:
            entry: The recorded call.
            first: Before those that were not found yet since the run was opened here.
            is_for_any_task: Its caller has left it, without a result.
        """
        if entry.task not in self._recorded_paths:
            self._note_recorded_path(entry.task)
        if is_for_any_task:
            self._left.append(entry)
        waiting = self._waiting.setdefault(entry.task, deque())
        if first:
            waiting.insert(_count_before(waiting, entry), entry)
        else:
            waiting.append(entry)

    def _note_recorded_path(self, path: str) -> None:
        self._recorded_paths.add(path)
        self._by_number.setdefault(_get_number_path(path), []).append(path)
        while path not in self._recorded_branches:
            self._recorded_branches.add(path)
            path = get_outer_path(path)

    def remove(self, entry: ReplayEntry) -> None:
        """Let *entry* be found no more, if it could."""
        for waiting in (self._left, *self._waiting.values()):
            with suppress(ValueError):
                waiting.remove(entry)

    def add_caller(self, path: str, entry: ReplayEntry) -> None:
        """Note that the task of *path* makes such calls now, and has found *entry*."""
        self._caller_paths.add(path)
        if entry.task != path:
            self._taken_paths.add(entry.task)

    def remove_caller(self, path: str) -> None:
        """Forget that the task of *path* makes such calls: its call was stopped."""
        self._caller_paths.discard(path)

    def clear_callers(self) -> None:
        """Forget which tasks make such calls now: what made them begins again."""
        self._caller_paths.clear()
        self._taken_paths.clear()

    def iter_entries(self, path: str) -> Iterator[ReplayEntry]:
        """Yield the entries that a call of the task of *path* may repeat, those of its own first."""
        own_paths = self._list_own_paths(path)
        for own in own_paths:
            yield from self._iter_waiting(own)
        self._left = [entry for entry in self._left if not entry.is_matched]
        yield from self._left
        is_new, has_own = path not in self._recorded_paths, not self._recorded_paths.isdisjoint(own_paths)
        others = [
            other for other in self._waiting if other not in own_paths
            and ((is_new and self._may_take(path, other)) or (has_own and self._may_take_over(path, other)))
        ]  # fmt: skip
        yield from merge(*map(self._iter_waiting, others), key=_get_position)

    def _list_own_paths(self, path: str) -> list[str]:
        """Return the paths whose calls a task finds in any case: its own, or those that stand for it."""
        own_paths, outer = [path, get_sequential_path(path)], path
        if path in self._recorded_paths:
            return own_paths
        while outer:
            outer = get_outer_path(outer)
            own_paths.append(get_sequential_path(outer))
        return [*own_paths, *self._by_number.get(_get_number_path(path), ()), get_outer_path(path)]

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

    def _may_take(self, path: str, other: str) -> bool:
        """Tell whether a task that has no calls in the record finds those of *other*."""
        makes_such_calls = other in self._caller_paths or len(self._waiting[other]) > 1
        if makes_such_calls and self._is_at_work(other):
            return False
        return _is_inside(other, path) or _get_branch(path, other) not in self._recorded_branches

    def _may_take_over(self, path: str, other: str) -> bool:
        """Tell whether a task that has found all of its own calls finds those of *other*."""
        if _is_inside(path, other):  # it made such calls before the program had the task of *path*
            return other not in self._caller_paths
        is_first = other.endswith(":1")  # else it is one that was begun later, and may be begun later again
        has_lost_own = path in self._taken_paths and not self._is_at_work(other)
        return has_lost_own or (is_first and other not in self._live_tasks)

    def _is_at_work(self, path: str) -> bool:
        task = self._live_tasks.get(path)
        return task is not None and not task.has_ended


_get_position: Final = attrgetter("position")


def get_outer_path(path: str) -> str:
    """Return the path of the task that began the one of *path*."""
    return path.rpartition(".")[0]


def get_sequential_path(path: str) -> str:
    """Return the path for the calls of tasks that the one of *path* began, and beside which nobody made calls."""
    return f"{path}.*" if path else "*"


def _get_number_path(path: str) -> str:
    """Return the path without the number of the group."""
    return path.rpartition(":")[0]


def _is_inside(path: str, outer: str) -> bool:
    """Tell whether the task of *path* is that of *outer*, or was begun inside of it."""
    return not outer or path == outer or path.startswith(f"{outer}.")


def _get_branch(path: str, other: str) -> str:
    """Return the shortest path that leads to the task of *path*, and not to that of *other*."""
    parts = path.split(".")
    for length in range(1, len(parts)):
        branch = ".".join(parts[:length])
        if not _is_inside(other, branch):
            return branch
    return path


def _count_before(waiting: Iterable[ReplayEntry], entry: ReplayEntry) -> int:
    """Return how many of the equal calls that come first were made before *entry*, which is one of them."""
    before = takewhile(lambda one: one.comes_first and one.position < entry.position, waiting)
    return sum(1 for _ in before)
