"""Forks: a child finds every lock free, and what is used for the first time is whole in it."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from source_tree import read_tree

import praval_tools
from praval_tools import ToolRegistry, forks
from praval_tools.forks import ForkSafeLock, first_use_property, handle_forks

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]
PACKAGE = Path(praval_tools.__file__).parent
LOCKS = {"Barrier", "Condition", "Event", "Lock", "RLock", "Semaphore", "SimpleQueue", "Queue"}
MODULES_WITH_LOCKS = {
    "access/pending_change.py": "of a step of one change, whose other threads a child does not have",
    "access/store.py": "renewed with its runtime",
    "access/subscriptions.py": "renewed with its runtime",
    "config_loading/source.py": "renewed by its own handler",
    "config_loading/watcher.py": "belongs to the thread that watches, which a child does not have",
    "execution/batch_turns.py": "of one batch, whose threads a child does not have",
    "execution/engines/call_forwarding.py": "of calls for which threads wait that a child does not have",
    "execution/engines/messages.py": "a child closes its end of each channel",
    "execution/engines/processes.py": "the engine renews its own",
    "execution/engines/remote_call.py": "of one call, whose thread a child does not have",
    "execution/engines/worker_process.py": "renewed by its own handler",
    "execution/engines/threads.py": "the engine renews its own",
    "execution/engines/jobs.py": "those of a job end with the thread that runs it",
    "execution/event_loops.py": "renewed by its own handler",
    "execution/exclusive.py": "renewed with its runtime",
    "execution/in_flight.py": "renewed with its runtime",
    "execution/limits.py": "renewed with its runtime",
    "execution/runtime.py": "renewed by its own handler",
    "registry/worker.py": "of the program of a process that leaves its loop in a child",
    "journal/stats.py": "renewed by its own handler",
    "journal/storage/write_requests.py": "of one request, which the child does not have",
    "journal/storage/writer.py": "renewed with its store",
    "journal/storage/worker_calls.py": "renewed with its store",
    "integrations/celery/call_server.py": "of a wait that nobody ends",
    "integrations/celery/status_reader.py": "made anew with the engine",
    "integrations/celery/worker.py": "of the main process of a worker; its children ask only for a name",
    "journal/index/index.py": "the thread that waits on it is not in a child, which makes an index of its own",
}
"""The modules that make locks of the standard library, and why none of those is held for ever in a child."""


def _fork(work: Callable[[], bool]) -> int:
    """Return the exit code of a forked child: 0 where *work* is true there; one that hangs is killed."""
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(60)
            right = work()
        except BaseException:
            right = False
        os._exit(0 if right else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _strip_harmless_uses(source: str) -> str:
    """Return *source* without imports under the same name, and without the classes that `isinstance` asks for."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            node.names = [name for name in node.names if name.asname is not None]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
            del node.args[1:]
    return ast.unparse(tree)


@contextmanager
def _in_thread(work: Callable[[], object]) -> Iterator[None]:
    thread = threading.Thread(target=work)
    thread.start()
    yield
    thread.join(60)
    assert not thread.is_alive()


class _Compilation:
    """A tool whose first use takes as long as the test wants."""

    def __init__(self) -> None:
        self.begun, self.go, self.resolutions = threading.Event(), threading.Event(), 0
        self.registry = ToolRegistry()

        def slow(value: Any) -> int:
            """Return it."""
            return int(value)

        globals().pop("resolve_in_test_forks", None)
        slow.__annotations__["value"] = "resolve_in_test_forks()"  # unresolved at the declaration
        self.registry.tool("slow", shared=True)(slow)
        globals()["resolve_in_test_forks"] = self._resolve_hint

        @self.registry.tool("other", shared=True)
        def other(x: dict[str, list[int]]) -> int:
            """Count."""
            return len(x)

    def _resolve_hint(self) -> type:
        self.resolutions += 1
        self.begun.set()
        self.go.wait(60)
        return int

    def use(self) -> bool:
        """Call both tools."""
        agent = self.registry.agent("ann")
        return bool(agent.call("slow", value=2) == 2 and agent.call("other", x={"a": [1]}) == 1)


class TestFirstUse:
    """
    Broken promise: a forked child goes on.

    One that was forked while another thread used a tool for the first time waited for ever for its lock.
    """

    def test_a_fork_waits_for_it(self) -> None:
        """The thread that compiles ends first; the child finds the tool compiled."""
        compilation = _Compilation()
        handle_forks(compilation, before=lambda compiled: compiled.go.set())  # called before the locks are waited for
        with _in_thread(compilation.use):
            assert compilation.begun.wait(60)
            resolutions = compilation.resolutions
            code = _fork(lambda: compilation.use() and compilation.resolutions == resolutions)

        assert 0 == code

    def test_a_fork_does_not_wait_for_ever(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where it takes too long, the child compiles the tool itself, and others too."""
        monkeypatch.setattr(forks, "_MAX_WAIT_SECONDS", 0.01)
        compilation = _Compilation()

        def use_in_child() -> bool:
            compilation.go.set()
            return compilation.use()

        with _in_thread(compilation.use):
            assert compilation.begun.wait(60)
            code = _fork(use_in_child)
            compilation.go.set()

        assert 0 == code

    def test_a_property_that_is_computed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A value that another thread computes is computed anew in the child."""
        monkeypatch.setattr(forks, "_MAX_WAIT_SECONDS", 0.01)
        begun, go = threading.Event(), threading.Event()

        class Slow:
            @first_use_property
            def value(self) -> int:
                begun.set()
                go.wait(60)
                return 1

        with _in_thread(lambda: Slow().value):
            assert begun.wait(60)
            code = _fork(lambda: go.set() is None and Slow().value == 1)
            go.set()

        assert 0 == code


class TestLocks:
    @pytest.mark.parametrize("waits", [False, True])
    def test_held_by_another_thread(self, waits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        """The child gets a free lock, and the parent's is still held."""
        monkeypatch.setattr(forks, "_MAX_WAIT_SECONDS", 0.01)
        lock, begun, go = ForkSafeLock(waits=waits), threading.Event(), threading.Event()

        def hold() -> None:
            with lock:
                begun.set()
                go.wait(60)

        def enter() -> bool:
            with lock:
                return True

        with _in_thread(hold):
            assert begun.wait(60)
            code = _fork(enter)
            go.set()

        assert (0, True) == (code, enter())

    @pytest.mark.parametrize("waits", [False, True])
    def test_held_by_the_thread_that_forks(self, waits: bool) -> None:
        """The thread goes on in both processes, still inside of the lock, and leaves it."""
        lock = ForkSafeLock(waits=waits)
        with lock:
            child = os.fork()
        if child == 0:
            with lock:
                os._exit(0)

        assert 0 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
    def test_a_handler_that_raises(self) -> None:
        """The others are called all the same, and the interpreter reports the error."""
        begun: list[str] = []

        class Owner:
            pass

        first, second = Owner(), Owner()
        handle_forks(first, before=lambda _: begun.append("first"))
        faults = ["x"]
        handle_forks(second, before=lambda _: [int(fault) for fault in faults])

        assert (0, ["first"]) == (_fork(lambda: True), begun)
        faults.clear()  # the error that was reported may keep the owner alive beyond this test

    def test_an_owner_that_is_collected_meanwhile(self, tmp_path: Path) -> None:
        """A store that nobody closed is closed once the fork is over, not while its writer waits for the fork."""
        program = f"""
            import gc, os
            from praval_tools import ToolRegistry
            from praval_tools.forks import handle_forks

            class Owner:
                pass

            def leave_store():
                registry = ToolRegistry(journal={str(tmp_path / "journal.db")!r})
                registry.tool("add", shared=True)(lambda x: x)
                registry.agent("ann").call("add", x=1)

            def collect(step):
                steps.append(step)
                gc.collect()

            gc.disable()
            leave_store()
            steps, owner = [], Owner()
            handle_forks(owner, before=lambda _: collect("before"), in_parent=lambda _: collect("in_parent"))
            child = os.fork()
            if child == 0:
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            assert steps == ["before", "in_parent"], steps
        """
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", dedent(program)], capture_output=True, text=True, timeout=60
        )

        assert (0, "") == (done.returncode, done.stderr)

    def test_the_end_of_an_owner(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Its handlers go without a line of Python: a collector in the middle of a change can raise nothing there."""
        handlers: dict[int, object] = {}
        monkeypatch.setattr(forks, "_handlers", handlers)
        lines: list[str] = []

        def trace(frame: Any, event: str, argument: object) -> Any:
            lines.append(f"{frame.f_code.co_name}: {event}")

        owner = ForkSafeLock()
        known, before = len(handlers), sys.gettrace()
        sys.settrace(trace)
        try:
            del owner
        finally:
            sys.settrace(before)

        assert (1, {}, []) == (known, handlers, lines)

    def test_all_locks_of_the_package_are_renewed(self) -> None:
        """A module that makes a lock of the standard library is on the list, with why a child never waits for it."""
        makers = {
            str(path.relative_to(PACKAGE))
            for path in PACKAGE.rglob("*.py")
            for node in ast.walk(read_tree(path))
            if isinstance(node, ast.Call)
            and (name := ast.unparse(node.func)).rpartition(".")[2] in LOCKS
            and not name.startswith(("asyncio.", "anyio."))
        }
        cached = {
            str(path.relative_to(PACKAGE))
            for path in PACKAGE.rglob("*.py")
            if "cached_property" in _strip_harmless_uses(path.read_text())
        }

        assert set(MODULES_WITH_LOCKS) == {path for path in makers if not path.startswith("demo/")}
        assert {"forks.py"} == {path for path in cached if not path.startswith("demo/")}

    def test_handlers_are_registered_in_one_place(self) -> None:
        """The interpreter keeps a hook for ever; objects come and go."""
        assert ["forks.py"] == [
            str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if "register_at_fork" in path.read_text()
        ]
