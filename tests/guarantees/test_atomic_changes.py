"""Changes are atomic: a fault at each step of a change leaves the registry as it was before or as it is after."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from fault_rig import run_with_fault

from praval_tools import Agent, DuplicateToolError, Tool, ToolDefinitionError, ToolRegistry, tool
from praval_tools.access.transitions import rebuild_state
from praval_tools.tools.frames import get_current_frame


def make_registry() -> tuple[ToolRegistry, list[Any]]:
    """Return a registry with something of everything, and its events."""
    registry, events = ToolRegistry(), list[Any]()
    registry.subscribe(events.append)
    for name, owner in (("add", "ann"), ("wire", "bob"), ("mail", None)):
        tool(name, owned_by=owner, category="math", tags=["t"], registry=registry, description="Do it.")(lambda: None)
    Agent("ann", tools=["mail"], registry=registry)
    registry.grant("wire", "ann", max_calls=3, delegable=True)
    registry.grant("wire", "cid", by="ann")
    registry.block("add", "cid")
    return registry, events


def make_tool(name: str = "fresh") -> Tool[..., Any]:
    return Tool.from_function(lambda: None, name, owned_by="ann", category="new", tags=["u"], description="New.")


CHANGES: dict[str, Callable[[ToolRegistry], Any]] = {
    "register": lambda registry: registry.register_tool(make_tool()),
    "replace": lambda registry: registry.register_tool(make_tool("add"), replace=True),
    "unregister": lambda registry: registry.unregister_tool("wire"),
    "assign": lambda registry: registry.assign_tool_to_agent("add", "bob", max_calls=2, where=None),
    "lend": lambda registry: registry.grant("wire", "dan", by="ann"),
    "revoke": lambda registry: registry.revoke(registry.grants(agent="ann")[0]),
    "remove": lambda registry: registry.remove_tool_from_agent("wire", "ann"),
    "block": lambda registry: registry.block("wire", "ann"),
    "unblock": lambda registry: registry.unblock("add", "cid"),
    "transfer": lambda registry: registry.transfer_ownership("add", "cid"),
    "share": lambda registry: registry.share_tool("add"),
    "disable": lambda registry: registry.disable(category="math"),
    "configure": lambda registry: registry.configure("add", risk_level="high"),
    "declare": lambda registry: Agent("dan", tools=["add", make_tool()], tool_categories=["math"], registry=registry),
    "retire": lambda registry: registry.retire_agent("ann"),
    "add_tool": lambda registry: registry.agent("ann").add_tool(make_tool()),
    "clear": lambda registry: registry.clear_registry(),
    "swap": lambda registry: registry.replace_source("nowhere", [make_tool()]),
}


class TestFaults:
    @pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
    def test_at_each_step(self, change: Callable[[ToolRegistry], Any]) -> None:
        """
        After a fault at any line the registry is as before or as after, its events say the same, and it works.

        Nobody is left inside of a change, and no lock is held: others go on.
        """
        registry, _ = make_registry()
        whole, _ = make_registry()
        change(whole)
        number = 0
        while True:
            registry, events = make_registry()
            before = registry.state
            failed = run_with_fault(number, lambda registry=registry: change(registry))  # type: ignore[misc]
            _check_all_or_nothing(registry, before, whole)
            registry.register_tool(make_tool().with_namespace("again"))
            other = threading.Thread(target=registry.assign_tool_to_agent, args=("again-fresh", "zoe"), daemon=True)
            other.start()
            other.join(10)
            assert "again-fresh" in registry.agent("zoe").list_tools()
            assert rebuild_state(events) == registry.state
            assert get_current_frame() is None
            if not failed:
                break
            number += 1

        assert number > 10


def _check_all_or_nothing(registry: ToolRegistry, before: Any, whole: ToolRegistry) -> None:
    """Check that all or nothing of the change is there."""
    state = registry.state
    if state is before or state == before:
        return
    assert sorted(state.tools) == sorted(whole.state.tools)
    assert {name: len(names) for name, names in state.tools_by_label.items()} == {
        name: len(names) for name, names in whole.state.tools_by_label.items()
    }
    assert sorted(state.profiles) == sorted(whole.state.profiles)
    for agent in ("ann", "bob", "cid", "dan"):
        assert whole.agent(agent).list_tools() == registry.agent(agent).list_tools()


class TestRefusals:
    def test_a_duplicate_leaves_no_trace(self) -> None:
        """
        A tool whose name is taken changes nothing, in no index.
        """
        registry, _ = make_registry()
        before = registry.state

        with pytest.raises(DuplicateToolError, match="already registered, owned by 'ann'"):
            tool("ADD", registry=registry, owned_by="eve", description="x", category="other")(lambda: None)

        assert before is registry.state

    def test_an_agent_whose_list_is_bad_brings_nothing(self) -> None:
        """
        One bad entry of `tools=[…]` and neither the agent nor the other entries are registered.
        """
        registry, _ = make_registry()
        before = registry.state

        with pytest.raises(TypeError, match="Expected Tool object"):
            Agent("dan", tools=[make_tool(), 3], registry=registry)

        assert before == registry.state

    def test_a_bad_definition_registers_nothing(self) -> None:
        """
        A function that cannot be a tool is in no registry.
        """
        registry, _ = make_registry()
        before = registry.state

        with pytest.raises(ToolDefinitionError):

            @tool(registry=registry)
            def bad(x, *more):  # type: ignore[no-untyped-def]
                """Be bad."""

        assert before is registry.state
