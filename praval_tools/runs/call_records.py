"""What is written of a call, and the result that is read back of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec

from praval_tools.clock import Clock
from praval_tools.errors import Problem, ToolArgumentsError, ToolInDoubtError
from praval_tools.execution.effects import RunTool
from praval_tools.execution.failures import find_builtin_base, restore_execution_error
from praval_tools.journal.codec import EVENT_VERSION, build_body_decoder, to_json
from praval_tools.journal.events import (
    AgentToolCall,
    AgentToolResult,
    ApprovalAnswered,
    ApprovalAsked,
    CallRefused,
    CallRerun,
    EventType,
    LateResult,
    get_process_name,
    to_recorded_decision,
)
from praval_tools.journal.redaction.redactor import MARKER_PATTERN, RedactionPlan
from praval_tools.journal.redaction.secret_search import NO_SECRETS
from praval_tools.journal.replay import ReplayEntry, ReplayQuery, compute_digest, decode_body
from praval_tools.journal.storage.protocol import INTENT, Record
from praval_tools.journal.value_codec import is_plain_json, unpack_value
from praval_tools.names import shorten_repr
from praval_tools.schema.coercion import Repair
from praval_tools.schema.json_input import MalformedArgumentsError, parse_arguments
from praval_tools.schema.type_handler import Mismatch
from praval_tools.tools.call import Outcome, ToolCall, ToolResult
from praval_tools.tools.decision import AccessOutcome, Allow, ApprovalRequest, Decision, Deny
from praval_tools.tools.tool import Tool


def is_encodable_text(given: Any) -> bool:
    """Tell whether *given* is text that a store takes: a model may send half of a surrogate pair, or no text at all."""
    if type(given) is not str:
        return False
    try:
        return given.isascii() or bool(given.encode())
    except UnicodeEncodeError:
        return False


def with_writable_ids(call: ToolCall) -> ToolCall:
    """Return *call*, of its ids and names those that can be written."""
    if call.tool_call_id is None and call.parent_id is None and not call.on_behalf_of:
        return call
    changes: dict[str, Any] = {}
    for name in ("tool_call_id", "parent_id"):
        given = getattr(call, name)
        if given is not None and not (given and is_encodable_text(given)):
            changes[name] = None
    if call.on_behalf_of and not all(map(is_encodable_text, call.on_behalf_of)):
        changes["on_behalf_of"] = tuple(
            one if is_encodable_text(one) else shorten_repr(one) for one in call.on_behalf_of
        )
    return msgspec.structs.replace(call, **changes) if changes else call


def parse_call_arguments(arguments: Any) -> Any:
    """Return what *arguments* spell as JSON; themselves where they spell nothing."""
    if type(arguments) is dict:
        return arguments
    try:
        return parse_arguments(arguments)
    except MalformedArgumentsError:
        return arguments


class _DecisionFields(msgspec.Struct, omit_defaults=True, gc=False):
    allowed: bool
    rule: str
    reason: str = ""
    source: str = ""


class _EventBody(msgspec.Struct, omit_defaults=True, kw_only=True, gc=False):
    """What `to_json` writes of an event in which nothing is secret or special; far cheaper."""

    v: int
    type: EventType
    id: str
    time: datetime
    tool_call_id: str
    tool_name: str
    process: str = ""
    agent: str | None = None
    run_id: str | None = None


class _CallEventBody(_EventBody, omit_defaults=True, kw_only=True, gc=False):
    """An `AgentToolCall`."""

    arguments: Any
    decision: _DecisionFields | None = None
    chain: tuple[str, ...] = ()
    parent_id: str | None = None
    fingerprint: str = ""
    attempt: int = 1
    digest: str = ""
    given: str = ""


class _ResultEventBody(_EventBody, omit_defaults=True, kw_only=True, gc=False):
    """An `AgentToolResult` that is ok."""

    outcome: Outcome
    result: Any
    error: None
    latency_ms: float | None
    attempts: int = 1


_ENCODE: Final = msgspec.json.Encoder().encode
_ENCODING_ERRORS: Final = (TypeError, ValueError, OverflowError)
"""Half of a surrogate pair, a number of very many digits."""


def _build_record(said: Any, body: bytes, attempt: int | None) -> Record:
    """Return the record of an event, or of what stands for one, that is written as *body*."""
    return Record(
        type=said.type._value_, body=body, id=said.id, time=said.time, process=said.process, run_id=said.run_id,
        call_id=said.tool_call_id, agent=said.agent, tool=said.tool_name, attempt=attempt,
    )  # fmt: skip


class CallRecordBuilder(msgspec.Struct):
    """
    One call, as it is written about.

    Args:
        call: With its id and run.
        plan: What is secret in it.
        clock: Time and ids of the events.
        request: As it was looked for; None outside of runs.
        secrets: Those that were found in it.
        tool: The tool, as it was called.
        agent: Who called.
    """

    call: ToolCall
    redaction_plan: RedactionPlan
    clock: Clock
    request: ReplayQuery | None = None
    secrets: Any = NO_SECRETS
    tool: str = ""
    agent: str | None = None

    def __post_init__(self) -> None:
        name, agent = self.call.name, self.call.agent
        self.tool = name if is_encodable_text(name) else shorten_repr(name)
        self.agent = agent if is_encodable_text(agent) else None

    def build_common_fields(self) -> dict[str, Any]:
        """Return what every event of the call carries."""
        call = self.call
        return {
            "id": self.clock.new_id(), "time": self.clock.now(), "process": get_process_name(),
            "tool_call_id": call.tool_call_id, "run_id": call.run_id, "tool_name": self.tool, "agent": self.agent,
        }  # fmt: skip

    def build_record(self, event: Any, attempt: int | None = None) -> Record:
        """Return *event* for the store, without secrets; those in it are looked for in the next ones, too."""
        event, self.secrets = self.redaction_plan.redact_event(event, self.secrets)
        return _build_record(event, to_json(event), attempt)

    @property
    def has_exact_names(self) -> bool:
        """Whether the tool and the agent are written as the call names them."""
        return self.tool == self.call.name and self.agent == self.call.agent

    @property
    def digest_fields(self) -> dict[str, str]:
        """By what a replay finds the call."""
        request = self.request
        return {} if request is None else {"digest": request.digest, "given": request.given_digest}


# ── written quickly ─────────────────────────────────────────────────────────────────────────────

_START_TYPE: Final = EventType.AGENT_TOOL_CALL  # a member of an enumeration is looked up by code of its own
_END_TYPE: Final = EventType.AGENT_TOOL_RESULT
_OK: Final = Outcome.OK


def build_plain_start_record(
    clock: Clock, call: ToolCall, arguments: Any, decision: _DecisionFields, fingerprint: str, *,
    digest: str = "", given: str = "", attempt: int = 1, record_attempt: int | None = INTENT,
) -> Record | None:  # fmt: skip
    """Return the record of the start of a call in which nothing is secret or special; None: see `began`."""
    body = _CallEventBody(  # in the order of the fields, which is far quicker
        v=EVENT_VERSION, type=_START_TYPE, id=clock.new_id(), time=clock.now(), tool_call_id=call.tool_call_id or "",
        tool_name=call.name, process=get_process_name(), agent=call.agent, run_id=call.run_id, arguments=arguments,
        decision=decision, chain=call.on_behalf_of, parent_id=call.parent_id, fingerprint=fingerprint, digest=digest,
    )  # fmt: skip
    if given or attempt != 1:  # seldom, and as two keywords more they are dear
        body.given, body.attempt = given, attempt
    try:
        return _build_record(body, _ENCODE(body), record_attempt)
    except _ENCODING_ERRORS:
        return None


def build_plain_end_record(
    clock: Clock, call: ToolCall, result: ToolResult, value: Any, record_attempt: int | None = 1
) -> Record | None:
    """Return the record of a call that gave *value*, with nothing secret or special; None: see `ended`."""
    body = _ResultEventBody(
        v=EVENT_VERSION, type=_END_TYPE, id=clock.new_id(), time=clock.now(), tool_call_id=call.tool_call_id or "",
        tool_name=call.name, process=get_process_name(), agent=call.agent, run_id=call.run_id, outcome=_OK, result=value,
        error=None, latency_ms=result.latency_ms, attempts=result.attempts,
    )  # fmt: skip
    try:
        return _build_record(body, _ENCODE(body), record_attempt)
    except _ENCODING_ERRORS:
        return None


# ── written ──────────────────────────────────────────────────────────────────────────────────────


def build_start_record(note: CallRecordBuilder, run: RunTool, attempt: int | None) -> Record:
    """Return the record of a call whose tool is about to start."""
    arguments, repairs, call = run.bound_arguments.arguments, run.bound_arguments.repairs, note.call
    said: dict[str, Any] = {
        **note.digest_fields, "arguments": arguments, "chain": call.on_behalf_of, "parent_id": call.parent_id,
        "fingerprint": run.tool.fingerprint, "attempt": run.attempts + 1, "toolcall_reason": call.reason,
    }  # fmt: skip
    clean, secrets = note.redaction_plan.redact_arguments(arguments)
    usual = note.has_exact_names and not repairs and not call.reason
    if usual and clean is arguments and not secrets and is_plain_json(arguments):
        made = build_plain_start_record(
            note.clock, call, arguments, to_decision_fields(run.path.decision), run.tool.fingerprint, **note.digest_fields,
            attempt=run.attempts + 1, record_attempt=attempt,
        )  # fmt: skip
        if made is not None:
            return made
    event = AgentToolCall(
        **note.build_common_fields(), **said, decision=to_recorded_decision(run.path.decision), repairs=repairs
    )
    return note.build_record(event, attempt)


_decision_cache: dict[int, tuple[Decision, _DecisionFields]] = {}
_MAX_CACHED_DECISIONS: Final = 1_024


def to_decision_fields(decision: Decision) -> _DecisionFields:
    """Return what is written of *decision*; of the same one, which most calls have, the same."""
    known = _decision_cache.get(id(decision))
    if known is not None and known[0] is decision:
        return known[1]
    if len(_decision_cache) >= _MAX_CACHED_DECISIONS:
        _decision_cache.clear()
    found = to_recorded_decision(decision)
    made = _DecisionFields(found.allowed, found.rule, found.reason, found.source)
    _decision_cache[id(decision)] = decision, made
    return made


def build_end_record(
    note: CallRecordBuilder, result: ToolResult, value: Any, detail: str | None, attempt: int | None
) -> Record:
    """Return the record of a call that had started; *value* is its result as JSON."""
    said: dict[str, Any] = {
        "outcome": result.outcome, "result": value, "error": result.error, "latency_ms": result.latency_ms,
        "attempts": result.attempts,
    }  # fmt: skip
    usual = note.has_exact_names and result.outcome is Outcome.OK
    if (
        usual
        and note.redaction_plan.redact_result(value, note.secrets) is value
        and not note.secrets
        and is_plain_json(value)
    ):
        made = build_plain_end_record(note.clock, note.call, result, value, attempt)
        if made is not None:
            return made
    error = result.exception if result.outcome is Outcome.TOOL_ERROR else None
    event = AgentToolResult(
        **note.build_common_fields(), **said, detail=detail, error_type=result.error_type,
        error_base=None if error is None else find_builtin_base(error),
    )  # fmt: skip
    return note.build_record(event, attempt)


def build_refusal_record(note: CallRecordBuilder, result: ToolResult, attempt: int | None) -> Record:
    """Return the record of a call that ended before its tool started."""
    error = result.exception
    return note.build_record(CallRefused(
        **note.build_common_fields(), **note.digest_fields, outcome=result.outcome, arguments=note.call.arguments,
        decision=None if result.decision is None else to_recorded_decision(result.decision), error=result.error,
        error_type=result.error_type, problems=error.problems if isinstance(error, ToolArgumentsError) else (),
        chain=note.call.on_behalf_of, parent_id=note.call.parent_id, toolcall_reason=note.call.reason,
    ), attempt)  # fmt: skip


def build_interruption_record(note: CallRecordBuilder, run: RunTool, entered: bool, error: BaseException) -> Record:
    """Return the record of a call whose caller was stopped: in doubt, unless nobody *entered* the function."""
    if not entered:
        return note.build_record(CallRerun(**note.build_common_fields(), by="praval_tools"))
    return note.build_record(AgentToolResult(
        **note.build_common_fields(), outcome=Outcome.CANCELLED, error=f"The call was stopped by {type(error).__name__}.",
        error_type="cancelled", attempts=run.attempts,
    ))  # fmt: skip


def build_approval_request_record(note: CallRecordBuilder, request: ApprovalRequest) -> Record:
    """Return the record of a call that needs an approval."""
    return note.build_record(ApprovalAsked(
        **note.build_common_fields(), arguments=request.arguments, fingerprint=request.fingerprint, risk_level=request.risk_level,
        reason=request.reason, expires=request.expires,
    ))  # fmt: skip


def build_approval_answer_record(note: CallRecordBuilder, request: ApprovalRequest, answer: Allow | Deny) -> Record:
    """Return the record of an approval that was answered."""
    allowed = isinstance(answer, Allow)
    edited = dict(answer.arguments) if isinstance(answer, Allow) and answer.arguments is not None else None
    return note.build_record(ApprovalAnswered(
        **note.build_common_fields(), answer="allow" if allowed else "deny", by=answer.by, reason=answer.reason,
        fingerprint=request.fingerprint, arguments=edited, digest=compute_approval_digest(note, request), expires=request.expires,
    ))  # fmt: skip


def compute_approval_digest(note: CallRecordBuilder, request: ApprovalRequest) -> str:
    """Return the digest of what an approver is shown."""
    return compute_digest([note.redaction_plan.redact_arguments(request.arguments)[0], list(request.chain)])


def build_late_result_record(note: CallRecordBuilder, value: Any, error: str | None, error_type: str | None) -> Record:
    """Return the record of a function that ended after its call was given up."""
    outcome = Outcome.OK if error is None else Outcome.TOOL_ERROR
    return note.build_record(
        LateResult(**note.build_common_fields(), outcome=outcome, result=value, error=error, error_type=error_type)
    )


# ── read back ────────────────────────────────────────────────────────────────────────────────────


class _RecordedStart(msgspec.Struct, gc=False):
    decision: _DecisionFields | None = None
    repairs: tuple[Repair, ...] = ()


class _RecordedEnd(msgspec.Struct, gc=False):
    outcome: Outcome
    v: int = 0
    result: Any = None
    error: str | None = None
    error_type: str | None = None
    error_base: str | None = None
    latency_ms: float | None = None
    attempts: int = 0
    decision: _DecisionFields | None = None
    problems: tuple[Problem, ...] = ()


class _RecordedAnswer(msgspec.Struct):
    answer: str
    by: str = ""
    reason: str = ""
    fingerprint: str = ""
    arguments: Any = None
    digest: str = ""
    expires: datetime | None = None


# made here: what threads make of a type at the same time, msgspec may crash on
_read_end: Final = build_body_decoder(_RecordedEnd)
_read_start: Final = build_body_decoder(_RecordedStart)
_read_answer: Final = build_body_decoder(_RecordedAnswer)


_DECISION_CODES: Final[dict[str, AccessOutcome]] = {
    "unknown_tool": "unknown",
    "disabled": "disabled",
    "forbidden": "forbidden",
}


def build_replayed_result(
    entry: ReplayEntry, call_id: str | None, tool: Tool[..., Any] | None, most: int | None
) -> ToolResult:
    """Return the recorded result of a call; its value of the type that the tool's return hint says."""
    if entry.end is None:
        raise AssertionError("a call that ended has a record of that")
    end = decode_body(entry.end, _read_end)
    start = _read_start(entry.start.body) if entry.start is not None else _RecordedStart()
    outcome, value = end.outcome, None
    if outcome is Outcome.OK:
        value = unpack_value(end.result)
        if tool is not None and tool.implementation.is_compilable:
            try:
                value = tool.implementation.compiled.decode_result(value)
            except Mismatch:  # recorded of an older definition, or redacted: as JSON
                pass
    return ToolResult(
        call_id, entry.tool, entry.agent, outcome, value, end.error, end.error_type, end.latency_ms,
        end.attempts, start.repairs, True, _rebuild_decision(entry, outcome, end.decision or start.decision),
        _rebuild_exception(entry, outcome, end), most,
    )  # fmt: skip


def _rebuild_decision(entry: ReplayEntry, outcome: Outcome, note: _DecisionFields | None) -> Decision | None:
    if note is None:
        return None
    said = "allowed" if note.allowed else _DECISION_CODES.get(outcome.value, "forbidden")
    return Decision(note.allowed, said, note.rule, entry.agent, entry.tool, note.reason, source=note.source or None)


def _rebuild_exception(entry: ReplayEntry, outcome: Outcome, end: _RecordedEnd) -> BaseException | None:
    if outcome is Outcome.TOOL_ERROR:
        return restore_execution_error(end.error_base, end.error or "", end.error_type or "", entry.tool)
    if outcome is Outcome.INVALID_ARGUMENTS:
        return ToolArgumentsError(entry.tool, end.problems)
    return None


def build_in_doubt_result(entry: ReplayEntry, call: ToolCall) -> ToolResult:
    """Return the result of a call that was begun before, of which nobody knows whether its tool did its work."""
    text = (
        f"Call {entry.call_id!r} of {entry.tool!r} began in run {call.run_id!r} and has no recorded result: "
        f"it may have done its work, and is not run again. Look, then say run.resolve({entry.call_id!r}, result=…), "
        f"error=… or rerun=True; or use praval-tools runs resolve."
    )
    error = ToolInDoubtError(text, call.run_id, entry.call_id)
    return ToolResult(call.tool_call_id, entry.tool, entry.agent, Outcome.IN_DOUBT, None, text, error.code,
                      exception=error)  # fmt: skip


def find_recorded_answer(
    note: CallRecordBuilder, entry: ReplayEntry | None, request: ApprovalRequest
) -> Allow | Deny | None:
    """Return the recorded answer to an equal request, where it still counts; None: there is none."""
    if entry is None or entry.approval is None:
        return None
    found = _read_answer(entry.approval.body)
    same = (found.fingerprint, found.digest) == (request.fingerprint, compute_approval_digest(note, request))
    if not same or (found.expires is not None and found.expires <= note.clock.now()):
        return None
    if found.answer != "allow":
        return Deny(found.reason, found.by)
    if MARKER_PATTERN.search(str(found.arguments)):  # edited to a secret, which nobody can read back
        return None
    edited = None if found.arguments is None else unpack_value(found.arguments)
    return Allow(edited, found.by, found.reason)
