"""The process that works on one file: a request as JSON on its standard input, the answer on its output."""

from __future__ import annotations

import atexit
import importlib
import json
import math
import os
import signal
import sys
import traceback
from collections.abc import Callable

from praval_tools_data.protocol import Answer, Problem, Request


def limit_resources(memory: int, seconds: float) -> None:
    """Have the system stop this process when it takes too much memory or time, whoever else is gone by then."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)
    if not memory:
        return
    try:
        import resource

        size = memory * 1_048_576
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, ValueError, OSError) as error:
        problem = f"this system cannot limit the memory of a process ({type(error).__name__})"
        raise Problem("settings", problem, "Set max_memory_mb = 0 only where you trust the files.") from error


def answer_request(request: Request, run: Callable[[Request], Answer]) -> Answer:
    """Run a request, and return its result or its problem."""
    try:
        limit_resources(request["memory"], math.ceil(request["timeout"]) + 10)
        return {"result": run(request)}
    except Problem as error:
        return {"error": error.kind, "problem": error.problem, "fix": error.fix}
    except (MemoryError, RecursionError) as error:
        problem = f"it takes more than the {request['memory']} MiB of memory that it may"
        if isinstance(error, RecursionError):
            problem = "a value is nested too deeply"
        fix = "Use a smaller file, or ask the operator to raise max_memory_mb."
        return {"error": "limit", "problem": problem, "fix": fix}
    except Exception as error:  # the isolation seam
        at = traceback.extract_tb(error.__traceback__)[-1]
        problem = f"the process that works on it failed ({type(error).__name__} in {at.name}, line {at.lineno})"
        return {"error": "failed", "problem": problem, "fix": "Check the versions of polars and matplotlib."}


def serve_request(run: Callable[[Request], Answer]) -> None:
    """Answer one request by *run*, and end the process; its output is for the answer alone."""
    out = os.dup(1)
    os.dup2(2, 1)
    data = json.dumps(answer_request(json.loads(sys.stdin.buffer.read()), run)).encode()
    with os.fdopen(out, "wb") as file:
        file.write(data)
    atexit._run_exitfuncs()  # matplotlib removes a folder that it made
    os._exit(0)


if __name__ == "__main__":
    os.chdir("/")  # matplotlib takes settings from the working folder, where a file of an agent may lie
    serve_request(importlib.import_module(sys.argv[1]).run)
