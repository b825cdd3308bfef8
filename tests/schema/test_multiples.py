"""Multiples of a number are found exactly, and in little work however large they are."""

# Tests of: json_values, constraints

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Annotated

import pytest
from annotated_types import Le, MinLen, MultipleOf
from hypothesis import given
from hypothesis import strategies as st

from praval_tools import Outcome, Tool, ToolCall, ToolDefinitionError, ToolRegistry
from praval_tools.schema.json_values import is_multiple

STEPS = (1, 3, 5, 100, 10**25, 0.01, 0.1, 0.3, 2.5, 12.25, 1e-7, 1e20)
NUMBERS = (
    st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.builds(lambda number, power: Decimal(number).scaleb(power), st.integers(-(10**20), 10**20), st.integers(-9, 9))
)


@given(NUMBERS, st.sampled_from(STEPS))
def test_as_fractions_say(number: float | Decimal, step: float) -> None:
    """Numbers are what their texts say."""
    assert is_multiple(number, step) is ((Fraction(str(number)) / Fraction(str(step))).denominator == 1)


@pytest.mark.parametrize(
    ("number", "step", "is_one"),
    [("1e999999999", 5, True), ("1e999999999", 3, False), ("1e-999999999", 3, False), ("inf", 1, False),
     ("nan", 1, False), ("0e-999999999", 3, True), ("-0.0", 0.1, True)],
)  # fmt: skip
def test_of_huge_powers(number: str, step: float, is_one: bool) -> None:
    """No number is written out, which for some would take all memory."""
    assert is_multiple(Decimal(number), step) is is_one


LONG = "1" * 5000


@pytest.mark.parametrize(
    ("number", "step", "is_one"),
    [(LONG, 3, False), (LONG, 1111, True), (f"{LONG}e5", 11, True), (f"0.{LONG}", 0.1, False),
     (f"{LONG}.5", 0.5, True), (f"-{LONG}", 10**400, False), ("1" * 400_000, 3, False)],
)  # fmt: skip
def test_of_many_digits(number: str, step: float, is_one: bool) -> None:
    """Broken promise: numbers of more digits than Python writes an integer of ended in a `ValueError`."""
    assert is_multiple(Decimal(number), step) is is_one


def test_of_many_digits_in_calls() -> None:
    """They are judged as others are, by the hint of a parameter and by the bounds of a grant."""

    def pay(fee: Decimal) -> None:
        """Pay."""

    pay.__annotations__["fee"] = Annotated[Decimal, MultipleOf(0.5)]
    registry = ToolRegistry()
    registry.register_tool(Tool.from_function(pay, owned_by="bank"))
    registry.grant("pay", "ann", where={"fee": {"multipleOf": 3}})
    calls = [ToolCall("1", "pay", {"fee": fee}, "ann") for fee in (f"{LONG}1", f"{LONG}0", f"{LONG}.1")]
    results = registry.execute_batch(calls)
    assert [Outcome.OK, Outcome.FORBIDDEN, Outcome.INVALID_ARGUMENTS] == [result.outcome for result in results]
    assert "a number of more than 4300 digits is outside the bounds" in str(results[1].error)
    assert "breaks multipleOf 0.5" in str(results[2].error)


@pytest.mark.parametrize("limit", ["10**5000", "Decimal('1e9999')", "Decimal('1e999999999')", "Decimal('sNaN')"])
@pytest.mark.parametrize("make", [MultipleOf, Le])
def test_of_steps_that_no_json_holds(make: type, limit: str) -> None:
    """Broken promise: a limit in a hint that no JSON number is was an error of Python, or took all memory."""

    def pay(fee: Decimal) -> None:
        """Pay."""

    pay.__annotations__["fee"] = Annotated[Decimal, make(eval(limit))]
    with pytest.raises(ToolDefinitionError, match="has no JSON Schema form; bounds are finite numbers of at most 4300"):
        Tool.from_function(pay)


@pytest.mark.parametrize("length", [-1, 2**63, 10**5000], ids=["-1", "2**63", "10**5000"])
def test_of_lengths_that_no_value_has(length: int) -> None:
    """A length that no validator counts to is a mistake of the hint, and said so."""

    def pay(note: str) -> None:
        """Pay."""

    pay.__annotations__["note"] = Annotated[str, MinLen(length)]
    with pytest.raises(ToolDefinitionError, match="makes no sense; lengths are integers from 0 to"):
        Tool.from_function(pay)
