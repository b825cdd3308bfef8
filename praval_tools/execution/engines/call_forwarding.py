"""In a process that runs functions of tools: sends the calls that they make to the process that it works for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextvars import ContextVar
from itertools import count
from typing import Final

from msgspec.structs import replace

from praval_tools.errors import ToolUsageError
from praval_tools.execution.batch_turns import take_turn
from praval_tools.execution.call_progress import CallPipeline, CallProgress
from praval_tools.execution.effects import WaitForCall
from praval_tools.execution.engines.described_errors import restore_error
from praval_tools.execution.engines.described_results import describe_result_without_value, restore_result
from praval_tools.execution.engines.messages import CallAnswer, CancelCall, FromWorker, MakeCall
from praval_tools.execution.trace_context import inject_trace_context
from praval_tools.schema.encode import encode
from praval_tools.tools.call import ToolCall
from praval_tools.tools.frames import get_current_frame
from praval_tools.tools.plain_managers import plain_manager
from praval_tools.tools.value_codec import pack_value

_current_number: Final[ContextVar[int | None]] = ContextVar("praval_tools_call_number", default=None)
"""The number of the call whose function runs in a context; None in a thread that did not get the context of a call."""


class CallForwarder:
    """
    Stands for the recorder of a registry: sends each of its calls to the other process, and returns the result.

    Args:
        send: Sends a message there.
    """

    def __init__(self, send: Callable[[FromWorker], None]) -> None:
        self._send = send
        self.has_open_runs = True  # the other process knows
        self._counter = count(1)
        self._lock = threading.Lock()
        self._waiting: dict[int, Future[CallAnswer]] = {}
        self._number: int | None = None
        self._is_traced = False

    @plain_manager
    def serve(self, number: int, *, is_traced: bool) -> Iterator[None]:
        """
        Send the calls that are made inside the `with` block as those of the call of this number.

        Where that is traced, each of them says in which span of this process it is made.
        """
        token, self._number, self._is_traced = _current_number.set(number), number, is_traced
        try:
            yield
        finally:
            self._number = None
            _current_number.reset(token)

    def _get_number(self) -> int:
        """
        Return the number of the call whose function runs in this context.

        Raises:
            ToolUsageError: It has ended, or nobody knows of which call this is a part: the process serves one after
                another, and what is left of one must not call in the name of the next.
        """
        number = _current_number.get()
        if number is None:
            raise ToolUsageError(
                "This thread has not got the context of a call, so nobody knows for whom it makes one: start it with "
                "contextvars.copy_context().run, or use asyncio.to_thread.",
                "thread-without-call",
            )
        if number != self._number:
            raise ToolUsageError("The call that this function served has ended: nobody makes calls for it any more.")
        return number

    def record_call(self, progress: CallProgress, steps: CallPipeline) -> CallPipeline:
        """Return the result of a call from the other process; none of its *steps* is taken here."""
        steps.close()
        number, turn = self._get_number(), take_turn()
        call_number, future = next(self._counter), Future[CallAnswer]()
        with self._lock:
            self._waiting[call_number] = future
        call = progress.call
        call = replace(call, arguments=pack_value(_encode_values(call.arguments)))
        trace: dict[str, str] = {}
        if self._is_traced:
            inject_trace_context(trace)
        marked_values = tuple(map(pack_value, progress.marked_values))
        known = None if progress.known_result is None else describe_result_without_value(progress.known_result)
        places = tuple((place, pack_value(secret)) for place, secret in progress.marked_places)
        message = MakeCall(number, call_number, call, progress.principal, known, trace, marked_values, places)
        try:
            turn.wait()
            self._send(message)
            turn.end()
            if progress.is_async:
                yield WaitForCall(future, call.tool_call_id or "")
            answer = future.result()
        except BaseException:
            self._send(CancelCall(message.number, call_number))
            raise
        finally:
            with self._lock:
                self._waiting.pop(call_number, None)
        if answer.error is not None:
            raise restore_error(call.name, answer.error)
        if answer.result is None:
            raise AssertionError("an answer without a result has an error")
        return restore_result(answer.result)

    def take_answer(self, answer: CallAnswer) -> None:
        """Take the answer to a call that waits for it."""
        with self._lock:
            future = self._waiting.get(answer.number)
        if future is not None and future.set_running_or_notify_cancel():
            future.set_result(answer)


def _encode_values(arguments: object) -> object:
    """Return arguments as JSON where they are a dict; texts are read where the call is made."""
    try:
        return encode(arguments) if type(arguments) is dict else arguments
    except Exception:  # the seam to any objects of a caller: the other process says what is wrong with them
        return arguments


def refuse_call_of_function(call: ToolCall) -> None:
    """
    Refuse *call*, of a registry that the process of a tool has of its own, where a function or a thread makes it.

    A thread may have been started by a function without its context. Calls while a module is imported run as usual.

    Raises:
        ToolUsageError: It is such a call.
    """
    if get_current_frame() is not None or threading.current_thread() is not threading.main_thread():
        raise ToolUsageError(
            f"This function runs in another process than its registry, whose copy here knows nothing of it: "
            f"call {call.name!r} by current_agent(), or by the registry of its ToolContext.",
            "registry-of-another-process",
        )
