"""What equality does not see of the members of sets is compared, too, when a result is read back."""

# Tests of: schema/whole_values, schema/class_fields, schema/written_sets

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import pytest
from pydantic import BaseModel, Field, field_validator
from replay_rig import iter_results

from praval_tools import Outcome, Secret, Tool, ToolArgumentsError, ToolCall, ToolRegistry

T = TypeVar("T")


class Entity(BaseModel):
    id: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entity) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)


class User(Entity):
    balance: float = Field(0.0, exclude=True)


class Price(Entity):
    cents: int

    @field_validator("cents")
    @classmethod
    def to_cents(cls, value: int) -> int:
        return value * 100


@dataclass(frozen=True)
class Offer:
    name: str
    price: float = field(default=0.0, compare=False, init=False)


def make_offer() -> Offer:
    offer = Offer("x")
    object.__setattr__(offer, "price", 9.5)
    return offer


class Page(BaseModel, Generic[T]):
    rows: list[T]


class Answer(BaseModel, Generic[T]):
    data: T


@pytest.mark.parametrize(
    ("hint", "value", "json"),
    [
        (set[User], {User(id=1, balance=9.5)}, [{"id": 1}]),
        (dict[str, frozenset[User]], {"a": frozenset({User(id=1, balance=9.5)})}, {"a": [{"id": 1}]}),
        (set[Offer], {make_offer()}, [{"name": "x"}]),
    ],
    ids=["a set", "a set inside", "a dataclass"],
)
def test_a_member_that_holds_more_than_its_json_stays_json(hint: Any, value: Any, json: Any, tmp_path: Path) -> None:
    """Broken promise: `balance` was 9.5 in the first life, and 0.0 in the next."""
    live, replayed = iter_results(hint, value, tmp_path / "j.db")

    assert (Outcome.OK, True, json) == (live.outcome, replayed.replayed, replayed.result)


def test_a_given_member_that_would_change_is_refused() -> None:
    """As in a list: the tool would get another price than was judged."""
    got: list[int] = []

    def pay(prices: set[Price]) -> None:
        """Pay."""
        got.extend(price.cents for price in prices)

    with ToolRegistry() as registry:
        registry.register_tool(Tool.from_function(pay, owned_by="ann"))
        with pytest.raises(ToolArgumentsError):
            registry.toolset("ann").call("pay", prices={Price(id=1, cents=5)})

    assert [] == got


def test_generic_models_inside_of_each_other_come_back(tmp_path: Path) -> None:
    """pydantic makes a class of each such hint anew, at any depth."""
    hint: Any = Answer[Page[Annotated[int, Field(ge=0)]]]
    value: Any = Answer[Page[Annotated[int, Field(ge=0)]]](data=Page[Annotated[int, Field(ge=0)]](rows=[1]))
    _, replayed = iter_results(hint, value, tmp_path / "j.db")

    assert value == replayed.result
    assert isinstance(replayed.result, Answer)


class Scope(BaseModel, frozen=True):
    name: str


class Bearer(BaseModel):
    token: Annotated[str, Secret]


class Connection(BaseModel):
    scopes: set[Scope] = {Scope(name="a"), Scope(name="b")}
    bearer: Bearer = Bearer(token="hush-hush")


def test_a_default_set_of_models_hides_secrets_as_ever(tmp_path: Path) -> None:
    """Broken promise: writing that default failed, and the schema was made without what hides others."""

    def query(connection: Connection) -> set[Scope]:
        """Query."""
        return connection.scopes

    with ToolRegistry(journal=tmp_path / "j.db") as registry:
        registry.register_tool(Tool.from_function(query, owned_by="ann"))
        shown = registry.toolset("ann").schemas_json()
        result = registry.agent("ann").execute(ToolCall(None, "query", {"connection": {"bearer": {"token": "mine"}}}))

    assert b"hush" not in shown
    assert [{"name": "a"}, {"name": "b"}] == json.loads(shown)[0]["function"]["parameters"]["properties"]["connection"][
        "properties"
    ]["scopes"]["default"]
    assert Connection().scopes == result.result
    assert b"mine" not in (tmp_path / "j.db").read_bytes()


class Note(BaseModel):
    text: str
    data: dict[str, Any]


def test_a_model_with_a_set_under_any_is_that_model_again(tmp_path: Path) -> None:
    """Broken promise: whether it was that or a dict was a matter of the order of the set."""
    tags = {f"tag {number}" for number in range(20)}
    first, again = iter_results(Note, Note(text="x", data={"tags": tags}), tmp_path / "j.db")

    assert Note(text="x", data={"tags": tags}) == first.result
    assert Note(text="x", data={"tags": sorted(tags)}) == again.result
