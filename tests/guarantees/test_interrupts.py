"""Ctrl-C in a call: afterwards the same principal runs as before, limits have their places, and runs can be closed."""

from __future__ import annotations

import asyncio
import dis
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import praval_tools
from praval_tools import Agent, Allow, ToolCall, ToolRegistry, ToolUsageError, current_agent, current_call
from praval_tools.execution.hooks import CallHooks
from praval_tools.registry.registry import get_runtime
from praval_tools.tools.frames import get_current_actor

Trace = Callable[[FrameType, str, Any], Any]
PACKAGE = Path(praval_tools.__file__).parent


_CHECKING = ("CALL", "CALL_FUNCTION_EX", "CALL_KW", "RESUME", "JUMP_BACKWARD")
"""After these, and nowhere else, the interpreter looks whether there was a signal."""


def _find_handler(code: CodeType, offset: int) -> int | None:
    """
    Return where an exception at *offset* is handled, or None where it leaves the function.

    A signal's exception belongs to the instruction before, a trace function's to the one that follows: where they are
    handled at different places, the trace function cannot stand for the signal.
    """
    table = dis._parse_exception_table(code)  # type: ignore[attr-defined]
    return next((entry.target for entry in table if entry.start <= offset < entry.end), None)


def _interrupting(at: int, inside: Callable[[FrameType], bool]) -> Trace:
    """Return a trace function that raises at the place *at* of those where a signal would, in what is *inside*."""
    left, last = [at], dict[FrameType, tuple[str, int]]()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if not inside(frame):
            return trace
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            before, offset = last.get(frame, ("", frame.f_lasti))
            last[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]], frame.f_lasti
            left[0] -= before in _CHECKING and _find_handler(frame.f_code, offset) == _find_handler(
                frame.f_code, frame.f_lasti
            )
            if left[0] == 0:
                left[0] = -1
                raise KeyboardInterrupt
        return trace

    return trace


def _interrupted_everywhere(work: Callable[[], object], inside: Callable[[FrameType], bool]) -> Iterator[int]:
    """Interrupt *work* wherever a signal can, in what runs *inside*; yield after each interrupt."""
    for at in range(1, 1_000):
        before = sys.gettrace()
        sys.settrace(_interrupting(at, inside))
        try:
            work()
        except KeyboardInterrupt:
            stopped = True
        else:
            stopped = False
        finally:
            sys.settrace(before)
        if not stopped:
            return
        yield at
    raise AssertionError("it never ends")


def _nobody_runs() -> bool:
    """Tell whether code in this context runs as the operator."""
    with pytest.raises(ToolUsageError, match="No agent is running"):
        current_agent()
    return current_call() is None


def _is_fast_function(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith("<fast path of")


@cache
def _list_functions() -> frozenset[str]:
    """Return the qualified names of the package's functions."""

    def iter_names(code: CodeType) -> Iterator[str]:
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                yield constant.co_qualname
                yield from iter_names(constant)

    sources = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    return frozenset(name for path, source in sources.items() for name in iter_names(compile(source, path, "exec")))


def _is_in(*functions: str) -> Callable[[FrameType], bool]:
    """Return what tells whether a frame is of one of *functions*, each of which must be in the package."""
    missing = set(functions) - _list_functions()
    if missing:
        raise LookupError(f"no function of the package has the qualified name {' or '.join(sorted(missing))}")
    return lambda frame: frame.f_code.co_qualname in functions


def test_a_function_that_does_not_exist_is_seen() -> None:
    """A name that no function has any more would be interrupted nowhere, and test nothing."""
    assert _is_in("Limits.acquire", "_build_steps.<locals>.run_steps")
    for name in ("Limits.acquired", "build_fast_function.<locals>.begin", "acquire"):
        with pytest.raises(LookupError, match=f"has the qualified name {name}$"):
            _is_in("Limits.acquire", name)


@pytest.fixture
def registry() -> ToolRegistry:
    """A registry with a tool of each kind, which were called before."""
    made = ToolRegistry()

    @made.tool(owned_by="ann")
    def add(x: float, y: float) -> float:
        """Add two numbers."""
        return x + y

    @made.tool(owned_by="ann")
    async def later(x: float) -> float:
        """Give it back."""
        await asyncio.sleep(0)
        return x

    tools = made.toolset("ann")
    for _ in range(2):
        tools.call("add", x=1.0, y=2.0)
    asyncio.run(tools.acall("later", x=1.0))
    return made


class TestWhoRuns:
    def test_after_a_sync_call(self, registry: ToolRegistry) -> None:
        """The thread is the operator's again, wherever the call was interrupted."""
        tools = registry.toolset("ann")
        times = 0
        for _ in _interrupted_everywhere(lambda: tools.call("add", x=1.0, y=2.0), _is_fast_function):
            times += 1
            assert _nobody_runs()
        assert times > 5

    # an interrupt between making a coroutine and awaiting it leaves it as it is
    @pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")
    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
    def test_after_an_awaited_call(self, registry: ToolRegistry) -> None:
        """So is the task that made the call."""
        tools = registry.toolset("ann")

        async def work() -> None:
            try:
                await tools.acall("later", x=1.0)
            finally:
                assert _nobody_runs()

        times = sum(1 for _ in _interrupted_everywhere(lambda: asyncio.run(work()), _is_fast_function))
        assert times > 5

    def test_after_the_longer_way(self, registry: ToolRegistry) -> None:
        """So is it where the pipeline made the call."""
        registry.set_approval_handler(lambda request: Allow())

        @registry.tool(owned_by="ann", requires_approval=True)
        def send() -> str:
            """Send something."""
            return "sent"

        times, activation = 0, _is_in("activate_frame.__enter__")
        for _ in _interrupted_everywhere(lambda: registry.toolset("ann").call("send"), activation):
            times += 1
            assert _nobody_runs()
        assert times > 0

    @pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError])
    @pytest.mark.parametrize("way", ["agent", "generator", "approval", "policy", "subscriber"])
    def test_in_code_that_goes_on(self, registry: ToolRegistry, way: str, error: type[BaseException]) -> None:
        """Broken promise: a tool that caught an interrupt went on as another agent, or as the operator."""
        registry.tool("bobs", owned_by="bob", requires_approval=True, description="Bob's.")(lambda: 1)
        registry.set_approval_handler(lambda request: Allow())
        registry.grant("bobs", "ann")
        bob, actors = Agent("bob", registry=registry, function=lambda: 5), list[str]()
        counter = Agent("eve", registry=registry, function=lambda: iter_numbers())
        work: dict[str, Callable[[], object]] = {
            "agent": lambda: bob(), "generator": lambda: list(counter()),
            "subscriber": lambda: registry.share_tool("mine"),
            "approval": lambda: registry.execute(ToolCall("c", "bobs", {}, "ann")),
            "policy": lambda: registry.toolset("ann").call("add", x=1.0, y=2.0),
        }  # fmt: skip
        if way == "subscriber":
            registry.subscribe(lambda event: None)
        if way == "policy":
            registry.add_policy(lambda agent, tool, arguments: None)

        @registry.tool(owned_by="ann")
        def mine(at: int) -> bool:
            """Do it, interrupted."""
            before = sys.gettrace()
            left = [at]
            sys.settrace(partial(_interrupt_exit, left, error))
            with suppress(BaseException):
                work[way]()
            sys.settrace(before)
            actors.append(get_current_actor())
            return left[0] > 0

        at = 1
        while not registry.execute(ToolCall("c", "mine", {"at": at}, "ann")).result:
            at += 1
            registry.unshare_tool("mine")
        assert {"ann"} == {*actors}
        assert at > 1


def iter_numbers() -> Iterator[int]:
    """Yield some numbers."""
    yield from range(3)


def _interrupt_exit(left: list[int], error: type[BaseException], frame: FrameType, event: str, _: Any) -> None:
    """Raise before the first line of an `activate_frame.__exit__`, where Python looks for signals."""
    if event == "call" and frame.f_code.co_qualname == "activate_frame.__exit__":
        left[0] -= 1
        if left[0] == 0:
            raise error


_STEPS = ("_build_steps.<locals>.run_steps", "Limits.acquire", "LimitUsage.count_call", "Limits.release")


def _make_step_filter() -> Callable[[FrameType], bool]:
    """Return what tells whether a frame is of the fast function, or of a step that it takes around the tool."""
    is_step = _is_in(*_STEPS)
    return lambda frame: _is_fast_function(frame) or is_step(frame)


def _count_places(registry: ToolRegistry, tool: str) -> list[int]:
    """Return how many places are taken under each limit of ann's calls to the tool."""
    return [usage.in_flight for usage in get_runtime(registry).limits.list_usages(("ann",), tool)]


@pytest.fixture(params=["policy", "limit", "hook", "all"])
def stepped_registry(request: pytest.FixtureRequest, registry: ToolRegistry) -> ToolRegistry:
    """The registry with a step before its tools, which the fast path takes; both tools were called once."""
    if request.param in ("policy", "all"):
        registry.add_policy(lambda agent, tool, arguments: None)
    if request.param in ("limit", "all"):
        registry.limits.set(agent="ann", concurrent=1)
    if request.param in ("hook", "all"):

        def ignore(**_: object) -> None:
            """Take note of nothing."""

        get_runtime(registry).install_hooks(CallHooks(before=(ignore,), after=(ignore,)))
    tools = registry.toolset("ann")
    tools.call("add", x=1.0, y=2.0)
    asyncio.run(tools.acall("later", x=1.0))
    return registry


class TestSteps:
    def test_after_a_sync_call(self, stepped_registry: ToolRegistry) -> None:
        """With a policy, a limit or hooks, the thread is the operator's again, and no call is in flight."""
        tools, times = stepped_registry.toolset("ann"), 0
        for _ in _interrupted_everywhere(lambda: tools.call("add", x=1.0, y=2.0), _make_step_filter()):
            times += 1
            assert _nobody_runs()
            assert 0 == stepped_registry.drain(timeout=0)
            assert {0} >= set(_count_places(stepped_registry, "add")), times
        assert times > 5
        assert 3.0 == tools.call("add", x=1.0, y=2.0)

    # an interrupt between making a coroutine and awaiting it leaves it as it is
    @pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")
    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
    def test_after_an_awaited_call(self, stepped_registry: ToolRegistry) -> None:
        """So it is for the task that made an awaited call."""
        tools, times = stepped_registry.toolset("ann"), 0

        async def work() -> None:
            try:
                await tools.acall("later", x=1.0)
            finally:
                assert _nobody_runs()

        for _ in _interrupted_everywhere(lambda: asyncio.run(work()), _make_step_filter()):
            times += 1
            assert 0 == stepped_registry.drain(timeout=0)
            assert {0} >= set(_count_places(stepped_registry, "later")), times
        assert times > 5
        assert 1.0 == asyncio.run(tools.acall("later", x=1.0))


def _interrupting_entry(function: str) -> Trace:
    """Return a trace function that raises once, where *function* is entered."""
    left, is_function = [1], _is_in(function)

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if event == "call" and is_function(frame) and left:
            left.clear()
            raise KeyboardInterrupt

    return trace


class TestPlaces:
    @pytest.mark.parametrize("function", ["Limits.release", "CallProgress.release_limits"])
    @pytest.mark.parametrize("needs_pipeline", [False, True])
    def test_an_interrupt_before_they_are_given_back(
        self, registry: ToolRegistry, function: str, needs_pipeline: bool
    ) -> None:
        """Ctrl-C on entry into what gives the places under limits back leaves none taken."""
        registry.configure("add", retries=1 if needs_pipeline else 0)
        registry.limits.set(agent="ann", concurrent=1)
        tools, before = registry.toolset("ann"), sys.gettrace()
        tools.call("add", x=1.0, y=2.0)
        sys.settrace(_interrupting_entry(function))
        try:
            tools.call("add", x=1.0, y=2.0)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        assert [0] == _count_places(registry, "add")
        assert 3.0 == tools.call("add", x=1.0, y=2.0)


class TestRuns:
    def test_a_run_that_was_interrupted_can_be_opened_again(self, registry: ToolRegistry, tmp_path: Path) -> None:
        """No call stays inside of it, and none that did not begin is in doubt."""
        registry.journal = tmp_path / "runs.db"
        tools = registry.toolset("ann")

        def work() -> None:
            with registry.run("nightly"):
                tools.call("add", x=1.0, y=2.0)

        inside = _is_in(
            "CallMatcher.find_run",
            "OpenRun.check_open",
            "OpenRun.release_if_idle",
            "Recorder.record_call",
            "Recorder._replay_or_record",
        )

        times = 0
        for _ in _interrupted_everywhere(work, inside):
            times += 1
            with registry.run("nightly") as run:
                assert [] == run.in_doubt
        assert times > 5

    def test_a_call_that_was_interrupted_can_be_made_again(self, registry: ToolRegistry, tmp_path: Path) -> None:
        """Nobody waits for a call that was stopped while it was looked for, in the run that stays open."""
        registry.journal = tmp_path / "runs.db"
        tools = registry.toolset("ann")

        inside = _is_in(
            "Recording.find_or_create_entry",
            "Recording._find_match",
            "Recording.claim",
            "Recording._find_by_content",
        )

        times = 0
        with registry.run("nightly") as run:
            for _ in _interrupted_everywhere(lambda: tools.call("add", x=1.0, y=2.0), inside):
                times += 1
                assert not any(entry.is_claimed for entry in run._get_recording().entries.values())
        assert times > 5
        with registry.run("nightly"):
            assert 3.0 == tools.call("add", x=1.0, y=2.0)
        registry.close()
