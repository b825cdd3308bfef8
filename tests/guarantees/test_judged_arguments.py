"""What bounds, policies and approvers judge is what the tool gets, however its values write themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from enum import Enum
from itertools import count
from typing import Annotated, Any

import attrs
import pytest
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    RootModel,
    SecretStr,
    computed_field,
    field_serializer,
    field_validator,
    model_serializer,
)

from praval_tools import Allow, ApprovalRequest, GrantError, Outcome, Tool, ToolCall, ToolDefinitionError, ToolRegistry


class MaskedField(BaseModel):
    amount: int

    @field_serializer("amount")
    def _mask(self, value: int) -> int:
        return 99


class MaskedInJson(BaseModel):
    amount: Annotated[int, PlainSerializer(lambda value: 99, when_used="json")]


class MaskedModel(BaseModel):
    amount: int

    @model_serializer
    def _mask(self) -> dict[str, Any]:
        return {"amount": 99}


class Excluded(BaseModel):
    amount: int = Field(0, exclude=True)


class WrittenElsewhere(BaseModel):
    amount: int = Field(serialization_alias="cost")


class Aliased(BaseModel):
    total: int = Field(validation_alias=AliasChoices("amount", "sum"))


class Computed(BaseModel):
    amount: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def total(self) -> int:
        return 99


class Multiplied(BaseModel):
    amount: int

    @field_validator("amount")
    @classmethod
    def _multiply(cls, value: int) -> int:
        return value * 1000


@attrs.frozen
class Converted:
    amount: int = attrs.field(converter=lambda value: value * 1000)


@dataclass
class Adjusted:
    amount: int

    def __post_init__(self) -> None:
        self.amount *= 1000


DIRECT = [MaskedField, MaskedInJson, MaskedModel, Excluded, WrittenElsewhere, Aliased, Computed]
CHANGING = [Multiplied, Converted, Adjusted]


class SlyInteger(int):
    def __int__(self) -> int:
        return 99

    __index__ = __int__


class SlyFloat(float):
    def __float__(self) -> float:
        return 99.0


class SlyText(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "99"


class Sly:
    def __init__(self, value: int) -> None:
        self.value = value

    def to_dicts(self) -> list[int]:
        return [99]

    tolist = __json__ = to_dicts


@attrs.frozen
class HoldsInteger:
    amount: int = attrs.field(converter=SlyInteger)


@attrs.frozen
class HoldsFloat:
    amount: float = attrs.field(converter=SlyFloat)


@attrs.frozen
class HoldsText:
    amount: str = attrs.field(converter=lambda value: SlyText(value))


@attrs.frozen
class HoldsForeign:
    amount: Any = attrs.field(converter=Sly)


@attrs.frozen
class HoldsIterator:
    amount: list[int] = attrs.field(converter=iter)


_readings = count(98)


@dataclass
class ReadsAnew:
    amount: int

    def __getattribute__(self, name: str) -> Any:
        return next(_readings) if name == "amount" else object.__getattribute__(self, name)


class HoldsSecret(BaseModel):
    amount: SecretStr


UNREADABLE: list[tuple[type, Any]] = [
    (HoldsInteger, 99_000), (HoldsFloat, 99_000.0), (HoldsText, "99000"), (HoldsForeign, 99_000),
    (HoldsIterator, [99_000]), (ReadsAnew, 99_000), (HoldsSecret, "99000"),
]  # fmt: skip
"""Classes whose values write themselves in their own way, and the JSON of one field that they accept."""

SHAPES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], Callable[[Any], Any]]] = {
    "plain": (lambda kind: kind, lambda order: order, lambda place: place),
    "list": (lambda kind: list[kind], lambda order: [order], lambda place: place[0]),
    "dict": (lambda kind: dict[str, kind], lambda order: {"a": order}, lambda place: place["a"]),
    "optional": (lambda kind: kind | None, lambda order: order, lambda place: place),
}
"""How a class is nested: its hint, its JSON, and the way to its place in either."""


def make_registry(hint: Any, **options: Any) -> tuple[ToolRegistry, list[Any]]:
    """Return a registry with a tool `pay` that takes an order of this type, and the orders that it got."""
    registry, paid = ToolRegistry(), list[Any]()

    def pay(order: Any) -> None:
        """Pay."""
        paid.append(order)

    pay.__annotations__["order"] = hint
    registry.register_tool(Tool.from_function(pay, owned_by="boss", **options))
    registry.assign_tool_to_agent("pay", "intern")
    return registry, paid


def call_pay(registry: ToolRegistry, order: Any) -> Outcome:
    return registry.execute(ToolCall("1", "pay", {"order": order}, "intern")).outcome


def read_amount(order: Any) -> Any:
    return order.total if isinstance(order, Aliased) else order.amount


class TestWhatIsShown:
    @pytest.mark.parametrize("shape", SHAPES)
    @pytest.mark.parametrize("kind", [*DIRECT, *CHANGING], ids=lambda kind: kind.__name__)
    def test_policies_see_what_the_tool_gets(self, kind: type, shape: str) -> None:
        """
        Broken promise: policies judge what the tool will get; a serializer showed them 99 of 99,000.
        """
        hint, wrap, find = SHAPES[shape]
        registry, paid = make_registry(hint(kind))
        shown: list[Any] = []
        registry.add_policy(lambda agent, tool, arguments: shown.append(arguments["order"]))

        assert Outcome.OK is call_pay(registry, wrap({"amount": 99_000}))

        assert [read_amount(find(order)) for order in paid] == [find(order)["amount"] for order in shown]

    @pytest.mark.parametrize("kind", [*DIRECT, *CHANGING], ids=lambda kind: kind.__name__)
    def test_approvers_see_what_the_tool_gets(self, kind: type) -> None:
        """
        Broken promise: a person who approves a call sees its arguments; a serializer showed 99 of 99,000.
        """
        registry, paid = make_registry(kind, requires_approval=True)
        asked: list[ApprovalRequest] = []
        registry.set_approval_handler(lambda request: asked.append(request) or Allow())

        assert Outcome.OK is call_pay(registry, {"amount": 99_000})

        assert [read_amount(order) for order in paid] == [request.arguments["order"]["amount"] for request in asked]

    def test_what_was_shown_to_an_approver_is_what_runs(self) -> None:
        """
        The value that was judged is passed on as it is: a class that makes another one each time cannot change it.
        """
        numbers = count()

        @attrs.frozen
        class Numbered:
            amount: int = attrs.field(converter=lambda value: value + 1000 * next(numbers))

        registry, paid = make_registry(Numbered, requires_approval=True)
        asked: list[ApprovalRequest] = []
        registry.set_approval_handler(lambda request: asked.append(request) or Allow())

        assert Outcome.OK is call_pay(registry, {"amount": 1})

        assert [paid[0].amount] == [request.arguments["order"]["amount"] for request in asked]

    def test_extra_fields_and_roots_of_models_are_shown(self) -> None:
        """A model's extra fields and its root are read like its fields."""

        class Open(BaseModel):
            model_config = ConfigDict(extra="allow")
            amount: int

            @model_serializer
            def _mask(self) -> dict[str, Any]:
                return {}

        class Rows(RootModel[list[MaskedField]]):
            pass

        for hint, order in ((Open, {"amount": 1, "tip": 99_000}), (Rows, [{"amount": 99_000}])):
            registry, paid = make_registry(hint)
            shown: list[Any] = []
            registry.add_policy(lambda agent, tool, arguments, shown=shown: shown.append(arguments["order"]))
            assert (Outcome.OK, [order]) == (call_pay(registry, order), shown)
            assert 1 == len(paid)

    def test_a_model_given_as_an_object_is_taken_by_its_fields(self) -> None:
        """What a program gives as an object of the parameter's class is what the tool gets."""
        registry, paid = make_registry(MaskedField)

        registry.toolset("intern").call("pay", order=MaskedField(amount=99_000))

        assert [99_000] == [order.amount for order in paid]


class TestWhatIsBounded:
    @pytest.mark.parametrize("whole", [False, True])
    @pytest.mark.parametrize("shape", ["plain", "list", "optional"])
    @pytest.mark.parametrize("kind", [*DIRECT, *CHANGING], ids=lambda kind: kind.__name__)
    def test_bounds_see_what_the_tool_gets(self, kind: type, shape: str, whole: bool) -> None:
        """
        Broken promise: bounds are checked on what the tool will get; a serializer let 99,000 pass as 99.
        """
        hint, wrap, find = SHAPES[shape]
        registry, paid = make_registry(hint(kind))
        registry.remove_tool_from_agent("pay", "intern")
        order_bound = {"properties": {"amount": {"maximum": 100}}}
        bound = {"items": order_bound} if shape == "list" else order_bound
        where = {"type": "object", "properties": {"order": bound}} if whole else {"order": bound}
        registry.grant("pay", "intern", where=where)

        outcomes = [call_pay(registry, wrap({"amount": amount})) for amount in (99_000, 99, 0)]

        assert Outcome.FORBIDDEN is outcomes[0] and Outcome.OK is outcomes[2]
        assert all(read_amount(find(order)) <= 100 for order in paid)

    @pytest.mark.parametrize("kind", CHANGING, ids=lambda kind: kind.__name__)
    def test_one_allowed_value_is_that_which_the_tool_gets(self, kind: type) -> None:
        """`const` of whole arguments compares what was given, and never lets a value pass that a class changes."""
        registry, paid = make_registry(kind)
        registry.remove_tool_from_agent("pay", "intern")
        registry.grant("pay", "intern", where={"type": "object", "const": {"order": {"amount": 5}}})

        assert (Outcome.FORBIDDEN, []) == (call_pay(registry, {"amount": 5}), paid)

    def test_a_property_that_stands_for_a_field_has_no_bounds(self) -> None:
        """A field that is computed when it is read, or gone after `__init__`, is refused when the grant is made."""

        @dataclass
        class Read:
            amount: int

        Read.amount = property(lambda self: 99, lambda self, value: None)  # type: ignore[assignment]

        @dataclass
        class Gone:
            amount: InitVar[int]
            kept: int = field(init=False, default=0)

        for kind in (Read, Gone):
            registry, _ = make_registry(kind)
            with pytest.raises(GrantError, match=f"{kind.__name__}.amount"):
                registry.grant("pay", "intern", where={"order": {"properties": {"amount": {"maximum": 100}}}})


class TestWhatCannotBeRead:
    @pytest.mark.parametrize(("kind", "amount"), UNREADABLE, ids=lambda one: getattr(one, "__name__", ""))
    def test_is_refused_where_it_is_judged(self, kind: type, amount: Any) -> None:
        """
        Broken promise: what is judged is what runs; a value that writes itself in its own way was judged by that.

        Without a policy, a bound or an approval the call runs: nobody judges its arguments.
        """
        for judge in ("nobody", "policy", "approval", "bound"):
            registry, paid = make_registry(kind, requires_approval=judge == "approval")
            registry.set_approval_handler(lambda request: Allow())
            if judge == "policy":
                registry.add_policy(lambda agent, tool, arguments: None)
            if judge == "bound":
                registry.remove_tool_from_agent("pay", "intern")
                registry.grant("pay", "intern", where={"order": {"properties": {"amount": {"not": {"const": 5}}}}})

            result = registry.execute(ToolCall("1", "pay", {"order": {"amount": amount}}, "intern"))

            assert (judge == "nobody") is result.success is bool(paid)
            if judge != "nobody":
                assert Outcome.FORBIDDEN is result.outcome and "order" in str(result.decision)

    def test_explaining_says_so(self) -> None:
        """`explain` with such arguments gives the refusal of the call, and never an exception."""
        registry, _ = make_registry(HoldsInteger)
        registry.add_policy(lambda agent, tool, arguments: None)

        assert not registry.toolset("intern").explain("pay", {"order": {"amount": 1}})

    def test_an_iterator_is_not_emptied(self) -> None:
        """Nothing that the tool gets is used up by those who look at it first."""
        registry, paid = make_registry(HoldsIterator)
        registry.assign_tool_to_agent("pay", "intern")

        call_pay(registry, {"amount": [7]})

        assert [[7]] == [list(order.amount) for order in paid]

    def test_an_enum_has_one_value(self) -> None:
        """An Enum whose member is one number in arithmetic and another one in JSON is refused as a type."""

        class Price(int, Enum):
            def __new__(cls, value: int) -> Price:
                member = int.__new__(cls, 99_000)
                member._value_ = value
                return member

            LOW = 99

        with pytest.raises(ToolDefinitionError, match="LOW"):
            make_registry(Price)


def test_errors_name_the_type() -> None:
    """The reason of the refusal names the type that cannot be read, and its place."""
    registry, _ = make_registry(list[HoldsInteger])
    registry.add_policy(lambda agent, tool, arguments: None)

    result = registry.execute(ToolCall("1", "pay", {"order": [{"amount": 1}]}, "intern"))

    assert result.decision is not None
    assert "$.order[0].amount" in result.decision.reason and "SlyInteger" in result.decision.reason


class TestKeysOfModels:
    def test_no_extra_key_hides_a_field(self) -> None:
        """Broken promise: what is judged is what runs; an extra key stood where the judges look for the field."""

        class Open(BaseModel):
            model_config = ConfigDict(extra="allow")
            amount: int = Field(default=0, validation_alias=AliasChoices(AliasPath("data", "amount"), "amt"))

        registry, paid = make_registry(Open)
        registry.remove_tool_from_agent("pay", "intern")
        registry.grant("pay", "intern", where={"order": {"properties": {"amt": {"maximum": 10}}}})
        hidden = ToolCall("1", "pay", {"order": {"data": {"amount": 99_999}, "amt": 1}}, "intern")

        result = registry.execute(hidden)

        assert (Outcome.FORBIDDEN, []) == (result.outcome, paid)
        assert "'amt'" in str(result.decision)
        assert Outcome.OK is call_pay(registry, {"amt": 7}) and 7 == paid[0].amount

    def test_a_field_without_a_name_is_an_error_of_the_declaration(self) -> None:
        """Broken promise: what a schema says, a caller can send; the schema named a key that pydantic never reads."""

        class Inner(BaseModel):
            amount: int = Field(validation_alias=AliasPath("data", "amount"))

        class Outer(BaseModel):
            parts: list[Inner]

        class ByName(BaseModel):
            model_config = ConfigDict(populate_by_name=True)
            amount: int = Field(validation_alias=AliasPath("data", "amount"))

        for kind in (Inner, Outer):
            with pytest.raises(ToolDefinitionError, match="Inner.amount"):
                make_registry(kind)
        registry, paid = make_registry(ByName)
        registry.assign_tool_to_agent("pay", "intern")
        assert Outcome.OK is call_pay(registry, {"amount": 7}) and 7 == paid[0].amount
