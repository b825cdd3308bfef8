"""A value under a union comes back as the type that it had, where its JSON could be another one's as well."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple, TypedDict

import attrs
import pytest
from pydantic import BaseModel
from replay_rig import give_in_run, iter_results, make_giver, open_registry

from praval_tools import Outcome, Tool, ToolArgumentsError, ToolRegistry
from praval_tools.journal.storage.open_store import open_store


@dataclass
class Approved:
    note: str


@dataclass
class Rejected:
    note: str


def make_namesake() -> type:
    @dataclass
    class Rejected:
        note: str

    Rejected.__qualname__ = "Rejected"
    return Rejected


Namesake: Any = make_namesake()


@dataclass(frozen=True)
class Vote:
    note: str


@attrs.frozen
class Veto:
    note: str


@attrs.frozen
class Waiting:
    note: str
    then: Approved | Rejected | Waiting | None = None


class Open(BaseModel):
    note: str


class Closed(BaseModel):
    note: str


class Line(NamedTuple):
    note: str


class Entry(TypedDict):
    note: str


class Colour(Enum):
    RED = "red"


class Name(StrEnum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


WAITING = Waiting("a", Waiting("b", Rejected("c")))
VALUES: list[tuple[Any, list[Any]]] = [
    (Approved | Rejected, [Approved("x"), Rejected("x")]),
    (Rejected | Namesake, [Rejected("x"), Namesake("x")]),
    (list[Approved | Rejected | None], [[Rejected("x"), None, Approved("x"), Rejected("x")]]),
    (dict[str, tuple[Approved | Rejected, str]], [{"a": (Rejected("x"), "y"), "b": (Approved("x"), "y")}]),
    (list[Approved] | list[Rejected], [[Rejected("x")]]),
    (Approved | Rejected | Waiting, [WAITING, Waiting("a", Approved("b")), Rejected("a")]),
    (Open | Closed | Approved, [Closed(note="x"), Approved("x")]),
    (Line | Approved, [Line("x"), Approved("x")]),
    (Approved | Entry | dict[str, str], [{"note": "x"}, Approved("x")]),
    (Colour | Name | Literal["red"], [Colour.RED, Name.RED, "red"]),
    (int | Level, [Level.LOW, 1]),
    (float | Level, [Level.LOW, 1.0, 1]),
    (date | str, ["2026-01-01", date(2026, 1, 1)]),
    (str | Decimal | bytes, ["1.5", Decimal("1.5"), b"abc"]),
    (str | PurePosixPath, ["x", PurePosixPath("x")]),
    (set[int] | list[int] | tuple[int, ...], [{1}, [1], (1,)]),
]  # fmt: skip
SETS: list[tuple[Any, Any]] = [
    (set[Vote | Veto], {Vote("a"), Veto("b"), Veto("c"), Vote("d")}),
    (frozenset[date | str], frozenset({"2024-01-01", date(2024, 1, 2), 'say "x"', "é"})),
    (set[tuple[PurePosixPath | str, int]], {("b", 1), (PurePosixPath("a"), 2), ("c", 2)}),
    (list[set[Decimal | str] | None], [{"1.5", Decimal("2.5"), "0.5"}, None]),
]
CASES = [(hint, value) for hint, values in VALUES for value in values]


def decide(no: bool) -> Approved | Rejected:
    """Decide."""
    return Rejected("x") if no else Approved("x")


class TestResults:
    @pytest.mark.parametrize(("hint", "value"), CASES, ids=str)
    def test_are_replayed_as_they_were(self, hint: Any, value: Any, tmp_path: Path) -> None:
        """Broken promise: `Rejected` under `Approved | Rejected` was `Approved` when its run was resumed."""
        live, replayed = iter_results(hint, value, tmp_path / "j.db")

        assert (Outcome.OK, False, True) == (live.outcome, live.replayed, replayed.replayed)
        assert (type(value), repr(value)) == (type(replayed.result), repr(replayed.result))
        assert replayed.result == live.result
        assert live.for_model() == replayed.for_model()

    @pytest.mark.parametrize(("hint", "value"), SETS, ids=repr)
    def test_in_sets_are_replayed_as_they_were(self, hint: Any, value: Any, tmp_path: Path) -> None:
        """Broken promise: members were kept in another order than the JSON: `Veto("b")` was replayed as `Vote("b")`."""
        live, replayed = iter_results(hint, value, tmp_path / "j.db")

        assert (value, value, True) == (live.result, replayed.result, replayed.replayed)

    def test_of_a_union_in_another_order(self, tmp_path: Path) -> None:
        """A release that declares the types in another order reads what the one before it recorded."""
        hints = (Approved | Rejected, Rejected | Approved | Waiting)
        results = [give_in_run(tmp_path / "j.db", make_giver(hint, Rejected("x"))).result for hint in hints]

        assert [Rejected("x")] * 2 == results

    def test_of_a_type_that_is_gone_stay_json(self, tmp_path: Path) -> None:
        """What a type wrote that the union has no more is read as no other."""
        hints = (Approved | Rejected, Approved | Waiting)
        results = [give_in_run(tmp_path / "j.db", make_giver(hint, Rejected("x"))).result for hint in hints]

        assert [Rejected("x"), {"note": "x"}] == results

    def test_of_another_process(self) -> None:
        """Broken promise: a function in a process returned `Rejected`, and its caller got `Approved`."""
        with ToolRegistry() as registry:
            registry.register_tool(Tool.from_function(decide, owned_by="ann", engine="process"))
            tools = registry.toolset("ann")

            assert [Approved("x"), Rejected("x")] == [tools.call("decide", no=no) for no in (False, True)]

    def test_that_the_operator_gives(self, tmp_path: Path) -> None:
        """What a call in doubt is settled with comes back as what it was."""
        entered = []

        def give() -> Approved | Rejected:
            """Give."""
            entered.append(True)
            raise KeyboardInterrupt

        path = tmp_path / "j.db"
        with pytest.raises(KeyboardInterrupt):
            give_in_run(path, give)
        with open_registry(path, give) as registry, registry.run("r") as run:
            run.resolve("c", result=Rejected("x"))

        assert Rejected("x") == give_in_run(path, give).result
        assert [True] == entered

    def test_whose_json_says_it_are_kept_without(self, tmp_path: Path) -> None:
        """The journal holds nothing more for unions whose members write different types of JSON."""
        path, hint = tmp_path / "j.db", int | float | str | list[int] | None
        give_in_run(path, make_giver(hint, "x"))
        with closing(open_store(str(path))) as store:
            bodies = [record.body for record in store.read()]

        assert bodies
        assert not [body for body in bodies if b"union_members" in body]


class TestArguments:
    def test_of_a_class_that_would_come_as_another_are_refused(self) -> None:
        """Broken promise: `call("decide", answer=Rejected(…))` entered the tool with `Approved`."""
        got: list[object] = []

        def decide(answer: list[Approved | Rejected], where: str | PurePosixPath = "") -> None:
            """Decide."""
            got.append(answer)

        with ToolRegistry() as registry:
            registry.tool(owned_by="ann")(decide)
            tools = registry.toolset("ann")
            with pytest.raises(ToolArgumentsError, match="Rejected"):
                tools.call("decide", answer=[Approved("x"), Rejected("x")])
            tools.call("decide", answer=[Approved("x")], where=PurePosixPath("a"))
            tools.call("decide", answer=[{"note": "y"}])

        assert [[Approved("x")], [Approved("y")]] == got
