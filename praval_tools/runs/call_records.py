"""What is written of a call, and the result that is read back of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec

from praval_tools.clock import Clock
from praval_tools.errors import Problem, ToolArgumentsError, ToolInDoubtError
from praval_tools.execution.effects import Run
from praval_tools.execution.failures import builtin_base, recalled
from praval_tools.journal.codec import VERSION, reader, to_json
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
from praval_tools.journal.redaction.redactor import MARKER, Plan
from praval_tools.journal.redaction.secret_search import NO_SECRETS
from praval_tools.journal.replay import Entry, Request, digest_of, read_body
from praval_tools.journal.storage.protocol import INTENT, Record
from praval_tools.journal.value_codec import is_plain, unpacked
from praval_tools.names import shorten
from praval_tools.schema.coercion import Repair
from praval_tools.schema.json_input import BadArguments, parse
from praval_tools.schema.type_handler import Mismatch
from praval_tools.tools.approval import Allow, ApprovalRequest
from praval_tools.tools.call import Outcome, ToolCall, ToolResult
from praval_tools.tools.decision import Allowed, Decision, Deny
from praval_tools.tools.tool import Tool


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
    if call.tool_call_id is None and call.parent_id is None and not call.on_behalf_of:
        return call
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


class _Decided(msgspec.Struct, omit_defaults=True, gc=False):
    allowed: bool
    rule: str
    reason: str = ""
    source: str = ""


class _Body(msgspec.Struct, omit_defaults=True, kw_only=True, gc=False):
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


class _CallBody(_Body, omit_defaults=True, kw_only=True, gc=False):
    """An `AgentToolCall`."""

    arguments: Any
    decision: _Decided | None = None
    chain: tuple[str, ...] = ()
    parent_id: str | None = None
    fingerprint: str = ""
    attempt: int = 1
    digest: str = ""
    given: str = ""


class _ResultBody(_Body, omit_defaults=True, kw_only=True, gc=False):
    """An `AgentToolResult` that is ok."""

    outcome: Outcome
    result: Any
    error: None
    latency_ms: float | None
    attempts: int = 1


_WRITE: Final = msgspec.json.Encoder().encode
_UNWRITTEN: Final = (TypeError, ValueError, OverflowError)
"""Half of a surrogate pair, a number of very many digits."""


def _record(said: Any, body: bytes, attempt: int | None) -> Record:
    """Return the record of an event, or of what stands for one, that is written as *body*."""
    return Record(
        type=said.type._value_, body=body, id=said.id, time=said.time, process=said.process, run_id=said.run_id,
        call_id=said.tool_call_id, agent=said.agent, tool=said.tool_name, attempt=attempt,
    )  # fmt: skip


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
    request: Request | None = None
    secrets: Any = NO_SECRETS
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
        return _record(event, to_json(event), attempt)

    @property
    def exact(self) -> bool:
        """Whether the tool and the agent are written as the call names them."""
        return self.tool == self.call.name and self.agent == self.call.agent

    @property
    def digests(self) -> dict[str, str]:
        """By what a replay finds the call."""
        request = self.request
        return {} if request is None else {"digest": request.digest, "given": request.given}


# ── written quickly ─────────────────────────────────────────────────────────────────────────────

_STARTS: Final = EventType.AGENT_TOOL_CALL  # a member of an enumeration is looked up by code of its own
_ENDS: Final = EventType.AGENT_TOOL_RESULT
_OK: Final = Outcome.OK


def quick_start(
    clock: Clock, call: ToolCall, arguments: Any, decision: _Decided, fingerprint: str, *,
    digest: str = "", given: str = "", attempt: int = 1, of_call: int | None = INTENT,
) -> Record | None:  # fmt: skip
    """Return the record of the start of a call in which nothing is secret or special; None: see `began`."""
    body = _CallBody(  # in the order of the fields, which is far quicker
        v=VERSION, type=_STARTS, id=clock.new_id(), time=clock.now(), tool_call_id=call.tool_call_id or "",
        tool_name=call.name, process=process(), agent=call.agent, run_id=call.run_id, arguments=arguments,
        decision=decision, chain=call.on_behalf_of, parent_id=call.parent_id, fingerprint=fingerprint, digest=digest,
    )  # fmt: skip
    if given or attempt != 1:  # seldom, and as two keywords more they are dear
        body.given, body.attempt = given, attempt
    try:
        return _record(body, _WRITE(body), of_call)
    except _UNWRITTEN:
        return None


def quick_end(
    clock: Clock, call: ToolCall, result: ToolResult, value: Any, of_call: int | None = 1
) -> Record | None:
    """Return the record of a call that gave *value*, with nothing secret or special; None: see `ended`."""
    body = _ResultBody(
        v=VERSION, type=_ENDS, id=clock.new_id(), time=clock.now(), tool_call_id=call.tool_call_id or "",
        tool_name=call.name, process=process(), agent=call.agent, run_id=call.run_id, outcome=_OK, result=value,
        error=None, latency_ms=result.latency_ms, attempts=result.attempts,
    )  # fmt: skip
    try:
        return _record(body, _WRITE(body), of_call)
    except _UNWRITTEN:
        return None


# ── written ──────────────────────────────────────────────────────────────────────────────────────


def began(note: Note, run: Run, attempt: int | None) -> Record:
    """Return the record of a call whose tool is about to start."""
    arguments, repairs, call = run.bound.arguments, run.bound.repairs, note.call
    said: dict[str, Any] = {
        **note.digests, "arguments": arguments, "chain": call.on_behalf_of, "parent_id": call.parent_id,
        "fingerprint": run.tool.fingerprint, "attempt": run.attempts + 1, "toolcall_reason": call.reason,
    }  # fmt: skip
    clean, secrets = note.plan.arguments(arguments)
    usual = note.exact and not repairs and not call.reason
    if usual and clean is arguments and not secrets and is_plain(arguments):
        made = quick_start(
            note.clock, call, arguments, decided(run.path.decision), run.tool.fingerprint, **note.digests,
            attempt=run.attempts + 1, of_call=attempt,
        )  # fmt: skip
        if made is not None:
            return made
    event = AgentToolCall(**note.head(), **said, decision=noted(run.path.decision), repairs=repairs)
    return note.record(event, attempt)


_notes: dict[int, tuple[Decision, _Decided]] = {}
_MOST_NOTES: Final = 1_024


def decided(decision: Decision) -> _Decided:
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


def ended(note: Note, result: ToolResult, value: Any, detail: str | None, attempt: int | None) -> Record:
    """Return the record of a call that had started; *value* is its result as JSON."""
    said: dict[str, Any] = {
        "outcome": result.outcome, "result": value, "error": result.error, "latency_ms": result.latency_ms,
        "attempts": result.attempts,
    }  # fmt: skip
    usual = note.exact and result.outcome is Outcome.OK
    if usual and note.plan.result(value, note.secrets) is value and not note.secrets and is_plain(value):
        made = quick_end(note.clock, note.call, result, value, attempt)
        if made is not None:
            return made
    error = result.exception if result.outcome is Outcome.TOOL_ERROR else None
    event = AgentToolResult(
        **note.head(), **said, detail=detail, error_type=result.error_type,
        error_base=None if error is None else builtin_base(error),
    )  # fmt: skip
    return note.record(event, attempt)


def refused(note: Note, result: ToolResult, attempt: int | None) -> Record:
    """Return the record of a call that ended before its tool started."""
    error = result.exception
    return note.record(CallRefused(
        **note.head(), **note.digests, outcome=result.outcome, arguments=note.call.arguments,
        decision=None if result.decision is None else noted(result.decision), error=result.error,
        error_type=result.error_type, problems=error.problems if isinstance(error, ToolArgumentsError) else (),
        chain=note.call.on_behalf_of, parent_id=note.call.parent_id, toolcall_reason=note.call.reason,
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


class _Start(msgspec.Struct, gc=False):
    decision: _Decided | None = None
    repairs: tuple[Repair, ...] = ()


class _End(msgspec.Struct, gc=False):
    outcome: Outcome
    v: int = 0
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
_read_end: Final = reader(_End)
_read_start: Final = reader(_Start)
_read_answer: Final = reader(_Answer)


_DENIED: Final[dict[str, Allowed]] = {"unknown_tool": "unknown", "disabled": "disabled", "forbidden": "forbidden"}


def replayed(entry: Entry, call_id: str | None, tool: Tool[..., Any] | None, most: int | None) -> ToolResult:
    """Return the recorded result of a call; its value of the type that the tool's return hint says."""
    if entry.end is None:
        raise AssertionError("a call that ended has a record of that")
    end = read_body(entry.end, _read_end)
    start = _read_start(entry.start.body) if entry.start is not None else _Start()
    outcome, value = end.outcome, None
    if outcome is Outcome.OK:
        value = unpacked(end.result)
        if tool is not None and tool.definition_.usable:
            try:
                value = tool.definition_.compiled.structure_result(value)
            except Mismatch:  # recorded of an older definition, or redacted: as JSON
                pass
    return ToolResult(
        call_id, entry.tool, entry.agent, outcome, value, end.error, end.error_type, end.latency_ms,
        end.attempts, start.repairs, True, _decision(entry, outcome, end.decision or start.decision),
        _exception(entry, outcome, end), most,
    )  # fmt: skip


def _decision(entry: Entry, outcome: Outcome, note: _Decided | None) -> Decision | None:
    if note is None:
        return None
    said = "allowed" if note.allowed else _DENIED.get(outcome.value, "forbidden")
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
