"""Changes are atomic: a fault at each step of a change leaves the registry as it was before or as it is after."""

# Tests of: access/settings, access/pending_change

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from fault_rig import run_with_fault

from praval_tools import (
    Agent,
    Allow,
    DiscoveryError,
    DuplicateToolError,
    Outcome,
    Tool,
    ToolCall,
    ToolDefinitionError,
    ToolLimitedError,
    ToolRegistry,
    discover_tools,
    tool,
)
from praval_tools.access.transitions import rebuild_state
from praval_tools.execution.limits import Limit
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


class TestSettings:
    """
    Limits and the approval handler that are set in a change count from its end on, or not at all.

    The promise was broken: a change that was undone, and a file of tools that failed, left them in force.
    """

    @staticmethod
    def widen(registry: ToolRegistry) -> None:
        """Let everything through."""
        registry.set_approval_handler(lambda request: Allow(by="nobody"))
        registry.approvals.handler = lambda request: Allow(by="nobody")
        registry.limits.set(tool="pay")
        registry.limits.set(agent="ann", per_minute=100)

    @staticmethod
    def make_guarded_registry() -> ToolRegistry:
        registry = ToolRegistry()
        tool("pay", owned_by="ann", requires_approval=True, registry=registry, description="Pay.")(lambda: "paid")
        registry.limits.set(tool="pay", per_minute=1)
        return registry

    def call_twice(self, registry: ToolRegistry) -> list[Outcome]:
        return [registry.execute(ToolCall(None, "pay", {}, "ann")).outcome for _ in range(2)]

    @pytest.mark.parametrize("is_nested", [False, True], ids=["alone", "in another change"])
    def test_are_undone(self, is_nested: bool) -> None:
        """By an exception in the block."""
        registry = self.make_guarded_registry()
        with registry.change() if is_nested else nullcontext():
            with suppress(ZeroDivisionError), registry.change():
                self.widen(registry)
                raise ZeroDivisionError

        assert [Outcome.APPROVAL_REQUIRED] * 2 == self.call_twice(registry)
        assert [Limit(tool="pay", per_minute=1)] == registry.limits.all()

    @pytest.mark.parametrize("is_nested", [False, True], ids=["alone", "in another change"])
    def test_count_at_the_end(self, is_nested: bool) -> None:
        """Not before; calls that were made by a fast path look again."""
        registry = self.make_guarded_registry()
        tool("add", owned_by="ann", registry=registry, description="Add.")(lambda: 1)
        for _ in range(3):
            registry.toolset("ann").call("add")
        with registry.change() if is_nested else nullcontext(), registry.change(), registry.as_operator():
            self.widen(registry)
            registry.limits.set(tool="add", per_minute=1)
            during = registry.limits.all(), registry.approvals.handler

        assert ([Limit(tool="pay", per_minute=1)], None) == during
        assert [Outcome.OK, Outcome.OK] == self.call_twice(registry)
        assert 1 == registry.toolset("ann").call("add")
        with pytest.raises(ToolLimitedError):
            registry.toolset("ann").call("add")

    @pytest.mark.parametrize("fails", [True, False])
    def test_of_a_file_of_tools(self, fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Those of a file that fails are undone; those of another file stay, as its tools do."""
        registry = self.make_guarded_registry()
        monkeypatch.chdir(tmp_path)
        text = "from praval_tools import Allow, get_tool_registry\nregistry = get_tool_registry()\n"
        widening = text + "registry.set_approval_handler(lambda request: Allow(by='nobody'))\n"
        (tmp_path / "a.py").write_text(widening + ("raise RuntimeError('broken')\n" if fails else ""), encoding="utf-8")
        (tmp_path / "b.py").write_text(text + "registry.limits.set(tool='pay', per_minute=7)\n", encoding="utf-8")
        (tmp_path / "c.py").write_text("raise RuntimeError('broken')\n", encoding="utf-8")
        with pytest.raises(DiscoveryError):
            discover_tools(pattern="*.py", registry=registry)

        expected = Outcome.APPROVAL_REQUIRED if fails else Outcome.OK
        assert [expected] * 2 == self.call_twice(registry)
        assert [Limit(tool="pay", per_minute=7)] == registry.limits.all()
