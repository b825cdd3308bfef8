"""What the worker of the chaos tests loads: tools that leave marks, and wait, or kill their process."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Annotated

from praval_tools import Secret, ToolRegistry, current_agent


def mark(path: str) -> int:
    """Leave a mark in a file; return how many there are."""
    with open(path, "a") as file:
        file.write("x")
    return os.stat(path).st_size


def mark_slowly(path: str, seconds: float) -> int:
    """Leave a mark, and take some time."""
    mark(path)
    time.sleep(seconds)
    return os.stat(path).st_size


def mark_and_die(path: str, times: int) -> int:
    """Leave a mark, and kill the process as often as asked."""
    count = mark(path)
    if count <= times:
        os.kill(os.getpid(), signal.SIGKILL)
    return count


def take_password(password: Annotated[str, Secret]) -> int:
    """Tell how long it is."""
    return len(password)


def call_mark(path: str) -> int:
    """Have another tool leave a mark."""
    return int(current_agent().call("mark", path=path))


def tell_trace() -> list[str]:
    """Tell in which span this runs."""
    from opentelemetry import trace

    context = trace.get_current_span().get_span_context()
    return [f"{context.trace_id:032x}", f"{context.span_id:016x}"]


def get_other_owner(owner: str) -> str:
    """Return who owns the tool that calls the tools of *owner* from a worker of its own."""
    return f"{owner}-other"


def make_registry(journal: str, broker: str, owner: str) -> ToolRegistry:
    """Return a registry in which *owner* owns the tools."""
    registry = ToolRegistry(
        journal=Path(journal) if journal.startswith("/") else journal, engine="celery", broker=broker, retry_wait=0
    )
    for function in (mark, mark_slowly, take_password, call_mark, mark_and_die, tell_trace):
        registry.tool(function.__name__, owned_by=owner)(function)
    registry.tool("call_mark_of_another", owned_by=get_other_owner(owner))(call_mark)
    registry.tool("call_mark_from_here", shared=True, engine="thread")(call_mark)
    for function in (mark_slowly, mark_and_die):
        registry.tool(f"again_{function.__name__}", owned_by=owner, idempotent=True)(function)
    return registry


def grant_all(registry: ToolRegistry) -> None:
    """Let ann call the tools: once, since workers find it in the journal."""
    for tool in registry.list_all_tools():
        registry.grant(tool, "ann")


if "WORKER_JOURNAL" in os.environ:
    registry = make_registry(os.environ["WORKER_JOURNAL"], os.environ["WORKER_BROKER"], os.environ["WORKER_OWNER"])
