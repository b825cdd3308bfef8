"""Approvers leave the fields that classes make themselves in what they write, as they were shown them."""

# Tests of: execution/edited_arguments, execution/pipeline, journal/stored_approvals

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Required
from uuid import UUID

import attrs
import pytest
from pydantic import BaseModel, RootModel, field_validator
from record_texts import read_journal
from typing_extensions import TypedDict

from praval_tools import Allow, Outcome, Secret, ToolCall, ToolRegistry, ToolResult

Edit = Callable[[dict[str, Any]], object]
PRICES = {"unit": 1000}


@dataclass
class Order:
    amount: int
    total: int = field(init=False)
    kind: Literal["order"] = "order"

    def __post_init__(self) -> None:
        self.total = self.amount * PRICES["unit"]


@attrs.define
class AttrsOrder:
    amount: int
    total: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.total = self.amount * 1000


@dataclass
class Customer:
    """Makes an object that has a made field, and takes others."""

    name: str
    orders: dict[str, list[AttrsOrder]]
    last: Order = field(init=False)

    def __post_init__(self) -> None:
        self.last = Order(1)


class Basket(BaseModel):
    orders: list[Order]


@dataclass
class Priced:
    """Makes a field that has a default, which pydantic takes for one that may be given, and ignores."""

    amount: int
    total: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.total = self.amount * PRICES["unit"]


@dataclass
class Willful:
    """Sets its fields as it likes."""

    to: str
    amount: int

    def __post_init__(self) -> None:
        self.to = "boss" if self.amount != 5 else "ann"
        self.amount = min(self.amount, 100)


class Versioned(BaseModel):
    version: str = "1.1"

    @field_validator("version")
    @classmethod
    def shorten(cls, version: str) -> str:
        return version.rstrip("0")


class Rewritten(BaseModel):
    key: str = ""
    time: str = "2024-01-01T00:00:00+00:00"

    @field_validator("key")
    @classmethod
    def lower(cls, key: str) -> str:
        return key.lower()

    @field_validator("time")
    @classmethod
    def convert(cls, text: str) -> str:
        return datetime.fromisoformat(text).astimezone(UTC).isoformat()


class Spelled(BaseModel):
    key: UUID = UUID(int=1)
    time: datetime = datetime(2030, 1, 1, tzinfo=UTC)


@dataclass
class Collected:
    rates: set[float] = field(default_factory=set)
    times: set[datetime] = field(default_factory=set)
    words: set[str] = field(default_factory=set)
    counts: dict[float, int] = field(default_factory=dict)
    order: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.words = {word.rstrip("0") for word in self.words}
        self.counts.pop(9, None)
        self.rates -= {9}
        self.order.sort()


class Rated(BaseModel):
    rate: float = 1.0
    due: datetime = datetime(2030, 1, 1, tzinfo=UTC)


class Cart(BaseModel):
    order: Priced


class Carts(RootModel[list[Priced]]):
    pass


@dataclass
class Trolley:
    cart: Cart


@dataclass
class Gift:
    """Takes what another class makes."""

    kind: Literal["gift"]
    amount: int = 0
    total: int = 0


class LooseGift(TypedDict, total=False):
    kind: Required[Literal["gift"]]
    amount: int
    total: int


@dataclass(frozen=True)
class Member:
    key: int
    kind: Literal["member"] = "member"
    age: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "age", 100 - self.key)


@dataclass(frozen=True)
class Guest:
    """Takes what another class makes."""

    key: int
    kind: Literal["guest"] = "guest"
    age: int = 0


@dataclass
class Login:
    user: str
    pin: Annotated[str, Secret] = field(init=False)

    def __post_init__(self) -> None:
        self.pin = f"made-for-{self.user}"


class Payments:
    """A tool that needs an approval, what it got, and who edits its calls: a handler, or another process."""

    def __init__(self, journal: Path, *, is_later: bool) -> None:
        self.journal, self.is_later, self.got = journal, is_later, list[Any]()
        self.registry = ToolRegistry(journal=journal)

    def edit(self, hint: Any, given: object, edit: Edit) -> ToolResult:
        """Make a call with *given*, whose approver lets it run with what *edit* makes of the arguments shown."""

        def pay(order: Any, note: str = "") -> str:
            """Pay."""
            self.got.append(order)
            return note

        def change(shown: dict[str, Any]) -> Allow:
            changed = {**deepcopy(dict(shown)), "note": "fine"}
            edit(changed)
            return Allow(changed)

        pay.__annotations__["order"] = hint
        self.registry.tool("pay", owned_by="ann", requires_approval=True)(pay)
        call = ToolCall("1", "pay", {"order": given}, "ann")
        if self.is_later:
            self.registry.execute(call)
            with ToolRegistry(journal=self.journal) as other:
                (request,) = other.approvals.pending()
                other.approvals.answer(request.id, change(request.arguments))
        else:
            self.registry.set_approval_handler(lambda request: change(request.arguments))
        return self.registry.execute(call)


@pytest.fixture(params=[False, True], ids=["handler", "later"])
def payments(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Payments with an approver of each kind."""
    payments = Payments(tmp_path / "journal.db", is_later=request.param)
    yield payments
    payments.registry.close()


def leave(arguments: dict[str, Any]) -> None:
    """Change nothing but the note."""


class TestFieldsThatAreLeft:
    @pytest.mark.parametrize(
        ("hint", "given"),
        [
            (Order, {"amount": 1}),
            (AttrsOrder, {"amount": 1}),
            (list[Order], [{"amount": 1}, {"amount": 2}]),
            (Basket, {"orders": [{"amount": 1}]}),
            (Customer, {"name": "ann", "orders": {"now": [{"amount": 1}, {"amount": 2}]}}),
            (Order | Gift, {"amount": 1, "kind": "order"}),
            (Order | dict[str, int | str], {"amount": 1}),
        ],
        ids=["dataclass", "attrs", "list", "pydantic", "deep", "union", "object"],
    )
    def test_are_made_again(self, payments: Payments, hint: Any, given: object) -> None:
        """Broken promise: a person who only added a note got a call refused for a field that it was shown."""
        result = payments.edit(hint, given, leave)

        assert (Outcome.OK, "fine") == (result.outcome, result.result)
        assert type(payments.got[0]) is getattr(hint, "__args__", (hint,))[0] or type(payments.got[0]) is list

    def test_follow_the_field_that_is_changed(self, payments: Payments) -> None:
        """Another amount has another total, though the old one was left in."""
        result = payments.edit(
            list[Order], [{"amount": 1}, {"amount": 2}], lambda shown: shown["order"][1].update(amount=3)
        )

        assert (Outcome.OK, [[Order(1), Order(3)]]) == (result.outcome, payments.got)

    def test_stay_secret(self, payments: Payments) -> None:
        """What a made field marks is in no record of the edit."""
        result = payments.edit(Login, {"user": "ann"}, leave)

        assert (Outcome.OK, [Login("ann")]) == (result.outcome, payments.got)
        assert "made-for-ann" not in read_journal(payments.registry)


class TestFieldsThatAreChanged:
    @pytest.mark.parametrize("total", [5, 1000.0, "1000", None])
    def test_refuse_the_call(self, payments: Payments, total: object) -> None:
        """Nobody can write such a field."""
        result = payments.edit(Order, {"amount": 1}, lambda shown: shown["order"].update(total=total))

        assert (Outcome.INVALID_ARGUMENTS, []) == (result.outcome, payments.got)
        assert "total" in str(result.error)

    @pytest.mark.parametrize(
        ("hint", "given", "find"),
        [
            (Cart, {"order": {"amount": 1}}, lambda shown: shown["order"]),
            (Carts, [{"amount": 1}], lambda shown: shown[0]),
            (Trolley, {"cart": {"order": {"amount": 1}}}, lambda shown: shown["cart"]["order"]),
        ],
        ids=["model", "list", "dataclass"],
    )
    @pytest.mark.parametrize("is_by_person", [True, False], ids=["by the person", "by the class"])
    def test_refuse_it_where_a_class_ignores_them(
        self, payments: Payments, monkeypatch: pytest.MonkeyPatch, hint: Any, given: object, find: Any, *,
        is_by_person: bool,
    ) -> None:  # fmt: skip
        """Broken promise: the call ran with another value than the approver wrote, or had left as it was shown."""

        def edit(shown: Any) -> None:
            if is_by_person:
                find(shown["order"])["total"] = 5
            else:
                monkeypatch.setitem(PRICES, "unit", 2000)

        result = payments.edit(hint, given, edit)

        expected = Outcome.APPROVAL_REQUIRED if payments.is_later and not is_by_person else Outcome.FORBIDDEN
        assert (expected, []) == (result.outcome, payments.got)

    @pytest.mark.parametrize(
        "edit",
        [
            lambda order: order.update(to="bob"),
            lambda order: order.update(amount=500),
            lambda order: order.update(amount=5),
        ],
        ids=["overwritten", "limited", "which overwrites another"],
    )
    def test_that_the_constructor_sets_itself(self, payments: Payments, edit: Any) -> None:
        """Broken promise: the call ran with another value than the approver wrote for a field that has to be given."""
        result = payments.edit(Willful, {"to": "boss", "amount": 1}, lambda shown: edit(shown["order"]))

        assert (Outcome.FORBIDDEN, []) == (result.outcome, payments.got)

    @pytest.mark.parametrize("rate", [1, "1", "1.0"])
    def test_spelled_otherwise_are_the_same(self, payments: Payments, rate: object) -> None:
        """A form in a browser writes 1 for 1.0, and a person a time with another sign for UTC."""
        due = {"due": "2030-01-01T00:00:00+00:00", "rate": rate}
        result = payments.edit(Rated, {}, lambda shown: shown["order"].update(due))

        assert Outcome.OK is result.outcome

    @pytest.mark.parametrize("written", ['{"rate": 5}', {"rate": "5"}], ids=["text", "number as text"])
    def test_that_are_repaired_are_taken(self, payments: Payments, written: object) -> None:
        """What is repaired in the arguments of a model is repaired in those of a person, too."""
        result = payments.edit(Rated, {}, lambda shown: shown.update(order=written))

        assert (Outcome.OK, 5) == (result.outcome, payments.got[0].rate)

    @pytest.mark.parametrize("version", ["1.10", "1.100"])
    def test_of_texts_that_are_no_numbers(self, payments: Payments, version: str) -> None:
        """Two texts of one number are two texts."""
        result = payments.edit(Versioned, {}, lambda shown: shown["order"].update(version=version))

        assert (Outcome.FORBIDDEN, []) == (result.outcome, payments.got)

    @pytest.mark.parametrize(("name", "written"), [("key", "DEADBEEF" * 4), ("time", "2024-01-01T00:30:00+02:00")])
    def test_of_texts_that_read_like_other_values(self, payments: Payments, name: str, written: str) -> None:
        """Broken promise: a tool got another text than was written, if both could be read as one time or UUID."""
        refused = payments.edit(Rewritten, {}, lambda shown: shown["order"].update({name: written}))

        assert (Outcome.FORBIDDEN, []) == (refused.outcome, payments.got)

    @pytest.mark.parametrize(
        ("name", "written"), [("key", str(UUID("DEADBEEF" * 4)).upper()), ("time", "2024-01-01T00:00:00+00:00")]
    )
    def test_of_times_and_the_like_have_many_spellings(self, payments: Payments, name: str, written: str) -> None:
        """A person may write +00:00 for Z, and a UUID in capitals."""
        result = payments.edit(Spelled, {}, lambda shown: shown["order"].update({name: written}))

        assert Outcome.OK is result.outcome

    @pytest.mark.parametrize(
        ("name", "written"),
        [
            ("rates", [2, 1, "3"]),
            ("times", ["2030-01-02T00:00:00+00:00", "2030-01-01T00:00:00+00:00"]),
            ("words", ["1.1"]),
            ("counts", {"1": 1, "2.50": 2}),
        ],
    )
    def test_in_sets_and_keys_are_the_same(self, payments: Payments, name: str, written: object) -> None:
        """The items of sets and the keys of dicts have as many spellings as other values."""
        result = payments.edit(Collected, {}, lambda shown: shown["order"].update({name: written}))

        assert Outcome.OK is result.outcome

    @pytest.mark.parametrize(
        ("name", "written"),
        [("rates", [9, 1]), ("words", ["1.10"]), ("counts", {"1": 1, "9": 2}), ("order", [2, 1])],
    )
    def test_of_sets_and_keys(self, payments: Payments, name: str, written: object) -> None:
        """What a class leaves out of a set or a dict, or puts in another order in a list, is not what was written."""
        result = payments.edit(Collected, {}, lambda shown: shown["order"].update({name: written}))

        assert (Outcome.FORBIDDEN, []) == (result.outcome, payments.got)

    def test_refuse_it_where_an_object_is_put_before_others(self, payments: Payments) -> None:
        """Of the objects after it, each has the total of the one before."""
        result = payments.edit(list[Order], [{"amount": 1}], lambda shown: shown["order"].insert(0, {"amount": 5}))

        assert (Outcome.INVALID_ARGUMENTS, []) == (result.outcome, payments.got)

    def test_by_the_class_refuse_it(self, payments: Payments, monkeypatch: pytest.MonkeyPatch) -> None:
        """A person who left a total of 1000 as it was has nothing paid where the price is another by then."""
        result = payments.edit(Order, {"amount": 1}, lambda shown: monkeypatch.setitem(PRICES, "unit", 2000))

        expected = Outcome.APPROVAL_REQUIRED if payments.is_later else Outcome.INVALID_ARGUMENTS
        assert (expected, []) == (result.outcome, payments.got)


class TestFieldsOfAnotherClass:
    @pytest.mark.parametrize("gift", [Gift, LooseGift], ids=["default", "optional"])
    def test_are_not_left_out(self, payments: Payments, gift: Any) -> None:
        """A total that was written for a gift, and is as the order had it, is what the tool gets."""
        order = {"amount": 1, "kind": "order"}

        result = payments.edit(Order | gift, order, lambda shown: shown["order"].update(kind="gift"))

        assert (Outcome.OK, [gift(kind="gift", amount=1, total=1000)]) == (result.outcome, payments.got)

    def test_are_not_left_out_of_sets(self, payments: Payments) -> None:
        """Objects of several classes in a set are shown in another order than they are given in."""
        members = [{"key": 50, "kind": "member"}, {"key": 1, "kind": "guest", "age": 98}]

        def write(shown: dict[str, Any]) -> None:
            member, guest = shown["order"]
            assert 50 == member.pop("age")
            guest["key"] = 3

        result = payments.edit(set[Member | Guest], members, write)

        assert (Outcome.OK, [{Member(50), Guest(3, "guest", 98)}]) == (result.outcome, payments.got)
