"""A value that is made anew at each reading, such as the items of a `UserString`, ends no call and hangs none."""

# Tests of: schema/marked_members, schema/marked_values, tools/value_codec, values/builtin_iteration

from __future__ import annotations

from collections import Counter, OrderedDict, UserDict, UserList, UserString, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any

import pytest
from record_texts import read_journal

from praval_tools import Secret, ToolCall, ToolRegistry

HIDDEN = "zq7x-made-by-the-class"


@dataclass
class Key:
    token: Annotated[str, Secret] = HIDDEN


@dataclass
class Order:
    """Holds anything where its hint names a class with a mark."""

    keys: list[Key]


class Tree:
    """Has three new branches at each reading."""

    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Iterator[object]:
        return (type(self)() for _ in range(3))


class Orders(Tree):
    """Has new orders, in which there are new ones."""

    def __iter__(self) -> Iterator[object]:
        return (Order(Orders()) for _ in range(3))  # type: ignore[arg-type]


class Rows:
    """Is an array of new arrays to whoever takes it apart."""

    def tolist(self) -> list[object]:
        return [Rows(), Rows()]


class Index(Mapping[str, object]):
    """Has two new mappings at each reading."""

    def __len__(self) -> int:
        return 2

    def __iter__(self) -> Iterator[str]:
        return iter("ab")

    def __getitem__(self, key: str) -> object:
        return Index()


class LazyTable(dict[str, object]):
    """Has new tables under its keys at each reading."""

    def values(self) -> Any:
        return [LazyTable(a=1), LazyTable(a=1)]


class LazyList(list[object]):
    """Has new lists at each reading."""

    def __iter__(self) -> Iterator[object]:
        return iter([LazyList([1]), LazyList([1])])


class RowList(list[object]):
    """Is an array of new arrays to whoever takes it apart."""

    def tolist(self) -> list[object]:
        return [RowList(), RowList()]


class Shadowed(dict[str, object]):
    """Has what makes new tables in the place of a method."""

    def __init__(self) -> None:
        super().__init__(a=1)
        self.values = lambda: [Shadowed(), Shadowed()]  # type: ignore[assignment, method-assign, return-value]


class Loader:
    """Loads what an attribute holds whenever it is read."""

    def __getattribute__(self, name: str) -> Any:
        return type(self)() if name in ("first", "second") else object.__getattribute__(self, name)


@dataclass
class Loaded(Loader):
    first: object = None
    second: object = None


@dataclass
class Pair:
    first: object = None
    second: object = None


for name in ("first", "second"):
    setattr(Pair, name, property(lambda _: Pair(), lambda _, value: None))


ENDLESS: dict[str, Callable[[], object]] = {
    "text": lambda: UserString("hello"),
    "tree": Tree,
    "orders": Orders,
    "array": Rows,
    "mapping": Index,
    "loaded": Loaded,
    "properties": Pair,
}


DERIVED: dict[str, Callable[[], object]] = {
    "dict": lambda: LazyTable(a=1),
    "list": lambda: LazyList([1]),
    "array": RowList,
    "attribute": Shadowed,
}


@pytest.mark.parametrize("make", DERIVED.values(), ids=DERIVED)
def test_derived_classes_that_are_read_otherwise(make: Callable[[], object]) -> None:
    """A call ends with a value that derives from a container of Python's own and makes its parts itself."""
    with ToolRegistry(journal="memory") as registry:

        @registry.tool(owned_by="ann")
        def give(value: Any) -> Any:
            """Give."""
            return Order(make())  # type: ignore[arg-type]

        outcomes = [registry.execute(ToolCall("c", "give", {"value": value}, "ann")).outcome for value in (1, make())]

    assert {"ok", "tool_error", "invalid_arguments"}.issuperset(outcome.value for outcome in outcomes)


@pytest.fixture(params=ENDLESS)
def endless(request: pytest.FixtureRequest) -> object:
    """Return a value whose parts have parts without end."""
    return ENDLESS[request.param]()


class TestValuesWithoutEnd:
    """Broken promise: with a journal, a call with such a value never ended, and used up the memory."""

    @pytest.mark.parametrize("is_in_field", [False, True], ids=["bare", "field"])
    def test_as_arguments(self, endless: Any, *, is_in_field: bool) -> None:
        """The call is refused, as it is without a journal."""
        with ToolRegistry(journal="memory") as registry:

            @registry.tool(owned_by="ann")
            def take(value: Any) -> None:
                """Take."""

            value = Order(endless) if is_in_field else endless
            result = registry.execute(ToolCall("c", "take", {"value": value}, "ann"))

        assert result.outcome.value == "invalid_arguments"

    @pytest.mark.parametrize("is_in_field", [False, True], ids=["bare", "field"])
    def test_as_results(self, endless: Any, *, is_in_field: bool) -> None:
        """It has no JSON form, so that the call is an error of the tool."""
        with ToolRegistry(journal="memory") as registry:

            @registry.tool(owned_by="ann")
            def give() -> Any:
                """Give."""
                return Order(endless) if is_in_field else endless

            result = registry.execute(ToolCall("c", "give", {}, "ann"))

        assert result.outcome.value == "tool_error"

    def test_in_errors(self, endless: Any) -> None:
        """What an exception holds is searched for marks."""
        with ToolRegistry(journal="memory") as registry:

            @registry.tool(owned_by="ann")
            def fail() -> None:
                """Fail."""
                raise ValueError(Order(endless), Key())

            result = registry.execute(ToolCall("c", "fail", {}, "ann"))
            written = read_journal(registry)

        assert result.outcome.value == "tool_error"
        assert HIDDEN not in written


CONTAINERS: dict[str, Callable[[list[object]], object]] = {
    "once": UserList,
    "three times": lambda keys: UserList([UserDict(keys=UserList(keys))]),
    "beside a text": lambda keys: [UserString("keys"), UserDict(keys=keys)],
}


@pytest.mark.parametrize("wrap", CONTAINERS.values(), ids=CONTAINERS)
def test_marks_in_many_values_of_own_containers(wrap: Callable[[list[object]], object]) -> None:
    """Containers of classes of their own are searched to their ends where these are near."""
    with ToolRegistry(journal="memory") as registry:

        @registry.tool(owned_by="ann")
        def fail() -> None:
            """Fail."""
            error = ValueError(f"login with {HIDDEN}-9")
            error.args += (wrap([Key(f"{HIDDEN}-{number}") for number in reversed(range(10_010))]),)
            raise error

        registry.execute(ToolCall("c", "fail", {}, "ann"))
        assert HIDDEN not in read_journal(registry)


class Table(dict[str, Any]):
    """A dict of another class, as libraries for configuration and documents have them."""


class OrderedTable(OrderedDict[str, Any]):
    """An ordered one, which is read by methods of its own."""


class Items(list[Any]):
    """A list of another class."""


class Row(tuple[Any, ...]):
    """A tuple of another class."""


class Queue(deque[Any]):
    """A queue of another class."""


class Defaults(defaultdict[str, Any]):
    """Makes what is missing, and nothing of what is read."""


class Counts(Counter[Any]):
    """Keeps any values, though it should count."""


@dataclass
class Safe:
    """Is opened by what its name does not show."""

    combination: Annotated[str, Secret]


OWN_CONTAINERS: dict[str, Callable[[Any], Any]] = {
    "dict": lambda inner: Table(inner=inner),
    "ordered dict": lambda inner: OrderedTable(inner=inner),
    "list": lambda inner: Items([inner]),
    "tuple": lambda inner: Row([inner]),
    "deque": lambda inner: Queue([inner]),
    "defaultdict": lambda inner: Defaults(None, inner=inner),
    "counter": lambda inner: Counts(inner=inner),
}


@pytest.mark.parametrize("levels", [1, 4])
@pytest.mark.parametrize("wrap", OWN_CONTAINERS.values(), ids=OWN_CONTAINERS)
def test_marks_in_many_containers_of_derived_classes(wrap: Callable[[Any], Any], levels: int) -> None:
    """Broken promise: a note quoted what a class marks, where it stood in one of many containers of derived classes."""
    with ToolRegistry(journal="memory") as registry:

        @registry.tool(owned_by="ann")
        def take(value: Any, note: str) -> None:
            """Take."""

        value: Any = [wrap(Safe(f"{HIDDEN}-1")), *(wrap(1) for _ in range(10_010)), wrap(Safe(f"{HIDDEN}-2"))]
        for _ in range(levels):
            value = wrap(value)
        note = f"for {HIDDEN}-1 and {HIDDEN}-2"
        registry.execute(ToolCall("c", "take", {"value": value, "note": note}, "ann"))
        written = read_journal(registry)

    assert "for [secret " in written
    assert HIDDEN not in written


@pytest.mark.parametrize("wrap", [Table, MappingProxyType])
@pytest.mark.parametrize("levels", [1, 4, 7, 50])
def test_calls_that_differ_far_inside_are_two(wrap: Callable[[dict[str, Any]], Any], levels: int) -> None:
    """A call got the recorded result of another one whose arguments differed below some mappings of a class."""
    registry, paid = ToolRegistry(journal="memory"), list[int]()

    @registry.tool("pay", owned_by="ann")
    def pay(order: dict[str, Any]) -> int:
        """Pay."""
        while "inner" in order:
            order = order["inner"]
        paid.append(order["amount"])
        return paid[-1]

    def make_order(amount: int) -> Any:
        order = wrap({"amount": amount})
        for _ in range(levels):
            order = wrap({"inner": order})
        return order

    with registry.run("r"):
        for amount in (1, 2):
            assert amount == registry.toolset("ann").call("pay", order=make_order(amount))
    assert [1, 2] == paid
