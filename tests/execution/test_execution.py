# Tests of: executor, fast_function_cache, pipeline, failures, policies, results, runtime
"""Calls: every outcome by each method, on the fast path and in the pipeline; errors, interrupts, policies, closing."""

from __future__ import annotations

import asyncio
import builtins
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from execution_rig import LATE, WAIT, Body, Own, Run, awaited, batch, body, every_way, home, mine, ran, within  # noqa: F401

from praval_tools import Ask, Deny, Outcome, ToolCall, ToolRegistry, ToolResult, errors
from praval_tools.execution.context import current_call
from praval_tools.registry.decorators import agent, current_agent


def raised(home: ToolRegistry, call: ToolCall) -> list[errors.ToolCallError]:
    """Return what `call` and `acall` raise, twice each."""
    tools, caught = home.toolset("ann"), list[errors.ToolCallError]()
    for work in (tools.call, lambda *a, **k: asyncio.run(tools.acall(*a, **k))) * 2:
        with pytest.raises(errors.ToolCallError) as one:
            work(call.name, **call.arguments)
        caught.append(one.value)
    return caught


FAILURES: dict[str, tuple[str, str, type[errors.ToolCallError]]] = {
    "boom": ("tool_error", "Own", errors.ToolExecutionError), "off": ("disabled", "disabled", errors.ToolAccessError),
    "leave": ("tool_error", "SystemExit", errors.ToolExecutionError),
    "theirs": ("forbidden", "forbidden", errors.ToolAccessError),
    "add": ("invalid_arguments", "invalid-arguments", errors.ToolArgumentsError),
    "ad": ("unknown_tool", "unknown-tool", errors.UnknownToolCallError),
    "asked": ("approval_required", "approval-required", errors.ToolApprovalError),
    "slow": ("timeout", "tool-timeout", errors.ToolTimeoutError),
}  # fmt: skip


ODD: list[Any] = [Deny("no"), Deny(), "no", "", True, False, 0, [], Outcome.OK, ValueError(), len]


class TestOutcomes:
    @pytest.mark.parametrize("ending", ["", "_later"], ids=["sync", "async"])
    @pytest.mark.parametrize("name", FAILURES)
    def test_failures(self, home: ToolRegistry, ran: list[str], name: str, ending: str) -> None:
        """
        Every failure has the same outcome, type and text by each method and path, and a typed error with the same text.
        """
        outcome, kind, error = FAILURES[name]
        call = mine(name + ending, x="no" if name == "add" else 1)
        results, caught = every_way(home, call), raised(home, call)
        texts = [one.message if isinstance(one, errors.ToolAccessError) else str(one) for one in caught]
        (text,) = {one.removesuffix(LATE) for one in (*texts, *(str(one.error) for one in results))}

        assert {(outcome, kind, None)} == {(one.outcome, one.error_type, one.result) for one in results}
        assert text.startswith(("oops", "the tool tried to end", f"Arguments for '{name}", f"Tool '{name}"))
        assert [] == [one for one in caught if not isinstance(one, error)]
        assert ran == ([name] * 12 if outcome == "tool_error" else ran if name == "slow" else [])

    @pytest.mark.parametrize("name", ["add", "add_later"])
    def test_ok(self, home: ToolRegistry, name: str) -> None:
        """
        What succeeds carries the call's id, agent and value, and no error.
        """
        seen = {
            (one.tool_call_id, one.agent, one.success, one.error, one.attempts) for one in every_way(home, mine(name))
        }

        assert ({("1", "ann", True, None, 1)}, 3) == (seen, home.execute(mine(name, x=3)).result)

    def test_limited(self, home: ToolRegistry, body: Body) -> None:
        """
        Once calls that ran out of time hold all threads, the next is limited.
        """
        released = threading.Event()
        body.append(released.wait)
        results = (home.execute(mine("slow")) for _ in range(1000))
        found = next(one.outcome for one in results if one.outcome is not Outcome.TIMEOUT)
        caught = [type(one) for one in raised(home, mine("slow"))]
        released.set()

        assert (Outcome.LIMITED, [errors.ToolLimitedError] * 4) == (found, caught)
        assert 0 == home.drain(timeout=WAIT)

    def test_without_an_agent(self, home: ToolRegistry, ran: list[str]) -> None:
        """
        A call that names no agent, or the operator, is forbidden by rule `no-agent`, also where an agent runs.
        """
        calls = [ToolCall("1", name, {}, who) for name in ("add", "nope") for who in (None, "operator")]
        inside = agent("ann")(lambda: [home.execute(one) for one in calls])
        results = [*home.execute_batch(calls), *asyncio.run(home.aexecute_batch(calls)), *inside()]
        decided = [(one.outcome, one.decision.rule) for one in results if one.decision is not None]

        assert ([(Outcome.FORBIDDEN, "no-agent")] * 12, []) == (decided, ran)

    def test_the_operators_ways(self, home: ToolRegistry) -> None:
        """
        `execute(id, name, arguments)` and `execute_tool` speak for the operator outside, and for the agent inside.
        """

        def work() -> list[Any]:
            results = [home.execute("7", "theirs", {"x": 3}), asyncio.run(home.aexecute("7", "theirs", '{"x": 3}'))]
            return [(one.agent, one.outcome, one.result, one.decision.rule) for one in results]  # type: ignore[union-attr]

        assert [(None, Outcome.OK, 3, "operator")] * 2 == work()
        assert [("ann", Outcome.FORBIDDEN, None, "no-way")] * 2 == agent("ann")(work)()
        assert 3 == home.execute_tool("theirs", x=3)
        with pytest.raises(errors.ToolAccessError):
            agent("dan")(lambda: home.execute_tool("theirs", x=3))()
        with pytest.raises(errors.ToolUsageError, match="names 'ann'"):
            home.toolset("bob").execute(mine("theirs"))


class TestToolErrors:
    def test_are_the_built_in_class_too(self, home: ToolRegistry, body: Body) -> None:
        """
        The error is an instance of the built-in class that the tool raised, pickles and has the cause; save a few.
        """
        apart = (StopIteration, StopAsyncIteration, UnicodeError, BaseExceptionGroup)
        kinds = [one for one in vars(builtins).values() if isinstance(one, type) and issubclass(one, Exception)]
        given = [kind("bad") for kind in [Own, *kinds] if not issubclass(kind, apart)]
        given += [UnicodeDecodeError("utf8", b"x", 0, 1, "bad"), ExceptionGroup("a", [OSError()])]
        for cause in given:
            base = LookupError if type(cause) is Own else object if isinstance(cause, apart) else type(cause)
            body.append(lambda cause=cause: (_ for _ in ()).throw(cause))
            for error in raised(home, mine("probe")):
                again = pickle.loads(pickle.dumps(error))
                assert [True, True] == [isinstance(one, base) and not isinstance(one, apart) for one in (error, again)]
                assert (type(cause).__name__, str(error), "probe") == (again.error_type, str(again), again.tool)
                assert cause is error.__cause__

    @pytest.mark.parametrize("by", ["registry", "tool"])
    def test_masked(self, home: ToolRegistry, by: str) -> None:
        """
        `errors="masked"` hides the message behind an id by each way; what is wrong with arguments stays said.
        """
        if by == "tool":
            home.configure("boom", errors="masked")
        other = ToolRegistry(errors="masked")
        for one in home:
            other.register_tool(one)
        with home if by == "tool" else other as masked:
            call = mine("boom")
            texts = [*map(ToolResult.for_model, every_way(masked, call)), *map(str, raised(masked, call))]
            assert [] == [one for one in texts if "oops" in one or "The tool failed (error id " not in one]
            assert "$.x" in str(masked.execute(mine("boom", x="no")).error)

    def test_of_inner_tools(self, home: ToolRegistry, body: Body) -> None:
        """
        A tool calls others as its agent; an inner error let through keeps type and text, a refusal is an access error.
        """
        for name, kind, text in (("boom", "Own", "oops"), ("theirs", "ToolAccessError", "Tool 'theirs' is forbidden")):
            body.append(lambda name=name: current_agent().call(name))
            results, caught = every_way(home, mine("probe")), raised(home, mine("probe"))
            assert {(kind, True)} == {(one.error_type, str(one.error).startswith(text)) for one in results}
            assert [name == "boom"] * 4 == [isinstance(one, LookupError) for one in caught]
        body.append(lambda: [current_agent().name, current_agent().call("add", x=3)])
        assert [["ann", 3]] * 8 == [one.result for one in every_way(home, mine("probe"))]


class TestInterrupts:
    @pytest.mark.parametrize("engine", [None, "thread"])
    @pytest.mark.parametrize("name", ["stop", "stop_later"])
    def test_reach_the_caller(self, home: ToolRegistry, body: Body, name: str, engine: str | None) -> None:
        """
        `KeyboardInterrupt` reaches the caller of a sync and async tool; nothing is left behind, and the loop lives on.
        """
        body.append(lambda: id(asyncio.get_running_loop()))
        before = home.execute(mine("probe_later")).result
        home.configure(name, engine=engine)
        for work in (home.execute, home.toolset("ann").execute, lambda one: asyncio.run(home.aexecute(one))) * 2:
            with pytest.raises(KeyboardInterrupt):
                work(mine(name))
        assert (None, 0, before) == (current_call(), home.drain(timeout=0), home.execute(mine("probe_later")).result)

    def test_in_a_task_of_an_async_tool(self) -> None:
        """
        A task of an async tool that ends the program is a tool error, as the tool itself, and the loop lives on.
        """
        registry = ToolRegistry()

        async def child() -> None:
            raise SystemExit(3)

        @registry.tool(shared=True, description="Leave.")
        async def leave() -> None:
            await asyncio.gather(child())

        found = within(lambda: [registry.execute(mine("leave")).outcome for _ in range(2)])
        registry.close()

        assert [[Outcome.TOOL_ERROR] * 2] == found


class TestPolicies:
    @pytest.mark.parametrize("answer", [None, Ask("why"), *ODD], ids=repr)
    def test_answers(self, home: ToolRegistry, ran: list[str], answer: Any) -> None:
        """
        None lets pass and `Ask` asks; a `Deny`, a text, an exception and every unclear answer refuse.
        """
        lift, asks = home.add_policy(answer if callable(answer) else lambda *_: answer), isinstance(answer, Ask)
        outcome = Outcome.OK if answer is None else Outcome.APPROVAL_REQUIRED if asks else Outcome.FORBIDDEN

        assert ({outcome}, answer is None) == ({one.outcome for one in every_way(home, mine("add"))}, bool(ran))
        lift()
        assert Outcome.OK is home.execute(mine("add")).outcome

    def test_what_they_see(self, home: ToolRegistry) -> None:
        """
        A policy gets agent, tool and repaired arguments, runs in its own name, and never allows more than the rules.
        """
        seen: list[Any] = []

        @home.add_policy
        def policy(agent: str, tool: Any, arguments: dict[str, Any]) -> None:
            seen.append((agent, tool.name, arguments))
            with pytest.raises(errors.NotOwnerError, match="policy:policy"):
                home.share_tool("theirs")
            with pytest.raises(errors.ToolUsageError):
                current_agent()

        assert [3, None] == [home.execute(one).result for one in (mine("add", x="3"), mine("theirs"))]
        assert [("ann", "add", {"x": 3})] == seen


class TestClosing:
    @pytest.mark.parametrize("how", ["close", "aclose"])
    def test_refuses_whatever_is_new(self, home: ToolRegistry, ran: list[str], how: str) -> None:
        """
        After `close` or `aclose`, which are safe twice, every call and change is a `RegistryClosedError`.
        """
        works: list[Callable[[], Any]] = [
            lambda: home.toolset("ann").call("add"), lambda: home.toolset("ann").execute(mine("add")),
            lambda: home.execute(mine("add")), lambda: home.execute_tool("add"), lambda: home.share_tool("theirs"),
            lambda: asyncio.run(awaited(home, "add_later")), lambda: home.toolset("ann").call("probe_later"),
        ]  # fmt: skip
        close = home.close if how == "close" else lambda: asyncio.run(home.aclose())
        for work in (*works, close, close, ran.clear):
            work()
        for work in works:
            with pytest.raises(errors.RegistryClosedError):
                work()
        assert [] == ran

    def test_refuses_batches(self, home: ToolRegistry, body: Body, batch: Run) -> None:
        """
        A batch on a closed registry is refused at once.
        """
        body.append(threading.Barrier(8, timeout=WAIT).wait)
        for call in ([mine("probe")] * 8, *[[mine("boom_later")]] * 50):  # the threads of the first are idle at the end
            home.execute_batch(call)
        home.close()

        def refused() -> bool:
            with pytest.raises(errors.RegistryClosedError):
                batch(home, [mine("add")] * 2)
            return True

        assert [True] == within(refused)

    def test_drain_counts(self, home: ToolRegistry, body: Body) -> None:
        """
        `drain` returns how many calls are in flight: of all, of a tool, of an agent.
        """
        entered, released = threading.Barrier(3, timeout=WAIT), threading.Event()
        body.append(lambda: (entered.wait(), released.wait(WAIT)))
        with ThreadPoolExecutor(2) as pool:
            _ = [pool.submit(home.execute, mine("probe")) for _ in range(2)]
            entered.wait()
            filters: list[dict[str, Any]] = [{}, {"tool": "probe"}, {"agent": "ann"}, {"tool": "add"}, {"agent": "bob"}]
            found = [home.drain(**one, timeout=0) for one in filters]
            released.set()
        assert ([2, 2, 2, 0, 0], 0) == (found, home.drain(timeout=0))
