"""Giving a registry its journal; imported for registries that have one only."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, get_args

from praval_tools.access.records import Principal
from praval_tools.errors import ToolUsageError
from praval_tools.execution.effects import Steps
from praval_tools.execution.pipeline import Course
from praval_tools.execution.runtime import Runtime
from praval_tools.journal.change_store import Keeper
from praval_tools.journal.journal import Journal
from praval_tools.journal.redaction.marker_key import load_key
from praval_tools.journal.redaction.redactor import Redactor
from praval_tools.journal.redaction.secret_names import DEFAULT
from praval_tools.journal.replay import Match
from praval_tools.journal.stats import UsageStats
from praval_tools.journal.storage.open_store import open_store
from praval_tools.journal.storage.protocol import Store
from praval_tools.names import shorten
from praval_tools.runs.recorder import Durability, Recorder
from praval_tools.runs.run import Run
from praval_tools.tools.call import ToolCall

_ERRORS: Final = ("raise", "continue")


class Journaling:
    """
    The journal of one registry, at work.

    Args:
        runtime: The registry's.
        where: A path, a URL, or a store, which whoever made it closes.
        durability: `full`: every result is durable before it is returned; `intent`: it is not waited for.
        errors: `raise`, or `continue`: go on where the store fails, with a warning.
        secrets: Names of keys whose values are secret, besides the usual ones.
        stats: Counts the calls.
    """

    def __init__(
        self, runtime: Runtime, where: Any, *, durability: str, errors: str, secrets: Iterable[str], stats: UsageStats
    ) -> None:
        if durability not in get_args(Durability) or errors not in _ERRORS:
            raise ToolUsageError(
                f"durability={shorten(durability)} and journal_errors={shorten(errors)}: the first is 'full' or "
                f"'intent', the second 'raise' or 'continue'."
            )
        self._mine = isinstance(where, str | Path)
        store: Store = open_store(where, runtime.hooks.journals) if isinstance(where, str | Path) else where
        self._store = store
        if not all(hasattr(store, name) for name in ("append", "read", "open_run", "state")):
            raise ToolUsageError(f"{shorten(where)} is neither a path nor a store; say 'runs.db' or 'memory'.")
        try:
            lenient = errors == "continue"
            key = load_key(None if store.name == "memory" else store.name)
            redactor = Redactor((*DEFAULT, *secrets), key=key)
            self.journal = Journal(store, redactor, runtime.clock)
            self.recorder = Recorder(
                runtime, store, redactor, stats, durability=durability, lenient=lenient  # type: ignore[arg-type]
            )
            self.keeper = Keeper(store, runtime.clock, lenient=lenient)
        except BaseException:
            self.close()
            raise
        self._runtime = runtime

    def begin(self) -> None:
        """Take over what the store holds, and write down what happens from now on."""
        runtime = self._runtime
        runtime.ledger.keeper = self.keeper
        try:
            runtime.ledger.absorb()
        except BaseException:
            runtime.ledger.keeper = None
            raise
        runtime.recorder = self.recorder
        runtime.approvals.answered = self.recorder.answered
        runtime.ledger.renew()

    def end(self) -> None:
        """Write nothing down any more."""
        runtime = self._runtime
        runtime.ledger.keeper = runtime.recorder = None
        runtime.approvals.answered = None
        runtime.ledger.renew()

    def run(
        self, desk: Any, run_id: str, *, match: Match, strict: bool, strict_fingerprint: bool
    ) -> Run:
        """Return a run, to be opened."""
        return Run(
            desk, self.journal, self.recorder, run_id, match=match, strict=strict,
            strict_fingerprint=strict_fingerprint,
        )  # fmt: skip

    def close(self) -> None:
        """Close the store, if it was opened here; safe twice."""
        if self._mine:
            self._store.close()


class Counting:
    """Counts the calls of a registry that has no journal."""

    def __init__(self, runtime: Runtime, stats: UsageStats) -> None:
        self._clock, self._stats = runtime.clock, stats

    def recalled(self, call: ToolCall, who: Principal | None, *, awaited: bool) -> None:
        """Return nothing: nothing was recorded."""

    def recorded(self, course: Course, steps: Steps) -> Steps:
        """Drive *steps*, the pipeline of one call, and count what they come to."""
        result = yield from steps
        name = course.call.name if isinstance(course.call.name, str) else ""
        latency = result.latency_ms if result.attempts else None
        self._stats.record(result.agent, name, result.outcome, duration_ms=latency, when=self._clock.now())
        return result
