"""Builds the journal records of a call: its start, its end, a refusal, an interruption; without secrets."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, TypeGuard, cast

import msgspec

from praval_tools.clock import Clock
from praval_tools.errors import ToolArgumentsError
from praval_tools.execution.call_progress import CallProgress
from praval_tools.execution.effects import RunTool
from praval_tools.execution.failures import find_builtin_base, read_error_number
from praval_tools.journal.codec import EVENT_VERSION, to_json
from praval_tools.journal.events import (
    AgentToolCall,
    AgentToolResult,
    CallEvent,
    CallRefused,
    CallRerun,
    EventType,
    LateResult,
)
from praval_tools.journal.process_name import get_process_name
from praval_tools.journal.recorded_decisions import to_recorded_decision
from praval_tools.journal.redaction.secret_search import NO_SECRETS, SecretMarkers
from praval_tools.journal.replay_entry import LIBRARY, ReplayQuery
from praval_tools.journal.storage.protocol import Record
from praval_tools.names import get_class_name, shorten_repr
from praval_tools.runs.call_plans import CallPlan
from praval_tools.runs.call_secrets import (
    find_arguments_error,
    find_bound_secrets,
    find_edited_secrets,
    find_given_secrets,
    find_judged_secrets,
    find_marked_secrets,
    find_shown_secrets,
    hide_quotations,
    list_received_values,
)
from praval_tools.schema.json_input import MalformedArgumentsError, parse_arguments
from praval_tools.schema.json_values import is_utf8_encodable
from praval_tools.tools.argument_spellings import read_marked_arguments
from praval_tools.tools.call import Outcome, ToolCall, ToolResult
from praval_tools.tools.decision import Allow, ApprovalAnswer, Decision
from praval_tools.tools.frames import activate_tool_frame
from praval_tools.tools.value_codec import is_plain_json

_MAX_ID_BYTES: Final = 1_200
"""PostgreSQL indexes texts of 2,700 bytes; what it cannot hold, such as NUL, takes two there."""


def is_encodable_text(value: object) -> TypeGuard[str]:
    """Tell whether *value* is text that a store takes; a model may send half a surrogate pair, or no text at all."""
    return type(value) is str and (value.isascii() or is_utf8_encodable(value))


def _shorten_id(value: str) -> str:
    """Return an id that every store can index: a digest in place of a very long one."""
    if len(value) <= _MAX_ID_BYTES // 4 or len(encoded := value.encode()) <= _MAX_ID_BYTES:
        return value
    return f"{value[:40]}_{sha256(encoded).hexdigest()}"


def with_writable_fields(call: ToolCall) -> ToolCall:
    """
    Return *call* with fields that can be written and read back, whatever its maker put into them.

    Ids that cannot be written are left out, very long ones cut; names and reasons that are no such texts are replaced.
    """
    chain: object = call.on_behalf_of
    has_plain_reason = type(call.reason) is str
    has_no_chain = type(chain) is tuple and not chain
    if call.tool_call_id is None and call.parent_id is None and has_no_chain and has_plain_reason:
        return call
    changes: dict[str, object] = {}
    for name in ("tool_call_id", "parent_id"):
        value: object = getattr(call, name)
        writable = _shorten_id(value) if value and is_encodable_text(value) else None
        if writable is not value:
            changes[name] = writable
    names = tuple(chain) if isinstance(chain, tuple | list) else (chain,) if chain else ()
    if chain is not names or not all(map(is_encodable_text, names)):
        changes["on_behalf_of"] = tuple(name if is_encodable_text(name) else shorten_repr(name) for name in names)
    if not has_plain_reason:
        changes["reason"] = "" if call.reason is None else shorten_repr(call.reason)
    return msgspec.structs.replace(call, **changes) if changes else call


def parse_call_arguments(arguments: object) -> object:
    """Return *arguments*, parsed if they are JSON text."""
    if type(arguments) is dict:
        return arguments
    with activate_tool_frame("(arguments)"):  # they may be of a class with code of its own
        try:
            return parse_arguments(arguments)
        except MalformedArgumentsError:
            return arguments


class DecisionFields(msgspec.Struct, omit_defaults=True, gc=False):
    """What is written of a decision."""

    allowed: bool
    rule: str
    reason: str = ""
    source: str = ""


class _EventBody(msgspec.Struct, omit_defaults=True, kw_only=True, gc=False):
    """The fields of an event in which nothing is secret or special; encoded far faster than by `to_json`."""

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
    """The fields of an `AgentToolCall`."""

    arguments: object
    decision: DecisionFields | None = None
    chain: tuple[str, ...] = ()
    parent_id: str | None = None
    fingerprint: str = ""
    attempt: int = 1
    digest: str = ""
    given: str = ""
    principal: str = ""
    has_given_id: bool = False
    position: int = 0
    after: int | None = None
    task: str = ""


class _ResultEventBody(_EventBody, omit_defaults=True, kw_only=True, gc=False):
    """The fields of an `AgentToolResult` with outcome `ok`."""

    outcome: Outcome
    result: object
    error: None
    latency_ms: float | None
    attempts: int = 1
    union_members: tuple[str, ...] = ()


_ENCODE: Final = msgspec.json.Encoder().encode
_ENCODING_ERRORS: Final = (TypeError, ValueError, OverflowError)
"""Raised for half a surrogate pair, or a number of very many digits."""


def _build_record(event: CallEvent | _EventBody, body: bytes, attempt: int | None) -> Record:
    """Return the record of *event*, which is written as *body*."""
    return Record(
        type=event.type._value_, body=body, id=event.id, time=event.time, process=event.process, run_id=event.run_id,
        call_id=event.tool_call_id, agent=event.agent, tool=event.tool_name, attempt=attempt,
    )  # fmt: skip


class CallRecordBuilder(msgspec.Struct):
    """
    Builds the records of one call.

    Args:
        call: The call, with its id and run.
        plan: What it has in common with others of its principal and tool.
        clock: Gives time and ids of the events.
        query: The query that finds the call on replay; None outside runs.
        has_given_id: Whether the caller gave a call of a run its id.
        position: The number of the call in its run.
        principal: What is recorded of its principal, beside agent and chain.
        secrets: The secrets that were in its records up to now.
        tool: The name of the tool, as it is written.
        agent: Who called, as it is written.
        has_plain_arguments: Whether what the tool is about to get is JSON in which nothing is secret.
        edited_arguments: What an approver wrote in place of its arguments.
    """

    call: ToolCall
    plan: CallPlan
    clock: Clock
    query: ReplayQuery | None = None
    has_given_id: bool = False
    position: int = 0
    principal: str = ""
    secrets: SecretMarkers = NO_SECRETS
    tool: str = ""
    agent: str | None = None
    has_plain_arguments: bool = False
    edited_arguments: Mapping[str, object] | None = None

    def __post_init__(self) -> None:
        name, agent = self.call.name, self.call.agent
        self.tool = name if is_encodable_text(name) else shorten_repr(name)
        self.agent = agent if is_encodable_text(agent) else None
        self.secrets = self.plan.redaction_plan.default_secrets

    def build_common_fields(self) -> dict[str, Any]:  # for the constructors of events
        """Return the fields that all events of the call have."""
        call = self.call
        return {
            "id": self.clock.new_id(), "time": self.clock.now(), "process": get_process_name(),
            "tool_call_id": call.tool_call_id, "run_id": call.run_id, "tool_name": self.tool, "agent": self.agent,
        }  # fmt: skip

    def build_record(self, event: CallEvent, attempt: int | None = None) -> Record:
        """Return the record of *event*, without its secrets, which are replaced in later records of the call, too."""
        clean_event, self.secrets = self.plan.redaction_plan.redact_event(event, self.secrets)
        return _build_record(cast("CallEvent", clean_event), to_json(clean_event), attempt)

    def add_marked_secrets(self, progress: CallProgress) -> None:
        """Replace what classes mark as secret in the objects that were given as arguments in all records."""
        self.secrets = find_marked_secrets(self.plan.redaction_plan, progress, self.secrets)

    def add_edited_secrets(self, answer: ApprovalAnswer) -> None:
        """Replace the secrets of arguments that an approver wrote in all later records of the call."""
        if isinstance(answer, Allow) and answer.arguments is not None:
            self.edited_arguments = answer.arguments
            self.secrets = find_edited_secrets(self.plan.redaction_plan, answer.arguments, self.secrets)

    def _add_secrets(self, arguments: Mapping[str, object]) -> None:
        """Replace the secrets of *arguments*, as somebody wrote them, in all later records of the call."""
        self.secrets = self.plan.redaction_plan.redact_arguments(arguments, self.secrets, is_validated=False)[1]

    def add_given_secrets(self) -> None:
        """Replace the secrets of arguments that no tool gets, however its types spell them, in all later records."""
        arguments = parse_call_arguments(self.call.arguments)
        self.secrets = find_given_secrets(self.plan.redaction_plan, arguments, self.secrets)

    def add_bound_secrets(self, run: RunTool) -> None:
        """Replace the secrets of what the tool is about to get, however it is spelled, in all later records."""
        plan, bound = self.plan.redaction_plan, run.bound_arguments
        self.has_plain_arguments = (
            not plan.has_secret_parameters
            and _is_plain(self, bound.arguments)
            and not read_marked_arguments(list_received_values(bound))
        )
        if not self.has_plain_arguments:
            self.secrets = find_bound_secrets(plan, run.tool.implementation, bound, self.secrets)

    def add_shown_secrets(self, progress: CallProgress) -> None:
        """Replace the secrets of arguments that an approver saw in all later records."""
        self.secrets = find_shown_secrets(self.plan.redaction_plan, progress, self.secrets)

    def add_judged_secrets(self, progress: CallProgress) -> None:
        """Replace the secrets of arguments with which the function was not entered in all later records."""
        self.secrets = find_judged_secrets(self.plan.redaction_plan, progress, self.secrets)

    def find_arguments_error(self, result: ToolResult) -> ToolArgumentsError | None:
        """Return what is recorded of arguments that do not fit, if that is how the call ended."""
        if (error := find_arguments_error(result)) is None:
            return None
        self._add_secrets(self.call.arguments)
        arguments = self.call.arguments if self.edited_arguments is None else self.edited_arguments
        return hide_quotations(error, arguments, self.plan.redaction_plan, self.secrets)

    def read_error_number(self, tool: str, error: BaseException) -> int | None:
        """Return the `errno` of what the tool raised, unless it is one of the secrets of the call."""
        number = read_error_number(tool, error)
        text = str(number)
        return number if self.plan.redaction_plan.redact_text(text, self.secrets) == text else None

    @property
    def has_exact_names(self) -> bool:
        """Whether tool and agent are written exactly as the call names them."""
        return self.tool == self.call.name and self.agent == self.call.agent

    @property
    def digest_fields(self) -> dict[str, str]:
        """The digests by which a replay finds the call."""
        query = self.query
        return {} if query is None else {"digest": query.digest, "given": query.given_digest}

    @property
    def after(self) -> int | None:
        """The position of the call whose result came last before this one was made by async code."""
        return None if self.query is None else self.query.after

    @property
    def task(self) -> str:
        """The path of the task that made it."""
        return "" if self.query is None else self.query.task.path or ""


# ── the fast path ───────────────────────────────────────────────────────────────────────────────

_START_TYPE: Final = EventType.AGENT_TOOL_CALL  # looking up a member of an enumeration is slow
_END_TYPE: Final = EventType.AGENT_TOOL_RESULT
_OK: Final = Outcome.OK


def build_plain_start_record(builder: CallRecordBuilder, run: RunTool, attempt: int | None) -> Record | None:
    """Return the record of the start of a call in which nothing is secret or special, if it can be encoded."""
    call, query, clock, plan = builder.call, builder.query, builder.clock, builder.plan
    fingerprint = plan.fingerprint if run.tool is plan.tool else run.tool.fingerprint
    body = _CallEventBody(  # in the order of the fields, which is far faster
        v=EVENT_VERSION, type=_START_TYPE, id=clock.new_id(), time=clock.now(), tool_call_id=call.tool_call_id or "",
        tool_name=call.name, process=get_process_name(), agent=call.agent, run_id=call.run_id,
        arguments=run.bound_arguments.arguments, decision=to_decision_fields(run.path.decision),
        chain=call.on_behalf_of, parent_id=call.parent_id, fingerprint=fingerprint,
    )  # fmt: skip
    if query is not None:
        body.digest, body.given, body.has_given_id = query.digest, query.given_digest, builder.has_given_id
        body.position, body.after, body.task = builder.position, query.after, query.task.path or ""
    if builder.principal or run.attempts:  # rare; as keywords they would cost every call time
        body.principal, body.attempt = builder.principal, run.attempts + 1
    return _encode_plain_record(body, attempt)


def build_plain_end_record(
    builder: CallRecordBuilder, result: ToolResult, value: object, attempt: int | None,
    union_members: tuple[str, ...] = (),
) -> Record | None:  # fmt: skip
    """Return the record of a call that returned *value*, with nothing secret or special, if it can be encoded."""
    call, clock = builder.call, builder.clock
    body = _ResultEventBody(
        v=EVENT_VERSION, type=_END_TYPE, id=clock.new_id(), time=clock.now(), tool_call_id=call.tool_call_id or "",
        tool_name=call.name, process=get_process_name(), agent=call.agent, run_id=call.run_id, outcome=_OK,
        result=value, error=None, latency_ms=result.latency_ms, attempts=result.attempts, union_members=union_members,
    )  # fmt: skip
    return _encode_plain_record(body, attempt)


def _encode_plain_record(body: _EventBody, attempt: int | None) -> Record | None:
    try:
        return _build_record(body, _ENCODE(body), attempt)
    except _ENCODING_ERRORS:
        return None


# ── all records ────────────────────────────────────────────────────────────────────────────────────


def build_start_record(builder: CallRecordBuilder, run: RunTool, attempt: int | None) -> Record:
    """Return the record of a call whose tool is about to run."""
    arguments, repairs, call = run.bound_arguments.arguments, run.bound_arguments.repairs, builder.call
    if builder.has_exact_names and not repairs and not call.reason and builder.has_plain_arguments:
        record = build_plain_start_record(builder, run, attempt)
        if record is not None:
            return record
    event = AgentToolCall(
        **builder.build_common_fields(), **builder.digest_fields, arguments=arguments, chain=call.on_behalf_of,
        principal=builder.principal, parent_id=call.parent_id, fingerprint=run.tool.fingerprint,
        attempt=run.attempts + 1, toolcall_reason=call.reason, decision=to_recorded_decision(run.path.decision),
        has_given_id=builder.has_given_id, position=builder.position, after=builder.after, task=builder.task,
        repairs=builder.plan.redaction_plan.hide_quoted_values(repairs, arguments, builder.secrets),
    )  # fmt: skip
    return builder.build_record(event, attempt)


def _is_plain(builder: CallRecordBuilder, arguments: Mapping[str, object]) -> bool:
    """Tell whether *arguments* are JSON in which nothing is secret."""
    query = builder.query
    if builder.secrets or not is_plain_json(arguments):
        return False
    if query is not None and query.arguments is arguments:  # redacted for the query, which replaced nothing
        return True
    clean, secrets = builder.plan.redaction_plan.redact_arguments(arguments)
    return clean is arguments and not secrets


_decision_cache: dict[int, tuple[Decision, DecisionFields]] = {}
_MAX_CACHED_DECISIONS: Final = 1_024


def to_decision_fields(decision: Decision) -> DecisionFields:
    """Return what is written of *decision*, cached by identity, since most calls share theirs."""
    cached = _decision_cache.get(id(decision))
    if cached is not None and cached[0] is decision:
        return cached[1]
    if len(_decision_cache) >= _MAX_CACHED_DECISIONS:
        _decision_cache.clear()
    recorded = to_recorded_decision(decision)
    fields = DecisionFields(recorded.allowed, recorded.rule, recorded.reason, recorded.source)
    _decision_cache[id(decision)] = decision, fields
    return fields


def build_end_record(
    builder: CallRecordBuilder, result: ToolResult, value: object, detail: str | None, attempt: int | None,
    union_members: tuple[str, ...] = (),
) -> Record:  # fmt: skip
    """Return the record of the end of a call that had started; *value* is its result as JSON."""
    if (
        builder.has_exact_names
        and result.outcome is _OK
        and builder.plan.redaction_plan.redact_result(value, builder.secrets) is value
        and not builder.secrets
        and is_plain_json(value)
    ):
        record = build_plain_end_record(builder, result, value, attempt, union_members)
        if record is not None:
            return record
    error = result.exception if result.outcome is Outcome.TOOL_ERROR else None
    refusal = builder.find_arguments_error(result)  # of a later attempt
    event = AgentToolResult(
        **builder.build_common_fields(), outcome=result.outcome, result=value,
        error=result.error if refusal is None else str(refusal),
        latency_ms=result.latency_ms, attempts=result.attempts, detail=detail, error_type=result.error_type,
        error_base=None if error is None else find_builtin_base(result.name, error), union_members=union_members,
        error_number=None if error is None else builder.read_error_number(result.name, error),
    )  # fmt: skip
    return builder.build_record(event, attempt)


def build_refusal_record(builder: CallRecordBuilder, result: ToolResult, attempt: int | None) -> Record:
    """Return the record of a call that ended before its tool started."""
    builder.add_given_secrets()
    error = builder.find_arguments_error(result)
    return builder.build_record(CallRefused(
        **builder.build_common_fields(), **builder.digest_fields, outcome=result.outcome,
        arguments=builder.call.arguments,
        decision=None if result.decision is None else to_recorded_decision(result.decision),
        error=result.error if error is None else str(error), error_type=result.error_type,
        problems=() if error is None else error.problems, chain=builder.call.on_behalf_of,
        principal=builder.principal, parent_id=builder.call.parent_id, toolcall_reason=builder.call.reason,
        has_given_id=builder.has_given_id, position=builder.position, after=builder.after, task=builder.task,
    ), attempt)  # fmt: skip


def build_interruption_record(builder: CallRecordBuilder, run: RunTool, entered: bool, error: BaseException) -> Record:
    """Return the record of a call whose caller was interrupted: in doubt, if the function was *entered*."""
    if not entered:
        return builder.build_record(CallRerun(**builder.build_common_fields(), by=LIBRARY))
    return builder.build_record(AgentToolResult(
        **builder.build_common_fields(), outcome=Outcome.CANCELLED,
        error=f"The call was stopped by {get_class_name(type(error))}.", error_type="cancelled", attempts=run.attempts,
    ))  # fmt: skip


def build_late_result_record(
    builder: CallRecordBuilder, value: object, error: str | None, error_type: str | None
) -> Record:
    """Return the record of a function that ended after the time-out of its call."""
    outcome = Outcome.OK if error is None else Outcome.TOOL_ERROR
    return builder.build_record(
        LateResult(**builder.build_common_fields(), outcome=outcome, result=value, error=error, error_type=error_type)
    )
