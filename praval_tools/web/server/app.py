"""`build_app`: the operator's page as an ASGI application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib.resources import files
from typing import Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from praval_tools.clock import Clock, SystemClock
from praval_tools.errors import JournalError, RedactionKeyError
from praval_tools.registry.registry import ToolRegistry
from praval_tools.web.access import routes as access_routes
from praval_tools.web.access.access import AccessReader
from praval_tools.web.activity import routes as activity_routes
from praval_tools.web.activity.activity import Activity
from praval_tools.web.server.guard import RequestGuard, SessionGuard, end_stale_sessions
from praval_tools.web.server.login_limits import LoginLimits
from praval_tools.web.server.login_views import LoginViews
from praval_tools.web.server.logins import Logins
from praval_tools.web.server.page import PageHost, ViewPackage
from praval_tools.web.server.sessions import Sessions
from praval_tools.web.server.settings import PageSettings
from praval_tools.web.server.start import StartView

CHECK_SECONDS: Final = 5.0
"""How often the tokens of the sessions are looked at, besides at every request."""

_TEXTS: Final = {
    "Not Found": "There is no such page.",
    "Method Not Allowed": "This address is not used in this way.",
}  # Starlette's words
_ERROR: Final = (
    "Something went wrong here; the terminal of the server says what. Whether anything was changed is not known: look "
    "before you try again."
)


def build_app(
    activity: Activity, logins: Logins, *, registry: ToolRegistry | None = None, settings: PageSettings | None = None,
    more_views: Sequence[ViewPackage] = (), clock: Clock | None = None,
) -> ASGIApp:  # fmt: skip
    """
    Return the page as an ASGI application; it follows the journal as long as its lifespan lasts.

    Args:
        activity: The journal, whose views come first.
        logins: Who may log in.
        registry: The program's registry, with this journal, for the views of access; None: only the journal is known.
        settings: How it is served.
        more_views: Other views, in the order of the menu.
        clock: Tells when sessions end.
    """
    settings, clock = settings or PageSettings(), clock or SystemClock()
    sessions = Sessions(settings, clock)
    access = AccessReader(activity, registry, settings.command_line)
    packages = (_build_activity_views(activity), _build_access_views(access), *more_views)
    host = PageHost(sessions, packages, activity.journal.name)
    login_views = LoginViews(
        logins=logins, sessions=sessions, limits=LoginLimits(clock), host=host, settings=settings
    )  # fmt: skip
    routes = [route for package in packages for route in package.build_routes(host)]
    start = Route("/", StartView(activity, host).show_counts)
    host.note_pages([start, *routes])
    app = Starlette(
        routes=[
            start,
            Route("/login", login_views.show_form),
            Route("/login", login_views.log_in, methods=["POST"]),
            Route("/logout", login_views.log_out, methods=["POST"]),
            Route("/page.css", _show_style),
            Route("/icon.svg", _show_icon),
            *routes,
        ],
        middleware=[Middleware(SessionGuard, sessions=sessions, logins=logins, host=host, settings=settings)],
        exception_handlers=_build_handlers(host),
        lifespan=partial(_follow, activity, sessions, logins),
    )
    app.router.redirect_slashes = False  # a redirect would name whatever path the request came with
    return RequestGuard(app, settings)


def _build_activity_views(activity: Activity) -> ViewPackage:
    return ViewPackage(
        menu=activity_routes.MENU, title="What happens", build_routes=partial(activity_routes.build_routes, activity),
        styles=(activity_routes.STYLE_URL,), scripts=(activity_routes.SCRIPT_URL,),
    )  # fmt: skip


def _build_access_views(access: AccessReader) -> ViewPackage:
    return ViewPackage(
        menu=access_routes.MENU, title="Who may call what", build_routes=partial(access_routes.build_routes, access),
        styles=(access_routes.STYLE_URL,),
    )  # fmt: skip


def _build_handlers(host: PageHost) -> dict[type[Exception], Callable[[Request, Exception], Awaitable[Response]]]:
    async def show_problem(request: Request, error: Exception) -> Response:
        match error:
            case HTTPException(status_code=status, detail=text, headers=headers):
                return host.render_problem(request, status, _TEXTS.get(text, text), headers)
            case JournalError() | RedactionKeyError():
                return host.render_problem(request, 503, str(error))
        # the server hangs up after it, since the error goes on to its log
        return host.render_problem(request, 500, _ERROR, {"connection": "close"})

    return dict.fromkeys((HTTPException, JournalError, RedactionKeyError, Exception), show_problem)


@asynccontextmanager
async def _follow(
    activity: Activity, sessions: Sessions, logins: Logins, app: Starlette
) -> AsyncIterator[None]:  # fmt: skip
    """Follow the journal, and end sessions whose tokens end."""
    activity.start()
    checking = asyncio.ensure_future(_check_sessions(sessions, logins))
    try:
        yield
    finally:
        checking.cancel()
        with suppress(asyncio.CancelledError):
            await checking
        await run_in_threadpool(activity.close)


async def _check_sessions(sessions: Sessions, logins: Logins) -> None:
    while True:
        await asyncio.sleep(CHECK_SECONDS)
        with suppress(JournalError):  # a database that restarts: each request asks, too
            await end_stale_sessions(sessions, logins)


async def _show_style(request: Request) -> Response:
    style = (files("praval_tools.report") / "style.css").read_text("utf-8")
    return Response(style + _read_file("page.css"), media_type="text/css")


async def _show_icon(request: Request) -> Response:
    return Response(_read_file("icon.svg"), media_type="image/svg+xml")


def _read_file(name: str) -> str:
    return (files("praval_tools.web.server") / name).read_text("utf-8")
