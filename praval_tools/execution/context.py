"""Who is running now: the agent, policy or operator on the stack of this context."""

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

    registry: Any
    principal: Principal | None
    actor: str
    tool: str | None = None


Frame = list[Any]
"""One thing that is running, made by `frame_of`; a list, since every call makes one and nothing is made faster."""

SCOPE, ARGUMENTS, PARENT, CALL, ENDED = range(5)
"""Where a frame has what; `PARENT` is the frame that it was entered from, `OVER` whether its work has ended."""


def make_frame(site: FrameScope, arguments: Any = None, call: ToolCall | None = None) -> Frame:
    """Return the frame of what begins now; tasks that it leaves behind keep it in their contexts when it is over."""
    return [site, arguments, None, call, False]


current_frame: ContextVar[Frame | None] = ContextVar("praval_tools_frame", default=None)
"""The innermost frame of a context; None outside of any."""


def get_current_frame() -> Frame | None:
    """Return the frame of this context, over or not; None outside of any."""
    return current_frame.get()


class activate_frame:  # used as a function; a class costs a third of a generator
    """Make *frame* the one that runs."""

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
    """Return the nearest frame from *frame* on that is not over; its chain is cut short, so that it stays bounded."""
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


def iter_active_calls(registry: Any) -> Iterator[Frame]:
    """Yield the frames of *registry*'s tools that this context is inside of, the innermost first."""
    return (one for one in iter_active_frames() if one[SCOPE].tool is not None and one[SCOPE].registry is registry)


def resolve_actor(by: object, verb: str, tool: str | None = None) -> str:
    """
    Return in whose name a change is made: who is running, or *by* where the operator says so.

    Raises:
        NotOwnerError: An agent's code names somebody else.
    """
    frame = get_current_frame()
    me = OPERATOR if frame is None else frame[SCOPE].actor
    if by is None:
        return me
    name = str(getattr(by, "name", by))
    if me not in (OPERATOR, name):
        raise NotOwnerError(me, f"speak for {name!r} to {verb}", tool, None)
    return name


def get_current_principal(registry: Any) -> Principal | None:
    """Return who runs in this context: None is the operator; in another registry, an agent is known by its name."""
    frame = current_frame.get()
    if frame is None or (site := frame[SCOPE]).actor == OPERATOR:
        return None
    return site.principal if site.registry is registry and site.principal is not None else Principal(site.actor)


def current_call() -> ToolCall | None:
    """Return the call that is being served in this context, None outside of any; its id is made on first use."""
    frame = get_current_frame()
    while frame is not None and frame[SCOPE].tool is None:
        frame = frame[PARENT]
    return None if frame is None else ensure_call(frame)


def ensure_call(frame: Frame) -> ToolCall:
    """Return the frame's call with an id, and that of the call that it was made from."""
    call: ToolCall | None = frame[CALL]
    if call is None:
        site = frame[SCOPE]
        agent, chain = (site.principal.agent, site.principal.chain) if site.principal else (None, ())
        call = ToolCall(None, site.tool or "", frame[ARGUMENTS], agent, None, chain)
    above: Frame | None = frame[PARENT]
    while above is not None and above[SCOPE].tool is None:
        above = above[PARENT]
    call = call.with_id()
    if above is not None and call.parent_id is None:
        call = replace(call, parent_id=ensure_call(above).tool_call_id)
    frame[CALL] = call
    return call
