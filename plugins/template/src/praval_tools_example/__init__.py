"""Tools for praval_tools."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import frozen

from praval_tools import Tool, hookimpl, tool

__all__ = ["Settings"]


@frozen(kw_only=True)
class Settings:
    """
    What the operator may set.

    Args:
        greeting: What a greeting begins with.
    """

    greeting: str = "Hello"


@hookimpl
def praval_tools_settings() -> type:
    """Say which settings there are."""
    return Settings


@hookimpl
def praval_tools_register_tools(settings: Settings) -> Iterable[Tool[..., Any]]:
    """Bring the tools."""

    @tool("example_greet", read_only=True, register=False)
    def greet(name: str) -> str:
        """
        Greet somebody.

        Args:
            name: Who is greeted.
        """
        return f"{settings.greeting}, {name}!"

    return [greet]
