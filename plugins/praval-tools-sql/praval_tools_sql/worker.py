"""The process that runs one statement: a request as JSON on its standard input, the answer on its output."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import traceback
from collections.abc import Callable

from praval_tools_sql.protocol import Answer, Problem, Request


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
        problem = f"This system cannot limit the memory of a process ({type(error).__name__})"
        raise Problem("settings", problem, "Set max_memory_mb = 0 only where you trust the statements.") from error


def answer_request(request: Request, run: Callable[[Request], Answer]) -> Answer:
    """Run a request, and return its result or its problem."""
    try:
        limit_resources(request["memory"], math.ceil(request["timeout"]) + 10)
        return {"result": run(request)}
    except Problem as error:
        return {"error": error.kind, "problem": error.problem, "fix": error.fix}
    except (MemoryError, RecursionError) as error:
        problem = f"The statement took more than the {request['memory']} MiB of memory that it may"
        if isinstance(error, RecursionError):
            problem = "A value of the result is nested too deeply"
        return {"error": "limit", "problem": problem, "fix": "Ask for less: fewer rows, shorter values."}
    except Exception as error:  # the isolation seam; its message may hold the URL
        at = traceback.extract_tb(error.__traceback__)[-1]
        problem = f"The process that runs statements failed ({type(error).__name__} in {at.name}, line {at.lineno})"
        return {"error": "failed", "problem": problem, "fix": "Check the versions of SQLAlchemy and of the driver."}


def serve_request(run: Callable[[Request], Answer]) -> None:
    """Answer one request by *run*, and end the process; its output is for the answer alone."""
    out = os.dup(1)
    os.dup2(2, 1)
    data = json.dumps(answer_request(json.loads(sys.stdin.buffer.read()), run)).encode()
    with os.fdopen(out, "wb") as file:
        file.write(data)
    os._exit(0)
