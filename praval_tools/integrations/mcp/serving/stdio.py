"""Serves one MCP client over stdin and stdout, to which nothing else can write meanwhile."""

from __future__ import annotations

import asyncio
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, Final, TextIO, cast

import anyio
from attrs import frozen
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared._context_streams import ContextSendStream
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, ErrorData, JSONRPCError

from praval_tools.integrations.mcp.serving.list_notifier import ToolListNotifier

MAX_MESSAGE_BYTES: Final = 16 * 1_048_576
_CHUNK_BYTES: Final = 65_536


@frozen
class ProtocolPipes:
    """
    The descriptors on which the protocol is spoken.

    Args:
        source: What the client sends.
        target: What it gets.
    """

    source: int
    target: int


@contextmanager
def reserve_standard_streams() -> Iterator[ProtocolPipes]:
    """
    Keep stdin and stdout for the protocol, from now on: whatever else writes to stdout writes to stderr.

    It is done with the descriptors, so it holds for child processes, for C code, and while modules are imported.
    """
    wire = ProtocolPipes(os.dup(0), os.dup(1))
    null = os.open(os.devnull, os.O_RDONLY)
    sys.stdout.flush()
    try:
        os.dup2(null, 0)
        os.dup2(2, 1)
        yield wire
    finally:
        sys.stdout.flush()
        os.dup2(wire.source, 0)
        os.dup2(wire.target, 1)
        for descriptor in (null, wire.source, wire.target):
            os.close(descriptor)


class BoundedLines(io.TextIOBase):
    """
    Reads lines of UTF-8 of bounded length, each a message.

    Args:
        source: The bytes.
        max_bytes: How long a line may be.
        on_too_long: Called for each longer line, whose text is dropped while it is read.
    """

    def __init__(self, source: BinaryIO, max_bytes: int, on_too_long: Callable[[], object]) -> None:
        self._source, self._max_bytes, self._on_too_long = source, max_bytes, on_too_long

    def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]
        """Return the next line that is not too long; empty at the end."""
        while len(line := self._source.readline(self._max_bytes + 1)) > self._max_bytes and not line.endswith(b"\n"):
            while line and not line.endswith(b"\n"):
                line = self._source.readline(_CHUNK_BYTES)
            self._on_too_long()
        return line.decode("utf-8", "replace")


async def serve_stdio(
    served: Server[ToolListNotifier], wire: ProtocolPipes, *, max_message_bytes: int = MAX_MESSAGE_BYTES
) -> None:
    """
    Serve one client until it closes its side.

    Args:
        served: The server.
        wire: Where the protocol is spoken.
        max_message_bytes: How long a message of the client may be; a longer one is answered with an error, unread.
    """
    loop, too_long = asyncio.get_running_loop(), asyncio.Queue[None]()

    def notice_too_long() -> None:  # in the thread that reads
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(too_long.put_nowait, None)

    lines = BoundedLines(os.fdopen(wire.source, "rb", closefd=False), max_message_bytes, notice_too_long)
    target = io.TextIOWrapper(os.fdopen(wire.target, "wb", closefd=False), encoding="utf-8", newline="\n")
    source = anyio.wrap_file(cast(TextIO, lines))
    text = f"A message may have {max_message_bytes:,} bytes; this one is longer, and was not read."
    error = JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=INVALID_REQUEST, message=text))

    async def report_too_long(errors: ContextSendStream[SessionMessage]) -> None:
        async with errors:
            while True:
                await too_long.get()
                await errors.send(SessionMessage(error))

    async with stdio_server(source, anyio.wrap_file(target)) as (read, write), anyio.create_task_group() as tasks:
        tasks.start_soon(report_too_long, write.clone())
        await served.run(read, write, served.create_initialization_options())
        tasks.cancel_scope.cancel()
