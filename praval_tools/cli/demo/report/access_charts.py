"""Who may call what, in the report: the matrix, and who owns each tool."""

from __future__ import annotations

from attrs import frozen

from praval_tools import ToolRegistry
from praval_tools.cli.demo.report.markup import Markup, build_element, join_markup
from praval_tools.cli.demo.report.svg import draw_chart, draw_curve, draw_dot, draw_label, draw_legend
from praval_tools.cli.matrix import AccessMatrix, build_access_matrix
from praval_tools.demo.steps import AccessStep

_AGENTS_X, _TOOLS_X, _ROW_HEIGHT = 190, 500, 40
_NO_ACCESS_RULES = {"no-way", "no-agent"}


@frozen
class AccessSurvey:
    """Who may call what at the end, and who owned what before: tool to earlier and present owner."""

    matrix: AccessMatrix
    owners: dict[str, tuple[str | None, ...]]


def survey_access(step: AccessStep) -> AccessSurvey:
    """Ask the registry, as long as it is open."""
    matrix = build_access_matrix(step.registry, agents=step.agents, tools=step.registry.list_all_tools())
    return AccessSurvey(matrix, {tool: _list_owners(step.registry, tool) for tool in matrix.tools})


def _list_owners(registry: ToolRegistry, tool: str) -> tuple[str | None, ...]:
    record = registry.state.find_tool_record(tool)
    return () if record is None else (*record.past_owners, record.tool.metadata.owned_by)


def render_matrix(survey: AccessSurvey) -> Markup:
    """Return agents x tools, with the deciding rule in each cell."""
    found = survey.matrix
    head = build_element(
        "tr", build_element("th", "tool"), *(build_element("th", agent, scope="col") for agent in found.agents)
    )
    rows = [
        build_element(
            "tr",
            build_element("th", build_element("code", tool), scope="row"),
            *(_render_cell(found, agent, tool) for agent in found.agents),
        )
        for tool in found.tools
    ]
    return build_element(
        "div",
        build_element("table", build_element("thead", head), build_element("tbody", *rows), class_="matrix"),
        class_="wide",
    )


def _render_cell(found: AccessMatrix, agent: str, tool: str) -> Markup:
    decision = found.decisions[agent, tool]
    if decision.rule in _NO_ACCESS_RULES:
        return build_element("td", build_element("span", "–", class_="none", title=decision.reason))
    told = f"{decision.rule}{found.notes.get((agent, tool), '')}"
    return build_element(
        "td", build_element("span", told, class_=f"rule {_get_rule_class(decision.rule)}", title=decision.reason)
    )


def _get_rule_class(rule: str) -> str:
    return rule if rule in {"owner", "listed", "shared", "category", "granted"} else "bad"


def render_ownership(survey: AccessSurvey) -> Markup:
    """Return agents and tools, with a line for each way between them; a tool that changed hands has two."""
    found = survey.matrix
    height = _ROW_HEIGHT * max(len(found.agents), len(found.tools))
    agents = {name: height * (number + 0.5) / len(found.agents) for number, name in enumerate(found.agents)}
    tools = {name: height * (number + 0.5) / len(found.tools) for number, name in enumerate(found.tools)}
    shapes: list[Markup] = []
    for (agent, tool), decision in sorted(found.decisions.items(), key=lambda pair: pair[1].rule == "owner"):
        if decision.rule not in _NO_ACCESS_RULES and decision.allowed:
            way = draw_curve(
                _AGENTS_X,
                agents[agent],
                _TOOLS_X,
                tools[tool],
                f"way {_get_rule_class(decision.rule)}",
                decision.reason,
            )
            shapes.append(way)
    for tool, owners in survey.owners.items():
        for past in dict.fromkeys(owners[:-1]):
            if past is not None and past in agents:
                way = draw_curve(
                    _AGENTS_X, agents[past], _TOOLS_X, tools[tool], "way past", f"{past} owned {tool} before"
                )
                shapes.append(way)
    for agent, y in agents.items():
        shapes += [
            draw_dot(_AGENTS_X, y, 7, "agent"),
            draw_label(_AGENTS_X - 14, y + 5, agent, anchor="end", class_="strong"),
        ]
    for tool, y in tools.items():
        owner = (survey.owners[tool] or (None,))[-1]
        shapes += [draw_dot(_TOOLS_X, y, 5, "tool"), draw_label(_TOOLS_X + 12, y + 5, tool, class_="mono")]
        shapes.append(
            draw_label(_TOOLS_X + 12, y + 18, f"owned by {owner}" if owner else "without an owner", class_="tiny")
        )
    drawn = draw_chart(height + 4, *shapes, title="Who owns and who may call each tool")
    rules = ("owner", "listed", "category", "shared", "granted")
    return join_markup(drawn, draw_legend(*((rule, rule) for rule in rules), ("past", "owner before")))
