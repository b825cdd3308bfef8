"""Arguments of public methods are made plain, by what they hold, and all but texts, numbers and containers stays."""

# Tests of: values/plain_arguments, access/given_bounds

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator
from decimal import Decimal
from enum import IntEnum, StrEnum
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from praval_tools.access.bounds.given_bounds import read_bounds
from praval_tools.values.plain_arguments import to_plain_argument


class Text(str):
    __slots__ = ()


class Items(list[Any]):
    """Says that it holds nothing."""

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0


class Members(dict[Any, Any]):
    """Says that it holds nothing."""

    def items(self) -> Any:
        """Nothing."""
        return ()

    def __iter__(self) -> Iterator[Any]:
        return iter(())


class Size(StrEnum):
    LARGE = "large"


class Rank(IntEnum):
    first = 1


class Worker(NamedTuple):
    """A record with a name."""

    name: str


class Point(NamedTuple):
    """A record without one."""

    x: int


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Text("a"), "a"), (Size.LARGE, "large"), (type("Number", (int,), {})(3), 3),
        (type("Bytes", (bytes,), {})(b"a"), b"a"),
        (Items([Text("a"), [Text("b")]]), ["a", ["b"]]), (type("Set", (set,), {})({"a"}), {"a"}), (Point(1), (1,)),
        (Members({Text("a"): Text("b")}), {"a": "b"}), (OrderedDict(a=Text("b")), {"a": "b"}), (Counter("a"), {"a": 1}),
        (defaultdict(list, a=[Text("b")]), {"a": ["b"]}), ((Text("a"), None), ("a", None)),
        ({Text("a"): 1}, {"a": 1}), (deque([Text("a")]), deque(["a"])), ({(Text("a"),): 1}, {("a",): 1}),
        ({Text("a"): 1}.keys(), ["a"]), ({1: Text("a")}.values(), ["a"]), (MappingProxyType({Text("a"): 1}), {"a": 1}),
        (OrderedDict({Text("a"): 1}).items(), [("a", 1)]),
    ],
)  # fmt: skip
def test_what_is_made_plain(value: Any, plain: object) -> None:
    """By what it holds, whatever its class says of that; texts inside, too."""
    made = to_plain_argument(value)
    assert (made, type(made)) == (plain, type(plain))
    if isinstance(made, list | tuple | dict | deque):
        assert "Text" not in str(list(map(type, made)))


@pytest.mark.parametrize(
    "value",
    ["a", 3, None, True, ["a"], ("a", 1), {"a": Text("b")}, Worker("ann"), Rank.first, Path("a"), Decimal(1), object(),
     deque("a"), range(3), {("a",): 1}, memoryview(b"a"), len, str, {"a"}],
)  # fmt: skip
def test_what_stays(value: object) -> None:
    """What is plain, and has a name, and any other object."""
    assert value is to_plain_argument(value)


def test_a_generator_gives_plain_items_as_they_come() -> None:
    """It is not read before somebody asks."""
    asked = list[int]()

    def give() -> Iterator[str]:
        for number in range(2):
            asked.append(number)
            yield Text(number)

    made: Any = to_plain_argument(give())
    assert [] == asked
    assert [str, str] == list(map(type, made))


@pytest.mark.parametrize("make", [iter, reversed, enumerate, chain, lambda items: filter(None, items)])
def test_built_in_iterators_give_plain_items(make: Any) -> None:
    """Each item is made plain as it is read."""
    made: Any = to_plain_argument(make([Text("a")]))
    assert "Text" not in str([(type(item), [type(part) for part in item]) for item in made])


def test_an_iterator_of_a_class_of_the_program_stays() -> None:
    """It may have more than items."""
    reader = type("Reader", (chain,), {})([Text("a")])
    assert reader is to_plain_argument(reader)


def test_lists_that_hold_themselves_end() -> None:
    """Only a few levels are looked at."""
    value: list[Any] = [Text("a")]
    value.append(value)
    made: Any = to_plain_argument(value)
    assert ("a", "a") == (made[0], made[1][0])


def test_a_list_in_many_places_is_read_once() -> None:
    """Broken promise: 200 times the same 200 lists of 200 texts were read eight million times."""
    inner = Items([Text("a")])
    made: Any = to_plain_argument([[inner] * 50] * 50)

    assert [[["a"]] * 50] * 50 == made
    assert (list, str) == (type(made[0][0]), type(made[0][0][0]))
    assert made[0][0] is made[49][49]


def test_a_list_that_a_generator_changes_is_read_each_time() -> None:
    """What was read of an item says nothing of the next one, which may be the same list."""

    def count() -> Iterator[list[str]]:
        row = [Text("0")]
        for number in range(3):
            row[0] = Text(number)
            yield row

    assert [["0"], ["1"], ["2"]] == list(to_plain_argument(count()))  # type: ignore[call-overload]


def test_bounds_are_read_by_what_they_hold() -> None:
    """As a copy, at each depth."""
    given = Members({Text("x"): Members({"enum": Items([1])})})
    read = read_bounds(given)
    assert {"x": {"enum": [1]}} == read
    assert (dict, dict, str) == (type(read), type(read["x"]), type(next(iter(read))))
