"""Texts and classes that an agent's code passes in have no rights, neither at once nor when others read them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, GetJsonSchemaHandler
from pydantic_core import CoreSchema

from praval_tools import NotOwnerError, ToolRegistry

work: list[Callable[[], object]] = []
"""What `relay` does, the last of them."""


class Equal(str):
    """A text that equals every other one."""

    def __str__(self) -> str:
        return self

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = str.__hash__


@dataclass
class Named:
    """An object with a name, as agents have."""

    name: str


@pytest.fixture
def registry() -> ToolRegistry:
    """`bank` owns `pay`, `clerk` owns `note`; everybody may call `relay`, which does the work."""
    made = ToolRegistry()

    @made.tool("pay", owned_by="bank")
    def pay() -> str:
        """Pay."""
        return "paid"

    @made.tool("note", owned_by="clerk")
    def note() -> str:
        """Note."""
        return "noted"

    @made.tool("relay", shared=True)
    def relay() -> None:
        """Do the work."""
        work[-1]()

    return made


CHANGES: dict[str, Callable[[ToolRegistry, Any], object]] = {
    "assign": lambda registry, by: registry.assign_tool_to_agent("pay", "clerk", by=by),
    "grant": lambda registry, by: registry.grant("pay", "clerk", by=by),
    "share": lambda registry, by: registry.share_tool("pay", by=by),
    "transfer": lambda registry, by: registry.transfer_ownership("pay", "clerk", by=by),
    "block": lambda registry, by: registry.block("pay", "bank", by=by),
    "unregister": lambda registry, by: registry.unregister_tool("pay", by=by),
    "disable": lambda registry, by: registry.disable("pay", by=by),
    "freeze": lambda registry, by: registry.freeze(by=by),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("by", [Equal("bank"), Equal("operator"), Named(Equal("bank")), Named(Equal("operator"))])
def test_nobody_changes_in_the_name_of_another(registry: ToolRegistry, change: str, by: object) -> None:
    """An agent's code is not taken for the owner or the operator, whatever its text says of itself."""
    refused: list[object] = []

    def try_it() -> None:
        with pytest.raises(NotOwnerError):
            refused.append(CHANGES[change](registry, by))

    work.append(try_it)
    registry.agent("clerk").call("relay")
    assert [] == refused
    assert not registry.explain("clerk", "pay").allowed


class Sharing(str):
    """A text that tries to share `pay` whenever somebody reads it."""

    registry: ToolRegistry

    def __str__(self) -> str:
        self.registry.share_tool("pay")
        return ""

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return str(self)

    def __len__(self) -> int:
        return len(str(self))

    def __eq__(self, other: object) -> bool:
        return bool(str(self))

    __hash__ = str.__hash__


@pytest.mark.parametrize(
    "change",
    [
        lambda registry, text: registry.assign_tool_to_agent("note", "boss", reason=text),
        lambda registry, text: registry.block("note", "boss", reason=text),
        lambda registry, text: registry.grant("note", "boss", key=text),
        lambda registry, text: registry.transfer_ownership("note", "boss", reason=text),
        lambda registry, text: registry.retire_agent("clerk", reason=text),
    ],
)
def test_reasons_and_keys_are_plain(registry: ToolRegistry, change: Callable[[ToolRegistry, str], object]) -> None:
    """What an agent's code says of a change runs no code of its own where the host program reads it."""
    text = Sharing("why")
    text.registry = registry

    def make_change() -> None:
        with suppress(NotOwnerError):
            change(registry, text)

    work.append(make_change)
    registry.agent("clerk").call("relay")
    for agent in ("boss", "clerk"):
        assert registry.explain(agent, "note").reason
    assert all(repr(grant) for grant in registry.grants(ended=True))
    assert all(str(problem) for problem in registry.problems())
    assert not registry.explain("clerk", "pay").allowed


@pytest.mark.parametrize("use", ["schemas", "call"])
def test_classes_that_write_schemas(registry: ToolRegistry, use: str) -> None:
    """A class of a tool that an agent's code declares has no rights where the host program needs its schema."""

    class Order(BaseModel):
        amount: int = 1

        @classmethod
        def __get_pydantic_json_schema__(
            cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
        ) -> dict[str, object]:
            with suppress(NotOwnerError):
                registry.share_tool("pay")
            return handler(core_schema)

    def order(given: Order) -> int:
        """Order."""
        return given.amount

    order.__annotations__["given"] = Order
    work.append(lambda: registry.tool("order", shared=True, owned_by="clerk")(order))
    registry.agent("clerk").call("relay")
    if use == "schemas":
        assert registry.schemas("boss")
    else:
        assert 2 == registry.agent("boss").call("order", given={"amount": 2})
    assert not registry.explain("clerk", "pay").allowed
