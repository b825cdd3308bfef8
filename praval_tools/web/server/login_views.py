"""Logging in and out."""

from __future__ import annotations

import logging
from typing import Final
from urllib.parse import urlsplit

from attrs import frozen
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from praval_tools.report.markup import Markup, build_code, build_element
from praval_tools.report.text import sanitize_text
from praval_tools.web.activity import parts
from praval_tools.web.activity.forms import read_form
from praval_tools.web.server.login_limits import LoginLimits
from praval_tools.web.server.logins import Logins
from praval_tools.web.server.page import PageHost, get_session
from praval_tools.web.server.sessions import Sessions
from praval_tools.web.server.settings import PageSettings

_LOG: Final = logging.getLogger("praval_tools.web")
_MAX_FORM_SIZE: Final = 8_000
_MESSAGES: Final = {
    "out": "You are logged out.",
    "over": "Log in to go on: your session is over.",
}


@frozen(kw_only=True)
class LoginViews:
    """The form of a log-in, what becomes of it, and the log-out."""

    logins: Logins
    sessions: Sessions
    limits: LoginLimits
    host: PageHost
    settings: PageSettings

    async def show_form(self, request: Request) -> Response:
        """Show the form."""
        message = _MESSAGES.get(request.query_params.get("why", ""))
        note = parts.build_message(message) if message else None
        return self._render_form(request, request.query_params.get("next", ""), note)

    async def log_in(self, request: Request) -> Response:
        """Begin a session for whoever has a token; a session that the browser had before ends."""
        address = find_address(request, self.settings)
        wait = self.limits.count_attempt(address)
        if wait:
            raise HTTPException(429, f"Too many attempts: try again in {wait} seconds.", {"retry-after": str(wait)})
        fields = await read_form(request, max_size=_MAX_FORM_SIZE)
        login = await run_in_threadpool(self.logins.find, fields.get("token", "").strip())
        target = parts.read_hidden(fields, "next")
        if login is None:
            _LOG.warning("A log-in from %s failed.", sanitize_text(address, max_length=100))
            problem = parts.build_message(
                "This token does not count: it is wrong, expired, revoked, was used, or is one of an agent.",
                "message problem",
            )
            return self._render_form(request, target, problem, status=403)
        self.limits.take_back(address)
        if (earlier := self.sessions.find(request.cookies.get(self.settings.cookie_name, ""))) is not None:
            self.sessions.end(earlier)
        _, cookie = self.sessions.begin(login)
        _LOG.info("%s logged in from %s.", login.name, sanitize_text(address, max_length=100))
        answer = RedirectResponse(target if self.host.is_page(target) else "/", 303)
        answer.set_cookie(
            self.settings.cookie_name, cookie, secure=self.settings.is_https, httponly=True, samesite="strict"
        )
        return answer

    async def log_out(self, request: Request) -> Response:
        """End the session."""
        fields = await read_form(request, max_size=_MAX_FORM_SIZE)
        session = get_session(request)
        if session is None or not self.host.is_form_genuine(request, fields):
            raise HTTPException(403, "The form is not of this session: reload its page, and try again.")
        self.sessions.end(session)
        answer = RedirectResponse("/login?why=out", 303)
        answer.delete_cookie(self.settings.cookie_name, secure=self.settings.is_https, httponly=True, samesite="strict")
        return answer

    def _render_form(self, request: Request, target: str, note: Markup | None, *, status: int = 200) -> Response:
        form = build_element(
            "form",
            parts.build_hidden("next", target) if self.host.is_page(target) else None,
            build_element("label", "Token", for_="token"),
            build_element(
                "input", type="password", name="token", id="token", required="", autofocus="", autocomplete="off",
                spellcheck="false", maxlength=500, aria_describedby="token-help",
            ),
            build_element("button", "Log in", type="submit", class_="primary"),
            method="post",
            action="/login",
        )  # fmt: skip
        help_text = build_element(
            "p", "The terminal where the page was started shows one that counts once. For others make one there: ",
            build_code("praval-tools tokens add NAME --role operator"), "or ", build_code("--role viewer"),
            " for somebody who only looks; with the same ",
            build_code("--app"), " or ", build_code("--journal"), " as the page.", class_="fine", id="token-help",
        )  # fmt: skip
        content = build_element("section", build_element("h2", "Log in"), note, form, help_text, class_="login")
        return self.host.render_page(request, "Log in", content, status=status)


def find_address(request: Request, settings: PageSettings) -> str:
    """Return from where a request comes: behind a proxy, what the proxy added, which is the last one."""
    if settings.is_behind_proxy:
        last = ",".join(request.headers.getlist("x-forwarded-for")).rpartition(",")[2].strip()  # or a line of its own
        if last:
            return last[:100]
    return "" if request.client is None else request.client.host


def find_target(request: Request) -> str:
    """Return the path and the query of a page that somebody asked for without a session."""
    path = urlsplit(str(request.url))
    return f"{path.path}?{path.query}" if path.query else path.path
