"""Runs under concurrency, and what repeats a recorded call: one result per call id, one place per run."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from praval_tools import (
    Allow,
    NotOwnerError,
    Outcome,
    Tool,
    ToolCall,
    ToolContext,
    ToolExecutionError,
    ToolRegistry,
    ToolUsageError,
    current_agent,
)
from praval_tools.errors import ReplayMismatchError, RunBusyError, ToolInDoubtError, UnusedCallsError
from praval_tools.journal import open_journal

CHILD = '''
import sys
from praval_tools import ToolCall, ToolRegistry

path, run, first = sys.argv[1:4]
with ToolRegistry(journal=path) as registry:
    @registry.tool("add", owned_by="ann")
    def add(number: int) -> int:
        """Add one."""
        return number + 1

    def call(number):
        return registry.execute(ToolCall(f"{first}{number}", "add", {"number": number}, "ann"))

    sys.stdin.readline()
    try:
        with registry.run(run):
            print("open", flush=True)
            for number in range(int(sys.argv[4])):
                assert call(number).result == number + 1
            print("done", flush=True)
            sys.stdin.readline()
    except Exception as error:
        print(type(error).__name__, flush=True)
'''


class Rig:
    """A registry over one file whose tools count how often they run."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.ran: list[Any] = []
        self.path = path
        self.registry = ToolRegistry(journal=path, **options)
        self.registry.tool("add", owned_by="ann")(self._add)
        self.registry.tool("aadd", owned_by="ann")(self._aadd)

    def _add(self, number: int) -> int:
        """Add one."""
        self.ran.append(number)
        return number + 1

    async def _aadd(self, number: int) -> int:
        """Add one."""
        await asyncio.sleep(0)
        self.ran.append(number)
        return number + 1

    def call(self, call_id: str | None, number: int, name: str = "add", **more: Any) -> Any:
        """Make one call."""
        return self.registry.execute(ToolCall(call_id, name, {"number": number}, "ann", **more))

    def again(self, **options: Any) -> Rig:
        """Close the registry, and return one in its place."""
        self.registry.close()
        return Rig(self.path, **options)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of the journal."""
    return tmp_path / "runs.db"


@pytest.fixture
def rig(path: Path) -> Iterator[Rig]:
    """Give a registry with two tools."""
    made = Rig(path)
    yield made
    made.registry.close()


def see_whole(path: Path) -> Counter[str]:
    """Assert that places are as they must be, and return how many results each call has."""
    with open_journal(path) as journal:
        entries = list(journal.read())
    seqs = [one.seq for one in entries]
    assert sorted(set(seqs)) == seqs
    for run in {one.event.run_id for one in entries} - {None}:
        places = [one.run_seq for one in entries if one.event.run_id == run]
        assert list(range(1, len(places) + 1)) == places
    return Counter(one.event.tool_call_id for one in entries if one.type == "agent_tool_result")


class TestMany:
    def test_64_tasks(self, rig: Rig) -> None:
        """64 awaited calls at once: one result each, places without gaps; a replay runs none of them."""

        async def all_at_once() -> list[Any]:
            async with rig.registry.run("r"):
                calls = (ToolCall(f"c{at}", ("add", "aadd")[at % 2], {"number": at}, "ann") for at in range(64))
                return list(await asyncio.gather(*map(rig.registry.aexecute, calls)))

        live = asyncio.run(all_at_once())
        assert sorted(rig.ran) == list(range(64))
        replayed = asyncio.run(all_at_once())

        assert 64 == len(rig.ran)
        assert [one.result for one in live] == [one.result for one in replayed] == list(range(1, 65))
        assert {True} == {one.replayed for one in replayed}
        assert {f"c{at}": 1 for at in range(64)} == see_whole(rig.path)

    def test_8_threads(self, rig: Rig) -> None:
        """Eight threads of the caller's own, in two runs and outside: places and results are whole."""
        with rig.registry.run("a") as a, rig.registry.run("b") as b:
            ways = [a.toolset("ann"), b.toolset("ann"), rig.registry.toolset("ann")]

            def work(thread: int) -> None:
                for at in range(20):
                    ways[at % 3].execute(ToolCall(f"{thread}-{at}", "add", {"number": at}))

            with ThreadPoolExecutor(8) as pool:
                list(pool.map(work, range(8)))

        assert {1} == set(see_whole(rig.path).values())
        assert {"a": 56, "b": 56} == {one.run_id: one.calls for one in rig.registry.journal.runs()}

    def test_4_processes(self, path: Path) -> None:
        """Four processes at once, each in a run of its own: whole, and every call has its one result."""
        command = [sys.executable, "-c", CHILD, str(path)]
        with ExitStack() as stack:
            children = [
                stack.enter_context(subprocess.Popen(
                    [*command, f"run-{at}", f"p{at}-", "40"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                ))
                for at in range(4)
            ]  # fmt: skip
            for one in children:
                assert one.stdin is not None
                one.stdin.write("go\n")
                one.stdin.flush()
            told = [one.communicate("end\n", timeout=120)[0].split() for one in children]

        assert [["open", "done"]] * 4 == told
        assert {f"p{one}-{at}": 1 for one in range(4) for at in range(40)} == see_whole(path)


class TestBusy:
    def test_in_two_processes(self, rig: Rig) -> None:
        """A run that is open in another process is refused; as soon as that one is killed it opens."""
        command = [sys.executable, "-c", CHILD, str(rig.path), "r", "c", "3"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
            assert holder.stdin is not None and holder.stdout is not None
            holder.stdin.write("go\n")
            holder.stdin.flush()
            assert ["open\n", "done\n"] == [holder.stdout.readline() for _ in range(2)]
            with pytest.raises(RunBusyError, match=str(holder.pid)), rig.registry.run("r"):
                pass
            holder.kill()
            holder.wait()
            with rig.registry.run("r"):
                assert rig.call("c2", 2).replayed

    def test_twice_in_one_process(self, rig: Rig) -> None:
        """A run is open once, also where the same registry, or another one over the file, asks again."""
        with rig.registry.run("r"), pytest.raises(RunBusyError), rig.registry.run("r"):
            pass
        other = Rig(rig.path)
        with rig.registry.run("r"), pytest.raises(RunBusyError), other.registry.run("r"):
            pass
        with other.registry.run("r"):
            pass
        other.registry.close()

    def test_the_same_object_twice(self, rig: Rig) -> None:
        """A run object is opened once; `registry.run` makes another."""
        run = rig.registry.run("r")
        with run:
            pass
        with pytest.raises(ToolUsageError, match="make another"), run:
            pass
        with rig.registry.run("r"):
            pass

    def test_left_in_another_context(self, rig: Rig) -> None:
        """A run that is left in another context than it was entered in is closed all the same."""
        run = rig.registry.run("r")
        thread = threading.Thread(target=run.__enter__)
        thread.start()
        thread.join()
        run.__exit__(None, None, None)

        with rig.registry.run("r"):
            assert 2 == rig.call("c", 1).result

    def test_without_a_journal(self) -> None:
        """A registry without a journal says so where a run is asked for."""
        with pytest.raises(ToolUsageError, match="has no journal") as caught:
            ToolRegistry().run("r")
        assert "no-journal" == caught.value.code

    @pytest.mark.parametrize("where", [None, "memory"])
    def test_the_journal_is_not_changed_under_a_run(self, rig: Rig, where: str | None) -> None:
        """Calls of an open run go into its journal and no other, else a restart would make them a second time."""
        with rig.registry.run("r"):
            with pytest.raises(ToolUsageError, match="Run 'r' is open") as caught:
                rig.registry.journal = where
            assert "ok" == rig.call("1", 1).outcome
        assert "run-open" == caught.value.code
        with rig.registry.run("r"):
            assert rig.call("1", 1).replayed
        rig.registry.journal = where


class Gate:
    """A tool whose calls wait inside until they are let go."""

    def __init__(self, registry: ToolRegistry, **metadata: Any) -> None:
        self.inside, self.go = threading.Event(), threading.Event()
        self.runs = 0
        self.error: BaseException | None = None

        @registry.tool("gate", owned_by="ann", **metadata)
        def gate(number: int) -> int:
            """Wait."""
            return self._through(number)

        @registry.tool("agate", owned_by="ann", **metadata)
        async def agate(number: int) -> int:
            """Wait."""
            self.runs += 1
            self.inside.set()
            while not self.go.is_set():
                await asyncio.sleep(0.001)
            if self.error is not None:
                raise self.error
            return number + 1

    def _through(self, number: int) -> int:
        self.runs += 1
        self.inside.set()
        assert self.go.wait(60)
        if self.error is not None:
            raise self.error
        return number + 1


class TestOneId:
    """Two concurrent calls of one id run once, and both get what came of it."""

    def test_threads(self, rig: Rig) -> None:
        """Two threads."""
        gate = Gate(rig.registry)
        with rig.registry.run("r") as run, ThreadPoolExecutor(2) as pool:
            tools, call = run.toolset("ann"), ToolCall("c", "gate", {"number": 1})
            first = pool.submit(tools.execute, call)
            assert gate.inside.wait(60)
            second = pool.submit(tools.execute, call)
            gate.go.set()

            assert [2, 2] == [first.result(60).result, second.result(60).result]
            assert [False, True] == [first.result().replayed, second.result().replayed]
        assert 1 == gate.runs
        assert {"c": 1} == see_whole(rig.path)

    @pytest.mark.parametrize("name", ["gate", "agate"])
    def test_tasks(self, rig: Rig, name: str) -> None:
        """Eight tasks."""
        gate = Gate(rig.registry)

        async def both() -> list[Any]:
            async with rig.registry.run("r"):
                calls = [rig.registry.aexecute(ToolCall("c", name, {"number": 1}, "ann")) for _ in range(8)]
                tasks = [asyncio.ensure_future(one) for one in calls]
                while not gate.inside.is_set():
                    await asyncio.sleep(0)
                gate.go.set()
                return list(await asyncio.gather(*tasks))

        assert [2] * 8 == [one.result for one in asyncio.run(both())]
        assert 1 == gate.runs

    def test_sync_and_async(self, rig: Rig) -> None:
        """A thread and a task, whoever comes first."""
        gate = Gate(rig.registry)
        call = ToolCall("c", "gate", {"number": 1}, run_id="r")
        with rig.registry.run("r") as run, ThreadPoolExecutor(1) as pool:
            tools = run.toolset("ann")
            first = pool.submit(tools.execute, call)
            assert gate.inside.wait(60)

            async def second() -> Any:
                task = asyncio.ensure_future(tools.aexecute(call))
                await asyncio.sleep(0)
                gate.go.set()
                return await task

            assert 2 == asyncio.run(second()).result == first.result(60).result
        assert 1 == gate.runs

    def test_a_batch(self, rig: Rig) -> None:
        """One id several times in a batch."""
        with rig.registry.run("r"):
            results = rig.registry.execute_batch([ToolCall("c", "add", {"number": 1}, "ann")] * 8)

        assert [2] * 8 == [one.result for one in results]
        assert [1] == rig.ran

    def test_the_first_raises(self, rig: Rig) -> None:
        """The second gets the error that the first one's tool raised."""
        gate = Gate(rig.registry)
        gate.error = ValueError("no")
        with rig.registry.run("r") as run, ThreadPoolExecutor(2) as pool:
            tools, call = run.toolset("ann"), ToolCall("c", "gate", {"number": 1})
            first = pool.submit(tools.execute, call)
            assert gate.inside.wait(60)
            second = pool.submit(tools.execute, call)
            gate.go.set()

            assert ["no", "no"] == [first.result(60).error, second.result(60).error]
        assert 1 == gate.runs

    @pytest.mark.parametrize("error", [KeyboardInterrupt(), GeneratorExit()])
    def test_the_first_is_interrupted(self, rig: Rig, error: BaseException) -> None:
        """Where something stops the first caller, the second is told that the call is in doubt."""
        gate = Gate(rig.registry)
        gate.error = error
        with rig.registry.run("r") as run, ThreadPoolExecutor(2) as pool:
            tools, call = run.toolset("ann"), ToolCall("c", "gate", {"number": 1})
            first = pool.submit(tools.execute, call)
            assert gate.inside.wait(60)
            second = pool.submit(tools.execute, call)
            gate.go.set()

            assert isinstance(first.exception(60), type(error))
            assert Outcome.IN_DOUBT is second.result(60).outcome
            assert ["c"] == [one.tool_call_id for one in run.in_doubt]
        assert 1 == gate.runs

    @pytest.mark.parametrize(("idempotent", "outcome"), [(None, "in_doubt"), (True, "ok")])
    def test_the_first_is_cancelled(self, rig: Rig, idempotent: bool | None, outcome: str) -> None:
        """Where the first task is cancelled inside of its tool the second does not hang: in doubt, or run again."""
        gate = Gate(rig.registry, idempotent=idempotent)

        async def both() -> Any:
            async with rig.registry.run("r"):
                call = ToolCall("c", "agate", {"number": 1}, "ann")
                first = asyncio.ensure_future(rig.registry.aexecute(call))
                while not gate.inside.is_set():
                    await asyncio.sleep(0)
                second = asyncio.ensure_future(rig.registry.aexecute(call))
                await asyncio.sleep(0)
                first.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await first
                gate.go.set()
                return await second

        assert outcome == asyncio.run(both()).outcome

    def test_cancelling_the_second_leaves_the_first(self, rig: Rig) -> None:
        """A waiting caller that is cancelled takes nothing from the one that runs."""
        gate = Gate(rig.registry)

        async def both() -> Any:
            async with rig.registry.run("r"):
                call = ToolCall("c", "agate", {"number": 1}, "ann")
                first = asyncio.ensure_future(rig.registry.aexecute(call))
                while not gate.inside.is_set():
                    await asyncio.sleep(0)
                second = asyncio.ensure_future(rig.registry.aexecute(call))
                for _ in range(5):
                    await asyncio.sleep(0)
                second.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await second
                gate.go.set()
                return await first

        assert 2 == asyncio.run(both()).result

    def test_inside_of_itself(self, rig: Rig) -> None:
        """A call with the id of the call that it is made from is refused, sync and async; it would wait for ever."""
        refused: list[Any] = []

        @rig.registry.tool("self", owned_by="ann")
        def again() -> str:
            """Call itself."""
            try:
                rig.registry.execute(ToolCall("c", "self", {}, "ann"))
            except ToolUsageError as error:
                refused.append(error)
            return "over"

        @rig.registry.tool("aself", owned_by="ann")
        async def aagain() -> str:
            """Call itself."""
            try:
                await rig.registry.aexecute(ToolCall("d", "aself", {}, "ann"))
            except ToolUsageError as error:
                refused.append(error)
            return "over"

        async def outer() -> list[Any]:
            async with rig.registry.run("s"):
                return [
                    await rig.registry.aexecute(ToolCall(*one, {}, "ann")) for one in (("c", "self"), ("d", "aself"))
                ]

        with rig.registry.run("r"):
            assert "over" == rig.registry.execute(ToolCall("c", "self", {}, "ann")).result
        assert ["over", "over"] == [one.result for one in asyncio.run(outer())]
        assert 3 == len(refused)
        assert all("inside of itself" in str(one) for one in refused)

    @pytest.mark.parametrize("how", ["tasks", "threads"])
    def test_each_inside_of_the_other(self, rig: Rig, how: str) -> None:
        """Of two calls that call each other, also by a third between, one is refused: both would wait for ever."""
        refused: list[str] = []
        inside = [threading.Event(), threading.Event()]

        def other(number: int) -> ToolCall:
            return ToolCall(f"c{1 - number}", "ameet" if how == "tasks" else "meet", {"number": 1 - number}, "ann")

        @rig.registry.tool("meet", owned_by="ann")
        def meet(number: int) -> int:
            """Wait until both are inside, then call the other."""
            inside[number].set()
            assert inside[1 - number].wait(10)
            assert "ok" == rig.registry.execute(ToolCall(None, "between", {"number": number}, "ann")).outcome
            return number

        @rig.registry.tool("between", owned_by="ann")
        def between(number: int) -> None:
            """Call the other."""
            try:
                rig.registry.execute(other(number))
            except ToolUsageError as error:
                refused.append(str(error))

        @rig.registry.tool("ameet", owned_by="ann")
        async def ameet(number: int) -> int:
            """Wait until both are inside, then call the other."""
            inside[number].set()
            while not inside[1 - number].is_set():
                await asyncio.sleep(0)
            try:
                await rig.registry.aexecute(other(number))
            except ToolUsageError as error:
                refused.append(str(error))
            return number

        async def both() -> list[Any]:
            async with rig.registry.run("r"):
                return await asyncio.wait_for(
                    asyncio.gather(*(rig.registry.aexecute(other(one)) for one in (1, 0))), 20
                )

        if how == "tasks":
            results = asyncio.run(both())
        else:
            with rig.registry.run("r") as run, ThreadPoolExecutor(2) as pool:
                calls = [pool.submit(rig.registry.execute, ToolCall(f"c{one}", "meet", {"number": one}, "ann",
                                                                    run_id=run.run_id)) for one in (0, 1)]  # fmt: skip
                results = [one.result(20) for one in calls]

        assert [0, 1] == [one.result for one in results]
        assert 1 == len(refused)
        assert "wait for ever" in refused[0]

    def test_one_id_in_a_run_inside_of_a_run(self, rig: Rig) -> None:
        """A call waits for one of another run, though it has the id of the call that it is made from."""
        gate, results = Gate(rig.registry), list[Any]()

        @rig.registry.tool("outer", owned_by="ann")
        def outer() -> str:
            """Call the gate, which is busy in the other run, under the id of this call."""
            results.append(rig.registry.execute(ToolCall("c", "gate", {"number": 1}, "ann", run_id="inner")))
            return "over"

        with rig.registry.run("inner"), ThreadPoolExecutor(2) as pool:
            first = pool.submit(rig.registry.execute, ToolCall("c", "gate", {"number": 1}, "ann", run_id="inner"))
            assert gate.inside.wait(10)
            with rig.registry.run("outer"):
                second = pool.submit(rig.registry.execute, ToolCall("c", "outer", {}, "ann", run_id="outer"))
                threading.Timer(0.1, gate.go.set).start()
                assert "over" == second.result(20).result
            assert 2 == first.result(20).result
        assert [(2, True)] == [(one.result, one.replayed) for one in results]

    def test_a_sync_call_in_a_loop_does_not_wait(self, rig: Rig) -> None:
        """Where an event loop runs, a sync call that would have to wait for a task of it is refused, and says why."""
        gate = Gate(rig.registry)

        async def both() -> None:
            async with rig.registry.run("r"):
                call = ToolCall("c", "agate", {"number": 1}, "ann")
                first = asyncio.ensure_future(rig.registry.aexecute(call))
                while not gate.inside.is_set():
                    await asyncio.sleep(0)
                with pytest.raises(ToolUsageError, match="Call 'c' is running") as caught:
                    rig.registry.execute(call)
                assert "sync-call-in-event-loop" == caught.value.code
                gate.go.set()
                assert 2 == (await first).result

        asyncio.run(both())


class TestMatching:
    def test_content_counts_equal_calls(self, rig: Rig) -> None:
        """Without ids the n-th equal call gets the n-th recorded result; one more runs."""
        seen: list[int] = []

        @rig.registry.tool("count", owned_by="ann")
        def count() -> int:
            """Count."""
            seen.append(1)
            return len(seen)

        tools = rig.registry.toolset("ann")
        with rig.registry.run("r"):
            assert [1, 2] == [tools.call("count"), tools.call("count")]
        with rig.registry.run("r"):
            assert [1, 2, 3] == [tools.call("count") for _ in range(3)]

    def test_a_doubtful_call_hides_no_result(self, rig: Rig) -> None:
        """Of equal calls, one in doubt does not stand before those that ended; what comes after them is in doubt."""
        ran: list[int] = []

        @rig.registry.tool("stop", owned_by="ann")
        def stop() -> int:
            """Be interrupted the first time."""
            ran.append(1)
            if len(ran) == 1:
                raise KeyboardInterrupt
            return len(ran)

        def once() -> tuple[Outcome, Any]:
            result = rig.registry.execute(ToolCall(None, "stop", {}, "ann"))
            return result.outcome, result.result

        with rig.registry.run("r"):
            with pytest.raises(KeyboardInterrupt):
                once()
            assert [(Outcome.OK, 2), (Outcome.OK, 3)] == [once(), once()]
        doubt = (Outcome.IN_DOUBT, None)
        with rig.registry.run("r") as run:
            assert [doubt, (Outcome.OK, 2), (Outcome.OK, 3), doubt] == [once() for _ in range(4)]
            run.resolve(run.in_doubt[0].tool_call_id, result=1)
            assert (Outcome.OK, 1) == once()
        assert 3 == len(ran)

    def test_a_given_id_comes_first(self, rig: Rig) -> None:
        """Of equal calls each id finds its own record, in whatever order they come."""
        ran: list[int] = []

        @rig.registry.tool("count", owned_by="ann")
        def count() -> int:
            """Count."""
            ran.append(1)
            return len(ran)

        for ids in (["a", "b", "c"], ["c", "a", "b"]):
            with rig.registry.run("r"):
                results = {one: rig.registry.execute(ToolCall(one, "count", {}, "ann")).result for one in ids}
            assert {"a": 1, "b": 2, "c": 3} == results
        assert 3 == len(ran)

    @pytest.mark.parametrize("match", ["content", "id", "position"])
    @pytest.mark.parametrize("other", [{"name": "aadd"}, {"agent": "bob"}])
    def test_a_mismatch_of_tool_or_agent(self, rig: Rig, match: Any, other: dict[str, str]) -> None:
        """The same arguments under the id, or at the place, of another tool's or agent's call are an error."""
        rig.registry.assign_tool_to_agent("add", "bob")
        with rig.registry.run("r"):
            rig.call("c", 1)
        asked = {"name": "add", "agent": "ann"} | other
        with rig.registry.run("r", match), pytest.raises(ReplayMismatchError) as caught:
            rig.registry.execute(ToolCall("c", arguments={"number": 1}, **asked))

        assert f"{asked['name']}({{'number': 1}}) by '{asked['agent']}'" == caught.value.asked
        assert [1] == rig.ran

    def test_a_new_id_stands_for_its_record(self, rig: Rig) -> None:
        """An id that found its record by content stands for that call from then on, at once and later."""
        with rig.registry.run("r"):
            rig.call("old", 1)
        with rig.registry.run("r"):
            first, second = rig.call("new", 1), rig.call("new", 1)
            assert ["new", "new"] == [first.tool_call_id, second.tool_call_id]
            with pytest.raises(ReplayMismatchError):
                rig.call("new", 2)

        assert [1] == rig.ran
        assert [True, True] == [first.replayed, second.replayed]

    def test_new_ids_of_a_batch(self, rig: Rig) -> None:
        """The same where both come at once."""
        with rig.registry.run("r"):
            rig.call("old", 1)
        with rig.registry.run("r"):
            rig.registry.execute_batch([ToolCall("new", "add", {"number": 1}, "ann")] * 4)

        assert [1] == rig.ran

    def test_the_same_id_again(self, rig: Rig) -> None:
        """An id asked for again within one opening gets what was recorded a moment ago."""
        with rig.registry.run("r"):
            results = [rig.call("c", 1), rig.call("c", 1)]

        assert [False, True] == [one.replayed for one in results]
        assert [1] == rig.ran

    def test_arguments_in_any_spelling(self, rig: Rig) -> None:
        """Repaired arguments and JSON text find the record of what they mean."""
        with rig.registry.run("r"):
            rig.call("c", 1)
        with rig.registry.run("r"):
            for spelled in ('{"number": 1}', {"number": "1"}):
                assert rig.registry.execute(ToolCall("c", "add", spelled, "ann")).replayed
        assert [1] == rig.ran

    @pytest.mark.parametrize("match", ["content", "id", "position"])
    def test_mismatch_names_both(self, rig: Rig, match: Any) -> None:
        """An id, or a place, that belongs to another call is an error that shows what was recorded and what came."""
        with rig.registry.run("r"):
            rig.call("c", 1)
        with rig.registry.run("r", match), pytest.raises(ReplayMismatchError) as caught:
            rig.call("c", 2)

        assert "add({'number': 1}) by 'ann'" == caught.value.recorded
        assert "add({'number': 2}) by 'ann'" == caught.value.asked
        assert [1] == rig.ran

    def test_id_alone(self, rig: Rig) -> None:
        """With `match="id"` an equal call with another id is another call."""
        with rig.registry.run("r", "id"):
            rig.call("a", 1)
        with rig.registry.run("r", "id"):
            assert rig.call("a", 1).replayed
            assert not rig.call("b", 1).replayed

    def test_id_with_calls_that_have_none(self, rig: Rig) -> None:
        """With `match="id"` a call without an id, such as one from inside of a tool, is found by its content."""
        tools = rig.registry.toolset("ann")
        with rig.registry.run("r", "id"):
            tools.call("add", number=1)
        with rig.registry.run("r", "id"):
            tools.call("add", number=1)

        assert [1] == rig.ran

    def test_position(self, rig: Rig) -> None:
        """With `match="position"` the n-th call is the n-th, whatever its id."""
        with rig.registry.run("r", "position"):
            rig.call("a", 1)
            rig.call("b", 2)
        with rig.registry.run("r", "position"):
            assert [True, True, False] == [rig.call(f"x{at}", at).replayed for at in (1, 2, 3)]
        with rig.registry.run("r", "position"), pytest.raises(ReplayMismatchError):
            rig.call("b", 2)

    def test_position_of_nested_calls(self, rig: Rig) -> None:
        """Calls from inside of a replayed call have no place among its neighbours."""
        _outer(rig)
        for replayed in (False, True):
            with rig.registry.run("r", "position") as run:
                assert [replayed] * 2 == [rig.call("a", 1, "outer").replayed, rig.call("b", 7).replayed]
                assert [] == run.unused
        assert [10, 7] == rig.ran

    def test_position_and_one_id_twice(self, rig: Rig) -> None:
        """One id asked for twice has one place."""
        for _ in range(2):
            with rig.registry.run("r", "position"):
                assert [2, 2, 3] == [rig.call("a", 1).result, rig.call("a", 1).result, rig.call("b", 2).result]
        assert [1, 2] == rig.ran

    def test_strict(self, rig: Rig) -> None:
        """`unused` names what was not asked for again; with `strict=True` leaving the run is an error that does."""
        with rig.registry.run("r"):
            rig.call("a", 1)
            rig.call("b", 2)
        with rig.registry.run("r") as run:
            rig.call("a", 1)
            assert ["b"] == [one.tool_call_id for one in run.unused]
        with pytest.raises(UnusedCallsError, match="'b'"), rig.registry.run("r", strict=True):
            rig.call("a", 1)
        with pytest.raises(ZeroDivisionError), rig.registry.run("r", strict=True):
            _ = 1 / 0
        with rig.registry.run("r", strict=True):
            rig.call("a", 1)
            rig.call("b", 2)

    def test_strict_and_nested(self, rig: Rig) -> None:
        """Children of a replayed call are not unused."""
        _outer(rig)
        for _ in range(2):
            with rig.registry.run("r", strict=True):
                assert 11 == rig.call("a", 1, "outer").result
        assert [10] == rig.ran

    def test_fingerprint(self, rig: Rig) -> None:
        """A changed tool's recorded result still replays; `strict_fingerprint` refuses, and names both."""
        with rig.registry.run("r"):
            rig.call("a", 1)

        def changed(number: int, more: str = "") -> int:
            """Add two."""
            return number + 2

        rig.registry.register_tool(Tool.from_function(changed, "add", owned_by="ann"), replace=True)
        with rig.registry.run("r"):
            assert 2 == rig.call("a", 1).result
        with rig.registry.run("r", strict_fingerprint=True), pytest.raises(ReplayMismatchError, match="fingerprint"):
            rig.call("a", 1)

    def test_fingerprint_of_a_configured_tool(self, rig: Rig) -> None:
        """A tool whose description was configured is the same tool as long as that stays."""
        rig.registry.configure("add", description="Add the number one.")
        for _ in range(2):
            with rig.registry.run("r", strict_fingerprint=True):
                rig.call("a", 1)
        rig.registry.configure("add", description="Add one to a number.")

        with rig.registry.run("r", strict_fingerprint=True), pytest.raises(ReplayMismatchError, match="fingerprint"):
            rig.call("a", 1)

    @pytest.mark.parametrize("again", [{"number": 1.0}, '{"number": 1.0}', '{"number":1}'])
    def test_equal_arguments(self, rig: Rig, again: Any) -> None:
        """A whole number is the same however it is spelled."""
        for arguments in ({"number": 1}, again):
            with rig.registry.run("r"):
                assert 2 == rig.registry.execute(ToolCall("a", "add", arguments, "ann")).result

        assert [1] == rig.ran

    def test_final_refusals(self, rig: Rig) -> None:
        """What was refused stays so when the run is opened again, though nothing stands in the way any more."""
        home = rig.registry
        home.tool("off", owned_by="ann", description="Run.")(lambda: rig.ran.append("off"))
        home.tool("asks", owned_by="ann", description="Run.", requires_approval=True)(lambda: rig.ran.append("asks"))
        home.tool("bobs", owned_by="bob", description="Run.")(lambda: rig.ran.append("bobs"))
        home.disable("off")
        home.set_approval_handler(lambda _: None)
        home.limits.set(tool="aadd", per_minute=1)
        assert 6 == rig.call(None, 5, "aadd").result
        calls = [
            ToolCall(call_id, name, arguments, "ann")
            for call_id, name, arguments in (
                ("unknown", "later", {}),
                ("forbidden", "bobs", {}),
                ("disabled", "off", {}),
                ("denied", "asks", {}),
                ("limited", "aadd", {"number": 1}),
                ("invalid", "add", {"number": "x"}),
            )
        ]
        with home.run("r"):
            first = [home.execute(one) for one in calls]
        outcomes = "unknown_tool forbidden disabled approval_denied limited invalid_arguments"
        assert outcomes.split() == [one.outcome for one in first]

        home.tool("later", owned_by="ann", description="Run.")(lambda: rig.ran.append("later"))
        home.assign_tool_to_agent("bobs", "ann")
        home.enable("off")
        home.set_approval_handler(lambda _: Allow())
        home.limits.set(tool="aadd")
        with home.run("r") as run:
            again = [home.execute(one) for one in calls]
            assert [] == run.unused
        assert [(one.outcome, one.error, one.error_type, True) for one in first] == [
            (one.outcome, one.error, one.error_type, one.replayed) for one in again
        ]
        assert [5] == rig.ran
        with home.run("other"):
            assert ["ok"] * 5 == [home.execute(one).outcome for one in calls[:5]]

    def test_what_call_raises(self, rig: Rig) -> None:
        """A replayed error is raised as the class that the tool raised; one in doubt names run and call."""

        @rig.registry.tool("fail", owned_by="ann")
        def fail(number: int) -> None:
            """Fail, the second way for good."""
            rig.ran.append(number)
            raise ValueError("no") if number == 1 else KeyboardInterrupt

        for _ in range(2):
            with rig.registry.run("r"), pytest.raises(ValueError, match="no") as caught:
                rig.registry.toolset("ann").call("fail", number=1)
            assert isinstance(caught.value, ToolExecutionError)
        with rig.registry.run("r") as run, pytest.raises(KeyboardInterrupt):
            rig.registry.toolset("ann").call("fail", number=2)
        with rig.registry.run("r") as run:
            with pytest.raises(ToolInDoubtError) as doubt:
                rig.registry.toolset("ann").call("fail", number=2)
            (one,) = run.in_doubt
            assert ("r", one.tool_call_id) == (doubt.value.run, doubt.value.call)
        assert [1, 2] == rig.ran

    def test_who_resolves(self, rig: Rig) -> None:
        """The operator alone, a call that is in doubt, with one answer; nothing else changes how it stands."""
        refused: list[Exception] = []

        @rig.registry.tool("stop", owned_by="ann")
        def stop() -> None:
            """Be stopped."""
            raise KeyboardInterrupt

        @rig.registry.tool("resolve", owned_by="ann")
        def resolve() -> None:
            """Try to resolve, which is not an agent's."""
            try:
                run.resolve("s", rerun=True)
            except NotOwnerError as error:
                refused.append(error)

        with rig.registry.run("r") as run:
            with pytest.raises(KeyboardInterrupt):
                rig.registry.execute(ToolCall("s", "stop", {}, "ann"))
            assert "ok" == rig.registry.execute(ToolCall("x", "resolve", {}, "ann")).outcome
            assert 1 == len(refused)
            for answers in ({}, {"result": 1, "rerun": True}, {"result": None, "error": "x"}):
                with pytest.raises(ToolUsageError, match="Pass one of"):
                    run.resolve("s", **answers)
            for call_id in ("x", "nope"):
                with pytest.raises(ToolUsageError, match="in doubt are: 's'") as caught:
                    run.resolve(call_id, rerun=True)
                assert "not-in-doubt" == caught.value.code
            with pytest.raises(RunBusyError):
                rig.registry.journal.resolve("r", "s", rerun=True)
            assert ["s"] == [one.tool_call_id for one in run.in_doubt]

    def test_tool_gone(self, rig: Rig) -> None:
        """The recorded result of a tool that is gone replays; `strict_fingerprint` says that it is gone."""
        with rig.registry.run("r"):
            rig.call("a", 1)
        rig.registry.unregister_tool("add")
        with rig.registry.run("r"):
            assert (2, True) == ((one := rig.call("a", 1)).result, one.replayed)
        with rig.registry.run("r", strict_fingerprint=True), pytest.raises(ReplayMismatchError, match="gone"):
            rig.call("a", 1)

    def test_grant_gone(self, rig: Rig) -> None:
        """Recorded results are exempt from today's grants; what would run is not."""
        rig.registry.assign_tool_to_agent("add", "bob")
        call = ToolCall("a", "add", {"number": 1}, "bob")
        with rig.registry.run("r"):
            rig.registry.execute(call)
        rig.registry.block("add", "bob")
        with rig.registry.run("r"):
            assert 2 == rig.registry.execute(call).result
            assert "forbidden" == rig.registry.execute(ToolCall("b", "add", {"number": 2}, "bob")).outcome


def _outer(rig: Rig) -> None:
    @rig.registry.tool("outer", owned_by="ann", idempotent=True)
    def outer(number: int) -> int:
        """Call another tool."""
        return int(current_agent().call("add", number=number * 10))


class TestBelonging:
    """Which calls belong to a run."""

    def test_toolset_in_plain_threads(self, rig: Rig) -> None:
        """The run's toolset carries the run into threads that know nothing of it, in every way of calling."""
        told: dict[str, Any] = {}
        rig.registry.assign_tool_to_agent("add", "bob")
        with rig.registry.run("r") as run:
            tools = run.toolset("ann")

            def work() -> None:
                told["call"] = tools.call("add", number=1)
                told["bound"] = tools["add"](number=2)
                told["json"] = tools.call_json("add", b'{"number": 3}')
                told["execute"] = tools.execute(ToolCall("e", "add", {"number": 4})).result
                told["batch"] = tools.execute_batch([ToolCall(f"b{at}", "add", {"number": at}) for at in (5, 6)])
                told["acall"] = asyncio.run(tools.acall("aadd", number=7))
                told["for"] = tools.execute(ToolCall("f", "add", {"number": 8}, on_behalf_of=("bob",))).result
                told["afor"] = asyncio.run(
                    tools.aexecute(ToolCall("g", "add", {"number": 9}, on_behalf_of=("bob",)))
                ).result

            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            assert list(range(1, 10)) == sorted(one.arguments["number"] for one in run.calls)
        assert [2, 3, b"4", 5, 8, 9, 10] == [
            told[one] for one in ("call", "bound", "json", "execute", "acall", "for", "afor")
        ]

    def test_nested_calls_of_a_named_run(self, rig: Rig) -> None:
        """A call that names its run takes those from inside of it along."""
        _outer(rig)
        with rig.registry.run("r") as run:
            thread = threading.Thread(target=rig.call, args=("a", 1, "outer"), kwargs={"run_id": "r"})
            thread.start()
            thread.join()
            assert ["outer", "add"] == [one.tool_name for one in run.calls]
            assert ["a"] == [one.parent_id for one in run.calls[1:]]

    def test_runs_of_two_registries(self, rig: Rig, tmp_path: Path) -> None:
        """A run inside of another registry's run takes nothing from that one."""
        other = Rig(tmp_path / "other.db")
        with rig.registry.run("r") as run, other.registry.run("s") as inner:
            rig.call("a", 1)
            other.call("b", 2)
            assert (["a"], ["b"]) == tuple([one.tool_call_id for one in each.calls] for each in (run, inner))
        other.registry.close()

    def test_a_run_inside_of_a_run(self, rig: Rig) -> None:
        """Calls belong to the innermost run."""
        with rig.registry.run("r") as run:
            with rig.registry.run("s") as inner:
                rig.call("a", 1)
            rig.call("b", 2)
            assert (["b"], ["a"]) == tuple([one.tool_call_id for one in each.calls] for each in (run, inner))

    def test_a_run_that_is_not_open(self, rig: Rig) -> None:
        """A call that names a run that is not open here is refused, and nothing runs."""
        with pytest.raises(ToolUsageError, match="not open here"):
            rig.call("a", 1, run_id="r")
        assert [] == rig.ran

    def test_closed_while_tasks_are_inside(self, rig: Rig) -> None:
        """A task inside ends as it should and is recorded; one that comes later is refused."""
        gate = Gate(rig.registry)

        async def late() -> Any:
            async with rig.registry.run("r"):
                call = ToolCall("c", "agate", {"number": 1}, "ann")
                inside = asyncio.ensure_future(rig.registry.aexecute(call))

                async def after() -> Any:
                    await inside
                    return await rig.registry.aexecute(ToolCall("d", "aadd", {"number": 1}, "ann"))

                later = asyncio.ensure_future(after())
                while not gate.inside.is_set():
                    await asyncio.sleep(0)
            with pytest.raises(RunBusyError):
                await rig.registry.run("r").__aenter__()
            gate.go.set()
            assert 2 == (await inside).result
            with pytest.raises(ToolUsageError, match="too late"):
                await later
            async with rig.registry.run("r"):
                return await rig.registry.aexecute(call)

        assert asyncio.run(late()).replayed
        assert [] == rig.ran

    def test_forked_inside_of_a_run(self, rig: Rig) -> None:
        """A forked process is refused in its parent's run, has one of its own, and the parent goes on."""
        with rig.registry.run("r"):
            rig.call("a", 1)
            forked = os.fork()
            if not forked:
                code = 1
                try:
                    try:
                        rig.call("b", 2)
                    except ToolUsageError as error:
                        with rig.registry.run("s"):
                            code = 0 if "forked" in str(error) and rig.call("c", 3).result == 4 else 2
                finally:
                    os._exit(code)
            assert 0 == os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1])
            assert 3 == rig.call("b", 2).result
        assert {"a": 1, "b": 1, "c": 1} == see_whole(rig.path)


class TestKeys:
    def test_the_key_stays_and_is_the_runs_own(self, rig: Rig) -> None:
        """A call that runs again has the same idempotency key; one of the same id in another run has another."""
        keys: list[str] = []

        @rig.registry.tool("keyed", owned_by="ann", idempotent=True)
        def keyed(context: ToolContext) -> None:
            """Keep the key, and die the first time."""
            keys.append(context.idempotency_key)
            if len(keys) == 1:
                raise KeyboardInterrupt

        call = ToolCall("call_0", "keyed", {}, "ann")
        with pytest.raises(KeyboardInterrupt), rig.registry.run("r"):
            rig.registry.execute(call)
        for run in ("r", "s"):
            with rig.registry.run(run):
                assert rig.registry.execute(call).success

        assert keys[0] == keys[1] != keys[2]
