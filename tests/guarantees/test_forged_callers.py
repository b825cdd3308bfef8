"""Whoever forges a handle, a principal or a call makes no call as somebody else, and is recorded as who it is."""

# Tests of: access/records, registry/dispatch, tools/call

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from praval_tools import Agent, InvalidNameError, ToolCall, ToolContext, ToolRegistry, current_call
from praval_tools.access.records import Delegation, Principal
from praval_tools.journal import AgentToolCall, CallRefused

FREE, BOSS = Principal("free"), Principal("boss")
WORKER_FOR_BOSS = Principal("worker", Delegation("intersect", BOSS))
NOBODY = ("operator", "plugin:acme", "tool:pay", "policy:limits", "", " ", "boss\n")
"""Names that no agent has."""

work: list[Callable[[], object]] = []
"""What `relay` does, the last of them."""
paid: list[tuple[str | None, tuple[str, ...]]] = []
"""Who paid, and on whose behalf."""


class Equal(str):
    """A text that equals every other one."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = str.__hash__


class EqualTuple(tuple[str, ...]):
    """A tuple that equals every other one."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = tuple.__hash__


def make_equal_class(base: type) -> Any:
    """Return a subclass each of whose objects equals every other one."""
    return type("Equal", (base,), {"__eq__": lambda *_: True, "__hash__": lambda _: hash(WORKER_FOR_BOSS)})


class Handle:
    """An object with a principal, as agents and toolsets have."""

    name, chain = "worker", ()

    def __init__(self, principal: object) -> None:
        self.principal = principal


class Changing(ToolCall):
    """A call that names another agent each time somebody asks it."""

    def __getattribute__(self, name: str) -> Any:
        if name != "agent":
            return super().__getattribute__(name)
        asked.append(name)
        return "worker" if len(asked) % 2 else "free"


asked: list[str] = []


@pytest.fixture
def registry() -> ToolRegistry:
    """`free` and `worker` may pay, the boss may not; everybody may call `relay`, which does the work."""
    made = ToolRegistry(journal="memory")

    @made.tool("pay", owned_by="free")
    def pay(context: ToolContext) -> str:
        """Pay."""
        paid.append((context.agent, context.chain))
        return "paid"

    @made.tool("relay", shared=True)
    def relay() -> None:
        """Do the work."""
        with suppress(Exception):
            work[-1]()

    for name in ("free", "worker", "boss"):
        Agent(name, registry=made)
    made.assign_tool_to_agent("pay", "worker")
    paid.clear()
    return made


ENTRIES: dict[str, Callable[[ToolRegistry, Any], object]] = {
    "execute": lambda registry, handle: registry.execute(ToolCall("1", "pay", {}, handle)),
    "batch": lambda registry, handle: registry.execute_batch([ToolCall("1", "pay", {}, handle)]),
    "toolset": lambda registry, handle: registry.toolset(handle).call("pay"),
    "json": lambda registry, handle: registry.toolset(handle).call_json("pay", "{}"),
    "agent": lambda registry, handle: registry.agent(handle).call("pay"),
    "delegate": lambda registry, handle: registry.agent(handle).delegate("worker", mode="inherit").call("pay"),
}

FORGERIES: dict[str, Callable[[], object]] = {
    "an equal name": lambda: Handle(Principal(Equal("free"))),
    "an equal mode": lambda: Handle(Principal("free", Delegation(Equal("own"), WORKER_FOR_BOSS))),
    "an equal parent": lambda: Handle(Principal("worker", Delegation("inherit", Principal(Equal("free"))))),
    "a principal of its own": lambda: Handle(make_equal_class(Principal)("free")),
    "a delegation of its own": lambda: Handle(Principal("worker", make_equal_class(Delegation)("own", FREE))),
    "a borrowed class": lambda: Handle(type("Forged", (), {"__class__": Principal, "agent": "free"})()),
}


def list_events(registry: ToolRegistry, kind: type[Any]) -> list[Any]:
    """Return the events of one kind that are recorded of `pay`."""
    events = [entry.event for entry in registry.journal.read(tool="pay")]
    return [event for event in events if isinstance(event, kind)]


class TestInsideOfDelegatedWork:
    @pytest.mark.parametrize("entry", ENTRIES)
    @pytest.mark.parametrize("forgery", FORGERIES)
    def test_no_handle_drops_the_chain(self, registry: ToolRegistry, entry: str, forgery: str) -> None:
        """Whatever a handle says of itself, a call is made for those on whose behalf the work is done."""
        work.append(lambda: ENTRIES[entry](registry, FORGERIES[forgery]()))
        registry.agent("boss").delegate("worker").call("relay")
        assert [] == paid
        for agent, may_pay in (("free", True), ("worker", True), ("boss", False)):
            assert may_pay == registry.execute(ToolCall(None, "pay", {}, agent)).success
        assert [("free", ()), ("worker", ())] == paid

    @pytest.mark.parametrize("chain", [EqualTuple(("free",)), EqualTuple(), (Equal("free"),), ["free"]])
    @pytest.mark.parametrize("agent", ["worker", Equal("worker"), Equal("free")])
    def test_records_name_the_chain(self, registry: ToolRegistry, agent: str, chain: Any) -> None:
        """What is recorded of a call is who made it, on whose behalf, and not what the call says."""
        work.append(lambda: registry.execute(ToolCall("1", "pay", {}, agent, None, chain)))
        registry.agent("boss").delegate("worker").call("relay")
        assert [] == list_events(registry, AgentToolCall)
        refused = list_events(registry, CallRefused)
        assert refused and {("boss",), ("worker", "boss")} >= {event.chain for event in refused}

    @pytest.mark.parametrize("agent", [None, "free", "boss", *NOBODY], ids=repr)
    @pytest.mark.parametrize("chain", [(), ("free",), ("plugin:acme",), ["operator"], "free", (1,)], ids=repr)
    @pytest.mark.parametrize("is_delegated", [False, True], ids=["alone", "delegated"])
    def test_refused_calls_are_recorded_of_who_runs(
        self, registry: ToolRegistry, agent: str | None, chain: Any, is_delegated: bool
    ) -> None:
        """A call that names nobody, or others than it is made for, is a refused call of whoever made it."""
        work.append(lambda: registry.execute(ToolCall("1", "pay", {}, agent, None, chain)))
        worker = registry.agent("boss").delegate("worker") if is_delegated else registry.agent("worker")
        worker.call("relay")
        unknown = [event for event in list_events(registry, CallRefused) if event.decision.rule == "no-agent"]
        assert {("worker", worker.chain)} >= {(event.agent, event.chain) for event in unknown}
        assert unknown or agent in ("free", "boss")


class TestNobody:
    @pytest.mark.parametrize("entry", ENTRIES)
    @pytest.mark.parametrize("name", NOBODY)
    def test_is_called_for_by_a_handle(self, registry: ToolRegistry, entry: str, name: str) -> None:
        """A handle on the operator, on a plugin or on nobody makes no calls, and so no tool runs in their name."""
        registry.share_tool("pay")
        for principal in (Principal(name), Principal("free", Delegation("intersect", Principal(name)))):
            work.append(lambda principal=principal: ENTRIES[entry](registry, Handle(principal)))
            registry.agent("free").call("relay")
            with pytest.raises(InvalidNameError):
                registry.toolset(Handle(principal))
        assert [] == paid


class TestPrincipals:
    def test_are_plain_values(self) -> None:
        """Names, modes and tools are plain, so that equal principals are the same ones; copies are, too."""
        forged = Principal(Equal("worker"), Delegation(Equal("own"), BOSS, frozenset({Equal("pay")})))
        assert Principal("free", Delegation("own", BOSS)) != forged
        assert forged == pickle.loads(pickle.dumps(forged)) == msgspec.structs.replace(forged)
        assert Principal("worker", Delegation("own", BOSS, frozenset({"pay"}))) == forged

    @pytest.mark.parametrize("kind", [Principal, Delegation])
    def test_have_no_subclasses(self, kind: type) -> None:
        """A subclass could name other members, or say that it is another principal."""
        with pytest.raises(TypeError, match="plain value"):
            type("Forged", (kind,), {})

    @pytest.mark.parametrize(
        "make",
        [lambda: Principal("worker", "boss"), lambda: Delegation("own", "boss"), lambda: Delegation("own", None)],
    )
    def test_hold_no_other_values(self, make: Callable[[], object]) -> None:
        """A delegation has a principal as its parent, and a principal a delegation."""
        with pytest.raises(TypeError, match="not"):
            make()

    def test_have_a_limited_number_of_members(self) -> None:
        """Comparing very long chains would end the process."""
        principal = BOSS
        with pytest.raises(InvalidNameError, match="32"):
            for _ in range(40):
                principal = Principal("worker", Delegation("own", principal))


class TestCalls:
    @pytest.mark.parametrize("in_run", [False, True])
    def test_belong_to_the_call_from_which_they_are_made(self, registry: ToolRegistry, in_run: bool) -> None:
        """Whatever a call says of it: no agent's calls are recorded as part of another one's."""
        seen = list[object]()

        @registry.tool("look", shared=True)
        def look() -> None:
            """Look."""
            seen.append(current_call().parent_id)  # type: ignore[union-attr]

        def forge() -> None:
            for name in ("pay", "look"):
                registry.execute(ToolCall(f"inner {name}", name, {}, "free", parent_id="the boss's"))

        work.append(forge)
        with registry.run("R") if in_run else suppress():
            registry.execute(ToolCall("outer", "relay", {}, "free"))
        assert ["outer"] == seen == [event.parent_id for event in list_events(registry, AgentToolCall)]

    @pytest.mark.parametrize("in_run", [False, True])
    def test_outside_of_calls_belong_to_none(self, registry: ToolRegistry, in_run: bool) -> None:
        """Broken promise: the function of an agent said of which call its own was recorded as a part."""

        registry.tool("look", shared=True, description="Look.")(lambda: None)

        def forge() -> None:
            registry.execute(ToolCall("mal's", "look", {}, "mal", parent_id="the boss's"))

        forger = Agent("mal", registry=registry, function=forge)
        with registry.run("R") if in_run else suppress():
            forger()
            registry.execute(ToolCall("boss's", "look", {}, "boss", parent_id="given by the host"))

        events = [entry.event for entry in registry.journal.read(tool="look")]
        parents = {event.tool_call_id: event.parent_id for event in events if isinstance(event, AgentToolCall)}
        assert {"mal's": None, "boss's": "given by the host"} == parents

    def test_name_one_agent(self, registry: ToolRegistry) -> None:
        """A call that names another agent each time is made, answered and recorded as that of the one in its field."""
        registry.block("pay", "worker")
        for _ in range(6):
            asked.append("")
            result = registry.execute(Changing("1", "pay", {}, "free"))
            assert ("free", True) == (result.agent, result.success)
        assert {"free"} == {agent for agent, _ in paid}
        assert {"free"} == {event.agent for event in list_events(registry, AgentToolCall)}
