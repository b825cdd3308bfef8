"""Records the model's replies of a loop in the journal, and gives them again when the loop is resumed in its run."""

from __future__ import annotations

import math
import re
import warnings
from base64 import b64encode
from collections.abc import Generator, Iterable, Sequence
from typing import Any, Final

import attrs

from praval_tools.access.records import Principal
from praval_tools.errors import JournalError, JournalWarning, ReplayMismatchError, ToolUsageError, get_user_stacklevel
from praval_tools.execution.effects import AppendToJournal
from praval_tools.formats import Format
from praval_tools.formats.format import WireObject
from praval_tools.journal.codec import build_record, from_json
from praval_tools.journal.digests import compute_digest, compute_redacted_digest
from praval_tools.journal.events import JournalEvent, LoopBegan, ModelReplied
from praval_tools.journal.process_name import get_process_name
from praval_tools.journal.redaction.secret_search import NO_SECRETS
from praval_tools.journal.replay_entry import get_call_prefix
from praval_tools.journal.storage.protocol import Answer, Item
from praval_tools.names import shorten_repr
from praval_tools.runs.call_records import parse_call_arguments
from praval_tools.runs.calling_tasks import find_calling_task
from praval_tools.runs.conversation_secrets import ConversationSecrets
from praval_tools.runs.matching import find_parent_id
from praval_tools.runs.open_run import OpenRun
from praval_tools.runs.recorded_results import build_replayed_result
from praval_tools.runs.recorder import Recorder
from praval_tools.tools.call import ToolCall, ToolResult

_PLAIN_ID: Final = re.compile(r"[\x21-\x7e]{1,80}")


class ModelLog:
    """
    The recorded prompt and replies of one loop in an open run.

    Args:
        recorder: The recorder of the registry.
        run: The run.
        principal: The principal whose tools the model is offered.
        form: The model's format.
    """

    def __init__(self, recorder: Recorder, run: OpenRun, principal: Principal, form: Format) -> None:
        self._recorder, self._run = recorder, run
        self._parent_id = find_parent_id(recorder.runtime, run, None)
        self._task = find_calling_task(run.get_first_task())
        self._tasks = run.recording.tasks[run.recording.find_outer_call(self._parent_id)]
        self._agent, self._chain, self._principal = principal.agent, principal.chain, principal.delegation_digest
        self._clock, self._store = recorder.runtime.clock, recorder.store
        self._form, self._secrets = form, ConversationSecrets(recorder.plans, recorder.redactor)
        self._replies: dict[int, ModelReplied] = {}
        self._first_ids: dict[tuple[int, str], str] = {}
        self._beginning: Item | None = None
        self._has_ended = False
        self.loop_id = ""

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._run.run_id

    @property
    def is_new(self) -> bool:
        """Whether the loop is not recorded yet."""
        return self._beginning is not None

    # ── loops ────────────────────────────────────────────────────────────────────────────────────

    def begin_loop(self, prompt: Any, model: str, *, owns_run: bool) -> Any:
        """
        Find the recorded loop that begins with *prompt*, or start a new one.

        Args:
            prompt: What the loop begins with, as JSON; None resumes the agent's last loop.
            model: The name of the model.
            owns_run: Whether the run was opened for this loop alone.

        Returns:
            What the loop begins with.

        Raises:
            ReplayMismatchError: The run was opened for the loop, and holds another conversation.
            ToolUsageError: There is no recorded loop to resume, or the run was left.
        """
        self._run.check_open()
        self._run.wait_for_writes()  # of a loop that was stopped, and is now begun again
        find_outer_call = self._run.recording.find_outer_call
        recorded = [loop for loop in self._read_events("loop_began") if isinstance(loop, LoopBegan)
                    and (loop.agent, loop.principal) == (self._agent, self._principal)
                    and find_outer_call(loop.parent_id) == find_outer_call(self._parent_id)]  # fmt: skip
        if prompt is None:
            last = self._require_loop(self._take_first(reversed(recorded)))
            self._load_loop(last)
            self._secrets.redact_prompt(self._form, last.input)
            return last.input
        clean = self._secrets.redact_prompt(self._form, prompt)
        digest = compute_redacted_digest(prompt, clean, self._recorder.redactor.make_digest)
        equal = {loop.id: loop for loop in recorded if loop.digest == digest}
        match = self._take_first(equal[loop_id] for loop_id in self._tasks.list_free_loops(self._task, equal))
        if match is not None:
            self._load_loop(match)
            return prompt
        if owns_run and recorded:
            first_prompt = shorten_repr(recorded[0].input)
            raise ReplayMismatchError(
                self.run_id, f"loop of {self._agent}", f"a conversation that begins with {first_prompt}",
                f"one that begins with {shorten_repr(clean)}",
            )  # fmt: skip
        self._start_loop(clean, digest, model, masked=clean is not prompt)
        return prompt

    def end_loop(self) -> None:
        """Note that the loop has ended for good: an equal one that begins while the run is open is another one."""
        self._has_ended = True

    def leave_loop(self) -> None:
        """Let the loop be gone on with while the run is open, unless it has ended for good."""
        if self.loop_id:
            self._run.leave_loop(self.loop_id, self, has_ended=self._has_ended)

    def _take_first(self, loops: Iterable[LoopBegan]) -> LoopBegan | None:
        """Take the first of *loops* in which no other work goes on."""
        for loop in loops:
            self.loop_id = loop.id  # before, so that an interrupt after it does not keep the loop
            if self._run.take_loop(loop.id, self):
                self._tasks.note_loop(self._task, loop.id)
                return loop
        self.loop_id = ""
        return None

    def _require_loop(self, loop: LoopBegan | None) -> LoopBegan:
        if loop is None:
            raise ToolUsageError(
                f"Run {self.run_id!r} has no loop of {self._agent!r} to go on with; begin one with a prompt.", "no-loop"
            )
        if loop.masked:
            raise ToolUsageError(
                f"The prompt of run {self.run_id!r} holds secrets, which the journal does not keep; give it again: "
                f"run(prompt, run_id={self.run_id!r}).",
                "no-loop",
            )
        return loop

    def _load_loop(self, loop: LoopBegan) -> None:
        for event in self._read_replies():
            if event.loop_id == loop.id:
                self._add_reply(event)
                for call in event.reply["calls"]:
                    self._secrets.add_call(ToolCall(call["id"], call["name"], call["arguments"]))

    def _add_reply(self, event: ModelReplied) -> None:
        """Add a reply; where a step was asked for twice, equal calls keep the ids that they had in the first reply."""
        step, earlier = event.step, self._replies.get(event.step)
        pairs = zip(_list_contents(earlier), _list_contents(event), strict=False) if earlier else ()
        for (first_id, first), (again_id, again) in pairs:
            if first == again:
                self._first_ids[step, again_id] = self._first_ids.get((step, first_id), first_id)
        self._replies[step] = event

    def _start_loop(self, prompt: object, digest: str, model: str, *, masked: bool) -> None:
        event = LoopBegan(
            id=self._clock.new_id(), time=self._clock.now(), process=get_process_name(), run_id=self.run_id,
            agent=self._agent, input=prompt, digest=digest, masked=masked, model=model,
            parent_id=self._parent_id, principal=self._principal,
        )  # fmt: skip
        self._take_first([event])
        event = attrs.evolve(event, task=self._task.path or "")
        self._beginning = self._build_item(event)

    def _read_replies(self) -> list[ModelReplied]:
        return [event for event in self._read_events("model_replied") if isinstance(event, ModelReplied)]

    def _read_events(self, event_type: str) -> list[JournalEvent]:
        records = self._store.read(run_id=self.run_id, type=event_type)
        return [from_json(record.body, event_id=record.id) for record in records]

    # ── replies ──────────────────────────────────────────────────────────────────────────────────

    def find_reply(self, step: int) -> WireObject | None:
        """Return the recorded reply of a step; None where the model has to be asked."""
        event = self._replies.get(step)
        if event is None or not isinstance(event.reply, dict):
            return None
        reply = event.reply
        if event.masked and not all(self._is_done(step, call) for call in reply["calls"]):
            return None  # the journal lacks a secret without which a call cannot be made
        return reply

    def record_reply(
        self, step: int, reply: WireObject, calls: Sequence[ToolCall], latency_ms: float
    ) -> Generator[AppendToJournal, Answer, None]:
        """
        Record a reply, without its secrets and those of the conversation up to it.

        Raises:
            ToolUsageError: The run was left, and may be open elsewhere, where nobody knows of this reply.
            JournalError: The reply was not written, and the registry is not lenient.
        """
        item = self._build_reply_item(step, reply, calls, latency_ms)
        if self._run.is_full:  # replies may rest on refusals that are not recorded: a resumed loop asks again
            return
        try:
            yield from self._write(item)
        except JournalError as error:
            self._handle_write_error(error)

    def _build_reply_item(
        self, step: int, reply: WireObject, calls: Sequence[ToolCall], latency_ms: float
    ) -> Item:
        reply = {**reply, "messages": to_journal_json(reply["messages"])}
        clean = self._secrets.redact_reply(reply, calls)
        pairs = zip(clean["calls"], reply["calls"], strict=True)
        masked = any(recorded["arguments"] is not given["arguments"] for recorded, given in pairs)
        event = ModelReplied(
            id=self._clock.new_id(), time=self._clock.now(), process=get_process_name(), run_id=self.run_id,
            agent=self._agent, loop_id=self.loop_id, step=step, reply=clean, masked=masked,
            digests=self._compute_digests(reply, clean) if masked else (), latency_ms=latency_ms,
        )  # fmt: skip
        self._add_reply(event)
        return self._build_item(event)

    def _compute_digests(self, reply: WireObject, clean: WireObject) -> tuple[str, ...]:
        make_digest, pairs = self._recorder.redactor.make_digest, zip(reply["calls"], clean["calls"], strict=True)
        return tuple(
            compute_redacted_digest(
                parse_call_arguments(given["arguments"]), parse_call_arguments(recorded["arguments"]), make_digest
            )
            for given, recorded in pairs
        )

    def add_results(self, calls: Sequence[ToolCall], results: Sequence[ToolResult], messages: Sequence[object]) -> None:
        """Have the secrets in results hidden in later replies of the model, which is shown *messages* of them."""
        for call, result in zip(calls, results, strict=True):
            entry = self._run.recording.entries.get(result.tool_call_id or "")
            self._secrets.add_result(call, result, NO_SECRETS if entry is None else entry.secrets, messages)

    def is_masked(self, step: int) -> bool:
        """Tell whether secrets are missing from the recorded calls of a step."""
        event = self._replies.get(step)
        return event is not None and event.masked

    def get_reason(self, step: int, number: int) -> str:
        """Return the reason of a call of a recorded reply, without the secrets of the conversation up to it."""
        reason: str = self._replies[step].reply["calls"][number].get("reason") or ""
        return reason

    def build_call_id(self, step: int, provider_id: str) -> str:
        """Return the id of a call in the run, since a provider may use an id again in another step."""
        first_id = self._first_ids.get((step, provider_id), provider_id)
        short_id = first_id if _PLAIN_ID.fullmatch(first_id) else compute_digest(first_id)
        return f"{get_call_prefix(self.loop_id)}.{step}.{short_id}"

    def replay_result(self, call: ToolCall) -> ToolResult:
        """Return the recorded result of a call that is done."""
        entry = self._run.recording.entries[call.tool_call_id or ""]
        self._run.recording.note_replay(entry)
        tool = self._recorder.plans.find_tool(call)
        max_size = None if tool is None else self._recorder.runtime.get_max_result_size(tool)
        return build_replayed_result(entry, call.tool_call_id, tool, max_size)

    def _is_done(self, step: int, call: WireObject) -> bool:
        """Tell whether *call* of a recorded reply is done; another principal's, or of another tool, may have its id."""
        entry = self._run.recording.entries.get(self.build_call_id(step, call["id"]))
        if entry is None or entry.status != "done" or self._run.recording.is_taken(entry):
            return False
        return entry.is_call_of(self._agent, self._chain, self._principal, call["name"])

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    def record_beginning(self) -> Generator[AppendToJournal, Answer, None]:
        """
        Record that the loop began, where it is new.

        Raises:
            ToolUsageError: The run was left.
            JournalError: It was not written.
        """
        if self._beginning is not None:
            yield from self._write(self._beginning)

    def _write(self, item: Item) -> Generator[AppendToJournal, Answer, None]:
        """Write an item while the run is open; where nobody waits for it any more, leaving the run does."""
        try:
            self._run.active_calls.append(None)
            self._run.check_open()
            answer = yield AppendToJournal(self._store, item)
        except Exception:
            raise
        except BaseException:  # an interrupt, or the end of the loop
            self._run.has_unawaited_writes = True
            raise
        finally:
            self._run.active_calls.pop()
            self._run.release_if_idle()
        if answer.error is not None:
            raise answer.error

    def _build_item(self, event: LoopBegan | ModelReplied) -> Item:
        return Item((build_record(event),))

    def _handle_write_error(self, error: JournalError) -> None:
        """
        Warn of *error* and go on, if the registry is lenient.

        Raises:
            JournalError: It is not.
        """
        if not self._recorder.lenient:
            raise error
        warnings.warn(f"{error} The loop went on all the same.", JournalWarning, stacklevel=get_user_stacklevel())


def _list_contents(event: ModelReplied) -> list[tuple[str, tuple[object, ...]]]:
    """Return the id of each call in a reply, and what makes it the same call as one in another reply to one request."""
    calls = event.reply["calls"]
    digests = event.digests if len(event.digests) == len(calls) else ("",) * len(calls)
    return [
        (call["id"], (call["name"], compute_digest(call["arguments"]), digest))
        for call, digest in zip(calls, digests, strict=True)
    ]


def to_journal_json(value: Any) -> Any:
    """
    Return what a provider sent as JSON for the journal: bytes as base64, other objects as text.

    Raises:
        ToolUsageError: It is nested too deeply.
    """
    try:
        return _convert_to_json(value)
    except RecursionError:
        raise ToolUsageError("A model's reply is nested too deeply to be written down.", "unwritable-reply") from None


def _convert_to_json(value: object) -> object:
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _convert_to_json(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return list(map(_convert_to_json, value))
    return b64encode(value).decode() if isinstance(value, bytes) else str(value)
