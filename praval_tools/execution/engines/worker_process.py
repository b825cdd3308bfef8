"""One process of the process engine, as the thread that owns it sees it: started, asked, killed, and always reaped."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Final

from praval_tools.execution.engines.errors import UnreachableFunctionError, WorkerLostError
from praval_tools.execution.engines.messages import (
    Channel,
    ChannelError,
    DescribedFunction,
    FunctionPrepared,
    PrepareFunction,
    WorkerStarted,
)
from praval_tools.forks import ForkSafeLock, handle_forks

if TYPE_CHECKING:
    import subprocess

_START_SECONDS: Final = 60.0
"""How long a process may take until it is ready, and then until it has imported a function."""
_END_SECONDS: Final = 2.0
"""How long a process may take to end by itself."""

_START_LOCK: Final = ForkSafeLock(waits=True)
"""Held while a process is started: a child that is forked meanwhile would keep the other's end of the channel open."""

_PROGRAM: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from praval_tools.registry.worker import main; main(int(sys.argv[1]))"
)


class WorkerProcess:
    """
    A process that runs the functions of tools, one at a time, for the thread that made this.

    It leads a process group of its own, so that killing it ends what its functions started, and an interrupt from the
    keyboard is left to this process. Its standard input is a pipe that nobody writes to: that it is closed, by
    whatever ended this process, ends the other at once.

    Raises:
        WorkerLostError: It cannot be started.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_reaped = False
        self.call_count = 0
        self._prepared: set[DescribedFunction] = set()
        with _START_LOCK:
            self.channel, self._process = _start()
            handle_forks(self, in_child=WorkerProcess._forget)
        try:
            if not isinstance(self.channel.receive(monotonic() + _START_SECONDS), WorkerStarted):
                raise ChannelError
        except (TimeoutError, ChannelError) as error:
            raise WorkerLostError(f"A process for tools {self.end()} before it was ready.") from error

    @property
    def is_usable(self) -> bool:
        """Whether it runs, as far as it is known here."""
        return not self._is_reaped and self.channel.is_open

    def prepare(self, function: DescribedFunction) -> None:
        """
        Have the module of a function imported; once for each function.

        Raises:
            UnreachableFunctionError: The function is not there, or is another one.
            WorkerLostError: The process ended.
        """
        if function in self._prepared:
            return
        deadline = monotonic() + _START_SECONDS
        try:
            self.channel.send(PrepareFunction(function), deadline)
            while not isinstance(answer := self.channel.receive(deadline), FunctionPrepared):
                pass  # what is left of an earlier call
        except (TimeoutError, ChannelError) as error:
            text = f"The process that imported {function.address} {self.end()}; tool {function.tool!r} did not run."
            raise WorkerLostError(text) from error
        if answer.problem:
            raise UnreachableFunctionError(f"Tool {function.tool!r} cannot run in another process: {answer.problem}.")
        self._prepared.add(function)

    def kill(self) -> None:
        """End it and everything that its functions started, at once; from any thread, safe to call twice."""
        self.channel.shut_down()
        with self._lock:
            if not self._is_reaped:
                self._kill_group()

    def end(self, patience: float = _END_SECONDS) -> str:
        """End it, of its own accord where it does so within *patience* seconds; return how it ended, as a verb."""
        import subprocess

        self.channel.shut_down()
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            pass
        with self._lock:
            if not self._is_reaped:
                self._kill_group()
                self._process.wait()
                self._is_reaped = True
                self.channel.close()
                if self._process.stdin is not None:
                    self._process.stdin.close()
        return _describe_end(self._process.returncode)

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _forget(self) -> None:
        """Let go of the process in a forked child, without which its end would not be seen, nor would ours."""
        self._lock, self._is_reaped = threading.Lock(), True
        self._process.returncode = 0  # the parent's, who waits for it
        self.channel.close()
        if self._process.stdin is not None:
            self._process.stdin.close()


def _start() -> tuple[Channel, subprocess.Popen[bytes]]:
    """Start a process; return the channel to it, and it."""
    import socket
    import subprocess

    if not hasattr(os, "killpg") or not sys.executable:
        raise WorkerLostError("Processes for tools need a POSIX system, and a Python interpreter of their own.")
    own, other = socket.socketpair()
    try:
        path = json.dumps([*map(str, sys.path)])
        program = [sys.executable, *_list_flags(), "-c", _PROGRAM, str(other.fileno()), path]
        process = subprocess.Popen(  # noqa: S603
            program, stdin=subprocess.PIPE, pass_fds=(other.fileno(),), process_group=0
        )
    except OSError as error:
        own.close()
        raise WorkerLostError(f"A process for tools cannot be started: {error}.") from error
    finally:
        other.close()
    return Channel(own, is_worker=False), process


def _list_flags() -> list[str]:
    """Return the options of this interpreter, such as `-O`, for another one."""
    flags = sys.flags
    counts = {"-O": flags.optimize, "-B": flags.dont_write_bytecode, "-E": flags.ignore_environment,
              "-s": flags.no_user_site}  # fmt: skip
    return [name for name, count in counts.items() for _ in range(count)] + [f"-W{name}" for name in sys.warnoptions]


def _describe_end(code: int | None) -> str:
    if code is None or code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
