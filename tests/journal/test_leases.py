"""Waiting for a store, open runs, pruning and closing: what every store promises about time."""

# Tests of: file_locks, prune, open_store

from __future__ import annotations

import asyncio
import pickle
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from journal_rig import NOON, intent, note, record, result
from store_rig import make_location

from praval_tools import ToolRegistry
from praval_tools.errors import JournalClosedError, JournalError, RunBusyError
from praval_tools.journal import Item, MemoryStore, Store, open_store
from praval_tools.journal.storage.leases import FileRunLeases


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Each kind of store, empty."""
    with make_location(request.param, tmp_path) as where, closing(open_store(where)) as made:
        yield made


def _ids(store: Store, **filters: object) -> list[str]:
    return [one.id for one in store.read(**filters)]  # type: ignore[arg-type]


class TestWaiting:
    def test_many_threads(self, store: Store) -> None:
        """Every thread gets the answers of its own items."""

        def work(thread: int) -> list[str]:
            return [a.status for at in range(20) for a in store.append([intent(f"{thread}-{at}"), intent("same")])]

        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(work, range(8)))

        flat = [one for answer in answers for one in answer]
        assert {"done": 161, "exists": 159} == {status: flat.count(status) for status in set(flat)}
        assert list(range(1, 162)) == [one.run_seq for one in store.read(run_id="run")]

    def test_futures_are_done_when_written(self, store: Store) -> None:
        """`submit` does not wait; what it was given can't be taken back."""
        futures = [store.submit([note(str(at))]) for at in range(50)]

        assert not any(one.cancel() for one in futures)
        assert ["done"] * 50 == [one.result(10)[0].status for one in futures]
        assert [str(at) for at in range(50)] == _ids(store)

    def test_a_future_raises(self, store: Store) -> None:
        """A failed item is the future's exception."""
        with pytest.raises(JournalError):
            store.submit([Item(())]).result(10)

    def test_tasks_of_a_loop(self, store: Store) -> None:
        """64 tasks await their answers, each its own."""

        async def caller(number: int) -> list[str]:
            found = []
            for at in range(5):
                found += await store.aappend([intent(f"{number}-{at}")])
                found += await store.aappend([result(f"{number}-{at}")])
            return [one.status for one in found]

        async def main() -> list[list[str]]:
            return await asyncio.gather(*(caller(number) for number in range(64)))

        assert [["done"] * 10] * 64 == asyncio.run(main())
        assert list(range(1, 641)) == [one.run_seq for one in store.read(run_id="run")]

    def test_what_is_not_awaited_is_written(self, store: Store) -> None:
        """`aappend` hands over at once; awaiting only tells when it is durable."""

        async def main() -> str:
            store.aappend([note("first")])
            return (await store.aappend([note("second")]))[0].status

        assert "done" == asyncio.run(main())
        assert ["first", "second"] == _ids(store)

    def test_loops_of_several_threads(self, store: Store) -> None:
        """Each loop is woken in its own thread."""

        async def main(number: int) -> int:
            answers = await asyncio.gather(*(store.aappend([note(f"{number}-{at}")]) for at in range(30)))
            return len(answers)

        with ThreadPoolExecutor(4) as pool:
            assert [30] * 4 == list(pool.map(lambda number: asyncio.run(main(number)), range(4)))
        assert 120 == len(_ids(store))

    def test_a_failing_task_leaves_the_others_alone(self, store: Store) -> None:
        """The error reaches the task whose item it was."""

        async def main() -> list[object]:
            waiting = (store.aappend([Item(()) if at == 3 else note(str(at))]) for at in range(6))
            return await asyncio.gather(*waiting, return_exceptions=True)

        failed = [at for at, one in enumerate(asyncio.run(main())) if isinstance(one, JournalError)]
        assert [3] == failed
        assert ["0", "1", "2", "4", "5"] == _ids(store)

    def test_a_cancelled_task_harms_nobody(self, store: Store) -> None:
        """Who stops waiting has his items written all the same, and the others are answered."""

        async def append(name: str) -> str:
            return (await store.aappend([note(name)]))[0].status

        async def main() -> list[object]:
            tasks = [asyncio.create_task(append(str(at))) for at in range(10)]
            await asyncio.sleep(0)
            tasks[4].cancel()
            return await asyncio.gather(*tasks, return_exceptions=True)

        found = asyncio.run(main())
        assert ["done"] * 9 == [one for at, one in enumerate(found) if at != 4]
        assert [str(at) for at in range(10)] == _ids(store)


class TestLeases:
    def test_a_run_is_open_once(self, store: Store) -> None:
        """A second opening is refused, with the run and its holder, until the first is released."""
        with store.open_run("r") as lease:
            assert "r" == lease.run_id
            with pytest.raises(RunBusyError, match="'r' is open in this process") as caught:
                store.open_run("r")
            assert "run-busy" == pickle.loads(pickle.dumps(caught.value)).code
            store.open_run("other").release()
        store.open_run("r").release()

    def test_a_lease_is_released_once(self, store: Store) -> None:
        """Releasing again, late, takes nothing from the next holder."""
        first = store.open_run("r")
        first.release()
        second = store.open_run("r")
        first.release()
        with pytest.raises(RunBusyError):
            store.open_run("r")
        second.release()

    def test_one_of_many_threads_gets_it(self, store: Store) -> None:
        """Threads that open a run at once: one has it."""
        barrier, won = threading.Barrier(8), []

        def race() -> None:
            barrier.wait()
            try:
                won.append(store.open_run("r"))
            except RunBusyError:
                pass

        with ThreadPoolExecutor(8) as pool:
            for _ in range(8):
                pool.submit(race)
        assert 1 == len(won)

    @pytest.mark.parametrize("name", ["", "a/b", "../x", "ä" * 300, "nul\0"])
    def test_any_name_will_do(self, store: Store, name: str) -> None:
        """Ids of runs are text; what a file system thinks of them is not the user's trouble."""
        with store.open_run(name), pytest.raises(RunBusyError):
            store.open_run(name)


class TestPruning:
    def test_what_ended_before_goes_as_a_whole(self, store: Store) -> None:
        """Runs go when their last event is older; records outside of runs one by one; the rest stays."""
        store.append([intent("1", "gone", at=1), result("1", "gone", at=2), note("lone", at=3)])
        store.append([intent("1", "kept", at=4), result("1", "kept", at=20), note("late", at=21)])

        assert 3 == store.prune(NOON + timedelta(seconds=10))

        assert ["1-0", "1-1", "late"] == _ids(store)
        assert ["kept"] == [one.run_id for one in store.runs()]
        assert 0 == store.prune(NOON + timedelta(seconds=10))

    def test_runs_in_doubt_or_open_stay(self, store: Store) -> None:
        """Nobody forgets a call that may have had its effect, or a run that somebody works in."""
        store.append([intent("1", "doubt", at=1), intent("1", "open", at=2), result("1", "open", at=3)])

        with store.open_run("open"):
            assert 0 == store.prune(NOON + timedelta(days=1))
        assert 2 == store.prune(NOON + timedelta(days=1))
        assert ["doubt"] == [one.run_id for one in store.runs()]

    def test_a_forgotten_run_begins_anew(self, store: Store) -> None:
        """Its places start at 1 again and its calls may begin again; places in the store are never given twice."""
        store.append([intent("1"), result("1", at=1)])
        highest = max(one.seq or 0 for one in store.read())
        store.prune(NOON + timedelta(days=1))

        (answer,) = store.append([intent("1")])

        assert ("done", 1) == (answer.status, answer.run_seq)
        assert (answer.seq or 0) > highest


class TestBound:
    def test_the_oldest_finished_runs_go_first(self) -> None:
        """A full memory forgets whole runs that are over; never one that is open or in doubt."""
        store = MemoryStore(capacity=20)
        store.append([intent("1", "doubt"), note(run_id="open"), intent("1", "over"), result("1", "over")])
        with store.open_run("open"):
            for at in range(40):
                store.append([note(str(at))])

        kept = list(store.read())
        assert len(kept) <= 20
        assert {"doubt", "open", None} == {one.run_id for one in kept}
        assert "39" == kept[-1].id
        assert "exists" == store.append([intent("1", "doubt")])[0].status

    def test_full_of_doubt_it_refuses(self) -> None:
        """Where nothing may be forgotten, an append fails with the fix, and resolving makes room."""
        store = MemoryStore(capacity=10)
        store.append([intent(str(at), "doubt") for at in range(9)])
        with pytest.raises(JournalError, match=r"full of runs.*larger capacity"):
            store.append([Item((record(), record(), record()))])
        assert 0 == sum(one.id == "e" for one in store.read())

        store.append([note("still fits")])
        assert 10 == len(_ids(store))


class TestClosing:
    def test_what_waits_is_written(self, tmp_path: Path) -> None:
        """`close` writes what was handed over, and is safe twice."""
        store = open_store(f"sqlite:///{tmp_path / 'runs.db'}")
        futures = [store.submit([note(str(at))]) for at in range(200)]
        store.close()
        store.close()

        assert all(one.done() for one in futures)
        with open_store(tmp_path / "runs.db") as again:  # type: ignore[attr-defined]
            assert 200 == len(_ids(again))

    def test_a_closed_store_refuses_all(self, store: Store) -> None:
        """Every way in says that it is closed, and how to go on."""
        store.close()
        ways = [
            lambda: store.append([note()]),
            lambda: store.submit([note()]).result(10),
            lambda: asyncio.run(_awaited(store)),
            lambda: list(store.read()),
            lambda: list(store.runs()),
            lambda: store.count(),
            store.last_seq,
            lambda: store.open_run("r"),
            store.state,
            store.revision,
            lambda: store.prune(NOON),
        ]
        for way in ways:
            with pytest.raises(JournalClosedError, match="closed") as caught:
                way()
            assert str(caught.value) == str(pickle.loads(pickle.dumps(caught.value)))


async def _awaited(store: Store) -> object:
    return await store.aappend([note()])


class TestDeletedLock:
    @pytest.mark.parametrize("what", ["folder", "file"])
    @pytest.mark.parametrize("is_opened_again", [False, True])
    def test_no_call_starts(self, tmp_path: Path, what: str, is_opened_again: bool) -> None:
        """Where a run's lock was deleted, its holder starts nothing more, also where another process has opened it."""
        registry, ran = ToolRegistry(journal=tmp_path / "runs.db"), list[int]()

        @registry.tool("note", owned_by="ann")
        def note_down(number: int) -> None:
            """Note a number."""
            ran.append(number)

        ann, folder = registry.agent("ann"), tmp_path / "runs.db-locks"
        other = FileRunLeases(folder, "another process")
        with registry.run("r"):
            ann.call("note", number=1)
            (lock,) = [file for file in folder.iterdir() if file.name != "open.lock"]
            if what == "folder":
                shutil.rmtree(folder)
            else:
                lock.unlink()
            if is_opened_again:
                other.open("r")
            with pytest.raises(JournalError, match="the lock of run 'r' was deleted.*Open the run anew"):
                ann.call("note", number=2)
        assert [1] == ran
        assert lock.exists() is is_opened_again  # what another process holds is not deleted
        other.close()
        with registry.run("r"):
            ann.call("note", number=1)
            ann.call("note", number=2)
        registry.close()
        assert [1, 2] == ran
