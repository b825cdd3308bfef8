"""Runs under concurrency, and what repeats a recorded call: one result per call id, one place per run."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from runs_rig import Gate, Rig, check_journal, path, rig  # noqa: F401

from praval_tools import (
    Outcome,
    ToolCall,
    ToolContext,
    ToolRegistry,
    ToolUsageError,
)
from praval_tools.errors import RunBusyError

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
        assert {f"c{at}": 1 for at in range(64)} == check_journal(rig.path)

    def test_8_threads(self, rig: Rig) -> None:
        """Eight threads of the caller's own, in two runs and outside: places and results are whole."""
        with rig.registry.run("a") as a, rig.registry.run("b") as b:
            ways = [a.toolset("ann"), b.toolset("ann"), rig.registry.toolset("ann")]

            def work(thread: int) -> None:
                for at in range(20):
                    ways[at % 3].execute(ToolCall(f"{thread}-{at}", "add", {"number": at}))

            with ThreadPoolExecutor(8) as pool:
                list(pool.map(work, range(8)))

        assert {1} == set(check_journal(rig.path).values())
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
            answers = [child.communicate("end\n", timeout=120)[0].split() for child in children]

        assert [["open", "done"]] * 4 == answers
        assert {f"p{one}-{at}": 1 for one in range(4) for at in range(40)} == check_journal(path)


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
        assert {"c": 1} == check_journal(rig.path)

    @pytest.mark.parametrize("name", ["gate", "agate"])
    def test_tasks(self, rig: Rig, name: str) -> None:
        """Eight tasks."""
        gate = Gate(rig.registry)

        async def both() -> list[Any]:
            async with rig.registry.run("r"):
                calls = [rig.registry.aexecute(ToolCall("c", name, {"number": 1}, "ann")) for _ in range(8)]
                tasks = [asyncio.ensure_future(recorded) for recorded in calls]
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
        """Where something stops the first caller, the second learns that the call is in doubt."""
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
            assert ["c"] == [recorded.tool_call_id for recorded in run.in_doubt]
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
        assert all("inside itself" in str(one) for one in refused)

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
                results = [recorded.result(20) for recorded in calls]

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
