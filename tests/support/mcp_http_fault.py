"""An HTTP server for MCP that fails on demand: it forgets sessions, cuts answers, or gives none."""

from __future__ import annotations

import base64
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WORK = {"name": "work", "inputSchema": {"type": "object", "properties": {"x": {"type": "integer"}}}}

NOTIFICATIONS = ("progress", "message", "cancelled", "resources/updated", "elicitation/complete", "unknown")


def escape_slashes(text: str) -> bytes:
    """Return a text as PHP writes it in JSON."""
    return json.dumps(text).replace("/", r"\/").encode()


class FaultyServer(ThreadingHTTPServer):
    """Serves one tool `work`; `fault` says what goes wrong with its calls, `effects` counts them."""

    daemon_threads = True

    def __init__(self) -> None:
        self.fault, self.effects, self.sessions, self.seen = "", 0, 0, list[dict[str, str]]()
        self.lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), FaultyHandler)

    @property
    def url(self) -> str:
        """Its endpoint."""
        return f"http://127.0.0.1:{self.server_address[1]}/mcp"

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients that go away are part of the tests."""


class FaultyHandler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: FaultyServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Offer no stream."""
        self.send(405, b"")

    def do_DELETE(self) -> None:
        """End a session."""
        self.send(204, b"")

    def do_POST(self) -> None:
        """Answer a message."""
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with self.server.lock:
            self.server.seen.append({name.lower(): value for name, value in self.headers.items()})
        method = message.get("method")
        if "id" not in message:
            self.send(202, b"")
        elif method == "initialize":
            with self.server.lock:
                self.server.sessions += 1
            self.answer(message, {
                "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "faulty", "version": "1"},
            }, {"Mcp-Session-Id": f"s{self.server.sessions}"})  # fmt: skip
        elif method == "tools/list":
            self.answer(message, {"tools": [WORK]})
        elif method == "tools/call":
            self.call(message)
        else:
            self.send_json(404, {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}})

    def call(self, message: dict[str, Any]) -> None:
        """Have the effect, or fail before it, or after it."""
        fault = self.server.fault
        if fault == "session" and self.headers["mcp-session-id"] != f"s{self.server.sessions}":
            return self.send(404, b"gone")
        if fault.isdigit() and int(fault) < 500:
            return self.send(int(fault), b"<html>no</html>", {"Content-Type": "text/html"})
        with self.server.lock:
            self.server.effects += 1
        if fault == "reset":
            self.connection.shutdown(socket.SHUT_RDWR)
        elif fault == "cut":
            self.send(200, b'{"jsonrpc": "2.0", ', {"Content-Type": "application/json", "Content-Length": "1000"})
            self.connection.shutdown(socket.SHUT_RDWR)
        elif fault.isdigit():
            self.send(int(fault), b"broken")
        elif fault == "long":
            self.send(200, b" " * 3_000_000, {"Content-Type": "application/json"})
        elif fault == "gzip":
            self.send(200, b"??", {"Content-Type": "application/json", "Content-Encoding": "gzip"})
        elif fault == "redirect":
            self.send(307, b"", {"Location": "http://127.0.0.2:1/steal"})
        elif fault == "see other":
            self.send(303, b"", {"Location": "/mcp/done"})
        elif fault == "no content":
            self.send(202, b"")
        elif fault == "text":
            self.send(200, b"fine", {"Content-Type": "text/plain"})
        elif fault == "nan":
            content = b'{"jsonrpc":"2.0","id":%s,"result":{"content":[],"structuredContent":{"x":NaN}}}'
            self.send(200, content % json.dumps(message["id"]).encode(), {"Content-Type": "application/json"})
        elif fault == "echo malformed":
            self.send(200, str(dict(self.headers)).encode(), {"Content-Type": "application/json"})
        elif fault == "echo escapes":
            self.send(200, escape_slashes(self.headers["authorization"]), {"Content-Type": "application/json"})
        elif fault == "echo events":
            data = f"event: message\ndata: {dict(self.headers)}\n\n".encode()
            self.send(200, data, {"Content-Type": "text/event-stream"})
        elif fault == "echo notifications":
            value = self.headers["authorization"]
            params = {"progressToken": None, "progress": value, "level": value}
            notes = [{"jsonrpc": "2.0", "method": f"notifications/{name}", "params": params} for name in NOTIFICATIONS]
            done = {"jsonrpc": "2.0", "id": message["id"], "result": {"content": []}}
            data = "".join(f"event: message\ndata: {json.dumps(item)}\n\n" for item in [*notes, done])
            self.send(200, data.encode(), {"Content-Type": "text/event-stream"})
        elif fault == "echo in pieces":
            data = b"event: message\ndata: " + escape_slashes(self.headers["authorization"]) + b"\n\n"
            middle = data.index(b"Bearer") + 12
            self.send(200, data[:middle], {"Content-Type": "text/event-stream", "Content-Length": str(len(data))})
            time.sleep(0.2)
            self.wfile.write(data[middle:])
        elif fault == "echo header":
            value = self.headers["authorization"]
            self.send(200, b"?", {"Content-Type": f"text/{value}", "Mcp-Session-Id": value})
        elif fault == "echo":
            self.answer(message, {"content": [{"type": "text", "text": str(dict(self.headers))}]})
        elif fault == "echo bytes":
            data = base64.b64encode(str(dict(self.headers)).encode()).decode()
            self.answer(message, {"content": [{"type": "image", "data": data, "mimeType": "image/png"}]})
        elif fault == "echo error":
            self.answer(message, {"isError": True, "content": [{"type": "text", "text": str(dict(self.headers))}]})
        elif fault == "echo refusal":
            error = {"code": -32000, "message": str(dict(self.headers))}
            self.send_json(400, {"jsonrpc": "2.0", "id": message["id"], "error": error})
        else:
            self.answer(message, {"content": [{"type": "text", "text": "done"}]})
        return None

    def answer(self, message: dict[str, Any], result: object, headers: dict[str, str] | None = None) -> None:
        """Answer a request with a result."""
        self.send_json(200, {"jsonrpc": "2.0", "id": message["id"], "result": result}, headers)

    def send_json(self, status: int, body: object, headers: dict[str, str] | None = None) -> None:
        """Answer with JSON."""
        self.send(status, json.dumps(body).encode(), {"Content-Type": "application/json", **(headers or {})})

    def send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        """Answer."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serve_faults() -> Iterator[FaultyServer]:
    """Run the server in a thread."""
    with FaultyServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
