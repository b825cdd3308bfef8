"""The journal of a registry: attached, replaced, detached, and refused while a run is open."""

from __future__ import annotations

import pytest

from praval_tools import Agent, NotOwnerError, ToolRegistry, ToolUsageError


def add(x: int) -> int:
    """Add one."""
    return x + 1


class TestJournal:
    def test_is_replaced_and_detached(self) -> None:
        """
        A call is recorded in the journal that is attached at that time; without one it runs all the same.
        """
        with ToolRegistry(journal="memory") as registry:
            registry.tool("add", owned_by="ann")(add)
            call = registry.agent("ann").call
            call("add", x=1)
            registry.journal = "memory"
            call("add", x=2)
            journal = registry.journal
            assert journal is not None
            recorded = [getattr(event, "arguments", None) for event in journal.events(tool="add")]
            registry.journal = None

            assert {"x": 2} in recorded
            assert {"x": 1} not in recorded
            assert (None, 4) == (registry.journal, call("add", x=3))

    def test_is_the_operators(self) -> None:
        """
        An agent's code cannot set the journal.
        """
        registry = ToolRegistry()

        def detach() -> None:
            registry.journal = None

        with registry, pytest.raises(NotOwnerError):
            Agent("ann", registry=registry, function=detach)()

    def test_stays_while_a_run_is_open(self) -> None:
        """
        The calls of an open run belong to the journal in use, which therefore cannot be replaced.
        """
        with ToolRegistry(journal="memory") as registry, registry.run("r"):
            with pytest.raises(ToolUsageError) as caught:
                registry.journal = None

            assert "run-open" == caught.value.code

    def test_a_run_needs_one(self) -> None:
        """
        Without a journal there are no runs.
        """
        with ToolRegistry() as registry, pytest.raises(ToolUsageError) as caught:
            registry.run("r")

        assert "no-journal" == caught.value.code


class TestStats:
    def test_count_calls_without_a_journal_once_switched_on(self) -> None:
        """
        `track_usage` counts the calls of a registry that has no journal, from then on.
        """
        with ToolRegistry() as registry:
            registry.tool("add", owned_by="ann")(add)
            registry.agent("ann").call("add", x=1)
            registry.stats.track_usage = True
            registry.agent("ann").call("add", x=2)
            stats = registry.stats.get_stats("add")

            assert stats is not None
            assert 1 == stats["uses"]
