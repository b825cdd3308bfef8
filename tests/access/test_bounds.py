"""Bounds on arguments: what is refused when a grant is made, and that nothing gets around them in a call."""

from __future__ import annotations

import math
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from threading import Thread
from typing import Any

import jsonschema_rs
import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from praval_tools import Agent, GrantError, Outcome, ToolCall, ToolRegistry, tool
from praval_tools.access.bounds.bound_schema import make_strict
from praval_tools.access.bounds.bounds import Bounds, is_satisfiable


@frozen
class Account:
    """Where money goes."""

    iban: str
    country: str = "UK"


def make() -> tuple[ToolRegistry, list[dict[str, Any]]]:
    """Return a registry with a payment tool, and what that tool was called with."""
    registry, paid = ToolRegistry(), list[dict[str, Any]]()

    @tool(registry=registry, owned_by="treasurer")
    def pay(amount: int, to: Account, note: str = "thanks", type: str = "giro", fee: Decimal | None = None) -> int:
        """Pay money to an account."""
        paid.append({"amount": amount, "to": to, "note": note, "type": type, "fee": fee})
        return amount

    return registry, paid


def refusals(where: Any) -> str:
    """Return what is said of a grant with these bounds; empty where it is made."""
    registry, _ = make()
    try:
        registry.grant("pay", "intern", where=where)
    except GrantError as error:
        assert [] == registry.grants()
        return str(error)
    return ""


@contextmanager
def asked() -> Iterator[tuple[str, list[bytes]]]:
    """Give the address of a server that answers nothing, and what it was asked; complete at the end."""
    requests: list[bytes] = []

    def listen() -> None:
        while True:
            connection, _ = server.accept()
            with connection:
                if (request := connection.recv(100)) == b"that was all":
                    return
                requests.append(request)

    with socket.create_server(("127.0.0.1", 0)) as server:
        listener = Thread(target=listen, daemon=True)
        listener.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/schema", requests
        with socket.create_connection(server.getsockname()) as last:
            last.sendall(b"that was all")
        listener.join()


def deep(levels: int) -> Any:
    made: Any = {"const": 1}
    for _ in range(levels):
        made = {"allOf": [made]}
    return made


def referring(levels: int, wide: int = 1) -> Any:
    """Return a bound whose references lead to one another, so many levels deep and so many at each."""
    parts: dict[str, Any] = {f"p{at}": {"allOf": [{"$ref": f"#/$defs/p{at + 1}"}] * wide} for at in range(levels)}
    return {"$ref": "#/$defs/p0", "$defs": {**parts, f"p{levels}": {"maximum": 5}}}


def cyclic() -> Any:
    made: dict[str, Any] = {}
    made["allOf"] = [made]
    return made


REFUSED: list[tuple[Any, str]] = [
    ({"amonut": {"maximum": 5}}, "did you mean 'amount'"),
    ({"nothing_like_it": {"maximum": 5}}, "is no parameter"),
    ({"amount": {"maximun": 5}}, "did you mean 'maximum'"),
    ({"amount": {"maximum": 5, "colour": "red"}}, "'colour'"),
    ({"amount": {"anyOf": [{"maximun": 5}]}}, "did you mean 'maximum'"),
    ({"amount": {"not": {"maximun": 5}}}, "did you mean 'maximum'"),
    ({"amount": {"maxLength": 5}}, "speaks of string"),
    ({"note": {"maximum": 5}}, "speaks of number"),
    ({"to": {"items": {"const": 1}}}, "speaks of array"),
    ({"amount": {"maximum": "5"}}, "no valid JSON Schema"),
    ({"amount": {"type": "integr"}}, "no valid JSON Schema"),
    ({"note": {"pattern": "("}}, "no valid JSON Schema"),
    ({"note": {"format": "emial"}}, "did you mean 'email'"),
    ({"note": {"contentEncoding": "base64"}}, "'contentEncoding'"),
    ({"note": {"unevaluatedProperties": False}}, "'unevaluatedProperties'"),
    ({"note": {"$ref": "http://127.0.0.1:9/schema"}}, "not fetched"),
    ({"note": {"$ref": "file:///etc/passwd"}}, "not fetched"),
    ({"note": {"$ref": "#/nowhere"}}, "nowhere"),
    ({"note": {"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}}, "itself"),
    ({"amount": referring(3000)}, "too large"),
    ({"amount": referring(30, wide=8)}, "too large"),
    ({"note": {"$schema": "http://json-schema.org/draft-07/schema#", "const": "x"}}, "'$schema'"),
    ({"note": {"allOf": [{"$schema": "nonsense", "const": "x"}]}}, "'$schema'"),
    ({"amount": {"exclusiveMaximum": True, "maximum": 5}}, "no valid JSON Schema"),
    ({"amount": {"then": {"maximum": 5}}}, "without 'if'"),
    ({"amount": {"if": {"maximum": 5}}}, "without 'then'"),
    ({"to": {"properties": {"iban": {"else": {"const": "X"}}}}}, "without 'if'"),
    ({"to": {"propertyNames": {"minimum": 5}}}, "speaks of number"),
    ({"note": {"pattern": "^(?!0)\\d+$"}}, "write [0-9]"),
    ({"amount": 100}, "{'const': 100}"),
    ({"amount": [1, 2]}, "{'enum': [1, 2]}"),
    ({"amount": None}, "{'const': None}"),
    ({"amount": {}}, "narrows nothing"),
    ({"amount": True}, "narrows nothing"),
    ({"amount": {"title": "an amount"}}, "narrows nothing"),
    ({"amount": {"$defs": {"low": {"maximum": 5}}}}, "narrows nothing"),
    ({"amount": {"allOf": [{"title": "low"}]}}, "narrows nothing"),
    ({"amount": {"anyOf": [{"maximum": 5}, {}]}}, "narrows nothing"),
    ({"amount": {"not": False}}, "narrows nothing"),
    ({"amount": {"not": {"not": {}}}}, "narrows nothing"),
    ({"amount": {"$ref": "#/$defs/any", "$defs": {"any": {}}}}, "narrows nothing"),
    ({}, "narrows nothing"),
    ({"type": "object"}, "narrows nothing"),
    ({"type": "object", "allOf": [True]}, "narrows nothing"),
    ({"amount": False}, "no arguments meet"),
    ({"amount": {"minimum": 5, "maximum": 3}}, "no arguments meet"),
    ({"amount": {"exclusiveMinimum": 2, "exclusiveMaximum": 3}}, "no arguments meet"),
    ({"amount": {"enum": ["one", "two"]}}, "no arguments meet"),
    ({"amount": {"type": "null"}}, "no arguments meet"),
    ({"note": {"minLength": 5, "maxLength": 3}}, "no arguments meet"),
    ({"amount": {"minimum": 10**400, "exclusiveMaximum": 10**400}}, "no arguments meet"),
    ({"amount": {"minimum": 1, "maximum": 4, "multipleOf": 5}}, "no arguments meet"),
    ({"amount": {"const": 5, "enum": [6, 7]}}, "no arguments meet"),
    ({"amount": {"not": {}}}, "no arguments meet"),
    ({"to": {"properties": {"iban": False}}}, "no arguments meet"),
    ({"to": {"properties": {"iban": {"type": "integer"}}}}, "no arguments meet"),
    ({"type": "object", "const": {"amount": 5}}, "no arguments meet"),
    ({"type": "object", "const": {"amount": 5, "to": {"iban": "X"}, "bribe": 1}}, "no arguments meet"),
    ({"type": "object", "allOf": [{"const": {"amount": 5}}, {"enum": [{"amount": 6}]}]}, "no arguments meet"),
    ({"amount": {"minimum": float("nan")}}, "not a finite number"),
    ({"amount": {"enum": [{1, 2}]}}, "no JSON value"),
    ({"amount": {"enum": {1: 2}}}, "no text"),
    ({"amount": deep(80)}, "nested"),
    ({"amount": cyclic()}, "nested"),
    ({"to": {"properties": {"ibna": {"const": "X"}}}}, "did you mean 'iban'"),
    ({"to": {"required": ["ibna"]}}, "did you mean 'iban'"),
    ({"type": "object", "properties": {"amonut": {"maximum": 5}}}, "did you mean 'amount'"),
    ({"type": "object", "required": ["amonut"]}, "did you mean 'amount'"),
    ({"type": "object", "properties": {"to": {"properties": {"ibna": {"const": "X"}}}}}, "did you mean 'iban'"),
    ({"type": "object", "properties": {"amount": {"minimum": 5, "maximum": 3}}}, "no arguments meet"),
    (5, "no mapping"),
    ("amount", "no mapping"),
]


class TestGrantsThatCannotBeMade:
    @pytest.mark.parametrize(("where", "said"), REFUSED, ids=lambda one: str(one)[:40])
    def test_are_refused_with_the_reason(self, where: Any, said: str) -> None:
        """
        Bounds that would not bind, or that nothing can meet, are an error when the grant is made.
        """
        assert said in refusals(where)

    def test_name_every_problem_at_once(self) -> None:
        """
        All that is wrong comes in one error.
        """
        said = refusals(
            {
                "amonut": {"maximum": 5},
                "note": {"maxLenght": 3, "minLength": "x", "pattern": 5},
                "type": {"minimum": 1},
                "amount": {"$ref": "http://127.0.0.1:9/schema"},
                "fee": {},
            }
        )

        for problem in ("amonut", "maxLenght", "minLength", "pattern", "speaks of number", "not fetched", "narrows"):
            assert problem in said

    @pytest.mark.parametrize("keyword", ["$schema", "$ref", "$id", "$dynamicRef"])
    def test_nothing_is_fetched(self, keyword: str) -> None:
        """
        No address in a bound is ever asked, whatever it is the address of.
        """
        with asked() as (address, requests):
            said = [refusals({"amount": {keyword: address, "maximum": 5}}),
                    refusals({"type": "object", keyword: address, "required": ["note"]}),
                    refusals({"amount": {"allOf": [{keyword: address}]}})]  # fmt: skip

        assert all(said)
        assert [] == requests


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
    ({"amount": {"oneOf": [{"maximum": 60}, {"minimum": 40}]}}, {"amount": 50, "to": {"iban": "UK12"}}),
]  # fmt: skip


class TestCallsOutside:
    @pytest.mark.parametrize(("where", "arguments"), OUTSIDE, ids=lambda one: str(one)[:50])
    def test_are_forbidden_and_do_not_run(self, where: dict[str, Any], arguments: dict[str, Any]) -> None:
        """
        Repairs, defaults, nested values and other spellings do not get around the bounds.
        """
        registry, paid = make()
        registry.grant("pay", "intern", where=where)

        result = registry.execute(ToolCall("1", "pay", arguments, "intern"))

        assert (Outcome.FORBIDDEN, []) == (result.outcome, paid)
        assert registry.explain("intern", "pay", arguments).allowed is False

    @pytest.mark.parametrize("where", [where for where, _ in OUTSIDE[:-1]], ids=lambda one: str(one)[:50])
    def test_calls_inside_run(self, where: dict[str, Any]) -> None:
        """
        What the bounds admit runs, as explained.
        """
        registry, paid = make()
        registry.grant("pay", "intern", where=where)

        assert registry.execute(ToolCall("1", "pay", ALLOWED, "intern")).success
        assert 1 == len(paid)

    def test_the_reason_names_the_argument(self) -> None:
        """
        A model can act on the refusal: it names the argument and the limit.
        """
        registry, _ = make()
        registry.grant("pay", "intern", where={"amount": {"maximum": 100}})

        result = registry.execute(ToolCall("1", "pay", {**ALLOWED, "amount": 200}, "intern"))

        assert "amount is larger than 100" in str(result.error)

    def test_a_parameter_left_out_counts_by_its_default(self) -> None:
        """
        A default outside of the bounds is a call outside.
        """
        registry, paid = make()
        registry.grant("pay", "intern", where={"note": {"const": "refund"}})

        assert Outcome.FORBIDDEN is registry.execute(ToolCall("1", "pay", ALLOWED, "intern")).outcome
        assert registry.execute(ToolCall("1", "pay", {**ALLOWED, "note": "refund"}, "intern")).success
        assert 1 == len(paid)

    def test_a_decimal_is_compared_exactly(self) -> None:
        """
        Decimals are numbers for the bounds, however they are spelled.
        """
        registry, paid = make()
        registry.grant("pay", "intern", where={"fee": {"maximum": 0.1}})

        for fee, outcome in (
            ("0.10000000000000000001", Outcome.FORBIDDEN),
            ("0.1", Outcome.OK),
            (7, Outcome.FORBIDDEN),
        ):
            assert outcome is registry.execute(ToolCall("1", "pay", {**ALLOWED, "fee": fee}, "intern")).outcome
        assert [Decimal("0.1")] == [one["fee"] for one in paid]

    def test_null_does_not_slip_under_a_limit(self) -> None:
        """
        A limit on a number refuses null, also where null is the default.
        """
        registry, paid = make()
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
            ({"type": "object", "additionalProperties": False, "properties": {"fees": {"maxItems": 1}},
              "patternProperties": {"^(definitions|either)$": True}}, {"extra": 1}, False),
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
        registry, paid = make()
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
        registry, _ = make()
        where: dict[str, Any] = {"amount": {"enum": [1]}}
        registry.grant("pay", "intern", where=where)
        where["amount"]["enum"].append(50)

        assert Outcome.FORBIDDEN is registry.execute(ToolCall("1", "pay", ALLOWED, "intern")).outcome

    def test_grants_add_up(self) -> None:
        """
        Any one of several grants suffices.
        """
        registry, _ = make()
        registry.grant("pay", "intern", where={"amount": {"maximum": 10}})
        registry.grant("pay", "intern", where={"amount": {"const": 50}})

        assert registry.execute(ToolCall("1", "pay", ALLOWED, "intern")).success

    def test_the_exported_schema_shows_the_bounds(self) -> None:
        """
        Where the grant is the only way, the model sees the narrower schema; not where another way is open.
        """
        registry, _ = make()
        Agent("treasurer", registry=registry)
        registry.grant("pay", "intern", where={"amount": {"maximum": 100}})

        shown = registry.toolset("intern").schemas()[0]["function"]["parameters"]["properties"]["amount"]
        whole = registry.toolset("treasurer").schemas()[0]["function"]["parameters"]["properties"]["amount"]

        assert ({"type": "integer", "maximum": 100}, {"type": "integer"}) == (shown, whole)

    def test_the_exported_schema_shows_every_bound_of_what_was_lent_on(self) -> None:
        """
        A derived grant is shown with the bounds of all grants that it came from.
        """
        registry, _ = make()
        registry.grant("pay", "clerk", where={"amount": {"maximum": 100}}, delegable=True)
        registry.grant("pay", "intern", by="clerk", where={"type": "object", "properties": {"amount": {"minimum": 10}}})

        shown = jsonschema_rs.validator_for(registry.toolset("intern").schemas()[0]["function"]["parameters"])

        assert [False, True, False] == [shown.is_valid({**ALLOWED, "amount": amount}) for amount in (9, 50, 101)]


LOOSE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "any": {},
        "text": {"type": "string"},
        "list": {"type": "array"},
        "definitions": {"type": "integer"},
        "note": {"type": "string", "default": "thanks"},
    },
    "additionalProperties": False,
}
GET_AROUND: list[tuple[dict[str, Any], dict[str, Any]]] = [
    # a value of which the keyword does not speak
    *[({"any": bound}, {"any": value})
      for bound in ({"maximum": 5}, {"not": {"exclusiveMinimum": 5}}, {"not": {"not": {"maximum": 5}}},
                    {"anyOf": [{"maximum": 5}]}, {"oneOf": [{"maximum": 5}, {"const": 9}]}, {"enum": [1, 5]},
                    {"if": True, "then": {"maximum": 5}}, {"allOf": [{"type": ["number", "null"]}, {"maximum": 5}]},
                    {"$defs": {"low": {"maximum": 5}}, "$ref": "#/$defs/low"})
      for value in (None, "5", "9", [], {}, True, 6, 5.000001, 10**400, math.inf, math.nan,
                    Decimal("5.00000000000000000001"), Decimal("Infinity"), Decimal("NaN"), Decimal("1E+9999"))],
    *[({"any": bound}, {"any": value})
      for bound in ({"maxLength": 3}, {"pattern": "^[a-z]{0,3}$"}, {"format": "ipv4"}, {"minItems": 3},
                    {"properties": {"a": {"const": 1}}}, {"required": ["c"]}, {"additionalProperties": {"const": 1}},
                    {"items": {"const": 1}}, {"contains": {"const": 1}}, {"const": 1}, {"maxItems": 0},
                    {"if": {"maxLength": 3}, "else": {"const": 1}}, {"if": {"minimum": 5}, "then": {"const": 1}},
                    {"if": {"required": ["a"]}, "else": {"const": 1}, "then": {"const": {"a": 1}}})
      for value in (None, 9, True, "1.1.1.1.1", [2, 2], [None], {"b": 2}, {"a": True}, {"a": None})],
    # what is absent
    ({"any": {"properties": {"a": {"const": 1}}}}, {"any": {}}),
    ({"any": {"properties": {"a": {"properties": {"b": {"const": 1}}}}}}, {"any": {"a": {}}}),
    ({"any": {"prefixItems": [{"const": 1}]}}, {"any": []}),
    ({"any": {"maximum": 5}}, {}),
    ({"type": "object", "properties": {"any": {"maximum": 5}}}, {}),
    ({"type": "object", "allOf": [{"properties": {"any": {"maximum": 5}}}]}, {}),
    # names that are keywords
    ({"definitions": {"const": 1}}, {"definitions": 2}),
    ({"type": "object", "properties": {"definitions": {"const": 1}}}, {"definitions": 2}),
    *[({"any": {keyword: {name: {"const": 1}, "a": {"const": 1}}}}, {"any": {name: 2, "a": 1}})
      for keyword in ("properties", "patternProperties")
      for name in ("definitions", "title", "default", "enum", "const", "type", "required", "properties")],
    ({"any": {"properties": {"$defs": {"const": 1}, "$ref": {"const": 1}}}}, {"any": {"$defs": 2, "$ref": 1}}),
    ({"any": {"properties": {"enum": {"$ref": "#/$defs/one"}}, "$defs": {"one": {"const": 1}}}}, {"any": {"enum": 2}}),
    ({"any": {"dependentSchemas": {"definitions": {"required": ["b"]}, "a": True}}}, {"any": {"definitions": 1}}),
    # equal in Python or on the screen, and not in JSON
    *[({"any": {"const": one}}, {"any": other})
      for one, other in ((1, True), (0, False), (True, 1), (False, 0), (1, "1"), (None, False), ("", None),
                         (2**53 + 1, float(2**53)), (10**30, 10**30 + 1), (0.1, Decimal("0.10000000000000000001")),
                         ("\u00e9", "e\u0301"), ("a", "a\n"), ("K", "\u212a"), ([1], [True]), ({"a": 1}, {"a": True}))],
    ({"text": {"maxLength": 1}}, {"text": "e\u0301"}),
    ({"text": {"pattern": "^[a-z]+$"}}, {"text": "abc\n"}),
    ({"text": {"pattern": "^[0-9]+$"}}, {"text": "1\n2"}),
    ({"text": {"pattern": "^\\d+$"}}, {"text": "\u0663"}),
    ({"text": {"pattern": "^(?=a)(a|aa)+$(?<!b)"}}, {"text": "a" * 40 + "b"}),
    ({"text": {"not": {"pattern": "^(?=a)(a|aa)+b$"}}}, {"text": "a" * 40 + "b"}),
    ({"text": {"not": {"const": "a"}}}, {"text": "\ud800"}),
    # what strictness must not loosen
    ({"list": {"contains": {"minimum": 5}, "minContains": 0, "maxContains": 0}}, {"list": ["a", None]}),
    ({"list": {"contains": {"minimum": 5}, "maxContains": 1}}, {"list": [6, "a"]}),
    ({"any": {"oneOf": [{"maximum": 5}, {"maxLength": 3}]}}, {"any": 1}),
    ({"any": {"if": {"properties": {"a": {"const": 1}}}, "else": {"maxProperties": 0}}}, {"any": {"b": 2}}),
    ({"any": {"not": {"not": {"oneOf": [{"maximum": 5}, {"maxLength": 3}]}}}}, {"any": 1}),
    ({"any": {"not": {"if": {"maximum": 5}, "then": {"const": 1}, "else": {"const": "a"}}}}, {"any": "a"}),
    ({"any": {"not": {"contains": {"minimum": 5}, "maxContains": 1}}}, {"any": [6, "a"]}),
    ({"any": {"not": {"oneOf": [{"minimum": 5}, {"type": "string"}]}}}, {"any": "a"}),
    ({"list": {"uniqueItems": True}}, {"list": [1, 1.0]}),
    # values that are no JSON
    *[({"any": {"not": {"const": "x"}}}, {"any": value}) for value in (object(), {1: 2}, {1, 2}, b"x", 1j)],
]  # fmt: skip


class TestWaysAround:
    @pytest.mark.parametrize(("where", "given"), GET_AROUND, ids=lambda one: ascii(one).partition(" at 0x")[0][:60])
    def test_are_closed(self, where: dict[str, Any], given: dict[str, Any]) -> None:
        """
        What JSON Schema passes because a keyword does not speak of it is outside of the bounds, with a reason.
        """
        bounds = Bounds.compile(where, LOOSE, "t")

        assert bounds.find_violations(given, {"note": "thanks", **given})

    @pytest.mark.parametrize("where", [{"text": {"enum": ["a"]}}, {"type": "object", "enum": [{"text": "a"}]},
                                       {"type": "object", "properties": {"text": {"enum": ["a"]}}}])  # fmt: skip
    def test_the_exported_schema_is_a_copy(self, where: dict[str, Any]) -> None:
        """
        Who changes the schema that a model is shown does not change the bounds.
        """
        bounds = Bounds.compile(where, LOOSE, "t")
        bounds.merge_into_schema(LOOSE)["properties"]["text"].setdefault("enum", []).append("b")
        shown = bounds.merge_into_schema(LOOSE)
        for one in shown.get("allOf", ()):
            one["enum"].append({"text": "b"})

        assert bounds.find_violations({"text": "b"}, {"text": "b", "note": "thanks"})
        assert "b" not in str(bounds.merge_into_schema(LOOSE).get("allOf", "")) + str(
            bounds.merge_into_schema(LOOSE)["properties"]["text"]
        )

    def test_reasons_stay_few(self) -> None:
        """
        A call with very many things outside gets some reasons, not a reason for each.
        """
        bounds = Bounds.compile({"list": {"items": {"maximum": 5}}}, LOOSE, "t")

        for count in (100, 1_000_000):
            reasons = bounds.find_violations({}, {"list": [6] * count})

            assert 1 <= len(reasons) <= 20
            assert "list[0] is larger than 5" == reasons[0]


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "s": {"type": "string"},
        "u": {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}], "default": None},
        "l": {"type": "array", "items": {"type": ["integer", "null"]}, "default": []},
        "o": {"$ref": "#/$defs/o", "default": {"a": 0}},
        "definitions": {"type": "integer", "default": 0},
    },
    "required": ["n", "s"],
    "additionalProperties": False,
    "$defs": {
        "o": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "definitions": {"type": "integer"}},
            "additionalProperties": False,
        }
    },
}
small = st.integers(-3, 3)
words = st.sampled_from(["", "a", "ab", "b"])
number_bounds = st.fixed_dictionaries(
    {},
    optional={"minimum": small, "maximum": small, "exclusiveMinimum": small, "exclusiveMaximum": small | st.just(0.5),
              "multipleOf": st.integers(1, 4) | st.just(0.5), "type": st.just("integer")},
)  # fmt: skip
text_bounds = st.fixed_dictionaries(
    {},
    optional={"minLength": st.integers(0, 3), "maxLength": st.integers(0, 3), "pattern": st.sampled_from(["^a", "b$"])},
)
choices = st.one_of(
    st.fixed_dictionaries({"const": small | words}),
    st.fixed_dictionaries({"enum": st.lists(small | words | st.none(), min_size=1)}),
)
kinds = st.fixed_dictionaries(
    {"type": st.lists(st.sampled_from(["integer", "string", "null"]), min_size=1, unique=True)}
)


counted = st.fixed_dictionaries(
    {"contains": number_bounds}, optional={"minContains": st.integers(0, 2), "maxContains": st.integers(0, 2)}
)
list_bounds = counted | st.fixed_dictionaries(
    {},
    optional={"minItems": st.integers(0, 3), "maxItems": st.integers(0, 3), "items": number_bounds,
              "prefixItems": st.lists(number_bounds, min_size=1, max_size=2), "uniqueItems": st.booleans()},
)  # fmt: skip
members = st.fixed_dictionaries({}, optional={"a": number_bounds | choices, "definitions": number_bounds})
object_bounds = st.fixed_dictionaries(
    {},
    optional={"properties": members, "required": st.lists(st.sampled_from(["a", "definitions"]), unique=True),
              "patternProperties": st.fixed_dictionaries({"^d": number_bounds}),
              "additionalProperties": st.just(False) | number_bounds, "maxProperties": st.integers(0, 2)},
)  # fmt: skip
arguments = st.fixed_dictionaries(
    {"n": small, "s": words},
    optional={"u": small | words | st.none(), "l": st.lists(small | st.none(), max_size=3), "definitions": small,
              "o": st.fixed_dictionaries({}, optional={"a": small, "definitions": small})},
)  # fmt: skip
judged_given = st.fixed_dictionaries({"const": arguments}) | st.fixed_dictionaries(
    {"enum": st.lists(arguments, min_size=1)}
)


@st.composite
def wheres(draw: st.DrawFn) -> Any:
    """Generate bounds by parameter."""
    return draw(
        st.fixed_dictionaries(
            {},
            optional={"n": number_bounds | choices, "s": text_bounds | choices, "definitions": number_bounds,
                      "u": combined("any"), "l": combined("list"), "o": combined("object")},
        )
    )  # fmt: skip


@st.composite
def whole_parts(draw: st.DrawFn) -> Any:
    """Generate what one level of a whole schema says of the filled-in arguments."""
    names = st.lists(st.sampled_from(["n", "s", "u", "l", "o", "definitions"]), unique=True)
    return draw(
        st.fixed_dictionaries(
            {},
            optional={"properties": wheres(), "required": names, "additionalProperties": st.just(False) | number_bounds,
                      "patternProperties": st.fixed_dictionaries({"^[nd]": number_bounds})},
        )
    )  # fmt: skip


LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "any": number_bounds | text_bounds | choices | kinds,
    "list": list_bounds,
    "object": object_bounds,
    "filled": whole_parts(),
    "whole": whole_parts() | judged_given,
}


@st.composite
def combined(draw: st.DrawFn, leaf: str, levels: int = 2) -> Any:
    """Generate schemas that put others together, so many levels deep."""
    how = draw(st.sampled_from(["leaf", "leaf", "leaf", "anyOf", "allOf", "oneOf", "not", "if"])) if levels else "leaf"
    if how == "leaf":
        return draw(LEAVES[leaf])
    inner = combined(leaf, levels - 1)
    if how == "not":
        return {"not": draw(inner)}
    if how == "if":
        return draw(st.fixed_dictionaries({"if": inner, "then": inner}, optional={"else": inner}))
    return {how: draw(st.lists(inner, min_size=1, max_size=3))}


def typed(whole: dict[str, Any]) -> dict[str, Any]:
    return {**whole, "type": "object"}


both_forms = wheres() | combined("whole").map(typed)


def unchecked(where: dict[str, Any]) -> Bounds | None:
    """Return the bounds whether or not anything is said to meet them; None where something else is wrong."""
    try:
        return Bounds.compile(where, SCHEMA, "t")
    except GrantError as error:
        if ("where: no arguments meet these bounds",) != error.problems:
            return None
    if where.get("type") == "object":
        return Bounds("unchecked", {}, make_strict(where))
    return Bounds("unchecked", {name: make_strict(one) for name, one in where.items()})


def filled(given: dict[str, Any]) -> dict[str, Any]:
    return {"u": None, "l": [], "o": {"a": 0}, "definitions": 0, **given}


class TestProperties:
    @given(st.lists(both_forms, min_size=1, max_size=2), st.lists(arguments, min_size=1, max_size=20))
    def test_what_some_call_meets_can_be_met(self, several: list[dict[str, Any]], calls: list[dict[str, Any]]) -> None:
        """
        "No arguments meet these bounds" is said only where nothing meets all of them.
        """
        bounds = [one for one in map(unchecked, several) if one is not None]

        inside = [one for one in calls if all(not bound.find_violations(one, filled(one)) for bound in bounds)]

        assert not inside or is_satisfiable(bounds, SCHEMA)

    @given(st.lists(both_forms, min_size=1, max_size=2), st.lists(arguments, min_size=1, max_size=5))
    def test_the_merged_schema_admits_what_the_bounds_admit(
        self, several: list[dict[str, Any]], calls: list[dict[str, Any]]
    ) -> None:
        """
        What a model is shown is what the grants admit, the defaults of what is left out included.
        """
        bounds, shown = [one for one in map(unchecked, several) if one is not None], SCHEMA
        for bound in bounds:
            shown = bound.merge_into_schema(shown)
        jsonschema_rs.meta.validate(shown)
        validator = jsonschema_rs.validator_for(shown)

        for call in calls:
            assert validator.is_valid(call) == (not any(bound.find_violations(call, filled(call)) for bound in bounds))

    @given(
        wheres().map(lambda parts: {"type": "object", "properties": parts}) | combined("filled").map(typed), arguments
    )
    def test_bounds_never_admit_what_the_standard_refuses(self, where: dict[str, Any], call: dict[str, Any]) -> None:
        """
        Being strict only ever takes away: what is inside is valid under the bound as it was written.
        """
        made = unchecked(where)
        if made is None or made.find_violations(call, filled(call)):
            return

        assert jsonschema_rs.validator_for(where).is_valid(filled(call))

    def test_equal_bounds_are_equal(self) -> None:
        """
        Bounds are compared by what they say, whatever the order of their keys.
        """
        one = Bounds.compile({"n": {"minimum": 1, "maximum": 3}}, SCHEMA, "t")
        same = Bounds.compile({"n": {"maximum": 3, "minimum": 1}}, SCHEMA, "t")

        assert one == same
        assert hash(one) == hash(same)
