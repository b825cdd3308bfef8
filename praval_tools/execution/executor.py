"""The executor: lanes where nothing waits, the pipeline otherwise, with a sync and an async driver."""

from __future__ import annotations

from typing import Any, Final
from weakref import WeakValueDictionary

from praval_tools.access.records import Principal
from praval_tools.execution.context import CALL, Frame
from praval_tools.execution.drivers import drive, drive_async
from praval_tools.execution.event_loops import DeadlineExpiredError
from praval_tools.execution.failures import (
    CallCancelledError,
    get_error_type_name,
    make_encoding_error,
    make_typed_error,
)
from praval_tools.execution.fast_path import FastFunction, FastPath
from praval_tools.execution.fast_path_rules import build_fast_function
from praval_tools.execution.pipeline import make_pipeline
from praval_tools.execution.results import build_cancelled_result, build_timeout_result
from praval_tools.execution.runtime import Runtime
from praval_tools.schema.encode import encode, to_json_bytes
from praval_tools.schema.json_input import try_parse_simple
from praval_tools.schema.json_values import SCALAR_TYPES
from praval_tools.tools.call import Outcome, ToolCall, ToolResult
from praval_tools.tools.implementation import MISS

_MAX_FAST_FUNCTIONS: Final = 16_384
_OK: Final = Outcome.OK  # a member of an enumeration is looked up by code of its own


class FastFunctionCache:
    """The lanes of one agent by tool name, sync and awaited ones; each carries the `decision` that it stands for."""

    __slots__ = ("__weakref__", "async_functions", "sync_functions")

    def __init__(self) -> None:
        self.sync_functions: dict[str, FastFunction] = {}
        self.async_functions: dict[str, FastFunction] = {}

    def clear(self) -> None:
        """Forget all lanes."""
        self.sync_functions.clear()
        self.async_functions.clear()

    def drop(self, name: str) -> None:
        """Forget the lane of *name*."""
        self.sync_functions.pop(name, None)
        self.async_functions.pop(name, None)


class Executor:
    """Runs the calls of one registry."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime, self.access_store = runtime, runtime.access_store
        self._monotonic = runtime.clock.monotonic
        self._fast_caches: WeakValueDictionary[Principal, FastFunctionCache] = WeakValueDictionary()

    # ── lanes ────────────────────────────────────────────────────────────────────────────────────

    def get_fast_cache(self, who: Principal) -> FastFunctionCache:
        """Return the agent's lanes, which fill as it calls."""
        mine = self._fast_caches.get(who)
        return mine if mine is not None else self._fast_caches.setdefault(who, FastFunctionCache())

    def refresh_fast_cache(self, who: Principal, name: str, lanes: FastFunctionCache) -> FastFunctionCache:
        """Make the lane of *name* for the present state, where the call can take one; return *lanes*."""
        state = self.access_store.state
        known = lanes.sync_functions.get(name) or lanes.async_functions.get(name)
        if known is not None:
            if known.road.state is state:
                return lanes
            lanes.drop(name)
        if self.runtime.recorder is not None:
            return lanes
        made = build_fast_function(self.runtime, who, name)
        if made is None:
            return lanes
        if len(lanes.sync_functions) + len(lanes.async_functions) > _MAX_FAST_FUNCTIONS:
            lanes.clear()
        (lanes.async_functions if made.road.tool.is_async else lanes.sync_functions)[name] = made
        return lanes

    # ── values or errors ─────────────────────────────────────────────────────────────────────────

    def call(self, who: Principal, name: str, arguments: Any, lanes: FastFunctionCache) -> Any:
        """Call a tool and return its value, or raise the typed error; the long way of `Toolset.call`."""
        lane = self.refresh_fast_cache(who, name, lanes).sync_functions.get(name)
        if lane is not None and type(arguments) is dict:
            try:
                value = lane(arguments)
            except (Exception, SystemExit) as error:
                raise self.make_error(lane, error) from error
            if value is not MISS:
                return value
        result = self.run_pipeline(
            ToolCall(None, name, self._to_json_arguments(name, arguments), who.agent, None, who.chain), who
        )
        if result.outcome is not _OK:
            raise make_typed_error(result)
        return result.result

    async def acall(self, who: Principal, name: str, arguments: Any, lanes: FastFunctionCache) -> Any:
        """Call a tool from async code and return its value, or raise the typed error; the long way of `acall`."""
        lane = self.refresh_fast_cache(who, name, lanes).async_functions.get(name)
        if lane is not None and type(arguments) is dict:
            try:
                value = await lane(arguments)
            except (Exception, SystemExit) as error:
                raise self.make_error(lane, error) from error
            if value is not MISS:
                return value
        given = self._to_json_arguments(name, arguments)
        call = ToolCall(None, name, given, who.agent, None, who.chain)
        result = self._find_replayed_result(call, who, awaited=True)
        result = result or await drive_async(self.runtime, make_pipeline(self.runtime, call, who, is_async=True))
        if result.outcome is not _OK:
            raise make_typed_error(result)
        return result.result

    def _to_json_arguments(self, name: str, arguments: Any) -> Any:
        """Return arguments that may be of the function's own Python types as JSON; what is JSON stays."""
        if type(arguments) is not dict or SCALAR_TYPES.issuperset(map(type, arguments.values())):
            return arguments
        record = self.access_store.state.find_tool_record(name)
        try:
            return arguments if record is None else record.tool.implementation.encode_keywords(arguments)
        except Exception:  # the seam to whatever objects a caller gave: the call says what is wrong with them
            return arguments

    def make_error(self, lane: FastFunction, error: BaseException) -> BaseException:
        """Return the typed error for what came out of a lane."""
        return make_typed_error(self._build_failure_result(lane, error, None, None))

    def _build_failure_result(
        self, lane: FastFunction, error: BaseException, call_id: str | None, started: float | None
    ) -> ToolResult:
        tool, decision, site = lane.road.tool, lane.road.decision, lane.road.scope
        if isinstance(error, DeadlineExpiredError):
            return build_timeout_result(call_id, tool, decision.agent, self.runtime.get_timeout(tool) or 0.0, decision)
        taken = None if started is None else (self._monotonic() - started) * 1000
        if isinstance(error, CallCancelledError):
            return build_cancelled_result(call_id, tool, decision.agent, taken, decision)
        return ToolResult(
            call_id, tool.name, decision.agent, Outcome.TOOL_ERROR, None, self.runtime.render_error(tool, error, site),
            get_error_type_name(error), taken, 1, (), False, decision, error,
        )  # fmt: skip

    def encode_result(self, name: str, value: Any) -> bytes:
        """Return a tool's value as JSON text, or raise the error that says why it has none."""
        record = self.access_store.state.find_tool_record(name)
        try:
            return (
                to_json_bytes(encode(value))
                if record is None
                else record.tool.implementation.compiled.encode_result_text(value)
            )
        except (Exception, SystemExit) as error:  # the tool seam: what it returned may run code of its own
            raise make_encoding_error(name, error) from error

    # ── results ──────────────────────────────────────────────────────────────────────────────────

    def execute(self, call: ToolCall, who: Principal | None, lanes: FastFunctionCache | None = None) -> ToolResult:
        """Run one call; every failure of the tool, the arguments or the access is a result."""
        name, arguments = call.name, call.arguments
        if type(arguments) is not dict:
            arguments = try_parse_simple(arguments)
        if arguments is None or lanes is None or who is None or type(name) is not str or call.engine is not None:
            return self.run_pipeline(call, who)
        result, lane = None, lanes.sync_functions.get(name)
        if lane is not None:
            result = self._try_fast_path(lane, call, arguments)
        if result is None and (lane := self.refresh_fast_cache(who, name, lanes).sync_functions.get(name)) is not None:
            result = self._try_fast_path(lane, call, arguments)
        return self.run_pipeline(call, who) if result is None else result

    def _try_fast_path(self, lane: FastFunction, call: ToolCall, arguments: dict[str, Any]) -> ToolResult | None:
        started, road = self._monotonic(), lane.road
        frame: Frame = [road.scope, arguments, None, call, False]
        try:
            value = lane(arguments, frame)
        except (Exception, SystemExit) as error:  # the tool seam: whatever it raises is a result
            return self._build_failure_result(lane, error, frame[CALL].tool_call_id, started)
        return None if value is MISS else self._build_success_result(frame[CALL], road, value, started)

    async def aexecute(
        self, call: ToolCall, who: Principal | None, lanes: FastFunctionCache | None = None
    ) -> ToolResult:
        """Run one call from async code; every failure of the tool, the arguments or the access is a result."""
        name, arguments = call.name, call.arguments
        if type(arguments) is not dict:
            arguments = try_parse_simple(arguments)
        if arguments is None or lanes is None or who is None or type(name) is not str or call.engine is not None:
            return await self.run_pipeline_async(call, who)
        lane = lanes.async_functions.get(name) or self.refresh_fast_cache(who, name, lanes).async_functions.get(name)
        if lane is None:
            return await self.run_pipeline_async(call, who)
        started, road = self._monotonic(), lane.road
        frame: Frame = [road.scope, arguments, None, call, False]
        try:
            value = await lane(arguments, frame)
        except (Exception, SystemExit) as error:  # the tool seam: whatever it raises is a result
            return self._build_failure_result(lane, error, frame[CALL].tool_call_id, started)
        if value is not MISS:
            return self._build_success_result(frame[CALL], road, value, started)
        self.refresh_fast_cache(who, name, lanes)
        return await self.run_pipeline_async(call, who)

    def _build_success_result(self, call: ToolCall, road: FastPath, value: Any, started: float) -> ToolResult:
        decision = road.decision
        return ToolResult(
            call.tool_call_id, decision.tool, decision.agent, _OK, value, None, None,
            (self._monotonic() - started) * 1000, 1, (), False, decision, None, road.max_result_size,
        )  # fmt: skip

    def run_pipeline(self, call: ToolCall, who: Principal | None, known: ToolResult | None = None) -> ToolResult:
        """Drive the pipeline from sync code; *known*: what came of the call already."""
        result = None if known is not None else self._find_replayed_result(call, who, awaited=False)
        return result or drive(self.runtime, make_pipeline(self.runtime, call, who, known_result=known))

    async def run_pipeline_async(
        self, call: ToolCall, who: Principal | None, known: ToolResult | None = None
    ) -> ToolResult:
        """Drive the pipeline from async code; *known*: what came of the call already."""
        result = None if known is not None else self._find_replayed_result(call, who, awaited=True)
        return result or await drive_async(
            self.runtime, make_pipeline(self.runtime, call, who, known_result=known, is_async=True)
        )

    def _find_replayed_result(self, call: ToolCall, who: Principal | None, *, awaited: bool) -> ToolResult | None:
        """Return what the call came to in an earlier life of its run, where that is quickly known."""
        recorder = self.runtime.recorder
        return None if recorder is None else recorder.try_replay(call, who, awaited=awaited)
