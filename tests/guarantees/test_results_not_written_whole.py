"""A result whose class holds more than its JSON has comes back as its JSON, never as another value of the class."""

# Tests of: schema/whole_values, tools/compiled

from __future__ import annotations

import json
import re
import threading
from contextlib import suppress
from dataclasses import InitVar, dataclass, field
from enum import Enum, StrEnum
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import attrs
import engine_tools
import pytest
from engine_rig import Home, home  # noqa: F401
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PrivateAttr,
    RootModel,
    SecretStr,
    field_serializer,
    model_serializer,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass
from replay_rig import iter_results

from praval_tools import Outcome, ToolCall, ToolRegistry


class Excluded(BaseModel):
    name: str
    note: str = Field(default="", exclude=True)


class Private(BaseModel):
    name: str
    _note: str = PrivateAttr(default="")

    def with_note(self, note: str) -> Private:
        """Return the model with what it does not write."""
        self._note = note
        return self


class WritesAField(BaseModel):
    name: str
    note: str

    @field_serializer("note")
    def write_note(self, note: str) -> str:
        """Write a part."""
        return note[:1]


class WritesItself(BaseModel):
    name: str
    note: str = ""

    @model_serializer
    def write(self) -> dict[str, str]:
        """Write a part."""
        return {"name": self.name}


class Hidden(BaseModel):
    word: SecretStr


class More(Excluded):
    more: int = 1


class Plain(BaseModel):
    name: str
    numbers: list[int] = []


class Shade(Enum):
    RED = "red"


class Tone(StrEnum):
    DARK = "dark"


class Painted(BaseModel):
    model_config = ConfigDict(use_enum_values=True)
    shade: Shade = Shade.RED
    tones: list[Tone] = [Tone.DARK]


class PlainSub(Plain):
    pass


class PlainHolder(BaseModel):
    inner: list[Plain]


class WritesAnItem(BaseModel):
    notes: list[Annotated[str, PlainSerializer(lambda note: note[:1])]]


class Holder(BaseModel):
    inner: Excluded


class Listed(RootModel[list[Excluded]]):
    pass


@dataclass
class Late:
    name: str
    note: str = field(init=False, default="")


@dataclass
class LateUncompared:
    name: str
    note: str = field(init=False, default="", compare=False)


@dataclass(eq=False)
class LateById:
    name: str
    note: str = field(init=False, default="")


@dataclass(frozen=True)
class LateFrozen:
    name: str
    note: str = field(init=False, default="")


@dataclass
class Begun:
    start: InitVar[int] = 0
    total: int = field(init=False)

    def __post_init__(self, start: int) -> None:
        self.total = start + 1


@dataclass
class Rated:
    net: int
    rate: InitVar[int] = 19

    def __post_init__(self, rate: int) -> None:
        self.rate_used = rate


@dataclass
class RatedInPlace:
    net: int
    rate: InitVar[int] = 2

    def __post_init__(self, rate: int) -> None:
        self.net *= rate


@dataclass(eq=False)
class Noted:
    name: str

    def __post_init__(self) -> None:
        self.note = self.name


@attrs.define(slots=False)
class NotedAttrs:
    name: str

    def __attrs_post_init__(self) -> None:
        self.note = self.name


@dataclass
class Built:
    name: str

    def __init__(self, name: str, note: str = "") -> None:
        self.name = name
        self.note = note


@pydantic_dataclass(config={"extra": "allow"})
class Open:
    name: str


@attrs.define
class LateAttrs:
    name: str
    _note: str = attrs.field(init=False, default="")


@pydantic_dataclass
class LatePydantic:
    name: str
    note: str = field(init=False, default="")


@dataclass
class Opaque:
    """Holds an object of a class that compares by identity, and has a state."""

    name: str
    inner: Any = field(init=False, default=None)


class Box:
    """Compares by identity."""

    def __init__(self, value: object) -> None:
        self.value = value


class Strange:
    """Neither equal nor unequal."""

    def __eq__(self, other: object) -> Any:
        raise ValueError("not comparable")

    __hash__ = None  # type: ignore[assignment]


@dataclass
class Base:
    name: str


@dataclass
class Sub(Base):
    pass


class NamedLate(NamedTuple):
    late: Late


@dataclass
class Node:
    name: str
    parts: list[Node] = field(default_factory=list)
    note: str = field(init=False, default="")


def with_attribute(value: Any, **attributes: object) -> Any:
    """Return *value* after these were set."""
    for name, attribute in attributes.items():
        object.__setattr__(value, name, attribute)
    return value


def make_node(note: str) -> Node:
    """Return a node with another one inside."""
    return Node("a", [with_attribute(Node("b"), note=note)])


EXCLUDED = Excluded(name="a", note="x")
LATE = with_attribute(Late("a"), note="x")
PARTLY_WRITTEN: list[tuple[Any, Any]] = [
    (Excluded, EXCLUDED), (Private, Private(name="a").with_note("x")),
    (WritesAField, WritesAField(name="a", note="xy")),
    (WritesItself, WritesItself(name="a", note="x")), (Holder, Holder(inner=EXCLUDED)),
    (Holder, Holder(inner=More(name="a"))), (Listed, Listed([EXCLUDED])), (Late, LATE),
    (LateUncompared, with_attribute(LateUncompared("a"), note="x")),
    (LateById, with_attribute(LateById("a"), note="x")), (LateFrozen, with_attribute(LateFrozen("a"), note="x")),
    (Begun, Begun(5)), (Rated, Rated(100, 7)), (list[Rated], [Rated(100, 7)]),
    (Noted, with_attribute(Noted("a"), note="x")), (NotedAttrs, with_attribute(NotedAttrs("a"), note="x")),
    (dict[str, Noted], {"a": with_attribute(Noted("a"), more="x")}), (Built, Built("a", "x")),
    (Open, with_attribute(Open("a"), more="x")),
    (LateAttrs, with_attribute(LateAttrs("a"), _note="x")),
    (LatePydantic, with_attribute(LatePydantic("a"), note="x")),
    (Opaque, with_attribute(Opaque("a"), inner=Box(1))), (Opaque, with_attribute(Opaque("a"), inner=Strange())),
    (list[Late], [Late("a"), LATE]), (list[Late], (LATE,)), (dict[str, Excluded], {"a": EXCLUDED}),
    (tuple[int, Late], (1, LATE)), (Late | None, LATE), (Late | Excluded | int, LATE), (Late | Base, LATE),
    (Plain, PlainSub(name="a")), (list[Plain], [PlainSub(name="a")]),
    (PlainHolder, PlainHolder(inner=[PlainSub(name="a")])), (WritesAnItem, WritesAnItem(notes=["xy"])),
    (Painted, Painted(tones=["dark"])), (Painted, Painted(shade="red")), (list[Painted], [Painted()]),
    (NamedLate, NamedLate(LATE)), (Node, make_node("x")), (Base, Sub("a")), (list[Base], [Sub("a")]),
]  # fmt: skip
"""Hint, and a value that is not written whole."""


@dataclass
class Area:
    sides: list[float]
    total: float = field(init=False)

    def __post_init__(self) -> None:
        self.total = sum(self.sides)


@dataclass(eq=False)
class AreaById(Area):
    pass


@attrs.define
class AreaAttrs:
    side: int
    total: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.total = self.side**2


@dataclass
class Locked:
    name: str
    lock: Any = field(init=False, default_factory=threading.Lock, compare=False)
    box: Box = field(init=False, default_factory=lambda: Box([1]))
    nothing: float = field(init=False, default=float("nan"))


@dataclass
class Cached:
    name: str

    @cached_property
    def long(self) -> str:
        """A name that is kept when it was asked for."""
        return self.name * 2


@dataclass
class CachedLate(Cached):
    def __post_init__(self) -> None:
        self.number = len(self.name)


class Loose(BaseModel):
    value: Any
    numbers: list[float] = []


CACHED, CACHED_LATE = Cached("a"), CachedLate("a")
assert CACHED.long == CACHED_LATE.long
WHOLE: list[tuple[Any, Any]] = [
    (Excluded, Excluded(name="a")), (Private, Private(name="a")), (Holder, Holder(inner=Excluded(name="a"))),
    (Late, Late("a")), (LateById, LateById("a")), (Area, Area([1, 2.5])), (AreaById, AreaById([1, 2.5])),
    (AreaAttrs, AreaAttrs(3)), (list[Area], [Area([1])]), (Locked, Locked("a")), (Cached, CACHED), (Begun, Begun()),
    (Rated, Rated(100)), (RatedInPlace, RatedInPlace(2, 3)), (NotedAttrs, NotedAttrs("a")),
    (list[NotedAttrs], [NotedAttrs("a")]), (Built, Built("a")), (CachedLate, CACHED_LATE), (Open, Open("a")),
    (Loose, Loose(value=[1, "a", None], numbers=[1, 2.0])), (Node, make_node("")), (Listed, Listed([])),
    (dict[str, Excluded], {"a": Excluded(name="a")}), (NamedLate, NamedLate(Late("a"))),
    (PlainHolder, PlainHolder(inner=[Plain(name="a", numbers=[1])])), (Plain | PlainSub, Plain(name="a")),
    (Plain | PlainSub, PlainSub(name="a")), (Painted, Painted(shade="red", tones=["dark"])),
    (set[LateFrozen], {LateFrozen("a"), LateFrozen("b")}), (Late | Base, Base("a")),
]  # fmt: skip
"""Hint, and a value that is written whole."""


def describe_case(case: object) -> str:
    """Return the id of a hint or a value, the same in every process: objects may be written with their addresses."""
    return getattr(case, "__name__", None) or re.sub(" at 0x[0-9a-f]+", "", str(case))


class TestReplay:
    @pytest.mark.parametrize(("hint", "value"), PARTLY_WRITTEN, ids=describe_case)
    def test_gives_the_json_of_what_is_not_written_whole(self, hint: Any, value: Any, tmp_path: Path) -> None:
        """Broken promise: fields that no JSON has were their defaults in a replayed result, and nothing said so."""
        live, replayed = iter_results(hint, value, tmp_path / "j.db")

        assert (Outcome.OK, True) == (live.outcome, replayed.replayed)
        assert live.result is value or [*live.result] == [*value]
        assert json.loads(live.for_model()) == replayed.result
        assert live.for_model() == replayed.for_model()

    def test_gives_no_class_with_another_secret(self, tmp_path: Path) -> None:
        """Broken promise: a secret was ten stars in the replayed object."""
        live, replayed = iter_results(Hidden, Hidden(word=SecretStr("word")), tmp_path / "j.db")

        assert (Hidden, dict) == (type(live.result), type(replayed.result))

    @pytest.mark.parametrize(("hint", "value"), WHOLE, ids=describe_case)
    def test_gives_the_class_of_what_is_written_whole(self, hint: Any, value: Any, tmp_path: Path) -> None:
        """Fields that are computed again, or hold their defaults, are no reason to give less than the class."""
        live, replayed = iter_results(hint, value, tmp_path / "j.db")

        assert (Outcome.OK, True) == (live.outcome, replayed.replayed)
        assert type(value) is type(live.result) is type(replayed.result)
        if hint not in (LateById, AreaById, Locked):
            assert value == replayed.result
        assert live.for_model() == replayed.for_model()

    def test_makes_usual_objects_no_second_time_to_record_them(self, tmp_path: Path) -> None:
        """Classes that write all that they hold cost nothing: their code runs where their objects are wanted."""
        made: list[str] = []

        @dataclass
        class Counted:
            name: str

            def __post_init__(self) -> None:
                made.append(self.name)

        class CountedModel(Plain):
            def model_post_init(self, _: object) -> None:
                made.append(self.name)

        for hint, value in ((Counted, Counted("a")), (list[CountedModel], [CountedModel(name="b")])):
            live, replayed = iter_results(hint, value, tmp_path / f"{len(made)}.db")
            assert (value, value) == (live.result, replayed.result)

        assert ["a", "a", "b", "b"] == sorted(made)

    @pytest.mark.parametrize("hint", [Base, Excluded, list[Base] | dict[str, str]], ids=str)
    def test_gives_json_that_a_tool_returned_under_a_class(self, hint: Any, tmp_path: Path) -> None:
        """Broken promise: a tool that returned the JSON of a class gave that live, and an object replayed."""
        live, replayed = iter_results(hint, {"name": "a"}, tmp_path / "j.db")

        assert {"name": "a"} == live.result == replayed.result
        assert (dict, True) == (type(replayed.result), replayed.replayed)

    @pytest.mark.parametrize(
        ("hint", "value"), [(Any, EXCLUDED), (dict[str, Any], {"a": EXCLUDED}), (list, [EXCLUDED])], ids=describe_case
    )
    def test_gives_json_under_any_type(self, hint: Any, value: Any, tmp_path: Path) -> None:
        """Where no class is declared, what comes back is JSON, as it is for each other value there."""
        live, replayed = iter_results(hint, value, tmp_path / "j.db")

        assert value == live.result
        assert json.loads(live.for_model()) == replayed.result

    def test_of_a_call_that_the_operator_resolved(self, tmp_path: Path) -> None:
        """The operator's object counts as the tool's does; JSON from the operator becomes the declared class."""
        for run, given, expected in (
            ("one", EXCLUDED, {"name": "a"}), ("two", {"name": "a"}, Excluded(name="a")),
        ):  # fmt: skip
            with ToolRegistry(journal=tmp_path / f"{run}.db") as registry:

                @registry.tool(owned_by="ann")
                def give() -> Excluded:
                    """Give."""
                    raise KeyboardInterrupt

                with registry.run(run), suppress(KeyboardInterrupt):
                    registry.execute(ToolCall("c", "give", {}, "ann"))
                with registry.run(run) as opened:
                    opened.resolve("c", result=given)
                    assert expected == registry.execute(ToolCall("c", "give", {}, "ann")).result


class TestEngines:
    def test_give_json_of_what_is_not_written_whole(self, home: Home) -> None:
        """Broken promise: other processes sent a ticket without its seat, and members without their tokens."""
        ticket, members = home.execute("give_ticket", seat="5a"), home.execute("give_members", token="t")

        assert (Outcome.OK, Outcome.OK) == (ticket.outcome, members.outcome)
        if home.is_remote:
            assert ({"name": "ann"}, [{"name": "ann"}]) == (ticket.result, members.result)
        else:
            assert engine_tools.give_ticket("5a") == ticket.result
            assert engine_tools.give_members("t") == members.result

    def test_give_the_class_of_what_is_written_whole(self, home: Home) -> None:
        """A computed field, and fields that hold their defaults."""
        assert engine_tools.give_cuboid() == home.execute("give_cuboid").result
        assert engine_tools.give_ticket("") == home.execute("give_ticket", seat="").result
        assert engine_tools.give_members("") == home.execute("give_members", token="").result

    def test_replay_what_they_gave(self, home: Home) -> None:
        """What a caller got of another process is what a replay gives."""
        if home.store == "none":
            pytest.skip("nothing is recorded")
        live, replayed = home.execute_twice("give_ticket", seat="5a")

        assert {"name": "ann"} == replayed.result
        assert not home.is_remote or live.result == replayed.result
