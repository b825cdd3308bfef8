"""Praval's tool and its metadata: mutable, and wrapped around a function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from praval_tools.compat.praval.errors import make_tool_error


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
        for one in signature.parameters.values():
            if one.annotation == inspect.Parameter.empty:
                raise make_tool_error(f"Tool '{name}' parameter '{one.name}' must have a type hint")
        if signature.return_annotation == inspect.Signature.empty:
            raise make_tool_error(f"Tool '{name}' must have a return type hint")

    def _extract_parameters(self) -> None:
        signature = inspect.signature(self.func)
        self.metadata.parameters = {
            name: {
                "type": _format_hint(one.annotation),
                "required": one.default == inspect.Parameter.empty,
                "default": one.default if one.default != inspect.Parameter.empty else None,
            }
            for name, one in signature.parameters.items()
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
        return {name: getattr(self.metadata, name) for name in METADATA_FIELDS}


METADATA_FIELDS = (
    "tool_name", "owned_by", "description", "category", "shared", "version", "author", "tags", "parameters",
    "return_type", "requires_approval", "risk_level", "approval_reason",
)  # fmt: skip


def _format_hint(hint: Any) -> str:
    return getattr(hint, "__name__", str(hint))
