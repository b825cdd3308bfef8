"""
The program of a worker: takes calls from the queues of its owners, and runs each in a process that can be killed.

Celery's main process listens to the broker, renews the leases of what its processes run, and kills what takes too long.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
from collections.abc import Callable, Sequence
from itertools import count
from typing import Final, Literal, Protocol

import msgspec
from billiard.einfo import ExceptionInfo
from celery import Celery, Task
from celery.exceptions import TimeLimitExceeded
from celery.worker.consumer import Consumer
from celery.worker.control import Panel
from celery.worker.request import Request
from kombu import Queue
from kombu.transport import TRANSPORT_ALIASES

from praval_tools.errors import JournalError, ToolUsageError
from praval_tools.execution.engines.selection import SERVED_OWNERS
from praval_tools.integrations.celery.broker import RUN_AGAIN, RUN_ONCE, make_celery
from praval_tools.integrations.celery.call_server import LEASE_SECONDS, CallServer
from praval_tools.integrations.celery.engine import connect_workers
from praval_tools.integrations.celery.requests import get_owner_queue
from praval_tools.journal.storage.worker_calls import WorkerCallTable
from praval_tools.registry.registry import ToolRegistry, get_runtime

_LOOK_SECONDS: Final = 0.5
"""How often the heartbeat looks whether the processes are there; Celery takes some seconds to notice a lost one."""
_RENEW_LOOKS: Final = 6
"""At every how many looks it renews the leases."""
_CLEAN_LOOKS: Final = 7_200
"""At every how many looks old calls are deleted."""
_KEEP_SECONDS: Final = 86_400.0
"""How long a call that its caller left behind is kept."""

_REDIS_TRANSPORT: Final = "praval_tools.integrations.celery.redis_messages:MessageTransport"
"""Imported where Redis is the broker."""

_logger: Final = logging.getLogger(__name__)


class Heartbeat:
    """
    Renews the leases of the calls that the processes of this worker run, from its main process.

    Args:
        table: Where the calls are.
    """

    def __init__(self, table: WorkerCallTable) -> None:
        self._table, self._token = table, secrets.token_hex(8)
        self._processes: dict[str, int] = {}
        self._lock = threading.Lock()
        self._is_ended = threading.Event()

    def get_worker_name(self, process_id: int) -> str:
        """Return the name of a process of this worker, which no other one has."""
        return f"{self._token}:{process_id}"

    def start(self) -> None:
        """Renew leases from now on."""
        threading.Thread(target=self._run, name="praval-tools-heartbeat", daemon=True).start()

    def begin(self, call_id: str, process_id: int) -> None:
        """Renew the lease of a call that one of the processes runs."""
        with self._lock:
            self._processes[call_id] = process_id

    def end(self, call_id: str) -> int | None:
        """Renew it no more; return the process that ran it."""
        with self._lock:
            return self._processes.pop(call_id, None)

    def end_lost(self, call_id: str, *, is_late: bool = False) -> None:
        """Have the caller learn at once that the process is gone, or was killed as the time of the call was over."""
        process_id = self.end(call_id)
        if process_id is None:
            return
        try:
            self._table.release(call_id, self.get_worker_name(process_id), is_late=is_late)
        except JournalError as error:  # its lease ends by itself
            _logger.warning("A lost call cannot be released: %s", error)

    def stop(self) -> None:
        """Renew nothing any more."""
        self._is_ended.set()

    def _run(self) -> None:
        for look in count():
            if self._is_ended.wait(_LOOK_SECONDS):
                return
            with self._lock:
                processes = dict(self._processes)
            for call_id in [call_id for call_id, process_id in processes.items() if not _is_alive(process_id)]:
                del processes[call_id]
                self.end_lost(call_id)
            try:
                if look % _RENEW_LOOKS == 0:
                    calls = [(call_id, self.get_worker_name(pid)) for call_id, pid in processes.items()]
                    self._table.renew(calls, LEASE_SECONDS)
                if look % _CLEAN_LOOKS == 0:
                    self._table.delete_older(_KEEP_SECONDS)
            except JournalError as error:  # it may be back before a lease ends
                _logger.warning("Leases cannot be renewed: %s", error)


def _is_alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


class BrokerMessage(Protocol):
    """A message as Celery's transport hands it over."""

    headers: object

    @property
    def payload(self) -> object:
        """The body, once it was read as its type says."""

    def reject(self) -> None:
        """Throw it away."""


class CallConsumer(Consumer):  # type: ignore[misc]  # Celery has no types
    """Celery's consumer, which a message that nobody of ours wrote does not end."""

    def create_task_handler(self, *args: object, **options: object) -> Callable[[BrokerMessage], None]:
        """Return what handles each message; what cannot be read is thrown away, and reported."""
        handle = super().create_task_handler(*args, **options)

        def handle_or_reject(message: BrokerMessage) -> None:
            try:
                message.headers = read_headers(message)
            except Exception as error:  # isolation: nothing that a message holds may end a worker
                _logger.error("A message that cannot be read was thrown away (%s).", type(error).__name__)
                message.reject()
            else:
                handle(message)

        return handle_or_reject


class SentHeaders(msgspec.Struct):
    """What counts of the headers of a message: https://docs.celeryq.dev/en/stable/internals/protocol.html."""

    task: Literal["praval_tools.run_call", "praval_tools.run_idempotent_call"]
    id: str
    timelimit: tuple[float | None, None] | None = None
    eta: None = None
    expires: None = None
    group: None = None


class SentOptions(msgspec.Struct):
    """What a message may have Celery do beside the task: nothing."""

    callbacks: None = None
    errbacks: None = None
    chain: None = None
    chord: None = None


class NoKeywords(msgspec.Struct, forbid_unknown_fields=True):
    """The keywords of a task: none."""


def read_headers(message: BrokerMessage) -> dict[str, object]:
    """
    Return the headers of a message for Celery, made anew of what was checked: it believes whatever they hold.

    Raises:
        ValueError: The message is not as `Broker.send` writes it.
    """
    headers = msgspec.convert(message.headers, SentHeaders)
    (call_id,), _, _ = msgspec.convert(message.payload, tuple[tuple[str], NoKeywords, SentOptions])
    if call_id != headers.id:
        raise ValueError("it names two calls")
    known = {"lang": "py", "root_id": call_id, "retries": 0, "argsrepr": "", "kwargsrepr": ""}
    return {**known, **msgspec.structs.asdict(headers)}


def build_request_class(heartbeat: Heartbeat) -> type[Request]:
    """Return the class of what the main process knows of a call."""

    class CallRequest(Request):  # type: ignore[misc]  # Celery has no types
        """Tells the heartbeat when the call begins and ends."""

        def on_accepted(self, pid: int, time_accepted: float) -> None:
            heartbeat.begin(self.id, pid)
            super().on_accepted(pid, time_accepted)

        def on_success(self, *args: object, **options: object) -> None:
            heartbeat.end(self.id)
            super().on_success(*args, **options)

        def on_failure(self, exc_info: ExceptionInfo, *args: object, **options: object) -> None:
            heartbeat.end_lost(self.id, is_late=exc_info.type is TimeLimitExceeded)
            super().on_failure(exc_info, *args, **options)

        def on_timeout(self, soft: bool, timeout: float) -> None:
            if not soft:  # else its process goes on
                heartbeat.end_lost(self.id, is_late=True)
            super().on_timeout(soft, timeout)

    return CallRequest


def serve_worker(registry: ToolRegistry, owners: Sequence[str | None], concurrency: int | None = None) -> int:
    """
    Run calls of the registry's tools until the program is asked to end; return its exit code.

    Args:
        registry: Declares the tools, as the callers' do; it has their broker and their journal.
        owners: Whose tools it runs; None: those that nobody owns.
        concurrency: How many processes run calls; None: one for each processor.

    Raises:
        ToolUsageError: The registry has no broker.
        EngineError: It has no journal that others can share.
    """
    broker = get_runtime(registry).options.broker
    if broker is None:
        raise ToolUsageError("A worker needs the broker of its callers: ToolRegistry(broker='redis://localhost').")
    connection, queues = connect_workers(registry.journal), [get_owner_queue(owner) for owner in owners]
    app = make_celery(broker)
    heartbeat = Heartbeat(connection.table)
    _add_tasks(app, CallServer(registry, connection, frozenset(queues)), heartbeat)
    app.conf.update(
        task_queues=[Queue(name, routing_key=name) for name in queues], task_create_missing_queues=False,
        task_default_queue=queues[0], worker_consumer=CallConsumer,
    )  # fmt: skip
    _limit_commands()
    if broker.startswith("redis"):
        TRANSPORT_ALIASES.update(dict.fromkeys(("redis", "rediss"), _REDIS_TRANSPORT))
    SERVED_OWNERS.update(owners)
    worker = app.Worker(
        hostname=f"praval-tools-{os.getpid()}@%h", concurrency=concurrency, pool="prefork", loglevel="INFO",
        without_gossip=True, without_mingle=True, optimization="fair",
    )  # fmt: skip
    heartbeat.start()
    try:
        worker.start()
    finally:
        heartbeat.stop()
    return int(worker.exitcode or 0)


def _limit_commands() -> None:
    """Have the worker obey no command that comes by the broker, such as to shut down, but those that callers send."""
    for name in Panel.data.keys() - {"revoke"}:
        del Panel.data[name]


def _add_tasks(app: Celery, server: CallServer, heartbeat: Heartbeat) -> None:
    """Add the two tasks: of calls that run once, and of those that may run again."""
    request_class = build_request_class(heartbeat)

    def run_call(call_id: str) -> str:
        return server.serve(call_id, heartbeat.get_worker_name(os.getpid()))

    for name, is_idempotent in ((RUN_ONCE, False), (RUN_AGAIN, True)):
        base: type[Task] = type("CallTask", (Task,), {"Request": request_class, "abstract": True})
        app.task(
            run_call, name=name, base=base, acks_late=is_idempotent, reject_on_worker_lost=is_idempotent,
            ignore_result=True, max_retries=0,
        )  # fmt: skip
