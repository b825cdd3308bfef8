"""
An old Praval program is brought over: its tools, who has them, and who may not have them any more.

The first half is the old program, as it was.

Prints:
    registered  add from registry
    registered  log from registry
    registered  double from registry
    same        add from calculator
    same        log from calculator
    same        double from calculator
    same        add from helper
    same        log from helper
    renamed     double from helper as helper-double
    assigned    add to helper
    calculator: add log double
    helper: add log helper-double
    add("1", 2) = 3
    helper lost add: 'helper' may not call 'add': the tool was removed from it.
"""

from __future__ import annotations

from typing import Any

import praval
from praval.models import ModelResponse
from praval.providers.registry import get_provider_registry

from praval_tools import ToolRegistry
from praval_tools.integrations.praval import migrate

# ── the old program ──────────────────────────────────────────────────────────────────────────────


class Silent:
    """A model that says nothing: this example only moves tools."""

    def invoke(self, request: Any, tools: Any = None) -> ModelResponse:
        """Say nothing."""
        return ModelResponse()


get_provider_registry().register_provider("silent", lambda config: Silent(), default_model="silent")


@praval.tool("add", owned_by="calculator")
def add(x: int, y: int) -> int:
    """Add."""
    return x + y


@praval.tool("log", shared=True)
def log(text: str) -> str:
    """Log."""
    return text


@praval.agent("calculator", provider="silent")
def calculator(spore: Any) -> None:
    """Calculate."""


@praval.agent("helper", provider="silent", tools=["add"])
def helper(spore: Any) -> None:
    """Help."""


@calculator.tool
def double(x: int) -> int:
    """Double."""
    return 2 * x


def another() -> Any:
    """Return another function of that name."""

    def double(x: str) -> str:
        """Say twice."""
        return x + x

    return double


helper.tool(another())


# ── what is new ──────────────────────────────────────────────────────────────────────────────────


def main() -> None:
    """Bring it over, and use what Praval has not."""
    with ToolRegistry(name="office") as registry:
        print(migrate(registry, agents=[calculator, helper], collisions="rename"))
        for name in ("calculator", "helper"):
            print(f"{name}:", *registry.agent(name).list_tools())
        print('add("1", 2) =', registry.agent("helper").call("add", x="1", y=2))
        registry.remove_tool_from_agent("add", "helper")
        print("helper lost add:", registry.explain("helper", "add").reason)
    praval.get_reef().shutdown()


if __name__ == "__main__":
    main()
