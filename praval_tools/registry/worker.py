"""
The program of a process that runs the functions of tools for a registry in another process.

It decides nothing: each call that arrives was admitted there, and each call that a function makes goes back there.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial
from queue import SimpleQueue

from msgspec.structs import replace

from praval_tools.errors import ToolError
from praval_tools.execution.approvals import write_exactly
from praval_tools.execution.context import ENDED, Frame, FrameScope, activate_frame, make_frame
from praval_tools.execution.engines.call_forwarding import CallForwarder, refuse_call_of_function
from praval_tools.execution.engines.described_errors import describe_remote_error, describe_unsendable
from praval_tools.execution.engines.described_results import find_implementation, pack_secrets, write_return_value
from praval_tools.execution.engines.messages import (
    CallAnswer,
    Channel,
    ChannelError,
    DescribedCall,
    DescribedFunction,
    FunctionEnded,
    FunctionPrepared,
    PrepareFunction,
    ReportProgress,
    RunCall,
    WorkerStarted,
    WriteLog,
)
from praval_tools.execution.engines.processes import ProcessEngine
from praval_tools.execution.engines.sent_values import join_values
from praval_tools.execution.runtime import Runtime
from praval_tools.execution.trace_context import activate_trace_context
from praval_tools.forks import handle_forks
from praval_tools.names import OPERATOR, describe_error, get_class_name
from praval_tools.registry.default import use_registry
from praval_tools.registry.registry import ToolRegistry, get_runtime
from praval_tools.schema.json_input import copy_json
from praval_tools.tools.compiled import Arguments
from praval_tools.tools.context import ToolContext
from praval_tools.tools.function_address import import_function
from praval_tools.tools.implementation import ToolImplementation
from praval_tools.tools.reports import LogLevel
from praval_tools.tools.return_values import complete_awaited, complete_value
from praval_tools.tools.value_codec import unpack_value


def main(descriptor: int) -> None:
    """Run functions for the process at the other end of the socket *descriptor*, until that is closed."""
    import socket

    _end_with_parent()
    os.set_inheritable(descriptor, False)
    channel = Channel(socket.socket(fileno=descriptor), is_worker=True)
    handle_forks(channel, in_child=Channel.close)  # what a function forks must not speak for it
    ProcessEngine.is_refused_here = True
    Runtime.check_call = staticmethod(refuse_call_of_function)
    _Worker(channel).run()


def _end_with_parent() -> None:
    """Have this process and what it starts killed when the other one has ended, whatever runs here then."""
    import fcntl

    pipe = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    if hasattr(fcntl, "F_SETSIG"):  # elsewhere the thread that reads the channel sees it, once the function lets it
        fcntl.fcntl(pipe, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(pipe, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)


class _Worker:
    """Takes calls from a channel in one thread, and runs their functions in the main thread."""

    def __init__(self, channel: Channel) -> None:
        self._channel, self._process_id = channel, os.getpid()
        self._requests: SimpleQueue[PrepareFunction | RunCall | None] = SimpleQueue()
        self._forwarder = CallForwarder(channel.send)
        self._implementations: dict[DescribedFunction, ToolImplementation] = {}
        self._registry = ToolRegistry(name="of the calling process")
        runtime = get_runtime(self._registry)
        runtime.recorder, runtime.check_call = self._forwarder, None
        self._is_busy = False

    def run(self) -> None:
        """Serve requests until the other end of the channel is closed."""
        threading.Thread(target=self._read_messages, name="praval-tools-channel", daemon=True).start()
        self._channel.send(WorkerStarted())
        while (request := self._requests.get()) is not None:
            self._is_busy = True
            answer = self._prepare(request) if isinstance(request, PrepareFunction) else self._run_call(request)
            if os.getpid() != self._process_id:  # the function forked, and its child returned as well
                os._exit(0)
            self._is_busy = False
            self._send_answer(answer)

    def _read_messages(self) -> None:
        try:
            while True:
                message = self._channel.receive()
                if isinstance(message, CallAnswer):
                    self._forwarder.take_answer(message)
                elif isinstance(message, PrepareFunction | RunCall):
                    self._requests.put(message)
        except ChannelError:
            self._requests.put(None)
            if self._is_busy:  # nobody waits for what runs, and nothing else would end it
                os.killpg(0, signal.SIGKILL)

    def _send_answer(self, answer: FunctionPrepared | FunctionEnded) -> None:
        try:
            self._channel.send(answer)
        except (TypeError, ValueError) as error:
            described = describe_unsendable("", "value", error)
            self._channel.send(FunctionEnded(answer.number, error=described))  # type: ignore[union-attr]

    def _prepare(self, request: PrepareFunction) -> FunctionPrepared:
        function = request.function
        try:
            implementation = find_implementation(import_function(function.address), function.tool, function.description)
            if function.fingerprint:
                here = implementation.compute_fingerprint(function.tool, function.description)
                if here != function.fingerprint:
                    return FunctionPrepared(
                        f"{function.address} is declared otherwise there: its module was changed after it was imported "
                        f"here, or its declaration depends on more than the module"
                    )
        except (Exception, SystemExit) as error:  # the seam to any module
            text = f"{get_class_name(type(error))}: {describe_error(error)}"
            return FunctionPrepared(f"{function.address} cannot be imported there: {text}")
        self._implementations[function] = implementation
        return FunctionPrepared()

    # ── one call ─────────────────────────────────────────────────────────────────────────────────

    def _run_call(self, request: RunCall) -> FunctionEnded:
        call, implementation = request.call, self._implementations[request.call.function]
        is_default = nullcontext() if not call.is_of_default_registry else use_registry(self._registry)
        with self._forwarder.serve(request.number, is_traced=bool(call.trace)), is_default:
            make_context = partial(self._make_context, request)
            return run_function(call, implementation, self._registry, make_context, request.number)

    def _make_context(self, request: RunCall, frame: Frame) -> ToolContext[None]:
        number, call, principal = request.number, request.call, request.call.principal

        def report_progress(done: float, total: float | None, message: str) -> None:
            self._report(frame, ReportProgress(number, done, total, message))

        def write_log(text: str, level: LogLevel) -> None:
            self._report(frame, WriteLog(number, text, level))

        return ToolContext(
            agent=principal.agent if principal else None, chain=principal.chain if principal else (),
            tool_call_id=str(call.call.tool_call_id), run_id=call.call.run_id, registry=self._registry,
            idempotency_key=call.idempotency_key, progress=report_progress, log=write_log, deps=None,
        )  # fmt: skip

    def _report(self, frame: Frame, report: ReportProgress | WriteLog) -> None:
        if not frame[ENDED] and os.getpid() == self._process_id:
            self._channel.send(report)


def run_function(
    call: DescribedCall, implementation: ToolImplementation, registry: ToolRegistry,
    make_context: Callable[[Frame], ToolContext[None]], number: int,
) -> FunctionEnded:  # fmt: skip
    """
    Run the function of a call in this process; return how it ended, whatever it did.

    Args:
        call: The call, as it was admitted.
        implementation: What is run.
        registry: What the function finds as the registry of its call.
        make_context: Returns what the function gets where it asks for a `ToolContext`.
        number: That of the answer.
    """
    tool, principal = call.function.tool, call.principal
    marked_values: list[object] = []
    try:
        scope = FrameScope(registry, principal, OPERATOR if principal is None else principal.agent, tool)
        arguments = unpack_value(call.arguments)
        frame = make_frame(scope, arguments, replace(call.call, arguments=arguments))
        with activate_trace_context(call.trace), activate_frame(frame):
            keywords = bind_arguments(call, implementation, arguments)
            keywords |= dict.fromkeys(implementation.context_parameters, make_context(frame))
            value = _enter_function(implementation, keywords, tool)
            return FunctionEnded(number, **write_return_value(implementation, tool, value, marked_values)._asdict())
    except BaseException as error:  # the tool seam: whatever it raises goes to the other process
        described = describe_remote_error(tool, error)
        return FunctionEnded(number, error=described, marked_values=pack_secrets(marked_values, error))


def bind_arguments(call: DescribedCall, implementation: ToolImplementation, arguments: Arguments) -> Arguments:
    """
    Return the keywords of a function for the arguments that were judged.

    Raises:
        ToolError: The classes of its parameters make other values of them here than those that were judged, or a
            default is another.
    """
    if not call.function.fingerprint:
        return join_values(arguments, unpack_value(call.shown), implementation.function, implementation.signature)
    if call.shown is None:
        return implementation.compiled.complete_values(implementation.bind_coerced(arguments, ()).values)
    shown = unpack_value(call.shown)
    judged = shown if call.judged is None else unpack_value(call.judged)
    text = write_exactly(judged)
    for candidate in (arguments, shown):
        with suppress(ToolError):
            bound = implementation.bind_coerced(copy_json(candidate), ())
            if write_exactly(implementation.render_for_review(bound, with_made_fields=call.judged is not None)) == text:
                return implementation.compiled.complete_values(bound.values)
    raise ToolError("A class of its parameters makes other values here than those that were judged, so it did not run.")


def _enter_function(implementation: ToolImplementation, keywords: Arguments, tool: str) -> object:
    value = implementation.function(**keywords)
    if not implementation.signature.is_async:
        return complete_value(value, tool)
    import asyncio

    return asyncio.run(complete_awaited(value, tool))
