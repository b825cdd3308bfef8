# Tests of: journal/short_secrets, journal/secret_finder
"""Secrets that are too short to be searched for are hidden in their places, also where no schema names these."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import attrs
import process_tools
import pytest
from process_tools import Card
from pydantic import BaseModel, Field

from praval_tools import Allow, Outcome, Secret, ToolApprovalError, ToolArgumentsError, ToolCall, ToolRegistry


@attrs.frozen
class AttrsCard:
    number: str
    code: Annotated[str, Secret]
    pin: Annotated[int, Secret]


class ModelCard(BaseModel):
    number: str
    code: Annotated[str, Secret]
    pin: Annotated[int, Secret]


MAKERS = [Card, AttrsCard, lambda *values: ModelCard(number=values[0], code=values[1], pin=values[2])]
PLACES: list[tuple[Any, Callable[[object], object]]] = [
    (Any, lambda card: card), (dict[str, Any], lambda card: {"at": card}), (list[Any], lambda card: [1, card]),
    (Any, lambda card: {"cards": [card, {"code": "731", "pin": 73}]}),
]  # fmt: skip


def make_card(maker: Callable[..., object]) -> object:
    """Return an object with short secrets."""
    return maker("4111", "73x", 97)


def read_events(registry: ToolRegistry) -> str:
    """Return the text of all events."""
    assert registry.journal is not None
    return " ".join(repr(event) for event in registry.journal.events())


def check_hidden(registry: ToolRegistry) -> None:
    """Check that no event shows a secret, and that each shows what is none."""
    text = read_events(registry)
    assert "73x" not in text and not re.search(r"pin\W+97\b", text)
    assert "4111" in text and "[secret " in text


@pytest.mark.parametrize(("hint", "put"), PLACES)
@pytest.mark.parametrize("maker", MAKERS)
class TestUnderAny:
    """Broken promise: a code of three digits stood in the journal."""

    def test_in_results(self, maker: Callable[..., object], hint: Any, put: Callable[[object], object]) -> None:
        """The caller gets the object."""
        registry, card = ToolRegistry(journal="memory"), put(make_card(maker))

        def give() -> Any:
            """Give."""
            return card

        give.__annotations__["return"] = hint
        registry.tool("give", shared=True)(give)
        assert card == registry.agent("ann").call("give")
        check_hidden(registry)

    @pytest.mark.parametrize("way", ["call", "execute"])
    def test_in_arguments(
        self, maker: Callable[..., object], hint: Any, put: Callable[[object], object], way: str
    ) -> None:
        """Those of `call` become JSON, those of `execute` are refused: both are recorded."""
        registry, card = ToolRegistry(journal="memory"), put(make_card(maker))

        def take(card: Any) -> None:
            """Take."""

        take.__annotations__["card"] = hint
        registry.tool("take", shared=True)(take)
        if way == "call":
            registry.agent("ann").call("take", card=card)
        else:
            assert Outcome.INVALID_ARGUMENTS is registry.execute(ToolCall(None, "take", {"card": card}, "ann")).outcome
        check_hidden(registry)

    def test_in_approvals(self, maker: Callable[..., object], hint: Any, put: Callable[[object], object]) -> None:
        """What an approver writes is hidden as well, also where it is refused for not being JSON."""
        registry, card = ToolRegistry(journal="memory"), put(make_card(maker))

        def take(card: Any) -> None:
            """Take."""

        take.__annotations__["card"] = hint
        registry.tool("take", shared=True, requires_approval=True)(take)
        registry.approvals.handler = lambda request: Allow(arguments={"card": card})
        with pytest.raises(ToolArgumentsError):
            registry.agent("ann").call("take", card=put(None))
        text = read_events(registry)
        assert "73x" not in text and not re.search(r"pin\W+97\b", text)


def test_a_call_is_found_by_them(tmp_path: Path) -> None:
    """A call with another short secret is another one; a recorded one is found."""
    ran = list[object]()
    for pins in ([1, 2], [1, 2, 3]):
        with ToolRegistry(journal=tmp_path / "runs.db") as registry, registry.run("r"):

            @registry.tool("take", shared=True)
            def take(card: Any) -> None:
                """Take."""
                ran.append(card)

            for pin in pins:
                registry.agent("ann").call("take", card=Card("4111", "73x", pin))
    assert 3 == len(ran)


@dataclass
class Vault:
    keys: Annotated[dict[str, Any], Secret]


KEYS = {"name": "a long enough name", "pin": 97, "password": "73x", "codes": ["73x", "another long text"]}


@pytest.mark.parametrize("way", ["arguments", "result"])
@pytest.mark.parametrize("hint", [Any, Vault])
def test_beside_long_ones(hint: Any, way: str) -> None:
    """Broken promise: a field that held a longer text, too, was not hidden any more once that was."""
    registry = ToolRegistry(journal="memory")

    def take(vault: Any) -> Any:
        """Take."""
        return Vault(KEYS) if way == "result" else None

    take.__annotations__.update({"vault": hint, "return": hint if way == "result" else Any})
    registry.tool("take", shared=True)(take)
    registry.agent("ann").call("take", vault=Vault(KEYS))
    text = read_events(registry)
    assert "73x" not in text and "long" not in text and not re.search(r"pin\W+97\b", text)


class Payment(BaseModel):
    note: str = ""


class CardPayment(Payment):
    code: Annotated[str, Secret] = ""


class Named(BaseModel):
    code: Annotated[str, Secret] = Field(validation_alias="cardCode", serialization_alias="card-code")


def test_in_problems() -> None:
    """Broken promise: the error of a refused call quoted what the same record hides."""
    registry = ToolRegistry(journal="memory")

    @registry.tool("take", shared=True)
    def take(payments: list[Payment]) -> None:
        """Take."""

    with pytest.raises(ToolArgumentsError):
        registry.agent("ann").call("take", payments=[CardPayment(code="73x")])
    assert "73x" not in read_events(registry)


def test_under_other_names() -> None:
    """Broken promise: a field that has one name to be read by and another to be written was not found."""
    registry = ToolRegistry(journal="memory")

    @registry.tool("take", shared=True)
    def take(card: Any) -> Any:
        """Take."""
        return Named(cardCode="73x")

    registry.agent("ann").call("take", card=Named(cardCode="73x"))
    assert "73x" not in read_events(registry)


@pytest.mark.parametrize("asked", [None, Card("4111", "7y3", 96)])
def test_in_answers_of_the_operator(asked: object) -> None:
    """Broken promise: an edit that was given later was recorded with them, above all where others were asked about."""
    registry = ToolRegistry(journal="memory")

    @registry.tool("take", shared=True, requires_approval=True)
    def take(card: Any) -> None:
        """Take."""

    with pytest.raises(ToolApprovalError):
        registry.agent("ann").call("take", card=asked)
    (request,) = registry.approvals.pending()
    registry.approvals.answer(request.id, Allow(arguments={"card": make_card(Card)}))
    text = read_events(registry)
    assert "73x" not in text and "7y3" not in text and not re.search(r"pin\W+97\b", text) and "4111" in text


def test_in_calls_of_tools_in_other_processes() -> None:
    """Broken promise: what such a tool passed on was recorded with them."""
    registry = ToolRegistry(journal="memory")

    @registry.tool("take", shared=True)
    def take(card: Any) -> None:
        """Take."""

    registry.tool("pass_card", shared=True, engine="process")(process_tools.pass_card)
    registry.agent("ann").call("pass_card")
    text = read_events(registry)
    assert "73x" not in text and not re.search(r"pin\W+97\b", text) and "4111" in text
    registry.close()


@pytest.mark.parametrize("asks", [True, False])
def test_in_defaults(asks: bool) -> None:
    """Broken promise: an approver was asked about a default, which the journal then had with them."""
    registry, default = ToolRegistry(journal="memory"), make_card(Card)

    @registry.tool("take", shared=True, requires_approval=asks)
    def take(number: int, card: Any = default) -> None:
        """Take."""

    with pytest.raises(ToolApprovalError) if asks else nullcontext():
        registry.agent("ann").call("take", number=1)
    text = read_events(registry)
    assert "73x" not in text and not re.search(r"pin\W+97\b", text)
