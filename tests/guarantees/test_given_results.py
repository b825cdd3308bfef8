"""Secrets in results that a person gives calls in doubt are hidden as those that tools return."""

# Tests of: journal/journal

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

import pytest
from record_texts import read_journal

from praval_tools import Outcome, Secret, ToolCall, ToolInDoubtError, ToolRegistry
from praval_tools.journal.events import AgentToolResult

SECRET = "open-sesame"


@dataclass
class Account:
    owner: str
    pin: Annotated[str, Secret]


RESULTS: dict[str, tuple[Any, Any]] = {
    "text": (Annotated[str, Secret], SECRET),
    "object": (Account, Account("ann", SECRET)),
    "JSON": (Account, {"owner": "ann", "pin": SECRET}),
    "object of another class": (Any, [Account("ann", SECRET)]),
    "name of the registry": (Any, {"phrase": SECRET}),
}


def read_result(registry: ToolRegistry) -> Any:
    """Return the last result in the journal."""
    assert registry.journal is not None
    *_, event = registry.journal.events(type="agent_tool_result")
    assert isinstance(event, AgentToolResult)
    return event.result


def resolve_in_open_run(registry: ToolRegistry, result: Any) -> None:
    """Give the call in doubt of a run its result, as the program that goes on with it."""
    with registry.run("r") as run:
        (call,) = run.in_doubt
        run.resolve(call, result=result)


def resolve_in_journal(registry: ToolRegistry, result: Any) -> None:
    """Give the call in doubt its result in the journal, where no run is open."""
    assert registry.journal is not None
    registry.journal.resolve("r", "c", result=result)


@pytest.mark.parametrize("kind", RESULTS)
@pytest.mark.parametrize("resolve", [resolve_in_open_run, resolve_in_journal])
def test_hide_what_the_tool_marks_where_a_person_gives_them(
    kind: str, resolve: Callable[[ToolRegistry, Any], None]
) -> None:
    """Broken promise: the result that resolved a call in doubt was in the journal with what its tool marks."""
    hint, value = RESULTS[kind]
    with ToolRegistry(journal="memory", secrets=["phrase"]) as registry:

        def find() -> Any:
            """Find it."""
            raise ToolInDoubtError("Nobody knows.")

        find.__annotations__["return"] = hint
        registry.tool("find", owned_by="ann")(find)
        with registry.run("r"):
            assert Outcome.IN_DOUBT is registry.execute(ToolCall("c", "find", {}, "ann")).outcome
        resolve(registry, value)
        recorded = str(read_result(registry))

    assert "[secret " in recorded and SECRET not in recorded


def test_hide_the_secrets_of_the_call() -> None:
    """Broken promise: they stood in a result or error that quoted them, where the call had been made here."""
    given = "ABCDEFAB-CDEF-4BCD-ABCD-ABCDEFABCDEF"
    with ToolRegistry(journal="memory") as registry:

        @registry.tool("pay", owned_by="ann")
        def pay(account: Annotated[UUID, Secret]) -> str:
            """Pay."""
            raise ToolInDoubtError("Nobody knows.")

        with registry.run("r") as run:
            for name in ("first", "second"):
                registry.execute(ToolCall(name, "pay", {"account": given}, "ann"))
            run.resolve("first", result=f"paid from {given.lower()}")
            run.resolve("second", error=f"not paid from {given}")
        written = read_journal(registry)

    assert "'paid from [secret " in written and "'not paid from [secret " in written
    assert given not in written and given.lower() not in written


def test_hide_what_classes_mark_where_the_tool_is_gone() -> None:
    """What the object's own class marks, and members that are named like secrets, are hidden without the tool."""
    with ToolRegistry(journal="memory") as registry:

        @registry.tool("find", owned_by="ann")
        def find() -> Any:
            """Find it."""
            raise ToolInDoubtError("Nobody knows.")

        with registry.run("r"):
            registry.execute(ToolCall("c", "find", {}, "ann"))
        registry.unregister_tool("find")
        resolve_in_open_run(registry, {"account": Account("ann", SECRET), "password": "another secret"})
        recorded = str(read_result(registry))

    assert SECRET not in recorded and "another secret" not in recorded
