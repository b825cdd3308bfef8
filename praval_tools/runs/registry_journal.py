"""Giving a registry its journal; imported for registries that have one only."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, get_args

from praval_tools.access.records import Principal
from praval_tools.errors import ToolUsageError
from praval_tools.execution.progress import CallPipeline, CallProgress
from praval_tools.execution.runtime import Runtime
from praval_tools.journal.change_store import JournalChangeStore
from praval_tools.journal.journal import Journal
from praval_tools.journal.redaction.marker_key import load_key
from praval_tools.journal.redaction.redactor import Redactor
from praval_tools.journal.redaction.secret_names import DEFAULT_SECRET_NAMES
from praval_tools.journal.replay import MatchMode
from praval_tools.journal.stats import UsageStats
from praval_tools.journal.storage.open_store import open_store
from praval_tools.journal.storage.protocol import Store
from praval_tools.names import shorten_repr
from praval_tools.runs.recorder import Durability, Recorder
from praval_tools.runs.run import Run
from praval_tools.tools.call import ToolCall

_ERROR_MODES: Final = ("raise", "continue")


class RegistryJournal:
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
        if durability not in get_args(Durability) or errors not in _ERROR_MODES:
            raise ToolUsageError(
                f"durability={shorten_repr(durability)} and journal_errors={shorten_repr(errors)}: the first is 'full' or "
                f"'intent', the second 'raise' or 'continue'."
            )
        self._owns_store = isinstance(where, str | Path)
        store: Store = open_store(where, runtime.hooks.journals) if isinstance(where, str | Path) else where
        self._store = store
        if not all(hasattr(store, name) for name in ("append", "read", "open_run", "state")):
            raise ToolUsageError(f"{shorten_repr(where)} is neither a path nor a store; say 'runs.db' or 'memory'.")
        try:
            lenient = errors == "continue"
            key = load_key(None if store.name == "memory" else store.name)
            redactor = Redactor((*DEFAULT_SECRET_NAMES, *secrets), key=key)
            self.journal = Journal(store, redactor, runtime.clock)
            self.recorder = Recorder(
                runtime,
                store,
                redactor,
                stats,
                durability=durability,  # type: ignore[arg-type]
                lenient=lenient,
            )
            self.state_store = JournalChangeStore(store, runtime.clock, lenient=lenient)
        except BaseException:
            self.close()
            raise
        self._runtime = runtime

    def attach(self) -> None:
        """Take over what the store holds, and write down what happens from now on."""
        runtime = self._runtime
        runtime.access_store.persistence = self.state_store
        try:
            runtime.access_store.load_other_changes()
        except BaseException:
            runtime.access_store.persistence = None
            raise
        runtime.recorder = self.recorder
        runtime.approvals.on_answer = self.recorder.record_approval_answer
        runtime.access_store.invalidate_snapshots()

    def detach(self) -> None:
        """Write nothing down any more."""
        runtime = self._runtime
        runtime.access_store.persistence = runtime.recorder = None
        runtime.approvals.on_answer = None
        runtime.access_store.invalidate_snapshots()

    def create_run(self, desk: Any, run_id: str, *, match: MatchMode, strict: bool, strict_fingerprint: bool) -> Run:
        """Return a run, to be opened."""
        return Run(
            desk, self.journal, self.recorder, run_id, match=match, strict=strict,
            strict_fingerprint=strict_fingerprint,
        )  # fmt: skip

    def close(self) -> None:
        """Close the store, if it was opened here; safe twice."""
        if self._owns_store:
            self._store.close()


class CallCounter:
    """Counts the calls of a registry that has no journal."""

    def __init__(self, runtime: Runtime, stats: UsageStats) -> None:
        self._clock, self._stats = runtime.clock, stats

    def try_replay(self, call: ToolCall, principal: Principal | None, *, is_async: bool) -> None:
        """Return nothing: nothing was recorded."""

    def record_call(self, course: CallProgress, steps: CallPipeline) -> CallPipeline:
        """Drive *steps*, the pipeline of one call, and count what they come to."""
        result = yield from steps
        name = course.call.name if isinstance(course.call.name, str) else ""
        latency = result.latency_ms if result.attempts else None
        self._stats.record(result.agent, name, result.outcome, duration_ms=latency, when=self._clock.now())
        return result
