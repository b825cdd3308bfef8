# Tests of: processes, worker_process, messages, errors, remote_call, registry/worker, tools/function_address
"""The process engine: a function that ends its process, or does not end, harms nobody else; nothing is left behind."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import process_tools
import pytest

from praval_tools import Outcome, Tool, ToolCall, ToolDefinitionError, ToolRegistry, ToolResult, current_agent
from praval_tools.execution.engines import messages
from praval_tools.execution.engines.processes import ProcessEngine
from praval_tools.registry.registry import get_runtime

SUPPORT = Path(__file__).parents[1] / "support"
pytestmark = pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs POSIX")


def make_registry(**options: Any) -> ToolRegistry:
    """Return a registry with the tools of the module that run in other processes."""
    registry = ToolRegistry(**{"engine": "process", "processes": 2, **options})
    for name, function in vars(process_tools).items():
        if getattr(function, "__module__", "") == process_tools.__name__ and name == getattr(function, "__name__", ""):
            if not isinstance(function, type) and name != "make_closure":
                registry.tool(name, shared=True)(function)
    return registry


@pytest.fixture(scope="module")
def registry() -> Iterator[ToolRegistry]:
    """A registry with two processes."""
    with make_registry() as made:
        yield made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file in which functions leave marks."""
    path = tmp_path / "marks"
    path.touch()
    return path


def call(registry: ToolRegistry, tool: str, **arguments: Any) -> ToolResult:
    """Run a call of ann's."""
    return registry.execute(ToolCall(None, tool, arguments, "ann"))


def wait_for_lines(file: Path, count: int = 1) -> list[int]:
    """Wait until *file* has as many numbers of processes, and return them."""
    deadline = time.monotonic() + 30
    while len(lines := file.read_text().split()) < count and time.monotonic() < deadline:
        threading.Event().wait(0.01)
    return [int(line) for line in lines]


def is_running(process: int) -> bool:
    """Tell whether there is such a process; one that ended and was not waited for counts."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for_end(process: int) -> bool:
    """Wait until there is no such process, but some seconds at most; tell whether there is none."""
    deadline = time.monotonic() + 20
    while is_running(process) and time.monotonic() < deadline:
        threading.Event().wait(0.01)
    return not is_running(process)


class TestCrashes:
    @pytest.mark.parametrize(("how", "text"), [("kill", "SIGKILL"), ("exit", "exit code 3"), ("crash", "SIGSEGV")])
    def test_are_an_outcome(self, registry: ToolRegistry, how: str, text: str) -> None:
        """The outcome is `engine_lost`, with how the process ended; the next call gets another process."""
        result = call(registry, "end", how=how)
        assert (Outcome.ENGINE_LOST, "engine-lost", 1) == (result.outcome, result.error_type, result.attempts)
        assert text in str(result.error)
        assert Outcome.OK is call(registry, "get_pid").outcome
        awaited = asyncio.run(registry.aexecute(ToolCall("1", "end", {"how": how}, "ann")))
        assert Outcome.ENGINE_LOST is awaited.outcome

    @pytest.mark.parametrize("idempotent", [False, True])
    def test_leave_the_call_around_in_doubt(self, tmp_path: Path, idempotent: bool) -> None:
        """The promise was broken: it had failed for ever, also when somebody had resolved the inner call."""
        with ToolRegistry(journal=tmp_path / "runs.db", processes=1) as registry:
            registry.tool("end", shared=True, engine="process")(process_tools.end)

            @registry.tool("outer", shared=True, idempotent=idempotent)
            def outer() -> Any:
                """Call a tool whose process ends."""
                return current_agent().call("end", how="kill")

            with registry.run("r") as run:
                assert Outcome.IN_DOUBT is call(registry, "outer").outcome
                run.resolve(next(one for one in run.in_doubt if one.tool_name == "end"), result=None)
            with registry.run("r"):
                assert (Outcome.OK if idempotent else Outcome.IN_DOUBT) is call(registry, "outer").outcome

    def test_are_not_tried_again(self, file: Path) -> None:
        """What may have done its work is not done twice, whatever retries there are."""
        with make_registry(retries=3, retry_wait=0) as registry:
            assert Outcome.ENGINE_LOST is call(registry, "note_and_end", path=str(file)).outcome
        assert "x" == file.read_text()

    @pytest.mark.parametrize("idempotent", [False, True])
    def test_leave_a_recorded_call_in_doubt(self, tmp_path: Path, file: Path, idempotent: bool) -> None:
        """A run does not repeat it, unless the tool is idempotent."""
        with ToolRegistry(journal=str(tmp_path / "runs.db"), engine="process", processes=1) as registry:
            registry.tool("note_and_end", shared=True, idempotent=idempotent)(process_tools.note_and_end)
            outcomes = []
            for _ in range(2):
                with registry.run("r"):
                    outcomes.append(call(registry, "note_and_end", path=str(file)).outcome)
        assert [Outcome.ENGINE_LOST, Outcome.ENGINE_LOST if idempotent else Outcome.IN_DOUBT] == outcomes
        assert (2 if idempotent else 1) == len(file.read_text())

    def test_of_an_idle_process_are_no_matter(self, registry: ToolRegistry) -> None:
        """A process that was killed while it waited for work is replaced."""
        for _ in range(4):
            process = call(registry, "get_pid").result
            os.kill(process, signal.SIGKILL)
            assert wait_for_end_of_child(process)
            assert Outcome.OK is call(registry, "get_pid").outcome


def wait_for_end_of_child(process: int) -> bool:
    """Wait until a child of this process has ended, whether it was waited for or not."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            if os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None:
                return True
        except ChildProcessError:
            return True
        threading.Event().wait(0.01)
    return False


class TestTimeouts:
    @pytest.mark.parametrize(("name", "processes"), [("compute", 1), ("start_child", 2)])
    def test_kill_whatever_runs(self, file: Path, name: str, processes: int) -> None:
        """Code that never lets the interpreter go is killed, and so is what the function started."""
        with make_registry(timeout=0.5) as registry:
            result = call(registry, name, path=str(file))
            assert (Outcome.TIMEOUT, f"Tool {name!r} did not finish within 0.5 s.") == (result.outcome, result.error)
            assert [True] * processes == [wait_for_end(one) for one in wait_for_lines(file, processes)]
            assert Outcome.OK is call(registry, "get_pid").outcome

    def test_begin_when_the_function_does(self) -> None:
        """Starting a process, importing a module and waiting for a free process take none of a call's time."""
        with ToolRegistry(engine="process", processes=1) as registry:
            registry.tool("slow_import", shared=True, timeout=0.3)(slow_import())
            calls = [ToolCall(str(number), "slow_import", {"seconds": 0.15}, "ann") for number in range(4)]
            assert [Outcome.OK] * 4 == [one.outcome for one in registry.execute_batch(calls)]

    def test_of_a_stopped_process(self, file: Path) -> None:
        """A process that reads nothing any more costs no more than the time of the call."""
        with make_registry(timeout=1, processes=1) as registry:
            process = call(registry, "get_pid").result
            os.kill(process, signal.SIGSTOP)
            assert Outcome.TIMEOUT is call(registry, "get_pid").outcome
            assert wait_for_end(process)


def slow_import() -> Any:
    """Return a function of a module whose import takes longer than its calls may."""
    import slow_module

    return slow_module.wait


class TestCancellation:
    def test_of_the_task_kills_the_function(self, registry: ToolRegistry, file: Path) -> None:
        """Nothing goes on after the caller has given up."""

        async def main() -> None:
            task = asyncio.create_task(registry.agent("ann").acall("sleep", path=str(file), seconds=60))
            await asyncio.to_thread(wait_for_lines, file)
            task.cancel()
            await asyncio.wait([task])

        asyncio.run(main())
        assert wait_for_end(wait_for_lines(file)[0])

    def test_of_a_call_that_waits_for_a_process(self, file: Path) -> None:
        """It never begins."""

        async def main() -> list[Outcome]:
            mine = registry.toolset("ann")
            first = asyncio.create_task(mine.aexecute(ToolCall("1", "sleep", {"path": str(file), "seconds": 0.5})))
            await asyncio.to_thread(wait_for_lines, file)
            second = asyncio.create_task(mine.aexecute(ToolCall("2", "sleep", {"path": str(file), "seconds": 0})))
            await asyncio.sleep(0.05)
            second.cancel()
            return [(await first).outcome]

        with make_registry(processes=1) as registry:
            assert [Outcome.OK] == asyncio.run(main())
            assert Outcome.OK is call(registry, "get_pid").outcome
        assert 1 == len(wait_for_lines(file))


class TestPool:
    def test_has_the_size_that_it_is_given(self, file: Path) -> None:
        """No more functions run at once than there may be, and the processes are used again."""
        with make_registry(processes=2) as registry:
            calls = [ToolCall(str(at), "sleep", {"path": str(file), "seconds": 0.05}, "ann") for at in range(20)]
            processes = {one.result for one in registry.execute_batch(calls)}
        assert 2 == len(processes)

    @pytest.mark.parametrize("processes", [0, -1, "2", 1.5, True, 5_000])
    def test_has_a_sensible_size(self, processes: Any) -> None:
        """Other sizes are refused when the registry is made."""
        with pytest.raises(Exception, match="processes: "):
            ToolRegistry(processes=processes)

    def test_ends_idle_processes(self) -> None:
        """A process that waited long enough is ended, and another one is started when there is work again."""
        engine = ProcessEngine(lambda: 1, idle_seconds=0.05)
        with make_registry() as registry:
            get_runtime(registry).processes = engine
            first = call(registry, "get_pid").result
            assert wait_for_end(first)
            assert first != call(registry, "get_pid").result

    def test_ends_with_its_registry(self) -> None:
        """After `close()` there is no process, and none that nobody waited for; it may be closed twice."""
        registry = make_registry()
        calls = [ToolCall(str(at), "get_pid", {}, "ann") for at in range(8)]
        processes = {one.result for one in registry.execute_batch(calls)}
        registry.close()
        registry.close()
        assert [False] * len(processes) == [is_running(one) for one in processes]

    @pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
    def test_is_not_shared_by_a_fork(self, registry: ToolRegistry) -> None:
        """A forked process has processes of its own, and leaves those of its parent alone."""
        process = call(registry, "get_pid").result
        child = os.fork()
        if child == 0:
            try:
                other = call(registry, "get_pid").result
                registry.close()
                right = other != process and not is_running(other) and is_running(process)
            except BaseException:
                right = False
            os._exit(0 if right else 1)
        assert 0 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert Outcome.OK is call(registry, "get_pid").outcome
        assert is_running(process)


PROGRAM = """
import os, pathlib, sys, threading
sys.path.insert(0, {support!r})
import process_tools
from praval_tools import ToolCall, ToolRegistry, current_agent
registry = ToolRegistry(engine="process", processes=2)
registry.tool({name!r}, shared=True)(process_tools.{name})
calls = [ToolCall(str(at), {name!r}, {arguments!r}, "ann") for at in range(2)]
threading.Thread(target=lambda: registry.execute_batch(calls), daemon=True).start()
while len(pathlib.Path({file!r}).read_text().split()) < {lines}: threading.Event().wait(0.01)
{rest}
"""


class TestEndOfTheProgram:
    @pytest.mark.parametrize(
        ("rest", "name", "more", "lines"),
        [
            ("os.kill(os.getpid(), 9)", "compute", {}, 2), ("os.kill(os.getpid(), 9)", "start_child", {}, 4),
            ("os._exit(1)", "sleep", {"seconds": 600}, 2), ("sys.exit()", "sleep", {"seconds": 600}, 2),
            ("sys.exit()", "start_child", {}, 4), ("1 / 0", "compute", {}, 2),
        ],
    )  # fmt: skip
    @pytest.mark.skipif(not hasattr(fcntl, "F_SETSIG"), reason="needs signals of pipes")
    def test_leaves_no_process(self, file: Path, name: str, more: dict[str, Any], lines: int, rest: str) -> None:
        """However it ends, and whatever runs: nothing of it goes on."""
        arguments = {"path": str(file), **more}
        program = PROGRAM.format(
            support=str(SUPPORT), name=name, arguments=arguments, file=str(file), lines=lines, rest=rest
        )
        ended = subprocess.run(
            [sys.executable, "-W", "error", "-c", program], capture_output=True, timeout=60, text=True
        )
        assert {"os.kill(os.getpid(), 9)": -9, "sys.exit()": 0}.get(rest, 1) == ended.returncode
        assert rest == "1 / 0" or "" == ended.stderr
        assert [True] * lines == [wait_for_end(one) for one in wait_for_lines(file, lines)]


class TestFunctions:
    @pytest.mark.parametrize(
        ("function", "text"),
        [
            (lambda: 1, "it is a lambda"),
            (process_tools.make_closure(), "it is defined inside another function"),
            (process_tools.Holder().give, "is something else there"),
            (process_tools.add_one, "is something else there"),
            (process_tools.visible, "is something else there"),
        ],
    )
    def test_that_no_process_finds(self, registry: ToolRegistry, function: Any, text: str) -> None:
        """The call says why, and what to do; nothing ran."""
        registry.tool("lost", shared=True, description="Give.", replace=True)(function)
        result = call(registry, "lost", **({"y": 1} if function is process_tools.add_one else {}))
        assert (Outcome.TOOL_ERROR, "unreachable-function", 0) == (result.outcome, result.error_type, result.attempts)
        assert text in str(result.error)

    @pytest.mark.parametrize("function", [lambda: 1, process_tools.make_closure()])
    def test_that_say_so_are_refused_at_once(self, function: Any) -> None:
        """A tool that names the engine itself cannot be declared."""
        with pytest.raises(ToolDefinitionError, match="engine='process' cannot run it"):
            Tool.from_function(function, "lost", "Give.", engine="process")

    def test_of_the_program_itself(self) -> None:
        """The message says to move it into a module."""
        program = "from praval_tools import tool\ndef f() -> int:\n  'F.'\n  return 1\ntool(engine='process')(f)"
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, text=True)
        assert "move it into a module that the program imports" in ended.stderr

    def test_whose_module_was_changed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The other process would run something else than what was judged: it runs nothing."""
        module = tmp_path / "changing_module.py"
        module.write_text("def f(x: int) -> int:\n    'F.'\n    return x\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        import changing_module  # type: ignore[import-not-found]

        module.write_text("def f(x: int, y: int = 1) -> int:\n    'F.'\n    return x + y\n")
        with ToolRegistry(engine="process") as registry:
            registry.tool("f", shared=True)(changing_module.f)
            result = call(registry, "f", x=1)
            module.write_text("raise RuntimeError('broken')")
            broken = call(registry, "f", x=1)
        monkeypatch.delitem(sys.modules, "changing_module")
        assert ("unreachable-function", True) == (result.error_type, "is declared otherwise there" in str(result.error))
        assert ("unreachable-function", 0) == (broken.error_type, broken.attempts)

    @pytest.mark.parametrize(("which", "outcome"), [("standard", Outcome.OK), ("all", Outcome.ENGINE_LOST)])
    def test_that_close_files(self, registry: ToolRegistry, which: str, outcome: Outcome) -> None:
        """The standard files may be closed; closing the channel ends the call."""
        assert outcome is call(registry, "close_files", which=which).outcome
        assert Outcome.OK is call(registry, "get_pid").outcome

    @pytest.mark.parametrize("returns", [True, False])
    def test_that_fork(self, registry: ToolRegistry, returns: bool) -> None:
        """A child that returns as well answers nobody."""
        assert [0, 0] == [call(registry, "fork", returns=returns).result for _ in range(2)]
        assert Outcome.OK is call(registry, "get_pid").outcome

    @pytest.mark.parametrize("what", ["long", "junk", "deep", "other", "value"])
    def test_that_send_junk(self, registry: ToolRegistry, what: str) -> None:
        """What cannot be read ends the call and the process at once."""
        with make_registry(processes=1, timeout=10) as own:
            result = call(own, "send", what=what)
            assert (Outcome.ENGINE_LOST, True) == (result.outcome, "after it sent" in str(result.error))
            assert Outcome.OK is call(own, "get_pid").outcome

    def test_that_forge_an_error(self) -> None:
        """An error of a class that nobody may name is a plain one."""
        with make_registry(processes=1) as own:
            result = call(own, "send", what="forged")
        assert (Outcome.TOOL_ERROR, "boo") == (result.outcome, result.error)

    def test_that_raise_what_has_code_of_its_own(self, registry: ToolRegistry, file: Path) -> None:
        """It runs there without any rights, as the tool's and never as the operator's."""
        assert Outcome.TOOL_ERROR is call(registry, "fail_and_note", path=str(file)).outcome
        assert {"tool:fail_and_note"} == set(file.read_text().splitlines())

    @pytest.mark.parametrize(("name", "arguments", "outcome"), [
        ("give_large", {"size": 20_000_000}, Outcome.OK), ("give_large", {"size": (1 << 28) + 1}, Outcome.TOOL_ERROR),
        ("give_deep", {"depth": 60}, Outcome.OK), ("give_deep", {"depth": 100_000}, Outcome.TOOL_ERROR),
        ("give_circle", {}, Outcome.TOOL_ERROR),
    ])  # fmt: skip
    def test_that_give_much(
        self, registry: ToolRegistry, name: str, arguments: dict[str, Any], outcome: Outcome
    ) -> None:
        """Results are as large as they may be, and others are errors."""
        assert outcome is call(registry, name, **arguments).outcome
        assert Outcome.OK is call(registry, "get_pid").outcome

    def test_that_call_what_gives_too_much(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Broken promise: nothing hangs; the function gets an error where the result of its call cannot be sent."""
        monkeypatch.setattr(messages, "MAX_MESSAGE_BYTES", 10_000)
        with make_registry(processes=1, timeout=10, engine=None) as own:
            arguments = {"name": "give_large", "arguments": {"size": 20_000}}
            result = own.execute(ToolCall(None, "catch_call", arguments, "ann", engine="process"))
        assert (Outcome.OK, True) == (result.outcome, "cannot be sent" in str(result.result))

    @pytest.mark.parametrize("home", ["plain", "recorded", "counted"])
    def test_that_call_a_copy_of_a_registry(self, registry: ToolRegistry, home: str) -> None:
        """
        A registry that the module made is another one there: a call by it is refused, and says how to call.

        Broken promise: with a journal, or where calls were counted, it was decided there, and in no run.
        """
        result = call(registry, "call_elsewhere", name="get_pid", home=home)
        assert (Outcome.TOOL_ERROR, True) == (result.outcome, "current_agent()" in str(result.error))

    def test_that_leave_threads_behind(self) -> None:
        """What is left of a call that has ended makes no calls."""
        with make_registry(processes=1) as own:
            call(own, "keep_agent")
            assert "has ended" in call(own, "read_kept").result[0]

    @pytest.mark.parametrize("kind", ["plain", "operator", "context"])
    def test_that_leave_threads_for_the_next_call(self, kind: str) -> None:
        """Such a thread makes no calls in the name of whoever calls next, nor in another."""
        with make_registry(processes=1) as own:
            own.journal = "memory"
            call(own, "leave_thread", kind=kind)
            result = own.execute(ToolCall(None, "let_thread_go_on", {}, "bob"))
            events = [entry.event for entry in own.journal.read(type="agent_tool_call")]
        assert "context" in result.result or "has ended" in result.result
        assert [("leave_thread", "ann"), ("let_thread_go_on", "bob")] == [
            (call.tool_name, call.agent) for call in events
        ]

    @pytest.mark.parametrize("home", ["call", "module"])
    @pytest.mark.parametrize("kind", ["plain", "operator", "context"])
    def test_that_call_from_threads(self, registry: ToolRegistry, kind: str, home: str) -> None:
        """A thread that got the context calls as the function does; others make no calls, by a copy neither."""
        result = call(registry, "call_from_thread", kind=kind, home=home).result
        if home == "module":
            assert "another process than its registry" in result
        else:
            assert result == "ok" if kind == "context" else "copy_context()" in result

    def test_that_make_many_calls_at_once(self) -> None:
        """The calls of a batch are those of the run in the order of the batch."""
        with make_registry(processes=1, journal="memory") as own, own.run("r") as run:
            results = [call(own, "add_many", count=8).result for _ in range(10)]
            numbers = [one.arguments["x"] for one in run.calls if one.tool_name == "add"]

        assert [list(range(1, 9))] * 10 == results
        assert list(range(8)) * 10 == numbers

    @pytest.mark.parametrize("kind", ["CancelledError", "KeyboardInterrupt", "GeneratorExit"])
    @pytest.mark.parametrize("name", ["raise_base", "raise_base_async"])
    def test_that_call_what_raises_no_exception(self, name: str, kind: str) -> None:
        """The function gets what the tool raised, as it does in this process, and does not wait for ever."""
        with make_registry(processes=1, timeout=10, engine=None) as own:
            here, there = (
                own.execute(ToolCall(None, "catch_inner", {"name": name, "kind": kind}, "ann", engine=engine))
                for engine in ("inline", "process")
            )
        assert (Outcome.OK, here.result) == (there.outcome, there.result)
