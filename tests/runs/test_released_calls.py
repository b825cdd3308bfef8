"""A call that was stopped before its tool was entered has not run: an equal call that was made later stands for it."""

# Tests of: journal/replay, journal/replay_entry, call_records, call_writer

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from store_rig import make_location
from write_ahead_rig import CALL, make_canceller, path, rig  # noqa: F401
from write_ahead_rig import Rig as FailingRig

from praval_tools import Outcome, ToolCall, ToolContext, ToolRegistry, ToolUsageError, current_agent
from praval_tools.errors import ReplayMismatchError, RetryableToolError
from praval_tools.loop import ToolLoop
from praval_tools.testing import fake_model

MODES: Any = ["content", "position", "id"]


class Rig:
    """A registry whose tools count what they do, and can be stopped before they are entered."""

    def __init__(self, where: Path | str, **options: Any) -> None:
        self.ran: list[object] = []
        self.registry = ToolRegistry(journal=where, **options)
        self.registry.tool("send", owned_by="ann")(self._send)
        self.registry.tool("outer", owned_by="ann", idempotent=True)(self._make_inner_calls)
        self.stops_inner_calls = False

    async def _send(self, to: str) -> int:
        """Send a letter; return the number of the letter."""
        self.ran.append(to)
        return len(self.ran)

    async def _make_inner_calls(self) -> int:
        """Send a letter from inside; the first time, be stopped once, and be interrupted after the letter."""
        tools = current_agent()
        if not self.stops_inner_calls:
            return int(await tools.acall("send", to="ann"))
        _stop(lambda: tools.call("send", to="ann"))
        await tools.acall("send", to="ann")
        raise KeyboardInterrupt

    def stop_call(self, to: str, call_id: str | None = None) -> None:
        """Make a call whose tool is not entered, since an async tool cannot be waited for here."""
        _stop(lambda: self.registry.execute(ToolCall(call_id, "send", {"to": to}, "ann")))

    async def send(self, to: str, call_id: str | None = None) -> Any:
        """Make a call, and return its value."""
        result = await self.registry.aexecute(ToolCall(call_id, "send", {"to": to}, "ann"))
        assert Outcome.OK is result.outcome
        return result.result

    def live(self, mode: Any, program: Callable[[], Any], **options: Any) -> Any:
        """Run *program* in the run, and return what it returns."""

        async def work() -> Any:
            async with self.registry.run("r", mode, **options):
                return await program()

        return asyncio.run(work())


def _stop(make_call: Callable[[], object]) -> None:
    with pytest.raises(ToolUsageError) as caught:
        make_call()
    assert "sync-call-in-event-loop" == caught.value.code


@contextmanager
def open_rig(where: Path | str = "memory", **options: Any) -> Iterator[Rig]:
    rig = Rig(where, **options)
    try:
        yield rig
    finally:
        rig.registry.close()


@pytest.mark.parametrize("mode", MODES)
class TestRepetitions:
    @pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
    def test_the_result_of_a_repetition_is_returned(
        self, mode: Any, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """However often a call was stopped before: its result is returned, nothing runs, and nothing is unused."""
        monkeypatch.setenv("PRAVAL_TOOLS_KEY", "a key that all processes share")
        with make_location(kind, tmp_path) as where, open_rig(where) as rig:

            async def make_calls(stops: int) -> Any:
                for _ in range(stops):
                    rig.stop_call("ann")
                return [await rig.send("ann"), await rig.send("bob")]

            first = rig.live(mode, lambda: make_calls(2))
            assert first == rig.live(mode, lambda: make_calls(0), strict=True)
            assert ["ann", "bob"] == rig.ran

    def test_a_call_that_was_given_up_runs(self, mode: Any) -> None:
        """A call that nobody repeated, or repeated in vain, has not had its effect: asked for again, it runs."""
        with open_rig() as rig:

            async def stop_calls() -> None:
                rig.stop_call("ann")
                rig.stop_call("ann")
                await rig.send("bob")

            async def make_calls() -> Any:
                return [await rig.send("ann"), await rig.send("bob")]

            rig.live(mode, stop_calls)
            assert [[2, 1]] * 2 == [rig.live(mode, make_calls, strict=True) for _ in range(2)]
            assert ["bob", "ann"] == rig.ran

    def test_a_repetition_in_doubt_stays_so(self, mode: Any) -> None:
        """A repetition that may have had its effect is in doubt, however often it is asked for."""
        with open_rig() as rig:

            @rig.registry.tool("stop", owned_by="ann")
            async def stop() -> None:
                """Be interrupted."""
                rig.ran.append("stop")
                raise KeyboardInterrupt

            call = ToolCall(None, "stop", {}, "ann")

            async def stop_calls() -> None:
                _stop(lambda: rig.registry.execute(call))
                with pytest.raises(KeyboardInterrupt):
                    await rig.registry.aexecute(call)

            async def make_calls() -> Any:
                return [(await rig.registry.aexecute(call)).outcome for _ in range(3 if mode != "position" else 1)]

            rig.live(mode, stop_calls)
            assert {Outcome.IN_DOUBT} == set(rig.live(mode, make_calls))
            assert ["stop"] == rig.ran

    def test_a_call_inside_a_call(self, mode: Any) -> None:
        """Inside a call that is made again, the repetition is found, too."""
        with open_rig() as rig:

            async def make_call() -> Any:
                return await rig.registry.toolset("ann").acall("outer")

            async def be_interrupted() -> None:
                rig.stops_inner_calls = True
                with pytest.raises(KeyboardInterrupt):
                    await make_call()
                rig.stops_inner_calls = False

            rig.live(mode, be_interrupted)
            assert [1, 1] == [rig.live(mode, make_call) for _ in range(2)]
            assert ["ann"] == rig.ran

    def test_calls_of_a_batch(self, mode: Any) -> None:
        """A batch that was stopped as a whole is found by its repetition."""
        with open_rig() as rig:
            calls = [ToolCall(None, "send", {"to": to}, "ann") for to in ("ann", "bob", "ann")]

            async def make_batch() -> Any:
                return [result.result for result in await rig.registry.aexecute_batch(calls)]

            async def stop_batch() -> Any:
                for call in calls:
                    _stop(lambda call=call: rig.registry.execute(call))  # type: ignore[misc]
                return await make_batch()

            first = rig.live(mode, stop_batch)
            assert first == rig.live(mode, make_batch, strict=mode != "position")
            assert 3 == len(rig.ran)

    def test_a_refused_repetition(self, mode: Any) -> None:
        """A refusal of a call that was stopped before is its end, as of any other call."""
        with open_rig() as rig:

            async def stop_call() -> None:
                rig.stop_call("ann")

            async def make_call() -> Outcome:
                return (await rig.registry.aexecute(ToolCall(None, "send", {"to": "ann"}, "ann"))).outcome

            rig.live(mode, stop_call)
            rig.registry.block("send", "ann")
            assert Outcome.FORBIDDEN is rig.live(mode, make_call)
            rig.registry.unblock("send", "ann")
            assert Outcome.FORBIDDEN is rig.live(mode, make_call)
            assert [] == rig.ran


class TestKept:
    @pytest.mark.parametrize("attempts", [0, 1])
    def test_a_call_that_is_stopped_before_its_next_attempt(
        self, monkeypatch: pytest.MonkeyPatch, attempts: int
    ) -> None:
        """Stopped before its first attempt a call has not run; stopped before its second one it is in doubt."""
        with open_rig(retry_wait=0) as rig:
            background_loop = rig.registry._runtime.background_loop

            def be_interrupted(work: Any, timeout: object) -> None:
                work.close()
                raise KeyboardInterrupt

            def stop_next_attempt() -> None:
                monkeypatch.setattr(type(background_loop), "run", lambda _, *work: be_interrupted(*work))

            @rig.registry.tool("pay", owned_by="ann", retries=1)
            async def pay() -> int:
                """Pay, on the second attempt."""
                rig.ran.append("pay")
                if len(rig.ran) > 1:
                    return len(rig.ran)
                stop_next_attempt()
                raise RetryableToolError("later")

            call = ToolCall(None, "pay", {}, "ann")
            with rig.registry.run("r"):
                if not attempts:
                    stop_next_attempt()
                with pytest.raises(KeyboardInterrupt):
                    rig.registry.execute(call)
                monkeypatch.undo()
                assert attempts == len(rig.ran)
                rig.ran.append("between")
                assert attempts + 2 == rig.registry.execute(call).result
            with rig.registry.run("r"):
                again = rig.registry.execute(call)
            assert (Outcome.IN_DOUBT if attempts else Outcome.OK) is again.outcome
            assert rig.ran.count("pay") == attempts + 1

    def test_a_call_that_the_operator_let_run_again(self) -> None:
        """A call that may have been entered in an earlier life keeps its id, and so its key; no other stands for it."""
        with open_rig() as rig:
            keys: list[str | None] = []

            @rig.registry.tool("pay", owned_by="ann")
            async def pay(context: ToolContext) -> int:
                """Pay; be interrupted the first time."""
                keys.append(context.idempotency_key)
                if len(keys) == 1:
                    raise KeyboardInterrupt
                return len(keys)

            async def be_interrupted() -> None:
                with pytest.raises(KeyboardInterrupt):
                    await rig.registry.aexecute(ToolCall("x", "pay", {}, "ann"))
                await rig.registry.aexecute(ToolCall("y", "pay", {}, "ann"))

            async def stop_again() -> None:
                _stop(lambda: rig.registry.execute(ToolCall("x", "pay", {}, "ann")))

            async def make_calls() -> Any:
                return [(await rig.registry.aexecute(ToolCall(name, "pay", {}, "ann"))).result for name in "xy"]

            rig.live("content", be_interrupted)
            rig.registry.journal.resolve("r", "x", rerun=True)
            rig.live("content", stop_again)
            assert [[3, 2]] * 2 == [rig.live("content", make_calls) for _ in range(2)]
            assert keys[0] == keys[2] != keys[1]

    def test_in_a_run_that_is_full(self, tmp_path: Path) -> None:
        """A call that has not run is a new one for a run that takes no new calls; with a higher limit it runs."""

        async def stop_call(rig: Rig) -> list[Outcome]:
            rig.stop_call("ann")
            return [(await rig.registry.aexecute(ToolCall(None, "send", {"to": "bob"}, "ann"))).outcome]

        async def make_calls(rig: Rig) -> list[Outcome]:
            calls = [ToolCall(None, "send", {"to": to}, "ann") for to in ("ann", "ann", "bob")]
            return [(await rig.registry.aexecute(call)).outcome for call in calls]

        def live(program: Callable[[Rig], Any], limit: int) -> tuple[list[Outcome], list[object]]:
            with open_rig(tmp_path / "runs.db", max_run_events=limit) as rig:
                return rig.live("content", lambda: program(rig)), rig.ran

        assert ([Outcome.OK], ["bob"]) == live(stop_call, 4)
        assert ([Outcome.LIMITED, Outcome.LIMITED, Outcome.OK], []) == live(make_calls, 4)
        assert ([Outcome.OK] * 3, ["ann", "ann"]) == live(make_calls, 10)


class TestIds:
    @pytest.mark.parametrize("mode", MODES)
    def test_the_same_id_again(self, mode: Any) -> None:
        """An id that is given again is that of the same call, which runs once."""
        with open_rig() as rig:

            async def make_calls(stops: int) -> Any:
                for _ in range(stops):
                    rig.stop_call("ann", "x")
                return await rig.send("ann", "x")

            assert [1, 1] == [rig.live(mode, lambda: make_calls(stops), strict=True) for stops in (2, 0)]
            assert ["ann"] == rig.ran

    @pytest.mark.parametrize("asked", [["x"], ["y"], ["z"], ["x", "y"], ["y", "x"]])
    def test_another_id(self, asked: list[str]) -> None:
        """The id of a call that was stopped finds the equal call that was made later; a second call runs once."""
        with open_rig() as rig:

            async def stop_call() -> None:
                rig.stop_call("ann", "x")
                await rig.send("ann", "y")

            async def make_calls() -> Any:
                return [await rig.send("ann", call_id) for call_id in asked]

            rig.live("content", stop_call)
            results = [rig.live("content", make_calls) for _ in range(3)]
            assert [[1, 2][: len(asked)]] * 3 == results
            assert len(asked) == len(rig.ran)

    def test_ids_alone(self) -> None:
        """With `match="id"` a call of another id is another call."""
        with open_rig() as rig:

            async def stop_call() -> None:
                rig.stop_call("ann", "x")
                await rig.send("ann", "y")

            async def make_calls() -> Any:
                return [await rig.send("ann", "x"), await rig.send("ann", "y")]

            rig.live("id", stop_call)
            assert [[2, 1]] * 2 == [rig.live("id", make_calls) for _ in range(2)]
            assert ["ann", "ann"] == rig.ran


class TestCancelled:
    @pytest.mark.parametrize("mode", MODES)
    def test_while_the_start_is_written(self, rig: FailingRig, mode: Any) -> None:
        """A task that is cancelled while the start of its call is written has not run; the next one has, once."""

        async def make_call() -> Any:
            return await rig.registry.toolset("ann").acall("aadd", number=1)

        async def work() -> None:
            async with rig.registry.run("r", mode):
                task = asyncio.ensure_future(make_call())
                rig.store.before = make_canceller(rig, task, CALL)
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert 2 == await make_call()
            async with rig.registry.run("r", mode, strict=True):
                assert 2 == await make_call()

        asyncio.run(work())
        assert [1] == rig.ran
        assert [CALL, "call_rerun", CALL, "agent_tool_result"] == rig.types()

    @pytest.mark.parametrize("mode", ["content", "position"])
    def test_a_loop_that_is_begun_again(self, rig: FailingRig, mode: Any) -> None:
        """A loop that was cancelled before its tool was entered, and begun again, finds the call of its successor."""

        def make_loop(*replies: Any) -> ToolLoop:
            return ToolLoop(rig.registry.agent("ann"), model=fake_model(*replies, "Done."))

        async def work() -> None:
            async with rig.registry.run("r", mode):
                task = asyncio.ensure_future(make_loop(("aadd", {"number": 1})).arun("Go."))
                rig.store.before = make_canceller(rig, task, CALL)
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert "Done." == (await make_loop().arun("Go.")).text  # it is continued
            async with rig.registry.run("r", mode):  # the first reply is recorded
                assert "Done." == (await make_loop().arun("Go.")).text

        asyncio.run(work())
        assert [1] == rig.ran

    def test_one_of_two_equal_calls(self, rig: FailingRig) -> None:
        """Of two calls at the same time one is cancelled: both asked for later, the other one runs once."""
        add = rig.registry.toolset("ann").acall

        async def work() -> None:
            async with rig.registry.run("r"):
                first = asyncio.ensure_future(add("aadd", number=1))
                rig.store.before = make_canceller(rig, first, CALL)
                second = asyncio.ensure_future(add("aadd", number=1))
                assert [True, False] == [
                    isinstance(result, BaseException)
                    for result in await asyncio.gather(first, second, return_exceptions=True)
                ]
            for count in (1, 2, 2):
                async with rig.registry.run("r"):
                    assert [2] * count == [await add("aadd", number=1) for _ in range(count)]

        asyncio.run(work())
        assert [1, 1] == rig.ran


steps = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.booleans()), min_size=1, max_size=6)
"""To whom a program sends, how often that is stopped in its first life, and whether it gives up then."""


class TestAnyProgram:
    @pytest.mark.parametrize("mode", MODES)
    @given(steps=steps, end=st.integers(0, 6))
    def test_each_step_has_its_effect_once(self, mode: Any, steps: list[tuple[str, int, bool]], end: int) -> None:
        """
        Whatever was stopped or given up, and wherever the first life ended: later lives repeat no effect and lose none.

        With `match="position"` a program that gave up and went on may be refused as another one.
        """
        with open_rig() as rig:

            async def live_first() -> list[Any]:
                results = []
                for to, stops, gives_up in steps[:end]:
                    for _ in range(stops):
                        rig.stop_call(to)
                    results.append(None if stops and gives_up else await rig.send(to))
                return results

            async def live_again() -> list[Any]:
                return [await rig.send(to) for to, _, _ in steps]

            first = rig.live(mode, live_first)
            wanted = Counter(to for to, _, _ in steps)
            try:
                later = [rig.live(mode, live_again, strict=True) for _ in range(2)]
            except ReplayMismatchError:
                assert mode == "position"
                assert None in first
                assert wanted >= Counter(rig.ran)
                return
            assert later[0] == later[1]
            assert wanted == Counter(rig.ran)
            if None not in first:
                assert first == later[0][: len(first)]


PROGRAM = """
import asyncio, os, signal, sys
from pathlib import Path
from praval_tools import ToolRegistry

folder, mode, life = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
registry = ToolRegistry(journal=folder / "runs.db")

@registry.tool("send", owned_by="ann")
def send(to: str) -> str:
    "Send a letter."
    with open(folder / "effects", "a") as file:
        file.write(life)
    return life

async def work():
    with registry.run("r", mode):
        tools = registry.toolset("ann")
        if life == "1":
            task = asyncio.ensure_future(tools.acall("send", to="ann"))
            await asyncio.sleep(0)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                print("cancelled")
        print(await tools.acall("send", to="ann"), flush=True)
        if life == "1":
            os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(work())
"""


@pytest.mark.parametrize("mode", MODES)
def test_a_killed_program_repeats_no_effect(mode: str, tmp_path: Path) -> None:
    """A call was cancelled, and made again; the program was killed after that: the next one gets the result."""
    lives = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM, tmp_path, mode, life], capture_output=True, text=True, timeout=60
        )
        for life in "12"
    ]
    assert ["cancelled\n1\n", "1\n"] == [life.stdout for life in lives], lives
    assert [-signal.SIGKILL, 0] == [life.returncode for life in lives]
    assert "1" == (tmp_path / "effects").read_text()
