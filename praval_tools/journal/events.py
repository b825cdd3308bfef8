"""
The events of the journal, one closed union: of calls, of model loops, of plugins, and of changes of access.

The changes of access are the event classes from which the state of access is built; they are not repeated here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal, get_args

from attrs import Attribute, field, frozen
from attrs.validators import instance_of

from praval_tools.access import events
from praval_tools.errors import Problem
from praval_tools.journal.recorded_decisions import RecordedDecision
from praval_tools.schema.coercion import Repair
from praval_tools.tools.call import Outcome

INTERVENTION_PREFIX: Final = "intervention:"
"""How the ids of the calls begin that a person approved in Praval; the answer to one says that the yes was used."""

class EventType(StrEnum):
    """The type of an event, as JSON and the tables of a store name it."""

    AGENT_TOOL_CALL = "agent_tool_call"
    AGENT_TOOL_RESULT = "agent_tool_result"
    CALL_REFUSED = "call_refused"
    CALL_RERUN = "call_rerun"
    CALL_MOVED = "call_moved"
    APPROVAL_ASKED = "approval_asked"
    APPROVAL_ANSWERED = "approval_answered"
    LATE_RESULT = "late_result"
    LOOP_BEGAN = "loop_began"
    MODEL_REPLIED = "model_replied"
    PLUGIN_LOADED = "plugin_loaded"
    PLUGIN_FAILED = "plugin_failed"
    TOOL_ASSIGNED = "tool_assigned"
    TOOL_UNASSIGNED = "tool_unassigned"
    TOOL_BLOCKED = "tool_blocked"
    TOOL_UNBLOCKED = "tool_unblocked"
    OWNERSHIP_TRANSFERRED = "ownership_transferred"
    TOOL_DISABLED = "tool_disabled"
    TOOL_ENABLED = "tool_enabled"
    TOOL_SHARED = "tool_shared"
    TOOL_UNSHARED = "tool_unshared"
    TOOL_CONFIGURED = "tool_configured"
    TOOL_LISTED = "tool_listed"
    TOOL_UNREGISTERED = "tool_unregistered"
    GRANT_REVOKED = "grant_revoked"
    GRANT_SPENT = "grant_spent"
    AGENT_RETIRED = "agent_retired"


def _to_utc(time: Any) -> Any:
    return time.astimezone(UTC) if isinstance(time, datetime) and time.tzinfo is not None else time


def _check_time_zone(event: object, attribute: Attribute[datetime], time: object) -> None:
    if not isinstance(time, datetime) or time.tzinfo is None:
        raise ValueError(f"{attribute.name}: {time!r} is not a datetime with a time zone; take it from a Clock")


def _check_non_empty(event: object, attribute: Attribute[str], text: object) -> None:
    if type(text) is not str or not text:
        raise ValueError(f"{attribute.name}: {text!r} is not a non-empty text; create ids with a Clock")


def _check_milliseconds(event: object, attribute: Attribute[float | None], number: object) -> None:
    if number is not None and (not isinstance(number, int | float) or not math.isfinite(number)):
        raise ValueError(f"{attribute.name}: {number!r} is not a number of milliseconds")


@frozen(kw_only=True)
class EventBase:
    """
    Base of the events that are not changes of access.

    Args:
        id: The event's own id.
        time: When it happened; kept in UTC.
        process: Which process wrote it.
    """

    type: ClassVar[EventType]

    id: str = field(validator=_check_non_empty)
    time: datetime = field(converter=_to_utc, validator=_check_time_zone)
    process: str = ""


@frozen(kw_only=True)
class _CallEventBase(EventBase):
    """
    Base of the events of one call.

    Args:
        tool_call_id: The call.
        tool_name: The tool, as it was called.
        agent: Who called; None for the operator.
        run_id: The run that it belongs to.
    """

    tool_call_id: str = field(validator=_check_non_empty)
    tool_name: str
    agent: str | None = None
    run_id: str | None = None


@frozen(kw_only=True)
class AgentToolCall(_CallEventBase):
    """
    A call was allowed and its tool is about to start; durable before it does.

    Args:
        arguments: What the call passed: repaired, redacted, without defaults; if classes convert it, the one before.
        decision: Why the agent could call it.
        chain: The agents on whose behalf it calls, the nearest first.
        parent_id: The call inside which this one was made.
        fingerprint: Of the tool's definition.
        attempt: How often the function was started for this call, this time included.
        repairs: What was repaired in the arguments.
        digest: Of the repaired arguments; by the journal's key if they hold secrets. *given*: of those passed.
        principal: The digest of its delegation; empty for who acts for itself, `none` for a call that names no agent.
        toolcall_reason: Why the model made the call, where it is required to say so.
        has_given_id: Whether the caller gave a call of a run its id; else the library made it.
        position: Its number in the run; zero outside of runs. *after*: that of the call whose result came last before.
        task: The path of the asyncio task that made it, such as `2:1`; empty for the one that opened the run.
    """

    type: ClassVar = EventType.AGENT_TOOL_CALL

    arguments: Any
    decision: RecordedDecision | None = None
    chain: tuple[str, ...] = ()
    parent_id: str | None = None
    fingerprint: str = ""
    attempt: int = 1
    repairs: tuple[Repair, ...] = ()
    digest: str = ""
    given: str = ""
    principal: str = ""
    toolcall_reason: str = ""
    has_given_id: bool = False
    position: int = 0
    after: int | None = None
    task: str = ""


@frozen(kw_only=True)
class _ResultEventBase(_CallEventBase):
    """
    Base of the events that end a call.

    Args:
        outcome: How it ended.
        result: The tool's value, as JSON; None unless the outcome is ok.
        error: The message that the caller got; None where the outcome is ok.
        detail: The exception's own message, where the caller got an error id instead; or why a worker refused the call.
        error_type: The class of the tool's exception, or the error's stable code. *error_base*: its built-in base.
        latency_ms: Milliseconds from the request to the result.
    """

    outcome: Outcome = field(converter=Outcome)
    result: Any = None
    error: str | None = None
    detail: str | None = None
    error_type: str | None = None
    error_base: str | None = None
    latency_ms: float | None = field(default=None, validator=_check_milliseconds)


@frozen(kw_only=True)
class AgentToolResult(_ResultEventBase):
    """
    A call that had started ended; durable before the result is returned.

    Args:
        attempts: How often the function was started in all.
        by: Who resolved the call, where it was in doubt.
        error_number: The `errno` of the tool's exception, where that is an `OSError`.
        union_members: Which types of the unions in the return hint the value has, in its order, where its JSON does
            not say it; one empty name where its JSON would be read back as another value, and so stays JSON.
    """

    type: ClassVar = EventType.AGENT_TOOL_RESULT

    attempts: int = 1
    by: str = ""
    error_number: int | None = None
    union_members: tuple[str, ...] = ()


@frozen(kw_only=True)
class CallRerun(_CallEventBase):
    """
    A call may run again: somebody said so of one in doubt, or it was stopped before its tool was entered.

    Args:
        by: Who allowed it; `praval_tools` for a call that was stopped.
    """

    type: ClassVar = EventType.CALL_RERUN

    by: str = ""


@frozen(kw_only=True)
class CallMoved(_CallEventBase):
    """
    Another asyncio task made a recorded call again, and got its result: it is a call of that task from then on.

    Args:
        position: Its number in the run from then on.
        task: The path of that task, as in an `AgentToolCall`.
    """

    type: ClassVar = EventType.CALL_MOVED

    position: int
    task: str


@frozen(kw_only=True)
class CallRefused(_CallEventBase):
    """
    A call ended before its tool started: a refusal, arguments that do not fit, a limit, a missing approval.

    Args:
        outcome: How it ended; *decision* says why.
        arguments: What the caller passed; may be anything, for no call is left out of the audit trail.
        error: The message that the caller got; *error_type* is its stable code.
        problems: What is wrong with the arguments.
        toolcall_reason: Why the model made the call, where it is required to say so.
        chain, parent_id, digest, given, principal, has_given_id, position, after, task: As in an `AgentToolCall`.
    """

    type: ClassVar = EventType.CALL_REFUSED

    outcome: Outcome = field(converter=Outcome)
    arguments: Any = None
    decision: RecordedDecision | None = None
    error: str | None = None
    error_type: str | None = None
    problems: tuple[Problem, ...] = ()
    chain: tuple[str, ...] = ()
    parent_id: str | None = None
    digest: str = ""
    given: str = ""
    principal: str = ""
    toolcall_reason: str = ""
    has_given_id: bool = False
    position: int = 0
    after: int | None = None
    task: str = ""


@frozen(kw_only=True)
class ApprovalAsked(_CallEventBase):
    """
    A call waits for a person; the event's id is that of the request.

    Args:
        arguments: What the tool would get, with every default, and as converters and validators of classes make it.
        fingerprint: Of the tool's definition, to which the answer is bound.
        risk_level: The tool's.
        reason: Why an approval is needed.
        expires: From when an answer no longer counts.
        digest: Under the journal's key, of all that the answer is bound to.
        secret_arguments: The names of the arguments that are, or hold, secrets; `*`: all that the tool does not name.
        call_digest: The digest of an `AgentToolCall`, by which a replay finds the call; empty outside of runs.
        chain, parent_id, given, principal, has_given_id, position, after, task: As in an `AgentToolCall`.
    """

    type: ClassVar = EventType.APPROVAL_ASKED

    arguments: Any
    fingerprint: str = ""
    risk_level: str = "low"
    reason: str = ""
    expires: datetime | None = None
    chain: tuple[str, ...] = ()
    digest: str = ""
    secret_arguments: tuple[str, ...] = ()
    call_digest: str = ""
    given: str = ""
    principal: str = ""
    parent_id: str | None = None
    has_given_id: bool = False
    position: int = 0
    after: int | None = None
    task: str = ""


@frozen(kw_only=True)
class ApprovalAnswered(_CallEventBase):
    """
    A person, or a handler, answered.

    Args:
        answer: Anything but an explicit `allow` is a `deny`.
        by: Who answered.
        reason: Why.
        fingerprint: Of the definition that was approved.
        arguments: The edited arguments; None where they were left as they are.
        digest: That of the request.
        expires: From when the answer no longer counts.
        approval_id: The id of the request.
    """

    type: ClassVar = EventType.APPROVAL_ANSWERED

    answer: Literal["allow", "deny"]
    by: str
    reason: str = ""
    fingerprint: str = ""
    arguments: Any = None
    digest: str = ""
    expires: datetime | None = None
    approval_id: str = ""


@frozen(kw_only=True)
class LateResult(_ResultEventBase):
    """A function ended after its call had timed out or was cancelled; the outcome of the call stays as it is."""

    type: ClassVar = EventType.LATE_RESULT


@frozen(kw_only=True)
class LoopBegan(EventBase):
    """
    A loop between a model and an agent's tools began in a run; the event's id is the loop's.

    Args:
        run_id: The run.
        agent: Whose tools they are.
        input: What the conversation begins with, redacted.
        digest: Of the input, by which a loop that is begun again is found; by the journal's key if it holds secrets.
        masked: Something in it is secret, so that the loop cannot be continued from this event alone.
        model: The model's name.
        parent_id: The call from whose tool the loop was begun.
        principal, task: As of the calls of the agent.
    """

    type: ClassVar = EventType.LOOP_BEGAN

    run_id: str
    agent: str
    input: Any
    digest: str = ""
    masked: bool = False
    model: str = ""
    parent_id: str | None = None
    principal: str = ""
    task: str = ""


@frozen(kw_only=True)
class ModelReplied(EventBase):
    """
    A model replied; durable before any of the calls that it requests is made.

    Args:
        run_id: The run.
        agent: Whose tools the model could call.
        loop_id: The loop.
        step: Which request of the loop it answers, from 1.
        reply: Its text and the calls that it requests, redacted.
        masked: Arguments of its calls are secret: with calls that were not made yet, the model is called again.
        digests: Of the arguments of each of its calls, where it is masked; by the journal's key if they hold secrets.
        latency_ms: Milliseconds from the request to the reply.
    """

    type: ClassVar = EventType.MODEL_REPLIED

    run_id: str
    agent: str
    loop_id: str
    step: int
    reply: Any
    masked: bool = False
    digests: tuple[str, ...] = ()
    latency_ms: float | None = field(default=None, validator=_check_milliseconds)


@frozen(kw_only=True)
class _PluginEventBase(EventBase):
    """
    Base of the events of plugins.

    Args:
        plugin: The name of its entry point.
        distribution: The distribution that installed it.
        version: Of that distribution.
    """

    plugin: str = field(validator=_check_non_empty)
    distribution: str = ""
    version: str = ""


@frozen(kw_only=True)
class PluginLoaded(_PluginEventBase):
    """
    An installed plugin was loaded.

    Args:
        tools: The names of the tools that it registered.
        fingerprints: Of those tools, in their order.
    """

    type: ClassVar = EventType.PLUGIN_LOADED

    tools: tuple[str, ...] = ()
    fingerprints: tuple[str, ...] = ()


@frozen(kw_only=True)
class PluginFailed(_PluginEventBase):
    """
    A plugin, or one hook of it, raised and was isolated.

    Args:
        stage: Where it failed: `import`, or the name of the hook.
        error: The message; of a hook that failed at a call, which the message may quote, only that it raised.
        error_type: The class of the exception.
    """

    type: ClassVar = EventType.PLUGIN_FAILED

    stage: str = field(default="import", validator=instance_of(str))
    error: str = ""
    error_type: str = ""


StoredAccessEvent = (
    events.ToolAssigned | events.ToolUnassigned | events.ToolBlocked | events.ToolUnblocked
    | events.OwnershipTransferred | events.ToolDisabled | events.ToolEnabled | events.ToolShared
    | events.ToolUnshared | events.ToolConfigured | events.ToolListed | events.ToolUnregistered
    | events.GrantRevoked | events.GrantSpent | events.AgentRetired
)  # fmt: skip
"""The changes of access that are made at run time, and still hold when the next process starts."""

CallEvent = (
    AgentToolCall | AgentToolResult | CallRefused | CallRerun | CallMoved | ApprovalAsked | ApprovalAnswered
    | LateResult
)  # fmt: skip
LoopEvent = LoopBegan | ModelReplied
PluginEvent = PluginLoaded | PluginFailed
JournalEvent = CallEvent | LoopEvent | PluginEvent | StoredAccessEvent
"""The closed union of what a journal holds."""


def _to_snake_case(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


EVENT_CLASSES: Final[Mapping[EventType, type]] = MappingProxyType(
    {EventType(_to_snake_case(kind.__name__)): kind for kind in get_args(JournalEvent)}
)
"""Event type → its class, for every event."""

EVENT_TYPES: Final[Mapping[type, EventType]] = MappingProxyType({kind: name for name, kind in EVENT_CLASSES.items()})
"""Class → the type of its events."""
