"""The journal of a registry, and where it goes in; what it needs is imported once there is one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from praval_tools.access import commands
from praval_tools.errors import ToolUsageError
from praval_tools.execution.context import resolve_actor
from praval_tools.execution.runtime import Runtime
from praval_tools.lazy_import import load

if TYPE_CHECKING:
    from praval_tools.journal.journal import Journal
    from praval_tools.journal.replay import MatchMode
    from praval_tools.journal.stats import UsageStats
    from praval_tools.registry.dispatch import CallDispatcher
    from praval_tools.runs.registry_journal import RegistryJournal
    from praval_tools.runs.run import Run


class JournalSlot:
    """
    The journal of one registry, if it has one, and its statistics.

    Args:
        runtime: The registry's.
        durability: `full` or `intent`.
        errors: `raise` or `continue`.
        secrets: Names of keys whose values are secret, besides the usual ones.
    """

    def __init__(self, runtime: Runtime, durability: str, errors: str, secrets: Iterable[str]) -> None:
        self._runtime = runtime
        self._options: dict[str, Any] = {"durability": durability, "errors": errors, "secrets": tuple(secrets)}
        self._journaling: RegistryJournal | None = None
        self._stats: UsageStats | None = None

    @property
    def journal(self) -> Journal | None:
        """The journal; None: there is none."""
        return None if self._journaling is None else self._journaling.journal

    def set_journal(self, where: Any) -> None:
        """Keep a journal at *where* from now on, or none: the operator's alone."""
        commands.require_operator(resolve_actor(None, "set the journal"), "set the journal")
        self._runtime.access_store.refuse_calls()
        if self._journaling is not None and (runs := list(self._journaling.recorder.open_runs)):
            raise ToolUsageError(
                f"Run {runs[0]!r} is open, and its calls belong to the journal that is in use; leave it first.",
                "run-open",
            )
        made = None
        if where is not None:
            journaling = load("praval_tools.runs.registry_journal").RegistryJournal
            made = journaling(self._runtime, where, stats=self.stats, **self._options)
        old, self._journaling = self._journaling, None
        if old is not None:
            old.detach()
            old.close()
        if made is not None:
            try:
                made.attach()
            except BaseException:
                made.close()
                raise
            self._journaling = made
            self.stats.track_usage = True

    @property
    def stats(self) -> UsageStats:
        """How often each tool is used, and how it goes; counted for journaled calls, or where switched on."""
        if self._stats is None:
            made = load("praval_tools.runs.registry_journal").UsageStats(
                track_usage=False, clock=self._runtime.clock, switched=self._set_usage_counting
            )
            self._stats = made
        return self._stats

    def _set_usage_counting(self, on: bool) -> None:
        """Have calls counted, or not, where no journal does."""
        if self._journaling is None:
            counting = load("praval_tools.runs.registry_journal").CallCounter
            self._runtime.recorder = counting(self._runtime, self.stats) if on else None
            self._runtime.access_store.invalidate_snapshots()

    def make_run(self, desk: Any, run_id: str, match: MatchMode, *, strict: bool, strict_fingerprint: bool) -> Run:
        """Return a run of the journal, to be opened."""
        if self._journaling is None:
            raise ToolUsageError(
                "This registry has no journal, and a run is kept in one: ToolRegistry(journal='runs.db'), or "
                "registry.journal = 'runs.db'.",
                "no-journal",
            )
        return self._journaling.create_run(
            desk, run_id, match=match, strict=strict, strict_fingerprint=strict_fingerprint
        )

    def close(self) -> None:
        """Close the journal, if it was opened here; safe twice."""
        if self._journaling is not None:
            self._journaling.close()


class JournalMixin:
    """What a registry has by its journal."""

    _journal_slot: JournalSlot
    _dispatcher: CallDispatcher

    @property
    def journal(self) -> Journal | None:
        """
        What happened; None: nothing is written down.

        Set it to a path, `memory` or a store, before tools and agents are declared: acts are kept from then on.
        """
        return self._journal_slot.journal

    @journal.setter
    def journal(self, where: Any) -> None:
        self._journal_slot.set_journal(where)

    def run(
        self, run_id: str, match: MatchMode = "content", *, strict: bool = False, strict_fingerprint: bool = False
    ) -> Run:
        """
        Return a run of the journal: `with registry.run("nightly"):` records the calls inside; opened again, it replays.

        Args:
            run_id: Stands for the run.
            match: What repeats a recorded call: `content` (agent, tool, arguments, and how often), `id`, `position`.
            strict: Recorded calls that are not asked for again are an error.
            strict_fingerprint: So are recorded calls of tools that have changed since.

        Raises:
            RunBusyError: On entering: it is open elsewhere.
            ToolUsageError: The registry has no journal.
        """
        return self._journal_slot.make_run(
            self._dispatcher, run_id, match, strict=strict, strict_fingerprint=strict_fingerprint
        )

    @property
    def stats(self) -> UsageStats:
        """How often each tool is used and how it goes; for journaled calls, or once `track_usage` is set there."""
        return self._journal_slot.stats
