"""Calls that a person answers, at once or later."""

from __future__ import annotations

from collections.abc import Callable

from praval_tools import Allow, ApprovalRequest, Deny, ToolCall, ToolRegistry, ToolResult


def execute_answered(
    registry: ToolRegistry, call: ToolCall, answer: Callable[[ApprovalRequest], Allow | Deny], *, is_later: bool
) -> ToolResult:
    """Execute *call*, with a handler that answers at once, or again once its request was answered."""
    if is_later:
        registry.execute(call)
        (request,) = registry.approvals.pending()
        registry.approvals.answer(request.id, answer(request))
    else:
        registry.set_approval_handler(answer)
    return registry.execute(call)
