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
    ToolInDoubtError,
    ToolLimitedError,
    ToolTimeoutError,
    UnknownToolCallError,
)
from praval_tools.names import describe_error
from praval_tools.tools.call import Outcome, ToolResult

_UNCOMBINABLE_EXCEPTIONS: Final = (BaseExceptionGroup, UnicodeError, StopIteration, StopAsyncIteration)
"""Built-in exceptions whose constructors or meaning forbid a second base."""


_OS_ERROR_ATTRIBUTES: Final = ("errno", "strerror", "filename", "filename2")
"""What an OSError says beside its text; its constructor takes our arguments for that."""


@lru_cache(256)
def get_execution_error_class(kind: Any) -> type[ToolExecutionError]:
    """Return the `ToolExecutionError` that is also the nearest built-in class of *kind*."""
    for base in filter(_is_builtin, kind.__mro__):
        if (
            base in (Exception, BaseException)
            or not issubclass(base, Exception)
            or issubclass(base, _UNCOMBINABLE_EXCEPTIONS)
        ):
            return ToolExecutionError
        try:
            return type(
                "ToolExecutionError",
                (ToolExecutionError, base),
                {"__reduce__": _reduce_execution_error, "__module__": __name__},
            )
        except TypeError:
            return ToolExecutionError
    return ToolExecutionError


def _is_builtin(kind: type) -> bool:
    return getattr(builtins, kind.__name__, None) is kind


def _reduce_execution_error(error: ToolExecutionError) -> tuple[Any, ...]:
    kind = next(filter(_is_builtin, type(error).__mro__))
    kept = {name: getattr(error, name) for name in _OS_ERROR_ATTRIBUTES} if isinstance(error, OSError) else {}
    return (
        _rebuild_execution_error,
        (kind.__name__, error.message, error.error_type, error.tool),
        {"result": error.result, **kept},
    )


def _rebuild_execution_error(kind: str, message: str, error_type: str, tool: str) -> ToolExecutionError:
    return get_execution_error_class(getattr(builtins, kind))(message, error_type, tool)


def find_builtin_base(error: BaseException) -> str | None:
    """Return the name of the built-in class that the error for *error* is also an instance of; None: of none."""
    of: Any = type(error)
    kind = get_execution_error_class(of)
    return None if kind is ToolExecutionError else next(filter(_is_builtin, kind.__mro__)).__name__


def restore_execution_error(base: str | None, message: str, error_type: str, tool: str) -> ToolExecutionError:
    """Return the error of a call that is replayed; the same classes as that of the live one."""
    if base is None or not hasattr(builtins, base):
        return ToolExecutionError(message, error_type, tool)
    return _rebuild_execution_error(base, message, error_type, tool)


class StaleDecisionError(Exception):
    """The records that decided are no longer the current ones: decide again."""


class CallCancelledError(Exception):
    """The call was cancelled: its registry closes, or it cancelled itself."""


def make_execution_error(tool: str, error: BaseException, message: str) -> ToolExecutionError:
    """Return the error that stands for what the tool raised, with it as the cause."""
    kind: Any = type(error)
    made: ToolExecutionError = get_execution_error_class(kind)(message, get_error_type_name(error), tool)
    for name in _OS_ERROR_ATTRIBUTES if isinstance(made, OSError) else ():
        setattr(made, name, getattr(error, name, None))
    made.__cause__ = error
    return made


def make_encoding_error(tool: str, error: BaseException) -> ToolExecutionError:
    """Return the error for a value that has no JSON form, or whose own code raises while it is written."""
    text = describe_error(error)
    made = make_execution_error(tool, error, text)
    made.result = ToolResult(None, tool, None, Outcome.TOOL_ERROR, None, text, made.error_type, exception=error)
    return made


def get_error_type_name(error: BaseException) -> str:
    """Return the name of what a tool raised; where it let an inner tool's error through, of what that one raised."""
    return error.error_type if isinstance(error, ToolExecutionError) else type(error).__name__


def make_typed_error(result: ToolResult) -> BaseException:
    """Return the typed error for a result that is not ok."""
    text = result.error or result.outcome.value
    error: ToolCallError
    if result.outcome is Outcome.TOOL_ERROR and result.exception is not None:
        error = make_execution_error(result.name, result.exception, text)
    elif isinstance(result.exception, ToolCallError):
        error = result.exception
    else:
        error = _ERROR_FACTORIES.get(result.outcome, ToolCallError)(text)
        if isinstance(error, ToolAccessError):
            error.decision = result.decision
    error.result = result
    return error


_ERROR_FACTORIES: Final[dict[Outcome, Any]] = {
    Outcome.TOOL_ERROR: ToolExecutionError,
    Outcome.INVALID_ARGUMENTS: lambda text: ToolArgumentsError(text, ()),
    Outcome.UNKNOWN_TOOL: UnknownToolCallError,
    Outcome.FORBIDDEN: ToolAccessError,
    Outcome.DISABLED: ToolAccessError,
    Outcome.APPROVAL_REQUIRED: ToolApprovalError,
    Outcome.APPROVAL_DENIED: ToolApprovalError,
    Outcome.LIMITED: ToolLimitedError,
    Outcome.TIMEOUT: ToolTimeoutError,
    Outcome.IN_DOUBT: ToolInDoubtError,
}
