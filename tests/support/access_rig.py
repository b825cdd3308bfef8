"""What the machine of access needs: a vocabulary, a clock, and a registry beside a model."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from access_model import OPERATOR, Model, Who, World
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from praval_tools import (
    Agent,
    DuplicateAgentError,
    DuplicateToolError,
    NotOwnerError,
    Tool,
    ToolAccessError,
    ToolRegistry,
)
from praval_tools.access.events import AnyStateEvent

TOOLS = ("alpha", "beta", "math-sum", "gamma", "Alpha")
AGENTS = ("ann", "bob", "cid")
CATEGORIES = ("general", "text", "files")
BOUNDS: dict[str | None, dict[str, Any] | None] = {
    None: None,
    "low": {"x": {"maximum": 10}},
    "high": {"x": {"minimum": 40}},
}
OUTCOMES = {"allowed": "ok", "unknown": "unknown_tool", "disabled": "disabled", "forbidden": "forbidden"}
NO_RULE = {"no-way": "none", "delegation": "none"}
START = datetime(2030, 1, 1, tzinfo=UTC)

tools = st.sampled_from(("alpha",) * 5 + ("beta", "beta") + TOOLS[2:])
agents = st.sampled_from(AGENTS)
holders = st.sampled_from((*AGENTS, "sub"))
actors = st.sampled_from((OPERATOR, OPERATOR, *AGENTS))
categories = st.sampled_from(CATEGORIES)
tags = st.sampled_from(("", "slow"))
bounds = st.sampled_from((None, None, "low", "high"))
owners = st.sampled_from((None, *AGENTS))
modes = st.sampled_from(("intersect", "intersect", "inherit", "own"))
switches = st.sampled_from(
    (*(("tool", name) for name in TOOLS[:4]), ("category", "text"), ("tag", "slow"), ("namespace", "math"))
)


class FakeClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = self.ids = 0

    def now(self) -> datetime:
        """Return the present moment."""
        return START + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        """Return the seconds since the start."""
        return float(self.seconds)

    def new_id(self) -> str:
        """Return the next id."""
        self.ids += 1
        return f"id-{self.ids}"


def seconds_of(moment: datetime | None) -> int | None:
    """Return a moment of the registry in the model's seconds."""
    return None if moment is None else round((moment - START).total_seconds())


def namespace_of(name: str) -> str:
    """Return the namespace of a name of the vocabulary."""
    return name.partition("-")[0] if "-" in name else ""


class Base(RuleBasedStateMachine):
    """What the rules need: a registry and a model of it, and methods that change both and compare them."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.registry = ToolRegistry(clock=self.clock)
        self.model = Model()
        self.events: list[AnyStateEvent] = []
        self.registry.subscribe(self.events.append)
        self.ran: list[tuple[str, int]] = []
        self.declared: dict[str, Agent] = {}
        self.handles: dict[Who, Any] = {(name, None): self.registry.agent(name) for name in AGENTS}
        self.held: list[tuple[Who, str, Callable[..., Any]]] = []

    @property
    def world(self) -> World:
        """What the model makes of the past."""
        return self.model.world()

    @property
    def now(self) -> int:
        """The model's moment."""
        return self.clock.seconds

    def body(self, name: str) -> Callable[[int], int]:
        """Return a function that notes each of its runs."""

        def body(x: int) -> int:
            """Note the run."""
            self.ran.append((name, x))
            return x

        return body

    def made(self, name: str, **metadata: Any) -> Tool[..., Any]:
        """Return a tool that notes each of its runs."""
        space, _, method = name.rpartition("-")
        named: dict[str, Any] = {"namespace": space, "method_name": method} if space else {"name": name}
        return Tool.from_function(self.body(name), **named, **metadata)

    def perform(self, actor: str, inside: bool, verb: Callable[..., Any]) -> Any:
        """Do something in the name of *actor*: named by the host, or inside of its function."""
        if actor != OPERATOR and inside and actor in self.declared:
            return self.declared[actor](verb)
        if actor == OPERATOR and inside and self.declared:
            return next(iter(self.declared.values()))(lambda: self.operator_does(verb))
        return verb(**({} if actor == OPERATOR else {"by": actor}))

    def operator_does(self, verb: Callable[..., Any]) -> Any:
        """Do something as the operator, whoever runs."""
        with self.registry.as_operator():
            return verb()

    def refused(self, error: type[Exception], actor: str, inside: bool, verb: Callable[..., Any]) -> None:
        """Expect that a change is refused and leaves no trace."""
        before = self.registry.state
        with pytest.raises(error):
            self.perform(actor, inside, verb)
        assert before == self.registry.state

    def grants_of(self, tool: str, agent: str) -> dict[str, Any]:
        """Return every grant of the two that was ever made."""
        return {one.id: one for one in self.registry.grants(tool=tool, agent=agent, ended=True)}

    def handle(self, who: Who) -> Any:
        """Return the agent that the model's *who* stands for."""
        return self.handles.get(who) or self.registry.agent(who[0])

    def called(self, who: Who, tool: str, x: int, call: Callable[[], Any]) -> None:
        """Expect the outcome and rule that the model says, and a run exactly where it says so; note what is spent."""
        world = self.world
        expected, expected_rule = world.decide(who, tool, self.now, x)
        explained = self.handle(who).explain(tool, {"x": x})
        self.ran.clear()
        try:
            value = call()
        except ToolAccessError as error:
            value = error.result
        ran = expected == "allowed"
        assert ran == bool(self.ran)
        assert ([(tool, x)] if ran else []) == self.ran
        if isinstance(value, int):
            assert (x, True) == (value, ran)
        else:
            assert OUTCOMES[expected] == str(value.outcome)
            assert expected_rule == NO_RULE.get(value.decision.rule, value.decision.rule)
            assert explained.rule == value.decision.rule
        spent = world.spends(who, tool, self.now, x) if ran else []
        if spent:
            self.model.note("spend", *spent)


class Catalogue(Base):
    """Rules: tools and agents come, change and go; time passes."""

    @initialize(
        owner=owners, shared=st.booleans(), private=st.booleans(), second=owners, mode=modes, parent=agents, sub=holders
    )
    def first_tools(
        self, owner: str | None, shared: bool, private: bool, second: str | None, mode: Any, parent: str, sub: str
    ) -> None:
        """Start with some tools, so that short histories have something to change."""
        self.register("alpha", OPERATOR, False, owner, shared, private and not shared, "text", "slow", False)
        self.register("beta", OPERATOR, False, second, False, False, "general", "", False)
        self.register("math-sum", OPERATOR, False, "ann", True, False, "files", "", False)
        self.handles[(sub, (mode, (parent, None), None))] = self.registry.agent(parent).delegate(sub, None, mode)

    @rule(
        name=tools, actor=actors, inside=st.booleans(), owner=owners, shared=st.booleans(), private=st.booleans(),
        category=categories, tag=tags, replace=st.booleans(),
    )  # fmt: skip
    def register(
        self, name: str, actor: str, inside: bool, owner: str | None, shared: bool, private: bool, category: str,
        tag: str, replace: bool,
    ) -> None:  # fmt: skip
        """Register a tool, or put it in the place of the one of its name."""
        world = self.world
        holder = self.clashing(name)
        if holder is not None:
            private = world.tools[holder].private
        shared = shared and not private  # both is refused
        tool = self.made(
            name, owned_by=owner, shared=shared, private=private, category=category, tags=[tag] * bool(tag)
        )

        def verb(**by: Any) -> None:
            self.registry.register_tool(tool, replace=replace, **by)

        if actor != OPERATOR and owner not in (None, actor):
            return self.refused(NotOwnerError, actor, inside, verb)
        if holder is not None and (holder != name or not replace):
            return self.refused(DuplicateToolError, actor, inside, verb)
        if holder is not None and not world.owns(actor, name):
            return self.refused(NotOwnerError, actor, inside, verb)
        self.perform(actor, inside, verb)
        if holder is not None:
            return self.model.note("replace", name, category, tag)
        if owner is None and actor != OPERATOR:  # what an agent brings is its own
            owner = actor
        self.note_tool(name, owner, shared, private, category, tag)
        return None

    def clashing(self, name: str) -> str | None:
        """Return the tool that a new one of this name would clash with."""
        return next((one for one in self.world.tools if one.lower() == name.lower()), None)

    def note_tool(
        self, name: str, owner: str | None, shared: bool, private: bool, category: str, tag: str
    ) -> None:  # fmt: skip
        """Tell the model of a new tool."""
        self.model.note(
            "register", name, owner=owner, shared=shared, private=private, category=category, tag=tag,
            namespace=namespace_of(name),
        )  # fmt: skip

    @rule(name=tools, actor=actors, inside=st.booleans())
    def unregister(self, name: str, actor: str, inside: bool) -> None:
        """Take a tool out."""

        def verb(**by: Any) -> bool:
            return self.registry.unregister_tool(name, **by)

        if not self.world.owns(actor, name):
            return self.refused(NotOwnerError, actor, inside, verb)
        known = name in self.world.tools
        assert known == self.perform(actor, inside, verb)
        if known:
            self.model.note("unregister", name)
        return None

    @rule(
        name=agents, lists=st.lists(tools, max_size=2), asked=st.lists(categories, max_size=2), auto=st.booleans(),
        inside=st.none() | agents,
    )  # fmt: skip
    def declare(self, name: str, lists: list[str], asked: list[str], auto: bool, inside: str | None) -> None:
        """Declare an agent, which only the operator's code may, and not twice."""

        def body(verb: Callable[..., Any]) -> Any:
            return verb()

        def verb() -> Agent:
            return Agent(
                name,
                tools=lists,
                tool_categories=asked,
                auto_discover_tools=auto,
                registry=self.registry,
                function=body,
            )

        if inside in self.declared:
            return self.refused(NotOwnerError, inside, True, verb)
        old = self.world.agent(name)
        if old.declared and not old.retired:
            return self.refused(DuplicateAgentError, OPERATOR, False, verb)
        self.declared[name] = verb()
        self.model.note("declare", name, tuple(lists), tuple(asked), auto)
        return None

    @rule(name=agents, actor=actors, inside=st.booleans())
    def retire(self, name: str, actor: str, inside: bool) -> None:
        """Retire an agent, which only the operator may."""

        def verb(**by: Any) -> None:
            self.registry.retire_agent(name, **by)

        if actor != OPERATOR:
            return self.refused(NotOwnerError, actor, inside, verb)
        if not self.world.mentioned(name, self.now):
            return None
        self.perform(actor, inside, verb)
        self.model.note("retire", name)
        return None

    @rule(name=tools, owner=agents, actor=actors, private=st.booleans(), category=categories)
    def declare_own(self, name: str, owner: str, actor: str, private: bool, category: str) -> None:
        """Declare a tool by `agent.tool`: it is owned and listed."""

        def verb(**_: Any) -> None:
            self.registry.agent(owner).tool(self.body(name), name=name, private=private, category=category)

        if actor != OPERATOR and actor not in self.declared or namespace_of(name):
            return None
        if actor not in (OPERATOR, owner):
            return self.refused(NotOwnerError, actor, True, verb)
        if self.clashing(name) is not None:
            return self.refused(DuplicateToolError, actor, True, verb)
        self.perform(actor, True, verb)
        self.note_tool(name, owner, False, private, category, "")
        self.model.note("list", owner, name)
        return None

    @rule(seconds=st.integers(1, 6))
    def wait(self, seconds: int) -> None:
        """Let time pass."""
        self.clock.seconds += seconds
