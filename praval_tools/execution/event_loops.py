"""Runs async tools for sync code on a background event loop, and enforces the deadlines of awaited calls."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, copy_context
from functools import lru_cache
from time import monotonic
from types import coroutine
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast
from weakref import WeakKeyDictionary, WeakSet, ref

import msgspec

from praval_tools.errors import ToolUsageError
from praval_tools.execution.failures import CallCancelledError, StaleDecisionError
from praval_tools.forks import handle_forks
from praval_tools.names import OPERATOR, call_or_default
from praval_tools.tools import frames
from praval_tools.tools.frames import (
    DONE,
    Frame,
    activate_tool_frame,
    await_into,
    current_frame,
    get_current_actor,
    resume_in_frames,
)

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future

T = TypeVar("T")
Work: TypeAlias = Coroutine[Any, Any, T]


def is_event_loop_running() -> bool:
    """Tell whether an event loop runs in this thread, without importing asyncio."""
    events: Any = sys.modules.get("asyncio.events")
    return events is not None and events._get_running_loop() is not None


_GRACE_SECONDS = 2.0
"""Seconds after its deadline at which a call is given up that the loop has not ended."""


class BackgroundLoop:
    """One event loop in a daemon thread, started at first use and kept until closed."""

    def __init__(self) -> None:
        self._closed = False
        self._reset_after_fork()
        handle_forks(self, in_child=BackgroundLoop._reset_after_fork)

    def _reset_after_fork(self) -> None:
        """Begin without a loop; in a forked process the thread of the parent's loop is gone."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._tasks: WeakSet[asyncio.Task[object]] = WeakSet()

    def run(self, coroutine: Work[T], seconds: float | None = None) -> T:
        """
        Run *coroutine* there and wait for it; an interrupt of this thread cancels it.

        The coroutine keeps its own deadline; *seconds*, and some more, count where the loop is blocked and cannot.

        Raises:
            DeadlineExpiredError: The loop does not answer.
            StaleDecisionError: The loop was closed before.
            CallCancelledError: The loop was closed meanwhile, or the work cancelled itself.
        """
        from concurrent.futures import CancelledError

        try:
            future = self.submit(_capture_error(coroutine))
        except StaleDecisionError:
            coroutine.close()
            raise
        value: T
        try:
            value, error = future.result(None if seconds is None else seconds + _GRACE_SECONDS)
        except TimeoutError:
            future.cancel()
            raise DeadlineExpiredError from None
        except CancelledError:
            raise CallCancelledError from None
        except BaseException:
            future.cancel()
            raise
        if error is not None:
            raise error
        return value

    def submit(self, coroutine: Work[T]) -> Future[T]:
        """
        Begin *coroutine* there; cancelling the future cancels it.

        Raises:
            StaleDecisionError: The loop was closed before.
        """
        import asyncio

        with self._lock:
            if self._closed:
                coroutine.close()
                raise StaleDecisionError
            if self._loop is None:
                self._loop = _protect_settings(asyncio.new_event_loop(), self._tasks)
                self._thread = threading.Thread(
                    target=_run_until_stopped, args=(self._loop,), name="praval-tools-loop", daemon=True
                )
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(coroutine, cast("Any", _LoopForCaller(self._loop)))

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Have *callback* called there soon, if the loop runs."""
        with self._lock:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(callback)

    @property
    def is_current_thread(self) -> bool:
        """Whether this thread is the loop's own."""
        return self._thread is threading.current_thread()

    def close(self, patience: float = 5.0) -> None:
        """
        Cancel what runs there, stop the loop and close it; safe to call twice.

        Work that swallows its cancellation, or blocks the loop, is left behind in its thread after *patience* seconds.
        """
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
            self._closed = True
        if loop is None or thread is None:
            return
        import asyncio
        from concurrent.futures import CancelledError

        with activate_tool_frame(_LOOP_ACTOR):  # tasks may be of classes with code of their own
            cancelling = asyncio.run_coroutine_threadsafe(_capture_error(_cancel_tasks(self._tasks)), loop)
        try:
            cancelling.result(patience)
        except TimeoutError:
            return
        except CancelledError:  # by code of a task that was asked
            pass
        loop.call_soon_threadsafe(super(type(loop), loop).stop)  # type: ignore[misc]
        thread.join(patience)
        if not thread.is_alive():
            loop.close()


class _LoopForCaller:
    """What `run_coroutine_threadsafe` needs of *loop*; the work begins in the context of who makes this."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._context = loop, copy_context()
        self.create_task = loop.create_task

    def call_soon_threadsafe(self, callback: Callable[[], object]) -> object:
        return self._loop.call_soon_threadsafe(callback, context=self._context)


_LOOP_ACTOR = "(loop)"
_SHARED_SETTINGS = (
    "set_task_factory", "set_exception_handler", "set_default_executor", "set_debug",
    "stop", "shutdown_default_executor", "shutdown_asyncgens",
)  # fmt: skip
"""The methods by which code that runs in a loop changes or ends something for all others there."""
_REPORTS_OF_COLLECTED_OBJECTS = ("_asyncgen_finalizer_hook", "call_exception_handler")
"""The methods that asyncio calls wherever the collector finds an async generator, or a task or future that failed."""


def _protect_settings(
    loop: asyncio.AbstractEventLoop, tasks: WeakSet[asyncio.Task[object]]
) -> asyncio.AbstractEventLoop:
    """
    Have *loop*, which all async tools of a registry share, refuse what would count for the others.

    It makes its tasks itself, whatever task factory it is given, and adds them to *tasks*. What asyncio has it do by
    itself has no rights: from threads where nobody's work runs, such as the end of a subprocess, and, whoever's work
    the collector interrupts, the end of a generator and the report of an exception that nobody asked for.
    """
    import asyncio

    make_task: Callable[..., asyncio.Task[object]] = asyncio.Task

    def create_task(
        loop: asyncio.AbstractEventLoop, coroutine: Work[object], **options: object
    ) -> asyncio.Task[object]:
        task = make_task(coroutine, loop=loop, **options)
        tasks.add(task)
        return task

    kind: Any = type(loop)

    def call_soon_threadsafe(
        loop: asyncio.AbstractEventLoop, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.Handle:
        if context is None and get_current_actor() == OPERATOR:
            context = _make_context_without_rights()
        handle: asyncio.Handle = kind.call_soon_threadsafe(loop, callback, *args, context=context)
        return handle

    def run_without_rights(method: Callable[..., object]) -> Callable[..., object]:
        return lambda *args: _make_context_without_rights().run(method, *args)

    own = {"create_task": create_task, "call_soon_threadsafe": call_soon_threadsafe}
    reports = {name: run_without_rights(getattr(kind, name)) for name in _REPORTS_OF_COLLECTED_OBJECTS}
    refusals = dict.fromkeys(_SHARED_SETTINGS, _refuse_setting)
    loop.__class__ = type(kind.__name__, (kind,), {"__slots__": (), **own, **reports, **refusals})
    return loop


def _make_context_without_rights() -> Context:
    """Return a copy of the context in which neither the work nor the settings of who runs now count."""
    context = copy_context()  # it can be changed, also while the collector runs
    context.run(current_frame.set, None)
    context.run(activate_tool_frame(_LOOP_ACTOR).__enter__)
    return context


async def _cancel_tasks(made: WeakSet[asyncio.Task[object]]) -> None:
    """
    Cancel the tasks of the running loop, wait for their ends, and end its async generators.

    *made* are those that the loop made itself. Code of another task's class may raise anything, and keeps none of the
    others from its end: asyncio, which lists all tasks, asks each of them.
    """
    import asyncio

    tasks = {id(task): task for task in made}
    with suppress(BaseException):  # isolation: no interrupt of the program comes in this thread
        tasks.update((id(task), task) for task in asyncio.all_tasks())
    tasks.pop(id(asyncio.current_task()), None)
    for task in tasks.values():
        with suppress(BaseException):
            asyncio.Task.cancel(task)  # its own class may do nothing instead
    await asyncio.gather(*(asyncio.wait((task,)) for task in tasks.values()), return_exceptions=True)
    loop = asyncio.get_running_loop()
    await super(type(loop), loop).shutdown_asyncgens()  # type: ignore[misc]


def _refuse_setting(*_: object, **__: object) -> None:
    raise ToolUsageError(
        "Async tools that are called from sync code share one event loop, so none may stop it, shut down its executor "
        "or async generators, or change its task factory, exception handler, executor or debug mode. "
        "Await acall (or aexecute) in a loop of your own.",
        "shared-loop",
    )


def _run_until_stopped(loop: asyncio.AbstractEventLoop) -> None:
    """
    Run *loop* until it is stopped; a task's SystemExit, which ends a loop, is left to its awaiter.

    What the loop itself asks of objects, such as in its debug mode, has no rights.
    """
    with activate_tool_frame(_LOOP_ACTOR):
        while True:
            try:
                loop.run_forever()
                return
            except (KeyboardInterrupt, SystemExit):
                continue


def is_self_cancelled() -> bool:
    """Tell whether the work raised this CancelledError itself: nobody has cancelled the task that runs here, if any."""
    import asyncio

    task = asyncio.current_task() if is_event_loop_running() else None
    return task is None or not task.cancelling()


def get_own_cancellation() -> type[BaseException]:
    """
    Return asyncio's `CancelledError` where nobody has cancelled the task that runs here: who raises it cancels itself.

    Else our own class, so that a cancellation from outside passes; a greenlet may throw that into sync code, too.
    """
    module = sys.modules.get("asyncio")
    return module.CancelledError if module is not None and is_self_cancelled() else CallCancelledError


async def _capture_error(work: Work[T]) -> tuple[Any, BaseException | None]:
    """
    Await *work*; what it raises is returned to the caller instead.

    Some exceptions would end the loop's thread, and futures ask exceptions for their truth, which may run code of them.
    """
    from asyncio import CancelledError

    try:
        return await work, None
    except CancelledError:
        raise
    except BaseException as error:
        return None, error


class Deadline(msgspec.Struct, eq=False):
    """One call's deadline on one loop, among the *active* ones of its timer."""

    expires_at: float
    task: Callable[[], asyncio.Task[Any] | None]
    active: dict[Deadline, None]
    expired: bool = False

    def uncancel(self) -> int:
        """Take back the cancellation that it requested; return how many others are left."""
        task = self.task()
        return task.uncancel() if task is not None else 0


def _return_no_task() -> None:
    """Stand for the weak reference of work that runs in no task."""


class DeadlineTimer:
    """The deadlines of one loop and one duration, in order, behind a single timer."""

    __slots__ = ("_seconds", "active", "is_scheduled")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.active: dict[Deadline, None] = {}
        self.is_scheduled = False

    def start_deadline(self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any] | None) -> Deadline:
        """Start the deadline of *task*, which is cancelled when the duration has passed."""
        # by weak reference: a task holds its loop, which would never be collected with the deadlines that it has here
        deadline = Deadline(
            monotonic() + self._seconds, ref(task) if task is not None else _return_no_task, self.active
        )
        self.active[deadline] = None
        if not self.is_scheduled:
            self.schedule_check(loop, self._seconds)
        return deadline

    def schedule_check(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        """Look for expired deadlines in *seconds*."""
        self.is_scheduled = True
        loop.call_later(seconds, self._cancel_expired, loop)

    def _cancel_expired(self, loop: asyncio.AbstractEventLoop) -> None:
        now = monotonic()
        try:
            for deadline in list(self.active):
                if deadline.expires_at > now:
                    return
                del self.active[deadline]
                deadline.expired = True
                if (task := deadline.task()) is not None:
                    with activate_tool_frame(_LOOP_ACTOR):  # it may be of a class with code of its own
                        call_or_default(task.cancel, False)
        finally:
            self.is_scheduled = False
            for deadline in self.active:  # the earliest that is left
                self.schedule_check(loop, deadline.expires_at - now)
                break


_deadline_timers: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[float, DeadlineTimer]] = WeakKeyDictionary()


def get_deadline_timer(loop: asyncio.AbstractEventLoop, seconds: float) -> DeadlineTimer:
    """Return the loop's timer for calls that may take *seconds*."""
    timers = _deadline_timers.get(loop)
    if timers is None:
        timers = _deadline_timers[loop] = {}
    timer = timers.get(seconds)
    if timer is None:
        timer = timers[seconds] = DeadlineTimer(seconds)
    return timer


class DeadlineExpiredError(Exception):
    """The deadline of an awaited call has passed."""


@lru_cache(256)
def make_deadline_runner(seconds: float | None) -> Callable[[Work[object]], Work[object]] | None:
    """
    Return a function that awaits a coroutine for at most *seconds*, or None where there is no deadline.

    Where the time is over, it raises `DeadlineExpiredError`.
    """
    if seconds is None:
        return None
    resume = make_deadline_resumer(seconds)

    async def run_with_deadline(work: Any) -> object:
        place: list[object] = [None]
        work = await_into(place, work)
        waiting = next(work, DONE)
        if waiting is not DONE:
            await resume(work, waiting, current_frame.get())
        return place[0]

    return run_with_deadline


@lru_cache(256)
def make_deadline_resumer(seconds: float | None) -> Callable[[frames.Work, object, Frame | None], frames.Work]:
    """
    Return a function that awaits the rest of work that has begun and waits, as `resume_in_frames` does.

    Work that never waits is never late, and asking for the running loop is slow: only waiting work gets a deadline.
    """
    if seconds is None:
        return resume_in_frames
    import asyncio

    @coroutine
    def resume_with_deadline(work: frames.Work, waiting: object, inner: Frame | None) -> frames.Work:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        before = task.cancelling() if task is not None else 0
        deadline = get_deadline_timer(loop, seconds).start_deadline(loop, task)
        try:
            value = yield from resume_in_frames(work, waiting, inner)
        except asyncio.CancelledError:
            if deadline.expired and deadline.uncancel() <= before:
                raise DeadlineExpiredError from None
            raise
        except (Exception, SystemExit) as error:
            if deadline.expired:
                deadline.uncancel()
                raise DeadlineExpiredError from error
            raise
        finally:
            deadline.active.pop(deadline, None)
        if deadline.expired:  # the work went on after its cancellation: how long it may is not the same on every path
            deadline.uncancel()
            raise DeadlineExpiredError
        return value

    return resume_with_deadline
