"""What a pydantic model would read back as another value, as of unions or bytes, is never given on as that."""

# Tests of: schema/whole_values, tools/compiled

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, Base64Bytes, BaseModel, ConfigDict, Field, field_validator
from replay_rig import iter_results

from praval_tools import Agent, Outcome, ToolArgumentsError, ToolCall, ToolRegistry


class Approve(BaseModel):
    reason: str


class Reject(BaseModel):
    reason: str


class Verdict(BaseModel):
    action: Approve | Reject


class Verdicts(BaseModel):
    actions: dict[str, list[Approve | Reject | None]]


class Tone(StrEnum):
    DARK = "dark"


class Day(BaseModel):
    day: str | date


class Price(BaseModel):
    price: str | Decimal


class Place(BaseModel):
    place: list[str | Path]


class Toned(BaseModel):
    tone: Annotated[str | Tone, Field(union_mode="left_to_right")]


class TonedFirst(BaseModel):
    tone: Annotated[Tone | str, Field(union_mode="left_to_right")]


@dataclass
class DayInside:
    day: str | date


class Holder(BaseModel):
    inner: DayInside


class Loose(BaseModel):
    value: Any
    other: str | date = ""


class Number(BaseModel):
    number: int | str | None
    approve: Approve | None = None


REJECT = Reject(reason="fraud")
OTHER_MEMBERS: list[tuple[Any, Any]] = [
    (Verdict, Verdict(action=REJECT)), (list[Verdict], [Verdict(action=REJECT)]),
    (Verdicts, Verdicts(actions={"a": [None, REJECT]})), (Day, Day(day=date(2026, 3, 2))),
    (Price, Price(price=Decimal("1.50"))), (Place, Place(place=[Path("/a")])),
    (Toned, Toned.model_construct(tone=Tone.DARK)),
    (TonedFirst, TonedFirst.model_construct(tone="dark")), (Holder, Holder(inner=DayInside(date(2026, 3, 2)))),
]  # fmt: skip
FIRST_MEMBERS: list[tuple[Any, Any]] = [
    (Verdict, Verdict(action=Approve(reason="fine"))), (Day, Day(day="2026-03-02")), (Price, Price(price="1.50")),
    (Verdicts, Verdicts(actions={"a": [None, Approve(reason="fine")]})), (Number, Number(number=1)),
    (Number, Number(number="1", approve=Approve(reason="fine"))), (Holder, Holder(inner=DayInside("a"))),
    (Loose, Loose(value=[1, {"a": "b"}])),
]  # fmt: skip


class TestResults:
    @pytest.mark.parametrize(("hint", "value"), OTHER_MEMBERS, ids=str)
    def test_are_json_where_they_would_be_another_value(self, hint: Any, value: Any, tmp_path: Path) -> None:
        """Broken promise: a replayed verdict approved what had been rejected, and a day came back as a text."""
        live, replayed = iter_results(hint, value, tmp_path / "j.db")

        assert (Outcome.OK, True) == (live.outcome, replayed.replayed)
        assert live.result is value or [*live.result] == [*value]
        assert json.loads(live.for_model()) == replayed.result

    @pytest.mark.parametrize(("hint", "value"), FIRST_MEMBERS, ids=str)
    def test_keep_their_class_where_they_read_back(self, hint: Any, value: Any, tmp_path: Path) -> None:
        """A value of the member that is read first, or that its JSON tells apart, is an object as before."""
        live, replayed = iter_results(hint, value, tmp_path / "j.db")

        assert (Outcome.OK, True) == (live.outcome, replayed.replayed)
        assert type(value) is type(replayed.result)
        assert value == replayed.result

    def test_are_json_under_any_type_in_a_class(self, tmp_path: Path) -> None:
        """Where a field takes anything, what it holds comes back as JSON inside of its class."""
        live, replayed = iter_results(Loose, Loose(value=date(2026, 3, 2)), tmp_path / "j.db")

        assert (date(2026, 3, 2), "2026-03-02") == (live.result.value, replayed.result.value)


class Picture(BaseModel):
    data: bytes


class Album(BaseModel):
    pictures: dict[str, list[bytes | None]]


class WritesBase64(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    data: bytes


class Encoded(BaseModel):
    data: Base64Bytes


class Cents(BaseModel):
    cents: int

    @field_validator("cents")
    @classmethod
    def read_euros(cls, euros: int) -> int:
        """Return cents."""
        return euros * 100


class Doubled(BaseModel):
    number: Annotated[int, AfterValidator(lambda number: number * 2)]


class Lower(BaseModel):
    text: Annotated[str, AfterValidator(str.lower)]


@dataclass
class PictureInside:
    picture: Picture


READ_AS_ANOTHER: list[tuple[Any, Any]] = [
    (Picture, Picture(data=b"hi")), (list[Picture], [Picture(data=b"hi")]), (Album, Album(pictures={"a": [b"hi"]})),
    (Picture | None, Picture(data=b"hi")), (PictureInside, PictureInside(Picture(data=b"hi"))),
    (Cents, Cents(cents=2)), (Doubled, Doubled(number=1)),
    *(case for case in OTHER_MEMBERS if "Toned" not in case[0].__name__),
]  # fmt: skip
READ_AS_GIVEN: list[tuple[Any, Any]] = [
    (WritesBase64, WritesBase64(data=b"hi\xff")), (Encoded, Encoded(data=b"aGk=")), (Lower, Lower(text="A")),
    (Picture, Picture(data=b"")), (PictureInside, PictureInside(Picture(data=b""))), *FIRST_MEMBERS,
]  # fmt: skip


class TestArguments:
    @pytest.mark.parametrize(("hint", "value"), READ_AS_ANOTHER, ids=str)
    def test_that_would_be_another_value_are_refused(self, hint: Any, value: Any) -> None:
        """Broken promise: a tool got the base64 of the bytes of an object, a rejection as an approval, euros twice."""
        got, agent = make_taker(hint)

        with pytest.raises(ToolArgumentsError, match="is not a JSON value but .*pass JSON instead"):
            agent.call("take", value=value)

        assert [] == got

    @pytest.mark.parametrize(("hint", "value"), READ_AS_GIVEN, ids=str)
    def test_that_read_back_reach_the_tool(self, hint: Any, value: Any) -> None:
        """An object that reads back as what it is comes to the tool as before."""
        got, agent = make_taker(hint)

        agent.call("take", value=value)

        assert [value] == got

    def test_of_models_are_read_once(self) -> None:
        """JSON is read by a model as it always was: its validators run once, and bytes are its text."""
        for hint, given, expected in ((Cents, {"cents": 2}, Cents(cents=2)), (Picture, {"data": "hi"}, b"hi")):
            got, agent = make_taker(hint)
            assert Outcome.OK is agent.execute(ToolCall(name="take", arguments={"value": given})).outcome
            assert expected in (got[0], getattr(got[0], "data", None))


def make_taker(hint: Any) -> tuple[list[Any], Agent]:
    """Return what a tool with a parameter of this hint was given, and the agent that has the tool."""
    got: list[Any] = []
    agent = Agent("ann", registry=ToolRegistry())

    def take(value: Any) -> None:
        """Take."""
        got.append(value)

    take.__annotations__["value"] = hint
    agent.tool(take)
    return got, agent
