"""
A process of its own for each file.

What reads hostile files may panic, fill the memory or never end.
A process can be killed, and its memory is limited by the system.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from time import monotonic
from typing import Final

from praval_tools_data.errors import ERRORS_BY_KIND, DataError, DataLimitError
from praval_tools_data.protocol import Answer, Request

GRACE_SECONDS: Final = 3.0
"""Seconds that the process gets beyond the time-out to start, and to tell what happened."""

_POLL_SECONDS: Final = 0.1
_THREAD_LIMITS: Final = {"POLARS_MAX_THREADS": "2", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def run_in_worker(module: str, request: Request, file: int, *, timeout: float, cancelled: Callable[[], bool]) -> Answer:
    """
    Run *request* on an open file in a process of its own, and return its answer.

    Args:
        module: What the process runs: the module whose `run` takes the request.
        request: What it takes.
        file: The descriptor of the file; the process gets this one, and opens nothing by name.
        timeout: Seconds until the process is killed.
        cancelled: Asked now and then; True kills the process.

    Raises:
        DataError: As the process reports, or because it was killed.
    """
    path = request["path"]
    command = [sys.executable, "-P", "-m", "praval_tools_data.worker", module]
    sent = json.dumps({**request, "file": file}).encode()
    with subprocess.Popen(  # noqa: S603
        command, stdin=-1, stdout=-1, stderr=subprocess.DEVNULL, pass_fds=(file,), env={**os.environ, **_THREAD_LIMITS}
    ) as process:
        try:
            answer = _wait_for_answer(process, sent, monotonic() + timeout, cancelled)
        finally:
            process.kill()
    if answer is None:
        fix = "Use a smaller file, or ask the operator to raise timeout."
        raise DataLimitError(path, f"it took more than {request['timeout']} s and was stopped", fix)
    if not answer:
        raise _build_exit_error(path, process.returncode, request["memory"])
    reply: Answer = json.loads(answer)
    if "error" in reply:
        raise ERRORS_BY_KIND[reply["error"]](path, reply["problem"], reply["fix"])
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


def _build_exit_error(path: str, status: int, memory: int) -> DataError:
    if status < 0:
        problem = f"the process that worked on it was stopped by signal {-status}"
        problem += f"; it may use {memory} MiB of memory" if memory else ""
        fix = "The file may be damaged, or too large when unpacked: use another, or ask the operator."
        return DataLimitError(path, problem, fix)
    fix = "Check that praval-tools-data is installed for the same Python, and that max_memory_mb is not too little."
    return DataError(path, f"the process that works on it could not start (exit code {status})", fix)
