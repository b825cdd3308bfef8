"""
The approvals that a journal keeps for all of its processes: requests that wait, and answers that were not used yet.

Each is a row of the store's state. Two counts make sure that one answer is recorded, and that one call uses it: the
item that answers spends the first, the item that starts the call spends the second.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import attrs
import msgspec
from msgspec.structs import replace

from praval_tools.clock import Clock
from praval_tools.errors import ToolUsageError
from praval_tools.forks import ForkSafeLock, handle_forks
from praval_tools.journal.codec import build_record, from_json
from praval_tools.journal.events import ApprovalAnswered, ApprovalAsked, EventType
from praval_tools.journal.process_name import get_process_name
from praval_tools.journal.redaction.redactor import RedactionPlan
from praval_tools.journal.redaction.secret_search import SecretMarkers
from praval_tools.journal.redaction.short_secrets import MARKER_PATTERN
from praval_tools.journal.storage.memory import MemoryStore
from praval_tools.journal.storage.protocol import Item, Record, StateRow, Status, Store, Uses
from praval_tools.schema.json_values import to_canonical_json
from praval_tools.tools.argument_spellings import find_marked_places, read_marked_arguments
from praval_tools.tools.decision import Allow, ApprovalAnswer, ApprovalEntry, ApprovalRequest, Deny
from praval_tools.tools.value_codec import PythonValue, pack_value

_REQUEST_ROW: Final = "approval"
_ANSWER_ROW: Final = "approval_answer"


class OwnRequest(NamedTuple):
    """A request of this process, with its secrets, and the secrets of its call."""

    request: ApprovalRequest
    secrets: SecretMarkers


class StoredApproval(msgspec.Struct, frozen=True):
    """A request that waits, and its answer, once there is one; without secrets."""

    asked: ApprovalAsked
    answered: ApprovalAnswered | None = None


class StoredApprovals:
    """
    The approvals of one store.

    Args:
        store: Where they are.
        clock: Time and ids.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._revision = -1
        self._approvals: dict[str, StoredApproval] = {}
        self._ids_by_digest: dict[str, str] = {}
        self._ids_of_parent: frozenset[str] | None = frozenset()
        """Answered requests that the process from which this one was forked uses; None: still to be looked for."""
        self._used_ids = set[str]()
        """Requests whose answers were used by this process, where that could not be written."""
        self._lock = ForkSafeLock()
        if isinstance(store, MemoryStore):  # of which a forked process has a copy; it shares all others
            handle_forks(self, in_child=StoredApprovals._leave_answers)

    def _leave_answers(self) -> None:
        """Leave, in a forked process, the answers that were given before to its parent: each is for one call."""
        self._ids_of_parent = None

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def list_entries(self) -> list[ApprovalEntry]:
        """Return the requests that have not expired and whose answers were not used, the oldest first."""
        with self._lock:
            self._load_changes()
            approvals = [approval for approval in self._approvals.values() if not self._has_expired(approval.asked)]
        return [
            ApprovalEntry(to_request(approval.asked), None if approval.answered is None else to_answer(approval))
            for approval in approvals
        ]

    def find_by_digest(self, digest: str) -> StoredApproval | None:
        """Return the request with this digest that has not expired, and whose answer was not used."""
        with self._lock:
            self._load_changes()
            return self._find_loaded(digest)

    def is_known(self, request_id: str) -> bool:
        """Tell whether a request was not used when the store was last read."""
        return request_id in self._approvals

    def _find_loaded(self, digest: str) -> StoredApproval | None:
        approval = self._approvals.get(self._ids_by_digest.get(digest, ""))
        return None if approval is None or self._has_expired(approval.asked) else approval

    def find_given_answer(self, request: ApprovalRequest) -> ApprovalAnswer | None:
        """Return the answer that was given to a request, used or not."""
        kind = EventType.APPROVAL_ANSWERED.value
        for record in self._store.read(type=kind, call_id=request.tool_call_id, run_id=request.run_id):
            event = from_json(record.body, event_id=record.id)
            if isinstance(event, ApprovalAnswered) and event.approval_id == request.id:
                return _build_answer(event, event.arguments)
        return None

    def _load_changes(self) -> None:
        if self._store.revision() != self._revision:
            self._load_rows()
        if self._ids_of_parent is None:
            self._ids_of_parent = frozenset(key for key, approval in self._approvals.items() if approval.answered)
            for key in self._ids_of_parent:
                self._forget_request(key)

    def _load_rows(self) -> None:
        view = self._store.state(max(self._revision, 0))
        if view.complete:
            self._approvals.clear()
            self._ids_by_digest.clear()
        for row in sorted(view.rows, key=lambda row: (row.revision, row.kind)):  # a request comes before its answer
            if row.kind in (_REQUEST_ROW, _ANSWER_ROW):
                self._apply_row(row)
        self._revision = view.revision

    def _apply_row(self, row: StateRow) -> None:
        if row.key in self._used_ids or (self._ids_of_parent is not None and row.key in self._ids_of_parent):
            return
        event = None if row.body is None else from_json(row.body, event_id=row.key)
        if isinstance(event, ApprovalAsked):
            self._approvals[row.key] = StoredApproval(event)
            self._ids_by_digest[event.digest] = row.key
        elif isinstance(event, ApprovalAnswered) and (approval := self._approvals.get(row.key)) is not None:
            self._approvals[row.key] = replace(approval, answered=event)
        elif row.kind == _REQUEST_ROW:
            self._forget_request(row.key)

    def mark_used(self, request_id: str) -> None:
        """Count the answer to a request no more in this process, where it could not be written that it was used."""
        with self._lock:
            self._used_ids.add(request_id)
            self._forget_request(request_id)

    def _forget_request(self, key: str) -> None:
        ended = self._approvals.pop(key, None)
        if ended is not None and self._ids_by_digest.get(ended.asked.digest) == key:
            del self._ids_by_digest[ended.asked.digest]

    def _has_expired(self, asked: ApprovalAsked) -> bool:
        return asked.expires is None or asked.expires <= self._clock.now()

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    def build_waiting_item(
        self, item: Item, request: Record, digest: str, replaced: StoredApproval | None
    ) -> Item | None:
        """
        Return *item* so that a request waits once it is written, unless the state in the store changes before.

        Args:
            item: The end of the call that waits.
            request: The record of the request.
            digest: That of the request.
            replaced: The equal request that was found, and counts no more.

        Returns:
            The item; None where another equal request waits by now.
        """
        with self._lock:
            if self._find_loaded(digest) != replaced:
                return None
            ended = [key for key, approval in self._approvals.items() if self._has_expired(approval.asked)]
            revision = self._revision
        for key in ended if replaced is None else [*ended, replaced.asked.id]:
            item = end_request(item, key)
        row, count = StateRow(_REQUEST_ROW, request.id, "", request.body), Uses(_name_answer_count(request.id), 1)
        return replace(item, revision=revision, rows=(*item.rows, row), uses=(*item.uses, count))

    def write_answer(
        self, request_id: str, answer: ApprovalAnswer, plan: RedactionPlan, own_request: OwnRequest | None = None
    ) -> None:
        """
        Record the answer to a request that waits.

        Args:
            request_id: The request.
            answer: The answer.
            plan: What is secret in calls of the tool.
            own_request: The request with its secrets, and the secrets of its call, where this process asked.

        Raises:
            JournalError: It could not be written.
            ToolUsageError: The request does not wait any more, or the edited arguments hold a secret that another
                process could not read back.
        """
        approval = self._approvals.get(request_id)
        if approval is None:
            raise ToolUsageError(f"Request {request_id!r} does not wait any more: it was used, or has expired.")
        record = build_record(self._build_answer_event(approval.asked, answer, plan, own_request))
        count = _name_answer_count(request_id)
        uses = [Uses(count, None), *([Uses(_name_use_count(request_id), 1)] if isinstance(answer, Allow) else [])]
        row = StateRow(_ANSWER_ROW, request_id, "", record.body)
        (written,) = self._store.append([Item((record,), spend=(count,), rows=(row,), uses=tuple(uses))])
        if written.error is not None:
            raise written.error
        if written.status is Status.EXHAUSTED:
            entries = [entry for entry in self.list_entries() if entry.request.id == request_id and entry.answer]
            by = entries[0].answer.by if entries and entries[0].answer is not None else ""
            raise ToolUsageError(f"Request {request_id!r} was answered already, by {by or 'somebody'}.")

    def _build_answer_event(
        self, asked: ApprovalAsked, answer: ApprovalAnswer, plan: RedactionPlan, own_request: OwnRequest | None
    ) -> ApprovalAnswered:
        """Return the event of an answer, without secrets."""
        event = ApprovalAnswered(
            id=self._clock.new_id(), time=self._clock.now(), process=get_process_name(), run_id=asked.run_id,
            tool_call_id=asked.tool_call_id, tool_name=asked.tool_name, agent=asked.agent, by=answer.by,
            answer="allow" if isinstance(answer, Allow) else "deny", reason=answer.reason,
            fingerprint=asked.fingerprint, digest=asked.digest, expires=asked.expires, approval_id=asked.id,
        )  # fmt: skip
        edited = dict(answer.arguments) if isinstance(answer, Allow) and answer.arguments is not None else None
        if own_request is not None:
            request, secrets = own_request
            secrets = plan.mark_secrets(read_marked_arguments(edited), secrets or plan.default_secrets)
            secrets = plan.mark_places(find_marked_places(edited), secrets)
            secrets = plan.redact_arguments(request.arguments, secrets)[1]
            return plan.redact_event(attrs.evolve(event, arguments=edited), secrets)[0]  # type: ignore[return-value]
        if edited is not None:
            _check_edit(asked, edited, plan)
        event = plan.redact_event(event)[0]  # type: ignore[assignment]
        return attrs.evolve(event, arguments=edited)


def use_answer(item: Item, request_id: str) -> Item:
    """Return *item*, the start of a call, so that it uses the `Allow` to a request; another process may be first."""
    return end_request(replace(item, spend=(*item.spend, _name_use_count(request_id))), request_id)


def is_answer_used(grant: str | None, request_id: str) -> bool:
    """Tell whether *grant*, of which a store says that it is exhausted, is the answer to a request."""
    return grant == _name_use_count(request_id)


def end_request(item: Item, request_id: str) -> Item:
    """Return *item* so that a request and its answer count no more once it is written."""
    rows = [StateRow(kind, request_id, "", None) for kind in (_REQUEST_ROW, _ANSWER_ROW)]
    uses = [Uses(name(request_id), None) for name in (_name_answer_count, _name_use_count)]
    return replace(item, rows=(*item.rows, *rows), uses=(*item.uses, *uses))


def _name_answer_count(request_id: str) -> str:
    return f"approval:{request_id}:answer"


def _name_use_count(request_id: str) -> str:
    return f"approval:{request_id}:use"


def to_request(asked: ApprovalAsked) -> ApprovalRequest:
    """Return the request that *asked* records, without its secrets."""
    return ApprovalRequest(
        id=asked.id, tool_call_id=asked.tool_call_id, tool=asked.tool_name, agent=asked.agent, chain=asked.chain,
        arguments=asked.arguments, risk_level=asked.risk_level, reason=asked.reason, run_id=asked.run_id,
        fingerprint=asked.fingerprint, asked=asked.time, expires=asked.expires or asked.time, digest=asked.digest,
    )  # fmt: skip


def to_answer(approval: StoredApproval, request: ApprovalRequest | None = None) -> ApprovalAnswer | None:
    """
    Return the answer of a request.

    Args:
        approval: The request, with its answer.
        request: The same request with its secrets, which take the place of their markers in edited arguments.

    Returns:
        The answer; None where there is none, or where edited arguments hold a secret that is not in *request*.
    """
    event = approval.answered
    if event is None:
        return None
    edited = event.arguments
    if request is not None and isinstance(edited, Mapping):
        if any(_is_unreadable(approval.asked, name, value) for name, value in edited.items()):
            return None
        edited = {
            name: request.arguments[name] if _holds_secret(approval.asked, name, value) else value
            for name, value in edited.items()
        }
    return _build_answer(event, edited)


def _build_answer(event: ApprovalAnswered, arguments: PythonValue) -> ApprovalAnswer:
    if event.answer != "allow":
        return Deny(event.reason, event.by)
    return Allow(arguments, event.by, event.reason)


def _holds_secret(asked: ApprovalAsked, name: str, value: PythonValue) -> bool:
    key = "*" if _get_shown(asked, name) is _MISSING and "*" in asked.secret_arguments else name
    return key in asked.secret_arguments or MARKER_PATTERN.search(str(value)) is not None


def _is_unreadable(asked: ApprovalAsked, name: str, value: PythonValue) -> bool:
    """Tell whether an edited argument holds a secret that the request does not have."""
    return _holds_secret(asked, name, value) and not _is_unchanged(asked, name, value)


def _is_unchanged(asked: ApprovalAsked, name: str, value: PythonValue) -> bool:
    shown = _get_shown(asked, name)
    return shown is not _MISSING and _write_exactly(shown) == _write_exactly(value)


_MISSING: Final = object()


def _get_shown(asked: ApprovalAsked, name: str) -> PythonValue:
    return asked.arguments.get(name, _MISSING) if isinstance(asked.arguments, Mapping) else _MISSING


def _write_exactly(value: PythonValue) -> str:
    return to_canonical_json(pack_value(value))


def _check_edit(asked: ApprovalAsked, edited: Mapping[str, PythonValue], plan: RedactionPlan) -> None:
    """
    Accept edited arguments that every process can read back: secrets are left as they are.

    Raises:
        ToolUsageError: Naming the arguments that hold other secrets.
    """
    wrong = list(_iter_new_secrets(asked, edited, plan))
    if wrong:
        raise ToolUsageError(
            f"The arguments {', '.join(map(repr, wrong))} hold secrets, which the journal does not keep: leave them "
            f"as they are, with all that is in them, or answer in the process that asked.",
            "secret-edit",
        )


def _iter_new_secrets(asked: ApprovalAsked, edited: Mapping[str, PythonValue], plan: RedactionPlan) -> Iterator[str]:
    for name, value in edited.items():
        if _is_unchanged(asked, name, value):
            continue
        holds_secret = _holds_secret(asked, name, value) or read_marked_arguments(value)
        if holds_secret or plan.redact_arguments({name: value})[0].get(name) is not value:
            yield name
