"""Tool context: the call that a tool serves, passed to it as a parameter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import field, frozen


def _ignore_progress(done: float, total: float | None, message: str) -> None:
    return None


def _is_never_cancelled() -> bool:
    return False


@frozen(kw_only=True)
class ToolContext:
    """
    The call that a tool serves; declare a parameter of this type and it is passed in, never shown to a model.

    Args:
        agent: The agent that calls, None for the operator.
        chain: The agents on whose behalf it calls, the nearest first.
        tool_call_id: The id of the call.
        run_id: The journaled run, if there is one.
        idempotency_key: Stays the same when this very call is run again; calls of two runs never share one.
        registry: The registry that the call went through.
    """

    agent: str | None
    chain: tuple[str, ...] = ()
    tool_call_id: str
    run_id: str | None = None
    idempotency_key: str
    registry: Any = field(default=None, repr=False)
    _progress: Callable[[float, float | None, str], None] = field(default=_ignore_progress, repr=False)
    _cancelled: Callable[[], bool] = field(default=_is_never_cancelled, repr=False)

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Report progress: *done* of *total*, in the tool's own unit."""
        self._progress(done, total, message)

    @property
    def cancelled(self) -> bool:
        """Whether the caller has given up; a long sync tool should look now and then."""
        return self._cancelled()
