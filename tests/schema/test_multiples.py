"""Multiples of a number are found exactly, and in little work however large they are."""

# Tests of: schema/json_values

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
