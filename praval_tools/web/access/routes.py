"""`build_routes`: the views of access as routes of a Starlette application."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from praval_tools.web.access.access import AccessReader
from praval_tools.web.access.advice import AdviceView
from praval_tools.web.access.agents import AgentViews
from praval_tools.web.access.cell import CellViews
from praval_tools.web.access.grants import GrantView
from praval_tools.web.access.graph import GraphView
from praval_tools.web.access.matrix import MatrixView
from praval_tools.web.access.tools import ToolViews
from praval_tools.web.activity.host import Host

MENU: Final = (
    ("/matrix", "Matrix"), ("/tools", "Tools"), ("/agents", "Agents"), ("/graph", "Ownership"), ("/grants", "Grants"),
    ("/advice", "Advice"),
)  # fmt: skip
"""The views for the menu: address and title."""
STYLE_URL: Final = "/access/access.css"
"""What the views add to the style sheets of reports and of the views of what happens."""


def build_routes(access: AccessReader, host: Host) -> list[Route]:
    """Return the routes of the views, for an app whose routes check who is logged in before."""
    matrix, cells = MatrixView(access, host), CellViews(access, host)
    tools, agents = ToolViews(access, host), AgentViews(access, host)
    return [
        Route("/matrix", matrix.show_matrix),
        Route("/matrix/cell", cells.show_cell),
        Route("/matrix/change", cells.change_access, methods=["POST"]),
        Route("/tools", tools.show_tools),
        Route("/tools/show", tools.show_tool),
        Route("/tools/schema", tools.show_schema),
        Route("/agents", agents.show_agents),
        Route("/agents/show", agents.show_agent),
        Route("/graph", GraphView(access, host).show_graph),
        Route("/grants", GrantView(access, host).show_grants),
        Route("/advice", AdviceView(access, host).show_advice),
        Route(STYLE_URL, show_style),
    ]


async def show_style(request: Request) -> Response:
    """Return the style sheet of the views."""
    text = (files("praval_tools.web.access") / "access.css").read_text("utf-8")
    return Response(text, media_type="text/css", headers={"x-content-type-options": "nosniff"})
