"""Whichever engine runs a tool, and whatever records it: failures, time-outs, retries and cancellations end alike."""

# Tests of: execution/drivers, execution/described_errors

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import engine_tools
import pytest
from engine_rig import STORES, Home, file, home, make_journal, make_registry  # noqa: F401
from store_rig import open_sql_store

from praval_tools import Outcome, ToolCall, ToolExecutionError, ToolTimeoutError

FAILURES: dict[str, tuple[str, type[BaseException], str]] = {
    "value": ("ValueError", ValueError, "not so"),
    "own": ("Own", LookupError, "own: mine"),
    "key": ("KeyError", KeyError, "'name'"),
    "file": ("FileNotFoundError", FileNotFoundError, "/nowhere/at/all"),
    "unicode": ("UnicodeDecodeError", ToolExecutionError, "can't decode byte 0xff"),
    "group": ("ExceptionGroup", ToolExecutionError, "several"),
    "retry": ("RetryableToolError", ToolExecutionError, "later"),
    "silent": ("ZeroDivisionError", ArithmeticError, "ZeroDivisionError"),
    "exit": ("SystemExit", ToolExecutionError, "the tool tried to end the program (exit code 3)"),
}
"""By what is asked for: the name of the error, a class by which it is caught, and a part of its text."""


class TestErrors:
    @pytest.mark.parametrize("kind", FAILURES)
    def test_of_the_tool(self, home: Home, kind: str) -> None:
        """Name, text and classes of what a tool raises are those of its function, from sync and async code."""
        name, caught_as, text = FAILURES[kind]
        for result in (home.execute("fail", kind=kind), home.aexecute("fail", kind=kind)):
            assert (Outcome.TOOL_ERROR, name, 1) == (result.outcome, result.error_type, result.attempts)
            assert text in str(result.error)
        with pytest.raises(ToolExecutionError) as caught:
            home.ann.call("fail", kind=kind)
        assert isinstance(caught.value, caught_as)
        assert name == type(caught.value.__cause__).__name__

    def test_carry_what_programs_ask_for(self, home: Home) -> None:
        """The number and the file of an operating system's error, and the classes of an own one."""
        with pytest.raises(FileNotFoundError) as caught:
            home.ann.call("fail", kind="file")
        assert (2, "/nowhere/at/all") == (caught.value.errno, caught.value.filename)
        with pytest.raises(ToolExecutionError) as own:
            home.ann.call("fail", kind="own")
        assert isinstance(own.value.__cause__, engine_tools.Own)

    def test_that_are_masked(self, home: Home) -> None:
        """Where errors are masked, a model sees an id, and what was raised on purpose."""
        home.declare("masked", engine_tools.fail, errors="masked")
        result = home.execute("masked", kind="value")
        assert ("not so" in str(result.error), "error id" in str(result.error)) == (False, True)
        assert "later" in str(home.execute("masked", kind="retry").error)
        assert "error id" in str(home.execute("masked", kind="doubt").error)

    def test_that_interrupt(self, home: Home) -> None:
        """An interrupt that a tool raises reaches the caller."""
        with pytest.raises(KeyboardInterrupt):
            home.execute("fail", kind="interrupt")

    @pytest.mark.parametrize("name", ["cancel_itself", "cancel_itself_now"])
    def test_of_a_tool_that_cancels_itself(self, home: Home, name: str) -> None:
        """A cancellation that nobody asked for is an outcome."""
        assert [Outcome.CANCELLED] * 2 == [home.execute(name).outcome, home.aexecute(name).outcome]

    def test_touch_no_neighbour(self, home: Home) -> None:
        """A batch has its results in the order of the calls, from sync and async code."""
        calls = [
            ToolCall(str(number), *given, "ann")
            for number, given in enumerate(
                [("add", {"x": 1}), ("fail", {"kind": "value"}), ("add", {"x": 2}), ("nope", {})]
            )
        ]
        expected = [(Outcome.OK, 3), (Outcome.TOOL_ERROR, None), (Outcome.OK, 4), (Outcome.UNKNOWN_TOOL, None)]
        results = [home.registry.execute_batch(calls), asyncio.run(home.registry.aexecute_batch(calls))]
        assert [expected] * 2 == [[(one.outcome, one.result) for one in many] for many in results]


class TestRefusedCalls:
    def test_run_nothing(self, home: Home, file: Path) -> None:
        """What is forbidden, disabled, unknown, denied by a policy or has no agent leaves no trace."""
        registry, arguments = home.registry, {"path": str(file)}
        registry.block("note", "eve")
        outcomes = [registry.execute(ToolCall("1", "note", arguments, agent)).outcome for agent in ("eve", None)]
        remove = registry.add_policy(lambda agent, tool, arguments: "no" if tool.name == "note" else None)
        outcomes.append(home.execute("note", **arguments).outcome)
        remove()
        registry.disable("note", reason="test")
        outcomes.append(home.execute("note", **arguments).outcome)
        registry.enable("note")
        registry.unblock("note", "eve")
        assert [Outcome.FORBIDDEN] * 3 + [Outcome.DISABLED] == outcomes
        assert 0 == file.stat().st_size
        assert 1 == home.execute("note", **arguments).result


class TestRetries:
    @pytest.mark.parametrize(
        ("times", "kind", "outcome", "attempts"),
        [
            (2, "retry", Outcome.OK, 3), (3, "retry", Outcome.TOOL_ERROR, 3), (2, "own", Outcome.OK, 3),
            (1, "value", Outcome.TOOL_ERROR, 1), (1, "exit", Outcome.TOOL_ERROR, 1), (1, "doubt", Outcome.IN_DOUBT, 1),
        ],
    )  # fmt: skip
    def test_are_for_errors_that_may_pass(
        self, home: Home, file: Path, times: int, kind: str, outcome: Outcome, attempts: int
    ) -> None:
        """`RetryableToolError` and the tool's own list are tried again, as often as it says; nothing else is."""
        result = home.execute("note_and_fail", path=str(file), times=times, kind=kind)
        assert (outcome, attempts, attempts) == (result.outcome, result.attempts, file.stat().st_size)


class TestTimeouts:
    @pytest.fixture
    def slow(self, home: Home) -> Callable[..., str]:
        """Declares a tool that takes longer than it may; returns its name."""

        def declare(**options: Any) -> str:
            home.declare("slow", engine_tools.note_slowly, **{"timeout": 0.5, **options})
            home.declare("slow_later", engine_tools.note_later, **{"timeout": 0.5, **options})
            return "slow"

        return declare

    @pytest.mark.parametrize("name", ["slow", "slow_later"])
    def test_give_an_outcome(self, home: Home, slow: Callable[..., str], file: Path, name: str) -> None:
        """The outcome is `timeout`; the function was entered once, and the typed error is a TimeoutError."""
        slow()
        home.declare("alone", engine_tools.note_slowly)
        still_runs = name == "slow" and not home.is_remote
        arguments: dict[str, Any] = {"path": str(file), "seconds": 6 if home.is_remote else 1.5}
        result = home.execute(name, **arguments)
        assert (Outcome.TIMEOUT, 1) == (result.outcome, result.attempts)
        assert still_runs is ("may still be running" in str(result.error))
        assert Outcome.TIMEOUT is home.aexecute(name, **arguments).outcome
        with pytest.raises(ToolTimeoutError):
            home.ann.call(name, **arguments)
        assert home.registry.drain(timeout=30) == 0
        # A killed or cancelled one leaves its second mark never; the last one here ends later than theirs would.
        assert (8 if still_runs else 5) == home.execute("alone", **arguments).result == file.stat().st_size

    def test_are_retried_for_idempotent_tools(self, home: Home, slow: Callable[..., str], file: Path) -> None:
        """Only these are begun again."""
        for idempotent, attempts in ((True, 2), (False, 1)):
            file.write_text("")
            result = home.execute(slow(idempotent=idempotent, retries=1), path=str(file), seconds=1.5)
            assert (Outcome.TIMEOUT, attempts) == (result.outcome, result.attempts)
            assert home.registry.drain(timeout=30) == 0

    def test_do_not_count_for_quick_calls(self, home: Home, slow: Callable[..., str], file: Path) -> None:
        """After time-outs the next call runs as usual."""
        assert 2 == home.execute(slow(timeout=20), path=str(file), seconds=0.01).result


class TestCancellation:
    @pytest.mark.parametrize("name", ["note_slowly", "note_later"])
    def test_of_the_task_that_awaits(self, home: Home, file: Path, name: str) -> None:
        """It is raised again, and recorded; what can be ended is ended at once."""

        async def main() -> bool:
            call = ToolCall("1", name, {"path": str(file), "seconds": 0.5}, "ann")
            task = asyncio.create_task(home.registry.aexecute(call))
            while not file.stat().st_size:
                await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.wait([task])
            return task.cancelled()

        if home.engine == "inline" and name == "note_slowly":
            pytest.skip("it blocks the loop, so that nobody can cancel it")
        assert asyncio.run(main())
        assert home.registry.drain(timeout=30) == 0
        assert (2 if home.engine == "thread" and name == "note_slowly" else 1) == file.stat().st_size
        if home.registry.journal is not None:
            ends = [one for one in home.registry.journal.events(tool=name) if one.type == "agent_tool_result"]
            assert "cancelled" == ends[-1].outcome


class TestClosing:
    @pytest.mark.parametrize("engine", ["thread", "process"])
    @pytest.mark.parametrize("store", STORES)
    def test_waits_for_calls(self, engine: str, store: str, file: Path, tmp_path: Path) -> None:
        """A call inside ends, and its result is recorded, before the registry is closed."""
        with make_journal(store, tmp_path) as journal:
            registry, results = make_registry(engine, journal), list[Any]()
            call = ToolCall("1", "note_slowly", {"path": str(file), "seconds": 0.3}, "ann")
            thread = threading.Thread(target=lambda: results.append(registry.execute(call)))
            thread.start()
            while not file.stat().st_size:
                threading.Event().wait(0.01)
            registry.close()
            thread.join(30)
            assert [(Outcome.OK, 2)] == [(result.outcome, result.result) for result in results]
            if store not in ("none", "memory"):
                with closing(open_sql_store(journal)) as recorded:
                    assert ["agent_tool_call", "agent_tool_result"] == [record.type for record in recorded.read()]
