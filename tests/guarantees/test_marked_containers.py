"""Marks of classes count wherever their instances stand in a result, and hide nothing beside what they mark."""

# Tests of: schema/marked_values, schema/marked_members, schema/model_marks

from __future__ import annotations

from collections import ChainMap, UserDict, UserList
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any

import pydantic
import pytest
from record_texts import read_journal

from praval_tools import Outcome, Secret, ToolCall, ToolRegistry

PIN = "zq7x-marked-value"


@dataclass
class Account:
    """A class that marks one of its fields."""

    owner: str
    pin: Annotated[str, Secret]


@dataclass
class Page:
    """A class that holds others of which each marks a field."""

    accounts: list[Account]
    by_owner: dict[str, Account]
    note: str = "annabel pays on Monday"


class Login(pydantic.BaseModel):
    """A model that marks one of its fields."""

    owner: str
    pin: Annotated[str, Secret]


class Logins(pydantic.BaseModel):
    """A model that holds others."""

    logins: list[Login]
    first: Login | None = None
    note: str = "annabel pays on Monday"


class Connection:
    """What no schema describes."""


class Trip(pydantic.BaseModel):
    """A model of which no JSON Schema can be made."""

    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    city: str
    connection: Connection | None = None
    key: Annotated[str, Secret] = PIN
    code: str = pydantic.Field(default=PIN, json_schema_extra={"writeOnly": True})


class Table:
    """A table as other libraries have it."""

    def to_dicts(self) -> list[Any]:
        """Return its rows."""
        return [Account("annabel", PIN)]


class Kind(Enum):
    """An enumeration of marked values."""

    ONE = Account("annabel", PIN)


class Holder(pydantic.BaseModel):
    """A model that holds anything."""

    x: Any


ACCOUNT, LOGIN = Account("annabel", PIN), Login(owner="annabel", pin=PIN)
HELD: list[Callable[[], object]] = [
    lambda: {"a": ACCOUNT}.values(),
    lambda: {"a": ACCOUNT}.items(),
    lambda: ChainMap({"a": ACCOUNT}),
    lambda: UserDict({"a": LOGIN}),
    lambda: UserList([LOGIN]),
    lambda: Table(),
    lambda: Holder(x=Kind.ONE),
    lambda: Page([ACCOUNT], {"a": ACCOUNT}),
    lambda: Logins(logins=[LOGIN], first=LOGIN),
    lambda: {"trip": Trip(city="annabel")},
    lambda: pydantic.RootModel[list[Login]]([LOGIN]),
    lambda: pydantic.RootModel[dict[str, Login]]({"a": LOGIN}),
]


@pytest.mark.parametrize("number", range(len(HELD)))
def test_hide_what_is_marked_and_nothing_else(number: int) -> None:
    """Broken promise: a container of marked objects was secret as a whole, and others were not looked into."""
    with ToolRegistry(journal="memory") as registry:

        @registry.tool("give", owned_by="ann")
        def give() -> Any:
            """Give."""
            return HELD[number]()

        with registry.run("r"):
            live = registry.execute(ToolCall("c", "give", {}, "ann"))
        with registry.run("r"):
            replayed = registry.execute(ToolCall("c", "give", {}, "ann"))

        assert (Outcome.OK, Outcome.OK, True) == (live.outcome, replayed.outcome, replayed.replayed)
        assert PIN in live.for_model()
        assert PIN not in read_journal(registry)
        assert live.for_model().count("annabel") == replayed.for_model().count("annabel") > 0


def test_a_plain_value_in_place_of_a_marked_class_is_hidden() -> None:
    """Nobody knows which part of it the class would mark."""
    with ToolRegistry(journal="memory") as registry:

        @registry.tool("give", owned_by="ann")
        def give() -> Any:
            """Give."""
            return Page([{"owner": "ann", "pin": PIN}], {})  # type: ignore[list-item]

        registry.execute(ToolCall("c", "give", {}, "ann"))

        assert PIN not in read_journal(registry)
