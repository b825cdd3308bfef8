# Tests of: bound_schema, known_schema, satisfiability, tool_bounds
"""Bounds that cannot be enforced are refused when the grant is made, and no value gets around those that can."""

from __future__ import annotations

import math
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from decimal import Decimal
from threading import Thread
from typing import Annotated, Any, NamedTuple

import pytest
from annotated_types import Ge
from bounds_rig import make_payments

from praval_tools import GrantError, Tool, ToolRegistry
from praval_tools.access.bounds.bounds import Bounds


def make_schema(hint: object) -> Mapping[str, Any]:
    """Return the schema of a tool whose parameter `fee` has this hint."""

    def pay(fee: Any) -> None:
        """Pay."""

    pay.__annotations__["fee"] = hint
    return Tool.from_function(pay, owned_by="treasurer").parameters


def explain_refusal(where: Any) -> str:
    """Return what is said of a grant with these bounds; empty where it is made."""
    registry, _ = make_payments()
    try:
        registry.grant("pay", "intern", where=where)
    except GrantError as error:
        assert [] == registry.grants()
        return str(error)
    return ""


@contextmanager
def run_recording_server() -> Iterator[tuple[str, list[bytes]]]:
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


def make_deep_bound(levels: int) -> Any:
    made: Any = {"const": 1}
    for _ in range(levels):
        made = {"allOf": [made]}
    return made


def make_referring_bound(levels: int, wide: int = 1) -> Any:
    """Return a bound whose references lead to one another, so many levels deep and so many at each."""
    parts: dict[str, Any] = {f"p{at}": {"allOf": [{"$ref": f"#/$defs/p{at + 1}"}] * wide} for at in range(levels)}
    return {"$ref": "#/$defs/p0", "$defs": {**parts, f"p{levels}": {"maximum": 5}}}


def make_cyclic_bound() -> Any:
    made: dict[str, Any] = {}
    made["allOf"] = [made]
    return made


REFUSED: list[tuple[Any, str]] = [
    ({"amonut": {"maximum": 5}}, "did you mean 'amount'"),
    ({"nothing_like_it": {"maximum": 5}}, "there is no such parameter"),
    ({"amount": {"maximun": 5}}, "did you mean 'maximum'"),
    ({"amount": {"maximum": 5, "colour": "red"}}, "'colour'"),
    ({"amount": {"anyOf": [{"maximun": 5}]}}, "did you mean 'maximum'"),
    ({"amount": {"not": {"maximun": 5}}}, "did you mean 'maximum'"),
    ({"amount": {"maxLength": 5}}, "applies to string"),
    ({"note": {"maximum": 5}}, "applies to number"),
    ({"to": {"items": {"const": 1}}}, "applies to array"),
    ({"amount": {"maximum": "5"}}, "not valid JSON Schema"),
    ({"amount": {"type": "integr"}}, "not valid JSON Schema"),
    ({"note": {"pattern": "("}}, "not valid JSON Schema"),
    ({"note": {"format": "emial"}}, "did you mean 'email'"),
    ({"note": {"contentEncoding": "base64"}}, "'contentEncoding'"),
    ({"note": {"unevaluatedProperties": False}}, "'unevaluatedProperties'"),
    ({"note": {"$ref": "http://127.0.0.1:9/schema"}}, "'$ref' cannot be used"),
    ({"note": {"$ref": "file:///etc/passwd"}}, "'$ref' cannot be used"),
    ({"note": {"$ref": "#/nowhere"}}, "'$ref' cannot be used"),
    ({"note": {"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}}, "'$ref' cannot be used"),
    ({"amount": make_referring_bound(3000)}, "'$ref' cannot be used"),
    ({"amount": make_referring_bound(30, wide=8)}, "'$ref' cannot be used"),
    ({"note": {"$schema": "http://json-schema.org/draft-07/schema#", "const": "x"}}, "'$schema'"),
    ({"note": {"allOf": [{"$schema": "nonsense", "const": "x"}]}}, "'$schema'"),
    ({"amount": {"exclusiveMaximum": True, "maximum": 5}}, "not valid JSON Schema"),
    ({"amount": {"then": {"maximum": 5}}}, "'then' cannot be used"),
    ({"amount": {"if": {"maximum": 5}}}, "'if' cannot be used"),
    ({"to": {"properties": {"iban": {"else": {"const": "X"}}}}}, "'else' cannot be used"),
    ({"to": {"propertyNames": {"minimum": 5}}}, "'propertyNames' cannot be used"),
    ({"note": {"pattern": "^(?!0)\\d+$"}}, "write [0-9]"),
    ({"amount": 100}, "{'const': 100}"),
    ({"amount": [1, 2]}, "{'enum': [1, 2]}"),
    ({"amount": None}, "{'const': None}"),
    ({"amount": {}}, "narrows nothing"),
    ({"amount": True}, "narrows nothing"),
    ({"amount": {"title": "an amount"}}, "narrows nothing"),
    ({"amount": {"$defs": {"low": {"maximum": 5}}}}, "'$defs' cannot be used"),
    ({"amount": {"allOf": [{"title": "low"}]}}, "narrows nothing"),
    ({"amount": {"anyOf": [{"maximum": 5}, {}]}}, "narrows nothing"),
    ({"amount": {"not": False}}, "narrows nothing"),
    ({"amount": {"not": {"not": {}}}}, "narrows nothing"),
    ({"amount": {"$ref": "#/$defs/any", "$defs": {"any": {}}}}, "'$ref' cannot be used"),
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
    ({"amount": {"enum": [{1, 2}]}}, "not a JSON value"),
    ({"amount": {"enum": {1: 2}}}, "not text"),
    ({"amount": make_deep_bound(80)}, "nested"),
    ({"amount": make_cyclic_bound()}, "nested"),
    ({"to": {"properties": {"ibna": {"const": "X"}}}}, "did you mean 'iban'"),
    ({"to": {"required": ["ibna"]}}, "did you mean 'iban'"),
    ({"type": "object", "properties": {"amonut": {"maximum": 5}}}, "did you mean 'amount'"),
    ({"type": "object", "required": ["amonut"]}, "did you mean 'amount'"),
    ({"type": "object", "properties": {"to": {"properties": {"ibna": {"const": "X"}}}}}, "did you mean 'iban'"),
    ({"type": "object", "properties": {"amount": {"minimum": 5, "maximum": 3}}}, "no arguments meet"),
    ({"type": "object", "maxProperties": 1}, "no arguments meet"),
    ({"type": "object", "minProperties": 99}, "no arguments meet"),
    ({"type": "object", "additionalProperties": False}, "no arguments meet"),
    ({"type": "object", "not": {"required": ["amount"]}}, "no arguments meet"),
    ({"type": "object", "anyOf": [{"maxProperties": 1}, {"minProperties": 99}]}, "no arguments meet"),
    ({"amount": {"anyOf": [{"const": "one"}, {"minimum": 5, "maximum": 3}]}}, "no arguments meet"),
    (5, "not a mapping"),
    ("amount", "not a mapping"),
]


class TestGrantsThatCannotBeMade:
    @pytest.mark.parametrize(("where", "said"), REFUSED, ids=lambda one: str(one)[:40])
    def test_are_refused_with_the_reason(self, where: Any, said: str) -> None:
        """
        Bounds that would not bind, or that nothing can meet, are an error when the grant is made.
        """
        assert said in explain_refusal(where)

    def test_name_every_problem_at_once(self) -> None:
        """
        All that is wrong comes in one error.
        """
        said = explain_refusal(
            {
                "amonut": {"maximum": 5},
                "note": {"maxLenght": 3, "minLength": "x", "pattern": 5},
                "type": {"minimum": 1},
                "amount": {"$ref": "http://127.0.0.1:9/schema"},
                "fee": {},
            }
        )

        for problem in ("amonut", "maxLenght", "minLength", "pattern", "applies to number", "$ref", "narrows"):
            assert problem in said

    @pytest.mark.parametrize("keyword", ["$schema", "$ref", "$id", "$dynamicRef"])
    def test_nothing_is_fetched(self, keyword: str) -> None:
        """
        No address in a bound is ever asked, whatever it is the address of.
        """
        with run_recording_server() as (address, requests):
            said = [explain_refusal({"amount": {keyword: address, "maximum": 5}}),
                    explain_refusal({"type": "object", keyword: address, "required": ["note"]}),
                    explain_refusal({"amount": {"allOf": [{keyword: address}]}})]  # fmt: skip

        assert all(said)
        assert [] == requests


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
                    {"anyOf": [{"maximum": 5}]}, {"enum": [1, 5]},
                    {"allOf": [{"type": ["number", "null"]}, {"maximum": 5}]})
      for value in (None, "5", "9", [], {}, True, 6, 5.000001, 10**400, math.inf, math.nan,
                    Decimal("5.00000000000000000001"), Decimal("Infinity"), Decimal("NaN"), Decimal("1E+9999"))],
    *[({"any": bound}, {"any": value})
      for bound in ({"maxLength": 3}, {"pattern": "^[a-z]{0,3}$"}, {"format": "ipv4"}, {"minItems": 3},
                    {"properties": {"a": {"const": 1}}}, {"required": ["c"]}, {"additionalProperties": {"const": 1}},
                    {"items": {"const": 1}}, {"const": 1}, {"maxItems": 0})
      for value in (None, 9, True, "1.1.1.1.1", [2, 2], [None], {"b": 2}, {"a": True}, {"a": None})],
    # what is absent
    ({"any": {"properties": {"a": {"const": 1}}}}, {"any": {}}),
    ({"any": {"properties": {"a": {"properties": {"b": {"const": 1}}}}}}, {"any": {"a": {}}}),
    ({"any": {"maximum": 5}}, {}),
    ({"type": "object", "properties": {"any": {"maximum": 5}}}, {}),
    ({"type": "object", "allOf": [{"properties": {"any": {"maximum": 5}}}]}, {}),
    # names that are keywords
    ({"definitions": {"const": 1}}, {"definitions": 2}),
    ({"type": "object", "properties": {"definitions": {"const": 1}}}, {"definitions": 2}),
    *[({"any": {"properties": {name: {"const": 1}, "a": {"const": 1}}}}, {"any": {name: 2, "a": 1}})
      for name in ("definitions", "title", "default", "enum", "const", "type", "required", "properties")],
    ({"any": {"properties": {"$defs": {"const": 1}, "$ref": {"const": 1}}}}, {"any": {"$defs": 2, "$ref": 1}}),
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
    ({"list": {"uniqueItems": True}}, {"list": [1, 1.0]}),
    # values that are no JSON
    *[({"any": {"not": {"const": "x"}}}, {"any": value}) for value in (object(), {1: 2}, {1, 2}, b"x", 1j)],
]  # fmt: skip


NOT_ALLOWED: list[tuple[str, dict[str, Any]]] = [
    ("oneOf", {"any": {"oneOf": [{"maximum": 5}, {"const": 9}]}}),
    ("oneOf", {"any": {"oneOf": [{"maximum": 5}, {"maxLength": 3}]}}),
    ("oneOf", {"any": {"not": {"not": {"oneOf": [{"maximum": 5}, {"maxLength": 3}]}}}}),
    ("oneOf", {"any": {"not": {"oneOf": [{"minimum": 5}, {"type": "string"}]}}}),
    ("oneOf", {"type": "object", "oneOf": [{"properties": {"any": {"maximum": 5}}}]}),
    ("if", {"any": {"if": True, "then": {"maximum": 5}}}),
    ("if", {"any": {"if": {"maxLength": 3}, "else": {"const": 1}}}),
    ("if", {"any": {"if": {"minimum": 5}, "then": {"const": 1}}}),
    ("if", {"any": {"if": {"required": ["a"]}, "else": {"const": 1}, "then": {"const": {"a": 1}}}}),
    ("if", {"any": {"if": {"properties": {"a": {"const": 1}}}, "else": {"maxProperties": 0}}}),
    ("if", {"any": {"not": {"if": {"maximum": 5}, "then": {"const": 1}, "else": {"const": "a"}}}}),
    ("$ref", {"any": {"$defs": {"low": {"maximum": 5}}, "$ref": "#/$defs/low"}}),
    ("$ref", {"any": {"properties": {"enum": {"$ref": "#/$defs/one"}}, "$defs": {"one": {"const": 1}}}}),
    ("contains", {"any": {"contains": {"const": 1}}}),
    ("contains", {"list": {"contains": {"minimum": 5}, "minContains": 0, "maxContains": 0}}),
    ("contains", {"list": {"contains": {"minimum": 5}, "maxContains": 1}}),
    ("contains", {"any": {"not": {"contains": {"minimum": 5}, "maxContains": 1}}}),
    ("prefixItems", {"any": {"prefixItems": [{"const": 1}]}}),
    ("patternProperties", {"any": {"patternProperties": {"title": {"const": 1}, "a": {"const": 1}}}}),
    ("dependentSchemas", {"any": {"dependentSchemas": {"definitions": {"required": ["b"]}, "a": True}}}),
    ("dependentRequired", {"any": {"dependentRequired": {"a": ["b"]}}}),
    ("propertyNames", {"any": {"propertyNames": {"maxLength": 3}}}),
]


class TestKeywordsThatAreNotAllowed:
    @pytest.mark.parametrize(("keyword", "where"), NOT_ALLOWED, ids=lambda item: str(item)[:60])
    def test_are_refused_with_those_that_are(self, keyword: str, where: dict[str, Any]) -> None:
        """
        A keyword whose bounds a value could get around is refused at any depth, and the error names the allowed ones.
        """
        with pytest.raises(GrantError) as refusal:
            Bounds.compile(where, LOOSE, "t")

        assert f"'{keyword}' cannot be used in bounds" in str(refusal.value)
        assert "The allowed keywords are type, enum, const, minimum," in str(refusal.value)


@pytest.mark.parametrize(
    ("bound", "refusal"),
    [
        ({"type": "object"}, ""),
        ({"type": "object", "maxProperties": 1}, ""),
        ({"maxLenght": 3}, "the arguments: 'maxLenght' cannot be used"),
        ({"properties": {"fee": {"const": "5"}}}, "the arguments.fee: '5' applies to text"),
        ({"const": {"fee": "5"}}, "the arguments: '5' applies to text"),
    ],
    ids=str,
)
def test_a_parameter_may_be_called_as_all_arguments_are(bound: dict[str, Any], refusal: str) -> None:
    """Broken promise: the bounds of a parameter named `the arguments` were read as those of all arguments."""
    fee = make_schema(Decimal)["properties"]["fee"]
    schema = {"properties": {"the arguments": {"anyOf": [{"type": "object", "properties": {"fee": fee}}, fee]}}}
    with pytest.raises(GrantError, match=re.escape(refusal)) if refusal else nullcontext():
        Bounds.compile({"the arguments": bound}, schema, "t")


class TestValuesAroundTheBounds:
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


class Money(NamedTuple):
    """An amount, and its share of each."""

    amount: Decimal
    shares: dict[str, Decimal]


@dataclass
class Order:
    """An order, and those that belong to it."""

    fee: Decimal
    parts: list[Order] = field(default_factory=list)
    by_name: dict[str, Order] = field(default_factory=dict)
    discount: Decimal | None = None


@dataclass
class Refund:
    """A refund, whose fee is a text."""

    fee: str


PAIR = tuple[Decimal, Decimal]


class TestDecimals:
    """A Decimal is compared as a number, also deep in a value: a text would never be equal."""

    @pytest.mark.parametrize(
        ("hint", "bound", "is_refused"),
        [
            (list[Decimal], {"enum": [["1.10"]]}, True),
            (list[Decimal], {"enum": [[1.5], ["1.10"]]}, True),
            (list[Decimal], {"const": [1, "1.10"]}, True),
            (list[list[Decimal]], {"not": {"const": [[], ["1.10"]]}}, True),
            (dict[str, Decimal], {"anyOf": [{"const": {"a": "1.10"}}, {"maxProperties": 0}]}, True),
            (tuple[str, Decimal], {"const": ["1.10", "1.10"]}, True),
            (Money, {"const": {"amount": "1.10", "shares": {}}}, True),
            (Money, {"const": {"amount": 1, "shares": {"a": "1.10"}}}, True),
            (Money, {"properties": {"shares": {"const": {"a": "1.10"}}}}, True),
            (Decimal | None, {"const": "1.10"}, True),
            (list[Decimal] | None, {"const": ["1.10"]}, True),
            (list[Decimal], {"const": [1.5]}, False),
            (list[Decimal | str], {"const": ["1.10"]}, False),
            (list[Decimal] | list[str], {"const": ["1.10"]}, False),
            (tuple[str, Decimal], {"const": ["1.10", 1.5]}, False),
            (dict[str, Decimal], {"const": {"1.10": 1.5}}, False),
            (list[Any], {"const": ["1.10"]}, False),
            (Annotated[Decimal, Ge(0)], {"const": "1.10"}, True),
            (Annotated[Decimal, Ge(0)], {"enum": [1.5, "1.10"]}, True),
            (Annotated[Decimal, Ge(0)], {"maximum": 5}, False),
        ],
        ids=str,
    )
    def test_are_no_text_in_enum_and_const(self, hint: Any, bound: dict[str, Any], is_refused: bool) -> None:
        """Broken promise: a bound that nothing can meet is refused. It was granted, and refused each call."""
        registry = ToolRegistry()

        def pay(fee: Any) -> None:
            """Pay."""

        pay.__annotations__["fee"] = hint
        registry.register_tool(Tool.from_function(pay, owned_by="treasurer"))

        try:
            registry.grant("pay", "intern", where={"fee": bound})
        except GrantError as error:
            refusal = str(error)
        else:
            refusal = ""
        assert is_refused is ("'1.10' applies to text; a Decimal is compared as a number" in refusal), refusal

    @pytest.mark.parametrize(
        "hint", [Decimal, Decimal | None, list[Decimal] | None, PAIR, dict[str, Decimal], Order], ids=str
    )
    @pytest.mark.parametrize(
        "bound", [{"pattern": "5"}, {"maxLength": 3}, {"const": "5"}, {"type": ["string", "null"]}], ids=str
    )
    def test_have_no_bounds_on_text(self, hint: object, bound: dict[str, Any]) -> None:
        """Broken promise: in a recursive class, beside null and in members they were granted, and permitted nothing."""
        wheres: dict[object, list[dict[str, Any]]] = {
            list[Decimal] | None: [{"items": bound}],
            PAIR: [{"items": bound}],
            dict[str, Decimal]: [{"additionalProperties": bound}, {"properties": {"a": bound}}],
            Order: [
                {"properties": {"fee": bound}},
                {"properties": {"discount": bound}},
                {"properties": {"parts": {"items": {"properties": {"fee": bound}}}}},
                {"properties": {"by_name": {"properties": {"a": {"properties": {"discount": bound}}}}}},
            ],
        }
        for where in wheres.get(hint, [bound]):
            with pytest.raises(GrantError, match="a Decimal is compared as a number"):
                Bounds.compile({"fee": where}, make_schema(hint), "t")

    @pytest.mark.parametrize(
        ("hint", "where"),
        [
            (Order, {"properties": {"parts": {"items": {"properties": {"fee": {"maximum": 5}}}}}}),
            (Order, {"const": {"fee": 5, "parts": [], "by_name": {}, "discount": None}}),
            (Order | Refund, {"properties": {"fee": {"pattern": "^5$"}}}),
            (Order | Refund, {"properties": {"fee": {"maximum": 5}}}),
            (Decimal | str, {"pattern": "5"}),
            (tuple[str, Decimal], {"items": {"enum": ["1.10", 1.5]}}),
        ],
        ids=str,
    )
    def test_leave_other_bounds_alone(self, hint: object, where: dict[str, Any]) -> None:
        """What some value meets is accepted, also where one class of several has a text of that name."""
        assert Bounds.compile({"fee": where}, make_schema(hint), "t")

    def test_names_in_recursive_classes_are_checked(self) -> None:
        """A misspelt field of a recursive class is an error, as that of another class."""
        with pytest.raises(GrantError, match="did you mean 'fee'"):
            Bounds.compile({"fee": {"properties": {"feee": {"maximum": 5}}}}, make_schema(Order), "t")

    def test_are_what_was_given_in_bounds_on_all_arguments(self) -> None:
        """Their own `enum` compares the arguments as they were given."""
        registry = ToolRegistry()

        def pay(fees: list[Decimal]) -> int:
            """Pay."""
            return len(fees)

        pay.__annotations__["fees"] = list[Decimal]
        registry.register_tool(Tool.from_function(pay, owned_by="treasurer"))
        registry.grant("pay", "intern", where={"type": "object", "enum": [{"fees": ["1.10"]}]})

        assert 1 == registry.agent("intern").call("pay", fees=["1.10"])
