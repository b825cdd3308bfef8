"""The approvals of a registry: calls that wait for a person, the handlers that are asked, and their answers."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Final, Literal, Protocol

import msgspec

from praval_tools.access.records import Principal
from praval_tools.access.state import get_tool_origin
from praval_tools.clock import Clock
from praval_tools.errors import ToolUsageError
from praval_tools.forks import ForkSafeLock, handle_forks
from praval_tools.misuse import explain_misuse
from praval_tools.names import OPERATOR, describe_error, has_type, shorten_repr, to_plain_scalar
from praval_tools.schema.json_input import copy_json
from praval_tools.schema.json_values import to_canonical_json
from praval_tools.tools.argument_copies import copy_arguments
from praval_tools.tools.argument_spellings import read_marked_arguments
from praval_tools.tools.call import ToolCall
from praval_tools.tools.decision import Allow, ApprovalAnswer, ApprovalEntry, ApprovalRequest, Deny
from praval_tools.tools.frames import activate_tool_frame
from praval_tools.tools.metadata import SAFETY_FIELDS
from praval_tools.tools.tool import AnyTool
from praval_tools.values.builtin_iteration import iterate_items_without_overrides

UNANSWERED: Final = object()
"""The answer of a handler that leaves the decision to somebody else: the call waits."""

ApprovalHandler = Callable[[ApprovalRequest], object]
"""Answers a request with `Allow` or `Deny`, at once or awaited; everything else counts as a denial."""

_POLL_SECONDS: Final = 0.2
"""How often a waiting caller looks for an answer, which another process may give."""


class ApprovalStore(Protocol):
    """The requests that a journal keeps for all of its processes; `runs.approval_recording`."""

    def list_entries(self) -> Sequence[ApprovalEntry]:
        """Return the requests that have not expired and whose answers were not used, the oldest first."""
        ...

    def record_answer(self, request: ApprovalRequest, answer: ApprovalAnswer) -> bool:
        """Record an answer; False where the store failed, and the answer counts in this process alone."""
        ...

    def find_given_answer(self, request: ApprovalRequest) -> ApprovalAnswer | None:
        """Return the answer that was given to a request, used or not."""
        ...

    def make_digest(self, text: bytes) -> str:
        """Return a digest of *text* that is the same in all processes, and tells nothing of it."""
        ...


class _LocalEntry(msgspec.Struct):
    """A request of this process that no journal keeps, with its answer."""

    request: ApprovalRequest
    answer: ApprovalAnswer | None = None
    is_used: bool = False


@explain_misuse
class Approvals:
    """
    The approvals of one registry.

    An answer is bound to the call with its run, to who calls and on whose behalf, to the tool's definition, risk level
    and origin, and to the exact arguments; it is used once, and expires. With a journal all processes that use it see
    each other's requests and answers; the arguments are then shown without their secrets where another process asked.
    Without one, or with one in memory, a forked process has no answers that were given before.
    """

    def __init__(
        self, require_operator: Callable[[str], None], clock: Clock, closing_event: threading.Event,
        refuse_closed: Callable[[], None], apply_setting: Callable[[Callable[[], object]], None],
    ) -> None:  # fmt: skip
        self._require_operator, self._clock, self._apply_setting = require_operator, clock, apply_setting
        self._closing_event, self._refuse_closed = closing_event, refuse_closed
        self._lock, self._key = ForkSafeLock(), os.urandom(32)
        self._local_entries: dict[str, _LocalEntry] = {}
        """Digest of a request → its entry, the oldest first."""
        self._handler: ApprovalHandler | None = None
        self._fallback_handler: ApprovalHandler | None = None
        self.store: ApprovalStore | None = None
        self._lifetime = timedelta(hours=1)
        handle_forks(self, in_child=Approvals._forget_answers)

    def _forget_answers(self) -> None:
        """Forget, in a forked process, the answers that its parent may use: each is for one call."""
        self._local_entries = {digest: entry for digest, entry in self._local_entries.items() if entry.answer is None}

    def __setattr__(self, name: str, value: object) -> None:
        if name in self.__dict__ and not name.startswith("_"):
            self._require_operator(f"set the {name} of approvals")
        super().__setattr__(name, value)

    # ── handlers ─────────────────────────────────────────────────────────────────────────────────

    @property
    def handler(self) -> ApprovalHandler | None:
        """The operator's handler; only the operator sets it."""
        return self._handler

    @handler.setter
    def handler(self, handler: ApprovalHandler | None) -> None:
        self._require_operator("set the approval handler")
        self._handler = handler

    def change_setting(self, name: Literal["handler", "lifetime"], value: object) -> None:
        """Set the handler or the lifetime; in a change of access it counts at the end, or not if that is undone."""
        self._require_operator(f"set the {name} of approvals")
        self._apply_setting(lambda: setattr(self, f"_{name}", value))

    @property
    def lifetime(self) -> timedelta:
        """How long a request waits."""
        return self._lifetime

    @property
    def fallback_handler(self) -> ApprovalHandler | None:
        """The handler that is asked where the operator has set none: that of trusted plugins."""
        return self._fallback_handler

    @fallback_handler.setter
    def fallback_handler(self, handler: ApprovalHandler | None) -> None:
        self._require_operator("set the fallback approval handler")
        self._fallback_handler = handler

    @property
    def effective_handler(self) -> ApprovalHandler | None:
        """The handler that is asked: the operator's, else that of the plugins; None where neither is set."""
        return self.handler if self.handler is not None else self.fallback_handler

    # ── answers of persons ───────────────────────────────────────────────────────────────────────

    def pending(self) -> list[ApprovalRequest]:
        """Return the requests that wait for an answer, the oldest first."""
        return [entry.request.copy() for entry in self._list_entries() if entry.answer is None]

    def answer(self, tool_call_id: str, answer: ApprovalAnswer) -> None:
        """Answer a request that waits, as `RegistryApprovals.answer` says."""
        self._require_operator("answer an approval")
        answer = check_answer(answer)
        with self._lock:
            request = find_entry(self._list_entries(), tool_call_id, is_waiting=True).request
            answer = _drop_equal_arguments(request, answer)
            local = self._find_local(request)
            if local is None and self.store is not None and self.store.record_answer(request, answer):
                return
            self._local_entries[request.digest] = _LocalEntry(request, answer)

    def wait(self, tool_call_id: str, timeout: float | None = None) -> ApprovalAnswer | None:
        """Wait until a request is answered, and return the answer, as `RegistryApprovals.wait` says."""
        steps = self._iter_poll_delays(tool_call_id, timeout)
        try:
            while True:
                self._closing_event.wait(next(steps))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    async def wait_async(self, tool_call_id: str, timeout: float | None = None) -> ApprovalAnswer | None:
        """Do what `wait` does, without blocking the event loop."""
        import asyncio

        steps = self._iter_poll_delays(tool_call_id, timeout)
        try:
            while True:
                await asyncio.sleep(next(steps))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def _iter_poll_delays(self, name: str, timeout: float | None) -> Generator[float, None, ApprovalAnswer | None]:
        """Yield the seconds until the next look at a request, until it is answered or nobody can answer any more."""
        deadline = None if timeout is None else self._clock.monotonic() + timeout
        request = find_entry(self._list_entries(), name).request
        while True:
            entry = next((entry for entry in self._list_entries() if entry.request.id == request.id), None)
            if entry is None:  # expired, or its answer was used
                return self._find_given_answer(request)
            if entry.answer is not None:
                return entry.answer
            left = _POLL_SECONDS if deadline is None else deadline - self._clock.monotonic()
            if left <= 0:
                return None
            yield min(left, _POLL_SECONDS)
            self._refuse_closed()

    def _find_given_answer(self, request: ApprovalRequest) -> ApprovalAnswer | None:
        local = self._find_local(request)
        if local is not None:
            return local.answer
        return None if self.store is None else self.store.find_given_answer(request)

    def _list_entries(self) -> list[ApprovalEntry]:
        """Return the requests that have not expired and whose answers were not used, the oldest first."""
        now = self._clock.now()
        with self._lock:
            entries = [
                ApprovalEntry(entry.request, entry.answer)
                for entry in self._local_entries.values()
                if not entry.is_used and entry.request.expires > now
            ]
        local_ids = {entry.request.id for entry in entries}
        stored = () if self.store is None else self.store.list_entries()
        entries += [entry for entry in stored if entry.request.id not in local_ids]
        return sorted(entries, key=lambda entry: entry.request.asked)

    def _find_local(self, request: ApprovalRequest) -> _LocalEntry | None:
        entry = self._local_entries.get(request.digest)
        return entry if entry is not None and entry.request.id == request.id else None

    # ── calls ────────────────────────────────────────────────────────────────────────────────────

    def build_request(
        self, call: ToolCall, principal: Principal | None, tool: AnyTool,
        arguments: Mapping[str, object], reason: str,
    ) -> ApprovalRequest:  # fmt: skip
        """
        Return the request for an approval of *call*.

        Args:
            call: The call, with its id.
            principal: The caller; None for the operator.
            tool: The tool.
            arguments: What the tool would get, as JSON; `Decimal` in it becomes text.
            reason: Why an approval is needed.
        """
        copied, now = {name: _write_decimals(value) for name, value in arguments.items()}, self._clock.now()
        chain, delegation = ((), "") if principal is None else (principal.chain, principal.delegation_digest)
        caller = [call.agent, *chain, delegation]
        identity = [call.tool_call_id, call.run_id, caller, tool.name, *describe_approved_tool(tool), copied]
        text = to_canonical_json(identity).encode("utf-8", "surrogatepass")
        return ApprovalRequest(
            id=self._clock.new_id(), tool_call_id=str(call.tool_call_id), tool=tool.name, agent=call.agent, chain=chain,
            arguments=copied, risk_level=tool.metadata.risk_level, reason=reason, run_id=call.run_id,
            fingerprint=tool.fingerprint, asked=now, expires=now + self.lifetime,
            digest=make_digest(self, text),
        )  # fmt: skip

    def _make_digest(self, text: bytes) -> str:
        import hmac  # loads OpenSSL: only who asks for an approval pays for it

        return hmac.digest(self._key, text, "sha256").hex()

    def take_answer(self, request: ApprovalRequest) -> ApprovalAnswer | None:
        """Use the answer to an equal earlier request that no journal keeps; return None where there is none."""
        with self._lock:
            entry = self._local_entries.get(request.digest)
            if entry is None or entry.is_used or entry.answer is None or entry.request.expires <= self._clock.now():
                return None
            entry.is_used = True
            return entry.answer

    def add_pending(self, request: ApprovalRequest) -> ApprovalRequest:
        """Let *request* wait in this process, unless an equal one does; return the one that waits."""
        with self._lock:
            now = self._clock.now()
            for digest, entry in list(self._local_entries.items()):
                if entry.request.expires > now:
                    break
                del self._local_entries[digest]
            waiting = self._local_entries.get(request.digest)
            if waiting is not None and waiting.answer is None and waiting.request.expires > now:
                return waiting.request
            self._local_entries.pop(request.digest, None)
            self._local_entries[request.digest] = _LocalEntry(request)
            return request

    def discard_request(self, request: ApprovalRequest) -> None:
        """Let no equal request wait, or its answer count, any more in this process."""
        with self._lock:
            self._local_entries.pop(request.digest, None)

    def interpret_answer(self, request: ApprovalRequest, answer: object) -> ApprovalAnswer | None:
        """
        Return what a handler's answer means; everything but an explicit `Allow` in time is a denial.

        Returns:
            The answer, or None where the call waits for somebody else's.
        """
        if answer is UNANSWERED:
            return None
        if self._clock.now() >= request.expires:
            return Deny("the answer came too late")
        try:
            return _drop_equal_arguments(request, check_answer(answer))
        except ToolUsageError as error:
            return Deny(f"the handler's answer does not count: {error}")


def list_unused_entries(approvals: Approvals) -> list[ApprovalEntry]:
    """Return the requests that have not expired and whose answers were not used, the oldest first."""
    return approvals._list_entries()


def make_digest(approvals: Approvals, text: bytes) -> str:
    """Return a digest of *text* that only processes make which share the registry's journal, or are this one."""
    return (approvals._make_digest if approvals.store is None else approvals.store.make_digest)(text)


def list_entries_of_tool(
    approvals: Approvals, tool: str, principal: Principal, run_id: str | None = None
) -> list[ApprovalEntry]:
    """
    Return the requests for calls of *principal* to a tool that wait, or whose answers are unused, the oldest first.

    Args:
        approvals: Those of the registry.
        tool: The name of the tool.
        principal: Who calls.
        run_id: The run of the calls; None: those outside runs.
    """
    wanted = (tool, principal.agent, principal.chain, run_id)
    entries = [(entry, entry.request) for entry in list_unused_entries(approvals)]
    return [entry for entry, asked in entries if (asked.tool, asked.agent, asked.chain, asked.run_id) == wanted]


def describe_approved_tool(tool: AnyTool) -> tuple[str, str, str]:
    """Return what an approval is bound to of *tool*: its definition, its origin, and what it says of its safety."""
    origin, digest = get_tool_origin(tool), tool.implementation.definition_digest
    safety = " ".join(f"{name}={getattr(tool.metadata, name)}" for name in SAFETY_FIELDS)
    return tool.fingerprint, f"{origin} {digest}" if digest else origin, safety


def write_exactly(arguments: Mapping[str, object]) -> str:
    """Return arguments, as an approver is shown them, as text that no others share."""
    return to_canonical_json(_write_decimals(arguments))


def _write_decimals(value: object) -> object:
    """Return a copy of a JSON value with the text of each `Decimal` in it."""
    if has_type(value, dict):
        return {key: _write_decimals(item) for key, item in value.items()}
    if has_type(value, (list, tuple)):
        return list(map(_write_decimals, value))
    return str(value) if has_type(value, Decimal) else value


def check_answer(answer: object) -> ApprovalAnswer:
    """
    Return *answer*, with arguments of its own.

    Raises:
        ToolUsageError: It is neither `Allow` nor `Deny`, or its arguments are not an object, or cannot be read.
    """
    if not has_type(answer, (Allow, Deny)):
        raise ToolUsageError(f"{shorten_repr(answer)} is not a valid answer; pass Allow(…) or Deny(…).")
    if has_type(answer, Deny) or answer.arguments is None:
        return answer
    if not has_type(answer.arguments, Mapping):
        raise ToolUsageError(f"{shorten_repr(answer.arguments)} are not arguments; pass Allow({{name: value, …}}).")
    try:
        with activate_tool_frame("(arguments)"):  # a mapping of another class lists its items, and keys hash themselves
            arguments = _copy_answer(answer.arguments)
    except Exception as error:  # isolation: such code may raise anything
        with activate_tool_frame("(arguments)"):
            reason = describe_error(error)
        raise ToolUsageError(f"{shorten_repr(answer.arguments)} cannot be read ({reason}); pass plain JSON.") from error
    return msgspec.structs.replace(answer, arguments=arguments)


def _copy_answer(arguments: Mapping[str, object]) -> dict[object, object]:
    items = {to_plain_scalar(name): value for name, value in iterate_items_without_overrides(arguments)}
    copied = copy_arguments(items)
    return copied if read_marked_arguments(copied) else copy_json(copied)


def find_entry(entries: Sequence[ApprovalEntry], name: str, *, is_waiting: bool = False) -> ApprovalEntry:
    """
    Return the entry of a request by its id, or by that of its call, where one request alone has that.

    Args:
        entries: Those that are known.
        name: The id.
        is_waiting: Only requests without an answer are meant.

    Raises:
        ToolUsageError: There is none, or there are several; the text names them.
    """
    named = [entry for entry in entries if entry.request.id == name]
    named = named or [entry for entry in entries if entry.request.tool_call_id == name]
    is_alone = len(named) == 1  # a call id that another request has, answered or not, does not say which one is meant
    matches = [entry for entry in named if entry.answer is None] if is_waiting and is_alone else named
    if len(matches) == 1:
        return matches[0]
    if matches:
        listed = "; ".join(_describe_request(entry.request) for entry in matches)
        raise ToolUsageError(
            f"{len(matches)} requests for an approval have the call id {shorten_repr(name)}: {listed}. "
            f"Name one by its own id.",
            "ambiguous-approval",
        )
    if named and named[0].answer is not None:
        raise ToolUsageError(f"Call {name!r} was answered already, by {named[0].answer.by or 'somebody'}.")
    raise ToolUsageError(f"No call {shorten_repr(name)} waits for an approval; see approvals.pending().")


def _describe_request(request: ApprovalRequest) -> str:
    run = "" if request.run_id is None else f" in run {request.run_id!r}"
    return f"{request.id} ({request.agent or OPERATOR} calls {request.tool!r}{run})"


def _drop_equal_arguments(request: ApprovalRequest, answer: ApprovalAnswer) -> ApprovalAnswer:
    """Return *answer* without arguments that are those of the request: they are no edit, which might be repaired."""
    if isinstance(answer, Deny) or answer.arguments is None:
        return answer
    try:
        with activate_tool_frame("(arguments)"):
            is_equal = write_exactly(answer.arguments) == write_exactly(request.arguments)
    except Exception:  # no JSON, or code of its own that raises: reported where it is bound
        return answer
    return msgspec.structs.replace(answer, arguments=None) if is_equal else answer
