"""Limits and allowed values count exactly, also for floats so large that their text is that of another number."""

# Tests of: keywords, constraints

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any

import pytest
from annotated_types import Ge, Gt, Le, Lt
from hypothesis import given
from hypothesis import strategies as st

from praval_tools import Outcome, ToolCall, ToolRegistry
from praval_tools.schema.validator import compile_schema

LARGE = st.integers(2**53, 2**90).map(float).map(int)
NEAR = st.sampled_from([-1, 0, 1])


@given(LARGE, NEAR, st.booleans())
def test_limits_and_values_are_compared_exactly(limit: int, distance: int, is_float_limit: bool) -> None:
    """Whether the limit or the value is written as an integer or as a float."""
    wanted: Any = float(limit) if is_float_limit else limit
    value = limit + distance * max(1, limit >> 52)  # floats are that far from one another
    for written in (value, float(value), Decimal(value)):
        exact = int(written)
        for keyword, is_allowed in {
            "minimum": exact >= limit,
            "maximum": exact <= limit,
            "exclusiveMinimum": exact > limit,
            "exclusiveMaximum": exact < limit,
        }.items():
            assert is_allowed == compile_schema({keyword: wanted}).is_valid(written), (keyword, written)
        assert (exact == limit) == compile_schema({"const": wanted}).is_valid(written)
        assert (exact == limit) == compile_schema({"enum": [1, wanted]}).is_valid(written)
        assert (exact == limit) == compile_schema({"const": {"a": [wanted]}}).is_valid({"a": [written]})


@pytest.mark.parametrize("bound", [
    {"exclusiveMinimum": 2**60}, {"exclusiveMaximum": 2.0**60}, {"not": {"const": 2**60}}, {"not": {"enum": [2.0**60]}},
])  # fmt: skip
def test_bounds_of_grants_do_not_admit_what_they_exclude(bound: dict[str, Any]) -> None:
    """The float of 2 to the 60th reads 1.152921504606847e+18, which is a larger number."""
    registry = ToolRegistry()
    registry.tool("pay", owned_by="bank")(pay)
    registry.grant("pay", "clerk", where={"amount": bound})

    result = registry.execute(ToolCall(name="pay", arguments={"amount": 2**60}, agent="clerk"))

    assert result.outcome is Outcome.FORBIDDEN


@pytest.mark.parametrize("bound", [{"maximum": 2**60}, {"minimum": 2.0**60}, {"const": 2**60}, {"enum": [2**60]}])
def test_bounds_of_grants_admit_their_own_limit(bound: dict[str, Any]) -> None:
    registry = ToolRegistry()
    registry.tool("pay", owned_by="bank")(pay)
    registry.grant("pay", "clerk", where={"amount": bound})

    for amount in (2**60, 2.0**60, 2**60 + 2**20):
        outcome = registry.execute(ToolCall(name="pay", arguments={"amount": amount}, agent="clerk")).outcome
        expected = amount == 2**60 or "minimum" in bound
        assert expected == (outcome is Outcome.OK)


@pytest.mark.parametrize("limit", [2**60, 2.0**60])
@pytest.mark.parametrize("kind", [Gt, Lt, Ge, Le])
def test_limits_of_hints_count_for_every_spelling(kind: Any, limit: float) -> None:
    def pay_within(amount: float) -> None:
        """Pay."""

    pay_within.__annotations__["amount"] = Annotated[float, kind(limit)]
    registry = ToolRegistry()
    registry.tool("pay", owned_by="bank")(pay_within)

    for amount in (2**60, 2.0**60, str(2**60)):
        outcome = registry.execute(ToolCall(name="pay", arguments={"amount": amount}, agent="bank")).outcome
        assert (kind in (Ge, Le)) == (outcome is Outcome.OK)


def test_reasons_name_the_limit() -> None:
    registry = ToolRegistry()
    registry.tool("pay", owned_by="bank")(pay)
    registry.grant("pay", "clerk", where={"amount": {"maximum": 2**60}})
    registry.grant("pay", "ann", where={"amount": {"enum": [2**60, 5]}})

    reasons = {
        agent: str(registry.execute(ToolCall(name="pay", arguments={"amount": 2**61}, agent=agent)).error)
        for agent in ("clerk", "ann")
    }

    assert f"amount is larger than {2**60}" in reasons["clerk"]
    assert "amount is none of the allowed values" in reasons["ann"]


def pay(amount: float) -> None:
    """Pay."""
