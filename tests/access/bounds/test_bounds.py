"""Calls outside of the bounds of a grant are refused, however the arguments are written, and models see the bounds."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import jsonschema_rs
import pytest
from bounds_rig import (
    SCHEMA,
    Account,
    arguments,
    both_forms,
    combined,
    compile_unchecked,
    fill_defaults,
    make_payments,
    mark_as_object,
    wheres,
)
from hypothesis import example, given
from hypothesis import strategies as st

from praval_tools import Agent, GrantError, Outcome, ToolCall, ToolRegistry, tool
from praval_tools.access.bounds.bounds import Bounds, is_satisfiable
from praval_tools.access.bounds.satisfiability import can_all_hold
from praval_tools.schema.validator import compile_schema

ALLOWED = {"amount": 50, "to": {"iban": "UK12"}}
OUTSIDE: list[tuple[dict[str, Any], Any]] = [
    ({"amount": {"maximum": 100}}, {"amount": 101, "to": {"iban": "UK12"}}),
    ({"amount": {"maximum": 100}}, {"amount": "5000", "to": {"iban": "UK12"}}),
    ({"amount": {"maximum": 100}}, {"amount": 5000.0, "to": {"iban": "UK12"}}),
    ({"amount": {"enum": [1, 50]}}, {"amount": 2, "to": {"iban": "UK12"}}),
    ({"to": {"properties": {"iban": {"const": "UK12"}}}}, {"amount": 50, "to": {"iban": "XX"}}),
    ({"to": {"properties": {"iban": {"const": "UK12"}}}}, {"amount": 50, "to": '{"iban": "XX"}'}),
    ({"to": {"properties": {"country": {"const": "UK"}}}}, {"amount": 50, "to": {"iban": "UK12", "country": "US"}}),
    ({"note": {"const": "thanks"}}, {**ALLOWED, "note": "bribe"}),
    ({"type": {"enum": ["giro"]}}, {**ALLOWED, "type": "cash"}),
    ({"type": "object", "properties": {"amount": {"maximum": 100}}}, {"amount": 101, "to": {"iban": "UK12"}}),
    ({"type": "object", "properties": {"to": {"properties": {"iban": {"const": "UK12"}}}}},
     {"amount": 1, "to": {"iban": "XX"}}),
    ({"type": "object", "enum": [ALLOWED]}, {**ALLOWED, "note": "more"}),
    ({"type": "object", "anyOf": [{"const": ALLOWED}, {"properties": {"amount": {"maximum": 5}}}]},
     {"amount": 6, "to": {"iban": "UK12"}}),
    ({"type": "object", "not": {"properties": {"note": {"const": "bribe"}}}}, {**ALLOWED, "note": "bribe"}),
]  # fmt: skip


def wire(to: str) -> str:
    """Wire money."""
    return to


class TestCallsOutside:
    @pytest.mark.parametrize(("where", "arguments"), OUTSIDE, ids=lambda one: str(one)[:50])
    def test_are_forbidden_and_do_not_run(self, where: dict[str, Any], arguments: dict[str, Any]) -> None:
        """
        Repairs, defaults, nested values and other spellings do not get around the bounds.
        """
        registry, paid = make_payments()
        registry.grant("pay", "intern", where=where)

        result = registry.execute(ToolCall("1", "pay", arguments, "intern"))

        assert (Outcome.FORBIDDEN, []) == (result.outcome, paid)
        assert registry.explain("intern", "pay", arguments).allowed is False

    @pytest.mark.parametrize("where", [where for where, _ in OUTSIDE], ids=lambda one: str(one)[:50])
    def test_calls_inside_run(self, where: dict[str, Any]) -> None:
        """
        What the bounds admit runs, as explained.
        """
        registry, paid = make_payments()
        registry.grant("pay", "intern", where=where)

        assert registry.execute(ToolCall("1", "pay", ALLOWED, "intern")).success
        assert 1 == len(paid)

    def test_the_reason_names_the_argument(self) -> None:
        """
        A model can react to the refusal: it names the argument and the limit.
        """
        registry, _ = make_payments()
        registry.grant("pay", "intern", where={"amount": {"maximum": 100}})

        result = registry.execute(ToolCall("1", "pay", {**ALLOWED, "amount": 200}, "intern"))

        assert "amount is larger than 100" in str(result.error)

    def test_the_reason_says_the_pattern(self) -> None:
        """Whoever reads why a text is outside reads the pattern that it does not match."""
        registry = ToolRegistry()
        registry.tool("wire", owned_by="bank")(wire)
        registry.grant("wire", "clerk", where={"to": {"pattern": "^UK[0-9]+$"}})

        assert "to does not match '^UK[0-9]+$'" in registry.explain("clerk", "wire", {"to": "XX1"}).reason

    def test_a_parameter_left_out_counts_by_its_default(self) -> None:
        """
        A default outside of the bounds is a call outside.
        """
        registry, paid = make_payments()
        registry.grant("pay", "intern", where={"note": {"const": "refund"}})

        assert Outcome.FORBIDDEN is registry.execute(ToolCall("1", "pay", ALLOWED, "intern")).outcome
        assert registry.execute(ToolCall("1", "pay", {**ALLOWED, "note": "refund"}, "intern")).success
        assert 1 == len(paid)

    def test_a_decimal_is_compared_exactly(self) -> None:
        """
        Decimals are numbers for the bounds, however they are spelled.
        """
        registry, paid = make_payments()
        registry.grant("pay", "intern", where={"fee": {"maximum": 0.1}})

        for fee, outcome in (
            ("0.10000000000000000001", Outcome.FORBIDDEN),
            ("0.1", Outcome.OK),
            (7, Outcome.FORBIDDEN),
        ):
            assert outcome is registry.execute(ToolCall("1", "pay", {**ALLOWED, "fee": fee}, "intern")).outcome
        assert [Decimal("0.1")] == [one["fee"] for one in paid]

    @pytest.mark.parametrize("limits", [{"minimum": 5.0}, {"allOf": [{"minimum": 5.0}]}])
    def test_a_decimal_is_compared_exactly_with_a_whole_limit(self, limits: dict[str, Any]) -> None:
        """
        A limit that is written as `5.0` means exactly 5 for decimals of more digits than a double has.
        """
        registry, paid = make_payments()
        registry.grant("pay", "intern", where={"fee": limits})

        for fee, outcome in (("4.99999999999999999999", Outcome.FORBIDDEN), ("5", Outcome.OK)):
            assert outcome is registry.execute(ToolCall("1", "pay", {**ALLOWED, "fee": fee}, "intern")).outcome
        assert [Decimal(5)] == [one["fee"] for one in paid]

    @pytest.mark.parametrize(
        ("step", "fee", "is_inside"),
        [
            (1, "9007199254740993.5", False),
            (1, "100000000000000000.01", False),
            (5, "100.0000000000000000000001", False),
            (0.01, "9007199254740993.555", False),
            (0.01, "9007199254740993.55", True),
            (0.1, "0.3", True),
            (1, "1e9000", True),
            (1, "1e-9000", False),
        ],
    )
    def test_a_decimal_is_a_multiple_exactly(self, step: float, fee: str, is_inside: bool) -> None:
        """
        Broken promise: `{"multipleOf": 1}` admitted 9007199254740993.5, which is a whole number once rounded.
        """
        registry, paid = make_payments()
        registry.grant("pay", "intern", where={"fee": {"multipleOf": step}})

        result = registry.execute(ToolCall("1", "pay", {**ALLOWED, "fee": fee}, "intern"))

        assert (Outcome.OK if is_inside else Outcome.FORBIDDEN) is result.outcome
        assert ([Decimal(fee)] if is_inside else []) == [one["fee"] for one in paid]
        assert is_inside or f"fee is not a multiple of {step}" in str(result.error)

    def test_null_does_not_slip_under_a_limit(self) -> None:
        """
        A limit on a number refuses null, also where null is the default.
        """
        registry, paid = make_payments()
        registry.grant("pay", "intern", where={"fee": {"maximum": 5}})

        assert Outcome.FORBIDDEN is registry.execute(ToolCall("1", "pay", ALLOWED, "intern")).outcome
        assert Outcome.FORBIDDEN is registry.execute(ToolCall("1", "pay", {**ALLOWED, "fee": None}, "intern")).outcome
        assert [] == paid

    @pytest.mark.parametrize(
        ("where", "arguments", "inside"),
        [
            ({"definitions": {"maximum": 5}}, {}, True),
            ({"definitions": {"maximum": 5}}, {"definitions": 6}, False),
            ({"type": "object", "properties": {"definitions": {"maximum": 5}}}, {"definitions": "6"}, False),
            ({"fees": {"items": {"maximum": 5}}}, {"fees": ["5", 4]}, True),
            ({"fees": {"items": {"maximum": 5}}}, {"fees": ["5.00000000000000000001"]}, False),
            ({"fees": {"items": {"maximum": 5}}}, {"fees": '["1e3"]'}, False),
            ({"either": {"maximum": 5}}, {"either": 5}, True),
            ({"either": {"maximum": 5}}, {"either": "9"}, False),
            ({"extra": {"maximum": 5}}, {"extra": 5}, True),
            ({"extra": {"maximum": 5}}, {"extra": "6"}, False),
            ({"extra": {"maximum": 5}}, {}, False),
            ({"type": "object", "additionalProperties": False,
              "properties": {"fees": {"maxItems": 1}, "definitions": True, "either": True, "accounts": True}},
             {"extra": 1}, False),
            ({"accounts": {"additionalProperties": {"properties": {"country": {"const": "UK"}}}}},
             {"accounts": {"mine": {"iban": "X"}}}, True),
            ({"accounts": {"additionalProperties": {"properties": {"country": {"const": "UK"}}}}},
             {"accounts": {"mine": {"iban": "X"}, "his": {"iban": "X", "country": "US"}}}, False),
        ],
        ids=lambda one: str(one)[:40],
    )  # fmt: skip
    def test_every_kind_of_parameter_is_bounded(
        self, where: dict[str, Any], arguments: dict[str, Any], inside: bool
    ) -> None:
        """
        Lists of decimals, unions, extra keywords, mappings, names that JSON Schema uses: all are held to the bounds.
        """
        registry, ran = ToolRegistry(), []

        @tool(registry=registry, owned_by="treasurer")
        def collect(
            fees: list[Decimal] = [],
            either: int | str = 0,
            definitions: int = 0,
            accounts: dict[str, Account] = {},
            **extras: int,
        ) -> int:
            """Collect fees."""
            ran.append(extras)
            return len(fees)

        registry.grant("collect", "intern", where=where)

        assert inside is registry.explain("intern", "collect", arguments).allowed
        result = registry.execute(ToolCall("1", "collect", arguments, "intern"))

        assert (Outcome.OK if inside else Outcome.FORBIDDEN, inside) == (result.outcome, bool(len(ran)))

    def test_what_was_lent_on_is_bounded_by_all(self) -> None:
        """
        A derived grant holds the bounds of every grant that it came from.
        """
        registry, paid = make_payments()
        registry.grant("pay", "clerk", where={"amount": {"maximum": 100}}, delegable=True)
        registry.grant("pay", "intern", by="clerk", where={"amount": {"minimum": 10}})

        outcomes = [
            registry.execute(ToolCall("1", "pay", {**ALLOWED, "amount": amount}, "intern")).success
            for amount in (5, 50, 500)
        ]

        assert [False, True, False] == outcomes
        with pytest.raises(GrantError, match="no arguments meet"):
            registry.grant("pay", "boss", by="clerk", where={"amount": {"minimum": 101}})

    def test_changing_the_given_mapping_later_changes_nothing(self) -> None:
        """
        The bounds are copied when the grant is made.
        """
        registry, _ = make_payments()
        where: dict[str, Any] = {"amount": {"enum": [1]}}
        registry.grant("pay", "intern", where=where)
        where["amount"]["enum"].append(50)

        assert Outcome.FORBIDDEN is registry.execute(ToolCall("1", "pay", ALLOWED, "intern")).outcome

    def test_grants_add_up(self) -> None:
        """
        Any one of several grants suffices.
        """
        registry, _ = make_payments()
        registry.grant("pay", "intern", where={"amount": {"maximum": 10}})
        registry.grant("pay", "intern", where={"amount": {"const": 50}})

        assert registry.execute(ToolCall("1", "pay", ALLOWED, "intern")).success

    def test_the_exported_schema_shows_the_bounds(self) -> None:
        """
        Where the grant is the only way, the model sees the narrower schema; not where another way is open.
        """
        registry, _ = make_payments()
        Agent("treasurer", registry=registry)
        registry.grant("pay", "intern", where={"amount": {"maximum": 100}})

        shown = registry.toolset("intern").schemas()[0]["function"]["parameters"]["properties"]["amount"]
        whole = registry.toolset("treasurer").schemas()[0]["function"]["parameters"]["properties"]["amount"]

        assert ({"type": "integer", "maximum": 100}, {"type": "integer"}) == (shown, whole)

    def test_the_exported_schema_shows_every_bound_of_what_was_lent_on(self) -> None:
        """
        A derived grant is shown with the bounds of all grants that it came from.
        """
        registry, _ = make_payments()
        registry.grant("pay", "clerk", where={"amount": {"maximum": 100}}, delegable=True)
        registry.grant("pay", "intern", by="clerk", where={"type": "object", "properties": {"amount": {"minimum": 10}}})

        shown = jsonschema_rs.validator_for(registry.toolset("intern").schemas()[0]["function"]["parameters"])

        assert [False, True, False] == [shown.is_valid({**ALLOWED, "amount": amount}) for amount in (9, 50, 101)]

    @pytest.mark.parametrize("where", [
        {"fee": {"maximum": 3}}, {"fees": {"items": {"maximum": 3}}},
        {"pair": {"items": {"maximum": 3}}}, {"by_name": {"additionalProperties": {"minimum": 1}}},
        {"maybe": {"anyOf": [{"type": "null"}, {"maximum": 3}]}}, {"fee": {"maximum": 1}},
        {"type": "object", "properties": {"fee": {"maximum": 3}}},
    ], ids=str)  # fmt: skip
    def test_a_decimal_with_a_default_may_be_left_out_where_the_default_is_inside(self, where: dict[str, Any]) -> None:
        """Broken promise: a default that is text in JSON was shown as required, although calls without it pass."""
        registry = ToolRegistry()

        @tool(registry=registry, owned_by="treasurer")
        def charge(
            fee: Decimal = Decimal("1.5"),
            fees: list[Decimal] = [Decimal("2.5")],
            pair: tuple[Decimal, Decimal] = (Decimal("1.5"), Decimal("2.5")),
            by_name: dict[str, Decimal] = {"x": Decimal("1.5")},
            maybe: Decimal | None = Decimal("1.5"),
        ) -> int:
            """Charge a fee."""
            return 1

        registry.grant("charge", "intern", where=where)
        shown = jsonschema_rs.validator_for(registry.toolset("intern").schemas()[0]["function"]["parameters"])

        assert registry.explain("intern", "charge", {}).allowed is shown.is_valid({})
        assert (where != {"fee": {"maximum": 1}}) is shown.is_valid({})


class TestProperties:
    @example([mark_as_object({"anyOf": [{"anyOf": [{"const": {"n": 1, "s": ""}}]}]})], [{"n": 1, "s": ""}])
    @given(st.lists(both_forms, min_size=1, max_size=2), st.lists(arguments, min_size=1, max_size=20))
    def test_what_some_call_meets_can_be_met(self, several: list[dict[str, Any]], calls: list[dict[str, Any]]) -> None:
        """
        "No arguments meet these bounds" is said only where nothing meets all of them.
        """
        bounds = [one for one in map(compile_unchecked, several) if one is not None]

        inside = [one for one in calls if all(not bound.find_violations(one, fill_defaults(one)) for bound in bounds)]

        assert not inside or is_satisfiable(bounds, SCHEMA)

    @example([{"n": {"minimum": 0}, "u": {"minimum": 0}}] * 2, [{"n": 0, "s": ""}])
    @given(st.lists(both_forms, min_size=1, max_size=2), st.lists(arguments, min_size=1, max_size=5))
    def test_the_merged_schema_admits_what_the_bounds_admit(
        self, several: list[dict[str, Any]], calls: list[dict[str, Any]]
    ) -> None:
        """
        What a model is shown is what the grants admit, the defaults of what is left out included.
        """
        bounds, shown = [one for one in map(compile_unchecked, several) if one is not None], SCHEMA
        for bound in bounds:
            shown = bound.merge_into_schema(shown)
        jsonschema_rs.meta.validate(shown)
        validator = jsonschema_rs.validator_for(shown)

        for call in calls:
            assert validator.is_valid(call) == (
                not any(bound.find_violations(call, fill_defaults(call)) for bound in bounds)
            )

    @given(
        wheres().map(lambda parts: {"type": "object", "properties": parts}) | combined("filled").map(mark_as_object),
        arguments,
    )
    def test_bounds_never_admit_what_the_standard_refuses(self, where: dict[str, Any], call: dict[str, Any]) -> None:
        """
        Being strict only ever takes away: what is inside is valid under the bound as it was written.
        """
        made = compile_unchecked(where)
        if made is None or made.find_violations(call, fill_defaults(call)):
            return

        assert jsonschema_rs.validator_for(where).is_valid(fill_defaults(call))

    def test_equal_bounds_are_equal(self) -> None:
        """
        Bounds are compared by what they say, whatever the order of their keys.
        """
        one = Bounds.compile({"n": {"minimum": 1, "maximum": 3}}, SCHEMA, "t")
        same = Bounds.compile({"n": {"maximum": 3, "minimum": 1}}, SCHEMA, "t")

        assert one == same
        assert hash(one) == hash(same)


def test_many_allowed_values_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether one of them is possible is asked of each, with the same few validators."""
    compiled = list[object]()

    def count(schema: Any, **options: bool) -> jsonschema_rs.Validator:
        compiled.append(schema)
        return compile_schema(schema, **options)

    monkeypatch.setattr("praval_tools.access.bounds.satisfiability.compile_schema", count)
    assert not can_all_hold([{"enum": list(range(1_000))}, {"type": "string"}])
    assert len(compiled) < 10
