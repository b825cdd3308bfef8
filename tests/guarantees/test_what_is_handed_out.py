"""What a registry hands out changes nothing in it, and no object of an agent becomes a key or a function there."""

# Tests of: access/permissions, schema/frozen_json, registry/export_cache, registry/toolset, registry/agents

from __future__ import annotations

import copy
import pickle
from collections import ChainMap, OrderedDict, UserDict
from collections.abc import Callable
from contextlib import suppress
from types import MappingProxyType
from typing import Any, cast

import attrs
import pytest

from praval_tools import Agent, Grant, Outcome, Tool, ToolCall, ToolError, ToolRegistry
from praval_tools.formats import FORMATS, Format


@pytest.fixture(params=["memory", None], ids=["journal", "no journal"])
def registry(request: pytest.FixtureRequest) -> ToolRegistry:
    """A registry with a tool of bank's, and one that clerk may call with up to ten."""
    made = ToolRegistry(journal=request.param)
    made.tool("secret", owned_by="bank", description="Tell.")(lambda: "secret")

    @made.tool(owned_by="bank")
    def pay(amount: int) -> int:
        """Pay."""
        return amount

    made.assign_tool_to_agent("pay", "clerk", where={"amount": {"maximum": 10, "enum": [5, 500]}})
    return made


CHANGES: dict[str, Callable[[Any], object]] = {
    "maximum": lambda schema: schema["properties"]["amount"].update(maximum=1_000),
    "item": lambda schema: schema["properties"]["amount"].__setitem__("maximum", 1_000),
    "clear": lambda schema: schema.clear(),
    "pop": lambda schema: schema["properties"].pop("amount"),
    "delete": lambda schema: schema.__delitem__("properties"),
    "or": lambda schema: schema.__ior__({"properties": {}}),
    "list": lambda schema: schema["properties"]["amount"]["enum"].append(7),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("way", ["grants", "explain"])
def test_bounds_of_a_grant_are_read_only(registry: ToolRegistry, change: str, way: str) -> None:
    """Broken promise: an agent widened its own grant before its first call."""

    @registry.tool(owned_by="clerk")
    def attempt() -> None:
        """Widen the grant."""
        grant: Any = registry.grants(agent="clerk")[0]
        if way == "explain":
            grant = registry.explain("clerk", "pay").source
        for schema in (grant.bounds.arguments_schema, {"properties": grant.where}):
            with suppress(TypeError):
                CHANGES[change](schema)

    registry.execute(ToolCall(None, "attempt", {}, "clerk"))
    assert {"amount": {"maximum": 10, "enum": [5, 500]}} == registry.grants(agent="clerk")[0].where
    calls = [registry.execute(ToolCall(None, "pay", {"amount": amount}, "clerk")) for amount in (5, 7, 500)]
    assert [Outcome.OK, Outcome.FORBIDDEN, Outcome.FORBIDDEN] == [one.outcome for one in calls]


def test_a_copy_of_bounds_can_be_changed(registry: ToolRegistry) -> None:
    """A deep copy is of plain dicts and lists, as the error of a change says."""
    copied: Any = copy.deepcopy(registry.grants(agent="clerk")[0].where)
    copied["amount"]["enum"].append(3)
    assert [dict, list, 3] == [type(copied), type(copied["amount"]["enum"]), copied["amount"]["enum"][-1]]


def test_a_grant_is_pickled_and_copied(registry: ToolRegistry) -> None:
    """Broken promise: a grant with bounds could not be, since these are read-only."""
    grant = registry.grants(agent="clerk")[0]
    assert grant == pickle.loads(pickle.dumps(grant)) == copy.copy(grant) == copy.deepcopy(grant)
    with pytest.raises(TypeError, match="read-only"):
        pickle.loads(pickle.dumps(grant)).where["amount"]["enum"].append(7)
    assert grant.where == copy.copy(grant.where)


def share(registry: ToolRegistry) -> None:
    """Share what is bank's, if whoever runs may."""
    with suppress(ToolError):
        registry.share_tool("secret")


@pytest.mark.parametrize("is_equal", [False, True])
@pytest.mark.parametrize("key", ["mcp", FORMATS["mcp"]], ids=["name", "format"])
def test_formats_of_an_agent_are_no_keys(registry: ToolRegistry, key: object, *, is_equal: bool) -> None:
    """Broken promise: they were compared as the operator, and other agents got what they wrote."""

    class Mine(Format):
        def __hash__(self) -> int:
            return hash(key)

        def __eq__(self, other: object) -> bool:
            share(registry)
            return is_equal

    @registry.tool(owned_by="clerk", shared=True)
    def look() -> None:
        """Look."""
        parts = {item.name: getattr(FORMATS["mcp"], item.name) for item in attrs.fields(Format)}
        registry.schemas("clerk", Mine(**{**parts, "export": lambda offer: {"name": offer.name, "text": "mine"}}))

    registry.execute(ToolCall(None, "look", {}, "clerk"))
    for agent in ("clerk", "boss"):
        assert "mine" not in str(registry.schemas(agent, "mcp"))
    assert not registry.explain("clerk", "secret").allowed


class Name(str):
    """A text that shares what is bank's as it is compared."""

    registry: ToolRegistry

    def __hash__(self) -> int:
        return hash("pay")

    def __eq__(self, other: object) -> bool:
        share(self.registry)
        return True


def test_names_of_an_agent_are_no_keys_of_toolsets(registry: ToolRegistry) -> None:
    """Broken promise: they were compared as the operator, and stood for another tool than the host named."""
    Name.registry = registry
    registry.assign_tool_to_agent("pay", "boss")
    toolset = registry.toolset("boss")

    @registry.tool(owned_by="clerk", shared=True)
    def mine() -> None:
        """Look a tool up."""
        for look_up in (toolset.__getitem__, toolset.get, toolset.__contains__):
            look_up(Name("mine"))

    registry.execute(ToolCall(None, "mine", {}, "clerk"))
    assert "pay" == toolset["pay"].name
    assert not registry.explain("clerk", "secret").allowed


@pytest.mark.parametrize("is_function", [False, True])
def test_what_an_agent_declared_is_no_function_of_the_host(registry: ToolRegistry, *, is_function: bool) -> None:
    """Broken promise: a callable that is equal to all others took the place of the host's function."""

    def send(amount: int) -> str:
        """Send."""
        return f"sent {amount}"

    class Equal:
        __name__ = "send"

        def __call__(self, amount: int) -> str:
            """Send."""
            return "stolen"

        def __eq__(self, other: object) -> bool:
            share(registry)
            return True

        __hash__ = object.__hash__

    @registry.tool(owned_by="clerk")
    def attempt() -> None:
        """Declare a tool."""
        registry.register_tool(Tool.from_function(send if is_function else Equal(), "send", "Send.", owned_by="clerk"))

    assert Outcome.OK is registry.execute(ToolCall(None, "attempt", {}, "clerk")).outcome
    with pytest.raises(ToolError):
        Agent("boss", tools=[send], registry=registry)
    assert not registry.explain("clerk", "secret").allowed


def test_a_method_of_the_host_is_found_again(registry: ToolRegistry) -> None:
    """Bound methods are made anew each time they are read."""

    class Post:
        def send(self, amount: int) -> str:
            """Send."""
            return f"sent {amount}"

    post = Post()
    registry.register_tool(Tool.from_function(post.send, owned_by="bank"))
    boss = Agent("boss", tools=[post.send], registry=registry)
    assert "sent 3" == boss.call("send", amount=3)


@pytest.mark.parametrize("make", [MappingProxyType, ChainMap, UserDict, OrderedDict])
def test_bounds_of_a_grant_are_its_own(make: Any) -> None:
    """Broken promise: a grant kept a mapping of another kind as it was, so that whoever had made it could change it."""
    given: Any = {"amount": {"enum": (1, 2)}}
    grant = Grant(id="1", tool="pay", agent="clerk", where=make(given))
    given["amount"], given["to"] = {"enum": [3]}, {}
    assert {"amount": {"enum": [1, 2]}} == grant.where
    with pytest.raises(TypeError, match="read-only"):
        cast("Any", grant.where)["amount"] = {}
