"""Finds out who calls or changes something in the current context: an agent, a policy, a plugin or the operator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

from msgspec.structs import replace

from praval_tools.access.records import Principal, resolve_principal
from praval_tools.errors import NotOwnerError
from praval_tools.execution.plain_calls import to_plain_call
from praval_tools.misuse import explain_wrong_calls
from praval_tools.names import OPERATOR, check_agent_name, get_name, to_plain_text
from praval_tools.tools.call import ToolCall
from praval_tools.tools.frames import ARGUMENTS as ARGUMENTS
from praval_tools.tools.frames import CALL as CALL
from praval_tools.tools.frames import CONFINED_ACTOR_PREFIXES as CONFINED_ACTOR_PREFIXES
from praval_tools.tools.frames import ENDED as ENDED
from praval_tools.tools.frames import PARENT as PARENT
from praval_tools.tools.frames import SCOPE as SCOPE
from praval_tools.tools.frames import Frame as Frame
from praval_tools.tools.frames import FrameScope as FrameScope
from praval_tools.tools.frames import activate_frame as activate_frame
from praval_tools.tools.frames import current_frame as current_frame
from praval_tools.tools.frames import find_active_frame as find_active_frame
from praval_tools.tools.frames import get_current_frame as get_current_frame
from praval_tools.tools.frames import get_work_frame as get_work_frame
from praval_tools.tools.frames import make_frame as make_frame


def iter_active_frames() -> Iterator[Frame]:
    """Yield the frames on the stack of this context whose work goes on, the innermost first."""
    frame = get_current_frame()
    while frame is not None:
        if not frame[ENDED]:
            yield frame
        frame = frame[PARENT]


def iter_active_calls(registry: object) -> Iterator[Frame]:
    """Yield the frames of *registry*'s tools that this context is inside, the innermost first."""
    return (
        frame for frame in iter_active_frames() if frame[SCOPE].tool is not None and frame[SCOPE].registry is registry
    )


def resolve_actor(by: object, verb: str, tool: str | None = None) -> str:
    """
    Return the name under which a change is made: that of the running principal, or *by* where the operator passes it.

    Raises:
        NotOwnerError: An agent's code passes another name than its own.
    """
    frame = get_current_frame()
    actor = OPERATOR if frame is None else frame[SCOPE].actor
    if by is None:
        return actor
    name = to_plain_text(getattr(by, "name", by))
    if actor not in (OPERATOR, name):
        raise NotOwnerError(actor, f"speak for {name!r} to {verb}", tool, None)
    return name


def list_change_delegators() -> tuple[str, ...]:
    """Return those on whose behalf a change is made here; each of them must be entitled to it, as its actor must."""
    frame = get_current_frame()
    return () if frame is None or frame[SCOPE].principal is None else frame[SCOPE].principal.members[1:]


def get_current_principal() -> Principal | None:
    """Return the principal that runs in this context, or None for the operator."""
    frame = current_frame.get()
    if frame is None or (scope := frame[SCOPE]).actor == OPERATOR:
        return None
    principal: Principal | None = scope.principal
    return principal if principal is not None else Principal(scope.actor)


def resolve_agent(agent: object) -> Principal:
    """
    Return the principal of an agent, given as object or by its name.

    A name stands for the agent itself, and in work that is done on behalf of others for it and them.

    Raises:
        InvalidNameError: It is not a name of an agent.
    """
    principal = agent if type(agent) is Principal else getattr(agent, "principal", None)
    running = get_current_principal()
    if type(principal) is Principal:
        if principal != running:  # plugins are not agents, and have handles on themselves alone
            for name in principal.members:
                check_agent_name(name)
        return principal
    named = Principal(check_agent_name(get_name(agent)))
    return named if running is None or running.delegation is None else resolve_principal(named, (), running)


def may_call_as(principal: Principal, scope: FrameScope) -> bool:
    """
    Tell whether code that runs in *scope* makes calls as *principal*, and as nobody else.

    The code of plugins, and of values that a tool returned, makes calls in its own name alone. Work that is done on
    behalf of others makes them for these too.
    """
    running: Principal | None = scope.principal
    if scope.actor.startswith(CONFINED_ACTOR_PREFIXES):
        return principal == Principal(scope.actor)
    return running is None or running.delegation is None or principal == running


def resolve_caller(principal: Principal) -> Principal:
    """
    Return the principal that makes a call here with a handle of *principal*.

    Raises:
        InvalidNameError: *principal* leaves out those on whose behalf the running one calls.
        NotOwnerError: A plugin runs, which makes calls in its own name alone.
    """
    frame = current_frame.get()
    if frame is None or may_call_as(principal, scope := frame[SCOPE]):
        return principal
    if scope.actor.startswith(CONFINED_ACTOR_PREFIXES):
        raise NotOwnerError(scope.actor, f"make calls as {principal.agent!r}", None, None)
    return resolve_principal(principal, (), scope.principal)


def activate_caller(scope: FrameScope) -> AbstractContextManager[object]:
    """Run the `with` block in *scope*, or as the running principal where *scope* leaves out one of its members."""
    frame = current_frame.get()
    if frame is None or may_call_as(scope.principal, frame[SCOPE]):
        return activate_frame(make_frame(scope))
    return nullcontext()


@explain_wrong_calls
def current_call() -> ToolCall | None:
    """Return the call that runs in this context, or None outside any call; its id is made on first use."""
    return find_current_call()


def find_current_call() -> ToolCall | None:
    """Return what `current_call` does, for code that makes no wrong calls, and many."""
    frame = get_work_frame(get_current_frame())
    while frame is not None and frame[SCOPE].tool is None:
        frame = frame[PARENT]
    return None if frame is None else ensure_call(frame)


def ensure_call(frame: Frame) -> ToolCall:
    """Return the frame's call with its id, and with the id of the call from which it was made."""
    call: ToolCall | None = frame[CALL]
    if call is None:
        scope = frame[SCOPE]
        agent, chain = (scope.principal.agent, scope.principal.chain) if scope.principal else (None, ())
        call = ToolCall(None, scope.tool or "", frame[ARGUMENTS], agent, None, chain)
    call = to_plain_call(call)
    outer: Frame | None = frame[PARENT]
    while outer is not None and outer[SCOPE].tool is None:
        outer = outer[PARENT]
    call = call.with_id()
    if outer is not None and call.parent_id != (parent_id := ensure_call(outer).tool_call_id):
        call = replace(call, parent_id=parent_id)
    frame[CALL] = call
    return call
