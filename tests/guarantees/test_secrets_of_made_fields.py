"""A secret in a field that the constructor of its class does not take is hidden where a tool quotes it."""

# Tests of: runs/call_secrets, schema/secret_marks, schema/model_marks, tools/mark_schemas

from __future__ import annotations

import threading
from dataclasses import dataclass, field, make_dataclass
from typing import TYPE_CHECKING, Annotated, Any

import attrs
import pytest
from approval_answers import execute_answered
from pydantic import BaseModel, Field, PrivateAttr, computed_field
from pydantic.dataclasses import dataclass as pydantic_dataclass
from record_texts import read_journal
from telemetry_rig import RECORD_ALL, Collector, collector  # noqa: F401  # a fixture

from praval_tools import Allow, ApprovalRequest, Deny, Outcome, Secret, ToolCall, ToolError, ToolRegistry

if TYPE_CHECKING:
    from collections.abc import Callable

    from somewhere import Client

HIDDEN = "zq7x-made-by-the-class"
Pin = Annotated[str, Secret]


@dataclass
class Default:
    user: str
    pin: Pin = field(default=HIDDEN, init=False)


@dataclass
class PostInit:
    user: str
    pin: Pin = field(init=False)

    def __post_init__(self) -> None:
        self.pin = HIDDEN


@attrs.define
class Attrs:
    user: str
    pin: Pin = attrs.field(init=False, factory=lambda: HIDDEN)


@pydantic_dataclass
class PydanticData:
    user: str
    pin: Pin = Field(default=HIDDEN, init=False)


class Private(BaseModel):
    user: str
    _pin: Pin = PrivateAttr(HIDDEN)
    _client: Client = PrivateAttr(None)

    @property
    def pin(self) -> str:
        return self._pin


class Computed(BaseModel):
    user: str

    @computed_field
    @property
    def pin(self) -> Pin:
        return HIDDEN


class InModel(BaseModel):
    user: str
    inner: Default = Field(default_factory=lambda: Default("ann"))

    @property
    def pin(self) -> str:
        return self.inner.pin


class InPrivate(BaseModel):
    user: str
    _inner: Default = PrivateAttr(default_factory=lambda: Default("ann"))

    @property
    def pin(self) -> str:
        return self._inner.pin


KINDS = [Default, PostInit, Attrs, PydanticData, Private, Computed, InModel, InPrivate]
each_kind = pytest.mark.parametrize("kind", KINDS)


def take_and_return(record: Any) -> str:
    """Take."""
    return f"login of {record.user} with {record.pin} in full"


def take_and_raise(record: Any) -> str:
    """Take."""
    raise ValueError(f"login of {record.user} with {record.pin} failed")


@each_kind
@pytest.mark.parametrize("function", [take_and_return, take_and_raise])
@pytest.mark.parametrize("is_object", [False, True], ids=["json", "object"])
def test_records_quote_none(kind: Any, function: Any, collector: Collector, *, is_object: bool) -> None:
    """Broken promise: the journal and spans had a marked field that the constructor does not take."""
    with ToolRegistry(journal="memory", telemetry=collector.make_telemetry(**RECORD_ALL)) as registry:

        def take(record: Any) -> str:
            """Take."""
            return str(function(record))

        take.__annotations__ |= {"record": kind}
        registry.tool(owned_by="ann")(take)
        record = kind(user="ann") if is_object else {"user": "ann"}
        try:
            said = registry.toolset("ann").call("take", record=record)
        except ToolError as error:
            said = error
        records, spans = read_journal(registry), collector.read_spans()

    assert HIDDEN in str(said)
    for written in (records, spans):
        assert "login of ann with [secret " in written
        assert HIDDEN not in written


@each_kind
def test_defaults_of_parameters_are_quoted_by_none(kind: Any) -> None:
    with ToolRegistry(journal="memory") as registry:

        def take(record: Any = kind(user="ann")) -> str:
            """Take."""
            return take_and_return(record)

        take.__annotations__ |= {"record": kind}
        registry.tool(owned_by="ann")(take)
        result = registry.execute(ToolCall("c", "take", {}, "ann"))
        written = read_journal(registry)
        described = repr([registry.get_tool_info("take"), registry.schemas("ann")])

    assert result.outcome is Outcome.OK and HIDDEN in str(result.result)
    assert "login of ann with [secret " in written
    assert HIDDEN not in written + described


def test_private_attributes_whose_hints_do_not_resolve_hide_nothing() -> None:
    """A model with such an attribute is recorded as any other."""

    class Session(BaseModel):
        user: str
        _client: Client = PrivateAttr(None)

    with ToolRegistry(journal="memory") as registry:

        def take(record: Any) -> str:
            """Take."""
            return f"login of {record.user}"

        take.__annotations__ |= {"record": Session}
        registry.tool(owned_by="ann")(take)
        registry.execute(ToolCall("c", "take", {"record": {"user": "ann"}}, "ann"))
        written = read_journal(registry)

    assert "login of ann" in written and "[secret " not in written


@pytest.mark.parametrize("kind", [Default, PostInit, Attrs, PydanticData])
@pytest.mark.parametrize("is_later", [False, True], ids=["handler", "later"])
@pytest.mark.parametrize("is_allowed", [False, True], ids=["denied", "allowed"])
def test_approvers_who_see_them_quote_none(
    kind: Any, collector: Collector, *, is_later: bool, is_allowed: bool
) -> None:
    """Approvers are shown the field, and neither the request nor their answer has it in the records."""
    with ToolRegistry(journal="memory", telemetry=collector.make_telemetry(**RECORD_ALL)) as registry:
        seen = list[str]()

        def take(record: Any, note: str = "") -> str:
            """Take."""
            return f"{note} {record.pin}"

        def answer(request: ApprovalRequest) -> Allow | Deny:
            seen.append(request.arguments["record"]["pin"])
            quote = f"with {seen[0]}"
            return Allow({"record": {"user": "ann"}, "note": quote}, reason=quote) if is_allowed else Deny(quote)

        take.__annotations__ |= {"record": kind}
        registry.tool(owned_by="ann", requires_approval=True)(take)
        call = ToolCall("c", "take", {"record": {"user": "ann"}}, "ann")
        result = execute_answered(registry, call, answer, is_later=is_later)
        records, spans = read_journal(registry), collector.read_spans()

    assert [HIDDEN] == seen
    assert result.outcome is (Outcome.OK if is_allowed else Outcome.APPROVAL_DENIED)
    for written in (records, spans):
        assert "with [secret " in written
        assert HIDDEN not in written


@pytest.mark.parametrize(("hint", "value"), [(str, "q7z"), (int, 47)], ids=["text", "number"])
def test_short_ones_are_hidden_in_the_request_of_an_approval(hint: Any, value: Any) -> None:
    """A value that is too short to be searched for is hidden in its own place."""

    pin = ("pin", Annotated[hint, Secret], field(default=value, init=False))
    kind = make_dataclass("Short", [("user", str), pin])
    with ToolRegistry(journal="memory") as registry:

        def take(record: Any) -> str:
            """Take."""
            return "never"

        take.__annotations__ |= {"record": kind}
        registry.tool(owned_by="ann", requires_approval=True)(take)
        registry.execute(ToolCall("c", "take", {"record": {"user": "ann"}}, "ann"))
        (request,) = registry.approvals.pending()
        written = read_journal(registry)

    assert {"user": "ann", "pin": value} == request.arguments["record"]
    assert "'pin': '[secret " in written


@dataclass
class Session:
    lock: threading.Lock
    pin: Pin


@dataclass
class Connection:
    client: Client
    pin: Pin


@dataclass
class Plain:
    city: str


def make_short_kind(hint: Any, make_value: Callable[[], Any]) -> Any:
    """Return a class with a short marked made field, and another made field of *hint*."""
    other = ("other", hint, field(default_factory=make_value, init=False))
    return make_dataclass("Short", [("user", str), ("pin", Pin, field(default="q7z", init=False)), other])


def ask_for_approval(hints: dict[str, Any], arguments: dict[str, Any]) -> str:
    """Return what is written of a call that waits for an approval."""
    with ToolRegistry(journal="memory") as registry:

        def take(record: Any, place: Any = None) -> str:
            """Take."""
            return "never"

        take.__annotations__ |= hints
        registry.tool(owned_by="ann", requires_approval=True)(take)
        registry.execute(ToolCall("c", "take", arguments, "ann"))
        assert registry.approvals.pending()
        return read_journal(registry)


WITHOUT_SCHEMA = {
    "lock": (threading.Lock, threading.Lock),
    "list": (list[threading.Lock], lambda: [threading.Lock()]),
    "unresolved": (Connection, lambda: Connection(None, "q7z")),
    "inner": (Session, lambda: Session(threading.Lock(), "q7z")),
    "marked": (Annotated[threading.Lock, Secret], threading.Lock),
}


@pytest.mark.parametrize(("hint", "make_value"), WITHOUT_SCHEMA.values(), ids=WITHOUT_SCHEMA)
def test_short_ones_are_hidden_beside_fields_without_a_schema(hint: Any, make_value: Any) -> None:
    """Broken promise: one made field that no JSON can hold showed the short ones of all classes of the tool."""
    written = ask_for_approval({"record": make_short_kind(hint, make_value)}, {"record": {"user": "ann"}})

    assert "'user': 'ann'" in written and "'pin': '[secret " in written
    assert "q7z" not in written


def test_short_ones_are_hidden_beside_another_class_with_fields_without_a_schema() -> None:
    """Another parameter's class with such a field shows none of them either."""
    lock = ("lock", threading.Lock, field(default_factory=threading.Lock, init=False))
    place = make_dataclass("Place", [("city", str), lock])
    hints = {"record": make_short_kind(Plain, lambda: Plain("Rome")), "place": place}

    written = ask_for_approval(hints, {"record": {"user": "ann"}, "place": {"city": "Oslo"}})

    assert "'user': 'ann'" in written and "Rome" in written and "Oslo" in written
    assert "q7z" not in written
