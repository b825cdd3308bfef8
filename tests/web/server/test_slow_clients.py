"""Clients without a token that open many connections and leave them undone keep nobody out, and fill no log."""

# Tests of: http_server, forms

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path

import pytest
from operator_page_rig import PageServer, serve_page

CROWD, MAX_WAITING = 40, 20


def _write_request(server: PageServer, kind: str) -> bytes:
    """Return what a client sends that then leaves the rest undone."""
    head = f"Host: 127.0.0.1:{server.port}\r\nOrigin: {server.origin}\r\n"
    form = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 7000\r\n"
    texts = {
        "head": f"GET / HTTP/1.1\r\n{head}", "body": f"POST /x HTTP/1.1\r\n{head}{form}\r\na",
        "answers": f"GET /page.css HTTP/1.1\r\n{head}\r\n" * 1_000,
    }  # fmt: skip
    return texts[kind].encode()


@pytest.mark.parametrize("kind", ["head", "body", "answers"])
def test_those_that_waited_longest_are_dropped(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:  # fmt: skip
    """In a request, in its body, or where answers are not read; others are served all the while."""
    with serve_page(tmp_path / "runs.db", max_waiting_connections=MAX_WAITING) as server, ExitStack() as crowd:
        for _ in range(CROWD):
            connection = crowd.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
            connection.connect(("127.0.0.1", server.port))
            connection.sendall(f"GET /login HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())
            assert connection.recv(1)  # it is served before the next one comes
            connection.sendall(_write_request(server, kind))
        with server.open_client() as client:
            counts = (server.count_connections() for _ in range(3_000) if 200 == client.get("/login").status_code)
            assert any(count <= MAX_WAITING + 1 for count in counts)
    assert [] == [record for record in caplog.records if record.exc_info]
