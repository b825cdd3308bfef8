"""The runtime of a registry: the options, engines, limits, approvals and counters that all its calls share."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, MutableMapping
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from praval_tools.access.problems import RegistryProblem
from praval_tools.access.records import Principal, list_members
from praval_tools.access.rules import AccessResolution
from praval_tools.access.settings import apply_setting
from praval_tools.access.store import StateStore
from praval_tools.clock import Clock
from praval_tools.errors import (
    NotOwnerError,
    RegistryClosedError,
    ToolAccessError,
    ToolArgumentsError,
    ToolError,
    ToolExecutionError,
    ToolUsageError,
)
from praval_tools.execution.approvals import Approvals
from praval_tools.execution.call_progress import CallRecorder, CallTracer
from praval_tools.execution.context import (
    CONFINED_ACTOR_PREFIXES,
    SCOPE,
    Frame,
    FrameScope,
    activate_frame,
    get_current_frame,
    iter_active_calls,
    make_frame,
)
from praval_tools.execution.engines.threads import ThreadEngine
from praval_tools.execution.event_loops import BackgroundLoop, is_event_loop_running
from praval_tools.execution.exclusive import ExclusiveGate
from praval_tools.execution.failures import is_in_doubt_by_others, read_attribute
from praval_tools.execution.hooks import NO_HOOKS, CallHooks
from praval_tools.execution.in_flight import InFlightCounter, InFlightCounters, wait_until_none
from praval_tools.execution.limits import Limits
from praval_tools.execution.protocols import Dispatcher, RemoteEngine, ToolSource
from praval_tools.forks import FOR_EVER, ForkSafeLock, handle_forks
from praval_tools.names import OPERATOR, describe_error, describe_registry, get_plain_type, has_type
from praval_tools.schema.json_input import MAX_BYTES
from praval_tools.schema.json_values import MAX_DEPTH
from praval_tools.tools.call import ToolCall
from praval_tools.tools.frames import refuse_others_than_operator
from praval_tools.tools.metadata import iter_invalid_values
from praval_tools.tools.tool import AnyTool

if TYPE_CHECKING:
    from praval_tools.execution.engines.processes import ProcessEngine

BROKER_SCHEMES = ("amqp://", "amqps://", "redis://", "rediss://")
_METADATA_OPTIONS = ("strict_arguments", "timeout", "retries", "errors", "max_result_size", "engine")
_MAX_RETRY_WAIT = 86_400
_MAX_PROCESSES = 1_024
_INNER_ERRORS = (ToolExecutionError, ToolArgumentsError)
"""Errors of the calls that a tool makes: their texts hold what only the tool should see."""


def _find_broker_problem(url: object) -> str | None:
    """Return what is wrong with the URL of RabbitMQ or Redis, without what it holds: that may be a password."""
    if not isinstance(url, str) or not url.startswith(BROKER_SCHEMES):
        return f"it begins with none of {', '.join(BROKER_SCHEMES)}"
    try:
        parts = urlsplit(url)
        is_readable = parts.port != 0 and url.count("@") == parts.netloc.count("@") <= 1
    except ValueError:
        is_readable = False
    return None if is_readable else "it cannot be read; in a password, write %40 for @, %2F for /, %3F for ?, %23 for #"


class RegistryOptions(msgspec.Struct, frozen=True):
    """The options of a registry for all its calls; `timeout` in seconds, `secrets` besides the usual names of keys."""

    strict_arguments: bool = False
    timeout: float | None = 30
    retries: int = 0
    errors: str = "message"
    max_result_size: int | None = None
    engine: str | None = None
    refusals: str = "tell"
    max_argument_bytes: int = MAX_BYTES
    max_argument_depth: int = MAX_DEPTH
    retry_wait: float = 2.0
    warn_run_events: int = 10_000
    max_run_events: int = 50_000
    processes: int | None = None
    broker: str | None = None
    secrets: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        values = {name: getattr(self, name) for name in _METADATA_OPTIONS}
        wrong = [f"{name}: {problem}" for name, problem in iter_invalid_values(values)]
        if self.refusals not in ("tell", "hide"):
            wrong.append(f"refusals: {self.refusals!r} is neither 'tell' nor 'hide'")
        if get_plain_type(self.retry_wait) not in (int, float) or not 0 <= self.retry_wait <= _MAX_RETRY_WAIT:
            wrong.append(f"retry_wait: {self.retry_wait!r} is not a number of seconds from 0 to {_MAX_RETRY_WAIT:,}")
        if self.broker is not None and (problem := _find_broker_problem(self.broker)) is not None:
            wrong.append(f"broker: {problem}")
        limits = (("max_argument_bytes", None), ("warn_run_events", None), ("max_run_events", None))
        for name, most in (*limits, ("max_argument_depth", MAX_DEPTH), ("processes", _MAX_PROCESSES)):
            value = getattr(self, name)
            if value is None and name == "processes":
                continue
            if type(value) is not int or value < 1 or (most is not None and value > most):
                wrong.append(f"{name}: {value!r} is not a whole number from 1{f' to {most}' if most else ' on'}")
        if wrong:
            raise ToolUsageError(f"A registry cannot have these options: {'; '.join(wrong)}.")

    @property
    def has_default_argument_limits(self) -> bool:
        """Whether the limits of arguments are those that the fast path checks."""
        return self.max_argument_bytes >= MAX_BYTES and self.max_argument_depth == MAX_DEPTH


class Runtime:
    """What the calls of one registry share; frames and contexts hand *registry* on."""

    recorder: CallRecorder | None = None
    check_call: Callable[[ToolCall], None] | None = None
    """In the process of a tool: raises where its function makes a call by a registry of that process."""

    def __init__(self, store: StateStore, clock: Clock, options: RegistryOptions, registry: Any) -> None:
        self.access_store, self.clock, self.options, self.registry = store, clock, options, registry
        self.in_flight = InFlightCounters()
        self.unrecorded_calls = InFlightCounter((), "")
        """The recorded calls whose start is written, or about to be, and whose result is not."""
        self.threads = ThreadEngine()
        self.processes: ProcessEngine | None = None  # made for the first call that needs it
        self.workers: RemoteEngine | None = None  # so is this one
        self.background_loop = BackgroundLoop()
        # a new state object sends every fast path to the pipeline, which waits for the exclusive call
        self.exclusive_gate = ExclusiveGate(self.in_flight, store.invalidate_snapshots, registry, options.timeout)
        self.limits = Limits(refuse_others_than_operator, partial(apply_setting, store), clock.monotonic)
        self.closing_event = threading.Event()
        self._closing_lock, self._is_closed = ForkSafeLock(), False
        self.approvals = Approvals(
            refuse_others_than_operator, clock, self.closing_event, store.refuse_calls, partial(apply_setting, store)
        )
        self.tracer: CallTracer | None = None
        self.hooks = NO_HOOKS
        self.plugins: Any = None
        self.settings: Any = None
        self.sources: dict[str, ToolSource] = {}
        self.dispatcher: Dispatcher
        self.declared_agents: MutableMapping[str, Any]
        self.is_staging = False
        self.verdict_cache: tuple[object, dict[tuple[Principal, str], AccessResolution]] = (None, {})
        handle_forks(self, in_child=Runtime.reset_after_fork)

    def reset_after_fork(self) -> None:
        """Forget, in a forked process, what other threads of its parent held: locks, turns, calls in flight."""
        frames = list(iter_active_calls(self.registry))
        self.access_store.reset_locks()
        self.in_flight.reset_after_fork([(list_members(frame[SCOPE].principal), frame[SCOPE].tool) for frame in frames])
        self.unrecorded_calls.reset(len(frames) if self.unrecorded_calls.in_flight else 0)
        self.exclusive_gate.reset_after_fork(frames)
        self.limits.reset_after_fork()
        is_closing, self.closing_event = self.closing_event.is_set(), threading.Event()
        if is_closing:
            self.closing_event.set()

    def get_timeout(self, tool: AnyTool) -> float | None:
        """Return the seconds that a call of *tool* may take: its own, for an async tool else the registry's."""
        own = tool.metadata.timeout
        return own if own is not None or not tool.is_async else self.options.timeout

    def render_error(self, tool: AnyTool, error: BaseException, scope: FrameScope) -> str:
        """
        Return the text of a tool's exception as a model may see it: an error id instead, where errors are masked.

        Errors that a tool raises on purpose are shown: our own types, and those of its `retry_on`.
        """
        meta = tool.metadata
        masked = (meta.errors or self.options.errors) == "masked"
        with activate_frame(make_frame(scope)):  # its classes and its text may be code of the tool
            is_of_others = has_type(error, _INNER_ERRORS) or is_in_doubt_by_others(tool.name, error)
            on_purpose = has_type(error, (ToolError, *meta.retry_on)) and not is_of_others
            message = read_attribute(tool.name, error, "message") if has_type(error, ToolAccessError) else None
            if type(message) is str:  # the text of the error is for the developer
                return message
            if masked and not on_purpose:
                return f"The tool failed (error id {os.urandom(6).hex()})."
            return describe_error(error)

    def install_hooks(self, hooks: CallHooks) -> None:
        """Use *hooks* from now on; every fast function is built again."""
        before, self.hooks = self.hooks, hooks
        if before.before is hooks.before and before.formats is hooks.formats:  # nothing that concerns calls
            return
        self.approvals.fallback_handler = hooks.ask_approval if hooks.approve else None
        self.access_store.invalidate_snapshots()

    def get_engine_timeout(self, tool: AnyTool) -> float | None:
        """Return the seconds after which a call on the thread engine is given up: its own, else the registry's."""
        own = tool.metadata.timeout
        return own if own is not None else self.options.timeout

    def get_retries(self, tool: AnyTool) -> int:
        """Return how often a call of *tool* that failed is tried again."""
        own = tool.metadata.retries
        return own if own is not None else self.options.retries

    def get_max_result_size(self, tool: AnyTool) -> int | None:
        """Return how many characters of the tool's value a model sees, or None for all."""
        own = tool.metadata.max_result_size
        return own if own is not None else self.options.max_result_size

    def as_operator(self, person: str = "") -> AbstractContextManager[Any]:
        """Run the `with` block as the operator, whoever is running; *person* is who that is."""
        return activate_frame(self.make_operator_frame(person))

    def make_operator_frame(self, person: str = "") -> Frame:
        """Return a frame of the operator's."""
        return make_frame(FrameScope(self.registry, None, OPERATOR, person=person))

    def as_operator_unless_plugin(self, person: str) -> AbstractContextManager[Any]:
        """Run the `with` block as the operator, unless code of a plugin or a value runs; *person* is who that is."""
        frame = get_current_frame()
        if frame is not None and (actor := frame[SCOPE].actor).startswith(CONFINED_ACTOR_PREFIXES):
            raise NotOwnerError(actor, "act as the operator", None, None)
        return self.as_operator(person)

    def drain(self, agent: str | None, tool: str | None, timeout: float | None) -> int:
        """
        Wait until no calls are in flight but those of this context; return how many others still are.

        Where it waits for all agents and tools, it waits for results that are still to be recorded, too.
        """
        scopes = [frame[SCOPE] for frame in iter_active_calls(self.registry)]
        own = sum(
            (agent is None or agent in list_members(scope.principal)) and tool in (None, scope.tool) for scope in scopes
        )
        is_of_all = agent is None and tool is None

        def count_calls() -> int:
            inside = self.in_flight.count_in_flight(agent, tool)
            return (max(inside, self.unrecorded_calls.in_flight) if is_of_all else inside) - own

        return wait_until_none(count_calls, timeout)

    def close(self, close_journal: Callable[[], object]) -> None:
        """
        Refuse new calls and changes, wait for those in flight, end all threads, and close the journal.

        Whoever calls it meanwhile waits until that is done. One that was interrupted as it waited leaves all to the
        next, since each step may be done twice.
        """
        if self._is_closed:
            close_journal()
            return
        store = self.access_store
        with suppress(RegistryClosedError):
            store.refuse_calls()
        self._refuse_to_close_on_loop()
        store.closed = True
        self.closing_event.set()
        store.invalidate_snapshots()
        is_inside_call = next(iter_active_calls(self.registry), None) is not None
        patience = 0 if is_inside_call else FOR_EVER  # whoever holds it waits for that call
        if not self._closing_lock.acquire(timeout=patience):
            return
        try:
            if not self._is_closed:
                self.drain(None, None, self.options.timeout)
                self._end(close_journal)
        finally:
            self._closing_lock.release()

    def _refuse_to_close_on_loop(self) -> None:
        if self.background_loop.is_current_thread or (is_event_loop_running() and self.drain(None, None, 0)):
            raise ToolUsageError(
                f"close() cannot close {describe_registry(self.access_store.name)} here: the event loop of this thread "
                f"runs calls that it would wait for. Await aclose() instead.",
                "sync-call-in-event-loop",
            )

    def _end(self, close_journal: Callable[[], object]) -> None:
        """End all threads, then close the journal; a step that raises keeps none of the others from being done."""
        with ExitStack() as last_first:
            last_first.callback(setattr, self, "_is_closed", True)
            last_first.callback(close_journal)
            last_first.callback(self.hooks.shut_down_engines)
            last_first.callback(self.background_loop.close)
            for source in reversed(list(self.sources.values())):
                last_first.callback(source.close)
            for engine in (self.workers, self.processes):
                if engine is not None:
                    last_first.callback(engine.close)
            last_first.callback(self.threads.close)


def list_foreign_problems(runtime: Runtime) -> list[RegistryProblem]:
    """Return what is wrong with the plugins of a registry, its telemetry, and the servers whose tools it has."""
    problems = [] if runtime.plugins is None else list(runtime.plugins.list_problems())
    problems += [] if runtime.tracer is None else runtime.tracer.list_problems()
    return problems + [problem for source in list(runtime.sources.values()) for problem in source.list_problems()]
