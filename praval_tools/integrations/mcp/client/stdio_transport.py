"""
The stdio transport to an MCP server: starts its process, and exchanges messages as lines of limited size.

The SDK's own has no limit for a line, and takes time by the square of its length.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import IO, Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCMessage, JSONRPCRequest, jsonrpc_message_adapter

from praval_tools.integrations.foreign_text import remove_secrets, replace_surrogates
from praval_tools.integrations.mcp.client.address import ServerAddress
from praval_tools.integrations.mcp.client.errors import McpServerError
from praval_tools.integrations.mcp.client.transport import Delivery, TransportStreams, describe_os_error
from praval_tools.schema.json_values import reject_constant

_CHUNK_BYTES: Final = 65_536
_MAX_STRAY_LINES: Final = 1_000
"""How many lines in a row may be something else than messages; some servers print a greeting."""

_STDERR_CHARACTERS: Final = 2_000
"""How much of what the process said last is shown where it fails."""

_MAX_WRITTEN: Final = 9
"""How many bytes one of a secret may be written as."""

_POLL_SECONDS: Final = 0.01
_GRACE_SECONDS: Final = 2.0
"""How long a process may take to end once its input is closed, and again once it has got the signal to."""


@asynccontextmanager
async def open_stdio(address: ServerAddress, delivery: Delivery, max_bytes: int) -> AsyncIterator[TransportStreams]:
    """
    Start the process of a server and give the streams of its messages; end the process at the end of the block.

    Raises:
        McpServerError: It cannot be started.
    """
    process = await ServerProcess.start(address)
    try:
        delivery.pipes = process.pipes
        incoming, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        sent, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        async with incoming, received, sent, outgoing, anyio.create_task_group() as tasks:
            tasks.start_soon(process.read_messages, incoming, delivery, max_bytes)
            tasks.start_soon(process.write_messages, outgoing, delivery)
            tasks.start_soon(process.read_errors)
            try:
                yield received, sent
            finally:
                delivery.is_closing = True
                with anyio.CancelScope(shield=True):
                    await process.stop()
                tasks.cancel_scope.cancel()
    finally:
        process.kill()
        delivery.pipes = ()


class ServerProcess:
    """The process of a server."""

    def __init__(
        self, process: asyncio.subprocess.Process, transport: asyncio.SubprocessTransport, secrets: Sequence[str]
    ) -> None:
        self._process, self._transport, self._secrets = process, transport, secrets
        self._last_errors = b""
        self._margin = _MAX_WRITTEN * max((len(secret.encode()) for secret in secrets), default=0)
        """How many bytes of a secret that was cut off may stand where `_last_errors` begins."""

    @classmethod
    async def start(cls, address: ServerAddress) -> ServerProcess:
        """
        Start it, in a group of its own, so that what it starts ends with it.

        Raises:
            McpServerError: It cannot be started.
        """
        loop = asyncio.get_running_loop()
        try:
            transport, protocol = await loop.subprocess_exec(
                lambda: asyncio.subprocess.SubprocessStreamProtocol(_CHUNK_BYTES, loop), *address.command,
                env=address.read_environment(), start_new_session=True,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            raise McpServerError(address.text, f"it cannot be started: {describe_os_error(error)}.") from None
        return cls(asyncio.subprocess.Process(transport, protocol, loop), transport, address.list_secrets())

    @property
    def pipes(self) -> tuple[IO[bytes], ...]:
        """The files of its pipes, which a forked child closes."""
        pipes = (self._transport.get_pipe_transport(number) for number in range(3))
        return tuple(pipe.get_extra_info("pipe") for pipe in pipes if pipe is not None)

    async def read_messages(
        self, incoming: MemoryObjectSendStream[SessionMessage | Exception], delivery: Delivery, max_bytes: int
    ) -> None:
        """Pass its messages on until its output ends, or is no longer that of an MCP server."""
        stray_lines = 0
        async with incoming:
            try:
                async for line in self._iter_lines(max_bytes):
                    message = parse_message(line)
                    stray_lines = stray_lines + 1 if message is None else 0
                    if stray_lines > _MAX_STRAY_LINES:
                        delivery.report_end(f"it wrote {stray_lines:,} lines that are no messages of the protocol")
                        return
                    if message is not None:
                        await incoming.send(SessionMessage(message))
            except _MessageTooLongError:
                delivery.report_end(f"it sent a message of more than {max_bytes:,} bytes")
                return
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):  # the session is over
                return
            delivery.report_end(await self._describe_end())

    async def _iter_lines(self, max_bytes: int) -> AsyncIterator[bytes]:
        parts, size = list[bytes](), 0
        output = self._process.stdout
        while output is not None and (chunk := await output.read(_CHUNK_BYTES)):
            *ends, rest = chunk.split(b"\n")
            for end in ends:
                line = b"".join((*parts, end))
                parts, size = [], 0
                if len(line) > max_bytes:
                    raise _MessageTooLongError
                yield line
            parts.append(rest)
            size += len(rest)
            if size > max_bytes:
                raise _MessageTooLongError

    async def _describe_end(self) -> str:
        await self._has_ended(_GRACE_SECONDS / 4)
        await anyio.sleep(_POLL_SECONDS)  # what it wrote last may still be on its way
        code = self._process.returncode
        state = "closed its output" if code is None else f"ended with exit code {code}"
        text = str(remove_secrets(self._last_errors.decode("utf-8", "replace"), self._secrets))
        if len(self._last_errors) >= _STDERR_CHARACTERS + self._margin:
            text = text[self._margin :]
        text = text[-_STDERR_CHARACTERS:].strip()
        return f"its process {state}" + (f", and said: {text}" if text else "")

    async def write_messages(self, outgoing: MemoryObjectReceiveStream[SessionMessage], delivery: Delivery) -> None:
        """Write messages until there is nobody to read them; each request counts as sent before its first byte is."""
        async with outgoing:
            async for item in outgoing:
                message, pipe = item.message, self._process.stdin
                line = message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
                if pipe is None or pipe.is_closing():
                    return
                if isinstance(message, JSONRPCRequest):
                    delivery.sent.add(message.id)
                try:
                    pipe.write(line)
                    await pipe.drain()
                except OSError:  # its output says why it ended
                    return

    async def read_errors(self) -> None:
        """Keep the end of what it says on its error output."""
        errors = self._process.stderr
        while errors is not None and (chunk := await errors.read(_CHUNK_BYTES)):
            self._last_errors = (self._last_errors + chunk)[-_STDERR_CHARACTERS - self._margin :]

    async def stop(self) -> None:
        """Close its input, and end it if that does not."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        for signal_number in (signal.SIGTERM, _KILL):
            if await self._has_ended(_GRACE_SECONDS):
                return
            self._send_signal(signal_number)
        await self._has_ended(_GRACE_SECONDS)

    async def _has_ended(self, seconds: float) -> bool:
        """Tell whether it ends within so many seconds; `wait` waits for its pipes, too, which others may hold."""
        with anyio.move_on_after(seconds):
            while self._process.returncode is None:
                await anyio.sleep(_POLL_SECONDS)
        return self._process.returncode is not None

    def kill(self) -> None:
        """End at once what still runs of it and of the processes that it started, and let go of its pipes."""
        self._send_signal(_KILL)
        self._transport.close()

    def _send_signal(self, signal_number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal_number)
            elif self._process.returncode is None:
                self._process.kill()


_KILL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)


class _MessageTooLongError(Exception):
    pass


def parse_message(line: bytes) -> JSONRPCMessage | None:
    """Return the message on a line; None where it is none."""
    if not line.lstrip().startswith(b"{"):
        return None
    try:
        value = json.loads(line.decode("utf-8", "replace"), parse_constant=reject_constant)
        if b"\\u" in line:  # half of a surrogate pair in one text must not cost the whole message
            value = replace_surrogates(value)
        return jsonrpc_message_adapter.validate_python(value, by_name=False)
    except (ValueError, RecursionError):
        return None
