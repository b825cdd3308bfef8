"""Attaches a journal and usage statistics to a registry, and imports their modules only then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from praval_tools.errors import ToolUsageError
from praval_tools.execution.runtime import Runtime
from praval_tools.lazy_import import load
from praval_tools.names import shorten_repr
from praval_tools.tools.frames import refuse_others_than_operator

if TYPE_CHECKING:
    from praval_tools.journal.journal import Journal
    from praval_tools.journal.replay import MatchMode
    from praval_tools.journal.stats import UsageStats
    from praval_tools.runs.call_plans import CallPlans
    from praval_tools.runs.registry_journal import RegistryJournal
    from praval_tools.runs.run import Run


_DURABILITIES, _ERROR_MODES = ("full", "intent"), ("raise", "continue")


class JournalAttachment:
    """
    The journal of one registry, if it has one, and its statistics.

    Args:
        runtime: The registry's.
        durability: `full` or `intent`.
        errors: `raise` or `continue`.
    """

    def __init__(self, runtime: Runtime, *, durability: str = "full", errors: str = "raise") -> None:
        if durability not in _DURABILITIES or errors not in _ERROR_MODES:
            raise ToolUsageError(
                f"durability={shorten_repr(durability)} and journal_errors={shorten_repr(errors)}: use "
                f"durability='full' or 'intent', and journal_errors='raise' or 'continue'."
            )
        self._runtime, self._durability, self._errors = runtime, durability, errors
        self._registry_journal: RegistryJournal | None = None
        self._stats: UsageStats | None = None
        self._own_call_plans: CallPlans | None = None

    @property
    def journal(self) -> Journal | None:
        """The journal, if there is one."""
        return None if self._registry_journal is None else self._registry_journal.journal

    def set_journal(self, location: object) -> None:
        """
        Attach the journal at *location* in place of the present one; None: attach none.

        Raises:
            NotOwnerError: Somebody else than the operator asks for it.
            ToolUsageError: A run of the present journal is open.
        """
        refuse_others_than_operator("set the journal")
        self._runtime.access_store.refuse_calls()
        if self._registry_journal is not None and (runs := list(self._registry_journal.recorder.open_runs)):
            raise ToolUsageError(
                f"Run {runs[0]!r} is open, and its calls belong to the present journal; leave the run first.",
                "run-open",
            )
        new: RegistryJournal | None = None
        if location is not None:
            new = load("praval_tools.runs.registry_journal").RegistryJournal(
                self._runtime,
                location,
                stats=self.stats,
                durability=self._durability,
                errors=self._errors,
            )
        old, self._registry_journal = self._registry_journal, None
        if old is not None:
            old.detach()
            old.close()
        if new is not None:
            try:
                new.attach()
            except BaseException:
                new.close()
                raise
            self._registry_journal = new
            self.stats.track_usage = True

    @property
    def stats(self) -> UsageStats:
        """How often each tool is used, and with what outcome; counted for journaled calls, or where switched on."""
        if self._stats is None:
            self._stats = load("praval_tools.runs.registry_journal").UsageStats(
                track_usage=False,
                clock=self._runtime.clock,
                switched=self._set_usage_counting,
                require_operator=refuse_others_than_operator,
            )
        return self._stats

    def _set_usage_counting(self, on: bool) -> None:
        """Have calls counted, or not, where no journal does."""
        if self._registry_journal is None:
            self._runtime.recorder = (
                load("praval_tools.runs.registry_journal").CallCounter(self._runtime, self.stats) if on else None
            )
            self._runtime.access_store.invalidate_snapshots()

    def get_call_plans(self) -> CallPlans:
        """Return what is secret in calls, by the journal; without one, by the same names of keys."""
        if self._registry_journal is not None:
            return self._registry_journal.recorder.plans
        if self._own_call_plans is None:
            self._own_call_plans = load("praval_tools.runs.registry_journal").make_call_plans(self._runtime)
        return self._own_call_plans

    def create_run(self, run_id: str, match: MatchMode, *, strict: bool, strict_fingerprint: bool) -> Run:
        """Return a run of the journal, to be opened."""
        if self._registry_journal is None:
            raise ToolUsageError(
                "This registry has no journal, and a run is kept in one: ToolRegistry(journal='runs.db'), or "
                "registry.journal = 'runs.db'.",
                "no-journal",
            )
        return self._registry_journal.create_run(
            self._runtime.dispatcher, run_id, match=match, strict=strict, strict_fingerprint=strict_fingerprint
        )

    def close(self) -> None:
        """Close the journal, if it was opened here, and save the statistics, if they have a file; safe twice."""
        if self._registry_journal is not None:
            self._registry_journal.close()
        if self._stats is not None and self._stats.storage_path is not None:
            self._stats.save_stats()
