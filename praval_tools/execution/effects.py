"""The effects that the pipeline of a call yields to its driver, such as running the tool once the call is admitted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from praval_tools.access.events import GrantSpent
from praval_tools.access.records import Principal, list_members
from praval_tools.access.rules import AccessPath, AccessResolution, RecordsBeforeSpending, resolve_access
from praval_tools.access.state import AccessState
from praval_tools.execution.batch_turns import NO_TURN, Turn
from praval_tools.execution.context import CALL, ENDED, Frame, FrameScope, activate_frame, ensure_call, make_frame
from praval_tools.execution.deps import get_deps
from praval_tools.execution.engines.jobs import Job
from praval_tools.execution.event_loops import get_own_cancellation
from praval_tools.execution.failures import CallCancelledError, StaleDecisionError
from praval_tools.execution.replay_order import ReplayOrder
from praval_tools.execution.runtime import Runtime
from praval_tools.names import OPERATOR
from praval_tools.tools.call import ToolCall
from praval_tools.tools.context import ToolContext, choose_deps
from praval_tools.tools.decision import ApprovalRequest
from praval_tools.tools.frames import await_in_frame
from praval_tools.tools.implementation import MISS, BoundArguments
from praval_tools.tools.reports import LogLevel, ReportedNumber, ToolLog, ToolProgress, ToolReport, report_listener
from praval_tools.tools.return_values import complete_awaited, complete_value
from praval_tools.tools.tool import AnyTool

if TYPE_CHECKING:
    from concurrent.futures import Future


class RunTool(msgspec.Struct, eq=False):
    """
    A call that was decided; the driver enters its function.

    *spent_grants* are the limited grants that it has spent already; *stored_grants* are those whose use the
    journal's store has counted, whatever is left of them there for other calls. *idempotency_key* is that of a
    recorded run; elsewhere the key is computed where the tool asks for it. *fast_function*, where there is one, admits
    the call and runs it, in place of the steps here. *enter_elsewhere* runs the function of the admitted call in
    another process, and returns its value; *marked_values* are those that classes there mark as secret.
    Where no class reads the value back, it *stays_json*; policies or an approver judge its arguments if it
    *is_reviewed*.
    """

    runtime: Runtime
    call: ToolCall
    principal: Principal | None
    tool: AnyTool
    bound_arguments: BoundArguments
    verdict: AccessResolution
    path: AccessPath
    state: AccessState
    frame: Any = None
    attempts: int = 0
    spent_grants: frozenset[str] = frozenset()
    stored_grants: frozenset[str] = frozenset()
    abandoned: bool = False
    job: Job | None = None
    idempotency_key: str = ""
    fast_function: Callable[[dict[str, Any], Frame], Any] | None = None
    enter_elsewhere: Callable[[], object] | None = None
    marked_values: tuple[object, ...] = ()
    stays_json: bool = False
    is_reviewed: bool = False
    permits: list[None] = msgspec.field(default_factory=lambda: [None])
    """Holds one permit, which whoever enters the function takes, or whoever prevents that."""

    def __post_init__(self) -> None:
        if self.frame is not None:
            return
        actor = OPERATOR if self.principal is None else self.principal.agent
        scope = FrameScope(self.runtime.registry, self.principal, actor, self.tool.name)
        self.frame = make_frame(scope, self.bound_arguments.arguments, self.call)

    @property
    def call_id(self) -> str | None:
        """The id of the call: from its caller, or made when something first needed it."""
        return self.frame[CALL].tool_call_id  # type: ignore[no-any-return]

    @property
    def counted_grants(self) -> frozenset[str]:
        """The ids of its grants whose calls the journal's store counts."""
        return frozenset(use.grant.id for use in self.path.grants if use.grant.max_calls is not None and use.stored)

    def admit(self) -> None:
        """
        Admit the call; the linearization point, directly before the function is entered.

        Spends the grants on which the decision rests, in the same step, unless an earlier attempt did.

        Raises:
            StaleDecisionError: The decision no longer holds, or nobody waits for the call any more.
        """
        if self.runtime.access_store.closed or self.abandoned:  # its caller has a result already
            raise StaleDecisionError
        state = self.runtime.access_store.state
        counted = (usable.grant.id for usable in self.path.grants if usable.grant.max_calls is not None)
        unspent = tuple(grant for grant in counted if grant not in self.spent_grants) if self.path.grants else ()
        if unspent:
            self.runtime.access_store.commit(lambda now: self._plan_spending(now, unspent), outside_draft=True)
            self.spent_grants = self.spent_grants.union(unspent)
        elif state is not self.state or not self.path.is_unconditional:
            self._check_decision(state)
        self._enter()

    def _enter(self) -> None:
        """
        Count one more attempt.

        Raises:
            StaleDecisionError: The call was given up before.
        """
        self.attempts += 1  # before, so that no interrupt can hide that it was entered
        if not self.prevent_entry():
            self.attempts -= 1
            raise StaleDecisionError

    def prevent_entry(self) -> bool:
        """Keep the function from being entered, in whatever thread; return False where it was entered before."""
        try:
            self.permits.pop()
        except IndexError:
            return False
        return True

    def _plan_spending(self, state: AccessState, grants: tuple[str, ...]) -> list[GrantSpent]:
        self._check_decision(state)
        return [GrantSpent(grants=grants)]

    def _check_decision(self, state: AccessState) -> None:
        """Raise `StaleDecisionError` unless *state* allows the call by the same grants."""
        if (
            state.find_tool_record(self.tool.name) is not self.verdict.record
            or state.policies is not self.state.policies
        ):
            raise StaleDecisionError
        if self.principal is None:
            return
        resolution = resolve_access(
            RecordsBeforeSpending(state, self.spent_grants | self.stored_grants),
            self.principal,
            self.tool.name,
            self.runtime.clock.now(),
        )
        path = resolution.find_path(self.path.rank)
        if path is None or (self.path.is_metered and resolution.has_free_path):
            raise StaleDecisionError
        grants = [[usable.grant.id for usable in part.grants] for part in (path, self.path)]
        if path.decision != self.path.decision or grants[0] != grants[1]:
            raise StaleDecisionError

    def build_keywords(self) -> dict[str, object]:
        """Return the function's keywords, with the `ToolContext` for the parameters that take it."""
        implementation = self.tool.implementation
        names, values = implementation.context_parameters, self.bound_arguments.values
        values = implementation.compiled.complete_values(values)
        if not names:
            return values
        call = self.call = ensure_call(self.frame)
        principal = self.principal
        report_progress, write_log = self.make_reporters(call)
        context = ToolContext(
            agent=principal.agent if principal else None, chain=principal.chain if principal else (),
            tool_call_id=str(call.tool_call_id), run_id=call.run_id, registry=self.runtime.registry,
            idempotency_key=self.get_idempotency_key(call),
            cancelled=lambda: self.abandoned, progress=report_progress, log=write_log,
            deps=choose_deps(self.tool.name, self.tool.implementation.deps_hint, get_deps(self.runtime.registry)),
        )  # fmt: skip
        return {**values, **dict.fromkeys(names, context)}

    def get_idempotency_key(self, call: ToolCall) -> str:
        """Return the same text for the same call of the same principal: ids of callers repeat, as `call_0` does."""
        if self.idempotency_key:
            return self.idempotency_key
        import hashlib  # loads OpenSSL: only who runs a tool with a context pays for it
        import json

        principal = self.principal
        caller = None if principal is None else [principal.agent, principal.chain, principal.delegation_digest]
        identity = [caller, self.tool.name, self.bound_arguments.arguments, call.run_id, call.tool_call_id]
        return hashlib.blake2b(json.dumps(identity, sort_keys=True).encode(), digest_size=16).hexdigest()

    def make_reporters(
        self, call: ToolCall
    ) -> tuple[Callable[[ReportedNumber, ReportedNumber, str], None], Callable[[str, LogLevel], None]]:
        """Return what a tool reports progress and logs to; the listener of this context hears it, and subscribers."""
        listener, frame = report_listener.get(), self.frame
        origin = {
            "tool": self.tool.name, "agent": call.agent, "tool_call_id": str(call.tool_call_id), "run_id": call.run_id
        }  # fmt: skip

        def publish(report: ToolReport) -> None:
            if listener is not None:
                listener(report)
            self.runtime.access_store.subscriptions.publish(report)

        def report_progress(done: ReportedNumber, total: ReportedNumber, message: str) -> None:
            if not (self.abandoned or frame[ENDED]):
                publish(ToolProgress(**origin, done=done, total=total, message=message))  # type: ignore[arg-type]

        def write_log(text: str, level: LogLevel) -> None:
            if not (self.abandoned or frame[ENDED]):
                publish(ToolLog(**origin, level=level, text=text))  # type: ignore[arg-type]

        return report_progress, write_log

    def run(self) -> object:
        """Admit and run a sync function in this thread; generators are read to their end."""
        if self.fast_function is not None:
            self._enter()
            try:
                return self.fast_function(self.bound_arguments.arguments, self.frame)
            except StaleDecisionError:
                self.attempts -= 1
                raise
        gate = self.runtime.exclusive_gate
        if not self.tool.metadata.concurrency_safe:
            with gate.hold_exclusively(self.frame):
                return self._try_run()
        while True:
            gate.wait_until_open()
            value = self._try_run()
            if value is not MISS:
                return value

    def _try_run(self) -> object:
        counter = self.runtime.in_flight.get_counter(list_members(self.principal), self.tool.name)
        try:
            counter.append(None)  # inside, so that no interrupt comes between
            if self.tool.metadata.concurrency_safe and self.runtime.exclusive_gate.blocks_caller():
                return MISS
            with activate_frame(self.frame):
                self.admit()
                if self.enter_elsewhere is not None:
                    return self.enter_elsewhere()
                value = self.tool.implementation.function(**self.build_keywords())
                return complete_value(value, self.tool.name)
        except get_own_cancellation():
            raise CallCancelledError from None
        finally:
            counter.pop()

    async def run_async(self) -> object:
        """Admit and await an async function; async generators are read to their end."""
        if self.fast_function is not None:
            self._enter()
            try:
                return await self.fast_function(self.bound_arguments.arguments, self.frame)
            except StaleDecisionError:
                self.attempts -= 1
                raise
        gate = self.runtime.exclusive_gate
        if not self.tool.metadata.concurrency_safe:
            async with gate.hold_exclusively_async(self.frame):
                return await self._try_run_async()
        while True:
            await gate.wait_until_open_async()
            value = await self._try_run_async()
            if value is not MISS:
                return value

    async def _try_run_async(self) -> object:
        counter = self.runtime.in_flight.get_counter(list_members(self.principal), self.tool.name)
        try:
            counter.append(None)  # inside, so that no interrupt comes between
            if self.tool.metadata.concurrency_safe and self.runtime.exclusive_gate.blocks_caller():
                return MISS
            return await await_in_frame(self.frame, self._enter_async())
        finally:
            counter.pop()

    async def _enter_async(self) -> object:
        self.admit()
        value = self.tool.implementation.function(**self.build_keywords())
        return await complete_awaited(value, self.tool.name)


class RequestApproval(msgspec.Struct, eq=False):
    """
    A call that waits for an approval; the driver asks the handler, and sends back the answer, or None.

    Args:
        request: What is asked; a recorder puts an equal request in its place that waits already.
        handler: Who is asked at once; None: the call waits.
        is_recorded: Whether a journal lets the request wait.
    """

    request: ApprovalRequest
    handler: Callable[[ApprovalRequest], Any] | None = None
    is_recorded: bool = False


class Sleep(msgspec.Struct, eq=False):
    """A call that is to be tried again in so many seconds."""

    seconds: float


class RecordStore(Protocol):
    """Where records of calls are appended; `journal.storage.protocol.Store`."""

    def append(self, items: Sequence[Any]) -> Sequence[object]:
        """Append the records of each item, all or none; return the answer to each."""
        ...

    def submit(self, items: Sequence[Any]) -> Future[Any]:
        """Append without waiting."""
        ...

    def aappend(self, items: Sequence[Any]) -> Awaitable[Sequence[object]]:
        """Append without blocking the loop."""
        ...


class AppendToJournal(msgspec.Struct, eq=False, gc=False):
    """Records that are to be durable before the call goes on; the driver sends back the store's answer."""

    store: RecordStore
    item: object
    turn: Turn = NO_TURN
    """The turn that ends as soon as the records are on their way."""


class WaitForCall(msgspec.Struct, eq=False):
    """A call that somebody else is running; the driver goes on when *future* is done."""

    future: Any
    call_id: str


class WaitForReplay(msgspec.Struct, eq=False):
    """
    A result, which async code gets after those that were recorded before it.

    Args:
        order: The results that are waited for.
        number: That of its record in the run; None for a new result.
    """

    order: ReplayOrder
    number: int | None


CallEffect = RunTool | RequestApproval | Sleep | AppendToJournal | WaitForCall | WaitForReplay
