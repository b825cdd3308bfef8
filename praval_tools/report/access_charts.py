"""Draws a report's charts of access: the matrix, and who owns and may call each tool."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from praval_tools.registry.registry import ToolRegistry
from praval_tools.report.access_matrix import NO_ACCESS_RULES, AccessMatrix, build_access_matrix
from praval_tools.report.markup import Markup, build_code, build_element, build_row, join_markup
from praval_tools.report.svg import draw_chart, draw_curve, draw_dot, draw_label, draw_legend
from praval_tools.tools.tool import AnyTool

_AGENTS_X, _TOOLS_X, _ROW_HEIGHT = 234, 506, 40
RULES = ("owner", "listed", "category", "shared", "granted")
"""The rules that permit, each with a colour of its own."""


@frozen
class AccessSurvey:
    """Who may call what at the end, and the owners of each tool, the present one last."""

    matrix: AccessMatrix
    owners: dict[str, tuple[str | None, ...]]


def survey_access(
    registry: ToolRegistry, agents: Sequence[str], tools: Sequence[AnyTool] | None = None
) -> AccessSurvey:
    """Ask the registry while it is open; of all tools, unless *tools* are given."""
    matrix = build_access_matrix(registry, agents=agents, tools=registry.list_all_tools() if tools is None else tools)
    return AccessSurvey(matrix, {tool: _list_owners(registry, tool) for tool in matrix.tools})


def _list_owners(registry: ToolRegistry, tool: str) -> tuple[str | None, ...]:
    record = registry.state.tools[tool]
    return (*record.past_owners, record.tool.metadata.owned_by)


def render_matrix(survey: AccessSurvey) -> Markup:
    """Return agents x tools, with the deciding rule in each cell."""
    matrix = survey.matrix
    head = build_row(build_element("th", "tool"), *(build_element("th", name, scope="col") for name in matrix.agents))
    rows = [
        build_row(
            build_element("th", build_code(tool), scope="row"),
            *(_render_cell(matrix, agent, tool) for agent in matrix.agents),
        )
        for tool in matrix.tools
    ]
    table = build_element("table", build_element("thead", head), build_element("tbody", *rows), class_="matrix")
    return build_element("div", table, class_="wide")


def _render_cell(matrix: AccessMatrix, agent: str, tool: str) -> Markup:
    decision = matrix.decisions[agent, tool]
    text, class_ = f"{decision.rule}{matrix.notes.get((agent, tool), '')}", f"rule {get_rule_class(decision.rule)}"
    if decision.rule in NO_ACCESS_RULES:
        text, class_ = "–", "none"
    return build_element("span", text, class_=class_, title=decision.reason)


def get_rule_class(rule: str) -> str:
    """Return the class of the colour of a rule."""
    return rule if rule in RULES else "bad"


def render_ownership(survey: AccessSurvey) -> Markup:
    """Return agents and tools, with a line for each permission, and one for each earlier owner."""
    matrix = survey.matrix
    height = _ROW_HEIGHT * max(len(matrix.agents), len(matrix.tools))
    agents, tools = _spread_evenly(matrix.agents, height), _spread_evenly(matrix.tools, height)

    def draw_link(agent: str, tool: str, class_: str, tooltip: str) -> Markup:
        return draw_curve(_AGENTS_X, agents[agent], _TOOLS_X, tools[tool], f"way {class_}", tooltip)

    decisions = sorted(matrix.decisions.items(), key=lambda pair: pair[1].rule == "owner")  # owners are drawn on top
    shapes = [
        draw_link(agent, tool, get_rule_class(decision.rule), decision.reason)
        for (agent, tool), decision in decisions
        if decision.allowed
    ]
    shapes += [
        draw_link(past, tool, "past", f"{past} owned {tool} before")
        for tool, owners in survey.owners.items()
        for past in dict.fromkeys(owners[:-1])
        if past is not None and past in agents
    ]
    for agent, y in agents.items():
        label = draw_label(_AGENTS_X - 14, y + 5, agent, anchor="end", class_="strong")
        shapes += [draw_dot(_AGENTS_X, y, 7, "agent"), label]
    for tool, y in tools.items():
        owner = survey.owners[tool][-1]
        shapes += [
            draw_dot(_TOOLS_X, y, 5, "tool"),
            draw_label(_TOOLS_X + 12, y + 5, tool, class_="mono"),
            draw_label(_TOOLS_X + 12, y + 18, f"owned by {owner}" if owner else "without an owner", class_="tiny"),
        ]
    chart = draw_chart(height + 4, *shapes, title="Who owns and who may call each tool")
    return join_markup(chart, draw_legend(*((rule, rule) for rule in RULES), ("past", "owner before")))


def _spread_evenly(names: Sequence[str], height: float) -> dict[str, float]:
    """Return the vertical position of each name, evenly spread over *height*."""
    return {name: height * (number + 0.5) / len(names) for number, name in enumerate(names)}
