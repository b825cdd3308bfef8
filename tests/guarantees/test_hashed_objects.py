"""A call ends in a result that is recorded, and quotes no secret, whatever can be hashed in its arguments."""

# Tests of: tools/value_codec

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import pytest
from record_texts import read_journal
from telemetry_rig import RECORD_ALL, Collector, collector  # noqa: F401  # a fixture

from praval_tools import Outcome, Secret, ToolArgumentsError, ToolCall, ToolRegistry
from praval_tools.journal.events import AgentToolCall, CallRefused

SECRET = "zq7x-marked-value"


@dataclass(frozen=True)
class Login:
    pin: Annotated[str, Secret] = SECRET


class Pair(NamedTuple):
    pin: Annotated[str, Secret] = SECRET


@dataclass(frozen=True)
class Named:
    """Is secret by the name of its field alone."""

    password: str = SECRET


@dataclass(frozen=True)
class Plain:
    text: str = SECRET


VALUES: dict[str, Callable[[], Any]] = {
    "key": lambda: {Login(): 1},
    "key of a tuple": lambda: {(1, Pair()): 1},
    "named tuple": lambda: {Pair(): 1},
    "set": lambda: {Login()},
    "frozenset": lambda: frozenset([Pair()]),
    "set in a list": lambda: [frozenset([frozenset([Login()])])],
    "field's name in a key": lambda: {Named(): 1},
    "field's name in a tuple": lambda: {(1, Named()): 1},
    "field's name in a set": lambda: {Named()},
    "name of the set": lambda: {"password": {Plain()}},
}
each_value = pytest.mark.parametrize("kind", VALUES)


def make_registry(collector: Collector) -> ToolRegistry:
    registry = ToolRegistry(journal="memory", telemetry=collector.make_telemetry(**RECORD_ALL))

    @registry.tool(shared=True)
    def take(value: Any = None, note: str = "") -> int:
        """Take."""
        return 1

    return registry


@each_value
@pytest.mark.parametrize("name", ["take", "tale"])
def test_every_way_to_call_ends_in_a_result(kind: str, name: str, collector: Collector) -> None:
    """Broken promise: a call whose arguments held a set of objects raised a `ValueError` that quoted them."""
    with make_registry(collector) as registry:
        arguments = {"value": VALUES[kind](), "note": f"for {SECRET}"}
        alone = registry.execute(ToolCall("1", name, arguments, "ann"))
        batch = registry.execute_batch([ToolCall("2", "take", {}, "ann"), ToolCall("3", name, arguments, "ann")])
        if name == "take":
            try:
                assert 1 == registry.toolset("ann").call(name, **arguments)
            except ToolArgumentsError as error:  # a dict has keys of another type than text
                assert "which is not text" in str(error) and SECRET not in str(error)
        assert alone.outcome in (Outcome.INVALID_ARGUMENTS, Outcome.UNKNOWN_TOOL)
        assert [Outcome.OK, alone.outcome] == [result.outcome for result in batch]
        assert registry.journal is not None
        calls = [event for event in registry.journal.events() if isinstance(event, AgentToolCall | CallRefused)]
        written = read_journal(registry)

    assert (4 if name == "take" else 3) == len(calls)
    for text in (written, collector.read_spans()):
        assert SECRET not in text and "for [secret " in text


def test_texts_in_keys_that_are_no_text_are_hidden(collector: Collector) -> None:
    """Broken promise: a secret stood in a tuple that was a key."""
    with make_registry(collector) as registry:
        arguments = {"value": {(1, f"for {SECRET}"): 1}, "password": SECRET}
        registry.execute(ToolCall("1", "take", arguments, "ann"))
        written = read_journal(registry)

    for text in (written, collector.read_spans()):
        assert SECRET not in text and "for [secret " in text
