"""A server for the views of what happens, with a log-in that takes any name."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from praval_tools.journal import open_journal
from praval_tools.report.markup import Markup, build_element, escape_text
from praval_tools.web.activity.activity import Activity
from praval_tools.web.activity.routes import MENU, SCRIPT_URL, STYLE_URL, build_routes

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'"
)
_STYLE = "nav { padding: .8rem 1.25rem; } nav a { margin-right: 1rem; } main { max-width: 90rem; padding-top: 0; }"


class PlainHost:
    """Every request names its user in the cookie `user`; names that begin with `view` are viewers'."""

    def __init__(self) -> None:
        self.ended_sessions: set[str] = set()

    def render_page(self, request: Request, title: str, content: Markup, *, status: int = 200) -> Response:
        links = (build_element("a", name, href=url) for url, name in MENU)
        head = f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape_text(title)}</title>'
        assets = '<meta name="viewport" content="width=device-width, initial-scale=1">'
        assets += '<link rel="stylesheet" href="/style.css">'
        assets += f'<link rel="stylesheet" href="{STYLE_URL}"><meta name="color-scheme" content="light dark">'
        script = f'<script src="{SCRIPT_URL}" defer></script></head><body>'
        body = f"{build_element('nav', *links)}<main>{content}</main></body></html>"
        return HTMLResponse(head + assets + script + body, status, {"content-security-policy": POLICY})

    def find_operator(self, request: Request) -> str | None:
        name = self.get_session_id(request)
        return None if name.startswith("view") else name

    def get_session_id(self, request: Request) -> str:
        return request.cookies.get("user", "viewer")

    def get_person(self, request: Request) -> str:
        return self.get_session_id(request)

    def is_session_live(self, request: Request) -> bool:
        return self.get_session_id(request) not in self.ended_sessions

    def build_form_token(self, request: Request) -> Markup:
        token = f"token-of-{self.get_session_id(request)}"
        return build_element("input", type="hidden", name="token", value=token)

    def is_form_genuine(self, request: Request, fields: Mapping[str, str]) -> bool:
        return fields.get("token") == f"token-of-{self.get_session_id(request)}"


class Server:
    """The views of one journal, served on loopback in a thread."""

    style_sheets: tuple[tuple[str, str], ...] = (("praval_tools.report", "style.css"),)

    def __init__(self, journal: str | Path) -> None:
        self.journal, self.host = open_journal(journal), PlainHost()
        self.activity = Activity(self.journal)
        self.activity.index.catch_up()
        self.activity.start()
        app = Starlette(routes=self.list_routes())
        app.add_route("/style.css", self._show_style)
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1, lifespan="off")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def list_routes(self) -> list[Route]:
        """Return the views."""
        return [*build_routes(self.activity, self.host)]

    async def _show_style(self, request: Request) -> Response:
        sheets = ((files(package) / name).read_text("utf-8") for package, name in self.style_sheets)
        return Response("\n".join((*sheets, _STYLE)), media_type="text/css")

    def _serve(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._socket]))

    def close(self) -> None:
        """Stop."""
        self._server.should_exit = True
        self._thread.join(30)
        self._socket.close()
        self.activity.close()
        self.journal.close()


@contextmanager
def serve_journal(journal: str | Path) -> Iterator[Server]:
    """Serve a journal until this ends."""
    server = Server(journal)
    try:
        yield server
    finally:
        server.close()


if __name__ == "__main__":
    with serve_journal(sys.argv[1]) as server:
        print(server.url, flush=True)
        threading.Event().wait()
