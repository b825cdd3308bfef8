"""
The short road of a call where no step waits: check arguments, admit, run, in one generated function per tool.

A lane belongs to one agent, one tool and one state: it answers `MISS` when the state is another one,
or the arguments are not a strict match, and the pipeline takes over.
The gauge is raised before the state is read, so that whoever changes the state and then drains
waits for every call that was admitted before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from praval_tools.execution.frames import Frame, Site, frames
from praval_tools.execution.loops import deadlines
from praval_tools.model.definition import MISS, Definition

if TYPE_CHECKING:
    from praval_tools.execution.gauges import Gauge
    from praval_tools.ledger import Ledger
    from praval_tools.state import State

Lane = Callable[[dict[str, Any]], Any]

_SYNC = """\
def make(ledger, state, gauge, site):
    enter, leave = gauge.append, gauge.pop
    def lane(arguments):
{checks}
        enter(None)
        try:
            if ledger.state is not state: return MISS
            frame = Frame(site, arguments)
            frame.token = token = set_frame(frame)
            try:
                return {call}
            finally:
                reset_frame(token)
        finally:
            leave()
    return lane
"""
_ASYNC = """\
def make(ledger, state, gauge, site, start, stop):
    enter, leave = gauge.append, gauge.pop
    async def lane(arguments):
{checks}
        enter(None)
        try:
            if ledger.state is not state: return MISS
            frame = Frame(site, arguments)
            frame.token = token = set_frame(frame)
            deadline = start()
            try:
                return await {call}
            except CancelledError:
                if deadline.expired and deadline.task.uncancel() == 0: raise Expired from None
                raise
            finally:
                stop(deadline)
                reset_frame(token)
        finally:
            leave()
    return lane
"""


class ExpiredError(Exception):
    """The deadline of an awaited call has passed."""


def sync_lane(definition: Definition, ledger: Ledger, state: State, gauge: Gauge, site: Site) -> Lane:
    """Return the lane of a sync tool."""
    make = definition._lane or _made(definition, _SYNC)
    return make(ledger, state, gauge, site)  # type: ignore[no-any-return]


def async_lane(
    definition: Definition, ledger: Ledger, state: State, gauge: Gauge, site: Site, seconds: float
) -> Lane:
    """Return the lane of an async tool, awaited in place under a shared deadline timer."""
    import asyncio

    make = definition._lane or _made(
        definition, _ASYNC, CancelledError=asyncio.CancelledError, Expired=ExpiredError
    )
    timer: Any = None

    def start() -> Any:
        nonlocal timer
        loop = asyncio.get_running_loop()
        if timer is None or timer[0] is not loop:
            timer = loop, deadlines(loop, seconds)
        return timer[1].start(asyncio.current_task(loop))

    return make(ledger, state, gauge, site, start, lambda deadline: timer[1].stop(deadline))  # type: ignore[no-any-return]


def _made(definition: Definition, template: str, **more: Any) -> Any:
    """Generate the maker of lanes; the source holds only names of our own and the parameters' identifiers."""
    fast = definition.compiled.fast
    checks = "\n".join(f"        {line}" for block in fast.lines for line in block.split("\n"))
    scope: dict[str, Any] = {
        **fast.namespace,
        **more,
        "MISS": MISS,
        "Frame": Frame,
        "function": definition.function,
        "set_frame": frames.set,
        "reset_frame": frames.reset,
    }
    source = template.format(checks=checks or "        pass", call=fast.call)
    exec(compile(source, f"<lane of {definition.name}>", "exec"), scope)  # noqa: S102
    definition._lane = scope["make"]
    return definition._lane


def plain(definition: Definition) -> bool:
    """Tell whether the function can run in a lane: no generator, no context parameter, an own code object."""
    code = getattr(getattr(definition.function, "__func__", definition.function), "__code__", None)
    if code is None or code.co_flags & 0x220:
        return False
    return not definition.context_parameters
