"""What only the operator may do through the registry's collaborators: journal, approvals, limits and statistics."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from praval_tools import Agent, Allow, NotOwnerError, Outcome, ToolCall, ToolRegistry
from praval_tools.journal import open_journal

SETTERS: dict[tuple[str, ...], object] = {
    ("journal",): "memory",
    ("approvals", "handler"): lambda request: Allow(),
    ("approvals", "fallback_handler"): lambda request: Allow(),
    ("approvals", "store"): None,
    ("approvals", "lifetime"): timedelta(days=9999),
    ("stats", "track_usage"): False,
    ("stats", "storage_path"): "elsewhere.json",
}
"""Every public attribute that can be set and is reachable from a registry, and what an agent might set."""

METHODS: dict[str, Callable[[ToolRegistry], object]] = {
    "resolve with a result": lambda r: r.journal.resolve("R", "c1", result=1),  # type: ignore[union-attr]
    "resolve with an error": lambda r: r.journal.resolve("R", "c1", error="lost"),  # type: ignore[union-attr]
    "let run again": lambda r: r.journal.resolve("R", "c1", rerun=True),  # type: ignore[union-attr]
    "resolve as another": lambda r: r.journal.resolve("R", "c1", result=1, by="operator"),  # type: ignore[union-attr]
    "prune": lambda r: r.journal.prune(r._clock.now()),  # type: ignore[union-attr]
    "close the journal": lambda r: r.journal.close(),  # type: ignore[union-attr]
    "leave the journal": lambda r: r.journal.__exit__(None, None, None),  # type: ignore[union-attr]
    "use the store": lambda r: r.journal.store.prune(r._clock.now()),  # type: ignore[union-attr]
    "set a limit": lambda r: r.limits.set(agent="mal", per_minute=9999),
    "answer": lambda r: r.approvals.answer("c1", Allow()),
    "load statistics": lambda r: r.stats.load_stats("other.json"),
    "save statistics": lambda r: r.stats.save_stats("other.json"),
    "replace statistics": lambda r: r.stats.rebuild(()),
    "count a call": lambda r: r.stats.update_stats("victim", False),
    "set the handler": lambda r: r.set_approval_handler(lambda request: Allow()),
    "subscribe": lambda r: r.subscribe(print),
    "fork": lambda r: r.fork(),
    "close": lambda r: r.close(),
}


def interrupt() -> int:
    """Begin, and never end."""
    raise KeyboardInterrupt


@pytest.fixture
def doubtful(tmp_path: Path) -> Any:
    """A registry whose run R holds the call c1, which is in doubt."""
    with ToolRegistry(journal=str(tmp_path / "runs.db")) as registry:
        registry.tool("pay", owned_by="bank")(interrupt)
        registry.assign_tool_to_agent("pay", "mal")
        with pytest.raises(KeyboardInterrupt), registry.run("R"):
            registry.execute(ToolCall("c1", "pay", {}, "mal"))
        yield registry


def run_as_code(registry: ToolRegistry, where: str, code: Callable[[], object]) -> object:
    """Run *code* inside of a tool of mal, or of its agent function."""
    if where == "agent":
        return Agent("mal", registry=registry, function=code)()

    @registry.tool("attempt", owned_by="mal")
    def attempt() -> str:
        """Run the code."""
        return str(code())

    result = registry.execute(ToolCall(None, "attempt", {}, "mal"))
    if result.exception is not None:
        raise result.exception
    return result.result


def get_parent(registry: ToolRegistry, path: tuple[str, ...]) -> Any:
    """Return the object whose attribute *path* names."""
    return registry if len(path) == 1 else getattr(registry, path[0])


@pytest.mark.parametrize("where", ["agent", "tool"])
class TestOnlyTheOperator:
    @pytest.mark.parametrize("path", SETTERS, ids=".".join)
    def test_sets(self, doubtful: ToolRegistry, path: tuple[str, ...], where: str) -> None:
        """No agent's code sets what governs everybody's calls; it stays as it was."""
        before = getattr(get_parent(doubtful, path), path[-1])
        with pytest.raises(NotOwnerError):
            run_as_code(doubtful, where, lambda: setattr(get_parent(doubtful, path), path[-1], SETTERS[path]))

        assert before == getattr(get_parent(doubtful, path), path[-1])

    @pytest.mark.parametrize("name", METHODS)
    def test_does(self, doubtful: ToolRegistry, name: str, where: str) -> None:
        """No agent's code settles, deletes or closes what is recorded of a run; afterwards the operator may."""
        with pytest.raises(NotOwnerError):
            run_as_code(doubtful, where, lambda: METHODS[name](doubtful))
        journal = doubtful.journal
        assert journal is not None
        assert [True] == [call.in_doubt for call in journal.calls("R") if call.tool_call_id == "c1"]

        journal.resolve("R", "c1", error="lost")

        assert [Outcome.TOOL_ERROR] == [call.outcome for call in journal.calls("R")][:1]

    def test_a_journal_of_its_own(self, doubtful: ToolRegistry, where: str, tmp_path: Path) -> None:
        """An agent's code may open, read and close another journal, and that alone."""

        def read() -> object:
            with open_journal(tmp_path / "other.db") as other:
                with pytest.raises(NotOwnerError):
                    other.prune(doubtful._clock.now())
                return other.count()

        assert "0" == str(run_as_code(doubtful, where, read))


def test_all_setters_are_listed(doubtful: ToolRegistry) -> None:
    """Each public property with a setter, and each public plain attribute, of the registry's objects is known here."""
    objects: dict[tuple[str, ...], Any] = {
        (): doubtful, ("approvals",): doubtful.approvals, ("stats",): doubtful.stats, ("limits",): doubtful.limits,
        ("journal",): doubtful.journal,
    }  # fmt: skip
    settable = {
        (*path, name)
        for path, value in objects.items()
        for kind in type(value).__mro__
        for name, member in vars(kind).items()
        if isinstance(member, property) and member.fset is not None
    }
    plain = {(*path, name) for path, value in objects.items() for name in vars(value) if not name.startswith("_")}

    assert {*SETTERS, ("name",)} == settable | plain, "the name is for messages alone"
