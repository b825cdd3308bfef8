# Tests of: execution/pipeline
"""Arguments that an approver writes are those that the tool gets, or the call is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import attrs
import pytest
from approval_answers import execute_answered
from pydantic import BaseModel, Field, field_validator

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
