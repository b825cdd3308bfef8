"""A secret in a call that no tool gets is hidden in the spelling that a tool would get, whatever its parameter is."""

# Tests of: runs/call_secrets

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Annotated, Any, NewType, TypedDict
from uuid import UUID

import pytest
from pydantic import BaseModel, StringConstraints
from record_texts import read_journal
from typing_extensions import TypeAliasType

from praval_tools import Deny, Outcome, Secret, ToolCall, ToolRegistry
from praval_tools.loop import ModelReply, ToolLoop
from praval_tools.testing import fake_model

UPPER_ID = "ABCDEFAB-CDEF-4BCD-ABCD-ABCDEFABCDEF"
LOWER_ID = UPPER_ID.lower()

Secretive = Annotated[UUID, Secret]
AccountId = NewType("AccountId", UUID)
Alias = TypeAliasType("Alias", Secretive)


class Held(TypedDict):
    account: Secretive


class Typed(BaseModel):
    pin: Annotated[str, StringConstraints(strip_whitespace=True, to_lower=True), Secret]


KINDS: dict[str, tuple[Any, Any, str]] = {
    "type": (Secretive, UPPER_ID, LOWER_ID),
    "new type": (Annotated[AccountId, Secret], UPPER_ID, LOWER_ID),
    "alias": (Alias, UPPER_ID, LOWER_ID),
    "member": (Held, {"account": UPPER_ID}, LOWER_ID),
    "member of a class": (Typed, {"pin": "  Zq7xSecret "}, "zq7xsecret"),
    "name of a key": (dict[str, UUID], {"token": UPPER_ID}, LOWER_ID),
    "items of which one does not fit": (list[Secretive], [UPPER_ID, "none"], LOWER_ID),
    "members of which one does not fit": (dict[str, Secretive], {"a": UPPER_ID, "b": 1}, LOWER_ID),
    "list as text": (list[Secretive], json.dumps([UPPER_ID]), LOWER_ID),
    "union": (int | Secretive, UPPER_ID, LOWER_ID),
    "with spaces": (Secretive, f" {UPPER_ID} ", LOWER_ID),
    "in braces": (Secretive, f"{{{UPPER_ID}}}", LOWER_ID),
    "without hyphens": (Secretive, UPPER_ID.replace("-", ""), LOWER_ID),
    "path": (list[Annotated[PurePosixPath, Secret]], ["/srv//of-the-bank", 1], "/srv/of-the-bank"),
    "integer": (list[Annotated[int, Secret]], ["72945183.0", "none"], "72945183"),
    "number": (list[Annotated[float, Secret]], ["7294518.30", "none"], "7294518.3"),
}
each_kind = pytest.mark.parametrize("kind", KINDS)
each_refusal = pytest.mark.parametrize("refusal", ["forbidden", "invalid", "unknown", "missing", "disabled", "denied"])
each_place = pytest.mark.parametrize("is_named", [True, False], ids=["parameter", "others"])


def declare(registry: ToolRegistry, kind: str, *, is_named: bool) -> None:
    """Declare the tool `take` of ann, whose `value` is a parameter of its own, or one of `**others`."""

    def take_named(id: int, value: Any, note: str = "") -> None:
        """Take."""

    def take_others(id: int, note: str = "", **value: Any) -> None:
        """Take."""

    take: Callable[..., None] = take_named if is_named else take_others
    take.__annotations__ |= {"value": KINDS[kind][0]}
    registry.tool("take", owned_by="ann")(take)


@each_kind
@each_refusal
@each_place
def test_refused_calls_quote_none(kind: str, refusal: str, *, is_named: bool) -> None:
    """Broken promise: a UUID under `**kwargs`, or beside an item that did not fit, was recorded in lower case."""
    _, given, spelling = KINDS[kind]
    arguments: dict[str, Any] = {"id": 1, "value": given, "note": f"for {spelling}"}
    with ToolRegistry(journal="memory") as registry:
        declare(registry, kind, is_named=is_named)
        if refusal == "disabled":
            registry.disable("take")
        elif refusal == "denied":
            registry.add_policy(lambda *_: Deny("no"))
        elif refusal == "missing":
            del arguments["id"]
        else:
            arguments |= {"invalid": {"id": "one"}, "unknown": {f"{'' if is_named else 'un'}known": None}}.get(
                refusal, {}
            )
        agent = "bob" if refusal == "forbidden" else "ann"
        result = registry.execute(ToolCall("c", "take", arguments, agent, reason=f"since {spelling}"))
        written = read_journal(registry)

    assert Outcome.OK is not result.outcome
    assert "for [secret " in written and "since [secret " in written
    assert spelling not in written


@each_kind
@each_place
def test_replies_of_models_quote_none(kind: str, *, is_named: bool) -> None:
    """Broken promise: a reply was recorded with a UUID in lower case beside the call that had it in upper case."""
    _, given, spelling = KINDS[kind]
    with ToolRegistry(journal="memory") as registry:
        declare(registry, kind, is_named=is_named)
        call = ToolCall("c", "take", {"id": 1, "value": given, "note": f"for {spelling}"})
        reply = ModelReply(text=f"With {spelling}:", calls=(call,))
        ToolLoop(registry.agent("ann"), fake_model(reply, f"It was {spelling}.")).run("Go.", "r")
        written = read_journal(registry)

    assert "With [secret " in written and "for [secret " in written and "It was [secret " in written
    assert spelling not in written


SHORT_BOUNDS: list[dict[str, Any]] = [
    {"card": {"not": {"properties": {"kind": {"const": "x"}}}}}, {"card": {"maxProperties": 2}},
    {"card": {"minProperties": 4}}, {"card": {"properties": {"pin": {"not": {"minimum": 10}}}}},
    {"card": {"properties": {"code": {"not": {"pattern": "^Q"}}}}}, {"codes": {"not": {"minItems": 1}}},
    {"more": {"not": {"properties": {"password": {"type": "integer"}}}}},
    {"more": {"additionalProperties": False}},
    {"type": "object", "not": {"properties": {"card": {"properties": {"kind": {"const": "x"}}}}}},
]  # fmt: skip


@pytest.mark.parametrize("bound", SHORT_BOUNDS, ids=str)
def test_reasons_of_bounds_quote_none(bound: dict[str, Any]) -> None:
    """Broken promise: a bound on the whole of an object quoted it, with short secrets, which are in no search."""

    class Card(TypedDict):
        kind: str
        pin: Annotated[int, Secret]
        code: Annotated[str, Secret]

    def pay(card: Any, codes: Any, more: dict[str, Any]) -> str:
        """Pay."""
        return "paid"

    pay.__annotations__ |= {"card": Card, "codes": Annotated[list[int], Secret]}
    with ToolRegistry(journal="memory") as registry:
        registry.tool("pay", owned_by="bank")(pay)
        registry.grant("pay", "ann", where=bound)
        arguments = {"card": {"kind": "x", "pin": 471, "code": "Q9"}, "codes": [582, 582], "more": {"password": 737}}
        assert registry.execute(ToolCall("c", "pay", arguments, "ann")).outcome is Outcome.FORBIDDEN
        assert registry.journal is not None
        (event,) = registry.journal.events(type="call_refused")
        assert "outside the grant" in event.decision.reason
        assert not [secret for secret in ("471", "Q9", "582", "737") if secret in event.decision.reason]
