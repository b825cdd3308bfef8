"""Agents: handles, declaration, lists and grants, delegation, and changes in an agent's own name."""

# Tests of: agents, decorators, access_changes

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from agent_tool_programs import REGISTRY, add, later, me, stock  # noqa: F401

from praval_tools import (
    Agent,
    BoundTool,
    Tool,
    ToolCall,
    ToolDefinition,
    ToolRegistry,
    agent,
    current_agent,
    errors,
    tool,
)

Change = Callable[[ToolRegistry], object]


def line() -> int:
    """Return the line that calls this."""
    return sys._getframe(1).f_lineno


class TestHandles:
    def test_of_one_agent_are_equal(self, tool_registry: ToolRegistry) -> None:
        """
        The declared agent, what the registry gives and a handle made apart are equal and hash alike.
        """
        ann = Agent("ann")
        fork = tool_registry.fork()

        assert {ann} == {ann, tool_registry.agent("ann"), tool_registry.agent(ann)}
        assert fork.agent("ann") == fork.agent("ann")
        assert ann not in (tool_registry.agent("bob"), fork.agent("ann"), "ann")

    def test_of_one_delegation_are_equal(self, tool_registry: ToolRegistry) -> None:
        """
        Handles of the same delegation are equal, and none is the undelegated agent.
        """
        stock(tool_registry)
        one, two = Agent("ann").delegate("bob", tools=["add"]), tool_registry.agent("ann").delegate("bob", ["add"])

        assert {one} == {one, two}
        assert one not in (tool_registry.agent("bob"), Agent("cid").delegate("bob", ["add"]))

    def test_all_are_agents(self, tool_registry: ToolRegistry) -> None:
        """
        Declared, undeclared, delegated and running agents are instances of `Agent`.
        """
        running = agent("ann")(lambda: current_agent())
        handles = [running, running(), tool_registry.agent("nobody"), running.delegate("bob")]

        assert [Agent] * 4 == [type(one) for one in handles]
        assert ["ann", "ann", "nobody", "bob"] == [one.name for one in handles]

    def test_a_delegated_agent_runs_as_itself(self, tool_registry: ToolRegistry) -> None:
        """
        In a tool that a delegated agent calls, `current_agent()` is that agent with its chain.
        """
        seen: list[Agent] = []

        tool("look", shared=True, description="Look.")(lambda: seen.append(current_agent()))
        sub = Agent("ann").delegate("bob")
        sub.call("look")

        assert [sub] == seen
        assert ("ann",) == seen[0].chain


def module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: str) -> ModuleType:
    """Import a module of this source; `REGISTRY`, `Agent` and `agent` are there."""
    (tmp_path / "again_mod.py").write_text(f"from {__name__} import REGISTRY, Agent, agent\n{source}")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "again_mod", raising=False)
    return importlib.import_module("again_mod")


class TestDeclaredAgain:
    def test_by_its_module(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """
        A module that runs again declares its agents again; the newest is the one that the registry gives.
        """
        REGISTRY.clear_registry()
        source = "one = Agent('one', tools=['x'], registry=REGISTRY)\n@agent(registry=REGISTRY)\ndef two(): pass"
        made = module(monkeypatch, tmp_path, source)
        first = made.one, made.two
        importlib.reload(made)

        assert ["one", "two"] == REGISTRY.agents
        for old, new in zip(first, (made.one, made.two), strict=True):
            assert (False, True) == (new is old, new is REGISTRY.agent(new.name))

    def test_twice_in_one_run(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """
        Two agents of one name in one run of a module are an error that names both places and the fix.
        """
        REGISTRY.clear_registry()
        source = "one = Agent('again', registry=REGISTRY)\n"
        with pytest.raises(errors.DuplicateAgentError) as caught:
            module(monkeypatch, tmp_path, source * 2)

        fix = "Give one of them another name, or retire the first with registry.retire_agent('again')"
        assert [True] * 3 == [part in str(caught.value) for part in ("again_mod.py:2", "again_mod.py:3", fix)]

    def test_in_a_function(self, tool_registry: ToolRegistry) -> None:
        """
        The same line run twice inside a function is a duplicate, until the first agent is retired.
        """

        declare = lambda: Agent("ann")
        first = declare()
        with pytest.raises(errors.DuplicateAgentError):
            declare()
        tool_registry.retire_agent(first)

        assert ("ann", ["ann"]) == (declare().name, tool_registry.agents)


def add_one(x: int) -> int:
    """Add one."""
    return x + 1


class TestAssignment:
    def test_the_old_decorator(self, tool_registry: ToolRegistry) -> None:
        """
        `agent.tool` in all its spellings declares tools that the agent owns and lists.
        """
        ann = Agent("ann", auto_discover_tools=False)
        ann.tool(add)
        ann.tool("plus", description="Plus.")(add)
        ann.tool(name="sum", category="math")(add)

        assert ["add", "plus", "sum"] == ann.list_tools()
        assert ["ann"] * 3 == [one.metadata.owned_by for one in tool_registry]
        assert ("Plus.", "math") == (ann.tools["plus"].description, ann.tools["sum"].metadata.category)

    def test_add_tool(self, tool_registry: ToolRegistry) -> None:
        """
        A name is assigned, a function is owned and listed, a tool is registered as it is.
        """
        stock(tool_registry, owner="bob")
        ann = Agent("ann", auto_discover_tools=False)
        for given in ("add", me, Tool.from_function(line, owned_by="cid")):
            ann.add_tool(given)

        assert ["add", "me", "line"] == ann.list_tools()
        assert ["bob", "bob", "ann", "cid"] == [one.metadata.owned_by for one in tool_registry]

    @pytest.mark.parametrize("wrong", [3, None, ..., int, ["add"]], ids=repr)
    def test_other_objects(self, tool_registry: ToolRegistry, wrong: Any) -> None:
        """
        Anything else is a `TypeError`, also in `tools=[…]`, and leaves nothing behind.
        """
        ann = Agent("ann")
        for work in (lambda: ann.add_tool(wrong), lambda: Agent("bob", tools=[add, wrong])):
            with pytest.raises(TypeError, match="^Expected Tool object"):
                work()

        assert (["ann"], []) == (tool_registry.agents, tool_registry.list_all_tools())

    def test_an_unknown_name(self, tool_registry: ToolRegistry) -> None:
        """
        An unknown name is an error with the near ones.
        """
        stock(tool_registry)
        with pytest.raises(errors.UnknownToolError) as caught:
            Agent("ann").add_tool("ad")

        assert (("add",), "Tool 'ad' not found. Did you mean 'add'?") == (caught.value.near, str(caught.value))

    def test_a_name_that_is_taken(self, tool_registry: ToolRegistry) -> None:
        """
        Another function of a taken name is a duplicate, whose text names both owners and sources and the fix.
        """
        stock(tool_registry, owner="bob")
        ann = Agent("ann")
        with pytest.raises(errors.DuplicateToolError) as caught:
            ann.tool("add", description="Another.")(me)
        with pytest.raises(errors.DuplicateToolError):
            ann.add_tool(Tool.from_function(me, "add", description="Another."))

        codes = (add.__code__, me.__code__)
        sources = [f"{Path(code.co_filename).name}:{code.co_firstlineno}" for code in codes]
        parts = ["owned by 'bob'", "owned by 'ann'", "another name or a namespace", "replace=True", *sources]
        assert parts == [part for part in parts if part in str(caught.value)]

    def test_a_bound_method_listed_twice(self, tool_registry: ToolRegistry) -> None:
        """
        A bound method, which is another object at each look, is one tool however often it is given.
        """

        class Till:
            def total(self) -> int:
                """Give the total."""
                return 3

        till = Till()
        ann = Agent("ann", tools=[till.total, till.total])
        ann.add_tool(till.total)

        assert (["total"], 1) == (ann.list_tools(), len(tool_registry))
        assert [3, 3] == [one.call("total") for one in (ann, Agent("bob", tools=[till.total]))]

    def test_a_function_that_adds_its_tool_at_each_run(self, tool_registry: ToolRegistry) -> None:
        """The agent's code finds the tool that it has added before."""

        def mine() -> int:
            """Give three."""
            return 3

        @agent("clerk", registry=tool_registry)
        def clerk() -> int:
            """Add a tool and call it."""
            current_agent().add_tool(mine)
            given: int = current_agent().call("mine")
            return given

        run: Any = clerk
        assert [3, 3] == [run(), run()]

    def test_a_built_in_method_that_is_registered(self, tool_registry: ToolRegistry) -> None:
        """So is one of a built-in type, which was registered with a definition."""
        items: list[int] = []
        schema = {"type": "object", "properties": {"object": {"type": "integer"}}, "required": ["object"]}
        tool_registry.register("append", items.append, ToolDefinition("append", "Append.", schema))

        Agent("ann", tools=[items.append])

        assert ["append"] == [tool.name for tool in tool_registry.get_tools_for_agent("ann")]

    def test_remove_tool(self, tool_registry: ToolRegistry) -> None:
        """
        `remove_tool` tells whether the agent could call the tool before, by name or object, known or not.
        """
        stock(tool_registry)
        ann, bob, later = Agent("ann"), Agent("bob"), tool_registry.get_tool("later")
        given: list[Any] = [(ann, "add"), (ann, "add"), (ann, later), (bob, "add")]

        assert [True, False, True, False] == [one.remove_tool(name) for one, name in given]
        with pytest.warns(errors.UnknownToolWarning, match="nope"):
            assert not bob.remove_tool("nope")
        assert [] == ann.list_tools()

    def test_by_name_or_itself(self) -> None:
        """
        Whatever asks for a tool takes its name or the tool, and anything but a list of tools is refused by name.
        """
        made = ToolRegistry()
        tool = Tool.from_function(add_one)
        ann = Agent("ann", tools=[tool], registry=made)

        for one in ("add_one", tool):
            assert (2, 2, 2) == (ann.call(one, x=1), asyncio.run(ann.acall(one, x=1)), ann.tools[one](x=1))
            assert (True, True, True) == (ann.tool_exists(one), ann.get_tool(one) is not None, ann.explain(one).allowed)
        for odd in (None, "add_one", 3):
            with pytest.raises(TypeError, match="are lists"):
                Agent("bob", tools=odd, registry=made)  # type: ignore[arg-type]

    def test_the_four_looks_agree(self, tool_registry: ToolRegistry) -> None:
        """
        `list_tools`, `tool_exists`, `has_tool` and `get_tool` say the same of every tool, whatever was changed.
        """
        stock(tool_registry)
        tool("shared", shared=True, description="Shared.")(me)
        ann = Agent("ann")
        changes: list[tuple[Change, list[str]]] = [
            (lambda it: None, ["add", "later", "shared"]), (lambda it: it.block("shared", "ann"), ["add", "later"]),
            (lambda it: it.remove_tool_from_agent("add", "ann"), ["later"]), (lambda it: it.disable("later"), []),
            (lambda it: it.assign_tool_to_agent("add", "ann", max_calls=1), ["add"]),
            (lambda it: it.agent("ann").call("add", x=1), []),
        ]  # fmt: skip
        for change, expected in changes:
            change(tool_registry)
            names = [*(one.name for one in tool_registry), "nope"]
            assert expected == ann.list_tools()
            for look in (ann.tool_exists, ann.has_tool, ann.get_tool):
                assert expected == [name for name in names if isinstance(look(name), BoundTool) or look(name) is True]


MODES: list[tuple[Any, list[str] | None, list[str]]] = [
    ("intersect", None, ["add"]), ("inherit", None, ["add", "later"]), ("own", None, ["add", "own"]),
    ("intersect", ["later", "own"], []), ("inherit", ["later", "own"], ["later"]), ("own", ["later", "own"], ["own"]),
]  # fmt: skip


class TestDelegation:
    def shop(self, registry: ToolRegistry) -> Agent:
        """Return a parent that owns `add` and `later`; `bob` may call `add` and `own`, `ann` not `own`."""
        stock(registry)
        tool("own", owned_by="bob", description="Bob's.")(me)
        registry.assign_tool_to_agent("add", "bob")
        return Agent("ann")

    @pytest.mark.parametrize(("mode", "tools", "expected"), MODES)
    def test_modes(self, tool_registry: ToolRegistry, mode: Any, tools: list[str] | None, expected: list[str]) -> None:
        """
        *intersect* needs both, *inherit* the parent, *own* the sub-agent; `tools=` narrows; calls agree with lists.
        """
        sub = self.shop(tool_registry).delegate("bob", tools, mode)
        calls = {"add": {"x": 1}, "later": {"x": 1}, "own": {}}

        assert expected == sub.list_tools()
        assert expected == [name for name, given in calls.items() if sub.execute(ToolCall("1", name, given)).success]
        assert expected == [name for name in calls if sub.explain(name)]

    def test_chain(self, tool_registry: ToolRegistry) -> None:
        """
        A delegate's delegate carries the whole chain, the nearest first, and a block on any member counts.
        """
        ann = self.shop(tool_registry)
        sub = ann.delegate("bob", mode="inherit").delegate("cid", mode="inherit")

        assert ("bob", "ann") == sub.chain
        assert ["add", "later"] == sub.list_tools()
        tool_registry.block("add", "ann")
        tool_registry.block("later", "bob")
        assert [] == sub.list_tools()


REFUSALS = (errors.NotOwnerError, errors.ToolAccessError)


CHANGES: list[Change] = [
    lambda it: it.share_tool("add"), lambda it: it.block("add", "cid"), lambda it: it.execute_tool("add", x=1),
    lambda it: it.remove_tool_from_agent("add", "bob"), lambda it: it.transfer_ownership("add", "ann"),
    lambda it: it.assign_tool_to_agent("add", "ann"), lambda it: it.unregister_tool("add"),
    lambda it: it.configure("add", timeout=1), lambda it: it.retire_agent("bob"), lambda it: it.clear_registry(),
    lambda it: Agent("cid", registry=it), lambda it: it.share_tool("add", by="bob"),
    lambda it: it.disable("add"), lambda it: it.add_policy(lambda agent, tool, arguments: None),
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
class TestAgentsCallAsThemselves:
    def test_in_another_registry(self, tool_registry: ToolRegistry, change: Change) -> None:
        """
        An agent that reaches for another registry, or forks its own, is there the same agent and not the operator.
        """
        stock(tool_registry, owner="bob")
        other = tool_registry.fork()
        before = other.state
        for name, there in {"ann": lambda: other, "dan": tool_registry.fork}.items():
            with pytest.raises(REFUSALS):
                agent(name)(lambda there=there: change(there()))()

        assert before == other.state

    def test_in_a_tools_body(self, tool_registry: ToolRegistry, change: Change) -> None:
        """
        A tool's body changes only what its caller may, while `as_operator` says otherwise on purpose.
        """
        stock(tool_registry, owner="bob")

        @tool(shared=True)
        def bad() -> bool:
            """Try it, then do it as the operator of the fork."""
            with pytest.raises(REFUSALS):
                change(tool_registry)
            with tool_registry.as_operator():
                change(tool_registry.fork())
            return True

        assert Agent("ann").call("bad")


class TestWarnings:
    def warned(self, kind: type[Warning], works: list[tuple[Callable[[], object], int]]) -> str:
        """Return the last warning's text; each must be the only one and point to its line of this file."""
        for work, where in works:
            with pytest.warns(kind) as seen:
                work()
            assert [(__file__, where)] == [(one.filename, one.lineno) for one in seen]
        return str(seen[0].message)

    def test_unknown_tool(self, tool_registry: ToolRegistry) -> None:
        """
        `UnknownToolWarning` names the near tools and points to the caller's line.
        """
        stock(tool_registry)
        works = [(lambda: tool_registry.assign_tool_to_agent("ad", "ann"), line())]

        text = "Tool 'ad' not found; nothing was assigned. Did you mean 'add'?"
        assert text == self.warned(errors.UnknownToolWarning, works)

    def test_access(self, tool_registry: ToolRegistry) -> None:
        """
        `AccessWarning` points to the line that grants without effect, through the registry or the agent.
        """
        stock(tool_registry, owner="bob")
        tool_registry.block("add", "ann")
        ann = Agent("ann")
        works: list[Any] = [
            (lambda: tool_registry.grant("later", "bob", max_calls=1), line()),
            (lambda: tool_registry.assign_tool_to_agent("add", "ann"), line()),
            (lambda: ann.add_tool("add"), line()),
        ]

        assert "blocked" in self.warned(errors.AccessWarning, works)

    def test_definition(self, tool_registry: ToolRegistry) -> None:
        """
        `ToolDefinitionWarning` points to the line that declares, whichever spelling declares.
        """

        def bare(x: int) -> int:
            return x

        ann = Agent("ann")
        works: list[Any] = [
            (lambda: tool("one")(bare), line()), (lambda: tool_registry.tool("two")(bare), line()),
            (lambda: ann.tool("three")(bare), line()), (lambda: Agent("bob", tools=[bare]), line()),
            (lambda: Tool("four", callable=bare), line()),
        ]  # fmt: skip

        assert "no docstring and no description" in self.warned(errors.ToolDefinitionWarning, works)


def test_shared_tuples_are_copied_once() -> None:
    """A tuple that stands in many places takes no longer than one."""

    @agent("mal", registry=ToolRegistry())
    def give() -> Any:
        """Give."""
        shared: Any = (iter([1]), 2)
        for _ in range(100):
            shared = (shared, shared)
        return shared

    given: Any = give()
    for _ in range(100):
        assert given[0] is given[1]
        given = given[0]
    assert list(given[0]) == [1]
