"""
The fast path: one generated function per agent, tool and state, for calls in which no step has to wait.

It checks the arguments, takes the steps that are plain functions (policies, limits, hooks), sets the context, admits
the call and runs it. Where the state is another one, the arguments are no exact match, or a step answers something
unusual, it raises `FastPathMiss`, and the pipeline takes over.
The calls in flight are counted before the state is read, so that whoever changes the state and then drains waits for
every call that was admitted before.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from types import coroutine
from typing import Any, Protocol, TypeAlias

import msgspec

from praval_tools.access.records import Principal
from praval_tools.access.rules import AccessResolution, resolve_access
from praval_tools.access.state import AccessState
from praval_tools.execution.call_progress import CallProgress, PolicyAnswers
from praval_tools.execution.context import CALL, Frame, FrameScope, current_frame, find_active_frame, may_call_as
from praval_tools.execution.event_loops import get_own_cancellation, make_deadline_resumer
from praval_tools.execution.failures import CallCancelledError, StaleDecisionError
from praval_tools.execution.limits import LimitPlace, LimitUsage
from praval_tools.execution.plain_calls import to_plain_call
from praval_tools.execution.policies import ask_policies
from praval_tools.execution.runtime import Runtime
from praval_tools.schema.signature import is_async_callable
from praval_tools.schema.type_hints import unwrap_return_hint
from praval_tools.tools.call import ToolCall
from praval_tools.tools.compiled import Arguments
from praval_tools.tools.decision import Decision
from praval_tools.tools.frames import DONE, Work, activate_tool_frame, undo_open_changes
from praval_tools.tools.implementation import ToolImplementation
from praval_tools.tools.return_values import COMPLETE_TYPES, complete_value
from praval_tools.tools.tool import AnyTool


class FastPath(msgspec.Struct, frozen=True, eq=False):
    """The agent, tool and state of a fast function; without a tool, each of its calls needs the pipeline."""

    name: str
    principal: Principal
    state: AccessState
    tool: AnyTool | None = None
    resolution: AccessResolution = AccessResolution(None)
    decision: Decision | None = None
    scope: FrameScope | None = None
    max_result_size: int | None = None
    encode_json: Callable[[Any], bytes] | None = None
    has_steps: bool = False
    has_after_hooks: bool = False

    def make_call(self, arguments: object) -> ToolCall:
        """Return a call on this path, for those that are shown one."""
        return ToolCall(None, self.name, arguments, self.principal.agent, None, self.principal.chain)


CallRunner: TypeAlias = Callable[[ToolCall, dict[str, Any]], Any]
"""Runs a call with these arguments and returns its result; awaited where the tool is async."""


class FastFunction(Protocol):
    """
    A generated function that runs the calls of one agent to one tool, in one state.

    With a frame, it is one step of a call: it returns the value, or raises `FastPathMiss` or what the tool raised.
    With None, it is the whole call: it returns the value, or raises the typed error.
    Its parameters have no defaults, since Python calls it faster without.
    """

    path: FastPath
    run: CallRunner
    """Runs a call whose result is asked for; set by the executor."""

    def __call__(self, arguments: dict[str, Any], frame: Frame | None) -> Any:
        """Run one call; an awaitable, where the tool is async."""
        ...


class StepsTaken(msgspec.Struct, eq=False):
    """The steps that the fast path took for a call before its function."""

    implementation: ToolImplementation
    reviewed_arguments: dict[str, Any] | None = None
    policy_answers: PolicyAnswers | None = None
    before_hooks_called: bool = False


class FastPathMiss(StaleDecisionError):
    """The call needs the pipeline, and its function was not entered; *steps_taken* holds the steps that were taken."""

    def __init__(self, steps_taken: StepsTaken | None = None) -> None:
        self.steps_taken = steps_taken

    def make_progress(self, call: ToolCall, principal: Principal | None) -> CallProgress | None:
        """Return the progress from which the pipeline goes on, so that no step is taken twice; None where none was."""
        started = self.steps_taken
        if started is None:
            return None
        arguments = started.reviewed_arguments
        return CallProgress(
            call, principal, coerced_arguments=None if arguments is None else (started.implementation, arguments, ()),
            policy_answers=started.policy_answers, before_hooks_called=started.before_hooks_called,
        )  # fmt: skip


_TEMPLATE = """\
def make(
    store, state, counter, scope, principal, handle_error, resume, copy_for_review, run_steps, cancel_steps, release,
):
    enter, leave = counter.append, counter.pop
    {ASYNC}def fast(arguments, frame):
        {PREPARE}
        if frame is not None:
            try:
                for name in arguments:
                    if type(name) is not str: raise FastPathMiss  # a text with code of its own, which a look-up runs
            except RuntimeError: raise FastPathMiss from None  # another thread changes them
        outer = get_frame()
        try:
            if outer is not None and outer[0].principal is not principal and not may_call_as(principal, outer[0]):
                raise FastPathMiss
            {REVIEW}
            {CHECKS}
            {RUN_STEPS}
            running = [scope, arguments, None, None, False, None, None] if frame is None else frame
            if outer is not None: running[2], running[5] = find_active_frame(outer), outer[5]
            token = None
            try:
                token = set_frame(running)
                {CHECKS_AS_AGENT}
                try:
                    enter(None)
                    if store.state is not state: raise {MISS}
                    {RUN}
                except get_own_cancellation(): raise CallCancelledError from None
                finally:
                    running[4] = True
                    leave()
                    if running[6] is not None: undo_open_changes(running)
            finally:
                {RESET}
        except (Exception, SystemExit) as error:
            if frame is not None: raise
            outcome = error
        {RELEASE}
        try: return {AWAIT}handle_error(arguments, outcome)
        finally: del outcome
    return fast
"""
_RUN = """value = {call}
if type(value) not in COMPLETE: value = complete_value(value, {name!r})
return value
"""
_RUN_ASYNC = """work = store_complete(place := [None], {call}, {name!r})
waiting = next(work, DONE)
if waiting is not DONE:
    inner = get_frame()
    set_frame(outer)
    is_left = True
    await resume(work, waiting, inner)
return place[0]
"""
_RELEASE = """finally:
    try:
        if places: release(places)
    finally:
        if places: release(places)  # an interrupt came before it gave them back
"""
_RESET = """if token is None: set_frame(outer)  # an interrupt came before the token was kept
else: reset_frame(token)
"""
_RESET_ASYNC = """if is_left: pass  # it may end in another context
elif token is None: set_frame(outer)
else: reset_frame(token)
"""


_NAMES: dict[str, object] = {
    "FastPathMiss": FastPathMiss,
    "get_frame": current_frame.get,
    "set_frame": current_frame.set,
    "reset_frame": current_frame.reset,
    "find_active_frame": find_active_frame,
    "may_call_as": may_call_as,
    "undo_open_changes": undo_open_changes,
    "get_own_cancellation": get_own_cancellation,
    "CallCancelledError": CallCancelledError,
    "COMPLETE": COMPLETE_TYPES,
    "complete_value": complete_value,
}
"""The names that every generated function uses."""


@coroutine
def _await_complete_into(place: list[object], work: Work, name: str) -> Work:
    """Await *work* and put its complete value into *place*; see `await_into`."""
    value = yield from work
    place[0] = value if type(value) in COMPLETE_TYPES else complete_value(value, name)


def _fill_template(**parts: str) -> str:
    """Return the source with each part in its place and at its indentation; an empty part leaves no line."""
    lines = []
    for line in _TEMPLATE.split("\n"):
        name = line.strip()[1:-1]
        if line.strip().startswith("{") and name in parts:
            indent = line[: len(line) - len(line.lstrip())]
            lines += [indent + part for part in parts[name].splitlines()]
        else:
            lines.append(line.format(**parts))
    return "\n".join(lines)


def _compile_factory(
    implementation: ToolImplementation, *, has_steps: bool, has_review: bool
) -> Callable[..., FastFunction]:
    """Generate the factory of fast functions; its source holds only our own names and the parameters' identifiers."""
    body, is_async = implementation.compiled.fast_path_code, implementation.signature.is_async
    checks = "\n".join(body.lines).replace("return MISS", "raise FastPathMiss")
    checks_as_agent = f"running[4] = True\n{checks}\nrunning[4] = False" if implementation.runs_user_code else ""
    wait = "await " if is_async else ""
    review = "if store.state is not state: raise FastPathMiss\n" if has_steps else ""
    if has_review:
        review += "arguments = arguments.copy()" if body.shown else "arguments, shown = copy_for_review(arguments)"
    shown = body.shown or "shown" if has_review else None
    source = _fill_template(
        ASYNC="async " if is_async else "",
        AWAIT=wait,
        PREPARE=("places = []\n" if has_steps else "") + ("is_left = False" if is_async else ""),
        REVIEW=review,
        RUN_STEPS=f"run_steps(arguments, {shown}, frame, places)" if has_steps else "",
        CHECKS="" if checks_as_agent else checks,
        CHECKS_AS_AGENT=checks_as_agent,
        MISS="cancel_steps(arguments, places)" if has_steps else "FastPathMiss",
        RUN=(_RUN_ASYNC if is_async else _RUN).format(call=body.call, name=implementation.name),
        RESET=_RESET_ASYNC if is_async else _RESET,
        RELEASE=_RELEASE if has_steps else "",
    )
    namespace: dict[str, Any] = {**body.namespace, **_NAMES, "function": implementation.function}
    if is_async:
        namespace |= {"DONE": DONE, "store_complete": _await_complete_into}
    exec(compile(source, f"<fast path of {implementation.name}>", "exec"), namespace)  # noqa: S102
    return namespace["make"]  # type: ignore[no-any-return]


def _get_factory(
    implementation: ToolImplementation, *, has_steps: bool, has_review: bool
) -> Callable[..., FastFunction]:
    """Return the factory of fast functions with these steps, which is generated on first use."""
    factories, key = implementation.fast_path_factories, (has_steps, has_review)
    factory = factories.get(key)
    if factory is None:
        factory = factories[key] = _compile_factory(implementation, has_steps=has_steps, has_review=has_review)
    return factory


def _is_plain_function(implementation: ToolImplementation) -> bool:
    """Tell whether the function takes no context, and returns a value with nothing left to await or to read."""
    function: Any = implementation.function
    with activate_tool_frame(implementation.name):  # it may be an object whose attributes are computed
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        if code is None or code.co_flags & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR):
            return False
        if implementation.context_parameters:
            return False
        if implementation.signature.is_async:
            return True
        returns = implementation.signature.returns
        return not is_async_callable(inspect.unwrap(function)) and unwrap_return_hint(returns) is returns


def _has_waiting_step(runtime: Runtime, tool: AnyTool) -> bool:
    """Tell whether calls of *tool* may wait for something beside the function, or run in another thread."""
    metadata = tool.metadata
    return (
        metadata.requires_approval
        or not metadata.concurrency_safe
        or runtime.get_retries(tool) > 0
        or (metadata.engine or runtime.options.engine) not in (None, "inline")
        or (metadata.timeout is not None and not tool.is_async)
    )


def make_fast_path(runtime: Runtime, principal: Principal, name: str) -> FastPath:
    """Return the fast path of *principal* to the tool *name* in the present state, without a tool where it has none."""
    store, hooks = runtime.access_store, runtime.hooks
    state = store.state
    path = FastPath(name, principal, state)
    if store.closed or not runtime.options.has_default_argument_limits:
        return path
    resolution = resolve_access(state, principal, name, runtime.clock.now())
    tool = resolution.record.tool if resolution.record is not None else None
    if tool is None or resolution.refusal is not None or not resolution.paths[0].is_unconditional:
        return path
    implementation = tool.implementation
    usages = runtime.limits.list_usages(principal.members, name)
    has_steps = bool(state.policies or hooks.before or hooks.after or usages)
    if (
        _has_waiting_step(runtime, tool)
        or not _is_plain_function(implementation)
        or not implementation.is_compilable
        or (has_steps and implementation.runs_user_code)
    ):
        return path
    scope = FrameScope(runtime.registry, principal, principal.agent, name)
    return FastPath(
        name, principal, state, tool, resolution, resolution.paths[0].decision, scope,
        runtime.get_max_result_size(tool), implementation.compiled.encode_result_text, has_steps, bool(hooks.after),
    )  # fmt: skip


def build_fast_function(runtime: Runtime, path: FastPath, handle_error: Callable[..., object]) -> FastFunction:
    """
    Return the fast function of *path*.

    Args:
        runtime: That of the registry.
        path: A fast path with a tool.
        handle_error: Ends a whole call that the function did not; takes the arguments and the error, which is
            `FastPathMiss` or what the tool raised. Where the tool is async, it is awaited.
    """
    tool, hooks = path.tool, runtime.hooks
    if tool is None:
        raise AssertionError("a fast path without a tool has no function")
    usages = runtime.limits.list_usages(path.principal.members, path.name)
    has_review = bool(path.state.policies or hooks.before)
    make = _get_factory(tool.implementation, has_steps=has_review or bool(usages), has_review=has_review)
    copy_for_review, run_steps, cancel_steps = _build_steps(runtime, path, tool, usages)
    resume = make_deadline_resumer(runtime.get_timeout(tool)) if tool.is_async else None
    counter = runtime.in_flight.get_counter(path.principal.members, path.name)
    function: FastFunction = make(
        runtime.access_store, path.state, counter, path.scope, path.principal, handle_error, resume, copy_for_review,
        run_steps, cancel_steps, runtime.limits.release,
    )  # fmt: skip
    function.path = path
    return function


def _build_steps(
    runtime: Runtime, path: FastPath, tool: AnyTool, usages: Sequence[LimitUsage]
) -> tuple[Callable[..., object], Callable[..., None], Callable[..., FastPathMiss]]:
    """Return the functions of a fast function's steps: copy arguments for review, run the steps, cancel them."""
    implementation, principal, policies = tool.implementation, path.principal, path.state.policies
    registry, limits, hooks = runtime.registry, runtime.limits, runtime.hooks
    has_review = bool(policies or hooks.before)
    allowed = PolicyAnswers(tool, policies, None, None) if policies else None
    copy_arguments = dict.copy if implementation.compiled.fast_path_code.shown else copy.deepcopy

    def record_steps(arguments: Arguments, answers: PolicyAnswers | None, *, has_notified: bool = False) -> StepsTaken:
        return StepsTaken(implementation, arguments if has_review else None, answers, has_notified)

    def copy_for_review(arguments: Arguments) -> tuple[Arguments, Arguments]:
        copied, shown = implementation.copy_for_review(arguments)
        if copied is None:
            raise FastPathMiss
        return copied, shown

    def run_steps(
        arguments: Arguments, shown: Arguments, frame: Frame | None, places: list[LimitPlace]
    ) -> None:
        call: ToolCall | None = None
        if frame is not None:
            call = frame[CALL] = to_plain_call(frame[CALL])
        if policies:
            answers = ask_policies(registry, policies, principal, tool, shown, copy_arguments=copy_arguments)
            if answers.refusal is not None or answers.approval is not None:
                raise FastPathMiss(record_steps(arguments, answers))
        if usages and limits.acquire(usages, None if call is None else call.run_id, places):
            raise FastPathMiss(record_steps(arguments, allowed))
        if hooks.before:
            hooks.notify_before_call(call or path.make_call(arguments), tool, shown)

    def cancel_steps(arguments: Arguments, places: list[LimitPlace]) -> FastPathMiss:
        limits.cancel(places)  # the pipeline acquires them again
        return FastPathMiss(record_steps(arguments, allowed, has_notified=bool(hooks.before)))

    return copy_for_review, run_steps, cancel_steps
