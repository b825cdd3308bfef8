"""What a journal says of calls outside runs: each is one call, with its own end and its own answers."""

# Tests of: history

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest

from praval_tools import Allow, Deny, RetryableToolError, ToolCall, ToolRegistry
from praval_tools.journal.history import History, build_history


@pytest.fixture
def registry() -> Iterator[ToolRegistry]:
    """A registry with a journal."""
    with ToolRegistry(journal="memory", retry_wait=0) as registry:
        yield registry


def read(registry: ToolRegistry) -> History:
    """Return what the journal of a registry says."""
    assert registry.journal is not None
    return build_history(registry.journal)


def list_ends(history: History) -> list[tuple[str, object, str, object]]:
    """Return who called, with which arguments, and how that ended."""
    return [(call.agent, call.record.arguments, call.outcome, call.record.result) for call in history.calls]


_PAY = """
import os, sys
from praval_tools import ToolCall, ToolRegistry

registry = ToolRegistry(journal=sys.argv[1])

@registry.tool(shared=True)
def pay(to: str) -> str:
    "Pay."
    return f"paid {to}" if to == "second" else os._exit(3)

registry.execute(ToolCall("call_0", "pay", {"to": sys.argv[2]}, "ann"))
registry.close()
"""


class TestCallsOfOneId:
    def test_that_overlap(self, registry: ToolRegistry) -> None:
        """Providers repeat `call_0`: the result of one agent's call is not that of another's which began later."""
        has_begun, may_end = Event(), Event()

        @registry.tool(shared=True)
        def pay(to: str) -> str:
            """Pay."""
            if to == "first":
                has_begun.set()
                may_end.wait(30)
            return f"paid {to}"

        first = Thread(target=registry.execute, args=(ToolCall("call_0", "pay", {"to": "first"}, "ann"),))
        first.start()
        assert has_begun.wait(30)
        registry.execute(ToolCall("call_0", "pay", {"to": "second"}, "bob"))
        may_end.set()
        first.join()

        assert list_ends(read(registry)) == [
            ("ann", {"to": "first"}, "ok", "paid first"), ("bob", {"to": "second"}, "ok", "paid second")
        ]  # fmt: skip

    def test_after_a_process_that_died_in_one(self, tmp_path: Path) -> None:
        """The call that is in doubt is the one that was interrupted, and not the next of its id."""
        journal, programs = tmp_path / "journal.db", tmp_path / "program.py"
        programs.write_text(_PAY)
        for to, code in (("first", 3), ("second", 0)):
            command = [sys.executable, str(programs), str(journal), to]
            assert subprocess.run(command, check=False).returncode == code
        with ToolRegistry(journal=journal) as registry:
            ends = list_ends(read(registry))

        assert ends == [("ann", {"to": "first"}, "in_doubt", None), ("ann", {"to": "second"}, "ok", "paid second")]

    def test_one_after_the_other(self, registry: ToolRegistry) -> None:
        """Calls of one agent to one tool are as many as were made, refused ones among them."""

        @registry.tool(shared=True)
        def pay(to: int) -> int:
            """Pay."""
            return to

        for to in (1, "nobody", 2):
            registry.execute(ToolCall("call_0", "pay", {"to": to}, "ann"))

        assert [(1, "ok"), ("nobody", "invalid_arguments"), (2, "ok")] == [
            (arguments["to"], outcome)
            for _, arguments, outcome, _ in list_ends(read(registry))  # type: ignore[index]
        ]


@pytest.mark.parametrize("call_id", [None, "call_0"])
def test_attempts_are_one_call(registry: ToolRegistry, call_id: str | None) -> None:
    """A call that was tried again is not in doubt for its earlier attempts."""
    attempts: list[int] = []

    @registry.tool(shared=True, retries=2)
    def look(name: str) -> str:
        """Look."""
        attempts.append(1)
        if len(attempts) % 3:
            raise RetryableToolError("later")
        return name

    for name in "ab":
        registry.execute(ToolCall(call_id, "look", {"name": name}, "ann"))

    assert list_ends(read(registry)) == [("ann", {"name": "a"}, "ok", "a"), ("ann", {"name": "b"}, "ok", "b")]


def test_answers_are_those_of_their_requests(registry: ToolRegistry) -> None:
    """Whoever answers later, and whichever ids the calls have: each request has its own answer, used or not."""

    @registry.tool(shared=True, requires_approval=True)
    def pay(to: str) -> str:
        """Pay."""
        return to

    def ask(agent: str) -> str:
        return registry.execute(ToolCall("call_0", "pay", {"to": agent}, agent)).approval_id or ""

    waiting = {agent: ask(agent) for agent in ("ann", "bob", "cid", "dan")}
    registry.approvals.answer(waiting["ann"], Allow(by="eve"))
    registry.approvals.answer(waiting["bob"], Deny("too dear", by="olga"))
    registry.approvals.answer(waiting["cid"], Allow(by="zoe"))
    for agent in ("ann", "bob"):
        ask(agent)
    history = read(registry)

    answers = {
        request.agent: (answer.by, answer.answer) if (answer := history.find_answer(request)) is not None else None
        for request in history.approval_requests
    }
    assert answers == {"ann": ("eve", "allow"), "bob": ("olga", "deny"), "cid": ("zoe", "allow"), "dan": None}
    assert [call.outcome for call in history.calls].count("ok") == 1
