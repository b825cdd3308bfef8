# Tests of: limits, in_flight
"""Retries and limits, from sync and from async code."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from clocks import HandClock

from praval_tools import (
    Allow,
    Deny,
    NotOwnerError,
    Outcome,
    RetryableToolError,
    ToolCall,
    ToolExecutionError,
    ToolRegistry,
    ToolResult,
    ToolUsageError,
    current_agent,
)
from praval_tools.execution.hooks import CallHooks
from praval_tools.registry.registry import get_runtime

Execute = Callable[[ToolCall], ToolResult]


@pytest.fixture
def errors() -> list[BaseException | None]:
    """What the tools raise, call by call; None: they return."""
    return []


@pytest.fixture
def registry(clock: HandClock, errors: list[BaseException | None]) -> ToolRegistry:
    """A registry whose tools raise the listed errors."""
    made = ToolRegistry(clock=clock, retries=3, retry_wait=0)

    def work() -> str:
        error = errors.pop(0) if errors else None
        if error is not None:
            raise error
        return "done"

    @made.tool("plain", owned_by="ann", retry_on=(ConnectionError,))
    def plain() -> str:
        """Work."""
        return work()

    @made.tool("later", owned_by="ann", retry_on=(ConnectionError,))
    async def later() -> str:
        """Work later."""
        await asyncio.sleep(0)
        return work()

    return made


def call(name: str, agent: str = "ann", run: str | None = None) -> ToolCall:
    """Return a call."""
    return ToolCall("1", name, {}, agent, run)


@pytest.mark.parametrize("name", ["plain", "later"])
class TestRetries:
    def test_what_may_succeed_later(self, execute: Execute, errors: list[BaseException | None], name: str) -> None:
        """Errors that say so, and the types that the tool lists, are tried again until it works."""
        errors[:] = [RetryableToolError("soon"), ConnectionResetError("down"), None]
        result = execute(call(name))
        assert (Outcome.OK, "done", 3) == (result.outcome, result.result, result.attempts)

    def test_gives_up(self, execute: Execute, errors: list[BaseException | None], name: str) -> None:
        """After so many retries the last error is the result."""
        errors[:] = [RetryableToolError(str(at)) for at in range(9)]
        result = execute(call(name))
        assert (Outcome.TOOL_ERROR, "3", 4, 5) == (result.outcome, result.error, result.attempts, len(errors))

    def test_nothing_else(self, registry: ToolRegistry, execute: Execute, errors: Any, name: str) -> None:
        """Other errors, bad arguments and refusals are not tried again."""
        errors[:] = [ValueError("no"), None]
        assert 1 == execute(call(name)).attempts
        assert 1 == len(errors)
        registry.configure(name, retries=0)
        errors[:] = [RetryableToolError("soon"), None]
        assert 1 == execute(call(name)).attempts
        assert 0 == execute(ToolCall("1", name, {"x": 1}, "ann")).attempts

    def test_spend_nothing(self, registry: ToolRegistry, execute: Execute, errors: Any, name: str) -> None:
        """A call under a grant for one call is tried again, and spends one use."""
        grant = registry.grant(name, "bob", max_calls=1)
        errors[:] = [RetryableToolError("soon"), RetryableToolError("soon"), None]
        assert (Outcome.OK, 3) == ((result := execute(call(name, "bob"))).outcome, result.attempts)
        assert 0 == registry.uses_left(grant)
        assert Outcome.FORBIDDEN is execute(call(name, "bob")).outcome

    def test_a_revocation_between(self, registry: ToolRegistry, execute: Execute, name: str) -> None:
        """A call that waits for its next try is refused once the tool was taken away."""

        @registry.tool("takes", owned_by="ann", replace=True)
        def takes() -> None:
            """Have itself taken away, and fail."""
            with registry.as_operator():
                registry.remove_tool_from_agent("takes", "ann")
            raise RetryableToolError("soon")

        result = execute(call("takes"))
        assert Outcome.FORBIDDEN is result.outcome


class TestWaits:
    def test_double_and_are_spread(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The waits are about 2, 4 and 8 seconds, each up to a quarter less or more, and no two calls' the same."""
        waits, rounds = list[float](), 50

        async def sleep(seconds: float) -> None:
            waits.append(seconds)

        with ToolRegistry(retries=3) as registry:

            @registry.tool("fails", owned_by="ann")
            def fails() -> None:
                """Fail."""
                raise RetryableToolError("soon")

            monkeypatch.setattr(registry._runtime.closing_event, "wait", waits.append)
            monkeypatch.setattr(asyncio, "sleep", sleep)
            for _ in range(rounds):
                registry.execute(call("fails"))
                asyncio.run(registry.aexecute(call("fails")))
        for at, middle in enumerate((2, 4, 8)):
            mine = waits[at::3]
            assert 2 * rounds == len(set(mine))
            assert 0.75 * middle <= min(mine) < 0.9 * middle < 1.1 * middle < max(mine) <= 1.25 * middle


class TestTimeOuts:
    @pytest.mark.parametrize(("idempotent", "attempts"), [(True, 2), (None, 1), (False, 1)])
    def test_of_idempotent_sync_tools(
        self, registry: ToolRegistry, execute: Execute, idempotent: bool | None, attempts: int
    ) -> None:
        """A function that still runs in its thread is entered once more only where it may run twice."""
        go, tries = threading.Event(), list[int]()

        @registry.tool("slow", owned_by="ann", timeout=0.2, idempotent=idempotent)
        def slow() -> str:
            """Be slow once."""
            tries.append(1)
            return "late" if len(tries) == 1 and go.wait(30) else "done"

        result = execute(call("slow"))
        go.set()
        assert (attempts, attempts) == (result.attempts, len(tries))
        assert (Outcome.OK if idempotent else Outcome.TIMEOUT) is result.outcome
        assert 0 == registry.drain(timeout=30)

    @pytest.mark.parametrize(("idempotent", "attempts"), [(True, 2), (None, 1), (False, 1)])
    def test_of_idempotent_tools(
        self, registry: ToolRegistry, execute: Execute, idempotent: bool | None, attempts: int
    ) -> None:
        """Only a tool that may run twice is tried again after a time-out."""
        tries: list[int] = []

        @registry.tool("slow", owned_by="ann", timeout=0.02, idempotent=idempotent)
        async def slow() -> str:
            """Be slow once."""
            tries.append(1)
            if len(tries) == 1:
                await asyncio.Event().wait()
            return "done"

        assert attempts == execute(call("slow")).attempts == len(tries)

    @pytest.mark.parametrize("is_async", [False, True])
    def test_every_attempt_counts(
        self, registry: ToolRegistry, execute: Execute, is_async: bool, tmp_path: Path
    ) -> None:
        """A call that ran three times and timed out each time says three, in its result and in the journal."""
        go, tries = threading.Event(), list[int]()
        registry.journal = tmp_path / "j.db"

        def slow() -> None:
            """Be slow."""
            tries.append(1)
            go.wait(30)

        async def slow_later() -> None:
            """Be slow."""
            tries.append(1)
            await asyncio.Event().wait()

        function = slow_later if is_async else slow
        registry.tool("slow", owned_by="ann", timeout=0.02, idempotent=True, retries=2)(function)
        result = execute(call("slow"))
        go.set()
        recorded = [entry.event for entry in registry.journal.read(type="agent_tool_result")]
        registry.close()
        assert (Outcome.TIMEOUT, 3, 3) == (result.outcome, result.attempts, len(tries))
        assert [3] == [event.attempts for event in recorded]

    def test_a_refusal_after_attempts_counts_them(self, registry: ToolRegistry, execute: Execute) -> None:
        """What is refused while it waits for its next try says how often it ran."""

        @registry.tool("taken", owned_by="ann")
        def taken() -> None:
            """Have itself taken away, and fail."""
            with registry.as_operator():
                registry.block("taken", "ann")
            raise RetryableToolError("soon")

        result = execute(call("taken"))
        assert (Outcome.FORBIDDEN, 1) == (result.outcome, result.attempts)

    def test_a_retry_that_does_not_get_its_turn_says_nothing(self) -> None:
        """Broken promise: a call that ran, and ran out of time, ended as one that was limited, and so never ran."""
        go_on, ran = threading.Event(), list[int]()
        registry = ToolRegistry(retries=1, retry_wait=0, timeout=0.05)

        @registry.tool("slow", owned_by="ann", idempotent=True, timeout=0.05, concurrency_safe=False)
        def slow() -> None:
            """Be slow."""
            assert go_on.wait(30)
            ran.append(1)

        result = registry.execute(call("slow"))
        go_on.set()
        assert 0 == registry.drain(timeout=30)
        assert (Outcome.TIMEOUT, 1, [1]) == (result.outcome, result.attempts, ran)
        registry.close()

    def test_closing_ends_the_wait(self) -> None:
        """A call that waits for its next try ends with its last error when the registry closes."""
        registry, failed = ToolRegistry(retries=1, retry_wait=3600), threading.Event()

        @registry.tool("fails", owned_by="ann")
        def fails() -> None:
            """Fail."""
            failed.set()
            raise RetryableToolError("soon")

        results: list[ToolResult] = []
        caller = threading.Thread(target=lambda: results.append(registry.execute(call("fails"))))
        caller.start()
        failed.wait(30)
        registry.close()
        caller.join(30)
        assert [Outcome.TOOL_ERROR] == [one.outcome for one in results]


@pytest.mark.parametrize("name", ["plain", "later"])
class TestLimits:
    def test_per_minute(self, registry: ToolRegistry, execute: Execute, clock: HandClock, name: str) -> None:
        """Calls beyond the limit are `limited` until a minute has passed; the text says when."""
        execute(call(name))
        registry.limits.set(tool=name, per_minute=2)
        outcomes = [execute(call(name)).outcome for _ in range(3)]
        assert [Outcome.OK, Outcome.OK, Outcome.LIMITED] == outcomes
        clock.seconds = 59
        assert "1.0 s" in str(execute(call(name)).error)
        clock.seconds = 61
        assert Outcome.OK is execute(call(name)).outcome

    def test_of_an_agent_a_tool_and_both(self, registry: ToolRegistry, execute: Execute, name: str) -> None:
        """Every limit that fits must leave room; other agents and tools are not touched."""
        registry.share_tool(name)
        registry.limits.set(agent="ann", per_minute=3)
        registry.limits.set(agent="ann", tool=name, per_minute=1)
        other = "later" if name == "plain" else "plain"
        assert [Outcome.OK, Outcome.LIMITED] == [execute(call(name)).outcome for _ in range(2)]
        assert [Outcome.OK, Outcome.OK, Outcome.LIMITED] == [execute(call(other)).outcome for _ in range(3)]
        assert [Outcome.OK, Outcome.OK] == [execute(call(name, "bob")).outcome for _ in range(2)]

    def test_per_run(self, registry: ToolRegistry, execute: Execute, name: str) -> None:
        """A limit per run counts each run by itself."""
        registry.limits.set(tool=name, per_run=1)
        runs = ["a", "b", "a", None, None]
        expected = [Outcome.OK, Outcome.OK, Outcome.LIMITED, Outcome.OK, Outcome.OK]
        assert expected == [execute(call(name, run=run)).outcome for run in runs]

    def test_refusals_take_no_place(self, registry: ToolRegistry, execute: Execute, name: str) -> None:
        """A call that is refused or badly made does not count, and retries count once."""
        registry.limits.set(tool=name, per_minute=1)
        execute(call(name, "eve"))
        execute(ToolCall("1", name, {"x": 1}, "ann"))
        assert Outcome.OK is execute(call(name)).outcome

    def test_come_between_the_decision_and_the_approval(
        self, registry: ToolRegistry, execute: Execute, name: str
    ) -> None:
        """Bad arguments reach no policy; what a policy refuses takes no place; what is limited asks nobody."""
        seen: list[str] = []
        answers: list[str | None] = ["no", None, None]
        registry.configure(name, requires_approval=True)
        registry.limits.set(tool=name, per_minute=1)
        registry.add_policy(lambda *_: seen.append("policy") or answers[0])
        registry.set_approval_handler(lambda _: seen.append("handler") or Allow())

        assert Outcome.INVALID_ARGUMENTS is execute(ToolCall("1", name, {"x": 1}, "ann")).outcome
        assert [] == seen
        assert Outcome.FORBIDDEN is execute(call(name)).outcome
        assert ["policy"] == seen
        answers.pop(0)
        assert (Outcome.OK, ["handler"]) == (execute(call(name)).outcome, [one for one in seen if one == "handler"])
        assert (Outcome.LIMITED, 1) == (execute(call(name)).outcome, seen.count("handler"))

    def test_of_each_member_of_a_chain(
        self, registry: ToolRegistry, execute: Execute, clock: HandClock, name: str
    ) -> None:
        """A call takes a place under the limits of all for whom it is made: fresh names of delegates are no way out."""
        boss = registry.agent("ann")
        for limit in ({"agent": "ann"}, {"agent": "ann", "tool": name}):
            registry.limits.set(**limit, per_minute=2)
            delegates = [boss.delegate(f"h{at}", mode="inherit") for at in range(3)]
            outcomes = [execute(call(name, agent)).outcome for agent in delegates]  # type: ignore[arg-type]
            assert [Outcome.OK, Outcome.OK, Outcome.LIMITED] == outcomes
            assert Outcome.LIMITED is execute(call(name)).outcome
            registry.limits.set(**limit)
            clock.seconds += 61
        registry.limits.set(agent="ann", per_minute=1)
        twice = boss.delegate("bob", mode="inherit").delegate("ann", mode="inherit")
        assert Outcome.OK is execute(call(name, twice)).outcome  # type: ignore[arg-type]

    def test_of_a_delegate(self, registry: ToolRegistry, execute: Execute, name: str) -> None:
        """The limit of the agent that calls counts too, and stops nobody else."""
        registry.limits.set(agent="bob", concurrent=1, per_minute=1)
        bob = registry.agent("ann").delegate("bob", mode="inherit")
        outcomes = [execute(call(name, agent)).outcome for agent in (bob, bob, "ann")]  # type: ignore[arg-type]
        assert [Outcome.OK, Outcome.LIMITED, Outcome.OK] == outcomes

    @pytest.mark.parametrize("limit", [{"per_minute": 1}, {"per_run": 1}, {"concurrent": 1}])
    def test_refused_and_waiting_calls_take_no_place(
        self, registry: ToolRegistry, execute: Execute, name: str, limit: dict[str, int]
    ) -> None:
        """A call that waits for an approval, is denied it, or is refused at the last moment uses nothing up."""
        registry.configure(name, requires_approval=True)
        registry.limits.set(agent="ann", **limit)
        assert [Outcome.APPROVAL_REQUIRED] * 2 == [execute(call(name, run="r")).outcome for _ in range(2)]
        registry.set_approval_handler(lambda _: Deny("no"))
        assert [Outcome.APPROVAL_DENIED] * 2 == [execute(call(name, run="r")).outcome for _ in range(2)]
        taken: list[list[int]] = []

        def take_away(_: object) -> Allow:
            """Allow it, when it is too late."""
            taken.append([usage.in_flight for usage in get_runtime(registry).limits.list_usages(("ann",), name)])
            registry.block(name, "ann")
            return Allow()

        registry.set_approval_handler(take_away)
        assert Outcome.FORBIDDEN is execute(call(name, run="r")).outcome
        assert [[0]] == taken
        registry.unblock(name, "ann")
        registry.set_approval_handler(lambda _: Allow())
        assert Outcome.OK is execute(call(name, run="r")).outcome
        expected = Outcome.OK if "concurrent" in limit else Outcome.LIMITED
        assert expected is execute(call(name, run="r")).outcome

    def test_a_decision_that_is_out_of_date_takes_no_place(
        self, registry: ToolRegistry, execute: Execute, name: str
    ) -> None:
        """A call that finds its permission gone when its function is to be entered uses nothing up."""
        registry.limits.set(tool=name, per_minute=1)
        registry.configure(name, retries=1)

        def revoke(**_: object) -> None:
            """Take the tool away behind the decision."""
            registry.block(name, "ann")

        get_runtime(registry).install_hooks(CallHooks(before=(revoke,)))
        assert Outcome.FORBIDDEN is execute(call(name)).outcome
        get_runtime(registry).install_hooks(CallHooks())
        registry.unblock(name, "ann")
        assert [Outcome.OK, Outcome.LIMITED] == [execute(call(name)).outcome for _ in range(2)]

    def test_removing(self, registry: ToolRegistry, execute: Execute, name: str) -> None:
        """A limit set to nothing is gone, and a tighter one counts what was used."""
        registry.limits.set(tool=name, per_minute=5)
        execute(call(name))
        registry.limits.set(tool=name, per_minute=1)
        assert Outcome.LIMITED is execute(call(name)).outcome
        registry.limits.set(tool=name)
        assert ([], Outcome.OK) == (registry.limits.all(), execute(call(name)).outcome)


class TestConcurrent:
    def test_threads(self, registry: ToolRegistry) -> None:
        """With eight threads and a limit of two, never three are inside, and every place is given back."""
        inside: list[int] = []
        most: list[int] = []

        @registry.tool("busy", owned_by="ann")
        def busy() -> None:
            """Be inside."""
            inside.append(1)
            most.append(len(inside))
            inside.pop()

        registry.limits.set(tool="busy", concurrent=2)
        outcomes: list[Outcome] = []

        def work() -> None:
            outcomes.extend(registry.execute(call("busy")).outcome for _ in range(200))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(60)
        assert (True, 1600) == (max(most) <= 2, len(outcomes))
        assert [Outcome.OK] * 3 == [registry.execute(call("busy")).outcome for _ in range(3)]

    def test_nested_and_failed_calls_give_back(self, registry: ToolRegistry) -> None:
        """A call inside of a call takes a place of its own; errors and cancellations give theirs back."""

        @registry.tool("deep", owned_by="ann")
        async def deep(left: int) -> int:
            """Go deeper, or fail."""
            if left < 0:
                raise ValueError
            return 0 if left == 0 else 1 + await current_agent().acall("deep", left=left - 1)

        registry.limits.set(tool="deep", concurrent=2)
        ann = registry.agent("ann")
        for _ in range(3):
            assert 1 == asyncio.run(ann.acall("deep", left=1))
            with pytest.raises(ToolExecutionError, match="at most 2 at once"):
                ann.call("deep", left=2)
            assert Outcome.TOOL_ERROR is ann.execute(ToolCall("1", "deep", {"left": -1})).outcome

    def test_a_thread_that_runs_on(self, registry: ToolRegistry) -> None:
        """A call that ran out of time keeps its place until its function has ended."""
        go, ended = threading.Event(), threading.Event()

        @registry.tool("slow", owned_by="ann", timeout=0.01, retries=0)
        def slow() -> None:
            """Wait."""
            go.wait(30)
            ended.set()

        registry.limits.set(tool="slow", concurrent=1)
        assert [Outcome.TIMEOUT, Outcome.LIMITED] == [registry.execute(call("slow")).outcome for _ in range(2)]
        go.set()
        ended.wait(30)
        assert 0 == registry.drain(timeout=30)
        outcomes = iter(lambda: registry.execute(call("slow")).outcome, Outcome.OK)
        assert all(one is Outcome.LIMITED for one in outcomes)


class TestDrain:
    def test_waits_for_calls_on_behalf(self, registry: ToolRegistry) -> None:
        """Draining an agent waits for the calls that others make on its behalf."""
        inside, go = threading.Event(), threading.Event()

        @registry.tool("stay", owned_by="ann")
        def stay() -> list[int]:
            """Stay, and count who else is inside."""
            inside.set()
            go.wait(30)
            return [registry.drain(agent=agent, timeout=0) for agent in ("ann", "bob", "cid")]

        bob = registry.agent("ann").delegate("bob", mode="inherit")
        with ThreadPoolExecutor(1) as pool:
            job = pool.submit(bob.call, "stay")
            inside.wait(30)
            counts = [registry.drain(agent=agent, tool="stay", timeout=0) for agent in ("ann", "bob", "cid")]
            go.set()
            assert ([1, 1, 0], [0, 0, 0]) == (counts, job.result(30))


class TestSetting:
    def test_only_the_operator(self, registry: ToolRegistry) -> None:
        """A tool's body sets no limit."""

        @registry.tool("sneak", owned_by="ann")
        def sneak() -> None:
            """Try."""
            registry.limits.set(tool="plain")

        assert "NotOwnerError" == registry.execute(call("sneak")).error_type
        with pytest.raises(NotOwnerError):
            raise registry.execute(call("sneak")).exception  # type: ignore[misc]

    @pytest.mark.parametrize("wrong", [{"per_minute": 0}, {"concurrent": 1.5}, {"per_run": True}, {"per_minute": "5"}])
    def test_odd_numbers(self, registry: ToolRegistry, wrong: dict[str, Any]) -> None:
        """Numbers that are no whole numbers from 1 on are refused."""
        with pytest.raises(ToolUsageError, match="whole number"):
            registry.limits.set(tool="plain", **wrong)

    def test_of_nothing(self, registry: ToolRegistry) -> None:
        """A limit is for an agent or a tool."""
        with pytest.raises(ToolUsageError, match="agent"):
            registry.limits.set(per_minute=1)
