"""Runs a registry's calls, on the fast path or by the pipeline; returns results, or values, or raises typed errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final
from weakref import WeakValueDictionary

from msgspec.structs import replace

from praval_tools.access.records import Principal
from praval_tools.errors import InvalidNameError
from praval_tools.execution.call_progress import CallPipeline, CallProgress
from praval_tools.execution.context import (
    CALL,
    Frame,
    FrameScope,
    activate_caller,
    get_current_principal,
    resolve_caller,
)
from praval_tools.execution.drivers import drive, drive_async
from praval_tools.execution.event_loops import DeadlineExpiredError
from praval_tools.execution.failures import (
    CallCancelledError,
    classify_failure,
    make_encoding_error,
    make_typed_error,
)
from praval_tools.execution.fast_function_cache import FastFunctionCache
from praval_tools.execution.fast_path import (
    CallRunner,
    FastFunction,
    FastPath,
    FastPathMiss,
    build_fast_function,
    make_fast_path,
)
from praval_tools.execution.pipeline import make_pipeline
from praval_tools.execution.plain_calls import to_plain_call
from praval_tools.execution.results import build_cancelled_result, build_no_agent_result, build_timeout_result
from praval_tools.execution.runtime import Runtime
from praval_tools.names import get_plain_type, has_type
from praval_tools.schema.encode import encode, to_json_bytes
from praval_tools.schema.json_input import try_parse_simple
from praval_tools.schema.json_values import SCALAR_TYPES, are_scalars, is_json
from praval_tools.schema.type_handler import Unencodable
from praval_tools.tools.argument_copies import copy_arguments, is_plain
from praval_tools.tools.argument_spellings import find_marked_places, read_marked_arguments
from praval_tools.tools.call import Outcome, ToolCall, ToolResult
from praval_tools.tools.compiled import Arguments
from praval_tools.tools.frames import activate_tool_frame, keep_frame
from praval_tools.tools.return_values import copy_complete

_MISS: Final = FastPathMiss()  # before any step, and never raised
_OK: Final = Outcome.OK  # looking up a member of an enumeration runs code of its own


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

    @keep_frame
    def build_fast_function(self, principal: Principal, name: str, *, is_async: bool) -> tuple[FastFunction, bool]:
        """Return the fast function for the present state, and whether it may be kept for as long as the state."""
        runtime = self.runtime
        self.access_store.prepare_lookup()
        path = FastPath(name, principal, self.access_store.state)
        if not self._is_followed and type(name) is str and not self._needs_pipeline_for_all():
            path = make_fast_path(runtime, principal, name)
        # read after the state: an open change and an exclusive call may end without a new one
        is_temporary = self._needs_pipeline_for_all() or type(name) is not str
        if is_temporary:
            path = FastPath(name, principal, path.state)
        handle = self.handle_fast_path_error_async if is_async else self.handle_fast_path_error
        handle_error: Callable[..., object] = partial(handle, path)
        if path.tool is not None and path.tool.is_async is is_async:
            function = build_fast_function(runtime, path, handle_error)
            run = self._bind_async_runner(function) if is_async else self._bind_runner(function)
            if path.has_after_hooks:
                function = self._build_notifying_function(path, run)
            function.run = _bind_copied_arguments(run) if path.has_after_hooks or runtime.hooks.before else run
            return function, True
        function = build_pipeline_function(path, handle_error)
        function.run = partial(self._run_in_pipeline_async if is_async else self._run_in_pipeline, path)
        # unknown names are not kept: there is no end of them
        return function, not is_temporary and path.state.find_tool_record(name) is not None

    @property
    def _is_followed(self) -> bool:
        """Whether calls are recorded, traced or checked, which the fast path does not do."""
        runtime = self.runtime
        return runtime.recorder is not None or runtime.tracer is not None or runtime.check_call is not None

    def _needs_pipeline_for_all(self) -> bool:
        """Tell whether a change or an exclusive call is open; meanwhile, all calls need the pipeline."""
        return self.access_store.has_open_change or self.runtime.exclusive_gate.is_closed

    # ── values or errors ─────────────────────────────────────────────────────────────────────────

    @keep_frame
    def handle_fast_path_error(self, path: FastPath, arguments: object, error: BaseException) -> Any:
        """Run a call that its fast function left to the pipeline, and return its value, or raise the typed error."""
        call, progress = self._make_call_for_pipeline(path, arguments, error)
        if progress is None and not self._needs_pipeline(path):
            return get_value(self.execute(call, self.get_fast_cache(path.principal)))
        return get_value(drive(self.runtime, self._start_pipeline(call, path.principal, progress=progress)))

    async def handle_fast_path_error_async(self, path: FastPath, arguments: object, error: BaseException) -> Any:
        """Run an awaited call that its fast function left to the pipeline; see `handle_fast_path_error`."""
        call, progress = self._make_call_for_pipeline(path, arguments, error)
        if progress is None and not self._needs_pipeline(path):
            return get_value(await self.aexecute(call, self.get_fast_cache(path.principal)))
        steps = self._start_pipeline(call, path.principal, progress=progress, is_async=True)
        return get_value(await self._drive_async(steps))

    def _needs_pipeline(self, path: FastPath) -> bool:
        """Tell whether each call of *path* needs the pipeline in the present state."""
        return path.tool is None and path.state is self.access_store.state

    def _make_call_for_pipeline(
        self, path: FastPath, arguments: object, error: BaseException
    ) -> tuple[ToolCall, CallProgress | None]:
        """Return a call that goes on in the pipeline, with the steps already taken; raise the error of its tool."""
        if not has_type(error, FastPathMiss):
            raise make_typed_error(self._build_failure_result(path, error, None, None)) from error
        if type(arguments) is dict:
            arguments = copy_arguments(arguments)  # what follows reads them more than once
        call = path.make_call(self._to_json_arguments(path.name, arguments))
        if type(path.name) is not str:
            call = to_plain_call(call)
        progress = error.make_progress(call, path.principal)
        if self._is_followed and (marked_values := read_marked_arguments(arguments)):
            progress = CallProgress(call, path.principal) if progress is None else progress
            progress.marked_values = marked_values
            progress.marked_places = find_marked_places(arguments, call.arguments)
        return call, progress

    def _build_notifying_function(self, path: FastPath, run: CallRunner) -> FastFunction:
        """Return the function of *path* that runs each call by *run*, which notifies after-call hooks of the result."""

        def make_call(arguments: Arguments) -> ToolCall:
            if is_plain(arguments):  # nobody else uses the dict
                return path.make_call(arguments)
            return path.make_call(copy_arguments(self._to_json_arguments(path.name, arguments)))

        def call_sync(arguments: Arguments, _: None) -> object:
            if self._is_followed:  # since the function was built
                return self.handle_fast_path_error(path, arguments, _MISS)
            call = make_call(arguments)
            return get_value(run(call, call.arguments))

        async def call_async(arguments: Arguments, _: None) -> object:
            if self._is_followed:
                return await self.handle_fast_path_error_async(path, arguments, _MISS)
            call = make_call(arguments)
            return get_value(await run(call, call.arguments))

        function: Any = call_async if path.tool is not None and path.tool.is_async else call_sync
        function.path = path
        return function  # type: ignore[no-any-return]

    def _to_json_arguments(self, name: str, arguments: object) -> object:
        """Return arguments, which may be of the function's own Python types, as JSON values."""
        if type(arguments) is not dict or are_scalars(arguments.values()):
            return arguments
        record = self.access_store.state.find_tool_record(name)
        try:
            with activate_tool_frame(name):  # a value that another tool returned may run code of its own
                return arguments if record is None else record.tool.implementation.encode_keywords(arguments)
        except Exception:  # the seam to any objects of a caller: the result describes what is wrong with them
            return arguments

    def encode_result(self, path: FastPath, value: object) -> bytes:
        """Return a tool's value as JSON text, or raise the typed error for a value that has none."""
        encode_json = path.encode_json
        try:
            if encode_json is None:  # the call went through the pipeline, in a state that may be another one now
                record = self.access_store.state.find_tool_record(path.name)
                encode_json = _encode_to_bytes
                if record is not None:
                    encode_json = _with_json_kept(record.tool.implementation.compiled.encode_result_text)
            if get_plain_type(value) in SCALAR_TYPES:  # cannot run code of its own
                return encode_json(value)
            principal = path.principal
            scope = path.scope or FrameScope(self.runtime.registry, principal, principal.agent, path.name)
            with activate_caller(scope):
                try:
                    return encode_json(value)
                except Unencodable:  # there may be iterators in it
                    return encode_json(copy_complete(value))  # nobody else gets the value
        except (Exception, SystemExit) as error:  # the tool seam: what it returned may run code of its own
            raise make_encoding_error(path.name, error) from error

    # ── results ──────────────────────────────────────────────────────────────────────────────────

    def execute(self, call: ToolCall, cache: FastFunctionCache | None) -> ToolResult:
        """
        Run one call; every failure of the tool, the arguments or the access is a result.

        Args:
            call: The call.
            cache: That of the principal that makes the call, whoever it names; None for the operator.
        """
        if cache is None:
            return self.run_pipeline(call, None)
        name, arguments = call.name, call.arguments
        if type(arguments) is not dict:
            arguments = try_parse_simple(arguments)
        if arguments is None or type(name) is not str or call.engine is not None:
            return self.run_pipeline(call, cache.principal)
        try:
            function = cache.sync_functions[name]
        except KeyError:
            function = cache.build_function(name)
        return function.run(call, arguments)  # type: ignore[no-any-return]

    def _bind_runner(self, function: FastFunction) -> CallRunner:
        """Return what runs one call on the fast path; where that cannot, the pipeline does."""
        path, monotonic, runtime = function.path, self._monotonic, self.runtime
        scope, decision, max_size = path.scope, path.decision, path.max_result_size
        tool, agent, has_after_hooks = path.name, path.principal.agent, path.has_after_hooks

        def run(call: ToolCall, arguments: Arguments) -> ToolResult:
            started = monotonic()
            frame: Frame = [scope, arguments, None, call, False, None, None]
            try:
                value = function(arguments, frame)
            except FastPathMiss as miss:
                self._renew_function(path, is_async=False)
                progress = miss.make_progress(call, path.principal)
            except (Exception, SystemExit) as error:  # the tool seam: whatever it raises is a result
                return self._build_failure_result(path, error, frame, started)
            else:
                ended: ToolCall = frame[CALL]  # with its id, where something needed one
                result = ToolResult(
                    ended.tool_call_id, tool, agent, _OK, value, None, None, (monotonic() - started) * 1000, 1,
                    (), False, decision, None, max_size,
                )  # fmt: skip
                if has_after_hooks:
                    runtime.hooks.notify_after_call(ended, path.tool, result)
                return result
            return self.run_pipeline(call, path.principal, progress=progress)

        return run

    def aexecute(self, call: ToolCall, cache: FastFunctionCache | None) -> Coroutine[Any, Any, ToolResult]:
        """Run one call from async code, as `execute` does."""
        if cache is None:
            return self.run_pipeline_async(call, None)
        name, arguments = call.name, call.arguments
        if type(arguments) is not dict:
            arguments = try_parse_simple(arguments)
        if arguments is None or type(name) is not str or call.engine is not None:
            return self.run_pipeline_async(call, cache.principal)
        try:
            function = cache.async_functions[name]
        except KeyError:
            function = cache.build_function(name, is_async=True)
        return function.run(call, arguments)  # type: ignore[no-any-return]

    def _bind_async_runner(self, function: FastFunction) -> CallRunner:
        """Return what runs one awaited call on the fast path; where that cannot, the pipeline does."""
        path, monotonic, runtime = function.path, self._monotonic, self.runtime
        scope, decision, max_size = path.scope, path.decision, path.max_result_size
        tool, agent, has_after_hooks = path.name, path.principal.agent, path.has_after_hooks

        async def run(call: ToolCall, arguments: Arguments) -> ToolResult:
            started = monotonic()
            frame: Frame = [scope, arguments, None, call, False, None, None]
            try:
                value = await function(arguments, frame)
            except FastPathMiss as miss:
                self._renew_function(path, is_async=True)
                progress = miss.make_progress(call, path.principal)
            except (Exception, SystemExit) as error:  # the tool seam: whatever it raises is a result
                return self._build_failure_result(path, error, frame, started)
            else:
                ended: ToolCall = frame[CALL]  # with its id, where something needed one
                result = ToolResult(
                    ended.tool_call_id, tool, agent, _OK, value, None, None, (monotonic() - started) * 1000, 1,
                    (), False, decision, None, max_size,
                )  # fmt: skip
                if has_after_hooks:
                    runtime.hooks.notify_after_call(ended, path.tool, result)
                return result
            return await self.run_pipeline_async(call, path.principal, progress=progress)

        return run

    def _run_in_pipeline(self, path: FastPath, call: ToolCall, _: Arguments) -> ToolResult:
        """Run one call of a path whose calls all need the pipeline."""
        self._renew_function(path, is_async=False)
        return self.run_pipeline(call, path.principal)

    async def _run_in_pipeline_async(self, path: FastPath, call: ToolCall, _: Arguments) -> ToolResult:
        """Run one awaited call of a path whose calls all need the pipeline."""
        self._renew_function(path, is_async=True)
        return await self.run_pipeline_async(call, path.principal)

    def _renew_function(self, path: FastPath, *, is_async: bool) -> None:
        """Build the function of *path* for the present state, if that is a new one; the next call uses it."""
        if path.state is not self.access_store.state:
            self.get_fast_cache(path.principal).build_function(path.name, is_async=is_async)

    def _build_failure_result(
        self, path: FastPath, error: BaseException, frame: Frame | None, started: float | None
    ) -> ToolResult:
        tool, decision = path.tool, path.decision
        if tool is None or decision is None or path.scope is None:
            raise AssertionError("a fast path without a tool runs no function")
        call_id = None if frame is None else frame[CALL].tool_call_id
        latency = None if started is None else (self._monotonic() - started) * 1000
        if has_type(error, DeadlineExpiredError):
            seconds = self.runtime.get_timeout(tool) or 0.0
            result = build_timeout_result(call_id, tool, decision.agent, seconds, decision)
        elif has_type(error, CallCancelledError):
            result = build_cancelled_result(call_id, tool, decision.agent, latency, decision)
        else:
            text = self.runtime.render_error(tool, error, path.scope)
            outcome, error_type = classify_failure(tool.name, error)
            result = ToolResult(
                call_id, tool.name, decision.agent, outcome, None, text, error_type, latency, 1, (), False, decision,
                error,
            )  # fmt: skip
        if path.has_after_hooks and frame is not None:
            self.runtime.hooks.notify_after_call(frame[CALL], tool, result)
        return result

    def run_pipeline(
        self, call: ToolCall, principal: Principal | None, known_result: ToolResult | None = None,
        *, progress: CallProgress | None = None,
    ) -> ToolResult:  # fmt: skip
        """Drive the pipeline from sync code; *known_result*: the result that the call has already, to be recorded."""
        steps = self._start_pipeline(to_plain_call(call), principal, known_result, progress=progress)
        return drive(self.runtime, steps)

    async def run_pipeline_async(
        self, call: ToolCall, principal: Principal | None, known_result: ToolResult | None = None,
        *, progress: CallProgress | None = None,
    ) -> ToolResult:  # fmt: skip
        """Drive the pipeline from async code; *known_result*: the result that the call has already, to be recorded."""
        steps = self._start_pipeline(to_plain_call(call), principal, known_result, progress=progress, is_async=True)
        return await self._drive_async(steps)

    def _start_pipeline(
        self, call: ToolCall, principal: Principal | None, known_result: ToolResult | None = None,
        *, progress: CallProgress | None, is_async: bool = False,
    ) -> CallPipeline:  # fmt: skip
        """Return the steps of a plain call, as the principal makes it that runs here."""
        if principal is not None:
            try:
                caller: Principal | None = resolve_caller(principal)
            except InvalidNameError as error:  # the call leaves out those on whose behalf it would be made
                caller, known_result = None, known_result or build_no_agent_result(call, str(error))
            if caller is not None and caller is not principal:
                call = replace(call, agent=caller.agent, on_behalf_of=caller.chain)
            principal = caller
        if known_result is not None and principal is None and (running := get_current_principal()) is not None:
            call = replace(call, agent=running.agent, on_behalf_of=running.chain)  # whoever it names
        return make_pipeline(
            self.runtime, call, principal, known_result=known_result, progress=progress, is_async=is_async
        )

    def _drive_async(self, steps: CallPipeline) -> Awaitable[ToolResult]:
        """Drive the pipeline from async code."""
        work, tracer = drive_async(self.runtime, steps), self.runtime.tracer
        return work if tracer is None else tracer.isolate_context(work)


def _bind_copied_arguments(run: CallRunner) -> CallRunner:
    """Return *run* so that it gets a call and its arguments as they are now, since hooks are shown later what ran."""

    def run_copied(call: ToolCall, arguments: Arguments) -> Any:
        copied, call = copy_arguments(arguments), to_plain_call(call)
        return run(replace(call, arguments=copied) if call.arguments is arguments else call, copied)

    return run_copied


def _encode_to_bytes(value: object) -> bytes:
    return to_json_bytes(encode(value, takes_subclasses=True))


def _with_json_kept(encode_json: Callable[[object], bytes]) -> Callable[[object], bytes]:
    """Return *encode_json* for results of which some are JSON that no class reads back: recorded, or of a process."""

    def encode_or_keep(value: object) -> bytes:
        try:
            return encode_json(value)
        except Unencodable:
            if not is_json(value):
                raise
            return to_json_bytes(value)

    return encode_or_keep


def get_value(result: ToolResult) -> Any:
    """Return the value of a result, or raise the typed error."""
    if result.outcome is not _OK:
        raise make_typed_error(result)
    return result.result


def build_pipeline_function(path: FastPath, handle_error: Callable[..., object]) -> FastFunction:
    """Return a function that sends each call of *path* to the pipeline."""

    def use_pipeline(arguments: dict[str, Any], _: Frame | None) -> Any:
        return handle_error(arguments, _MISS)

    function: Any = use_pipeline
    function.path = path
    return function  # type: ignore[no-any-return]
