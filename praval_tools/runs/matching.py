"""Finds the run that a call belongs to, and builds the query for the recorded call that it repeats."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from msgspec.structs import replace

from praval_tools.errors import ReplayMismatchError, ToolUsageError
from praval_tools.execution.call_progress import CallProgress
from praval_tools.execution.context import ensure_call, find_current_call, get_current_principal, iter_active_calls
from praval_tools.execution.effects import WaitForCall
from praval_tools.execution.runtime import Runtime
from praval_tools.journal.digests import compute_redacted_digest
from praval_tools.journal.redaction.redactor import RedactionPlan, Redactor
from praval_tools.journal.redaction.secret_search import NO_SECRETS, SecretMarkers
from praval_tools.journal.replay_entry import NO_PRINCIPAL, ReplayEntry, ReplayQuery
from praval_tools.names import shorten_repr
from praval_tools.runs import call_records
from praval_tools.runs.call_plans import CallPlan
from praval_tools.runs.call_secrets import find_marked_secrets
from praval_tools.runs.calling_tasks import find_calling_task
from praval_tools.runs.open_run import OpenRun, current_attempt, current_run
from praval_tools.tools.call import ToolCall
from praval_tools.tools.value_codec import is_plain_json, normalize_value


class CallMatcher:
    """
    Finds the run of a call, and builds the query that finds the call there.

    Args:
        runtime: The runtime of the registry.
        redactor: Replaces secrets in what is recorded.
    """

    def __init__(self, runtime: Runtime, redactor: Redactor) -> None:
        self._runtime, self._redactor = runtime, redactor
        self.open_runs: dict[str, OpenRun] = {}

    def find_run(self, recorder: object, call: ToolCall) -> OpenRun | None:
        """
        Return the run of *recorder* to which *call* belongs, if there is one.

        Work that was begun in an opening of a run belongs to that, also where it names the run.

        Raises:
            ToolUsageError: The run is not open here.
        """
        run = current_run.get()
        while run is not None and (run.recorder is not recorder or call.run_id not in (None, run.run_id)):
            run = run.outer_run
        if run is None and call.run_id is not None:
            run = self.open_runs.get(call.run_id)
            if run is None:
                raise ToolUsageError(
                    f"The call names run {shorten_repr(call.run_id)}, which is not open here; open it around the call: "
                    f"with registry.run({shorten_repr(call.run_id)}): …",
                    "run-closed",
                )
        return run

    def build_query(self, progress: CallProgress, plan: CallPlan, run: OpenRun) -> ReplayQuery:
        """Return the query for the recorded call of *run*; the arguments of *progress* are coerced for it."""
        call = progress.call
        original = call_records.parse_call_arguments(call.arguments)
        coerced = plan.coerce_arguments(progress)
        arguments = original if coerced is None else coerced
        secrets = find_marked_secrets(plan.redaction_plan, progress, NO_SECRETS)
        clean, digest = self._redact(plan.redaction_plan, arguments, secrets, is_validated=coerced is not None)
        given_digest = ""
        if not _are_equal(arguments, original):
            given_digest = self._redact(plan.redaction_plan, original, secrets, is_validated=False)[1]
        return ReplayQuery(
            call.tool_call_id,
            call.agent if call_records.is_encodable_text(call.agent) else None,
            call.name if call_records.is_encodable_text(call.name) else shorten_repr(call.name),
            call.on_behalf_of,
            get_principal_text(progress),
            find_parent_id(self._runtime, run, call),
            clean,
            digest,
            find_calling_task(run.get_first_task()),
            "" if given_digest == digest else given_digest,
            "" if coerced is None else plan.fingerprint,
            run.last_position if progress.is_async else None,
        )

    def _redact(
        self, plan: RedactionPlan, arguments: object, secrets: SecretMarkers, *, is_validated: bool
    ) -> tuple[object, str]:
        """Return *arguments* without secrets, and the digest by which they are found."""
        readable = arguments if is_validated else plan.parse_unvalidated(arguments)
        if not is_plain_json(readable):  # once, since objects may run code of their own
            readable = normalize_value(readable)
        clean = plan.redact_arguments(readable, secrets, is_validated=is_validated)[0]
        return clean, compute_redacted_digest(readable, clean, self._redactor.make_digest)

    def claim_entry(
        self, run: OpenRun, entry: ReplayEntry, *, held: list[ReplayEntry]
    ) -> Generator[WaitForCall, object, None]:
        """
        Wait until no other call has claimed *entry*, claim it, and add it to *held*.

        Raises:
            ToolUsageError: The entry is the call inside which this one is made, or waits for that.
        """
        while (release_future := run.recording.claim(entry, held)) is not None:
            with entry.register_waiters(list(self._iter_caller_entries())) as is_free_of_cycles:
                if not is_free_of_cycles:
                    raise ToolUsageError(
                        f"Call {entry.call_id!r} is made from inside itself, or waits for the call that this one "
                        f"is made from: both would wait for ever. Give this call another id."
                    )
                if (attempt := run.attempts.get(entry.call_id)) is not None:
                    attempt.add_outer(current_attempt.get())
                yield WaitForCall(release_future, entry.call_id)

    def _iter_caller_entries(self) -> Iterator[ReplayEntry]:
        """Yield the calls of open runs inside which this one is made; they wait as long as it does."""
        for frame in iter_active_calls(self._runtime.registry):
            call = ensure_call(frame)
            run = self.open_runs.get(call.run_id or "")
            entry = None if run is None else run.recording.entries.get(call.tool_call_id or "")
            if entry is not None:
                yield entry


def get_principal_text(progress: CallProgress) -> str:
    """Return what is recorded of the principal of a call, beside its agent and chain."""
    if progress.principal is not None:
        return progress.principal.delegation_digest
    return NO_PRINCIPAL if progress.names_no_agent else ""


def with_parent_id(call: ToolCall) -> ToolCall:
    """Return *call* with the id of the call inside which it is made."""
    parent_id = _get_parent_id(call)
    return call if parent_id == call.parent_id else replace(call, parent_id=parent_id)


def find_parent_id(runtime: Runtime, run: OpenRun, call: ToolCall | None) -> str | None:
    """Return the id of the call inside which *call*, or a loop, of *run* begins: the innermost of the run, else any."""
    for frame in iter_active_calls(runtime.registry):
        if (outer := ensure_call(frame)).run_id == run.run_id:
            return outer.tool_call_id
    return _get_parent_id(call)


def _get_parent_id(call: ToolCall | None) -> str | None:
    """Return the id of the call that runs here; outside of any, the one that *call* names, if the operator makes it."""
    if (outer := find_current_call()) is not None:
        return outer.tool_call_id
    return call.parent_id if call is not None and get_current_principal() is None else None


def check_fingerprint(run: OpenRun, entry: ReplayEntry, query: ReplayQuery) -> None:
    """
    Refuse a recorded call whose tool has changed.

    Raises:
        ReplayMismatchError: The tool has another fingerprint now, or is gone.
    """
    if entry.fingerprint and entry.fingerprint != query.fingerprint:
        now = f"fingerprint {query.fingerprint[:12]}" if query.fingerprint else "gone"
        raise ReplayMismatchError(
            run.run_id, entry.call_id, f"{entry} with fingerprint {entry.fingerprint[:12]}",
            f"{query}, where the tool is {now}",
        )  # fmt: skip


def _are_equal(arguments: object, original: object) -> bool:
    """Tell whether two arguments are the same plain JSON; others may compare by code of their own."""
    return arguments is original or (is_plain_json(arguments) and is_plain_json(original) and arguments == original)
