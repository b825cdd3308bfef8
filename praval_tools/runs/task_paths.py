"""
Gives each task of asyncio that makes calls a path, so that tasks with equal calls each find their own records again.

`2:1` is the second task to make a call in the first group of tasks that its parent began. A group is a set of tasks
that overlap: once all have ended, the next task begins a new group. `2:1.1:3` is the first task in the third group that
task `2:1` began. The task that opened the run, or runs the tool, has the empty path.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, TypeAlias
from weakref import WeakKeyDictionary, ref

from praval_tools.execution.event_loops import is_event_loop_running

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    _Task = asyncio.Task[object]

TaskReference: TypeAlias = "Callable[[], _Task | None]"


_MAX_SCOPES: Final = 8
"""In how many other runs and attempts a task may make calls in turn, and begin others that are known as its own."""
_MAX_DEPTH: Final = 20
"""How many tasks of a path may each have begun the next one; paths are recorded with each call."""


class CallingTask:
    """
    A task that makes calls in a run, or inside of one attempt of a call.

    Args:
        path: Its path.
        outer: The task that began it; None for the first one of that run or attempt.
        task: What `refer_to_task` returned in it; by default, it is the one that runs here.
    """

    __slots__ = ("_at_work", "_group", "_number", "_others", "_outer", "_task", "path", "scope")

    def __init__(
        self, path: str = "", *, outer: CallingTask | None = None, task: TaskReference | None = None
    ) -> None:
        self.path, self._outer = path, outer
        self.scope: CallingTask = self if outer is None else outer.scope
        """The first task of the run or attempt."""
        self._at_work, self._group, self._number = list[CallingTask](), 0, 0
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
            found = self._others[task] = (self if known is None else known).add_task()
        return found

    @property
    def has_ended(self) -> bool:
        """Whether it makes no more calls."""
        task = self._task()
        return task is None or task.done()

    def add_task(self) -> CallingTask:
        """Return the task that runs here, which this one began; below the longest path, it is one beside this."""
        if self._outer is not None and self.path.count(".") >= _MAX_DEPTH:
            return self._outer.add_task()
        while self._at_work and self._at_work[-1].has_ended:
            self._at_work.pop()
        if not self._at_work:
            self._group, self._number = self._group + 1, 0
        self._number += 1
        task = CallingTask(f"{self.path}{'.' if self.path else ''}{self._number}:{self._group}", outer=self)
        self._at_work.append(task)
        if self._number % 256 == 0:  # where jobs come without a pause
            self._at_work = [one for one in self._at_work if not one.has_ended]
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
