"""Hypothesis strategies over the events of the journal, and one example of each for the golden file."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from praval_tools import Block, Grant, Outcome, Problem
from praval_tools.access import events as facts
from praval_tools.access.drift import ToolSnapshot
from praval_tools.journal import events
from praval_tools.journal.events import EVENT_CLASSES, EventType
from praval_tools.journal.recorded_decisions import RecordedDecision
from praval_tools.schema.coercion import Repair
from praval_tools.tools.value_codec import OpaqueValue

NOON = datetime(2026, 3, 4, 12, 30, 0, 250, tzinfo=UTC)

# ── values ───────────────────────────────────────────────────────────────────────────────────────

texts = st.text(st.characters(), max_size=8)
"""Half surrogate pairs included."""

ids = st.text(min_size=1, max_size=8)
numbers = st.floats(allow_nan=False)
offsets = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(timezones=st.just(UTC))
aware = st.datetimes(datetime(1000, 1, 1), datetime(9000, 1, 1), timezones=offsets)
hashables = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers().map(lambda number: number * 10**40), numbers, texts,
    st.binary(max_size=6), aware, st.datetimes(), st.dates(), st.times(), st.timedeltas(), st.uuids(),
    st.decimals(allow_nan=False), texts.map(OpaqueValue),
)  # fmt: skip
keys = texts | st.sampled_from(["praval:tuple", "praval:object", "praval:", "praval:none such"])
values = st.recursive(
    hashables,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(keys, inner, max_size=3),
        st.dictionaries(hashables, inner, max_size=2),
        st.sets(hashables, max_size=3),
        st.frozensets(st.integers(), max_size=3),
    ),
    max_leaves=8,
)
"""Everything that reads back as it was."""

json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), texts),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)

# ── events ───────────────────────────────────────────────────────────────────────────────────────

maybe = st.none() | texts
grants = st.builds(
    Grant, id=ids, tool=ids, agent=ids, by=ids, key=maybe, reason=texts, expires=st.none() | aware,
    max_calls=st.none() | st.integers(0), where=st.none() | st.dictionaries(keys, json_values, max_size=2),
    delegable=st.booleans(), parent=maybe, made=st.none() | aware, person=texts,
)  # fmt: skip
blocks = st.builds(Block, tool=ids, agent=ids, by=ids, reason=texts, person=texts)
notes = st.builds(RecordedDecision, allowed=st.booleans(), rule=texts, reason=texts, source=texts)
repairs = st.lists(st.builds(Repair, path=texts, given=texts, became=texts, reason=texts), max_size=2).map(tuple)
problems = st.lists(st.builds(Problem, path=texts, reason=texts, given=texts, wanted=texts), max_size=2).map(tuple)
names = st.lists(texts, max_size=3).map(tuple)

snapshots = st.builds(
    ToolSnapshot, parameters=names, required=names, requires_approval=st.booleans(),
    risk_level=st.sampled_from(["low", "critical"]), destructive=st.none() | st.booleans(),
)  # fmt: skip

_FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "id": ids, "time": moments, "process": texts, "tool_call_id": ids, "tool_name": texts, "agent": maybe,
    "run_id": maybe, "arguments": values, "decision": st.none() | notes, "chain": names, "principal": texts,
    "parent_id": maybe, "fingerprint": texts, "attempt": st.integers(1), "attempts": st.integers(0), "repairs": repairs,
    "outcome": st.sampled_from(Outcome), "result": values, "error": maybe, "error_type": maybe, "error_base": maybe,
    "latency_ms": st.none() | st.floats(0, allow_infinity=False), "problems": problems, "risk_level": texts,
    "reason": texts, "expires": st.none() | aware, "answer": st.sampled_from(["allow", "deny"]), "by": texts,
    "person": texts,
    "plugin": ids, "distribution": texts, "version": texts, "tools": names, "stage": texts, "tool": texts,
    "snapshot": st.none() | snapshots,
    "grant": grants, "block": blocks, "setter": maybe, "to": maybe, "kind": texts, "name": texts,
    "changes": st.dictionaries(keys, values, max_size=3), "grants": names, "stored": st.booleans(), "digest": texts,
    "given": texts, "detail": maybe, "fingerprints": names, "toolcall_reason": texts, "input": values,
    "loop_id": texts, "step": st.integers(1), "reply": values, "masked": st.booleans(), "model": texts,
    "before_start": st.booleans(), "secret_arguments": names, "approval_id": texts, "union_members": names,
    "digests": names, "has_given_id": st.booleans(), "position": st.integers(0), "call_digest": texts,
    "after": st.none() | st.integers(0),
    "task": st.sampled_from(["", "1:1", "2:1.1:3"]), "error_number": st.none() | st.integers(-9, 200),
}  # fmt: skip


def events_of(kind: type) -> st.SearchStrategy[Any]:
    """Return a strategy for events of one class, every field of it drawn."""
    own = {name: _FIELDS[name] for name in _names(kind)}
    if kind in (facts.ToolUnassigned, facts.ToolUnblocked, facts.ToolListed, facts.AgentRetired):
        own["agent"] = texts
    if kind is facts.GrantRevoked:
        own["grant"] = texts
    if kind in (events.LoopBegan, events.ModelReplied):
        own.update(run_id=ids, agent=ids)
    if kind is events.PluginFailed:
        own.update(error=texts, error_type=texts)
    return st.builds(kind, **own)


def _names(kind: type) -> tuple[str, ...]:
    return kind.__struct_fields__ if hasattr(kind, "__struct_fields__") else tuple(kind.__match_args__) or _attrs(kind)


def _attrs(kind: type) -> tuple[str, ...]:
    return tuple(one.name for one in kind.__attrs_attrs__)


every_event = st.one_of([events_of(kind) for kind in EVENT_CLASSES.values()])

# ── one of each ──────────────────────────────────────────────────────────────────────────────────

HEAD = {"id": "e-9", "time": NOON, "tool_call_id": "c", "tool_name": "t"}
_HEAD = {"id": "e-1", "time": NOON, "process": "host:4711"}
_CALL = {**_HEAD, "tool_call_id": "call-1", "tool_name": "wire_money", "agent": "clerk", "run_id": "run-1"}
_NOTE = RecordedDecision(allowed=True, rule="granted", reason="'operator' granted it.", source="grant:g-1")
_HEADER = {**_HEAD, "by": "boss", "reason": "because"}
_GRANT = Grant(
    id="g-1", tool="wire_money", agent="clerk", by="boss", key="k", reason="holidays", expires=NOON, max_calls=3,
    where={"amount": {"type": "number", "maximum": 100}}, delegable=True, parent="g-0", made=NOON,
)  # fmt: skip
ODD_VALUES = {
    "big": 2**70, "nan": float("nan"), "half": "\ud83d", "tuple": (1, 2.5), "set": {1}, "bytes": b"\x00\xff",
    "datetime": NOON, "date": date(2026, 3, 4), "time": time(1, 2), "span": timedelta(1, 2, 3), "key": {1: "one"},
    "decimal": Decimal("1.10"), "uuid": UUID(int=7), "tag": {"praval:x": 1}, "object": OpaqueValue("<object>"),
}  # fmt: skip

EXAMPLES: dict[EventType, Any] = {
    EventType.AGENT_TOOL_CALL: events.AgentToolCall(
        **_CALL, arguments={"to": "ann", "amount": 10.5}, decision=_NOTE, chain=("boss",), parent_id="call-0",
        fingerprint="f00d", attempt=2, repairs=(Repair("$.amount", '"10.5"', "10.5", "text of a number"),),
    ),
    EventType.AGENT_TOOL_RESULT: events.AgentToolResult(
        **_CALL, outcome=Outcome.OK, result=ODD_VALUES, latency_ms=1.5, attempts=2
    ),
    EventType.CALL_REFUSED: events.CallRefused(
        **_CALL, outcome=Outcome.INVALID_ARGUMENTS, arguments='{"amount": ', error="Arguments are invalid.",
        error_type="invalid-arguments", decision=_NOTE, problems=(Problem(path="$", reason="is no JSON"),),
    ),
    EventType.CALL_RERUN: events.CallRerun(**_CALL, by="ann"),
    EventType.CALL_MOVED: events.CallMoved(**_CALL, position=7, task="2:1.1:3"),
    EventType.APPROVAL_ASKED: events.ApprovalAsked(
        **_CALL, arguments={"amount": 10.5}, fingerprint="f00d", risk_level="high", reason="much money", expires=NOON
    ),
    EventType.APPROVAL_ANSWERED: events.ApprovalAnswered(
        **_CALL, answer="allow", by="ann", reason="fine", fingerprint="f00d", arguments={"amount": 5}
    ),
    EventType.LATE_RESULT: events.LateResult(
        **_CALL, outcome="tool_error", error="no route", error_type="RouteError", error_base="OSError", latency_ms=9e4
    ),
    EventType.LOOP_BEGAN: events.LoopBegan(
        **_HEAD, run_id="run-1", agent="clerk", input={"instructions": "Be kind.", "messages": [{"role": "user"}]},
        digest="d1", masked=True, model="gpt-x", parent_id="call-0",
    ),
    EventType.MODEL_REPLIED: events.ModelReplied(
        **_HEAD, run_id="run-1", agent="clerk", loop_id="e-1", step=2, reply={"text": "Yes.", "calls": []},
        masked=True, latency_ms=1.5,
    ),
    EventType.PLUGIN_LOADED: events.PluginLoaded(
        **_HEAD, plugin="sql", distribution="praval-tools-sql", version="1.2", tools=("query",)
    ),
    EventType.PLUGIN_FAILED: events.PluginFailed(
        **_HEAD, plugin="sql", distribution="praval-tools-sql", version="1.2", stage="import", error="no module",
        error_type="ImportError",
    ),
    EventType.TOOL_ASSIGNED: facts.ToolAssigned(**_HEADER, grant=_GRANT),
    EventType.TOOL_UNASSIGNED: facts.ToolUnassigned(**_HEADER, tool="wire_money", agent="clerk"),
    EventType.TOOL_BLOCKED: facts.ToolBlocked(**_HEADER, block=Block(tool="wire_money", agent="clerk", by="boss")),
    EventType.TOOL_UNBLOCKED: facts.ToolUnblocked(**_HEADER, tool="wire_money", agent="clerk", setter="boss"),
    EventType.OWNERSHIP_TRANSFERRED: facts.OwnershipTransferred(**_HEADER, tool="wire_money", to="ann"),
    EventType.TOOL_DISABLED: facts.ToolDisabled(**_HEADER, kind="tool", name="wire_money"),
    EventType.TOOL_ENABLED: facts.ToolEnabled(**_HEADER, kind="category", name="money"),
    EventType.TOOL_SHARED: facts.ToolShared(**_HEADER, tool="wire_money"),
    EventType.TOOL_UNSHARED: facts.ToolUnshared(**_HEADER, tool="wire_money"),
    EventType.TOOL_CONFIGURED: facts.ToolConfigured(
        **_HEADER, tool="wire_money", changes={"tags": ("a",), "timeout": 5}
    ),
    EventType.TOOL_LISTED: facts.ToolListed(**_HEADER, tool="wire_money", agent="clerk"),
    EventType.TOOL_UNREGISTERED: facts.ToolUnregistered(**_HEADER, tool="wire_money"),
    EventType.GRANT_REVOKED: facts.GrantRevoked(**_HEADER, grant="g-1"),
    EventType.GRANT_SPENT: facts.GrantSpent(**_HEADER, grants=("g-1", "g-0")),
    EventType.AGENT_RETIRED: facts.AgentRetired(**_HEADER, agent="clerk"),
}  # fmt: skip
