"""Nothing hangs and nothing is kept for ever, whatever tools, signals, finalizers and schemas do."""

from __future__ import annotations

import asyncio
import copy
import gc
import os
import signal
import threading
import weakref
from typing import Any

import pytest
from bank_rig import bank_registry, get_outcome

from praval_tools import Outcome, Tool, ToolCall, ToolDefinitionError, ToolRegistry

__all__ = ["bank_registry"]


class TestNothingHangs:
    def test_finalizers_that_change_the_registry(self, registry: ToolRegistry) -> None:
        """A finalizer that strikes inside of a change makes its own, and none is lost."""

        class Session:
            """Is in a cycle, so that the collector ends it, wherever it strikes."""

            def __init__(self, at: int) -> None:
                self.at, self.me = at, self
                registry.block("victim", f"agent {at}")

            def __del__(self) -> None:
                registry.unblock("victim", f"agent {self.at}")

        for at in range(3000):
            Session(at)
        gc.collect()
        assert 0 == len(registry.state.access_by_agent)

    @pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs signal.setitimer")
    def test_signal_handlers_that_change_the_registry(self, registry: ToolRegistry) -> None:
        """An emergency stop by signal counts, whatever the main thread is doing."""
        struck: list[int] = []

        def stop(*_: object) -> None:
            struck.append(1)
            registry.block("victim", f"agent {len(struck)}")

        before = signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        try:
            at = 0
            while len(struck) < 100:
                at += 1
                registry.assign_tool_to_agent("victim", f"other {at}")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert {f"agent {one}" for one in range(1, len(struck) + 1)} <= set(registry.state.access_by_agent.keys())
        assert at == sum(1 for name in registry.state.access_by_agent.keys() if name.startswith("other"))

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
    @pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
    def test_forks_while_others_are_inside(self, registry: ToolRegistry) -> None:
        """A process forked while a lone tool runs in another thread calls, changes, drains and closes."""
        begun, go = threading.Event(), threading.Event()

        @registry.tool("lone", owned_by="ann", concurrency_safe=False)
        def lone() -> None:
            """Hold the registry."""
            begun.set()
            go.wait(30)

        @registry.tool("later", owned_by="ann")
        async def later() -> int:
            """Run on the background loop."""
            return 1

        registry.agent("ann").call("later")
        holder = threading.Thread(target=lambda: registry.agent("ann").call("lone"))
        holder.start()
        begun.wait(30)
        child = os.fork()
        if child == 0:
            try:
                registry.block("victim", "eve")
                right = registry.agent("bank").call("victim", x=1) == 1 and registry.agent("ann").call("later") == 1
                right = right and registry.drain(timeout=5) == 0
                registry.close()
            except BaseException:
                right = False
            os._exit(0 if right else 1)
        go.set()
        holder.join(30)
        assert 0 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def test_lone_tools_of_two_registries(self) -> None:
        """Lone tools of two registries that call each other end, one of them as `limited`."""
        one, other = ToolRegistry(timeout=0.5), ToolRegistry(timeout=0.5)
        meet = threading.Barrier(2)

        def make(home: ToolRegistry, away: ToolRegistry) -> None:
            @home.tool("lone", shared=True, concurrency_safe=False)
            def lone() -> str:
                """Call the other registry."""
                meet.wait(30)
                return str(away.execute(ToolCall("1", "plain", {}, "ann")).outcome.value)

            @home.tool("plain", shared=True)
            def plain() -> None:
                """Do nothing."""

        make(one, other)
        make(other, one)
        answers: list[Any] = []
        threads = [
            threading.Thread(target=lambda home=home: answers.append(home.agent("ann").call("lone")))  # type: ignore[misc]
            for home in (one, other)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert 2 == len(answers)
        assert "limited" in answers

    @pytest.mark.parametrize("how", ["stubborn", "blocking"])
    def test_closing_beside_what_does_not_end(self, how: str) -> None:
        """`close()` leaves an async tool behind that swallows its cancellation, or blocks the loop."""
        registry, begun, go = ToolRegistry(timeout=0.2), threading.Event(), threading.Event()

        @registry.tool("endless", shared=True)
        async def endless() -> None:
            """Do not end."""
            begun.set()
            if how == "blocking":
                go.wait(60)
            while not go.is_set():
                try:
                    await asyncio.sleep(0.05)
                except asyncio.CancelledError:
                    continue

        results: list[Outcome] = []
        caller = threading.Thread(target=lambda: results.append(get_outcome(registry, "endless")))
        caller.start()
        begun.wait(30)
        closer = threading.Thread(target=registry.close)
        closer.start()
        closer.join(30)
        caller.join(30)
        go.set()
        assert (False, [Outcome.TIMEOUT]) == (closer.is_alive(), results)

    def test_very_long_chains(self, registry: ToolRegistry) -> None:
        """A chain of very many names is a refused call; delegating without end is refused."""
        for length in (100, 200_000):
            call = ToolCall("1", "victim", {}, "bank", None, tuple(f"n{at}" for at in range(length)))
            assert Outcome.FORBIDDEN is registry.execute(call).outcome
        agent = registry.agent("bank")
        with pytest.raises(RuntimeError, match="chained"):
            for _ in range(100):
                agent = agent.delegate("sub")

    def test_very_many_permissions(self, registry: ToolRegistry) -> None:
        """Members of a chain that hold many counted grants each do not multiply."""
        names = [f"member {at}" for at in range(8)]
        for name in names:
            for at in range(5):
                registry.grant("victim", name, max_calls=3, reason=str(at))
        agent = registry.agent(names[0])
        for name in names[1:]:
            agent = agent.delegate(name)
        assert 1 == agent.call("victim", x=1)

    def test_schemas_that_grow_once_followed(self) -> None:
        """A small schema whose references multiply is refused when it is given."""
        follow = {f"d{at}": {"anyOf": [{"$ref": f"#/$defs/d{at + 1}"}] * 4} for at in range(10)}
        schema = {
            "type": "object",
            "$defs": {**follow, "d10": {"type": "integer"}},
            "properties": {"x": {"$ref": "#/$defs/d0"}},
        }
        with pytest.raises(ToolDefinitionError, match="too large"):
            Tool("grows", "Grow.", schema, callable=lambda x: x)

    def test_values_that_are_refused_are_not_written_out(self, registry: ToolRegistry) -> None:
        """A large value that does not fit costs no more than its beginning."""
        value = ["x" * 1_000_000] * 2000
        result = registry.execute(ToolCall("1", "victim", {"x": value}, "bank"))
        assert Outcome.INVALID_ARGUMENTS is result.outcome
        assert len(str(result.error)) < 400


class TestMemory:
    def test_spent_grants_are_not_carried_along(self, registry: ToolRegistry) -> None:
        """An agent that gets a grant for each call has few of them in its way, and all in the history."""
        for at in range(200):
            registry.grant("victim", "ann", max_calls=1, reason=str(at))
            registry.agent("ann").call("victim", x=1)
        assert (200, True) == (
            len(registry.grants(agent="ann", ended=True)),
            len(registry.state.get_access("ann", "victim").grants) <= 2,
        )

    def test_a_loop_that_is_closed_half_way(self, registry: ToolRegistry) -> None:
        """The calls of a loop that was closed are collected with it."""

        @registry.tool("wait", owned_by="ann")
        async def wait() -> None:
            """Wait."""
            await asyncio.sleep(100)

        def work() -> weakref.ref[Any]:
            loop = asyncio.new_event_loop()

            async def go() -> None:
                loop.create_task(registry.agent("ann").acall("wait"), name="left").add_done_callback(lambda _: None)
                await asyncio.sleep(0)
                await asyncio.sleep(0)

            loop.set_exception_handler(lambda *_: None)
            loop.run_until_complete(go())
            loop.close()
            return weakref.ref(loop)

        left = work()
        gc.collect()
        gc.collect()
        assert (None, 0) == (left(), registry.drain(timeout=5))

    def test_tools_are_copied_as_themselves(self, registry: ToolRegistry) -> None:
        """A deep copy of what holds a tool holds that tool."""
        tool = registry.get_tool("victim")
        assert {"tool": tool} == copy.deepcopy({"tool": tool})
