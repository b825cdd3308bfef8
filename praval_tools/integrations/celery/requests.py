"""What a registry and its workers write for each other: the request of a call, and the answer to it."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from praval_tools.execution.engines.messages import DescribedCall, FunctionEnded, ReportProgress, WriteLog
from praval_tools.tools.decision import Decision
from praval_tools.tools.tool import AnyTool

SHARED_QUEUE: Final = "tools:shared"
"""The queue of the tools that nobody owns; no owner has a name with a colon."""

_MAX_QUEUE_BYTES: Final = 200
"""How long the name of a queue may be; brokers take 255 bytes."""


class WorkerRequest(msgspec.Struct, frozen=True):
    """
    A call that was admitted where it was made, for a worker.

    Args:
        call: Who calls what, with which arguments.
        queue: The queue of its tool, whose workers may run it.
        spent_grants: The counted grants that the call has paid with already.
    """

    call: DescribedCall
    queue: str
    spent_grants: tuple[str, ...] = ()


class WorkerAnswer(msgspec.Struct, frozen=True):
    """
    What came of a request.

    Args:
        ended: How the function ended; None: it did not run.
        refusal: Why it did not run, unless the rules refused it.
        decision: By which rule it was refused.
        reports: What it reported while it ran, in order.
        attempt: The number of the attempt; of a later one, an earlier worker was lost.
    """

    ended: FunctionEnded | None = None
    refusal: str = ""
    decision: Decision | None = None
    reports: tuple[ReportProgress | WriteLog, ...] = ()
    attempt: int = 1


def get_tool_queue(tool: AnyTool) -> str:
    """Return the queue of a tool: that of its owner."""
    return get_owner_queue(tool.metadata.owned_by)


def get_owner_queue(owner: str | None) -> str:
    """
    Return the queue of an owner's tools: `tools.` and its name, or what stands for a long one.

    Args:
        owner: An agent; None: of the tools that nobody owns.
    """
    if owner is None:
        return SHARED_QUEUE
    if len(owner.encode()) > _MAX_QUEUE_BYTES:
        return f"tools.:{hashlib.blake2b(owner.encode(), digest_size=16).hexdigest()}"
    return f"tools.{owner}"
