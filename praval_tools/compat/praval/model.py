"""Praval's classes `Tool`, `ToolMetadata` and `ToolError`, with the interface that programs for Praval expect."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, ClassVar

from praval_tools import errors


class ToolError(errors.ToolError):
    """
    Raised when there are issues with tool registration or execution.

    Where `praval` is loaded, what is raised is an instance of its `ToolError`, too.
    """

    code: ClassVar[str] = "praval-tool"

    def __reduce__(self) -> tuple[object, ...]:
        return make_tool_error, self.args


def make_tool_error(message: str) -> ToolError:
    """Return the error to raise: of this class, and of Praval's own where that can be caught."""
    praval_errors = sys.modules.get("praval.core.exceptions")
    return (ToolError if praval_errors is None else _build_combined_class(praval_errors.ToolError))(message)


@cache
def _build_combined_class(praval_class: type[Exception]) -> type[ToolError]:
    # code that has `except praval…ToolError` has loaded it: a class built when the error is raised is always in time
    return type(
        "ToolError", (ToolError, praval_class), {"__module__": ToolError.__module__, "__doc__": ToolError.__doc__}
    )


@dataclass
class ToolMetadata:
    """What a tool says about itself."""

    tool_name: str
    owned_by: str | None = None
    description: str = ""
    category: str = "general"
    shared: bool = False
    version: str = "1.0.0"
    author: str = ""
    tags: list[str] = field(default_factory=list)
    parameters: dict[str, Any] = field(default_factory=dict)
    return_type: str = "Any"
    requires_approval: bool = False
    risk_level: str = "low"
    approval_reason: str = ""


class Tool:
    """
    A function that is a tool; `execute` runs it unchecked, as Praval does.

    Args:
        func: The function, with type hints throughout.
        metadata: What is said about it; `parameters` and `return_type` are filled in.

    Raises:
        ToolError: A type hint is missing.
    """

    def __init__(self, func: Callable[..., Any], metadata: ToolMetadata) -> None:
        self.func = func
        self.metadata = metadata
        self._validate_function()
        self._extract_parameters()

    def _validate_function(self) -> None:
        signature, name = inspect.signature(self.func), self.metadata.tool_name
        for parameter in signature.parameters.values():
            if parameter.annotation == inspect.Parameter.empty:
                raise make_tool_error(f"Tool '{name}' parameter '{parameter.name}' must have a type hint")
        if signature.return_annotation == inspect.Signature.empty:
            raise make_tool_error(f"Tool '{name}' must have a return type hint")

    def _extract_parameters(self) -> None:
        signature = inspect.signature(self.func)
        self.metadata.parameters = {
            name: {
                "type": _format_hint(parameter.annotation),
                "required": parameter.default == inspect.Parameter.empty,
                "default": parameter.default if parameter.default != inspect.Parameter.empty else None,
            }
            for name, parameter in signature.parameters.items()
        }
        self.metadata.return_type = _format_hint(signature.return_annotation)

    def execute(self, *args: Any, **kwargs: Any) -> Any:
        """
        Run the function as the operator: no access check, no record.

        Raises:
            ToolError: It raised.
        """
        try:
            return self.func(*args, **kwargs)
        except Exception as error:  # the promise: one error for whatever the function raises
            raise make_tool_error(f"Tool '{self.metadata.tool_name}' execution failed: {error}") from error

    def to_dict(self) -> dict[str, Any]:
        """Return the metadata as a dict; its lists and dicts are the metadata's own."""
        return {entry.name: getattr(self.metadata, entry.name) for entry in fields(ToolMetadata)}


def _format_hint(hint: object) -> str:
    return getattr(hint, "__name__", str(hint))
