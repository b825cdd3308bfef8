"""Keeps who runs in this context: a stack of frames of agents, policies, plugins and the operator."""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import msgspec
from msgspec.structs import replace

from praval_tools.access.records import Principal
from praval_tools.errors import NotOwnerError
from praval_tools.names import OPERATOR
from praval_tools.tools.call import ToolCall


class FrameScope(msgspec.Struct, frozen=True, eq=False):
    """What stays the same for every call of one agent to one tool, or for every run of an agent's function."""

    registry: Any  # a `ToolRegistry`, which is above this layer
    principal: Principal | None
    actor: str
    tool: str | None = None


Frame = list[Any]
"""One running piece of work, from `make_frame`; a list, since each call makes one and nothing is made faster."""

SCOPE, ARGUMENTS, PARENT, CALL, ENDED = range(5)
"""The indexes of a frame; `PARENT` is the frame that it was entered from, `ENDED` whether its work has ended."""


def make_frame(scope: FrameScope, arguments: object = None, call: ToolCall | None = None) -> Frame:
    """Return the frame of work that begins; tasks that the work leaves behind keep the frame after it has ended."""
    return [scope, arguments, None, call, False]


current_frame: ContextVar[Frame | None] = ContextVar("praval_tools_frame", default=None)
"""The innermost frame of a context; None where nothing runs."""


def get_current_frame() -> Frame | None:
    """Return the innermost frame of this context, ended or not, or None where nothing runs."""
    return current_frame.get()


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


def iter_active_frames() -> Iterator[Frame]:
    """Yield the frames on the stack of this context whose work goes on, the innermost first."""
    frame = get_current_frame()
    while frame is not None:
        if not frame[ENDED]:
            yield frame
        frame = frame[PARENT]


def iter_active_calls(registry: object) -> Iterator[Frame]:
    """Yield the frames of *registry*'s tools that this context is inside of, the innermost first."""
    return (
        frame for frame in iter_active_frames() if frame[SCOPE].tool is not None and frame[SCOPE].registry is registry
    )


def resolve_actor(by: object, verb: str, tool: str | None = None) -> str:
    """
    Return the name under which a change is made: that of the running principal, or *by* where the operator passes it.

    Raises:
        NotOwnerError: An agent's code passes another name than its own.
    """
    frame = get_current_frame()
    actor = OPERATOR if frame is None else frame[SCOPE].actor
    if by is None:
        return actor
    name = str(getattr(by, "name", by))
    if actor not in (OPERATOR, name):
        raise NotOwnerError(actor, f"speak for {name!r} to {verb}", tool, None)
    return name


def get_current_principal(registry: object) -> Principal | None:
    """
    Return the principal that runs in this context, or None for the operator.

    An agent of another registry is known by its name alone.
    """
    frame = current_frame.get()
    if frame is None or (scope := frame[SCOPE]).actor == OPERATOR:
        return None
    return scope.principal if scope.registry is registry and scope.principal is not None else Principal(scope.actor)


def current_call() -> ToolCall | None:
    """Return the call that runs in this context, or None outside of any call; its id is made on first use."""
    frame = get_current_frame()
    while frame is not None and frame[SCOPE].tool is None:
        frame = frame[PARENT]
    return None if frame is None else ensure_call(frame)


def ensure_call(frame: Frame) -> ToolCall:
    """Return the frame's call with its id, and with the id of the call from which it was made."""
    call: ToolCall | None = frame[CALL]
    if call is None:
        scope = frame[SCOPE]
        agent, chain = (scope.principal.agent, scope.principal.chain) if scope.principal else (None, ())
        call = ToolCall(None, scope.tool or "", frame[ARGUMENTS], agent, None, chain)
    outer: Frame | None = frame[PARENT]
    while outer is not None and outer[SCOPE].tool is None:
        outer = outer[PARENT]
    call = call.with_id()
    if outer is not None and call.parent_id is None:
        call = replace(call, parent_id=ensure_call(outer).tool_call_id)
    frame[CALL] = call
    return call
