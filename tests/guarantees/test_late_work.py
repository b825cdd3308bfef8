"""Code of a tool that goes on after its call has timed out: it is its agent's, and the rules of then hold for it."""

# Tests of: execution/context

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from praval_tools import (
    Agent,
    NotOwnerError,
    Outcome,
    ToolCall,
    ToolRegistry,
    current_agent,
    current_call,
)
from praval_tools.journal.events import AgentToolCall

Calls = Callable[[ToolRegistry], object]

CALLS: dict[str, Calls] = {
    "by name": lambda registry: registry.execute_tool("echo"),
    "by id": lambda registry: registry.execute("late", "echo", {}).outcome,
    "its own tools": lambda registry: current_agent().tools.call("echo"),
    "a handle of who it works for": lambda registry: registry.agent("boss").execute(ToolCall("late", "echo", {})),
    "a call that names who it works for": lambda registry: registry.execute(ToolCall("late", "echo", {}, "boss")),
}
"""How late code calls a tool."""

CHANGES: dict[str, Calls] = {
    "lend": lambda registry: registry.grant("vault", "boss"),
    "approve": lambda registry: registry.approvals.answer("x", None),  # type: ignore[arg-type]
    "handler": lambda registry: registry.set_approval_handler(lambda request: None),
    "limit": lambda registry: registry.limits.set(agent="boss", per_minute=None),
    "merge": lambda registry: registry.merge(ToolRegistry()),
}
"""What late code may not do."""

MODES = ["itself", "intersect", "inherit", "own"]


class LateTool:
    """
    A registry with a tool `slow`, whose call times out and whose function then goes on.

    Args:
        work: What its function does then.
    """

    def __init__(self, work: Calls) -> None:
        self.registry, self.gate, self.ended = ToolRegistry(journal="memory"), threading.Event(), threading.Event()
        self.seen: list[tuple[str | None, tuple[str, ...], str | None]] = []
        self.outcome: object = None
        self.call_id, self.started = "", threading.Event()
        registry = self.registry

        @registry.tool("echo", owned_by="boss")
        def echo() -> str:
            """Say who calls."""
            call = current_call()
            assert call is not None
            self.seen.append((call.agent, tuple(call.on_behalf_of), call.parent_id))
            return "echo"

        @registry.tool("vault", owned_by="bank")
        def vault() -> str:
            """Hold money."""
            return "gold"

        @registry.tool("slow", owned_by="boss", timeout=0.02)
        def slow() -> None:
            """Take long."""
            self.started.set()
            self.gate.wait(30)
            try:
                self.outcome = work(registry)
            except Exception as error:
                self.outcome = error
            finally:
                self.ended.set()

        Agent("boss", registry=registry)
        for name in ("slow", "echo"):
            registry.grant(name, "helper")

    def time_out(self, mode: str) -> tuple[str, tuple[str, ...]]:
        """Have the call of `slow` time out; returns its agent and chain."""
        boss = self.registry.agent("boss")
        caller = boss if mode == "itself" else boss.delegate("helper", mode=mode)  # type: ignore[arg-type]
        while not self.started.is_set():  # where no thread was free in time, the function never begins
            self.call_id += "c"
            assert Outcome.TIMEOUT is caller.execute(ToolCall(self.call_id, "slow", {})).outcome
        return caller.name, caller.principal.chain

    def go_on(self) -> object:
        """Let the function go on to its end; returns what its work came to."""
        self.gate.set()
        assert self.ended.wait(30)
        return self.outcome


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", CALLS)
class TestCalls:
    def test_are_its_agents(self, mode: str, way: str) -> None:
        """They are made and recorded for the whole chain, as part of the call that timed out."""
        late = LateTool(CALLS[way])
        with late.registry as registry:
            agent, chain = late.time_out(mode)
            late.go_on()
            ((name, members, parent),) = late.seen
            assert {agent, *chain} == {name, *members} and parent == late.call_id
            assert name in (agent, "boss") and (mode == "itself" or members)
            assert registry.journal is not None
            (record,) = [
                event
                for event in registry.journal.events()
                if isinstance(event, AgentToolCall) and event.tool_name == "echo"
            ]
            assert (name, members) == (record.agent, tuple(record.chain))

    @pytest.mark.parametrize("change", ["block", "retire", "unregister", "close the run"])
    def test_are_refused_by_what_was_done_since(self, mode: str, way: str, change: str) -> None:
        """A block, a retirement or the end of the run since the time-out counts for them."""
        late = LateTool(CALLS[way])
        with late.registry as registry:
            with registry.run("r1"):
                late.time_out(mode)
            if change == "block":
                registry.block("echo", "boss")
            elif change == "retire":
                registry.retire_agent("boss")
            elif change == "unregister":
                registry.unregister_tool("echo")
            late.go_on()
            assert [] == late.seen


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("change", CHANGES)
def test_changes_are_refused(mode: str, change: str) -> None:
    """It may do no more than it could while its call ran: it is not the operator."""
    late = LateTool(CHANGES[change])
    with late.registry as registry:
        late.time_out(mode)
        assert isinstance(late.go_on(), NotOwnerError)
        assert not registry.explain("boss", "vault").allowed
