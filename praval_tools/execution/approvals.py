"""Calls that wait for a person: who is asked, and what was answered."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from praval_tools.errors import ToolUsageError
from praval_tools.names import shorten_repr
from praval_tools.tools.decision import Allow, ApprovalRequest, Deny

UNANSWERED: Final = object()
"""What a handler answers where somebody else is to: the call waits."""

ApprovalAnswer = Allow | Deny
ApprovalHandler = Callable[[ApprovalRequest], Any]
"""Answers a request with `Allow` or `Deny`, at once or awaited; everything else is a no."""


class _ApprovalEntry(msgspec.Struct):
    """A request with its answer, once there is one."""

    request: ApprovalRequest
    answer: ApprovalAnswer | None = None


class Approvals:
    """
    The approvals of one registry.

    An answer is bound to the call's id, agent, tool definition and arguments; it is used once, and expires.
    """

    def __init__(self, operator: Callable[[str], None], now: Callable[[], datetime]) -> None:
        self._require_operator, self._now = operator, now
        self.reset_after_fork()
        self._entries: dict[str, _ApprovalEntry] = {}
        self._handler: ApprovalHandler | None = None
        self._fallback_handler: ApprovalHandler | None = None
        self.on_answer: Callable[[ApprovalRequest, ApprovalAnswer], None] | None = None
        self.lifetime = timedelta(hours=1)

    def reset_after_fork(self) -> None:
        """Take a new lock; in a forked process another thread of the parent may have held the old one."""
        self._lock = threading.RLock()

    @property
    def handler(self) -> ApprovalHandler | None:
        """Who answers for the operator; only the operator sets it."""
        return self._handler

    @handler.setter
    def handler(self, handler: ApprovalHandler | None) -> None:
        self._require_operator("set the approval handler")
        self._handler = handler

    @property
    def fallback_handler(self) -> ApprovalHandler | None:
        """Who is asked where the operator has set nobody: trusted plugins."""
        return self._fallback_handler

    @fallback_handler.setter
    def fallback_handler(self, handler: ApprovalHandler | None) -> None:
        self._require_operator("set who answers approvals")
        self._fallback_handler = handler

    @property
    def effective_handler(self) -> ApprovalHandler | None:
        """Who is asked: the operator's handler, else the plugins; None: nobody."""
        return self.handler if self.handler is not None else self.fallback_handler

    def pending(self) -> list[ApprovalRequest]:
        """Return the calls that wait for an answer, the oldest first."""
        now = self._now()
        with self._lock:
            return [one.request for one in self._entries.values() if one.answer is None and one.request.expires > now]

    def answer(self, tool_call_id: str, answer: ApprovalAnswer) -> None:
        """
        Answer a call that waits; it does not run by that, but passes once when it is sent again as it was.

        Raises:
            NotOwnerError: It is not the operator who answers.
            ToolUsageError: No call of this id waits, it was answered, or the answer is neither `Allow` nor `Deny`.
        """
        self._require_operator("answer an approval")
        if not isinstance(answer, Allow | Deny):
            raise ToolUsageError(f"{shorten_repr(answer)} is no answer; say Allow(…) or Deny(…).")
        with self._lock:
            kept = self._entries.get(tool_call_id)
            if kept is None or kept.request.expires <= self._now():
                raise ToolUsageError(
                    f"No call {shorten_repr(tool_call_id)} waits for an approval; see approvals.pending()."
                )
            if kept.answer is not None:
                raise ToolUsageError(f"Call {tool_call_id!r} was answered already, by {kept.answer.by or 'somebody'}.")
            if self.on_answer is not None:
                self.on_answer(kept.request, answer)
            kept.answer = answer

    def take_answer(self, request: ApprovalRequest) -> ApprovalAnswer | None:
        """Return the answer to an equal earlier request, which is used up by that; None: there is none."""
        with self._lock:
            kept = self._entries.get(request.tool_call_id)
            if kept is None or kept.answer is None:
                return None
            del self._entries[request.tool_call_id]
        if kept.request.expires <= self._now():
            return None
        return kept.answer if _is_same_request(kept.request, request) else None

    def add_pending(self, request: ApprovalRequest) -> None:
        """Let *request* wait for its answer; an equal one that waits already stays."""
        with self._lock:
            now = self._now()
            for name in [name for name, one in self._entries.items() if one.request.expires <= now]:
                del self._entries[name]
            kept = self._entries.get(request.tool_call_id)
            if kept is None or not _is_same_request(kept.request, request):
                self._entries[request.tool_call_id] = _ApprovalEntry(request)

    def interpret_answer(self, request: ApprovalRequest, answer: object) -> ApprovalAnswer | None:
        """Return what an answer means: whatever is no explicit and timely yes is a no; None: the call waits."""
        if answer is UNANSWERED:
            return None
        if self._now() >= request.expires:
            return Deny("the answer came too late")
        if isinstance(answer, Allow | Deny):
            return answer
        return Deny(f"the answer {shorten_repr(answer)} is neither Allow nor Deny")


def _is_same_request(one: ApprovalRequest, other: ApprovalRequest) -> bool:
    names = ("tool", "agent", "chain", "run_id", "arguments", "fingerprint")
    return all(getattr(one, name) == getattr(other, name) for name in names)
