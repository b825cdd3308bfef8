"""What is written of a call, and the result that is read back of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec

from praval_tools.clock import Clock
from praval_tools.errors import Problem, ToolArgumentsError, ToolInDoubtError
from praval_tools.execution.failures import builtin_base, recalled
from praval_tools.execution.steps import Run
from praval_tools.journal.codec import VERSION, to_json
from praval_tools.journal.events import (
    AgentToolCall,
    AgentToolResult,
    ApprovalAnswered,
    ApprovalAsked,
    CallRefused,
    CallRerun,
    EventType,
    LateResult,
    noted,
    process,
)
from praval_tools.journal.protocol import Record
from praval_tools.journal.redact import MARKER, Plan
from praval_tools.journal.replay import Entry, Request, digest_of
from praval_tools.journal.values import is_plain, unpacked
from praval_tools.model.approval import Allow, ApprovalRequest
from praval_tools.model.calls import Outcome, ToolCall, ToolResult
from praval_tools.model.decision import Allowed, Decision, Deny
from praval_tools.model.form import Mismatch
from praval_tools.model.jsontext import BadArguments, parse
from praval_tools.model.repair import Repair
from praval_tools.model.tool import Tool
from praval_tools.naming import shorten


def is_text(given: Any) -> bool:
    """Tell whether *given* is text that a store takes: a model may send half of a surrogate pair, or no text at all."""
    if type(given) is not str:
        return False
    try:
        return given.isascii() or bool(given.encode())
    except UnicodeEncodeError:
        return False


def writable(call: ToolCall) -> ToolCall:
    """Return *call*, of its ids and names those that can be written."""
    changes: dict[str, Any] = {}
    for name in ("tool_call_id", "parent_id"):
        given = getattr(call, name)
        if given is not None and not (given and is_text(given)):
            changes[name] = None
    if call.on_behalf_of and not all(map(is_text, call.on_behalf_of)):
        changes["on_behalf_of"] = tuple(one if is_text(one) else shorten(one) for one in call.on_behalf_of)
    return msgspec.structs.replace(call, **changes) if changes else call


def json_of(arguments: Any) -> Any:
    """Return what *arguments* spell as JSON; themselves where they spell nothing."""
    if type(arguments) is dict:
        return arguments
    try:
        return parse(arguments)
    except BadArguments:
        return arguments


class Note(msgspec.Struct):
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
    plan: Plan
    clock: Clock
    request: Request | None
    secrets: Any
    tool: str = ""
    agent: str | None = None

    def __post_init__(self) -> None:
        name, agent = self.call.name, self.call.agent
        self.tool = name if is_text(name) else shorten(name)
        self.agent = agent if is_text(agent) else None

    def head(self) -> dict[str, Any]:
        """Return what every event of the call carries."""
        call = self.call
        return {
            "id": self.clock.new_id(), "time": self.clock.now(), "process": process(),
            "tool_call_id": call.tool_call_id, "run_id": call.run_id, "tool_name": self.tool, "agent": self.agent,
        }  # fmt: skip

    def record(self, event: Any, attempt: int | None = None) -> Record:
        """Return *event* for the store, without secrets; those in it are looked for in the next ones, too."""
        event, self.secrets = self.plan.event(event, self.secrets)
        return Record(
            type=event.type.value, body=to_json(event), id=event.id, time=event.time, process=event.process,
            run_id=event.run_id, call_id=event.tool_call_id, agent=event.agent, tool=event.tool_name, attempt=attempt,
        )  # fmt: skip

    @property
    def digests(self) -> dict[str, str]:
        """By what a replay finds the call."""
        request = self.request
        return {} if request is None else {"digest": request.digest, "given": request.given}


# ── written ──────────────────────────────────────────────────────────────────────────────────────


class _Decided(msgspec.Struct, omit_defaults=True):
    allowed: bool
    rule: str
    reason: str = ""
    source: str = ""


class _CallBody(msgspec.Struct, omit_defaults=True):
    """What `to_json` writes of an `AgentToolCall` in which nothing is secret or special; far cheaper."""

    v: int
    type: EventType
    id: str
    time: datetime
    tool_call_id: str
    tool_name: str
    arguments: Any
    process: str = ""
    agent: str | None = None
    run_id: str | None = None
    decision: _Decided | None = None
    chain: tuple[str, ...] = ()
    parent_id: str | None = None
    fingerprint: str = ""
    attempt: int = 1
    digest: str = ""
    given: str = ""


class _ResultBody(msgspec.Struct, omit_defaults=True):
    """What `to_json` writes of an `AgentToolResult` that is ok, and in which nothing is secret or special."""

    v: int
    type: EventType
    id: str
    time: datetime
    tool_call_id: str
    tool_name: str
    outcome: Outcome
    result: Any
    error: None
    latency_ms: float | None
    process: str = ""
    agent: str | None = None
    run_id: str | None = None
    attempts: int = 1


_WRITE: Final = msgspec.json.Encoder().encode
_CALL: Final = EventType.AGENT_TOOL_CALL
_RESULT: Final = EventType.AGENT_TOOL_RESULT


def began(note: Note, run: Run, attempt: int | None) -> Record:
    """Return the record of a call whose tool is about to start."""
    arguments, bound = run.bound.arguments, run.bound
    clean, secrets = note.plan.arguments(arguments)
    if clean is arguments and not secrets and not bound.repairs and is_plain(arguments):
        call, request = note.call, note.request
        new_id, now, where = note.clock.new_id(), note.clock.now(), process()
        digest, given = ("", "") if request is None else (request.digest, request.given)
        body = _CallBody(
            VERSION, _CALL, new_id, now, call.tool_call_id or "", note.tool, arguments, where, note.agent, call.run_id,
            _decided(run.path.decision), call.on_behalf_of, call.parent_id, run.tool.fingerprint, run.attempts + 1,
            digest, given,
        )  # fmt: skip
        if (text := _written(body)) is not None:
            return Record(
                type=_CALL, body=text, id=new_id, time=now, process=where, run_id=call.run_id,
                call_id=call.tool_call_id, agent=note.agent, tool=note.tool, attempt=attempt,
            )  # fmt: skip
    return note.record(AgentToolCall(
        **note.head(), **note.digests, arguments=arguments, decision=noted(run.path.decision),
        chain=note.call.on_behalf_of, parent_id=note.call.parent_id, fingerprint=run.tool.fingerprint,
        attempt=run.attempts + 1, repairs=bound.repairs,
    ), attempt)  # fmt: skip


_notes: dict[int, tuple[Decision, _Decided]] = {}
_MOST_NOTES: Final = 1_024


def _decided(decision: Decision) -> _Decided:
    """Return what is written of *decision*; of the same one, which most calls have, the same."""
    known = _notes.get(id(decision))
    if known is not None and known[0] is decision:
        return known[1]
    if len(_notes) >= _MOST_NOTES:
        _notes.clear()
    found = noted(decision)
    made = _Decided(found.allowed, found.rule, found.reason, found.source)
    _notes[id(decision)] = decision, made
    return made


def _written(body: Any) -> bytes | None:
    try:
        return _WRITE(body)
    except (TypeError, ValueError, OverflowError):  # what only the long way can write
        return None


def ended(note: Note, result: ToolResult, value: Any, detail: str | None, attempt: int | None) -> Record:
    """Return the record of a call that had started; *value* is its result as JSON."""
    ok = result.outcome is Outcome.OK
    if ok and note.plan.result(value, note.secrets) is value and not note.secrets and is_plain(value):
        call, new_id, now, where = note.call, note.clock.new_id(), note.clock.now(), process()
        body = _ResultBody(
            VERSION, _RESULT, new_id, now, call.tool_call_id or "", note.tool, result.outcome, value, None,
            result.latency_ms, where, note.agent, call.run_id, result.attempts,
        )  # fmt: skip
        if (text := _written(body)) is not None:
            return Record(
                type=_RESULT, body=text, id=new_id, time=now, process=where, run_id=call.run_id,
                call_id=call.tool_call_id, agent=note.agent, tool=note.tool, attempt=attempt,
            )  # fmt: skip
    error = result.exception if result.outcome is Outcome.TOOL_ERROR else None
    return note.record(AgentToolResult(
        **note.head(), outcome=result.outcome, result=value, error=result.error, detail=detail,
        error_type=result.error_type, error_base=None if error is None else builtin_base(error),
        latency_ms=result.latency_ms, attempts=result.attempts,
    ), attempt)  # fmt: skip


def refused(note: Note, result: ToolResult, attempt: int | None) -> Record:
    """Return the record of a call that ended before its tool started."""
    error = result.exception
    return note.record(CallRefused(
        **note.head(), **note.digests, outcome=result.outcome, arguments=note.call.arguments,
        decision=None if result.decision is None else noted(result.decision), error=result.error,
        error_type=result.error_type, problems=error.problems if isinstance(error, ToolArgumentsError) else (),
        chain=note.call.on_behalf_of, parent_id=note.call.parent_id,
    ), attempt)  # fmt: skip


def stopped(note: Note, run: Run, entered: bool, error: BaseException) -> Record:
    """Return the record of a call whose caller was stopped: in doubt, unless nobody *entered* the function."""
    if not entered:
        return note.record(CallRerun(**note.head(), by="praval_tools"))
    return note.record(AgentToolResult(
        **note.head(), outcome=Outcome.CANCELLED, error=f"The call was stopped by {type(error).__name__}.",
        error_type="cancelled", attempts=run.attempts,
    ))  # fmt: skip


def asked(note: Note, request: ApprovalRequest) -> Record:
    """Return the record of a call that needs an approval."""
    return note.record(ApprovalAsked(
        **note.head(), arguments=request.arguments, fingerprint=request.fingerprint, risk_level=request.risk_level,
        reason=request.reason, expires=request.expires,
    ))  # fmt: skip


def answered(note: Note, request: ApprovalRequest, answer: Allow | Deny) -> Record:
    """Return the record of an approval that was answered."""
    allowed = isinstance(answer, Allow)
    edited = dict(answer.arguments) if isinstance(answer, Allow) and answer.arguments is not None else None
    return note.record(ApprovalAnswered(
        **note.head(), answer="allow" if allowed else "deny", by=answer.by, reason=answer.reason,
        fingerprint=request.fingerprint, arguments=edited, digest=shown_digest(note, request), expires=request.expires,
    ))  # fmt: skip


def shown_digest(note: Note, request: ApprovalRequest) -> str:
    """Return the digest of what an approver is shown."""
    return digest_of([note.plan.arguments(request.arguments)[0], list(request.chain)])


def late(note: Note, value: Any, error: str | None, error_type: str | None) -> Record:
    """Return the record of a function that ended after its call was given up."""
    outcome = Outcome.OK if error is None else Outcome.TOOL_ERROR
    return note.record(LateResult(**note.head(), outcome=outcome, result=value, error=error, error_type=error_type))


# ── read back ────────────────────────────────────────────────────────────────────────────────────


class _Start(msgspec.Struct):
    decision: _Decided | None = None
    repairs: tuple[Repair, ...] = ()


class _End(msgspec.Struct):
    outcome: str
    result: Any = None
    error: str | None = None
    error_type: str | None = None
    error_base: str | None = None
    latency_ms: float | None = None
    attempts: int = 0
    decision: _Decided | None = None
    problems: tuple[Problem, ...] = ()


class _Answer(msgspec.Struct):
    answer: str
    by: str = ""
    reason: str = ""
    fingerprint: str = ""
    arguments: Any = None
    digest: str = ""
    expires: datetime | None = None


# made here: what threads make of a type at the same time, msgspec may crash on
_read_end: Final = msgspec.json.Decoder(_End).decode
_read_start: Final = msgspec.json.Decoder(_Start).decode
_read_answer: Final = msgspec.json.Decoder(_Answer).decode


_OUTCOMES: Final[dict[str, Allowed]] = {"unknown_tool": "unknown", "disabled": "disabled", "forbidden": "forbidden"}


def replayed(entry: Entry, call: ToolCall, tool: Tool[..., Any] | None, most: int | None) -> ToolResult:
    """Return the recorded result of a call; its value of the type that the tool's return hint says."""
    end = _read_end(_body(entry.end))
    start = _read_start(_body(entry.start)) if entry.start is not None else _Start()
    outcome, value = Outcome(end.outcome), None
    if outcome is Outcome.OK:
        value = unpacked(end.result)
        if tool is not None and tool.definition_.usable:
            try:
                value = tool.definition_.compiled.structure_result(value)
            except Mismatch:  # recorded of an older definition, or redacted: as JSON
                pass
    return ToolResult(
        call.tool_call_id, entry.tool, entry.agent, outcome, value, end.error, end.error_type, end.latency_ms,
        end.attempts, start.repairs, True, _decision(entry, outcome, end.decision or start.decision),
        _exception(entry, outcome, end), most,
    )  # fmt: skip


def _body(record: Record | None) -> bytes:
    if record is None:
        raise AssertionError("a call that ended has a record of that")
    return record.body


def _decision(entry: Entry, outcome: Outcome, note: _Decided | None) -> Decision | None:
    if note is None:
        return None
    said = "allowed" if note.allowed else _OUTCOMES.get(outcome.value, "forbidden")
    return Decision(note.allowed, said, note.rule, entry.agent, entry.tool, note.reason, source=note.source or None)


def _exception(entry: Entry, outcome: Outcome, end: _End) -> BaseException | None:
    if outcome is Outcome.TOOL_ERROR:
        return recalled(end.error_base, end.error or "", end.error_type or "", entry.tool)
    if outcome is Outcome.INVALID_ARGUMENTS:
        return ToolArgumentsError(entry.tool, end.problems)
    return None


def in_doubt(entry: Entry, call: ToolCall) -> ToolResult:
    """Return the result of a call that was begun before, of which nobody knows whether its tool did its work."""
    text = (
        f"Call {entry.call_id!r} of {entry.tool!r} began in run {call.run_id!r} and has no recorded result: "
        f"it may have done its work, and is not run again. Look, then say run.resolve({entry.call_id!r}, result=…), "
        f"error=… or rerun=True; or use praval-tools runs resolve."
    )
    error = ToolInDoubtError(text, call.run_id, entry.call_id)
    return ToolResult(call.tool_call_id, entry.tool, entry.agent, Outcome.IN_DOUBT, None, text, error.code,
                      exception=error)  # fmt: skip


def known_answer(note: Note, entry: Entry | None, request: ApprovalRequest) -> Allow | Deny | None:
    """Return the recorded answer to an equal request, where it still counts; None: there is none."""
    if entry is None or entry.approval is None:
        return None
    found = _read_answer(entry.approval.body)
    same = (found.fingerprint, found.digest) == (request.fingerprint, shown_digest(note, request))
    if not same or (found.expires is not None and found.expires <= note.clock.now()):
        return None
    if found.answer != "allow":
        return Deny(found.reason, found.by)
    if MARKER.search(str(found.arguments)):  # edited to a secret, which nobody can read back
        return None
    edited = None if found.arguments is None else unpacked(found.arguments)
    return Allow(edited, found.by, found.reason)
