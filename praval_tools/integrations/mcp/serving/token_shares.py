"""Limits what one token may use of an HTTP server at once, so that its client keeps no other out."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Final

import anyio
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.context import CallNext, HandlerResult
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from praval_tools.integrations.mcp.serving.reports import RequestContext, get_connection
from praval_tools.names import format_count
from praval_tools.registry.toolset import Toolset
from praval_tools.tools.plain_managers import plain_async_manager

MAX_REQUESTS: Final = 1_000
MAX_SESSIONS: Final = 1_000
MAX_THREADS: Final = 16
"""How many calls of sync tools an agent runs at once: half of the threads that run such tools."""

_COUNTED: Final = "praval_tools.counted"


class TokenShares:
    """
    What each token uses of one server.

    Args:
        max_requests: Most requests in progress of one token, streams among them; one more gets 429.
        max_sessions: Most sessions of one token; a request that would open one more gets 429.
    """

    def __init__(self, max_requests: int, max_sessions: int) -> None:
        self._max_requests, self._max_sessions = max_requests, max_sessions
        self._requests, self._opening, self._sessions = Counter[str](), Counter[str](), Counter[str]()

    async def count_session(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        """Count the session that a request of the SDK opens, until it ends; a middleware of the SDK's server."""
        access = get_access_token()
        if ctx.method == "initialize" and access is not None:
            connection = get_connection(ctx)
            if _COUNTED not in connection.state:
                connection.state[_COUNTED] = True
                self._sessions[access.client_id] += 1
                connection.exit_stack.callback(_decrement, self._sessions, access.client_id)
        return await call_next(ctx)

    def limit_requests(self, app: ASGIApp) -> ASGIApp:
        """Return *app*, reached by tokens within their shares alone; an ASGI middleware behind authentication."""

        async def limited(scope: Scope, receive: Receive, send: Send) -> None:
            user = scope.get("user")
            if not isinstance(user, AuthenticatedUser):
                await app(scope, receive, send)
                return
            token, is_opening = user.access_token.client_id, _may_open_session(scope)
            if is_opening and self._sessions[token] + self._opening[token] >= self._max_sessions:
                count = format_count(self._max_sessions, "session")
                await _refuse(f"This token has {count} already.")(scope, receive, send)
            elif self._requests[token] >= self._max_requests:
                count = format_count(self._max_requests, "request")
                await _refuse(f"This token has {count} in progress.")(scope, receive, send)
            else:
                counters = [self._requests, self._opening] if is_opening else [self._requests]
                for counter in counters:
                    counter[token] += 1
                try:
                    await app(scope, receive, send)
                finally:
                    for counter in counters:
                        _decrement(counter, token)

        return limited


class ThreadShares:
    """
    The calls of sync tools that the agents of one server run at once; further calls of an agent wait, in their order.

    Args:
        limit: How many an agent may run at once.
    """

    def __init__(self, limit: int = MAX_THREADS) -> None:
        self._limit = limit
        self._turns: dict[str, anyio.Semaphore] = {}
        self._waiting = Counter[str]()

    @plain_async_manager
    async def take(self, toolset: Toolset, tool: str) -> AsyncIterator[bool]:
        """Run a call of a tool in the block as soon as its agent may; gives whether it had to wait."""
        bound, agent = toolset.get(tool), toolset.agent
        if bound is None or bound.tool.is_async:
            yield False
            return
        turns = self._turns.setdefault(agent, anyio.Semaphore(self._limit))
        self._waiting[agent] += 1
        try:
            has_waited = turns.value == 0
            async with turns:
                yield has_waited
        finally:
            _decrement(self._waiting, agent)
            if agent not in self._waiting:
                del self._turns[agent]


def _decrement(counter: Counter[str], key: str) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]


def _may_open_session(scope: Scope) -> bool:
    """Tell whether the SDK may open a session for a request: it has none, and its version has sessions."""
    headers = Headers(scope=scope)
    version = headers.get(MCP_PROTOCOL_VERSION_HEADER)
    return "mcp-session-id" not in headers and (version is None or version in HANDSHAKE_PROTOCOL_VERSIONS)


def _refuse(text: str) -> PlainTextResponse:
    return PlainTextResponse(text, status_code=429)
