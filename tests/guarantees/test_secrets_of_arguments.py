"""What classes mark as secret is hidden in the records of calls that get their objects, whatever the hints say."""

# Tests of: tools/argument_spellings

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import attrs
import engine_tools
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import BaseModel

from praval_tools import Allow, Deny, Secret, ToolCall, ToolError, ToolRegistry, current_agent
from praval_tools.integrations.opentelemetry import Telemetry

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
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def registry(exporter: InMemorySpanExporter, tmp_path: Path) -> ToolRegistry:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry = Telemetry(tracer_provider=provider, record_arguments=True, record_results=True)
    return ToolRegistry(journal=tmp_path / "journal.db", telemetry=telemetry)


def declare(registry: ToolRegistry, hint: object, function: Callable[..., Any], **options: Any) -> None:
    function.__annotations__ = {"record": hint, "note": str, "return": str}
    registry.tool("save", shared=True, **options)(function)


def save(record: Any, note: str = "") -> str:
    """Save."""
    return "saved"


def raise_text(record: Any, note: str = "") -> str:
    """Save."""
    raise ValueError(f"cannot save {record!r}")


def list_texts(registry: ToolRegistry, exporter: InMemorySpanExporter) -> list[str]:
    return [*map(str, registry.journal.events()), *(span.to_json() for span in exporter.get_finished_spans())]


def assert_hidden(registry: ToolRegistry, exporter: InMemorySpanExporter) -> None:
    texts = list_texts(registry, exporter)
    assert len(texts) > 1
    assert not [text for text in texts if PIN in text]


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("hint", HINTS, ids=str)
@pytest.mark.parametrize("function", [save, raise_text])
def test_the_objects_of_a_call(
    registry: ToolRegistry, exporter: InMemorySpanExporter, hint: object, value: object, function: Callable[..., Any]
) -> None:
    declare(registry, hint, function)
    for arguments in ({"record": value}, {"record": value, "note": 1.5}, {"other": value}):
        for call in (registry.agent("ann").call, registry.agent("ann").delegate("ben", mode="inherit").call):
            try:
                call("save", **arguments)
            except ToolError:
                pass
        for caller in (registry, registry.agent("ann")):
            caller.execute(ToolCall("1", "save", arguments, "ann"))
    registry.agent("ann").execute(ToolCall("2", "save", value, "ann"))  # type: ignore[arg-type]
    assert_hidden(registry, exporter)


def test_the_objects_of_an_awaited_call(registry: ToolRegistry, exporter: InMemorySpanExporter) -> None:
    async def save_later(record: Any) -> str:
        """Save."""
        return "saved"

    registry.tool("save", shared=True)(save_later)
    assert asyncio.run(registry.agent("ann").acall("save", record=Account())) == "saved"
    assert_hidden(registry, exporter)


def test_the_objects_of_a_call_inside_a_call(registry: ToolRegistry, exporter: InMemorySpanExporter) -> None:
    declare(registry, Any, save)

    @registry.tool(shared=True)
    def outer() -> str:
        """Make another call."""
        return str(current_agent().call("save", record=Account()))

    assert registry.agent("ann").call("outer") == "saved"
    assert_hidden(registry, exporter)


@pytest.mark.parametrize("is_result", [True, False])
def test_the_objects_of_a_call_from_another_process(
    registry: ToolRegistry, exporter: InMemorySpanExporter, *, is_result: bool
) -> None:
    declare(registry, Any, save)
    registry.tool("pass_marked", shared=True, engine="process")(engine_tools.pass_marked)
    with registry:
        registry.agent("ann").call("pass_marked", name="save", is_result=is_result)
        assert_hidden(registry, exporter)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_the_objects_of_a_run(registry: ToolRegistry, exporter: InMemorySpanExporter, value: object) -> None:
    entered = []

    def count(record: Any, note: str = "") -> str:
        """Save."""
        entered.append(record)
        return "saved"

    declare(registry, Any, count)
    for _ in range(2):
        with registry.run("day"):
            assert registry.agent("ann").call("save", record=value) == "saved"
    assert len(entered) == 1
    assert_hidden(registry, exporter)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_the_objects_of_a_refused_call(registry: ToolRegistry, exporter: InMemorySpanExporter, value: object) -> None:
    declare(registry, Any, save)
    registry.add_policy(lambda request: Deny(f"no {request.arguments}"))
    with pytest.raises(ToolError):
        registry.agent("ann").call("save", record=value)
    with pytest.raises(ToolError):
        registry.agent("ann").call("saev", record=value)
    assert_hidden(registry, exporter)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_the_objects_of_a_call_that_waits(
    registry: ToolRegistry, exporter: InMemorySpanExporter, value: object
) -> None:
    declare(registry, Any, save, requires_approval=True)
    with registry.run("day"):
        registry.agent("ann").execute(ToolCall("1", "save", {"record": 1}, "ann"))
        with pytest.raises(ToolError):
            registry.agent("ann").call("save", record=value)
    request = registry.approvals.pending()[1]
    registry.approvals.answer(request.id, Allow({**request.arguments, "note": "as it was"}))
    with registry.run("day"):
        registry.agent("ann").execute(ToolCall("1", "save", {"record": 1}, "ann"))
        assert registry.agent("ann").call("save", record=value) == "saved"
    assert_hidden(registry, exporter)


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("is_handled", [True, False])
def test_the_objects_of_an_edit(
    registry: ToolRegistry, exporter: InMemorySpanExporter, value: object, *, is_handled: bool
) -> None:
    declare(registry, Any, save, requires_approval=True)
    if is_handled:
        registry.approvals.handler = lambda request: Allow({"record": value})
    for _ in range(2):
        registry.agent("ann").execute(ToolCall("1", "save", {"record": 1}, "ann"))
        if not is_handled and registry.approvals.pending():
            registry.approvals.answer("1", Allow({"record": value}, reason=PIN))
    assert_hidden(registry, exporter)


def test_the_other_texts_of_a_call_stay(registry: ToolRegistry) -> None:
    declare(registry, Any, save)
    registry.agent("ann").call("save", record=Account(owner="of-ann"), note=f"is {PIN}")
    texts = "\n".join(map(str, registry.journal.events()))
    assert "of-ann" in texts
    assert PIN not in texts
