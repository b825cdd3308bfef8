"""What classes mark as secret in results is hidden, whichever engine ran the tool and whatever its return hint says."""

# Tests of: runs/call_writer, execution/described_results, schema/scalars

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import datetime, time, timedelta, timezone
from typing import Annotated, Any

import engine_tools
import pytest
from engine_rig import Home, home  # noqa: F401
from engine_tools import OPENED, PIN
from record_texts import read_journal
from telemetry_rig import RECORD_ALL, Collector, collector  # noqa: F401  # a fixture
from typing_extensions import TypedDict

from praval_tools import Outcome, Secret, ToolCall, ToolRegistry
from praval_tools.loop import ToolLoop
from praval_tools.testing import fake_model

KINDS = ("object", "list", "dict", "iterator", "model", "scalar", "described", "hidden")
TOOLS = ("give_marked_dict", "give_submodel", "give_model_in_model", "give_wrong_type", "generate_marked")
SPELLINGS = (PIN, "2031-05-06T07:08:09", str(OPENED))


def find_spellings(registry: ToolRegistry, after: int = 0) -> list[str]:
    """Return in which spellings the marked values are recorded, other than in the first events."""
    events = [] if registry.journal is None else list(registry.journal.events())
    return [spelling for spelling in SPELLINGS if spelling in "\n".join(map(str, events[after:]))]


def count_events(registry: ToolRegistry) -> int:
    """Return how many events are recorded."""
    return 0 if registry.journal is None else len(list(registry.journal.events()))


class TestMarkedFields:
    @pytest.mark.parametrize("name, arguments", [
        *(("give_marked", {"kind": kind}) for kind in KINDS), *((name, {}) for name in TOOLS)
    ])  # fmt: skip
    def test_are_hidden_by_every_engine(self, home: Home, name: str, arguments: dict[str, Any]) -> None:
        """
        Broken promise: functions that ran in another process had marked fields recorded, where no return hint names
        their class.
        """
        count = count_events(home.registry)

        result = home.execute(name, **arguments)

        assert (Outcome.OK, []) == (result.outcome, find_spellings(home.registry, count))

    def test_are_hidden_where_the_result_cannot_be_written(self, home: Home) -> None:
        """Broken promise: another process sent an error that quoted a marked field, which was recorded."""
        count = count_events(home.registry)

        result = home.execute("give_unwritable")

        assert [] == find_spellings(home.registry, count)
        assert PIN in str(result.result if result.success else result.error)  # without a journal nothing is written

    @pytest.mark.parametrize("engine", ["inline", "thread", "process"])
    def test_are_hidden_in_replies_of_models(self, engine: str) -> None:
        """A model that quotes what it was shown of a result has it hidden in its recorded reply."""
        with ToolRegistry(journal="memory") as registry:
            registry.tool("give_marked", engine=engine, shared=True)(engine_tools.give_marked)
            model = fake_model([ToolCall("c", "give_marked", {"kind": "object"})], f"The pin is {PIN}.")

            result = ToolLoop(registry.agent("ann"), model).run("Go.")

            assert (True, []) == (PIN in result.text, find_spellings(registry))

    def test_are_hidden_where_another_process_hands_them_on(self) -> None:
        """A function in another process that returns what it got of a tool of this one has it hidden."""
        with ToolRegistry(journal="memory") as registry:
            registry.tool("give_marked", shared=True)(engine_tools.give_marked)
            registry.tool("call_other", engine="process", shared=True)(engine_tools.call_other)
            arguments = {"name": "give_marked", "arguments": {"kind": "object"}}

            result = registry.execute(ToolCall("1", "call_other", arguments, "ann"))

            assert (Outcome.OK, PIN, []) == (result.outcome, result.result["pin"], find_spellings(registry))

    def test_are_hidden_in_late_results(self) -> None:
        """What a function gives after the time of its call is hidden as well."""
        gate = threading.Event()
        with ToolRegistry(journal="memory") as registry:

            @registry.tool("slow", engine="thread", timeout=0.5, shared=True)
            def slow() -> Any:
                """Give an account too late."""
                gate.wait(20)
                return [iter([engine_tools.give_marked("object")])]

            assert Outcome.TIMEOUT is registry.execute(ToolCall("1", "slow", {}, "ann")).outcome
            gate.set()
            registry.drain()
            (late,) = registry.journal.events(type="late_result") if registry.journal else ()

            assert ("ann", []) == (late.result[0][0]["owner"], find_spellings(registry))


@dataclass
class Phrases:
    phrases: Annotated[list[str], Secret]


class Account(TypedDict):
    user: str
    password: int


WRONG = "hunter2-new"
MISFITS: list[tuple[Any, Any]] = [
    (Annotated[int, Secret], WRONG),
    (Annotated[list[str], Secret], WRONG),
    (Annotated[str, Secret], 918273645546),
    (Annotated[int | list[int], Secret], WRONG),
    (list[Annotated[int, Secret]], [WRONG]),
    (dict[str, Annotated[int, Secret]], {"k": WRONG}),
    (dict[str, dict[str, int]], {"a": {"password": WRONG}}),
    (Account, {"user": "ann", "password": WRONG}),
    (dict[Annotated[str, Secret], int], {WRONG: "x"}),
    (Annotated[dict[str, int], Secret], {WRONG: "x"}),
    (dict[str, dict[str, int]], {"password": {WRONG: "x"}}),
    (Any, {"password": {WRONG: object()}}),
    (Phrases, Phrases(WRONG)),  # type: ignore[arg-type]
    (Annotated[datetime, Secret], datetime(2031, 5, 6, 7, 8)),
    (Annotated[time, Secret], time(7, 8, 9, tzinfo=timezone(timedelta(seconds=5)))),
]


class TestMarkedPlaces:
    @pytest.mark.parametrize("hint, value", MISFITS, ids=lambda item: str(item)[:40])
    def test_hide_what_does_not_fit_them(self, collector: Collector, hint: Any, value: Any) -> None:
        """Broken promise: the error for a result that does not fit its marked place quoted it, and was recorded."""
        with ToolRegistry(journal="memory", telemetry=collector.make_telemetry(**RECORD_ALL)) as registry:

            def give() -> Any:
                """Give what is not declared."""
                return value

            give.__annotations__["return"] = hint
            registry.tool(shared=True)(give)
            result = registry.execute(ToolCall("1", "give", {}, "ann"))
            written = read_journal(registry) + collector.read_spans() + str(result.error)

        quotes = [text for text in (WRONG, "918273645546", "2031-05-06", "07:08:09") if text in written]
        assert (Outcome.TOOL_ERROR, []) == (result.outcome, quotes)
