"""Replay: finds the recorded call that a new call of a run repeats, and lets one caller at a time work on it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import suppress
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Literal

from praval_tools.errors import ReplayMismatchError
from praval_tools.forks import ForkSafeLock
from praval_tools.journal.equal_calls import EqualCalls
from praval_tools.journal.events import EventType
from praval_tools.journal.recorded_tasks import TasksByCall
from praval_tools.journal.replay_entry import (
    UNFINISHED_STATUSES,
    ReplayEntry,
    ReplayQuery,
    get_call_prefix,
    is_edit,
    read_loop_maker,
)
from praval_tools.journal.storage.protocol import Record

if TYPE_CHECKING:
    from concurrent.futures import Future

MatchMode = Literal["content", "id", "position"]
MATCH_MODES: Final = ("content", "id", "position")

_TYPES_BEFORE_START: Final = frozenset((EventType.APPROVAL_ASKED, EventType.APPROVAL_ANSWERED, EventType.CALL_MOVED))
"""What is recorded of a call that may not have begun."""

_ContentKey = tuple[str | None, tuple[str, ...], str, str, str | None, str]


class Recording:
    """
    The recorded calls of one run that is open here; for any number of threads.

    Args:
        run_id: The run.
        match: What makes a call the repetition of a recorded one.
        records: What was recorded, in order.
    """

    def __init__(self, run_id: str, match: MatchMode, records: Iterable[Record]) -> None:
        self.run_id, self._match_mode = run_id, match
        self._lock, self._has_waiting_calls, self._last_position = ForkSafeLock(), False, 0
        self.entries: dict[str, ReplayEntry] = {}
        self._asked_entries: dict[str, ReplayEntry] = {}
        """Calls about which a person was asked when their process ended: they are as if new, each in its place."""
        self.edited_calls: set[str] = set()
        """The ids of calls that an approver once had run with other arguments than those of their callers."""
        loops = dict[str, tuple[str | None, str]]()
        for record in records:
            if record.type == EventType.LOOP_BEGAN:
                loops[record.id] = read_loop_maker(record)
            else:
                self._apply_record(record)
        self.entries = {entry.call_id: entry for entry in sorted(self.entries.values(), key=_get_first_position)}
        prefixes = {get_call_prefix(loop_id) for loop_id in loops}
        for entry in self.entries.values() if prefixes else ():
            entry.is_of_loop = entry.call_id.partition(".")[0] in prefixes
        places = self._list_places()
        self._recorded_entries = [entry for entry in places if entry.call_id in self.entries]
        self._by_requested_id: dict[str, ReplayEntry] = {}
        self._by_position: dict[str | None, deque[ReplayEntry]] = {}
        self._by_content: dict[_ContentKey, EqualCalls] = {}
        self.tasks = TasksByCall(
            (self.find_outer_call(parent_id), loop_id, path) for loop_id, (parent_id, path) in loops.items()
        )
        """The tasks that make calls, and begin loops, by the call inside of which they do."""
        by_outer_call: dict[str | None, list[ReplayEntry]] = {}
        for entry in places:
            by_outer_call.setdefault(self.find_outer_call(entry.parent_id), []).append(entry)
        for outer_call, made in by_outer_call.items():
            if match == "position":  # by content only calls are found that were stopped while the run is open
                self.tasks.set_calls(outer_call, made)
                self._by_position[outer_call] = deque(made)
            else:
                self._index_by_content(outer_call, made)

    def _apply_record(self, record: Record) -> None:
        call_id = record.call_id
        if call_id is None:
            return
        if is_edit(record):
            self.edited_calls.add(call_id)
        entry = self.entries.get(call_id)
        if entry is None:
            asked = self._asked_entries.pop(call_id, None)
            entry = ReplayEntry(call_id, record.agent, record.tool or "") if asked is None else asked
            (self._asked_entries if record.type in _TYPES_BEFORE_START else self.entries)[call_id] = entry
        entry.apply_record(record)
        if not entry.position:
            entry.set_position(self._last_position + 1)  # older releases recorded none
        self._last_position = max(self._last_position, entry.position)

    def _list_places(self) -> list[ReplayEntry]:
        """Return the recorded calls in order; one that was released leaves its place to the next equal call."""
        asked = [entry for entry in self._asked_entries.values() if entry.digest]  # older releases recorded none
        entries = sorted([*self.entries.values(), *asked], key=_get_first_position)
        if not any(entry.is_released for entry in entries):
            return entries
        places, later_entries = dict[str, ReplayEntry](), dict[_ContentKey, ReplayEntry]()
        for entry in reversed(entries):
            keys = self._list_content_keys(entry)
            repetitions = [later_entries[key] for key in keys if key in later_entries]
            if entry.is_released and repetitions:
                entry.is_replaced = self._match_mode != "id"
                place = places.pop(repetitions[0].call_id)
            else:
                place = entry
            places[place.call_id] = place
            if entry.call_id in self.entries:
                later_entries.update(dict.fromkeys(keys, place))
        return list(reversed(places.values()))

    def find_outer_call(self, parent_id: str | None) -> str | None:
        """Return the parent of a call where that is a call of this run, too; those of others have no place in it."""
        return parent_id if parent_id in self.entries else None

    def apply_record(self, record: Record, *, is_resolution: bool = False) -> None:
        """Apply a record that was written while the run is open; by a resolution, the call may be made again."""
        with self._lock:
            self._apply_record(record)
            entry = self.entries.get(record.call_id or "") if is_resolution else None
            while entry is not None:  # and the calls around it that are in doubt by it
                self._let_find_again(entry)
                outer = self.entries.get(entry.parent_id or "")
                is_in_doubt = outer is not None and outer.status == "doubt" and not outer.is_claimed
                entry = outer if is_in_doubt else None

    def _let_find_again(self, entry: ReplayEntry) -> None:
        """Let a call without an id that is made again find *entry*, which a person has resolved."""
        if entry.was_requested_without_id:
            entry.is_matched, entry.is_resolved = False, True
            self._remove_from_index(entry)
            self._index_again(entry, first=True)

    def find_or_create_entry(
        self, query: ReplayQuery, new_id: Callable[[], str], *, held: list[ReplayEntry],
        answered: Container[str] = (),
    ) -> ReplayEntry:  # fmt: skip
        """
        Return the recorded call that *query* repeats; a new one where there is none.

        If it was free and has not ended, the caller has claimed it, and it is appended to *held* (before this returns,
        so that an interrupt cannot lose it); one that has ended needs no claim; for others the caller waits by `claim`.

        Args:
            query: The call.
            new_id: Makes ids.
            held: What the caller has claimed.
            answered: The ids of calls that waited and whose approval has an answer now, where it `needs_answered`.

        Raises:
            ReplayMismatchError: The id, or the position, belongs to another call.
        """
        with self._lock:
            entry = self._find_match(query, answered)
            while entry is not None and entry.call_id in self._asked_entries:
                entry = self._take_asked(entry) if entry.matches(query) else self._drop_asked(entry, query, answered)
            if is_new := entry is None:
                name = query.call_id
                if name is None or self._find_by_id(name):  # the call of another position has it
                    name = new_id()
                entry = self.entries[name] = ReplayEntry(
                    name, query.agent, query.tool, query.chain, query.principal, query.parent_id, query.digest,
                    query.given_digest, query.fingerprint, has_given_id=name == query.call_id,
                )  # fmt: skip
            elif not entry.matches(query):
                raise ReplayMismatchError(self.run_id, entry.call_id, str(entry), str(query))
            if not entry.position or (entry.is_released and not entry.is_claimed and not entry.was_stopped):
                self._last_position += 1
                entry.set_position(self._last_position)
            if not entry.is_claimed and entry.status != "done":  # before it leaves its places, for an interrupt there
                self._claim(entry, held)
            entry.was_requested = entry.is_matched = True
            entry.is_resolved = entry.was_stopped = False
            self._note_call(entry, query, is_new=is_new)
            if query.call_id is None:
                entry.was_requested_without_id = True
            else:
                self._by_requested_id[query.call_id], entry.has_requested_id = entry, True
            if (left := self._find_by_position(query)) and left[0] is entry:
                left.popleft()
            return entry

    def _take_asked(self, entry: ReplayEntry) -> ReplayEntry:
        """Let *entry* be a call of the run, which is made again."""
        self.entries[entry.call_id] = self._asked_entries.pop(entry.call_id)
        return entry

    def _drop_asked(self, entry: ReplayEntry, query: ReplayQuery, answered: Container[str]) -> ReplayEntry | None:
        """Forget *entry*, whose id or place is that of another call now, and return what *query* finds instead."""
        del self._asked_entries[entry.call_id]
        self.edited_calls.discard(entry.call_id)
        self._remove_from_index(entry)
        if left := self._find_by_position(query):
            with suppress(ValueError):
                left.remove(entry)
        return self._find_match(query, answered)

    def _find_by_id(self, call_id: str) -> ReplayEntry | None:
        """Return the call that has this id; also one about which a person was only asked."""
        return self.entries.get(call_id) or self._asked_entries.get(call_id)

    def needs_answered(self, query: ReplayQuery) -> bool:
        """Tell whether it depends on answers to approvals which recorded call *query* repeats."""
        return self._has_waiting_calls and self._match_mode == "position" and query.call_id is None

    def is_taken(self, entry: ReplayEntry) -> bool:
        """
        Tell whether an equal call stands for *entry*, or got it: the call that has its id is another one then.

        Who gives an id that the library made knows it from that call, and means it.
        """
        if entry.is_replaced:
            return True
        return entry.has_given_id and entry.is_matched and entry.call_id not in self._by_requested_id

    def note_replay(self, entry: ReplayEntry) -> None:
        """Note that the call that has its id got the result of *entry*."""
        with self._lock:
            entry.was_requested = entry.is_matched = True
            self._by_requested_id[entry.call_id] = entry

    def release_match(self, entry: ReplayEntry) -> None:
        """
        Let a call of the same content find *entry* again: it was matched, and has not ended.

        A call that waits for an approval is found by the next such call, a call in doubt after those that ended. By
        position only calls that wait are found so, in their order.
        """
        with self._lock:
            entry.is_matched = False
            self._remove_from_index(entry)
            if entry.is_asked or self._match_mode != "position":
                self._index_again(entry, first=entry.is_asked and self._match_mode != "position")

    def undo_match(
        self, entry: ReplayEntry, query: ReplayQuery, held: list[ReplayEntry], *, comes_last: bool = False
    ) -> None:
        """
        Have the next call of the same content find *entry*: the call of *query* was stopped before it was entered.

        Nothing is undone where that call entered it, or where another one has claimed it.

        Args:
            entry: The recorded call.
            query: The call that was stopped.
            held: The recorded calls that it has claimed.
            comes_last: It has a result, for which the call waited: the next call with its id finds it, else one
                without an id that finds no other equal one.
        """
        with self._lock:
            if entry.was_entered or (entry.is_claimed and entry not in held):
                return
            if comes_last:
                if query.call_id is None and self._match_mode != "position":
                    entry.is_matched = False
                    self._remove_from_index(entry)
                    for calls in self._iter_equal_calls(entry):
                        calls.add_last(entry)
                return
            entry.is_matched, entry.was_stopped = False, True
            if query.call_id is None:
                entry.was_requested_without_id = False
            elif self._by_requested_id.get(query.call_id) is entry:
                del self._by_requested_id[query.call_id]
                entry.has_requested_id = False
            self._remove_from_index(entry)
            self._index_again(entry, first=True)

    def _remove_from_index(self, entry: ReplayEntry) -> None:
        for calls in self._iter_equal_calls(entry):
            calls.remove(entry)

    def _index_by_content(self, outer_call: str | None, made: list[ReplayEntry]) -> None:
        """Let the calls be found that were made inside of a call, or in the program itself, and no others of these."""
        keys = {entry.call_id: self._list_content_keys(entry) for entry in made}
        for key in chain.from_iterable(keys.values()):
            self._by_content.pop(key, None)
        # a call that was stopped, and ran in a later life, comes after the equal ones that ran before it
        made = sorted(made, key=_get_position)
        tasks = self.tasks.set_calls(outer_call, made)
        for entry in made:
            self._has_waiting_calls = self._has_waiting_calls or entry.is_asked
            for key in keys[entry.call_id]:
                self._by_content.setdefault(key, EqualCalls(tasks)).add(entry)

    def _index_again(self, entry: ReplayEntry, *, first: bool) -> None:
        """Let *entry* be found again, which its caller has left; *first*: before those that were not found yet."""
        self._has_waiting_calls = self._has_waiting_calls or entry.is_asked
        for key in self._list_content_keys(entry):
            if (calls := self._by_content.get(key)) is None:
                calls = self._by_content[key] = EqualCalls(self.tasks[key[4]])
            calls.add_again(entry, first=first)

    def _note_call(self, entry: ReplayEntry, query: ReplayQuery, *, is_new: bool) -> None:
        """Note which task makes a call; it goes on with the recorded calls of the one that made it, if it can."""
        task, tasks = query.task, self.tasks[self.find_outer_call(query.parent_id)]
        equal_calls = list(self._iter_equal_calls(entry))
        tasks.note_call(task, None if is_new else entry.task)
        path = task.path or ""
        if is_new:
            entry.task = path
        elif entry.task != path and any(calls.is_for_any_task(entry) for calls in equal_calls):
            self._last_position += 1
            entry.move(path, self._last_position)

    def _iter_equal_calls(self, entry: ReplayEntry) -> Iterator[EqualCalls]:
        keys = self._list_content_keys(entry)
        return (self._by_content[key] for key in keys if key in self._by_content)

    def _list_content_keys(self, entry: ReplayEntry) -> list[_ContentKey]:
        digests = (entry.digest,) if entry.given_digest in ("", entry.digest) else (entry.digest, entry.given_digest)
        outer_call = self.find_outer_call(entry.parent_id)
        return [(entry.agent, entry.chain, entry.principal, entry.tool, outer_call, digest) for digest in digests]

    def _find_match(self, query: ReplayQuery, answered: Container[str]) -> ReplayEntry | None:
        if query.call_id is not None and (known := self._by_requested_id.get(query.call_id)) is not None:
            return known  # matched under this id before, whatever its own is
        if self._match_mode == "position":
            stopped, left = self._find_by_content(query, answered), self._find_by_position(query)
            is_next = left is not None and len(left) > 0 and left[0].matches(query)
            if stopped is not None and not (stopped.is_resolved and is_next):
                return stopped
            return left[0] if left else None  # of a mismatch, the position is that of the next call, too
        known = None if query.call_id is None else self._find_by_id(query.call_id)
        if known is not None and not (known.matches(query) and self.is_taken(known)):
            return known
        if known is None and query.call_id is not None and self._match_mode == "id":
            return None
        entry = self._find_by_content(query, answered)
        if entry is not None:
            entry.is_replaced = entry.is_replaced or known is not None  # its own id names another equal call now
            return entry
        return None if known is None or known.is_matched else known

    def _find_by_position(self, query: ReplayQuery) -> deque[ReplayEntry] | None:
        """Return the recorded calls at the place of *query* that were not matched, the next one first."""
        return self._by_position.get(self.find_outer_call(query.parent_id))

    def _find_by_content(self, query: ReplayQuery, answered: Container[str]) -> ReplayEntry | None:
        """Return the first recorded call of the content of *query* that was not matched."""
        outer_call = self.find_outer_call(query.parent_id)
        for digest in (query.digest, query.given_digest):
            for principal in query.matching_principals if digest else ():
                key = query.agent, query.chain, principal, query.tool, outer_call, digest
                equal_calls = self._by_content.get(key)
                for entry in () if equal_calls is None else equal_calls.iter_entries(query.task):
                    if not self._is_another_call(entry, query, answered):
                        return entry
        return None

    def _is_another_call(self, entry: ReplayEntry, query: ReplayQuery, answered: Container[str]) -> bool:
        """
        Tell whether *query*, which is equal to *entry*, is not that call made again.

        A call that waits for an approval, or is in doubt, is made again under its id, or under none where it had none;
        by position one without an id is made again once it was stopped or resolved, or has an answer: before, it is
        the next call.
        """
        if not (entry.is_asked or entry.is_resolved or entry.has_ended_in_doubt):
            return False
        if query.call_id is not None:
            is_own_id = query.call_id == entry.call_id
            return entry.has_requested_id or (entry.was_requested_without_id and not is_own_id)
        if entry.has_requested_id:
            return True
        is_made_again = entry.was_stopped or entry.is_resolved or entry.call_id in answered
        return self._match_mode == "position" and not is_made_again

    def claim(self, entry: ReplayEntry, held: list[ReplayEntry]) -> Future[None] | None:
        """
        Claim *entry* for the caller, and add it to *held*.

        Returns:
            None; or a future, where somebody else has claimed it: wait for it and look at the entry again.
        """
        with self._lock:
            if not entry.is_claimed:
                self._claim(entry, held)
                entry.is_matched = True  # the call that had claimed it may have been stopped
                return None
            if entry.release_future is None:
                from concurrent.futures import Future

                entry.release_future = Future()
            return entry.release_future

    def _claim(self, entry: ReplayEntry, held: list[ReplayEntry]) -> None:
        """Claim *entry*; where its tool may run again, let it find the calls again that it made before, in order."""
        held.append(entry)
        entry.is_claimed = True
        if entry.status not in UNFINISHED_STATUSES:
            return
        entry.was_entered = False
        inner = [one for one in self.entries.values() if one.parent_id == entry.call_id and not one.is_replaced]
        asked = [one for one in self._asked_entries.values() if one.parent_id == entry.call_id and one.digest]
        if self._match_mode == "position":
            self._by_position[entry.call_id] = deque(sorted([*inner, *asked], key=_get_first_position))
        elif any(one.is_matched for one in inner):
            self._index_by_content(entry.call_id, [*inner, *asked])
        for one in inner:
            one.is_matched = False

    def release(self, entry: ReplayEntry) -> None:
        """Give *entry* back, and wake the callers that wait for it."""
        with self._lock:
            future, entry.release_future, entry.is_claimed = entry.release_future, None, False
        if future is not None:
            future.set_result(None)

    def list_in_doubt(self) -> list[ReplayEntry]:
        """Return the calls that began, may have done their work, and do not run here."""
        with self._lock:
            return [entry for entry in self.entries.values() if entry.status == "doubt" and not entry.is_claimed]

    def list_unused(self) -> list[ReplayEntry]:
        """Return the recorded calls that were not repeated; not those inside calls that were."""
        with self._lock:
            return list(self._iter_unused())

    def _iter_unused(self) -> Iterator[ReplayEntry]:
        used: set[str] = set()
        for entry in self._recorded_entries:
            if entry.was_requested or entry.parent_id in used:
                used.add(entry.call_id)
            else:
                yield entry


_get_first_position, _get_position = attrgetter("first_position"), attrgetter("position")
