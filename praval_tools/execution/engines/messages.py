"""
The messages between a registry and a process that runs its tools, and the channel that carries them.

Each is JSON after its length. Nothing is pickled, and what a message may hold is checked by its type.
"""

from __future__ import annotations

import json
import struct
import threading
from functools import cache
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import msgspec

from praval_tools.access.records import Principal
from praval_tools.execution.engines.described_errors import DescribedError
from praval_tools.names import to_plain_text
from praval_tools.schema.json_values import reject_constant
from praval_tools.tools.call import Outcome, ToolCall
from praval_tools.tools.decision import Decision
from praval_tools.tools.reports import LogLevel, ReportedNumber, convert_fields, to_json_number, to_plain_message

if TYPE_CHECKING:
    import socket

T = TypeVar("T")

MAX_MESSAGE_BYTES: Final = 1 << 28
"""How long one message may be: 256 MiB."""

_HEADER: Final = struct.Struct("!Q")
_CHUNK_BYTES: Final = 1 << 20
_SMALL_CHUNK_BYTES: Final = 1 << 14


class DescribedFunction(msgspec.Struct, frozen=True):
    """
    What another process needs to find the function of a tool, and to tell whether it is defined as it is here.

    Args:
        address: Its module and name, `module:name`.
        tool: The name of the tool.
        description: What a model reads of it.
        fingerprint: The fingerprint of the tool; empty: its schema was supplied, and its arguments are ready for it.
    """

    address: str
    tool: str
    description: str
    fingerprint: str


class DescribedCall(msgspec.Struct, frozen=True):
    """
    One admitted call as JSON: who calls what with which arguments.

    Args:
        function: What is called.
        principal: Who calls; None for the operator.
        call: The call, without its arguments.
        arguments: The arguments that were judged, as `pack_value` writes them.
        shown: What the function gets by them, with every default, where classes of its parameters run code of their
            own: only arguments that amount to exactly this may run. Where the schema was supplied, what was judged of
            the function's defaults that are not JSON: only with these may it run.
        judged: The same with the fields that constructors do not take, where policies or approvers were shown those.
        idempotency_key: That of the call; empty where the function takes no context.
        attempt: How often the function was entered, this time included.
        is_of_default_registry: Whether the default registry makes the call.
        trace: The trace of the call, as `inject_trace_context` writes it; empty where it is not traced.
    """

    function: DescribedFunction
    principal: Principal | None
    call: ToolCall
    arguments: object
    shown: object = None
    judged: object = None
    idempotency_key: str = ""
    attempt: int = 1
    is_of_default_registry: bool = False
    trace: dict[str, str] = {}


class DescribedResult(msgspec.Struct, frozen=True):
    """
    The result of a call that a tool made from another process.

    Args:
        value: The value as JSON, as `pack_value` writes it.
        function: The address of the tool's function, by whose return hint the value is decoded; empty: it has none.
        exception: What the tool raised.
        union_members: Which members of unions wrote the value.
        marked_values: Those in it, or in what was raised, that classes mark as secret, which its JSON does not tell.
        other: The other fields of a `ToolResult`, as they are.
    """

    tool_call_id: str | None
    name: str
    agent: str | None
    outcome: Outcome
    value: object = None
    function: str = ""
    error: str | None = None
    error_type: str | None = None
    latency_ms: float | None = None
    attempts: int = 0
    replayed: bool = False
    decision: Decision | None = None
    exception: DescribedError | None = None
    max_size: int | None = None
    approval_id: str | None = None
    run_id: str | None = None
    union_members: tuple[str, ...] = ()
    marked_values: tuple[object, ...] = ()


# ── to the process ───────────────────────────────────────────────────────────────────────────────


class PrepareFunction(msgspec.Struct, frozen=True, tag="prepare"):
    """Import the function; answered by `FunctionPrepared`."""

    function: DescribedFunction


class RunCall(msgspec.Struct, frozen=True, tag="run"):
    """Run the function of a call; answered by `FunctionEnded` of the same *number*."""

    number: int
    call: DescribedCall


class CallAnswer(msgspec.Struct, frozen=True, tag="answer"):
    """The answer to `MakeCall`: a result, or what making the call raised."""

    number: int
    result: DescribedResult | None = None
    error: DescribedError | None = None


# ── from the process ─────────────────────────────────────────────────────────────────────────────


class WorkerStarted(msgspec.Struct, frozen=True, tag="started"):
    """The process is ready."""


class FunctionPrepared(msgspec.Struct, frozen=True, tag="prepared"):
    """The function was imported; *problem* says why not."""

    problem: str = ""


class FunctionEnded(msgspec.Struct, frozen=True, tag="ended"):
    """
    The function returned *value*, as `pack_value` writes it, or raised *error*.

    *marked_values*, written likewise, are those in either that classes mark as secret, which its JSON does not tell.
    """

    number: int
    value: object = None
    error: DescribedError | None = None
    union_members: tuple[str, ...] = ()
    marked_values: tuple[object, ...] = ()


class ReportProgress(msgspec.Struct, frozen=True, tag="progress"):
    """The tool reports its progress; what it says is made plain here, where its own code runs."""

    number: int
    done: ReportedNumber
    total: ReportedNumber = None
    message: str = ""

    def __post_init__(self) -> None:
        convert_fields(self, message=to_plain_message, done=to_json_number, total=to_json_number)


class WriteLog(msgspec.Struct, frozen=True, tag="log"):
    """The tool writes a message for its caller; it is made plain here, where the tool's own code runs."""

    number: int
    text: str
    level: LogLevel

    def __post_init__(self) -> None:
        convert_fields(self, level=to_plain_text, text=to_plain_text)


class MakeCall(msgspec.Struct, frozen=True, tag="call"):
    """
    The tool calls another one: as *principal*; None: as the operator, or as nobody where there is a *known_result*.

    With a *known_result*, why the call was refused there, it is not made, and only recorded.
    It does so in the span that *trace* says, as `inject_trace_context` writes it; empty: in that of its own call.
    *marked_values*, as `pack_value` writes them, are what classes mark as secret in the objects that it passes;
    *marked_places* are the same in the arguments, each after its place.
    """

    number: int
    call_number: int
    call: ToolCall
    principal: Principal | None
    known_result: DescribedResult | None = None
    trace: dict[str, str] = {}
    marked_values: tuple[object, ...] = ()
    marked_places: tuple[tuple[tuple[str | int, ...], object], ...] = ()


class CancelCall(msgspec.Struct, frozen=True, tag="cancel"):
    """Nobody waits any more for the call of this number that the tool made."""

    number: int
    call_number: int


ToWorker: TypeAlias = PrepareFunction | RunCall | CallAnswer
CallReport: TypeAlias = ReportProgress | WriteLog | MakeCall | CancelCall
"""What a function says while it runs."""

FromWorker: TypeAlias = WorkerStarted | FunctionPrepared | FunctionEnded | CallReport


@cache
def _get_decoder(is_worker: bool) -> msgspec.json.Decoder[ToWorker | FromWorker]:
    """Return what reads the messages of one direction; built once."""
    return msgspec.json.Decoder(ToWorker if is_worker else FromWorker)


def write_message(message: msgspec.Struct) -> bytes:
    """
    Return *message* as JSON text.

    Raises:
        TypeError: Something in it is not JSON.
        ValueError: It is nested too deeply, or has a number that is not JSON beside half of a surrogate pair.
    """
    try:
        try:
            return msgspec.json.encode(message)
        except UnicodeEncodeError:  # half of a surrogate pair, as names of files have it: JSON has an escape for it
            return json.dumps(msgspec.to_builtins(message), allow_nan=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_message(data: bytes | bytearray, decoder: msgspec.json.Decoder[T]) -> T:
    """
    Return the message that `write_message` wrote.

    Raises:
        ValueError: It is not a valid message.
    """
    try:
        try:
            return decoder.decode(data)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:  # it may have such escapes
            return msgspec.convert(json.loads(data, parse_constant=reject_constant), decoder.type)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


class ChannelError(Exception):
    """The other end is closed, or sent what is not a valid message; what it sent, where that is known."""


class Channel:
    """
    One end of a connection that carries messages; any thread sends, and one receives.

    Args:
        connection: A stream socket.
        is_worker: Whether this is the end of the process that runs functions.
    """

    def __init__(self, connection: socket.socket, *, is_worker: bool) -> None:
        self._socket, self._is_worker = connection, is_worker
        self._unread = bytearray()
        self._send_lock = threading.Lock()

    def send(self, message: ToWorker | FromWorker, deadline: float | None = None) -> None:
        """
        Send *message*.

        Raises:
            TimeoutError: The other end did not read it until *deadline*; nothing more can be sent then.
            ChannelError: The other end is closed.
            ValueError: It is too long, or as `write_message` says.
            TypeError: Something in it is not JSON.
        """
        body = write_message(message)
        if len(body) > MAX_MESSAGE_BYTES:
            raise ValueError(f"it takes {len(body):,} bytes, of which {MAX_MESSAGE_BYTES:,} may go to another process")
        try:
            with self._send_lock:
                self._set_deadline(deadline)
                self._socket.sendall(_HEADER.pack(len(body)) + body)
        except TimeoutError:
            raise
        except OSError as error:
            raise ChannelError from error

    def receive(self, deadline: float | None = None) -> ToWorker | FromWorker:
        """
        Return the next message.

        Raises:
            TimeoutError: It was not there until *deadline*.
            ChannelError: The other end is closed, or it is not a valid message.
        """
        try:
            (length,) = _HEADER.unpack(self._read(_HEADER.size, deadline))
            if length > MAX_MESSAGE_BYTES:
                raise ChannelError(f"a message of {length:,} bytes")
            return read_message(self._read(length, deadline), _get_decoder(self._is_worker))
        except TimeoutError:
            raise
        except OSError as error:
            raise ChannelError from error
        except ValueError as error:
            raise ChannelError(f"a message that cannot be read: {error}") from error

    def _read(self, length: int, deadline: float | None) -> bytearray:
        """Return the next *length* bytes; what has come beyond them is kept for the next message."""
        while (missing := length - len(self._unread)) > 0:
            self._set_deadline(deadline)
            chunk = self._socket.recv(max(_SMALL_CHUNK_BYTES, min(missing, _CHUNK_BYTES)))
            if not chunk:
                raise ConnectionResetError("the other end is closed")
            self._unread += chunk
        data = self._unread[:length]
        del self._unread[:length]
        return data

    def _set_deadline(self, deadline: float | None) -> None:
        if deadline is None:
            self._socket.settimeout(None)
        elif (seconds := deadline - monotonic()) > 0:
            self._socket.settimeout(seconds)
        else:
            raise TimeoutError

    @property
    def is_open(self) -> bool:
        """Whether the other end is open, as far as it is known here."""
        import socket

        try:
            self._socket.settimeout(0)
            return bool(self._socket.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def shut_down(self) -> None:
        """Let both ends read and write nothing more; whoever waits goes on with an error."""
        import socket

        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:  # closed already
            return

    def close(self) -> None:
        """Free the socket; in a forked process without harm to the one that goes on using it."""
        self._socket.close()
