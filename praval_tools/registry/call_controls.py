"""
What a program is given of the limits and approvals of a registry: to read them, to set them, and to answer.

Whoever has the registry gets these objects, code of agents too. What the calls themselves do with limits and approvals,
such as taking a place or using an answer, stays in the runtime.
"""

from __future__ import annotations

from datetime import timedelta

from praval_tools.execution.approvals import ApprovalHandler, Approvals
from praval_tools.execution.limits import Limit, Limits
from praval_tools.misuse import explain_misuse_and_take_plain_arguments
from praval_tools.tools.decision import ApprovalAnswer, ApprovalRequest


@explain_misuse_and_take_plain_arguments
class RegistryLimits:
    """The limits of one registry; a call needs a place under every limit that applies to it."""

    __slots__ = ("_limits",)

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def set(
        self, *, agent: object = None, tool: object = None, per_minute: int | None = None,
        concurrent: int | None = None, per_run: int | None = None,
    ) -> None:  # fmt: skip
        """
        Set the limit of an agent, of a tool, or of one agent's calls to one tool; without a number, remove it.

        The calls that were counted for the limit that it replaces still count.

        Args:
            agent: The agent whose calls count, and those made on its behalf.
            tool: The tool whose calls count.
            per_minute: Calls that begin within any sixty seconds.
            concurrent: Calls in flight at once.
            per_run: Calls of one journaled run.

        Raises:
            NotOwnerError: Somebody else than the operator sets it.
            ToolUsageError: Neither agent nor tool is passed, or a number is not a whole number from 1 on.
        """
        self._limits.set(agent=agent, tool=tool, per_minute=per_minute, concurrent=concurrent, per_run=per_run)

    def all(self) -> list[Limit]:
        """Return every limit, in the order in which they were first set."""
        return self._limits.all()


@explain_misuse_and_take_plain_arguments
class RegistryApprovals:
    """
    The approvals of one registry.

    An answer is bound to the call with its run, to who calls and on whose behalf, to the tool's definition, risk level
    and origin, and to the exact arguments; it is used once, and expires. With a journal all processes that use it see
    each other's requests and answers; the arguments are then shown without their secrets where another process asked.
    Without one, or with one in memory, a forked process has no answers that were given before.
    """

    __slots__ = ("_approvals",)

    def __init__(self, approvals: Approvals) -> None:
        self._approvals = approvals

    @property
    def handler(self) -> ApprovalHandler | None:
        """The operator's handler; only the operator sets it."""
        return self._approvals.handler

    @handler.setter
    def handler(self, handler: ApprovalHandler | None) -> None:
        self._approvals.change_setting("handler", handler)

    @property
    def lifetime(self) -> timedelta:
        """How long a request waits; only the operator sets it."""
        return self._approvals.lifetime

    @lifetime.setter
    def lifetime(self, lifetime: timedelta) -> None:
        self._approvals.change_setting("lifetime", lifetime)

    def pending(self) -> list[ApprovalRequest]:
        """Return the requests that wait for an answer, the oldest first."""
        return self._approvals.pending()

    def answer(self, tool_call_id: str, answer: ApprovalAnswer) -> None:
        """
        Answer a request that waits.

        The call does not run by that: it is approved once, when the same call is sent again, in whichever process.

        Args:
            tool_call_id: The id of the request; or that of its call, where one request alone is known under it, waiting
                or answered.
            answer: `Allow`, with other arguments or without, or `Deny`.

        Raises:
            NotOwnerError: Somebody else than the operator answers.
            ToolUsageError: No such request waits, or several do, it was answered before, or the answer is not valid.
        """
        self._approvals.answer(tool_call_id, answer)

    def wait(self, tool_call_id: str, timeout: float | None = None) -> ApprovalAnswer | None:
        """
        Wait until a request is answered, here or in another process, and return the answer.

        Where several processes wait for one answer, all of them get it, and one of them can use it.

        Args:
            tool_call_id: The id of the request; or that of its call, where one request alone is known under it.
            timeout: Most seconds; None: until the request expires.

        Returns:
            The answer; None where nobody gave one in time.

        Raises:
            ToolUsageError: There is no such request, or there are several.
            RegistryClosedError: The registry is closed meanwhile.
        """
        return self._approvals.wait(tool_call_id, timeout)

    async def wait_async(self, tool_call_id: str, timeout: float | None = None) -> ApprovalAnswer | None:
        """Do what `wait` does, without blocking the event loop."""
        return await self._approvals.wait_async(tool_call_id, timeout)
