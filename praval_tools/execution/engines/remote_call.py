"""
Runs the function of an admitted call in a process: sends the call, serves what the function asks for, takes its result.

All rules stay here: the call was decided and admitted in this process, and so are the calls that the function makes.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from contextlib import nullcontext
from time import monotonic

from msgspec.structs import replace

from praval_tools.access.other_registry import is_default_store
from praval_tools.execution.call_progress import remote_marked_places, remote_marked_values
from praval_tools.execution.context import ensure_call
from praval_tools.execution.deps import is_without_deps
from praval_tools.execution.effects import RunTool
from praval_tools.execution.engines.described_errors import describe_remote_error, describe_unsendable, restore_error
from praval_tools.execution.engines.described_results import describe_result, restore_result
from praval_tools.execution.engines.errors import CallTimeoutError, UnreachableFunctionError, WorkerLostError
from praval_tools.execution.engines.jobs import Job
from praval_tools.execution.engines.messages import (
    CallAnswer,
    CallReport,
    CancelCall,
    ChannelError,
    DescribedCall,
    DescribedFunction,
    FunctionEnded,
    MakeCall,
    ReportProgress,
    RunCall,
    WriteLog,
)
from praval_tools.execution.engines.processes import ProcessEngine
from praval_tools.execution.engines.sent_values import split_values
from praval_tools.execution.engines.worker_process import WorkerProcess
from praval_tools.execution.event_loops import is_self_cancelled
from praval_tools.execution.failures import CallCancelledError
from praval_tools.execution.runtime import Runtime
from praval_tools.execution.trace_context import activate_trace_context
from praval_tools.forks import FIRST_USE_LOCK
from praval_tools.names import check_agent_name, has_type
from praval_tools.schema.type_handler import Mismatch, Unencodable
from praval_tools.tools.call import ToolCall, ToolResult
from praval_tools.tools.frames import activate_tool_frame
from praval_tools.tools.function_address import get_function_address
from praval_tools.tools.supplied import SuppliedSchema
from praval_tools.tools.value_codec import pack_value, unpack_value


def submit_remote_call(run: RunTool) -> Job:
    """Return the call as a job of the process engine; of one that no process can run, a job that ended."""
    engine = _get_engine(run.runtime)
    try:
        function = describe_function(run)
    except UnreachableFunctionError as error:
        job = Job(run.run)
        job.refuse(error)
        return job

    def run_in(process: WorkerProcess) -> object:
        process.prepare(function)
        run.enter_elsewhere = lambda: _RemoteCall(run, function, process, engine).run()
        return run.run()

    return engine.submit(run_in)


def _get_engine(runtime: Runtime) -> ProcessEngine:
    """Return the process engine of a registry, which is made for its first call."""
    with FIRST_USE_LOCK:
        if runtime.processes is None:
            runtime.processes = ProcessEngine(lambda: runtime.options.processes)
            if runtime.access_store.closed:
                runtime.processes.close()
        return runtime.processes


def describe_function(run: RunTool) -> DescribedFunction:
    """
    Return what another process needs to find the function of a call.

    Raises:
        UnreachableFunctionError: It cannot find it, or could not run it.
    """
    tool, implementation = run.tool, run.tool.implementation
    try:
        if ProcessEngine.is_refused_here:
            raise ValueError("its call is made in such a process, by a module that is imported there")
        if not is_without_deps(implementation.deps_hint):
            raise ValueError("it takes deps, which are objects of this process: open there what it needs")
        address = get_function_address(implementation)
    except ValueError as error:
        raise UnreachableFunctionError(f"Tool {tool.name!r} cannot run in another process: {error}.") from None
    is_ready = implementation.supplied_schema is not None
    return DescribedFunction(address, tool.name, tool.description, "" if is_ready else tool.fingerprint)


def describe_call(run: RunTool, function: DescribedFunction) -> DescribedCall:
    """
    Return an admitted call as JSON.

    Raises:
        UnreachableFunctionError: What the function would get cannot be written as JSON.
    """
    implementation, bound, tracer = run.tool.implementation, run.bound_arguments, run.runtime.tracer
    call = run.call = ensure_call(run.frame)
    shown: object = None
    judged: object = None
    if implementation.runs_user_code:
        try:
            shown = pack_value(implementation.render_for_review(bound, with_made_fields=False))
            if run.is_reviewed:
                judged = pack_value(implementation.render_for_review(bound))
        except Unencodable as error:
            text = f"Tool {run.tool.name!r} cannot run in another process: an argument has no JSON form: {error}"
            raise UnreachableFunctionError(text) from error
    arguments = bound.arguments
    if isinstance(schema := implementation.compiled, SuppliedSchema):
        arguments, judged_defaults = split_values(schema, schema.complete_values(bound.values))
        shown = pack_value(judged_defaults)
    return DescribedCall(
        function, run.principal, replace(call, arguments=None),
        pack_value(arguments), shown, judged,
        run.get_idempotency_key(call) if implementation.context_parameters else "", run.attempts,
        is_default_store(run.runtime.access_store), {} if tracer is None else tracer.describe_context(),
    )  # fmt: skip


def read_function_end(run: RunTool, message: FunctionEnded) -> object:
    """
    Return what the function of a call returned in another process, or raise what it raised.

    Raises:
        ChannelError: Its value cannot be read.
        CallCancelledError: The function cancelled itself.
    """
    tool = run.tool
    try:
        run.marked_values += tuple(map(unpack_value, message.marked_values))
        value = unpack_value(message.value)
    except (ValueError, RecursionError) as unreadable:
        raise ChannelError(f"a value that cannot be read: {unreadable}") from unreadable
    if message.error is not None:
        error = restore_error(tool.name, message.error)
        if "asyncio.exceptions:CancelledError" in message.error.classes:
            raise CallCancelledError from error
        raise error
    try:
        with activate_tool_frame(tool.name):  # classes of its return hint may run code of their own
            return tool.implementation.compiled.decode_result(value, message.union_members)
    except Mismatch:  # its classes make another value of it: stays JSON, as a recorded one does
        run.stays_json = True
        return value


class _RemoteCall:
    """The conversation about one call with the process that runs its function."""

    def __init__(
        self, run: RunTool, function: DescribedFunction, process: WorkerProcess, engine: ProcessEngine
    ) -> None:
        self._run, self._process, self._threads = run, process, engine.threads
        self._described = describe_call(run, function)
        self._call = run.call
        self._report_progress, self._write_log = run.make_reporters(run.call)
        process.call_count += 1
        self._number = process.call_count
        seconds = run.runtime.get_engine_timeout(run.tool)
        self._seconds, self._deadline = seconds, None if seconds is None else monotonic() + seconds
        self._lock = threading.Lock()
        self._inner_calls: dict[int, Future[None]] = {}

    def run(self) -> object:
        """Have the function run; return its value, or raise what it raised, or why there is no result."""
        process = self._process
        message: FunctionEnded | CallReport | None = None
        try:
            process.channel.send(RunCall(self._number, self._described), self._deadline)
            while not isinstance(message := self._receive(), FunctionEnded):
                self._serve(message)
            return read_function_end(self._run, message)
        except TimeoutError as error:
            if type(message) is FunctionEnded:
                raise
            process.end(patience=0)
            raise CallTimeoutError from error
        except ChannelError as error:
            name, detail = self._run.tool.name, f" after it sent {error}" if str(error) else ""
            how = process.end(patience=0) if detail else process.end()
            text = f"The process that ran tool {name!r} {how}{detail}; it may have done its work, or a part."
            raise WorkerLostError(text) from error
        except BaseException:
            if type(message) is not FunctionEnded:  # what listens to its reports raised, or it was interrupted here
                process.end(patience=0)
            raise
        finally:
            self._cancel_inner_calls()

    def _receive(self) -> FunctionEnded | CallReport:
        """Return the next message about this call; those of a call before come from what that left running."""
        while True:
            message = self._process.channel.receive(self._deadline)
            if not isinstance(message, FunctionEnded | ReportProgress | WriteLog | MakeCall | CancelCall):
                raise ChannelError("an answer that nobody asked for")
            if message.number == self._number:
                return message

    def _serve(self, message: CallReport) -> None:
        if isinstance(message, ReportProgress):
            self._report_progress(message.done, message.total, message.message)
        elif isinstance(message, WriteLog):
            self._write_log(message.text, message.level)
        elif isinstance(message, MakeCall):
            self._begin_inner_call(message)
        else:
            with self._lock:
                future = self._inner_calls.get(message.call_number)
            if future is not None:
                future.cancel()

    # ── calls that the function makes ────────────────────────────────────────────────────────────

    def _begin_inner_call(self, message: MakeCall) -> None:
        """Begin a call that the function makes, in the context of its own call, and send the answer when it ends."""
        with self._lock:
            if not self._inner_calls:
                self._threads.mark_thread_blocked()
            future = self._run.runtime.background_loop.submit(self._answer(message))
            self._inner_calls[message.call_number] = future
        future.add_done_callback(lambda _: self._end_inner_call(message.call_number))

    def _end_inner_call(self, call_number: int) -> None:
        with self._lock:
            ended = self._inner_calls.pop(call_number, None)
            if ended is not None and not self._inner_calls:
                self._threads.mark_thread_available()

    def _cancel_inner_calls(self) -> None:
        with self._lock:
            futures = list(self._inner_calls.values())
        for future in futures:
            future.cancel()

    async def _answer(self, message: MakeCall) -> None:
        """Make the call, and send the answer: its result, or what making it raised; nothing where it was given up."""
        import asyncio

        runtime = self._run.runtime
        try:
            with nullcontext() if runtime.tracer is None else activate_trace_context(message.trace):
                result = await self._make_call(message)
            described = describe_result(result, runtime)
            self._run.marked_values += tuple(map(unpack_value, described.marked_values))
            answer = CallAnswer(message.call_number, described)
        except BaseException as error:  # the function gets what a call of its own would raise
            if has_type(error, asyncio.CancelledError) and not is_self_cancelled():
                raise
            answer = CallAnswer(message.call_number, error=describe_remote_error(self._run.tool.name, error))
        try:
            self._send_answer(answer)
        except (TimeoutError, ChannelError):  # it ended, which is seen where its result is waited for
            self._process.kill()

    def _send_answer(self, answer: CallAnswer) -> None:
        """Send an answer, or why it cannot be sent: the function waits for it."""
        channel = self._process.channel
        try:
            channel.send(answer, self._deadline)
        except (TypeError, ValueError) as error:
            described = describe_unsendable(self._run.tool.name, "answer", error)
            channel.send(CallAnswer(answer.number, error=described), self._deadline)

    async def _make_call(self, message: MakeCall) -> ToolResult:
        """Make a call as the function asks for it, by the rules for code of its tool."""
        runtime, principal = self._run.runtime, message.principal
        call = replace(message.call, arguments=unpack_value(message.call.arguments))
        remote_marked_values.set(tuple(map(unpack_value, message.marked_values)))
        remote_marked_places.set(tuple((place, unpack_value(secret)) for place, secret in message.marked_places))
        if principal is not None and principal != self._run.principal:
            for name in principal.members:
                check_agent_name(name)
        if message.known_result is not None:
            return await runtime.dispatcher.record_result_async(call, principal, restore_result(message.known_result))
        if principal is not None:
            result: ToolResult = await runtime.dispatcher.get_toolset(principal).aexecute(call)
            return result
        return await self._make_call_as_current_principal(call)

    async def _make_call_as_current_principal(self, call: ToolCall) -> ToolResult:
        result: ToolResult = await self._run.runtime.registry.aexecute(call.tool_call_id, call.name, call.arguments)
        return result
