"""The `Run` that users open: its calls are recorded under its id, and replayed when it is opened again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Self

from msgspec import UNSET

from praval_tools.access import commands
from praval_tools.errors import ToolUsageError, UnusedCallsError
from praval_tools.execution.context import resolve_actor
from praval_tools.execution.deps import use_deps
from praval_tools.execution.protocols import Dispatcher
from praval_tools.journal.journal import (
    Journal,
    RecordedCall,
    build_recorded_call,
    get_call_id,
)
from praval_tools.journal.replay import MATCH_MODES, MatchMode, Recording
from praval_tools.misuse import explain_misuse_and_take_plain_arguments
from praval_tools.names import shorten_repr
from praval_tools.runs.open_run import OpenRun, current_run, use_run
from praval_tools.runs.recorder import Recorder
from praval_tools.tools.context_settings import use_setting
from praval_tools.tools.plain_managers import plain_manager

_MAX_ID_LENGTH: Final = 1_000


@explain_misuse_and_take_plain_arguments
class Run:
    """
    A journaled run, to be used as a context manager, sync or async: the calls inside are recorded under its id.

    Opened again, it replays: a call that was recorded gets its recorded result, and its function is not run.
    Tasks and the registry's threads take over the context; for threads of your own use `toolset`.
    """

    def __init__(
        self, dispatcher: Dispatcher, journal: Journal, recorder: Recorder, run_id: str,
        *, match: MatchMode, strict: bool, strict_fingerprint: bool,
    ) -> None:  # fmt: skip
        if type(run_id) is not str or not run_id or len(run_id) > _MAX_ID_LENGTH or not run_id.isprintable():
            raise ToolUsageError(
                f"{shorten_repr(run_id)} is not a valid run id; use 1 to {_MAX_ID_LENGTH} printable characters."
            )
        if match not in MATCH_MODES:
            raise ToolUsageError(f"match={shorten_repr(match)} is none of {', '.join(map(repr, MATCH_MODES))}.")
        self.run_id = run_id
        self._dispatcher, self._journal, self._recorder = dispatcher, journal, recorder
        self._match, self._strict, self._strict_fingerprint = match, strict, strict_fingerprint
        self._open_run: OpenRun | None = None
        self._in_context: use_setting[OpenRun] | None = None

    def __repr__(self) -> str:
        return (
            f"<Run {self.run_id!r}, {'open' if self._open_run is not None and not self._open_run.closed else 'closed'}>"
        )

    def __enter__(self) -> Self:
        if self._open_run is not None:
            raise ToolUsageError(f"Run {self.run_id!r} was opened already; make another with registry.run().")
        store = self._recorder.store
        lease = store.open_run(self.run_id)
        try:
            records = list(store.read(run_id=self.run_id))
            recording = Recording(self.run_id, self._match, records)
            self._open_run = OpenRun(
                self._recorder, lease, recording, len(records), strict_fingerprint=self._strict_fingerprint
            )
        except BaseException:
            lease.release()
            raise
        begun = ((entry.members, entry.tool) for entry in recording.entries.values() if entry.has_begun)
        self._recorder.runtime.limits.restore_run_usage(self.run_id, begun)
        self._recorder.open_runs[self.run_id] = self._open_run
        self._in_context = use_setting(current_run, self._open_run)
        self._in_context.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        run = self._require_open_run()
        self._leave_context()
        self._recorder.open_runs.pop(self.run_id, None)
        try:
            if kind is not GeneratorExit:  # else this may be the writer's own thread, which cannot wait for itself
                run.wait_for_writes()
        finally:
            run.close()
        if self._strict and kind is None and (unused := run.recording.list_unused()):
            raise UnusedCallsError(self.run_id, [entry.call_id for entry in unused])

    def _leave_context(self) -> None:
        if self._in_context is not None:
            self._in_context.__exit__()
            self._in_context = None

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.__exit__(kind)

    def _require_open_run(self) -> OpenRun:
        if self._open_run is None:
            raise ToolUsageError(f"Run {self.run_id!r} is not open: with registry.run({self.run_id!r}) as run: …")
        return self._open_run

    def _get_recording(self) -> Recording:
        return self._require_open_run().recording

    @property
    def calls(self) -> list[RecordedCall]:
        """The calls that were recorded up to now, in order."""
        return [
            build_recorded_call(self.run_id, entry)
            for entry in list(self._get_recording().entries.values())
            if entry.status != "new"
        ]

    @property
    def in_doubt(self) -> list[RecordedCall]:
        """The calls in doubt: they began, and nobody knows whether their tool did its work."""
        return [build_recorded_call(self.run_id, entry) for entry in self._get_recording().list_in_doubt()]

    @property
    def unused(self) -> list[RecordedCall]:
        """The recorded calls that were not requested again since the run was opened."""
        return [build_recorded_call(self.run_id, entry) for entry in self._get_recording().list_unused()]

    def resolve(
        self,
        call_id: str | RecordedCall,
        *,
        result: object = UNSET,
        error: str | None = None,
        rerun: bool = False,
    ) -> None:
        """
        Settle a call in doubt with its result, with its error, or by letting it run again; only the operator may.

        *call_id* is the call's id, or an entry of `in_doubt`.

        Raises:
            NotOwnerError: The caller is not the operator.
            ToolUsageError: No such call is in doubt, there is not exactly one of the three, or the tool could not
                have returned the result.
        """
        actor = resolve_actor(None, "resolve a call in doubt")
        commands.require_operator(actor, "resolve a call in doubt")
        call_id = get_call_id(call_id, self.run_id)
        self._journal.resolve_in_run(
            self._get_recording(), call_id, result=result, error=error, rerun=rerun, by=actor
        )

    def toolset(self, agent: object, *, deps: object = None) -> Any:
        """
        Return an agent's toolset whose calls belong to this run, from whatever thread or context they come.

        *deps* are passed to each call, as by `registry.toolset`.
        """
        run, registry = self._require_open_run(), self._recorder.runtime.registry

        @plain_manager
        def enter_run() -> Iterator[None]:
            with use_run(run), use_deps(registry, deps):
                yield

        return self._dispatcher.get_scoped_toolset(agent, enter_run)


def open_outside_context(run: Run) -> OpenRun:
    """Open *run* without making it the run of this context."""
    run.__enter__()
    run._leave_context()
    return run._require_open_run()
