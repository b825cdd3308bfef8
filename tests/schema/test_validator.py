# Tests of: validator
"""Arguments that fit no parameter: refused, with every problem at once, in words that a model can use."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict
from uuid import UUID

import attrs
import pytest
from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen, MultipleOf
from type_classes import Even
from type_strategies import ask, echo, given_tool

from praval_tools import Outcome, Problem, Tool, ToolArgumentsError, ToolResult
from praval_tools.schema import keywords, validator
from praval_tools.schema.json_values import to_equality_text
from praval_tools.schema.validator import iter_errors


class Currency(Enum):
    EUR = "EUR"
    USD = "USD"


@attrs.frozen
class Item:
    name: str
    count: Annotated[int, Ge(1)]
    price: Decimal = Decimal(0)


class Address(TypedDict):
    city: str
    code: NotRequired[str]


class Span(NamedTuple):
    start: date
    end: date


def order(
    customer: str,
    items: list[Item],
    currency: Currency,
    address: Address | None = None,
    when: datetime | None = None,
    weights: dict[str, float] | None = None,
    priority: Annotated[int, Ge(0), Le(9)] = 5,
    express: bool = False,
    code: Annotated[str, MinLen(2), MaxLen(4), re.compile("^[A-Z]+$")] = "AB",
) -> str:
    """Order items."""
    raise AssertionError("a call with bad arguments must not run")


GOOD: dict[str, Any] = {"customer": "x", "items": [{"name": "a", "count": 1}], "currency": "EUR"}
ITEM: dict[str, Any] = GOOD["items"][0]


def but(**changes: Any) -> dict[str, Any]:
    """Return good arguments with *changes*."""
    return {**GOOD, **changes}


def without(*names: str) -> dict[str, Any]:
    """Return good arguments without *names*."""
    return {name: value for name, value in GOOD.items() if name not in names}


ORDERS: list[tuple[Any, list[str]]] = [
    ({}, ["$.customer", "$.items", "$.currency"]),
    ("", ["$.customer", "$.items", "$.currency"]),
    (without("items"), ["$.items"]),
    (without("customer", "currency"), ["$.customer", "$.currency"]),
    (but(customer=3), ["$.customer"]),
    (but(customer=None), ["$.customer"]),
    (but(customer=["x"]), ["$.customer"]),
    (but(items={}), ["$.items"]),
    (but(items="a"), ["$.items"]),
    (but(items=[1]), ["$.items[0]"]),
    (but(items=[None, "x"]), ["$.items[0]", "$.items[1]"]),
    (but(items=[{}]), ["$.items[0].count", "$.items[0].name"]),
    (but(items=[ITEM, {"name": "b"}]), ["$.items[1].count"]),
    (but(items=[{**ITEM, "count": 0}]), ["$.items[0].count"]),
    (but(items=[{**ITEM, "count": 1.5}]), ["$.items[0].count"]),
    (but(items=[{**ITEM, "count": True}]), ["$.items[0].count"]),
    (but(items=[{**ITEM, "price": "cheap"}]), ["$.items[0].price"]),
    (but(items=[{**ITEM, "price": [1]}]), ["$.items[0].price"]),
    (but(items=[{**ITEM, "cost": 1}]), ["$.items[0].cost"]),
    (but(items=[{"Name": "a", "count": 1}]), ["$.items[0].Name", "$.items[0].name"]),
    (but(items=[{"name": 1, "count": "many"}]), ["$.items[0].count", "$.items[0].name"]),
    (but(items='[{"name": "a", "count": 0}]'), ["$.items[0].count"]),
    (but(items="[1, 2]"), ["$.items[0]", "$.items[1]"]),
    (but(currency="eur"), ["$.currency"]),
    (but(currency="CHF"), ["$.currency"]),
    (but(currency=1), ["$.currency"]),
    (but(currency=None), ["$.currency"]),
    (but(curency="EUR"), ["$.curency"]),
    (but(address=[]), ["$.address"]),
    (but(address={}), ["$.address"]),
    (but(address="here"), ["$.address"]),
    (but(when="yesterday"), ["$.when"]),
    (but(when="2026-01-01"), ["$.when"]),
    (but(when="2026-01-01T10:00:00"), ["$.when"]),
    (but(when=0), ["$.when"]),
    (but(weights=[]), ["$.weights"]),
    (but(weights={"a": "heavy"}), ["$.weights"]),
    (but(priority=10), ["$.priority"]),
    (but(priority=-1), ["$.priority"]),
    (but(priority="10"), ["$.priority"]),
    (but(priority="high"), ["$.priority"]),
    (but(priority=1.5), ["$.priority"]),
    (but(express=1), ["$.express"]),
    (but(express="yes"), ["$.express"]),
    (but(express="True"), ["$.express"]),
    (but(code="A"), ["$.code"]),
    (but(code="ABCDE"), ["$.code"]),
    (but(code="ab"), ["$.code"]),
    (but(code="a"), ["$.code"]),
    (but(code=12), ["$.code"]),
    (but(priority=11, express="on", code="A"), ["$.priority", "$.express", "$.code"]),
    (but(customer=1, currency="x", priority=-5, extra=1), ["$.customer", "$.currency", "$.priority", "$.extra"]),
    ({"a": 1, "b": 2}, ["$.customer", "$.items", "$.currency", "$.a", "$.b"]),
    ({"": 1, **GOOD}, ["$['']"]),
    ({"a b": 1, **GOOD}, ["$['a b']"]),
    ({"é": 1, **GOOD}, ["$['é']"]),
    ('{"customer": "x"', ["$"]),
    ('{"customer": "x",}', ["$"]),
    ("{'customer': 'x'}", ["$"]),
    ('{"customer": NaN}', ["$"]),
    ('{"customer": "a", "customer": "b"}', ["$"]),
    ("not json", ["$"]),
    ("[]", ["$"]),
    ('"{}"', ["$"]),
    ("0", ["$"]),
    (b"\xff\xfe{\x00}\x00", ["$"]),
    ([("customer", "x")], ["$"]),
    (7, ["$"]),
]  # fmt: skip
"""Arguments of `order`, and the places of all that is wrong with them, in order."""

VALUES: list[tuple[Any, Any]] = [
    (bytes, "a"), (bytes, "YQ"), (bytes, "YQ==\n"), (bytes, "Y Q=="), (bytes, 1),
    (date, "2026-02-30"), (date, "26-01-01"), (date, "2026-1-1"), (date, "2026-01-01T00:00:00Z"), (date, 20260101),
    (date, "0000-01-01"), (date, "20260101"), (date, "2026-W01-1"),
    (datetime, "2026-01-01T24:00:00Z"), (datetime, "2026-01-01 10:00:00Z"), (datetime, "2026-01-01T10:00Z"),
    (datetime, "2026-01-01T10:00:00+25:00"), (datetime, "2026-01-01T10:00:60Z"),
    (time, "25:00:00"), (time, "10:00"), (time, "10:00:61"), (time, "T10:00:00"),
    (timedelta, "1h"), (timedelta, "PT"), (timedelta, "P"), (timedelta, "P1Y"), (timedelta, "P1M"), (timedelta, 60),
    (timedelta, "PT1.5H"), (timedelta, "P1D2H"),
    (UUID, "x"), (UUID, "0" * 32), (UUID, "{00000000-0000-0000-0000-000000000000}"), (UUID, 5),
    (Decimal, "1,5"), (Decimal, "NaN"), (Decimal, "Infinity"), (Decimal, "1_0"), (Decimal, ""), (Decimal, True),
    (Decimal, "+1"), (Decimal, " 1"),
    (Path, 1), (Path, ["a"]), (None, 0), (None, "null"), (None, False),
    (tuple[int, str], [1]), (tuple[int, str], [1, "x", 2]), (tuple[int, str], ["x", 1]), (tuple[()], [1]),
    (tuple[int, ...], [1, "x"]), (set[int], [1, 1]), (set[int], [1, 1.0]), (set[str], ["a", 1]),
    (frozenset[int], {"a": 1}),
    (dict[int, str], {"x": "y"}), (dict[bool, int], {"True": 1}), (dict[date, int], {"today": 1}),
    (Literal["a", "b"], "c"), (Literal[1], True), (Literal[0], False), (Literal[True], 1),
    (Annotated[int, Gt(0)], 0), (Annotated[int, Lt(5)], 5), (Annotated[float, MultipleOf(0.5)], 0.3),
    (Annotated[list[int], MinLen(1)], []), (Annotated[dict[str, int], MaxLen(1)], {"a": 1, "b": 2}),
    (Span, {"start": "2026-01-01"}), (Span, ["2026-01-01", "2026-01-02"]), (int | None, "x"), (int | list[int], {}),
]  # fmt: skip
"""Hints, and a value that fits none of them."""


def problems_of(result: ToolResult) -> tuple[Problem, ...]:
    """Return all problems of a call that must have been refused for its arguments."""
    assert Outcome.INVALID_ARGUMENTS is result.outcome
    assert "invalid-arguments" == result.error_type
    assert isinstance(result.exception, ToolArgumentsError)
    return result.exception.problems


def tool() -> Tool[..., Any]:
    """Return the tool of `order`."""
    return Tool.from_function(order)


def test_there_are_a_hundred_cases() -> None:
    """The lists of bad arguments stay long enough to mean something."""
    assert 100 <= len(ORDERS) + len(VALUES)


class TestOrders:
    @pytest.mark.parametrize(("arguments", "paths"), ORDERS, ids=lambda one: ascii(one)[:50])
    def test_every_problem_is_named_at_once(self, arguments: Any, paths: list[str]) -> None:
        """The error lists every place that is wrong, in the order of the parameters, and nothing ran."""
        result = ask(tool(), arguments)

        assert paths == list(dict.fromkeys(one.path for one in problems_of(result)))
        assert 0 == result.attempts

    @pytest.mark.parametrize(("arguments", "_"), ORDERS, ids=lambda one: ascii(one)[:50])
    def test_each_problem_says_why_in_few_words(self, arguments: Any, _: Any) -> None:
        """Every problem has a reason; what was given is shortened, and the whole stays short enough to act on."""
        result = ask(tool(), arguments)

        for one in problems_of(result):
            assert one.reason
            assert len(one.reason) <= 200
            assert len(one.given) <= 80
            assert len(one.wanted) <= 200
        assert len(result.for_model()) <= 1_000


class TestValues:
    @pytest.mark.parametrize(("hint", "value"), VALUES, ids=lambda one: ascii(one)[:40])
    def test_that_do_not_fit_their_hint_are_refused(self, hint: Any, value: Any) -> None:
        """Each value near the right form is refused at its place, with what was given and what was wanted."""
        result = ask(echo(hint), {"value": value})

        found = problems_of(result)
        assert found
        for one in found:
            assert one.path.startswith("$.value")
            assert one.reason

    @pytest.mark.parametrize(("hint", "value"), VALUES, ids=lambda one: ascii(one)[:40])
    def test_it_is_shown_what_was_given_and_wanted(self, hint: Any, value: Any) -> None:
        """At least one problem shows the value and the right form, or names the key that is missing or too much."""
        found = problems_of(ask(echo(hint), {"value": value}))

        assert any((one.given and one.wanted) or "missing" in one.reason or "unknown" in one.reason for one in found)


class TestWords:
    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            (but(currency="CHF"), Problem(path="$.currency", reason="is none of the allowed values", given='"CHF"',
                                          wanted='one of "EUR", "USD"')),
            (but(priority=10), Problem(path="$.priority", reason="is larger than 9", given="10",
                                       wanted="integer from 0 to 9")),
            (but(customer=3), Problem(path="$.customer", reason="is not a string", given="3", wanted="string")),
            (without("customer"), Problem(path="$.customer", reason="is missing", wanted="string")),
        ],
    )  # fmt: skip
    def test_a_problem_is_data_and_a_sentence(self, arguments: Any, expected: Problem) -> None:
        """Path, reason, what was given and what was wanted are fields; the text puts them together."""
        result = ask(tool(), arguments)

        assert (expected,) == problems_of(result)
        assert str(expected) in str(result.error)

    def test_a_misspelt_name_names_its_neighbour(self) -> None:
        """An unknown parameter comes with the name that was meant."""
        problems = problems_of(ask(tool(), but(costumer="x")))

        assert "did you mean 'customer'?" in problems[0].reason

    def test_a_misspelt_name_inside_names_its_neighbour(self) -> None:
        """The same inside of an object."""
        problems = problems_of(ask(tool(), but(items=[{**ITEM, "pirce": 1}])))

        assert "did you mean 'price'?" in problems[0].reason

    def test_without_a_neighbour_the_known_names_are_listed(self) -> None:
        """An unknown parameter that is like no other comes with the names that there are."""
        problems = problems_of(ask(echo(int, 1), {"zzz": 1}))

        assert "only 'value'" == problems[0].wanted

    def test_given_values_are_cut_in_the_middle(self) -> None:
        """A long value is shown shortened: an error never repeats a page of text."""
        problems = problems_of(ask(tool(), but(code="x" * 100_000)))

        assert all(len(one.given) <= 80 for one in problems)

    def test_text_names_ten_problems_and_counts_the_rest(self) -> None:
        """The error carries all problems; its text shows the first ten."""
        result = ask(tool(), but(items=[{"name": 1, "count": 1}] * 50))

        assert 50 == len(problems_of(result))
        assert "and 40 more" in str(result.error)
        assert len(str(result.error)) <= 2_000

    def test_bad_arguments_raise_the_same_for_the_operator(self) -> None:
        """`run_raw` raises the error that a call carries."""
        with pytest.raises(ToolArgumentsError) as caught:
            tool().run_raw({})

        assert ["$.customer", "$.items", "$.currency"] == [one.path for one in caught.value.problems]

    def test_what_classes_refuse_is_reported_like_the_rest(self) -> None:
        """What the validator of a class raises is a problem at its place, with what was given, for each parameter."""

        def pair(first: Even, second: Even, third: list[Even]) -> str:
            """Pair."""
            raise AssertionError("a call with bad arguments must not run")

        result = ask(
            Tool.from_function(pair), {"first": {"number": 1}, "second": {"number": 3}, "third": [{"number": 5}]}
        )

        problems = problems_of(result)
        assert ["$.first", "$.second", "$.third[0]"] == [one.path for one in problems]
        for one, number in zip(problems, (1, 3, 5), strict=True):
            assert f"{number} is odd" in one.reason
            assert f'{{"number": {number}}}' == one.given


GIVEN: dict[str, Any] = {
    "type": "object",
    "properties": {
        "q": {"type": "string", "minLength": 2},
        "n": {"type": "integer", "maximum": 5},
        "kind": {"enum": ["a", "b"]},
        "mail": {"type": "string", "format": "email"},
        "rows": {"type": "array", "items": {"$ref": "#/$defs/row"}, "uniqueItems": True},
    },
    "required": ["q"],
    "additionalProperties": False,
    "$defs": {"row": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}},
}


class TestGivenSchema:
    @pytest.mark.parametrize(
        ("arguments", "paths"),
        [
            ({}, ["$.q"]),
            ({"q": "a"}, ["$.q"]),
            ({"q": "ab", "n": 6}, ["$.n"]),
            ({"q": "ab", "n": "six"}, ["$.n"]),
            ({"q": "ab", "kind": "c"}, ["$.kind"]),
            ({"q": "ab", "mail": "nobody"}, ["$.mail"]),
            ({"q": "ab", "rows": [{}, {"x": "?"}]}, ["$.rows[0].x", "$.rows[1].x"]),
            ({"q": "ab", "rows": [{"x": 1}, {"x": 1.0}]}, ["$.rows"]),
            ({"q": 1, "n": 9, "kind": None, "more": 1}, ["$.q", "$.n", "$.more"]),
            ({"Q": "ab"}, ["$.q", "$.Q"]),
            ("[]", ["$"]),
        ],
        ids=lambda one: ascii(one)[:50],
    )
    def test_errors_are_the_same(self, arguments: Any, paths: list[str]) -> None:
        """A tool with a given schema refuses with the same errors, all at once."""
        assert paths == [one.path for one in problems_of(ask(given_tool(GIVEN), arguments))]


class TestCostOfReports:
    @pytest.mark.parametrize("keys", [int, float, UUID, Currency], ids=lambda kind: kind.__name__)
    def test_wrong_keys_are_one_error_of_the_validator(self, keys: type, monkeypatch: pytest.MonkeyPatch) -> None:
        """Broken promise: nothing freezes; each of 2,000 wrong keys made an error that held the whole object."""
        errors: list[object] = []

        def count_errors(*args: Any) -> Any:
            errors.extend(found := list(iter_errors(*args)))
            return found

        monkeypatch.setattr(validator, "iter_errors", count_errors)
        many: dict[str, Any] = dict.fromkeys(map("key {}".format, range(2000)), 1)

        found = problems_of(ask(echo(dict[keys, int]), {"value": many}))  # type: ignore[valid-type]

        assert 1 == len(errors)
        assert 201 == len(found) and "more" in found[-1].reason
        assert "$.value['key 0']" == found[0].path and "has a name that is not allowed" == found[0].reason

    def test_wrong_keys_beside_other_problems(self) -> None:
        """Keys are reported with everything else, in supplied schemas too."""
        schema = {
            "type": "object",
            "properties": {"n": {"type": "integer"}, "o": {"propertyNames": {"enum": ["a", "b"]}}},
            "unevaluatedProperties": False,
        }

        found = problems_of(ask(given_tool(schema), {"n": "x", "o": {"a": 1, "c": 2, "d": 3}}))

        assert ["$.n", "$.o.c", "$.o.d"] == [one.path for one in found]

    @pytest.mark.parametrize("nested", [False, True])
    def test_each_item_of_a_set_is_looked_at_once(self, nested: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        """Broken promise: nothing freezes; integers of more than 64 bits were compared with each other, one by one."""
        looked_at: list[object] = []

        def count_items(value: Any) -> str:
            looked_at.append(value)
            return to_equality_text(value)

        monkeypatch.setattr(keywords, "to_equality_text", count_items)
        numbers = [2**70 + number for number in range(300)]
        items: list[Any] = [[number] for number in numbers] if nested else list(numbers)
        check = validator.Validator({"properties": {"a": {"uniqueItems": True}}})

        assert check.is_valid({"a": items})
        assert 300 == len(looked_at)
        assert not check.is_valid({"a": [*items, items[0]]})
        assert not check.is_valid({"a": [1, 1.0]}) and not check.is_valid({"a": [0, -0.0]})
        assert check.is_valid({"a": [1, True, "1", None, "None", [1], 1.5]}) and check.is_valid({"a": "11"})
