"""A run with unusually many events is warned of, and at a limit takes no new calls; what is recorded still replays."""

# Tests of: open_run, recorder, recorded_results

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from praval_tools import JournalWarning, Outcome, ToolCall, ToolRegistry, ToolUsageError
from praval_tools.loop import ToolLoop
from praval_tools.testing import fake_model

Execute = Callable[[ToolRegistry, ToolCall], Outcome]
WAYS: dict[str, Execute] = {
    "execute": lambda registry, call: registry.agent("ann").execute(call).outcome,
    "aexecute": lambda registry, call: asyncio.run(registry.agent("ann").aexecute(call)).outcome,
}


def make_registry(journal: Any, ran: list[int], **limits: int) -> ToolRegistry:
    """Return a registry with a tool that notes its calls."""
    registry = ToolRegistry(journal=journal, **limits)  # type: ignore[arg-type]

    @registry.tool("ping", shared=True)
    def ping(at: int) -> int:
        """Ping."""
        ran.append(at)
        return at

    return registry


def ping(at: int) -> ToolCall:
    """Return a call."""
    return ToolCall(None, "ping", {"at": at})


@pytest.mark.parametrize("execute", WAYS.values(), ids=WAYS)
class TestLimit:
    def test_new_calls_are_refused_and_recorded_ones_replayed(self, execute: Execute, tmp_path: Path) -> None:
        """The limit holds within a process and in the next one; a higher one goes on; other runs are not concerned."""
        ran: list[int] = []
        with make_registry(tmp_path / "runs.db", ran, max_run_events=6) as registry, registry.run("r"):
            outcomes = [execute(registry, ping(at)) for at in range(5)]
        assert [Outcome.OK] * 3 + [Outcome.LIMITED] * 2 == outcomes

        with make_registry(tmp_path / "runs.db", ran, max_run_events=6) as registry:
            with registry.run("r"):
                assert [*[Outcome.OK] * 3, Outcome.LIMITED] == [execute(registry, ping(at)) for at in range(4)]
            with registry.run("other"):
                assert Outcome.OK is execute(registry, ping(9))
            assert Outcome.OK is execute(registry, ping(10))
        with make_registry(tmp_path / "runs.db", ran, max_run_events=8) as registry, registry.run("r"):
            assert [*[Outcome.OK] * 4, Outcome.LIMITED] == [execute(registry, ping(at)) for at in range(5)]

        assert [0, 1, 2, 9, 10, 3] == ran

    def test_the_result_says_what_to_do(self, execute: Execute) -> None:
        """Its text names the run, and how the limit is raised; nothing more is recorded."""
        with make_registry("memory", [], max_run_events=2) as registry, registry.run("r"):
            execute(registry, ping(0))
            result = registry.agent("ann").execute(ping(1))
            assert registry.journal is not None
            assert 2 == len(list(registry.journal.events(run_id="r")))

        assert "run-events" == result.error_type
        assert "'r' has 2 events" in str(result.error)
        assert "max_run_events" in str(result.error)

    def test_a_warning_once(self, execute: Execute) -> None:
        """A run that most likely goes round in circles is warned of, once."""
        with make_registry("memory", [], warn_run_events=4) as registry, registry.run("r"):
            execute(registry, ping(0))
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                for at in range(1, 5):
                    execute(registry, ping(at))

        assert [JournalWarning] == [one.category for one in caught if "'r' has 4 events" in str(one.message)]


def test_a_loop_ends_all_the_same() -> None:
    """A model that goes round in circles reads the refusals, and its loop ends at its own limits."""
    ran: list[int] = []
    with make_registry("memory", ran, max_run_events=8) as registry:
        calls = [("ping", {"at": at}) for at in range(20)]
        ended = ToolLoop(registry.agent("ann"), fake_model(*calls), max_steps=10).run("Go.")

    assert "step_limit" == ended.reason
    assert Outcome.LIMITED is ended.results[-1].outcome
    assert 4 >= len(ran)


@pytest.mark.parametrize("limits", [{"max_run_events": 0}, {"warn_run_events": -1}, {"max_run_events": True}])
def test_an_impossible_limit_is_refused(limits: dict[str, Any]) -> None:
    """At once, with the name of the option."""
    with pytest.raises(ToolUsageError, match=next(iter(limits))):
        ToolRegistry(**limits)


def test_what_is_usual() -> None:
    """A warning at 10,000 events, a refusal at 50,000."""
    options = signature(ToolRegistry).parameters

    assert (10_000, 50_000) == (options["warn_run_events"].default, options["max_run_events"].default)
