"""
The short road of a call where no step waits: check arguments, admit, run, in one generated function per tool.

A lane belongs to one agent, one tool and one state: it answers `MISS` when the state is another one,
or the arguments are not a strict match, and the pipeline takes over.
The gauge is raised before the state is read, so that whoever changes the state and then drains
waits for every call that was admitted before.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from praval_tools.execution.context import FrameScope, current_frame, find_active_frame
from praval_tools.execution.effects import collect_return_value
from praval_tools.execution.event_loops import DONE, is_self_cancelled, make_deadline_resumer, store_result
from praval_tools.execution.failures import CallCancelledError
from praval_tools.schema.signature import is_async_callable
from praval_tools.schema.type_hints import unwrap_return_hint
from praval_tools.tools.implementation import MISS, ToolImplementation

if TYPE_CHECKING:
    from praval_tools.access.rules import AccessResolution
    from praval_tools.access.state import AccessState
    from praval_tools.access.store import StateStore
    from praval_tools.execution.in_flight import InFlightCounter
    from praval_tools.tools.decision import Decision
    from praval_tools.tools.tool import Tool

FastFunction = Any
"""A function of the arguments and, where the caller has made one, the frame; its attribute `road` is what it is for."""


class FastPath(msgspec.Struct, frozen=True, eq=False):
    """What a lane stands for, `json` for its value, and the `most` of it to show."""

    tool: Tool[..., Any]
    verdict: AccessResolution
    decision: Decision
    state: AccessState
    scope: FrameScope
    encode_json: Callable[[Any], bytes]
    max_result_size: int | None


_SYNC_TEMPLATE = """\
def make(ledger, state, gauge, site):
    enter, leave = gauge.append, gauge.pop
    def lane(arguments, frame=None):
{before}
        if frame is None: frame = [site, arguments, None, None, False]
        outer = get_frame()
        if outer is not None: frame[2] = settled(outer)
        token = None
        try:
            token = set_frame(frame)
{within}
            try:
                enter(None)
                if ledger.state is not state: return MISS
                return {call}
            finally:
                frame[4] = True
                leave()
        finally:
            if token is None: set_frame(outer)  # an interrupt was faster
            else: reset_frame(token)
    return lane
"""
_ASYNC_TEMPLATE = """\
def make(ledger, state, gauge, site, rest):
    enter, leave = gauge.append, gauge.pop
    async def lane(arguments, frame=None):
{before}
        if frame is None: frame = [site, arguments, None, None, False]
        outer = get_frame()
        if outer is not None: frame[2] = settled(outer)
        token = None
        try:
            token = set_frame(frame)
{within}
            try:
                enter(None)
                if ledger.state is not state: return MISS
                if rest is None: return await {call}
                work = into(place := [None], {call})
                waiting = next(work, DONE)
                if waiting is not DONE: await rest(work, waiting)
                return place[0]
            except CancelledError:
                if interrupted(): raise StoppedError from None
                raise
            finally:
                frame[4] = True
                leave()
        finally:
            try:
                if token is None: set_frame(outer)  # an interrupt was faster
                else: reset_frame(token)
            except ValueError: pass  # collected with its loop, in another context
    return lane
"""


def build_sync_function(
    definition: ToolImplementation, ledger: StateStore, state: AccessState, gauge: InFlightCounter, site: FrameScope
) -> FastFunction:
    """Return the lane of a sync tool."""
    make = definition.fast_path_factory or _compile_factory(definition, _SYNC_TEMPLATE)
    return make(ledger, state, gauge, site)


def build_async_function(
    definition: ToolImplementation,
    ledger: StateStore,
    state: AccessState,
    gauge: InFlightCounter,
    site: FrameScope,
    seconds: float | None,
) -> FastFunction:
    """Return the lane of an async tool, awaited in place under a shared deadline timer."""
    from asyncio import CancelledError

    make = definition.fast_path_factory or _compile_factory(
        definition, _ASYNC_TEMPLATE, CancelledError=CancelledError, StoppedError=CallCancelledError, interrupted=is_self_cancelled,
        into=store_result, DONE=DONE,
    )  # fmt: skip
    return make(ledger, state, gauge, site, make_deadline_resumer(seconds))


def _compile_factory(definition: ToolImplementation, template: str, **more: Any) -> Any:
    """Generate the maker of lanes; the source holds only names of our own and the parameters' identifiers."""
    fast = definition.compiled.fast_path_code
    checks = [line for block in fast.lines for line in block.split("\n")]
    before, inside = checks, ["pass"]
    if definition.runs_user_code:  # as the agent, though not yet inside of the tool
        before, inside = ["pass"], ["frame[4] = True", *checks, "frame[4] = False"]
    scope: dict[str, Any] = {
        **fast.namespace,
        **more,
        "MISS": MISS,
        "function": definition.function,
        "get_frame": current_frame.get,
        "set_frame": current_frame.set,
        "settled": find_active_frame,
        "whole": collect_return_value,
        "reset_frame": current_frame.reset,
    }
    call = fast.call
    if not definition.signature.is_async and not _is_concrete_return_type(definition.signature.returns):
        call = f"whole({call}, {definition.name!r})"
    source = template.format(
        before="\n".join(f"        {line}" for line in before or ["pass"]),
        within="\n".join(f"            {line}" for line in inside),
        call=call,
    )
    exec(compile(source, f"<lane of {definition.name}>", "exec"), scope)  # noqa: S102
    definition.fast_path_factory = scope["make"]
    return definition.fast_path_factory


def _is_concrete_return_type(returns: Any) -> bool:
    """Tell whether the return hint says that it is neither a generator nor a coroutine."""
    return isinstance(returns, type) and returns is not object and returns is not Any


def is_plain_function(definition: ToolImplementation) -> bool:
    """Tell whether the function can run in a lane: no generator, nothing to await behind it, no context parameter."""
    function: Any = definition.function
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if code is None or code.co_flags & 0x220 or definition.context_parameters:
        return False
    if not definition.signature.is_async and is_async_callable(inspect.unwrap(function)):
        return False
    returns = definition.signature.returns
    return unwrap_return_hint(returns) is returns or definition.signature.is_async
