"""Connects a registry to its journal: opens the store and installs the recorder; imported only where it is needed."""

from __future__ import annotations

from pathlib import Path

from praval_tools.errors import ToolUsageError
from praval_tools.execution.call_progress import CallPipeline, CallProgress
from praval_tools.execution.protocols import Dispatcher
from praval_tools.execution.runtime import Runtime
from praval_tools.journal.change_store import JournalChangeStore
from praval_tools.journal.journal import Journal
from praval_tools.journal.redaction.marker_key import load_key, load_store_key
from praval_tools.journal.redaction.redactor import Redactor
from praval_tools.journal.replay import MatchMode
from praval_tools.journal.stats import UsageStats, count_call
from praval_tools.journal.storage.open_store import open_store
from praval_tools.journal.storage.protocol import Store, WatchableStore
from praval_tools.names import shorten_repr
from praval_tools.runs.call_plans import CallPlans
from praval_tools.runs.given_results import make_result_encoder
from praval_tools.runs.recorder import Recorder
from praval_tools.runs.run import Run
from praval_tools.schema.secret_names import DEFAULT_SECRET_NAMES


class RegistryJournal:
    """
    The journal of one registry, with its store, recorder and redaction.

    Args:
        runtime: The runtime of the registry.
        location: A path, a URL, or a store, which then its creator closes.
        durability: `full`: every result is durable before it is returned; `intent`: nobody waits for that.
        errors: `raise`, or `continue`: go on, with a warning, where the store fails.
        stats: Counts the calls.
    """

    def __init__(
        self,
        runtime: Runtime,
        location: str | Path | Store,
        *,
        durability: str,
        errors: str,
        stats: UsageStats,
    ) -> None:
        self._owns_store = isinstance(location, str | Path)
        store: Store = open_store(location, runtime.hooks.journals) if isinstance(location, str | Path) else location
        self._store = store
        if not all(hasattr(store, name) for name in ("append", "read", "open_run", "state")):
            raise ToolUsageError(f"{shorten_repr(location)} is neither a path nor a store; say 'runs.db' or 'memory'.")
        try:
            lenient = errors == "continue"
            key = load_store_key(store)
            redactor = Redactor((*DEFAULT_SECRET_NAMES, *runtime.options.secrets), key=key)
            self.recorder = Recorder(
                runtime,
                store,
                redactor,
                stats,
                durability=durability,  # type: ignore[arg-type]
                lenient=lenient,
            )
            find_plan = self.recorder.plans.get_redaction_plan_by_name
            self.journal = Journal(store, runtime.clock, find_plan, encode_result=make_result_encoder(runtime))
            self.state_store = JournalChangeStore(store, runtime.clock, lenient=lenient)
        except BaseException:
            self.close()
            raise
        self._runtime = runtime

    def attach(self) -> None:
        """Load the state that the store holds, and record calls and changes from now on."""
        runtime = self._runtime
        runtime.access_store.persistence = self.state_store
        try:
            runtime.access_store.load_other_changes()
        except BaseException:
            runtime.access_store.persistence = None
            raise
        if isinstance(self._store, WatchableStore):
            self._store.watch(self._load_newer_changes)
        runtime.recorder = self.recorder
        runtime.approvals.store = self.recorder.approvals
        runtime.access_store.invalidate_snapshots()

    def _load_newer_changes(self) -> None:
        """Take over what the store has more than this process: it hears of this process's own changes, too."""
        self._runtime.access_store.load_other_changes(self._store.revision())

    def detach(self) -> None:
        """Stop recording."""
        runtime = self._runtime
        runtime.access_store.persistence = runtime.recorder = None
        runtime.approvals.store = None
        runtime.access_store.invalidate_snapshots()

    def create_run(
        self, dispatcher: Dispatcher, run_id: str, *, match: MatchMode, strict: bool, strict_fingerprint: bool
    ) -> Run:
        """Return a run that can be opened."""
        return Run(
            dispatcher, self.journal, self.recorder, run_id, match=match, strict=strict,
            strict_fingerprint=strict_fingerprint,
        )  # fmt: skip

    def close(self) -> None:
        """Close the store if it was opened here; closing twice is safe."""
        if self._owns_store:
            self._store.close()


def make_call_plans(runtime: Runtime, store: Store | None = None) -> CallPlans:
    """Return what is secret in the calls of a registry that has no journal; *store*: of one that is not its own."""
    key = load_key(None) if store is None else load_store_key(store)
    return CallPlans(runtime, Redactor((*DEFAULT_SECRET_NAMES, *runtime.options.secrets), key=key))


class CallCounter:
    """Counts the calls of a registry that has no journal."""

    def __init__(self, runtime: Runtime, stats: UsageStats) -> None:
        self._clock, self._stats = runtime.clock, stats
        self.has_open_runs = False

    def record_call(self, progress: CallProgress, steps: CallPipeline) -> CallPipeline:
        """Drive *steps*, the pipeline of one call, and count the call."""
        result = yield from steps
        name = progress.call.name if isinstance(progress.call.name, str) else ""
        latency = result.latency_ms if result.attempts else None
        count_call(self._stats, result.agent, name, result.outcome, latency, self._clock.now())
        return result
