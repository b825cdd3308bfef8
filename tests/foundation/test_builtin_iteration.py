"""What a value of a subclass holds is what is written of it, and who sends numbers cannot choose slow ones."""

# Tests of: values/builtin_iteration, schema/hash_collisions

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, TypedDict
from uuid import UUID

import pytest
from replay_rig import make_giver

from praval_tools import Outcome, Tool, ToolCall, ToolRegistry
from praval_tools.schema.encode import encode
from praval_tools.values.builtin_iteration import BUILTIN_COLLECTIONS, iterate_without_overrides


def make_liar(base: type, **answers: Any) -> type:
    """Return a subclass of *base* whose methods give the same answers whatever is asked."""
    return type("Liar", (base,), {name: lambda *given, answer=answer: answer for name, answer in answers.items()})


TEXT = make_liar(str, __str__="lie", isascii=True, encode=b"lie")
NUMBERS = {"__int__": 9, "__index__": 9, "__float__": 9.0, "__str__": "9", "__repr__": "9", "__lt__": True}
INTEGER, FLOAT, DECIMAL = (make_liar(base, **NUMBERS, is_finite=True) for base in (int, float, Decimal))
ITEMS = {"__len__": 1, "tolist": [9], "to_dicts": [{"a": 9}]}
PAIRS: dict[str, Any] = {"items": [("a", 9)], "keys": ["a"], "get": 9, "__getitem__": 9, "to_dicts": [{"a": 9}]}


def iterate_nines(*_: object) -> Any:
    return iter([9])


def make_iterating(kind: type) -> type:
    """Return a subclass of *kind* that iterates over something else."""
    return type("Iterated", (kind,), {"__iter__": iterate_nines})


LIST, TUPLE, SET, FROZEN = (make_iterating(make_liar(base, **ITEMS)) for base in (list, tuple, set, frozenset))
DICT, ORDERED = (make_iterating(make_liar(base, **PAIRS)) for base in (dict, OrderedDict))
MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
TIMES = {"isoformat": "lie", "utcoffset": timedelta(0), "__str__": "lie"}


class Row(TypedDict):
    a: int


WRITTEN: list[tuple[Any, Any, Any]] = [
    (str, TEXT("true"), "true"), (int, INTEGER(3), 3), (float, FLOAT(1.5), 1.5), (float, INTEGER(3), 3),
    (Decimal, DECIMAL("1.5"), "1.5"), (list, LIST([1]), [1]), (list[int], LIST([1, 2]), [1, 2]),
    (tuple[int, int], TUPLE((1, 2)), [1, 2]), (tuple[int, ...], TUPLE((1, 2)), [1, 2]), (set[int], SET({1, 2}), [1, 2]),
    (frozenset[int], FROZEN({1, 2}), [1, 2]), (dict, DICT(b=1), {"b": 1}), (dict[str, int], DICT(b=1), {"b": 1}),
    (dict[str, int], ORDERED(b=1), {"b": 1}), (Row, DICT(a=1), {"a": 1}), (dict[str, int], {TEXT("b"): 1}, {"b": 1}),
    (datetime, make_liar(datetime, **TIMES).fromisoformat(MOMENT.isoformat()), "2026-01-02T03:04:05Z"),
    (date, make_liar(date, isoformat="lie")(2026, 1, 2), "2026-01-02"),
    (time, make_liar(time, isoformat="lie")(1, 2, 3), "01:02:03"),
    (timedelta, make_liar(timedelta, __neg__=0, __lt__=True, __floordiv__=9, __sub__=0)(days=1), "P1D"),
    (UUID, make_liar(UUID, __str__="lie")(int=1), "00000000-0000-0000-0000-000000000001"),
    (bytes, make_liar(bytes, __bytes__=b"lie", hex="lie")(b"x"), "eA=="),
]  # fmt: skip
"""Hint, a value whose class writes itself otherwise, and what it holds as JSON."""


class TestSubclasses:
    @pytest.mark.parametrize(("hint", "value", "written"), WRITTEN, ids=lambda one: type(one).__mro__[-2].__name__)
    @pytest.mark.parametrize("declared", [True, False], ids=["declared", "any"])
    def test_are_written_as_what_they_hold(self, hint: Any, value: Any, written: Any, declared: bool) -> None:
        """Broken promise: results whose class had `__str__`, `__iter__` or `items` of its own wrote something else."""
        compiled = Tool.from_function(make_giver(hint if declared else Any, value)).implementation.compiled

        assert written == compiled.encode_result(value)
        assert written == encode(value)

    def test_of_the_standard_library_keep_their_order(self) -> None:
        """An `OrderedDict` is written in its own order, others in that of their keys."""
        ordered = OrderedDict(a=1, b=2)
        ordered.move_to_end("a")

        assert ["b", "a"] == list(encode(ordered))
        assert {"x": 2} == encode(Counter("xx"))
        assert {"a": [1]} == encode(defaultdict(list, a=[1]))


STEP = 2**61 - 1
"""All multiples of it have the hash 0."""
SLOW = [STEP * number for number in range(1, 1_500)]


@dataclass(frozen=True)
class Amount:
    value: int


class TestNumbersOfOneHash:
    @pytest.mark.parametrize(
        ("hint", "value"),
        [
            (set[int], SLOW), (frozenset[int], SLOW), (set[Decimal], list(map(str, SLOW))),
            (set[tuple[int, int]], [[1, number] for number in SLOW]),
            (dict[int, int], dict.fromkeys(map(str, SLOW), 1)),
            (set[Amount], [{"value": number} for number in SLOW]), (set, SLOW),
            (set[UUID], [str(UUID(int=number)) for number in SLOW]),
        ],
        ids=["set", "frozenset", "decimals", "pairs", "keys", "classes", "bare", "identifiers"],
    )  # fmt: skip
    def test_are_refused_in_great_number(self, hint: Any, value: Any) -> None:
        """A megabyte of them would keep a process busy for a minute: Python compares each with all others."""

        def take(value: Any) -> int:
            """Take."""
            return len(value)

        take.__annotations__["value"] = hint
        registry = ToolRegistry()
        registry.register_tool(Tool.from_function(take, shared=True))

        many = registry.execute(ToolCall("1", "take", {"value": value}, "ann"))
        few = registry.execute(
            ToolCall("1", "take", {"value": value[:50] if isinstance(value, list) else {"0": 1}}, "ann")
        )

        assert Outcome.INVALID_ARGUMENTS is many.outcome
        assert "of one hash" in (many.error or "")
        assert Outcome.OK is few.outcome


class TestKeysInTwoSpellings:
    @pytest.mark.parametrize(
        ("hint", "keys"),
        [
            (datetime, ["2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00"]),
            (UUID, ["0000000A-0000-0000-0000-000000000000", "0000000a-0000-0000-0000-000000000000"]),
            (time, ["00:00:00Z", "01:00:00+01:00"]),
        ],
        ids=["datetime", "UUID", "time"],
    )
    def test_of_arguments_are_refused(self, hint: Any, keys: list[str]) -> None:
        """Two members of an object never become one: what was sent would not be what the tool got."""
        compiled = Tool.from_function(make_giver(dict[hint, int], {})).implementation.compiled

        with pytest.raises(Exception, match="holds a key twice"):
            compiled.decode_result(dict.fromkeys(keys, 1))

    def test_of_results_are_refused(self) -> None:
        """Two keys with one text in JSON would lose a member: the result has no JSON form."""

        class Name(str):
            __slots__ = ()
            __hash__ = str.__hash__

            def __eq__(self, other: object) -> bool:
                return self is other

        names: dict[str, int] = {Name("a"): 1, Name("a"): 2}
        compiled = Tool.from_function(make_giver(dict[str, int], names)).implementation.compiled

        assert 2 == len(names)
        with pytest.raises(Exception, match="another key has the same text"):
            compiled.encode_result(names)


def test_offsets_of_subclasses_are_kept() -> None:
    """A datetime of a subclass keeps its own offset."""
    offset = timezone(timedelta(hours=2))

    assert "2026-01-01T00:00:00+02:00" == encode(make_liar(datetime)(2026, 1, 1, tzinfo=offset))


@pytest.mark.parametrize("base", BUILTIN_COLLECTIONS)
def test_a_metaclass_is_not_asked(base: type) -> None:
    """Broken promise: the class of a collection was hashed, which ran code of its metaclass."""
    asked = list[str]()

    class Meta(type):
        def __hash__(cls) -> int:
            asked.append("hash")
            return type.__hash__(cls)

        def __eq__(cls, other: object) -> bool:
            asked.append("eq")
            return cls is other

        def __getattribute__(cls, name: str) -> Any:
            asked.append(name)
            return type.__getattribute__(cls, name)

    given = Meta("Given", (base,), {"__iter__": iterate_nines})("ab")
    asked.clear()
    assert {"a", "b"} == set(iterate_without_overrides(given))
    assert [] == asked
