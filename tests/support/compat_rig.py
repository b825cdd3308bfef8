"""The published `praval` beside `compat.praval`: both empty, and what tells them apart left out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import strategies as st

from praval_tools.compat import praval as compat

theirs_tools: Any = pytest.importorskip("praval.tools", reason="needs praval: pip install 'praval-tools[praval]'")


theirs_registry: Any = pytest.importorskip("praval.core.tool_registry")


PRAVAL = SimpleNamespace(**{**vars(theirs_registry), **vars(theirs_tools)})


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Both tool systems begin empty."""
    theirs_registry.reset_tool_registry()
    compat.reset_tool_registry()
    yield
    theirs_registry.reset_tool_registry()
    compat.reset_tool_registry()


def outcome(action: Callable[[], Any]) -> Any:
    """Return what a call gives, in a form that both packages share: an error by the names of its classes."""
    try:
        return shared(action())
    except Exception as error:
        cause = None if error.__cause__ is None else (type(error.__cause__).__name__, str(error.__cause__))
        return type(error).__name__, str(error), cause


def shared(value: Any) -> Any:
    """Return a value without what tells the packages apart: classes, and the order in which sets are listed."""
    if hasattr(value, "to_dict"):
        return ("tool", tuple(sorted((key, repr(one)) for key, one in value.to_dict().items())))
    if isinstance(value, list):
        return sorted((shared(one) for one in value), key=repr)
    return value


def annotated(count: int) -> Any:
    """Return a function of its own."""

    def work(x: int, y: str = "y") -> str:
        """Work."""
        return f"{y}{x}{count}"

    return work


def parameters(function: Any) -> list[Any]:
    """Return the parameters of a function without their hints."""
    return [(one.name, one.kind, one.default) for one in inspect.signature(function).parameters.values()]


# Tests of: catalogue, conversion

NAMES = st.sampled_from(["add", "Add"]) | st.sampled_from(
    ["add", "Add", "a-d-d", "a_d_d", "my tool", "räder", "9lives", "", "x" * 200, "x" * 199 + "y"]
)


AGENTS = st.sampled_from(["calculator", "a:b"]) | st.sampled_from(
    ["calculator", "analyst", "a:b", " spaced ", "operator", "", "ü"]
)


CATEGORIES = st.sampled_from(["general", "math", "", " "])


TAGS = st.lists(st.sampled_from(["a", "b", ""]), max_size=2)


class Side:
    """One of the two packages, with a registry of its own and the tools that were made for it."""

    def __init__(self, module: Any) -> None:
        self.module, self.registry = module, module.ToolRegistry()
        self.made: dict[int, Any] = {}

    def tool(self, key: int, fields: dict[str, Any]) -> Any:
        """Make a tool, or return the one that was made under this key."""
        if key not in self.made:
            fields = {name: list(one) if isinstance(one, list) else one for name, one in fields.items()}
            self.made[key] = self.module.Tool(annotated(key), self.module.ToolMetadata(**fields))
        return self.made[key]
