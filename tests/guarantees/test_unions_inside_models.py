"""A pydantic model with a union of types that write the same JSON: what it holds is never given on as another value."""

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
from pydantic import BaseModel, Field
from replay_rig import iter_results

from praval_tools import Outcome


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
