"""`PageHost`: the frame around the content of each page, and what the views ask of the server."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from attrs import frozen
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from praval_tools.report.markup import Markup, build_code, build_element, escape_text, join_markup
from praval_tools.web.activity.host import Host
from praval_tools.web.server.sessions import Session, Sessions

MAX_TARGET: Final = 2_000
"""Characters of the address of a page to which a log-in goes on."""
_FORM_FIELD: Final = "form_token"


@frozen(kw_only=True)
class ViewPackage:
    """
    Views that the server shows.

    Args:
        menu: Address and title of those for the menu.
        title: What they show, as the menu's group of them is called.
        build_routes: Makes their routes.
        styles: The addresses of their style sheets.
        scripts: Those of their scripts.
    """

    menu: Sequence[tuple[str, str]]
    build_routes: Callable[[Host], list[Route]]
    title: str | None = None
    styles: Sequence[str] = ()
    scripts: Sequence[str] = ()


class PageHost:
    """
    The server, as the views see it; see `Host`.

    Args:
        sessions: Who is logged in.
        packages: The views, in the order of the menu.
        journal_name: What the pages show, for their foot.
    """

    def __init__(self, sessions: Sessions, packages: Sequence[ViewPackage], journal_name: str) -> None:
        self._sessions, self._journal_name = sessions, journal_name
        self._groups: list[tuple[str | None, Sequence[tuple[str, str]]]]
        self._groups = [(None, [("/", "Start")]), *((package.title, list(package.menu)) for package in packages)]
        styles = ["/page.css", *(url for package in packages for url in package.styles)]
        self._styles = join_markup(*(build_element("link", rel="stylesheet", href=url) for url in styles))
        scripts = [url for package in packages for url in package.scripts]
        self._scripts = join_markup(*(build_element("script", src=url, defer="") for url in scripts))
        self._pages: frozenset[str] = frozenset()

    def note_pages(self, routes: Iterable[Route]) -> None:
        """Learn the addresses of the pages, to which a log-in may go on."""
        self._pages = frozenset(route.path for route in routes if "GET" in (route.methods or ()))

    def is_page(self, target: str) -> bool:
        """Tell whether *target*, a path with or without a query, is one of this server's pages."""
        path, _, _ = target.partition("?")
        is_short = len(target) <= MAX_TARGET and target.isascii() and target.isprintable()
        return is_short and path in self._pages and path != "/login"

    def render_page(self, request: Request, title: str, content: Markup, *, status: int = 200) -> Response:
        """Return *content* with the frame: the menu, who is logged in, the journal."""
        session = get_session(request)
        head = join_markup(
            Markup('<!doctype html><html lang="en"><head><meta charset="utf-8">'),
            build_element("title", f"{title} – praval-tools"),
            Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            Markup('<meta name="color-scheme" content="light dark"><link rel="icon" href="/icon.svg">'),
            self._styles if session is not None else build_element("link", rel="stylesheet", href="/page.css"),
            self._scripts if session is not None else None,
            Markup("</head><body>"),
        )
        main = build_element("main", build_element("h1", title, class_="unseen"), content, id="content", tabindex="-1")
        foot = build_element("footer", "Journal ", build_code(escape_text(self._journal_name, max_length=300)))
        skip = build_element("a", "Skip to the content", href="#content", class_="skip")
        body = join_markup(skip, self._build_header(request, session), main, foot if session is not None else None)
        return HTMLResponse(f"{head}{body}</body></html>", status)

    def _build_header(self, request: Request, session: Session | None) -> Markup:
        brand = build_element("a", "praval-tools", href="/", class_="brand")
        if session is None:
            return build_element("header", brand, class_="frame")
        path = request.url.path
        urls = (url for _, entries in self._groups for url, _ in entries)
        current = max((url for url in urls if _is_inside(path, url)), key=len, default="")
        groups = (_build_group(title, entries, current) for title, entries in self._groups if entries)
        menu = build_element("nav", *groups, aria_label="Views")
        role = build_element("span", session.login.role, class_=f"chip {'good' if session.is_operator else 'calm'}")
        button = build_element("button", "Log out", type="submit")
        form = build_element("form", self.build_form_token(request), button, method="post", action="/logout")
        name = build_element("span", escape_text(session.login.name, max_length=60), class_="name")
        person = build_element("div", build_element("span", name, " ", role), form, class_="person")
        return build_element("header", brand, menu, person, class_="frame")

    def render_problem(
        self, request: Request, status: int, text: str, headers: Mapping[str, str] | None = None,
        *, content: Markup | None = None,
    ) -> Response:  # fmt: skip
        """Return a page that says why there is no other one; *content* stands below."""
        title = _TITLES.get(status, "Not possible")
        message = build_element("p", text, class_="message problem", role="alert")
        back = build_element("p", build_element("a", "To the start", href="/"))
        section = build_element("section", build_element("h2", title), message, content, back)
        answer = self.render_page(request, title, section, status=status)
        answer.headers.update(headers or {})
        return answer

    def find_operator(self, request: Request) -> str | None:
        """Return the name of who is logged in, unless as a viewer."""
        session = get_session(request)
        return session.login.name if session is not None and session.is_operator else None

    def get_session_id(self, request: Request) -> str:
        """Return what tells the session from others; its cookie cannot be made of it."""
        session = get_session(request)
        return "" if session is None else session.id

    def get_person(self, request: Request) -> str:
        """Return the name of who is logged in, also as a viewer."""
        session = get_session(request)
        return "" if session is None else session.login.name

    def is_session_live(self, request: Request) -> bool:
        """Tell whether the session goes on."""
        session = get_session(request)
        return session is not None and self._sessions.is_live(session)

    def build_form_token(self, request: Request) -> Markup:
        """Return the hidden field with the session's token."""
        session = get_session(request)
        value = "" if session is None else session.form_token
        return build_element("input", type="hidden", name=_FORM_FIELD, value=value)

    def is_form_genuine(self, request: Request, fields: Mapping[str, str]) -> bool:
        """Tell whether a form has the session's token."""
        session = get_session(request)
        if session is None:
            return False
        given = fields.get(_FORM_FIELD, "").encode("utf-8", "surrogatepass")
        return hmac.compare_digest(given, session.form_token.encode())


_TITLES: Final = {
    400: "Not understood",
    401: "Your session is over",
    403: "Not allowed",
    404: "Not found",
    405: "Not possible",
    408: "Too slow",
    413: "Too long",
    429: "Too many attempts",
    500: "Something went wrong",
    503: "The journal cannot be read",
}


def get_session(request: Request) -> Session | None:
    """Return the session that the guard found for a request."""
    session: Session | None = getattr(request.state, "session", None)
    return session


def _build_group(title: str | None, entries: Sequence[tuple[str, str]], current: str) -> Markup:
    links = (
        build_element("li", build_element("a", name, href=url, aria_current="page" if url == current else None))
        for url, name in entries
    )
    return build_element("ul", *links, aria_label=title)


def _is_inside(path: str, url: str) -> bool:
    return path == url or (url != "/" and path.startswith(f"{url}/"))
