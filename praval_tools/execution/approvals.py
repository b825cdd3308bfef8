"""Calls that wait for a person: who is asked, and what was answered."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from praval_tools.errors import ToolUsageError
from praval_tools.names import shorten
from praval_tools.tools.approval import Allow, ApprovalRequest
from praval_tools.tools.decision import Deny

UNANSWERED: Final = object()
"""What a handler answers where somebody else is to: the call waits."""

Answer = Allow | Deny
Handler = Callable[[ApprovalRequest], Any]
"""Answers a request with `Allow` or `Deny`, at once or awaited; everything else is a no."""


class _Kept(msgspec.Struct):
    """A request with its answer, once there is one."""

    request: ApprovalRequest
    answer: Answer | None = None


class Approvals:
    """
    The approvals of one registry.

    An answer is bound to the call's id, agent, tool definition and arguments; it is used once, and expires.
    """

    def __init__(self, operator: Callable[[str], None], now: Callable[[], datetime]) -> None:
        self._operator, self._now = operator, now
        self.start_over()
        self._kept: dict[str, _Kept] = {}
        self._handler: Handler | None = None
        self._fallback: Handler | None = None
        self.answered: Callable[[ApprovalRequest, Answer], None] | None = None
        self.lasts = timedelta(hours=1)

    def start_over(self) -> None:
        """Take a new lock; in a forked process another thread of the parent may have held the old one."""
        self._lock = threading.RLock()

    @property
    def handler(self) -> Handler | None:
        """Who answers for the operator; only the operator sets it."""
        return self._handler

    @handler.setter
    def handler(self, handler: Handler | None) -> None:
        self._operator("set the approval handler")
        self._handler = handler

    @property
    def fallback(self) -> Handler | None:
        """Who is asked where the operator has set nobody: trusted plugins."""
        return self._fallback

    @fallback.setter
    def fallback(self, handler: Handler | None) -> None:
        self._operator("set who answers approvals")
        self._fallback = handler

    @property
    def asked(self) -> Handler | None:
        """Who is asked: the operator's handler, else the plugins; None: nobody."""
        return self.handler if self.handler is not None else self.fallback

    def pending(self) -> list[ApprovalRequest]:
        """Return the calls that wait for an answer, the oldest first."""
        now = self._now()
        with self._lock:
            return [one.request for one in self._kept.values() if one.answer is None and one.request.expires > now]

    def answer(self, tool_call_id: str, answer: Answer) -> None:
        """
        Answer a call that waits; it does not run by that, but passes once when it is sent again as it was.

        Raises:
            NotOwnerError: It is not the operator who answers.
            ToolUsageError: No call of this id waits, it was answered, or the answer is neither `Allow` nor `Deny`.
        """
        self._operator("answer an approval")
        if not isinstance(answer, Allow | Deny):
            raise ToolUsageError(f"{shorten(answer)} is no answer; say Allow(…) or Deny(…).")
        with self._lock:
            kept = self._kept.get(tool_call_id)
            if kept is None or kept.request.expires <= self._now():
                raise ToolUsageError(f"No call {shorten(tool_call_id)} waits for an approval; see approvals.pending().")
            if kept.answer is not None:
                raise ToolUsageError(f"Call {tool_call_id!r} was answered already, by {kept.answer.by or 'somebody'}.")
            if self.answered is not None:
                self.answered(kept.request, answer)
            kept.answer = answer

    def taken(self, request: ApprovalRequest) -> Answer | None:
        """Return the answer to an equal earlier request, which is used up by that; None: there is none."""
        with self._lock:
            kept = self._kept.get(request.tool_call_id)
            if kept is None or kept.answer is None:
                return None
            del self._kept[request.tool_call_id]
        if kept.request.expires <= self._now():
            return None
        return kept.answer if _same(kept.request, request) else None

    def keep(self, request: ApprovalRequest) -> None:
        """Let *request* wait for its answer; an equal one that waits already stays."""
        with self._lock:
            now = self._now()
            for name in [name for name, one in self._kept.items() if one.request.expires <= now]:
                del self._kept[name]
            kept = self._kept.get(request.tool_call_id)
            if kept is None or not _same(kept.request, request):
                self._kept[request.tool_call_id] = _Kept(request)

    def judged(self, request: ApprovalRequest, answer: object) -> Answer | None:
        """Return what an answer means: whatever is no explicit and timely yes is a no; None: the call waits."""
        if answer is UNANSWERED:
            return None
        if self._now() >= request.expires:
            return Deny("the answer came too late")
        if isinstance(answer, Allow | Deny):
            return answer
        return Deny(f"the answer {shorten(answer)} is neither Allow nor Deny")


def _same(one: ApprovalRequest, other: ApprovalRequest) -> bool:
    names = ("tool", "agent", "chain", "run_id", "arguments", "fingerprint")
    return all(getattr(one, name) == getattr(other, name) for name in names)
