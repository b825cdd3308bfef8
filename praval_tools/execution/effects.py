"""The effects that the pipeline of a call yields to its driver, and the admission of a call before its function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from types import CoroutineType, GeneratorType
from typing import Any, Protocol

import msgspec

from praval_tools.access.events import GrantSpent
from praval_tools.access.records import Principal
from praval_tools.access.rules import AccessPath, AccessResolution, PrepaidRecords, resolve_access
from praval_tools.access.state import AccessState
from praval_tools.errors import ToolUsageError
from praval_tools.execution.context import CALL, Frame, FrameScope, activate_frame, ensure_call, make_frame
from praval_tools.execution.engines.threads import Job
from praval_tools.execution.failures import StaleDecisionError
from praval_tools.execution.runtime import Runtime
from praval_tools.names import OPERATOR
from praval_tools.tools.call import ToolCall
from praval_tools.tools.context import ToolContext
from praval_tools.tools.decision import ApprovalRequest
from praval_tools.tools.implementation import MISS, BoundArguments
from praval_tools.tools.tool import AnyTool


class RunTool(msgspec.Struct, eq=False):
    """
    A call that was decided; the driver enters its function.

    *spent_grants* are the limited grants that it has spent already; *stored_grants* are those whose use the
    journal's store has counted, whatever is left of them there for other calls.
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

    def __post_init__(self) -> None:
        actor = OPERATOR if self.principal is None else self.principal.agent
        scope = FrameScope(self.runtime.registry, self.principal, actor, self.tool.name)
        self.frame = make_frame(scope, self.bound_arguments.arguments, self.call)

    @property
    def call_id(self) -> str | None:
        """The id of the call: from its caller, or made when something first needed it."""
        return self.frame[CALL].tool_call_id  # type: ignore[no-any-return]

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
        self.attempts += 1

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
            PrepaidRecords(state, self.spent_grants | self.stored_grants),
            self.principal,
            self.tool.name,
            self.runtime.clock.now(),
        )
        grants = [usable.grant.id for usable in self.path.grants]
        for path in resolution.paths:
            if path.decision == self.path.decision and [usable.grant.id for usable in path.grants] == grants:
                return
            if not path.is_metered and self.path.is_metered and not path.bounds:
                raise StaleDecisionError
        raise StaleDecisionError

    def build_keywords(self) -> dict[str, object]:
        """Return the function's keywords, with the `ToolContext` for the parameters that take it."""
        names = self.tool.implementation.context_parameters
        if not names:
            return self.bound_arguments.values
        call = self.call = ensure_call(self.frame)
        principal, call_id = self.principal, str(call.tool_call_id)
        key = call_id if call.run_id is None else f"{call.run_id}/{call_id}"  # ids may repeat from run to run
        context = ToolContext(
            agent=principal.agent if principal else None, chain=principal.chain if principal else (),
            tool_call_id=call_id, run_id=call.run_id, idempotency_key=key, registry=self.runtime.registry,
            cancelled=lambda: self.abandoned,
        )  # fmt: skip
        return {**self.bound_arguments.values, **dict.fromkeys(names, context)}

    def run(self) -> object:
        """Admit and run a sync function in this thread; generators are read to their end."""
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
        counter = self.runtime.in_flight.get_counter(self.call.agent, self.tool.name)
        try:
            counter.append(None)  # inside, so that no interrupt comes between
            if self.tool.metadata.concurrency_safe and self.runtime.exclusive_gate.blocks_caller():
                return MISS
            with activate_frame(self.frame):
                self.admit()
                value = self.tool.implementation.function(**self.build_keywords())
                return collect_return_value(value, self.tool.name)
        finally:
            counter.pop()

    async def run_async(self) -> object:
        """Admit and await an async function; async generators are read to their end."""
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
        counter = self.runtime.in_flight.get_counter(self.call.agent, self.tool.name)
        try:
            counter.append(None)  # inside, so that no interrupt comes between
            if self.tool.metadata.concurrency_safe and self.runtime.exclusive_gate.blocks_caller():
                return MISS
            with activate_frame(self.frame):
                self.admit()
                value = self.tool.implementation.function(**self.build_keywords())
                if type(value) is CoroutineType:
                    return await value
                if hasattr(value, "__aiter__"):
                    return [item async for item in value]
                return await value if hasattr(value, "__await__") else value
        finally:
            counter.pop()


def collect_return_value(value: Any, name: str) -> object:
    """Return the value of a sync function, of a generator the list of its items; refuse a coroutine."""
    kind = type(value)
    if kind is GeneratorType:
        return list(value)
    if kind is CoroutineType:
        value.close()
        raise ToolUsageError(
            f"Tool {name!r} is not async but returned a coroutine; declare what wraps it as `async def`."
        )
    return value


class RunFastFunction(msgspec.Struct, eq=False):
    """A call on the fast path; the driver calls *fast_function*, and sends back its value."""

    fast_function: Callable[[dict[str, Any], Frame], Any]
    arguments: dict[str, Any]
    frame: Frame


class RequestApproval(msgspec.Struct, eq=False):
    """A call that waits for an approval; the driver asks the handler, and sends back the answer, or None."""

    request: ApprovalRequest


class Sleep(msgspec.Struct, eq=False):
    """A call that is to be tried again in so many seconds."""

    seconds: float


class RecordStore(Protocol):
    """Where records of calls are appended; `journal.storage.protocol.Store`."""

    def append(self, items: Sequence[Any]) -> Sequence[Any]:
        """Append the records of each item, all or none; return the answer to each."""
        ...

    def aappend(self, items: Sequence[Any]) -> Awaitable[Sequence[Any]]:
        """Append without blocking the loop."""
        ...


class AppendToJournal(msgspec.Struct, eq=False, gc=False):
    """Records that are to be durable before the call goes on; the driver sends back the store's answer."""

    store: RecordStore
    item: object


class WaitForCall(msgspec.Struct, eq=False):
    """A call that somebody else is running; the driver goes on when *future* is done."""

    future: Any
    call_id: str


CallEffect = RunTool | RunFastFunction | RequestApproval | Sleep | AppendToJournal | WaitForCall
