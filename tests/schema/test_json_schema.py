# Tests of: json_schema, codegen, signature
"""What the schema accepts, strict structuring accepts, and the reverse."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from type_strategies import ALIENS, FORMS, hints, json_for, mutated

from praval_tools.schema.signature import read_signature
from praval_tools.schema.type_handler import Mismatch
from praval_tools.tools.compiled import CompiledSignature

FULL = settings().max_examples >= 200
EXAMPLES = 300 if FULL else 95
"""Examples of three values per row: more than 20,000 values for the table, in the full profile 60,000."""
LEAST = 20_000

QUIET = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}
ACCEPTS_ALL = {"Any", "recursive alias"}
"""Rows that refuse no JSON value."""

MISS = object()


def compiled(hint: Any) -> CompiledSignature:
    """Return what is compiled of a function with one parameter `value` of *hint*."""

    def function(value: Any) -> Any:
        return value

    function.__annotations__["value"] = hint
    signature = read_signature(function)
    assert () == signature.problems
    return CompiledSignature(signature, function)


class Judge:
    """Asks the schema, the structuring and the fast path about one value each."""

    def __init__(self, hint: Any) -> None:
        self.compiled = compiled(hint)
        self.schema = jsonschema_rs.validator_for(self.compiled.parameters_schema, validate_formats=True)
        self.fast = fast_function(self.compiled)

    def by_schema(self, value: Any) -> bool:
        """Tell whether the schema accepts *value*; what it cannot even read it does not accept."""
        try:
            return bool(self.schema.is_valid({"value": value}))
        except ValueError:
            return False

    def by_structuring(self, value: Any) -> Any:
        """Return the structured value, or MISS."""
        try:
            return self.compiled.decode_arguments({"value": value})["value"]
        except Mismatch:
            return MISS

    def agree(self, value: Any) -> bool:
        """Assert that all three say the same about *value*; return what they say."""
        accepted = self.by_schema(value)
        structured = self.by_structuring(value)
        assert accepted == (structured is not MISS), (value, self.compiled.parameters_schema)
        fast = self.fast({"value": value})
        assert fast is MISS or (repr(fast), type(fast)) == (repr(structured), type(structured)), value
        return accepted


def fast_function(compiled: CompiledSignature) -> Any:
    """Return the function that the lines of the fast path make."""
    fast = compiled.fast_path_code
    body = "\n".join(f"    {line}" for line in (*fast.lines, f"return {fast.call}"))
    scope = {**fast.namespace, "MISS": MISS, "function": compiled.function}
    exec(f"def run(arguments):\n{body}", scope)
    return scope["run"]


def values(hint: Any, judge: Judge, *, refusing: bool) -> st.SearchStrategy[tuple[Any, ...]]:
    """
    Draw three values: one that fits *hint*, one that one mutation made unfit, one that one mutation left open.

    The number drawn beside keeps rows of two values from being used up.
    """
    fitting = json_for(hint)
    changed = fitting.flatmap(mutated)
    unfit = changed
    if refusing:
        unfit = (st.sampled_from(ALIENS) | changed).filter(lambda value: not judge.by_schema(value))
    return st.tuples(fitting, unfit, changed, st.integers(0, 2**32)).map(lambda drawn: drawn[:3])


@cache
def tried(name: str) -> Counter[str]:
    """Compare schema, structuring and fast path on drawn values of one row; return how many were taken and refused."""
    judge, tally = Judge(FORMS[name]), Counter(valid=0, invalid=0)

    @settings(max_examples=EXAMPLES, **QUIET)
    @given(values(FORMS[name], judge, refusing=name not in ACCEPTS_ALL))
    def agree(drawn: tuple[Any, ...]) -> None:
        for value in drawn:
            tally["valid" if judge.agree(value) else "invalid"] += 1

    agree()
    return tally


def share(tally: Counter[str]) -> float:
    """Return the smaller of the two shares."""
    return min(tally["valid"], tally["invalid"]) / tally.total()


class TestEachRow:
    @pytest.mark.parametrize("name", FORMS)
    def test_schema_and_structuring_agree(self, name: str) -> None:
        """Schema, strict structuring and fast path accept the same values, tried on enough of both kinds."""
        tally = tried(name)

        assert name in ACCEPTS_ALL or share(tally) >= 0.3

    def test_the_figures_over_the_table(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Over the whole table at least 30 % of the values are accepted and 30 % refused, each by one mutation."""
        tallies = {name: tried(name) for name in FORMS}
        total: Counter[str] = sum(tallies.values(), Counter())
        with capsys.disabled():
            print(f"\n{'form':36}{'values':>8}{'accepted':>10}{'refused':>9}")
            for name, tally in [*tallies.items(), ("all", total)]:
                print(f"{name:36}{tally.total():8}{tally['valid']:10}{tally['invalid']:9}")

        assert total.total() >= LEAST
        assert share(total) >= 0.3


class TestNested:
    @settings(max_examples=300 if FULL else 40, **QUIET)
    @given(st.data())
    def test_rows_inside_rows_agree(self, data: st.DataObject) -> None:
        """What agrees row by row agrees for rows nested in rows."""
        hint = data.draw(hints())
        judge = Judge(hint)
        fitting = json_for(hint, 2)

        for value in data.draw(st.lists(fitting | fitting.flatmap(mutated), min_size=3, max_size=6)):
            judge.agree(value)


class Alien:
    """An object that is no JSON value."""

    def __eq__(self, other: object) -> bool:
        raise ZeroDivisionError

    __hash__ = None  # type: ignore[assignment]


def nested(depth: int) -> Any:
    """Return an empty list in lists, *depth* of them."""
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def inside(depth: int) -> Any:
    """Return a folder in folders, *depth* of them."""
    value: Any = {"name": "x"}
    for _ in range(depth):
        value = {"name": "x", "inside": {"y": value}}
    return value


class Text(str):
    """A subclass of a JSON type."""


HOSTILE = [
    float("nan"),
    float("inf"),
    -float("inf"),
    [float("nan")],
    {"x": float("inf")},
    "\ud800",
    ["\udfff"],
    {"\ud800": 1},
    10**5000,
    -(10**5000),
    [10**5000],
    {1: 2},
    {None: 1},
    (1, 2),
    {1, 2},
    b"x",
    Text("a"),
    Alien(),
    [Alien()],
    {"x": Alien()},
    object,
    nested(5000),
    inside(5000),
    {"inside": nested(5000)},
]


class TestHostileValues:
    @pytest.mark.parametrize("name", FORMS)
    @pytest.mark.parametrize("value", HOSTILE, ids=lambda value: type(value).__name__)
    def test_no_hook_takes_or_crashes_on_them(self, name: str, value: Any) -> None:
        """Values that JSON cannot carry are refused, whatever the hint: no other exception, no value taken."""
        judge = Judge(FORMS[name])

        assert judge.by_structuring(value) is MISS
        assert judge.fast({"value": value}) is MISS
