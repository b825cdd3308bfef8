"""The keys that a class marks as secret are hidden in what is recorded of arguments that do not fit."""

# Tests of: journal/secret_tree, journal/redactor

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

import attrs
import pytest
from pydantic import BaseModel
from record_texts import read_journal
from telemetry_rig import RECORD_ALL, Collector, collector  # noqa: F401  # a fixture

from praval_tools import Outcome, Secret, ToolCall, ToolRegistry

KEY = "qwrtzplkjhgf"
LONG_KEY = " ".join(KEY[index:] for index in range(12))


@dataclass
class Limits:
    by_token: dict[Annotated[str, Secret], int]


@attrs.define
class Whole:
    by_token: Annotated[dict[str, int], Secret]


class Model(BaseModel):
    by_token: dict[Annotated[str, Secret], int]


@dataclass
class Deep:
    by_token: Annotated[dict[str, list[dict[str, int]]], Secret]


GIVEN: dict[str, dict[str, Any]] = {
    "wrong value": {"order": {"by_token": {KEY: "abc"}}},
    "long key": {"order": {"by_token": {LONG_KEY: "abc"}}},
    "misspelled parameter": {"ordr": {"by_token": {KEY: 1}}},
    "misspelled field": {"order": {"by_tokn": {KEY: 1}}},
    "in a list": {"order": [{"by_token": {KEY: 1}}]},
    "in text": {"order": json.dumps([{"by_token": {KEY: 1}}])},
    "one level too deep": {"order": {"by_token": {"all": {KEY: 1}}}},
    "one level too shallow": {"order": {KEY: 1}},
    "two levels too shallow": {"by_token": {KEY: 1}},
    "beside another problem": {"order": {"by_token": {KEY: 1}}, "number": "x"},
    "in another parameter": {"order": {"by_token": {KEY: 1}}, "number": {KEY: 1}},
    "twice": {"order": f'{{"by_token": {{"{KEY}": 1, "{KEY}": 2}}}}'},
}


@pytest.mark.parametrize("hint", [Limits, Whole, Model, Deep])
@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("as_text", [False, True], ids=["dict", "text"])
@pytest.mark.parametrize("agent", ["ann", "eve"])
def test_are_hidden(hint: Any, given: str, agent: str, collector: Collector, *, as_text: bool) -> None:
    """Broken promise: a marked key stood in the path of a problem, in its text, and where the value was quoted."""
    arguments = GIVEN[given]
    with ToolRegistry(journal="memory", telemetry=collector.make_telemetry(**RECORD_ALL)) as registry:

        def pay(order: Any, number: int = 1) -> None:
            """Pay."""

        pay.__annotations__["order"] = hint
        registry.tool(owned_by="ann")(pay)
        result = registry.execute(ToolCall("1", "pay", json.dumps(arguments) if as_text else arguments, agent))
        written = read_journal(registry)

    if hint is not Deep and given != "beside another problem":
        assert result.outcome in (Outcome.INVALID_ARGUMENTS, Outcome.FORBIDDEN)
    for text in (written, collector.read_spans()):
        assert "pay" in text
        assert KEY not in text and KEY[1:] not in text


def test_are_hidden_in_repairs() -> None:
    """Broken promise: a marked key stood in the path of a repair of its value."""
    with ToolRegistry(journal="memory") as registry:

        @registry.tool(owned_by="ann")
        def pay(order: Limits) -> None:
            """Pay."""

        result = registry.execute(ToolCall("1", "pay", {"order": {"by_token": {KEY: "3"}}}, "ann"))
        written = read_journal(registry)

    assert Outcome.OK is result.outcome and KEY in result.repairs[0].path
    assert "$.order.by_token.[secret " in written and KEY not in written


def test_names_of_the_schema_stay() -> None:
    """What the schema names is readable, also inside of what is secret, and so is a misspelled parameter."""
    with ToolRegistry(journal="memory") as registry:

        @registry.tool(owned_by="ann")
        def pay(order: Limits, number: int) -> None:
            """Pay."""

        registry.execute(ToolCall("1", "pay", {"ordr": {"by_token": {"number": 1, KEY: 2}}, "number": "x"}, "ann"))
        written = read_journal(registry)

    assert KEY not in written
    assert "'ordr': '[secret " in written and "$.number: is not an integer" in written
