"""`registry.search`: what an agent may call at that moment, ranked as if there were nothing else."""

# Tests of: finder, visible_tools

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from clocks import HandClock
from hypothesis import given
from hypothesis import strategies as st

from praval_tools import Agent, Tool, ToolRegistry, ToolUsageError

WORDS = ["send", "invoice", "mail", "weather", "user", "list"]


def do(**arguments: object) -> None:
    """Do it."""


def made(name: str, description: str, **more: Any) -> Any:
    """Return a tool that takes anything."""
    return Tool(name, description, {"type": "object"}, do, **more)


def names(registry: ToolRegistry, words: str, agent: Any = None, limit: int = 10) -> list[str]:
    """Return the names of what is found."""
    return [tool.name for tool in registry.search(words, agent, limit)]


class TestVisibility:
    @given(st.lists(st.tuples(st.lists(st.sampled_from(WORDS), min_size=1, max_size=5), st.booleans()), max_size=25),
           st.lists(st.sampled_from(WORDS), min_size=1, max_size=3), st.integers(1, 6))  # fmt: skip
    def test_hidden_tools_leave_no_trace(
        self, tools: list[tuple[list[str], bool]], question: list[str], limit: int
    ) -> None:
        """What an agent finds is what it would find in a registry that has nothing but its tools, in that order."""
        whole, own = ToolRegistry(), ToolRegistry()
        for number, (said, visible) in enumerate(tools):
            whole.register_tool(made(f"t{number}", " ".join(said), owned_by="ann" if visible else "bob"))
            if visible:
                own.register_tool(made(f"t{number}", " ".join(said), owned_by="ann"))
        words = " ".join(question)
        assert names(own, words, "ann", limit) == names(whole, words, "ann", limit)

    def test_a_full_list_behind_many_hidden_tools(self) -> None:
        """Ten thousand tools that fit better and are another's do not shorten the list."""
        registry = ToolRegistry()
        with registry.change():
            for number in range(2_000):
                registry.register_tool(made(f"invoice_{number}", "invoice invoice", owned_by="bob"))
            for number in range(12):
                registry.register_tool(made(f"t{number}", f"Something about an invoice {number}.", owned_by="ann"))
        assert [f"t{number}" for number in range(10)] == names(registry, "invoice", "ann")
        assert 20 == len(names(registry, "invoice", "bob", 20))

    def test_who_searches(self) -> None:
        """Without an agent it is who is running: the operator finds what is not disabled, a tool what its agent may."""
        registry = ToolRegistry()
        for name, owner in (("mail_a", "ann"), ("mail_b", "bob"), ("mail_c", None)):
            registry.register_tool(made(name, "Send mail.", owned_by=owner))
        registry.disable("mail_c")

        @registry.tool(owned_by="ann")
        def look() -> list[str]:
            """Look for tools."""
            return names(registry, "mail")

        assert ["mail_a", "mail_b"] == names(registry, "mail")
        assert ["mail_a"] == registry.agent("ann").call("look") == names(registry, "mail", registry.agent("ann"))
        delegate = registry.agent("ann").delegate("bob")
        assert [] == names(registry, "mail", delegate)
        assert ["mail_a"] == names(registry, "mail", registry.agent("ann").delegate("bob", mode="inherit"))

    def test_each_change_counts(self) -> None:
        """Grants, blocks, switches, renewals of tools, categories, expiry and hints that come later: each at once."""
        clock = HandClock()
        registry = ToolRegistry(clock=clock)
        registry.register_tool(made("mail", "Send letters.", category="post"))

        def found(words: str = "letters") -> list[str]:
            assert set(registry.toolset("ann")) >= set(names(registry, words, "ann"))
            return names(registry, words, "ann")

        assert [] == found()
        grant = registry.grant("mail", "ann", expires=timedelta(seconds=10))
        assert ["mail"] == found()
        clock.moment += timedelta(seconds=11)
        assert [] == found()
        registry.revoke(grant)
        registry.grant("mail", "ann", max_calls=1)
        assert ["mail"] == found()
        registry.agent("ann").call("mail")
        assert [] == found()
        registry.assign_tool_to_agent("mail", "ann")
        registry.block("mail", "ann")
        assert [] == found()
        registry.unblock("mail", "ann")
        registry.disable(category="post")
        assert [] == found()
        registry.enable(category="post")
        registry.register_tool(made("mail", "Send parcels."), replace=True)
        assert ([], ["mail"]) == (found(), found("parcels"))
        registry.configure("mail", description="Send cards.")
        assert ([], ["mail"]) == (found("parcels"), found("cards"))
        registry.unregister_tool("mail")
        assert [] == found("cards")
        registry.register_tool(made("stamp", "Print stamps.", category="post"))
        Agent("ann", registry=registry, tool_categories=["post"])
        assert ["stamp"] == found("stamps")
        registry.retire_agent("ann")
        assert [] == found("stamps")

    def test_grants_that_end(self) -> None:
        """A revocation counts at once, also that of the grant from which the agent's own was lent."""
        registry = ToolRegistry()
        registry.register_tool(made("mail", "Send letters."))
        for end in (registry.revoke, lambda grant: registry.remove_tool_from_agent("mail", grant.agent)):
            first = registry.grant("mail", "bob", delegable=True)
            lent = registry.grant("mail", "ann", by="bob")
            assert (["mail"], ["mail"]) == (names(registry, "letters", "bob"), names(registry, "letters", "ann"))
            end(lent)
            assert (["mail"], []) == (names(registry, "letters", "bob"), names(registry, "letters", "ann"))
            registry.grant("mail", "cid", by="bob")
            assert ["mail"] == names(registry, "letters", "cid")
            end(first)
            assert ([], []) == (names(registry, "letters", "bob"), names(registry, "letters", "cid"))

    def test_a_hint_that_is_defined_later(self) -> None:
        """A tool whose hint is unresolved is not found, and is as soon as it is resolved, without a change."""
        registry = ToolRegistry()
        scope: dict[str, Any] = {"__name__": "later"}
        exec("def later(x: 'Late') -> None:\n    'Come late.'\n", scope)
        registry.tool(owned_by="ann")(scope["later"])
        assert ([], []) == (names(registry, "late", "ann"), names(registry, "late"))
        scope["Late"] = int
        assert (["later"], ["later"]) == (names(registry, "late", "ann"), names(registry, "late"))

    def test_inside_a_change(self) -> None:
        """What an open change did counts inside of it, and is gone if the change is undone."""
        registry = ToolRegistry()
        registry.register_tool(made("one", "Send letters.", owned_by="ann"))
        with pytest.raises(ZeroDivisionError), registry.change():
            registry.unregister_tool("one")
            registry.register_tool(made("two", "Send letters.", owned_by="ann"))
            assert ["two"] == names(registry, "letters", "ann")
            raise ZeroDivisionError
        assert ["one"] == names(registry, "letters", "ann")
        registry.register_tool(made("three", "Send letters.", owned_by="ann"))
        assert ["one", "three"] == names(registry, "letters", "ann")


class TestManyAtOnce:
    def test_threads_that_change_and_search(self) -> None:
        """While tools come, go and are blocked, nobody finds what is another's, and in the end each finds its own."""
        registry = ToolRegistry()
        with registry.change():
            for number in range(60):
                owner = "ann" if number % 2 else "bob"
                registry.register_tool(made(f"{owner}_{number}", "Send letters.", owned_by=owner))
        stop = threading.Event()

        def change(agent: str) -> None:
            for turn in range(60):
                name = f"{agent}_new_{turn}"
                registry.register_tool(made(name, "Send letters.", owned_by=agent))
                registry.block(name, agent)
                assert name not in names(registry, "letters", agent, 500)
                registry.unblock(name, agent)
                assert name in names(registry, "letters", agent, 500)
                registry.unregister_tool(name)

        def search(agent: str) -> int:
            turns = 0
            while not stop.is_set():
                assert all(name.startswith(agent) for name in names(registry, "letters", agent, 500))
                turns += 1
            return turns

        with ThreadPoolExecutor(8) as pool:
            searching = [pool.submit(search, agent) for agent in ("ann", "bob", "ann", "bob")]
            changing = [pool.submit(change, agent) for agent in ("ann", "bob")]
            for one in changing:
                one.exception()
            stop.set()
            assert all(one.result() for one in searching)
            assert [None, None] == [one.result() for one in changing]
        for agent in ("ann", "bob"):
            assert sorted(registry.toolset(agent)) == sorted(names(registry, "letters", agent, 500))

    def test_more_agents_than_indexes(self) -> None:
        """Each of a hundred agents finds its own, however often the others' indexes took the place of its own."""
        registry = ToolRegistry()
        for number in range(100):
            registry.register_tool(made(f"t{number}", "Send letters.", owned_by=f"agent_{number}"))
        for _ in range(2):
            for number in range(100):
                assert [f"t{number}"] == names(registry, "letters", f"agent_{number}")

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
    @pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
    def test_a_forked_child(self) -> None:
        """A child that is forked while others search finds tools, too."""
        registry = ToolRegistry()
        registry.register_tool(made("one", "Send letters.", owned_by="ann"))
        stop = threading.Event()

        def search() -> None:
            while not stop.is_set():
                names(registry, "letters", "ann")

        with ThreadPoolExecutor(2) as pool:
            searching = [pool.submit(search) for _ in range(2)]
            for _ in range(5):
                child = os.fork()
                if child == 0:
                    os._exit(0 if names(registry, "letters", "ann") == ["one"] else 1)
                assert 0 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            stop.set()
            assert [None, None] == [one.result() for one in searching]


@pytest.mark.parametrize(("words", "limit", "text"), [
    (3, 10, "3 is not a text"), (None, 10, "None is not a text"), (b"x", 10, "is not a text"),
    ("x", 0, "limit=0 is not a whole number from 1 on"), ("x", True, "limit=True"), ("x", 2.5, "limit=2.5"),
])  # fmt: skip
def test_wrong_arguments(words: Any, limit: Any, text: str) -> None:
    """Words that are not a text, and limits that are not numbers, are errors that say so."""
    with pytest.raises(ToolUsageError, match=text):
        ToolRegistry().search(words, limit=limit)
