# Tests of: execution/edited_arguments, execution/pipeline, schema/value_reader
"""Arguments that an approver writes are those that the tool gets, or the call is refused."""

from __future__ import annotations

import json
import re
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import IPv4Interface, IPv6Address
from pathlib import PurePosixPath
from typing import Annotated, Any, NamedTuple, NotRequired, Self

import attrs
import pytest
from approval_answers import execute_answered
from changing_classes import ADDED, Mail
from pydantic import BaseModel, ConfigDict, Field, RootModel, field_validator, model_validator
from typing_extensions import TypedDict

from praval_tools import Allow, ApprovalRequest, Outcome, Tool, ToolCall, ToolRegistry


@dataclass
class Cents:
    amount: int

    def __post_init__(self) -> None:
        self.amount *= 100


@attrs.define
class Factor:
    amount: int = attrs.field(converter=lambda value: value * 100)


class Model(BaseModel):
    amount: int

    @field_validator("amount")
    @classmethod
    def change(cls, value: int) -> int:
        """Make cents of it."""
        return value * 100


@dataclass
class Plain:
    amount: int
    tags: Annotated[list[str], "Tags."]


class Aliased(BaseModel):
    amount: int = Field(alias="theAmount")
    rate: float = 1


@attrs.define
class AttrsMail:
    headers: dict[str, str] = attrs.field(converter=lambda headers: ADDED | headers)


class ModelMail(BaseModel):
    headers: dict[str, str]

    @field_validator("headers")
    @classmethod
    def fill(cls, headers: dict[str, str]) -> dict[str, str]:
        """Add a header."""
        return ADDED | headers


class Headers(RootModel[dict[str, str]]):
    @field_validator("root")
    @classmethod
    def fill(cls, headers: dict[str, str]) -> dict[str, str]:
        """Add a header."""
        return ADDED | headers


class RootMail(BaseModel):
    headers: Headers


class Extras(BaseModel):
    model_config = ConfigDict(extra="allow")


class FilledExtras(Extras):
    @model_validator(mode="after")
    def fill(self) -> Self:
        """Add an extra key."""
        assert self.__pydantic_extra__ is not None
        self.__pydantic_extra__.setdefault("bcc", "everyone")
        return self


class ExtrasMail(BaseModel):
    headers: FilledExtras


class LooseHeaders(TypedDict):
    to: str
    bcc: NotRequired[str]


@dataclass
class LooseMail:
    headers: LooseHeaders


@dataclass
class Fields:
    to: str
    bcc: str = ""
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.size = len(self.to)


class FieldsMail(BaseModel):
    headers: Extras
    others: list[Fields] = [Fields("bob")]
    more: dict[str, str] = ADDED


@dataclass
class FieldMail:
    headers: Fields


class Point(NamedTuple):
    x: int
    y: int = 2


@dataclass
class Line:
    ends: list[Point]


class Numbers(BaseModel):
    amount: deque[int]


class Points(BaseModel):
    amount: Point


class Lines(BaseModel):
    amount: Line


class RootPoint(RootModel[Point]):
    pass


class Points2(BaseModel):
    amount: RootPoint


class Patterns(BaseModel):
    amount: re.Pattern[str]


class Address(BaseModel):
    amount: IPv6Address


class Host(BaseModel):
    amount: IPv4Interface


class Appointment(BaseModel):
    amount: datetime


class ByPath(BaseModel):
    amount: dict[PurePosixPath, int]


class ByOtherPath(ByPath):
    @field_validator("amount")
    @classmethod
    def change(cls, value: dict[PurePosixPath, int]) -> dict[PurePosixPath, int]:
        """Take another path."""
        return {PurePosixPath("1" if path == PurePosixPath("1.0") else path): count for path, count in value.items()}


PYDANTIC_FIELDS: list[tuple[Any, Any]] = [
    (Numbers, [1, 2]), (Points, [1, 3]), (Points, [1]), (Lines, {"ends": [[1, 2]]}), (Points2, [1, 2]),
    (Patterns, "a.b"), (Address, "fe80::1"), (Host, "10.0.0.1"), (ByPath, {"1.0": 1}),
]  # fmt: skip


def pay_with(kind: Any, given: dict[str, Any], journal: str | None) -> tuple[ToolRegistry, list[Any], ToolCall]:
    """Return a registry with a tool that needs an approval, what the tool gets, and a call of it."""
    registry, got = ToolRegistry(journal=journal), list[Any]()

    def pay(order: Any, note: str = "") -> str:
        """Pay."""
        got.append((order.amount, note))
        return note

    pay.__annotations__["order"] = kind
    registry.register_tool(Tool.from_function(pay))
    registry.configure("pay", requires_approval=True)
    registry.share_tool("pay")
    return registry, got, ToolCall("1", "pay", {"order": given}, "ann")


@pytest.mark.parametrize("journal", [None, "memory"])
@pytest.mark.parametrize("is_later", [False, True], ids=["handler", "later"])
@pytest.mark.parametrize("kind", [Cents, Factor, Model], ids=["dataclass", "attrs", "pydantic"])
def test_classes_that_change_them(kind: Any, is_later: bool, journal: str | None) -> None:
    """Broken promise: an approver who was shown 100 cents and only wrote a note let 10,000 be paid."""
    registry, got, call = pay_with(kind, {"amount": 1}, journal)
    shown = list[Any]()

    def answer(request: ApprovalRequest) -> Allow:
        shown.append(request.arguments["order"])
        return Allow({**request.arguments, "note": "fine"})

    result = execute_answered(registry, call, answer, is_later=is_later)

    assert [{"amount": 100}] == shown
    assert (Outcome.FORBIDDEN, []) == (result.outcome, got)


@pytest.mark.parametrize("journal", [None, "memory"])
@pytest.mark.parametrize(
    ("kind", "given"), [(Plain, {"amount": 1, "tags": ["a"]}), (Aliased, {"theAmount": 1})], ids=["plain", "aliased"]
)
def test_classes_that_keep_them(kind: Any, given: dict[str, Any], journal: str | None) -> None:
    """Edited arguments run where classes take what they show."""
    registry, got, call = pay_with(kind, given, journal)
    registry.set_approval_handler(lambda request: Allow({**request.arguments, "note": "fine"}))

    assert Outcome.OK is registry.execute(call).outcome
    assert [(1, "fine")] == got


@pytest.mark.parametrize(("kind", "given"), PYDANTIC_FIELDS, ids=str)
def test_fields_that_pydantic_writes_otherwise(kind: Any, given: Any) -> None:
    """Broken promise: what an approver was shown of a model, and gave back, was refused."""
    registry, got, call = pay_with(kind, {"amount": given}, None)
    registry.set_approval_handler(lambda request: Allow({**request.arguments, "note": "fine"}))

    assert Outcome.OK is registry.execute(call).outcome
    assert [(kind.model_validate_json(json.dumps({"amount": given})).amount, "fine")] == got


@pytest.mark.parametrize(
    ("kind", "given", "written"),
    [
        (Address, "fe80::1", "FE80:0::2"),
        (Host, "10.0.0.1", "10.0.0.2"),
        (Points, [1, 2], [3, 4]),
        (Numbers, [1], [2]),
        (Appointment, "2026-01-02T03:04:05", "2026-01-02t03:04:06.50"),
    ],
    ids=str,
)
def test_fields_that_an_approver_writes_in_another_spelling(kind: Any, given: Any, written: Any) -> None:
    """Broken promise: an address in upper case was taken for a value that its class had changed."""
    registry, got, call = pay_with(kind, {"amount": given}, None)
    registry.set_approval_handler(lambda request: Allow({"order": {"amount": written}}))

    assert Outcome.OK is registry.execute(call).outcome
    assert [(kind.model_validate_json(json.dumps({"amount": written})).amount, "")] == got


def test_keys_that_only_look_like_one_number() -> None:
    """Broken promise: a class took the path `1` where an approver had written `1.0`."""
    registry, got, call = pay_with(ByOtherPath, {"amount": {"a": 1}}, None)
    registry.set_approval_handler(lambda request: Allow({"order": {"amount": {"1.0": 1}}}))

    assert Outcome.FORBIDDEN is registry.execute(call).outcome
    assert got == []


def send_without_bcc(kind: Any, journal: str | None) -> tuple[Outcome, list[Any]]:
    """Return how a call ends whose approver takes the `bcc` out of the headers, and what the tool gets."""
    registry, got = ToolRegistry(journal=journal), list[Any]()

    def send(mail: Any) -> None:
        """Send."""
        got.append(mail)

    send.__annotations__["mail"] = kind
    registry.register_tool(Tool.from_function(send))
    registry.configure("send", requires_approval=True)
    registry.share_tool("send")
    registry.set_approval_handler(lambda request: Allow({"mail": {"headers": {"to": "ann"}}}))
    given = {"headers": {"to": "ann", "bcc": "bob"}}
    return registry.execute(ToolCall("1", "send", {"mail": given}, "ann")).outcome, got


class TestKeysThatAreTakenOut:
    @pytest.mark.parametrize("journal", [None, "memory"])
    @pytest.mark.parametrize("kind", [Mail, AttrsMail, ModelMail, RootMail, ExtrasMail])
    def test_and_put_back_by_a_class(self, kind: Any, journal: str | None) -> None:
        """Broken promise: a mail went to everyone though the approver had taken the `bcc` out of its headers."""
        assert (Outcome.FORBIDDEN, []) == send_without_bcc(kind, journal)

    @pytest.mark.parametrize("kind", [LooseMail, FieldMail, FieldsMail])
    def test_and_stay_out(self, kind: Any) -> None:
        """Defaults of fields, and fields that classes make themselves, are not what an approver took out."""
        outcome, (mail,) = send_without_bcc(kind, None)

        assert Outcome.OK is outcome
        assert "bob" not in str(mail.headers)
