"""
The pipeline of a call as a generator that does no waiting itself.

It yields `Run` where the function is to be entered; the sync and the async driver send back what came of it.
may the agent see the tool → arguments → decide on them → approval → admission and run → result.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import define, field

from praval_tools.access import Path, Verdict, choose, judge
from praval_tools.errors import (
    ToolArgumentsError,
    ToolDefinitionError,
    ToolExecutionError,
)
from praval_tools.execution.frames import Frame, Site, running
from praval_tools.facts import GrantSpent
from praval_tools.model.calls import Outcome, ToolCall, ToolResult
from praval_tools.model.context import ToolContext
from praval_tools.model.decision import Ask, Decision, Deny
from praval_tools.model.definition import MISS, Bound
from praval_tools.model.permissions import Principal
from praval_tools.model.tool import Tool
from praval_tools.naming import OPERATOR, near, shorten
from praval_tools.state import Policy, State

if TYPE_CHECKING:
    from praval_tools.execution.executor import Executor


class StaleError(Exception):
    """The records that decided are no longer the current ones: decide again."""


@define(eq=False)
class Run:
    """A call that was decided and waits for a driver to enter its function."""

    executor: Executor
    call: ToolCall
    who: Principal | None
    tool: Tool[..., Any]
    bound: Bound
    verdict: Verdict
    path: Path
    state: State
    frame: Frame = field(init=False)
    attempts: int = 0

    def __attrs_post_init__(self) -> None:
        actor = OPERATOR if self.who is None else self.who.agent
        self.frame = Frame(Site(self.executor.home, self.who, actor, self.tool.name), self.bound.arguments)
        self.frame.call = self.call

    def admit(self) -> None:
        """
        Admit the call, or raise `StaleError`; the linearization point, directly before the function is entered.

        Spends the grants that decided, in the same step.
        """
        state = self.executor.ledger.state
        if self.path.counted:
            self.executor.ledger.commit(self._spend)
        elif state is not self.state or not self.path.lasting:
            self._check(state)
        self.attempts += 1

    def _spend(self, state: State) -> list[GrantSpent]:
        self._check(state)
        counted = tuple(one.grant.id for one in self.path.grants if one.grant.max_calls is not None)
        return [GrantSpent(grants=counted)]

    def _check(self, state: State) -> None:
        if state.record(self.tool.name) is not self.verdict.record or state.policies is not self.state.policies:
            raise StaleError
        if self.who is None:
            return
        new = judge(state, self.who, self.tool.name, self.executor.clock.now())
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
        call = self.frame.call = self.call = self.call.with_id()
        who, key = self.who, str(call.tool_call_id)
        context = ToolContext(
            agent=who.agent if who else None, chain=who.chain if who else (), tool_call_id=key,
            run_id=call.run_id, idempotency_key=key, registry=self.executor.home,
        )  # fmt: skip
        return {**self.bound.values, **dict.fromkeys(names, context)}

    def enter(self) -> Any:
        """Admit and run a sync function in this thread; generators are read to their end."""
        turnstile = self.executor.turnstile
        if not self.tool.metadata.concurrency_safe:
            with turnstile.alone():
                return self._entered()
        while True:
            turnstile.pass_through()
            value = self._entered()
            if value is not MISS:
                return value

    def _entered(self) -> Any:
        gauge = self.executor.gauges.of(self.call.agent, self.tool.name)
        gauge.append(None)
        try:
            if self.tool.metadata.concurrency_safe and self.executor.turnstile.holds_up():
                return MISS
            with running(self.frame):
                self.admit()
                value = self.tool.definition_.function(**self.keywords())
                return list(value) if _is_generator(value) else value
        finally:
            gauge.pop()

    async def aenter(self) -> Any:
        """Admit and await an async function; async generators are read to their end."""
        turnstile = self.executor.turnstile
        if not self.tool.metadata.concurrency_safe:
            async with turnstile.aalone():
                return await self._aentered()
        while True:
            await turnstile.apass_through()
            value = await self._aentered()
            if value is not MISS:
                return value

    async def _aentered(self) -> Any:
        gauge = self.executor.gauges.of(self.call.agent, self.tool.name)
        gauge.append(None)
        try:
            if self.tool.metadata.concurrency_safe and self.executor.turnstile.holds_up():
                return MISS
            with running(self.frame):
                self.admit()
                value = self.tool.definition_.function(**self.keywords())
                if hasattr(value, "__aiter__"):
                    return [item async for item in value]
                return await value if hasattr(value, "__await__") else value
        finally:
            gauge.pop()


def _is_generator(value: object) -> bool:
    return type(value).__name__ == "generator"


def pipeline(
    executor: Executor, call: ToolCall, who: Principal | None
) -> Generator[Run, ToolResult | None, ToolResult]:
    """
    Decide and run one call; *who* None: the operator.

    Every way out is a result. A driver answers `Run` with a result, or None where the call must be decided again.
    """
    while True:
        state = executor.ledger.state
        verdict = _verdict(executor, state, call, who)
        if verdict.refusal is not None:
            return refused(executor, call, who, verdict.refusal)
        tool = verdict.record.tool  # type: ignore[union-attr]
        bound = _bind(executor, tool, call, verdict.decision)
        if isinstance(bound, ToolResult):
            return bound
        definition = tool.definition_
        path, decision = choose(verdict, bound.arguments, partial(definition.filled, bound))
        if path is None:
            return refused(executor, call, who, decision, bound)
        stopped = _policies(executor, state, call, who, tool, bound, decision)
        if stopped is not None:
            return stopped
        result = yield Run(executor, call, who, tool, bound, verdict, path, state)
        if result is not None:
            return result


def _verdict(executor: Executor, state: State, call: ToolCall, who: Principal | None) -> Verdict:
    name = call.name if isinstance(call.name, str) else shorten(call.name)
    now = executor.clock.now()
    if who is not None:
        return judge(state, who, name, now)
    record = state.record(name)
    if record is None:
        return judge(state, Principal(OPERATOR), name, now)
    off = state.disabling(record.tool)
    if off is not None:
        return judge(state, Principal(OPERATOR), name, now)
    decision = Decision(True, "allowed", "operator", None, name, "The host program calls.")
    return Verdict(record, (Path(decision),))


def _bind(executor: Executor, tool: Tool[..., Any], call: ToolCall, decision: Decision) -> Bound | ToolResult:
    strict = tool.metadata.strict_arguments
    strict = executor.options.strict_arguments if strict is None else strict
    try:
        return tool.definition_.bind(call.arguments, strict=strict)
    except ToolArgumentsError as error:
        return ToolResult(
            call.tool_call_id, tool.name, call.agent, Outcome.INVALID_ARGUMENTS, None, str(error), error.code,
            decision=decision, exception=error,
        )  # fmt: skip
    except ToolDefinitionError as error:
        return ToolResult(
            call.tool_call_id, tool.name, call.agent, Outcome.TOOL_ERROR, None, str(error), error.code,
            decision=decision, exception=error,
        )  # fmt: skip


def _policies(
    executor: Executor, state: State, call: ToolCall, who: Principal | None, tool: Tool[..., Any], bound: Bound,
    decision: Decision,
) -> ToolResult | None:  # fmt: skip
    asked = Ask(tool.metadata.approval_reason) if tool.metadata.requires_approval else None
    for policy in state.policies:
        answer = _ask(executor, policy, call, tool, bound)
        if isinstance(answer, Deny):
            reason = f"Policy {policy.name!r} refuses{': ' + answer.reason if answer.reason else ''}."
            denied = Decision(False, "forbidden", "policy", call.agent, tool.name, reason,
                              f"Change the arguments, or the policy {policy.name!r}.", policy)  # fmt: skip
            return refused(executor, call, who, denied, bound)
        asked = answer if isinstance(answer, Ask) else asked
    if asked is None:
        return None
    why = f" ({asked.reason})" if asked.reason else ""
    return ToolResult(
        call.tool_call_id, tool.name, call.agent, Outcome.APPROVAL_REQUIRED, None,
        f"Tool {tool.name!r} needs an approval{why} and did not run.", "approval-required",
        repairs=bound.repairs, decision=decision,
    )  # fmt: skip


def _ask(executor: Executor, policy: Policy, call: ToolCall, tool: Tool[..., Any], bound: Bound) -> Deny | Ask | None:
    """Ask one policy, in its own name; whatever is no clear answer refuses."""
    site = Site(executor.home, Principal(policy.name), policy.name)
    try:
        with running(Frame(site)):
            answer = policy.check(call.agent, tool, bound.arguments)
    except Exception as error:  # isolation: a policy that fails refuses, and says so
        return Deny(f"it raised {type(error).__name__}: {error}")
    if answer is None or isinstance(answer, Deny | Ask):
        return answer
    if isinstance(answer, str):
        return Deny(answer)
    return Deny(f"it answered {shorten(answer)}, which is none of None, text, Deny and Ask")


def refused(
    executor: Executor, call: ToolCall, who: Principal | None, decision: Decision, bound: Bound | None = None
) -> ToolResult:
    """Return the result of a refusal; its text is for the model and names nothing that the model may not see."""
    name = call.name if isinstance(call.name, str) else shorten(call.name)
    shown = shorten(name, 140)
    outcome = {"unknown": Outcome.UNKNOWN_TOOL, "disabled": Outcome.DISABLED}.get(decision.outcome, Outcome.FORBIDDEN)
    if outcome is Outcome.UNKNOWN_TOOL or executor.options.refusals == "hide":
        own = executor.visible(who) if who is not None else ()
        match = near(name, own)
        hint = f" Did you mean {' or '.join(map(repr, match))}?" if match else ""
        outcome, text, code = Outcome.UNKNOWN_TOOL, f"Tool {shown} not found.{hint}", "unknown-tool"
    elif outcome is Outcome.DISABLED:
        text, code = f"Tool {shown} is disabled.", "disabled"
    else:
        why = f" with these arguments. {decision.reason}" if decision.rule == "granted" else "."
        text, code = f"Tool {shown} is forbidden for this agent{why}", "forbidden"
    return ToolResult(
        call.tool_call_id, name, call.agent, outcome, None, text, code,
        repairs=bound.repairs if bound else (), decision=decision,
    )  # fmt: skip


def succeeded(run: Run, value: Any, started: float) -> ToolResult:
    """Return the result of a call that returned."""
    return ToolResult(
        run.call.tool_call_id, run.tool.name, run.call.agent, Outcome.OK, value, None, None,
        (run.executor.clock.monotonic() - started) * 1000, run.attempts, run.bound.repairs, False, run.path.decision,
    )  # fmt: skip


def broke(run: Run, error: BaseException, started: float) -> ToolResult:
    """Return the result of a call whose function raised."""
    text = f"{error}" or type(error).__name__
    if isinstance(error, SystemExit):
        text = f"the tool tried to end the program (exit code {error.code!r})"
    kind = error.error_type if isinstance(error, ToolExecutionError) else type(error).__name__
    text, exception = run.executor.shown(run.tool, text), error
    return ToolResult(
        run.call.tool_call_id, run.tool.name, run.call.agent, Outcome.TOOL_ERROR, None, text, kind,
        (run.executor.clock.monotonic() - started) * 1000, run.attempts, run.bound.repairs, False,
        run.path.decision, exception,
    )  # fmt: skip


