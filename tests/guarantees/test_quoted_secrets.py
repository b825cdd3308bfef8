# Tests of: journal/quotations, journal/redactor
"""What was repaired of a secret argument, or is wrong with it, is in no record and no span, however short it is."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
from annotated_types import MinLen
from pydantic import BaseModel
from record_texts import read_journal
from telemetry_rig import RECORD_ALL, Collector, collector  # noqa: F401  # a fixture

from praval_tools import Outcome, Secret, ToolCall, ToolRegistry

PIN = "7z9"
"""Too short to be looked for in texts, and in no marker."""


class TestRepairs:
    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            ({"cvc": "739"}, "739"),
            ({"codes": '{"RECOVERY-9F3A-77": 1}'}, "RECOVERY"),
            ({"codes": {"RECOVERY-9F3A-77": "1"}}, "RECOVERY"),
            ({"password": '["abc"]'}, "abc"),
            ({"order": {"pin": "739"}}, "739"),
        ],
        ids=str,
    )
    def test_show_no_secret(self, arguments: dict[str, Any], text: str) -> None:
        """Broken promise: values that are too short to be looked for, and keys of a marked dict, were in repairs."""
        registry = ToolRegistry(journal="memory")

        @registry.tool("pay", owned_by="clerk")
        def pay(
            cvc: Annotated[int, Secret] = 1,
            codes: Annotated[dict[str, int], Secret] = {},
            password: list[str] = [],
            order: dict[str, Annotated[int, Secret]] = {},
        ) -> None:
            """Pay."""

        assert "ok" == registry.execute(ToolCall("1", "pay", arguments, "clerk")).outcome
        (event,) = registry.journal.events(type="agent_tool_call")
        assert event.repairs and text not in str(event)

    def test_of_other_arguments_are_shown(self) -> None:
        """What is not secret is there as it was."""
        registry = ToolRegistry(journal="memory")

        @registry.tool("pay", owned_by="clerk")
        def pay(cvc: Annotated[int, Secret], cvc2: int) -> None:
            """Pay."""

        registry.execute(ToolCall("1", "pay", {"cvc": "739", "cvc2": "12"}, "clerk"))
        (event,) = registry.journal.events(type="agent_tool_call")
        assert [("$.cvc", "a secret", "a secret"), ("$.cvc2", '"12"', "12")] == [
            (repair.path, repair.given, repair.became) for repair in event.repairs
        ]


class TestProblems:
    def test_show_no_secret(self) -> None:
        """The value that does not fit is not among them."""
        registry = ToolRegistry(journal="memory")

        @registry.tool("pay", owned_by="clerk")
        def pay(cvc: Annotated[int, Secret]) -> None:
            """Pay."""

        registry.execute(ToolCall("1", "pay", {"cvc": "7b9"}, "clerk"))
        problems = [problem for event in registry.journal.events() for problem in getattr(event, "problems", ())]
        assert [("$.cvc", "a secret")] == [(problem.path, problem.given) for problem in problems]


@dataclass
class Order:
    pin: Annotated[int, Secret] = 1
    password: int = 1
    counts: dict[Annotated[str, Secret], int] = field(default_factory=dict)
    limits: dict[Annotated[str, Secret], int] | None = None


class Account(BaseModel):
    pin: Annotated[int, Secret] = 1
    codes: Annotated[dict[str, int], Secret] = {}


def pay(
    cvc: Annotated[int, Secret] = 1,
    codes: Annotated[dict[str, int], Secret] = {},
    password: list[str] = [],
    pins: dict[str, Annotated[int, Secret]] = {},
    items: list[Annotated[int, Secret]] = [],
    pair: tuple[int, Annotated[int, Secret]] = (1, 2),
    order: Order = Order(),
    orders: list[Order] = [],
    account: Account = Account(),
    word: Annotated[Literal["aa"], Secret] = "aa",
    text: Annotated[str, Secret, MinLen(9)] = "123456789",
    either: Annotated[int, Secret] | list[int] = 1,
    number: int = 1,
) -> None:
    """Pay."""


REFUSED: list[dict[str, Any]] = [
    *({name: value} for name in ("cvc", "password", "items", "either", "CVC", "number")
      for value in ({"pin": PIN, "password": PIN}, {"password": {PIN: 1}})),
    *({name: PIN} for name in ("cvc", "codes", "password", "pins", "items", "word", "text", "either", "cvv")),
    {"codes": {PIN: "x"}}, {"codes": {"a": PIN}}, {"codes": {"a": {PIN: 1}}}, {"codes": json.dumps({PIN: "x"})},
    {"pins": {"a": PIN}}, {"pins": {"a": {PIN: 1}}}, {"pins": [PIN]}, {"items": [1, PIN]}, {"items": [[PIN]]},
    {"pair": [1, PIN]}, {"order": {"pin": PIN}}, {"order": {"password": PIN}}, {"order": {"counts": {PIN: "x"}}},
    {"order": {"counts": {PIN: {PIN: 1}}}}, {"order": {"limits": {PIN: "x"}}}, {"order": {"count": {PIN: 1}}},
    {"order": json.dumps({"counts": {PIN: "x"}})}, {"order": [{"pin": PIN}]}, {"order": {PIN: 1}},
    {"ordr": {"counts": {PIN: 1}}}, {"orders": [{"pin": 1}, {"pin": PIN}]}, {"orders": [{"counts": {PIN: "x"}}]},
    {"account": {"pin": PIN}}, {"account": {"codes": {PIN: "x"}}}, {"account": json.dumps({"codes": {PIN: "x"}})},
]  # fmt: skip


class TestErrors:
    @pytest.mark.parametrize("arguments", REFUSED, ids=str)
    @pytest.mark.parametrize("as_text", [False, True], ids=["dict", "text"])
    def test_quote_no_secret(self, arguments: dict[str, Any], collector: Collector, *, as_text: bool) -> None:
        """Broken promise: the text of the error quoted what the problems beside it hid, here and in telemetry."""
        with ToolRegistry(journal="memory", telemetry=collector.make_telemetry(**RECORD_ALL)) as registry:
            registry.tool(owned_by="ann")(pay)
            call = ToolCall("1", "pay", json.dumps(arguments) if as_text else arguments, "ann")
            result = registry.execute(call)
            written = read_journal(registry)

        assert Outcome.INVALID_ARGUMENTS is result.outcome
        for text in (written, collector.read_spans()):
            assert " are invalid: $." in text and PIN not in text

    def test_show_the_caller_what_it_wrote(self) -> None:
        """Whoever wrote a value may read it in the answer."""
        with ToolRegistry(journal="memory") as registry:
            registry.tool(owned_by="ann")(pay)
            result = registry.execute(ToolCall("1", "pay", {"cvc": PIN}, "ann"))

        assert PIN in str(result.error)

    def test_of_other_arguments_are_shown(self, collector: Collector) -> None:
        """The place of a secret is named, with the marker of a key; what is not secret is shown as it was."""
        arguments = {"order": {"counts": {PIN: "x"}}, "items": [1, PIN], "number": "few", "codes": {PIN: {"a": 1}}}
        with ToolRegistry(journal="memory", telemetry=collector.make_telemetry(**RECORD_ALL)) as registry:
            registry.tool(owned_by="ann")(pay)
            registry.execute(ToolCall("1", "pay", arguments, "ann"))
            (event,) = registry.journal.events(type="call_refused")

        shown = {(problem.path.partition("[secret ")[0], problem.given) for problem in event.problems}
        assert shown == {
            ("$.order.counts.", '"x"'), ("$.items[1]", "a secret"), ("$.number", '"few"'), ("$.codes.", "a secret")
        }  # fmt: skip
        span = collector.read_spans()
        assert all("$.order.counts.[secret " in text and "$.items[1]: is not" in text for text in (event.error, span))
