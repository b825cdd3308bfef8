"""The approvals of a registry: calls that wait for a person, the handlers that are asked, and their answers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from praval_tools.errors import ToolUsageError
from praval_tools.names import shorten_repr
from praval_tools.tools.decision import Allow, ApprovalRequest, Deny

UNANSWERED: Final = object()
"""The answer of a handler that leaves the decision to somebody else: the call waits."""

ApprovalAnswer = Allow | Deny
ApprovalHandler = Callable[[ApprovalRequest], object]
"""Answers a request with `Allow` or `Deny`, at once or awaited; everything else counts as a denial."""


class _ApprovalEntry(msgspec.Struct):
    """A request with its answer, once there is one."""

    request: ApprovalRequest
    answer: ApprovalAnswer | None = None


class Approvals:
    """
    The approvals of one registry.

    An answer is bound to the call's id, agent, tool definition and arguments; it is used once, and expires.
    """

    def __init__(self, require_operator: Callable[[str], None], now: Callable[[], datetime]) -> None:
        self._require_operator, self._now = require_operator, now
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
        """The operator's handler; only the operator sets it."""
        return self._handler

    @handler.setter
    def handler(self, handler: ApprovalHandler | None) -> None:
        self._require_operator("set the approval handler")
        self._handler = handler

    @property
    def fallback_handler(self) -> ApprovalHandler | None:
        """The handler that is asked where the operator has set none: that of trusted plugins."""
        return self._fallback_handler

    @fallback_handler.setter
    def fallback_handler(self, handler: ApprovalHandler | None) -> None:
        self._require_operator("set the fallback approval handler")
        self._fallback_handler = handler

    @property
    def effective_handler(self) -> ApprovalHandler | None:
        """The handler that is asked: the operator's, else that of the plugins; None where neither is set."""
        return self.handler if self.handler is not None else self.fallback_handler

    def pending(self) -> list[ApprovalRequest]:
        """Return the calls that wait for an answer, the oldest first."""
        now = self._now()
        with self._lock:
            return [
                entry.request
                for entry in self._entries.values()
                if entry.answer is None and entry.request.expires > now
            ]

    def answer(self, tool_call_id: str, answer: ApprovalAnswer) -> None:
        """
        Answer a call that waits.

        The call does not run by that: it is approved once, when the same call is sent again.

        Raises:
            NotOwnerError: Somebody else than the operator answers.
            ToolUsageError: No call of this id waits, it was answered before, or the answer is not `Allow` or `Deny`.
        """
        self._require_operator("answer an approval")
        if not isinstance(answer, Allow | Deny):
            raise ToolUsageError(f"{shorten_repr(answer)} is not a valid answer; pass Allow(…) or Deny(…).")
        with self._lock:
            entry = self._entries.get(tool_call_id)
            if entry is None or entry.request.expires <= self._now():
                raise ToolUsageError(
                    f"No call {shorten_repr(tool_call_id)} waits for an approval; see approvals.pending()."
                )
            if entry.answer is not None:
                raise ToolUsageError(f"Call {tool_call_id!r} was answered already, by {entry.answer.by or 'somebody'}.")
            if self.on_answer is not None:
                self.on_answer(entry.request, answer)
            entry.answer = answer

    def take_answer(self, request: ApprovalRequest) -> ApprovalAnswer | None:
        """Remove and return the answer to an equal earlier request, or None where there is none."""
        with self._lock:
            entry = self._entries.get(request.tool_call_id)
            if entry is None or entry.answer is None:
                return None
            del self._entries[request.tool_call_id]
        if entry.request.expires <= self._now():
            return None
        return entry.answer if _is_same_request(entry.request, request) else None

    def add_pending(self, request: ApprovalRequest) -> None:
        """Let *request* wait for its answer; an equal one that waits already stays."""
        with self._lock:
            now = self._now()
            for call_id in [call_id for call_id, entry in self._entries.items() if entry.request.expires <= now]:
                del self._entries[call_id]
            entry = self._entries.get(request.tool_call_id)
            if entry is None or not _is_same_request(entry.request, request):
                self._entries[request.tool_call_id] = _ApprovalEntry(request)

    def interpret_answer(self, request: ApprovalRequest, answer: object) -> ApprovalAnswer | None:
        """
        Return what a handler's answer means; everything but an explicit `Allow` in time is a denial.

        Returns:
            The answer, or None where the call waits for somebody else's.
        """
        if answer is UNANSWERED:
            return None
        if self._now() >= request.expires:
            return Deny("the answer came too late")
        if isinstance(answer, Allow | Deny):
            return answer
        return Deny(f"the answer {shorten_repr(answer)} is neither Allow nor Deny")


def _is_same_request(request: ApprovalRequest, other: ApprovalRequest) -> bool:
    """Tell whether two requests are about the same call, with the same arguments and tool definition."""
    names = ("tool", "agent", "chain", "run_id", "arguments", "fingerprint")
    return all(getattr(request, name) == getattr(other, name) for name in names)
