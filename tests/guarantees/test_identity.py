"""Random principals against policies, limits, blocks and recorded results, compared with a model of a few lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count, product
from typing import Any

from clocks import HandClock
from hypothesis import given
from hypothesis import strategies as st

from praval_tools import Agent, Outcome, ReplayMismatchError, ToolCall, ToolRegistry, ToolResult

AGENTS = ("ann", "bob", "cid", "dee")
TOOLS = ("pay", "read")
Pair = tuple[str, str]


@dataclass(frozen=True)
class Who:
    """A principal: its agent, and the links of its chain, the nearest first: mode, agent, tools of each."""

    agent: str
    links: tuple[tuple[str, str, frozenset[str] | None], ...] = ()

    @property
    def chain(self) -> tuple[str, ...]:
        """The agents on whose behalf it calls."""
        return tuple(agent for _, agent, _ in self.links)

    def may(self, tool: str, permitted: set[Pair]) -> bool:
        """Tell whether the rules of access permit it the tool."""
        if not self.links:
            return (self.agent, tool) in permitted
        (mode, agent, tools), *rest = self.links
        own, parents = (self.agent, tool) in permitted, Who(agent, tuple(rest)).may(tool, permitted)
        return {"own": own, "inherit": parents, "intersect": own and parents}[mode] and (tools is None or tool in tools)


@dataclass
class Model:
    """What is in force, and what is recorded."""

    permitted: set[Pair]
    blocked: set[Pair]
    refused: set[Pair]
    left: dict[Pair, int]
    ran: int = 0
    recorded: defaultdict[tuple[Who, str], list[Any]] = field(default_factory=lambda: defaultdict(list))
    known: dict[tuple[Who, str], list[Any]] = field(default_factory=dict)

    def reopen(self) -> None:
        """Open the run anew: what is recorded up to now answers the same calls, in its order."""
        self.known = {key: list(results) for key, results in self.recorded.items()}

    def call(self, who: Who, tool: str, *, is_inside: bool) -> tuple[Any, bool]:
        """Return what a call gives: the outcome, or the number of the execution; and whether it was recorded."""
        if not is_inside and self.known.get((who, tool)):
            return self.known[who, tool].pop(0), True
        result = self.decide(who, tool)
        if not is_inside:  # a call from inside of another one is that one's
            self.recorded[who, tool].append(result)
        return result, False

    def decide(self, who: Who, tool: str) -> Any:
        """Return what comes of a call that is not recorded."""
        members = {(agent, tool) for agent in (who.agent, *who.chain)}
        if members & self.blocked or not who.may(tool, self.permitted) or members & self.refused:
            return Outcome.FORBIDDEN
        limited = members & self.left.keys()
        if any(self.left[member] == 0 for member in limited):
            return Outcome.LIMITED
        for member in limited:
            self.left[member] -= 1
        self.ran += 1
        return self.ran


class Bank:
    """The registry that the model stands for."""

    def __init__(self, model: Model) -> None:
        self.registry, self.ran, self.relays = ToolRegistry(journal="memory", clock=HandClock()), 0, count()
        self.inside: Callable[[], None] = lambda: None
        for name in TOOLS:
            self.registry.tool(name)(self._run)

        @self.registry.tool("relay", shared=True)
        def relay(number: int) -> None:
            """Make a call from inside of this one."""
            self.inside()

        for agent, tool in sorted(model.permitted):
            self.registry.assign_tool_to_agent(tool, agent)
        for agent, tool in sorted(model.blocked):
            self.registry.block(tool, agent)
        for (agent, tool), left in model.left.items():
            self.registry.limits.set(agent=agent, tool=tool, per_minute=left)
        self.registry.add_policy(lambda agent, tool, _: "no" if (agent, tool.name) in model.refused else None)

    def _run(self) -> int:
        """Count the executions."""
        self.ran += 1
        return self.ran

    def get_handle(self, who: Who) -> Agent:
        """Return the agent object of a principal."""
        names = (*who.chain[::-1], who.agent)
        handle = self.registry.agent(names[0])
        for name, (mode, _, tools) in zip(names[1:], who.links[::-1], strict=True):
            handle = handle.delegate(name, tools, mode)  # type: ignore[arg-type]
        return handle

    def call(self, who: Who, tool: str, way: str) -> ToolResult:
        """Make one call, naming its principal in one of several ways."""
        handle, results = self.get_handle(who), list[ToolResult]()
        if way == "object":
            return self.registry.execute(ToolCall(None, tool, {}, handle))  # type: ignore[arg-type]
        if way == "toolset":
            return handle.tools.execute(ToolCall(None, tool, {}))
        if way == "names":
            return self.registry.execute(ToolCall(None, tool, {}, who.agent, None, who.chain))
        said: Any = {"inside": (), "inside, a list": [], "inside, in full": who.chain}[way]
        self.inside = lambda: results.append(self.registry.execute(ToolCall(None, tool, {}, who.agent, None, said)))
        handle.call("relay", number=next(self.relays))
        return results[0]


pairs = st.tuples(st.sampled_from(AGENTS), st.sampled_from(TOOLS))
tool_sets = st.none() | st.frozensets(st.sampled_from(TOOLS)).map(lambda tools: tools | {"relay"})
links = st.tuples(st.sampled_from(("intersect", "inherit", "own")), st.sampled_from(AGENTS), tool_sets)
principals = st.builds(Who, st.sampled_from(AGENTS), st.lists(links, max_size=3).map(tuple))
models = st.builds(
    Model, st.sets(pairs, min_size=3), st.sets(pairs, max_size=1), st.sets(pairs, max_size=1),
    st.dictionaries(pairs, st.integers(1, 2), max_size=2),
)  # fmt: skip
ways = st.sampled_from(("object", "toolset", "names", "inside", "inside, a list", "inside, in full"))


class TestPrincipals:
    @given(models, st.lists(principals, min_size=1, max_size=4), st.data())
    def test_calls_as_the_model_says(self, model: Model, everybody: list[Who], data: st.DataObject) -> None:
        """
        Whatever chains call, however they are named, permissions, blocks, policies and limits hold for all members,
        and recorded results go to the principal that they were recorded for, in their order.
        """
        bank = Bank(model)
        calls = st.tuples(st.sampled_from(everybody), st.sampled_from(TOOLS), ways)
        for _ in range(2):
            model.reopen()
            with bank.registry.run("r"):
                for who, tool, way in data.draw(st.lists(calls, max_size=8)):
                    named = who
                    if way == "names":  # names alone say that all of the chain must be permitted
                        named = Who(who.agent, tuple(("intersect", agent, None) for agent in who.chain))
                    result = bank.call(who, tool, way)
                    value = result.result if result.success else result.outcome
                    expected = model.call(named, tool, is_inside=way.startswith("inside"))
                    assert (*expected, who.agent) == (value, result.replayed, result.agent), (who, tool, way)
        bank.registry.close()

    @given(principals, principals, st.sampled_from(("content", "id", "position")))
    def test_an_id_belongs_to_its_principal(self, first: Who, second: Who, match: Any) -> None:
        """The id of a recorded call gives its result to the same principal, and an error to every other."""
        bank = Bank(Model(set(product(AGENTS, TOOLS)), set(), set(), {}))
        for attempt, who in enumerate((first, second)):
            with bank.registry.run("r", match=match):
                call = ToolCall("c", "pay", {}, bank.get_handle(who))  # type: ignore[arg-type]
                try:
                    assert (attempt == 1) == bank.registry.execute(call).replayed
                except ReplayMismatchError:
                    assert (1, True) == (attempt, first != second)
                else:
                    assert attempt == 0 or first == second
        bank.registry.close()
