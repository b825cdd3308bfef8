"""`Activity`: the journal as the views read it, and the changes that they make."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from praval_tools.clock import SystemClock
from praval_tools.errors import ToolUsageError
from praval_tools.journal.index.index import JournalIndex
from praval_tools.journal.journal import Journal, RecordedCall, build_recorded_call
from praval_tools.journal.redaction.marker_key import load_store_key
from praval_tools.journal.redaction.redactor import Redactor
from praval_tools.journal.replay import Recording
from praval_tools.journal.storage.protocol import Store
from praval_tools.journal.stored_approvals import StoredApprovals
from praval_tools.schema.json_input import parse_typed_json
from praval_tools.tools.decision import Allow, ApprovalAnswer, ApprovalRequest
from praval_tools.web.activity.feed import Feed

MAX_EDIT_LENGTH: Final = 8_000
"""Characters of arguments up to which a form shows all of them to be edited; of longer ones only changes are typed."""


class StaleFormError(Exception):
    """What a form is about has changed since its page was made; nothing was changed by it."""


class Activity:
    """
    What the views show: a journal, an index of it, what waits for a person.

    Args:
        journal: The journal; it stays open when this is closed.
        folder: Where the index is kept; None: with the temporary files.
    """

    def __init__(self, journal: Journal, folder: Path | None = None) -> None:
        self.journal, self.feed = journal, Feed()
        self.index = JournalIndex(journal.store, folder)
        self._approvals = StoredApprovals(journal.store, SystemClock())
        self.index.add_listener(self.feed.publish)

    @property
    def store(self) -> Store:
        """The journal's store."""
        return self.journal.store

    def start(self) -> None:
        """Follow the journal."""
        self.index.start()

    def close(self) -> None:
        """Stop following it; safe to call twice."""
        self.feed.close()
        self.index.close()

    # ── approvals ────────────────────────────────────────────────────────────────────────────────

    def list_requests(self) -> list[ApprovalRequest]:
        """Return the requests that wait for an answer, the oldest first; secrets are markers."""
        return [entry.request for entry in self._approvals.list_entries() if entry.answer is None]

    def find_request(self, request_id: str) -> ApprovalRequest:
        """
        Return a request that waits.

        Raises:
            StaleFormError: It does not wait any more; the text says who answered, where that is known.
        """
        for entry in self._approvals.list_entries():
            if entry.request.id == request_id:
                if entry.answer is None:
                    return entry.request
                verb = "approved" if isinstance(entry.answer, Allow) else "denied"
                raise StaleFormError(f"This request was {verb} by {entry.answer.by} meanwhile.")
        raise StaleFormError("This request does not wait any more: it was answered and used, or has expired.")

    def answer_request(self, request: ApprovalRequest, answer: ApprovalAnswer) -> None:
        """
        Record the answer to a request; the process that waits for it goes on within a second.

        Raises:
            StaleFormError: Somebody else answered meanwhile.
            ToolUsageError: The edited arguments hold a secret.
        """
        plan = Redactor(key=load_store_key(self.store)).build_plan()
        try:
            self._approvals.write_answer(request.id, answer, plan)
        except ToolUsageError as error:
            if error.code == "secret-edit":
                raise
            raise StaleFormError(str(error)) from error

    # ── calls in doubt ───────────────────────────────────────────────────────────────────────────

    def find_call(self, run_id: str, call_id: str) -> RecordedCall | None:
        """Return what is recorded of one call of a run."""
        entry = Recording(run_id, "id", self.store.read(run_id=run_id, call_id=call_id)).entries.get(call_id)
        return None if entry is None else build_recorded_call(run_id, entry)

    def resolve_call(
        self, run_id: str, call_id: str, seq: int, by: str, *, result: object = msgspec.UNSET, error: str | None = None,
        rerun: bool = False,
    ) -> None:  # fmt: skip
        """
        Record what came of a call in doubt.

        Args:
            run_id: Its run.
            call_id: The call.
            seq: The number of its first event, as the form showed it: a call that was resolved, ran again and is in
                doubt once more has another one.
            by: Who resolves it.
            result: What its tool would have returned.
            error: What went wrong.
            rerun: It may run again.

        Raises:
            RunBusyError: The run is open somewhere.
            StaleFormError: It is not in doubt any more, or again.
        """
        with self.store.open_run(run_id):
            recording = Recording(run_id, "id", self.store.read(run_id=run_id, call_id=call_id))
            entry = recording.entries.get(call_id)
            call = None if entry is None else build_recorded_call(run_id, entry)
            if call is None or not call.in_doubt:
                by_whom = f" by {call.resolved_by}" if call is not None and call.resolved_by else ""
                raise StaleFormError(f"This call is not in doubt any more: it was resolved{by_whom} meanwhile.")
            if call.seq != seq:
                raise StaleFormError("This call was resolved, ran again, and is in doubt once more: look at it anew.")
            self.journal.resolve_in_run(recording, call_id, result=result, error=error, rerun=rerun, by=by)


def write_json(value: object) -> str:
    """Return *value* as JSON; what is not JSON, as text."""
    return json.dumps(value, ensure_ascii=False, default=str)


def edit_arguments(request: ApprovalRequest, text: str, *, are_changes: bool) -> Mapping[str, object] | None:
    """
    Return the arguments that a person wrote; None where they are those of the request.

    Args:
        request: What was asked.
        text: A JSON object.
        are_changes: It holds only what differs; else it holds all arguments.

    Raises:
        ValueError: It is not a JSON object.
    """
    if not text.strip():
        return None
    edited = parse_typed_json(text)
    if not isinstance(edited, dict):
        raise ValueError("it is not an object")
    shown = request.arguments
    kept = dict(shown) if are_changes else {name: value for name, value in shown.items() if name in edited}
    changed = {
        name: value for name, value in edited.items()
        if name not in shown or write_json(shown[name]) != write_json(value)
    }  # fmt: skip
    return None if not changed and len(kept) == len(shown) else {**kept, **changed}
