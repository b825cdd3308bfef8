"""What the pipeline waits for, and the admission of a call directly before its function."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from types import CoroutineType, GeneratorType
from typing import Any, Protocol

import msgspec

from praval_tools.access.events import GrantSpent
from praval_tools.access.records import Principal
from praval_tools.access.rules import AccessPath, AccessResolution, PrepaidRecords, resolve_access
from praval_tools.access.state import AccessState
from praval_tools.errors import ToolUsageError
from praval_tools.execution.context import CALL, FrameScope, activate_frame, ensure_call, make_frame
from praval_tools.execution.failures import StaleDecisionError
from praval_tools.execution.runtime import Runtime
from praval_tools.names import OPERATOR
from praval_tools.tools.call import ToolCall
from praval_tools.tools.context import ToolContext
from praval_tools.tools.decision import ApprovalRequest
from praval_tools.tools.implementation import MISS, BoundArguments
from praval_tools.tools.tool import Tool


class RunTool(msgspec.Struct, eq=False):
    """
    A call that was decided and waits for a driver to enter its function.

    *paid*: grants that it spent before; *settled*: those of which the journal's store has taken its use, whatever
    is left of them there for others.
    """

    runtime: Runtime
    call: ToolCall
    principal: Principal | None
    tool: Tool[..., Any]
    bound_arguments: BoundArguments
    verdict: AccessResolution
    path: AccessPath
    state: AccessState
    frame: Any = None
    attempts: int = 0
    spent_grants: frozenset[str] = frozenset()
    stored_grants: frozenset[str] = frozenset()
    abandoned: bool = False
    job: Any = None

    def __post_init__(self) -> None:
        actor = OPERATOR if self.principal is None else self.principal.agent
        site = FrameScope(self.runtime.registry, self.principal, actor, self.tool.name)
        self.frame = make_frame(site, self.bound_arguments.arguments, self.call)

    @property
    def call_id(self) -> str | None:
        """The id of the call: given, or made where something asked for it."""
        return self.frame[CALL].tool_call_id  # type: ignore[no-any-return]

    def admit(self) -> None:
        """
        Admit the call, or raise `StaleError`; the linearization point, directly before the function is entered.

        Spends the grants that decided, in the same step, unless an earlier attempt did.
        """
        if self.runtime.access_store.closed or self.abandoned:  # who called has been told that it ended
            raise StaleDecisionError
        state = self.runtime.access_store.state
        counted = (one.grant.id for one in self.path.grants if one.grant.max_calls is not None)
        owed = tuple(one for one in counted if one not in self.spent_grants) if self.path.grants else ()
        if owed:
            self.runtime.access_store.commit(lambda now: self._plan_spending(now, owed), outside_draft=True)
            self.spent_grants = self.spent_grants.union(owed)
        elif state is not self.state or not self.path.is_unconditional:
            self._check_decision(state)
        self.attempts += 1

    def _plan_spending(self, state: AccessState, owed: tuple[str, ...]) -> list[GrantSpent]:
        self._check_decision(state)
        return [GrantSpent(grants=owed)]

    def _check_decision(self, state: AccessState) -> None:
        if (
            state.find_tool_record(self.tool.name) is not self.verdict.record
            or state.policies is not self.state.policies
        ):
            raise StaleDecisionError
        if self.principal is None:
            return
        new = resolve_access(
            PrepaidRecords(state, self.spent_grants | self.stored_grants),
            self.principal,
            self.tool.name,
            self.runtime.clock.now(),
        )
        wanted = [one.grant.id for one in self.path.grants]
        for path in new.paths:
            if path.decision == self.path.decision and [one.grant.id for one in path.grants] == wanted:
                return
            if not path.is_metered and self.path.is_metered and not path.bounds:
                raise StaleDecisionError
        raise StaleDecisionError

    def build_keywords(self) -> dict[str, Any]:
        """Return the function's keywords, the context among them where it asks for it."""
        names = self.tool.implementation.context_parameters
        if not names:
            return self.bound_arguments.values
        call = self.call = ensure_call(self.frame)
        who, name = self.principal, str(call.tool_call_id)
        key = name if call.run_id is None else f"{call.run_id}/{name}"  # ids may repeat from run to run
        context = ToolContext(
            agent=who.agent if who else None, chain=who.chain if who else (), tool_call_id=name,
            run_id=call.run_id, idempotency_key=key, registry=self.runtime.registry, cancelled=lambda: self.abandoned,
        )  # fmt: skip
        return {**self.bound_arguments.values, **dict.fromkeys(names, context)}

    def run(self) -> Any:
        """Admit and run a sync function in this thread; generators are read to their end."""
        turnstile = self.runtime.exclusive_gate
        if not self.tool.metadata.concurrency_safe:
            with turnstile.hold_exclusively(self.frame):
                return self._try_run()
        while True:
            turnstile.wait_until_open()
            value = self._try_run()
            if value is not MISS:
                return value

    def _try_run(self) -> Any:
        gauge = self.runtime.in_flight.get_counter(self.call.agent, self.tool.name)
        try:
            gauge.append(None)  # inside, so that no interrupt comes between
            if self.tool.metadata.concurrency_safe and self.runtime.exclusive_gate.blocks_caller():
                return MISS
            with activate_frame(self.frame):
                self.admit()
                value = self.tool.implementation.function(**self.build_keywords())
                return collect_return_value(value, self.tool.name)
        finally:
            gauge.pop()

    async def run_async(self) -> Any:
        """Admit and await an async function; async generators are read to their end."""
        turnstile = self.runtime.exclusive_gate
        if not self.tool.metadata.concurrency_safe:
            async with turnstile.hold_exclusively_async(self.frame):
                return await self._try_run_async()
        while True:
            await turnstile.wait_until_open_async()
            value = await self._try_run_async()
            if value is not MISS:
                return value

    async def _try_run_async(self) -> Any:
        gauge = self.runtime.in_flight.get_counter(self.call.agent, self.tool.name)
        try:
            gauge.append(None)  # inside, so that no interrupt comes between
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
            gauge.pop()


def collect_return_value(value: Any, name: str) -> Any:
    """Return what a sync function gave: the items of a generator as a list, and no coroutine."""
    kind = type(value)
    if kind is GeneratorType:
        return list(value)
    if kind is CoroutineType:
        value.close()
        raise ToolUsageError(f"Tool {name!r} is not async but gave a coroutine; declare what wraps it as `async def`.")
    return value


class RunFastFunction(msgspec.Struct, eq=False):
    """A call on the fast path: the driver calls *fast_function*, and sends back its value."""

    fast_function: Any
    arguments: dict[str, Any]
    frame: Any


class RequestApproval(msgspec.Struct, eq=False):
    """A call that waits for an approval; the driver asks who is to be asked, and sends back the answer, or None."""

    request: ApprovalRequest


class Sleep(msgspec.Struct, eq=False):
    """A call that is to be tried again in so many seconds."""

    seconds: float


class RecordStore(Protocol):
    """Where records of calls are appended; `journal.storage.protocol.Store`."""

    def append(self, items: Sequence[Any]) -> Sequence[Any]:
        """Append each item, all or none of its records; return the answers."""
        ...

    def aappend(self, items: Sequence[Any]) -> Awaitable[Sequence[Any]]:
        """Append without blocking the loop."""
        ...


class AppendToJournal(msgspec.Struct, eq=False, gc=False):
    """Records that are to be durable before the call goes on; the driver sends back what the store answers."""

    store: RecordStore
    item: Any


class WaitForCall(msgspec.Struct, eq=False):
    """A call that somebody else is running; the driver goes on when *settled* is done."""

    future: Any
    call_id: str


CallEffect = RunTool | RunFastFunction | RequestApproval | Sleep | AppendToJournal | WaitForCall
