"""Names of classes, functions and files are texts of whoever wrote them: they have no rights when others read them."""

# Tests of: tools/source, execution/failures, plugins/report, schema/type_hints

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from plugin_rig import HEAD, Site, loaded, site  # noqa: F401  # fixtures

from praval_tools import PluginWarning, ToolCall, ToolError, ToolRegistry

shared: list[Callable[[], object]] = []
"""What a `Name` does, the last of them."""


class Name(str):
    """A text that shares a tool of somebody else, whatever is done with it."""

    def _share(self, *_: object) -> Any:
        with suppress(ToolError):
            shared[-1]()
        return self

    def __hash__(self) -> int:
        self._share()
        return str.__hash__(self)

    def __eq__(self, other: object) -> bool:
        self._share()
        return str.__eq__(self, other)

    def __len__(self) -> int:
        self._share()
        return str.__len__(self)

    def __getitem__(self, key: Any) -> str:
        self._share()
        return str.__getitem__(self, key)

    def __str__(self) -> str:
        return str(self._share())

    def __format__(self, spec: str) -> str:
        self._share()
        return "x"


@pytest.fixture(params=["memory", None], ids=["journal", "no journal"])
def registry(request: pytest.FixtureRequest) -> ToolRegistry:
    """A registry with a tool that clerk may not share."""
    made = ToolRegistry(journal=request.param)
    made.tool("pay", owned_by="bank", description="Pay.")(lambda: "paid")
    shared.append(lambda: made.share_tool("pay"))
    return made


def read_all(registry: ToolRegistry) -> None:
    """Do what a host does with a tool."""
    registry.get_tool_info("mine")
    registry.explain("boss", "mine")
    registry.problems()
    registry.grant("mine", "boss")
    registry.execute(ToolCall(None, "mine", {}, "boss"))
    registry.share_tool("mine")
    with suppress(ToolError):
        registry.tool("mine", description="Again.")(lambda: 1)
    registry.unregister_tool("mine")


@pytest.mark.parametrize("place", ["__qualname__", "__module__", "co_filename", "hint"])
def test_of_functions(registry: ToolRegistry, place: str) -> None:
    """Broken promise: they ran as the operator where it was read where a function is declared."""

    @registry.tool(owned_by="clerk")
    def attempt() -> None:
        """Declare a tool."""

        class Kind(str):
            pass

        def mine(text: Any = "x") -> str:
            return "mine"

        if place == "hint":
            Kind.__name__ = Name("Kind")
            mine.__annotations__["text"] = Kind
        elif place == "co_filename":
            mine.__code__ = mine.__code__.replace(co_filename=Name("mine.py"))
        else:
            setattr(mine, place, Name("mine"))
        registry.tool("mine", owned_by="clerk", description="Mine.")(mine)

    registry.execute(ToolCall(None, "attempt", {}, "clerk"))
    if registry.get_tool("mine") is not None:
        read_all(registry)
    assert not registry.explain("clerk", "pay").allowed


def test_of_exceptions(registry: ToolRegistry) -> None:
    """Broken promise: it ran as the operator where the result was recorded, and `execute` raised after the tool ran."""

    class Broken(Exception):
        pass

    Broken.__name__ = Name("Broken")

    @registry.tool(owned_by="clerk")
    def attempt() -> None:
        """Fail."""
        raise Broken("no")

    result = registry.execute(ToolCall(None, "attempt", {}, "clerk"))
    assert ("tool_error", "Broken", str) == (result.outcome.value, result.error_type, type(result.error_type))
    assert not registry.explain("clerk", "pay").allowed


def test_of_exceptions_of_hooks(registry: ToolRegistry, site: Site) -> None:
    """Broken promise: it ran as the operator where the failure of the hook was reported."""
    body = "class E(Exception): pass\nE.__name__ = test_plain_names.Name('E')\n@hookimpl\n"
    hook = "def praval_tools_before_call():\n    raise E('x')\n"
    site.install("acme", f"{HEAD}import sys\ntest_plain_names = sys.modules[{__name__!r}]\n{body}{hook}")
    loaded(registry)
    registry.tool("note", owned_by="clerk", description="Note.")(lambda: 1)
    with pytest.warns(PluginWarning):
        registry.execute(ToolCall(None, "note", {}, "clerk"))
    assert not registry.explain("clerk", "pay").allowed
