"""Finds the task of asyncio that makes a call, and which task began it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, TypeAlias
from weakref import WeakKeyDictionary, ref

from praval_tools.execution.event_loops import is_event_loop_running
from praval_tools.journal.task_paths import MAX_DEPTH

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator, Sequence

    _Task = asyncio.Task[object]

TaskReference: TypeAlias = "Callable[[], _Task | None]"


_MAX_SCOPES: Final = 8
"""In how many other runs and attempts a task may make calls in turn, and begin others that are known as its own."""


class CallingTask:
    """
    A task that makes calls in a run, or inside of one attempt of a call.

    `path`, `has_record` and `is_new` are as in `TaskAtWork`; the first task of a run or attempt has a record from the
    start.

    Args:
        outer: The task that began it; None for the first one of that run or attempt.
        beside: The tasks that *outer* began, this one among them; some may have ended.
        task: What `refer_to_task` returned in it; by default, it is the one that runs here.
    """

    __slots__ = (
        "_at_work", "_beside", "_most_at_work", "_others", "_outer", "_task", "depth", "has_record", "is_new", "path",
        "scope",
    )  # fmt: skip

    def __init__(
        self, *, outer: CallingTask | None = None, beside: Sequence[CallingTask] = (), task: TaskReference | None = None
    ) -> None:
        self._outer, self._beside, self.has_record, self.is_new = outer, beside, outer is None, False
        self.path: str | None = "" if outer is None else None
        self.scope: CallingTask = self if outer is None else outer.scope
        """The first task of the run or attempt."""
        self.depth: int = 0 if outer is None else outer.depth + 1
        self._at_work, self._most_at_work = list[CallingTask](), 16  # of those that it began; some may have ended
        self._task = refer_to_task() if task is None else task
        self._others: WeakKeyDictionary[_Task, CallingTask] | None = None

    def find_task(self, task: _Task, known: CallingTask | None) -> CallingTask:
        """Return *task*, which makes a call in this run or attempt; *known* has begun it, or something before it."""
        if self._task() is task:
            return self
        if self._others is None:  # most runs and attempts have no others
            self._others = WeakKeyDictionary()
        found = self._others.get(task)
        if found is None:
            found = self._others[task] = (self if known is None else known.find_known()).add_task()
        return found

    @property
    def outer_path(self) -> str:
        """The path of the task that began it."""
        return "" if self._outer is None else self._outer.find_known().path or ""

    def find_known(self) -> CallingTask:
        """Return this task or, as long as it has made no call, the one that began it."""
        return self if self.path is not None or self._outer is None else self._outer.find_known()

    @property
    def has_ended(self) -> bool:
        """Whether it makes no more calls."""
        task = self._task()
        return task is None or task.done()

    def iter_paths_beside(self) -> Iterator[str | None]:
        """Yield the paths of the tasks at work that the same task began, the latest first."""
        for task in reversed(self._beside):
            if task is not self and not task.has_ended:
                yield task.path

    def add_task(self) -> CallingTask:
        """Return the task that runs here, which this one began; below the longest path, it is one beside this."""
        if self._outer is not None and self.depth >= MAX_DEPTH:
            return self._outer.add_task()
        if len(self._at_work) >= self._most_at_work:
            self._at_work[:] = [task for task in self._at_work if not task.has_ended]
            self._most_at_work = 2 * len(self._at_work) + 16
        task = CallingTask(outer=self, beside=self._at_work)
        self._at_work.append(task)
        return task


_NO_TASK: Final[TaskReference] = lambda: None
_calling_tasks: Final[ContextVar[tuple[CallingTask, ...]]] = ContextVar("praval_tools_calling_tasks", default=())
"""For each run and attempt, the task that makes calls here, or that began this one."""


def find_calling_task(scope: CallingTask) -> CallingTask:
    """
    Return the task that makes a call.

    Args:
        scope: The task that opened the run, or began the attempt, in which the call is made.
    """
    task, begun_by = _get_current_task(), _calling_tasks.get()
    known = next((one for one in begun_by if one.scope is scope), None)
    if task is None:  # sync code belongs to who began its thread
        return scope if known is None else known
    own = scope.find_task(task, known)
    if own is not known and own is not scope:
        others = [one for one in begun_by if one.scope is not scope]
        _calling_tasks.set((own, *others[:_MAX_SCOPES]))  # in the context of this task, and of those that it begins
    return own


def refer_to_task() -> TaskReference:
    """Return a reference to the task that runs here, which keeps nothing alive."""
    task = _get_current_task()
    return _NO_TASK if task is None else ref(task)


def _get_current_task() -> _Task | None:
    if not is_event_loop_running():
        return None
    import asyncio

    return asyncio.current_task()
