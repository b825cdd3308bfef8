"""Nothing starts without its durable event, and whatever stops a call or its journal, the journal says so."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
import warnings
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from praval_tools import (
    Allow,
    Outcome,
    RetryableToolError,
    ToolCall,
    ToolContext,
    ToolRegistry,
    ToolUsageError,
)
from praval_tools.errors import JournalError, JournalFileError, JournalWarning, ReplayMismatchError
from praval_tools.journal import Answer, Item, open_journal
from praval_tools.journal.storage.sql_store import SqlStore

Execute = Callable[[ToolRegistry, ToolCall], Any]


def _sync(registry: ToolRegistry, call: ToolCall) -> Any:
    return registry.execute(call)


def _async(registry: ToolRegistry, call: ToolCall) -> Any:
    async def wait() -> Any:
        return await registry.aexecute(call)

    return asyncio.run(wait())


@pytest.fixture(params=[_sync, _async], ids=["sync", "async"])
def execute(request: pytest.FixtureRequest) -> Execute:
    """Give both drivers in turn."""
    made: Execute = request.param
    return made


class Failing:
    """A store that fails where the test wants it to, as a disk would: at a type of event, before or after writing."""

    def __init__(self, store: SqlStore) -> None:
        self.store = store
        self.fails: set[str] = set()
        self.before: Callable[[str], None] = lambda kind: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def _see(self, items: Sequence[Item]) -> None:
        for one in items:
            for record in one.records:
                self.before(record.type)
                if record.type in self.fails:
                    raise JournalError(self.store.name, "the disk is full", "Free space.")

    def append(self, items: Sequence[Item]) -> list[Answer]:
        self._see(items)
        return self.store.append(items)

    def submit(self, items: Sequence[Item]) -> Any:
        self._see(items)
        return self.store.submit(items)

    def aappend(self, items: Sequence[Item]) -> Awaitable[list[Answer]]:
        self._see(items)
        return self.store.aappend(items)


class Rig:
    """A registry over a store that fails at will, and a tool that says when it ran."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.path, self.ran = path, list[int]()
        self.store = Failing(SqlStore(path))
        self.registry = ToolRegistry(journal=self.store, **options)

        @self.registry.tool("add", owned_by="ann")
        def add(number: int) -> int:
            """Add one."""
            self.ran.append(number)
            return number + 1

        @self.registry.tool("aadd", owned_by="ann")
        async def aadd(number: int) -> int:
            """Add one."""
            self.ran.append(number)
            return number + 1

        @self.registry.tool("look", owned_by="ann", read_only=True)
        def look(number: int) -> int:
            """Look."""
            self.ran.append(number)
            return number + 1

    def close(self) -> None:
        """Close registry and store."""
        self.registry.close()
        self.store.store.close()

    def types(self) -> list[str]:
        """Return the types of what was written of calls."""
        return [one.type for one in self.store.store.read() if one.call_id is not None]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of the journal."""
    return tmp_path / "runs.db"


@pytest.fixture
def rig(path: Path) -> Iterator[Rig]:
    """Give a registry over a store that fails at will."""
    made = Rig(path)
    yield made
    made.close()


def call(number: int = 1, name: str = "add", call_id: str | None = "c") -> ToolCall:
    """Return a call of ann's."""
    return ToolCall(call_id, name, {"number": number}, "ann")


CALL, RESULT = "agent_tool_call", "agent_tool_result"


@pytest.mark.usefixtures("roads")
class TestTheStoreFails:
    @pytest.mark.parametrize("name", ["add", "aadd"])
    @pytest.mark.parametrize("run", [None, "r"])
    def test_no_start_without_its_event(self, rig: Rig, execute: Execute, name: str, run: str | None) -> None:
        """Where the call event cannot be written nothing runs; the error is the journal's, and says so."""
        if name == "aadd" and execute is _async:
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
            assert ["c"] == [one.tool_call_id for one in run.in_doubt]
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
            assert ["value", "json", "other"] == [one.tool_call_id for one in run.in_doubt]
            run.resolve("value", result=datetime(2031, 1, 1, tzinfo=UTC))
            run.resolve("json", result="2032-01-01T00:00:00Z")
            run.resolve("other", error="the server was down")
            assert ["operator"] * 3 == [one.resolved_by for one in run.calls]
            years = [rig.registry.execute(call(name="due", call_id=one)).result.year for one in ("value", "json")]
            assert [2031, 2032] == years
            rig.registry.execute(call(2, name="add", call_id="new"))
        assert [*["operator"] * 3, None] == [one.resolved_by for one in rig.registry.journal.calls("r")]
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
            assert [1, 2, 3, 4, 5, 6] == [one.result for one in rig.registry.execute_batch(calls)]
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
            assert [CALL, RESULT] == [one.type for one in journal.read()]

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
        assert ["a", "a", "d", "d"] == [one.call_id for one in rig.store.store.read() if one.call_id]

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
            assert ["a", "a"] == [one.event.tool_call_id for one in journal.read()]


def _in(registry: ToolRegistry, run: str | None, work: Callable[[], Any]) -> Any:
    if run is None:
        return work()
    with registry.run(run):
        return work()


def _fail_for_arguments(rig: Rig, number: int) -> Callable[[str], None]:
    """Return what fails at the call events of one number; they are told from each other by their thread's frames."""

    def see(kind: str) -> None:
        frame: Any = sys._getframe()
        while frame is not None:
            items = frame.f_locals.get("items")
            if items and kind == CALL:
                if any(f'"number":{number}'.encode() in one.body for item in items for one in item.records):
                    raise JournalError(str(rig.path), "the disk is full", "Free space.")
                return
            frame = frame.f_back

    return see


FULL = '''
import resource, signal, sys
from praval_tools import ToolCall, ToolRegistry
from praval_tools.errors import JournalError

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
ran, told = [], []
with ToolRegistry(journal=sys.argv[1]) as registry:
    @registry.tool("work", owned_by="ann")
    def work(text: str) -> int:
        """Work."""
        ran.append(text[:8])
        return len(text)

    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
    with registry.run("r"):
        for at in range(64):
            text = f"{at:08}" + "x" * 20_000
            try:
                assert registry.execute(ToolCall(f"c{at}", "work", {"text": text}, "ann")).success
                told.append("ok")
            except JournalError as error:
                told.append("ran" if "ran; the result" in str(error) else "not run")
                assert "full" in str(error) or "disk" in str(error), error
    assert told.count("ok") + told.count("ran") == len(ran) > 0
    assert told.count("not run") > 0
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    with registry.run("r") as run:
        doubtful = {one.tool_call_id for one in run.in_doubt}
        assert doubtful == {f"c{at}" for at, how in enumerate(told) if how == "ran"}, (doubtful, told)
        for at, how in enumerate(told):
            before = len(ran)
            text = f"{at:08}" + "x" * 20_000
            result = registry.execute(ToolCall(f"c{at}", "work", {"text": text}, "ann"))
            assert {"ok": "ok", "ran": "in_doubt", "not run": "ok"}[how] == result.outcome
            assert len(ran) == before + (how == "not run")
print("well", told.count("ok"), told.count("ran"), told.count("not run"))
'''


class TestFullDisk:
    def test_nothing_runs_unseen(self, path: Path) -> None:
        """On a full disk what runs was written down before; with room again the run goes on, and nothing runs twice."""
        done = subprocess.run([sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, timeout=120)

        assert "" == done.stderr
        assert done.stdout.startswith("well")
        with open_journal(path) as journal:
            entries = list(journal.read(run_id="r"))
        assert list(range(1, len(entries) + 1)) == [one.run_seq for one in entries]


class TestForeignFiles:
    """What is no journal of ours is refused by the registry, and left as it is to the byte."""

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


@pytest.mark.usefixtures("roads")
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

        with pytest.warns(JournalWarning, match="disk is full") as told:
            assert 2 == execute(rig.registry, call()).result
        assert 2 == len(told)

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

    def test_a_lost_result_is_in_doubt(self, rig: Rig, execute: Execute) -> None:
        """A result that was not written was returned, and the call is in doubt when the run is opened again."""
        rig.store.fails.add(RESULT)
        with rig.registry.run("r"), pytest.warns(JournalWarning, match="Tool 'add' ran"):
            assert 2 == execute(rig.registry, call()).result
        rig.store.fails.clear()
        with rig.registry.run("r"):
            assert Outcome.IN_DOUBT is execute(rig.registry, call()).outcome
        assert [1] == rig.ran


class TestIntent:
    """`durability="intent"`: the call event is durable before the start, the result is not waited for."""

    @pytest.fixture
    def rig(self, path: Path) -> Iterator[Rig]:
        """Give a registry that does not wait for results."""
        made = Rig(path, durability="intent")
        yield made
        made.close()

    def test_still_written_ahead(self, rig: Rig, execute: Execute) -> None:
        """No call starts without its event."""
        rig.store.fails.add(CALL)
        with pytest.raises(JournalError, match="Nothing was run"):
            execute(rig.registry, call())
        assert [] == rig.ran

    def test_replays(self, rig: Rig, execute: Execute) -> None:
        """Results are there at once in the run that is open, and in the next."""
        with rig.registry.run("r"):
            execute(rig.registry, call())
            assert execute(rig.registry, call()).replayed
        rig.store.store.append([])
        rig.close()
        again = Rig(rig.path)
        with again.registry.run("r"):
            assert execute(again.registry, call()).replayed
        again.close()

    def test_read_only_in_one_commit(self, rig: Rig, execute: Execute) -> None:
        """Call and result of a tool that changes nothing go in one item."""
        items: list[list[str]] = []
        append, aappend = rig.store.append, rig.store.aappend
        rig.store.append = lambda given: (
            items.extend([one.type for one in item.records] for item in given) or append(given)
        )
        rig.store.aappend = lambda given: (
            items.extend([one.type for one in item.records] for item in given) or aappend(given)
        )

        execute(rig.registry, call(name="look"))

        assert [[CALL, RESULT]] == items

    def test_read_only_that_was_interrupted(self, rig: Rig, execute: Execute) -> None:
        """A read-only call that something stopped is recorded as a whole, and found again by its id."""

        @rig.registry.tool("stop", owned_by="ann", read_only=True)
        def stop(number: int) -> int:
            """Be interrupted."""
            raise KeyboardInterrupt

        with rig.registry.run("r"), pytest.raises(KeyboardInterrupt):
            execute(rig.registry, call(name="stop"))
        assert [CALL, RESULT] == rig.types()
        with rig.registry.run("r") as run:
            assert ["c"] == [one.tool_call_id for one in run.in_doubt]
            assert Outcome.IN_DOUBT is execute(rig.registry, call(name="stop")).outcome

    def test_a_lost_result(self, rig: Rig, execute: Execute) -> None:
        """A result that cannot be written is warned of; its call is in doubt in the next opening."""
        rig.store.fails.add(RESULT)
        with rig.registry.run("r"), pytest.warns(JournalWarning, match="result.*lost"):
            assert 2 == execute(rig.registry, call()).result
        rig.store.fails.clear()
        with rig.registry.run("r"):
            assert Outcome.IN_DOUBT is execute(rig.registry, call()).outcome


def _cancelling(rig: Rig, task: asyncio.Future[Any], kind: str) -> Callable[[str], None]:
    """Return what cancels *task* once, when an event of *kind* is about to be written."""

    def see(what: str) -> None:
        if what == kind:
            rig.store.before = lambda _: None
            task.cancel()

    return see


def _full(items: Sequence[Item]) -> Any:
    raise JournalError("runs.db", "the disk is full", "Free space.")


@pytest.mark.usefixtures("roads")
class TestStopped:
    """Whatever stops a call, the run knows how it stands: now and when it is opened again."""

    @pytest.mark.parametrize("error", [KeyboardInterrupt, GeneratorExit, asyncio.CancelledError])
    def test_interrupted_tool(self, rig: Rig, execute: Execute, error: type[BaseException]) -> None:
        """What is no `Exception` is recorded and raised again; the call is in doubt."""

        @rig.registry.tool("stop", owned_by="ann", engine="thread")
        def stop(number: int) -> int:
            """Be stopped."""
            rig.ran.append(number)
            raise error

        with rig.registry.run("r") as run:
            with pytest.raises(error):
                execute(rig.registry, call(name="stop"))
            assert ["c"] == [one.tool_call_id for one in run.in_doubt]
        with rig.registry.run("r"):
            assert Outcome.IN_DOUBT is execute(rig.registry, call(name="stop")).outcome
        assert [1] == rig.ran

    def test_the_journal_fails_then(self, rig: Rig, execute: Execute) -> None:
        """Where that cannot be recorded, what stopped the call is raised all the same, with a warning."""

        @rig.registry.tool("stop", owned_by="ann")
        def stop(number: int) -> int:
            """Be interrupted."""
            raise KeyboardInterrupt

        rig.store.fails.add(RESULT)
        with rig.registry.run("r") as run:
            with pytest.raises(KeyboardInterrupt), pytest.warns(JournalWarning, match="disk is full"):
                execute(rig.registry, call(name="stop"))
            assert ["c"] == [one.tool_call_id for one in run.in_doubt]

    def test_cancelled_before_its_intent_landed(self, rig: Rig) -> None:
        """A task that is cancelled while its call event is written ran nothing, and the call may run later."""

        async def work() -> None:
            async with rig.registry.run("r") as run:
                task = asyncio.ensure_future(rig.registry.aexecute(call(name="aadd")))
                rig.store.before = _cancelling(rig, task, CALL)
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert [] == rig.ran
                assert [] == run.in_doubt
                assert 2 == (await rig.registry.aexecute(call(name="aadd"))).result
            async with rig.registry.run("r"):
                assert (await rig.registry.aexecute(call(name="aadd"))).replayed

        asyncio.run(work())
        assert [1] == rig.ran

    def test_cancelled_before_its_intent_landed_and_opened_anew(self, rig: Rig) -> None:
        """So does the next opening."""

        async def work() -> None:
            async with rig.registry.run("r"):
                task = asyncio.ensure_future(rig.registry.aexecute(call(name="aadd")))
                rig.store.before = _cancelling(rig, task, CALL)
                with pytest.raises(asyncio.CancelledError):
                    await task
            async with rig.registry.run("r") as run:
                assert [] == run.in_doubt
                assert 2 == (await rig.registry.aexecute(call(name="aadd"))).result

        asyncio.run(work())
        assert [1] == rig.ran

    @pytest.mark.parametrize("idempotent", [True, None])
    def test_cancelled_before_its_result_landed(self, rig: Rig, idempotent: bool | None) -> None:
        """A task that is cancelled while its result is written: the result counts, and nothing runs again."""

        @rig.registry.tool("pay", owned_by="ann", idempotent=idempotent)
        async def pay(number: int) -> int:
            """Pay."""
            rig.ran.append(number)
            return len(rig.ran)

        async def work() -> None:
            async with rig.registry.run("r") as run:
                task = asyncio.ensure_future(rig.registry.aexecute(call(name="pay")))
                rig.store.before = _cancelling(rig, task, RESULT)
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert [] == run.in_doubt
                again = await rig.registry.aexecute(call(name="pay"))
                assert (1, True) == (again.result, again.replayed)

        asyncio.run(work())
        assert [1] == rig.ran

    @pytest.mark.parametrize("learns", [True, False])
    def test_cancelled_twice_before_its_result_landed(self, rig: Rig, learns: bool) -> None:
        """
        Cancelled again meanwhile: the run learns later that the result is written, and gives it back.

        If it never learns it, the tool runs again, as it may; the result that was recorded first is the result.
        """

        @rig.registry.tool("pay", owned_by="ann", idempotent=True)
        async def pay(number: int) -> int:
            """Pay."""
            rig.ran.append(number)
            return len(rig.ran)

        async def work() -> None:
            async with rig.registry.run("r") as run:
                task = asyncio.ensure_future(rig.registry.aexecute(call(name="pay")))
                left = [True, True]

                def see(kind: str) -> None:
                    if kind == RESULT and left:
                        left.pop()
                        task.cancel()
                        if not left and not learns:
                            rig.store.submit = _full

                rig.store.before = see
                with pytest.raises(asyncio.CancelledError):
                    await task
                while learns and run.in_doubt:
                    await asyncio.sleep(0.001)
                again = await rig.registry.aexecute(call(name="pay"))
                assert (1, True, "c") == (again.result, again.replayed, again.tool_call_id)
                assert [] == run.in_doubt
                third = await rig.registry.aexecute(call(name="pay"))
                assert (1, True) == (third.result, third.replayed)

        asyncio.run(work())
        assert [1] * (1 if learns else 2) == rig.ran
        assert 1 == rig.types().count(RESULT)
        assert rig.registry.journal.stats().get_all_stats() == rig.registry.stats.get_all_stats()

    def test_stopped_call_that_is_stopped_again(self, rig: Rig) -> None:
        """A call that was cancelled, and again while that is written, is recorded once and counted once."""
        inside = asyncio.Event()

        @rig.registry.tool("hang", owned_by="ann")
        async def hang(number: int) -> None:
            """Hang."""
            inside.set()
            await asyncio.sleep(3600)

        async def work() -> None:
            async with rig.registry.run("r") as run:
                task = asyncio.ensure_future(rig.registry.aexecute(call(name="hang")))
                await inside.wait()
                rig.store.before = _cancelling(rig, task, RESULT)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert ["c"] == [one.tool_call_id for one in run.in_doubt]

        asyncio.run(work())
        rig.registry.execute(call(call_id="after"))  # written after all that waits
        assert 2 == rig.types().count(RESULT)
        assert rig.registry.journal.stats().get_all_stats() == rig.registry.stats.get_all_stats()

    def test_interrupted_while_its_result_is_written(self, rig: Rig) -> None:
        """The same in sync code."""
        append = rig.store.append

        def interrupted(items: Sequence[Item]) -> list[Answer]:
            answers = append(items)
            if items[0].records[0].type == RESULT:
                rig.store.append = append
                raise KeyboardInterrupt
            return answers

        with rig.registry.run("r") as run:
            rig.store.append = interrupted
            with pytest.raises(KeyboardInterrupt):
                rig.registry.execute(call())
            assert [] == run.in_doubt
            assert rig.registry.execute(call()).replayed
        assert [1] == rig.ran

    def test_a_coroutine_that_is_closed(self, rig: Rig) -> None:
        """A call whose coroutine is thrown away inside of its tool is in doubt."""

        @rig.registry.tool("hang", owned_by="ann", timeout=None)
        async def hang(number: int) -> None:
            """Hang."""
            rig.ran.append(number)
            await asyncio.sleep(3600)

        with rig.registry.run("r") as run:
            loop = asyncio.new_event_loop()
            work = loop.create_task(rig.registry.aexecute(call(name="hang")))
            while not rig.ran:
                loop.run_until_complete(asyncio.sleep(0))
            work._log_destroy_pending = False
            work.get_coro().close()
            loop.close()
            assert ["c"] == [one.tool_call_id for one in run.in_doubt]
        with rig.registry.run("r"):
            assert Outcome.IN_DOUBT is rig.registry.execute(call(name="hang")).outcome

    def test_a_sync_call_of_an_async_tool_in_a_loop(self, rig: Rig) -> None:
        """A refusal of the driver leaves the call free to run, in this opening and the next."""

        async def work() -> None:
            async with rig.registry.run("r") as run:
                with pytest.raises(ToolUsageError, match="'aadd' is async"):
                    rig.registry.execute(call(name="aadd"))
                assert [] == run.in_doubt
                assert 2 == (await rig.registry.aexecute(call(name="aadd"))).result

        asyncio.run(work())


@pytest.mark.usefixtures("roads")
class TestDoubtStays:
    """A call that was in doubt stays so until it has really run again, or somebody says what came of it."""

    @pytest.fixture
    def doubtful(self, rig: Rig) -> Rig:
        """Leave a doubtful call of a tool that honours its key behind."""
        hurt = [True]

        @rig.registry.tool("pay", owned_by="ann", idempotent=True)
        def pay(number: int) -> int:
            """Pay, and be interrupted the first time."""
            rig.ran.append(number)
            if hurt:
                hurt.clear()
                raise KeyboardInterrupt
            return number + 1

        with rig.registry.run("r"), pytest.raises(KeyboardInterrupt):
            rig.registry.execute(call(name="pay"))
        return rig

    @pytest.mark.parametrize("how", ["block", "disable", "unregister", "limit"])
    def test_a_refusal_does_not_end_it(self, doubtful: Rig, how: str) -> None:
        """A call in doubt that may not run today is refused, and stays in doubt: it may have done its work."""
        registry = doubtful.registry
        if how == "block":
            registry.block("pay", "ann")
        elif how == "disable":
            registry.disable("pay")
        elif how == "limit":
            registry.limits.set(tool="pay", per_minute=1)
            registry.execute(call(name="pay", call_id="other"))
        else:
            tool = registry.get_tool("pay")
            registry.unregister_tool("pay")
        for _ in range(2):
            with registry.run("r") as run:
                assert not registry.execute(call(name="pay")).success
                assert ["c"] == [one.tool_call_id for one in run.in_doubt]
        (info,) = registry.journal.runs()
        assert 1 == info.in_doubt
        if how == "unregister":
            registry.register_tool(tool)
        elif how == "block":
            registry.unblock("pay", "ann")
        elif how == "disable":
            registry.enable("pay")
        else:
            registry.limits.set(tool="pay")
        with registry.run("r") as run:
            assert 2 == registry.execute(call(name="pay")).result
            assert [] == run.in_doubt

    def test_cancelled_before_it_ran_again(self, doubtful: Rig) -> None:
        """A second run that is stopped before it began changes nothing."""
        registry = doubtful.registry

        async def work() -> None:
            async with registry.run("r") as run:
                task = asyncio.ensure_future(registry.aexecute(call(name="pay")))
                doubtful.store.before = _cancelling(doubtful, task, CALL)
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert ["c"] == [one.tool_call_id for one in run.in_doubt]

        asyncio.run(work())
        with registry.run("r") as run:
            assert ["c"] == [one.tool_call_id for one in run.in_doubt]
            assert 2 == registry.execute(call(name="pay")).result

    def test_rerun_that_is_refused(self, rig: Rig) -> None:
        """A call that a person let run again, and that may not today, may run another day."""

        @rig.registry.tool("stop", owned_by="ann")
        def stop(number: int) -> int:
            """Be interrupted the first time."""
            rig.ran.append(number)
            if len(rig.ran) == 1:
                raise KeyboardInterrupt
            return number

        with rig.registry.run("r"), pytest.raises(KeyboardInterrupt):
            rig.registry.execute(call(name="stop"))
        rig.registry.disable("stop")
        with rig.registry.run("r") as run:
            run.resolve("c", rerun=True)
            assert Outcome.DISABLED is rig.registry.execute(call(name="stop")).outcome
        rig.registry.enable("stop")
        with rig.registry.run("r"):
            assert 1 == rig.registry.execute(call(name="stop")).result


@pytest.mark.usefixtures("roads")
class TestLate:
    """Functions that end after their call was given up."""

    def _slow(self, rig: Rig, **metadata: Any) -> tuple[threading.Event, threading.Event]:
        go, over = threading.Event(), threading.Event()

        @rig.registry.tool("slow", owned_by="ann", timeout=0.01, **metadata)
        def slow(number: int, context: ToolContext) -> int:
            """Take long."""
            rig.ran.append(number)
            assert go.wait(60)
            over.set()
            return number + 1

        return go, over

    def test_a_late_result_changes_nothing(self, rig: Rig, execute: Execute) -> None:
        """The outcome stays `timeout`, also in a replay; the late result is in the journal."""
        go, over = self._slow(rig)
        written = threading.Event()
        submit = rig.store.submit

        def watched(items: Sequence[Item]) -> Any:
            done = submit(items)
            done.add_done_callback(lambda _: written.set())
            return done

        rig.store.submit = watched
        with rig.registry.run("r"):
            assert Outcome.TIMEOUT is execute(rig.registry, call(name="slow")).outcome
            go.set()
            assert written.wait(60)
        with rig.registry.run("r"):
            again = execute(rig.registry, call(name="slow"))
        assert (Outcome.TIMEOUT, True) == (again.outcome, again.replayed)
        assert [CALL, RESULT, "late_result"] == rig.types()

    def test_after_the_journal_was_closed(self, rig: Rig) -> None:
        """A function that ends when the journal is gone frees its thread and its place all the same."""
        go, over = self._slow(rig)
        rig.registry.limits.set(tool="slow", concurrent=1)
        failed: list[Any] = []
        before, threading.excepthook = threading.excepthook, failed.append
        try:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                assert Outcome.TIMEOUT is rig.registry.execute(call(name="slow")).outcome
                rig.store.store.close()
                go.set()
                assert over.wait(60)
                assert 0 == rig.registry.drain(timeout=60)
                ended = rig.registry._runtime.threads
                while ended._blocked:
                    pass
                rig.registry.close()
        finally:
            threading.excepthook = before
        assert [] == failed
        assert ["lost" in str(one.message) for one in told] == [True]


@pytest.mark.usefixtures("roads")
class TestRetriesAndApprovals:
    def test_retries_are_one_call(self, rig: Rig, execute: Execute) -> None:
        """Each attempt is written ahead; there is one result, and a replay gives it without another try."""
        rig.close()
        again = Rig(rig.path, retries=2, retry_wait=0)

        @again.registry.tool("flaky", owned_by="ann")
        def flaky(number: int) -> int:
            """Fail twice."""
            again.ran.append(number)
            if len(again.ran) < 3:
                raise RetryableToolError("later")
            return number

        with again.registry.run("r"):
            assert 3 == execute(again.registry, call(name="flaky")).attempts
        with again.registry.run("r"):
            assert execute(again.registry, call(name="flaky")).replayed
        assert [CALL, CALL, CALL, RESULT] == again.types()
        again.close()

    def test_the_journal_fails_between_attempts(self, rig: Rig, execute: Execute) -> None:
        """An attempt that cannot be written ahead does not begin."""
        rig.close()
        again = Rig(rig.path, retries=2, retry_wait=0)

        @again.registry.tool("flaky", owned_by="ann")
        def flaky(number: int) -> int:
            """Fail, and fill the disk."""
            again.ran.append(number)
            again.store.fails.add(CALL)
            raise RetryableToolError("later")

        with again.registry.run("r") as run:
            with pytest.raises(JournalError):
                execute(again.registry, call(name="flaky"))
            assert ["c"] == [one.tool_call_id for one in run.in_doubt]
        assert [1] == again.ran
        again.close()

    def test_approval_and_resend(self, rig: Rig, execute: Execute) -> None:
        """A call that waits for an approval is sent again and runs once; the answer is found by the next process."""

        @rig.registry.tool("wire", owned_by="ann", requires_approval=True)
        def wire(number: int) -> int:
            """Wire money."""
            rig.ran.append(number)
            return number

        with rig.registry.run("r"):
            assert Outcome.APPROVAL_REQUIRED is execute(rig.registry, call(name="wire")).outcome
            assert Outcome.APPROVAL_REQUIRED is execute(rig.registry, call(name="wire")).outcome
            rig.registry.approvals.answer("c", Allow(by="eve"))
        assert [] == rig.ran
        with rig.registry.run("r"):
            assert 1 == execute(rig.registry, call(name="wire")).result
            assert execute(rig.registry, call(name="wire")).replayed
        with rig.registry.run("r") as run:
            assert execute(rig.registry, call(name="wire")).replayed
            assert [] == run.in_doubt
        assert [1] == rig.ran

    def test_an_answer_that_cannot_be_written_does_not_count(self, rig: Rig) -> None:
        """An approval counts once it is durable."""

        @rig.registry.tool("wire", owned_by="ann", requires_approval=True)
        def wire(number: int) -> int:
            """Wire money."""
            rig.ran.append(number)
            return number

        rig.registry.execute(call(name="wire"))
        rig.store.fails.add("approval_answered")
        with pytest.raises(JournalError):
            rig.registry.approvals.answer("c", Allow(by="eve"))
        rig.store.fails.clear()

        assert Outcome.APPROVAL_REQUIRED is rig.registry.execute(call(name="wire")).outcome
        assert [] == rig.ran


@pytest.mark.usefixtures("roads")
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
