"""What a model said, in the journal: a loop that is begun again takes up its recorded replies."""

from __future__ import annotations

import math
import re
import warnings
from base64 import b64encode
from collections.abc import Iterator, Sequence
from typing import Any, Final

from praval_tools.errors import JournalError, JournalWarning, ReplayMismatchError, ToolUsageError, get_user_stacklevel
from praval_tools.journal.codec import build_record, from_json
from praval_tools.journal.events import LoopBegan, ModelReplied, get_process_name
from praval_tools.journal.redaction.secret_search import NO_SECRETS, iter_secret_texts
from praval_tools.journal.replay import compute_digest
from praval_tools.journal.storage.protocol import Answer, Item
from praval_tools.names import shorten_repr
from praval_tools.runs import call_records
from praval_tools.runs.open_run import OpenRun, current_run
from praval_tools.runs.recorder import Recorder
from praval_tools.tools.call import ToolCall, ToolResult

_PLAIN_ID: Final = re.compile(r"[\x21-\x7e]{1,80}")


def find_current_run(recorder: Any) -> OpenRun | None:
    """Return the run of this context, if it is one of the registry's."""
    run = current_run.get()
    while run is not None and run.recorder is not recorder:
        run = run.outer_run
    return run


class ModelLog:
    """
    One loop in an open run.

    Args:
        recorder: The registry's.
        run: The run.
        agent: Whose tools are offered.
        parent_id: The call from whose tool the loop is begun.
    """

    def __init__(self, recorder: Recorder, run: OpenRun, agent: str, parent_id: str | None) -> None:
        self._recorder, self._run, self._agent, self._parent_id = recorder, run, agent, parent_id
        self._clock, self._store = recorder.runtime.clock, recorder.store
        self._redactor = recorder.redactor
        self._replies: dict[int, ModelReplied] = {}
        self._first_ids: dict[tuple[int, str], str] = {}
        self.loop_id = ""

    @property
    def run_id(self) -> str:
        """The run."""
        return self._run.run_id

    # ── the beginning ────────────────────────────────────────────────────────────────────────────

    def begin_loop(self, given: Any, model: str, *, owns_run: bool) -> tuple[Any, Item | None]:
        """
        Find the recorded loop that begins so, or make one.

        Args:
            given: What it begins with, as JSON; None: what the last loop of the agent began with.
            model: What the model is called.
            alone: The run is this loop's own.

        Returns:
            What it begins with, and what is to be written first.

        Raises:
            ReplayMismatchError: The run is another conversation's.
            ToolUsageError: Nothing was recorded to go on with.
        """
        mine = [one for one in self._read_events("loop_began") if isinstance(one, LoopBegan)
                and one.agent == self._agent and one.parent_id == self._parent_id]  # fmt: skip
        free = [one for one in mine if one.id not in self._run.loop_ids]
        if given is None:
            last = self._require_last_loop(free)
            self._load_loop(last)
            return last.input, None
        digest = compute_digest(given)
        found = next((one for one in free if one.digest == digest), None)
        if found is None and owns_run and mine:
            raise ReplayMismatchError(
                self.run_id, f"loop of {self._agent}", f"a conversation that begins with {shorten_repr(mine[0].input)}",
                f"one that begins with {shorten_repr(given)}",
            )  # fmt: skip
        if found is not None:
            self._load_loop(found)
            return given, None
        return given, self._start_loop(given, digest, model)

    def _require_last_loop(self, free: Sequence[LoopBegan]) -> LoopBegan:
        if not free:
            raise ToolUsageError(
                f"Run {self.run_id!r} has no loop of {self._agent!r} to go on with; begin one with a prompt.", "no-loop"
            )
        if free[-1].masked:
            raise ToolUsageError(
                f"The prompt of run {self.run_id!r} holds secrets, which the journal does not keep; give it again: "
                f"run(prompt, run_id={self.run_id!r}).",
                "no-loop",
            )
        return free[-1]

    def _load_loop(self, found: LoopBegan) -> None:
        self.loop_id = found.id
        self._run.loop_ids.add(found.id)
        for one in self._read_events("model_replied"):
            if isinstance(one, ModelReplied) and one.loop_id == found.id:
                self._add_reply(one)

    def _add_reply(self, event: ModelReplied) -> None:
        """Take in a reply; the calls of one that was asked for again are the calls of the first, under its ids."""
        step, known = event.step, self._replies.get(event.step)
        for first, again in zip(known.reply["calls"] if known else (), event.reply["calls"], strict=False):
            if all(first[key] == again[key] for key in ("name", "arguments")):
                self._first_ids[step, again["id"]] = self._first_ids.get((step, first["id"]), first["id"])
        self._replies[step] = event

    def _start_loop(self, given: Any, digest: str, model: str) -> Item:
        clean, _ = self._redactor.redact(given)
        event = LoopBegan(
            id=self._clock.new_id(), time=self._clock.now(), process=get_process_name(), run_id=self.run_id, agent=self._agent,
            input=clean, digest=digest, masked=clean is not given, model=model, parent_id=self._parent_id,
        )  # fmt: skip
        self._load_loop(event)
        return self._build_item(event)

    def _read_events(self, kind: str) -> list[Any]:
        records = self._store.read(run_id=self.run_id, type=kind)
        return [from_json(one.body, event_id=one.id) for one in records]

    # ── replies ──────────────────────────────────────────────────────────────────────────────────

    def find_reply(self, step: int) -> dict[str, Any] | None:
        """Return the reply of a step; None: the model is to be asked."""
        found = self._replies.get(step)
        if found is None or not isinstance(found.reply, dict):
            return None
        if found.masked and not all(self._is_done(self.build_call_id(step, one["id"])) for one in found.reply["calls"]):
            return None  # a secret is not in the journal, and the call cannot be made without
        return found.reply

    def prepare_reply_item(
        self, step: int, reply: dict[str, Any], calls: Sequence[ToolCall], latency_ms: float
    ) -> Item:
        """
        Return what is written of a reply: without secrets, those that the tools' own schemas mark among them.

        A secret too short to be searched for is hidden in its place, which the provider's messages do not tell;
        they are left out then, and made anew from text and calls by whoever reads the reply.
        """
        reply = to_journal_json(reply)
        secrets, shown, lost = NO_SECRETS, [], False
        for call, said in zip(calls, reply["calls"], strict=True):
            plan = self._recorder.matcher.get_redaction_plan(self._recorder.matcher.find_tool(call))
            given = call_records.parse_call_arguments(said["arguments"])
            clean, found = plan.redact_arguments(given, is_validated=False)
            secrets |= found
            lost = lost or any(found.get_marker(leaf) is None for one in _iter_hidden_values(given, clean)
                               for leaf in iter_secret_texts(one, lambda text: text))  # fmt: skip
            shown.append(said if clean is given else {**said, "arguments": clean})
        told = {**reply, "calls": shown, **({"messages": []} if lost else {})}
        clean, _ = self._redactor.redact(told, secrets)
        event = ModelReplied(
            id=self._clock.new_id(), time=self._clock.now(), process=get_process_name(), run_id=self.run_id, agent=self._agent,
            loop_id=self.loop_id, step=step, reply=clean, masked=clean["calls"] != reply["calls"],
            latency_ms=latency_ms,
        )  # fmt: skip
        self._add_reply(event)
        return self._build_item(event)

    def is_masked(self, step: int) -> bool:
        """Tell whether arguments of the recorded calls of a step are hidden."""
        found = self._replies.get(step)
        return found is not None and found.masked

    def build_call_id(self, step: int, given: str) -> str:
        """Return the id of a call in the run: providers repeat theirs from turn to turn."""
        given = self._first_ids.get((step, given), given)
        short = given if _PLAIN_ID.fullmatch(given) else compute_digest(given)
        return f"{self.loop_id[-12:]}.{step}.{short}"

    def replay_result(self, call: ToolCall) -> ToolResult:
        """Return the recorded result of a call that is done."""
        entry = self._run.recording.entries[call.tool_call_id or ""]
        entry.was_requested = entry.is_matched = True
        tool = self._recorder.matcher.find_tool(call)
        most = None if tool is None else self._recorder.runtime.get_max_result_size(tool)
        return call_records.build_replayed_result(entry, call.tool_call_id, tool, most)

    def _is_done(self, call_id: str) -> bool:
        entry = self._run.recording.entries.get(call_id)
        return entry is not None and entry.status == "done"

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    def _build_item(self, event: LoopBegan | ModelReplied) -> Item:
        return Item((build_record(event),))

    def check_written(self, answer: Answer) -> None:
        """
        Take in that something was written, or was not.

        Raises:
            JournalError: It was not.
        """
        if answer.error is not None:
            raise answer.error

    def handle_write_error(self, error: JournalError) -> None:
        """
        Go on without what could not be written, with a warning, where the operator wants that.

        Raises:
            JournalError: The operator does not.
        """
        if not self._recorder.lenient:
            raise error
        warnings.warn(f"{error} The loop went on all the same.", JournalWarning, stacklevel=get_user_stacklevel())


def _iter_hidden_values(given: Any, clean: Any) -> Iterator[Any]:
    """Yield what of *given* stands in *clean* as a marker."""
    if isinstance(given, dict) and isinstance(clean, dict):
        for key, one in given.items():
            yield from _iter_hidden_values(one, clean.get(key))
    elif isinstance(given, list) and isinstance(clean, list) and len(given) == len(clean):
        for one, other in zip(given, clean, strict=True):
            yield from _iter_hidden_values(one, other)
    elif given != clean:
        yield given


def to_journal_json(value: Any) -> Any:
    """
    Return what a provider sent as JSON that a journal keeps: bytes as base64, foreign objects as text.

    Raises:
        ToolUsageError: It is nested without end.
    """
    try:
        return _convert_to_json(value)
    except RecursionError:
        raise ToolUsageError("A model's reply is nested too deeply to be written down.", "unwritable-reply") from None


def _convert_to_json(value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _convert_to_json(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return list(map(_convert_to_json, value))
    return b64encode(value).decode() if isinstance(value, bytes) else str(value)
