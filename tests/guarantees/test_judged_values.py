"""For random parameter types whose values write themselves otherwise: what was judged is what the tool got."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import make_dataclass
from typing import Any, ClassVar, NamedTuple

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    create_model,
    field_serializer,
    field_validator,
    model_serializer,
    model_validator,
)

from praval_tools import Allow, GrantError, Outcome, Tool, ToolCall, ToolRegistry
from praval_tools.journal import AgentToolCall
from praval_tools.journal.events import ApprovalAsked


class SlyInteger(int):
    def __int__(self) -> int:
        return 99

    __index__ = __int__


CHANGES: dict[str, Callable[[int], int]] = {
    "keep": lambda value: value, "multiply": lambda value: value * 1000, "negate": lambda value: -value,
    "sly": SlyInteger,
}  # fmt: skip
"""What classes make of an amount."""

WRITERS: dict[str, dict[str, Any]] = {
    "none": {},
    "field": {"_write": field_serializer("amount")(lambda self, value: 99)},
    "json field": {"_write": field_serializer("amount", when_used="json")(lambda self, value: 99)},
    "model": {"_write": model_serializer(lambda self: {"amount": 99})},
}
"""How pydantic models write themselves."""


@st.composite
def order_types(draw: st.DrawFn, depth: int = 2, kinds: tuple[str, ...] = ("attrs", "dataclass", "model")) -> Any:
    """Draw a class with an amount, and maybe a list of other such orders; models hold only models."""
    change = CHANGES[draw(st.sampled_from(sorted(CHANGES)))]
    kind = draw(st.sampled_from(kinds))
    inner = draw(st.none() | order_types(depth - 1, ("model",) if kind == "model" else kinds)) if depth else None
    if kind == "model":
        base = type("Base", (BaseModel,), dict(WRITERS[draw(st.sampled_from(sorted(WRITERS)))], __module__=__name__,
                    __annotations__={"amount": int}, amount=Field(exclude=draw(st.booleans())),
                    _change=field_validator("amount")(classmethod(lambda cls, value: change(value)))))  # fmt: skip
        return create_model("Order", __base__=base, parts=(list[inner] if inner else list[int], []))
    parts = list[inner] if inner else list[int]
    if kind == "attrs":
        fields = {"amount": attrs.field(type=int, converter=change), "parts": attrs.field(type=parts, factory=list)}
        made: Any = attrs.make_class("Order", fields, slots=draw(st.booleans()))
        made.__annotations__ = {"amount": int, "parts": parts}
        return made

    def adjust(self: Any) -> None:
        self.amount = change(self.amount)

    columns = [("amount", int), ("parts", parts)]
    return make_dataclass("Order", columns, namespace={"__post_init__": adjust})


@st.composite
def orders(draw: st.DrawFn, kind: Any) -> dict[str, Any]:
    """Draw the JSON of an order of this class."""
    hint = kind.model_fields["parts"].annotation if hasattr(kind, "model_fields") else kind.__annotations__["parts"]
    item = hint.__args__[0]
    items = st.integers(-500, 500) if item is int else orders(item)
    return {"amount": draw(st.integers(-500, 500)), "parts": draw(st.lists(items, max_size=2))}


def read(value: Any) -> Any:
    """Return what the tool got, as its function reads it, subclasses of `int` by Python's own arithmetic."""
    if isinstance(value, int):
        return int.__add__(value, 0)
    if isinstance(value, list):
        return [read(item) for item in value]
    return {"amount": read(value.amount), "parts": read(value.parts)}


class TestJudges:
    @settings(max_examples=120, deadline=None)
    @given(st.data(), st.sampled_from(["policy", "approval", "bound"]))
    def test_what_was_judged_is_what_the_tool_got(self, data: st.DataObject, judge: str) -> None:
        """
        Broken promise: bounds, policies and approvers judge what the tool will get, field by field.

        Where a value can only be read by its own code, the call is forbidden.
        """
        kind = data.draw(order_types())
        given_order, most = data.draw(orders(kind)), data.draw(st.integers(-400, 400))
        shown: list[Any] = []
        got: list[Any] = []

        def pay(order: Any) -> None:
            """Pay."""
            got.append(order)

        pay.__annotations__["order"] = kind
        registry = ToolRegistry()
        registry.register_tool(Tool.from_function(pay, owned_by="boss", requires_approval=judge == "approval"))
        where = {"order": {"properties": {"amount": {"maximum": most}}}} if judge == "bound" else None
        registry.grant("pay", "intern", where=where)
        registry.set_approval_handler(lambda request: shown.append(request.arguments["order"]) or Allow())
        if judge == "policy":
            registry.add_policy(lambda agent, tool, arguments: shown.append(arguments["order"]))

        outcome = registry.execute(ToolCall("1", "pay", {"order": given_order}, "intern")).outcome

        assert outcome in (Outcome.OK, Outcome.FORBIDDEN)
        assert (outcome is Outcome.OK) is bool(got)
        if got and judge == "bound":
            assert read(got[0])["amount"] <= most
        elif judge != "bound":
            assert list(map(read, got)) == shown


class Money(BaseModel):
    cents: int = 0

    @property
    def amount(self) -> int:
        return self.cents


class Elsewhere:
    amount = 1_000_000


with warnings.catch_warnings(action="ignore"):  # pydantic says that a base has the name of the field

    class CoveredOrder(Money):
        amount: int = 0

    class MovedOrder(Elsewhere, BaseModel):
        """Takes its amount out of itself, so that the tool reads that of a base."""

        amount: int

        @model_validator(mode="after")
        def move(self) -> MovedOrder:
            del self.__dict__["amount"]
            return self


class Other(dict[str, Any]):
    """Says something else than it holds."""

    def __getitem__(self, key: str) -> Any:
        return 1

    def __len__(self) -> int:
        return 0

    def items(self) -> Any:
        return [(key, 1) for key in self]


class Keeping(BaseModel, extra="allow"):
    """Keeps what it holds in something else, once it is validated."""

    keeps: ClassVar[str]

    @model_validator(mode="after")
    def keep(self) -> Any:
        object.__setattr__(self, self.keeps, Other(getattr(self, self.keeps)))
        return self


class OrderOfOther(Keeping):
    keeps = "__dict__"
    amount: int


class ExtraOfOther(Keeping):
    keeps = "__pydantic_extra__"


class RootOfOther(RootModel[int]):
    @model_validator(mode="after")
    def keep(self) -> Any:
        object.__setattr__(self, "__dict__", Other(self.__dict__))
        return self


class AlteredExtra(BaseModel, extra="allow"):
    """Has an attribute with the name of an extra key."""

    @model_validator(mode="after")
    def keep(self) -> Any:
        self.__dict__["amount"] = 1000
        return self


class HidingExtra(BaseModel, extra="allow"):
    @property
    def amount(self) -> int:
        return 1000


class Stored:
    """Reads another dict than the one in which pydantic stores fields."""

    def __get__(self, model: Any, kind: Any) -> Any:
        return {"amount": 1}

    def __set__(self, model: Any, stored: Any) -> None:
        vars(BaseModel)["__dict__"].__set__(model, stored)


class OrderOfAnother(BaseModel):
    amount: int
    __dict__ = Stored()  # type: ignore[assignment]


HOLDING = [OrderOfOther, ExtraOfOther, RootOfOther, AlteredExtra, HidingExtra, OrderOfAnother]


class TestModels:
    @pytest.mark.parametrize("kind", HOLDING)
    @pytest.mark.parametrize("judge", ["policy", "approval", "bound"])
    def test_that_hold_something_else_are_refused(self, kind: Any, judge: str) -> None:
        """Broken promise: an amount of 1 was judged, and the tool read 1000."""

        def pay(order: Any) -> None:
            """Pay."""
            raise AssertionError(order)

        pay.__annotations__["order"] = kind
        registry = ToolRegistry()
        registry.register_tool(Tool.from_function(pay, owned_by="boss", requires_approval=judge == "approval"))
        registry.set_approval_handler(lambda request: Allow())
        if judge == "policy":
            registry.add_policy(lambda agent, tool, arguments: None)
        is_root = issubclass(kind, RootModel)
        bound = {"maximum": 10} if is_root else {"properties": {"amount": {"maximum": 10}}}
        registry.grant("pay", "intern", where={"order": bound} if judge == "bound" else None)
        given = 5 if is_root else {"amount": 5}
        refused = registry.execute(ToolCall("1", "pay", {"order": given}, "intern"))

        assert Outcome.FORBIDDEN is refused.outcome

    @pytest.mark.parametrize("kind", [CoveredOrder, MovedOrder])
    @pytest.mark.parametrize("judge", ["policy", "approval", "bound"])
    def test_whose_fields_others_hold_are_refused(self, kind: Any, judge: str) -> None:
        """Broken promise: an amount of 5 was judged, and the tool read a property of a base, or an attribute."""

        def pay(order: Any) -> None:
            """Pay."""
            raise AssertionError(order.amount)

        pay.__annotations__["order"] = kind
        registry = ToolRegistry()
        registry.register_tool(Tool.from_function(pay, owned_by="boss", requires_approval=judge == "approval"))
        registry.set_approval_handler(lambda request: Allow())
        if judge == "policy":
            registry.add_policy(lambda agent, tool, arguments: None)
        where = {"order": {"properties": {"amount": {"maximum": 10}}}} if judge == "bound" else None
        if judge == "bound" and kind is CoveredOrder:
            with pytest.raises(GrantError, match="CoveredOrder.amount cannot be read back"):
                registry.grant("pay", "intern", where=where)
            return
        registry.grant("pay", "intern", where=where)
        refused = registry.execute(ToolCall("1", "pay", {"order": {"amount": 5}}, "intern"))

        assert Outcome.FORBIDDEN is refused.outcome


with warnings.catch_warnings(action="ignore"):  # pydantic says that its own methods have the names of fields

    class Query(BaseModel):
        schema: str = "public"
        old: int = Field(1, deprecated="use amount")
        copy: int = 3


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    amount: int = Field(alias="amt", serialization_alias="written")


class Offset(NamedTuple):
    x: int
    y: int


class Step(BaseModel):
    by: Offset


class TestFields:
    def test_that_cover_methods_are_judged(self) -> None:
        """Broken promise: a field named as a method of its base was said not to be stored, and calls were refused."""
        shown: list[Any] = []
        registry = ToolRegistry()

        @registry.tool(owned_by="boss")
        def find(query: Query) -> str:
            """Find."""
            return query.schema

        registry.add_policy(lambda agent, tool, arguments: shown.append(arguments["query"]))
        registry.grant("find", "intern", where={"query": {"properties": {"copy": {"maximum": 9}}}})
        call = ToolCall("1", "find", {"query": {"schema": "a"}}, "intern")

        assert "a" == registry.execute(call).result
        assert [{"schema": "a", "old": 1, "copy": 3}] == shown

    @pytest.mark.parametrize("given", [[5, 5], [5, 50]], ids=str)
    def test_of_named_tuples_are_judged_as_the_schema_of_the_model_says(self, given: list[int]) -> None:
        """Broken promise: pydantic describes them as arrays, and calls within a bound on their items were refused."""
        registry = ToolRegistry()

        @registry.tool(owned_by="boss")
        def move(step: Step) -> int:
            """Move."""
            return step.by.x

        registry.grant("move", "intern", where={"step": {"properties": {"by": {"items": {"maximum": 10}}}}})
        result = registry.execute(ToolCall("1", "move", {"step": {"by": given}}, "intern"))

        assert result.outcome is (Outcome.OK if max(given) <= 10 else Outcome.FORBIDDEN)

    @pytest.mark.parametrize("key", ["amount", "written"])
    def test_of_other_names_are_no_extra_keys(self, key: str) -> None:
        """Broken promise: an extra key took the place of a bounded field in what the tool wrote of its model."""
        registry = ToolRegistry()

        @registry.tool(owned_by="boss")
        def pay(order: Open) -> str:
            """Pay."""
            raise AssertionError(order.model_dump())

        registry.grant("pay", "intern", where={"order": {"properties": {"amt": {"maximum": 10}}}})
        refused = registry.execute(ToolCall("1", "pay", {"order": {"amt": 5, key: 99_999}}, "intern"))

        assert Outcome.FORBIDDEN is refused.outcome


@attrs.frozen
class Price:
    """An amount that becomes another one."""

    cents: int = attrs.field(converter=lambda value: value * 100)


class TestRecords:
    def test_of_a_call_have_what_it_passed(self) -> None:
        """
        Broken promise: the description of a call's record said that it has what the tool gets.

        A converter is run once: the record is what a replay compares, and what makes the same call again; the request
        for an approval has what the tool gets.
        """
        got: list[int] = []
        with ToolRegistry(journal="memory") as registry:

            @registry.tool(owned_by="boss", requires_approval=True)
            def pay(price: Price, count: int = 1) -> int:
                """Pay."""
                got.append(price.cents)
                return price.cents

            registry.set_approval_handler(lambda request: Allow())
            for _ in range(2):  # the second time from the record
                with registry.run("night"):
                    result = registry.execute(ToolCall("1", "pay", {"price": {"cents": "2"}}, "boss"))
                    assert (Outcome.OK, 200) == (result.outcome, result.result)
            events = [entry.event for entry in registry.journal.read() if entry.event is not None]
        (call,) = (event for event in events if isinstance(event, AgentToolCall))
        (asked,) = (event for event in events if isinstance(event, ApprovalAsked))
        assert [200] == got
        assert {"price": {"cents": 2}} == call.arguments
        assert {"price": {"cents": 200}, "count": 1} == asked.arguments
        assert "the one before" in (AgentToolCall.__doc__ or "")
