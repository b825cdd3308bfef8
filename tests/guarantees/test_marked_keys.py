"""The keys that a class marks as secret are hidden in what is recorded, whatever hint its instances have."""

# Tests of: schema/marked_values

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple
from uuid import UUID

import attrs
import pytest
from pydantic import BaseModel, RootModel
from record_texts import read_journal
from telemetry_rig import RECORD_ALL, Collector, collector  # noqa: F401  # a fixture
from typing_extensions import TypedDict

from praval_tools import Secret, ToolCall, ToolRegistry
from praval_tools.errors import ToolError
from praval_tools.journal.events import AgentToolCall, AgentToolResult

SECRET = "7e57abcd-0000-4000-8000-00000000beef"
SecretText = Annotated[str, Secret]


@dataclass
class Tokens:
    by_name: dict[SecretText, int]


@attrs.define
class TokensOfAttrs:
    by_name: dict[str, dict[SecretText, int]]


class TokensOfTuple(NamedTuple):
    by_name: list[dict[SecretText, int]]


class TokensOfModel(BaseModel):
    by_name: dict[SecretText, int]


class TokensById(BaseModel):
    by_id: dict[Annotated[UUID, Secret], int]


class TokensAlone(RootModel[dict[SecretText, int]]):
    pass


class TokensBeside(BaseModel, extra="allow"):
    __pydantic_extra__: dict[str, Annotated[dict[str, int], Secret]]


@dataclass
class Inner:
    by_name: dict[str, int]


@dataclass
class Whole:
    """Marks dicts as a whole: one of its own, and one in an instance."""

    by_name: Annotated[dict[str, Any], Secret]
    inner: Annotated[Inner, Secret]


@dataclass
class Loose:
    """Holds a dict where its hint names a class that marks keys."""

    tokens: Tokens


class Customer(TypedDict):
    email: SecretText
    by_name: dict[SecretText, int]


@dataclass
class Order:
    customer: Customer


class OrderModel(BaseModel):
    customer: Customer | None


KINDS: dict[str, Callable[[], Any]] = {
    "dataclass": lambda: Tokens({SECRET: 1}),
    "attrs": lambda: TokensOfAttrs({"all": {SECRET: 1}}),
    "named tuple": lambda: TokensOfTuple([{SECRET: 1}]),
    "model": lambda: TokensOfModel(by_name={SECRET: 1}),
    "model by id": lambda: TokensById(by_id={SECRET.upper(): 1}),
    "root model": lambda: TokensAlone({SECRET: 1}),
    "extra keys": lambda: TokensBeside(by_name={SECRET: 1}),
    "whole": lambda: Whole({SECRET: 1}, Inner({})),
    "whole, nested": lambda: Whole({"all": [{SECRET: 1}]}, Inner({})),
    "whole instance": lambda: Whole({}, Inner({SECRET: 1})),
    "typed dict": lambda: Order({"email": "", "by_name": {SECRET: 1}}),
    "typed dict of a model": lambda: OrderModel(customer={"email": "", "by_name": {SECRET: 1}}),
    "no instance": lambda: Loose({"by_name": {SECRET: 1}}),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hint", [Any, dict, "class"], ids=["Any", "dict", "class"])
@pytest.mark.parametrize("way", ["argument", "result", "unknown tool"])
def test_are_hidden(kind: str, hint: Any, way: str, collector: Collector) -> None:
    """Broken promise: a marked key stood in arguments, results and spans where no hint named its class."""
    value = KINDS[kind]()
    with ToolRegistry(journal="memory", telemetry=collector.make_telemetry(**RECORD_ALL)) as registry:

        def save(record: Any = None) -> Any:
            """Save."""
            return value if way == "result" else 1

        save.__annotations__["return" if way == "result" else "record"] = type(value) if hint == "class" else hint
        registry.tool(shared=True)(save)
        arguments = {} if way == "result" else {"record": [value] if hint is Any else value}
        if way == "unknown tool":
            registry.execute(ToolCall("1", "sav", arguments, "ann"))
        else:
            with suppress(ToolError):  # some have no JSON form, or another one than their hint says
                registry.toolset("ann").call("save", **arguments)
        written = read_journal(registry)

    for text in (written, collector.read_spans()):
        assert "sav" in text
        assert SECRET not in text.lower()


def test_names_of_the_schema_stay() -> None:
    """A key that a class marks may have the name of a parameter, or of a field of what is returned."""

    @dataclass
    class Receipt:
        amount: int

    with ToolRegistry(journal="memory") as registry:

        @registry.tool(shared=True)
        def save(record: Any, amount: int, note: str = "") -> Receipt:
            """Save."""
            return Receipt(amount)

        registry.toolset("ann").call("save", record=Tokens({"amount": 1, "note": 2}), amount=3, note="an amount")
        assert registry.journal is not None
        events = list(registry.journal.events())
    (call,) = (event for event in events if isinstance(event, AgentToolCall))
    (result,) = (event for event in events if isinstance(event, AgentToolResult))

    assert ["record", "amount", "note"] == list(call.arguments)
    assert "an [secret " in call.arguments["note"] and 3 == call.arguments["amount"]
    assert ["by_name"] == list(call.arguments["record"]) and "amount" not in call.arguments["record"]["by_name"]
    assert {"amount": 3} == result.result


@pytest.mark.parametrize("kind", [Order, OrderModel])
def test_names_of_fields_stay(kind: Any) -> None:
    """The names of the fields of a TypedDict stay readable where one of them is marked: JSON has them as keys."""
    customer = {"email": "ann@example.org", "by_name": {SECRET: 1}}
    with ToolRegistry(journal="memory") as registry:

        @registry.tool(shared=True)
        def save(record: Any, note: str) -> int:
            """Save."""
            return 1

        registry.toolset("ann").call("save", record=kind(customer=customer), note="an email to ann@example.org")
        assert registry.journal is not None
        (call,) = (event for event in registry.journal.events() if isinstance(event, AgentToolCall))

    assert {"email", "by_name"} == call.arguments["record"]["customer"].keys()
    assert call.arguments["note"].startswith("an email to [secret ")
