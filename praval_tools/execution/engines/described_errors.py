"""Describes an exception as JSON in the process that raised it, and makes one of the same classes of it in another."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from functools import partial
from typing import Final, cast

import msgspec

from praval_tools import errors
from praval_tools.errors import Problem, ToolArgumentsError, ToolError
from praval_tools.execution.failures import (
    OS_ERROR_ATTRIBUTES,
    InnerDoubtError,
    get_error_type_name,
    is_builtin,
    is_in_doubt_by_others,
    read_attribute,
)
from praval_tools.names import call_or_default, describe_error, get_qualified_name, has_type, to_plain_text
from praval_tools.tools.frames import activate_tool_frame

_OWN_PACKAGE: Final = "praval_tools"
_MAX_TRACEBACK: Final = 20_000


class DescribedError(msgspec.Struct, frozen=True):
    """
    An exception of another process.

    Args:
        type: The name of its class, as results have it.
        text: Its message.
        classes: The addresses of its classes, `module:name`, its own first.
        attributes: Those of an `OSError`, of `SystemExit`, or of an error of this package, as far as they are plain.
        problems: Those of wrong arguments.
        traceback: Where it was raised, as text.
        is_in_doubt_by_others: Whether it says of a call that the tool made, or by what it holds, that nobody knows
            what came of it.
    """

    type: str
    text: str
    classes: tuple[str, ...]
    attributes: dict[str, str | int | bool | None] = {}
    problems: tuple[Problem, ...] = ()
    traceback: str = ""
    is_in_doubt_by_others: bool = False


def describe_remote_error(tool: str, error: BaseException) -> DescribedError:
    """Return the description of what *tool* raised."""
    by_others = is_in_doubt_by_others(tool, error)
    with activate_tool_frame(tool):  # its classes, its text and its attributes may be code of the tool
        return DescribedError(
            get_error_type_name(tool, error), describe_error(error),
            classes=tuple(
                filter(None, (call_or_default(partial(_get_address, kind), "") for kind in type(error).__mro__))
            ),
            attributes=call_or_default(lambda: _read_attributes(tool, error), {}),
            problems=call_or_default(lambda: _read_problems(tool, error), ()),
            traceback=call_or_default(lambda: "".join(traceback.format_exception(error))[-_MAX_TRACEBACK:], ""),
            is_in_doubt_by_others=by_others,
        )  # fmt: skip


def describe_unsendable(tool: str, subject: str, error: Exception) -> DescribedError:
    """Return the description of an error of *tool*: *subject*, such as its answer, cannot be sent for this reason."""
    return describe_remote_error(tool, ValueError(f"The {subject} cannot be sent: {error}."))


def _get_address(kind: type) -> str:
    return f"{to_plain_text(kind.__module__)}:{get_qualified_name(kind)}"


def _read_attributes(tool: str, error: BaseException) -> dict[str, str | int | bool | None]:
    return {
        name: value
        for name, value in _iter_attributes(tool, error)
        if type(name) is str and (value is None or type(value) is str or type(value) is int or type(value) is bool)
    }


def _read_problems(tool: str, error: BaseException) -> tuple[Problem, ...]:
    """Return the problems of wrong arguments with plain texts, whatever the tool put into them."""
    problems = read_attribute(tool, error, "problems") if has_type(error, ToolArgumentsError) else ()
    if type(problems) is not tuple or not all(type(problem) is Problem for problem in problems):
        return ()
    return tuple(
        Problem(**{name: to_plain_text(getattr(problem, name)) for name in Problem.__struct_fields__})
        for problem in problems
    )


def _iter_attributes(tool: str, error: BaseException) -> Iterator[tuple[str, object]]:
    if has_type(error, ToolError):
        yield from vars(error).items()
    elif has_type(error, SystemExit):
        yield "code", read_attribute(tool, error, "code")
    elif has_type(error, OSError):
        yield from ((name, read_attribute(tool, error, name)) for name in OS_ERROR_ATTRIBUTES)


def restore_error(tool: str, described: DescribedError) -> BaseException:
    """
    Return an exception of the first of the described classes that is known here, without running its constructor.

    Its class has the name and the text of the original. Classes are looked up, never imported; of our own, only those
    that are documented count.
    """
    if described.is_in_doubt_by_others:
        return _make_error(InnerDoubtError, described)
    with activate_tool_frame(tool):  # classes may run code of their own when one derives from them
        for address in described.classes:
            try:
                if (kind := _find_exception_class(address)) is not None:
                    return _make_error(kind, described)
            except Exception:  # noqa: S112  # the seam to any class: the next one, which is more general, may do
                continue
    return RuntimeError(described.text)


def _find_exception_class(address: str) -> type[BaseException] | None:
    module, _, qualname = address.partition(":")
    found: object = errors if module == errors.__name__ else sys.modules.get(module)
    if module.partition(".")[0] == _OWN_PACKAGE and found is not errors:
        return None
    for name in qualname.split("."):
        found = getattr(found, name, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def _make_error(kind: type[BaseException], described: DescribedError) -> BaseException:
    """Return an exception of *kind* that has the text of the original; where none can be made, anything is raised."""
    if kind is ToolArgumentsError and described.problems:
        attributes = described.attributes
        return ToolArgumentsError(
            str(attributes.get("tool")), described.problems, quotes_classes=attributes.get("quotes_classes") is True
        )
    namespace = {"__module__": kind.__module__, "__str__": lambda _: described.text, "__init__": _set_nothing}
    made_kind: type[BaseException] = type(described.type, (kind,), namespace)
    base = cast("type[BaseException]", next(filter(is_builtin, kind.__mro__)))
    error: BaseException = base.__new__(made_kind, described.text)
    error.args = (described.text,)
    for name, value in described.attributes.items():
        setattr(error, name, value)
    if described.traceback:
        error.add_note(f"Raised in another process:\n{described.traceback}")
    return error


def _set_nothing(self: BaseException, *_: object) -> None:
    """Stand for a constructor, which may ask for anything."""
