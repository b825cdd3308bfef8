"""
What the kill tests let other processes do: `python kill_driver.py` forks a driver for each line of its input.

A driver makes the same 200 calls in a journaled run, says over the pipe what each returned, and is killed on the way.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import threading
import uuid
from collections.abc import Awaitable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from store_rig import open_sql_store

from praval_tools import ToolCall, ToolContext, ToolRegistry, ToolResult, current_agent
from praval_tools.errors import RunBusyError
from praval_tools.journal import Answer, Item
from praval_tools.journal.storage.sql_store import SqlStore

CALLS = 200
WINDOWS = ("before the intent", "intent to effect", "effect to record", "record to return")
TOOLS = ("post", "pay", "apost", "apay")
NESTED, BROKEN = 13, 2
"""Of each 20 calls, this one calls another from inside; of each 5, this one has its effect and raises then."""


def tool_of(number: int) -> str:
    """Return the tool of the call with this number."""
    return "order" if number % 20 == NESTED else TOOLS[number % 4]


def honours(number: int) -> bool:
    """Tell whether the effect of this call is one of a tool that looks at its key."""
    return tool_of(number) not in ("post", "apost")


def say(*words: object) -> None:
    """Write one line in one write, so that lines of threads don't mix."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


class Killer:
    """Kills this process at the *passing*-th time that something comes to *window*."""

    def __init__(self, window: str | None, passing: int) -> None:
        self._window, self._left, self._lock = window, passing, threading.Lock()

    def at(self, window: str) -> None:
        """Say that a call has come to *window*."""
        if window != self._window:
            return
        with self._lock:
            self._left -= 1
            if not self._left:
                say("window", window)
                os.kill(os.getpid(), signal.SIGKILL)


class Watched:
    """A store that tells the killer what is about to be written and what was."""

    def __init__(self, store: SqlStore, killer: Killer) -> None:
        self._store, self._killer = store, killer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def append(self, items: Sequence[Item]) -> list[Answer]:
        self._before(items)
        answers = self._store.append(items)
        self._after(items)
        return answers

    def submit(self, items: Sequence[Item]) -> Any:
        self._before(items)
        waiting = self._store.submit(items)
        self._after(items)
        return waiting

    def aappend(self, items: Sequence[Item]) -> Awaitable[list[Answer]]:
        async def wait() -> list[Answer]:
            answers = await self._store.aappend(items)
            self._after(items)
            return answers

        self._before(items)
        return wait()

    def _before(self, items: Sequence[Item]) -> None:
        kind = _get_kind(items)
        if kind == "agent_tool_call":
            self._killer.at("before the intent")
        elif kind == "agent_tool_result":
            self._killer.at("effect to record")

    def _after(self, items: Sequence[Item]) -> None:
        if _get_kind(items) == "agent_tool_result":
            self._killer.at("record to return")


def _get_kind(items: Sequence[Item]) -> str | None:
    """Return the type of what is written first; None: somebody waits for what was written before."""
    return items[0].records[0].type if items else None


class Effects:
    """The world outside: a file to which each effect appends one line, durably."""

    def __init__(self, path: Path, killer: Killer) -> None:
        self._path, self._killer = path, killer

    def read(self) -> list[list[str]]:
        """Return key, number and mark of each effect."""
        return [line.split() for line in self._path.read_text().splitlines()] if self._path.exists() else []

    def have(self, context: ToolContext, number: int, *, honour: bool) -> dict[str, Any]:
        """Have the effect of a call, once for its key where the tool honours it."""
        self._killer.at("intent to effect")
        key = context.idempotency_key
        mark = next((mark for known, _, mark in self.read() if known == key), None) if honour else None
        if mark is None:
            mark = os.urandom(6).hex()
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(file, f"{key} {number} {mark}\n".encode())
            os.fsync(file)
            os.close(file)
        self._killer.at("effect to record")
        if number % 5 == BROKEN:
            raise ValueError(f"broken {number} {mark}")
        return {"number": number, "mark": mark}


def registry_of(store: Any, effects: Effects, durability: Any = "full") -> ToolRegistry:
    """Return a registry with the tools of the driver."""
    registry = ToolRegistry(journal=store, durability=durability)

    @registry.tool("post", owned_by="ann")
    def post(number: int, context: ToolContext) -> dict[str, Any]:
        """Have an effect."""
        return effects.have(context, number, honour=False)

    @registry.tool("pay", owned_by="ann", idempotent=True)
    def pay(number: int, context: ToolContext) -> dict[str, Any]:
        """Have an effect, once for a key."""
        return effects.have(context, number, honour=True)

    @registry.tool("apost", owned_by="ann")
    async def apost(number: int, context: ToolContext) -> dict[str, Any]:
        """Have an effect."""
        await asyncio.sleep(0)
        return effects.have(context, number, honour=False)

    @registry.tool("apay", owned_by="ann", idempotent=True)
    async def apay(number: int, context: ToolContext) -> dict[str, Any]:
        """Have an effect, once for a key."""
        await asyncio.sleep(0)
        return effects.have(context, number, honour=True)

    @registry.tool("order", owned_by="ann", idempotent=True)
    def order(number: int) -> dict[str, Any]:
        """Have the effect of another tool."""
        return {"order": current_agent().call("pay", number=number)}

    return registry


class Driver:
    """Makes the calls of one run, in blocks of sync, awaited and batched ones, and acknowledges what they return."""

    def __init__(self, registry: ToolRegistry, ids: str) -> None:
        self._tools, self._ids = registry.toolset("ann"), ids

    def _call(self, number: int) -> ToolCall:
        made = {"given": f"call-{number}", "new": uuid.uuid4().hex, "none": None}[self._ids]
        return ToolCall(made, tool_of(number), {"number": number})

    def _acknowledge(self, number: int, result: ToolResult) -> None:
        say("ack", number, result.outcome.value, json.dumps(result.result if result.success else result.error))

    def alone(self, numbers: Sequence[int]) -> None:
        """Make the calls one after the other, in blocks of 20: sync, side by side as tasks, in batches."""
        for begin in range(0, len(numbers), 20):
            block = numbers[begin : begin + 20]
            self.sync(block[:8])
            asyncio.run(self._awaited(block[8:14]))
            self._batch(block[14:17])
            asyncio.run(self._abatch(block[17:]))

    def sync(self, numbers: Sequence[int]) -> None:
        """Make sync calls."""
        for number in numbers:
            self._acknowledge(number, self._tools.execute(self._call(number)))

    async def _awaited(self, numbers: Sequence[int]) -> None:
        async def one(number: int) -> None:
            self._acknowledge(number, await self._tools.aexecute(self._call(number)))

        await asyncio.gather(*map(one, numbers))

    def _batch(self, numbers: Sequence[int]) -> None:
        results = self._tools.execute_batch([self._call(number) for number in numbers])
        for number, result in zip(numbers, results, strict=True):
            self._acknowledge(number, result)

    async def _abatch(self, numbers: Sequence[int]) -> None:
        results = await self._tools.aexecute_batch([self._call(number) for number in numbers])
        for number, result in zip(numbers, results, strict=True):
            self._acknowledge(number, result)

    def workers(self, run: Any, numbers: list[int], order: int) -> None:
        """Let four threads of the driver's own make the calls, in another order each time."""
        self._tools = run.toolset("ann")
        random.Random(order).shuffle(numbers)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(self.sync, [numbers[at::4] for at in range(4)]))


def drive(
    folder: str, where: str, ids: str, durability: str, workers: bool, order: int, window: str | None, passing: int,
    settle: bool,
) -> None:  # fmt: skip
    """Open the run, settle what is in doubt if asked to, make the calls, and say what is left in doubt."""
    path, killer = Path(folder), Killer(window, passing)
    effects = Effects(path / "effects", killer)
    with open_sql_store(where) as store, registry_of(Watched(store, killer), effects, durability) as registry:
        with open_when_free(registry) as run:
            if settle:
                _settle(run, effects)
            driver = Driver(registry, ids)
            if workers:
                driver.workers(run, list(range(CALLS)), order)
            else:
                driver.alone(range(CALLS))
            for one in run.in_doubt:
                say("doubt", one.arguments["number"])
    say("end")


@contextmanager
def open_when_free(registry: ToolRegistry) -> Iterator[Any]:
    """Open the run, as soon as a server has noticed that the driver of before was killed."""
    with ExitStack() as stack:
        while True:
            try:
                run = stack.enter_context(registry.run("nightly"))
                break
            except RunBusyError:
                continue
        yield run


def _settle(run: Any, effects: Effects) -> None:
    """Look what each doubtful call has done, and say so: its result, its error, or that it may run again."""
    marks = {int(number): mark for _, number, mark in effects.read()}
    for one in run.in_doubt:
        number = one.arguments["number"]
        mark = marks.get(number)
        if one.tool_name not in ("post", "apost"):
            continue
        if mark is None:
            run.resolve(one.tool_call_id, rerun=True)
            say("settled", number, "rerun")
        elif number % 5 == BROKEN:
            run.resolve(one.tool_call_id, error=f"broken {number} {mark}")
            say("settled", number, "error")
        else:
            run.resolve(one.tool_call_id, result={"number": number, "mark": mark})
            say("settled", number, "result")


def _warm_up() -> None:
    """Import and do once what each driver does, so that forks find it done; leave no thread behind."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        with SqlStore(path / "runs.db") as store, registry_of(store, Effects(path / "e", Killer(None, 0))) as registry:
            with registry.run("warm") as run:
                registry.toolset("ann").call("pay", number=1)
                assert not run.in_doubt
        asyncio.run(asyncio.sleep(0))


def _lines() -> Iterator[str]:
    while line := sys.stdin.readline():
        yield line


def serve() -> None:
    """Fork a driver for each line, and say how it ended."""
    _warm_up()
    assert threading.active_count() == 1, threading.enumerate()
    for line in _lines():
        forked = os.fork()
        if not forked:
            say("pid", os.getpid())
            code = 1
            try:
                drive(**json.loads(line))
                code = 0
            finally:
                sys.stderr.flush()
                if code:
                    import traceback

                    traceback.print_exc()
                os._exit(code)
        say("ended", os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]))


if __name__ == "__main__":
    serve()
