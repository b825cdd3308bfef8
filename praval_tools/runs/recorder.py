"""The pipeline of a call with a journal around it: found or begun, written ahead, run, written down."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from typing import Any, Literal

from msgspec.structs import replace

from praval_tools.access import events
from praval_tools.access.records import Principal
from praval_tools.errors import JournalError, JournalWarning, get_user_stacklevel
from praval_tools.execution.context import SCOPE, activate_frame, make_frame
from praval_tools.execution.effects import AppendToJournal, RequestApproval, RunTool
from praval_tools.execution.failures import get_error_type_name
from praval_tools.execution.fast_path import FastPathMiss
from praval_tools.execution.progress import CallPipeline, CallProgress
from praval_tools.execution.results import build_failure_result, build_tool_error_result
from praval_tools.execution.runtime import Runtime
from praval_tools.journal.redaction.redactor import Redactor
from praval_tools.journal.replay import FINAL_OUTCOMES, ReplayEntry
from praval_tools.journal.stats import UsageStats
from praval_tools.journal.storage.protocol import INTENT, Answer, Item, Status, Store
from praval_tools.names import describe_error
from praval_tools.runs import call_records
from praval_tools.runs.event_writer import (
    AppendOutcome,
    CallWriteState,
    EventWriter,
    can_match_again,
    warn_of_lost_result,
)
from praval_tools.runs.fast_recording import JournaledFastCall, JournaledFastPaths, ReplayContext
from praval_tools.runs.matching import CallMatcher, check_fingerprint, with_parent_id
from praval_tools.runs.open_run import OpenRun, current_run, use_run
from praval_tools.schema.json_values import SCALAR_TYPES
from praval_tools.tools.call import Outcome, ToolCall, ToolResult
from praval_tools.tools.decision import Allow, ApprovalRequest, Deny
from praval_tools.tools.tool import Tool

Durability = Literal["full", "intent"]


class Recorder:
    """
    Writes what happens to the calls of one registry, and gives recorded results back.

    Args:
        runtime: The registry's.
        store: Where to; None: calls are only counted.
        redactor: What is secret.
        stats: Counts the calls.
        durability: `intent`: results are not waited for.
        lenient: Go on where the store fails, with a warning.
    """

    def __init__(
        self, runtime: Runtime, store: Store, redactor: Redactor, stats: UsageStats,
        *, durability: Durability, lenient: bool,
    ) -> None:  # fmt: skip
        self.runtime, self.store, self.stats = runtime, store, stats
        self.redactor, self._is_intent_only, self.lenient = redactor, durability == "intent", lenient
        self._event_writer = EventWriter(store, stats, lenient=lenient)
        self.matcher = CallMatcher(runtime, redactor)
        self._fast_paths = JournaledFastPaths(runtime, self.matcher)
        self.open_runs = self.matcher.open_runs

    # ── finding ──────────────────────────────────────────────────────────────────────────────────

    def record_call(self, course: CallProgress, steps: CallPipeline) -> CallPipeline:
        """Drive *steps*, the pipeline of one call, with everything written down; or give the recorded result back."""
        self.runtime.access_store.refuse_calls()
        course.refresh_state, given = self._refresh_state, course.call
        call = course.call = call_records.with_writable_ids(given)
        short = (
            None
            if self._is_intent_only
            else self._fast_paths.find_fast_call(call, course.principal, awaited=course.is_async)
        )
        run = self.matcher.find_run(self, call)
        if run is None:
            result: ToolResult = yield from self._record_outside_run(course, steps, short)
        else:
            try:
                run.active_calls.append(None)
                run.check_open()
                result = yield from self._replay_or_record(course, steps, short, run)
            finally:
                run.active_calls.pop()
                run.release_if_idle()
        if call is given or given.tool_call_id is None:
            return result
        return replace(result, tool_call_id=given.tool_call_id)

    def try_replay(self, call: ToolCall, principal: Principal | None, *, is_async: bool) -> ToolResult | None:
        """
        Return the recorded result of a call that repeats one of its run by its content, without the pipeline.

        Returns:
            None: it must be looked for as every call is; so must all that follow the first that is not recorded.
        """
        run = current_run.get()
        if run is None or run.recorder is not self or not run.recording.may_match_completed or run.strict_fingerprint:
            return None
        self.runtime.access_store.refuse_calls()
        if call.tool_call_id is not None or call.run_id is not None:
            return None
        short = self._fast_paths.find_fast_call(call_records.with_writable_ids(call), principal, awaited=is_async)
        if short is None:
            return None
        try:
            run.active_calls.append(None)
            run.check_open()
            entry = run.recording.match_completed(short.build_request(call))
            if entry is None:
                return None
            path = short.fast_path
            return call_records.build_replayed_result(entry, entry.call_id, path.tool, path.fast_path.max_result_size)
        finally:
            run.active_calls.pop()
            run.release_if_idle()

    def _record_outside_run(
        self, course: CallProgress, steps: CallPipeline, short: JournaledFastCall | None
    ) -> CallPipeline:
        """Drive a call outside of runs."""
        course.call = call = with_parent_id(course.call.with_id())
        if short is not None:
            return (yield from self._record_fast(course, steps, short, ReplayContext()))
        plan = self.matcher.get_redaction_plan(self.matcher.find_tool(call))
        return (
            yield from self._drive_and_record(
                course, steps, CallWriteState(call_records.CallRecordBuilder(call, plan, self.runtime.clock))
            )
        )

    def _replay_or_record(
        self, course: CallProgress, steps: CallPipeline, short: JournaledFastCall | None, run: OpenRun
    ) -> CallPipeline:
        """Give the recorded result of a call of *run* back, or drive *steps* for one that has none."""
        call, mended = course.call, None
        if short is not None:
            tool: Tool[..., Any] | None = short.fast_path.tool
            request = short.build_request(call)
        else:
            tool = self.matcher.find_tool(call)
            request, mended = self.matcher.build_request(call, tool)
        held: list[ReplayEntry] = []
        try:
            entry = run.recording.find_or_create_entry(request, self.runtime.clock.new_id, held=held)
            if not held:
                yield from self.matcher.claim_entry(run, entry, held=held)
            if run.strict_fingerprint:
                check_fingerprint(run, entry, request)
            before, own = entry.status, call.tool_call_id or entry.call_id
            if before == "done":
                return call_records.build_replayed_result(
                    entry, own, tool, None if tool is None else self.runtime.get_max_result_size(tool)
                )
            course.call = ToolCall(
                entry.call_id, call.name, call.arguments, call.agent, run.run_id, call.on_behalf_of, request.parent_id,
                call.reason, call.engine,
            )  # fmt: skip
            place = ReplayContext(run, entry, request)
            if short is not None and before == "new":
                result: ToolResult = yield from self._record_fast(course, steps, short, place)
            else:
                course.coerced_arguments = mended
                result = yield from self._record_in_run(course, steps, place, tool)
            if can_match_again(before, entry.status):
                run.recording.release_match(entry)
            return result if own == entry.call_id else replace(result, tool_call_id=own)
        finally:
            for one in held:
                run.recording.release(one)

    def _record_in_run(
        self, course: CallProgress, steps: CallPipeline, place: ReplayContext, tool: Tool[..., Any] | None
    ) -> CallPipeline:
        """Drive a call that has no result yet, unless it is in doubt."""
        note = call_records.CallRecordBuilder(
            course.call, self.matcher.get_redaction_plan(tool), self.runtime.clock, place.request
        )
        entry = place.entry
        if entry is None:
            raise AssertionError("a call of a run has its entry")
        book = CallWriteState(note, place.run, entry, initial_status=entry.status)
        if entry.status == "doubt" and not (tool is not None and tool.metadata.idempotent is True):
            doubtful = call_records.build_in_doubt_result(entry, course.call)
            yield from self._write_refusal(book, doubtful)
            return doubtful
        book.start_written = entry.attempts >= INTENT
        return (yield from self._drive_and_record(course, steps, book))

    def _refresh_state(self) -> bool:
        """Take over what other processes changed, before a call is refused by what is old; False: nothing."""
        try:
            if self.store.revision() == self.runtime.access_store.state.revision:
                return False
            self.runtime.access_store.load_other_changes()
        except JournalError:  # writing the refusal down will say so
            return False
        return True

    # ── the short road ───────────────────────────────────────────────────────────────────────────

    def _record_fast(
        self, course: CallProgress, steps: CallPipeline, short: JournaledFastCall, place: ReplayContext
    ) -> CallPipeline:
        """Write, run and write one call; where something unusual happens, *steps* take over."""
        call, entry = course.call, place.entry
        record = short.build_start_record(call, place.request)
        if record is None:
            return (yield from self._drive_and_record(course, steps, self._build_fallback_state(course, short, place)))
        met: Any = None
        item = Item((record,), short.fast_path.fast_path.state.revision)
        try:
            met = yield AppendToJournal(self.store, item)
        except BaseException as error:  # looked at below
            met = error
        if type(met) is not Answer or met.status is not Status.DONE:
            return (yield from self._recover_start(course, steps, short, place, item, met))
        if entry is not None:
            entry.mark_started(record)
        started, failed = self.runtime.clock.monotonic(), None
        try:
            with use_run(place.run):
                value = yield short.build_enter_effect(call)
        except BaseException as error:  # looked at below
            value, failed = None, error
        if failed is not None:
            raised = None if isinstance(failed, FastPathMiss) else failed
            return (yield from self._recover_execution(course, steps, short, place, raised, started))
        result = short.build_result(call, value, self.runtime.clock.monotonic() - started)
        record = short.build_end_record(call, result)
        if record is None:
            return (
                yield from self._write_result(
                    self._build_fallback_state(course, short, place, short.build_execution(call, 1)), result
                )
            )
        item = Item((record,))
        try:
            met = yield AppendToJournal(self.store, item)
        except BaseException as error:  # looked at below
            met = error
        if type(met) is not Answer or met.status is not Status.DONE:
            book = self._build_fallback_state(course, short, place, short.build_execution(call, 1))
            return (yield from self._append_end(book, result, item, met))
        self._event_writer.count_call(Outcome.OK, record, result.latency_ms)
        if entry is not None:
            entry.mark_ended(record, Outcome.OK)
        return result

    def _build_fallback_state(
        self, course: CallProgress, short: JournaledFastCall, place: ReplayContext, run: RunTool | None = None
    ) -> CallWriteState:
        """Return the book of a call that leaves the short road, after its start was written where there is a *run*."""
        course.coerced_arguments = short.fast_path.definition, short.arguments, ()
        note = call_records.CallRecordBuilder(
            course.call, short.fast_path.redaction_plan, self.runtime.clock, place.request
        )
        return CallWriteState(note, place.run, place.entry, start_written=run is not None, last_execution=run)

    def _recover_start(
        self,
        course: CallProgress,
        steps: CallPipeline,
        short: JournaledFastCall,
        place: ReplayContext,
        item: Item,
        met: Any,
    ) -> CallPipeline:
        """Go on with a call whose start was not simply written."""
        book, run = self._build_fallback_state(course, short, place), short.build_execution(course.call, 0)
        if (yield from self._append_start(book, run, item, append_outcome=met)):
            book.last_execution = run
        return (yield from self._drive_and_record(course, steps, book))

    def _recover_execution(
        self,
        course: CallProgress,
        steps: CallPipeline,
        short: JournaledFastCall,
        place: ReplayContext,
        error: BaseException | None,
        started: float,
    ) -> CallPipeline:
        """Go on with a call that was not admitted, or whose function did not return."""
        run = short.build_execution(course.call, 0 if error is None else 1)
        book = self._build_fallback_state(course, short, place, run)
        if error is None:
            return (yield from self._drive_and_record(course, steps, book))
        if isinstance(error, Exception | SystemExit):
            return (yield from self._write_result(book, build_failure_result(run, error, started)))
        yield from self._write_interruption(book, run, error, entered=True)
        raise error

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    def _drive_and_record(self, course: CallProgress, steps: CallPipeline, book: CallWriteState) -> CallPipeline:
        """Drive *steps*, and write down what they come to."""
        answer: Any = None
        try:
            while True:
                try:
                    step = steps.send(answer)
                except StopIteration as end:
                    result: ToolResult = end.value
                    break
                if isinstance(step, RunTool):
                    answer = yield from self._execute(book, step)
                elif isinstance(step, RequestApproval):
                    answer = yield from self._request_approval(book, step)
                else:
                    answer = yield step
        finally:
            steps.close()
        if course.call.tool_call_id == result.tool_call_id and book.last_execution is not None:
            self._record_late_end(book, book.last_execution, result)
        return (yield from self._write_result(book, result))

    def _execute(self, book: CallWriteState, run: RunTool) -> Generator[Any, Any, ToolResult | None]:
        if not (yield from self._write_start(book, run)):
            return None
        before, book.last_execution, run.stored_grants = run.attempts, run, book.stored_grants
        try:
            with use_run(book.run):
                result: ToolResult | None = yield run
        except BaseException as error:
            yield from self._write_interruption(book, run, error, entered=run.attempts > before or run.job is not None)
            raise
        return result

    def _write_interruption(
        self, book: CallWriteState, run: RunTool, error: BaseException, *, entered: bool
    ) -> Generator[Any, Any, None]:
        """Write down that something stopped the caller; where nobody entered the function, it stands as before."""
        if not entered and book.initial_status == "doubt":
            return
        record = call_records.build_interruption_record(book.builder, run, entered, error)
        item = Item((record,) if book.deferred_start is None else (book.deferred_start, record))
        if isinstance(error, GeneratorExit):  # nothing can be waited for
            self._event_writer.submit(item)
            if entered:
                self._event_writer.count_call(Outcome.CANCELLED, record)
            self._event_writer.update_run(book, item)
            return
        try:
            if entered:
                yield from self._event_writer.write_end(book, item, "It was stopped.", Outcome.CANCELLED)
            else:
                yield from self._event_writer.append(book, item, "It was stopped.")
        except JournalError as failed:  # what stopped the caller is what it is to learn
            warn_of_lost_result(failed)

    def _write_start(self, book: CallWriteState, run: RunTool) -> Generator[Any, Any, bool]:
        """Make the start durable; False: what decided has changed, the call is to be decided again."""
        counted = (one.grant.id for one in run.path.grants if one.grant.max_calls is not None and one.stored)
        owed = frozenset(counted) - book.spent_grants if run.path.grants else frozenset[str]()
        if book.start_written and run.attempts == 0 and book.last_execution is not None and not owed:
            return True
        attempt = None if book.start_written or run.attempts else INTENT
        record = call_records.build_start_record(book.builder, run, attempt)
        if self._is_intent_only and run.tool.metadata.read_only is True and not owed and run.attempts == 0:
            if self.store.revision() != run.state.revision:
                self.runtime.access_store.load_other_changes()
                return False
            book.deferred_start = record
            return True
        item = Item((record,), run.state.revision, tuple(sorted(owed)))
        return (yield from self._append_start(book, run, item, owed))

    def _append_start(
        self,
        book: CallWriteState,
        run: RunTool,
        item: Item,
        owed: frozenset[str] = frozenset(),
        append_outcome: AppendOutcome = None,
    ) -> Generator[Any, Any, bool]:
        """Have the start written, unless somebody has *met* the answer already; see `_may_start`."""
        try:
            answer = yield from self._event_writer.append_and_confirm(
                book, item, "Nothing was run.", append_outcome=append_outcome
            )
        except (JournalError, GeneratorExit):
            raise
        except BaseException as error:
            yield from self._write_interruption(book, run, error, entered=run.attempts > 0)
            raise
        if answer is None:
            book.deferred_start = book.deferred_start or item.records[0]  # goes with the result
        if answer is None or answer.status is Status.DONE:
            book.start_written, book.spent_grants = True, book.spent_grants | owed
            book.stored_grants |= owed if answer is not None else frozenset()
            return True
        if answer.status is Status.EXHAUSTED:
            gone = {answer.grant or "": 0}
            self.runtime.access_store.commit(lambda _: [events.GrantsCounted(left=gone)], outside_draft=True)
        elif answer.status is Status.STALE:
            self.runtime.access_store.load_other_changes()
        else:
            raise JournalError(
                self.store.name,
                f"call {book.builder.call.tool_call_id!r} is recorded there already",
                "Open the run anew.",
            )
        return False

    def _request_approval(
        self, book: CallWriteState, step: RequestApproval
    ) -> Generator[Any, Any, Allow | Deny | None]:
        known = call_records.find_recorded_answer(book.builder, book.entry, step.request)
        if known is not None:
            return known
        yield from self._event_writer.append(
            book, Item((call_records.build_approval_request_record(book.builder, step.request),)), "Nothing was run."
        )
        answer: Allow | Deny | None = yield step
        if answer is not None:
            record = call_records.build_approval_answer_record(book.builder, step.request, answer)
            yield from self._event_writer.append(book, Item((record,)), "Nothing was run.")
        return answer

    def _write_result(self, book: CallWriteState, result: ToolResult) -> Generator[Any, Any, ToolResult]:
        if (book.was_started_before and not book.may_have_run) or (
            not book.start_written and book.deferred_start is None
        ):
            yield from self._write_refusal(book, result)
            return result
        value, result = self._encode_result(book, result)
        attempt = self._get_next_attempt(book) if result.outcome in FINAL_OUTCOMES else None
        record = call_records.build_end_record(
            book.builder, result, value, self._get_error_detail(book, result), attempt
        )
        item = Item((record,) if book.deferred_start is None else (book.deferred_start, record))
        if self._is_intent_only and book.deferred_start is None:
            self._event_writer.submit(item)
            self._event_writer.count_call(result.outcome, record, result.latency_ms)
            self._event_writer.update_run(book, item, result.outcome)
            return result
        return (yield from self._append_end(book, result, item))

    def _append_end(
        self, book: CallWriteState, result: ToolResult, item: Item, append_outcome: AppendOutcome = None
    ) -> Generator[Any, Any, ToolResult]:
        """Have the end written, unless somebody has *met* the answer already; return what holds then."""
        call, attempt = book.builder.call, item.records[-1].attempt
        lost = f"Tool {call.name!r} ran; the result of call {call.tool_call_id!r} is not recorded: it is in doubt."
        answer = yield from self._event_writer.write_end(
            book, item, lost, result.outcome, latency=result.latency_ms, append_outcome=append_outcome
        )
        if answer is None or answer.status is not Status.EXISTS or book.entry is None:
            return result
        book.entry.apply_record(
            next(one for one in answer.found if one.attempt == attempt)
        )  # an earlier life got so far
        tool = None if book.last_execution is None else book.last_execution.tool
        most = None if tool is None else self.runtime.get_max_result_size(tool)
        return call_records.build_replayed_result(book.entry, call.tool_call_id, tool, most)

    def _write_refusal(self, book: CallWriteState, result: ToolResult) -> Generator[Any, Any, None]:
        final = result.outcome in FINAL_OUTCOMES and book.run is not None and not book.was_started_before
        record = call_records.build_refusal_record(book.builder, result, 1 if final else None)
        yield from self._event_writer.write_end(book, Item((record,)), "Nothing was run.", result.outcome)

    def _get_next_attempt(self, book: CallWriteState) -> int:
        return max(1, book.entry.attempts + 1) if book.entry is not None else 1

    def _encode_result(self, book: CallWriteState, result: ToolResult) -> tuple[Any, ToolResult]:
        """Return the value as JSON; a result that says so where it has no JSON form."""
        run = book.last_execution
        if result.outcome is not Outcome.OK or run is None:
            return None, result
        compiled = run.tool.implementation.compiled
        try:
            if type(result.result) in SCALAR_TYPES:  # no code of its own can run
                return compiled.encode_result(result.result), result
            with activate_frame(make_frame(run.frame[SCOPE])):
                return compiled.encode_result(result.result), result
        except (Exception, SystemExit) as error:  # the tool seam: what it returned may run code of its own
            return None, replace(
                build_tool_error_result(run, error, 0.0), tool_call_id=result.tool_call_id, latency_ms=result.latency_ms
            )

    def _get_error_detail(self, book: CallWriteState, result: ToolResult) -> str | None:
        run, error = book.last_execution, result.exception
        if run is None or error is None or result.outcome is not Outcome.TOOL_ERROR:
            return None
        if (run.tool.metadata.errors or self.runtime.options.errors) != "masked":
            return None
        with activate_frame(make_frame(run.frame[SCOPE])):
            told = describe_error(error)
        return None if told == result.error else told

    # ── what comes late ──────────────────────────────────────────────────────────────────────────

    def _record_late_end(self, book: CallWriteState, run: RunTool, result: ToolResult) -> None:
        """See that the end of a function that was given up is written down, too."""
        job = run.job
        if result.outcome is not Outcome.TIMEOUT or job is None:
            return

        def write_late_result() -> None:
            value = error = kind = None
            if job.error is None:
                try:
                    value = run.tool.implementation.compiled.encode_result(job.value)
                except (Exception, SystemExit) as wrong:  # the tool seam, as above
                    error, kind = describe_error(wrong), get_error_type_name(wrong)
            else:
                error, kind = describe_error(job.error), get_error_type_name(job.error)
            record = call_records.build_late_result_record(book.builder, value, error, kind)
            self._event_writer.submit(Item((record,)))

        job.add_done_callback(write_late_result)

    # ── approvals that are answered later ────────────────────────────────────────────────────────

    def record_approval_answer(self, request: ApprovalRequest, answer: Allow | Deny) -> None:
        """Write down the answer to a call that waits, before it counts."""
        call = ToolCall(request.tool_call_id, request.tool, None, request.agent, request.run_id, request.chain)
        plan = self.matcher.get_redaction_plan(self.matcher.find_tool(call))
        note = call_records.CallRecordBuilder(
            call, plan, self.runtime.clock, None, plan.redact_arguments(request.arguments)[1]
        )
        record = call_records.build_approval_answer_record(note, request, answer)
        try:
            (told,) = self.store.append([Item((record,))])
            if told.error is not None:
                raise told.error
        except JournalError as error:
            if not self.lenient:
                raise
            warnings.warn(f"{error} The answer counts all the same.", JournalWarning, stacklevel=get_user_stacklevel())
        run = self.open_runs.get(request.run_id or "")
        if run is not None:
            run.recording.apply_record(record)
