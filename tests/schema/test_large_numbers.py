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
    for written in (value, float(value), Decimal(value), Decimal(repr(float(value)))):
        exact, limit = int(written), int(wanted)
        if isinstance(written, Decimal):  # it says what its text says, and so does the limit
            limit = int(Decimal(repr(wanted)))
        for keyword, is_allowed in {
            "minimum": exact >= limit,
            "maximum": exact <= limit,
            "exclusiveMinimum": exact > limit,
            "exclusiveMaximum": exact < limit,
        }.items():
            assert is_allowed == compile_schema({keyword: wanted}).is_valid(written), (keyword, written)
        is_equal = exact in (int(wanted), int(Decimal(repr(wanted))))
        assert is_equal == compile_schema({"const": wanted}).is_valid(written)
        assert is_equal == compile_schema({"enum": [1, wanted]}).is_valid(written)
        assert is_equal == compile_schema({"const": {"a": [wanted]}}).is_valid({"a": [written]})


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


@pytest.mark.parametrize(
    "other", [{}, {"allOf": [{"maximum": 10**16}]}, {"anyOf": [{"minimum": -(2.0**60)}]}], ids=repr
)
@pytest.mark.parametrize(("bound", "inside", "outside"), [
    ({"exclusiveMaximum": 0.1}, "0.09", "0.1"), ({"maximum": 100.1}, "100.1", "100.11"),
    ({"exclusiveMinimum": 0.3}, "0.31", "0.3"), ({"minimum": 0.1}, "0.1", "0.09"),
    ({"enum": [0.1, 0.7]}, "0.7", "0.71"), ({"const": 100.1}, "100.1", "100.2"),
    ({"not": {"const": 0.1}}, "0.2", "0.1"),
])  # fmt: skip
def test_bounds_of_decimals_mean_what_they_say(
    bound: dict[str, Any], inside: str, outside: str, other: dict[str, Any]
) -> None:
    """Broken promise: beside any large number, the double of 0.1 counted for a Decimal, which is more than 0.1."""

    def pay_exactly(amount: Decimal) -> None:
        """Pay."""

    registry = ToolRegistry()
    registry.tool("pay", owned_by="bank")(pay_exactly)
    registry.grant("pay", "clerk", where={"amount": bound | other})
    calls = [ToolCall(name="pay", arguments={"amount": text}, agent="clerk") for text in (inside, outside)]

    assert [Outcome.OK, Outcome.FORBIDDEN] == [registry.execute(call).outcome for call in calls]


def test_large_limits_of_decimals_are_what_their_text_says() -> None:
    """The double of 1e23 is a little less than that."""

    def pay_exactly(amount: Decimal) -> None:
        """Pay."""

    registry = ToolRegistry()
    registry.tool("pay", owned_by="bank")(pay_exactly)
    bounds = {"ann": {"maximum": 1e23}, "bo": {"const": 1e23}, "cy": {"exclusiveMinimum": 1e23}}
    for agent, bound in bounds.items():
        registry.grant("pay", agent, where={"amount": bound})
    calls = [ToolCall(name="pay", arguments={"amount": "1E+23"}, agent=agent) for agent in bounds]

    assert [Outcome.OK, Outcome.OK, Outcome.FORBIDDEN] == [registry.execute(call).outcome for call in calls]


@pytest.mark.parametrize("text", ["1E-9999999", "-0.01e-400", "0.0e5", "-0", "0e-9999", "1e-99999999999999999999"])
def test_texts_of_numbers_are_never_rounded_to_zero(text: str) -> None:
    """Broken promise: a text became 0, which its number is not; bounds on the text saw another number."""
    registry = ToolRegistry()
    registry.tool("pay", owned_by="bank")(pay)

    outcome = registry.execute(ToolCall(name="pay", arguments={"amount": text}, agent="bank")).outcome

    assert outcome is (Outcome.INVALID_ARGUMENTS if "1" in text else Outcome.OK)


@pytest.mark.parametrize(("text", "number"), [
    ("9007199254740993.0", 9007199254740993), ("1.23456789012345678901e20", 123456789012345678901), ("-2.5e1", -25),
    ("-0.0", 0), ("1.00000000000000000000001", None), ("1e-400", None), ("1e999999999", None), ("2.5", None),
    ("0e99999999999999999999", None),
])  # fmt: skip
def test_texts_of_integers_are_never_rounded(text: str, number: int | None) -> None:
    """Broken promise: a text with a point or an exponent became the integer nearest to its double."""

    def count(amount: int) -> int:
        """Count."""
        return amount

    registry = ToolRegistry()
    registry.tool("count", owned_by="bank")(count)

    result = registry.execute(ToolCall(name="count", arguments={"amount": text}, agent="bank"))

    assert (Outcome.INVALID_ARGUMENTS if number is None else Outcome.OK, number) == (result.outcome, result.result)


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
