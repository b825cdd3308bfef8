"""Several processes over one store: exact counts, one order, leases that die with their holder."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest
from journal_children import child, grant, output
from journal_rig import intent, note, record, result
from store_rig import location, open_sql_store  # noqa: F401  # a fixture

from praval_tools.errors import RunBusyError
from praval_tools.journal import Item, StateRow, Status
from praval_tools.journal.storage.protocol import Lease
from praval_tools.journal.storage.sql_store import SqlStore


def _at_once(name: str, processes: int, *arguments: object) -> list[list[str]]:
    """Start *processes* children, let them go together, and return what each printed."""
    with ExitStack() as stack:
        children = [stack.enter_context(child(name, *arguments)) for _ in range(processes)]
        for one in children:
            assert one.stdout is not None
            assert "ready\n" == one.stdout.readline()
        for one in children:
            assert one.stdin is not None
            one.stdin.write("go\n")
            one.stdin.flush()
        return [one.communicate(timeout=120)[0].split() for one in children]


class TestProcesses:
    def test_all_write_one_order(self, location: Path | str) -> None:
        """Four processes of four threads in the same runs: every place is given once, and runs have no gaps."""
        grant(location, 10_000)
        with ExitStack() as stack:
            children = [stack.enter_context(child("calls", location, f"p{one}", 25)) for one in range(4)]
            lines = [line for one in children for line in one.communicate(timeout=120)[0].splitlines()]

        with open_sql_store(location) as store:
            found = list(store.read())
        assert 4 * 4 * 25 * 3 == len(lines) == len({line.split()[2] for line in lines})
        for run in ("run-0", "run-1", "run-2"):
            places = [one.run_seq for one in found if one.run_id == run]
            assert list(range(1, len(places) + 1)) == places

    def test_a_count_and_a_call_are_exact(self, location: Path | str) -> None:
        """Of five processes that begin the same 60 calls under a grant of 40, each call begins once, 40 in all."""
        grant(location, 40)

        answers = Counter(one for lines in _at_once("race", 5, location, 60) for one in lines)

        assert 40 == answers["done"]
        assert 5 * 60 == answers["done"] + answers["exists"] + answers["exhausted"]
        with open_sql_store(location) as store:
            assert 40 == sum(1 for _ in store.read(run_id="run"))
            assert 0 == store.state().uses[0].left

    def test_a_store_is_made_once(self, location: Path | str) -> None:
        """Eight processes that open a store at once make one journal, and all write into it."""

        assert [["done"]] * 8 == _at_once("opened", 8, location)

        with open_sql_store(location) as store:
            assert list(range(1, 9)) == [one.seq for one in store.read()]

    def test_a_change_counts_at_once_for_others(self, location: Path | str) -> None:
        """A decision of before somebody else's change is refused; what changed can be read."""
        with open_sql_store(location) as here, open_sql_store(location) as there:
            assert Status.DONE is here.append([intent("a", revision=0)])[0].status
            there.append([Item((record("change"),), rows=(StateRow("block", "b", "", b"x"),))])

            assert Status.STALE is here.append([intent("b", revision=0)])[0].status
            assert ("b",) == tuple(one.key for one in here.state(0).rows)

    def test_what_others_wrote_is_known(self, location: Path | str) -> None:
        """Two stores that take turns in one run give its places without gap, also when one forgot the run."""
        with open_sql_store(location) as one, open_sql_store(location) as other:
            for at in range(10):
                assert 2 * at + 1 == one.append([intent(str(at))])[0].run_seq
                assert 2 * at + 2 == other.append([result(str(at))])[0].run_seq
            other.prune(record(at=10).time)
            assert 1 == one.append([intent("0")])[0].run_seq


class TestLeases:
    def test_a_lease_ends_with_its_holder(self, location: Path | str) -> None:
        """Killed, its holder lets go at once, though a forked child and a program that it started live on."""
        with open_sql_store(location) as store, child("hold", location, "r") as holder:
            assert holder.stdout is not None
            pid, *others = map(int, holder.stdout.readline().split())
            try:
                with pytest.raises(RunBusyError, match=f"process {pid} on "):
                    store.open_run("r")
                store.open_run("other").release()

                holder.kill()
                holder.wait()

                for other in others:
                    os.kill(other, 0)
                _open_when_free(store, "r").release()
            finally:
                for other in others:
                    os.kill(other, signal.SIGKILL)

    def test_a_released_lease_is_free_while_its_holder_lives(self, location: Path | str) -> None:
        """Releasing is enough, and leaves no file."""
        with open_sql_store(location) as store, child("hold", location, "r") as holder:
            assert holder.stdout is not None and holder.stdin is not None
            _, *others = map(int, holder.stdout.readline().split())
            holder.stdin.write("release\n")
            holder.stdin.flush()
            assert "released\n" == holder.stdout.readline()

            store.open_run("r").release()

            for other in others:
                os.kill(other, signal.SIGKILL)
        if isinstance(location, Path):
            assert ["open.lock"] == sorted(one.name for one in location.with_name("runs.db-locks").iterdir())

    def test_two_stores_of_one_process(self, location: Path | str) -> None:
        """The lock is the file's, not the object's."""
        with open_sql_store(location) as one, open_sql_store(location) as other, one.open_run("r"):
            with pytest.raises(RunBusyError, match=f"process {os.getpid()} "):
                other.open_run("r")

    def test_closing_releases(self, location: Path | str) -> None:
        """A closed store holds no run."""
        with open_sql_store(location) as one:
            one.open_run("r")
        with open_sql_store(location) as other:
            other.open_run("r").release()


def _open_when_free(store: SqlStore, run: str) -> Lease:
    """Open a run as soon as a server has noticed that its holder died."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return store.open_run(run)
        except RunBusyError:
            if store.name.endswith("runs.db") or time.monotonic() > deadline:
                raise


class TestFork:
    def test_parent_and_children_go_on(self, location: Path | str) -> None:
        """Forked eight times while four threads write: each side's appends are there, and nobody hangs."""
        lines = output("fork", location)

        assert ["0"] * 8 + ["True 160"] == lines

    def test_interrupts(self, location: Path | str) -> None:
        """A hundred interrupts of a waiting main thread: what was acknowledged is there, and the writer goes on."""
        assert ["True"] == output("interrupted", location)

    def test_the_end_of_the_interpreter_writes_what_waits(self, location: Path | str) -> None:
        """A program that forgets to close loses nothing that it submitted."""
        output("left_open", location)

        with open_sql_store(location) as store:
            assert 500 == sum(1 for _ in store.read())
            store.append([note()])
