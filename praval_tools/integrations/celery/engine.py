"""
The engine `celery`: has a worker run the function of an admitted call, and waits for the answer in the store.

The call was decided and admitted here; the worker decides once more, by its own code and the shared state.
"""

from __future__ import annotations

import logging
import uuid
from contextlib import suppress
from time import monotonic
from typing import Final, NamedTuple

from praval_tools.errors import JournalError
from praval_tools.execution.effects import RunTool
from praval_tools.execution.engines.errors import (
    CallTimeoutError,
    EngineError,
    UnreachableFunctionError,
    WorkerLostError,
    WorkerRefusedError,
)
from praval_tools.execution.engines.jobs import Job
from praval_tools.execution.engines.messages import ChannelError, DescribedFunction, ReportProgress
from praval_tools.execution.engines.remote_call import describe_call, describe_function, read_function_end
from praval_tools.execution.engines.threads import ThreadEngine
from praval_tools.execution.failures import CallCancelledError
from praval_tools.execution.runtime import Runtime
from praval_tools.forks import FIRST_USE_LOCK, handle_forks
from praval_tools.integrations.celery.broker import Broker
from praval_tools.integrations.celery.requests import SHARED_QUEUE, WorkerAnswer, WorkerRequest, get_tool_queue
from praval_tools.integrations.celery.sealing import AlteredError, Sealer
from praval_tools.integrations.celery.status_reader import StatusReader, WatchedCall
from praval_tools.journal.journal import Journal
from praval_tools.journal.redaction.marker_key import load_store_key
from praval_tools.journal.storage.sql_store import SqlStore
from praval_tools.journal.storage.worker_calls import CallState, CallStatus, WorkerCallTable
from praval_tools.tools.tool import AnyTool

_THREADS: Final = 256
"""How many calls wait for workers at once; the others wait for a thread."""
_MAX_THREADS: Final = 1_024
_RESEND_SECONDS: Final = 2.0
"""
After which time a call that no worker took is announced again, then after twice that time, and so on: a message can be
lost with a worker or a broker.
"""
_TAKE_SECONDS: Final = 30.0
"""How long a call waits for a worker to take it; longer where its own time is longer."""
_KILL_SECONDS: Final = 5.0
"""How much later than the caller's the time limit of a worker is."""
_MIN_WAIT_SECONDS: Final = 0.01
"""How long news are waited for at least, where a call has just left the state in which it was to be given up."""
_MAX_ATTEMPTS: Final = 3
"""How many workers may begin a call of an idempotent tool, one after the other has gone."""


_logger: Final = logging.getLogger(__name__)


class WorkerConnection(NamedTuple):
    """What a registry shares with its workers."""

    table: WorkerCallTable
    sealer: Sealer


def connect_workers(journal: Journal | None) -> WorkerConnection:
    """
    Return the table of calls of a journal, with what seals them.

    Raises:
        UnreachableFunctionError: There is no journal that workers can share.
    """
    store = None if journal is None else journal.store
    if not isinstance(store, SqlStore):
        raise UnreachableFunctionError(
            "Engine 'celery' needs a journal that its workers share: ToolRegistry(journal='postgresql://…'), or, for "
            "workers of one machine, the path of a file."
        )
    return WorkerConnection(store.worker_calls, Sealer(load_store_key(store)))


class WorkerEngine:
    """
    The connection of one registry to its workers.

    Args:
        runtime: Of the registry.

    Raises:
        EngineError: The registry has no broker, or no journal that workers can share.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._url, self._runtime = runtime.options.broker, runtime
        self._connect()
        handle_forks(self, in_child=WorkerEngine._connect)

    def _connect(self) -> None:
        if self._url is None:
            raise UnreachableFunctionError("Engine 'celery' needs a broker: ToolRegistry(broker='redis://localhost').")
        with self._runtime.as_operator():  # it is the host that connects, whoever makes the first call
            self.table, self.sealer = connect_workers(self._runtime.registry.journal)
        self.broker, self.reader = Broker(self._url), StatusReader(self.table)
        self.threads = ThreadEngine(_THREADS, _MAX_THREADS)

    def close(self) -> None:
        """End the threads that wait for workers, and the connections."""
        self.threads.close()
        self.reader.close()
        self.broker.close()


def submit_worker_call(run: RunTool) -> Job:
    """Return the call as a job of the workers; of one that no worker can run, a job that ended."""
    try:
        function = describe_function(run)
        engine = _get_engine(run.runtime)
    except (EngineError, JournalError) as error:
        job = Job(run.run)
        job.refuse(error if isinstance(error, EngineError) else EngineError(str(error)))
        return job
    call = WorkerCall(run, function, engine)
    run.enter_elsewhere = call.run
    job = engine.threads.submit(run.run)
    job.stop = call.stop
    return job


def _get_engine(runtime: Runtime) -> WorkerEngine:
    """Return the connection of a registry to its workers, which is made for its first call."""
    with FIRST_USE_LOCK:
        if runtime.workers is None:
            runtime.workers = WorkerEngine(runtime)
            if runtime.access_store.closed:
                runtime.workers.close()
        if not isinstance(runtime.workers, WorkerEngine):
            raise AssertionError("only this module sets it")
        return runtime.workers


class WorkerCall:
    """
    One call on its way to a worker and back.

    Args:
        run: The call.
        function: What is called.
        engine: The connection to the workers.
    """

    def __init__(self, run: RunTool, function: DescribedFunction, engine: WorkerEngine) -> None:
        self._run, self._function, self._engine = run, function, engine
        self._queue = get_tool_queue(run.tool)
        self._id = uuid.uuid4().hex
        self._is_idempotent = bool(run.tool.metadata.idempotent)
        self._seconds = run.runtime.get_engine_timeout(run.tool)
        self._patience = max(_TAKE_SECONDS, self._seconds or 0)
        self._is_stopped = False
        self._watched: WatchedCall | None = None

    def stop(self) -> None:
        """Give the call up, from any thread."""
        self._is_stopped = True
        if self._watched is not None:
            self._watched.wake()

    def run(self) -> object:
        """Have a worker run the function; return its value, or raise what it raised, or why there is no result."""
        engine, run = self._engine, self._run
        spent = run.spent_grants | run.stored_grants
        request = WorkerRequest(describe_call(run, self._function), self._queue, tuple(sorted(spent)))
        try:
            attempts = _MAX_ATTEMPTS if self._is_idempotent else 1
            engine.table.add(self._id, engine.sealer.seal(self._id, request), attempts, self._patience)
            self._watched = engine.reader.watch(self._id)
            try:
                self._send()
                answer = self._wait()
            except BaseException:
                with suppress(JournalError):  # no worker begins it after its time
                    self._give_up(CallState.WAITING) or self._give_up(CallState.RUNNING)
                raise
            finally:
                engine.reader.forget(self._id)
            return self._take_answer(answer)
        except JournalError as error:
            raise WorkerLostError(f"Nobody knows how far tool {run.tool.name!r} got: {error}") from error

    def _send(self) -> None:
        seconds = None if self._seconds is None else self._seconds + _KILL_SECONDS
        self._engine.broker.send(self._id, self._queue, is_idempotent=self._is_idempotent, seconds=seconds)

    # ── waiting ──────────────────────────────────────────────────────────────────────────────────

    def _wait(self) -> bytes:
        """Return the answer; raise where there will be none. The time of the call begins when a worker takes it."""
        now = monotonic()
        until: float | None = now + self._patience
        pause = _RESEND_SECONDS
        send_at = now + pause
        state, is_lost = CallState.WAITING, False
        while True:
            moments = [moment for moment in (until, send_at) if moment is not None]
            status = self._wait_for_change(min(moments) - monotonic())
            now = monotonic()
            if status is not None:
                if status.state is CallState.RUNNING and state is CallState.WAITING:
                    until = None if self._seconds is None else now + self._seconds
                state, is_lost = status.state, status.is_lost
                if status.answer is not None:
                    return status.answer
                if state is CallState.LATE:
                    raise CallTimeoutError
                if is_lost:
                    self._handle_loss(status)
                    send_at = now
            if self._is_stopped:
                raise CallCancelledError
            if until is not None and now >= until and self._give_up(state):
                self._raise_late(state)
            if now >= send_at:
                pause *= 2
                send_at = now + pause
                if is_lost:
                    self._engine.table.extend(self._id, self._patience)
                if state is CallState.WAITING or is_lost:
                    with suppress(EngineError):  # the broker may be back for the next time
                        self._send()

    def _wait_for_change(self, seconds: float) -> CallStatus | None:
        if self._watched is None:
            raise AssertionError("it is watched before it is announced")
        return self._watched.wait(max(seconds, _MIN_WAIT_SECONDS))

    def _handle_loss(self, status: CallStatus) -> None:
        """Raise where a call whose worker is gone cannot be begun by another one."""
        if status.state is CallState.RUNNING and status.can_run_again:
            return
        if status.state is CallState.GIVEN_UP or self._give_up(CallState.RUNNING):
            raise WorkerLostError(_describe_lost_worker(self._run.tool))

    def _give_up(self, state: CallState) -> bool:
        """Give the call up where it still is in this state; what runs is killed."""
        is_given_up = self._engine.table.give_up(self._id, state)
        if is_given_up and state is CallState.RUNNING:
            self._engine.broker.kill(self._id)
        return is_given_up

    def _raise_late(self, state: CallState) -> None:
        if state is CallState.RUNNING:
            raise CallTimeoutError
        text = f"No worker took tool {self._run.tool.name!r} within {self._patience:g} s, so it did not run."
        owner = "--shared" if self._queue == SHARED_QUEUE else f"--owner {self._run.tool.metadata.owned_by!r}"
        _logger.warning("%s Is one there? Start it: praval-tools worker --app MODULE:REGISTRY %s", text, owner)
        raise EngineError(text)  # a model may read it, which is shown no owner

    # ── the answer ───────────────────────────────────────────────────────────────────────────────

    def _take_answer(self, data: bytes) -> object:
        tool = self._run.tool
        try:
            answer = self._engine.sealer.open(self._id, data, WorkerAnswer)
        except AlteredError as error:
            raise WorkerLostError(f"The answer to tool {tool.name!r} cannot be used: {error}.") from error
        report_progress, write_log = self._run.make_reporters(self._run.call)
        for report in answer.reports:
            if isinstance(report, ReportProgress):
                report_progress(report.done, report.total, report.message)
            else:
                write_log(report.text, report.level)
        if answer.ended is None:
            if answer.attempt > 1:
                reason = answer.refusal if answer.decision is None else "it may not be called any more."
                raise WorkerLostError(f"{_describe_lost_worker(tool)} Another worker did not run it again: {reason}")
            if answer.decision is not None:
                raise WorkerRefusedError(answer.decision)
            raise EngineError(f"The worker did not run tool {tool.name!r}: {answer.refusal}")
        try:
            return read_function_end(self._run, answer.ended)
        except ChannelError as error:
            raise WorkerLostError(f"The worker of tool {tool.name!r} sent {error}.") from error


def _describe_lost_worker(tool: AnyTool) -> str:
    return f"The worker that ran tool {tool.name!r} is gone; it may have done its work, or a part."
