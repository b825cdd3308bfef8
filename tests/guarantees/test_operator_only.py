# Tests of: registry/call_controls
"""What only the operator may do through the registry's collaborators: journal, approvals, limits and statistics."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from praval_tools import Agent, Allow, NotOwnerError, Outcome, ToolCall, ToolRegistry, reset_tool_registry
from praval_tools.journal import CallRefused, open_journal


def make_refusal(registry: ToolRegistry) -> CallRefused:
    """Return the event of a refused call, which never was."""
    head = {"id": "1", "time": registry._clock.now(), "process": "p", "run_id": None, "tool_call_id": "c"}
    return CallRefused(**head, tool_name="pay", agent="victim", outcome=Outcome.FORBIDDEN)  # type: ignore[arg-type]


SETTERS: dict[tuple[str, ...], object] = {
    ("journal",): "memory",
    ("telemetry",): None,
    ("approvals", "handler"): lambda request: Allow(),
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
    "record a call": lambda r: r.stats.record("victim", "pay", Outcome.OK, duration_ms=1.0, when=r._clock.now()),
    "record an event": lambda r: r.stats.record_event(make_refusal(r)),
    "set the handler": lambda r: r.set_approval_handler(lambda request: Allow()),
    "subscribe": lambda r: r.subscribe(print),
    "fork": lambda r: r.fork(),
    "close": lambda r: r.close(),
    "reset the default registry": lambda r: reset_tool_registry(),
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
    plain = {
        (*path, name)
        for path, value in objects.items()
        for name in getattr(value, "__dict__", {})
        if not name.startswith("_")
    }

    assert {*SETTERS, ("name",)} == settable | plain, "the name is for messages alone"


def test_what_calls_do_with_limits_and_approvals_is_out_of_reach(doubtful: ToolRegistry) -> None:
    """Taking places, using answers and writing requests is the registry's: its objects only tell, set and answer."""
    names = {
        kind: {name for name in dir(getattr(doubtful, kind)) if not name.startswith("_")}
        for kind in ("limits", "approvals")
    }
    assert {
        "limits": {"set", "all"},
        "approvals": {"handler", "lifetime", "pending", "answer", "wait", "wait_async"},
    } == names


@pytest.mark.parametrize("journal", [None, "memory"])
@pytest.mark.parametrize("where", ["agent", "tool"])
def test_no_code_of_an_agent_approves_its_call(journal: str | None, where: str) -> None:
    """
    Broken was: only the operator answers approvals, and a person is shown what runs.

    Code of an agent answered by `approvals.store`, and let a request wait that showed other arguments than its call.
    """
    with ToolRegistry(journal=journal) as registry:
        registry.tool("pay", shared=True, requires_approval=True, description="Pay.")(lambda: "paid")
        request = ToolCall("c1", "pay", {}, "mal")
        assert Outcome.APPROVAL_REQUIRED is registry.execute(request).outcome
        (shown,) = registry.approvals.pending()

        def attempt() -> int:
            approvals, limits = registry.approvals, registry.limits
            ways = {
                approvals: ("store", "add_pending", "take_answer", "discard_request"),
                limits: ("acquire", "release", "cancel", "restore_run_usage"),
            }
            return sum(hasattr(target, name) for target, names in ways.items() for name in names)

        assert "0" == str(run_as_code(registry, where, attempt))
        assert [shown.id] == [waiting.id for waiting in registry.approvals.pending()]
        assert Outcome.APPROVAL_REQUIRED is registry.execute(request).outcome
