"""A payment tool whose grants are bounded, and strategies of bounds for one schema of many kinds of parameters."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from attrs import frozen
from hypothesis import strategies as st

from praval_tools import GrantError, ToolRegistry, tool
from praval_tools.access.bounds.bound_schema import make_strict
from praval_tools.access.bounds.bounds import Bounds


@frozen
class Account:
    """Where money goes."""

    iban: str
    country: str = "UK"


def make_payments() -> tuple[ToolRegistry, list[dict[str, Any]]]:
    """Return a registry with a payment tool, and what that tool was called with."""
    registry, paid = ToolRegistry(), list[dict[str, Any]]()

    @tool(registry=registry, owned_by="treasurer")
    def pay(amount: int, to: Account, note: str = "thanks", type: str = "giro", fee: Decimal | None = None) -> int:
        """Pay money to an account."""
        paid.append({"amount": amount, "to": to, "note": note, "type": type, "fee": fee})
        return amount

    return registry, paid


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


list_bounds = st.fixed_dictionaries(
    {},
    optional={"minItems": st.integers(0, 3), "maxItems": st.integers(0, 3), "items": number_bounds,
              "uniqueItems": st.booleans()},
)  # fmt: skip
members = st.fixed_dictionaries({}, optional={"a": number_bounds | choices, "definitions": number_bounds})
object_bounds = st.fixed_dictionaries(
    {},
    optional={"properties": members, "required": st.lists(st.sampled_from(["a", "definitions"]), unique=True),
              "additionalProperties": st.just(False) | number_bounds, "maxProperties": st.integers(0, 2)},
)  # fmt: skip
arguments = st.fixed_dictionaries(
    {"n": small, "s": words},
    optional={"u": small | words | st.none(), "l": st.lists(small | st.none(), max_size=3), "definitions": small,
              "o": st.fixed_dictionaries({}, optional={"a": small, "definitions": small})},
)  # fmt: skip
value_bounds = st.fixed_dictionaries({"const": arguments}) | st.fixed_dictionaries(
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
            optional={
                "properties": wheres(),
                "required": names,
                "additionalProperties": st.just(False) | number_bounds,
            },
        )
    )  # fmt: skip


LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "any": number_bounds | text_bounds | choices | kinds,
    "list": list_bounds,
    "object": object_bounds,
    "filled": whole_parts(),
    "whole": whole_parts() | value_bounds,
}


@st.composite
def combined(draw: st.DrawFn, leaf: str, levels: int = 2) -> Any:
    """Generate schemas that put others together, so many levels deep."""
    how = draw(st.sampled_from(["leaf", "leaf", "leaf", "anyOf", "allOf", "not"])) if levels else "leaf"
    if how == "leaf":
        return draw(LEAVES[leaf])
    inner = combined(leaf, levels - 1)
    if how == "not":
        return {"not": draw(inner)}
    return {how: draw(st.lists(inner, min_size=1, max_size=3))}


def mark_as_object(whole: dict[str, Any]) -> dict[str, Any]:
    return {**whole, "type": "object"}


both_forms = wheres() | combined("whole").map(mark_as_object)


def compile_unchecked(where: dict[str, Any]) -> Bounds | None:
    """Return the bounds whether or not anything is said to meet them; None where something else is wrong."""
    try:
        return Bounds.compile(where, SCHEMA, "t")
    except GrantError as error:
        if ("where: no arguments meet these bounds",) != error.problems:
            return None
    if where.get("type") == "object":
        return Bounds("unchecked", make_strict(where))
    return Bounds("unchecked", make_strict({"properties": where}), frozenset(where))


def fill_defaults(given: dict[str, Any]) -> dict[str, Any]:
    return {"u": None, "l": [], "o": {"a": 0}, "definitions": 0, **given}
