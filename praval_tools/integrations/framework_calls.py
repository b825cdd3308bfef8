"""What the adapters for agent frameworks share: whose tools a framework's agent has, and calls that it had approved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from praval_tools.access.records import Principal
from praval_tools.access.state import AccessState
from praval_tools.errors import ToolArgumentsError, ToolDefinitionError, ToolUsageError
from praval_tools.execution.approvals import list_entries_of_tool, list_unused_entries
from praval_tools.execution.call_progress import CallProgress
from praval_tools.execution.context import FrameScope, activate_caller
from praval_tools.execution.deps import use_deps
from praval_tools.execution.edited_arguments import find_edit_problem
from praval_tools.execution.pipeline import bind_arguments
from praval_tools.execution.policies import ask_policies, render_for_review
from praval_tools.execution.results import build_refused_result
from praval_tools.execution.runtime import Runtime
from praval_tools.integrations.foreign_text import quote_name
from praval_tools.names import OPERATOR, get_name, shorten_repr
from praval_tools.registry.agents import Agent
from praval_tools.registry.registry import ToolRegistry
from praval_tools.registry.toolset import Toolset, get_executor, refuse_call
from praval_tools.runs.open_run import find_run_of
from praval_tools.tools.call import Outcome, ToolCall, ToolResult
from praval_tools.tools.compiled import Arguments
from praval_tools.tools.decision import Allow, ApprovalAnswer, ApprovalEntry, ApprovalRequest, Decision, Deny
from praval_tools.tools.frames import get_current_actor
from praval_tools.tools.implementation import BoundArguments
from praval_tools.tools.tool import AnyTool

_USED: Final = Deny("what was approved was used before, or was another call; make the call again", by="praval-tools")
"""The answer to a call that nobody was shown, or whose approval was used before."""
_ENDED: Final = Deny("a person had it run with other arguments", by="praval-tools")
"""The answer to a request whose call is made with other arguments now."""

WasShown: TypeAlias = Callable[[str], bool]
"""Tells of a request's id whether the conversation that is resumed has waited for that request."""


def find_toolset(registry: ToolRegistry, given: Agent | str | None, running: str | None, framework: str) -> Toolset:
    """
    Return the tools of the agent that a framework runs.

    Args:
        registry: Where the tools are.
        given: The agent that the host program named for them, if any.
        running: The name of the framework's agent; None where it has none.
        framework: What the framework is called.

    Raises:
        ToolUsageError: Nobody said which agent it is, or the framework runs another one than was given.
        InvalidNameError: The name is not one of an agent.
    """
    return registry.toolset(find_agent(given, running, framework))


def find_agent(given: Agent | str | None, running: str | None, framework: str) -> Agent | str:
    """
    Return the agent that a framework runs.

    Args:
        given: The agent that the host program named for its tools, if any.
        running: The name of the framework's agent; None where it has none.
        framework: What the framework is called.

    Raises:
        ToolUsageError: Nobody said which agent it is, or the framework runs another one than was given.
    """
    if given is None:
        if not running:
            raise ToolUsageError(
                f"This agent of {framework} has no name, so nobody knows whose tools it may call: name it, "
                f"or say which agent of the registry it is with agent=…."
            )
        return running
    if running and running != get_name(given):
        raise ToolUsageError(
            f"The tools of agent {get_name(given)!r} were given to the agent {shorten_repr(running)} of {framework}: "
            f"give both the same name, or give no agent=…, so that each agent gets the tools of its own name."
        )
    return given


def make_call_id(toolset: Toolset, call_id: str) -> str:
    """
    Return an id of its own for a call, which ends with the one that the model's provider gave it.

    Providers repeat ids, `call_0` in each reply or each conversation. In a journaled run that is run again, the call
    is found by agent, tool, arguments and place among its likes.

    Args:
        toolset: The tools of the agent.
        call_id: The id that the framework has.
    """
    return f"{get_executor(toolset).runtime.clock.new_id()}/{call_id}"


def asks_for_approval(toolset: Toolset, name: str, arguments: object = None) -> bool:
    """
    Tell whether a call may wait for a person, for frameworks that ask before they make it; nothing is recorded.

    Where the registry has a handler, that is asked when the call is made, and nobody waits.

    Args:
        toolset: The tools of the agent.
        name: The tool, as the model calls it.
        arguments: Those of the call; None: tell whether any call may wait.
    """
    return get_executor(toolset).runtime.approvals.handler is None and needs_approval(toolset, name, arguments)


def needs_approval(toolset: Toolset, name: str, arguments: object) -> bool:
    """Tell whether a call needs an approval, of whomever; None for *arguments*: whether any call may need one."""
    runtime, principal = get_executor(toolset).runtime, toolset.principal
    state = runtime.access_store.get_fresh_state()
    tool, policies = _find_tool(state, name), state.policies
    if tool is None:
        return False
    if tool.metadata.requires_approval or not policies or arguments is None:
        return tool.metadata.requires_approval or bool(policies)
    read = _read_arguments(runtime, principal, tool, arguments)
    if read is None:
        return False
    return ask_policies(runtime.registry, policies, principal, tool, read.shown).approval is not None


def _find_tool(state: AccessState, name: str) -> AnyTool | None:
    """Return the tool that a model calls by this name."""
    record = state.find_tool_record(state.resolve_tool_name(name))
    return None if record is None else record.tool


class _ReadArguments(NamedTuple):
    """Arguments of a call: its tool, what that gets of them, and what an approver is shown of them."""

    tool: AnyTool
    bound: BoundArguments
    shown: Arguments


def _read_arguments(runtime: Runtime, principal: Principal, tool: AnyTool, arguments: object) -> _ReadArguments | None:
    """Return how a call's arguments are read; None where the call is refused for them, which says what does not fit."""
    try:
        with activate_caller(FrameScope(runtime.registry, principal, principal.agent)):
            bound = bind_arguments(runtime, tool, arguments)
            shown = render_for_review(tool, bound, principal.agent)
    except (ToolArgumentsError, ToolDefinitionError):
        return None
    return None if isinstance(shown, Decision) else _ReadArguments(tool, bound, shown)


def read_call(toolset: Toolset, call: ToolCall) -> _ReadArguments | None:
    """Return how the arguments of a call are read; None where there is no such tool, or as `_read_arguments` does."""
    runtime = get_executor(toolset).runtime
    tool = _find_tool(runtime.access_store.get_fresh_state(), call.name)
    return None if tool is None else _read_arguments(runtime, toolset.principal, tool, call.arguments)


async def execute_approved(
    registry: ToolRegistry, toolset: Toolset, call: ToolCall, framework: str, *,
    edited: dict[str, object] | None = None, deps: object = None, was_shown: WasShown | None = None,
) -> ToolResult:  # fmt: skip
    """
    Run a call that a person has approved in a framework, if that very call waits for it; once.

    The framework remembers approvals by the id that the model's provider gave the call, which may be repeated, and it
    may resume one saved state many times: only a request that waits in the registry, and whose answer nobody has used,
    is approved. Any other call that needs an approval is denied, so that what it asks for does not wait for the next
    time that the state is resumed; the model may make it anew, and is asked about it then.

    Args:
        registry: Where the tool is.
        toolset: The tools of the agent.
        call: The call, as the model made it.
        framework: What the framework is called.
        edited: The arguments with which the person had it run, where they are others.
        deps: For tools that declare `ToolContext[Deps]`.
        was_shown: For frameworks in which calls of several conversations may have one id: only a request of which it
            is true counts. None: the id of the call says which conversation it is of.
    """
    if was_shown is not None:
        call = identify_call(toolset, call, was_shown)
    waiting = {request for request in list_waiting(registry) if was_shown is None or was_shown(request)}
    answer = Allow(edited, by=framework, reason=f"a person approved it in {framework}")
    entry = find_entry_of_call(toolset, call)
    is_asked = is_still_asked(toolset, call, entry)
    if edited is not None and not is_asked and not asks_for_approval(toolset, call.name, call.arguments):
        applied = apply_edit(registry, toolset, call, entry, answer)
        if isinstance(applied, ToolResult):
            return applied
        call, is_asked = applied
    result = await execute_async(toolset, call, deps, is_asked)
    while result.outcome is Outcome.APPROVAL_REQUIRED and answer_request(registry, result, waiting, answer):
        waiting = set()  # the one that waited was answered and used by another resumption
        result = await execute_async(toolset, call, deps, is_asked)
    return result


def execute(toolset: Toolset, call: ToolCall, deps: object, is_asked: bool) -> ToolResult:
    """Run a call; where a person *is_asked* about it, it needs an approval whatever the tool and the policies say."""
    if not is_asked:
        return toolset.execute(call, deps=deps)
    executor = get_executor(toolset)
    progress = _begin_asked_call(toolset, call)
    with use_deps(executor.runtime.registry, deps):
        return executor.run_pipeline(progress.call, toolset.principal, progress=progress)


async def execute_async(toolset: Toolset, call: ToolCall, deps: object, is_asked: bool) -> ToolResult:
    """Do what `execute` does, for async code."""
    if not is_asked:
        return await toolset.aexecute(call, deps=deps)
    executor = get_executor(toolset)
    progress = _begin_asked_call(toolset, call)
    with use_deps(executor.runtime.registry, deps):
        return await executor.run_pipeline_async(progress.call, toolset.principal, progress=progress)


def _begin_asked_call(toolset: Toolset, call: ToolCall) -> CallProgress:
    principal = toolset.principal
    made = replace(call, agent=principal.agent, on_behalf_of=principal.chain)
    return CallProgress(made, principal, was_asked_about=True)


def identify_call(toolset: Toolset, call: ToolCall, was_shown: WasShown) -> ToolCall:
    """
    Return a call under the id that it has in its conversation, where calls of others may have that of its model.

    That is the one with which its request was shown there, while nobody has used the answer, or a new one. In a
    journaled run, calls with one id are one call, which is asked about or replayed.
    """
    if find_run_of(get_executor(toolset).runtime.recorder) is not None:
        return call

    def is_own(entry: ApprovalEntry) -> bool:
        return was_shown(entry.request.id) and _has_model_id(entry.request, call)

    entry = next(iter_entries_of_equal_calls(toolset, call, is_own), None)
    call_id = make_call_id(toolset, str(call.tool_call_id)) if entry is None else entry.request.tool_call_id
    return replace(call, tool_call_id=call_id)


def _has_model_id(request: ApprovalRequest, call: ToolCall) -> bool:
    """Tell whether a request is for a call with the id of *call*, be it with another before it by `make_call_id`."""
    return call.tool_call_id in (request.tool_call_id, request.tool_call_id.partition("/")[2])


def find_entry_of_call(toolset: Toolset, call: ToolCall) -> ApprovalEntry | None:
    """
    Return the request for exactly this call, with its answer, if nobody has used that.

    The operator may lift an approval, or set a handler, while a person thinks; what is answered counts all the same.
    """

    def is_own(entry: ApprovalEntry) -> bool:
        return entry.request.tool_call_id == call.tool_call_id and entry.answer != _ENDED

    return next(iter_entries_of_equal_calls(toolset, call, is_own), None)


def iter_entries_of_equal_calls(
    toolset: Toolset, call: ToolCall, is_wanted: Callable[[ApprovalEntry], bool], preferred_id: str | None = None
) -> Iterator[ApprovalEntry]:
    """
    Yield the requests that wait, or whose answers are unused, for calls that differ in nothing but their ids.

    Args:
        toolset: The tools of the agent.
        call: The call, which would be made in the run that is open here, or outside runs.
        is_wanted: Tells which requests will do; the others are not compared.
        preferred_id: The request that comes before the others, of which the oldest come first.
    """
    runtime, principal = get_executor(toolset).runtime, toolset.principal
    approvals, run = runtime.approvals, find_run_of(runtime.recorder)
    read = read_call(toolset, call) if list_unused_entries(approvals) else None
    if read is None:
        return
    run_id = None if run is None else run.run_id
    call = replace(call, agent=principal.agent, on_behalf_of=principal.chain, run_id=run_id)
    wanted = filter(is_wanted, list_entries_of_tool(approvals, read.tool.name, principal, run_id))
    for entry in sorted(wanted, key=lambda entry: entry.request.id != preferred_id):
        equal_call = replace(call, tool_call_id=entry.request.tool_call_id)
        if approvals.build_request(equal_call, principal, read.tool, read.shown, "").digest == entry.request.digest:
            yield entry


def is_still_asked(toolset: Toolset, call: ToolCall, entry: ApprovalEntry | None) -> bool:
    """
    Tell whether a call needs an approval by its *entry*, whatever the tool, the policies and a handler say now.

    That is one with an answer, or one that waits where neither asks for an approval any more.
    """
    return entry is not None and (entry.answer is not None or not needs_approval(toolset, call.name, call.arguments))


def record_denial(toolset: Toolset, call: ToolCall, text: str, approval_id: str | None = None) -> ToolResult:
    """
    Record that a call is denied, and return the result.

    Args:
        toolset: The tools of the agent.
        call: The call.
        text: What the caller reads.
        approval_id: The request that is over with it.
    """
    result = ToolResult(
        call.tool_call_id, call.name, toolset.principal.agent, Outcome.APPROVAL_DENIED, None, text, "approval-denied",
        approval_id=approval_id,
    )  # fmt: skip
    return refuse_call(toolset, call, result)


def deny_call_of_other_run(toolset: Toolset, call: ToolCall) -> ToolResult | None:
    """Deny a call whose request is one of another run, or of outside runs, if there is such a request."""
    runtime, principal = get_executor(toolset).runtime, toolset.principal
    run, tool = find_run_of(runtime.recorder), runtime.access_store.state.resolve_tool_name(call.name)
    run_id, own = None if run is None else run.run_id, (call.tool_call_id, tool, principal.agent, principal.chain)
    requests = [entry.request for entry in list_unused_entries(runtime.approvals)]
    if not any(
        (request.tool_call_id, request.tool, request.agent, request.chain) == own and request.run_id != run_id
        for request in requests
    ):
        return None
    text = f"A person was asked about this call of tool {quote_name(call.name)} in another run: make it again."
    return record_denial(toolset, call, text)


def apply_edit(
    registry: ToolRegistry, toolset: Toolset, call: ToolCall, entry: ApprovalEntry | None, answer: Allow
) -> tuple[ToolCall, bool] | ToolResult:
    """
    Have a call run with the arguments that a person wrote in a framework, where the registry asks nobody about it.

    A run that has recorded the call knows it by the model's arguments: the answer is given to the call's request there.

    Args:
        registry: Where the tool is.
        toolset: The tools of the agent.
        call: The call, as the model made it.
        entry: Its request, if one waits.
        answer: The person's, with the arguments.

    Returns:
        The call that is to be made, and whether it needs an approval whatever the tool says; or the recorded refusal.
    """
    run = find_run_of(get_executor(toolset).runtime.recorder)
    is_recorded = run is not None and call.tool_call_id in run.recording.entries
    if entry is not None and get_current_actor() == OPERATOR:
        answer_waiting(registry, entry.request.id, answer if is_recorded else _ENDED)
    if is_recorded:
        return call, True
    call_id = call.tool_call_id if run is None else f"{call.tool_call_id}/edited"  # by which the run finds it again
    call = replace(call, arguments=answer.arguments, tool_call_id=call_id)
    return _refuse_changed_edit(toolset, call) or (call, False)


def _refuse_changed_edit(toolset: Toolset, call: ToolCall) -> ToolResult | None:
    """Return the recorded refusal of a call whose arguments a person wrote, and a class would change; else None."""
    read = read_call(toolset, call)
    if read is None:
        return None
    executor, principal, tool = get_executor(toolset), toolset.principal, read.tool
    runtime = executor.runtime
    with activate_caller(FrameScope(runtime.registry, principal, principal.agent)):
        bind = partial(bind_arguments, runtime, tool)
        problem = find_edit_problem(tool.implementation, read.shown, read.bound, bind)
    if problem is None:
        return None
    decision = Decision(False, "forbidden", "policy", principal.agent, tool.name, problem, "Make the call again.")
    return executor.run_pipeline(call, principal, build_refused_result(runtime, call, principal, decision, read.bound))


def list_waiting(registry: ToolRegistry) -> set[str]:
    """Return the ids of the requests for an approval that wait."""
    return {request.id for request in registry.approvals.pending()}


def answer_request(registry: ToolRegistry, result: ToolResult, waiting: set[str], answer: ApprovalAnswer) -> bool:
    """
    Answer the request of a call that a framework makes with a person's answer; return whether it is answered.

    Where it did not wait before, the person answered another request: this one is denied.

    Args:
        registry: Where the tool is.
        result: That of the call, which needs an approval.
        waiting: The requests that waited before the call was made, as `list_waiting` returns them.
        answer: What a person answered in the framework.
    """
    if result.approval_id is None:
        return False
    if get_current_actor() != OPERATOR:  # whose code could as well have decided for the person
        return False
    if result.approval_id not in waiting:
        answer = _USED
    answer_waiting(registry, result.approval_id, answer)
    return True


def answer_waiting(registry: ToolRegistry, request_id: str, answer: ApprovalAnswer) -> None:
    """Answer a request; where it was answered meanwhile, that answer counts."""
    with suppress(ToolUsageError):
        registry.approvals.answer(request_id, answer)
