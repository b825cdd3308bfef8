# Tests of: runtime
"""Closing a registry while calls are inside: in several threads, from async code, after an interrupt, inside a call."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from execution_rig import WAIT

from praval_tools import Outcome, ToolCall, ToolContext, ToolRegistry, ToolResult, errors
from praval_tools.journal import open_journal

TOO_EARLY = 0.2
"""Seconds in which what does not wait, as it should, is noticed."""


class Rig:
    """A registry with a journal, and a call of its tool "work", whose body is *body*, in a thread of its own."""

    def __init__(self, where: Path) -> None:
        self.where, self.registry = where, ToolRegistry(journal=where, timeout=WAIT)
        self.entered, self.closed = threading.Event(), threading.Event()
        self.closed_early: list[bool] = []
        self.body: Callable[[ToolContext], object] = lambda _: self.watch()
        self._threads = ThreadPoolExecutor(4)
        self.registry.agent("ann")

        @self.registry.tool("work", owned_by="ann")
        def work(context: ToolContext) -> str:
            """Work."""
            self.entered.set()
            self.body(context)
            return "done"

        @self.registry.tool("nothing", owned_by="ann")
        def nothing() -> None:
            """Do nothing."""

    def shut_down(self) -> None:
        """End the threads."""
        self._threads.shutdown()

    def watch(self) -> None:
        """Note whether a close returns while the call is inside."""
        self.closed_early.append(self.closed.wait(TOO_EARLY))

    def begin(self) -> Callable[[], ToolResult]:
        """Begin the call; return what waits for its result."""

        def call() -> ToolResult:
            with self.registry.run("r"):
                return self.registry.execute(ToolCall("1", "work", {}, "ann"))

        result = self._threads.submit(call).result
        assert self.entered.wait(WAIT)
        return result

    def close(self) -> None:
        """Close the registry, and say so."""
        self.registry.close()
        self.closed.set()

    def begin_close(self, close: Callable[[], object]) -> Callable[[], object]:
        """Begin to close the registry in another thread; return what waits for the end of that."""
        return self._threads.submit(close).result

    def wait_until_closing(self) -> None:
        """Return as soon as the registry refuses calls."""

        def call_until_refused() -> None:
            with pytest.raises(errors.RegistryClosedError):
                while True:
                    self.registry.execute(ToolCall("2", "nothing", {}, "ann"))

        self._threads.submit(call_until_refused).result(WAIT)

    def count_in_doubt(self) -> int:
        """Return how many calls the journal holds whose result is not recorded."""
        with open_journal(self.where) as journal:
            return sum(call.in_doubt for call in journal.calls("r"))


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path / "runs.db")
    yield made
    made.registry.close()
    made.shut_down()


class TestWhileAnotherCloses:
    @pytest.mark.parametrize("how", ["close", "aclose"])
    def test_waits_for_calls_and_their_results(self, rig: Rig, how: str) -> None:
        """
        Of two that close, neither returns before the calls inside have ended and their results are recorded.

        The second returned at once, and closed the journal: the call had run, and its result was lost.
        """
        result = rig.begin()
        ends = [rig.begin_close(rig.close)]
        ends.append(rig.begin_close(rig.close if how == "close" else lambda: asyncio.run(self.aclose(rig))))
        _ = [end() for end in ends]

        assert ([False], Outcome.OK, 0) == (rig.closed_early, result().outcome, rig.count_in_doubt())

    async def aclose(self, rig: Rig) -> None:
        await rig.registry.aclose()
        rig.closed.set()

    def test_aclose_leaves_the_loop_free(self, rig: Rig) -> None:
        """
        The loop goes on while `aclose` waits for another thread's close: here, it lets the call end.
        """
        release = threading.Event()
        rig.body = lambda _: rig.closed_early.append(not release.wait(WAIT))
        result = rig.begin()
        end = rig.begin_close(rig.close)
        rig.wait_until_closing()

        async def close_here() -> None:
            closing = asyncio.ensure_future(rig.registry.aclose())
            await asyncio.sleep(0)
            assert not closing.done()
            release.set()
            await closing

        asyncio.run(close_here())
        end()
        assert ([False], Outcome.OK, 0) == (rig.closed_early, result().outcome, rig.count_in_doubt())

    def test_close_on_a_loop_is_refused(self, rig: Rig) -> None:
        """
        On a loop whose calls may be those inside, `close` is refused, as where nothing else closes the registry.
        """
        release = threading.Event()
        rig.body = lambda _: release.wait(WAIT)
        result = rig.begin()
        end = rig.begin_close(rig.close)
        rig.wait_until_closing()

        async def close_here() -> None:
            with pytest.raises(errors.ToolUsageError, match="Await aclose"):
                rig.registry.close()

        asyncio.run(close_here())
        release.set()
        end()
        assert (Outcome.OK, 0) == (result().outcome, rig.count_in_doubt())

    def test_close_in_a_change_is_refused(self, rig: Rig) -> None:
        """
        The other close waits for the end of a `change()`, which cannot wait for that close.
        """
        with pytest.raises(errors.ToolUsageError, match="is open here"), rig.registry.change():
            end = rig.begin_close(rig.close)
            rig.wait_until_closing()
            rig.registry.close()
        end()

    def test_inside_a_call_it_returns_at_once(self, rig: Rig) -> None:
        """
        Code of the operator's that runs inside a call closes nothing that the other close, which waits for it, needs.
        """

        def close_inside(context: ToolContext) -> None:
            rig.wait_until_closing()
            context.progress(1)

        rig.registry.subscribe(lambda _: rig.registry.close())
        rig.body = close_inside
        result = rig.begin()
        rig.begin_close(rig.close)()

        assert (Outcome.OK, 0) == (result().outcome, rig.count_in_doubt())


def test_after_an_interrupt_the_next_close_waits(rig: Rig) -> None:
    """
    A close that was interrupted as it waited leaves the work to the next one.

    That returned at once, and closed the journal before the call inside had ended.
    """
    interrupted = threading.Event()
    rig.body = lambda _: (interrupted.wait(WAIT), rig.watch())
    result = rig.begin()

    def interrupt() -> None:
        rig.wait_until_closing()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        end = rig.begin_close(interrupt)
        rig.registry.close()
    end()
    interrupted.set()
    rig.close()

    assert ([False], Outcome.OK, 0) == (rig.closed_early, result().outcome, rig.count_in_doubt())
