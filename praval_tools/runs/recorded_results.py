"""Rebuilds results of calls from the journal: of a call that is replayed, and of a call in doubt."""

from __future__ import annotations

from typing import Final

import msgspec

from praval_tools.errors import Problem, ToolArgumentsError, ToolInDoubtError
from praval_tools.execution.failures import restore_execution_error
from praval_tools.journal.codec import build_body_decoder
from praval_tools.journal.events import EventType
from praval_tools.journal.replay_entry import ReplayEntry, decode_body
from praval_tools.names import format_count
from praval_tools.runs.call_records import DecisionFields
from praval_tools.schema.coercion import Repair
from praval_tools.schema.type_handler import Mismatch
from praval_tools.tools.call import Outcome, ToolCall, ToolResult
from praval_tools.tools.decision import AccessOutcome, Decision
from praval_tools.tools.frames import activate_tool_frame
from praval_tools.tools.tool import AnyTool
from praval_tools.tools.value_codec import unpack_value


class _RecordedStart(msgspec.Struct, gc=False):
    decision: DecisionFields | None = None
    repairs: tuple[Repair, ...] = ()


class _RecordedEnd(msgspec.Struct, gc=False):
    type: EventType
    outcome: Outcome
    v: int = 0
    result: object = None
    error: str | None = None
    error_type: str | None = None
    error_base: str | None = None
    error_number: int | None = None
    latency_ms: float | None = None
    attempts: int | None = None
    decision: DecisionFields | None = None
    problems: tuple[Problem, ...] = ()
    union_members: tuple[str, ...] = ()


# built on import: msgspec may crash where several threads build a decoder of one type at the same time
_decode_end: Final = build_body_decoder(_RecordedEnd)
_decode_start: Final = build_body_decoder(_RecordedStart)


_DECISION_CODES: Final[dict[str, AccessOutcome]] = {
    "unknown_tool": "unknown",
    "disabled": "disabled",
    "forbidden": "forbidden",
}


def build_replayed_result(
    entry: ReplayEntry, call_id: str | None, tool: AnyTool | None, max_size: int | None
) -> ToolResult:
    """
    Return the recorded result of a call.

    Args:
        entry: The recorded call; it has ended.
        call_id: The id of the result.
        tool: The tool as it is now; the value gets the type of its return hint.
        max_size: How much of a value a model is shown.
    """
    if entry.end is None:
        raise AssertionError("a call that ended has a record of that")
    end = decode_body(entry.end, _decode_end)
    start = _decode_start(entry.start.body) if entry.start is not None else _RecordedStart()
    outcome, value, attempts = end.outcome, None, end.attempts
    if attempts is None:  # as most are: it is the default of its event
        attempts = 0 if end.type is EventType.CALL_REFUSED else 1
    if outcome is Outcome.OK:
        value = unpack_value(end.result)
        if tool is not None and tool.implementation.is_compilable:
            try:
                with activate_tool_frame(tool.name):  # classes of its return hint may run code of their own
                    value = tool.implementation.compiled.decode_result(value, end.union_members)
            except Mismatch:  # recorded of an older definition, or redacted: stays JSON
                pass
    return ToolResult(
        call_id, entry.tool, entry.agent, outcome, value, end.error, end.error_type, end.latency_ms,
        attempts, start.repairs, True, _rebuild_decision(entry, outcome, end.decision or start.decision, tool),
        _rebuild_exception(entry, outcome, end), max_size if outcome is Outcome.OK else None,
    )  # fmt: skip


def _rebuild_decision(
    entry: ReplayEntry, outcome: Outcome, fields: DecisionFields | None, tool: AnyTool | None
) -> Decision | None:
    """Return the recorded decision; of a refusal with the owner that the tool has now, as none is recorded."""
    if fields is None:
        return None
    owner = None if fields.allowed or tool is None else tool.metadata.owned_by
    code = "allowed" if fields.allowed else _DECISION_CODES.get(outcome.value, "forbidden")
    return Decision(
        fields.allowed, code, fields.rule, entry.agent, entry.tool, fields.reason, source=fields.source or None,
        owner=owner,
    )  # fmt: skip


def _rebuild_exception(entry: ReplayEntry, outcome: Outcome, end: _RecordedEnd) -> BaseException | None:
    if outcome is Outcome.TOOL_ERROR:
        return restore_execution_error(
            end.error_base, end.error or "", end.error_type or "", entry.tool, end.error_number
        )
    if outcome is Outcome.INVALID_ARGUMENTS:
        return ToolArgumentsError(entry.tool, end.problems)
    return None


def build_in_doubt_result(entry: ReplayEntry, call: ToolCall) -> ToolResult:
    """Return the result of a call that an earlier process began, and of which no result was recorded."""
    text = (
        f"Call {entry.call_id!r} of {entry.tool!r} began in run {call.run_id!r} and has no recorded result: "
        f"it may have done its work, and is not run again. Look, then say run.resolve({entry.call_id!r}, result=…), "
        f"error=… or rerun=True; or use praval-tools runs resolve."
    )
    error = ToolInDoubtError(text, call.run_id, entry.call_id)
    return ToolResult(call.tool_call_id, entry.tool, entry.agent, Outcome.IN_DOUBT, None, text, error.code,
                      exception=error)  # fmt: skip


def build_full_run_result(run_id: str, event_count: int, call: ToolCall) -> ToolResult:
    """Return the result of a new call in a run that has as many events as it may have; it is not recorded."""
    text = (
        f"Run {run_id!r} has {format_count(event_count, 'event')}, and takes no new calls: begin another run, or raise "
        f"the limit by ToolRegistry(max_run_events=…)."
    )
    return ToolResult(call.tool_call_id, call.name, call.agent, Outcome.LIMITED, None, text, "run-events")
