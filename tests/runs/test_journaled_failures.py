"""What can go wrong with a journaled call: approvals, time-outs, cancellation, odd results; sync and async."""

# Tests of: call_writer

from __future__ import annotations

import asyncio
import os
import socket
import threading
from dataclasses import make_dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import pytest
from journaled_rig import (
    JournaledRig,
    rig,  # noqa: F401
)

from praval_tools import (
    Agent,
    Outcome,
    Secret,
    ToolCall,
    ToolRegistry,
    ToolUsageError,
)
from praval_tools.journal.events import AgentToolCall, AgentToolResult, CallRefused, LateResult


def figures_of(rig: JournaledRig) -> list[str]:
    """Return the journal's events as text."""
    found = [repr(event) for event in rig.events()]
    rig.registry.close()
    return found


class TestTimeouts:
    @pytest.mark.parametrize(("fail", "outcome"), [(False, "ok"), (True, "tool_error")])
    def test_a_thread_that_ends_later(self, rig: JournaledRig, fail: bool, outcome: str) -> None:
        """Its end is written down as such, and changes no outcome: neither of the call nor of its replay."""
        with rig.registry.run("r"):
            assert Outcome.TIMEOUT is rig.call("slow", {"fail": fail}).outcome
        rig.gate.set()
        rig.registry.drain()
        second = rig.reopen()
        (late,) = second.events(LateResult)
        assert outcome == late.outcome
        assert ("late" == late.result) if not fail else "late and wrong" in late.error
        with second.registry.run("r"):
            result = second.call("slow", {"fail": fail})
            assert (Outcome.TIMEOUT, True) == (result.outcome, result.replayed)
        second.registry.close()

    def test_a_late_result_that_raises_while_it_is_written(self, rig: JournaledRig) -> None:
        """It is written down as an error that came late."""

        class Table:
            """A table that cannot give its rows."""

            def tolist(self) -> Any:
                """Fail."""
                raise RuntimeError("no rows")

        @rig.registry.tool("table", owned_by="ann", timeout=0.02)
        def table() -> Any:
            """Come late."""
            rig.gate.wait(30)
            return Table()

        with rig.registry.run("r"):
            assert Outcome.TIMEOUT is rig.call("table").outcome
        rig.gate.set()
        rig.registry.drain()
        (late,) = rig.reopen().events(LateResult)
        assert (Outcome.TOOL_ERROR, "no rows") == (late.outcome, late.error)

    def test_a_late_result_hides_what_its_class_marks(self, rig: JournaledRig) -> None:
        """Broken promise: a marked field stood in it where no return hint named the class."""
        Account = make_dataclass("Account", [("owner", str), ("pin", Annotated[str, Secret]), ("note", str)])

        @rig.registry.tool("find", owned_by="ann", timeout=0.02)
        def find(value: Annotated[UUID, Secret]) -> Any:
            """Come late."""
            rig.gate.wait(30)
            return [Account("ann", "open-sesame", f"of {value}")]

        assert Outcome.TIMEOUT is rig.call("find", {"value": "ABCDEFAB-CDEF-4BCD-ABCD-ABCDEFABCDEF"}).outcome
        rig.gate.set()
        rig.registry.drain()
        (late,) = rig.reopen().events(LateResult)

        assert "[secret " in late.result[0]["pin"]
        assert not [text for text in ("open-sesame", "abcdefab-") if text in str(late)]

    def test_a_tool_that_swallows_cancellation(self, tmp_path: Path) -> None:
        """An async tool that answers its time-out by a value timed out, here as elsewhere, and has ended."""
        rig = JournaledRig(tmp_path / "runs.db", "async")
        ended = threading.Event()

        @rig.registry.tool("deaf", owned_by="ann", timeout=0.02)
        async def deaf() -> str:
            """Hear nothing."""
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ended.set()
            return "after all"

        result = rig.call("deaf")

        assert ended.is_set()
        assert (Outcome.TIMEOUT, None) == (result.outcome, result.result)
        assert ["agent_tool_call", "agent_tool_result"] == rig.types()
        rig.registry.close()


class TestCancellation:
    def test_the_awaiting_task_is_cancelled(self, tmp_path: Path) -> None:
        """The tool is cancelled, `cancelled` is written down, the cancellation goes on, and a rerun is in doubt."""
        rig = JournaledRig(tmp_path / "runs.db", "async")
        registry = rig.registry

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
                assert ["c1"] == [recorded.tool_call_id for recorded in run.in_doubt]
                assert Outcome.IN_DOUBT is (await registry.aexecute(ToolCall("c1", "wait", {}, "ann"))).outcome

        asyncio.run(play())
        assert [Outcome.CANCELLED] == [event.outcome for event in rig.events(AgentToolResult)]
        registry.close()


class TestResolutions:
    def test_calls_are_resolved_as_they_are_recorded(self, tmp_path: Path) -> None:
        """An entry of `in_doubt` resolves like its id; one of another run, or no call at all, is refused by name."""
        registry = ToolRegistry(journal=tmp_path / "runs.db")

        @registry.tool("die", shared=True)
        def die() -> str:
            """Die."""
            raise KeyboardInterrupt

        ann = Agent("ann", registry=registry)
        for run_id in ("one", "two"):
            with pytest.raises(KeyboardInterrupt), registry.run(run_id):
                ann.call("die")
        with registry.run("one") as run:
            (one,) = run.in_doubt
            journal = registry.journal
            assert journal is not None
            with registry.run("two") as other, pytest.raises(ToolUsageError, match=r"belongs to run 'one'") as refused:
                other.resolve(one, result="lived")
            assert "not-in-doubt" == refused.value.code
            with pytest.raises(TypeError, match=r"an entry of run.in_doubt"):
                run.resolve({}, result="lived")  # type: ignore[arg-type]
            run.resolve(one, result="lived")
            assert "lived" == ann.call("die")
        (two,) = journal.calls("two")
        journal.resolve("two", two, error="died")
        assert [Outcome.TOOL_ERROR] == [call.outcome for call in journal.calls("two")]
        registry.close()


class TestResults:
    def test_what_cannot_be_encoded(self, rig: JournaledRig) -> None:
        """It is a `tool_error` that names the type; recorded, and replayed without a second run."""
        for replayed in (False, True):
            with rig.registry.run("r"):
                result = rig.call("odd")
            assert (Outcome.TOOL_ERROR, replayed) == (result.outcome, result.replayed)
            assert "lock" in str(result.error)
        assert ["odd"] == rig.ran
        assert [Outcome.TOOL_ERROR] == [event.outcome for event in rig.events(AgentToolResult)]

    @pytest.mark.parametrize("error", [RuntimeError, UnicodeDecodeError, SystemExit])
    def test_what_raises_while_it_is_written(self, rig: JournaledRig, error: type[BaseException]) -> None:
        """What code of the result's own raises is the tool's error: recorded, replayed, and nothing is in doubt."""

        class Table:
            """A table that cannot give its rows."""

            def tolist(self) -> Any:
                """Fail."""
                raise UnicodeDecodeError("utf-8", b"x", 0, 1, "bad") if error is UnicodeDecodeError else error("bad")

        @rig.registry.tool("table", owned_by="ann")
        def table() -> Any:
            """Give a table."""
            rig.ran.append("table")
            return {"rows": Table()}

        for replayed in (False, True):
            with rig.registry.run("r") as run:
                result = rig.call("table")
                assert [] == run.in_doubt
            assert (Outcome.TOOL_ERROR, replayed) == (result.outcome, result.replayed)
            assert error.__name__ == result.error_type
        assert ["table"] == rig.ran
        assert [Outcome.TOOL_ERROR] == [event.outcome for event in rig.events(AgentToolResult)]

    @pytest.mark.parametrize("given", [None, "no", 2.5, True])
    def test_what_is_not_as_declared(self, rig: JournaledRig, given: Any) -> None:
        """A plain value that is none of the return hint is a `tool_error`, too: nothing is raised, or left in doubt."""

        @rig.registry.tool("wrong", owned_by="ann")
        def wrong() -> int:
            """Give something else."""
            rig.ran.append("wrong")
            return given  # type: ignore[no-any-return]

        for _ in range(2):
            with rig.registry.run("r") as run:
                results = [rig.call("wrong", name=f"c{number}") for number in range(3)]
                assert [] == run.in_doubt
            assert {Outcome.TOOL_ERROR} == {result.outcome for result in results}
            assert all(type(given).__name__ in str(result.error) for result in results)
        assert ["wrong"] * 3 == rig.ran
        assert [Outcome.TOOL_ERROR] * 3 == [event.outcome for event in rig.events(AgentToolResult)]

    def test_fifty_megabytes(self, rig: JournaledRig) -> None:
        """They are recorded whole and replayed equal; a model sees the beginning and the end."""
        size = 50_000_000
        results = []
        for _ in range(2):
            with rig.registry.run("r"):
                results.append(rig.call("big", {"size": size}))
        live, again = results

        assert [False, True] == [result.replayed for result in results]
        assert size == len(live.result)
        assert live.result == again.result
        assert live.for_model() == again.for_model()
        assert len(again.for_model()) <= 100
        assert ["big"] == rig.ran

    def test_retries(self, rig: JournaledRig) -> None:
        """Every start is written down with its number, and one result for all."""
        assert Outcome.OK is rig.call("flaky").outcome
        assert [1, 2, 3] == [event.attempt for event in rig.events(AgentToolCall)]
        assert [3] == [event.attempts for event in rig.events(AgentToolResult)]

    @pytest.mark.parametrize(
        ("tool", "attempts"), [("flaky", 3), ("broken", 1), ("odd", 1), ("outer", 1), ("add", 0), ("nope", 0)]
    )
    def test_a_replay_says_how_often_a_tool_was_entered(self, rig: JournaledRig, tool: str, attempts: int) -> None:
        """As the result of the call itself did, once as well as several times, and never for a refusal."""
        results = []
        for _ in range(2):
            with rig.registry.run("r"):
                results.append(rig.call(tool))

        assert [(attempts, False), (attempts, True)] == [(one.attempts, one.replayed) for one in results]

    def test_masked_errors(self, tmp_path: Path) -> None:
        """The id in the message for the model is found in the journal, beside the tool's own message."""
        for driver in ("sync", "async"):
            rig = JournaledRig(tmp_path / f"{driver}.db", driver, errors="masked")
            error = str(rig.call("broken").error)
            assert "inner reason" not in error
            (found,) = rig.events(AgentToolResult)
            assert error == found.error
            assert "the inner reason" == found.detail
            rig.registry.close()


class TestTheTrailHasNoHoles:
    @pytest.mark.parametrize("case", range(11))
    def test_every_refusal_is_an_event(self, rig: JournaledRig, case: int) -> None:
        """Whatever keeps a call from its tool is written down once, with agent, tool, outcome and reason."""
        registry = rig.registry
        registry.add_policy(lambda agent, tool, arguments: "not today" if agent == "eve" else None)
        registry.assign_tool_to_agent("add", "eve")
        registry.assign_tool_to_agent("add", "low", where={"x": {"maximum": 1}})
        registry.disable("broken")
        registry.block("add", "dan")
        registry.limits.set(agent="ann", tool="odd", per_minute=1)
        registry.retire_agent("low") if case == 10 else None
        if case == 6:
            rig.call("odd")
        before = len(rig.events())
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

        result = rig.call(tool, arguments, agent)

        assert outcome == result.outcome
        (event,) = rig.events()[before:]
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
    def test_junk_leaves_a_journal_that_can_be_read(self, rig: JournaledRig, call: ToolCall) -> None:
        """Whatever a model sends in whatever field: there is a result, and the journal reads back."""
        if rig.driver == "sync":
            result = rig.registry.execute(call)
        else:
            result = asyncio.run(rig.registry.aexecute(call))

        events = rig.events()
        assert result.outcome.value in [str(getattr(one, "outcome", "")) for one in events]
        assert figures_of(rig) == figures_of(rig.reopen())

    def test_nested_calls(self, rig: JournaledRig) -> None:
        """Calls that are made inside of a tool carry the id of its call, refused ones too."""
        assert [2, "unknown_tool"] == rig.call("outer").result

        outer, *inner = [event for event in rig.events() if isinstance(event, AgentToolCall | CallRefused)]
        assert None is outer.parent_id
        assert [("add", outer.tool_call_id), ("nope", outer.tool_call_id)] == [
            (one.tool_name, one.parent_id) for one in inner
        ]

    def test_a_call_of_the_host(self, rig: JournaledRig) -> None:
        """The operator's own calls are there, under rule `operator`, without an agent."""
        rig.registry.execute_tool("add", x=1)
        rig.registry.execute("c1", "add", {"x": 2})

        found = rig.events(AgentToolCall)
        assert [(None, "operator")] * 2 == [(one.agent, one.decision.rule) for one in found]

    def test_who_wrote_it(self, rig: JournaledRig) -> None:
        """Calls, refusals and changes carry the process that wrote them, and a time in UTC."""
        rig.call("add", {"x": 1})
        rig.call("nope", {})
        rig.registry.assign_tool_to_agent("add", "somebody")

        found = rig.events()
        assert 4 == len(found)
        assert {f"{socket.gethostname()}:{os.getpid()}"} == {event.process for event in found}
        assert {timedelta()} == {event.time.utcoffset() for event in found}
        assert 4 == len({event.id for event in found})
