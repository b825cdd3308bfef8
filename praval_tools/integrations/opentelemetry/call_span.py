"""The span of one call, from its start to its end, with the events between, and the duration of the call."""

from __future__ import annotations

from collections.abc import Callable

from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN, Span, SpanKind, StatusCode, set_span_in_context

from praval_tools.access.state import AccessState
from praval_tools.execution.call_progress import CallPipeline, CallProgress
from praval_tools.execution.effects import RequestApproval, RunTool, Sleep
from praval_tools.integrations.opentelemetry.attributes import (
    EVENTS_BY_OUTCOME,
    OPERATION,
    Attributes,
    Ending,
    build_end_attributes,
    build_start_attributes,
    clean_text,
    describe_interruption,
    describe_result,
    drop_empty,
)
from praval_tools.integrations.opentelemetry.backend import Backend
from praval_tools.integrations.opentelemetry.content import CallContent
from praval_tools.integrations.opentelemetry.instruments import Instruments
from praval_tools.runs.call_plans import CallPlans
from praval_tools.tools.call import ToolResult
from praval_tools.tools.decision import Allow
from praval_tools.tools.tool import AnyTool


class CallSpan:
    """
    The span of one call; nothing that the backend raises reaches the call.

    Args:
        instruments: What it is recorded with.
        backend: Contains and reports the failures.
        progress: The progress of the call.
        get_plans: Returns what is secret in calls.
    """

    def __init__(
        self, instruments: Instruments, backend: Backend, progress: CallProgress, get_plans: Callable[[], CallPlans]
    ) -> None:
        self._instruments, self._backend = instruments, backend
        self._progress, self._get_plans = progress, get_plans
        self._span: Span = INVALID_SPAN
        self._tool: AnyTool | None = None
        self._content: CallContent | None = None
        self._result: ToolResult | None = None
        self._ending = Ending()

    # ── the start ────────────────────────────────────────────────────────────────────────────────

    def start(self, state: AccessState, outer: Context) -> Context:
        """Start the span of a call that is made in *outer*; return the context in which it is the current one."""
        return self._backend.attempt(self._start, state, outer) or outer

    def _start(self, state: AccessState, outer: Context) -> Context:
        call, instruments = self._progress.call, self._instruments
        record = state.find_tool_record(call.name) if isinstance(call.name, str) else None
        self._tool = tool = None if record is None else record.tool
        self._span = instruments.tracer.start_span(
            OPERATION if tool is None else f"{OPERATION} {tool.name}", outer, SpanKind.INTERNAL,
            build_start_attributes(call, self._progress.principal, tool),
        )  # fmt: skip
        if instruments.record_content and self._span.is_recording():
            self._content = CallContent(self._get_plans().get_redaction_plan_of(call), instruments)
        return set_span_in_context(self._span, outer)

    # ── the steps ────────────────────────────────────────────────────────────────────────────────

    def follow(self, steps: CallPipeline) -> CallPipeline:
        """Drive *steps*, the pipeline of the call, and add events for what it waits for."""
        resume, value = steps.send, None
        while True:
            try:
                step = resume(value)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            self._backend.attempt(self._add_step, step)
            try:
                value = yield step
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as error:  # thrown into the pipeline, which records it
                resume, value = steps.throw, error
            else:
                resume = steps.send
                if isinstance(step, RequestApproval) and value is not None:
                    self._backend.attempt(self._add_answer, step, is_allowed=isinstance(value, Allow))

    def _add_step(self, step: object) -> None:
        if isinstance(step, RunTool) and self._content is not None:
            self._content.read_run(self._progress, step)
        elif isinstance(step, RequestApproval):
            self._span.add_event("praval.approval.requested", {"praval.approval.id": step.request.id})
        elif isinstance(step, Sleep):
            failure = self._progress.failure
            event: Attributes = {
                "praval.call.attempts": self._progress.attempts,
                "praval.call.wait": step.seconds,
                "error.type": "" if failure is None else clean_text(failure.error_type),
            }
            self._span.add_event("praval.call.retried", drop_empty(event))

    def _add_answer(self, step: RequestApproval, *, is_allowed: bool) -> None:
        event: Attributes = {"praval.approval.id": step.request.id, "praval.approval.allowed": is_allowed}
        self._span.add_event("praval.approval.answered", event)

    # ── the end ──────────────────────────────────────────────────────────────────────────────────

    def end(self, result: ToolResult) -> ToolResult:
        """Take the result of the call; return it, with a copy of its value where that is recorded."""
        if self._content is not None:
            self._backend.attempt(self._content.read_call, self._progress)
            result = self._backend.attempt(self._content.read_result, result) or result
        self._result, self._ending = result, describe_result(result)
        return result

    def interrupt(self, error: BaseException) -> None:
        """Take what was raised in place of a result."""
        self._result, self._ending = None, describe_interruption(type(error))

    def close(self, seconds: float) -> None:
        """End the span, and record the duration of the call; not of a replayed one, as in statistics."""
        try:
            self._backend.attempt(self._add_end)
        finally:  # also where an interrupt comes
            self._backend.attempt(self._span.end)
        if self._result is None or not self._result.replayed:
            self._backend.attempt(self._record_duration, seconds)

    def _add_end(self) -> None:
        span, ending = self._span, self._ending
        if not span.is_recording():
            return
        attributes = build_end_attributes(self._progress.call, ending, self._result)
        content = {} if self._content is None else self._content.build_attributes()
        span.set_attributes(attributes | content)
        if ending.error:
            span.set_status(StatusCode.ERROR, str(content.get("praval.call.error", "")) or None)
        if (name := EVENTS_BY_OUTCOME.get(ending.outcome)) is not None:
            shown = ("praval.call.outcome", "praval.decision.rule", "praval.approval.id")
            span.add_event(name, {key: attributes[key] for key in shown if key in attributes})

    def _record_duration(self, seconds: float) -> None:
        principal, ending = self._progress.principal, self._ending
        attributes = self._instruments.build_metric_attributes(
            None if principal is None else principal.agent, self._tool, ending
        )
        self._instruments.duration.record(seconds, attributes)
