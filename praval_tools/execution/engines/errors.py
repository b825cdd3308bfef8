"""Why an engine has no result of a call: each error says how the call ended."""

from __future__ import annotations

from typing import ClassVar

from praval_tools.tools.call import Outcome
from praval_tools.tools.decision import Decision


class EngineError(Exception):
    """A call could not be handed to its engine, or was lost there."""

    code: ClassVar[str] = "engine-lost"
    outcome: ClassVar[Outcome] = Outcome.ENGINE_LOST


class UnknownEngineError(EngineError):
    """There is no such engine; the function cannot have run."""

    code: ClassVar[str] = "unknown-engine"
    outcome: ClassVar[Outcome] = Outcome.TOOL_ERROR


class UnreachableFunctionError(EngineError):
    """Another process cannot run the function as it is called here; it did not run."""

    code: ClassVar[str] = "unreachable-function"
    outcome: ClassVar[Outcome] = Outcome.TOOL_ERROR


class WorkerLostError(EngineError):
    """The process that ran the function ended, or sent what cannot be read; nobody knows how far the function got."""


class WorkerRefusedError(Exception):
    """A worker decided otherwise than this process, and did not run the function."""

    def __init__(self, decision: Decision) -> None:
        super().__init__(decision.reason)
        self.decision = decision


class CallTimeoutError(Exception):
    """The time of a call was over, and the process that ran it was killed."""
