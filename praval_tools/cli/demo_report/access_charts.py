"""Who may call what, in the report: the matrix, and who owns each tool."""

from __future__ import annotations

from attrs import frozen

from praval_tools import ToolRegistry
from praval_tools.cli.demo_report.markup import Markup, joined, tag
from praval_tools.cli.demo_report.svg import curve, dot, label, legend, picture
from praval_tools.cli.matrix import Matrix, matrix_of
from praval_tools.demo.steps import Surveyed

_LEFT, _RIGHT, _ROW = 190, 500, 40
_NOTHING = {"no-way", "no-agent"}


@frozen
class Survey:
    """Who may call what at the end, and who owned what before: tool to earlier and present owner."""

    matrix: Matrix
    owners: dict[str, tuple[str | None, ...]]


def survey_of(step: Surveyed) -> Survey:
    """Ask the registry, as long as it is open."""
    matrix = matrix_of(step.registry, agents=step.agents, tools=step.registry.list_all_tools())
    return Survey(matrix, {tool: _owners(step.registry, tool) for tool in matrix.tools})


def _owners(registry: ToolRegistry, tool: str) -> tuple[str | None, ...]:
    record = registry.state.record(tool)
    return () if record is None else (*record.past_owners, record.tool.metadata.owned_by)


def matrix(survey: Survey) -> Markup:
    """Return agents x tools, with the deciding rule in each cell."""
    found = survey.matrix
    head = tag("tr", tag("th", "tool"), *(tag("th", agent, scope="col") for agent in found.agents))
    rows = [
        tag("tr", tag("th", tag("code", tool), scope="row"), *(_cell(found, agent, tool) for agent in found.agents))
        for tool in found.tools
    ]
    return tag("div", tag("table", tag("thead", head), tag("tbody", *rows), class_="matrix"), class_="wide")


def _cell(found: Matrix, agent: str, tool: str) -> Markup:
    decision = found.decisions[agent, tool]
    if decision.rule in _NOTHING:
        return tag("td", tag("span", "–", class_="none", title=decision.reason))
    told = f"{decision.rule}{found.notes.get((agent, tool), '')}"
    return tag("td", tag("span", told, class_=f"rule {_rule(decision.rule)}", title=decision.reason))


def _rule(rule: str) -> str:
    return rule if rule in {"owner", "listed", "shared", "category", "granted"} else "bad"


def ownership(survey: Survey) -> Markup:
    """Return agents and tools, with a line for each way between them; a tool that changed hands has two."""
    found = survey.matrix
    height = _ROW * max(len(found.agents), len(found.tools))
    agents = {name: height * (number + 0.5) / len(found.agents) for number, name in enumerate(found.agents)}
    tools = {name: height * (number + 0.5) / len(found.tools) for number, name in enumerate(found.tools)}
    shapes: list[Markup] = []
    for (agent, tool), decision in sorted(found.decisions.items(), key=lambda pair: pair[1].rule == "owner"):
        if decision.rule not in _NOTHING and decision.allowed:
            way = curve(_LEFT, agents[agent], _RIGHT, tools[tool], f"way {_rule(decision.rule)}", decision.reason)
            shapes.append(way)
    for tool, owners in survey.owners.items():
        for past in dict.fromkeys(owners[:-1]):
            if past is not None and past in agents:
                way = curve(_LEFT, agents[past], _RIGHT, tools[tool], "way past", f"{past} owned {tool} before")
                shapes.append(way)
    for agent, y in agents.items():
        shapes += [dot(_LEFT, y, 7, "agent"), label(_LEFT - 14, y + 5, agent, at="end", class_="strong")]
    for tool, y in tools.items():
        owner = (survey.owners[tool] or (None,))[-1]
        shapes += [dot(_RIGHT, y, 5, "tool"), label(_RIGHT + 12, y + 5, tool, class_="mono")]
        shapes.append(label(_RIGHT + 12, y + 18, f"owned by {owner}" if owner else "without an owner", class_="tiny"))
    drawn = picture(height + 4, *shapes, title="Who owns and who may call each tool")
    rules = ("owner", "listed", "category", "shared", "granted")
    return joined(drawn, legend(*((rule, rule) for rule in rules), ("past", "owner before")))
