"""What the views need of the server that shows them: `Host`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response

from praval_tools.report.markup import Markup


class Host(Protocol):
    """The server: it knows who is logged in, and what each page has around its content."""

    def render_page(self, request: Request, title: str, content: Markup, *, status: int = 200) -> Response:
        """Return *content* as a whole page."""
        ...

    def find_operator(self, request: Request) -> str | None:
        """Return the name of who is logged in and may change something; None for a viewer."""
        ...

    def get_session_id(self, request: Request) -> str:
        """Return what tells the session from others."""
        ...

    def get_person(self, request: Request) -> str:
        """Return the name of who is logged in, also as a viewer."""
        ...

    def is_session_live(self, request: Request) -> bool:
        """Tell whether the session has neither ended nor expired since the request came."""
        ...

    def build_form_token(self, request: Request) -> Markup:
        """Return the hidden field that shows that a form comes from a page of this session."""
        ...

    def is_form_genuine(self, request: Request, fields: Mapping[str, str]) -> bool:
        """Tell whether a form that was sent has that field."""
        ...
