"""The PostgreSQL store: connections that are cut, a server that cannot be reached, leases, notifications, versions."""

# Tests of: postgres, postgres_leases, postgres_schema, open_database, migrate, 0003_leases

from __future__ import annotations

import random
import threading
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from journal_rig import NOON, intent, note, record
from state_rig import outcome
from store_rig import SERVER, get_test_database, make_database, make_empty_database
from survivors import Started

psycopg = pytest.importorskip("psycopg")
from psycopg import sql  # noqa: E402

from praval_tools import ToolCall, ToolRegistry  # noqa: E402
from praval_tools.errors import JournalError, RunBusyError, ToolUsageError  # noqa: E402
from praval_tools.journal import Item, Record, StateRow, Uses, open_store  # noqa: E402
from praval_tools.journal.storage.postgres import PostgresDatabase, get_url_name  # noqa: E402
from praval_tools.journal.storage.postgres_schema import read_schema_version, upgrade_schema  # noqa: E402
from praval_tools.journal.storage.sql_store import SqlStore  # noqa: E402

PASSWORD = "not-to-be-shown"


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a new database, with a password, which the server does not ask for."""
    monkeypatch.setenv("PRAVAL_TOOLS_KEY", "a key that all processes share")
    with make_database() as made:
        yield made.replace("postgres@", f"postgres:{PASSWORD}@")


def cut_connections(name: str) -> int:
    """End all sessions of the test's database whose application has this name; return how many there were."""
    ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = %s"
    with psycopg.connect(f"{SERVER}/postgres", autocommit=True) as connection:
        (count,) = connection.execute(ended, (name,)).fetchone() or (0,)
    return int(count)


@contextmanager
def unreachable(name: str) -> Iterator[None]:
    """Let the server end and refuse all connections to the test's database."""
    database = sql.Identifier(get_test_database().rpartition("/")[2])
    with psycopg.connect(f"{SERVER}/postgres", autocommit=True) as connection:
        connection.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(database))
        try:
            cut_connections(name)
            yield
        finally:
            connection.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS true").format(database))


class Cutter:
    """A thread that cuts the connections of an application at random moments until it is stopped."""

    def __init__(self, name: str, seed: int) -> None:
        self.cuts, self._name, self._chance = 0, name, random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work)

    def _work(self) -> None:
        while not self._stop.wait(self._chance.uniform(0.0, 0.12)):
            self.cuts += cut_connections(self._name)

    def __enter__(self) -> Cutter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def append_until(store: SqlStore, enough: Any, thread: int) -> list[str]:
    """Append calls, notes and changes until *enough* says so; return the ids of what was acknowledged."""
    acknowledged, at = list[str](), 0
    while not enough():
        at += 1
        name, when = f"{thread}-{at}", thread * 1_000_000 + at
        items = [
            intent(name, f"run-{at % 3}", at=when, spend=("grant",) if at % 4 == 0 else ()),
            note(f"{name}-note", at=when),
        ]
        if at % 5 == 0:
            items.append(Item((record(f"{name}-change", at=when),), rows=(StateRow("block", name, "", b"x"),)))
        try:
            store.append(items)
        except JournalError:
            continue
        acknowledged += [item.records[0].id for item in items]
    return acknowledged


def check_records(records: list[Record], acknowledged: list[str]) -> None:
    """Assert that nothing is lost, nothing is there twice, and that runs have no gaps."""
    counts = Counter(one.id for one in records)
    assert {1} == set(counts.values())
    assert set() == set(acknowledged) - set(counts)
    assert sorted(one.seq or 0 for one in records) == [one.seq for one in records]
    for run in ("run-0", "run-1", "run-2"):
        places = [one.run_seq for one in records if one.run_id == run]
        assert list(range(1, len(places) + 1)) == places


class TestCuts:
    def test_nothing_is_lost_or_written_twice(self, url: str) -> None:
        """Connections are cut at random moments while four threads write: what was acknowledged is there, once."""
        store = SqlStore(f"{url}&application_name=cut-often")
        store.append([Item((record("grant"),), uses=(Uses("grant", 1_000_000),))])
        with Cutter("cut-often", 7) as cutter, ThreadPoolExecutor(4) as pool:
            threads = [pool.submit(append_until, store, lambda: cutter.cuts >= 60, one) for one in range(4)]
            acknowledged = [name for one in threads for name in one.result(300)]
        found, view = list(store.read()), store.state()
        store.close()

        check_records(found, acknowledged)
        calls = sum(one.type == "agent_tool_call" and int(one.id.split("-")[1]) % 4 == 0 for one in found)
        assert Uses("grant", 1_000_000 - calls) in view.uses
        assert view.revision == 1 + sum(one.id.endswith("change") for one in found)
        assert len(acknowledged) > 60

    def test_an_append_survives_a_cut(self, url: str) -> None:
        """A connection that was cut while nothing was written costs nobody anything."""
        with SqlStore(f"{url}&application_name=cut-idle") as store:
            store.append([note("before")])
            assert cut_connections("cut-idle") > 0

            assert "done" == store.append([note("after")])[0].status
            assert ["before", "after"] == [one.id for one in store.read()]

    @pytest.mark.parametrize(
        "failure",
        [
            "PERFORM pg_terminate_backend(pg_backend_pid()), pg_sleep(1)",
            "RAISE EXCEPTION 'too late' USING ERRCODE = '57014'",
            "RAISE EXCEPTION 'not allowed' USING ERRCODE = '42501'",
        ],
        ids=["cut", "cancelled", "refused"],
    )
    def test_what_was_committed_before_the_cut_is_not_written_again(self, url: str, failure: str) -> None:
        """Where the answer to a commit is lost, the record is found, and no count is spent again."""
        with psycopg.connect(url, autocommit=True) as connection:  # what waits for the log fails every other time
            connection.execute("CREATE SEQUENCE waits")
            connection.execute(
                "CREATE FUNCTION pg_logical_emit_message(boolean, text, text) RETURNS pg_lsn LANGUAGE plpgsql AS "
                f"$$ BEGIN IF nextval('waits') % 2 = 0 THEN {failure}; END IF; RETURN NULL; END $$"
            )
        with SqlStore(f"{url}%2Cpg_catalog") as store:
            store.append([Item((record("grant"),), uses=(Uses("grant", 5),)), intent("0")])
            for number, spend in ((1, ()), (2, ("grant",))):
                (answer,) = store.append([intent(str(number), spend=spend, at=number)])

                assert ("done", number + 1) == (answer.status, answer.run_seq)
            assert ["0-0", "1-0", "2-0"] == [one.id for one in store.read(run_id="run")]
            assert (Uses("grant", 4),) == store.state().uses


class TestTexts:
    @pytest.mark.parametrize(
        "text", ["", "NULL", '"', "\\", '\\"', "{a,b}", ",", " ", "'", "\0", "\x1a", "\x1a\x02", "%s", "ä😀"]
    )
    def test_come_back_as_they_were(self, url: str, text: str) -> None:
        """Whatever the names and ids of a call are, on each way of writing."""
        with SqlStore(url) as store:
            for number in range(3):  # the second is written in one statement, as a group
                assert "done" == store.append([intent(f"{number}{text}", run=text, tool=text, agent=text)])[0].status
            found = [(one.call_id, one.run_id, one.tool, one.agent) for one in store.read(run_id=text)]
        assert [(f"{number}{text}", text, text, text) for number in range(3)] == found

    def test_ids_of_calls_may_be_long(self, url: str) -> None:
        """An id that is too long for an index is recorded as its digest, by which its call is replayed."""
        numbers = random.Random(1)
        ids = ["".join(chr(numbers.randrange(0x4E00, 0x9FA0)) for _ in range(3_000)) for _ in range(2)]
        with ToolRegistry(journal=url) as registry:
            registry.tool("one", shared=True, description="One.")(lambda: 1)
            results = []
            for _ in range(2):
                with registry.run("r", match="id"):
                    results += [registry.execute(ToolCall(call_id, "one", {}, "ann")) for call_id in ids]
        assert [False, False, True, True] == [result.replayed for result in results]
        assert [*ids, *ids] == [result.tool_call_id for result in results]

    def test_what_is_too_long_is_said(self, url: str) -> None:
        """A run's id that no index takes is an error about that, and none about the connection."""
        numbers = random.Random(1)
        with SqlStore(url) as store, pytest.raises(JournalError, match="too long.*shorter"):
            store.open_run("".join(chr(numbers.randrange(0x4E00, 0x9FA0)) for _ in range(1_000)))


class TestUnreachable:
    def test_the_error_says_what_to_do_and_no_secret(self, url: str) -> None:
        """Where nobody answers, opening says so; the password is nowhere in the error."""
        address = url.replace(":5432", ":1")
        with pytest.raises(JournalError, match=r"cannot be reached.*Check the URL and that PostgreSQL runs") as caught:
            open_store(address)
        text = "".join(traceback.format_exception(caught.value))
        assert PASSWORD not in text + repr(caught.value) + get_url_name(address)

    @pytest.mark.parametrize(
        "bad",
        [
            "postgresql://u:se cret@[::1/db", "postgresql://u:secret@h:po:rt/db?secret=1", "postgresql://u:se/cret@h:1/db",
            "postgresql://u:se@cret@h:1/db", "postgresql://u:se/cret@h",
        ],
    )  # fmt: skip
    def test_a_url_that_cannot_be_read(self, bad: str) -> None:
        """The error shows how a URL is written, and nothing of this one."""
        with pytest.raises(ToolUsageError, match="Write postgresql://USER:PASSWORD@HOST") as caught:
            open_store(bad)
        assert "cret" not in "".join(traceback.format_exception(caught.value))

    def test_it_recovers_by_itself(self, url: str) -> None:
        """Writing and reading fail while the server refuses, with the reason, and work as soon as it answers again."""
        with SqlStore(f"{url}&application_name=refused") as store:
            store.append([note("before")])
            with unreachable("refused"):
                for way in (lambda: store.append([note("lost")]), store.count, lambda: store.open_run("r")):
                    with pytest.raises(JournalError, match="cannot be reached") as caught:
                        way()
                    assert PASSWORD not in "".join(traceback.format_exception(caught.value))
            store.append([note("after")])
            store.open_run("r").release()
            assert ["before", "after"] == [one.id for one in store.read()]

    def test_a_narrowing_counts_all_the_same(self, url: str) -> None:
        """While the server refuses, a block counts here and raises, a grant does neither; the block is stored later."""
        address = f"{url}&application_name=narrow"
        with Started(address) as registry:
            assert "ok" == outcome(registry, "open")
            with unreachable("narrow"):
                with pytest.raises(JournalError, match="cannot be reached"):
                    registry.block("open", "clerk")
                with pytest.raises(JournalError, match="cannot be reached"):
                    registry.assign_tool_to_agent("spend", "clerk")
                assert not registry.state.get_access("clerk", "open").blocks == ()
            assert "forbidden" == outcome(registry, "open")
            assert "forbidden" == outcome(registry, "spend", amount=1)
            registry.disable("look")
        with Started(address) as again:
            assert ["forbidden", "disabled"] == [outcome(again, "open"), outcome(again, "look")]


class TestLeases:
    def test_a_cut_lease_is_taken_up_again(self, url: str) -> None:
        """Where nobody opened the run meanwhile, its holder goes on, and nobody else gets in."""
        with SqlStore(f"{url}&application_name=holder") as holder, SqlStore(url) as other:
            lease = holder.open_run("run")
            before = holder._leases._connection  # type: ignore[attr-defined]
            cut_connections("holder")
            while holder._leases._connection is before:  # type: ignore[attr-defined]
                pass
            lease.check()

            assert "done" == holder.append([intent("a")])[0].status
            with pytest.raises(RunBusyError, match="process [0-9]+ on "):
                other.open_run("run")
            lease.release()
            other.open_run("run").release()

    def test_who_was_cut_off_writes_nothing_into_a_run_that_another_opened(self, url: str) -> None:
        """The first holder starts no call any more, checked or not; its other runs and records go on."""
        with SqlStore(f"{url}&application_name=holder") as holder, SqlStore(url) as other:
            lease = holder.open_run("run")
            holder._leases._use_session = _refuse  # type: ignore[attr-defined]
            cut_connections("holder")
            taken = _open_soon(other, "run")

            with pytest.raises(JournalError, match="another process has opened the run") as caught:
                holder.append([note("free"), intent("a"), intent("b", "other run")])

            assert ["done", "failed", "done"] == [one.status for one in caught.value.answers]
            del holder._leases._use_session  # type: ignore[attr-defined]
            with pytest.raises(JournalError, match="another process has opened the run"):
                lease.check()
            lease.release()
            assert "done" == other.append([intent("a")])[0].status
            taken.release()
            assert [1] == [one.run_seq for one in other.read(run_id="run")]

    def test_calls_of_a_lost_run_do_not_start(self, url: str) -> None:
        """A tool is not run in a run that another process has opened since."""
        ran = list[int]()
        with ToolRegistry(journal=f"{url}&application_name=holder") as registry, SqlStore(url) as other:

            @registry.tool("note", owned_by="ann")
            def note_down(number: int) -> None:
                """Note a number."""
                ran.append(number)

            ann = registry.agent("ann")
            with registry.run("r"):
                ann.call("note", number=1)
                store = registry.journal.store  # type: ignore[union-attr]
                store._leases._use_session = _refuse  # type: ignore[attr-defined]
                cut_connections("holder")
                with _open_soon(other, "r"):
                    del store._leases._use_session  # type: ignore[attr-defined]
                    with pytest.raises(JournalError, match="Open the run anew"):
                        ann.call("note", number=2)
            assert [1] == ran
            with registry.run("r"):
                ann.call("note", number=2)
        assert [1, 2] == ran


def _refuse() -> Any:
    raise JournalError("test", "the session cannot be renewed", "Wait.")


def _open_soon(store: SqlStore, run: str) -> Any:
    """Open a run as soon as the server has noticed that its holder was cut off."""
    while True:
        try:
            return store.open_run(run)
        except RunBusyError:
            continue


class TestNotifications:
    def test_who_subscribed_hears_of_a_change_elsewhere(self, url: str) -> None:
        """A change of one registry reaches the subscribers of another, which does nothing meanwhile."""
        with Started(url) as here, Started(url) as there:
            heard = threading.Event()
            there.subscribe(lambda _: heard.set())
            here.block("open", "clerk")
            assert heard.wait(30)
            assert "open" not in [tool.name for tool in there.get_tools_for_agent("clerk")]

    def test_it_is_noticed_after_a_cut(self, url: str) -> None:
        """What changed while the connection was cut, so that no notification came, is read when there is a new one."""
        with Started(url) as here, Started(f"{url}&application_name=deaf") as there:
            heard = threading.Event()
            there.subscribe(lambda _: heard.set())
            cut_connections("deaf")
            here.block("open", "clerk")
            assert heard.wait(30)

    def test_a_listing_asks_without_notifications(self, url: str) -> None:
        """Where no notification can come, a listing asks the database itself, some times a second."""
        with Started(url) as here, Started(url) as there:
            there.journal.store._leases.close()  # type: ignore[union-attr]
            here.block("open", "clerk")
            while "open" in [tool.name for tool in there.get_tools_for_agent("clerk")]:
                pass


class TestSchema:
    def test_a_database_without_tables_says_the_command(self) -> None:
        """Opening it names the command, with the URL and without its password; then it works."""
        with make_empty_database() as made:
            address = made.replace("postgres@", f"postgres:{PASSWORD}@")
            with pytest.raises(JournalError, match="no tables of a journal.*praval-tools db upgrade") as caught:
                open_store(address)
            assert PASSWORD not in str(caught.value)
            assert get_url_name(address) == made
            database = PostgresDatabase(address)
            assert (None, "0005", "0005") == (
                upgrade_schema(database), read_schema_version(database), upgrade_schema(database),
            )  # fmt: skip
            database.close()
            open_store(address).close()

    def test_a_newer_database_is_left_alone(self, url: str) -> None:
        """Tables of a newer version are neither used nor changed."""
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("UPDATE journal_version SET version_num = '9999'")
        with pytest.raises(JournalError, match="newer praval-tools.*Upgrade praval-tools"):
            open_store(url)
        database = PostgresDatabase(url)
        with pytest.raises(JournalError, match="newer"):
            upgrade_schema(database)
        database.close()

    def test_two_that_upgrade_at_once(self) -> None:
        """One upgrades, the other finds it done."""
        with make_empty_database() as made, ThreadPoolExecutor(4) as pool:

            def upgrade(_: int) -> str | None:
                database = PostgresDatabase(made)
                try:
                    return upgrade_schema(database)
                finally:
                    database.close()

            assert ["0005"] * 3 == sorted(filter(None, pool.map(upgrade, range(4))))


class TestPruning:
    def test_runs_that_another_process_has_open_stay(self, url: str) -> None:
        """Old runs are deleted, but for one that is open elsewhere."""
        with SqlStore(url) as here, SqlStore(url) as there, there.open_run("open"):
            here.append([note(run_id="old"), note(run_id="open")])
            assert 1 == here.prune(NOON + timedelta(days=1))
            assert ["open"] == [one.run_id for one in here.runs()]
            assert [1, 2] == [there.append([note(run_id=run)])[0].run_seq for run in ("old", "open")]
