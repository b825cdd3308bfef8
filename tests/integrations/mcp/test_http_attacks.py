# Tests of: integrations/client_limits, web/http_server
"""What a hostile client sends to the HTTP server costs it its own connection, and nobody else anything."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx2
import pytest
from mcp_http_rig import HANDSHAKE, AsyncRawClient, RawClient, connect, read_all, request, serve
from mcp_rig import ERAS, get_text, run

from praval_tools import Content, ToolContext, ToolRegistry
from praval_tools.integrations.mcp import Tokens, http_app
from praval_tools.web.http_server import TimedProtocol

MODERN = "2026-07-28"
LIMIT = 4 * 1024 * 1024


@pytest.fixture
def port(registry: ToolRegistry, tokens: Tokens) -> Iterator[int]:
    """The port of a server of the bank that allows one name and one page besides the loopback."""
    allowed = {"allowed_hosts": ["tools.example.com"], "allowed_origins": ["https://chat.example.com"]}
    with serve(http_app(registry, tokens=tokens, **allowed)) as port:
        yield port


@pytest.fixture
def raw(port: int, tokens: Tokens) -> RawClient:
    """A client with a token of the analyst."""
    return RawClient(port, tokens.add("analyst"))


class TestAddresses:
    @pytest.mark.parametrize("version", [HANDSHAKE, MODERN])
    @pytest.mark.parametrize(
        ("host", "origin", "status"),
        [
            ("evil.example.com", None, 421),
            ("127.0.0.1.evil.example.com", None, 421),
            ("tools.example.com.evil.org:443", None, 421),
            ("", None, 421),
            ("localhost", "https://evil.example.com", 403),
            ("localhost", "null", 403),
            ("localhost", "http://localhost.evil.example.com", 403),
            ("tools.example.com", "https://tools.example.com.evil.org", 403),
        ],
    )
    def test_of_others_are_refused(
        self, raw: RawClient, version: str, host: str, origin: str | None, status: int
    ) -> None:
        """A name or a page that the operator did not allow is refused, in both eras (DNS rebinding)."""
        headers = {"Host": host, **({} if origin is None else {"Origin": origin})}

        response = raw.post(request("tools/list"), mcp_protocol_version=version, **headers)

        assert status == response.status_code

    @pytest.mark.parametrize(
        ("host", "origin"),
        [
            ("localhost", None), ("localhost:1234", "http://localhost:1234"), ("[::1]:80", "http://[::1]:80"),
            ("tools.example.com", "https://chat.example.com"), ("tools.example.com:443", None),
        ],
    )  # fmt: skip
    def test_that_are_allowed_pass(self, raw: RawClient, host: str, origin: str | None) -> None:
        """The names of the loopback, and those that the operator named, pass with any port and with none."""
        assert raw.initialize(Host=host, **({} if origin is None else {"Origin": origin}))


class TestMessages:
    @pytest.mark.parametrize("version", [HANDSHAKE, MODERN])
    @pytest.mark.parametrize(
        "body",
        [
            b"", b"{", b"null", b"[]", b'"x"', b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000, b"1" * 5_000,
            b'{"jsonrpc":"2.0"}', b'{"jsonrpc":"2.0","id":{},"method":"tools/list"}', b'{"jsonrpc":"1.0","id":1}',
            b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}',
            b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}',
            b'{"jsonrpc":"2.0","id":1,"method":"\\ud800"}', b'[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]',
        ],
        ids=range(16),
    )  # fmt: skip
    def test_that_are_malformed_are_refused(self, raw: RawClient, version: str, body: bytes) -> None:
        """No text of a request is more than a client's error, and the server goes on."""
        session = raw.initialize()

        response = raw.post(body, mcp_protocol_version=version, mcp_session_id=session)

        assert response.status_code in (202, 400, 404, 406) or '"error"' in response.text
        assert "Traceback" not in response.text
        assert 200 == raw.call(session, "add", {"x": 1}).status_code

    @pytest.mark.parametrize("version", [HANDSHAKE, MODERN])
    def test_that_are_too_large_are_refused(self, raw: RawClient, version: str) -> None:
        """A body over 4 MiB is refused, announced or not; one below it is taken."""
        session, text = raw.initialize(), "x" * LIMIT

        announced = raw.post(request("ping", text=text), mcp_protocol_version=version)
        chunks = (piece for piece in [b" " * 65536] * 80)
        headers = {**raw.headers, "mcp-protocol-version": version}
        unannounced = httpx2.post(raw.url, content=chunks, headers=headers, timeout=60)

        assert (413, 413) == (announced.status_code, unannounced.status_code)
        assert 200 == raw.call(session, "bank.rate", {"pair": "x" * (LIMIT // 2)}).status_code

    def test_of_no_session_open_none(self, raw: RawClient) -> None:
        """A call without a handshake is refused, and leaves no session behind."""
        for _ in range(3):
            response = raw.post(request("tools/call", name="add", arguments={"x": 1}), mcp_protocol_version=HANDSHAKE)
            assert 400 == response.status_code

    def test_name_no_hidden_tool(self, raw: RawClient) -> None:
        """The answer to a guessed name says no more than that it is forbidden."""
        text = raw.call(raw.initialize(), "secret_report", {}).text

        assert "forbidden" in text and "clerk" not in text


class TestResults:
    @pytest.mark.parametrize("era", ERAS)
    def test_of_any_kind_reach_the_client(self, era: str, registry: ToolRegistry, tokens: Tokens) -> None:
        """What no JSON can hold, in results, progress and messages, breaks neither the call nor the connection."""

        @registry.tool("odd", owned_by="analyst")
        def odd(context: ToolContext, echo: str = "") -> dict[str, Any]:
            """Report and return oddities."""
            for done in (float("nan"), float("-inf"), "x", 1, float("inf"), 2):
                context.progress(done, float("nan"), "half \udc80")  # type: ignore[arg-type]
            context.log("half \udc80", "error")
            return {"odd": [2**70, 1e308, echo]}

        @registry.tool("odd_text", owned_by="analyst")
        def odd_text() -> str:
            """Return half of a character."""
            return "half \udc80"

        @registry.tool("odd_value", owned_by="analyst")
        def odd_value() -> dict[str, str]:
            """Return half of a character inside of an object."""
            return {"a": "half \udc80"}

        @registry.tool("odd_error", owned_by="analyst")
        def odd_error() -> None:
            """Raise half of a character."""
            raise ValueError("half \udc80")

        async def main() -> None:
            heard: list[float] = []

            async def on_progress(done: float, total: float | None, message: str | None) -> None:
                heard.append(done)

            with serve(http_app(registry, tokens=tokens)) as port:
                async with connect(port, tokens.add("analyst"), era) as client:
                    result = await client.call_tool("odd", {}, progress_callback=on_progress)
                    assert {"odd": [2**70, 1e308, ""]} == result.structured_content
                    assert [1, 2] == heard
                    assert {"result": "half ?"} == (await client.call_tool("odd_text", {})).structured_content
                    assert "half ?" in get_text(await client.call_tool("odd_error", {}))
                    assert "cannot be written as JSON" in get_text(await client.call_tool("odd_value", {}))
                    assert {"result": 2} == (await client.call_tool("add", {"x": 1})).structured_content

        run(main)


class TestSilence:
    def test_before_a_request_closes_the_connection(
        self, registry: ToolRegistry, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Who connects and sends nothing, or half a head, or half a second head, is closed after a while."""
        monkeypatch.setattr(TimedProtocol, "head_seconds", 0.3)
        first = b"GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with serve(http_app(registry, tokens=tokens)) as port:
            for sent, expected in ((b"", b""), (b"POST /mcp HT", b""), (first + b"POST /m", b"HTTP/1.1 401")):
                with socket.create_connection(("127.0.0.1", port)) as connection:
                    connection.sendall(sent)
                    assert read_all(connection).startswith(expected)

    @pytest.mark.parametrize("version", [HANDSHAKE, MODERN])
    def test_in_a_body_ends_the_request(self, registry: ToolRegistry, tokens: Tokens, version: str) -> None:
        """Who announces a body and does not send it gets 408, and the connection is closed."""
        with serve(http_app(registry, tokens=tokens, client_timeout=0.3)) as port:
            head = (
                f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {tokens.add('analyst')}\r\n"
                f"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {version}\r\n"
                "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
            )
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(head.encode())
                assert read_all(connection).startswith(b"HTTP/1.1 408")

    def test_in_an_answer_ends_the_request(
        self, registry: ToolRegistry, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Who does not take a large answer loses the connection; others are served meanwhile."""

        monkeypatch.setattr(TimedProtocol, "read_seconds", 0.5)

        @registry.tool("large", owned_by="analyst")
        def large() -> Content:
            """Return much."""
            return Content.of_text("x" * 20_000_000)

        with serve(http_app(registry, tokens=tokens)) as port:
            raw = RawClient(port, tokens.add("analyst"))
            session = raw.initialize()
            body = json.dumps({**request("tools/call", name="large", arguments={}), "id": 2}).encode()
            head = "".join(f"{name}: {value}\r\n" for name, value in raw.headers.items())
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(
                    f"POST /mcp HTTP/1.1\r\nHost: localhost\r\n{head}Mcp-Session-Id: {session}\r\n"
                    f"Content-Length: {len(body)}\r\n\r\n".encode()
                    + body
                )
                assert 200 == raw.call(session, "add", {"x": 1}).status_code
                threading.Event().wait(2)  # the client's silence
                assert len(read_until_broken(connection)) < 20_000_000


class TestCrowds:
    def test_without_requests_keep_nobody_out(self, registry: ToolRegistry, tokens: Tokens) -> None:
        """
        Who opens connections without end, with no token, loses the first of them; clients are served all the while.

        A thousand silent connections took every file that a process may open, and nobody else was let in.
        """
        with serve(http_app(registry, tokens=tokens), max_waiting_connections=20) as port:
            raw = RawClient(port, tokens.add("analyst"))
            session = raw.initialize()
            head = "".join(f"{name}: {value}\r\n" for name, value in raw.headers.items())
            with ExitStack() as crowd:
                stream = crowd.enter_context(socket.create_connection(("127.0.0.1", port)))
                stream.sendall(
                    f"GET /mcp HTTP/1.1\r\nHost: localhost\r\n{head}Mcp-Session-Id: {session}\r\n\r\n".encode()
                )
                assert stream.recv(100).startswith(b"HTTP/1.1 200")
                address = ("127.0.0.1", port)
                silent = [crowd.enter_context(socket.create_connection(address)) for _ in range(100)]

                assert 200 == raw.call(session, "add", {"x": 1}).status_code
                assert b"" == read_until_broken(silent[0])
                registry.assign_tool_to_agent("secret_report", "analyst")
                stream.settimeout(30)
                data = b""
                while b"list_changed" not in data:
                    assert (piece := stream.recv(100_000)), "it was dropped too"
                    data += piece

    def test_of_malformed_requests_fill_no_log(self, port: int, caplog: pytest.LogCaptureFixture) -> None:
        """A body that breaks off without sense is a line of the log, not a traceback for each."""
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n")
            assert read_all(connection).startswith(b"HTTP/1.1 400")

        assert [] == [record for record in caplog.records if record.exc_info]

    def test_are_redirected_nowhere(self, raw: RawClient) -> None:
        """A path that is nearly right is not found; a redirect would send clients wherever `Host` says."""
        raw.url += "/"

        assert 404 == raw.post(request("tools/list"), Host="evil.example.com").status_code


def read_until_broken(connection: socket.socket) -> bytes:
    """Return what is still there of an answer whose connection was dropped."""
    connection.settimeout(30)
    data = b""
    try:
        while piece := connection.recv(1 << 20):
            data += piece
    except ConnectionError:
        pass
    return data


class TestLoad:
    def test_many_sessions_keep_apart(self, registry: ToolRegistry, tokens: Tokens) -> None:
        """200 sessions of two agents with 20 calls each at once: nothing is lost, and nothing mixed up."""

        @registry.tool("whose", owned_by="analyst")
        async def whose(number: int) -> str:
            """Say who asks."""
            await asyncio.sleep(0)
            return f"analyst {number}"

        bearers = [tokens.add("analyst"), tokens.add("clerk")]

        async def use(http: httpx2.AsyncClient, port: int, session: int) -> None:
            raw, number = AsyncRawClient(http, port, bearers[session % 2]), session * 100
            await raw.initialize()
            answers = await asyncio.gather(*(raw.call("whose", {"number": number + one}) for one in range(20)))
            if session % 2:
                assert all("forbidden" in get_text(one) for one in answers)
            else:
                assert [f"analyst {number + one}" for one in range(20)] == [get_text(one) for one in answers]

        async def main() -> None:
            limits = httpx2.Limits(max_connections=400, max_keepalive_connections=400)
            with serve(http_app(registry, tokens=tokens)) as port:
                async with httpx2.AsyncClient(timeout=300, limits=limits) as http:
                    await asyncio.gather(*(use(http, port, session) for session in range(200)))

        run(main, seconds=300)
