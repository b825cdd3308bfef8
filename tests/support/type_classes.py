"""Small classes and aliases of each kind in the table of types, for hints in tests."""

from __future__ import annotations

from enum import Enum, IntEnum, StrEnum
from typing import NamedTuple, NewType, NotRequired, TypedDict

import attrs
from typing_extensions import TypeAliasType


class Color(Enum):
    RED = "red"
    GREEN = "green"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Mood(StrEnum):
    GOOD = "good"
    BAD = "bad"


@attrs.frozen
class Even:
    number: int = attrs.field()

    @number.validator
    def _check(self, _: object, value: int) -> None:
        if value % 2:
            raise ValueError(f"{value} is odd")


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class Pair(NamedTuple):
    first: int
    second: str = "x"


UserId = NewType("UserId", int)
Json = TypeAliasType("Json", "dict[str, Json] | list[Json] | str | int | float | bool | None")
