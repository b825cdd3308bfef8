"""What the pipeline waits for, and the admission of a call directly before its function."""

from __future__ import annotations

from collections.abc import Generator
from types import CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any

import msgspec

from praval_tools.access.events import GrantSpent
from praval_tools.access.records import Principal
from praval_tools.access.rules import Paid, Path, Verdict, judge
from praval_tools.access.state import State
from praval_tools.errors import ToolUsageError
from praval_tools.execution.context import CALL, Site, call_of, frame_of, running
from praval_tools.execution.failures import StaleError
from praval_tools.names import OPERATOR
from praval_tools.tools.approval import ApprovalRequest
from praval_tools.tools.call import ToolCall, ToolResult
from praval_tools.tools.context import ToolContext
from praval_tools.tools.implementation import MISS, Bound
from praval_tools.tools.tool import Tool

if TYPE_CHECKING:
    from praval_tools.execution.runtime import Runtime


class Run(msgspec.Struct, eq=False):
    """
    A call that was decided and waits for a driver to enter its function.

    *paid*: grants that it spent before; *settled*: those of which the journal's store has taken its use, whatever
    is left of them there for others.
    """

    runtime: Runtime
    call: ToolCall
    who: Principal | None
    tool: Tool[..., Any]
    bound: Bound
    verdict: Verdict
    path: Path
    state: State
    frame: Any = None
    attempts: int = 0
    paid: frozenset[str] = frozenset()
    settled: frozenset[str] = frozenset()
    given_up: bool = False
    job: Any = None

    def __post_init__(self) -> None:
        actor = OPERATOR if self.who is None else self.who.agent
        site = Site(self.runtime.home, self.who, actor, self.tool.name)
        self.frame = frame_of(site, self.bound.arguments, self.call)

    @property
    def call_id(self) -> str | None:
        """The id of the call: given, or made where something asked for it."""
        return self.frame[CALL].tool_call_id  # type: ignore[no-any-return]

    def admit(self) -> None:
        """
        Admit the call, or raise `StaleError`; the linearization point, directly before the function is entered.

        Spends the grants that decided, in the same step, unless an earlier attempt did.
        """
        if self.runtime.ledger.closed or self.given_up:  # who called has been told that it ended
            raise StaleError
        state = self.runtime.ledger.state
        counted = (one.grant.id for one in self.path.grants if one.grant.max_calls is not None)
        owed = tuple(one for one in counted if one not in self.paid) if self.path.grants else ()
        if owed:
            self.runtime.ledger.commit(lambda now: self._spend(now, owed), at_once=True)
            self.paid = self.paid.union(owed)
        elif state is not self.state or not self.path.lasting:
            self._check(state)
        self.attempts += 1

    def _spend(self, state: State, owed: tuple[str, ...]) -> list[GrantSpent]:
        self._check(state)
        return [GrantSpent(grants=owed)]

    def _check(self, state: State) -> None:
        if state.record(self.tool.name) is not self.verdict.record or state.policies is not self.state.policies:
            raise StaleError
        if self.who is None:
            return
        new = judge(Paid(state, self.paid | self.settled), self.who, self.tool.name, self.runtime.clock.now())
        wanted = [one.grant.id for one in self.path.grants]
        for path in new.paths:
            if path.decision == self.path.decision and [one.grant.id for one in path.grants] == wanted:
                return
            if not path.counted and self.path.counted and not path.bounds:
                raise StaleError
        raise StaleError

    def keywords(self) -> dict[str, Any]:
        """Return the function's keywords, the context among them where it asks for it."""
        names = self.tool.definition_.context_parameters
        if not names:
            return self.bound.values
        call = self.call = call_of(self.frame)
        who, name = self.who, str(call.tool_call_id)
        key = name if call.run_id is None else f"{call.run_id}/{name}"  # ids may repeat from run to run
        context = ToolContext(
            agent=who.agent if who else None, chain=who.chain if who else (), tool_call_id=name,
            run_id=call.run_id, idempotency_key=key, registry=self.runtime.home, cancelled=lambda: self.given_up,
        )  # fmt: skip
        return {**self.bound.values, **dict.fromkeys(names, context)}

    def enter(self) -> Any:
        """Admit and run a sync function in this thread; generators are read to their end."""
        turnstile = self.runtime.turnstile
        if not self.tool.metadata.concurrency_safe:
            with turnstile.alone(self.frame):
                return self._entered()
        while True:
            turnstile.pass_through()
            value = self._entered()
            if value is not MISS:
                return value

    def _entered(self) -> Any:
        gauge = self.runtime.gauges.of(self.call.agent, self.tool.name)
        try:
            gauge.append(None)  # inside, so that no interrupt comes between
            if self.tool.metadata.concurrency_safe and self.runtime.turnstile.holds_up():
                return MISS
            with running(self.frame):
                self.admit()
                value = self.tool.definition_.function(**self.keywords())
                return whole(value, self.tool.name)
        finally:
            gauge.pop()

    async def aenter(self) -> Any:
        """Admit and await an async function; async generators are read to their end."""
        turnstile = self.runtime.turnstile
        if not self.tool.metadata.concurrency_safe:
            async with turnstile.aalone(self.frame):
                return await self._aentered()
        while True:
            await turnstile.apass_through()
            value = await self._aentered()
            if value is not MISS:
                return value

    async def _aentered(self) -> Any:
        gauge = self.runtime.gauges.of(self.call.agent, self.tool.name)
        try:
            gauge.append(None)  # inside, so that no interrupt comes between
            if self.tool.metadata.concurrency_safe and self.runtime.turnstile.holds_up():
                return MISS
            with running(self.frame):
                self.admit()
                value = self.tool.definition_.function(**self.keywords())
                if type(value) is CoroutineType:
                    return await value
                if hasattr(value, "__aiter__"):
                    return [item async for item in value]
                return await value if hasattr(value, "__await__") else value
        finally:
            gauge.pop()


def whole(value: Any, name: str) -> Any:
    """Return what a sync function gave: the items of a generator as a list, and no coroutine."""
    kind = type(value)
    if kind is GeneratorType:
        return list(value)
    if kind is CoroutineType:
        value.close()
        raise ToolUsageError(f"Tool {name!r} is not async but gave a coroutine; declare what wraps it as `async def`.")
    return value


class Enter(msgspec.Struct, eq=False):
    """A call on the short road: the driver calls *lane*, and sends back its value; MISS: it must be decided again."""

    lane: Any
    arguments: dict[str, Any]
    frame: Any


class Approve(msgspec.Struct, eq=False):
    """A call that waits for an approval; the driver asks who is to be asked, and sends back the answer, or None."""

    request: ApprovalRequest


class Sleep(msgspec.Struct, eq=False):
    """A call that is to be tried again in so many seconds."""

    seconds: float


class Append(msgspec.Struct, eq=False, gc=False):
    """Something that is to be durable before the call goes on; the driver sends back what the store answers."""

    item: Any


class Wait(msgspec.Struct, eq=False):
    """A call that somebody else is running; the driver goes on when *settled* is done."""

    settled: Any
    call_id: str


Step = Run | Enter | Approve | Sleep | Append | Wait
Steps = Generator[Step, Any, ToolResult]
