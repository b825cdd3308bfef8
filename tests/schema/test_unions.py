"""For a value that fits no branch of a union, the reason is that of the branch that takes its type."""

# Tests of: validator

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Le, MaxLen, MultipleOf

from praval_tools import Tool, ToolArgumentsError, ToolRegistry

OTHER = "fits none of the allowed forms"
CASES: list[tuple[Any, object, str]] = [
    (Annotated[Decimal, Le(10)], 11, "is larger than 10"),
    (Annotated[Decimal, MultipleOf(0.1)], 0.15, "is not a multiple of 0.1"),
    (Annotated[Decimal, Le(10)] | None, 11, "is larger than 10"),
    (Decimal, "x", "does not have the right form"),
    (Decimal, [], OTHER),
    (Annotated[int, Le(3)] | None, 5, "is larger than 3"),
    (Annotated[int, Le(3)] | None, "x", OTHER),
    (Annotated[str, MaxLen(3)] | int, "abcd", "is longer than 3 characters"),
    (Annotated[str, MaxLen(3)] | int, 1.5, OTHER),
    (Literal["a", "b"] | None, "c", "is none of the allowed values"),
    (list[int] | None, ["x"], OTHER),
]


@pytest.mark.parametrize(("hint", "value", "reason"), CASES, ids=str)
def test_arguments_get_the_reason_of_the_branch_of_their_type(hint: object, value: object, reason: str) -> None:
    """Broken promise: a number over the limit of a `Decimal` was said to fit none of the allowed forms."""

    def take(item: Any) -> None:
        """Take it."""

    take.__annotations__["item"] = hint
    registry = ToolRegistry()
    registry.register_tool(Tool.from_function(take, shared=True))
    with pytest.raises(ToolArgumentsError) as refusal:
        registry.agent("ann").call("take", item=value)
    assert [("$.item", reason)] == [(problem.path, problem.reason) for problem in refusal.value.problems]


@pytest.mark.parametrize(
    ("bound", "fee", "reason"),
    [
        ({"anyOf": [{"type": "null"}, {"maximum": 3}]}, 5, "fee is larger than 3"),
        ({"anyOf": [{"type": "null"}, {"maximum": 3}]}, "5", "fee is larger than 3"),
        ({"anyOf": [{"anyOf": [{"maximum": 3}]}, {"type": "null"}]}, 5, "fee is larger than 3"),
        ({"anyOf": [{"maximum": 3}, {"minimum": 9}]}, 5, f"fee {OTHER}"),
        ({"anyOf": [{"maximum": 3}]}, None, f"fee {OTHER}"),
    ],
    ids=str,
)
def test_bounds_say_the_reason_of_the_branch_of_the_type(bound: dict[str, Any], fee: object, reason: str) -> None:
    """Who may leave a number out, or give one up to a limit, reads the limit."""

    def pay(fee: Decimal | None = None) -> None:
        """Pay."""

    pay.__annotations__["fee"] = Decimal | None
    registry = ToolRegistry()
    registry.register_tool(Tool.from_function(pay, owned_by="bank"))
    registry.grant("pay", "ann", where={"fee": bound})
    assert registry.explain("ann", "pay", {"fee": fee}).reason.endswith(f"outside the grant: {reason}.")
