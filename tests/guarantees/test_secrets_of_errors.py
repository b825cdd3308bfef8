"""What classes mark as secret in what a tool raises is hidden in its records, whichever engine ran the tool."""

# Tests of: execution/failures, runs/call_writer, execution/described_results

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any
from unittest.mock import Mock

import failing_tools
import pytest
from engine_tools import OPENED, PIN
from record_texts import read_journal
from telemetry_rig import RECORD_ALL, Collector, collector  # noqa: F401  # a fixture

from praval_tools import Outcome, ToolCall, ToolRegistry
from praval_tools.loop import ToolLoop
from praval_tools.testing import fake_model

KINDS = (
    "argument",
    "model",
    "own",
    "attribute",
    "in an error",
    "in a list",
    "declared attribute",
    "group",
    "cause",
    "context",
    "in a deque",
    "in a key",
    "in keys",
    "in values",
    "in items",
    "in a proxy",
    "in a UserDict",
    "in a UserList",
    "in a ChainMap",
    "in a namespace",
    "in its keys",
    "in its values",
    "in its items",
)
each_engine = pytest.mark.parametrize("engine", ["inline", "thread", "process"])


@each_engine
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("errors", ["message", "masked"])
def test_are_hidden(engine: str, kind: str, errors: str, collector: Collector) -> None:
    """Broken promise: what an exception held in a marked field was recorded; what a tool returned was hidden."""
    telemetry = collector.make_telemetry(**RECORD_ALL)
    with ToolRegistry(journal="memory", errors=errors, telemetry=telemetry) as registry:
        registry.tool("fail", engine=engine, shared=True)(failing_tools.raise_marked)

        result = registry.execute(ToolCall("1", "fail", {"kind": kind}, "ann"))
        written = read_journal(registry)

    assert Outcome.TOOL_ERROR is result.outcome
    assert errors == "masked" or kind == "group" or PIN in str(result.error)  # the model sees what the tool says
    for text in (written, collector.read_spans()):
        assert "fail" in text
        assert PIN not in text and repr(OPENED) not in text


@each_engine
def test_are_hidden_in_replies_of_models(engine: str) -> None:
    """A model that quotes what it was shown of an error has it hidden in its recorded reply."""
    with ToolRegistry(journal="memory") as registry:
        registry.tool("fail", engine=engine, shared=True)(failing_tools.raise_marked)
        model = fake_model([ToolCall("c", "fail", {"kind": "argument"})], f"The pin is {PIN}.")

        result = ToolLoop(registry.agent("ann"), model).run("Go.")

        assert PIN in result.text
        assert "The pin is [secret " in read_journal(registry) and PIN not in read_journal(registry)


def test_are_hidden_where_another_process_hands_them_on() -> None:
    """A function in another process that quotes an error of a tool of this one has it hidden."""
    with ToolRegistry(journal="memory") as registry:
        registry.tool("fail", shared=True)(failing_tools.raise_marked)
        registry.tool("fail_too", engine="process", shared=True)(failing_tools.raise_marked_of_other)

        result = registry.execute(ToolCall("1", "fail_too", {"name": "fail", "kind": "argument"}, "ann"))

        assert PIN in str(result.error)
        assert "It did not work: " in read_journal(registry) and PIN not in read_journal(registry)


def test_are_hidden_in_late_results() -> None:
    """What a function raises after the time of its call is hidden as well."""
    gate = threading.Event()
    with ToolRegistry(journal="memory") as registry:

        @registry.tool("slow", engine="thread", timeout=0.5, shared=True)
        def slow() -> None:
            """Fail too late."""
            gate.wait(20)
            failing_tools.raise_marked("argument")

        assert Outcome.TIMEOUT is registry.execute(ToolCall("1", "slow", {}, "ann")).outcome
        gate.set()
        registry.drain()
        written = read_journal(registry)

    assert "LateResult(" in written and "Account(owner='ann'" in written
    assert PIN not in written


class Pages:
    """Has a length, and gives pages without end."""

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[int]:
        raise AssertionError("nobody has asked for pages")


class Table(Mapping[str, int]):
    """Lists rows without end."""

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("nobody has asked for rows")

    def __getitem__(self, key: str) -> int:
        raise AssertionError("nobody has asked for a row")


class Rows(OrderedDict[str, int]):
    """Has other rows than it stores."""

    __iter__ = keys = values = items = Table.__iter__  # type: ignore[assignment]


@pytest.mark.parametrize(
    "held",
    [
        Mock(),
        Pages(),
        failing_tools.EndlessError(),
        MappingProxyType(Table()),
        MappingProxyType(Rows(a=1)),
        OrderedDict.items(Rows(a=1)),
    ],
    ids=["mock", "pages", "causes", "proxy of a mapping", "proxy of a dict", "view"],
)
def test_are_read_without_code_of_what_holds_them(held: object) -> None:
    """Broken promise: a call ends. The search for secrets went through what a response made anew at each reading."""
    with ToolRegistry(journal="memory") as registry:

        @registry.tool("fetch", shared=True)
        def fetch() -> None:
            """Fetch."""
            error = failing_tools.EndlessError("no answer")
            error.response = held  # type: ignore[attr-defined]
            raise error

        assert Outcome.TOOL_ERROR is registry.execute(ToolCall("1", "fetch", {}, "ann")).outcome


def test_a_result_that_has_every_attribute_ends() -> None:
    """Broken promise: a call ends. An object that answers every question was taken for a table, again and again."""
    with ToolRegistry(journal="memory") as registry:

        @registry.tool("make", shared=True)
        def make() -> Any:
            """Make."""
            return Mock()

        assert Outcome.TOOL_ERROR is registry.execute(ToolCall("1", "make", {}, "ann")).outcome
