# Tests of: constraints, class_fields, data_classes
"""What pydantic's `Field` says of a parameter or of a dataclass field is in the schema, and holds."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Annotated, Any

import jsonschema_rs
import pytest
from pydantic import AfterValidator, BaseModel, Field
from pydantic.dataclasses import dataclass

from praval_tools import Outcome, ToolCall, ToolRegistry


@dataclass
class Parcel:
    weight: int = Field(ge=0)
    parts: list[int] = Field(default_factory=list, max_length=2)
    note: Annotated[str, Field(max_length=3)] = "x"
    size: int = Field(5, le=9)


GIVEN: list[tuple[dict[str, Any], bool]] = [
    ({"weight": 1}, True), ({}, False), ({"weight": -1}, False), ({"weight": 1, "parts": [1, 2, 3]}, False),
    ({"weight": 1, "note": "long"}, False), ({"weight": 1, "size": 10}, False), ({"weight": 1, "size": 9}, True),
]  # fmt: skip


@pytest.mark.parametrize(("parcel", "fits"), GIVEN, ids=str)
def test_fields_of_a_pydantic_dataclass(parcel: dict[str, Any], fits: bool) -> None:
    """Broken promise: a required field was shown as optional, and its bounds were checked but not shown."""
    registry = ToolRegistry()

    @registry.tool(owned_by="ann")
    def send(parcel: Parcel) -> int:
        """Send."""
        return parcel.weight

    shown = jsonschema_rs.validator_for(registry.get_tool("send").parameters)

    assert fits is shown.is_valid({"parcel": parcel})
    assert fits is (Outcome.OK is registry.execute(ToolCall("1", "send", {"parcel": parcel}, "ann")).outcome)


def test_a_parameter_without_a_description() -> None:
    """Broken promise: `Field` with bounds alone was refused at the declaration, with a description it was taken."""
    registry = ToolRegistry()

    @registry.tool(owned_by="ann")
    def half(number: Annotated[float, Field(multiple_of=0.5)]) -> float:
        """Halve."""
        return number / 2

    outcomes = [registry.execute(ToolCall("1", "half", {"number": number}, "ann")).outcome for number in (1.5, 0.3)]

    assert [Outcome.OK, Outcome.INVALID_ARGUMENTS] == outcomes
    assert {"type": "number", "multipleOf": 0.5} == registry.get_tool("half").parameters["properties"]["number"]


GIVEN_DECIMALS: list[tuple[Any, Decimal | None]] = [
    ("12345678901234567.89", Decimal("12345678901234567.89")), ("1.10", Decimal("1.10")), (1.1, Decimal("1.1")),
    ("0.1", Decimal("0.1")), (5, Decimal(5)), ("0.09999999999999999999", None), ("-1", None), (-1, None), (0.05, None),
    ("12345678901234567.895", None), ("9007199254740993.555", None), ("1e30", None), ("x", None), (None, None),
]  # fmt: skip


@pytest.mark.parametrize(("given", "expected"), GIVEN_DECIMALS, ids=str)
def test_a_decimal_within_bounds_is_what_was_given(given: Any, expected: Decimal | None) -> None:
    """
    Broken promise: with bounds, the text "12345678901234567.89" became another number, and "1.10" became 1.1.

    The bounds are checked without rounding, too.
    """
    paid: list[Decimal] = []
    registry = ToolRegistry(journal="memory")

    @registry.tool(owned_by="ann")
    def pay(amount: Annotated[Decimal, Field(ge=0.1, lt=1e20, multiple_of=0.01)]) -> Decimal:
        """Pay."""
        paid.append(amount)
        return amount

    result = registry.execute(ToolCall("1", "pay", {"amount": given}, "ann"))

    assert (Outcome.OK if expected is not None else Outcome.INVALID_ARGUMENTS) is result.outcome
    assert ([] if expected is None else [str(expected)]) == list(map(str, paid))
    assert not result.repairs


def test_a_program_gives_a_decimal_within_bounds() -> None:
    """Broken promise: a Decimal of more digits than a double holds was "not a JSON value", also as a result."""
    registry = ToolRegistry(journal="memory")
    amount = Decimal("12345678901234567.89")

    @registry.tool(owned_by="ann")
    def pay(amount: Annotated[Decimal, Field(ge=0)]) -> Annotated[Decimal, Field(ge=0)]:
        """Pay."""
        return amount

    results = []
    for _ in range(2):
        with registry.run("r"):
            results.append(registry.execute(ToolCall("1", "pay", {"amount": str(amount)}, "ann")))

    assert amount == registry.agent("ann").call("pay", amount=amount)
    assert [(False, amount), (True, amount)] == [(result.replayed, result.result) for result in results]
    text, number = registry.get_tool("pay").parameters["properties"]["amount"]["anyOf"]
    assert ["string", {"type": "number", "minimum": 0}] == [text["type"], number]


@pytest.mark.parametrize("error", [KeyError, RuntimeError, StopIteration, NotImplementedError, ValueError])
@pytest.mark.parametrize("journal", [None, "memory"])
def test_whatever_a_validator_raises_the_arguments_do_not_fit(error: type[Exception], journal: str | None) -> None:
    """Broken promise: a KeyError of a validator of pydantic ended the program's call, and nothing was recorded."""

    def check(value: str) -> str:
        raise error("no such code")

    class Order(BaseModel):
        code: Annotated[str, AfterValidator(check)]

    with ToolRegistry(journal=journal) as registry:

        def send(order: Any) -> str:
            """Send."""
            return "never"

        send.__annotations__["order"] = Order
        registry.tool(owned_by="ann")(send)
        result = registry.execute(ToolCall("1", "send", {"order": {"code": "x"}}, "ann"))
        recorded = [] if registry.journal is None else [event.type.value for event in registry.journal.events()]

    assert Outcome.INVALID_ARGUMENTS is result.outcome
    assert "no such code" in str(result.error)
    assert recorded == ([] if journal is None else ["call_refused"])


class Query(BaseModel):
    most: float = math.inf
    least: Annotated[float, Field(ge=-math.inf)] = 0


def test_values_that_are_no_json_are_not_shown() -> None:
    """Broken promise: a default of infinity ended a call with an error of the program."""

    with ToolRegistry(journal="memory") as registry:

        @registry.tool(owned_by="ann")
        def find(query: Query) -> float:
            """Find."""
            return query.least

        shown = registry.get_tool("find").parameters["properties"]["query"]["properties"]
        result = registry.execute(ToolCall("1", "find", {"query": {"least": 2.0}}, "ann"))

    assert {"most": {"type": "number"}, "least": {"type": "number", "default": 0}} == shown
    assert 2 == result.result
