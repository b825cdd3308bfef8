"""Agents of Praval's that come and go, are changed by others, or outlive their registry."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from praval_rig import Model, fresh, praval, scripted  # noqa: F401

from praval_tools import RegistryClosedError, Tool, ToolRegistry
from praval_tools.integrations.praval import attach, install, migrate

HOME = Path(__file__).parents[1] / "support"


@pytest.fixture
def registry() -> Iterator[ToolRegistry]:
    """A registry with one tool of the host's."""
    with ToolRegistry(name="main", journal="memory") as made:
        made.register_tool(Tool.from_function(returning("host"), name="host", owned_by="clerk"))
        yield made


def returning(value: str) -> Callable[..., str]:
    """Return a function of its own that returns *value*."""

    def look(x: int) -> str:
        """Look."""
        return value

    return look


def clerk(value: str, name: str = "clerk") -> Any:
    """Return an agent with a tool `look` of its own."""
    agent = praval.Agent(name, provider="script")
    agent.tool(returning(value))
    return agent


class Reader(Model):
    """A model that reads what it is offered twice, at two moments."""

    def invoke(self, request: Any, tools: Any = None) -> Any:
        """Begin."""
        assert {one["name"] for one in tools or []} | {one.name for one in request.tools} <= {"host", "look"}
        return self._next()


class TestAgentsOfOneName:
    @pytest.mark.parametrize("installed", [False, True])
    @pytest.mark.parametrize("closed", [False, True])
    def test_an_agent_for_each_request(self, registry: ToolRegistry, installed: bool, closed: bool) -> None:
        """An agent that is made anew for each request calls its own tool, never one of an earlier request."""
        for at in range(40):
            model = scripted("script", [("look", {"x": 1})], "done")
            held = install(registry) if installed else None
            agent = clerk(f"request {at}")
            with attach(agent, registry):
                agent.chat("go")
            assert [["host", "look"]] * 2 == [sorted(one) for one in model.offered]
            assert [f"request {at}"] == model.received
            if closed:
                agent.close()
            if held is not None:
                held.uninstall()

        assert 2 >= len(registry)

    def test_what_was_taken_from_one_stays_taken_from_the_next(self, registry: ToolRegistry) -> None:
        """An agent that declares a tool anew does not get back what was taken from its name, or blocked."""
        with attach(clerk("first"), registry):
            registry.remove_tool_from_agent("look", "clerk")
        with attach(clerk("second"), registry) as held:
            assert ["replaced"] == [one.done for one in held.migration.moved]
            assert ["host"] == list(held.theirs.tools)

    def test_agents_that_are_attached_at_once(self, registry: ToolRegistry) -> None:
        """Nothing is lost while several of one name are attached: each of their tools has a name of its own."""
        agents = [clerk(str(at)) for at in range(40)]
        held = [attach(one, registry) for one in agents]

        assert {str(at) for at in range(40)} == {
            registry.agent("clerk").call(one.tool, x=1) for each in held for one in each.migration.moved
        }
        assert ["look", "clerk-look", "clerk-look-2", "clerk-look-3"] == [
            one.migration.moved[0].tool for one in held[:4]
        ]
        again = attach(agents[3], registry)
        assert again is held[3]
        held[3].detach()
        assert "same" == attach(agents[3], registry).migration.moved[0].done

    def test_what_the_host_or_a_decorator_declared_is_not_replaced(self, registry: ToolRegistry) -> None:
        """An agent's tool replaces those that agents of its name left behind, and no others."""
        praval.tool("shown", owned_by="clerk")(returning("shown"))
        migrate(registry)
        agent = praval.Agent("clerk", provider="script")
        for name in ("host", "shown"):
            function = returning("mine")
            function.__name__ = name
            agent.tool(function)
        with attach(agent, registry) as held:
            assert ["renamed", "renamed"] == [one.done for one in held.migration.moved]
        assert ["host", "shown"] == [registry.agent("clerk").call(name, x=1) for name in ("host", "shown")]

    def test_long_names_end(self, registry: ToolRegistry) -> None:
        """Names that are cut to the same beginning are distinguished, and migrating them ends."""
        name = "x" * 128
        registry.register_tool(Tool.from_function(returning("host"), name=name, owned_by="clerk"))
        agents = []
        for at in range(3):
            agent, function = praval.Agent("y" * 60, provider="script"), returning(str(at))
            function.__name__ = name
            agent.tool(function)
            agents.append(agent)
        report = migrate(registry, agents=agents, collisions="rename")
        assert 3 == len({one.tool for one in report.moved if one.source == "y" * 60})

    def test_nothing_is_kept_of_an_agent_that_is_gone(self, registry: ToolRegistry) -> None:
        """After 500 times of attaching and detaching there are no more tools or agents, and no agent is alive."""
        alive = []
        for at in range(500):
            agent = clerk(str(at))
            with attach(agent, registry):
                alive.append(weakref.ref(agent))
        del agent
        gc.collect()
        assert not [one for one in alive if one() is not None]
        assert (2, 1) == (len(registry), len(registry.agents))


class TestChangedByOthers:
    def test_a_method_that_somebody_replaced_meanwhile(self, registry: ToolRegistry) -> None:
        """What others put around a method of the agent's runtime stays, and calls Praval's after detaching."""
        agent, seen = clerk("mine"), []
        with attach(agent, registry):
            plain = agent.runtime._build_request

            def watched(*args: Any, **more: Any) -> Any:
                seen.append(1)
                return plain(*args, **more)

            agent.runtime._build_request = watched
            agent.chat("go")
        agent.provider = agent.runtime.provider = model = Model([("look", {"x": 1}), ("host", {"x": 1})], "done")
        agent.chat("go")

        assert [1, 1] == seen
        assert [["look"], ["look"]] == model.offered
        assert ["mine", "Unknown function: host"] == model.received
        with attach(agent, registry):
            assert ["host", "look"] == sorted(agent.tools)
        assert agent.runtime._build_request is watched

    def test_another_dictionary(self, registry: ToolRegistry) -> None:
        """An agent that is given another dictionary is attached anew with it, and detached as a whole."""
        agent = clerk("mine")
        runtime, entry = dict(vars(agent.runtime)), agent.tools["look"]
        first = attach(agent, registry)
        agent.tools = given = {"other": {**entry, "function": returning("other")}}
        second = attach(agent, registry)
        assert ["host", "look", "other"] == sorted(agent.tools)
        first.detach()
        assert ["host", "look", "other"] == sorted(agent.tools)
        second.detach()
        assert given is agent.tools
        assert runtime == vars(agent.runtime)

    def test_a_tool_that_is_taken_while_the_entries_are_gone_through(self, registry: ToolRegistry) -> None:
        """Praval goes through an agent's tools when a chat begins; what is taken meanwhile raises no error."""
        agent = clerk("mine")
        with attach(agent, registry):
            values, items = iter(agent.tools.values()), iter(agent.tools.items())
            next(values), next(items)
            registry.remove_tool_from_agent("look", "clerk")
            registry.remove_tool_from_agent("host", "clerk")
            assert ("look", "look") == (next(values)["name"], next(items)[0])
            assert [] == list(agent.tools.values())

    def test_chats_begin_while_grants_change(self, registry: ToolRegistry) -> None:
        """A chat that begins while another thread gives and takes begins with the tool or without it."""
        agent, stop, begun = clerk("mine"), threading.Event(), []

        def flip() -> None:
            while not stop.is_set():
                registry.remove_tool_from_agent("look", "clerk")
                registry.assign_tool_to_agent("look", "clerk")

        thread, pause = threading.Thread(target=flip), sys.getswitchinterval()
        with attach(agent, registry):
            sys.setswitchinterval(1e-6)
            thread.start()
            try:
                for _ in range(60):
                    agent.provider = agent.runtime.provider = Reader("done")
                    begun.append(agent.chat("go"))
                    agent.provider = agent.runtime.provider = Reader("done")
                    try:
                        begun.append(agent.chat("go", allowed_tool_names=["look"]))
                    except ValueError as error:
                        begun.append(str(error))
            finally:
                stop.set()
                thread.join()
                sys.setswitchinterval(pause)
        assert {"done", "Unknown allowed tools: ['look']"} >= set(begun)

    def test_a_chat_that_is_narrowed_by_an_iterator(self, registry: ToolRegistry) -> None:
        """`allowed_tool_names` may be anything that can be gone through once, as in Praval."""
        model = scripted("script", [("look", {"x": 1}), ("host", {"x": 1})], "done")
        agent = clerk("mine")
        with attach(agent, registry):
            agent.chat("go", allowed_tool_names=iter(["look"]))
        assert [["look"], ["look"]] == model.offered
        assert ["mine", "Unknown function: host"] == model.received

    def test_a_subclass(self, registry: ToolRegistry) -> None:
        """A subclass of Praval's agent that changes what is attached to is called, and restored."""

        class Narrow(praval.Agent):  # type: ignore[misc]
            def _runtime_call_options(self, kwargs: Any, **more: Any) -> Any:
                asked.append(kwargs)
                return super()._runtime_call_options(kwargs, **more)

        asked: list[Any] = []
        model = scripted("script", [("host", {"x": 1})], "done")
        agent = Narrow("clerk", provider="script")
        with attach(agent, registry):
            agent.chat("go")
        assert 1 == len(asked)
        assert ["host"] == model.received
        assert "_runtime_call_options" not in vars(agent)

    def test_a_chat_that_begins_with_nothing(self, registry: ToolRegistry) -> None:
        """An agent without any tool is given one while its chat runs, and calls it."""

        def give() -> Any:
            registry.assign_tool_to_agent("host", "bob")
            return [("nope", {})]

        model = scripted("script", give, [("host", {"x": 1})], "done")
        agent = praval.Agent("bob", provider="script")
        with attach(agent, registry):
            agent.chat("go")
        assert [[], ["host"], ["host"]] == model.offered
        assert [True, False] == model.errors


class TestEnds:
    def test_a_closed_registry(self, registry: ToolRegistry) -> None:
        """A running agent's calls are reported that it is closed; nothing is brought into it, and detaching works."""
        model = scripted("script", [("host", {"x": 1})], "done")
        agent, other = clerk("mine"), clerk("late")
        own = dict(vars(other.runtime))
        held = attach(agent, registry)
        registry.close()

        assert "done" == agent.chat("go")
        assert "Registry 'main' is closed" in model.received[0]
        assert [True] == model.errors
        held.detach()
        assert ["look"] == list(agent.tools)
        with pytest.raises(RegistryClosedError):
            attach(other, registry)
        assert (own, dict) == (vars(other.runtime), type(other.tools))

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
    def test_a_fork(self) -> None:
        """A child process chats, resets and detaches on its own; the parent goes on as before."""
        program = (HOME / "praval_fork.py").read_text()
        done = subprocess.run([sys.executable, "-c", program], cwd=HOME, capture_output=True, text=True, timeout=120)
        assert "child ['host'] []\nparent ['host'] ['host']\n" == done.stdout, done.stderr

    @pytest.mark.parametrize("kind", [KeyboardInterrupt, GeneratorExit])
    def test_what_ends_a_program_ends_the_chat(self, registry: ToolRegistry, kind: type[BaseException]) -> None:
        """What is not an `Exception` reaches the caller of the chat, as in Praval, and is in the journal."""

        @registry.tool("ends", owned_by="clerk")
        def ends(x: int) -> str:
            """End."""
            raise kind

        scripted("script", [("ends", {"x": 1})], "done")
        agent = praval.Agent("clerk", provider="script")
        with attach(agent, registry), pytest.raises(kind):
            agent.chat("go")
        assert registry.journal is not None
        assert ["cancelled"] == [str(one.outcome) for one in registry.journal.events() if hasattr(one, "outcome")]

    def test_a_message_that_cannot_be_shown(self, registry: ToolRegistry) -> None:
        """An exception that cannot say what it is, an `InterventionRequired` and a `StopIteration` are reported."""

        class Mute(Exception):
            def __str__(self) -> str:
                raise RuntimeError("no")

        waiting = praval.InterventionRequired(
            run_id="r", intervention_id="i", agent_name="a", tool_name="t", reason="why"
        )
        errors = [Mute(), waiting, StopIteration("x"), ExceptionGroup("many", [ValueError("one")])]

        @registry.tool("fails", owned_by="clerk")
        def fails(at: int) -> str:
            """Fail."""
            raise errors[at]

        model = scripted("script", [("fails", {"at": at}) for at in range(4)], "done")
        agent = praval.Agent("clerk", provider="script")
        with attach(agent, registry):
            assert "done" == agent.chat("go")
        assert ["Mute", "InterventionRequired", "StopIteration", "ExceptionGroup"] == [
            one.split(": ")[1] for one in model.received
        ]
