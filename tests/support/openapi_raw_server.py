"""A service that answers each request with given bytes, or ends the connection: what no framework would do."""

from __future__ import annotations

import socket
import socketserver
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread


class RawServer(socketserver.ThreadingTCPServer):
    """
    A server on loopback; `answer` is what is sent, and `requests` holds what came.

    With `ends` it takes no connection after the one that it answers.
    Requests that begin with `held` wait for `may_answer`; `has_request` says that one of them has come as a whole.
    """

    allow_reuse_address, allow_reuse_port, daemon_threads = True, True, True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._reserved = socket.socket()
        self.answer, self.requests, self.held = b"", list[bytes](), b"nothing"
        self.has_request, self.may_answer, self.ends = Event(), Event(), False

    def end(self) -> None:
        """Take no more connections, at once, which closing is not while somebody waits; nobody else gets the port."""
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._reserved.bind(self.server_address)
        self.socket.shutdown(socket.SHUT_RDWR)

    def server_close(self) -> None:
        """Give the port back."""
        super().server_close()
        self._reserved.close()

    @property
    def url(self) -> str:
        """Its URL."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(socketserver.StreamRequestHandler):
    """Reads one request and answers it."""

    server: RawServer

    def handle(self) -> None:
        """Answer, and end the connection."""
        head, length = b"", 0
        while (line := self.rfile.readline()) not in (b"\r\n", b""):
            head += line
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        if not head:
            return
        self.server.requests.append(head + b"\r\n" + self.rfile.read(length))
        if head.startswith(self.server.held):
            self.server.has_request.set()
            self.server.may_answer.wait(60)
        if self.server.ends:
            self.server.end()
        try:
            self.wfile.write(self.server.answer)
        except OSError:
            return  # the client has gone, as after an answer that is too long


@contextmanager
def serve_raw() -> Iterator[RawServer]:
    """Run a server in threads of its own."""
    with RawServer() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.may_answer.set()
            server.shutdown()
            thread.join()


def make_answer(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    """Return an answer with its length."""
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", "content-type: application/json", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
