"""Revocation is real: threads, counts, drains, and a writer that stops between any two of its steps."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from praval_tools import (
    Agent,
    Outcome,
    ToolAccessError,
    ToolCall,
    ToolRegistry,
    current_agent,
    tool,
)
from praval_tools.access.transitions import rebuild_state

WAIT = 30
"""Seconds after which a thread that hangs fails the test."""


def shop() -> tuple[ToolRegistry, list[float]]:
    """Return a registry in which an intern may wire money, and what was wired."""
    registry, wired = ToolRegistry(), list[float]()

    @tool(registry=registry, owned_by="treasurer")
    def wire(amount: float) -> float:
        """Wire money."""
        wired.append(amount)
        return amount

    registry.assign_tool_to_agent("wire", "intern")
    return registry, wired


def take_away(registry: ToolRegistry) -> None:
    registry.remove_tool_from_agent("wire", "intern")


def block(registry: ToolRegistry) -> None:
    registry.block("wire", "intern")


def disable(registry: ToolRegistry) -> None:
    registry.disable("wire")


def retire(registry: ToolRegistry) -> None:
    registry.retire_agent("intern")


def unregister(registry: ToolRegistry) -> None:
    registry.unregister_tool("wire")


ENDINGS = (take_away, block, disable, retire, unregister)
Ending = Callable[[ToolRegistry], None]


def together(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Run *work* in *count* threads that begin at the same moment; return what they gave."""
    start = threading.Barrier(count)

    def one(number: int) -> Any:
        start.wait(WAIT)
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count), timeout=WAIT))


@contextmanager
def switching_often() -> Iterator[None]:
    """Let threads take turns a thousand times more often, so that every interleaving comes up."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class TestNoCallAfterARevocation:
    @pytest.mark.parametrize("end", ENDINGS)
    def test_with_eight_threads_calling(self, end: Ending) -> None:
        """
        Once the change has returned, and who was inside has left, not one call more gets through.
        """
        registry, wired = shop()
        stop, counted = threading.Event(), list[int]()

        def call(_: int) -> int:
            toolset, refused = registry.toolset("intern"), 0
            while not stop.is_set() or refused == 0:
                try:
                    toolset.call("wire", amount=1.0)
                except Exception:
                    refused += 1
            return refused

        def change(_: int) -> int:
            while len(wired) < 2_000:
                pass
            end(registry)
            registry.drain(tool="wire", timeout=WAIT)
            counted.append(len(wired))
            stop.set()
            return 1

        with switching_often():
            results = together(9, lambda number: change(number) if number == 8 else call(number))

        assert all(results)
        assert counted == [len(wired)]

    @pytest.mark.parametrize("end", ENDINGS)
    def test_each_call_requested_afterwards_is_refused(self, end: Ending) -> None:
        """
        A call that is requested after the change returned does not run, whatever its thread and access path.
        """
        registry, wired = shop()
        toolset, bound = registry.toolset("intern"), registry.toolset("intern")["wire"]
        assert 1.0 == toolset.call("wire", amount=1.0) == bound(amount=1.0)
        function = toolset.functions()[0]
        end(registry)

        outcomes = [
            registry.execute(ToolCall("1", "wire", {"amount": 1.0}, "intern")).outcome,
            toolset.execute(ToolCall("1", "wire", '{"amount": 1.0}')).outcome,
        ]
        for way in (toolset.call_json, lambda name, text: bound(amount=1.0), lambda name, text: function(amount=1.0)):
            with pytest.raises(Exception) as caught:
                way("wire", '{"amount": 1.0}')
            outcomes.append(caught.value.result.outcome)  # type: ignore[attr-defined]

        assert Outcome.OK not in outcomes
        assert 1 == len(set(outcomes))
        assert [1.0, 1.0] == wired

    def test_a_call_that_was_validating_meanwhile_does_not_run(self) -> None:
        """
        Revoked while five million numbers were being checked: the function is not entered.
        """
        registry, ran = ToolRegistry(), list[int]()

        @tool(registry=registry, owned_by="treasurer")
        def total(numbers: list[float]) -> float:
            """Add numbers."""
            ran.append(len(numbers))
            return sum(numbers)

        registry.assign_tool_to_agent("total", "intern")
        toolset = registry.toolset("intern")
        toolset.call("total", numbers=[1.0])
        numbers, begun = [1.0] * 5_000_000, threading.Event()

        def call() -> str:
            begun.set()
            try:
                toolset.call("total", numbers=numbers)
            except ToolAccessError as error:
                return error.code
            return "ran"

        with ThreadPoolExecutor(1) as pool, switching_often():
            outcome = pool.submit(call)
            begun.wait(WAIT)
            registry.remove_tool_from_agent("total", "intern")
            still_validating = not outcome.done()
            said = outcome.result(WAIT)

        assert still_validating
        assert ([1], "tool-access") == (ran, said)

    def test_a_slow_check_in_between_is_decided_again(self) -> None:
        """
        A policy that takes the tool away while it looks at the call is obeyed by this very call.
        """
        registry, wired = shop()

        def suspicious(agent: str, tool: Any, arguments: dict[str, Any]) -> None:
            with registry.as_operator():
                registry.remove_tool_from_agent("wire", "intern")

        registry.add_policy(suspicious)

        assert Outcome.FORBIDDEN is registry.execute(ToolCall("1", "wire", {"amount": 1.0}, "intern")).outcome
        assert [] == wired


class TestCounts:
    def test_exactly_a_hundred_of_ten_thousand_get_through(self) -> None:
        """
        `max_calls=100` admits a hundred of ten thousand concurrent attempts.
        """
        registry, wired = shop()
        registry.remove_tool_from_agent("wire", "intern")
        grant = registry.grant("wire", "intern", max_calls=100)

        def call(_: int) -> int:
            toolset = registry.toolset("intern")
            return sum(toolset.execute(ToolCall(None, "wire", {"amount": 1.0})).success for _ in range(1_250))

        with switching_often():
            results = together(8, call)

        assert (100, 100, 0) == (sum(results), len(wired), registry.uses_left(grant))

    def test_a_derived_count_is_spent_with_what_it_came_from(self) -> None:
        """
        Two holders of derived grants share the count of the grant above, whoever is faster.
        """
        registry, wired = shop()
        registry.grant("wire", "clerk", max_calls=50, delegable=True)
        for name in ("one", "two"):
            registry.grant("wire", name, by="clerk", max_calls=40)

        def call(number: int) -> int:
            agent = registry.agent(("one", "two")[number % 2])
            return sum(agent.execute(ToolCall(None, "wire", {"amount": 1.0})).success for _ in range(100))

        with switching_often():
            results = together(4, call)

        assert (50, 50) == (sum(results), len(wired))

    def test_a_refused_or_failed_validation_spends_nothing(self) -> None:
        """
        Only an admitted call is counted; one whose tool raises was admitted.
        """
        registry, _ = shop()
        registry.remove_tool_from_agent("wire", "intern")
        grant = registry.grant("wire", "intern", max_calls=2, where={"amount": {"maximum": 10}})

        for arguments in ({"amount": "ten"}, {"amount": 11}, {}, {"amount": 5, "x": 1}):
            assert not registry.execute(ToolCall("1", "wire", arguments, "intern")).success

        assert 2 == registry.uses_left(grant)


class TestDrain:
    def test_waits_for_who_is_inside(self) -> None:
        """
        `drain` returns when the last admitted call has left, and counts who is left at a time-out.
        """
        registry, inside, leave = ToolRegistry(), threading.Event(), threading.Event()

        @tool(registry=registry, shared=True)
        def wait() -> str:
            """Wait."""
            inside.set()
            leave.wait(WAIT)
            return "left"

        with ThreadPoolExecutor(1) as pool:
            call = pool.submit(registry.agent("ann").call, "wait")
            inside.wait(WAIT)
            registry.block("wait", "ann")
            counts = [registry.drain(tool="wait", timeout=0.01), registry.drain(agent="bob", timeout=0)]
            leave.set()
            counts.append(registry.drain(agent="ann", timeout=WAIT))

            assert ([1, 0, 0], "left") == (counts, call.result(WAIT))


class TestReadersNeverWait:
    def test_a_writer_stopped_between_any_two_steps_stops_no_reader(self) -> None:
        """
        Whatever line of the package a writer is stopped at, readers list, explain and call as before it began.
        """
        registry, wired = shop()
        with registry:
            lines = _lines_of(lambda: registry.assign_tool_to_agent("wire", "clerk"))
            registry.remove_tool_from_agent("wire", "clerk")
            assert len(lines) > 50
            for stop_at in range(0, len(lines), 7):
                registry.fork()
                _stopped_at(stop_at, lambda: registry.assign_tool_to_agent("wire", "clerk"), lambda: _read(registry))
                registry.remove_tool_from_agent("wire", "clerk")
        assert wired

    def test_readers_see_all_of_a_change_or_nothing(self) -> None:
        """
        Several changes in one `change()` are never seen in part.
        """
        registry = ToolRegistry()
        for name in ("left", "right"):
            tool(name, registry=registry, description="Go there.")(lambda: None)
        stop = threading.Event()

        def write(_: int) -> int:
            for turn in range(300):
                verb = registry.assign_tool_to_agent if turn % 2 == 0 else registry.remove_tool_from_agent
                with registry.change():
                    verb("left", "ann")
                    verb("right", "ann")
            stop.set()
            return 0

        def read(_: int) -> int:
            halves = 0
            while not stop.is_set():
                halves += len(registry.get_tools_for_agent("ann")) == 1
            return halves

        with switching_often():
            assert [0, 0, 0] == together(3, lambda number: write(number) if number == 0 else read(number))

    def test_a_change_that_raises_changes_nothing(self) -> None:
        """
        All or none: an exception inside `change()` leaves no trace.
        """
        registry, _ = shop()
        before = registry.state
        with pytest.raises(ZeroDivisionError), registry.change():
            registry.assign_tool_to_agent("wire", "clerk")
            registry.block("wire", "intern")
            _ = 1 / 0

        assert before == registry.state

    def test_the_state_is_what_its_events_say(self) -> None:
        """
        Events from eight writers, replayed, give the live state.
        """
        registry, events = ToolRegistry(), list[Any]()
        registry.subscribe(events.append)

        def write(number: int) -> None:
            for turn in range(30):
                tool(f"t{number}_{turn}", registry=registry, owned_by=f"a{number}", description="x")(lambda: None)
                registry.assign_tool_to_agent(f"t{number}_{turn}", "ann", max_calls=3)
                registry.execute(ToolCall(None, f"t{number}_{turn}", {}, "ann"))
                if turn % 3 == 0:
                    registry.block(f"t{number}_{turn}", "ann")

        with switching_often():
            together(8, write)

        assert rebuild_state(events) == registry.state
        assert 240 == len(registry)


class TestNobodyIsOperatorByAccident:
    def test_a_tools_body_runs_as_the_agent_that_calls_it(self) -> None:
        """
        A tool that changes the registry does so in the caller's name, in threads and tasks of its own as well.
        """
        registry, _ = shop()

        @tool(registry=registry, shared=True)
        def grab(how: str) -> str:
            """Try to take a tool."""
            if how == "thread":
                import contextvars

                context = contextvars.copy_context()
                with ThreadPoolExecutor(1) as pool:
                    pool.submit(context.run, registry.assign_tool_to_agent, "wire", "thief").result()
            elif how == "operator":
                registry.assign_tool_to_agent("wire", "thief", by="operator")
            else:
                registry.assign_tool_to_agent("wire", "thief")
            return "taken"

        for how in ("plain", "thread", "operator"):
            result = registry.execute(ToolCall("1", "grab", {"how": how}, "thief"))
            assert (Outcome.TOOL_ERROR, "NotOwnerError") == (result.outcome, result.error_type)
        assert not registry.explain("thief", "wire").allowed

    def test_an_agents_function_runs_as_the_agent(self) -> None:
        """
        What an agent's function changes is the agent's doing.
        """
        registry, _ = shop()

        def thief() -> str:
            assert "thief" == current_agent().name
            registry.assign_tool_to_agent("wire", "thief")
            return "taken"

        agent = Agent("thief", registry=registry, function=thief)

        with pytest.raises(Exception, match="thief"):
            agent()
        assert not registry.explain("thief", "wire").allowed

    def test_a_policy_runs_in_its_own_name(self) -> None:
        """
        A policy cannot change who may call what; that it tried refuses the call.
        """
        registry, _ = shop()
        registry.add_policy(lambda agent, tool, arguments: registry.assign_tool_to_agent("wire", "thief"))

        result = registry.execute(ToolCall("1", "wire", {"amount": 1.0}, "intern"))

        assert Outcome.FORBIDDEN is result.outcome
        assert not registry.explain("thief", "wire").allowed


def _lines_of(work: Callable[[], Any]) -> list[int]:
    lines: list[int] = []

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if event == "line" and "praval_tools" in frame.f_code.co_filename:
            lines.append(frame.f_lineno)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines


def _stopped_at(number: int, write: Callable[[], Any], read: Callable[[], None]) -> None:
    """Stop a thread that writes before its *number*th line of the package, read, and let it go on."""
    stopped, go_on = threading.Event(), threading.Event()
    seen = [0]

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if event == "line" and "praval_tools" in frame.f_code.co_filename:
            if seen[0] == number:
                stopped.set()
                go_on.wait(WAIT)
            seen[0] += 1
        return trace

    def run() -> None:
        sys.settrace(trace)
        write()
        sys.settrace(None)
        stopped.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert stopped.wait(WAIT)
    reader = threading.Thread(target=read)
    reader.start()
    reader.join(WAIT)
    waited = reader.is_alive()
    go_on.set()
    thread.join(WAIT)
    assert not waited


def _read(registry: ToolRegistry) -> None:
    registry.get_tools_for_agent("intern")
    registry.explain("clerk", "wire")
    registry.toolset("intern").schemas()
    registry.search_tools(owned_by="treasurer")
    registry.toolset("intern").call("wire", amount=1.0)
    registry.execute(ToolCall("1", "wire", {"amount": "1"}, "intern"))
