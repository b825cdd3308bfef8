"""The executor: lanes where nothing waits, the pipeline otherwise, with a sync and an async driver."""

from __future__ import annotations

from typing import Any, Final
from weakref import WeakValueDictionary

from praval_tools.access.records import Principal
from praval_tools.execution.context import CALL, Frame
from praval_tools.execution.drivers import drive, drive_async
from praval_tools.execution.event_loops import ExpiredError
from praval_tools.execution.failures import StoppedError, raised, type_name, unencodable
from praval_tools.execution.fast_path import Lane, Road
from praval_tools.execution.fast_path_rules import new_lane
from praval_tools.execution.pipeline import pipeline
from praval_tools.execution.results import late, stopped
from praval_tools.execution.runtime import Runtime
from praval_tools.schema.arguments import quick
from praval_tools.schema.encode import encode, json_text
from praval_tools.schema.json_input import SCALARS
from praval_tools.tools.call import Outcome, ToolCall, ToolResult
from praval_tools.tools.implementation import MISS

_MOST_LANES: Final = 16_384
_OK: Final = Outcome.OK  # a member of an enumeration is looked up by code of its own


class Lanes:
    """The lanes of one agent by tool name, sync and awaited ones; each carries the `decision` that it stands for."""

    __slots__ = ("__weakref__", "awaited", "sync")

    def __init__(self) -> None:
        self.sync: dict[str, Lane] = {}
        self.awaited: dict[str, Lane] = {}

    def clear(self) -> None:
        """Forget all lanes."""
        self.sync.clear()
        self.awaited.clear()

    def drop(self, name: str) -> None:
        """Forget the lane of *name*."""
        self.sync.pop(name, None)
        self.awaited.pop(name, None)


class Executor:
    """Runs the calls of one registry."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime, self.ledger = runtime, runtime.ledger
        self._tick = runtime.clock.monotonic
        self._lanes: WeakValueDictionary[Principal, Lanes] = WeakValueDictionary()

    # ── lanes ────────────────────────────────────────────────────────────────────────────────────

    def lanes(self, who: Principal) -> Lanes:
        """Return the agent's lanes, which fill as it calls."""
        mine = self._lanes.get(who)
        return mine if mine is not None else self._lanes.setdefault(who, Lanes())

    def lane(self, who: Principal, name: str, lanes: Lanes) -> Lanes:
        """Make the lane of *name* for the present state, where the call can take one; return *lanes*."""
        state = self.ledger.state
        known = lanes.sync.get(name) or lanes.awaited.get(name)
        if known is not None:
            if known.road.state is state:
                return lanes
            lanes.drop(name)
        if self.runtime.recorder is not None:
            return lanes
        made = new_lane(self.runtime, who, name)
        if made is None:
            return lanes
        if len(lanes.sync) + len(lanes.awaited) > _MOST_LANES:
            lanes.clear()
        (lanes.awaited if made.road.tool.is_async else lanes.sync)[name] = made
        return lanes

    # ── values or errors ─────────────────────────────────────────────────────────────────────────

    def call(self, who: Principal, name: str, arguments: Any, lanes: Lanes) -> Any:
        """Call a tool and return its value, or raise the typed error; the long way of `Toolset.call`."""
        lane = self.lane(who, name, lanes).sync.get(name)
        if lane is not None and type(arguments) is dict:
            try:
                value = lane(arguments)
            except (Exception, SystemExit) as error:
                raise self.failed(lane, error) from error
            if value is not MISS:
                return value
        result = self.run(ToolCall(None, name, self._json_of(name, arguments), who.agent, None, who.chain), who)
        if result.outcome is not _OK:
            raise raised(result)
        return result.result

    async def acall(self, who: Principal, name: str, arguments: Any, lanes: Lanes) -> Any:
        """Call a tool from async code and return its value, or raise the typed error; the long way of `acall`."""
        lane = self.lane(who, name, lanes).awaited.get(name)
        if lane is not None and type(arguments) is dict:
            try:
                value = await lane(arguments)
            except (Exception, SystemExit) as error:
                raise self.failed(lane, error) from error
            if value is not MISS:
                return value
        given = self._json_of(name, arguments)
        call = ToolCall(None, name, given, who.agent, None, who.chain)
        result = self._recalled(call, who, awaited=True)
        result = result or await drive_async(self.runtime, pipeline(self.runtime, call, who, awaited=True))
        if result.outcome is not _OK:
            raise raised(result)
        return result.result

    def _json_of(self, name: str, arguments: Any) -> Any:
        """Return arguments that may be of the function's own Python types as JSON; what is JSON stays."""
        if type(arguments) is not dict or SCALARS.issuperset(map(type, arguments.values())):
            return arguments
        record = self.ledger.state.record(name)
        try:
            return arguments if record is None else record.tool.definition_.as_json(arguments)
        except Exception:  # the seam to whatever objects a caller gave: the call says what is wrong with them
            return arguments

    def failed(self, lane: Lane, error: BaseException) -> BaseException:
        """Return the typed error for what came out of a lane."""
        return raised(self._ended_badly(lane, error, None, None))

    def _ended_badly(self, lane: Lane, error: BaseException, call_id: str | None, started: float | None) -> ToolResult:
        tool, decision, site = lane.road.tool, lane.road.decision, lane.road.site
        if isinstance(error, ExpiredError):
            return late(call_id, tool, decision.agent, self.runtime.timeout(tool) or 0.0, decision)
        taken = None if started is None else (self._tick() - started) * 1000
        if isinstance(error, StoppedError):
            return stopped(call_id, tool, decision.agent, taken, decision)
        return ToolResult(
            call_id, tool.name, decision.agent, Outcome.TOOL_ERROR, None, self.runtime.shown(tool, error, site),
            type_name(error), taken, 1, (), False, decision, error,
        )  # fmt: skip

    def json(self, name: str, value: Any) -> bytes:
        """Return a tool's value as JSON text, or raise the error that says why it has none."""
        record = self.ledger.state.record(name)
        try:
            return json_text(encode(value)) if record is None else record.tool.definition_.compiled.result_json(value)
        except (Exception, SystemExit) as error:  # the tool seam: what it returned may run code of its own
            raise unencodable(name, error) from error

    # ── results ──────────────────────────────────────────────────────────────────────────────────

    def execute(self, call: ToolCall, who: Principal | None, lanes: Lanes | None = None) -> ToolResult:
        """Run one call; every failure of the tool, the arguments or the access is a result."""
        name, arguments = call.name, call.arguments
        if type(arguments) is not dict:
            arguments = quick(arguments)
        if arguments is None or lanes is None or who is None or type(name) is not str or call.engine is not None:
            return self.run(call, who)
        result, lane = None, lanes.sync.get(name)
        if lane is not None:
            result = self._taken(lane, call, arguments)
        if result is None and (lane := self.lane(who, name, lanes).sync.get(name)) is not None:
            result = self._taken(lane, call, arguments)
        return self.run(call, who) if result is None else result

    def _taken(self, lane: Lane, call: ToolCall, arguments: dict[str, Any]) -> ToolResult | None:
        started, road = self._tick(), lane.road
        frame: Frame = [road.site, arguments, None, call, False]
        try:
            value = lane(arguments, frame)
        except (Exception, SystemExit) as error:  # the tool seam: whatever it raises is a result
            return self._ended_badly(lane, error, frame[CALL].tool_call_id, started)
        return None if value is MISS else self._ended(frame[CALL], road, value, started)

    async def aexecute(self, call: ToolCall, who: Principal | None, lanes: Lanes | None = None) -> ToolResult:
        """Run one call from async code; every failure of the tool, the arguments or the access is a result."""
        name, arguments = call.name, call.arguments
        if type(arguments) is not dict:
            arguments = quick(arguments)
        if arguments is None or lanes is None or who is None or type(name) is not str or call.engine is not None:
            return await self.arun(call, who)
        lane = lanes.awaited.get(name) or self.lane(who, name, lanes).awaited.get(name)
        if lane is None:
            return await self.arun(call, who)
        started, road = self._tick(), lane.road
        frame: Frame = [road.site, arguments, None, call, False]
        try:
            value = await lane(arguments, frame)
        except (Exception, SystemExit) as error:  # the tool seam: whatever it raises is a result
            return self._ended_badly(lane, error, frame[CALL].tool_call_id, started)
        if value is not MISS:
            return self._ended(frame[CALL], road, value, started)
        self.lane(who, name, lanes)
        return await self.arun(call, who)

    def _ended(self, call: ToolCall, road: Road, value: Any, started: float) -> ToolResult:
        decision = road.decision
        return ToolResult(
            call.tool_call_id, decision.tool, decision.agent, _OK, value, None, None,
            (self._tick() - started) * 1000, 1, (), False, decision, None, road.most,
        )  # fmt: skip

    def run(self, call: ToolCall, who: Principal | None, known: ToolResult | None = None) -> ToolResult:
        """Drive the pipeline from sync code; *known*: what came of the call already."""
        result = None if known is not None else self._recalled(call, who, awaited=False)
        return result or drive(self.runtime, pipeline(self.runtime, call, who, known=known))

    async def arun(self, call: ToolCall, who: Principal | None, known: ToolResult | None = None) -> ToolResult:
        """Drive the pipeline from async code; *known*: what came of the call already."""
        result = None if known is not None else self._recalled(call, who, awaited=True)
        return result or await drive_async(self.runtime, pipeline(self.runtime, call, who, known=known, awaited=True))

    def _recalled(self, call: ToolCall, who: Principal | None, *, awaited: bool) -> ToolResult | None:
        """Return what the call came to in an earlier life of its run, where that is quickly known."""
        recorder = self.runtime.recorder
        return None if recorder is None else recorder.recalled(call, who, awaited=awaited)
