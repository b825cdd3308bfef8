"""Any history of changes survives a restart: a state machine against a model in plain dictionaries."""

from __future__ import annotations

import warnings
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from state_rig import START, Hand, call, grew, make_foreign_tool, outcome, path, store  # noqa: F401  # fixtures
from survivors import Started, declare, look, open_to_all, spend

from praval_tools import (
    Agent,
    ToolCall,
    ToolError,
)
from praval_tools.journal.storage.memory import MemoryStore

TOOLS = ("spend", "look", "open", "later")


AGENTS = ("treasurer", "clerk", "reader")


tools, agents = st.sampled_from(TOOLS), st.sampled_from(AGENTS)


CHANGES: dict[str, st.SearchStrategy[tuple[Any, ...]]] = {
    "assign": st.tuples(
        tools, agents, st.sampled_from((None, 1, 2)), st.booleans(), st.sampled_from((None, "k1", "k2"))
    ),
    "lend": st.tuples(tools, agents, agents),
    "remove": st.tuples(tools, agents),
    "revoke": st.tuples(st.integers(0, 5)),
    "block": st.tuples(tools, agents, st.sampled_from((None, "treasurer"))),
    "unblock": st.tuples(tools, agents),
    "transfer": st.tuples(tools, agents),
    "share": st.tuples(tools),
    "unshare": st.tuples(tools),
    "disable": st.tuples(st.sampled_from((("tool", "look"), ("category", "text"), ("tag", "slow")))),
    "enable": st.tuples(st.sampled_from((("tool", "look"), ("category", "text"), ("tag", "slow")))),
    "configure": st.tuples(tools, st.sampled_from(({"timeout": 3}, {"requires_approval": True}, {"private": True}))),
    "unregister": st.tuples(tools),
    "retire": st.tuples(agents),
    "clear": st.just(()),
    "call": st.tuples(tools, agents),
    "restart": st.just(()),
}


histories = st.lists(
    st.one_of(*(st.tuples(st.just(name), one) for name, one in CHANGES.items())), min_size=3, max_size=25
)


class StateMachine:
    """A registry over a store, started anew when the history says so."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.start()

    def start(self) -> None:
        """Begin as a process does."""
        self.registry = Started(self.store)
        self.declare()

    def declare(self) -> None:
        """Declare what is not there."""
        self.registry.tool("later", category="text")(make_foreign_tool("later"))
        self.reader = Agent("reader", tools=["open"], tool_categories=["text"], registry=self.registry)

    def change(self, name: str, given: tuple[Any, ...]) -> None:
        """Do one thing; what is refused changes nothing."""
        try:
            getattr(self, name)(*given)
        except (ToolError, ValueError):
            pass

    def assign(self, tool: str, agent: str, count: int | None, delegable: bool, key: str | None) -> None:
        """Give a tool."""
        self.registry.assign_tool_to_agent(tool, agent, max_calls=count, delegable=delegable, key=key)

    def lend(self, tool: str, by: str, agent: str) -> None:
        """Lend a tool on."""
        self.registry.assign_tool_to_agent(tool, agent, by=by)

    def remove(self, tool: str, agent: str) -> None:
        """Take a tool."""
        self.registry.remove_tool_from_agent(tool, agent)

    def revoke(self, at: int) -> None:
        """End a grant."""
        found = self.registry.grants()
        self.registry.revoke(found[at % len(found)].id if found else "none")

    def block(self, tool: str, agent: str, by: str | None) -> None:
        """Block an agent."""
        self.registry.block(tool, agent, by=by)

    def unblock(self, tool: str, agent: str) -> None:
        """Lift the blocks."""
        self.registry.unblock(tool, agent)

    def transfer(self, tool: str, agent: str) -> None:
        """Hand a tool over."""
        self.registry.transfer_ownership(tool, agent)

    def share(self, tool: str) -> None:
        """Share a tool."""
        self.registry.share_tool(tool)

    def unshare(self, tool: str) -> None:
        """Share it no more."""
        self.registry.unshare_tool(tool)

    def disable(self, what: tuple[str, str]) -> None:
        """Switch something off."""
        self.registry.disable(**{what[0]: what[1]})  # type: ignore[misc]

    def enable(self, what: tuple[str, str]) -> None:
        """Switch it on."""
        self.registry.enable(**{what[0]: what[1]})  # type: ignore[misc]

    def configure(self, tool: str, changes: dict[str, Any]) -> None:
        """Override something."""
        self.registry.configure(tool, **changes)

    def unregister(self, tool: str) -> None:
        """Take a tool out, and declare it again as code does that runs again."""
        old = self.registry.get_tool(tool)
        if old is not None and self.registry.unregister_tool(tool):
            declared = {"owned_by": None if tool == "later" else "treasurer", "shared": tool == "open"}
            fresh = {"spend": spend, "look": look, "open": open_to_all}.get(tool) or make_foreign_tool("later")
            more = {"open": {"category": "text", "tags": ("slow",)}, "later": {"category": "text"}}.get(tool, {})
            self.registry.tool(tool, **declared, **more)(fresh)

    def retire(self, agent: str) -> None:
        """Retire an agent, and declare it again."""
        before = self.registry.state.get_profile(agent)
        self.registry.retire_agent(agent)
        self.kept = Agent(
            agent, tools=list(before.tools), tool_categories=list(before.tool_categories), registry=self.registry
        )

    def clear(self) -> None:
        """Forget everything, and declare it again."""
        self.registry.clear_registry()
        self.registry.mine = declare(self.registry)
        self.declare()

    def call(self, tool: str, agent: str) -> None:
        """Call a tool."""
        given = {"amount": 1} if tool == "spend" else {}
        self.registry.execute(ToolCall(None, tool, given, agent))

    def restart(self) -> None:
        """Let the process end, and another start."""
        self.registry.close()
        self.start()

    def answers(self) -> dict[str, Any]:
        """Return everything that the registry says."""
        one = self.registry
        grants = one.grants()
        return {
            "explained": {(agent, tool): self.explained(agent, tool) for agent in AGENTS for tool in TOOLS},
            "listed": {agent: sorted(tool.name for tool in one.get_tools_for_agent(agent)) for agent in AGENTS},
            "grants": {grant.id: (grant, one.uses_left(grant)) for grant in grants},
            "metadata": {tool.name: tool.metadata.to_dict() for tool in one},
            "configured": {name: dict(one.state.tools[name].overrides) for name in TOOLS},
            "disabled": one.state.disabled,
            "problems": sorted(map(str, one.problems())),
        }

    def explained(self, agent: str, tool: str) -> tuple[Any, ...]:
        """Return the decision about one agent and tool, and its reason."""
        found = self.registry.explain(agent, tool)
        return found.outcome, found.rule, found.reason


class TestAnyHistory:
    @given(histories)
    @settings(suppress_health_check=[HealthCheck.too_slow])
    def test_a_new_start_gives_the_same_answers(self, history: list[tuple[str, tuple[Any, ...]]]) -> None:
        """Whatever was done: a registry that starts over the same store answers as the one before it."""
        machine = StateMachine(MemoryStore())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, given_to in history:
                machine.change(name, given_to)
            expected = machine.answers()
            events = grew(machine.registry)
            machine.restart()

        assert expected == machine.answers()
        assert events == grew(machine.registry)
        machine.registry.close()
