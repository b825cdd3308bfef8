"""`change()`, `subscribe`, `fork` and `close`: what they promise when they meet calls, threads and each other."""

# Tests of: store, pending_change, state

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable

import pytest

from praval_tools import (
    DuplicateToolError,
    NotOwnerError,
    Outcome,
    RegistryClosedError,
    Tool,
    ToolCall,
    ToolRegistry,
    ToolUsageError,
    UnknownAgentError,
    current_agent,
)
from praval_tools.access.state import AccessState
from praval_tools.access.transitions import apply_events, rebuild_state


@pytest.fixture
def registry() -> ToolRegistry:
    """A registry with a tool and a grant of three calls."""
    made = ToolRegistry()

    @made.tool("add", owned_by="ann")
    def add(x: int, y: int = 1) -> int:
        """Add."""
        return x + y

    made.grant("add", "bob", max_calls=3)
    return made


def named(name: str) -> Tool[..., int]:
    """Return a tool of this name."""

    def two() -> int:
        """Return 2."""
        return 2

    return Tool.from_function(two, name)


def with_tools(number: int) -> ToolRegistry:
    """Return a registry with so many tools of so many agents, and one of ann's."""
    made = ToolRegistry()
    with made.change():
        for index in range(number):
            made.register_tool(named(f"tool_{index}").with_metadata(owned_by=f"agent_{index}"))
        made.register_tool(named("mine").with_metadata(owned_by="ann"))
    return made


def work_of(work: Callable[[], object]) -> int:
    """Return how many functions *work* enters, the second time."""
    work()
    entered = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal entered
        entered += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return entered


class TestChange:
    @pytest.mark.parametrize("who", ["ann", "bob"])
    def test_no_call_inside(self, registry: ToolRegistry, who: str) -> None:
        """A call from inside is refused before and after fast paths exist: what it would spend could be undone."""
        assert 2 == registry.agent(who).call("add", x=1)
        with registry.change(), pytest.raises(ToolUsageError, match="call tools after"):
            registry.agent(who).call("add", x=1)
        with registry.change(), pytest.raises(ToolUsageError):
            registry.execute(ToolCall("1", "add", {"x": 1}, who))
        with registry.change(), pytest.raises(ToolUsageError):
            registry.execute_batch([ToolCall("1", "add", {"x": 1}, who)])
        assert 2 == registry.agent(who).call("add", x=1)

    def test_a_failing_change_gives_no_use_back(self, registry: ToolRegistry) -> None:
        """Spent uses stay spent when a change around is undone."""
        (grant,) = registry.grants(agent="bob")
        registry.agent("bob").call("add", x=1)
        with pytest.raises(RuntimeError), registry.change():
            registry.share_tool("add")
            raise RuntimeError
        assert 2 == registry.uses_left(grant)
        assert not registry.get_tool("add").metadata.shared  # type: ignore[union-attr]

    def test_an_inner_change_that_fails(self, registry: ToolRegistry) -> None:
        """What an inner change did is undone when an exception leaves it, although the outer one goes on."""
        with registry.change():
            registry.share_tool("add")
            with pytest.raises(RuntimeError), registry.change():
                registry.block("add", "bob")
                raise RuntimeError
        assert registry.get_tool("add").metadata.shared  # type: ignore[union-attr]
        assert registry.explain("bob", "add").allowed

    def test_calls_of_other_threads_go_on(self, registry: ToolRegistry) -> None:
        """While one thread holds a change open, calls of others run and see what was before."""
        seen: list[object] = []
        with registry.change():
            registry.block("add", "ann")
            other = threading.Thread(target=lambda: seen.append(registry.agent("ann").call("add", x=1)))
            other.start()
            other.join(30)
        assert [2] == seen
        assert not registry.explain("ann", "add").allowed

    def test_a_catalogue_at_once(self) -> None:
        """Many tools taken in together lead to the state that one after another leads to."""
        registry, received = ToolRegistry(), []
        registry.subscribe(received.append)
        for at in range(300):
            registry.register_tool(
                named(f"tool_{at}").with_metadata(owned_by=f"agent_{at % 7}", tags=("odd",) if at % 2 else ())
            )

        assert registry.state == apply_events(AccessState(), received) == rebuild_state(received)

    def test_subscribing_inside(self, registry: ToolRegistry) -> None:
        """Subscribing and unsubscribing inside of a change end, and the change is reported."""
        received: list[str] = []
        with registry.change():
            leave = registry.subscribe(lambda event: received.append(type(event).__name__))
            registry.share_tool("add")
        with registry.change():
            leave()
        assert ["ToolShared"] == received


class TestFork:
    def test_goes_its_own_way(self, registry: ToolRegistry) -> None:
        """A fork begins as what it was forked from; neither sees what the other changes or spends afterwards."""
        fork = registry.fork()

        fork.block("add", "ann")
        registry.unregister_tool("add")

        assert ("blocked", "unknown") == (fork.explain("ann", "add").rule, registry.explain("ann", "add").rule)
        assert [2, 3] == [fork.agent("bob").call("add", x=x) for x in (1, 2)]

    def test_costs_the_same_whatever_it_holds(self) -> None:
        """Nothing is copied."""
        assert work_of(with_tools(10).fork) == work_of(with_tools(2_000).fork)


class TestCost:
    @pytest.mark.parametrize("what", ["explain", "list", "call", "subscript"])
    def test_does_not_grow_with_the_registry(self, what: str) -> None:
        """What an agent asks for costs as many steps among two thousand tools and agents as among ten."""
        asked = {
            "explain": lambda registry: registry.explain("ann", "mine"),
            "list": lambda registry: registry.get_tools_for_agent("ann"),
            "call": lambda registry: registry.execute(ToolCall("1", "mine", {}, "ann")),
            "subscript": lambda registry: registry.toolset("ann")["mine"],
        }[what]

        few, many = (work_of(lambda one=one: asked(one)) for one in (with_tools(10), with_tools(2_000)))

        assert many <= few * 1.2

    def test_of_registering_is_linear(self) -> None:
        """The two thousandth tool takes hardly more steps than the tenth: nothing is copied or searched."""
        steps = []
        for size in (10, 2_000):
            registry, late = with_tools(size), iter([named("late"), named("later")])
            steps.append(work_of(lambda into=registry, tools=late: into.register_tool(next(tools))))

        assert steps[1] <= steps[0] * 2


class TestReplaceSource:
    def test_swaps_all_tools_of_a_source(self, registry: ToolRegistry) -> None:
        """Whatever came with the last swap goes if it is not in the next; what stays keeps its grants."""
        registry.replace_source("plugin", [named("one"), named("two")])
        registry.grant("two", "bob")

        registry.replace_source("plugin", [named("two"), named("three")])

        assert ["add", "two", "three"] == [tool.name for tool in registry]
        assert 2 == registry.agent("bob").call("two")
        assert "plugin" in str(registry.get_tool("two").metadata.source)  # type: ignore[union-attr]

    def test_takes_nothing_from_another_source(self, registry: ToolRegistry) -> None:
        """A name that the host's own tool has is a duplicate, and the old tools of the source stay."""
        registry.replace_source("plugin", [named("one")])

        with pytest.raises(DuplicateToolError, match="plugin"):
            registry.replace_source("plugin", [named("two"), named("add")])

        assert ["add", "one"] == [tool.name for tool in registry]


class TestSpeakingAs:
    def test_a_tools_body_neither_forks_nor_subscribes(self, registry: ToolRegistry) -> None:
        """What a tool's body could reach as operator by a fork or a callback, it is refused."""

        @registry.tool("sneak", owned_by="ann")
        def sneak(how: str) -> str:
            """Try."""
            if how == "fork":
                registry.fork()
            else:
                registry.subscribe(lambda _: None)
            return "done"

        for how in ("fork", "subscribe"):
            result = registry.execute(ToolCall("1", "sneak", {"how": how}, "ann"))
            assert (Outcome.TOOL_ERROR, "NotOwnerError") == (result.outcome, result.error_type)

    def test_a_subscriber_speaks_as_the_operator(self, registry: ToolRegistry) -> None:
        """The host's callback may change the registry, whoever made the change that is reported to it."""

        def guard(event: object) -> None:
            if type(event).__name__ == "ToolShared":
                registry.block("add", "eve", reason="shared")

        registry.subscribe(guard)

        @registry.tool("sharing", owned_by="ann")
        def sharing() -> None:
            """Share."""
            registry.share_tool("add")

        registry.agent("ann").call("sharing")
        assert "blocked" == registry.explain("eve", "add").rule

    @pytest.mark.parametrize("name", ["operator", "policy:limit", "", " x", "a\nb", 7, None, object()])
    def test_names_that_no_agent_has(self, registry: ToolRegistry, name: object) -> None:
        """A call in the name of the operator, a policy or junk is forbidden, not run."""
        result = registry.execute(ToolCall("1", "add", {"x": 1}, name))  # type: ignore[arg-type]
        assert result.decision is not None
        assert (Outcome.FORBIDDEN, "no-agent") == (result.outcome, result.decision.rule)

    def test_an_object_with_the_operators_name(self, registry: ToolRegistry) -> None:
        """An object whose `name` is the operator's does not get round that."""
        sneaky = type("Sneaky", (), {"name": "operator"})()
        assert Outcome.FORBIDDEN is registry.execute(ToolCall("1", "add", {"x": 1}, sneaky)).outcome
        with pytest.raises(ValueError, match="host program"):
            registry.toolset(sneaky)


class TestOnBehalfOf:
    def test_each_of_the_chain_must_be_allowed(self, registry: ToolRegistry) -> None:
        """A call on behalf of others is decided for all of them, at every door."""
        chain = ("eve",)
        call = ToolCall("1", "add", {"x": 1}, "ann", None, chain)
        doors = (registry.execute, registry.agent("ann").execute, registry.toolset("ann").execute)
        assert [Outcome.FORBIDDEN] * 3 == [door(call).outcome for door in doors]
        assert Outcome.FORBIDDEN is asyncio.run(registry.agent("ann").aexecute(call)).outcome
        assert Outcome.OK is registry.execute(ToolCall("1", "add", {"x": 1}, "ann", None, ("bob",))).outcome
        assert [2] == [registry.uses_left(one) for one in registry.grants(agent="bob")]

    def test_a_block_on_any_member_counts(self, registry: ToolRegistry) -> None:
        """A block of a delegator refuses the call."""
        registry.block("add", "bob")
        assert Outcome.FORBIDDEN is registry.execute(ToolCall("1", "add", {"x": 1}, "ann", None, ("bob",))).outcome

    def test_a_delegates_own_chain(self, registry: ToolRegistry) -> None:
        """A delegate's toolset takes no other chain than its own."""
        sub = registry.agent("ann").delegate("sub", mode="inherit")
        assert Outcome.OK is sub.execute(ToolCall("1", "add", {"x": 1}, "sub", None, ("ann",))).outcome
        with pytest.raises(ToolUsageError, match="on behalf of"):
            sub.execute(ToolCall("1", "add", {"x": 1}, "sub", None, ("bob",)))


class TestClose:
    def test_what_waits_is_refused(self) -> None:
        """A call that waits for a lone one when the registry closes does not run afterwards."""
        registry, begun, go = ToolRegistry(timeout=30), threading.Event(), threading.Event()
        ran: list[str] = []

        @registry.tool("lone", shared=True, concurrency_safe=False)
        def lone(name: str) -> None:
            """Wait."""
            ran.append(name)
            begun.set()
            go.wait(30)

        errors: list[BaseException] = []

        def second() -> None:
            try:
                registry.agent("bob").call("lone", name="second")
            except RegistryClosedError as error:
                errors.append(error)

        threads = [threading.Thread(target=lambda: registry.agent("ann").call("lone", name="first"))]
        threads[0].start()
        begun.wait(30)
        threads += [threading.Thread(target=second), threading.Thread(target=registry.close)]
        threads[1].start()
        while not registry._runtime.exclusive_gate._waiters or len(registry._runtime.exclusive_gate._waiters) < 2:
            pass
        threads[2].start()
        while not registry._access_store.closed:
            pass
        go.set()
        for one in threads:
            one.join(30)
        assert (["first"], 1) == (ran, len(errors))

    def test_inside_of_a_tool(self, registry: ToolRegistry) -> None:
        """`drain()` and `close()` inside of a tool do not wait for that tool."""

        @registry.tool("ending", owned_by="ann")
        def ending() -> int:
            """Drain and close."""
            left = registry.drain()
            with pytest.raises(NotOwnerError):
                registry.close()
            with registry.as_operator():
                registry.close()
            return left

        assert 0 == registry.agent("ann").call("ending")
        with pytest.raises(RegistryClosedError):
            registry.agent("ann").call("add", x=1)

    def test_with_calls_on_this_loop(self, registry: ToolRegistry) -> None:
        """`close()` where a loop runs calls is refused and names `aclose()`, which works."""

        @registry.tool("waits", owned_by="ann")
        async def waits() -> str:
            """Wait."""
            await asyncio.sleep(0.01)
            return "done"

        async def main() -> str:
            task = asyncio.create_task(registry.agent("ann").acall("waits"))
            await asyncio.sleep(0)
            with pytest.raises(ToolUsageError, match="aclose"):
                registry.close()
            assert "add" in registry
            await registry.aclose()
            return str(await task)

        assert "done" == asyncio.run(main())

    def test_inside_a_change(self, registry: ToolRegistry) -> None:
        """Closing inside of a change is refused, and the registry stays usable."""
        with registry.change(), pytest.raises(ToolUsageError):
            registry.close()
        assert 2 == registry.agent("ann").call("add", x=1)

    def test_cancels_async_tools_that_sync_code_called(self) -> None:
        """An async tool on the background loop that outlasts the drain is cancelled, and its caller learns so."""
        registry, begun = ToolRegistry(timeout=None), threading.Event()

        @registry.tool("endless", shared=True)
        async def endless() -> None:
            """Wait for ever."""
            begun.set()
            await asyncio.Event().wait()

        results: list[Outcome] = []
        caller = threading.Thread(
            target=lambda: results.append(registry.execute(ToolCall("1", "endless", {}, "ann")).outcome)
        )
        caller.start()
        begun.wait(30)
        registry._runtime.background_loop.close()
        caller.join(30)
        assert [Outcome.CANCELLED] == results


def test_retiring_who_does_not_exist(registry: ToolRegistry) -> None:
    """Retiring an unknown agent is an error with near names; one that only a grant mentions can be retired."""
    with pytest.raises(UnknownAgentError):
        registry.retire_agent("anna")
    registry.retire_agent("bob")
    assert "retired" == registry.explain("bob", "add").rule


def test_a_tool_of_another_definition_is_not_in_the_registry(registry: ToolRegistry) -> None:
    """`tool in registry` asks for that tool, `name in registry` for the name."""
    other = ToolRegistry()

    @other.tool("add", owned_by="ann")
    def add(x: int) -> int:
        """Other."""
        return x

    assert "add" in registry
    assert add not in registry
    assert registry.get_tool("add") in registry


def test_nobody_is_the_operator_by_a_task_left_behind(registry: ToolRegistry) -> None:
    """A task that a tool left behind still speaks as its agent."""
    left: list[asyncio.Task[None]] = []
    refused: list[str] = []

    @registry.tool("leaving", owned_by="ann")
    async def leaving() -> None:
        """Leave a task behind that tries."""

        async def later() -> None:
            await asyncio.sleep(0)
            assert "ann" == current_agent().name
            try:
                registry.disable("add")
            except NotOwnerError as error:
                refused.append(error.actor)

        left.append(asyncio.create_task(later()))

    async def main() -> None:
        await registry.agent("ann").acall("leaving")
        await asyncio.gather(*left)

    asyncio.run(main())
    assert ["ann"] == refused
