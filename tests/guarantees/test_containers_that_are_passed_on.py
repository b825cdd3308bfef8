"""Texts in containers of any built-in kind that a tool returned run no code as the host that passes them on."""

# Tests of: values/plain_arguments, values/builtin_iteration, tools/metadata, execution/runtime

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from itertools import chain
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from watchers import WatchedClass, actors, make_watcher

from praval_tools import Agent, ToolError, ToolRegistry
from praval_tools.loop import ToolLoop
from praval_tools.testing.models import FakeModel

Text = make_watcher(str)
Number = type("Number", (int,), {name: getattr(make_watcher(int), name) for name in ("__hash__", "__eq__", "__repr__")})


Label: Any = WatchedClass("Label", (str,), {})
Mark: Any = WatchedClass("Mark", (), {"__hash__": lambda self: hash("t")})
ITEMS: dict[str, Callable[[], Any]] = {
    "text": lambda: Text("t"), "text with a metaclass": lambda: Label("t"), "object with a metaclass": lambda: Mark(),
}  # fmt: skip


def read_later(container: Any) -> Any:
    """Return an iterator that was made in a place where nobody wrapped it."""
    return iter(container)


def keep(item: Any) -> Any:
    """Return what it is given."""
    return item


MAKES: dict[str, Callable[[Any], Any]] = {
    "list": lambda item: [item],
    "set": lambda item: {item},
    "dict": lambda item: {item: 1},
    "keys": lambda item: {item: 1}.keys(),
    "values": lambda item: {1: item}.values(),
    "pairs": lambda item: ((item,),),
    "deque": lambda item: deque([item]),
    "OrderedDict": lambda item: OrderedDict({item: 1}),
    "values of an OrderedDict": lambda item: OrderedDict({item: item}).values(),
    "read-only": lambda item: MappingProxyType({item: 1}),
    "read-only in order": lambda item: MappingProxyType(OrderedDict({item: 1})),
    "iterator": lambda item: read_later([item]),
    "map": lambda item: map(keep, [item]),
    "filter": lambda item: filter(lambda one: True, [item]),
    "chain": lambda item: chain([item], [item]),
    "generator": lambda item: (one for one in [item]),
}

USES: dict[str, Callable[[ToolRegistry, Any], object]] = {
    "search_tools": lambda registry, found: registry.search_tools(tags=found),
    "search": lambda registry, found: registry.search("pay", tags=found),
    "search without": lambda registry, found: registry.search("pay", exclude_tags=found),
    "disable_by_tags": lambda registry, found: registry.disable_by_tags(any=found),
    "all tags": lambda registry, found: registry.disable_by_tags(all=found),
    "categories": lambda registry, found: Agent("new", tool_categories=found, registry=registry),
    "tools": lambda registry, found: Agent("new", tools=found, registry=registry),
    "delegate": lambda registry, found: registry.agent("bank").delegate("zoe", tools=found),
    "schemas": lambda registry, found: registry.schemas("bank", tags=found),
    "schemas of a toolset": lambda registry, found: registry.toolset("bank").schemas(tags=found),
    "configure": lambda registry, found: registry.configure("pay", tags=found),
    "declare": lambda registry, found: registry.tool("new", description="New.", tags=found)(lambda: None),
    "secrets": lambda registry, found: ToolRegistry(secrets=found),
    "include": lambda registry, found: registry.register_object(SimpleNamespace(pay=print), include=found),
    "exclude": lambda registry, found: registry.register_object(SimpleNamespace(pay=print), exclude=found),
}


@pytest.fixture
def registry() -> ToolRegistry:
    """Return a registry in which bank owns a tool."""
    made = ToolRegistry(journal="memory")

    @made.tool("pay", owned_by="bank", tags=["t"])
    def pay(x: int = 1) -> int:
        """Pay."""
        return x

    return made


@pytest.mark.filterwarnings("ignore::praval_tools.errors.UnknownToolWarning")
@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("item", ITEMS)
def test_texts(registry: ToolRegistry, item: str, make: str, use: str) -> None:
    """Broken promise: texts in a dict, view, deque or iterator hashed and compared themselves as the operator."""
    found = MAKES[make](ITEMS[item]())
    actors.clear()
    with suppress(ToolError, TypeError, ValueError):
        USES[use](registry, found)
    assert "operator" not in actors


@pytest.mark.parametrize("make", MAKES)
def test_numbers_of_records(registry: ToolRegistry, make: str) -> None:
    """Broken promise: numbers that were looked up in the journal hashed themselves as the operator."""
    found = MAKES[make](Number(1))
    actors.clear()
    assert registry.journal is not None
    with suppress(ToolError, TypeError, ValueError):
        list(registry.journal.read(numbers=found))
    assert "operator" not in actors


@pytest.mark.parametrize(
    "use",
    [
        lambda registry, found: registry.configure("pay", timeout=found),
        lambda registry, found: ToolRegistry(retry_wait=found),
        lambda registry, found: ToolLoop(registry.agent("bank"), FakeModel((), "openai-chat"), retry_wait=found),
    ],
)
def test_numbers_of_seconds(registry: ToolRegistry, use: Callable[[ToolRegistry, Any], object]) -> None:
    """An object in place of a number is refused, and its class is asked nothing."""
    actors.clear()
    with pytest.raises((ToolError, TypeError, ValueError)):
        use(registry, Mark())
    assert [] == actors


def test_categories_are_kept_plain(registry: ToolRegistry) -> None:
    """Broken promise: a category was kept in the class that an agent had given it."""
    Agent("new", tool_categories=iter([Text("general")]), registry=registry)
    (category,) = registry.state.get_profile("new").tool_categories
    assert str is type(category)
