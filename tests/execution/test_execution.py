"""Calls: every outcome by every way and both roads, interrupts, time-outs, batches, policies, closing."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import pickle
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import pytest

from praval_tools import Agent, Ask, Deny, Outcome, ToolCall, ToolContext, ToolRegistry, ToolResult, errors
from praval_tools.execution.context import current_call
from praval_tools.registry.decorators import agent, current_agent, tool

WAIT = 30
"""Seconds after which what hangs fails the test."""
VAR: ContextVar[str] = ContextVar("var", default="unset")

Body = list[Callable[..., Any]]
Run = Callable[..., list[ToolResult]]


class Own(LookupError):
    """An exception of the tool's own."""


FAULTS: dict[str, BaseException] = {
    "boom": Own("oops"), "leave": SystemExit(3), "stop": KeyboardInterrupt(), "give_up": asyncio.CancelledError(),
}  # fmt: skip
KINDS: dict[str, dict[str, Any]] = {
    "add": {}, "off": {"tags": ["off"]}, "asked": {"requires_approval": True}, "alone": {"concurrency_safe": False},
    "theirs": {"owned_by": "bob", "shared": False}, "slow": {"timeout": 0.01}, "probe": {}, **dict.fromkeys(FAULTS, {}),
}  # fmt: skip


def shared(**more: Any) -> Any:
    """Declare a tool for everybody."""
    return tool(**{"shared": True, "description": "For a test.", **more})


def stock(name: str, ran: list[str], body: Body, **more: Any) -> None:
    """Declare a sync and an awaited tool: they fail by their name, or do what *body* says."""

    def now(x: int = 0) -> Any:
        ran.append(name)
        if name in FAULTS:
            raise type(FAULTS[name])(*FAULTS[name].args)
        return body[-1]() if name in ("probe", "alone", "slow") else x

    async def later(x: int = 0) -> Any:
        value = now(x) if name != "slow" else asyncio.Event().wait()
        return await value if hasattr(value, "__await__") else value

    shared(name=name, **more)(now)
    shared(name=f"{name}_later", **more)(later)


@pytest.fixture
def ran() -> list[str]:
    """The names of the tools that were entered."""
    return []


@pytest.fixture
def body() -> Body:
    """What the tools `probe` and `alone` do; `slow` waits."""
    return [lambda: threading.Event().wait(0.1)]


@pytest.fixture(params=["short", "long"])
def home(request: pytest.FixtureRequest, tool_registry: ToolRegistry, ran: list[str], body: Body) -> ToolRegistry:
    """The default registry with tools of all kinds: its calls take the short road, or cannot."""
    for name, more in KINDS.items():
        stock(name, ran, body, **more)
    tool_registry.disable(tag="off")
    if request.param == "long":
        tool_registry.add_policy(lambda agent, tool, arguments: None)
    return tool_registry


@pytest.fixture(params=["sync", "async"])
def batch(request: pytest.FixtureRequest) -> Run:
    """Run a batch, in both forms."""
    sync = request.param == "sync"
    return lambda home, *given: home.execute_batch(*given) if sync else asyncio.run(home.aexecute_batch(*given))


def mine(tool_name: str, **arguments: Any) -> ToolCall:
    """Return a call of ann's."""
    return ToolCall("1", tool_name, arguments, "ann")


def every_way(home: ToolRegistry, call: ToolCall) -> list[ToolResult]:
    """Run a call by each way twice, so that the second finds a lane where there can be one."""
    ways = [home.toolset("ann"), home] * 2
    return [one.execute(call) for one in ways] + [asyncio.run(one.aexecute(call)) for one in ways]


def raised(home: ToolRegistry, call: ToolCall) -> list[errors.ToolCallError]:
    """Return what `call` and `acall` raise, twice each."""
    tools, caught = home.toolset("ann"), list[errors.ToolCallError]()
    for work in (tools.call, lambda *a, **k: asyncio.run(tools.acall(*a, **k))) * 2:
        with pytest.raises(errors.ToolCallError) as one:
            work(call.name, **call.arguments)
        caught.append(one.value)
    return caught


async def awaited(home: ToolRegistry, name: str) -> tuple[Any, int]:
    """Return how an awaited call ends, and how often its task is cancelled after it."""
    try:
        found: Any = (await home.aexecute(mine(name))).outcome
    except asyncio.CancelledError:
        found = Outcome.CANCELLED
    await asyncio.sleep(0)
    return found, asyncio.current_task().cancelling()  # type: ignore[union-attr]


async def on_loop(work: Callable[[], Any]) -> Any:
    """Do sync work where a loop runs."""
    return work()


def within(work: Callable[[], Any]) -> list[Any]:
    """Return what *work* gives, in a list that is empty where it hangs."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()), daemon=True)
    thread.start()
    thread.join(WAIT)
    return found


FAILURES: dict[str, tuple[str, str, type[errors.ToolCallError]]] = {
    "boom": ("tool_error", "Own", errors.ToolExecutionError), "off": ("disabled", "disabled", errors.ToolAccessError),
    "leave": ("tool_error", "SystemExit", errors.ToolExecutionError),
    "theirs": ("forbidden", "forbidden", errors.ToolAccessError),
    "add": ("invalid_arguments", "invalid-arguments", errors.ToolArgumentsError),
    "ad": ("unknown_tool", "unknown-tool", errors.UnknownToolCallError),
    "asked": ("approval_required", "approval-required", errors.ToolApprovalError),
    "slow": ("timeout", "tool-timeout", errors.ToolTimeoutError),
}  # fmt: skip
LATE = " It may still be running."
ODD: list[Any] = [Deny("no"), Deny(), "no", "", True, False, 0, [], Outcome.OK, ValueError(), len]


class TestOutcomes:
    @pytest.mark.parametrize("ending", ["", "_later"], ids=["sync", "async"])
    @pytest.mark.parametrize("name", FAILURES)
    def test_failures(self, home: ToolRegistry, ran: list[str], name: str, ending: str) -> None:
        """
        Every failure has the same outcome, type and text by each way and road, and a typed error that says the same.
        """
        outcome, kind, error = FAILURES[name]
        call = mine(name + ending, x="no" if name == "add" else 1)
        results, caught = every_way(home, call), raised(home, call)
        (text,) = {str(one).removesuffix(LATE) for one in (*caught, *(one.error for one in results))}

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


class TestTime:
    def test_a_sync_tool_may_still_run(self, home: ToolRegistry) -> None:
        """
        The time-out of a sync tool says that it may still run; the tool can see it, and drains at its end.
        """
        released, seen = threading.Event(), list[bool]()

        @shared(timeout=0.3)
        def stay(context: ToolContext) -> None:
            released.wait(WAIT)
            seen.append(context.cancelled)

        results = [home.execute(mine("stay")), asyncio.run(home.aexecute(mine("stay")))]

        assert [f"Tool 'stay' did not finish within 0.3 s.{LATE}"] * 2 == [one.error for one in results]
        released.set()
        assert (0, [True, True]) == (home.drain(timeout=WAIT), seen)

    @pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.TIMEOUT])
    def test_a_swallowed_cancellation(self, home: ToolRegistry, body: Body, outcome: Outcome) -> None:
        """
        A tool that answers its time-out by a value has finished, by an error is late; the caller stays uncancelled.
        """
        home.configure("probe_later", timeout=0.01)

        async def stubborn() -> None:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            await asyncio.sleep(0, 1 / (outcome is Outcome.OK))

        body.append(stubborn)
        assert (outcome, 0) == asyncio.run(awaited(home, "probe_later"))
        assert outcome is home.execute(mine("probe_later")).outcome

    def test_somebody_elses_time_out(self, home: ToolRegistry, body: Body) -> None:
        """
        A time-out of the tool's own is its error and no outcome `timeout`; the caller's is the caller's.
        """

        async def wait(seconds: float | None = None) -> None:
            async with asyncio.timeout(seconds):
                await (home.toolset("ann").acall("probe_later") if seconds else asyncio.Event().wait())

        body.append(wait)
        with pytest.raises(TimeoutError) as caught:
            asyncio.run(wait(0.01))
        body.append(lambda: asyncio.wait_for(asyncio.Event().wait(), 0.001))

        assert {"TimeoutError"} == {one.error_type for one in every_way(home, mine("probe_later"))}
        assert TimeoutError is type(caught.value)

    def test_a_cancellation_of_the_tools_own(self, home: ToolRegistry) -> None:
        """
        A `CancelledError` that the tool raises is no time-out, and leaves nobody cancelled.
        """
        assert (Outcome.CANCELLED, 0) == asyncio.run(awaited(home, "give_up_later"))
        assert Outcome.CANCELLED is home.execute(mine("give_up_later")).outcome

    def test_in_a_task_that_was_cancelled_before(self, home: ToolRegistry) -> None:
        """
        A time-out in the clean-up of a cancelled task is a time-out.
        """

        async def main() -> Any:
            asyncio.current_task().cancel()  # type: ignore[union-attr]
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
            return await awaited(home, "slow_later")

        assert (Outcome.TIMEOUT, 1) == asyncio.run(main())

    @pytest.mark.parametrize("name", ["probe", "probe_later"])
    def test_cancelling_the_awaiting_task(self, home: ToolRegistry, body: Body, name: str) -> None:
        """
        It raises at once and cancels an async tool, as its agent; a sync one in its thread goes on to its end.
        """
        entered, released, seen = threading.Semaphore(0), threading.Event(), list[str]()

        async def wait() -> None:
            try:
                entered.release()
                await asyncio.Event().wait()
            finally:
                seen.append(current_agent().name)

        async def main() -> list[Any]:
            tasks = [asyncio.create_task(one) for one in (home.toolset("ann").acall(name), home.aexecute(mine(name)))]
            await asyncio.to_thread(lambda: [entered.acquire(timeout=WAIT) for _ in tasks])
            for task in tasks:
                task.cancel()
            return [type(one) for one in await asyncio.gather(*tasks, return_exceptions=True)]

        body.append(wait if name == "probe_later" else lambda: entered.release() or released.wait(WAIT))
        found, inside = asyncio.run(main()), home.drain(timeout=0)
        released.set()

        assert ([asyncio.CancelledError] * 2, 0) == (found, home.drain(timeout=WAIT))
        assert (inside, seen) == ((2, []) if name == "probe" else (0, ["ann", "ann"]))


class TestContext:
    def test_a_sync_call_where_a_loop_runs(self, home: ToolRegistry) -> None:
        """
        Every sync way to an async tool is refused on a loop's thread, and names `acall`.
        """
        ann = home.toolset("ann")
        ways: list[Callable[[], Any]] = [
            lambda: ann.call("add_later"), lambda: ann.execute(mine("add_later")), ann["add_later"],
            lambda: home.execute(mine("add_later")), lambda: home.execute_tool("add_later"),
        ]  # fmt: skip

        for way in ways:
            with pytest.raises(errors.ToolUsageError, match="await acall") as caught:
                asyncio.run(on_loop(way))
            assert "sync-call-in-event-loop" == caught.value.code

    def test_such_a_call_inside_a_tool(self, home: ToolRegistry, body: Body) -> None:
        """
        Where a tool makes that mistake it is the tool's error: `execute` raises nothing.
        """
        body.append(lambda: current_agent().call("add_later"))

        assert Outcome.TOOL_ERROR == asyncio.run(on_loop(lambda: home.execute(mine("probe")).outcome))

    def test_one_background_loop(self, home: ToolRegistry, body: Body) -> None:
        """
        Sync code's calls of async tools share one loop, from whatever thread; another registry has its own.
        """
        body.append(lambda: id(asyncio.get_running_loop()))
        with home.fork() as other, ThreadPoolExecutor(2) as pool:
            ids = pool.map(lambda _: home.execute(mine("probe_later")).result, range(4))
            assert {home.toolset("ann").call("probe_later")} == set(ids)
            assert home.toolset("ann").call("probe_later") != other.toolset("ann").call("probe_later")

    @pytest.mark.parametrize("name", ["probe", "probe_later"])
    def test_current_call(self, home: ToolRegistry, body: Body, name: str) -> None:
        """
        `current_call()` in a tool is the call as it was given, by every way, with an id of its own if it had none.
        """
        body.append(current_call)
        call = ToolCall("7", name, {}, "ann", "run", ("boss",))

        assert 8 == len({one.result.tool_call_id for one in every_way(home, ToolCall(None, name, {}, "ann"))} - {None})
        assert [call] * 8 == [one.result for one in every_way(home, call)]
        assert current_call() is None

    @pytest.mark.parametrize("name", ["add", "add_later"])
    def test_an_id_is_made_for_who_asks(self, home: ToolRegistry, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        A call without id gets one where something needs it, and none is made where nothing does.
        """
        monkeypatch.setattr(ToolCall, "with_id", lambda _: pytest.fail("an id was made"))

        assert [None] * 8 == [one.tool_call_id for one in every_way(home, ToolCall(None, name, {}, "ann"))]

    def test_context_variables(self, home: ToolRegistry, body: Body, batch: Run) -> None:
        """
        A tool sees its caller's context variables in every thread and loop.
        """
        VAR.set("set")
        body.append(VAR.get)
        calls = [mine("probe"), mine("probe_later")] * 2
        results = [*(one for call in calls for one in every_way(home, call)), *batch(home, calls)]

        assert {"set"} == {one.result for one in results}

    def test_tool_context(self, home: ToolRegistry) -> None:
        """
        A `ToolContext` parameter is filled in, never shown to a model, and cannot be passed.
        """

        @shared()
        def look(context: ToolContext, x: int) -> list[Any]:
            return [context.agent, context.chain, context.tool_call_id, context.run_id, context.registry is home, x]

        results = every_way(home, ToolCall("7", "look", {"x": 1}, "ann", "run"))

        assert [["ann", (), "7", "run", True, 1]] * 8 == [one.result for one in results]
        assert ["bob", ("ann",)] == Agent("ann").delegate("bob").call("look", x=1)[:2]
        assert ["x"] == list(look.parameters["properties"])
        assert Outcome.INVALID_ARGUMENTS is home.execute(mine("look", x=1, context={})).outcome

    def test_generators(self, home: ToolRegistry) -> None:
        """
        A generator or async generator as a tool gives a list, made as its agent; its error is the tool's.
        """

        @shared()
        def steps(x: int) -> Iterator[Any]:
            yield [current_agent().name, 1 / x]

        @shared()
        async def asteps(x: int) -> AsyncIterator[Any]:
            await asyncio.sleep(0)
            yield [current_agent().name, 1 / x]

        for name in ("steps", "asteps"):
            assert [[["ann", 0.5]]] * 8 == [one.result for one in every_way(home, mine(name, x=2))]
            assert {"ZeroDivisionError"} == {one.error_type for one in every_way(home, mine(name, x=0))}


class TestBatch:
    def test_results_in_call_order(self, home: ToolRegistry, batch: Run) -> None:
        """
        Calls run side by side, and their results stand in call order, though the last ends first.
        """
        turns = [threading.Event() for _ in range(3)]

        @shared()
        def turn(x: int) -> int:
            assert x == 2 or turns[x + 1].wait(WAIT)
            turns[x].set()
            return x

        calls = (ToolCall(str(x), "turn", {"x": x}, "ann") for x in range(3))

        assert [("0", 0), ("1", 1), ("2", 2)] == [(one.tool_call_id, one.result) for one in batch(home, calls)]

    def test_failures_and_junk(self, home: ToolRegistry, batch: Run) -> None:
        """
        Each failure and each thing that is no call has a result of its own, and touches no neighbour.
        """
        wrong = [None, 3, mine("boom"), mine("leave_later"), mine("ad"), ToolCall("1", "add"), mine("off")]
        results = batch(home, [one for bad in wrong for one in (mine("add", x=3), bad)])
        kinds = ["invalid-call", "invalid-call", "Own", "SystemExit", "unknown-tool", "forbidden", "disabled"]

        assert [3] * 7 == [one.result for one in results[::2]]
        assert kinds == [one.error_type for one in results[1::2]]

    def test_a_cancellation_of_a_tools_own(self, home: ToolRegistry, ran: list[str], batch: Run) -> None:
        """
        A tool that ends in a `CancelledError` runs once and is one failure among the results.
        """
        found = [one.success for one in batch(home, [mine("add"), mine("give_up_later"), mine("add")])]

        assert ([True, False, True], ["add", "add", "give_up"]) == (found, sorted(ran))

    def test_what_must_run_alone(self, home: ToolRegistry, body: Body, ran: list[str], batch: Run) -> None:
        """
        While a tool that is not `concurrency_safe` is inside nothing else is, in a batch and by threads of one's own.
        """
        met, inside, pause = list[bool](), list[int](), threading.Event()

        def enter(alone: bool) -> None:
            inside.append(alone)
            met.append(len(inside) > 1 and any(inside))
            pause.wait(0.02)
            inside.remove(alone)

        shared(name="together")(lambda: enter(False))
        body.append(lambda: enter(True))
        calls = [mine(name) for name in ("together", "alone", "alone_later") * 2]
        with ThreadPoolExecutor(6) as pool:
            results = [*batch(home, calls), *pool.map(home.execute, calls)]

        assert ([True] * 12, [False] * 12) == ([one.success for one in results], met)

    def test_max_parallel(self, home: ToolRegistry, body: Body, batch: Run) -> None:
        """
        Exactly as many calls as `max_parallel` says are inside at once.
        """
        pair, inside, most = threading.Barrier(2, timeout=WAIT), list[int](), list[int]()

        def meet() -> None:
            inside.append(1)
            pair.wait()
            most.append(len(inside))
            pair.wait()
            inside.pop()

        body.append(meet)
        assert ([True] * 6, [2] * 6) == ([one.success for one in batch(home, [mine("probe")] * 6, 2)], most)


class TestPolicies:
    @pytest.mark.parametrize("answer", [None, Ask("why"), *ODD], ids=repr)
    def test_answers(self, home: ToolRegistry, ran: list[str], answer: Any) -> None:
        """
        None lets pass and `Ask` asks; a no, a text, an exception and whatever is no clear answer refuse.
        """
        lift, asks = home.add_policy(answer if callable(answer) else lambda *_: answer), isinstance(answer, Ask)
        outcome = Outcome.OK if answer is None else Outcome.APPROVAL_REQUIRED if asks else Outcome.FORBIDDEN

        assert ({outcome}, answer is None) == ({one.outcome for one in every_way(home, mine("add"))}, bool(ran))
        lift()
        assert Outcome.OK is home.execute(mine("add")).outcome

    def test_what_they_see(self, home: ToolRegistry) -> None:
        """
        A policy gets agent, tool and repaired arguments, acts in its own name, and never allows more than the rules.
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
        `drain` tells how many calls are inside: of all, of a tool, of an agent.
        """
        entered, released = threading.Barrier(3, timeout=WAIT), threading.Event()
        body.append(lambda: (entered.wait(), released.wait(WAIT)))
        with ThreadPoolExecutor(2) as pool:
            _ = [pool.submit(home.execute, mine("probe")) for _ in range(2)]
            entered.wait()
            wishes: list[dict[str, Any]] = [{}, {"tool": "probe"}, {"agent": "ann"}, {"tool": "add"}, {"agent": "bob"}]
            found = [home.drain(**one, timeout=0) for one in wishes]
            released.set()
        assert ([2, 2, 2, 0, 0], 0) == (found, home.drain(timeout=0))
