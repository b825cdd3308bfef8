# Tests of: integrations/http, web/http_server, integrations/client_limits
"""One HTTP endpoint for many agents: each token stands for one, and for nothing more."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from clocks import HandClock
from mcp_http_rig import HANDSHAKE, RawClient, connect, read_all, request, serve
from mcp_rig import ERAS, build_registry, get_text, list_names, run, wait_until
from mcp_types import ToolListChangedNotification
from starlette.applications import Starlette
from starlette.routing import Mount

from praval_tools import Allow, ToolContext, ToolRegistry, ToolUsageError
from praval_tools.integrations.mcp import Tokens, http_app, open_tokens


@pytest.fixture
def registry() -> ToolRegistry:
    """The bank."""
    return build_registry(journal="memory")


@pytest.fixture
def port(registry: ToolRegistry, tokens: Tokens) -> Iterator[int]:
    """The port of a server of the bank."""
    with serve(http_app(registry, tokens=tokens)) as port:
        yield port


class TestAgents:
    @pytest.mark.parametrize("era", ERAS)
    def test_each_token_stands_for_its_agent(self, era: str, port: int, tokens: Tokens) -> None:
        """Clients of one endpoint each get the tools of their token's agent, and call as it."""

        async def main() -> None:
            analyst, clerk = tokens.add("analyst"), tokens.add("clerk")
            async with connect(port, analyst, era) as one, connect(port, clerk, era) as other:
                assert "add" in await list_names(one)
                assert ["secret_report"] == await list_names(other)
                assert {"result": 3} == (await one.call_tool("add", {"x": 2})).structured_content
                assert (await other.call_tool("add", {"x": 2})).is_error
                assert "secret" == get_text(await other.call_tool("secret_report", {}))

        run(main)

    @pytest.mark.parametrize("era", ERAS)
    def test_without_tokens_there_is_one_agent(self, era: str, registry: ToolRegistry) -> None:
        """An application for one agent needs no token, and serves nobody else."""

        async def main() -> None:
            with serve(http_app(registry, agent="clerk")) as port:
                async with connect(port, None, era) as client:
                    assert ["secret_report"] == await list_names(client)

        run(main)

    def test_an_agent_and_tokens_are_too_much(self, registry: ToolRegistry, tokens: Tokens) -> None:
        """It is one or the other."""
        with pytest.raises(ToolUsageError, match="not both"):
            http_app(registry, agent="clerk", tokens=tokens)

    def test_the_journals_tokens_are_the_default(self, tmp_path: Path) -> None:
        """A registry with a journal in a file finds its tokens there."""

        async def main() -> None:
            with build_registry(journal=tmp_path / "runs.db") as registry:
                token = open_tokens(registry.journal).add("clerk")
                with serve(http_app(registry)) as port:
                    async with connect(port, token) as client:
                        assert ["secret_report"] == await list_names(client)

        run(main)

    def test_can_be_mounted(self, registry: ToolRegistry, tokens: Tokens) -> None:
        """The application works inside another, whose lifespan runs its own."""

        async def main() -> None:
            inner = http_app(registry, tokens=tokens)

            @asynccontextmanager
            async def lifespan(app: Starlette) -> Any:
                async with inner.router.lifespan_context(inner):
                    yield

            with serve(Starlette(routes=[Mount("/", inner)], lifespan=lifespan)) as port:
                async with connect(port, tokens.add("clerk")) as client:
                    assert ["secret_report"] == await list_names(client)

        run(main)


class TestBearers:
    @pytest.mark.parametrize("authorization", [None, "", "Bearer", "Bearer nope", "Basic YTpi", "Bearer pvt_a_b"])
    def test_without_a_valid_token_get_401(self, port: int, authorization: str | None) -> None:
        """Who has no token, or a wrong one, learns how to authenticate, and nothing else."""
        headers = {} if authorization is None else {"Authorization": authorization}

        response = RawClient(port).post(request("tools/list"), **headers)

        assert 401 == response.status_code
        assert response.headers["www-authenticate"].startswith("Bearer")
        assert "add" not in response.text

    @pytest.mark.parametrize("era", ERAS)
    def test_lose_access_when_the_token_is_revoked(self, era: str, port: int, tokens: Tokens) -> None:
        """A token that is revoked in the middle of a session is refused at its next message."""

        async def main() -> None:
            token = tokens.add("analyst")
            raw = RawClient(port, token)
            session = raw.initialize()
            assert 200 == raw.call(session, "add", {"x": 1}).status_code

            tokens.revoke(tokens.list()[0].id)

            refused = raw.call(session, "add", {"x": 1})
            assert (401, True) == (refused.status_code, "www-authenticate" in refused.headers)
            with pytest.raises(BaseException):
                async with connect(port, token, era) as client:
                    await client.list_tools()

        run(main)

    @pytest.mark.parametrize("version", [HANDSHAKE, "2026-07-28"])
    def test_lose_access_while_their_message_comes(
        self, registry: ToolRegistry, port: int, tokens: Tokens, version: str
    ) -> None:
        """Broken promise: a message whose rest came after its token was revoked had its tool run."""
        ran = list[int]()

        @registry.tool("hit", shared=True)
        def hit() -> None:
            """Hit."""
            ran.append(1)

        token = tokens.add("analyst")
        raw, call = RawClient(port, token), request("tools/call", name="hit", arguments={})
        headers = {**raw.headers, "Host": f"127.0.0.1:{port}", "Mcp-Protocol-Version": version}
        if version == HANDSHAKE:
            headers["Mcp-Session-Id"] = raw.initialize()
        else:
            headers |= {"Mcp-Method": "tools/call", "Mcp-Name": "hit"}
            facts = {
                "protocolVersion": version,
                "clientInfo": {"name": "raw", "version": "1"},
                "clientCapabilities": {},
            }
            call["params"]["_meta"] = {f"io.modelcontextprotocol/{name}": value for name, value in facts.items()}
        body = json.dumps(call).encode()
        headers |= {"Content-Length": str(len(body)), "Expect": "100-continue", "Connection": "close"}
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            connection.sendall(f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode())
            assert b"100" in connection.recv(1_000)  # the token was found: the message is waited for
            tokens.revoke(tokens.list()[0].id)
            connection.sendall(body)
            answer = read_all(connection)

        assert b"revoked" in answer
        assert [] == ran

    def test_lose_access_when_the_token_expires(self, registry: ToolRegistry, tmp_path: Path) -> None:
        """From its expiry on a token is refused, in the middle of a session and at a new one."""
        clock = HandClock()
        tokens = open_tokens(None, file=tmp_path / "tokens", clock=clock)
        with serve(http_app(registry, tokens=tokens)) as port:
            raw = RawClient(port, tokens.add("analyst", expires=timedelta(days=1)))
            session = raw.initialize()
            assert 200 == raw.call(session, "add", {"x": 1}).status_code

            clock.moment += timedelta(days=1)

            for refused in (raw.call(session, "add", {"x": 1}), raw.post(request("tools/list"))):
                assert (401, True) == (refused.status_code, "www-authenticate" in refused.headers)

    def test_cannot_take_over_a_session(self, port: int, tokens: Tokens) -> None:
        """A session of another token is answered as one that does not exist, of the same agent or another."""
        owner, same_agent, other = (RawClient(port, tokens.add(agent)) for agent in ("analyst", "analyst", "clerk"))
        session = owner.initialize()

        for thief in (same_agent, other):
            answer = thief.call(session, "add", {"x": 1})
            assert 404 == answer.status_code
            assert thief.call("nope", "add", {"x": 1}).status_code == 404
        assert 401 == RawClient(port).call(session, "add", {"x": 1}).status_code
        assert 200 == owner.call(session, "add", {"x": 1}).status_code

    def test_revoked_during_a_call_lose_the_next(self, registry: ToolRegistry, tokens: Tokens) -> None:
        """A call that runs when its token is revoked ends; the one after it does not begin."""
        entered, leave = threading.Event(), threading.Event()

        @registry.tool("wait", owned_by="analyst")
        def wait() -> str:
            """Wait."""
            entered.set()
            leave.wait(30)
            return "done"

        with serve(http_app(registry, tokens=tokens)) as port:
            raw, answers = RawClient(port, tokens.add("analyst")), list[int]()
            session = raw.initialize()
            thread = threading.Thread(target=lambda: answers.append(raw.call(session, "wait", {}).status_code))
            thread.start()
            entered.wait(30)
            tokens.revoke(tokens.list()[0].id)
            assert 401 == raw.call(session, "add", {"x": 1}).status_code
            leave.set()
            thread.join(30)
        assert [200] == answers

    def test_revoked_hear_of_no_changes(self, registry: ToolRegistry, tokens: Tokens) -> None:
        """A stream that is still open tells the holder of a revoked token nothing."""

        async def main() -> None:
            with serve(http_app(registry, tokens=tokens)) as port:
                heard: dict[str, int] = {"revoked": 0, "valid": 0}

                def listen(name: str) -> Any:
                    async def on_message(message: Any) -> None:
                        heard[name] += isinstance(message, ToolListChangedNotification)

                    return on_message

                revoked, valid = tokens.add("clerk"), tokens.add("clerk")
                async with (
                    connect(port, revoked, "legacy", message_handler=listen("revoked")) as client,
                    connect(port, valid, "legacy", message_handler=listen("valid")) as other,
                ):
                    await client.list_tools()
                    await other.list_tools()
                    registry.grant("add", "clerk")
                    await wait_until(lambda: heard == {"revoked": 1, "valid": 1})
                    tokens.revoke(tokens.list()[0].id)
                    registry.grant("fail", "clerk")
                    await wait_until(lambda: heard["valid"] == 2)
                assert 1 == heard["revoked"]

        run(main)


class TestSessions:
    @pytest.mark.parametrize("era", ERAS)
    def test_hear_of_changes(self, era: str, port: int, registry: ToolRegistry, tokens: Tokens) -> None:
        """Over HTTP too a client hears when its list changes."""

        async def main() -> None:
            heard: list[Any] = []

            async def on_message(message: Any) -> None:
                heard.append(message)

            async with connect(port, tokens.add("clerk"), era, message_handler=on_message) as client:
                await client.list_tools()
                if era == "legacy":
                    assert client.server_capabilities.tools is not None
                    assert client.server_capabilities.tools.list_changed is True
                    registry.grant("add", "clerk")
                    await wait_until(lambda: any(isinstance(one, ToolListChangedNotification) for one in heard))
                else:
                    async with client.listen(tools_list_changed=True) as events:
                        registry.grant("add", "clerk")
                        await anext(aiter(events))
                assert ["add", "secret_report"] == await list_names(client)

        run(main)

    def test_hear_of_their_own_agents_changes(self, port: int, registry: ToolRegistry, tokens: Tokens) -> None:
        """At one endpoint a grant is announced to the sessions of its agent, and to no others."""

        async def main() -> None:
            heard = {"analyst": 0, "clerk": 0}

            def listen(agent: str) -> Any:
                async def on_message(message: Any) -> None:
                    heard[agent] += isinstance(message, ToolListChangedNotification)

                return on_message

            async with (
                connect(port, tokens.add("analyst"), "legacy", message_handler=listen("analyst")) as one,
                connect(port, tokens.add("clerk"), "legacy", message_handler=listen("clerk")) as other,
            ):
                await one.list_tools()
                await other.list_tools()
                registry.grant("add", "clerk")
                await wait_until(lambda: heard["clerk"] == 1)
                registry.grant("secret_report", "analyst")
                await wait_until(lambda: heard["analyst"] == 1)
            assert {"analyst": 1, "clerk": 1} == heard

        run(main)

    @pytest.mark.parametrize("era", ERAS)
    def test_carry_progress(self, era: str, port: int, tokens: Tokens) -> None:
        """Progress arrives over HTTP, before the result."""

        async def main() -> None:
            heard: list[float] = []

            async def on_progress(done: float, total: float | None, message: str | None) -> None:
                heard.append(done)

            async with connect(port, tokens.add("analyst"), era) as client:
                await client.call_tool("copy", {"files": 3}, progress_callback=on_progress)
            assert [1, 2, 3] == heard

        run(main)

    @pytest.mark.parametrize("era", ERAS)
    def test_cancel_their_calls(self, era: str, registry: ToolRegistry, tokens: Tokens) -> None:
        """A client that gives up a call over HTTP cancels it."""
        started, ended = threading.Event(), threading.Event()

        @registry.tool("wait", owned_by="analyst")
        def wait(context: ToolContext) -> None:
            """Wait until nobody does."""
            started.set()
            while not context.cancelled:
                pass
            ended.set()

        async def main() -> None:
            with serve(http_app(registry, tokens=tokens)) as port:
                async with connect(port, tokens.add("analyst"), era) as client:
                    call = asyncio.create_task(client.call_tool("wait", {}))
                    await wait_until(started.is_set)
                    call.cancel()
                    await wait_until(ended.is_set)

        run(main)

    def test_pass_what_the_operator_approved(self, port: int, registry: ToolRegistry, tokens: Tokens) -> None:
        """An approval finds its call in another session of another token of the agent."""

        async def main() -> None:
            registry.configure("add", requires_approval=True)
            async with connect(port, tokens.add("analyst")) as client:
                assert (await client.call_tool("add", {"x": 1})).is_error
            registry.approvals.answer(registry.approvals.pending()[0].id, Allow())
            async with connect(port, tokens.add("analyst"), "legacy") as client:
                assert "2" == get_text(await client.call_tool("add", {"x": 1}))

        run(main)

    def test_get_each_answer_at_once(self, registry: ToolRegistry) -> None:
        """An answer's body does not wait until the client's system has acknowledged its head, 40 ms later."""
        body, seconds = b'{"jsonrpc": "2.0", "id": 1, "method": "nothing"}', []
        head = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        kinds = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
        version = "Mcp-Protocol-Version: 2026-07-28\r\n\r\n"
        with (
            serve(http_app(registry, agent="analyst")) as port,
            socket.create_connection(("127.0.0.1", port), timeout=30) as connection,
        ):
            for _ in range(60):
                start = time.monotonic()
                connection.sendall(f"{head}{kinds}{version}".encode() + body)
                answer = b""
                while not answer.endswith(b"}"):
                    answer += connection.recv(65536)
                seconds.append(time.monotonic() - start)
            assert 0.03 > min(seconds[40:]), seconds
