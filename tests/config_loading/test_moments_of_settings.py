"""When the settings of a file count: with the rest of it, not where its load fails, never over the program's own."""

# Tests of: settings

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from write_ahead_rig import FailingStore

from praval_tools import Deny, Outcome, ToolCall, ToolRegistry
from praval_tools.access.events import ToolBlocked
from praval_tools.errors import JournalError
from praval_tools.execution.limits import Limit
from praval_tools.journal.storage.sql_store import SqlStore
from praval_tools.registry.registry import get_runtime

TOOL = "tools: [{name: pay, module: sums, function: add, shared: true, requires_approval: true}]\n"
ALLOW = "approvals: {handler: 'sums:allow'}\n"
LIMIT = "limits: [{agent: eve, per_minute: 100}]\n"
MASKED = "execution: {errors: masked}\n"
BLOCK = "blocks: [{tool: pay, agent: bob}]\n"


def deny(request: object) -> Deny:
    """Refuse."""
    return Deny("no")


@pytest.fixture
def store(folder: Path) -> FailingStore:
    """A store whose writes can be watched, and made to fail."""
    return FailingStore(SqlStore(folder / "runs.db"))


def call_at_block(store: FailingStore, meanwhile: Callable[[], object], *, fails: bool = True) -> None:
    """Have *meanwhile* called while the block of a file is written, which then may fail."""

    def before(kind: str) -> None:
        if kind == "tool_blocked":
            meanwhile()

    store.before = before
    store.fails = {"tool_blocked"} if fails else set()


def pay(registry: ToolRegistry) -> Outcome:
    """Return how a call of `eve` ends."""
    return registry.execute(ToolCall(None, "pay", {"x": 1}, "eve")).outcome


class TestHandlers:
    @pytest.mark.parametrize("is_failing", [True, False])
    def test_of_a_file_are_not_asked_before_it_counts(self, store: FailingStore, is_failing: bool) -> None:
        """Broken promise: it answered calls while the file was written, also where that failed."""
        Path("c.yml").write_text(TOOL)
        with ToolRegistry(journal=store) as registry:
            source = registry.configure_from("c.yml")
            seen: list[Any] = []
            Path("c.yml").write_text(f"{TOOL}{ALLOW}{MASKED}{BLOCK}")
            approvals = get_runtime(registry).approvals

            def look() -> None:
                answer = approvals.interpret_answer(None, approvals.effective_handler(None))  # type: ignore[arg-type, misc]
                seen.extend([answer, get_runtime(registry).options.errors])

            call_at_block(store, look, fails=is_failing)
            if is_failing:
                with pytest.raises(JournalError):
                    source.refresh()
            else:
                source.refresh()

            assert [None, "message"] == seen
            assert (Outcome.APPROVAL_REQUIRED if is_failing else Outcome.OK) is pay(registry)

    def test_of_the_program_stay(self, folder: Path) -> None:
        """Broken promise: the file's was back at each load, even of a file that had not changed."""
        Path("c.yml").write_text(TOOL + ALLOW)
        registry = ToolRegistry()
        source = registry.configure_from("c.yml")
        assert Outcome.OK is pay(registry)
        registry.set_approval_handler(deny)
        for text in (TOOL + ALLOW, TOOL + ALLOW + BLOCK):
            Path("c.yml").write_text(text)
            source.refresh()
            assert Outcome.APPROVAL_DENIED is pay(registry)

    def test_are_there_for_who_hears_first_of_the_tool(self, folder: Path) -> None:
        """And the limits; one that goes is gone."""
        Path("c.yml").write_text(ALLOW)
        registry, seen = ToolRegistry(), list[object]()
        source = registry.configure_from("c.yml")
        registry.subscribe(lambda event: seen.append(pay(registry)) if isinstance(event, ToolBlocked) else None)
        Path("c.yml").write_text(TOOL + BLOCK)
        source.refresh()

        assert [Outcome.APPROVAL_REQUIRED] == seen


def test_a_load_that_fails_keeps_what_was_set_meanwhile(store: FailingStore) -> None:
    """Broken promise: its undoing put back the handler and the limits of before it began."""
    Path("c.yml").write_text(TOOL + ALLOW + LIMIT)
    with ToolRegistry(journal=store) as registry:
        source = registry.configure_from("c.yml")

        def meanwhile() -> None:
            registry.set_approval_handler(deny)
            registry.limits.set(agent="eve", per_minute=1)

        Path("c.yml").write_text(f"{TOOL}{LIMIT.replace('100', '50')}{BLOCK}")
        call_at_block(store, meanwhile)
        with pytest.raises(JournalError):
            source.refresh()

        assert [Limit(agent="eve", per_minute=1)] == registry.limits.all()
        assert Outcome.APPROVAL_DENIED is pay(registry)


def test_a_load_that_fails_takes_its_limits_back(store: FailingStore) -> None:
    """Those that were narrower count while it is made, and not afterwards."""
    Path("c.yml").write_text(TOOL + LIMIT)
    with ToolRegistry(journal=store) as registry:
        source, seen = registry.configure_from("c.yml"), list[Any]()
        Path("c.yml").write_text(f"{TOOL}{LIMIT.replace('100', '50')}{BLOCK}")
        call_at_block(store, lambda: seen.extend(registry.limits.all()))
        with pytest.raises(JournalError):
            source.refresh()

        assert [50, 100] == [limit.per_minute for limit in (*seen, *registry.limits.all())]
