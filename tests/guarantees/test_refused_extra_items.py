"""A secret under a key that a TypedDict takes only by its `extra_items` is hidden, though no tool gets that key."""

# Tests of: schema/class_fields, schema/lost_marks, tools/mark_schemas

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

import pydantic
import pytest
from pydantic import BaseModel
from record_texts import read_journal
from typing_extensions import ReadOnly, TypedDict

from praval_tools import Deny, Outcome, Secret, ToolCall, ToolRegistry
from praval_tools.schema.class_fields import list_extra_hints

HIDDEN = "zq7x-extra-item"
T = TypeVar("T")
Phrase = Annotated[str, Secret]


class Account(TypedDict, extra_items=Phrase):  # type: ignore[call-arg]
    """Takes any other key, as its hint says."""

    user: str


class SmallAccount(Account):
    """Says nothing of other keys itself."""


class LaterAccount(TypedDict, extra_items="Annotated[str, Secret]"):  # type: ignore[call-arg]
    """Names the hint of other keys by a text."""

    user: str


class UnknownAccount(TypedDict, extra_items="Missing"):  # type: ignore[call-arg] # noqa: F821
    """Nobody knows what other keys hold."""

    user: str


class FixedAccount(TypedDict, extra_items=ReadOnly[Phrase]):  # type: ignore[call-arg, valid-type]
    """Its other keys cannot be changed."""

    user: str


class AccountOf(TypedDict, Generic[T], extra_items=T):  # type: ignore[call-arg]
    """Takes what its parameter says under any other key."""

    user: str


class PhraseAccount(AccountOf[Phrase]):
    """Says by its base what other keys hold."""


class Accounts(TypedDict, extra_items=Account):  # type: ignore[call-arg]
    """Has an account under each key."""

    user: str


class Tree(TypedDict, extra_items="Tree | Phrase"):  # type: ignore[call-arg]
    """Contains itself under any other key."""

    user: str


class WrappedAccount(TypedDict, extra_items=pydantic.Secret[str]):  # type: ignore[call-arg]
    """Is described by pydantic as if any other key could hold anything."""

    user: str


@dataclass
class Session:
    account: Account


class Model(BaseModel):
    account: Account


class SmallModel(BaseModel):
    account: SmallAccount


class WrappedModel(BaseModel):
    account: WrappedAccount


class ClosedAccount(Account):
    """Says in its schema of pydantic that it takes no other keys."""

    __pydantic_config__ = pydantic.ConfigDict(json_schema_extra={"additionalProperties": False})  # type: ignore[misc]


class ClosedModel(BaseModel):
    account: ClosedAccount


class PlainAccount(TypedDict, extra_items=str):  # type: ignore[call-arg]
    """Marks nothing."""

    user: str


class OpenAccount(Account, extra_items=str):  # type: ignore[call-arg]
    """Says itself that other keys hold no secrets."""


ACCOUNT = {"user": "ann", "phrase_of_may": HIDDEN}
IN_MEMBER = {"account": ACCOUNT}
KINDS: dict[str, tuple[Any, Any]] = {
    "itself": (Account, ACCOUNT),
    "by its base": (SmallAccount, ACCOUNT),
    "by a text": (LaterAccount, ACCOUNT),
    "unresolved": (UnknownAccount, ACCOUNT),
    "read-only": (FixedAccount, ACCOUNT),
    "generic": (AccountOf[Phrase], ACCOUNT),
    "by a generic base": (PhraseAccount, ACCOUNT),
    "in an extra item": (Accounts, {"user": "bob", "ann": ACCOUNT}),
    "recursive": (Tree, {"user": "ann", "inner": ACCOUNT}),
    "in a list": (list[Account], [ACCOUNT]),
    "in a dict": (dict[str, Account], {"may": ACCOUNT}),
    "in a union": (Account | int, ACCOUNT),
    "in a dataclass": (Session, IN_MEMBER),
    "in a model": (Model, IN_MEMBER),
    "in a model, by its base": (SmallModel, IN_MEMBER),
    "in a model, of pydantic": (WrappedModel, IN_MEMBER),
    "in a closed class of a model": (ClosedModel, IN_MEMBER),
}
each_kind = pytest.mark.parametrize("kind", KINDS)


def declare(registry: ToolRegistry, hint: Any, **options: Any) -> None:
    """Declare the tool `take` of ann, whose `record` has *hint*."""

    def take(record: Any, count: int = 1, note: str = "") -> str:
        """Take."""
        return f"{note} in full"

    take.__annotations__ |= {"record": hint}
    registry.tool(owned_by="ann", **options)(take)


def use_schema_of_hints(hint: Any) -> dict[str, Any]:
    return {}


def supply_schema(hint: Any) -> dict[str, Any]:
    return {"parameters": {"type": "object", "properties": {"record": {}, "count": {}, "note": {}}}}


@each_kind
@pytest.mark.parametrize("refusal", ["extra key", "wrong argument", "forbidden", "disabled", "denied"])
@pytest.mark.parametrize("make_options", [use_schema_of_hints, supply_schema])
def test_records_quote_none(kind: str, refusal: str, make_options: Callable[[Any], dict[str, Any]]) -> None:
    """Broken promise: the journal had the value in clear, and whatever quoted it."""
    hint, record = KINDS[kind]
    arguments = {"record": record, "count": "one" if refusal == "wrong argument" else 1, "note": f"for {HIDDEN}"}
    with ToolRegistry(journal="memory") as registry:
        declare(registry, hint, **make_options(hint))
        if refusal == "disabled":
            registry.disable("take")
        elif refusal == "denied":
            registry.add_policy(lambda *_: Deny(f"no {HIDDEN}"))
        agent = "bob" if refusal == "forbidden" else "ann"
        result = registry.execute(ToolCall("c", "take", arguments, agent, reason=f"since {HIDDEN}"))
        written = read_journal(registry)

    assert refusal == "extra key" or Outcome.OK is not result.outcome
    assert "for [secret " in written and "since [secret " in written
    assert HIDDEN not in written


@each_kind
def test_short_ones_are_hidden_in_their_place(kind: str) -> None:
    """One that is too short to be searched for is hidden where it stands."""
    hint, record = KINDS[kind]

    def shorten(value: Any) -> Any:
        if isinstance(value, list):
            return list(map(shorten, value))
        return {key: shorten(inner) for key, inner in value.items()} if isinstance(value, dict) else value[-3:]

    with ToolRegistry(journal="memory") as registry:
        declare(registry, hint)
        registry.execute(ToolCall("c", "take", {"record": shorten(record), "count": "one"}, "ann"))
        written = read_journal(registry)

    assert "'user': 'ann'" in written and "[secret " in written
    assert HIDDEN[-3:] + "'" not in written


@pytest.mark.parametrize("hint", [PlainAccount, OpenAccount])
def test_what_is_not_marked_is_readable(hint: Any) -> None:
    """A hint without a mark hides nothing, also where that of a base has a mark."""
    with ToolRegistry(journal="memory") as registry:
        declare(registry, hint)
        registry.execute(ToolCall("c", "take", {"record": ACCOUNT}, "ann"))
        written = read_journal(registry)

    assert HIDDEN in written and "[secret " not in written


@each_kind
def test_the_schema_of_the_tool_is_that_of_one_without(kind: str) -> None:
    """Models are offered no other keys: no tool gets them, but for those that pydantic takes."""
    with ToolRegistry() as registry:
        declare(registry, KINDS[kind][0])
        schema = registry.get_tool("take").parameters

    assert ("extra" in str(schema), "writeOnly" in str(schema)) == (False, kind.startswith("in a model"))


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (Account, [Phrase]), (SmallAccount, [Phrase]), (OpenAccount, [str]), (AccountOf[int], [int]),
        (PhraseAccount, [Phrase]), (LaterAccount, [Phrase]), (UnknownAccount, ["Missing"]), (Session, []),
    ],
)  # fmt: skip
def test_the_hints_of_other_keys(hint: Any, expected: list[Any]) -> None:
    assert expected == list_extra_hints(hint)
