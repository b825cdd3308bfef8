"""Approvals in the journal: records requests and answers, and finds the recorded answer for a replayed call."""

from __future__ import annotations

import warnings
from datetime import datetime
from typing import Final

import msgspec

from praval_tools.errors import JournalError, JournalWarning, get_user_stacklevel
from praval_tools.execution.effects import RequestApproval
from praval_tools.execution.runtime import Runtime
from praval_tools.journal.codec import build_body_decoder
from praval_tools.journal.events import ApprovalAnswered, ApprovalAsked
from praval_tools.journal.redaction.redactor import MARKER_PATTERN
from praval_tools.journal.replay import ReplayEntry, compute_digest
from praval_tools.journal.storage.protocol import Item, Record
from praval_tools.journal.value_codec import unpack_value
from praval_tools.runs.call_records import CallRecordBuilder
from praval_tools.runs.event_writer import CallSteps, CallWriteState, EventWriter
from praval_tools.runs.matching import CallMatcher
from praval_tools.tools.call import ToolCall
from praval_tools.tools.decision import Allow, ApprovalRequest, Deny


class ApprovalRecorder:
    """
    Records the approvals of one registry, and answers requests that were answered before.

    Args:
        runtime: The runtime of the registry.
        event_writer: Appends the records to the store.
        matcher: Knows the open runs, and what is secret in a tool's calls.
    """

    def __init__(self, runtime: Runtime, event_writer: EventWriter, matcher: CallMatcher) -> None:
        self._runtime, self._event_writer, self._matcher = runtime, event_writer, matcher

    def request_approval(self, write_state: CallWriteState, step: RequestApproval) -> CallSteps[Allow | Deny | None]:
        """Return the recorded answer to *step*, or pass the request on and record it and its answer."""
        recorded_answer = find_recorded_answer(write_state.builder, write_state.entry, step.request)
        if recorded_answer is not None:
            return recorded_answer
        record = _build_request_record(write_state.builder, step.request)
        yield from self._event_writer.append(write_state, Item((record,)), "Nothing was run.")
        answer: Allow | Deny | None = yield step
        if answer is not None:
            record = _build_answer_record(write_state.builder, step.request, answer)
            yield from self._event_writer.append(write_state, Item((record,)), "Nothing was run.")
        return answer

    def record_answer(self, request: ApprovalRequest, answer: Allow | Deny) -> None:
        """Record an answer that comes after the call has ended as `approval_required`, before the answer counts."""
        call = ToolCall(request.tool_call_id, request.tool, None, request.agent, request.run_id, request.chain)
        plan = self._matcher.get_redaction_plan(self._matcher.find_tool(call))
        secrets = plan.redact_arguments(request.arguments)[1]
        record = _build_answer_record(
            CallRecordBuilder(call, plan, self._runtime.clock, None, secrets), request, answer
        )
        try:
            (store_answer,) = self._event_writer.store.append([Item((record,))])
            if store_answer.error is not None:
                raise store_answer.error
        except JournalError as error:
            if not self._event_writer.lenient:
                raise
            warnings.warn(f"{error} The answer counts all the same.", JournalWarning, stacklevel=get_user_stacklevel())
        run = self._matcher.open_runs.get(request.run_id or "")
        if run is not None:
            run.recording.apply_record(record)


def _build_request_record(builder: CallRecordBuilder, request: ApprovalRequest) -> Record:
    return builder.build_record(ApprovalAsked(
        **builder.build_common_fields(), arguments=request.arguments, fingerprint=request.fingerprint,
        risk_level=request.risk_level, reason=request.reason, expires=request.expires,
    ))  # fmt: skip


def _build_answer_record(builder: CallRecordBuilder, request: ApprovalRequest, answer: Allow | Deny) -> Record:
    edited = dict(answer.arguments) if isinstance(answer, Allow) and answer.arguments is not None else None
    return builder.build_record(ApprovalAnswered(
        **builder.build_common_fields(), answer="allow" if isinstance(answer, Allow) else "deny", by=answer.by,
        reason=answer.reason, fingerprint=request.fingerprint, arguments=edited,
        digest=_compute_request_digest(builder, request), expires=request.expires,
    ))  # fmt: skip


def _compute_request_digest(builder: CallRecordBuilder, request: ApprovalRequest) -> str:
    """Return the digest of what an approver is shown."""
    return compute_digest([builder.redaction_plan.redact_arguments(request.arguments)[0], list(request.chain)])


class _RecordedAnswer(msgspec.Struct):
    answer: str
    by: str = ""
    reason: str = ""
    fingerprint: str = ""
    arguments: object = None
    digest: str = ""
    expires: datetime | None = None


# built on import: msgspec may crash where several threads build a decoder of one type at the same time
_decode_answer: Final = build_body_decoder(_RecordedAnswer)


def find_recorded_answer(
    builder: CallRecordBuilder, entry: ReplayEntry | None, request: ApprovalRequest
) -> Allow | Deny | None:
    """Return the recorded answer to an equal request, if there is one that has not expired."""
    if entry is None or entry.approval is None:
        return None
    recorded = _decode_answer(entry.approval.body)
    if (recorded.fingerprint, recorded.digest) != (request.fingerprint, _compute_request_digest(builder, request)):
        return None
    if recorded.expires is not None and recorded.expires <= builder.clock.now():
        return None
    if recorded.answer != "allow":
        return Deny(recorded.reason, recorded.by)
    if MARKER_PATTERN.search(str(recorded.arguments)):  # a secret in edited arguments cannot be read back
        return None
    edited = None if recorded.arguments is None else unpack_value(recorded.arguments)
    return Allow(edited, recorded.by, recorded.reason)
