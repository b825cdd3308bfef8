"""Functions that do what nobody should, and some that no other process can find, for tests of the process engine."""

from __future__ import annotations

import ctypes
import functools
import json
import os
import re
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from praval_tools import Secret, ToolArgumentsError, ToolCall, ToolContext, ToolRegistry, ToolUsageError, current_agent
from praval_tools.errors import Problem
from praval_tools.tools.frames import get_current_actor

OTHER = ToolRegistry(name="other")
MAY_GO_ON, HAS_CALLED = threading.Event(), threading.Event()
KEPT: list[Any] = []
FORGED = {"type": "\0x", "text": "boo", "classes": ["os:environ", "a.b:c", "praval_tools.execution.failures:Stale"]}
MESSAGES = {
    "junk": b"\xff{]x",
    "deep": b"[" * 200_000,
    "other": b'{"type":"started"}',
    "value": b'{"type":"ended","number":1,"value":{"praval:date":"never"}}',
    "forged": json.dumps({"type": "ended", "number": 1, "error": FORGED}).encode(),
}
JUNK = {"long": struct.pack("!Q", 1 << 60)} | {
    name: struct.pack("!Q", len(text)) + text for name, text in MESSAGES.items()
}


def get_pid() -> int:
    """Tell in which process this runs."""
    return os.getpid()


RECORDED, COUNTED = ToolRegistry(name="recorded", journal="memory"), ToolRegistry(name="counted")
COUNTED.stats.track_usage = True
for _registry in (OTHER, RECORDED, COUNTED):
    _registry.tool("get_pid", shared=True)(get_pid)


def end(how: str) -> None:
    """End the process."""
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "exit":
        os._exit(3)
    ctypes.string_at(0)


def note_and_end(path: str) -> None:
    """Leave a mark, and end the process."""
    with open(path, "a") as file:
        file.write("x")
    os.kill(os.getpid(), signal.SIGKILL)


def sleep(path: str, seconds: float) -> int:
    """Write down in which process this runs, and sleep."""
    with open(path, "a") as file:
        file.write(f"{os.getpid()}\n")
    time.sleep(seconds)
    return os.getpid()


def compute(path: str) -> bool:
    """Write down in which process this runs, and keep the interpreter busy in C for very long."""
    with open(path, "a") as file:
        file.write(f"{os.getpid()}\n")
    return re.match(r"(a+)+$", "a" * 60 + "b") is not None


def start_child(path: str) -> None:
    """Start a program that runs for long, write down its process, and wait for it."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with open(path, "a") as file:
        file.write(f"{os.getpid()}\n{child.pid}\n")
    child.wait()


def close_files(which: str) -> str:
    """Close files that others need."""
    if which == "standard":
        for descriptor in range(3):
            os.close(descriptor)
    else:
        os.closerange(3, 65_536)
    return "closed"


def fork(returns: bool) -> int:
    """Fork, and wait for the child, which returns as well, or raises."""
    child = os.fork()
    if child == 0:
        if returns:
            return -1
        raise RuntimeError("the child")
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Noting(ToolArgumentsError):
    """An error whose attributes run code of its own, which writes down who runs."""

    def __init__(self, path: str) -> None:
        self.path = path

    @property
    def problems(self) -> tuple[Problem, ...]:  # type: ignore[override]
        with open(self.path, "a") as file:
            file.write(f"{get_current_actor()}\n")
        return ()


def fail_and_note(path: str) -> None:
    """Raise an error that has code of its own."""
    raise Noting(path)


def send(what: str) -> str:
    """Write something else than an answer into the channel."""
    import socket

    for descriptor in range(3, 1_024):
        try:
            connection = socket.socket(fileno=os.dup(descriptor))
        except OSError:
            continue
        connection.sendall(JUNK[what])
    time.sleep(20)
    return "too late"


def give_large(size: int) -> str:
    """Give a long text."""
    return "x" * size


def give_deep(depth: int) -> Any:
    """Give nested lists."""
    value: Any = None
    for _ in range(depth):
        value = [value]
    return value


def give_circle() -> Any:
    """Give a list that holds itself."""
    value: list[Any] = []
    value.append(value)
    return value


def call_elsewhere(name: str, home: str) -> Any:
    """Call a tool of a registry of this module."""
    return {"plain": OTHER, "recorded": RECORDED, "counted": COUNTED}[home].agent("ann").call(name)


def keep_agent() -> None:
    """Leave a thread behind that calls a tool when the call has ended."""
    import contextvars

    agent, context = current_agent(), contextvars.copy_context()

    def call_late() -> None:
        time.sleep(0.2)
        try:
            KEPT.append(agent.call("get_pid"))
        except Exception as error:
            KEPT.append(str(error))

    threading.Thread(target=lambda: context.run(call_late)).start()


def call_from_thread(kind: str, home: str, context: ToolContext) -> str:
    """Call a tool from another thread, by the registry of the call or by one of this module; return why not."""
    import concurrent.futures
    import contextvars

    registry = OTHER if home == "module" else context.registry
    keep = contextvars.copy_context().run if kind == "context" else lambda function, *given: function(*given)
    request = ToolCall("1", "get_pid", {}, "ann")
    given = {"operator": ("1", "get_pid", {})}.get(kind, (request,))
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        try:
            return str(pool.submit(keep, registry.execute, *given).result().outcome.value)
        except ToolUsageError as error:
            return str(error)


def raise_base(kind: str) -> None:
    """Raise what does not derive from `Exception`."""
    import asyncio

    kinds = {kind.__name__: kind for kind in (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit)}
    raise kinds[kind]("inner")


async def raise_base_async(kind: str) -> None:
    """Raise what does not derive from `Exception`, from async code."""
    raise_base(kind)


def catch_inner(name: str, kind: str) -> str:
    """Tell what a call of a tool raised."""
    try:
        return str(current_agent().call(name, kind=kind))
    except BaseException as error:
        return type(error).__name__


def catch_call(name: str, arguments: dict[str, Any]) -> str:
    """Call a tool, and tell what it raised."""
    try:
        return str(current_agent().call(name, **arguments))
    except Exception as error:
        return str(error)


def leave_thread(kind: str, context: ToolContext) -> None:
    """Leave a thread behind that goes on in the next call, and calls a tool then."""

    def call_late() -> None:
        MAY_GO_ON.wait(20)
        KEPT.append(call_from_thread(kind, "call", context))
        HAS_CALLED.set()

    MAY_GO_ON.clear()
    HAS_CALLED.clear()
    KEPT.clear()
    threading.Thread(target=call_late).start()


def let_thread_go_on() -> str:
    """Let the thread that was left behind make its call, and tell what it got."""
    MAY_GO_ON.set()
    HAS_CALLED.wait(20)
    return str(KEPT[0])


def read_kept() -> list[Any]:
    """Tell what the thread that was left behind got."""
    deadline = time.monotonic() + 20
    while not KEPT and time.monotonic() < deadline:
        time.sleep(0.01)
    return KEPT


def make_closure() -> Callable[[], int]:
    """Return a function that no other process finds."""

    def inner() -> int:
        """Give a number."""
        return 1

    return inner


class Holder:
    """An object with a method."""

    def give(self) -> int:
        """Give a number."""
        return 1


def add(x: int, y: int) -> int:
    """Add."""
    return x + y


add_one = functools.partial(add, 1)


def hidden() -> int:
    """Give a number."""
    return 1


visible, hidden_function = hidden, hidden


def hidden() -> int:  # type: ignore[no-redef]
    """Give another number."""
    return 2


def add_many(count: int) -> list[int]:
    """Add one to each number, all at once."""
    calls = [ToolCall(None, "add", {"x": number, "y": 1}, engine="inline") for number in range(count)]
    return [one.result for one in current_agent().execute_batch(calls)]


def mark(folder: str, name: str) -> str:
    """Write down in which process this runs, and leave a mark."""
    with open(f"{folder}/processes", "a") as file:
        file.write(f"{os.getpid()}\n")
    time.sleep(0.02)
    with open(f"{folder}/{name}", "a") as file:
        file.write("x")
    return name


def call_late(path: str) -> int:
    """Leave a mark, wait until somebody takes it away, and call another tool."""
    with open(path, "w"):
        pass
    while os.path.exists(path):
        time.sleep(0.01)
    try:
        return int(current_agent().call("get_pid"))
    except Exception as error:
        raise ValueError("no call") from error


@dataclass
class Card:
    """An object with short secrets."""

    number: str
    code: Annotated[str, Secret]
    pin: Annotated[int, Secret]


def pass_card() -> None:
    """Pass an object on to another tool."""
    current_agent().call("take", card=Card("4111", "73x", 97))
