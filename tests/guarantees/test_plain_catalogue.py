"""Objects that an agent gives as names to Praval's interface are no keys there, and are compared by nobody."""

# Tests of: compat/catalogue, compat/conversion, compat/tools

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from agent_code import run_as
from watchers import Odd, actors

from praval_tools import NotOwnerError, ToolRegistry
from praval_tools.compat import praval
from praval_tools.tools.frames import get_current_actor


class Name(Odd):
    """An object that is hashed and shown as `note`, and says that it equals everything."""

    def __init__(self) -> None:
        super().__init__("note")

    def __eq__(self, other: object) -> bool:
        super().__eq__(other)
        return True

    __hash__ = Odd.__hash__

    def __repr__(self) -> str:
        super().__repr__()
        return "note"


@pytest.fixture
def registry() -> Iterator[ToolRegistry]:
    """Return the registry behind Praval's interface, with tools of bank and of mal."""
    praval.reset_tool_registry()
    made = praval.get_tool_registry().registry

    @made.tool("pay", owned_by="bank")
    def pay() -> str:
        """Pay."""
        return "paid"

    @made.tool("note", owned_by="mal")
    def note() -> None:
        """Note."""

    yield made
    praval.reset_tool_registry()


def run_as_mal(registry: ToolRegistry, step: Callable[[], object]) -> None:
    """Do *step* as code of mal's; who runs is noted from then on."""
    assert run_as(registry, "mal", step) is None
    actors.clear()


def test_agents_that_were_assigned_a_tool(registry: ToolRegistry) -> None:
    """Broken promise: an object was kept as the name of an agent, and compared as the host."""
    view = praval.get_tool_registry()
    name: Any = Name()
    run_as_mal(registry, lambda: view.assign_tool_to_agent("note", name))
    assert view.assign_tool_to_agent("pay", "note")
    assert view.get_registry_stats()["agents_with_tools"] == 3
    assert actors == []


def test_agents_that_were_assigned_nothing(registry: ToolRegistry) -> None:
    """Broken promise: a name was kept of an assignment that was refused."""
    view = praval.get_tool_registry()

    def assign() -> None:
        with suppress(NotOwnerError):
            view.assign_tool_to_agent("pay", "zoe")

    run_as_mal(registry, assign)
    assert "zoe" not in view._catalogue.agents


def test_tools_of_a_collection(registry: ToolRegistry) -> None:
    """Broken promise: an object that said it equals the name of a tool was kept, and compared as the host."""
    collection, name = praval.ToolCollection("all", ""), Name()
    given: Any = name
    run_as_mal(registry, lambda: collection.add_tool(given))
    collection.add_tool("pay")
    assert collection.remove_tool("pay")
    assert ["note"] == collection.tools
    assert str is type(collection.tools[0])
    assert actors == []


class TwoTexts:
    """An object that shows itself to people as another text than to programmers."""

    def __str__(self) -> str:
        actors.append(get_current_actor())
        return "send"

    def __repr__(self) -> str:
        actors.append(get_current_actor())
        return "other"


def test_an_object_given_as_a_name_has_one_name(registry: ToolRegistry) -> None:
    """Broken promise: a tool was registered under the object's `repr`, which the host made, and found by its `str`."""
    view, name = praval.get_tool_registry(), TwoTexts()
    given: Any = name

    def send(text: str) -> str:
        return text

    actors.clear()
    view.register_tool(praval.Tool(send, praval.ToolMetadata(tool_name=given, owned_by=given)))
    assert ("send", "send") == (registry.get_tool("send").name, registry.get_tool("send").metadata.owned_by)
    assert {} == registry.get_tool("send").metadata.extra
    assert view.get_tool("send") is view.get_tool(given)
    with pytest.raises(praval.ToolError, match="'send' is already registered"):
        view.register_tool(praval.Tool(send, praval.ToolMetadata(tool_name=given)))
    assert "operator" not in actors
