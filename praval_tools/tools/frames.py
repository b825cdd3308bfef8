"""Keeps track of whose code runs in a context: a stack of frames of tools, agents, plugins and the operator."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from functools import wraps
from types import coroutine
from typing import Any, Final, ParamSpec, Protocol, TypeVar, cast

import msgspec

from praval_tools.errors import AccessWarning, NotOwnerError, ToolUsageError, get_user_stacklevel
from praval_tools.names import OPERATOR, set_object_context
from praval_tools.tools.awaited_futures import (
    AwaitedObject,
    accept_future,
    cancel_future,
    check_future,
    follow_future,
    may_have_code,
)
from praval_tools.tools.finalizers import is_collecting, run_finalizer

P = ParamSpec("P")
T = TypeVar("T")


class FrameScope(msgspec.Struct, frozen=True, eq=False):
    """
    What stays the same for every call of one agent to one tool, or for every run of an agent's function.

    `person` is who acts as the operator, where the program says so.
    """

    registry: Any  # a `ToolRegistry`, which is above this layer
    principal: Any  # a `Principal`, which is above this layer; None for the operator
    actor: str
    tool: str | None = None
    person: str = ""


CONFINED_ACTOR_PREFIXES: Final = ("plugin:", "tool:")
"""How the names begin of actors that are no agents, and make no calls in the name of one."""

Frame = list[Any]
"""One running piece of work, from `make_frame`; a list, since each call makes one and nothing is made faster."""

SCOPE, ARGUMENTS, PARENT, CALL, ENDED, SETTINGS, OPEN_CHANGES = range(7)
"""
The indexes of a frame: `PARENT` is the frame that it was entered from, `ENDED` whether its work has ended,
`SETTINGS` what is set in its context, and `OPEN_CHANGES` a list of what the work has to leave before it ends.
"""

Settings = dict[object, object]
"""What is set in a context, such as its current run, by `ContextSetting`; that of a frame is never changed."""


def make_frame(scope: FrameScope, arguments: object = None, call: object = None) -> Frame:
    """
    Return the frame of work that begins; tasks that the work leaves behind keep the frame after it has ended.

    The fast paths of calls write this list out, as each call makes one.
    """
    return [scope, arguments, None, call, False, None, None]


class SettingsFrame(Frame):
    """A frame in which the work of its parent goes on with other settings."""

    __slots__ = ()


_OPERATOR_SCOPE: Final = FrameScope(None, None, OPERATOR)


def derive_frame(frame: Frame | None, settings: Settings) -> Frame | None:
    """Return a frame in which the work of *frame* goes on with *settings*; None for the operator without any."""
    work = get_work_frame(frame)
    if not settings and work is None:
        return None
    scope = _OPERATOR_SCOPE if work is None else work[SCOPE]
    return SettingsFrame((scope, None, work, None, True, settings or None, None))


def get_work_frame(frame: Frame | None) -> Frame | None:
    """Return the frame of the work that *frame* belongs to; None where that is the operator's own."""
    return frame[PARENT] if type(frame) is SettingsFrame else frame


current_frame: ContextVar[Frame | None] = ContextVar("praval_tools_frame", default=None)
"""The innermost frame of a context; None where nothing runs."""


def get_current_frame() -> Frame | None:
    """Return the innermost frame of this context, ended or not, or None where nothing runs."""
    return current_frame.get()


def get_current_actor() -> str:
    """Return the name of who runs in this context: an agent, a policy, a plugin, or the operator."""
    frame = current_frame.get()
    return OPERATOR if frame is None else str(frame[SCOPE].actor)


def get_current_person() -> str:
    """Return the name of the person who acts as the operator in this context; empty where nobody is named."""
    frame = current_frame.get()
    return "" if frame is None else str(frame[SCOPE].person)


def refuse_others_than_operator(verb: str) -> None:
    """Raise `NotOwnerError` unless the operator runs in this context."""
    if (actor := get_current_actor()) != OPERATOR:
        raise NotOwnerError(actor, verb, None, None)


class UndoableChange(Protocol):
    """A `change()` that work has opened."""

    def undo(self) -> str:
        """Undo it and let others change something; return whose it is, or an empty text where it cannot be undone."""


def end_frame(frame: Frame) -> None:
    """
    End the work of *frame*; what it left open is undone.

    Raises:
        ToolUsageError: It left a `change()` open, and raised nothing itself.
    """
    frame[ENDED] = True
    if frame[OPEN_CHANGES]:
        undo_open_changes(frame)


def undo_open_changes(frame: Frame) -> None:
    """
    Undo each `change()` that the work of *frame* left open as it ended or began to wait.

    Raises:
        ToolUsageError: There is one, and no exception is being handled.
    """
    left = [name for change in reversed(list(frame[OPEN_CHANGES])) if (name := change.undo())]
    if not left:
        return
    scope: FrameScope = frame[SCOPE]
    worker = scope.actor if scope.tool is None else f"tool {scope.tool!r}, called by {scope.actor!r},"
    text = (
        f"{worker} left a change() of {left[0]} open, so it was undone and others may go on. "
        f"Use it as `with registry.change():`, and neither wait nor yield inside."
    )
    if sys.exception() is None:
        raise ToolUsageError(text, "change-left-open")
    warnings.warn(text, AccessWarning, stacklevel=get_user_stacklevel())


class activate_frame:  # used as a function; a class costs a third of a generator
    """
    Make *frame* the innermost frame of the context, until the `with` block ends.

    Args:
        frame: The frame.
        kept_settings: What earlier steps of the same work set, and have not taken back; brought up to date at the end.
    """

    __slots__ = ("_frame", "_kept_settings", "_outer_settings", "_token")

    def __init__(self, frame: Frame, kept_settings: Settings | None = None) -> None:
        self._frame, self._kept_settings = frame, kept_settings

    def __enter__(self) -> Frame:
        frame, outer = self._frame, current_frame.get()
        if outer is not None:
            frame[PARENT], frame[SETTINGS] = find_active_frame(outer), outer[SETTINGS]
        if self._kept_settings is not None:
            self._outer_settings = frame[SETTINGS]
            frame[SETTINGS] = {**(frame[SETTINGS] or {}), **self._kept_settings}
        try:
            self._token = current_frame.set(frame)
            return frame
        except BaseException:  # an interrupt, which may come before the token is kept
            current_frame.set(outer)
            raise

    def __exit__(self, *_: object) -> None:
        try:
            if self._kept_settings is not None:
                _update_kept_settings(self._kept_settings, self._frame, self._outer_settings)
            end_frame(self._frame)
        finally:
            try:
                current_frame.reset(self._token)
            except ValueError:  # collected with its loop, in another context
                pass
            except BaseException:  # an interrupt, which may come before the frame is reset
                self._reset_again()
                raise

    def _reset_again(self) -> None:
        try:
            current_frame.reset(self._token)
        except (RuntimeError, ValueError):  # it is reset, or was entered in another context
            pass


def keep_frame(function: Callable[P, T]) -> Callable[P, T]:
    """
    Return *function* so that whoever called it runs again as it ends, wherever an interrupt came.

    It is for what enters a frame of somebody else and is called by code that may catch an interrupt and go on.
    Python looks for signals before the first line of `activate_frame.__exit__`, too, which then does nothing.
    """

    @wraps(function)
    def call(*args: P.args, **keywords: P.kwargs) -> T:
        outer = current_frame.get()
        try:
            value = function(*args, **keywords)
            if current_frame.get() is not outer:  # an error that was taken for one of the code inside
                current_frame.set(outer)
            return value
        except BaseException:
            current_frame.set(outer)
            raise

    return call


def _update_kept_settings(kept: Settings, frame: Frame, outer: Settings | None) -> None:
    """Put into *kept* what is set now in the work of *frame*, and is not in its *outer* settings."""
    current = current_frame.get()
    if current is not None and get_work_frame(current) is frame and current is not frame:
        kept.clear()
        outer = outer or {}
        kept.update((key, value) for key, value in (current[SETTINGS] or {}).items() if outer.get(key) is not value)


def find_active_frame(frame: Frame | None) -> Frame | None:
    """Return the nearest frame from *frame* on that has not ended; ended ones are cut out of its chain."""
    while frame is not None and frame[ENDED]:
        frame = frame[PARENT]
    if frame is not None:
        parent = frame[PARENT]
        while parent is not None and parent[ENDED]:
            parent = parent[PARENT]
        frame[PARENT] = parent
    return frame


Work = Any
"""A coroutine or a generator, which is driven by `send`, `throw` and `close`."""

DONE: Final = object()
"""The answer of `next` for work that ended without waiting."""


@coroutine
def await_into(place: list[object], work: Work) -> Work:
    """Await *work* and put its value into *place*: ending without a value costs no exception, which is slow."""
    place[0] = yield from work


@coroutine
def resume_in_frames(work: Work, waiting: object, inner: Frame | None) -> Work:
    """
    Drive a coroutine that has begun and waits; return its value.

    Each step goes on in the frame in which the one before ended, whatever the context in which it is taken, such as
    that in which the coroutine is collected; after each, the context has the frame that it had before.

    Args:
        work: The coroutine.
        waiting: What it waits for.
        inner: The frame in which it waits.
    """
    while True:
        try:
            if (frame := get_work_frame(inner)) is not None and frame[OPEN_CHANGES]:
                undo_open_changes(frame)
            if waiting is None or not may_have_code(waiting):
                answer = yield waiting
            else:
                answer = yield from _await_unasked(cast("AwaitedObject", waiting), inner)
        except BaseException as error:  # thrown into the work, which decides
            if type(error) is GeneratorExit and is_collecting():
                run_finalizer(_close_in_frame, work, inner)
                raise
            resume, value = work.throw, error
        else:
            resume, value = work.send, answer
        outer = current_frame.get()
        try:
            current_frame.set(inner)
            waiting = resume(value)
        except StopIteration as end:
            return end.value
        finally:
            try:
                inner = current_frame.get()
            finally:
                current_frame.set(outer)


@coroutine
def _await_unasked(waiting: AwaitedObject, inner: Frame | None) -> Work:
    """Wait for a future that may have code of its own, all of which runs in *inner*; a plain one is yielded."""
    _run_in_frame(inner, accept_future, waiting)
    while True:
        stand_in = _run_in_frame(inner, follow_future, waiting)
        try:
            yield from stand_in
        except BaseException as error:
            if not stand_in.cancelled() or not _run_in_frame(inner, cancel_future, waiting, error):
                raise
        else:
            _run_in_frame(inner, check_future, waiting)
            return


def _run_in_frame(inner: Frame | None, function: Callable[P, T], *args: P.args, **keywords: P.kwargs) -> T:
    """Call *function* in a frame of work that waits, and may leave no change open."""
    outer = current_frame.get()
    try:
        current_frame.set(inner)
        return function(*args, **keywords)
    finally:
        current_frame.set(outer)
        if (frame := get_work_frame(inner)) is not None and frame[OPEN_CHANGES]:
            undo_open_changes(frame)


def _close_in_frame(work: Work, frame: Frame | None) -> None:
    current_frame.set(frame)
    work.close()


async def await_in_frame(
    frame: Frame, awaitable: Awaitable[object], kept_settings: Settings | None = None
) -> object:
    """
    Await *awaitable* as code of *frame*, whatever the contexts in which its steps are taken; return its value.

    Args:
        frame: The frame.
        awaitable: What is awaited.
        kept_settings: As in `activate_frame`.
    """
    place: list[object] = [None]
    outer = current_frame.get()
    if outer is not None:
        frame[PARENT], frame[SETTINGS] = find_active_frame(outer), outer[SETTINGS]
    if kept_settings is None:
        work = await_into(place, _await_any(awaitable))
    else:
        work = await_into(place, _await_step(awaitable, frame, kept_settings, frame[SETTINGS]))
        frame[SETTINGS] = {**(frame[SETTINGS] or {}), **kept_settings}
    try:
        await _begin_in_frame(work, frame)
        return place[0]
    finally:
        end_frame(frame)


async def await_in_own_frames(work: Awaitable[T]) -> T:
    """
    Await *work*, which enters frames and waits in them; return its value.

    Each step goes on in the frame in which the one before ended, and whoever awaits it runs again after each.
    """
    place: list[object] = [None]
    await _begin_in_frame(await_into(place, work), current_frame.get())
    return cast("T", place[0])


@coroutine
def _begin_in_frame(work: Work, frame: Frame | None) -> Work:
    """Drive a coroutine that has not begun, at first in *frame*."""
    outer = current_frame.get()
    try:
        current_frame.set(frame)
        waiting = next(work, DONE)
        inner = current_frame.get()
    finally:
        current_frame.set(outer)
    if waiting is not DONE:
        yield from resume_in_frames(work, waiting, inner)


async def _await_any(awaitable: Awaitable[object]) -> object:
    return await awaitable


async def _await_step(
    awaitable: Awaitable[object], frame: Frame, kept_settings: Settings, outer_settings: Settings | None
) -> object:
    try:
        return await awaitable
    finally:
        _update_kept_settings(kept_settings, frame, outer_settings)


def activate_tool_frame(tool: str) -> activate_frame:
    """
    Run the `with` block as code of the tool of this name, which may do nothing in any registry.

    For values that a tool returned, where nobody knows the registry and the principal of the call any more. Where no
    tool is known, the name is in parentheses and says whose code runs, such as `(arguments)`.
    """
    return activate_frame(make_frame(FrameScope(None, None, f"tool:{tool}")))


def _confine() -> AbstractContextManager[object]:
    """Return a context without rights, unless such code runs already, or the collector, which may set no variable."""
    if is_collecting() or get_current_actor().startswith("tool:"):
        return nullcontext()
    return activate_tool_frame("(repr)")


set_object_context(_confine)
