"""What can go wrong with a journaled call: approvals, time-outs, cancellation, odd results; sync and async."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from praval_tools import (
    Allow,
    ApprovalRequest,
    Deny,
    Outcome,
    RetryableToolError,
    ToolCall,
    ToolRegistry,
    ToolResult,
)
from praval_tools.clock import SystemClock
from praval_tools.journal.events import AgentToolCall, AgentToolResult, ApprovalAnswered, CallRefused, LateResult

pytestmark = pytest.mark.usefixtures("roads")

Ask = Callable[[ApprovalRequest], Any]


class Hand(SystemClock):
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.at = datetime(2030, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        """Return the moment to which it was moved."""
        return self.at


class House:
    """A registry over a file, with tools that go wrong, driven from sync or from async code."""

    def __init__(self, path: Path, driver: str, **options: Any) -> None:
        self.path, self.driver = path, driver
        self.ran: list[Any] = []
        self.gate = threading.Event()
        self.registry = ToolRegistry(journal=path, retry_wait=0, **options)
        self._declare(self.registry)

    def _declare(self, registry: ToolRegistry) -> None:
        ran, gate = self.ran, self.gate

        @registry.tool("pay", owned_by="ann", requires_approval=True)
        def pay(to: str, amount: int = 1) -> int:
            """Pay."""
            ran.append((to, amount))
            return amount

        @registry.tool("slow", owned_by="ann", timeout=0.02)
        def slow(fail: bool = False) -> str:
            """Come late."""
            gate.wait(30)
            if fail:
                raise ValueError("late and wrong")
            return "late"

        @registry.tool("odd", owned_by="ann")
        def odd() -> Any:
            """Give what has no JSON form."""
            ran.append("odd")
            return threading.Lock()

        @registry.tool("big", owned_by="ann", max_result_size=100)
        def big(size: int) -> str:
            """Give a lot."""
            ran.append("big")
            return "x" * size

        @registry.tool("flaky", owned_by="ann", retries=2)
        def flaky() -> int:
            """Succeed the third time."""
            ran.append("flaky")
            if len(ran) < 3:
                raise RetryableToolError("not yet")
            return len(ran)

        @registry.tool("broken", owned_by="ann")
        def broken() -> None:
            """Fail."""
            raise ValueError("the inner reason")

        @registry.tool("add", owned_by="ann")
        def add(x: int) -> int:
            """Add."""
            ran.append(x)
            return x + 1

        @registry.tool("outer", owned_by="ann")
        def outer() -> list[Any]:
            """Call others."""
            me = registry.agent("ann").tools
            return [me.call("add", x=1), me.execute(ToolCall(None, "nope", {})).outcome.value]

    def call(self, tool: str, arguments: Any = None, agent: Any = "ann", name: str | None = None) -> ToolResult:
        """Return what comes of a call."""
        call = ToolCall(name, tool, {} if arguments is None else arguments, agent)
        if self.driver == "sync":
            return self.registry.execute(call)
        return asyncio.run(self.registry.aexecute(call))

    def ask(self, handler: Ask) -> None:
        """Set an approval handler, sync or async."""

        async def later(request: ApprovalRequest) -> Any:
            await asyncio.sleep(0)
            return handler(request)

        self.registry.set_approval_handler(handler if self.driver == "sync" else later)

    def events(self, kind: Any = object) -> list[Any]:
        """Return the events of a kind."""
        assert self.registry.journal is not None
        return [one for one in self.registry.journal.events() if isinstance(one, kind)]

    def types(self) -> list[str]:
        """Return the types of the events of calls, in order."""
        return [one.type.value for one in self.events() if hasattr(one, "tool_call_id")]

    def again(self, **options: Any) -> House:
        """Return the house of the next process."""
        self.gate.set()
        self.registry.close()
        return House(self.path, self.driver, **options)


@pytest.fixture(params=["sync", "async"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A house for each driver."""
    made = House(tmp_path / "runs.db", request.param)
    yield made
    made.gate.set()
    made.registry.close()


class TestApprovals:
    def test_a_handler_that_raises(self, house: House) -> None:
        """It is a no, written down as one."""

        def handler(request: ApprovalRequest) -> Any:
            raise RuntimeError("out to lunch")

        house.ask(handler)

        assert Outcome.APPROVAL_DENIED is house.call("pay", {"to": "bob"}).outcome
        assert [] == house.ran
        assert ["approval_asked", "approval_answered", "call_refused"] == house.types()
        assert "deny" == house.events(ApprovalAnswered)[0].answer

    def test_an_answer_that_comes_late(self, tmp_path: Path) -> None:
        """An allow after the request has expired is a no."""
        for driver in ("sync", "async"):
            clock = Hand()
            house = House(tmp_path / f"{driver}.db", driver, clock=clock)

            def handler(request: ApprovalRequest, clock: Hand = clock) -> Any:
                clock.at += timedelta(hours=2)
                return Allow()

            house.ask(handler)
            assert Outcome.APPROVAL_DENIED is house.call("pay", {"to": "bob"}).outcome
            assert ([], "deny") == (house.ran, house.events(ApprovalAnswered)[0].answer)
            house.registry.close()

    def test_an_answer_that_is_none(self, house: House) -> None:
        """None is a no."""
        house.ask(lambda request: None)

        assert Outcome.APPROVAL_DENIED is house.call("pay", {"to": "bob"}).outcome
        assert [] == house.ran

    def test_edited_out_of_bounds(self, house: House) -> None:
        """Edited arguments are decided again: outside of the bounds of the grant the call is forbidden."""
        house.registry.assign_tool_to_agent("pay", "bob", where={"amount": {"maximum": 10}}, max_calls=5)
        house.ask(lambda request: Allow({"to": "bob", "amount": 11}, "boss"))

        assert Outcome.FORBIDDEN is house.call("pay", {"to": "bob", "amount": 1}, "bob").outcome
        assert [] == house.ran
        assert {"to": "bob", "amount": 11} == house.events(ApprovalAnswered)[0].arguments
        assert 5 == house.registry.uses_left(house.registry.grants(agent="bob")[0])

    def test_edited_to_what_does_not_fit(self, house: House) -> None:
        """Nor do they get past the schema."""
        house.ask(lambda request: Allow({"to": "bob", "amount": "many"}, "boss"))

        assert Outcome.INVALID_ARGUMENTS is house.call("pay", {"to": "bob"}).outcome
        assert [] == house.ran

    def test_edited_arguments_are_what_is_recorded(self, house: House) -> None:
        """The call event says what the tool got, the answer who changed it."""
        house.ask(lambda request: Allow({"to": "eve", "amount": 2}, "boss"))

        assert 2 == house.call("pay", {"to": "bob"}).result
        assert {"to": "eve", "amount": 2} == house.events(AgentToolCall)[0].arguments
        assert "boss" == house.events(ApprovalAnswered)[0].by
        assert ["approval_asked", "approval_answered", "agent_tool_call", "agent_tool_result"] == house.types()

    def test_a_revocation_while_it_waits(self, house: House) -> None:
        """Whoever lost the tool meanwhile does not run it, however the answer is; no use is spent."""
        house.registry.assign_tool_to_agent("pay", "bob", max_calls=2)

        def handler(request: ApprovalRequest) -> Any:
            house.registry.remove_tool_from_agent("pay", "bob")
            return Allow()

        house.ask(handler)

        assert Outcome.FORBIDDEN is house.call("pay", {"to": "bob"}, "bob").outcome
        assert [] == house.ran
        assert [] == house.events(AgentToolCall)
        assert 1 == len(house.events(CallRefused))

    def test_a_change_by_another_process_while_it_waits(self, house: House) -> None:
        """A block that somebody else sets between decision and start counts."""
        with ToolRegistry(journal=house.path) as other:

            def handler(request: ApprovalRequest) -> Any:
                other.block("pay", "ann")
                return Allow()

            house.ask(handler)

            assert Outcome.FORBIDDEN is house.call("pay", {"to": "bob"}).outcome
            assert [] == house.ran
            assert [] == house.events(AgentToolCall)


class TestRecordedAnswers:
    """A call of a run waits; the answer is recorded, the process ends, and the next one asks again."""

    def begin(self, house: House, answer: Any, **options: Any) -> House:
        """Let a call wait, answer it, and start anew."""
        with house.registry.run("r"):
            assert Outcome.APPROVAL_REQUIRED is house.call("pay", {"to": "bob"}, name="c1").outcome
        house.registry.approvals.answer("c1", answer)
        return house.again(**options)

    def test_it_survives_and_is_used_once(self, house: House) -> None:
        """The call passes with the recorded answer, and is replayed from then on; a second such call asks again."""
        second = self.begin(house, Allow(None, "boss"))
        with second.registry.run("r"):
            assert Outcome.OK is second.call("pay", {"to": "bob"}, name="c1").outcome
            assert second.call("pay", {"to": "bob"}, name="c1").replayed
            assert Outcome.APPROVAL_REQUIRED is second.call("pay", {"to": "bob"}, name="c2").outcome
        assert [("bob", 1)] == second.ran
        third = second.again()
        with third.registry.run("r"):
            assert third.call("pay", {"to": "bob"}, name="c1").replayed
            assert Outcome.APPROVAL_REQUIRED is third.call("pay", {"to": "bob"}, name="c2").outcome
        assert [] == third.ran
        third.registry.close()

    def test_a_no_survives(self, house: House) -> None:
        """So does a recorded no."""
        second = self.begin(house, Deny("too much", "boss"))
        with second.registry.run("r"):
            result = second.call("pay", {"to": "bob"}, name="c1")
        assert (Outcome.APPROVAL_DENIED, []) == (result.outcome, second.ran)
        assert "too much" in str(result.error)
        second.registry.close()

    def test_edits_survive(self, house: House) -> None:
        """What the answer changed is what the tool gets."""
        second = self.begin(house, Allow({"to": "eve", "amount": 3}, "boss"))
        with second.registry.run("r"):
            assert 3 == second.call("pay", {"to": "bob"}, name="c1").result
        assert [("eve", 3)] == second.ran
        second.registry.close()

    @pytest.mark.parametrize(
        ("arguments", "agent"), [({"to": "eve"}, "ann"), ({"to": "bob", "amount": 2}, "ann"), ({"to": "bob"}, "cid")]
    )
    def test_it_is_bound_to_arguments_and_agent(self, house: House, arguments: Any, agent: str) -> None:
        """Another call does not pass with it."""
        second = self.begin(house, Allow(None, "boss"))
        second.registry.assign_tool_to_agent("pay", "cid")
        with second.registry.run("r"):
            assert Outcome.APPROVAL_REQUIRED is second.call("pay", arguments, agent).outcome
        assert [] == second.ran
        second.registry.close()

    def test_it_is_bound_to_the_definition(self, house: House) -> None:
        """A tool that is another one by now asks again."""
        second = self.begin(house, Allow(None, "boss"))
        second.registry.unregister_tool("pay")

        @second.registry.tool("pay", owned_by="ann", requires_approval=True)
        def pay(to: str, amount: int = 1, currency: str = "EUR") -> int:
            """Pay in another way."""
            second.ran.append(to)
            return amount

        with second.registry.run("r"):
            assert Outcome.APPROVAL_REQUIRED is second.call("pay", {"to": "bob"}, name="c1").outcome
        assert [] == second.ran
        second.registry.close()

    def test_it_expires(self, tmp_path: Path) -> None:
        """An answer that nobody used in its time counts no more."""
        for driver in ("sync", "async"):
            clock = Hand()
            house = House(tmp_path / f"{driver}.db", driver, clock=clock)
            second = self.begin(house, Allow(None, "boss"), clock=clock)
            clock.at += timedelta(hours=2)
            with second.registry.run("r"):
                assert Outcome.APPROVAL_REQUIRED is second.call("pay", {"to": "bob"}, name="c1").outcome
            assert [] == second.ran
            second.registry.close()


class TestTimeouts:
    @pytest.mark.parametrize(("fail", "outcome"), [(False, "ok"), (True, "tool_error")])
    def test_a_thread_that_ends_later(self, house: House, fail: bool, outcome: str) -> None:
        """Its end is written down as such, and changes no outcome: neither of the call nor of its replay."""
        with house.registry.run("r"):
            assert Outcome.TIMEOUT is house.call("slow", {"fail": fail}).outcome
        house.gate.set()
        house.registry.drain()
        second = house.again()
        (late,) = second.events(LateResult)
        assert outcome == late.outcome
        assert ("late" == late.result) if not fail else "late and wrong" in late.error
        with second.registry.run("r"):
            result = second.call("slow", {"fail": fail})
            assert (Outcome.TIMEOUT, True) == (result.outcome, result.replayed)
        second.registry.close()

    def test_a_late_result_that_raises_while_it_is_written(self, house: House) -> None:
        """It is written down as an error that came late."""

        class Table:
            """A table that cannot give its rows."""

            def tolist(self) -> Any:
                """Fail."""
                raise RuntimeError("no rows")

        @house.registry.tool("table", owned_by="ann", timeout=0.02)
        def table() -> Any:
            """Come late."""
            house.gate.wait(30)
            return Table()

        with house.registry.run("r"):
            assert Outcome.TIMEOUT is house.call("table").outcome
        house.gate.set()
        house.registry.drain()
        (late,) = house.again().events(LateResult)
        assert (Outcome.TOOL_ERROR, "no rows") == (late.outcome, late.error)

    def test_a_tool_that_swallows_cancellation(self, tmp_path: Path) -> None:
        """An async tool that answers its time-out by a value has finished; that is recorded, and nothing is late."""
        house = House(tmp_path / "runs.db", "async")
        ended = threading.Event()

        @house.registry.tool("deaf", owned_by="ann", timeout=0.02)
        async def deaf() -> str:
            """Hear nothing."""
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ended.set()
            return "after all"

        result = house.call("deaf")

        assert ended.is_set()
        assert (Outcome.OK, "after all") == (result.outcome, result.result)
        assert ["agent_tool_call", "agent_tool_result"] == house.types()
        house.registry.close()


class TestCancellation:
    def test_the_awaiting_task_is_cancelled(self, tmp_path: Path) -> None:
        """The tool is cancelled, `cancelled` is written down, the cancellation goes on, and a rerun is in doubt."""
        house = House(tmp_path / "runs.db", "async")
        registry = house.registry

        async def play() -> None:
            inside = asyncio.Event()

            @registry.tool("wait", owned_by="ann")
            async def wait() -> None:
                """Wait for ever."""
                inside.set()
                await asyncio.Event().wait()

            async with registry.run("r"):
                task = asyncio.create_task(registry.aexecute(ToolCall("c1", "wait", {}, "ann")))
                await inside.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            async with registry.run("r") as run:
                assert ["c1"] == [one.tool_call_id for one in run.in_doubt]
                assert Outcome.IN_DOUBT is (await registry.aexecute(ToolCall("c1", "wait", {}, "ann"))).outcome

        asyncio.run(play())
        assert [Outcome.CANCELLED] == [one.outcome for one in house.events(AgentToolResult)]
        registry.close()


class TestResults:
    def test_what_cannot_be_encoded(self, house: House) -> None:
        """It is a `tool_error` that names the type; recorded, and replayed without a second run."""
        for replayed in (False, True):
            with house.registry.run("r"):
                result = house.call("odd")
            assert (Outcome.TOOL_ERROR, replayed) == (result.outcome, result.replayed)
            assert "lock" in str(result.error)
        assert ["odd"] == house.ran
        assert [Outcome.TOOL_ERROR] == [one.outcome for one in house.events(AgentToolResult)]

    @pytest.mark.parametrize("error", [RuntimeError, UnicodeDecodeError, SystemExit])
    def test_what_raises_while_it_is_written(self, house: House, error: type[BaseException]) -> None:
        """What code of the result's own raises is the tool's error: recorded, replayed, and nothing is in doubt."""

        class Table:
            """A table that cannot give its rows."""

            def tolist(self) -> Any:
                """Fail."""
                raise UnicodeDecodeError("utf-8", b"x", 0, 1, "bad") if error is UnicodeDecodeError else error("bad")

        @house.registry.tool("table", owned_by="ann")
        def table() -> Any:
            """Give a table."""
            house.ran.append("table")
            return {"rows": Table()}

        for replayed in (False, True):
            with house.registry.run("r") as run:
                result = house.call("table")
                assert [] == run.in_doubt
            assert (Outcome.TOOL_ERROR, replayed) == (result.outcome, result.replayed)
            assert error.__name__ == result.error_type
        assert ["table"] == house.ran
        assert [Outcome.TOOL_ERROR] == [one.outcome for one in house.events(AgentToolResult)]

    @pytest.mark.parametrize("given", [None, "no", 2.5, True])
    def test_what_is_not_as_declared(self, house: House, given: Any) -> None:
        """A plain value that is none of the return hint is a `tool_error`, too: nothing is raised, or left in doubt."""

        @house.registry.tool("wrong", owned_by="ann")
        def wrong() -> int:
            """Give something else."""
            house.ran.append("wrong")
            return given  # type: ignore[no-any-return]

        for _ in range(2):
            with house.registry.run("r") as run:
                results = [house.call("wrong", name=f"c{number}") for number in range(3)]
                assert [] == run.in_doubt
            assert {Outcome.TOOL_ERROR} == {one.outcome for one in results}
            assert all(type(given).__name__ in str(one.error) for one in results)
        assert ["wrong"] * 3 == house.ran
        assert [Outcome.TOOL_ERROR] * 3 == [one.outcome for one in house.events(AgentToolResult)]

    def test_fifty_megabytes(self, house: House) -> None:
        """They are recorded whole and replayed equal; a model sees the beginning and the end."""
        size = 50_000_000
        results = []
        for _ in range(2):
            with house.registry.run("r"):
                results.append(house.call("big", {"size": size}))
        live, again = results

        assert [False, True] == [one.replayed for one in results]
        assert size == len(live.result)
        assert live.result == again.result
        assert live.for_model() == again.for_model()
        assert len(again.for_model()) <= 100
        assert ["big"] == house.ran

    def test_retries(self, house: House) -> None:
        """Every start is written down with its number, and one result for all."""
        assert Outcome.OK is house.call("flaky").outcome
        assert [1, 2, 3] == [one.attempt for one in house.events(AgentToolCall)]
        assert [3] == [one.attempts for one in house.events(AgentToolResult)]

    def test_masked_errors(self, tmp_path: Path) -> None:
        """The id that a model was told is found in the journal, beside what the tool said."""
        for driver in ("sync", "async"):
            house = House(tmp_path / f"{driver}.db", driver, errors="masked")
            error = str(house.call("broken").error)
            assert "inner reason" not in error
            (found,) = house.events(AgentToolResult)
            assert error == found.error
            assert "the inner reason" == found.detail
            house.registry.close()


class TestTheTrailHasNoHoles:
    @pytest.mark.parametrize("case", range(11))
    def test_every_refusal_is_an_event(self, house: House, case: int) -> None:
        """Whatever keeps a call from its tool is written down once, with agent, tool, outcome and reason."""
        registry = house.registry
        registry.add_policy(lambda agent, tool, arguments: "not today" if agent == "eve" else None)
        registry.assign_tool_to_agent("add", "eve")
        registry.assign_tool_to_agent("add", "low", where={"x": {"maximum": 1}})
        registry.disable("broken")
        registry.block("add", "dan")
        registry.limits.set(agent="ann", tool="odd", per_minute=1)
        registry.retire_agent("low") if case == 10 else None
        if case == 6:
            house.call("odd")
        before = len(house.events())
        tool, arguments, agent, outcome = (
            ("nope", {}, "ann", "unknown_tool"),
            ("add", {"x": 1}, "bob", "forbidden"),
            ("add", {"x": 1}, "dan", "forbidden"),
            ("add", {"x": "no"}, "ann", "invalid_arguments"),
            ("add", "{broken", "ann", "invalid_arguments"),
            ("broken", {}, "ann", "disabled"),
            ("odd", {}, "ann", "limited"),
            ("add", {"x": 1}, "eve", "forbidden"),
            ("add", {"x": 2}, "low", "forbidden"),
            ("add", {"x": 1}, None, "forbidden"),
            ("add", {"x": 1}, "low", "forbidden"),
        )[case]

        result = house.call(tool, arguments, agent)

        assert outcome == result.outcome
        (event,) = house.events()[before:]
        assert isinstance(event, CallRefused)
        assert (tool, agent, outcome, arguments) == (event.tool_name, event.agent, event.outcome, event.arguments)
        assert event.error == result.error and event.tool_call_id
        if outcome in ("forbidden", "disabled"):
            assert event.decision is not None and event.decision.rule and event.decision.reason

    @pytest.mark.parametrize(
        "call",
        [
            ToolCall("", "add", {"x": 1}, "ann"),
            ToolCall(7, "add", {"x": 1}, "ann"),
            ToolCall(["a"], "nope", {}, "ann"),  # type: ignore[arg-type]
            ToolCall("c", 7, {}, "ann"),
            ToolCall("c", None, {}, "ann"),
            ToolCall("c", "add", {"x": 1}, 7),  # type: ignore[arg-type]
            ToolCall("c", "add", object(), "ann"),
            ToolCall("c", "add", {1: float("nan")}, "ann"),
            ToolCall("c", "add", {"x": 1}, ""),
            ToolCall("c", "add", {"x": 1}, "a:b\n"),
            ToolCall("c\ud800", "add\ud800", {}, "ann"),
            ToolCall("c", "add", {"x": 1}, "ann", None, ("bob",)),
            ToolCall("c", "add", {"x": 1}, "ann", None, (7,)),  # type: ignore[arg-type]
            ToolCall("c", "add", {"x": 1}, "ann", None, (), 7),
            ToolCall("c", "add", {"x": 1}, "ann", None, (), ""),  # type: ignore[arg-type]
            ToolCall("c", "a" * 100_000, {}, "ann"),
            ToolCall("c" * 100_000, "add", {"x": 1}, "ann"),
        ],
        ids=range(17),
    )
    def test_junk_leaves_a_journal_that_can_be_read(self, house: House, call: ToolCall) -> None:
        """Whatever a model sends in whatever field: there is a result, and the journal reads back."""
        if house.driver == "sync":
            result = house.registry.execute(call)
        else:
            result = asyncio.run(house.registry.aexecute(call))

        events = house.events()
        assert result.outcome.value in [str(getattr(one, "outcome", "")) for one in events]
        assert figures_of(house) == figures_of(house.again())

    def test_nested_calls(self, house: House) -> None:
        """Calls that are made inside of a tool carry the id of its call, refused ones too."""
        assert [2, "unknown_tool"] == house.call("outer").result

        outer, *inner = [one for one in house.events() if isinstance(one, AgentToolCall | CallRefused)]
        assert None is outer.parent_id
        assert [("add", outer.tool_call_id), ("nope", outer.tool_call_id)] == [
            (one.tool_name, one.parent_id) for one in inner
        ]

    def test_a_call_of_the_host(self, house: House) -> None:
        """The operator's own calls are there, under rule `operator`, without an agent."""
        house.registry.execute_tool("add", x=1)
        house.registry.execute("c1", "add", {"x": 2})

        found = house.events(AgentToolCall)
        assert [(None, "operator")] * 2 == [(one.agent, one.decision.rule) for one in found]

    def test_who_wrote_it(self, house: House) -> None:
        """Calls, refusals and acts carry the process that wrote them, and a time in UTC."""
        house.call("add", {"x": 1})
        house.call("nope", {})
        house.registry.assign_tool_to_agent("add", "somebody")

        found = house.events()
        assert 4 == len(found)
        assert {f"{socket.gethostname()}:{os.getpid()}"} == {one.process for one in found}
        assert {timedelta()} == {one.time.utcoffset() for one in found}
        assert 4 == len({one.id for one in found})


def figures_of(house: House) -> list[str]:
    """Return the journal's events as text."""
    found = [repr(one) for one in house.events()]
    house.registry.close()
    return found
