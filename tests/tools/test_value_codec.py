"""What is written of a value can be read back, also where Python can hash what JSON knows as an object."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, time, tzinfo
from typing import Any, NamedTuple

import attrs
import pytest

from praval_tools.tools.value_codec import OpaqueValue, normalize_value, pack_value, unpack_value


@dataclass(frozen=True)
class Point:
    x: int = 1


class Place(NamedTuple):
    x: int = 1


@attrs.frozen
class Trip:
    points: frozenset[Point] = frozenset({Point()})


class Row(tuple[Any, ...]):
    def __hash__(self) -> int:
        return 1


class Record(OrderedDict[str, Any]):
    def __getitem__(self, key: str) -> Any:
        return Record(a=1)


class BrokenZone(tzinfo):
    def utcoffset(self, moment: Any) -> Any:
        raise OSError("no zone")


ONE = OpaqueValue('{"x":1}')


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({Point(): 1}, {ONE: 1}),
        ({Point(): 1, Point(2): 2}, {ONE: 1, OpaqueValue('{"x":2}'): 2}),
        ({Place(): {Point()}}, {ONE: {ONE}}),
        ({Point()}, {ONE}),
        (frozenset({Point(), 1}), frozenset({ONE, 1})),
        ({frozenset({Point()})}, {frozenset({ONE})}),
        ({(1, (Point(),))}, {OpaqueValue('{"praval:tuple":[1,{"praval:tuple":[{"x":1}]}]}')}),
        ({Trip()}, {OpaqueValue('{"points":[{"x":1}]}')}),
        ({Row([[1]]): 2}, {OpaqueValue("[[1]]"): 2}),
        ([(Point(), {(1, b"a"): {"a"}})], [({"x": 1}, {(1, b"a"): {"a"}})]),
    ],
    ids=[
        "key", "two keys", "named tuple", "set", "frozenset", "set of sets", "tuple", "attrs", "own tuple", "list",
    ],
)  # fmt: skip
def test_what_can_be_hashed_in_python_alone(value: Any, expected: Any) -> None:
    """Broken promise: a dict or a set of objects with fields could not be read back."""
    assert expected == unpack_value(pack_value(value)) == normalize_value(value)


@pytest.mark.parametrize("moment", [datetime(2026, 1, 1, tzinfo=BrokenZone()), time(1, tzinfo=BrokenZone())])
def test_times_of_a_broken_zone(moment: Any) -> None:
    """Broken promise: `pack_value` raised what a time zone raised."""
    assert [OpaqueValue(f"<{type(moment).__name__}>")] == normalize_value([moment])


def test_what_cannot_be_read_is_not_quoted() -> None:
    """Broken promise: the message had the whole value."""
    with pytest.raises(ValueError, match=r"^not a valid praval:set: [^z]*$"):
        unpack_value({"praval:set": [{"pin": "zq7x"}]})


@pytest.mark.parametrize("value", [{"a": 1}, [1], (1,), 1])
def test_what_was_left_out_stays_as_it_is(value: Any) -> None:
    """Broken promise: what was read back and written again had another text in the place of what is too deep."""
    for _ in range(250):
        value = [value]

    assert normalize_value(value) == normalize_value(normalize_value(value))


@pytest.mark.parametrize("wrap", [OrderedDict, Record])
def test_many_ordered_dicts_are_kept(wrap: Callable[[dict[str, Any]], Any]) -> None:
    """Broken promise: of more than ten thousand that stood inside of four others, the last were left out."""
    value: Any = [wrap({"a": number}) for number in range(10_010)]
    for _ in range(4):
        value = wrap({"inner": value})

    packed = pack_value(value)

    for _ in range(4):
        packed = packed["inner"]
    assert [{"a": number} for number in range(10_010)] == packed
