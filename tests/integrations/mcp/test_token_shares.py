# Tests of: integrations/token_shares
"""One token uses no more of an HTTP server than its share, so that the clients of other tokens are served."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from contextlib import ExitStack

import httpx2
from mcp_http_rig import HANDSHAKE, RawClient, request, serve
from mcp_rig import run, wait_until

from praval_tools import ToolRegistry
from praval_tools.integrations.mcp import Tokens, http_app


def open_session(raw: RawClient) -> httpx2.Response:
    """Ask for a session, which may be refused."""
    client = {"name": "raw", "version": "1"}
    return raw.post(request("initialize", protocolVersion=HANDSHAKE, capabilities={}, clientInfo=client))


class TestSessions:
    def test_of_one_token_are_limited(self, registry: ToolRegistry, tokens: Tokens) -> None:
        """A token with many sessions gets no more until one of them ends; another token gets its own."""
        with serve(http_app(registry, tokens=tokens, max_sessions_per_token=2)) as port:
            greedy, other = (RawClient(port, tokens.add(agent)) for agent in ("analyst", "clerk"))
            sessions = [greedy.initialize() for _ in range(2)]
            refused = open_session(greedy)
            assert 200 == greedy.call(sessions[0], "add", {"x": 1}).status_code
            assert other.initialize()
            httpx2.delete(greedy.url, headers={**greedy.headers, "Mcp-Session-Id": sessions[0]})
            again = [open_session(greedy).status_code for _ in range(2)]

        assert (429, "This token has 2 sessions already.") == (refused.status_code, refused.text)
        assert [200, 429] == again

    def test_that_are_not_opened_take_none(self, registry: ToolRegistry, tokens: Tokens) -> None:
        """Requests that open no session, and those of the era without sessions, leave the share as it was."""
        with serve(http_app(registry, tokens=tokens, max_sessions_per_token=1)) as port:
            raw = RawClient(port, tokens.add("analyst"))
            for _ in range(3):
                assert 400 == raw.post(request("tools/list")).status_code
            session = raw.initialize()
            raw.post(
                {**request("initialize", protocolVersion=HANDSHAKE, capabilities={}, clientInfo={}), "id": 2},
                mcp_session_id=session,
            )
            assert 429 == open_session(raw).status_code
            assert 429 != raw.post(request("tools/list"), mcp_protocol_version="2026-07-28").status_code


class TestRequests:
    def test_of_one_token_in_progress_are_limited(self, registry: ToolRegistry, tokens: Tokens) -> None:
        """A token with many open streams gets no more requests served; another token does."""
        with serve(http_app(registry, tokens=tokens, max_requests_per_token=2)) as port:
            greedy, other = (RawClient(port, tokens.add(agent)) for agent in ("analyst", "clerk"))
            sessions = [greedy.initialize() for _ in range(2)]
            head = "".join(f"{name}: {value}\r\n" for name, value in greedy.headers.items())
            with ExitStack() as stack:
                for session in sessions:
                    stream = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                    lines = f"GET /mcp HTTP/1.1\r\nHost: localhost\r\n{head}Mcp-Session-Id: {session}\r\n\r\n"
                    stream.sendall(lines.encode())
                    assert stream.recv(100).startswith(b"HTTP/1.1 200")
                refused = greedy.call(sessions[0], "add", {"x": 1})
                assert other.initialize()

        assert (429, "This token has 2 requests in progress.") == (refused.status_code, refused.text)


class TestThreads:
    def test_of_one_agent_leave_some_to_others(self, registry: ToolRegistry, tokens: Tokens) -> None:
        """
        An agent whose sync tools never end keeps no other agent waiting, and gets its own results in the end.

        Two hundred slow calls of one token kept the calls of all others waiting for half a minute.
        """
        done, runs = threading.Event(), list[int]()

        @registry.tool("wait", owned_by="analyst")
        def wait(number: int) -> int:
            """Wait."""
            runs.append(number)
            done.wait(30)
            return number

        async def main(port: int) -> None:
            async with httpx2.AsyncClient(timeout=60, limits=httpx2.Limits(max_connections=None)) as http:
                greedy, other = (RawClient(port, tokens.add(agent)) for agent in ("analyst", "clerk"))
                calls = await start_calls(http, greedy, 40)
                await wait_until(lambda: len(runs) == 16)
                session = await asyncio.to_thread(other.initialize)
                answer = await asyncio.to_thread(other.call, session, "secret_report", {})
                assert "secret" in answer.text and len(runs) == 16
                done.set()
                assert [200] * 40 == [response.status_code for response in await asyncio.gather(*calls)]
            assert list(range(40)) == sorted(runs)

        with serve(http_app(registry, tokens=tokens)) as port:
            run(lambda: main(port))

    def test_are_not_given_to_revoked_tokens(self, registry: ToolRegistry, tokens: Tokens) -> None:
        """A call that waits for its turn does not begin once the token is revoked; those that run complete."""
        done, runs = threading.Event(), list[int]()

        @registry.tool("wait", owned_by="analyst")
        def wait(number: int) -> int:
            """Wait."""
            runs.append(number)
            done.wait(30)
            return number

        async def main(port: int) -> None:
            async with httpx2.AsyncClient(timeout=60, limits=httpx2.Limits(max_connections=None)) as http:
                calls = await start_calls(http, RawClient(port, tokens.add("analyst")), 20)
                await wait_until(lambda: len(runs) == 16)
                await asyncio.sleep(0.5)  # the others wait now
                tokens.revoke(tokens.list()[0].id)
                done.set()
                texts = [response.text for response in await asyncio.gather(*calls)]
            assert 16 == len(runs)
            assert 4 == sum("The token was revoked" in text for text in texts)

        with serve(http_app(registry, tokens=tokens)) as port:
            run(lambda: main(port))


async def start_calls(http: httpx2.AsyncClient, raw: RawClient, number: int) -> list[asyncio.Task[httpx2.Response]]:
    """Begin calls of `wait` in one session."""
    session = await asyncio.to_thread(raw.initialize)
    headers = {**raw.headers, "Mcp-Session-Id": session}
    bodies = [
        json.dumps({**request("tools/call", name="wait", arguments={"number": n}), "id": n}) for n in range(number)
    ]
    return [asyncio.create_task(http.post(raw.url, content=body, headers=headers)) for body in bodies]
