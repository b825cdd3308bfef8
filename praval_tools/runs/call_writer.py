"""Makes the start of a call durable, if its decision still holds, and its end, and returns the result that counts."""

from __future__ import annotations

from copy import copy
from functools import partial
from typing import Final

from msgspec.structs import replace

from praval_tools.access import events
from praval_tools.errors import JournalError
from praval_tools.execution.context import SCOPE, activate_frame, make_frame
from praval_tools.execution.effects import RunTool
from praval_tools.execution.failures import get_error_type_name, read_error_secrets
from praval_tools.execution.results import build_tool_error_result
from praval_tools.execution.runtime import Runtime
from praval_tools.journal.redaction.redactor import RedactionPlan
from praval_tools.journal.redaction.short_secrets import has_short_secrets
from praval_tools.journal.replay_entry import FINAL_OUTCOMES
from praval_tools.journal.storage.protocol import INTENT, Answer, Item, Record, Status
from praval_tools.journal.stored_approvals import end_request, is_answer_used, use_answer
from praval_tools.names import describe_error, get_plain_type, has_type
from praval_tools.runs import call_records
from praval_tools.runs.approval_recording import ApprovalRecorder
from praval_tools.runs.event_writer import CallSteps, CallWriteState, EventWriter, warn_of_lost_result
from praval_tools.runs.recorded_results import build_replayed_result
from praval_tools.schema.encode import encode
from praval_tools.schema.json_values import SCALAR_TYPES
from praval_tools.schema.union_members import NOT_READ_BACK
from praval_tools.schema.written_secrets import find_written_secrets
from praval_tools.tools.call import Outcome, ToolResult
from praval_tools.tools.return_values import write_complete

_NO_GRANTS: Final[frozenset[str]] = frozenset()
_OK: Final = Outcome.OK  # looking up a member of an enumeration is slow
_DONE, _EXISTS = Status.DONE, Status.EXISTS


class CallWriter:
    """
    Writes the records of the calls of one registry.

    Args:
        runtime: The runtime of the registry.
        event_writer: Appends the records to the store.
        approvals: Lets requests for approvals wait.
        is_intent_only: Nobody waits until a result is durable, nor until the start of a read-only tool is.
    """

    def __init__(
        self, runtime: Runtime, event_writer: EventWriter, approvals: ApprovalRecorder, *, is_intent_only: bool
    ) -> None:
        self._runtime, self._event_writer, self._is_intent_only = runtime, event_writer, is_intent_only
        self._approvals = approvals
        self._store = event_writer.store

    # ── the start ────────────────────────────────────────────────────────────────────────────────

    def write_start(self, write_state: CallWriteState, run: RunTool) -> CallSteps[bool]:
        """Make the start durable; return False where the decision is out of date and has to be taken again."""
        unspent = run.counted_grants - write_state.spent_grants if run.path.grants else _NO_GRANTS
        has_unspent = bool(unspent) or write_state.approval_id is not None
        was_executed = write_state.last_execution is not None
        if write_state.start_written and run.attempts == 0 and was_executed and not has_unspent:
            return True
        if write_state.run is not None:
            write_state.run.lease.check()
        attempt = None if write_state.start_written or run.attempts else INTENT
        record = call_records.build_start_record(write_state.builder, run, attempt)
        if self._is_intent_only and run.tool.metadata.read_only is True and not has_unspent and run.attempts == 0:
            if self._store.revision() != run.state.revision:
                self._runtime.access_store.load_other_changes()
                return False
            write_state.deferred_start = record
            return True
        item = Item((record,), run.state.revision, tuple(sorted(unspent)))
        item = item if write_state.approval_id is None else use_answer(item, write_state.approval_id)
        try:
            answer = yield from self._event_writer.append(write_state, item, "Nothing was run.")
        except JournalError:
            raise
        except BaseException as error:
            is_written = attempt is None or write_state.entry is None or write_state.entry.status == "doubt"
            start = None if is_written else record
            yield from self.write_interruption(write_state, run, error, entered=run.attempts > 0, unwritten_start=start)
            raise
        if answer is not None and answer.status is not _DONE:
            self._handle_refused_start(write_state, answer)
            return False
        if answer is None:
            write_state.deferred_start = write_state.deferred_start or record  # written with the result
            if write_state.approval_id is not None:
                self._approvals.mark_used(write_state.approval_id)
        else:
            write_state.stored_grants |= unspent
            write_state.approval_id = None
        write_state.start_written, write_state.spent_grants = True, write_state.spent_grants | unspent
        return True

    def _handle_refused_start(self, write_state: CallWriteState, answer: Answer) -> None:
        """Load what is newer in the store than the decision on which the start was based."""
        approval_id = write_state.approval_id
        if answer.status is Status.EXHAUSTED and approval_id is not None and is_answer_used(answer.grant, approval_id):
            write_state.approval_id = None
            write_state.is_approval_lost = True
        elif answer.status is Status.EXHAUSTED:
            calls_left = {answer.grant or "": 0}
            self._runtime.access_store.commit(lambda _: [events.GrantsCounted(left=calls_left)], outside_draft=True)
        elif answer.status is Status.STALE:  # of many stale calls, the first loads what all of them lack
            self._runtime.access_store.load_other_changes(answer.revision)
        else:
            raise JournalError(
                self._store.name,
                f"call {write_state.builder.call.tool_call_id!r} is recorded there already",
                "Open the run anew.",
            )

    # ── the end ──────────────────────────────────────────────────────────────────────────────────

    def write_interruption(
        self, write_state: CallWriteState, run: RunTool, error: BaseException, *, entered: bool,
        unwritten_start: Record | None = None,
    ) -> CallSteps[None]:  # fmt: skip
        """
        Record that the caller was interrupted; a call in doubt whose function was not *entered* stays in doubt.

        Args:
            write_state: Of the call.
            run: The execution of its tool.
            error: The interrupt.
            entered: Whether the tool was entered.
            unwritten_start: The start of the call, where the store is not known to have it: it says what was called.
        """
        if not entered and write_state.initial_status == "doubt":
            return
        record = call_records.build_interruption_record(write_state.builder, run, entered, error)
        item = write_state.build_end_item(record)
        if unwritten_start is not None:
            start = Item((unwritten_start,))
            self._event_writer.submit(start, write_state.run)  # which the store does not take a second time
            self._event_writer.update_run(write_state, start)
        if has_type(error, GeneratorExit):  # nothing can be waited for
            self._event_writer.submit(item, write_state.run)
            if entered:
                self._event_writer.count_call(Outcome.CANCELLED, record)
            self._event_writer.update_run(write_state, item)
            return
        outcome = Outcome.CANCELLED if entered else None
        try:
            yield from self._event_writer.append(write_state, item, "It was stopped.", outcome)
        except JournalError as store_error:  # the caller gets the interruption, which matters more
            warn_of_lost_result(store_error)
        except BaseException:  # once more; the store has the item all the same
            self._event_writer.update_run(write_state, item, outcome)
            raise

    def write_result(self, write_state: CallWriteState, result: ToolResult) -> CallSteps[ToolResult]:
        """Record *result* as the end of a call that started, or else as a refusal, and return the result to be used."""
        is_released = write_state.entry is not None and write_state.entry.is_released
        never_started = write_state.deferred_start is None and (is_released or not write_state.start_written)
        if never_started or (write_state.was_started_before and not write_state.may_have_run):
            return (yield from self.write_refusal(write_state, result))
        value, members, result = _encode_result(write_state, result)
        entry = write_state.entry
        next_attempt = 1 if entry is None else entry.next_attempt
        attempt = next_attempt if result.outcome in FINAL_OUTCOMES else None
        detail = self._get_error_detail(write_state, result)
        record = call_records.build_end_record(write_state.builder, result, value, detail, attempt, members)
        item = write_state.build_end_item(record)
        if write_state.waiting_request is not None:
            return (yield from self._approvals.write_waiting_end(write_state, result, item, "Nothing was run."))
        if self._is_intent_only and write_state.deferred_start is None:
            self._event_writer.submit(item, write_state.run)
            self._event_writer.count_call(result.outcome, record, result.latency_ms)
            self._event_writer.update_run(write_state, item, result.outcome)
            return result
        call = write_state.builder.call
        effect = f"Tool {call.name!r} ran; the result of call {call.tool_call_id!r} is not recorded: it is in doubt."
        answer = yield from self._event_writer.append(
            write_state, item, effect, result.outcome, latency=result.latency_ms
        )
        if answer is None or answer.status is not _EXISTS or entry is None:
            return result
        entry.apply_record(next(record for record in answer.found if record.attempt == attempt))
        tool = None if write_state.last_execution is None else write_state.last_execution.tool
        max_size = None if tool is None else self._runtime.get_max_result_size(tool)
        return build_replayed_result(entry, call.tool_call_id, tool, max_size)

    def write_refusal(self, write_state: CallWriteState, result: ToolResult) -> CallSteps[ToolResult]:
        """Record a call that ended before its tool started, and return the result to be used."""
        entry = write_state.entry
        ends_call = not write_state.was_started_before or result.outcome is Outcome.APPROVAL_DENIED
        is_final = ends_call and result.outcome in FINAL_OUTCOMES
        attempt = entry.next_attempt if entry is not None and is_final else None
        item = write_state.build_end_item(call_records.build_refusal_record(write_state.builder, result, attempt))
        if write_state.waiting_request is not None:
            return (yield from self._approvals.write_waiting_end(write_state, result, item, "Nothing was run."))
        if result.outcome is Outcome.APPROVAL_DENIED and result.approval_id is not None:
            item = end_request(item, result.approval_id)
        yield from self._event_writer.append(write_state, item, "Nothing was run.", result.outcome)
        return result

    def record_late_end(self, write_state: CallWriteState, run: RunTool, result: ToolResult) -> None:
        """Have the end of a function recorded that still runs after the time-out of its call."""
        job = run.job
        if job is None or result.outcome is not Outcome.TIMEOUT:
            return

        def write_late_result() -> None:
            try:
                submit_late_result()
            finally:
                self._runtime.unrecorded_calls.pop()

        def submit_late_result() -> None:
            value: object = None
            late_state = replace(write_state, builder=copy(write_state.builder))  # the time-out may be written just now
            error: BaseException | None = job.error
            if error is None:
                try:
                    value, _, _ = _encode_value(late_state, run, replace(result, result=job.value))
                except (Exception, SystemExit) as encoding_error:  # the result may run code of its own
                    error = encoding_error
            text, type_name = None, None
            if error is not None:
                _add_error_secrets(late_state, run, error)
                with activate_frame(make_frame(run.frame[SCOPE])):
                    text, type_name = describe_error(error), get_error_type_name(run.tool.name, error)
            record = call_records.build_late_result_record(late_state.builder, value, text, type_name)
            self._event_writer.submit(Item((record,)), write_state.run)

        self._runtime.unrecorded_calls.append(None)
        job.add_done_callback(write_late_result)

    def _get_error_detail(self, write_state: CallWriteState, result: ToolResult) -> str | None:
        """Return the message of a tool's error, or why a worker refused the call, where the result does not show it."""
        run, error = write_state.last_execution, result.exception
        if result.decision is not None and not result.decision.allowed:
            return result.decision.reason
        if run is None or error is None or result.outcome is not Outcome.TOOL_ERROR:
            return None
        if (run.tool.metadata.errors or self._runtime.options.errors) != "masked":
            return None
        with activate_frame(make_frame(run.frame[SCOPE])):
            message = describe_error(error)
        return None if message == result.error else message


def _encode_result(write_state: CallWriteState, result: ToolResult) -> tuple[object, tuple[str, ...], ToolResult]:
    """Return what `_encode_value` does; nothing and a `tool_error` where the value has no JSON form."""
    run = write_state.last_execution
    if result.outcome is not _OK or run is None:
        if result.exception is not None and run is not None:
            _add_error_secrets(write_state, run, result.exception)
        return None, (), result
    try:
        return _encode_value(write_state, run, result)
    except (Exception, SystemExit) as error:  # the result may run code of its own
        _add_error_secrets(write_state, run, error)
        return None, (), replace(
            build_tool_error_result(run, error, 0.0), tool_call_id=result.tool_call_id, latency_ms=result.latency_ms
        )


def _encode_value(
    write_state: CallWriteState, run: RunTool, result: ToolResult
) -> tuple[object, tuple[str, ...], ToolResult]:
    """Return the value of *result* as JSON, which members of unions wrote it, and the result with what was read."""
    builder, marked_values = write_state.builder, list[object]()
    try:
        return write_run_value(run, result, builder.plan.redaction_plan, marked_values)
    finally:
        if marked_values:
            builder.secrets = builder.plan.redaction_plan.mark_secrets(marked_values, builder.secrets)


def _add_error_secrets(write_state: CallWriteState, run: RunTool, error: BaseException) -> None:
    """Replace what classes mark as secret in what the function raised in all later records of the call."""
    if values := read_run_error_secrets(run, error):
        builder = write_state.builder
        builder.secrets = builder.plan.redaction_plan.mark_secrets(values, builder.secrets)


def read_run_error_secrets(run: RunTool, error: BaseException) -> list[object]:
    """Return what classes mark as secret in what a call that ran raised, and in what was handed on to it."""
    return [*run.marked_values, *read_error_secrets(error)]


def write_run_value(
    run: RunTool, result: ToolResult, plan: RedactionPlan, marked_values: list[object]
) -> tuple[object, tuple[str, ...], ToolResult]:
    """
    Return the value of a call that ran as JSON, what is needed to read it, and the result with what was read.

    That has a copy of the value, whose iterators are read: the caller gets what is recorded.

    Args:
        run: The call.
        result: Its result.
        plan: Hides what is too short to be found, where an object is of another class than the schema knows.
        marked_values: Receives what classes mark as secret in the value, also where it cannot be written.

    Raises:
        Unencodable: It has no JSON form; its own code, and iterators, may raise anything else.
    """
    marked_values += run.marked_values
    if get_plain_type(result.result) in SCALAR_TYPES:  # cannot run code of its own
        return *_encode_run_value(run, result.result), result
    with activate_frame(make_frame(run.frame[SCOPE])):
        value, written, members = write_complete(result.result, partial(_encode_run_value, run), marked_values)
        if has_short_secrets(marked_values):
            written = plan.hide_result_places(written, find_written_secrets(value, written))
        return written, members, replace(result, result=value)


def _encode_run_value(run: RunTool, value: object) -> tuple[object, tuple[str, ...]]:
    if run.stays_json:
        return encode(value, takes_subclasses=True), NOT_READ_BACK
    return run.tool.implementation.compiled.write_result(value)
