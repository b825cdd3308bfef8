"""The stack of running work in a context: frames of tools, agents, plugins and the operator, also across awaits."""

from __future__ import annotations

from collections.abc import Awaitable
from contextvars import ContextVar
from types import coroutine
from typing import Any, Final

import msgspec

from praval_tools.errors import NotOwnerError
from praval_tools.names import OPERATOR


class FrameScope(msgspec.Struct, frozen=True, eq=False):
    """What stays the same for every call of one agent to one tool, or for every run of an agent's function."""

    registry: Any  # a `ToolRegistry`, which is above this layer
    principal: Any  # a `Principal`, which is above this layer; None for the operator
    actor: str
    tool: str | None = None


Frame = list[Any]
"""One running piece of work, from `make_frame`; a list, since each call makes one and nothing is made faster."""

SCOPE, ARGUMENTS, PARENT, CALL, ENDED = range(5)
"""The indexes of a frame; `PARENT` is the frame that it was entered from, `ENDED` whether its work has ended."""


def make_frame(scope: FrameScope, arguments: object = None, call: object = None) -> Frame:
    """Return the frame of work that begins; tasks that the work leaves behind keep the frame after it has ended."""
    return [scope, arguments, None, call, False]


current_frame: ContextVar[Frame | None] = ContextVar("praval_tools_frame", default=None)
"""The innermost frame of a context; None where nothing runs."""


def get_current_frame() -> Frame | None:
    """Return the innermost frame of this context, ended or not, or None where nothing runs."""
    return current_frame.get()


def get_current_actor() -> str:
    """Return the name of who runs in this context: an agent, a policy, a plugin, or the operator."""
    frame = current_frame.get()
    return OPERATOR if frame is None else str(frame[SCOPE].actor)


def refuse_others_than_operator(verb: str) -> None:
    """Raise `NotOwnerError` unless the operator runs in this context."""
    if (actor := get_current_actor()) != OPERATOR:
        raise NotOwnerError(actor, verb, None, None)


class activate_frame:  # used as a function; a class costs a third of a generator
    """Make *frame* the innermost frame of the context, until the `with` block ends."""

    __slots__ = ("_frame", "_token")

    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    def __enter__(self) -> Frame:
        frame, outer = self._frame, current_frame.get()
        if outer is not None:
            frame[PARENT] = find_active_frame(outer)
        try:
            self._token = current_frame.set(frame)
        except BaseException:  # an interrupt, which may come before the token is kept
            current_frame.set(outer)
            raise
        return frame

    def __exit__(self, *_: object) -> None:
        self._frame[ENDED] = True
        try:
            current_frame.reset(self._token)
        except ValueError:  # collected with its loop, in another context
            pass


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
            answer = yield waiting
        except BaseException as error:  # thrown into the work, which decides
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
            inner = current_frame.get()
            current_frame.set(outer)


async def await_in_frame(frame: Frame, awaitable: Awaitable[object]) -> object:
    """Await *awaitable* as code of *frame*, whatever the contexts in which its steps are taken; return its value."""
    place: list[object] = [None]
    outer = current_frame.get()
    work = await_into(place, _await_any(awaitable))
    if outer is not None:
        frame[PARENT] = find_active_frame(outer)
    try:
        try:
            current_frame.set(frame)
            waiting = next(work, DONE)
            inner = current_frame.get()
        finally:
            current_frame.set(outer)
        if waiting is not DONE:
            await resume_in_frames(work, waiting, inner)
        return place[0]
    finally:
        frame[ENDED] = True


async def _await_any(awaitable: Awaitable[object]) -> object:
    return await awaitable


def activate_tool_frame(tool: str) -> activate_frame:
    """
    Run the `with` block as code of the tool of this name, which may do nothing in any registry.

    For values that a tool returned, where nobody knows the registry and the principal of the call any more.
    """
    return activate_frame(make_frame(FrameScope(None, None, f"tool:{tool}")))
