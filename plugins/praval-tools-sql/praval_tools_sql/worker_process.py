"""
A process of its own for each statement.

Some statements cannot be interrupted from within: SQLite plans a query whose parts double fifty times without looking
at the clock. A process can be killed, and its memory is limited by the system.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from time import monotonic
from typing import Final

from praval_tools_sql.errors import ERRORS_BY_KIND, SqlConnectionError, SqlLimitError
from praval_tools_sql.protocol import Answer, Request

GRACE_SECONDS: Final = 2.0
"""Seconds that the process gets beyond the time-out to start, and to tell what happened."""

_POLL_SECONDS: Final = 0.1


def run_in_worker(request: Request, *, timeout: float, cancelled: Callable[[], bool]) -> Answer:
    """
    Run *request* in a process of its own, and return its answer.

    Args:
        request: What `statements` takes; it goes through a pipe, so that no list of processes shows it.
        timeout: Seconds until the process is killed.
        cancelled: Asked now and then; True kills the process.

    Raises:
        SqlError: As the process reports, or because it was killed.
    """
    command = [sys.executable, "-P", "-m", "praval_tools_sql.statements"]
    with subprocess.Popen(command, stdin=-1, stdout=-1, stderr=subprocess.DEVNULL) as process:  # noqa: S603
        try:
            answer = _wait_for_answer(process, json.dumps(request).encode(), monotonic() + timeout, cancelled)
        finally:
            process.kill()
    if answer is None:
        fix = "Ask for less: fewer joins, a smaller range, a simpler statement."
        if request["do"] == "write":
            fix = "Nobody knows whether it was committed: look before you send it again."
        raise SqlLimitError(f"The statement did not end within {request['timeout']} s and was stopped", fix)
    if not answer:
        raise _build_exit_error(process.returncode, request.get("memory"))
    reply: Answer = json.loads(answer)
    if "error" in reply:
        raise ERRORS_BY_KIND[reply["error"]](reply["problem"], reply["fix"])
    result: Answer = reply["result"]
    return result


def _wait_for_answer(
    process: subprocess.Popen[bytes], request: bytes | None, deadline: float, cancelled: Callable[[], bool]
) -> bytes | None:
    """Return what the process wrote; None where its time is over or nobody waits for it any more."""
    while not cancelled():
        try:
            return process.communicate(request, timeout=min(_POLL_SECONDS, max(deadline - monotonic(), 0.001)))[0]
        except subprocess.TimeoutExpired:
            request = None  # it was taken the first time
        if monotonic() > deadline:
            return None
    return None


def _build_exit_error(status: int, memory: int | None) -> SqlLimitError | SqlConnectionError:
    if status < 0:
        problem = f"The process that ran the statement was stopped by signal {-status}"
        if memory:
            problem += f"; it may use {memory} MiB of memory"
        return SqlLimitError(problem, "Ask for less: fewer joins, shorter values, a simpler statement.")
    fix = "Check that praval-tools-sql is installed for the same Python, and that max_memory_mb is not too little."
    return SqlConnectionError(f"The process that runs statements could not start (exit code {status})", fix)
