"""Exported schemas of an agent: cached while they hold, never longer."""

from __future__ import annotations

import json
import threading
from datetime import timedelta
from typing import Any

import pytest
from clocks import HandClock
from hypothesis import given
from hypothesis import strategies as st

from praval_tools import Tool, ToolRegistry

VERBS = st.sampled_from(["give", "take", "block", "unblock", "off", "on", "say"])


def look(word: str, most: int = 10) -> str:
    """Look a word up."""
    return word[:most]


@pytest.fixture
def registry() -> Any:
    """Six tools of an owner, tagged in two ways; `ann` holds a grant of two, `bob` of two others."""
    with ToolRegistry() as made:
        for at in range(6):
            made.tool(f"t{at}", owned_by="owner", tags=["even" if at % 2 == 0 else "odd", f"n{at}"])(look)
        for name in ("t0", "t1"):
            made.assign_tool_to_agent(name, "ann")
        for name in ("t2", "t3"):
            made.assign_tool_to_agent(name, "bob")
        yield made


def names(registry: ToolRegistry, agent: str, **terms: Any) -> list[str]:
    """Return the names of what an agent is offered."""
    return [one["function"]["name"] for one in registry.schemas(agent, **terms)]


class TestLists:
    def test_are_the_tools_that_the_agent_can_call(self, registry: ToolRegistry) -> None:
        """Sorted by name, nothing else."""
        assert ["t0", "t1"] == names(registry, "ann") == sorted(registry.toolset("ann"))
        assert [] == names(registry, "eve")

    def test_are_of_the_tags_asked_for(self, registry: ToolRegistry) -> None:
        """Any of `tags` lets a tool in, any of `exclude_tags` keeps it out; one tag may be given as text."""
        assert ["t0", "t2", "t4"] == names(registry, "owner", tags=["even"]) == names(registry, "owner", tags="even")
        assert ["t2", "t4"] == names(registry, "owner", tags=["even"], exclude_tags=["n0"])
        assert ["t1", "t2", "t3", "t4", "t5"] == names(registry, "owner", exclude_tags="n0")
        assert [] == names(registry, "owner", tags=[])
        assert 6 == len(names(registry, "owner", exclude_tags=[]))

    def test_are_copies(self, registry: ToolRegistry) -> None:
        """Frameworks change what they are given; the next one gets what is so."""
        first = registry.schemas("ann")
        first[0]["function"]["parameters"]["properties"].clear()
        first.pop()

        assert registry.schemas("ann") == json.loads(registry.schemas_json("ann"))
        assert ["t0", "t1"] == names(registry, "ann")

    def test_a_number_of_many_digits_is_exported(self) -> None:
        """A default that needs more than 64 bits is there, digit by digit."""
        with ToolRegistry() as registry:
            schema = {"type": "object", "properties": {"a": {"type": "integer", "default": 10**30}}}
            registry.register_tool(Tool(name="big", description="Big.", parameters=schema, callable=lambda a: a))
            registry.share_tool("big")

            assert 10**30 == registry.schemas("ann", "mcp")[0]["inputSchema"]["properties"]["a"]["default"]

    def test_an_agent_and_its_toolset_say_the_same(self, registry: ToolRegistry) -> None:
        """There are three places to ask, and one answer."""
        terms: dict[str, Any] = {"strict": True, "think_augment": True}
        assert registry.schemas("ann", "anthropic", **terms) == registry.toolset("ann").schemas("anthropic", **terms)
        assert registry.schemas("ann", "anthropic", **terms) == registry.agent("ann").schemas("anthropic", **terms)


class TestWhatAChangeAlters:
    """The bytes of one agent stay the very same until its own tools change."""

    @pytest.mark.parametrize("change", [
        lambda registry: registry.assign_tool_to_agent("t4", "bob"),
        lambda registry: registry.remove_tool_from_agent("t2", "bob"),
        lambda registry: registry.block("t3", "bob"),
        lambda registry: registry.assign_tool_to_agent("t0", "bob"),
        lambda registry: registry.disable("t5"),
        lambda registry: registry.tool("t6", owned_by="owner")(look),
        lambda registry: registry.unregister_tool("t5"),
        lambda registry: registry.configure("t4", description="Other."),
        lambda registry: registry.block("t4", "ann"),
    ])  # fmt: skip
    def test_others_changes_leave_it(self, registry: ToolRegistry, change: Any) -> None:
        """A change that is not about the agent's tools leaves its list, byte for byte and in one piece."""
        before = {name: registry.schemas_json("ann", name) for name in ("openai-chat", "anthropic")}
        change(registry)

        assert all(registry.schemas_json("ann", name) is kept for name, kept in before.items())

    @pytest.mark.parametrize(("change", "expected"), [
        (lambda registry: registry.assign_tool_to_agent("t4", "ann"), ["t0", "t1", "t4"]),
        (lambda registry: registry.remove_tool_from_agent("t0", "ann"), ["t1"]),
        (lambda registry: registry.block("t1", "ann"), ["t0"]),
        (lambda registry: registry.disable(tag="even"), ["t1"]),
        (lambda registry: registry.share_tool("t5"), ["t0", "t1", "t5"]),
        (lambda registry: registry.unregister_tool("t1"), ["t0"]),
        (lambda registry: registry.clear_registry(), []),
    ])  # fmt: skip
    def test_its_own_changes_show_at_once(self, registry: ToolRegistry, change: Any, expected: list[str]) -> None:
        """The next list has what is so now, in every format."""
        kept = registry.toolset("ann")
        registry.schemas_json("ann")
        change(registry)

        assert expected == names(registry, "ann") == [one["name"] for one in kept.schemas("anthropic")]

    def test_a_changed_tool_is_written_anew_and_its_neighbours_are_not(self, registry: ToolRegistry) -> None:
        """Only the tool that changed is another text."""
        before = registry.schemas("ann")
        registry.configure("t0", description="Other.")
        after = registry.schemas("ann")

        assert "Other." == after[0]["function"]["description"]
        assert before[1] == after[1]

    def test_bounds_of_a_grant_are_in_the_schema(self, registry: ToolRegistry) -> None:
        """What a grant allows is what the model sees; it goes when the grant goes."""
        registry.grant("t4", "ann", where={"most": {"maximum": 3}}, key="few")
        shown = registry.schemas("ann", "anthropic")[2]["input_schema"]["properties"]["most"]
        registry.grant("t4", "ann", key="all")
        later = registry.schemas("ann", "anthropic")[2]["input_schema"]["properties"]["most"]

        assert 3 == shown["maximum"]
        assert "maximum" not in later

    def test_a_grant_that_expires_is_gone_without_a_change(self, clock: HandClock) -> None:
        """Time alone ends it; the list knows."""
        with ToolRegistry(clock=clock) as registry:
            registry.tool("t0", owned_by="owner")(look)
            registry.assign_tool_to_agent("t0", "ann", expires=timedelta(minutes=1))
            before, again = registry.schemas_json("ann"), registry.schemas_json("ann")
            clock.moment += timedelta(seconds=61)

            assert before is again
            assert b"[]" == registry.schemas_json("ann")

    def test_a_grant_that_expires_leaves_the_bounds_of_the_other(self, clock: HandClock) -> None:
        """Of two grants the open one ends by time; from then on the model sees what the other allows."""
        with ToolRegistry(clock=clock) as registry:
            registry.tool("t0", owned_by="owner")(look)
            registry.grant("t0", "ann", where={"most": {"maximum": 3}}, key="few")
            registry.grant("t0", "ann", expires=timedelta(minutes=1), key="all")
            before = registry.schemas_json("ann")
            clock.moment += timedelta(seconds=61)

            assert b"maximum" not in before
            assert b"maximum" in registry.schemas_json("ann")

    def test_a_hint_that_is_defined_later_shows_the_tool(self) -> None:
        """What the agent can call is in its list, though no state changed since the last one."""
        with ToolRegistry() as registry:
            scope: dict[str, Any] = {"__name__": "later", "registry": registry}
            exec("@registry.tool('t0', shared=True)\ndef t0(a: 'Later') -> int:\n    'See.'\n    return 1\n", scope)
            assert [] == names(registry, "ann")
            scope["Later"] = int

            assert ["t0"] == list(registry.toolset("ann")) == names(registry, "ann")

    def test_threads_read_while_another_changes(self, registry: ToolRegistry) -> None:
        """A list asked for after a change has it, whoever else asks; no list is half of one."""
        wrong: list[Any] = []
        over = threading.Event()

        def read() -> None:
            while not over.is_set():
                for name in ("openai-chat", "anthropic", "mcp"):
                    made = [one.get("function", one)["name"] for one in registry.schemas("ann", name)]
                    if made not in (["t0", "t1"], ["t0", "t1", "t4"]):
                        wrong.append(made)

        threads = [threading.Thread(target=read) for _ in range(4)]
        for one in threads:
            one.start()
        for _ in range(100):
            registry.assign_tool_to_agent("t4", "ann")
            wrong += [] if names(registry, "ann") == ["t0", "t1", "t4"] else ["not given"]
            registry.remove_tool_from_agent("t4", "ann")
            wrong += [] if names(registry, "ann") == ["t0", "t1"] else ["not taken"]
        over.set()
        for one in threads:
            one.join()

        assert [] == wrong

    def test_a_change_that_is_taken_back_leaves_nothing(self, registry: ToolRegistry) -> None:
        """What was shown inside of a change that failed is not shown after it."""
        with pytest.raises(RuntimeError), registry.change():
            registry.assign_tool_to_agent("t4", "ann")
            assert ["t0", "t1", "t4"] == names(registry, "ann")
            raise RuntimeError

        assert ["t0", "t1"] == names(registry, "ann")

    @pytest.mark.filterwarnings("ignore:.* is blocked from .*:praval_tools.errors.AccessWarning")
    @given(
        st.lists(st.tuples(VERBS, st.sampled_from(["t0", "t1", "t2"]), st.sampled_from(["ann", "bob"])), max_size=12)
    )
    def test_never_differs_from_a_list_that_was_not_cached(self, changes: list[tuple[str, str, str]]) -> None:
        """After any changes, in any order, what is kept equals what is written from nothing."""
        verbs: dict[str, Any] = {
            "give": ToolRegistry.assign_tool_to_agent, "take": ToolRegistry.remove_tool_from_agent,
            "block": ToolRegistry.block, "unblock": ToolRegistry.unblock,
            "off": lambda registry, tool, _: registry.disable(tool),
            "on": lambda registry, tool, _: registry.enable(tool),
            "say": lambda registry, tool, agent: registry.configure(tool, description=agent),
        }  # fmt: skip
        with ToolRegistry() as registry:
            for at in range(3):
                registry.tool(f"t{at}", owned_by="owner")(look)
            for verb, tool, agent in changes:
                verbs[verb](registry, tool, agent)
                for name in ("ann", "bob", "owner"):
                    fresh = registry.fork().schemas_json(name, "gemini")
                    assert fresh == registry.schemas_json(name, "gemini")
