"""What classes mark as secret is hidden in the records of calls that get their objects, whatever the hints say."""

# Tests of: tools/argument_spellings

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import attrs
import engine_tools
import pytest
from pydantic import BaseModel
from record_texts import read_journal
from telemetry_rig import RECORD_ALL, Collector, collector  # noqa: F401  # a fixture

from praval_tools import Allow, Deny, Secret, ToolCall, ToolError, ToolRegistry, current_agent

PIN = "zq7x-marked-value"


class Owner(BaseModel):
    owner: str = "ann"


class Login(Owner):
    pin: Annotated[str, Secret] = PIN


@dataclass
class Account:
    owner: str = "ann"
    pin: Annotated[str, Secret] = PIN


@attrs.define
class Key:
    pin: Annotated[str, Secret] = PIN


class Pair(NamedTuple):
    owner: str = "ann"
    pin: Annotated[str, Secret] = PIN


@dataclass
class Holder:
    record: Any


HINTS = [Any, list, dict, dict[str, Any], Owner, Holder, Account]
VALUES = [
    Account(), Login(), Key(), Pair(), [Account()], {"key": Account()}, {"key": {"inner": [Login()]}}, (Key(),),
    Holder(Account()), Holder([Key()]),
]  # fmt: skip


@pytest.fixture
def registry(collector: Collector, tmp_path: Path) -> Iterator[ToolRegistry]:
    """A registry with a journal, and spans with all arguments and results."""
    telemetry = collector.make_telemetry(**RECORD_ALL)
    with ToolRegistry(journal=tmp_path / "journal.db", telemetry=telemetry) as registry:
        yield registry


def declare(registry: ToolRegistry, hint: object, function: Callable[..., Any], **options: Any) -> None:
    """Declare *function* as the tool `save`, which takes a record under *hint*."""
    function.__annotations__ = {"record": hint, "note": str, "return": str}
    registry.tool("save", shared=True, **options)(function)


def save(record: Any, note: str = "") -> str:
    """Save."""
    return "saved"


def raise_text(record: Any, note: str = "") -> str:
    """Save."""
    raise ValueError(f"cannot save {record!r}")


def assert_hidden(registry: ToolRegistry, collector: Collector) -> None:
    """Assert that neither the journal nor a span has what the classes mark."""
    for text in (read_journal(registry), collector.read_spans()):
        assert "[secret " in text
        assert PIN not in text


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("hint", HINTS, ids=str)
@pytest.mark.parametrize("function", [save, raise_text])
def test_the_objects_of_a_call(
    registry: ToolRegistry, collector: Collector, hint: object, value: object, function: Callable[..., Any]
) -> None:
    """Broken promise: a marked field stood in the records where the hint of the parameter did not name its class."""
    declare(registry, hint, function)
    for arguments in ({"record": value}, {"record": value, "note": 1.5}, {"other": value}):
        for call in (registry.agent("ann").call, registry.agent("ann").delegate("ben", mode="inherit").call):
            with suppress(ToolError):
                call("save", **arguments)
        for caller in (registry, registry.agent("ann")):
            caller.execute(ToolCall("1", "save", arguments, "ann"))
    registry.agent("ann").execute(ToolCall("2", "save", value, "ann"))  # type: ignore[arg-type]
    assert_hidden(registry, collector)


def test_the_objects_of_an_awaited_call(registry: ToolRegistry, collector: Collector) -> None:
    """The same is hidden where the call is awaited."""

    async def save_later(record: Any) -> str:
        """Save."""
        return "saved"

    registry.tool("save", shared=True)(save_later)
    assert "saved" == asyncio.run(registry.agent("ann").acall("save", record=Account()))
    assert_hidden(registry, collector)


def test_the_objects_of_a_call_inside_a_call(registry: ToolRegistry, collector: Collector) -> None:
    """The same is hidden where a tool makes the call."""
    declare(registry, Any, save)

    @registry.tool(shared=True)
    def outer() -> str:
        """Make another call."""
        return str(current_agent().call("save", record=Account()))

    assert "saved" == registry.agent("ann").call("outer")
    assert_hidden(registry, collector)


@pytest.mark.parametrize("is_result", [True, False])
def test_the_objects_of_a_call_from_another_process(
    registry: ToolRegistry, collector: Collector, *, is_result: bool
) -> None:
    """The same is hidden where a tool makes the call whose function runs in another process."""
    declare(registry, Any, save)
    registry.tool("pass_marked", shared=True, engine="process")(engine_tools.pass_marked)
    with registry:
        registry.agent("ann").call("pass_marked", name="save", is_result=is_result)
        assert_hidden(registry, collector)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_the_objects_of_a_run(registry: ToolRegistry, collector: Collector, value: object) -> None:
    """A run that is gone through again finds the call by such objects, runs nothing twice, and records no secret."""
    entered = []

    def count(record: Any, note: str = "") -> str:
        """Save."""
        entered.append(record)
        return "saved"

    declare(registry, Any, count)
    for _ in range(2):
        with registry.run("day"):
            assert "saved" == registry.agent("ann").call("save", record=value)
    assert 1 == len(entered)
    assert_hidden(registry, collector)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_the_objects_of_a_refused_call(registry: ToolRegistry, collector: Collector, value: object) -> None:
    """Neither the arguments of a refused call nor a policy's words about them have a secret."""
    declare(registry, Any, save)
    registry.add_policy(lambda agent, tool, arguments: Deny(f"no {arguments}"))
    with pytest.raises(ToolError, match=f"no .*{PIN}"):
        registry.agent("ann").call("save", record=value)
    with pytest.raises(ToolError, match="saev"):
        registry.agent("ann").call("saev", record=value)
    assert_hidden(registry, collector)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_the_objects_of_a_call_that_waits(registry: ToolRegistry, collector: Collector, value: object) -> None:
    """What waits for approval has no secret, nor has what a person approves with another argument."""
    declare(registry, Any, save, requires_approval=True)
    with registry.run("day"):
        registry.agent("ann").execute(ToolCall("1", "save", {"record": 1}, "ann"))
        with pytest.raises(ToolError):
            registry.agent("ann").call("save", record=value)
    request = registry.approvals.pending()[1]
    registry.approvals.answer(request.id, Allow({**request.arguments, "note": "as it was"}))
    with registry.run("day"):
        registry.agent("ann").execute(ToolCall("1", "save", {"record": 1}, "ann"))
        assert "saved" == registry.agent("ann").call("save", record=value)
    assert_hidden(registry, collector)


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("is_handled", [True, False])
def test_the_objects_of_an_edit(
    registry: ToolRegistry, collector: Collector, value: object, *, is_handled: bool
) -> None:
    """Objects that a person gives in place of the arguments are hidden, also where they do not fit."""
    declare(registry, Any, save, requires_approval=True)
    if is_handled:
        registry.approvals.handler = lambda request: Allow({"record": value})
    for _ in range(2):
        registry.agent("ann").execute(ToolCall("1", "save", {"record": 1}, "ann"))
        if not is_handled and registry.approvals.pending():
            registry.approvals.answer("1", Allow({"record": value}, reason=PIN))
    assert_hidden(registry, collector)


def test_the_other_texts_of_a_call_stay(registry: ToolRegistry) -> None:
    """What stands beside a marked field is recorded; a text that quotes the field is hidden in that part."""
    declare(registry, Any, save)
    registry.agent("ann").call("save", record=Account(owner="of-ann"), note=f"is {PIN}")
    written = read_journal(registry)

    assert "of-ann" in written and "'is [secret " in written
    assert PIN not in written
