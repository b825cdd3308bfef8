"""A plugin of one tool, which the program of `first_program.py` loads."""

from collections.abc import Iterable
from typing import Any

from praval_tools import Tool, hookimpl, tool


@hookimpl
def praval_tools_register_tools() -> Iterable[Tool[..., Any]]:
    """Bring the tools."""

    @tool("first_rent", read_only=True, register=False)
    def first_rent(month: str) -> int:
        """Say what the rent of a month is."""
        return 500

    return [first_rent]
