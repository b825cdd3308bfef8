"""What the tests let other processes do: `python journal_children.py NAME ARGUMENTS…`."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from journal_rig import intent, note, record, result
from store_rig import open_sql_store

from praval_tools.errors import JournalError
from praval_tools.journal import Item, StateRow, Uses


@contextmanager
def child(name: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Start a child that does *name*; it is killed at the end, where it still runs."""
    command = [sys.executable, __file__, name, *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def output(name: str, *arguments: object) -> list[str]:
    """Return the lines that a child prints; it must end well."""
    command = [sys.executable, __file__, name, *map(str, arguments)]
    done = subprocess.run(command, check=True, timeout=120, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    return done.stdout.split("\n")[:-1]


def _say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())  # one write: lines of threads don't mix


def calls(path: str, name: str, count: str) -> None:
    """Append calls of all shapes from four threads, and say what was acknowledged."""
    store = open_sql_store(path)

    def work(thread: int) -> None:
        for at in range(int(count)):
            call, run = f"{name}-{thread}-{at}", f"run-{at % 3}"
            whole = Item(intent(call, run).records + (record(f"{call}-why", run_id=run),), spend=("grant",))
            block = StateRow("block", call, "", b"x")
            for item in (whole, result(call, run), Item((record(f"{call}-block", type="change"),), rows=(block,))):
                (answer,) = store.append([item])
                _say(answer.status, item.records[0].id, answer.seq)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    store.close()


def race(path: str, count: str) -> None:
    """Wait for the start, then begin the same calls as everybody else, each for a call of one grant."""
    store = open_sql_store(path)
    _say("ready")
    sys.stdin.readline()
    for at in range(int(count)):
        (answer,) = store.append([intent(f"call-{at}", spend=("grant",))])
        _say(answer.status)
    store.close()


def opened(path: str) -> None:
    """Open the store with all others at once, and append."""
    _say("ready")
    sys.stdin.readline()
    with open_sql_store(path) as store:
        _say(store.append([note(str(os.getpid()))])[0].status)


def hold(path: str, run: str) -> None:
    """Open a run and keep it, with a forked child and a started program that live on."""
    store = open_sql_store(path)
    lease = store.open_run(run)
    there, here = os.pipe()
    is_ready, ready = os.pipe()
    forked = os.fork()
    if not forked:
        os.close(here)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.write(ready, b".")
        os.read(there, 1)  # never comes while the test runs
        signal.pause()
    os.read(is_ready, 1)  # until then the child has its copy of the lock
    program = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    _say(os.getpid(), forked, program.pid)
    sys.stdin.readline()
    lease.release()
    _say("released")
    sys.stdin.readline()


def full(path: str) -> None:
    """Fill what this process may write, then get room again."""
    store = open_sql_store(path)
    _say(store.append([note("before")])[0].status)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(store.append, [note(f"big-{at}", body=b"x" * 40_000)]) for at in range(64)]
        errors = [one.exception() for one in futures]
    _say(sum(one is None for one in errors), sum(isinstance(one, JournalError) for one in errors), len(errors))
    _say(sum(1 for one in store.read() if one.id.startswith("big")))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    _say(store.append([note("after", body=b"x" * 40_000)])[0].status)
    store.close()


def fork(path: str) -> None:
    """Fork while threads write; parent and children go on, each with connections of its own."""
    store = open_sql_store(path)
    store.append([note("first")])
    lease, going = store.open_run("run"), [True]

    def write(thread: int) -> int:
        at = 0
        while going[0]:
            store.append([note(f"parent-{thread}-{at}")])
            at += 1
        return at

    with ThreadPoolExecutor(4) as pool:
        threads = [pool.submit(write, one) for one in range(4)]
        for number in range(8):
            if not (forked := os.fork()):
                lease.release()  # the parent's: without effect here
                answers = [store.append([note(f"child-{number}-{at}")])[0].status for at in range(20)]
                there = sum(1 for one in store.read() if one.id.startswith(f"child-{number}-"))
                store.close()
                os._exit(0 if answers == ["done"] * 20 and there == 20 else 1)
            _say(os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]))
        going[0] = False
        written = sum(one.result() for one in threads)
    found = [one.id for one in store.read()]
    _say(written == sum(one.startswith("parent") for one in found), sum(one.startswith("child") for one in found))
    store.close()


def interrupted(path: str) -> None:
    """Append in the main thread while an alarm interrupts it every other millisecond."""
    store, written, waiting, caught = open_sql_store(path), set[str](), [False], 0

    def interrupt(*_: object) -> None:
        if waiting[0]:
            waiting[0] = False  # none comes before the last one was caught
            raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
    for at in range(1_000_000):
        try:
            waiting[0] = True
            store.append([note(str(at))])
            waiting[0] = False
            written.add(str(at))
        except KeyboardInterrupt:
            caught += 1
            if caught == 100:
                break
    signal.setitimer(signal.ITIMER_REAL, 0)
    store.append([note("last")])
    _say(written | {"last"} <= {one.id for one in store.read()})
    store.close()


def left_open(path: str) -> None:
    """End without closing: what was submitted is written all the same."""
    store = open_sql_store(path)
    for at in range(500):
        store.submit([note(str(at))])


def grant(path: Path | str, left: int) -> None:
    """Make the store at *path*, with a counted grant."""
    with open_sql_store(path) as store:
        store.append([Item((record("grant", type="grant"),), uses=(Uses("grant", left),))])


if __name__ == "__main__":
    _task: Any = globals()[sys.argv[1]]
    _task(*sys.argv[2:])
