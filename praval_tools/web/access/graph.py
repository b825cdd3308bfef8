"""The view of ownership: who owns and who may call each tool, as a picture and as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from attrs import frozen
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from praval_tools.access.state import AccessState
from praval_tools.report.access_charts import AccessSurvey, render_ownership, survey_access
from praval_tools.report.access_matrix import list_agents
from praval_tools.report.markup import Markup, build_code, build_element, build_row, join_markup
from praval_tools.tools.tool import AnyTool
from praval_tools.web.access.access import AccessReader, build_missing_program_note
from praval_tools.web.access.filters import ToolFilter, build_filter_form, read_filter
from praval_tools.web.access.matrix import build_names, build_rule
from praval_tools.web.activity import parts
from praval_tools.web.activity.calls import parse_number
from praval_tools.web.activity.host import Host
from praval_tools.web.activity.paging import Paging

TOOLS: Final = 24
"""How many tools a picture holds."""
AGENTS: Final = 24
"""How many agents a picture holds."""


@frozen
class GraphView:
    """The view of ownership."""

    access: AccessReader
    host: Host

    async def show_graph(self, request: Request) -> Response:
        """Show a picture of some tools, and the agents around them."""
        given, start = read_filter(request), parse_number(request, "start") or 0
        content = await run_in_threadpool(self._build, given, start)
        return self.host.render_page(request, "Ownership", content)

    def _build(self, given: ToolFilter, start: int) -> Markup:
        registry = self.access.registry
        if registry is None:
            return parts.build_section("Ownership", "", build_missing_program_note(self.access))
        state, titles = self.access.read_state(), list_agents(registry)
        fitting = given.select_agents(list(titles))
        tools = given.select_tools(registry)
        paging = Paging(start=start, size=TOOLS, total=len(tools), word="tool")
        shown = tools[paging.slice]
        agents = list(islice(_iter_agents(state, shown, fitting), AGENTS))
        survey = survey_access(registry, agents, shown)
        lead = "Thick lines are owners, thin ones may call, dotted ones owned before."
        if len(agents) < len(fitting):
            lead += f" Of {len(fitting):,} agents {len(agents)} are shown: owners first, then who holds a grant."
        is_empty = not shown or not agents
        return parts.build_section(
            "Ownership",
            lead,
            build_filter_form(state, "/graph", given),
            paging.build_links("/graph", given.to_parameters()),
            parts.build_note("There is nothing to show here.") if is_empty else _build_picture(survey),
        )


def _iter_agents(state: AccessState, tools: Sequence[AnyTool], fitting: Sequence[str]) -> Iterator[str]:
    """Yield the agents that fit: owners of *tools*, then those of whom something is recorded, then the rest."""
    known, seen = set(fitting), set[str]()

    def iter_all() -> Iterator[str]:
        for tool in tools:
            if tool.metadata.owned_by is not None:
                yield tool.metadata.owned_by
        for tool in tools:
            yield from state.agents_by_tool.get(tool.name) or ()
        yield from fitting

    for agent in iter_all():
        if agent in known and agent not in seen:
            seen.add(agent)
            yield agent


def _build_picture(survey: AccessSurvey) -> Markup:
    matrix = survey.matrix
    rows = []
    for tool in matrix.tools:
        *past, owner = survey.owners[tool]
        callers = [
            piece
            for agent in matrix.agents
            if (decision := matrix.decisions[agent, tool]).allowed and decision.rule != "owner"
            for piece in (parts.build_link(agent, "/agents/show", name=agent), " ", build_rule(decision.rule), " ")
        ]
        earlier = list(dict.fromkeys(name for name in past if name is not None))
        name = parts.build_link(build_code(parts.shorten(tool)), "/tools/show", name=tool)
        rows.append(
            build_row(
                build_element("th", name, scope="row"),
                build_names([owner] if owner else [], "/agents/show", 1),
                build_names(earlier, "/agents/show", 5),
                build_element("td", *callers or ["–"], class_="long"),
            )
        )
    titles = ("tool", "owner", "owned before", "may call, of the agents shown")
    picture = build_element("div", render_ownership(survey), class_="picture", tabindex=0, role="region",
                            aria_label="Picture")  # fmt: skip
    return join_markup(picture, parts.build_table(titles, rows, caption="The same as a table"))
