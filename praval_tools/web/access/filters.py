"""The filter of tools that several views share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, get_args

from attrs import asdict, frozen
from starlette.requests import Request

from praval_tools.access.state import AccessState
from praval_tools.registry.registry import ToolRegistry
from praval_tools.report.markup import Markup, build_element
from praval_tools.tools.metadata import RiskLevel
from praval_tools.tools.source import SourceKind
from praval_tools.tools.tool import AnyTool
from praval_tools.web.activity import parts

_MAX_LENGTH: Final = 200
_MAX_CHOICES: Final = 100


@frozen(kw_only=True)
class ToolFilter:
    """
    Which tools a view shows; an empty text does not count.

    Args:
        name: A part of the tool's name.
        owner: The agent that owns it.
        category: Its category.
        tag: One of its tags.
        risk: Its risk.
        source: The kind of its source.
        agent: A part of the names of the agents that are shown beside.
    """

    name: str = ""
    owner: str = ""
    category: str = ""
    tag: str = ""
    risk: str = ""
    source: str = ""
    agent: str = ""

    def to_parameters(self) -> dict[str, str]:
        """Return what an address says of it."""
        return {name: value for name, value in asdict(self).items() if value}

    def select_tools(self, registry: ToolRegistry) -> list[AnyTool]:
        """Return the tools that fit, in registration order."""
        tools = registry.search_tools(
            self.name or None, category=self.category or None, owned_by=self.owner or None,
            tags=[self.tag] if self.tag else None,
        )  # fmt: skip
        if self.risk:
            tools = [tool for tool in tools if tool.metadata.risk_level == self.risk]
        if self.source:
            tools = [tool for tool in tools if get_source_kind(tool) == self.source]
        return tools

    def select_agents(self, names: Sequence[str]) -> list[str]:
        """Return those of *names* that fit."""
        return [name for name in names if self.agent.lower() in name.lower()] if self.agent else list(names)


def get_source_kind(tool: AnyTool) -> str:
    """Return the kind of the source of a tool."""
    return "code" if tool.metadata.source is None else tool.metadata.source.kind


def read_filter(request: Request) -> ToolFilter:
    """Return the filter of the address."""
    names = ("name", "owner", "category", "tag", "risk", "source", "agent")
    return ToolFilter(**{name: request.query_params.get(name, "").strip()[:_MAX_LENGTH] for name in names})


def build_filter_form(state: AccessState, path: str, given: ToolFilter, *, has_agent: bool = True) -> Markup:
    """Return the form of the filter; what a text may be is proposed where it is not too much."""
    fields = [
        _build_text("name", "Tool name has", given.name),
        *([_build_text("agent", "Agent name has", given.agent)] if has_agent else []),
        _build_text("owner", "Owner", given.owner),
        _build_text("category", "Category", given.category, _list_label_values(state, "category")),
        _build_text("tag", "Tag", given.tag, _list_label_values(state, "tag")),
        _build_choice("risk", "Risk", get_args(RiskLevel), given.risk),
        _build_choice("source", "Source", get_args(SourceKind), given.source),
    ]
    button = build_element("p", build_element("button", "Filter", type="submit"))
    everything = build_element("p", parts.build_link("Show all", path)) if given.to_parameters() else None
    return build_element(
        "form", *fields, button, everything, method="get", action=path, class_="filters", role="search"
    )  # fmt: skip


def _list_label_values(state: AccessState, kind: str) -> list[str]:
    return sorted({str(value) for label, value in state.tools_by_label if label == kind})[:_MAX_CHOICES]


def _build_text(name: str, title: str, value: str, choices: Sequence[str] = ()) -> Markup:
    list_id = f"{name}-choices" if choices else None
    field = build_element(
        "input", type="search", name=name, id=name, value=value, maxlength=_MAX_LENGTH, list=list_id, autocomplete="off"
    )
    options = build_element("datalist", *(build_element("option", value=choice) for choice in choices), id=list_id)
    return build_element("p", build_element("label", title, for_=name), field, options if choices else None)


def _build_choice(name: str, title: str, values: Sequence[str], chosen: str) -> Markup:
    options = [build_element("option", "any", value="")]
    for value in values:
        options.append(build_element("option", value, value=value, selected="" if value == chosen else None))
    return build_element(
        "p", build_element("label", title, for_=name), build_element("select", *options, name=name, id=name)
    )
