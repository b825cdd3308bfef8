"""Serves agents' tools by streamable HTTP, as an ASGI application: each token stands for one agent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import mcp_types as types
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.auth.settings import AuthSettings
from mcp.server.context import CallNext, HandlerResult
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.middleware import Middleware

from praval_tools.errors import ToolUsageError
from praval_tools.integrations.mcp.serving.client_limits import ClientLimits
from praval_tools.integrations.mcp.serving.reports import RequestContext
from praval_tools.integrations.mcp.serving.server import ToolServer
from praval_tools.integrations.mcp.serving.token_shares import MAX_REQUESTS, MAX_SESSIONS, ThreadShares, TokenShares
from praval_tools.journal.tokens import Tokens, open_tokens
from praval_tools.registry.agents import Agent
from praval_tools.registry.registry import ToolRegistry, get_runtime
from praval_tools.registry.toolset import Toolset

LOOPBACK_HOSTS: Final = ("127.0.0.1", "localhost", "[::1]")
MAX_BODY_BYTES: Final = 4 * 1024 * 1024

_ISSUER: Final = AnyHttpUrl("http://localhost")
"""The SDK wants the address of an authorization server; it is shown to nobody, since tokens come from the operator."""


def http_app(
    registry: ToolRegistry,
    *,
    agent: str | Agent | None = None,
    tokens: Tokens | None = None,
    path: str = "/mcp",
    allowed_hosts: Sequence[str] = (),
    allowed_origins: Sequence[str] = (),
    name: str = "praval-tools",
    elicit_approvals: bool = False,
    client_timeout: float = 30.0,
    session_timeout: float = 30 * 60.0,
    max_sessions: int = 10_000,
    max_sessions_per_token: int = MAX_SESSIONS,
    max_requests_per_token: int = MAX_REQUESTS,
) -> Starlette:
    """
    Return an ASGI application that serves the tools of agents by streamable HTTP.

    A client's bearer token says for which agent it speaks; without a valid one it gets 401. Whoever mounts the
    application in another runs its lifespan, too: `app.router.lifespan_context(app)`.

    Args:
        registry: Where the tools are.
        agent: Serve this agent alone, to whoever can reach the application, without tokens: for the loopback only.
        tokens: The tokens; by default those of the registry's journal, or else of the file in the working directory.
        path: The endpoint.
        allowed_hosts: Names besides those of the loopback that clients may call this server by, such as
            `tools.example.com`, with any port or none.
        allowed_origins: Web pages that may use it, such as `https://chat.example.com`, besides those of the loopback.
        name: What the server calls itself.
        elicit_approvals: A client's user may approve calls that need an approval.
        client_timeout: Seconds in which a client must send its whole request.
        session_timeout: Seconds after which a session without requests ends.
        max_sessions: Most sessions of clients of the handshake era at once.
        max_sessions_per_token: Most of them that one token has open.
        max_requests_per_token: Most requests of one token in progress, open streams among them.

    Raises:
        ToolUsageError: An agent is given, and tokens too.
    """
    if agent is not None and tokens is not None:
        raise ToolUsageError("Pass agent= to serve one agent without tokens, or tokens=; not both.", "agent-and-tokens")
    hosts, origins = list(_iter_hosts(allowed_hosts)), list(_iter_origins(allowed_origins))
    security = TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)
    bearers = None
    if agent is None:
        bearers = _TokenVerifier(registry, tokens or open_tokens(registry.journal, clock=get_runtime(registry).clock))
        served = ToolServer(
            registry, bearers.get_toolset, name=name, elicit_approvals=elicit_approvals,
            make_guard=bearers.make_guard, thread_shares=ThreadShares(),
        )  # fmt: skip
    else:
        toolset = registry.toolset(agent)
        served = ToolServer(registry, lambda: toolset, name=name, elicit_approvals=elicit_approvals)
    app = served.streamable_http_app(
        streamable_http_path=path, transport_security=security, session_idle_timeout=session_timeout,
        max_request_body_size=MAX_BODY_BYTES, max_sessions=max_sessions, token_verifier=bearers,
        auth=None if bearers is None else AuthSettings(issuer_url=_ISSUER, resource_server_url=None),
    )  # fmt: skip
    app.router.redirect_slashes = False  # a redirect would name whatever host and scheme the request came with
    if bearers is not None:
        _limit_tokens(served, app, bearers, TokenShares(max_requests_per_token, max_sessions_per_token))
    app.add_middleware(ClientLimits, timeout=client_timeout)
    return app


def _limit_tokens(served: ToolServer, app: Starlette, bearers: _TokenVerifier, shares: TokenShares) -> None:
    """Have an application serve each token while it counts, within its share."""
    served.middleware += [bearers.refuse_late_message, shares.count_session]
    app.user_middleware.append(Middleware(shares.limit_requests))  # the innermost, which knows the token


class _TokenVerifier(TokenVerifier):
    """The clients of one application, by their tokens; each request's is looked up anew."""

    def __init__(self, registry: ToolRegistry, tokens: Tokens) -> None:
        self._registry, self._tokens = registry, tokens

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return for whom a token stands; a session is bound to the token and the agent, and to no other."""
        row = self._tokens.find(token)
        return None if row is None else AccessToken(token=token, client_id=row.id, scopes=[], subject=row.agent)

    def get_toolset(self) -> Toolset:
        """Return the tools of the agent for which the request's token stands."""
        access = get_access_token()
        if access is None or access.subject is None:
            raise MCPError(types.INVALID_REQUEST, "This request has no token.")
        return self._registry.toolset(access.subject)

    async def refuse_late_message(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        """Refuse a message whose token has ended before it was there: a client may send it slowly."""
        if not self.make_guard()():
            raise MCPError(types.INVALID_REQUEST, "The token was revoked, or has expired, before the message came.")
        return await call_next(ctx)

    def make_guard(self) -> Callable[[], bool]:
        """Return what tells whether the token of the request still counts."""
        access = get_access_token()
        return lambda: access is not None and self._tokens.find(access.token) is not None


def _iter_hosts(names: Sequence[str]) -> Iterator[str]:
    """Yield the values of `Host` that are accepted: each name with any port, and without one."""
    for name in (*LOOPBACK_HOSTS, *names):
        yield name
        yield f"{name}:*"


def _iter_origins(origins: Sequence[str]) -> Iterator[str]:
    for host in LOOPBACK_HOSTS:
        yield from (f"http://{host}", f"http://{host}:*")
    yield from origins
