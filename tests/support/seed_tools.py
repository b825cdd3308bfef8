"""What the tests of the Praval seed share: its messages, and tools whose body does not matter."""

from types import SimpleNamespace
from typing import Any

from praval_tools import Tool, tool


def spore(**knowledge: Any) -> SimpleNamespace:
    """Return the message that the seed's agents are called with."""
    return SimpleNamespace(knowledge=knowledge)


def declare(name: str, **metadata: Any) -> Tool[..., Any]:
    """Declare a tool whose body does not matter."""

    @tool(name, **metadata)
    def work(text: str) -> str:
        """Return the text."""
        return text

    return work


def names(tools: list[Tool[..., Any]]) -> list[str]:
    """Return the names of *tools*, in their order."""
    return [one.name for one in tools]
