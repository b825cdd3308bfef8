"""Work of an agent that the garbage collector or an event loop ends: as the agent's, and it corrupts no context."""

# Tests of: tools/finalizers, tools/async_generators, registry/agent_work

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from praval_tools import ToolRegistry, agent
from praval_tools.tools.finalizers import is_collecting
from praval_tools.tools.frames import get_current_actor

PROGRAM = """
import asyncio, gc, random, sys
from contextvars import ContextVar
from praval_tools import ToolRegistry, agent
from praval_tools.compat import praval
from praval_tools.tools.frames import current_frame, make_frame, activate_tool_frame

kind, seed = sys.argv[1:]
registry, rng = ToolRegistry(), random.Random(int(seed))
ContextVar("another").set(1)

@agent("mal", registry=registry)
def give():
    if kind == "generator":
        return (number for number in range(9))
    async def wait():
        await asyncio.sleep(0)
    async def iterate():
        yield 1
        yield 2
    return iterate() if kind == "async generator" else wait()

class Owner:  # as an agent of Praval, which takes its tools out where it is collected
    def __init__(self):
        def work(x: int = 1) -> int:
            return x
        self.name = f"work_{rng.random()}"
        self.work = praval.tool(self.name, owned_by="mal")(work)
    def __del__(self):
        praval.get_tool_registry().unregister_owned_tool(self.name, self.work, "mal")

def begin():
    if kind == "owner":
        return Owner()
    work = give()
    if kind == "generator":
        next(work)
    elif kind == "coroutine":
        work.send(None)
    elif kind == "async generator":
        try:
            work.__anext__().send(None)
        except StopIteration:
            pass
    return work

registry.tool("add", owned_by="ann", description="Add.")(lambda: 1)
tools = registry.toolset("ann")
for number in range(6_000):
    gc.set_threshold(10_000)
    cycle = [begin()]
    cycle.append(cycle)
    del cycle
    gc.set_threshold(rng.randrange(1, 40), 2, 2)
    for _ in range(3):
        with activate_tool_frame("t"):
            pass
        assert tools.call("add") == 1
    assert current_frame.get() is None, number
"""


@pytest.mark.parametrize("kind", ["generator", "coroutine", "async generator", "unused coroutine", "owner"])
def test_that_is_collected_as_a_context_changes(kind: str) -> None:
    """Broken promise: calls failed from then on, in whatever agent's name, or the interpreter crashed."""
    command = [sys.executable, "-W", "ignore", "-X", "faulthandler", "-c", PROGRAM, kind, "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr[-2000:]) == (0, "")


@pytest.mark.parametrize("way", ["loop ends", "dropped", "collected"])
def test_an_async_generator_ends_once_as_the_agents(way: str) -> None:
    """Broken promise: the event loop ended it, too, beside its driver: as the host, or with an error."""
    ends, errors, kept = list[str](), list[object](), list[object]()

    async def iterate() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            ends.append(get_current_actor())
            await asyncio.sleep(0)
            ends.append(get_current_actor())

    give = agent("mal", registry=ToolRegistry())(lambda: [iterate()])

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        work = give()
        assert await anext(work[0]) == 1
        if way == "loop ends":
            kept.append(work)
        elif way == "collected":
            work.append(work)
        del work
        gc.collect()
        for _ in range(9):
            await asyncio.sleep(0)

    for _ in range(5):
        asyncio.run(main())
        gc.collect()
    assert (["mal"] * 10, []) == (ends, errors)


@pytest.mark.parametrize("way", ["closed", "collected"])
@pytest.mark.parametrize("journal", [None, "memory"])
def test_an_async_generator_of_a_tool_ends_as_its_caller(way: str, journal: str | None) -> None:
    """Broken promise: what it waited in ended as the operator, where the coroutine of the call was dropped."""
    ends = list[str]()
    registry = ToolRegistry(journal=journal)

    async def wait() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ends.append(get_current_actor())

    @registry.tool("work", owned_by="ann")
    async def work() -> AsyncIterator[str]:
        """Work."""
        yield "a"
        await wait()

    async def main() -> None:
        call = registry.agent("ann").acall("work")
        task = asyncio.ensure_future(call)
        for _ in range(50):
            await asyncio.sleep(0.001)
        task._log_destroy_pending = False
        if way == "closed":
            call.close()
            task.cancel()
        del task, call
        gc.collect()

    asyncio.run(main())
    registry.close()
    assert ["ann"] == ends


INTERRUPTED = """
import gc, signal, sys, time
import praval_tools
from praval_tools.tools.finalizers import is_collecting
unraisable = []
sys.unraisablehook = unraisable.append
gc.set_threshold(20)
signal.signal(signal.SIGALRM, signal.default_int_handler)
for number in range(300):
    end = time.monotonic() + 20
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0003 + (number % 97) * 1e-6)
        while time.monotonic() < end:
            [[item] for item in range(300)]
        sys.exit("an interrupt was lost")
    except KeyboardInterrupt:
        assert not is_collecting()
assert not unraisable, unraisable
"""


def test_an_interrupt_while_the_collector_runs() -> None:
    """Ctrl-C is raised in the program, and the collector is not taken for running afterwards."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr[-2000:]) == (0, "")


def test_whether_the_collector_runs() -> None:
    """It is known in a finalizer that the collector runs, and nowhere else."""
    seen = list[bool]()

    class Looker:
        def __del__(self) -> None:
            seen.append(is_collecting())

    looker: Any = Looker()
    del looker
    looker = Looker()
    looker.me = looker
    del looker
    gc.collect()
    assert (seen, is_collecting()) == ([False, True], False)
