"""Makes the typed error of a failed call from what its function raised, and classifies its outcome."""

from __future__ import annotations

import builtins
import gc
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import Callable, Iterable, Iterator, MappingView
from contextlib import suppress
from functools import lru_cache
from types import MappingProxyType, MemberDescriptorType, SimpleNamespace
from typing import Any, Final, cast

from praval_tools.errors import (
    RegistryClosedError,
    ToolAccessError,
    ToolApprovalError,
    ToolArgumentsError,
    ToolCallError,
    ToolExecutionError,
    ToolInDoubtError,
    ToolLimitedError,
    ToolTimeoutError,
    ToolUsageError,
    UnknownToolCallError,
)
from praval_tools.names import call_or_default, describe_error, get_class_name, has_type
from praval_tools.schema.marked_values import has_members
from praval_tools.tools.argument_spellings import read_marked_arguments
from praval_tools.tools.call import Outcome, ToolResult
from praval_tools.tools.frames import activate_tool_frame
from praval_tools.values.builtin_iteration import iterate_without_overrides

_UNCOMBINABLE_EXCEPTIONS: Final = (BaseExceptionGroup, UnicodeError, StopIteration, StopAsyncIteration)
"""Built-in exceptions whose constructors or meaning forbid a second base."""


OS_ERROR_ATTRIBUTES: Final = ("errno", "strerror", "filename", "filename2")
"""The attributes of an OSError beside its text; its constructor would mistake our arguments for them."""
_ERROR_NUMBER_LIMIT: Final = 2**31
"""Operating systems have an `errno` in 32 bits; others are numbers of the program's own, which are not recorded."""
_CONTAINERS: Final = (list, tuple, set, frozenset, deque)
_VIEWS: Final[tuple[type, ...]] = (type({}.keys()), type({}.values()), type({}.items()), MappingProxyType)
"""Views of mappings; those of an `OrderedDict` derive from these."""
_ATTRIBUTE_READERS: Final[dict[type, Callable[[object], object]]] = {
    **{kind: kind.__dict__["__dict__"].__get__ for kind in (UserDict, UserList, ChainMap, SimpleNamespace)},
    MappingView: MappingView.__dict__["_mapping"].__get__,
}
"""Containers that are written in Python, and what reads the attributes in which they hold things without their code."""
_CODES_OF_ENDED_WORK: Final = ("run-closed", "call-given-up")
_OUTCOMES_IN_DOUBT: Final = (Outcome.IN_DOUBT, Outcome.CANCELLED, Outcome.ENGINE_LOST)
_EXCEPTION_READERS: Final = tuple(
    BaseException.__dict__[name].__get__ for name in ("args", "__dict__", "__cause__", "__context__")
)


@lru_cache(256)
def get_execution_error_class(kind: type[BaseException]) -> type[ToolExecutionError]:
    """Return the `ToolExecutionError` that is also the nearest built-in class of *kind*."""
    for base in filter(is_builtin, kind.__mro__):
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


def is_builtin(kind: type) -> bool:
    """Tell whether a class is one of Python's built-in ones."""
    return getattr(builtins, get_class_name(kind), None) is kind


def _reduce_execution_error(error: ToolExecutionError) -> tuple[object, ...]:
    kind = next(filter(is_builtin, type(error).__mro__))
    attributes = {name: getattr(error, name) for name in OS_ERROR_ATTRIBUTES} if isinstance(error, OSError) else {}
    return (
        _rebuild_execution_error,
        (get_class_name(kind), error.message, error.error_type, error.tool),
        {"result": error.result, **attributes},
    )


def _rebuild_execution_error(kind: str, message: str, error_type: str, tool: str) -> ToolExecutionError:
    return get_execution_error_class(getattr(builtins, kind))(message, error_type, tool)


def find_builtin_base(tool: str, error: BaseException) -> str | None:
    """Return the name of the built-in class that the typed error for *error* also derives from, or None."""
    error_type: Any = type(error)
    with activate_tool_frame(tool):
        kind = get_execution_error_class(error_type)
    return None if kind is ToolExecutionError else next(filter(is_builtin, kind.__mro__)).__name__


def read_error_number(tool: str, error: BaseException) -> int | None:
    """Return the `errno` of an `OSError` that *tool* raised, as far as the operating system has such numbers."""
    number = read_attribute(tool, error, "errno") if has_type(error, OSError) else None
    return number if type(number) is int and -_ERROR_NUMBER_LIMIT <= number < _ERROR_NUMBER_LIMIT else None


def restore_execution_error(
    base: str | None, message: str, error_type: str, tool: str, number: int | None
) -> ToolExecutionError:
    """Return the error of a replayed call, with the same classes as that of the recorded call, and its `errno`."""
    if base is None or not hasattr(builtins, base):
        return ToolExecutionError(message, error_type, tool)
    error = _rebuild_execution_error(base, message, error_type, tool)
    if isinstance(error, OSError):  # whose constructor took our arguments for its own
        error.errno, error.strerror, error.filename, error.filename2 = number, None, None, None
    return error


class StaleDecisionError(Exception):
    """The records that decided are no longer the current ones, and the function was not entered: decide again."""


class InnerDoubtError(ToolInDoubtError):
    """What stands for an error of another process by which its tool is in doubt: of a call that it made, or a group."""


class CallCancelledError(Exception):
    """The call was cancelled: its registry closes, or it cancelled itself."""


def make_execution_error(tool: str, error: BaseException, message: str) -> ToolExecutionError:
    """Return the typed error for an exception of the tool, which is its cause."""
    error_type: Any = type(error)
    with activate_tool_frame(tool):  # classes and attributes may be code of the tool
        execution_error: ToolExecutionError = get_execution_error_class(error_type)(
            message, get_error_type_name(tool, error), tool
        )
        for name in OS_ERROR_ATTRIBUTES if isinstance(execution_error, OSError) else ():
            setattr(execution_error, name, read_attribute(tool, error, name))
    execution_error.__cause__ = error
    return execution_error


def make_encoding_error(tool: str, error: BaseException) -> ToolExecutionError:
    """Return the error for a value that has no JSON form, or whose own code raises while it is encoded."""
    with activate_tool_frame(tool):
        text = describe_error(error)
    execution_error = make_execution_error(tool, error, text)
    execution_error.result = ToolResult(
        None, tool, None, Outcome.TOOL_ERROR, None, text, execution_error.error_type, exception=error
    )
    return execution_error


def get_error_type_name(tool: str, error: BaseException) -> str:
    """Return the type name of what *tool* raised; of an inner tool's error, the type name that it carries."""
    carried = read_attribute(tool, error, "error_type") if has_type(error, ToolExecutionError) else None
    with activate_tool_frame(tool):
        return carried if type(carried) is str else get_class_name(type(error))


def read_attribute(tool: str, error: BaseException, name: str) -> object:
    """
    Return an attribute of what *tool* raised, or None where it cannot be read.

    The class may be a subclass of ours that leaves our constructor out, or that computes the attribute: that is code
    of the tool, and may raise anything.
    """
    with activate_tool_frame(tool):
        return call_or_default(lambda: getattr(error, name, None), None)


def read_error_secrets(error: BaseException) -> tuple[object, ...]:
    """Return what classes mark as secret in what an exception holds: in it, its causes, its context and its group."""
    return read_marked_arguments(list(_iter_held_instances(error)))


def _iter_held_instances(error: BaseException) -> Iterator[object]:
    """Yield the instances of classes with fields in an exception, and in containers and exceptions in it."""
    seen, stack = dict[int, object](), list[object]([error])
    while stack:
        part = stack.pop()
        kind = type(part)
        if id(part) in seen:
            continue
        seen[id(part)] = part
        if has_members(kind):
            yield part
        if issubclass(kind, BaseException):
            stack += _iter_exception_parts(cast(BaseException, part))
        elif issubclass(kind, dict):
            for item in dict.items(cast("dict[object, object]", part)):
                stack += item
        elif issubclass(kind, _VIEWS):
            stack += gc.get_referents(part)  # the mapping itself: the view would have it iterate by its own code
        elif issubclass(kind, _CONTAINERS):
            stack += iterate_without_overrides(cast("Iterable[object]", part))
        else:
            stack += [_ATTRIBUTE_READERS[base](part) for base in kind.__mro__ if base in _ATTRIBUTE_READERS]


def _iter_exception_parts(error: BaseException) -> Iterator[object]:
    """Yield what an exception holds, without the code that its class may have for reading it."""
    yield from (read(error) for read in _EXCEPTION_READERS)
    for base in type(error).__mro__:
        for member in type.__dict__["__dict__"].__get__(base).values():
            if type(member) is MemberDescriptorType:  # of `__slots__`, or of a built-in exception
                with suppress(AttributeError):
                    yield member.__get__(error)


def classify_failure(tool: str, error: BaseException) -> tuple[Outcome, str]:
    """
    Return the outcome of a call whose function raised *error*, and the name of the error.

    Where `is_in_doubt` says so, nobody knows whether its work is done.
    """
    if not is_in_doubt(tool, error):
        return Outcome.TOOL_ERROR, get_error_type_name(tool, error)
    code = read_attribute(tool, error, "code") if has_type(error, ToolInDoubtError) else None
    return Outcome.IN_DOUBT, code if type(code) is str else ToolInDoubtError.code


def is_in_doubt(tool: str, error: BaseException) -> bool:
    """
    Tell whether *error* says that nobody knows what came of the work of *tool*, or of a call that it made.

    It is a `ToolInDoubtError`, the error of a call that ended in doubt, or a group with one of these.
    """
    stack = [error]
    while stack:
        part = stack.pop()
        result = read_attribute(tool, part, "result") if has_type(part, ToolCallError) else None
        if has_type(part, ToolInDoubtError) or (type(result) is ToolResult and result.outcome in _OUTCOMES_IN_DOUBT):
            return True
        if has_type(part, BaseExceptionGroup):
            stack += BaseExceptionGroup.exceptions.__get__(part)
    return False


def is_in_doubt_by_others(tool: str, error: BaseException) -> bool:
    """
    Tell whether *tool* is in doubt by *error*, and not by its own word: by a call that it made, or by a group.

    The text of such an error is for the tool alone.
    """
    is_own = has_type(error, ToolInDoubtError) and read_attribute(tool, error, "result") is None
    return has_type(error, InnerDoubtError) or (not is_own and is_in_doubt(tool, error))


def is_of_ended_work(error: BaseException) -> bool:
    """
    Tell whether *error* says, itself or by one that led to it, that a call could not be made any more, or is in doubt.

    Where its run was left, its attempt was given up, or its registry is closed, that says nothing of the tool itself.
    """
    seen, stack = dict[int, object](), list[object]([error])
    while stack:
        part = stack.pop()
        if id(part) in seen:
            continue
        seen[id(part)] = part
        if issubclass(kind := type(part), BaseException):
            stopped = cast(BaseException, part)
            is_left = kind is ToolUsageError and stopped.__dict__.get("code") in _CODES_OF_ENDED_WORK
            if is_left or issubclass(kind, (RegistryClosedError, ToolInDoubtError)):
                return True
            stack += _iter_exception_parts(stopped)
        elif kind is tuple:  # of a group
            stack += cast("tuple[object, ...]", part)
    return False


def make_typed_error(result: ToolResult) -> BaseException:
    """Return the typed error for a result that is not ok."""
    text = result.error or result.outcome.value
    error: ToolCallError
    if result.outcome is Outcome.TOOL_ERROR and result.exception is not None:
        error = make_execution_error(result.name, result.exception, text)
    elif result.outcome is Outcome.IN_DOUBT and _was_raised_by_tool(result):  # which may raise one for several calls
        error = ToolInDoubtError(text, result.run_id, result.tool_call_id)
        error.__cause__ = result.exception
    elif has_type(result.exception, ToolCallError):
        error = result.exception
        with activate_tool_frame(result.name), suppress(Exception):  # its class may be one of the tool, without a place
            error.result = result
        return error
    else:
        error = _ERROR_FACTORIES.get(result.outcome, ToolCallError)(text)
        if isinstance(error, ToolAccessError):
            error.decision = result.decision
    error.result = result
    return error


def _was_raised_by_tool(result: ToolResult) -> bool:
    """Tell whether the tool raised the exception of *result*, of its own or by a call that it made; not the library."""
    error = result.exception
    if error is None:
        return False
    other = read_attribute(result.name, error, "result")
    return read_attribute(result.name, error, "call_id") is None or (other is not None and other is not result)


_ERROR_FACTORIES: Final[dict[Outcome, Callable[[str], ToolCallError]]] = {
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
