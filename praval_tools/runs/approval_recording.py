"""Records approval requests and their answers in the journal, and finds the recorded answer to an equal request."""

from __future__ import annotations

import warnings

from msgspec.structs import replace

from praval_tools.errors import JournalError, JournalWarning, get_user_stacklevel
from praval_tools.execution.effects import RequestApproval
from praval_tools.execution.runtime import Runtime
from praval_tools.journal.events import ApprovalAnswered, ApprovalAsked
from praval_tools.journal.redaction.redactor import Redactor
from praval_tools.journal.storage.protocol import Item, Record, Status
from praval_tools.journal.stored_approvals import OwnRequest, StoredApproval, StoredApprovals, end_request, to_answer
from praval_tools.runs.call_plans import CallPlans
from praval_tools.runs.call_records import CallRecordBuilder
from praval_tools.runs.event_writer import CallSteps, CallWriteState, EventWriter
from praval_tools.tools.call import ToolCall, ToolResult
from praval_tools.tools.decision import Allow, ApprovalAnswer, ApprovalEntry, ApprovalRequest


class ApprovalRecorder:
    """
    Records the approvals of one registry, and answers requests that were answered before, here or elsewhere.

    Args:
        runtime: The runtime of the registry.
        event_writer: Appends the records to the store.
        plans: Know what is secret in a tool's calls.
        redactor: Has the key of the digests.
    """

    def __init__(self, runtime: Runtime, event_writer: EventWriter, plans: CallPlans, redactor: Redactor) -> None:
        self._runtime, self._event_writer, self._plans = runtime, event_writer, plans
        self._stored = StoredApprovals(event_writer.store, runtime.clock)
        self._own_requests: dict[str, OwnRequest] = {}
        """Those that this process asked, by their ids."""
        self._own_answers: dict[str, ApprovalAnswer] = {}
        """The answers that this process gave to them, with their secrets."""
        self.make_digest = redactor.make_digest

    # ── calls ────────────────────────────────────────────────────────────────────────────────────

    def request_approval(self, write_state: CallWriteState, step: RequestApproval) -> CallSteps[ApprovalAnswer | None]:
        """Return the recorded answer to *step*, or pass the request on and record it and its answer."""
        request, builder = step.request, write_state.builder
        known = self._find_stored(request)
        if known is not None and (given := self._get_answer(known, request)) is not None:
            builder.add_edited_secrets(given)
            write_state.approval_id = known.asked.id
            return given
        record = _build_request_record(builder, request)
        if known is None or known.answered is not None or step.handler is not None:
            yield from self._event_writer.append(write_state, Item((record,)), "Nothing was run.")
            answer: ApprovalAnswer | None = yield step
            if answer is not None:
                builder.add_edited_secrets(answer)
                item = Item((_build_answer_record(builder, request, answer),))
                item = item if known is None else end_request(item, known.asked.id)
                yield from self._event_writer.append(write_state, item, "Nothing was run.")
                return answer
        write_state.waiting_request, step.is_recorded = (request, record), True
        return None

    def write_waiting_end(
        self, write_state: CallWriteState, result: ToolResult, item: Item, effect: str
    ) -> CallSteps[ToolResult]:
        """Append the end of a call that waits for an approval, and let its request wait, unless an equal one does."""
        if write_state.waiting_request is None:
            raise AssertionError("a call that waits has its request")
        request, record = write_state.waiting_request
        while True:
            known = self._find_stored(request)
            if known is not None and self._is_usable(known, request):
                yield from self._event_writer.append(write_state, item, effect, result.outcome)
                return replace(result, approval_id=known.asked.id)
            waiting_item = self._stored.build_waiting_item(item, record, request.digest, known)
            if waiting_item is None:
                continue
            answer = yield from self._event_writer.append(write_state, waiting_item, effect, result.outcome)
            if answer is None:  # the store failed, and the registry goes on without
                return replace(result, approval_id=self._runtime.approvals.add_pending(request).id)
            if answer.status is not Status.STALE:
                self._forget_ended()
                self._own_requests[request.id] = OwnRequest(request, write_state.builder.secrets)
                return result

    def _find_stored(self, request: ApprovalRequest) -> StoredApproval | None:
        """Return the request in the store that *request* repeats; None, with a warning, where a lenient store fails."""
        try:
            return self._stored.find_by_digest(request.digest)
        except JournalError as error:
            self._handle_read_error(error)
            return None

    def _handle_read_error(self, error: JournalError) -> None:
        """Warn of a store that cannot be read; raise *error* where the registry is not lenient."""
        if not self._event_writer.lenient:
            raise error
        _warn_of_journal(f"{error} Approvals of other processes are not seen.")

    def _get_answer(self, approval: StoredApproval, request: ApprovalRequest) -> ApprovalAnswer | None:
        return self._own_answers.get(approval.asked.id) or to_answer(approval, request)

    def _is_usable(self, approval: StoredApproval, request: ApprovalRequest) -> bool:
        return approval.answered is None or self._get_answer(approval, request) is not None

    # ── persons ──────────────────────────────────────────────────────────────────────────────────

    def list_entries(self) -> list[ApprovalEntry]:
        """Return the requests that have not expired and whose answers were not used, the oldest first."""
        entries = list[ApprovalEntry]()
        try:
            stored = self._stored.list_entries()
        except JournalError as error:
            self._handle_read_error(error)
            return []
        for entry in stored:
            own = self._own_requests.get(entry.request.id)
            answer = entry.answer and self._own_answers.get(entry.request.id, entry.answer)
            entries.append(ApprovalEntry(entry.request if own is None else own.request, answer))
        return entries

    def mark_used(self, request_id: str) -> None:
        """Count the answer to a request no more in this process: it was used, and that could not be written."""
        self._stored.mark_used(request_id)

    def list_answered(self, run_id: str) -> set[str]:
        """Return the ids of the calls of a run that waited and have an answer that was not used."""
        try:
            entries = self._stored.list_entries()
        except JournalError as error:
            self._handle_read_error(error)
            return set()
        return {one.request.tool_call_id for one in entries if one.request.run_id == run_id and one.answer is not None}

    def _forget_ended(self) -> None:
        """Forget the secrets of requests that are over."""
        now = self._runtime.clock.now()
        for request, _ in list(self._own_requests.values()):
            if request.expires > now and self._stored.is_known(request.id):
                continue
            self._own_requests.pop(request.id, None)
            self._own_answers.pop(request.id, None)

    def record_answer(self, request: ApprovalRequest, answer: ApprovalAnswer) -> bool:
        """Record an answer before it counts; False where the store failed, and it counts in this process alone."""
        call = ToolCall(request.tool_call_id, request.tool, None, request.agent, request.run_id, request.chain)
        plan = self._plans.get_redaction_plan(self._plans.find_tool(call))
        own_request = self._own_requests.get(request.id)
        try:
            self._stored.write_answer(request.id, answer, plan, own_request)
        except JournalError as error:
            if not self._event_writer.lenient:
                raise
            _warn_of_journal(f"{error} The answer counts all the same.")
            return False
        if own_request is not None:
            self._own_answers[request.id] = answer
        return True

    def find_given_answer(self, request: ApprovalRequest) -> ApprovalAnswer | None:
        """Return the answer that was given to a request, used or not."""
        return self._stored.find_given_answer(request)

def _warn_of_journal(text: str) -> None:
    warnings.warn(text, JournalWarning, stacklevel=get_user_stacklevel())


def _build_request_record(builder: CallRecordBuilder, request: ApprovalRequest) -> Record:
    query = builder.query
    digests = {} if query is None else {"call_digest": query.digest, "given": query.given_digest}
    return builder.build_record(ApprovalAsked(
        **{**builder.build_common_fields(), "id": request.id}, arguments=request.arguments,
        fingerprint=request.fingerprint, risk_level=request.risk_level, reason=request.reason,
        expires=request.expires, chain=request.chain, digest=request.digest, **digests, principal=builder.principal,
        parent_id=builder.call.parent_id, has_given_id=builder.has_given_id, position=builder.position,
        after=builder.after, task=builder.task,
        secret_arguments=builder.plan.redaction_plan.find_secret_arguments(request.arguments, builder.secrets),
    ))  # fmt: skip


def _build_answer_record(builder: CallRecordBuilder, request: ApprovalRequest, answer: ApprovalAnswer) -> Record:
    edited = dict(answer.arguments) if isinstance(answer, Allow) and answer.arguments is not None else None
    return builder.build_record(ApprovalAnswered(
        **builder.build_common_fields(), answer="allow" if isinstance(answer, Allow) else "deny", by=answer.by,
        reason=answer.reason, fingerprint=request.fingerprint, arguments=edited, digest=request.digest,
        expires=request.expires, approval_id=request.id,
    ))  # fmt: skip
