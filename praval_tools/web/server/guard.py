"""Guards every request: names and sizes, headers of answers, sessions, where forms come from, what viewers may."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from urllib.parse import urlencode

from attrs import frozen
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from praval_tools.errors import JournalError
from praval_tools.web.activity.forms import MAX_FORM_SIZE, read_form
from praval_tools.web.activity.typed import build_typed_list
from praval_tools.web.server.login_views import find_target
from praval_tools.web.server.logins import Logins
from praval_tools.web.server.page import PageHost
from praval_tools.web.server.sessions import Session, Sessions
from praval_tools.web.server.settings import PageSettings

POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
"""What pages may load and do: nothing inline, nothing from elsewhere."""
MAX_TARGET_SIZE: Final = 16_000
"""Bytes of the path and the query of a request."""
PUBLIC_PATHS: Final = frozenset(("/login", "/page.css", "/icon.svg"))
"""What is there without a session."""

_MAX_TYPED_SIZE: Final = 8_000
"""Bytes up to which a form is read that nobody's session sent, as those of log-ins are."""
_TYPED_FIELDS: Final = {
    name: name.replace("_", " ") for name in ("reason", "arguments", "result", "error", "where", "expires", "max_calls")
}
"""What people type into forms, and what it is called."""
_SESSION_OVER: Final = "Nothing was changed. Log in again, and send the form anew: your session is over."
_SAFE_METHODS: Final = ("GET", "HEAD")
_HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class RequestGuard:
    """
    Refuses what no browser with the right address sends, and gives each answer its headers.

    Args:
        app: The application, whose answers to errors get them, too.
        settings: The names by which the server may be called.
    """

    def __init__(self, app: ASGIApp, settings: PageSettings) -> None:
        self._app, self._settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            refusal = self._find_refusal(scope)
            await (refusal or self._app)(scope, _bound_body(receive), _add_headers(send))
        else:
            await send({"type": "websocket.close"})

    def _find_refusal(self, scope: Scope) -> Response | None:
        hosts = Headers(scope=scope).getlist("host")
        if len(hosts) != 1 or not self._settings.is_host_allowed(hosts[0]):
            return PlainTextResponse("This server is not called by this name.\n", 400)
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > MAX_TARGET_SIZE:
            return PlainTextResponse("The address is too long.\n", 414)
        length = Headers(scope=scope).get("content-length", "0")
        if not (length.isascii() and length.isdigit()) or int(length) > MAX_FORM_SIZE:
            return PlainTextResponse("The form is too long.\n", 413)
        return None


def _add_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers[name] = value
        await send(message)

    return send_with_headers


def _bound_body(receive: Receive) -> Receive:
    size = 0

    async def receive_within_bound() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > MAX_FORM_SIZE:
            raise HTTPException(413, "The form is too long.")
        return message

    return receive_within_bound


@frozen
class SessionGuard:
    """
    Lets requests of sessions through, and of others those for the log-in.

    Args:
        app: What is guarded.
        sessions: Who is logged in.
        logins: Tells whether their tokens still count.
        host: Makes pages.
        settings: By which scheme browsers come.
    """

    app: ASGIApp
    sessions: Sessions
    logins: Logins
    host: PageHost
    settings: PageSettings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            request = Request(scope, receive)
            refusal = await self._admit(request)
            await (refusal or self.app)(scope, self._end_with_session(request), send)
        else:
            await self.app(scope, receive, send)

    def _end_with_session(self, request: Request) -> Receive:
        """Refuse a form whose session has ended when the rest of it comes: a client may send it slowly."""
        receive = request.receive
        if request.state.session is None or request.method in _SAFE_METHODS:
            return receive

        async def receive_while_live() -> Message:
            message = await receive()
            is_whole = message["type"] == "http.request" and not message.get("more_body", False)
            if is_whole and await self._find_session(request) is None:
                request.state.session = None
                raise HTTPException(401, _SESSION_OVER)
            return message

        return receive_while_live

    async def _admit(self, request: Request) -> Response | None:
        """Find the session of a request; return a refusal, or None where the request may go on."""
        is_change = request.method not in _SAFE_METHODS
        path: str = request.scope["path"]  # which decides on the route; that of the URL may be another
        try:
            session = await self._find_session(request)
        except JournalError as error:
            return self.host.render_problem(request, 503, str(error))
        request.state.session = session
        if is_change and not self._is_of_own_page(request):
            return self.host.render_problem(request, 403, "This form was not sent from a page of this server.")
        if path in PUBLIC_PATHS:
            return None
        if session is None:
            return await self._refuse_form(request) if is_change else self._ask_for_login(request)
        if is_change and not session.is_operator and path != "/logout":
            return self.host.render_problem(request, 403, "You may look, and change nothing: ask an operator.")
        return None

    async def _find_session(self, request: Request) -> Session | None:
        session = self.sessions.find(request.cookies.get(self.settings.cookie_name, ""))
        if session is None:
            return None
        if not await run_in_threadpool(self.logins.is_live, session.login):
            self.sessions.end(session)
            return None
        if request.headers.get("sec-fetch-dest") != "empty":  # a script that follows the journal keeps nobody logged in
            self.sessions.note_use(session)
        return session

    async def _refuse_form(self, request: Request) -> Response:
        """Refuse a form of a session that is over; what was typed into one that is not long can be copied."""
        try:
            fields = await read_form(request, max_size=_MAX_TYPED_SIZE)
        except HTTPException:
            fields = {}
        return self.host.render_problem(request, 401, _SESSION_OVER, content=build_typed_list(fields, _TYPED_FIELDS))

    def _ask_for_login(self, request: Request) -> Response:
        if "text/html" not in request.headers.get("accept", ""):
            return PlainTextResponse("Log in first.\n", 401)
        target = find_target(request)
        query = {"why": "over"} if self.settings.cookie_name in request.cookies else {}
        if self.host.is_page(target) and target != "/":
            query["next"] = target
        return RedirectResponse(f"/login?{urlencode(query)}" if query else "/login", 303)

    def _is_of_own_page(self, request: Request) -> bool:
        """Tell whether a browser says that a form was sent from a page of this server."""
        origin, host = request.headers.get("origin"), request.headers.get("host", "")
        if origin is None or origin == "null":  # what browsers send where nothing may be said of the page before
            return request.headers.get("sec-fetch-site") == "same-origin"
        return origin.lower() == f"{self.settings.scheme}://{host}".lower()


async def end_stale_sessions(sessions: Sessions, logins: Logins) -> None:
    """End the sessions whose tokens were revoked or expired, so that what they stream ends as well."""
    stale: Iterable[Session] = await run_in_threadpool(
        lambda: [session for session in sessions.list() if not logins.is_live(session.login)]
    )
    for session in stale:
        sessions.end(session)
