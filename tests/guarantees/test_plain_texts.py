"""Texts and classes that an agent's code passes in have no rights, neither at once nor when others read them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

import pytest
from pydantic import BaseModel, GetJsonSchemaHandler
from pydantic_core import CoreSchema

from praval_tools import GrantError, NotOwnerError, ToolCall, ToolRegistry, ToolUsageError

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


class SharingMoment(datetime):
    """A moment that tries to share `pay` whenever somebody compares or shows it."""

    registry: ToolRegistry

    def __ge__(self, other: object) -> bool:
        self.registry.share_tool("pay")
        return True

    __gt__ = __le__ = __lt__ = __ge__
    __repr__ = isoformat = lambda self, *_: str(self.registry.share_tool("pay"))  # type: ignore[assignment]


class SharingZone(tzinfo):
    """A time zone that tries to share `pay` whenever somebody asks for its offset."""

    registry: ToolRegistry

    def utcoffset(self, moment: datetime | None) -> timedelta:
        with suppress(NotOwnerError):
            self.registry.share_tool("pay")
        return timedelta()


class SharingMapping(dict[str, object]):
    """A mapping that tries to share `pay` whenever somebody shows it."""

    registry: ToolRegistry

    def __repr__(self) -> str:
        self.registry.share_tool("pay")
        return ""


def make_hostile_terms(registry: ToolRegistry, term: str) -> dict[str, object]:
    """Return terms of a grant that run code when they are read."""
    SharingMoment.registry = SharingZone.registry = SharingMapping.registry = registry
    return {
        "moment": {"expires": SharingMoment(2999, 1, 1, tzinfo=UTC)},
        "zone": {"expires": datetime(2999, 1, 1, tzinfo=SharingZone())},
        "bounds": {"where": SharingMapping({"amount": {"maximum": 5}})},
        "delegable": {"delegable": SharingMapping({"x": 1})},
    }[term]


@pytest.mark.parametrize("term", ["moment", "zone", "bounds", "delegable"])
def test_terms_of_grants_are_plain(registry: ToolRegistry, term: str) -> None:
    """Times, zones and bounds of a grant that an agent's code makes run no code where the host reads them."""

    @registry.tool("order", owned_by="clerk")
    def order(amount: int = 1) -> None:
        """Order."""

    def make_grant() -> None:
        with suppress(GrantError):
            registry.grant("order", "boss", **make_hostile_terms(registry, term))

    work.append(make_grant)
    registry.agent("clerk").call("relay")
    assert all(repr(grant) for grant in registry.grants())
    assert (term != "delegable") == registry.explain("boss", "order", {"amount": 3}).allowed
    assert not registry.explain("clerk", "pay").allowed


class SharingTags(tuple[str, ...]):
    """Tags that try to share `pay` whenever somebody counts them."""

    registry: ToolRegistry

    def __len__(self) -> int:
        with suppress(NotOwnerError):
            self.registry.share_tool("pay")
        return 1


def test_tags_are_plain(registry: ToolRegistry) -> None:
    """Tags of a tool that an agent's code declares run no code where the host exports the tool."""
    SharingTags.registry = registry

    def tagged() -> None:
        """Do nothing."""

    work.append(lambda: registry.tool("tagged", shared=True, tags=SharingTags(["a"]))(tagged))
    registry.agent("clerk").call("relay")
    assert registry.schemas("boss", tags=["a"])
    assert not registry.explain("clerk", "pay").allowed


class SharingName(str):
    """A text that equals every other one, and tries to share `pay` whenever somebody compares it."""

    registry: ToolRegistry

    def __eq__(self, other: object) -> bool:
        with suppress(NotOwnerError):
            self.registry.share_tool("pay")
        return True

    __hash__ = str.__hash__


@pytest.mark.parametrize("field", ["name", "tool_call_id", "agent", "run_id", "parent_id", "reason", "engine"])
def test_texts_of_calls_are_plain(registry: ToolRegistry, field: str) -> None:
    """What an agent's code writes into a call is compared by nobody else with code of its own."""
    registry.journal = "memory"
    SharingName.registry = registry
    texts: dict[str, Any] = {
        "name": "note",
        "agent": "clerk",
        field: SharingName({"agent": "clerk"}.get(field, "note")),
    }

    def make_call() -> None:
        with suppress(ToolUsageError):
            registry.execute(ToolCall(arguments={}, **texts))

    work.append(make_call)
    registry.agent("clerk").call("relay")
    for _ in range(2):
        registry.execute(ToolCall(name="note", arguments={}, agent="clerk"))
    assert list(registry.journal.read(tool="note"))
    assert not registry.explain("clerk", "pay").allowed


class SharingCopy:
    """An object that tries to share `pay` whenever somebody copies or shows it."""

    registry: ToolRegistry

    def __deepcopy__(self, memo: object) -> SharingCopy:
        with suppress(NotOwnerError):
            self.registry.share_tool("pay")
        return self

    def __repr__(self) -> str:
        self.__deepcopy__(None)
        return ""


@pytest.mark.parametrize("field", ["extra", "parameters"])
@pytest.mark.parametrize(
    "make", [lambda: {SharingName("a"): 1}, lambda: {"a": SharingName("b")}, lambda: {"a": [(SharingCopy(),)]}]
)
def test_metadata_is_shown_without_rights(registry: ToolRegistry, field: str, make: Callable[[], Any]) -> None:
    """What an agent's code says of a tool that it declares has no rights where the host shows or copies that."""
    SharingName.registry = SharingCopy.registry = registry

    def plain() -> None:
        """Do nothing."""

    work.append(lambda: registry.tool("plain", shared=True, **{field: make()})(plain))
    registry.agent("clerk").call("relay")
    metadata = registry.list_all_tools()[-1].metadata
    assert "plain" == metadata.tool_name and "plain" in repr(metadata)
    assert metadata.to_dict()[field] is not None and {"a"} == set(getattr(metadata, field))
    assert not registry.explain("clerk", "pay").allowed
