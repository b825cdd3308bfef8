"""Traces the calls of one registry: each is a span and a measured duration, whatever becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from types import coroutine

from opentelemetry.context import attach, get_current

from praval_tools.access.problems import RegistryProblem
from praval_tools.execution.call_progress import CallPipeline, CallProgress
from praval_tools.execution.event_loops import Work
from praval_tools.execution.runtime import Runtime
from praval_tools.execution.trace_context import inject_trace_context
from praval_tools.integrations.opentelemetry.backend import Backend
from praval_tools.integrations.opentelemetry.call_span import CallSpan
from praval_tools.integrations.opentelemetry.instruments import Instruments
from praval_tools.runs.call_plans import CallPlans
from praval_tools.tools import frames
from praval_tools.tools.call import ToolResult


class SpanTracer:
    """
    Traces the calls of one registry.

    Args:
        instruments: What it records with.
        runtime: The runtime of the registry.
        get_plans: Returns what is secret in the calls.
    """

    def __init__(self, instruments: Instruments, runtime: Runtime, get_plans: Callable[[], CallPlans]) -> None:
        self._instruments, self._runtime, self._get_plans = instruments, runtime, get_plans
        self._backend = Backend()

    @property
    def registry_name(self) -> str:
        """The name of the registry; empty where it has none."""
        return self._runtime.access_store.name

    def trace_call(self, progress: CallProgress, steps: CallPipeline) -> CallPipeline:
        """Drive *steps*, the pipeline of one call, inside a span, which is the current one meanwhile."""
        clock, outer = self._runtime.clock, get_current()
        started = clock.monotonic()
        span = CallSpan(self._instruments, self._backend, progress, self._get_plans)
        try:
            attach(span.start(self._runtime.access_store.state, outer))
            return span.end((yield from span.follow(steps)))
        except BaseException as error:
            span.interrupt(error)
            raise
        finally:
            try:
                span.close(clock.monotonic() - started)
            finally:
                attach(outer)  # `detach` complains in the context of whoever collects a coroutine

    def isolate_context(self, work: Work[ToolResult]) -> Work[ToolResult]:
        """Return *work* so that the span in which it runs is current in its own steps alone."""
        return _run_in_own_context(work)

    def describe_context(self) -> dict[str, str]:
        """Return the span that is the current one as texts, for another process; empty where there is none."""
        carrier: dict[str, str] = {}
        self._backend.attempt(inject_trace_context, carrier)
        return carrier

    def list_problems(self) -> list[RegistryProblem]:
        """Return how the backend failed: each kind of failure once."""
        return self._backend.list_problems()

    def count_waiting_approvals(self) -> int | None:
        """Return how many approvals of the registry wait; None where nobody can tell, or it is traced elsewhere."""
        runtime = self._runtime
        if runtime.tracer is not self or runtime.access_store.closed:
            return None
        waiting = self._backend.attempt(runtime.approvals.pending)
        return None if waiting is None else len(waiting)


@coroutine
def _run_in_own_context(work: frames.Work) -> frames.Work:
    """
    Drive *work*, and after each step leave OpenTelemetry's context as it was before.

    Several coroutines may take turns in one context, and whoever collects one closes it in another context.
    """
    resume, value, inner = work.send, None, get_current()
    while True:
        outer = get_current()
        try:
            attach(inner)
            waiting = resume(value)
        except StopIteration as end:
            return end.value
        finally:
            inner = get_current()
            attach(outer)
        try:
            value = yield waiting
        except BaseException as error:  # thrown into the work, which decides
            resume, value = work.throw, error
        else:
            resume = work.send
