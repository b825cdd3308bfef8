"""In a process of a worker: claims a call, decides it once more, runs its function, and stores the answer."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from praval_tools.access.rules import RecordsBeforeSpending, choose_path
from praval_tools.errors import JournalError, ToolError
from praval_tools.execution.context import ENDED, Frame, FrameScope, activate_frame, make_frame
from praval_tools.execution.engines.described_errors import describe_remote_error, describe_unsendable
from praval_tools.execution.engines.messages import DescribedCall, FunctionEnded, ReportProgress, WriteLog
from praval_tools.execution.pipeline import resolve_call_access
from praval_tools.integrations.celery.engine import WorkerConnection
from praval_tools.integrations.celery.requests import WorkerAnswer, WorkerRequest, get_tool_queue
from praval_tools.integrations.celery.sealing import AlteredError
from praval_tools.names import OPERATOR
from praval_tools.registry.registry import ToolRegistry, get_runtime
from praval_tools.registry.worker import run_function
from praval_tools.tools.context import ToolContext
from praval_tools.tools.decision import Decision
from praval_tools.tools.frames import activate_tool_frame
from praval_tools.tools.function_address import get_function_address
from praval_tools.tools.implementation import ToolImplementation
from praval_tools.tools.reports import LogLevel
from praval_tools.tools.tool import AnyTool
from praval_tools.tools.value_codec import unpack_value

LEASE_SECONDS: Final = 10.0
"""For how long a call counts as running where its worker says nothing more."""

_MAX_REPORTS: Final = 1_000
"""How many reports of one call reach its caller: the first ones."""
_STORE_ATTEMPTS: Final = 20
_STORE_PAUSE: Final = 0.5

_logger: Final = logging.getLogger(__name__)


class _RefusedRequestError(Exception):
    """The function is not to run; the text says why, or the decision of the rules does."""

    def __init__(self, text: str, decision: Decision | None = None) -> None:
        super().__init__(text)
        self.decision = None if decision is None else replace(decision, source=None, tried=())


class CallServer:
    """
    Runs calls for a registry whose tools are declared here, too.

    Args:
        registry: The registry of the worker.
        connection: The table of calls, and what seals them.
        queues: The queues that the worker serves.
    """

    def __init__(self, registry: ToolRegistry, connection: WorkerConnection, queues: frozenset[str]) -> None:
        self._registry, self._runtime, self._queues = registry, get_runtime(registry), queues
        self._table, self._sealer = connection
        self._revision: int | None = None

    def serve(self, call_id: str, worker: str) -> str:
        """Run a call, unless another worker does, or nobody waits for it; return in a word what came of it."""
        claimed = self._table.claim(call_id, worker, LEASE_SECONDS)
        if claimed is None:
            return "nothing to run"
        try:
            request = self._sealer.open(call_id, claimed.request, WorkerRequest)
        except AlteredError as error:
            tool, answer = "", WorkerAnswer(refusal=f"the request cannot be used, {error}.")
        else:
            tool, answer = request.call.function.tool, self._answer(request, claimed.revision)
        answer = replace(answer, attempt=claimed.attempt)
        sealed = self._seal(call_id, tool, answer)
        if not self._try_until_stored(lambda: self._table.end(call_id, claimed.attempt, sealed)):
            return "too late"
        return "refused" if answer.ended is None else "ended"

    def _seal(self, call_id: str, tool: str, answer: WorkerAnswer) -> bytes:
        """Return a sealed answer, or why it cannot be written; what the tool put into it has no rights."""
        with activate_tool_frame(tool):
            try:
                return self._sealer.seal(call_id, answer)
            except (TypeError, ValueError) as error:
                described = describe_unsendable(tool, "answer", error)
                return self._sealer.seal(call_id, WorkerAnswer(FunctionEnded(0, error=described)))

    def _try_until_stored(self, store: Callable[[], bool]) -> bool:
        """Store an answer, also where the database is away for some seconds: the function ran."""
        for _ in range(_STORE_ATTEMPTS):
            try:
                return store()
            except JournalError as error:
                _logger.warning("The answer to a call cannot be stored yet: %s", error)
                threading.Event().wait(_STORE_PAUSE)
        return store()

    def _answer(self, request: WorkerRequest, revision: int) -> WorkerAnswer:
        reports: list[ReportProgress | WriteLog] = []
        try:
            implementation = self._decide(request, revision)
        except _RefusedRequestError as error:
            return WorkerAnswer(refusal=str(error), decision=error.decision)
        except Exception as error:  # classes of parameters may raise anything
            return WorkerAnswer(FunctionEnded(0, error=describe_remote_error(request.call.function.tool, error)))
        call = request.call
        ended = run_function(
            call, implementation, self._registry, lambda frame: self._make_context(call, frame, reports), 0
        )
        return WorkerAnswer(ended, reports=tuple(reports[:_MAX_REPORTS]))

    # ── the decision ─────────────────────────────────────────────────────────────────────────────

    def _decide(self, request: WorkerRequest, revision: int) -> ToolImplementation:
        """
        Return what is run: that of the tool which is registered here, where the caller may call it now.

        Raises:
            _RefusedRequestError: It is not to run.
        """
        call, runtime = request.call, self._runtime
        try:
            if revision != self._revision:
                runtime.access_store.load_other_changes()
                self._revision = revision
        except JournalError as error:
            raise _RefusedRequestError(f"who may call it is not known: {error}") from error
        records = RecordsBeforeSpending(runtime.access_store.state, frozenset(request.spent_grants))
        resolution = resolve_call_access(runtime, records, call.call, call.principal)
        if resolution.refusal is not None:
            raise _RefusedRequestError(resolution.refusal.reason, resolution.refusal)
        if resolution.record is None:
            raise AssertionError("a tool that is not there is refused")
        tool = resolution.record.tool
        self._check_tool(request, tool)
        scope = FrameScope(self._registry, call.principal, call.call.agent or OPERATOR, tool.name)
        arguments = unpack_value(call.arguments)
        if any(path.bounds for path in resolution.paths):
            with activate_frame(make_frame(scope, arguments, call.call)):  # classes of its parameters may run code
                bound = tool.implementation.bind_coerced(arguments, ())
                path, decision = choose_path(resolution, bound, tool.implementation)
            if path is None:
                raise _RefusedRequestError(decision.reason, decision)
        return tool.implementation

    def _check_tool(self, request: WorkerRequest, tool: AnyTool) -> None:
        """Refuse a tool that is declared otherwise here, or is another owner's."""
        function, implementation = request.call.function, tool.implementation
        if get_tool_queue(tool) not in self._queues or request.queue not in self._queues:
            raise _RefusedRequestError("it is the tool of an owner whose tools this worker does not serve.")
        try:
            is_same = get_function_address(implementation) == function.address and function.fingerprint in (
                "", implementation.compute_fingerprint(tool.name, tool.description)
            )  # fmt: skip
        except (ToolError, ValueError) as error:
            raise _RefusedRequestError(f"it cannot be found there: {error}.") from error
        if not is_same:
            raise _RefusedRequestError("it is declared otherwise there: have caller and worker run the same code.")

    # ── what the function gets ───────────────────────────────────────────────────────────────────

    def _make_context(
        self, call: DescribedCall, frame: Frame, reports: list[ReportProgress | WriteLog]
    ) -> ToolContext[None]:
        principal = call.principal

        def report_progress(done: float, total: float | None, message: str) -> None:
            if not frame[ENDED]:
                reports.append(ReportProgress(0, done, total, message))

        def write_log(text: str, level: LogLevel) -> None:
            if not frame[ENDED]:
                reports.append(WriteLog(0, text, level))

        return ToolContext(
            agent=principal.agent if principal else None, chain=principal.chain if principal else (),
            tool_call_id=str(call.call.tool_call_id), run_id=call.call.run_id, registry=self._registry,
            idempotency_key=call.idempotency_key, progress=report_progress, log=write_log, deps=None,
        )  # fmt: skip
