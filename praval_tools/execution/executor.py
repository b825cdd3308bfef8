"""Runs the calls of a registry: on the fast path where no step waits, else through the pipeline."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol
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
from praval_tools.execution.fast_path import (
    FastFunction,
    FastPath,
    FastPathMiss,
    build_fast_function,
    find_fast_path,
)
from praval_tools.execution.pipeline import make_pipeline
from praval_tools.execution.progress import CallProgress
from praval_tools.execution.results import build_cancelled_result, build_timeout_result
from praval_tools.execution.runtime import Runtime
from praval_tools.schema.encode import encode, to_json_bytes
from praval_tools.schema.json_input import try_parse_simple
from praval_tools.schema.json_values import SCALAR_TYPES
from praval_tools.tools.call import Outcome, ToolCall, ToolResult

_MAX_FAST_FUNCTIONS: Final = 16_384
_OK: Final = Outcome.OK  # looking up a member of an enumeration runs code of its own


class FastFunctionBuilder(Protocol):
    """Builds fast functions: the executor, or one whose calls belong to a run."""

    def build_fast_function(self, principal: Principal, name: str, *, is_async: bool) -> tuple[FastFunction, bool]:
        """Return the fast function for the present state, and whether it may be kept for as long as the state."""
        ...


class FastFunctionCache:
    """
    The fast functions of one agent by tool name: `sync_functions` for `call`, `async_functions` for `acall`.

    A missing one is built on first use. Where calls of a tool need the pipeline in the present state, a function
    that raises `FastPathMiss` is kept as well.
    """

    __slots__ = ("__weakref__", "_builder", "_principal", "async_functions", "sync_functions")

    def __init__(self, builder: FastFunctionBuilder, principal: Principal) -> None:
        self._builder, self._principal = builder, principal
        self.sync_functions: dict[object, FastFunction] = {}
        self.async_functions: dict[object, FastFunction] = {}

    def build(self, tool: object, *, is_async: bool = False) -> FastFunction:
        """Return the function of a tool, or of its name, for the present state."""
        name: Any = getattr(tool, "name", tool)
        functions = self.async_functions if is_async else self.sync_functions
        function, is_lasting = self._builder.build_fast_function(self._principal, name, is_async=is_async)
        if is_lasting:
            if len(functions) >= _MAX_FAST_FUNCTIONS:
                functions.clear()
            functions[name] = function
        else:
            functions.pop(name, None)
        return function


class Executor:
    """Runs the calls of one registry."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime, self.access_store = runtime, runtime.access_store
        self._monotonic = runtime.clock.monotonic
        self._fast_caches: WeakValueDictionary[Principal, FastFunctionCache] = WeakValueDictionary()

    # ── fast functions ───────────────────────────────────────────────────────────────────────────

    def get_fast_cache(self, principal: Principal) -> FastFunctionCache:
        """Return the agent's fast functions, which are built as it calls."""
        cache = self._fast_caches.get(principal)
        return (
            cache if cache is not None else self._fast_caches.setdefault(principal, FastFunctionCache(self, principal))
        )

    def build_fast_function(self, principal: Principal, name: str, *, is_async: bool) -> tuple[FastFunction, bool]:
        """Return the fast function for the present state, and whether it may be kept for as long as the state."""
        runtime = self.runtime
        is_temporary = self.access_store.has_open_change or runtime.exclusive_gate.is_closed or type(name) is not str
        path = FastPath(name, principal, self.access_store.state)
        if runtime.recorder is None and not is_temporary:
            path = find_fast_path(runtime, principal, name)
        finish: Callable[..., object] = partial(self.afinish_call if is_async else self.finish_call, path)
        if path.tool is not None and path.tool.is_async is is_async:
            return build_fast_function(runtime, path, finish), True
        # unknown names are not kept: there is no end of them
        is_lasting = not is_temporary and path.state.find_tool_record(name) is not None
        return build_refusing_function(path, finish), is_lasting

    # ── values or errors ─────────────────────────────────────────────────────────────────────────

    def finish_call(self, path: FastPath, arguments: object, error: BaseException) -> Any:
        """Return the value of a whole call that its fast function gave up, or raise the typed error."""
        call, progress = self._make_missed_call(path, arguments, error)
        if progress is None:
            return get_value(self.execute(call, path.principal, self.get_fast_cache(path.principal)))
        return get_value(self.run_pipeline(call, path.principal, progress=progress))

    async def afinish_call(self, path: FastPath, arguments: object, error: BaseException) -> Any:
        """Return the value of a whole awaited call that its fast function gave up, or raise the typed error."""
        call, progress = self._make_missed_call(path, arguments, error)
        if progress is None:
            return get_value(await self.aexecute(call, path.principal, self.get_fast_cache(path.principal)))
        return get_value(await self.run_pipeline_async(call, path.principal, progress=progress))

    def _make_missed_call(
        self, path: FastPath, arguments: object, error: BaseException
    ) -> tuple[ToolCall, CallProgress | None]:
        """Return a call that its fast function gave up, with the steps already taken; raise the error of its tool."""
        if not isinstance(error, FastPathMiss):
            raise make_typed_error(self._build_failure_result(path, error, None, None)) from error
        principal = path.principal
        json_arguments = self._to_json_arguments(path.name, arguments)
        call = ToolCall(None, path.name, json_arguments, principal.agent, None, principal.chain)
        return call, error.make_progress(call, principal)

    def _to_json_arguments(self, name: str, arguments: object) -> object:
        """Return arguments, which may be of the function's own Python types, as JSON values."""
        if type(arguments) is not dict or SCALAR_TYPES.issuperset(map(type, arguments.values())):
            return arguments
        record = self.access_store.state.find_tool_record(name)
        try:
            return arguments if record is None else record.tool.implementation.encode_keywords(arguments)
        except Exception:  # the seam to any objects of a caller: the result describes what is wrong with them
            return arguments

    def encode_result(self, path: FastPath, value: object) -> bytes:
        """Return a tool's value as JSON text, or raise the typed error for a value that has none."""
        encode_json = path.encode_json
        try:
            if encode_json is None:  # the call went through the pipeline, in a state that may be another one now
                record = self.access_store.state.find_tool_record(path.name)
                if record is None:
                    return to_json_bytes(encode(value))
                encode_json = record.tool.implementation.compiled.encode_result_text
            return encode_json(value)
        except (Exception, SystemExit) as error:  # the tool seam: what it returned may run code of its own
            raise make_encoding_error(path.name, error) from error

    # ── results ──────────────────────────────────────────────────────────────────────────────────

    def execute(
        self, call: ToolCall, principal: Principal | None, cache: FastFunctionCache | None = None
    ) -> ToolResult:
        """Run one call; every failure of the tool, the arguments or the access is a result."""
        name, arguments = call.name, call.arguments
        if type(arguments) is not dict:
            arguments = try_parse_simple(arguments)
        if arguments is None or cache is None or type(name) is not str or call.engine is not None:
            return self.run_pipeline(call, principal)
        function = cache.sync_functions.get(name)
        if function is None or function.path.state is not self.access_store.state:
            function = cache.build(name)
        started, path = self._monotonic(), function.path
        frame = [path.scope, arguments, None, call, False]
        try:
            value = function(arguments, frame)
        except FastPathMiss as miss:
            progress = miss.make_progress(call, principal)
        except (Exception, SystemExit) as error:  # the tool seam: whatever it raises is a result
            return self._build_failure_result(path, error, frame, started)
        else:
            return self._build_success_result(path, value, frame, started)
        return self.run_pipeline(call, principal, progress=progress)

    async def aexecute(
        self, call: ToolCall, principal: Principal | None, cache: FastFunctionCache | None = None
    ) -> ToolResult:
        """Run one call from async code; every failure of the tool, the arguments or the access is a result."""
        name, arguments = call.name, call.arguments
        if type(arguments) is not dict:
            arguments = try_parse_simple(arguments)
        if arguments is None or cache is None or type(name) is not str or call.engine is not None:
            return await self.run_pipeline_async(call, principal)
        function = cache.async_functions.get(name)
        if function is None or function.path.state is not self.access_store.state:
            function = cache.build(name, is_async=True)
        started, path = self._monotonic(), function.path
        frame = [path.scope, arguments, None, call, False]
        try:
            value = await function(arguments, frame)
        except FastPathMiss as miss:
            progress = miss.make_progress(call, principal)
        except (Exception, SystemExit) as error:  # the tool seam: whatever it raises is a result
            return self._build_failure_result(path, error, frame, started)
        else:
            return self._build_success_result(path, value, frame, started)
        return await self.run_pipeline_async(call, principal, progress=progress)

    def _build_success_result(self, path: FastPath, value: object, frame: Frame, started: float) -> ToolResult:
        decision: Any = path.decision
        result = ToolResult(
            frame[CALL].tool_call_id, decision.tool, decision.agent, _OK, value, None, None,
            (self._monotonic() - started) * 1000, 1, (), False, decision, None, path.max_result_size,
        )  # fmt: skip
        if path.notifies_after:
            self.runtime.notify_after_call(frame[CALL], result)
        return result

    def _build_failure_result(
        self, path: FastPath, error: BaseException, frame: Frame | None, started: float | None
    ) -> ToolResult:
        tool, decision = path.tool, path.decision
        if tool is None or decision is None or path.scope is None:
            raise AssertionError("a fast path without a tool runs no function")
        call_id = None if frame is None else frame[CALL].tool_call_id
        latency = None if started is None else (self._monotonic() - started) * 1000
        if isinstance(error, DeadlineExpiredError):
            seconds = self.runtime.get_timeout(tool) or 0.0
            result = build_timeout_result(call_id, tool, decision.agent, seconds, decision)
        elif isinstance(error, CallCancelledError):
            result = build_cancelled_result(call_id, tool, decision.agent, latency, decision)
        else:
            text = self.runtime.render_error(tool, error, path.scope)
            result = ToolResult(
                call_id, tool.name, decision.agent, Outcome.TOOL_ERROR, None, text, get_error_type_name(error),
                latency, 1, (), False, decision, error,
            )  # fmt: skip
        if path.notifies_after and frame is not None:
            self.runtime.notify_after_call(frame[CALL], result)
        return result

    def run_pipeline(
        self, call: ToolCall, principal: Principal | None, known_result: ToolResult | None = None,
        *, progress: CallProgress | None = None,
    ) -> ToolResult:  # fmt: skip
        """Drive the pipeline from sync code; *known_result*: the result that the call has already, to be recorded."""
        result = None if known_result is not None else self._try_replay(call, principal, is_async=False)
        return result or drive(
            self.runtime, make_pipeline(self.runtime, call, principal, known_result=known_result, progress=progress)
        )

    async def run_pipeline_async(
        self, call: ToolCall, principal: Principal | None, known_result: ToolResult | None = None,
        *, progress: CallProgress | None = None,
    ) -> ToolResult:  # fmt: skip
        """Drive the pipeline from async code; *known_result*: the result that the call has already, to be recorded."""
        result = None if known_result is not None else self._try_replay(call, principal, is_async=True)
        return result or await drive_async(
            self.runtime,
            make_pipeline(self.runtime, call, principal, known_result=known_result, progress=progress, is_async=True),
        )

    def _try_replay(self, call: ToolCall, principal: Principal | None, *, is_async: bool) -> ToolResult | None:
        recorder = self.runtime.recorder
        return None if recorder is None else recorder.try_replay(call, principal, is_async=is_async)


def get_value(result: ToolResult) -> Any:
    """Return the value of a result, or raise the typed error."""
    if result.outcome is not _OK:
        raise make_typed_error(result)
    return result.result


def build_refusing_function(path: FastPath, finish: Callable[..., object]) -> FastFunction:
    """Return the function of a path whose calls need the pipeline."""

    def refuse(arguments: dict[str, Any], frame: Frame | None = None) -> Any:
        if frame is not None:
            raise FastPathMiss
        return finish(arguments, FastPathMiss())

    function: Any = refuse
    function.path = path
    return function  # type: ignore[no-any-return]
