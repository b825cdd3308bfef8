"""What was done of one call up to now, through all its attempts; and the interfaces of its recorder and tracer."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextvars import ContextVar
from typing import Any, Final, Protocol

import msgspec

from praval_tools.access.problems import RegistryProblem
from praval_tools.access.records import Principal
from praval_tools.access.state import AccessState, RegisteredPolicy
from praval_tools.execution.approvals import describe_approved_tool, write_exactly
from praval_tools.execution.engines.jobs import Job
from praval_tools.execution.event_loops import Work
from praval_tools.execution.limits import LimitPlace, Limits
from praval_tools.schema.coercion import Repair
from praval_tools.tools.argument_spellings import MarkedPlaces
from praval_tools.tools.call import ToolCall, ToolResult
from praval_tools.tools.decision import Ask, Decision
from praval_tools.tools.implementation import BoundArguments, ToolImplementation
from praval_tools.tools.tool import AnyTool

CallPipeline = Generator[Any, Any, ToolResult]
"""The steps of one call: yields the effects that a driver has to perform, and returns the result."""


remote_marked_values: Final[ContextVar[tuple[object, ...]]] = ContextVar("praval_tools_marked_values", default=())
"""What classes of another process mark as secret in the arguments of the call that is made in a context for it."""
remote_marked_places: Final[ContextVar[MarkedPlaces]] = ContextVar("praval_tools_marked_places", default=())
"""The same, as it is in the JSON of the arguments, each with its place there."""


class PolicyAnswers(msgspec.Struct, frozen=True, eq=False):
    """The answers of the policies to one call: a refusal, or the last request for an approval, or neither."""

    tool: AnyTool
    policies: tuple[RegisteredPolicy, ...]
    refusal: Decision | None
    approval: Ask | None


class StartedRun(Protocol):
    """What is known of the execution of a call: how often its function was entered, and the job that runs it on."""

    attempts: int
    job: Job | None


class CallProgress(msgspec.Struct, eq=False):
    """
    The progress of one call through all its attempts.

    Args:
        call: The call; it gets an id where something needs one.
        principal: The caller; None for the operator.
        sent_name: The tool's name as it was sent, where it means another one.
        attempts: How often the function was entered.
        spent_grants: Limited grants that the call has spent.
        stored_grants: Those of them that the journal's store has counted.
        limits_acquired: Whether it has its places under limits.
        limit_places: These places, to be released.
        left_jobs: The jobs of attempts that ran out of time, whose functions may still run.
        is_counted_in_run: Whether it is counted among the calls of its run already: it began there before.
        approval: What it was approved for: of the tool, by `describe_approved_tool`, and the arguments.
        was_asked_about: Whether a person was asked about it before, so that it needs an approval whatever the tool and
            the policies say now.
        judged_arguments: What the arguments became, until the function has been entered with it: the implementation
            that it is for, and the arguments with which that was approved, or None.
        failure: How the last attempt ended.
        approved_text: What the tool gets by the approval, as text.
        shown_arguments: The arguments as policies and approvers saw them, before an approver wrote others.
        coerced_arguments: The arguments after repairs, where they were coerced already.
        policy_answers: The answers of the policies, where they were asked before the pipeline began.
        refresh_state: Loads what other processes changed since a state, or which of the given counted grants they have
            used up; returns whether there was anything.
        before_hooks_called: Whether plugins were notified that it is about to run.
        notified_arguments: What they were shown of its arguments.
        marked_values: What classes mark as secret in the objects that were given as arguments, or in edits of them.
        marked_places: The same of the arguments, as it is in their JSON, each with its place there.
        known_result: The result that it had already, which is only recorded.
        is_async: Whether async code drives it.
    """

    call: ToolCall
    principal: Principal | None
    sent_name: str | None = None
    attempts: int = 0
    spent_grants: frozenset[str] = frozenset()
    stored_grants: frozenset[str] = frozenset()
    limits_acquired: bool = False
    limit_places: list[LimitPlace] = []
    left_jobs: list[Job] = []
    is_counted_in_run: bool = False
    approval: tuple[tuple[str, str, str], dict[str, Any]] | None = None
    was_asked_about: bool = False
    judged_arguments: tuple[ToolImplementation, dict[str, Any] | None, BoundArguments] | None = None
    failure: ToolResult | None = None
    approved_text: str | None = None
    shown_arguments: dict[str, Any] = {}
    coerced_arguments: tuple[ToolImplementation, dict[str, Any], tuple[Repair, ...]] | None = None
    policy_answers: PolicyAnswers | None = None
    refresh_state: Callable[[AccessState, frozenset[str]], bool] | None = None
    before_hooks_called: bool = False
    notified_arguments: dict[str, Any] | None = None
    marked_values: tuple[object, ...] = ()
    marked_places: MarkedPlaces = ()
    known_result: ToolResult | None = None
    is_async: bool = False

    @property
    def names_no_agent(self) -> bool:
        """Whether the call names no valid agent, and is refused for that; the operator's calls name none either."""
        return self.principal is None and self.known_result is not None

    def get_approved_arguments(self, tool: AnyTool) -> dict[str, Any] | None:
        """Return the arguments with which *tool*, as it is defined now, was approved, or None where it was not."""
        if self.approval is None or self.approval[0] != describe_approved_tool(tool):
            return None
        return self.approval[1]

    def is_approved_for(self, shown: dict[str, Any]) -> bool:
        """Tell whether the approval is for *shown*, what the tool gets; where it is not, it counts no more."""
        text = write_exactly(shown)
        if self.approved_text is None:  # made of arguments that the approver wrote
            self.approved_text = text
        if text != self.approved_text:
            self.approval = None
        return self.approval is not None

    def note_result(self, run: StartedRun, result: ToolResult) -> ToolResult | None:
        """Note how an attempt ended, in case of a retry; return how the one before did."""
        if run.job is not None:
            self.left_jobs.append(run.job)
        earlier, self.failure = self.failure, result
        self.judged_arguments = None  # the tool may have changed its own
        return earlier

    def cancel_limits(self, limits: Limits) -> None:
        """Give back the places under limits of a call that has not begun."""
        self.limits_acquired = False
        limits.cancel(self.limit_places)

    def release_limits(self, limits: Limits, run: StartedRun | None) -> None:
        """Release the places under limits once each function that was entered has ended; else there were none."""
        places = self.limit_places
        if not places:
            return
        jobs = [*self.left_jobs, *([] if run is None or run.job is None else [run.job])]
        if not jobs and (run is None or not run.attempts):
            limits.cancel(places)
        else:
            _call_after_jobs(jobs, lambda: limits.release(places))


def _call_after_jobs(jobs: Sequence[Job], callback: Callable[[], object]) -> None:
    """Call *callback* once all of the *jobs* have ended."""
    if not jobs:
        callback()
        return
    jobs[0].add_done_callback(lambda: _call_after_jobs(jobs[1:], callback))


class CallRecorder(Protocol):
    """Follows the calls of a registry: writes them into a journal, or counts them."""

    @property
    def has_open_runs(self) -> bool:
        """Whether calls may find what was recorded of them, and end their turn in a batch then."""
        ...

    def record_call(self, progress: CallProgress, steps: CallPipeline) -> CallPipeline:
        """Drive *steps*, the pipeline of one call, and record the outcome."""
        ...


class CallTracer(Protocol):
    """Traces the calls of a registry for its operator; `integrations.opentelemetry.tracing`."""

    def trace_call(self, progress: CallProgress, steps: CallPipeline) -> CallPipeline:
        """Drive *steps*, the pipeline of one call, inside a span."""
        ...

    def isolate_context(self, work: Work[ToolResult]) -> Work[ToolResult]:
        """Return *work* so that the span in which it runs is current in its own steps alone."""
        ...

    def describe_context(self) -> dict[str, str]:
        """Return the span that is the current one as texts, for another process; empty where there is none."""
        ...

    def list_problems(self) -> list[RegistryProblem]:
        """Return how the backend failed."""
        ...
