"""The one error of Praval's tool system, caught by whichever class the code names."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any, ClassVar

from praval_tools import errors


class ToolError(errors.ToolError):
    """
    Raised when there are issues with tool registration or execution.

    Where `praval` is loaded, what is raised is an instance of its `ToolError`, too.
    """

    code: ClassVar[str] = "praval-tool"

    def __reduce__(self) -> tuple[Any, ...]:
        return make_tool_error, self.args


def make_tool_error(message: str) -> ToolError:
    """Return the error to raise: of this class, and of Praval's own where that can be caught."""
    theirs = sys.modules.get("praval.core.exceptions")
    kind: type[ToolError] = ToolError if theirs is None else _build_combined_class(theirs.ToolError)
    return kind(message)


@cache
def _build_combined_class(theirs: type[Exception]) -> type[ToolError]:
    # who can write `except praval…ToolError` has loaded it: a class made when raised is always in time
    return type("ToolError", (ToolError, theirs), {"__module__": ToolError.__module__, "__doc__": ToolError.__doc__})
