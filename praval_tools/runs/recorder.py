"""Records every call of a registry that has a journal, in or outside runs; in a run, replays recorded results."""

from __future__ import annotations

from typing import Final, Literal

from msgspec.structs import replace

from praval_tools.access.events import GrantsCounted
from praval_tools.access.state import AccessState, get_declarer
from praval_tools.errors import JournalError, RegistryClosedError, ToolInDoubtError
from praval_tools.execution.batch_turns import Turn, take_turn
from praval_tools.execution.call_progress import CallPipeline, CallProgress
from praval_tools.execution.effects import RequestApproval, RunTool, WaitForReplay
from praval_tools.execution.failures import is_of_ended_work
from praval_tools.execution.runtime import Runtime
from praval_tools.journal.redaction.redactor import Redactor
from praval_tools.journal.replay_entry import IN_DOUBT_OUTCOMES, ReplayEntry, ReplayQuery
from praval_tools.journal.stats import UsageStats
from praval_tools.journal.storage.protocol import INTENT, Store
from praval_tools.names import has_type
from praval_tools.runs.approval_recording import ApprovalRecorder
from praval_tools.runs.call_plans import CallPlan, CallPlans
from praval_tools.runs.call_records import CallRecordBuilder, with_writable_fields
from praval_tools.runs.call_writer import CallWriter
from praval_tools.runs.event_writer import CallSteps, CallWriteState, EventWriter, can_match_again
from praval_tools.runs.matching import CallMatcher, check_fingerprint, get_principal_text, with_parent_id
from praval_tools.runs.open_run import OpenRun, current_attempt, note_late_call, use_run
from praval_tools.runs.recorded_results import build_full_run_result, build_in_doubt_result, build_replayed_result
from praval_tools.tools.call import Outcome, ToolCall, ToolResult
from praval_tools.tools.context_settings import use_setting
from praval_tools.tools.tool import AnyTool

Durability = Literal["full", "intent"]
_STOPPED_OUTCOMES: Final = (Outcome.TIMEOUT, Outcome.CANCELLED, Outcome.IN_DOUBT)
"""After these, a call may be made again, while work of its tool still goes on."""


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
        self.redactor, self.lenient = redactor, lenient
        self._event_writer = EventWriter(store, stats, lenient=lenient, key_id=redactor.key_id)
        self.plans, self._matcher = CallPlans(runtime, redactor), CallMatcher(runtime, redactor)
        self.approvals = ApprovalRecorder(runtime, self._event_writer, self.plans, redactor)
        self._call_writer = CallWriter(
            runtime, self._event_writer, self.approvals, is_intent_only=durability == "intent"
        )
        self.open_runs = self._matcher.open_runs

    @property
    def has_open_runs(self) -> bool:
        """Whether calls may find what was recorded of them."""
        return bool(self.open_runs)

    def record_call(self, progress: CallProgress, steps: CallPipeline) -> CallPipeline:
        """Return the recorded result of a call, or run it and record what happens."""
        try:
            self.runtime.access_store.refuse_calls()
        except RegistryClosedError:
            note_late_call()
            raise
        progress.refresh_state, original, turn = self._refresh_state, progress.call, take_turn()
        call = progress.call = with_writable_fields(original)
        plan = self.plans.find_plan(call, progress.principal)
        run = self._matcher.find_run(self, call)
        if run is None:
            turn.end()
            progress.call = with_parent_id(call.with_id())
            principal = get_principal_text(progress)
            builder = CallRecordBuilder(progress.call, plan, self.runtime.clock, principal=principal)
            builder.add_marked_secrets(progress)
            result: ToolResult = yield from self._run_and_record(progress, steps, plan, CallWriteState(builder))
        else:
            try:
                run.active_calls.append(None)
                run.check_open()
                result = yield from self._replay_or_record(progress, steps, plan, run, turn)
                result = replace(result, run_id=run.run_id)
            finally:
                run.active_calls.pop()
                run.release_if_idle()
        if call is original or original.tool_call_id is None:
            return result
        return replace(result, tool_call_id=original.tool_call_id)

    def _replay_or_record(
        self, progress: CallProgress, steps: CallPipeline, plan: CallPlan, run: OpenRun, turn: Turn
    ) -> CallPipeline:
        """
        Return the recorded result of a call of *run*, or run and record a call that has none.

        Where an exception leaves it before its tool was entered, its repetition finds the same recorded call.
        """
        query = self._matcher.build_query(progress, plan, run)
        entry: ReplayEntry | None = None
        held: list[ReplayEntry] = []
        has_result = False
        try:
            turn.wait()
            answered = self.approvals.list_answered(run.run_id) if run.recording.needs_answered(query) else ()
            entry = run.recording.find_or_create_entry(query, self.runtime.clock.new_id, held=held, answered=answered)
            if entry.is_moved and not run.is_full:  # in a full run nothing comes of it
                self._event_writer.submit_move(entry, run, self.runtime.clock)
            if not held and entry.status != "done":
                turn.end()
                yield from self._matcher.claim_entry(run, entry, held=held)
            if run.strict_fingerprint:
                check_fingerprint(run, entry, query)
            result = yield from self._replay_or_run(progress, steps, plan, run, query, entry, turn)
            if progress.is_async and (order := run.find_replay_order(entry)) is not None:
                has_result = entry.status == "done"
                yield WaitForReplay(order, entry.result_number)
        except BaseException as error:
            comes_last = has_result and not has_type(error, (Exception, KeyboardInterrupt))  # cancelled as it waited
            for stopped in held if entry is None else (entry,):
                run.recording.undo_match(stopped, query, held, comes_last=comes_last)
            raise
        finally:
            for claimed in held:
                run.recording.release(claimed)
        run.last_position = entry.position
        return result

    def _replay_or_run(
        self, progress: CallProgress, steps: CallPipeline, plan: CallPlan, run: OpenRun,
        query: ReplayQuery, entry: ReplayEntry, turn: Turn,
    ) -> CallPipeline:  # fmt: skip
        """Return the result of *entry*, the recorded call that a call of *run* repeats; run it where it has none."""
        call, status_before = progress.call, entry.status
        result_id = call.tool_call_id or entry.call_id
        if status_before == "done":
            max_size = None if plan.tool is None else self.runtime.get_max_result_size(plan.tool)
            return build_replayed_result(entry, result_id, plan.tool, max_size)
        if status_before in ("new", "released") and run.is_full:
            run.recording.release_match(entry)
            return build_full_run_result(run.run_id, run.event_count, call)
        progress.call = call = ToolCall(
            entry.call_id, call.name, call.arguments, call.agent, run.run_id, call.on_behalf_of, query.parent_id,
            call.reason, call.engine,
        )  # fmt: skip
        builder = CallRecordBuilder(
            call, plan, self.runtime.clock, query, entry.has_given_id, entry.position, query.principal
        )
        builder.add_marked_secrets(progress)
        write_state = CallWriteState(builder, run, entry, initial_status=status_before, turn=turn)
        write_state.begin_attempt()  # others may wait for it from now on
        try:
            if status_before == "doubt" and not _may_be_repeated(plan.tool):
                result = build_in_doubt_result(entry, call)
                result = yield from self._call_writer.write_refusal(write_state, result)
            else:
                is_edited = entry.call_id in run.recording.edited_calls
                progress.was_asked_about = progress.was_asked_about or entry.is_asked or is_edited
                progress.is_counted_in_run, write_state.start_written = entry.has_begun, entry.attempts >= INTENT
                result = yield from self._run_and_record(progress, steps, plan, write_state)
        finally:
            if builder.edited_arguments is not None:
                run.recording.edited_calls.add(entry.call_id)
            entry.secrets = builder.secrets
            entry.was_entered = entry.was_entered or write_state.may_have_run
        entry.has_ended_in_doubt = entry.status == "doubt" and result.outcome in IN_DOUBT_OUTCOMES
        if can_match_again(status_before, entry.status):
            run.recording.release_match(entry)
        return result if result_id == entry.call_id else replace(result, tool_call_id=result_id)

    def _run_and_record(
        self, progress: CallProgress, steps: CallPipeline, plan: CallPlan, write_state: CallWriteState
    ) -> CallPipeline:
        """Run the call on its fast path, or by *steps*, and record each execution and the result."""
        fast_run = plan.build_fast_run(progress)
        try:
            try:
                result: ToolResult | None = None
                if fast_run is not None:
                    result = yield from self._execute_tool(write_state, fast_run)
                if result is None:
                    result = yield from self._drive_steps(progress, steps, write_state)
            finally:
                steps.close()
            if progress.call.tool_call_id == result.tool_call_id and write_state.last_execution is not None:
                self._call_writer.record_late_end(write_state, write_state.last_execution, result)
            return (yield from self._call_writer.write_result(write_state, result))
        except BaseException:  # nobody waits for it any more
            write_state.give_up_attempt()
            raise
        finally:
            if write_state.is_unrecorded:
                self.runtime.unrecorded_calls.pop()

    def _drive_steps(self, progress: CallProgress, steps: CallPipeline, write_state: CallWriteState) -> CallPipeline:
        """Drive *steps*, and record what they do; return the result of the call, which is not recorded yet."""
        answer: object = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                write_state.builder.add_judged_secrets(progress)
                return end.value  # type: ignore[no-any-return]
            except BaseException as error:  # the registry was closed after the start was written
                if write_state.start_written and (run := write_state.last_execution) is not None:
                    entered = write_state.may_have_run
                    yield from self._call_writer.write_interruption(write_state, run, error, entered=entered)
                raise
            if isinstance(step, RunTool):
                write_state.builder.add_shown_secrets(progress)
                answer = yield from self._execute_tool(write_state, step)
                if write_state.is_approval_lost:
                    progress.approval, write_state.is_approval_lost = None, False
            elif isinstance(step, RequestApproval):
                write_state.builder.add_judged_secrets(progress)
                answer = yield from self.approvals.request_approval(write_state, step)
            else:
                answer = yield step

    def _execute_tool(self, write_state: CallWriteState, run: RunTool) -> CallSteps[ToolResult | None]:
        """Record the start and run the tool; return None where the call has to be decided again."""
        if not write_state.is_unrecorded:
            write_state.is_unrecorded = True
            self.runtime.unrecorded_calls.append(None)
        write_state.builder.add_bound_secrets(run)
        if write_state.run is not None:  # where ids are those of entries, which no two calls share
            run.idempotency_key = _build_idempotency_key(write_state.run.run_id, run.call.tool_call_id)
            write_state.run.check_open(write_state.attempt)  # it may have waited since
        if not (yield from self._call_writer.write_start(write_state, run)):
            return None
        write_state.turn.end()  # where the start is written with the end
        try:
            write_state.last_execution, run.stored_grants = run, write_state.stored_grants
            with use_run(write_state.run), use_setting(current_attempt, write_state.begin_attempt()):
                result: ToolResult | None = yield run
        except BaseException as error:
            entered = run.attempts > 0 or run.job is not None
            yield from self._call_writer.write_interruption(write_state, run, error, entered=entered)
            raise
        if result is not None and result.outcome in _STOPPED_OUTCOMES:
            write_state.give_up_attempt()
        if result is None or result.outcome is not Outcome.TOOL_ERROR or result.exception is None:
            return result
        has_ended = self.runtime.access_store.closed or write_state.was_left
        if not write_state.lacks_call and not (has_ended and is_of_ended_work(result.exception)):
            return result
        return replace(result, outcome=Outcome.IN_DOUBT, error_type=ToolInDoubtError.code)

    def _refresh_state(self, state: AccessState, grants: frozenset[str]) -> bool:
        """
        Load what other processes changed since *state*, by which a call is about to be refused, or asked about.

        Args:
            state: What the decision rests on.
            grants: The counted grants of a call about which a person is about to be asked; none for other calls.

        Returns:
            Whether there was anything: also what another thread has loaded meanwhile.
        """
        try:
            revision = self.store.revision()
            if revision != state.revision:
                self.runtime.access_store.load_other_changes(revision)
                return True
            return self._note_spent_grants(state, grants) if grants else False
        except JournalError:  # raised again where the refusal is written
            return False

    def _note_spent_grants(self, state: AccessState, grants: frozenset[str]) -> bool:
        """Take note of those of the *grants* of which other processes have left no call; tell whether there are any."""
        left = {use.grant_id: use.left for use in self.store.state(counts_only=True).uses}
        spent = {grant: 0 for grant in grants if left.get(grant) == 0 and state.grants[grant].calls_left}
        if spent:
            self.runtime.access_store.commit(lambda _: [GrantsCounted(left=spent)], outside_draft=True)
        return bool(spent)


def _build_idempotency_key(run_id: str, call_id: str | None) -> str:
    """
    Return the key of a call, which no call of another run has, whatever the ids hold.

    The id of the run is escaped, and so ends at the first `/`.
    """
    return f"{run_id.replace('%', '%25').replace('/', '%2F')}/{call_id}"


def _may_be_repeated(tool: AnyTool | None) -> bool:
    """
    Tell whether a call of *tool* in doubt may be made again.

    What code of an agent declared while it ran may be another tool than the one whose call is in doubt.
    """
    return tool is not None and tool.metadata.idempotent is True and not get_declarer(tool)
