# Tests of: journal/quotations, journal/redactor
"""What was repaired of a secret argument, or is wrong with it, is in no record and no span, however short it is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
from annotated_types import MinLen
from approval_answers import execute_answered
from pydantic import BaseModel
from record_texts import read_journal
from telemetry_rig import RECORD_ALL, Collector, collector  # noqa: F401  # a fixture

from praval_tools import Allow, Outcome, Secret, ToolCall, ToolRegistry

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
        written = str((event.repairs, event.arguments))
        assert event.repairs
        assert text not in re.sub(r"\[secret [^\]]*\]", "", written)  # a digest may hold it by chance

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


def check_refusal(
    function: Callable[..., None], arguments: dict[str, Any], collector: Collector, *, as_text: bool
) -> None:
    """Check that a call is refused for its arguments, and that the secret in them is in no record and no span."""
    with ToolRegistry(journal="memory", telemetry=collector.make_telemetry(**RECORD_ALL)) as registry:
        registry.tool("pay", owned_by="ann")(function)
        call = ToolCall("1", "pay", json.dumps(arguments) if as_text else arguments, "ann")
        result = registry.execute(call)
        written = read_journal(registry)

    assert Outcome.INVALID_ARGUMENTS is result.outcome
    for text in (written, collector.read_spans()):
        assert " are invalid: $." in text and PIN not in text


class TestErrors:
    @pytest.mark.parametrize("arguments", REFUSED, ids=str)
    @pytest.mark.parametrize("as_text", [False, True], ids=["dict", "text"])
    def test_quote_no_secret(self, arguments: dict[str, Any], collector: Collector, *, as_text: bool) -> None:
        """Broken promise: the text of the error quoted what the problems beside it hid, here and in telemetry."""
        check_refusal(pay, arguments, collector, as_text=as_text)

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


@dataclass
class Setting:
    name: str
    value: int
    note: str = ""


@dataclass
class Header:
    header: str
    value: dict[str, int]


def configure(
    name: str = "",
    value: int = 0,
    setting: Setting | None = None,
    settings: list[Setting] = [],
    headers: list[Header] = [],
    either: Setting | int = 0,
) -> None:
    """Configure."""


NAMED: list[dict[str, Any]] = [
    {"name": "password", "value": PIN}, {"settings": [{"name": "size", "value": 1}, {"name": "pwd", "value": PIN}]},
    {"setting": {"name": "password", "value": PIN}}, {"headers": [{"header": "Cookie", "value": {"a": PIN}}]},
    {"headers": json.dumps([{"header": "Cookie", "value": {"a": PIN}}])},
    {"settings": [json.dumps({"name": "password", "value": PIN})]},
    {"settings": [{"name": "password", "value": PIN, "note": "x" * 200}]},
    {"either": {"note": "x" * 200, "name": "password", "value": PIN}},
]  # fmt: skip


class TestValuesThatAreNamedBesideThem:
    @pytest.mark.parametrize("arguments", NAMED, ids=str)
    @pytest.mark.parametrize("as_text", [False, True], ids=["dict", "text"])
    def test_are_in_no_problem(self, arguments: dict[str, Any], collector: Collector, *, as_text: bool) -> None:
        """Broken promise: where the name of a short secret stands in a key beside it, a refused call quoted it."""
        check_refusal(configure, arguments, collector, as_text=as_text)

    @pytest.mark.parametrize("arguments", NAMED, ids=str)
    def test_are_in_no_repair(self, arguments: dict[str, Any]) -> None:
        """Broken promise: so did a repair."""
        with ToolRegistry(journal="memory") as registry:
            registry.tool(owned_by="ann")(configure)
            registry.execute(ToolCall("1", "configure", json.dumps(arguments).replace(PIN, "739"), "ann"))
            (event,) = registry.journal.events(type="agent_tool_call")

        assert event.repairs
        assert not any("739" in text for repair in event.repairs for text in (repair.given, repair.became))

    def test_are_not_quoted_where_an_approver_wrote_them(self) -> None:
        """What stands beside it in the edit counts, not what the caller gave."""
        with ToolRegistry(journal="memory") as registry:
            registry.tool(owned_by="ann", requires_approval=True)(configure)
            call = ToolCall("1", "configure", {"settings": [{"name": "size", "value": 1}]}, "ann")
            edit = Allow(arguments={"settings": [{"name": "password", "value": PIN}]})
            result = execute_answered(registry, call, lambda _: edit, is_later=False)
            (event,) = registry.journal.events(type="call_refused")

        assert Outcome.INVALID_ARGUMENTS is result.outcome
        assert [("$.settings[0].value", "a secret")] == [(item.path, item.given) for item in event.problems]
        assert PIN not in str(event.error)

    def test_of_other_names_are_shown(self) -> None:
        """The value of a setting whose name tells of no secret is shown as it was."""
        with ToolRegistry(journal="memory") as registry:
            registry.tool(owned_by="ann")(configure)
            arguments = {"name": "size", "value": "few", "settings": [{"name": "pages", "value": "many"}]}
            registry.execute(ToolCall("1", "configure", arguments, "ann"))
            (event,) = registry.journal.events(type="call_refused")

        assert {("$.value", '"few"'), ("$.settings[0].value", '"many"')} == {
            (problem.path, problem.given) for problem in event.problems
        }
