"""The recorder of journaled calls: replays a recorded call, or runs a new one and records its start and end."""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from praval_tools.access.state import AccessState
from praval_tools.errors import JournalError
from praval_tools.execution.effects import AppendToJournal, RequestApproval, RunTool
from praval_tools.execution.fast_path import FastPathMiss
from praval_tools.execution.progress import CallPipeline, CallProgress
from praval_tools.execution.results import build_failure_result
from praval_tools.execution.runtime import Runtime
from praval_tools.journal.redaction.redactor import Redactor
from praval_tools.journal.replay import ReplayEntry
from praval_tools.journal.stats import UsageStats
from praval_tools.journal.storage.protocol import INTENT, Answer, Item, Status, Store
from praval_tools.names import has_type
from praval_tools.runs.approval_recording import ApprovalRecorder
from praval_tools.runs.call_records import CallRecordBuilder, with_writable_ids
from praval_tools.runs.call_writer import CallWriter
from praval_tools.runs.event_writer import AppendOutcome, CallSteps, CallWriteState, EventWriter, can_match_again
from praval_tools.runs.fast_recording import JournaledFastCall, JournaledFastPaths, ReplayContext
from praval_tools.runs.matching import CallMatcher, check_fingerprint, get_principal_text, with_parent_id
from praval_tools.runs.open_run import OpenRun, use_run
from praval_tools.runs.recorded_results import build_full_run_result, build_in_doubt_result, build_replayed_result
from praval_tools.tools.call import Outcome, ToolCall, ToolResult
from praval_tools.tools.tool import AnyTool

Durability = Literal["full", "intent"]


class Recorder:
    """
    Records the calls of one registry in its journal, and replays recorded results.

    Args:
        runtime: The runtime of the registry.
        store: Where the records are appended.
        redactor: Replaces secrets in what is written.
        stats: Counts the calls.
        durability: `full`: a result is durable before it is returned; `intent`: nobody waits for that.
        lenient: Go on, with a warning, where the store fails.
    """

    def __init__(
        self, runtime: Runtime, store: Store, redactor: Redactor, stats: UsageStats,
        *, durability: Durability, lenient: bool,
    ) -> None:  # fmt: skip
        self.runtime, self.store, self.stats = runtime, store, stats
        self.redactor, self._is_intent_only, self.lenient = redactor, durability == "intent", lenient
        self._event_writer = EventWriter(store, stats, lenient=lenient, key_id=redactor.key_id)
        self.matcher = CallMatcher(runtime, redactor)
        self.approvals = ApprovalRecorder(runtime, self._event_writer, self.matcher, redactor)
        self._call_writer = CallWriter(runtime, self._event_writer, self.approvals, is_intent_only=self._is_intent_only)
        self._fast_paths = JournaledFastPaths(runtime, self.matcher)
        self.open_runs = self.matcher.open_runs

    # ── replay ───────────────────────────────────────────────────────────────────────────────────

    def record_call(self, progress: CallProgress, steps: CallPipeline) -> CallPipeline:
        """Return the recorded result of a call, or drive *steps*, its pipeline, and record what happens."""
        self.runtime.access_store.refuse_calls()
        progress.refresh_state, original = self._refresh_state, progress.call
        call = progress.call = with_writable_ids(original)
        fast_call = (
            None
            if self._is_intent_only
            else self._fast_paths.find_fast_call(call, progress.principal, awaited=progress.is_async)
        )
        run = self.matcher.find_run(self, call)
        if run is None:
            result: ToolResult = yield from self._record_outside_run(progress, steps, fast_call)
        else:
            try:
                run.active_calls.append(None)
                run.check_open()
                result = yield from self._replay_or_record(progress, steps, fast_call, run)
            finally:
                run.active_calls.pop()
                run.release_if_idle()
        if call is original or original.tool_call_id is None:
            return result
        return replace(result, tool_call_id=original.tool_call_id)

    def _record_outside_run(
        self, progress: CallProgress, steps: CallPipeline, fast_call: JournaledFastCall | None
    ) -> CallPipeline:
        """Run and record a call that belongs to no run."""
        progress.call = call = with_parent_id(progress.call.with_id())
        if fast_call is not None:
            return (yield from self._record_fast(progress, steps, fast_call, ReplayContext()))
        plan = self.matcher.get_redaction_plan(self.matcher.find_tool(call))
        write_state = CallWriteState(
            CallRecordBuilder(call, plan, self.runtime.clock, principal=get_principal_text(progress))
        )
        return (yield from self._drive_and_record(progress, steps, write_state))

    def _replay_or_record(
        self, progress: CallProgress, steps: CallPipeline, fast_call: JournaledFastCall | None, run: OpenRun
    ) -> CallPipeline:
        """Return the recorded result of a call of *run*, or run and record a call that has none."""
        call, coerced_arguments = progress.call, None
        if fast_call is not None:
            tool: AnyTool | None = fast_call.fast_path.tool
            request = fast_call.build_request(call)
        else:
            tool = self.matcher.find_tool(call)
            request, coerced_arguments = self.matcher.build_request(progress, tool)
        held: list[ReplayEntry] = []
        try:
            entry = run.recording.find_or_create_entry(request, self.runtime.clock.new_id, held=held)
            if not held and entry.status != "done":
                yield from self.matcher.claim_entry(run, entry, held=held)
            if run.strict_fingerprint:
                check_fingerprint(run, entry, request)
            status_before, result_id = entry.status, call.tool_call_id or entry.call_id
            if status_before == "done":
                max_size = None if tool is None else self.runtime.get_max_result_size(tool)
                return replace(build_replayed_result(entry, result_id, tool, max_size), run_id=run.run_id)
            if status_before == "new" and run.is_full:
                run.recording.release_match(entry)
                return replace(build_full_run_result(run.run_id, run.event_count, call), run_id=run.run_id)
            progress.call = ToolCall(
                entry.call_id, call.name, call.arguments, call.agent, run.run_id, call.on_behalf_of, request.parent_id,
                call.reason, call.engine,
            )  # fmt: skip
            context = ReplayContext(run, entry, request)
            if fast_call is not None and status_before == "new":
                result: ToolResult = yield from self._record_fast(progress, steps, fast_call, context)
            else:
                progress.coerced_arguments = coerced_arguments
                result = yield from self._record_in_run(progress, steps, context, tool)
            if can_match_again(status_before, entry.status):
                run.recording.release_match(entry)
            return replace(result, tool_call_id=result_id, run_id=run.run_id)
        finally:
            for entry in held:
                run.recording.release(entry)

    def _record_in_run(
        self, progress: CallProgress, steps: CallPipeline, context: ReplayContext, tool: AnyTool | None
    ) -> CallPipeline:
        """Run and record a call of a run; refuse one in doubt, unless its tool is idempotent."""
        builder = CallRecordBuilder(
            progress.call, self.matcher.get_redaction_plan(tool), self.runtime.clock, context.request,
            principal=get_principal_text(progress),
        )  # fmt: skip
        entry = context.entry
        if entry is None:
            raise AssertionError("a call of a run has its entry")
        write_state = CallWriteState(builder, context.run, entry, initial_status=entry.status)
        if entry.status == "doubt" and not (tool is not None and tool.metadata.idempotent is True):
            result = build_in_doubt_result(entry, progress.call)
            return (yield from self._call_writer.write_refusal(write_state, result))
        write_state.start_written = entry.attempts >= INTENT
        return (yield from self._drive_and_record(progress, steps, write_state))

    def _refresh_state(self, state: AccessState) -> bool:
        """
        Load what other processes changed since *state*, by which a call is about to be refused.

        Returns:
            Whether there was anything: also what another thread has loaded meanwhile.
        """
        try:
            if self.store.revision() == state.revision:
                return False
            self.runtime.access_store.load_other_changes()
        except JournalError:  # raised again where the refusal is written
            return False
        return True

    # ── the fast path ────────────────────────────────────────────────────────────────────────────

    def _record_fast(
        self, progress: CallProgress, steps: CallPipeline, fast_call: JournaledFastCall, context: ReplayContext
    ) -> CallPipeline:
        """Record the start, run the function and record the end; where something unusual happens, *steps* take over."""
        call = progress.call
        record = fast_call.build_start_record(call, context.request)
        if record is None:
            write_state = self._build_fallback_state(progress, fast_call, context)
            return (yield from self._drive_and_record(progress, steps, write_state))
        item = Item((record,), fast_call.fast_path.fast_path.state.revision)
        try:
            append_outcome: AppendOutcome = yield AppendToJournal(self.store, item)
        except BaseException as error:  # handled by `_recover_start`
            append_outcome = error
        if type(append_outcome) is not Answer or append_outcome.status is not Status.DONE:
            return (yield from self._recover_start(progress, steps, fast_call, context, item, append_outcome))
        context.mark_started(record)
        started, failure = self.runtime.clock.monotonic(), None
        try:
            with use_run(context.run):
                value: object = yield fast_call.build_enter_effect(call)
        except BaseException as error:  # handled by `_recover_execution`
            value, failure = None, error
        if failure is not None:
            return (yield from self._recover_execution(progress, steps, fast_call, context, failure, started))
        result = fast_call.build_result(call, value, self.runtime.clock.monotonic() - started)
        record = fast_call.build_end_record(call, result)
        if record is None:
            return (yield from self._recover_end(progress, fast_call, context, result, None, None))
        item = Item((record,))
        try:
            append_outcome = yield AppendToJournal(self.store, item)
        except BaseException as error:  # handled by `_recover_end`
            append_outcome = error
        if type(append_outcome) is not Answer or append_outcome.status is not Status.DONE:
            return (yield from self._recover_end(progress, fast_call, context, result, item, append_outcome))
        self._event_writer.count_call(Outcome.OK, record, result.latency_ms)
        context.mark_ended(record)
        return result

    def _build_fallback_state(
        self, progress: CallProgress, fast_call: JournaledFastCall, context: ReplayContext, run: RunTool | None = None
    ) -> CallWriteState:
        """Return the write state of a call that leaves the fast path; *run* says that its start was written."""
        path = fast_call.fast_path
        progress.coerced_arguments = path.definition, fast_call.arguments, ()
        builder = CallRecordBuilder(
            progress.call, path.redaction_plan, self.runtime.clock, context.request, principal=path.principal_text
        )
        return CallWriteState(builder, context.run, context.entry, start_written=run is not None, last_execution=run)

    def _recover_start(
        self, progress: CallProgress, steps: CallPipeline, fast_call: JournaledFastCall, context: ReplayContext,
        item: Item, append_outcome: AppendOutcome,
    ) -> CallPipeline:  # fmt: skip
        """Go on with a call whose start the store did not simply take."""
        write_state = self._build_fallback_state(progress, fast_call, context)
        run = fast_call.build_execution(progress.call, 0)
        if (yield from self._call_writer.append_start(write_state, run, item, append_outcome=append_outcome)):
            write_state.last_execution = run
        return (yield from self._drive_and_record(progress, steps, write_state))

    def _recover_execution(
        self, progress: CallProgress, steps: CallPipeline, fast_call: JournaledFastCall, context: ReplayContext,
        error: BaseException, started: float,
    ) -> CallPipeline:  # fmt: skip
        """Go on with a call whose function raised *error*, or that was not admitted, which is a `FastPathMiss`."""
        is_miss = has_type(error, FastPathMiss)
        run = fast_call.build_execution(progress.call, 0 if is_miss else 1)
        write_state = self._build_fallback_state(progress, fast_call, context, run)
        if is_miss:
            return (yield from self._drive_and_record(progress, steps, write_state))
        if has_type(error, (Exception, SystemExit)):
            return (yield from self._call_writer.write_result(write_state, build_failure_result(run, error, started)))
        yield from self._call_writer.write_interruption(write_state, run, error, entered=True)
        raise error

    def _recover_end(
        self, progress: CallProgress, fast_call: JournaledFastCall, context: ReplayContext, result: ToolResult,
        item: Item | None, append_outcome: AppendOutcome,
    ) -> CallPipeline:  # fmt: skip
        """Record an end that is not plain, or go on with *item*, the plain one, which the store did not simply take."""
        run = fast_call.build_execution(progress.call, 1)
        write_state = self._build_fallback_state(progress, fast_call, context, run)
        if item is None:
            return (yield from self._call_writer.write_result(write_state, result))
        return (yield from self._call_writer.append_end(write_state, result, item, append_outcome))

    # ── the pipeline ─────────────────────────────────────────────────────────────────────────────

    def _drive_and_record(
        self, progress: CallProgress, steps: CallPipeline, write_state: CallWriteState
    ) -> CallPipeline:
        """Drive *steps* with a record before and after each execution, and record the result."""
        answer: object = None
        try:
            while True:
                try:
                    step = steps.send(answer)
                except StopIteration as end:
                    result: ToolResult = end.value
                    break
                if isinstance(step, RunTool):
                    if progress.approval is not None and progress.coerced_arguments is not None:
                        write_state.builder.add_secrets(progress.coerced_arguments[1])  # edited ones may quote them
                    answer = yield from self._execute(write_state, step)
                    if write_state.is_approval_lost:
                        progress.approval, write_state.is_approval_lost = None, False
                elif isinstance(step, RequestApproval):
                    answer = yield from self.approvals.request_approval(write_state, step)
                else:
                    answer = yield step
        finally:
            steps.close()
        if progress.call.tool_call_id == result.tool_call_id and write_state.last_execution is not None:
            self._call_writer.record_late_end(write_state, write_state.last_execution, result)
        return (yield from self._call_writer.write_result(write_state, result))

    def _execute(self, write_state: CallWriteState, run: RunTool) -> CallSteps[ToolResult | None]:
        """Record the start and run the tool; return None where the call has to be decided again."""
        if not (yield from self._call_writer.write_start(write_state, run)):
            return None
        attempts_before = run.attempts
        write_state.last_execution, run.stored_grants = run, write_state.stored_grants
        if write_state.run is not None:  # where ids are those of entries, which no two calls share
            run.idempotency_key = f"{write_state.run.run_id}/{run.call.tool_call_id}"
        try:
            with use_run(write_state.run):
                result: ToolResult | None = yield run
        except BaseException as error:
            entered = run.attempts > attempts_before or run.job is not None
            yield from self._call_writer.write_interruption(write_state, run, error, entered=entered)
            raise
        return result
