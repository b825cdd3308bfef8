"""Events: their JSON is stable, reads back as it was, and whatever else is refused by name."""

# Tests of: codec, event_subjects, tools/value_codec, recorded_decisions

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from journal_strategies import EXAMPLES, NOON, events_of, every_event, json_values, values

from praval_tools import Outcome, ToolRegistry, journal, tool
from praval_tools.access import events
from praval_tools.errors import EventFormatError, RedactionKeyError, ToolError
from praval_tools.journal.codec import EVENT_VERSION, from_json, to_json
from praval_tools.journal.event_subjects import EventSubject, get_subject
from praval_tools.journal.events import (
    EVENT_CLASSES,
    EVENT_TYPES,
    AgentToolCall,
    AgentToolResult,
    CallRefused,
    EventType,
    JournalEvent,
)
from praval_tools.journal.recorded_decisions import RecordedDecision, to_recorded_decision
from praval_tools.tools.value_codec import OpaqueValue, pack_value, unpack_value

GOLDEN = Path(__file__).parent / "golden_events.jsonl"
LATER = datetime(9000, 1, 1, tzinfo=UTC)
HEAD = {"id": "e", "time": NOON, "tool_call_id": "c", "tool_name": "t"}


def call(arguments: Any) -> AgentToolCall:
    """Return a call event with these arguments."""
    return AgentToolCall(**HEAD, arguments=arguments)


def body(event: Any) -> dict[str, Any]:
    """Return the JSON of *event* as a dict."""
    found: dict[str, Any] = json.loads(to_json(event))
    return found


def refused(data: bytes | str) -> EventFormatError:
    """Return the error that reading *data* raises."""
    with pytest.raises(EventFormatError) as caught:
        from_json(data)
    return caught.value


def no_constant(name: str) -> Any:
    raise AssertionError(f"{name} is no JSON")


class TestIdentity:
    @pytest.mark.parametrize("kind", EVENT_CLASSES.values(), ids=lambda kind: kind.__name__)
    def test_what_is_written_reads_back(self, kind: type) -> None:
        """Every event of every class is read as the event that was written."""

        @given(events_of(kind))
        def check(event: Any) -> None:
            assert event == from_json(to_json(event))

        check()

    @given(every_event)
    def test_the_text_is_strict_json_and_stable(self, event: Any) -> None:
        """Any JSON reader takes it, without NaN or Infinity, and writing what was read gives the same bytes."""
        text = to_json(event)

        assert text == to_json(from_json(text))
        assert json.loads(text, parse_constant=no_constant)["type"] == EVENT_TYPES[type(event)]

    def test_a_grant_comes_back_with_expiry_and_bounds_as_given(self) -> None:
        """`where` stays as it was given; its compiled form is left to who has the tool's schema."""
        registry = ToolRegistry()
        seen: list[Any] = []

        @tool("pay", registry=registry)
        def pay(amount: float) -> float:
            """Pay."""
            return amount

        registry.subscribe(seen.append)
        registry.assign_tool_to_agent("pay", "ann", where={"amount": {"maximum": 5}}, expires=LATER, max_calls=2)
        change = next(one for one in seen if isinstance(one, events.ToolAssigned))
        read = from_json(to_json(change))

        assert change == read
        assert ({"amount": {"maximum": 5}}, LATER, 2) == (read.grant.where, read.grant.expires, read.grant.max_calls)
        assert None is not change.grant.bounds and None is read.grant.bounds


class TestValues:
    @given(values)
    def test_packing_is_undone(self, value: Any) -> None:
        """Values of Python's own types come back as they were, whatever their keys are."""
        assert value == unpack_value(pack_value(value))
        assert json.dumps(pack_value(value), allow_nan=False)

    @given(json_values.filter(lambda value: "praval:" not in repr(value)))
    def test_json_stays_as_it_is(self, value: Any) -> None:
        """What is JSON already is written untouched, as the seed's readers expect."""
        assert value is pack_value(value)
        assert value == body(call(value))["arguments"]

    def test_nan_and_infinity(self) -> None:
        """JSON has no NaN; a call that was refused for one is journaled all the same, and reads back."""
        for number in (float("nan"), float("inf"), float("-inf")):
            text = to_json(call({"x": number}))

            assert {"praval:float": repr(number)} == json.loads(text)["arguments"]["x"]
            assert repr(number) == repr(from_json(text).arguments["x"])

    def test_latency_is_a_number(self) -> None:
        """A latency of NaN is refused when the event is made, not when it is written."""
        with pytest.raises(ValueError, match="latency_ms"):
            AgentToolResult(**HEAD, outcome="ok", latency_ms=float("nan"))

    @pytest.mark.parametrize("number", [2**63, 2**64, -(2**70), 10**4299, 10**5000], ids=lambda n: f"{n.bit_length()}b")
    def test_integers_of_any_size(self, number: int) -> None:
        """No integer loses a digit, whatever JSON library reads it."""
        assert number == from_json(to_json(call([number]))).arguments[0]

    def test_foreign_values(self) -> None:
        """Dataclasses and enums are written by the table of types; of what has no form there, only the type."""

        @dataclass
        class Row:
            name: str

        class Color(Enum):
            RED = "red"

        class Odd:
            def __repr__(self) -> str:
                return "<odd, with a password>"

        read = from_json(to_json(call({"row": Row("a"), "color": Color.RED, "odd": Odd()})))

        assert {"row": {"name": "a"}, "color": "red", "odd": OpaqueValue(f"<{Odd.__qualname__}>")} == read.arguments

    def test_hostile_arguments_of_a_refused_call(self) -> None:
        """Lists inside themselves, a thousand levels, and lists that multiply: the refusal is still written."""
        loop: list[Any] = []
        loop.append(loop)
        deep: Any = "x"
        for _ in range(1000):
            deep = [deep]
        wide: Any = ["x"]
        for _ in range(60):
            wide = [wide, wide]
        for junk in (loop, deep, wide, b"\xff", object(), "\ud800"):
            refusal = CallRefused(**HEAD, outcome=Outcome.INVALID_ARGUMENTS, arguments=junk)

            assert CallRefused is type(from_json(to_json(refusal)))

    def test_a_name_with_half_a_surrogate_pair(self) -> None:
        """A model may ask for a tool by any text; that call is in the journal under that very name."""
        refusal = CallRefused(**{**HEAD, "tool_name": "\ud800"}, outcome=Outcome.UNKNOWN_TOOL)

        assert "\ud800" == from_json(to_json(refusal)).tool_name


class TestRefusals:
    def test_unknown_versions(self) -> None:
        """Another version, or none, is never guessed at: the error names the event and what to install."""
        for version in (None, 0, EVENT_VERSION + 1, "1", True, 1.0):
            error = refused(json.dumps({**body(call({})), "v": version}))

            assert "e" == error.event_id
            assert "version" in str(error) and "Install" in str(error) and "'e'" in str(error)

    def test_unknown_types(self) -> None:
        """A type that this release does not know is refused, with the nearest that it knows, the likeliest first."""
        misspelled = refused(b'{"v": 1, "type": "agent_tol_call"}')
        assert "Did you mean 'agent_tool_call' or 'agent_tool_result'?" in str(misspelled)
        assert "its type is None" in str(refused(b'{"v": 1}'))
        assert "its type is ['x']" in str(refused(b'{"v": 1, "type": ["x"]}'))

    @pytest.mark.parametrize("kind", list(EventType))
    def test_missing_and_odd_fields(self, kind: EventType) -> None:
        """For every type a missing field and one too many are refused, each named."""
        whole = body(EXAMPLES[kind])
        needed = {"tool_name", "arguments", "plugin", "grant", "tool", "kind", "grants", "block", "agent"} & set(whole)
        if "tool_name" in needed:
            needed = {"tool_name"}
        for name in needed:
            assert name in str(refused(json.dumps({key: one for key, one in whole.items() if key != name})))

        assert "surplus" in str(refused(json.dumps({**whole, "surplus": 1})))

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("time", "yesterday"), ("time", 5), ("time", "2026-01-01T00:00:00"), ("tool_name", 5), ("id", ""),
            ("attempt", "2"), ("attempt", True), ("attempt", 1.5), ("chain", "boss"), ("chain", [1]),
            ("decision", {"allowed": 1, "rule": "x"}), ("decision", {}), ("decision", []), ("repairs", [{}]),
            ("arguments", {"praval:nothing": 1}), ("arguments", {"praval:uuid": 5}),
            ("arguments", {"praval:set": [[]]}),
            ("arguments", {"praval:datetime": "now"}), ("arguments", {"praval:timedelta": [1e300]}), ("agent", []),
        ],
    )  # fmt: skip
    def test_values_of_another_type(self, name: str, value: Any) -> None:
        """Nothing is converted on reading: a value that this release would not have written is refused by place."""
        error = refused(json.dumps({**body(EXAMPLES[EventType.AGENT_TOOL_CALL]), name: value}))

        assert any(name in problem for problem in error.problems) or "praval:" in str(error), str(error)

    @pytest.mark.parametrize("answer", [None, "perhaps", ["allow"], True])
    def test_answers_that_do_not_exist(self, answer: Any) -> None:
        """An approval is allowed or denied; a record that says anything else is refused, never taken for an answer."""
        whole = body(EXAMPLES[EventType.APPROVAL_ANSWERED])

        assert any("answer" in problem for problem in refused(json.dumps({**whole, "answer": answer})).problems)

    @pytest.mark.parametrize("data", [b"", b"[", b"[]", b"null", b"\xff", b'{"v": NaN}', b"[" * 100_000, "\ud800"])
    def test_no_json_object(self, data: bytes | str) -> None:
        """Damaged rows are an error of ours, never one of a JSON library."""
        assert "event-format" == refused(data).code
        with pytest.raises(EventFormatError, match="'row 7'"):
            from_json(data, event_id="row 7")

    @given(st.dictionaries(st.sampled_from(["v", "type", "id", "time", "tool", "grant"]), json_values))
    def test_whatever_an_object_holds(self, junk: dict[str, Any]) -> None:
        """Reading any JSON object gives an event or an `EventFormatError`, nothing else."""
        try:
            from_json(json.dumps({"v": EVENT_VERSION, "type": "tool_assigned", **junk}))
        except EventFormatError:
            pass

    def test_what_is_declared_is_no_event_of_the_journal(self) -> None:
        """A declaration holds functions and is not stored; writing it says so."""
        with pytest.raises(EventFormatError, match="RegistryCleared has no type.*declared in code"):
            to_json(events.RegistryCleared())  # type: ignore[arg-type]

    def test_values_of_a_wrong_type_are_not_written_as_junk(self) -> None:
        """A field that holds what JSON has no form for is an error that names the event."""
        with pytest.raises(EventFormatError, match="'e'"):
            to_json(AgentToolCall(**{**HEAD, "tool_name": object()}, arguments={}))  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        "error",
        [EventFormatError("e", ["a", "b"], "Fix it."), RedactionKeyError("file", "it is bad", "Repair it.")],
        ids=lambda error: type(error).__name__,
    )
    def test_errors_survive_pickling(self, error: ToolError) -> None:
        """Both errors keep data and text when they cross a process."""
        copy = pickle.loads(pickle.dumps(error))

        assert (str(error), error.args, error.code) == (str(copy), copy.args, copy.code)


class TestShape:
    def test_the_union_is_closed(self) -> None:
        """Every class has one type, and every type one class; the names are the seed's."""
        assert set(EventType) == set(EVENT_CLASSES) == set(EXAMPLES)
        assert set(get_args(JournalEvent)) == set(EVENT_CLASSES.values())
        assert "agent_tool_call" == EventType.AGENT_TOOL_CALL
        assert "agent_tool_result" == EventType.AGENT_TOOL_RESULT

    def test_keys_are_those_of_the_seed(self) -> None:
        """A reader of PyWorkflow's events finds its keys, the empty ones included."""
        made = body(call({"x": 1}))
        ended = body(AgentToolResult(**HEAD, outcome="ok"))

        assert {"tool_call_id": "c", "tool_name": "t", "arguments": {"x": 1}}.items() <= made.items()
        assert {"tool_call_id", "tool_name", "result", "latency_ms", "error"} <= ended.keys()

    def test_golden_file(self) -> None:
        """The JSON of each event is what earlier releases wrote; a change needs a new version and a converter."""
        assert GOLDEN.read_bytes().splitlines() == [to_json(EXAMPLES[kind]) for kind in EventType]

    def test_golden_file_reads_back(self) -> None:
        """What earlier releases wrote is read as the same events."""
        read = [from_json(line) for line in GOLDEN.read_bytes().splitlines()]

        assert list(map(repr, (EXAMPLES[kind] for kind in EventType))) == list(map(repr, read))

    @pytest.mark.parametrize("kind", [EventType.AGENT_TOOL_CALL, EventType.AGENT_TOOL_RESULT, EventType.PLUGIN_LOADED])
    def test_events_are_frozen(self, kind: EventType) -> None:
        """A fact does not change, and is made by keywords alone."""
        event = EXAMPLES[kind]

        with pytest.raises(AttributeError):
            event.id = "other"
        with pytest.raises(TypeError):
            type(event)("e", NOON)

    def test_times_are_utc(self) -> None:
        """Any zone is kept as UTC, and a time without a zone is refused."""
        zone = datetime.fromisoformat("2026-03-04T14:30:00.000250+02:00")

        assert NOON.isoformat() == AgentToolCall(**{**HEAD, "time": zone}, arguments={}).time.isoformat()
        with pytest.raises(ValueError, match="time zone"):
            AgentToolCall(**{**HEAD, "time": datetime(2026, 1, 1)}, arguments={})

    @pytest.mark.parametrize("kind", list(EventType))
    def test_subjects(self, kind: EventType) -> None:
        """A store finds run, call, agent and tool of each event in one way."""
        clerk, none = ("clerk", "wire_money"), (None, None)
        expected: dict[EventType, Any] = {
            EventType.PLUGIN_LOADED: none, EventType.PLUGIN_FAILED: none, EventType.GRANT_REVOKED: none,
            EventType.GRANT_SPENT: none, EventType.TOOL_ENABLED: none, EventType.AGENT_RETIRED: ("clerk", None),
            EventType.LOOP_BEGAN: ("clerk", None), EventType.MODEL_REPLIED: ("clerk", None),
        }  # fmt: skip
        owned = {"ownership_transferred", "tool_disabled", "tool_shared", "tool_unshared", "tool_configured"}
        if kind in owned or kind is EventType.TOOL_UNREGISTERED:
            expected[kind] = (None, "wire_money")
        found = get_subject(EXAMPLES[kind])

        assert expected.get(kind, clerk) == (found.agent, found.tool)
        whole = body(EXAMPLES[kind])
        assert (found.run_id is not None, found.tool_call_id is not None) == ("run_id" in whole, "tool_name" in whole)

    def test_subject_of_a_call(self) -> None:
        """A call is found by its run and its id."""
        event = EXAMPLES[EventType.AGENT_TOOL_CALL]

        assert EventSubject(run_id="run-1", tool_call_id="call-1", agent="clerk", tool="wire_money") == get_subject(
            event
        )

    @pytest.mark.parametrize(
        ("prepare", "rule", "source"),
        [
            (lambda registry: registry.assign_tool_to_agent("add", "ann"), "granted", "grant:"),
            (lambda registry: registry.block("add", "ann"), "blocked", "block:operator"),
            (lambda registry: None, "no-way", ""),
        ],
    )
    def test_what_is_kept_of_a_decision(self, prepare: Callable[[ToolRegistry], Any], rule: str, source: str) -> None:
        """The rule, and the record that decided by its id, so that an audit finds the change behind a call."""
        registry = ToolRegistry()

        @tool("add", registry=registry)
        def add(x: float) -> float:
            """Add."""
            return x

        prepare(registry)
        decision = registry.explain("ann", "add")
        note = to_recorded_decision(decision)

        assert (decision.allowed, rule) == (note.allowed, note.rule)
        assert note.source.startswith(source) and (note.source == "") == (source == "")
        assert RecordedDecision is type(note)


def test_importing_the_package_loads_no_journal() -> None:
    """Who does not journal does not pay for it."""
    names = "[name for name in sys.modules if name.startswith(('praval_tools.journal', 'cattrs'))]"
    code = f"import praval_tools, sys; print({names})"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "[]" == found.stdout.strip()


def test_events_of_calls_are_public() -> None:
    """Who reads the journal finds the classes of the events of calls beside it."""
    for one in (AgentToolCall, AgentToolResult, CallRefused):
        assert one is getattr(journal, one.__name__)
        assert one.__name__ in journal.__all__
