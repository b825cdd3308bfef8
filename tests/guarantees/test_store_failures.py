"""Nothing starts without its durable event, and whatever stops a call or its journal, the journal says so."""

# Tests of: runs/event_writer

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from write_ahead_rig import CALL, RESULT, Execute, Rig, call, execute, execute_async, path, rig  # noqa: F401

from praval_tools import (
    Allow,
    Outcome,
    ToolCall,
    ToolRegistry,
    ToolUsageError,
)
from praval_tools.errors import JournalError, JournalFileError, JournalWarning, ReplayMismatchError
from praval_tools.journal import open_journal


def _in(registry: ToolRegistry, run: str | None, work: Callable[[], Any]) -> Any:
    if run is None:
        return work()
    with registry.run(run):
        return work()


def _fail_for_arguments(rig: Rig, number: int) -> Callable[[str], None]:
    """Return a function that fails for the calls with *number*, which it finds in the frames of the thread."""

    def see(kind: str) -> None:
        frame: Any = sys._getframe()
        while frame is not None:
            items = frame.f_locals.get("items")
            if items and kind == CALL:
                if any(f'"number":{number}'.encode() in record.body for item in items for record in item.records):
                    raise JournalError(str(rig.path), "the disk is full", "Free space.")
                return
            frame = frame.f_back

    return see


FULL = '''
import resource, signal, sys
from praval_tools import ToolCall, ToolRegistry
from praval_tools.errors import JournalError

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
ran, outcomes = [], []
with ToolRegistry(journal=sys.argv[1]) as registry:
    @registry.tool("work", owned_by="ann")
    def work(text: str) -> int:
        """Work."""
        ran.append(text[:8])
        return len(text)

    @registry.tool("see", owned_by="ann", shared=True)
    def see() -> int:
        """See."""
        return 1

    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
    with registry.run("r"):
        for at in range(64):
            text = f"{at:08}" + "x" * 20_000
            try:
                assert registry.execute(ToolCall(f"c{at}", "work", {"text": text}, "ann")).success
                outcomes.append("ok")
            except JournalError as error:
                outcomes.append("ran" if "ran; the result" in str(error) else "not run")
                assert "full" in str(error) or "disk" in str(error), error
    assert outcomes.count("ok") + outcomes.count("ran") == len(ran) > 0
    assert outcomes.count("not run") > 0
    assert registry.explain("bob", "see").allowed
    try:
        registry.block("see", "bob", reason="x" * 20_000)
        sys.exit("the disk took the block")
    except JournalError:
        assert not registry.explain("bob", "see").allowed
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    with registry.run("r") as run:
        doubtful = {recorded.tool_call_id for recorded in run.in_doubt}
        assert doubtful == {f"c{at}" for at, how in enumerate(outcomes) if how == "ran"}, (doubtful, outcomes)
        for at, how in enumerate(outcomes):
            before = len(ran)
            text = f"{at:08}" + "x" * 20_000
            result = registry.execute(ToolCall(f"c{at}", "work", {"text": text}, "ann"))
            assert {"ok": "ok", "ran": "in_doubt", "not run": "ok"}[how] == result.outcome
            assert len(ran) == before + (how == "not run")
print("well", outcomes.count("ok"), outcomes.count("ran"), outcomes.count("not run"))
'''


def _make(path: Path, kind: str) -> None:
    if kind == "torn":
        with ToolRegistry(journal=path) as registry:
            registry.tool("add", owned_by="ann")(_add)
            for at in range(200):
                registry.execute(call(at, call_id=f"c{at}"))
        os.truncate(path, path.stat().st_size // 2)
    elif kind == "foreign database":
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE orders (id)")
        connection.close()
    else:
        path.write_text("not a database " * (100 if kind == "text" else 1))


def _add(number: int) -> int:
    """Add one."""
    return number + 1


@pytest.mark.usefixtures("recording_path")
class TestTheStoreFails:
    @pytest.mark.parametrize("name", ["add", "aadd"])
    @pytest.mark.parametrize("run", [None, "r"])
    def test_no_start_without_its_event(self, rig: Rig, execute: Execute, name: str, run: str | None) -> None:
        """Where the call event cannot be written nothing runs; the error is the journal's, and says so."""
        if name == "aadd" and execute is execute_async:
            pytest.skip("one of the two is enough")
        rig.store.fails.add(CALL)

        with pytest.raises(JournalError, match="disk is full.*Nothing was run") as caught:
            _in(rig.registry, run, lambda: execute(rig.registry, call(name=name)))

        assert "journal" == caught.value.code
        assert [] == rig.ran
        rig.store.fails.clear()
        assert 2 == _in(rig.registry, run, lambda: execute(rig.registry, call(name=name))).result
        assert [CALL, RESULT] == rig.types()

    def test_call_raises_it_too(self, rig: Rig) -> None:
        """`call`, `acall` and a bound tool raise the journal's error, not a tool's."""
        rig.store.fails.add(CALL)
        tools = rig.registry.toolset("ann")

        ways: list[Callable[[], Any]] = [
            lambda: tools.call("add", number=1),
            lambda: tools["add"](1),
            lambda: asyncio.run(tools.acall("aadd", number=1)),
        ]
        for way in ways:
            with pytest.raises(JournalError):
                way()
        assert [] == rig.ran

    def test_a_result_that_is_not_recorded(self, rig: Rig, execute: Execute) -> None:
        """Where the result cannot be written the error says that the tool ran, and the call is in doubt."""
        rig.store.fails.add(RESULT)
        with rig.registry.run("r") as run:
            with pytest.raises(JournalError, match="Tool 'add' ran.*'c'.*in doubt"):
                execute(rig.registry, call())
            assert ["c"] == [recorded.tool_call_id for recorded in run.in_doubt]
            rig.store.fails.clear()
            assert Outcome.IN_DOUBT is execute(rig.registry, call()).outcome
        with rig.registry.run("r") as run:
            assert Outcome.IN_DOUBT is execute(rig.registry, call()).outcome
            run.resolve("c", result=2)
            assert 2 == execute(rig.registry, call()).result
        assert [1] == rig.ran

    def test_resolved_by_what_the_tool_returns(self, rig: Rig) -> None:
        """A person's result is one that the tool could have returned, as value or as JSON; who said so stays."""

        @rig.registry.tool("due", owned_by="ann")
        def due(number: int) -> datetime:
            """Tell when."""
            rig.ran.append(number)
            return datetime(2030, 1, number, tzinfo=UTC)

        rig.store.fails.add(RESULT)
        with rig.registry.run("r"):
            for call_id in ("value", "json"):
                with pytest.raises(JournalError):
                    rig.registry.execute(call(name="due", call_id=call_id))
            with pytest.raises(JournalError):
                rig.registry.execute(call(name="add", call_id="other"))
        rig.store.fails.clear()

        with rig.registry.run("r") as run:
            for wrong in (42, "tomorrow", object()):
                with pytest.raises(ToolUsageError, match="'due' could not have returned that") as caught:
                    run.resolve("value", result=wrong)
                assert "no-such-result" == caught.value.code
            assert ["value", "json", "other"] == [recorded.tool_call_id for recorded in run.in_doubt]
            run.resolve("value", result=datetime(2031, 1, 1, tzinfo=UTC))
            run.resolve("json", result="2032-01-01T00:00:00Z")
            run.resolve("other", error="the server was down")
            assert ["operator"] * 3 == [recorded.resolved_by for recorded in run.calls]
            years = [rig.registry.execute(call(name="due", call_id=one)).result.year for one in ("value", "json")]
            assert [2031, 2032] == years
            rig.registry.execute(call(2, name="add", call_id="new"))
        assert [*["operator"] * 3, None] == [recorded.resolved_by for recorded in rig.registry.journal.calls("r")]
        assert [1, 1, 1, 2] == rig.ran

    def test_a_refusal_that_is_not_recorded(self, rig: Rig, execute: Execute) -> None:
        """The audit trail has no holes: a refusal that cannot be written is the journal's error."""
        rig.store.fails.add("call_refused")

        with pytest.raises(JournalError, match="Nothing was run"):
            execute(rig.registry, ToolCall("c", "add", {"number": 1}, "mallory"))
        with pytest.raises(JournalError, match="Nothing was run"):
            execute(rig.registry, ToolCall("c", "add", {}, "ann"))

    def test_a_batch_raises_after_the_neighbours(self, rig: Rig) -> None:
        """In a batch the journal's error is raised, once every other call has ended and is recorded."""
        rig.store.before = _fail_for_arguments(rig, 3)
        calls = [call(at, call_id=f"c{at}") for at in range(6)]

        with rig.registry.run("r"):
            with pytest.raises(JournalError):
                rig.registry.execute_batch(calls)
            assert [0, 1, 2, 4, 5] == sorted(rig.ran)
            with pytest.raises(JournalError):
                asyncio.run(rig.registry.aexecute_batch(calls))
            rig.store.before = lambda kind: None
            assert [1, 2, 3, 4, 5, 6] == [recorded.result for recorded in rig.registry.execute_batch(calls)]
        assert [0, 1, 2, 3, 4, 5] == sorted(rig.ran)

    def test_a_batch_raises_a_mismatch(self, rig: Rig) -> None:
        """So is an id that belongs to another call."""
        with rig.registry.run("r"):
            rig.registry.execute(call(1))
            calls = [call(at, call_id="c" if at == 2 else f"c{at}") for at in range(4)]
            with pytest.raises(ReplayMismatchError):
                rig.registry.execute_batch(calls)
            with pytest.raises(ReplayMismatchError):
                asyncio.run(rig.registry.aexecute_batch(calls))
        assert [0, 1, 1, 3] == sorted(rig.ran)

    def test_closed(self, rig: Rig, execute: Execute) -> None:
        """With a store that was closed nothing runs; opened again, the journal is whole."""
        execute(rig.registry, call())
        rig.store.store.close()

        with pytest.raises(JournalError, match="closed"):
            execute(rig.registry, call())
        assert [1] == rig.ran
        with open_journal(rig.path) as journal:
            assert [CALL, RESULT] == [record.type for record in journal.read()]

    def test_closed_meanwhile(self, rig: Rig, execute: Execute) -> None:
        """A store that is closed while the tool runs: the error says that it ran."""

        @rig.registry.tool("shut", owned_by="ann")
        def shut() -> None:
            """Close the store."""
            rig.store.store.close()

        with pytest.raises(JournalError, match="Tool 'shut' ran"):
            execute(rig.registry, ToolCall("c", "shut", {}, "ann"))

    def test_broken_connection(self, rig: Rig) -> None:
        """A connection that breaks is an error for who waits, and the next call opens another."""
        connection = rig.store.store._writer._connection
        rig.registry.execute(call(1, call_id="a"))
        connection._connection.connection.driver_connection.close()

        with pytest.raises(JournalError, match="Nothing was run"):
            rig.registry.execute(call(2, call_id="b"))
        assert [1] == rig.ran
        assert 4 == rig.registry.execute(call(3, call_id="d")).result
        assert ["a", "a", "d", "d"] == [record.call_id for record in rig.store.store.read() if record.call_id]

    @pytest.mark.parametrize("other", [False, True])
    def test_a_file_that_is_gone(self, rig: Rig, other: bool) -> None:
        """Where the file was moved or removed while it is open, or another stands there, nothing runs unrecorded."""
        rig.registry.execute(call(1, call_id="a"))
        away = rig.path.rename(rig.path.with_name("away.db"))
        if other:
            open_journal(rig.path).close()

        for _ in range(2):
            with pytest.raises(JournalError, match="Nothing was run"):
                rig.registry.execute(call(2, call_id="b"))
        assert [1] == rig.ran
        away.rename(rig.path)
        assert 4 == rig.registry.execute(call(3, call_id="d")).result

    def test_read_only_file(self, rig: Rig, execute: Execute) -> None:
        """A file that cannot be written any more: nothing runs, and the journal is readable."""
        rig.registry.execute(call(1, call_id="a"))
        rig.store.store._writer._connection._connection.exec_driver_sql("PRAGMA query_only=ON")

        with pytest.raises(JournalError, match="read-only.*Nothing was run"):
            execute(rig.registry, call(2, call_id="b"))
        assert [1] == rig.ran
        with open_journal(rig.path) as journal:
            assert ["a", "a"] == [record.event.tool_call_id for record in journal.read()]


class TestFullDisk:
    def test_nothing_runs_unseen(self, path: Path) -> None:
        """On a full disk what runs was written down before; with room again the run goes on, and nothing runs twice."""
        done = subprocess.run([sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, timeout=120)

        assert "" == done.stderr
        assert done.stdout.startswith("well")
        with open_journal(path) as journal:
            entries = list(journal.read(run_id="r"))
        assert list(range(1, len(entries) + 1)) == [entry.run_seq for entry in entries]


class TestForeignFiles:
    """A file that is not a journal is refused by the registry, and left as it is to the byte."""

    @pytest.mark.parametrize("kind", ["torn", "foreign database", "text", "short text"])
    def test_refused(self, path: Path, kind: str) -> None:
        """A torn journal, another program's database, a text."""
        _make(path, kind)
        before = {one.name: one.read_bytes() for one in path.parent.iterdir() if one.is_file()}

        with pytest.raises(JournalFileError, match="runs.db") as caught:
            ToolRegistry(journal=path)

        assert "journal-file" == caught.value.code
        assert before == {one.name: one.read_bytes() for one in path.parent.iterdir() if one.is_file()}

    def test_a_journal_that_is_refused_leaves_the_one_in_use(self, rig: Rig, tmp_path: Path) -> None:
        """`registry.journal = …` that fails leaves the journal that the registry has."""
        other = tmp_path / "other.db"
        other.write_text("not a database " * 100)

        with pytest.raises(JournalFileError):
            rig.registry.journal = other
        rig.registry.execute(call())

        assert [CALL, RESULT] == rig.types()


@pytest.mark.usefixtures("recording_path")
class TestContinue:
    """`journal_errors="continue"`: the operator wants to go on, and is warned."""

    @pytest.fixture
    def rig(self, path: Path) -> Iterator[Rig]:
        """Give a registry that goes on."""
        made = Rig(path, journal_errors="continue")
        yield made
        made.close()

    def test_calls_go_on(self, rig: Rig, execute: Execute) -> None:
        """Calls run without their events, each with a warning."""
        rig.store.fails |= {CALL, RESULT}

        with pytest.warns(JournalWarning, match="disk is full") as caught:
            assert 2 == execute(rig.registry, call()).result
        assert 2 == len(caught)

    @pytest.mark.parametrize("how", ["again", "anew"])
    def test_an_intent_is_made_up_for(self, rig: Rig, execute: Execute, how: str) -> None:
        """Where only the call event was lost it is written with the result, and the call replays."""
        rig.store.fails.add(CALL)

        def once() -> None:
            rig.store.before = lambda kind: rig.store.fails.clear() if kind == RESULT else None

        @rig.registry.tool("room", owned_by="ann")
        def room() -> int:
            """Make room."""
            rig.ran.append(0)
            rig.store.fails.clear()
            return 7

        once()
        made = ToolCall("c", "room", {}, "ann")
        with rig.registry.run("r"):
            with pytest.warns(JournalWarning):
                assert 7 == execute(rig.registry, made).result
            if how == "again":
                assert execute(rig.registry, made).replayed
        with rig.registry.run("r"):
            assert execute(rig.registry, made).replayed
        assert [0] == rig.ran
        assert [CALL, RESULT] == rig.types()

    @pytest.mark.parametrize("fails", [{CALL}, {CALL, RESULT}], ids=["start", "all"])
    def test_an_approval_is_used_once(self, fails: set[str], rig: Rig, execute: Execute) -> None:
        """The promise was broken: a yes whose use could not be written permitted the call again."""
        rig.registry.configure("add", requires_approval=True)
        assert Outcome.APPROVAL_REQUIRED is execute(rig.registry, call()).outcome
        (request,) = rig.registry.approvals.pending()
        rig.registry.approvals.answer(request.id, Allow(by="eve"))
        rig.store.fails |= fails
        with pytest.warns(JournalWarning):
            assert 2 == execute(rig.registry, call()).result
        rig.store.fails.clear()

        assert [Outcome.APPROVAL_REQUIRED] * 2 == [execute(rig.registry, call()).outcome for _ in range(2)]
        assert [1] == rig.ran
        (request,) = rig.registry.approvals.pending()
        rig.registry.approvals.answer(request.id, Allow(by="eve"))
        assert 2 == execute(rig.registry, call()).result
        assert Outcome.APPROVAL_REQUIRED is execute(rig.registry, call()).outcome

    def test_a_lost_result_is_in_doubt(self, rig: Rig, execute: Execute) -> None:
        """A result that was not written was returned, and the call is in doubt when the run is opened again."""
        rig.store.fails.add(RESULT)
        with rig.registry.run("r"), pytest.warns(JournalWarning, match="Tool 'add' ran"):
            assert 2 == execute(rig.registry, call()).result
        rig.store.fails.clear()
        with rig.registry.run("r"):
            assert Outcome.IN_DOUBT is execute(rig.registry, call()).outcome
        assert [1] == rig.ran


@pytest.mark.usefixtures("recording_path")
class TestStatistics:
    def test_stopped_calls_count(self, rig: Rig) -> None:
        """Calls that were stopped are counted live as they are when rebuilt from the journal."""

        @rig.registry.tool("stop", owned_by="ann")
        def stop(number: int) -> int:
            """Be interrupted."""
            raise KeyboardInterrupt

        rig.registry.execute(call())
        with pytest.raises(KeyboardInterrupt):
            rig.registry.execute(call(name="stop"))

        live, rebuilt = rig.registry.stats.get_all_stats(), rig.registry.journal.stats().get_all_stats()
        assert rebuilt == live
        assert {"add", "stop"} == set(live)

    def test_what_is_not_written_does_not_count(self, rig: Rig, execute: Execute) -> None:
        """Neither a result nor a refusal that could not be written is counted; the journal knows nothing of them."""
        rig.store.fails = {RESULT, "call_refused"}
        for one in (call(call_id=None), call(name="add", call_id=None), ToolCall(None, "add", {"number": "x"}, "ann")):
            with pytest.raises(JournalError):
                execute(rig.registry, one)
        rig.store.fails.clear()

        assert {} == rig.registry.stats.get_all_stats() == rig.registry.journal.stats().get_all_stats()
