"""From outcomes to typed errors, and from exceptions to outcomes."""

from __future__ import annotations

import builtins
from functools import lru_cache
from typing import Any, Final

from praval_tools.errors import (
    ToolAccessError,
    ToolApprovalError,
    ToolArgumentsError,
    ToolCallError,
    ToolExecutionError,
    ToolLimitedError,
    ToolTimeoutError,
    UnknownToolCallError,
)
from praval_tools.model.calls import Outcome, ToolResult

_APART: Final = (BaseExceptionGroup, UnicodeError, StopIteration, StopAsyncIteration)
"""Built-in exceptions whose constructors or meaning forbid a second base."""


@lru_cache(256)
def execution_error(kind: Any) -> type[ToolExecutionError]:
    """Return the `ToolExecutionError` that is also the nearest built-in class of *kind*."""
    for base in kind.__mro__:
        if getattr(builtins, base.__name__, None) is not base:
            continue
        if base in (Exception, BaseException) or not issubclass(base, Exception) or issubclass(base, _APART):
            return ToolExecutionError
        try:
            return type(
                "ToolExecutionError", (ToolExecutionError, base), {"__reduce__": _reduce, "__module__": __name__}
            )
        except TypeError:
            return ToolExecutionError
    return ToolExecutionError


def _reduce(error: ToolExecutionError) -> tuple[Any, ...]:
    kind = next(base for base in type(error).__mro__ if getattr(builtins, base.__name__, None) is base)
    return _restore, (kind.__name__, error.message, error.error_type, error.tool)


def _restore(kind: str, message: str, error_type: str, tool: str) -> ToolExecutionError:
    return execution_error(getattr(builtins, kind))(message, error_type, tool)


def failed(tool: str, error: BaseException, message: str | None = None) -> ToolExecutionError:
    """Return the error that stands for what the tool raised, with it as the cause."""
    kind = type(error)
    text = str(error) if message is None else message
    made: ToolExecutionError = execution_error(kind)(text or kind.__name__, kind.__name__, tool)
    made.__cause__ = error
    return made


def raised(result: ToolResult) -> BaseException:
    """Return the typed error for a result that is not ok."""
    text = result.error or result.outcome.value
    error: ToolCallError
    if isinstance(result.exception, ToolCallError):
        error = result.exception
    elif result.outcome is Outcome.TOOL_ERROR and result.exception is not None:
        error = failed(result.name, result.exception, text)
    else:
        error = _TYPED.get(result.outcome, ToolCallError)(text)
        if isinstance(error, ToolAccessError):
            error.decision = result.decision
    error.result = result
    return error


_TYPED: Final[dict[Outcome, Any]] = {
    Outcome.TOOL_ERROR: ToolExecutionError,
    Outcome.INVALID_ARGUMENTS: lambda text: ToolArgumentsError(text, ()),
    Outcome.UNKNOWN_TOOL: UnknownToolCallError,
    Outcome.FORBIDDEN: ToolAccessError,
    Outcome.DISABLED: ToolAccessError,
    Outcome.APPROVAL_REQUIRED: ToolApprovalError,
    Outcome.APPROVAL_DENIED: ToolApprovalError,
    Outcome.LIMITED: ToolLimitedError,
    Outcome.TIMEOUT: ToolTimeoutError,
}
