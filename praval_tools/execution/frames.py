"""Who is running now: the agent, policy or operator on the stack of this context."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import Any

import msgspec
from attrs import frozen

from praval_tools.errors import NotOwnerError
from praval_tools.model.calls import ToolCall
from praval_tools.model.permissions import Principal
from praval_tools.naming import OPERATOR


@frozen(eq=False)
class Site:
    """What stays the same for every call of one agent to one tool, or for every run of an agent's function."""

    registry: Any
    who: Principal | None
    actor: str
    tool: str | None = None


class Frame(msgspec.Struct):
    """One thing that is running: its site, the arguments, and its call where somebody asked for it."""

    site: Site
    arguments: Any = None
    token: Any = None
    call: Any = None

    @property
    def parent(self) -> Any:
        """The frame from which this one was entered."""
        return None if self.token is None or self.token.old_value is Token.MISSING else self.token.old_value


frames: ContextVar[Frame | None] = ContextVar("praval_tools_frame", default=None)


@contextmanager
def running(frame: Frame) -> Iterator[Frame]:
    """Make *frame* the one that runs."""
    token = frames.set(frame)
    frame.token = token
    try:
        yield frame
    finally:
        frames.reset(token)


def actor(by: object = None, verb: str = "act", tool: str | None = None) -> str:
    """
    Return in whose name a change is made: who is running, or *by* where the operator says so.

    Raises:
        NotOwnerError: An agent's code names somebody else.
    """
    frame = frames.get()
    me = OPERATOR if frame is None else frame.site.actor
    if by is None:
        return me
    name = str(getattr(by, "name", by))
    if me not in (OPERATOR, name):
        raise NotOwnerError(me, f"speak for {name!r} to {verb}", tool, None)
    return name


def current_call() -> ToolCall | None:
    """Return the call that is being served in this context, None outside of any; its id is made on first use."""
    frame = frames.get()
    while frame is not None and frame.site.tool is None:
        frame = frame.parent
    return None if frame is None else call_of(frame)


def call_of(frame: Frame) -> ToolCall:
    """Return the frame's call with an id."""
    if frame.call is None or frame.call.tool_call_id is None:
        site = frame.site
        made = frame.call or ToolCall(
            None, site.tool or "", frame.arguments, site.who.agent if site.who else None, None,
            site.who.chain if site.who else (),
        )  # fmt: skip
        frame.call = made.with_id()
    return frame.call  # type: ignore[no-any-return]
