"""The view of the matrix: agents x tools, with the deciding rule in each cell."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from attrs import frozen
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from praval_tools.report.access_charts import RULES, get_rule_class
from praval_tools.report.access_matrix import NO_ACCESS_RULES, AccessMatrix, build_access_matrix, list_agents
from praval_tools.report.markup import Markup, build_code, build_element, build_row, escape_text, join_markup
from praval_tools.report.svg import draw_legend
from praval_tools.web.access.access import AccessReader, build_missing_program_note
from praval_tools.web.access.filters import ToolFilter, build_filter_form, read_filter
from praval_tools.web.activity import parts
from praval_tools.web.activity.calls import parse_number
from praval_tools.web.activity.host import Host
from praval_tools.web.activity.paging import Paging

AGENTS: Final = 40
"""Columns of a page."""
TOOLS: Final = 50
"""Rows of a page."""


@frozen
class MatrixView:
    """The view of the matrix."""

    access: AccessReader
    host: Host

    async def show_matrix(self, request: Request) -> Response:
        """Show a part of the matrix."""
        given = read_filter(request)
        starts = parse_number(request, "agents") or 0, parse_number(request, "tools") or 0
        content = await run_in_threadpool(self._build, given, *starts)
        return self.host.render_page(request, "Matrix", content)

    def _build(self, given: ToolFilter, first_agent: int, first_tool: int) -> Markup:
        registry = self.access.registry
        if registry is None:
            return parts.build_section("Matrix", "", build_missing_program_note(self.access))
        state, titles = self.access.read_state(), list_agents(registry)
        agents, tools = given.select_agents(list(titles)), given.select_tools(registry)
        columns = Paging(start=first_agent, size=AGENTS, total=len(agents), word="agent", parameter="agents")
        rows = Paging(start=first_tool, size=TOOLS, total=len(tools), word="tool", parameter="tools")
        matrix = build_access_matrix(
            registry, agents=agents[columns.slice], tools=tools[rows.slice], titles=titles
        )  # fmt: skip
        parameters = given.to_parameters()
        is_empty = not matrix.tools or not matrix.agents
        return parts.build_section(
            "Matrix",
            "Who may call what, and by which rule. A cell leads to all rules in order, and to what changes them.",
            build_filter_form(state, "/matrix", given),
            columns.build_links("/matrix", parameters | ({"tools": str(first_tool)} if first_tool else {})),
            rows.build_links("/matrix", parameters | ({"agents": str(first_agent)} if first_agent else {})),
            _build_empty_note(len(agents), len(tools)) if is_empty else render_matrix(matrix),
            None if is_empty else draw_legend(*((rule, rule) for rule in RULES), ("bad", "refused")),
        )


def _build_empty_note(agents: int, tools: int) -> Markup:
    counts = f"{parts.count_words(agents, 'agent')} and {parts.count_words(tools, 'tool')}"
    return parts.build_note(f"There is nothing to show here: {counts} fit.")


def render_matrix(matrix: AccessMatrix) -> Markup:
    """Return the matrix; each cell is a link to its page."""
    heads = [
        build_element("th", parts.build_link(matrix.get_title(agent), "/agents/show", name=agent), scope="col")
        for agent in matrix.agents
    ]
    addresses = [f"/matrix/cell?agent={quote(agent, safe='', errors='surrogatepass')}" for agent in matrix.agents]
    rows = []
    for tool in matrix.tools:
        name = parts.build_link(build_code(parts.shorten(tool)), "/tools/show", name=tool)
        end, cells = f"&amp;tool={quote(tool, safe='')}", []
        for agent, address in zip(matrix.agents, addresses, strict=True):
            cells.append(f'<td><a href="{address}{end}" {_render_rule(matrix, agent, tool)}</a></td>')
        rows.append(build_row(build_element("th", name, scope="row"), Markup("".join(cells))))
    table = build_element(
        "table",
        build_element("caption", "The rule that decides, for each tool and agent; –: no access", class_="fine"),
        build_element("thead", build_row(build_element("th", "tool", scope="col"), *heads)),
        build_element("tbody", *rows),
        class_="matrix",
    )
    return build_element("div", table, class_="wide tall", tabindex=0, role="region", aria_label="Matrix")


def _render_rule(matrix: AccessMatrix, agent: str, tool: str) -> str:
    decision = matrix.decisions[agent, tool]
    if decision.rule in NO_ACCESS_RULES:
        return 'class="none" aria-label="no access">–'
    text = escape_text(f"{decision.rule}{matrix.notes.get((agent, tool), '')}")
    return f'class="rule {get_rule_class(decision.rule)}">{text}'


def build_rule(rule: str) -> Markup:
    """Return a rule, in its colour."""
    if rule in NO_ACCESS_RULES:
        return build_element("span", "no access", class_="rule calm")
    return build_element("span", rule, class_=f"rule {get_rule_class(rule)}")


def build_names(names: list[str], path: str, limit: int) -> Markup:
    """Return links to tools or agents, as many as there may be."""
    links = [piece for name in names[:limit] for piece in (parts.build_link(name, path, name=name), ", ")][:-1]
    more = f" and {len(names) - limit:,} more" if len(names) > limit else ""
    return join_markup(*links, more) if names else Markup("–")
