"""The views of tools: a filtered list, and one tool with its schema, source, callers and use."""

from __future__ import annotations

import json
from typing import Final

from attrs import frozen
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from praval_tools.access.rules import resolve_access
from praval_tools.access.state import AccessState
from praval_tools.execution.context import resolve_agent
from praval_tools.names import find_similar_names
from praval_tools.registry.registry import ToolRegistry
from praval_tools.report.access_matrix import list_agents
from praval_tools.report.markup import Markup, build_code, build_element, build_row, join_markup
from praval_tools.report.text import sanitize_text
from praval_tools.tools.source import Source
from praval_tools.tools.tool import AnyTool
from praval_tools.web.access.access import AccessReader, build_missing_program_note
from praval_tools.web.access.filters import ToolFilter, build_filter_form, get_source_kind, read_filter
from praval_tools.web.access.matrix import build_rule
from praval_tools.web.access.usage_parts import build_call_count, build_usage
from praval_tools.web.activity import parts
from praval_tools.web.activity.activity import write_json
from praval_tools.web.activity.calls import make_text_response, parse_number
from praval_tools.web.activity.host import Host
from praval_tools.web.activity.paging import Paging

_PAGE_SIZE: Final = 50
_MAX_AGENTS: Final = 5_000
"""Of how many agents it is decided whether they may call a tool."""
_MAX_CALLERS: Final = 100
_MAX_DESCRIPTION: Final = 2_000
_MAX_SCHEMA: Final = 6_000
_RISK_CLASSES: Final = {"low": "good", "medium": "doubt"}
_TITLES: Final = ("tool", "owner", "category", "tags", "risk", "source", "calls", "description")
_HINTS: Final = ("read_only", "destructive", "idempotent", "open_world")


@frozen
class ToolViews:
    """The views of tools."""

    access: AccessReader
    host: Host

    async def show_tools(self, request: Request) -> Response:
        """Show the tools that fit a filter, a page of them."""
        given, start = read_filter(request), parse_number(request, "start") or 0
        content = await run_in_threadpool(self._build_list, given, start)
        return self.host.render_page(request, "Tools", content)

    def _build_list(self, given: ToolFilter, start: int) -> Markup:
        registry = self.access.registry
        if registry is None:
            return parts.build_section("Tools", "", build_missing_program_note(self.access))
        state, tools = self.access.read_state(), given.select_tools(registry)
        paging = Paging(start=start, size=_PAGE_SIZE, total=len(tools), word="tool")
        rows = [self._build_row(state, tool) for tool in tools[paging.slice]]
        caption = f"{parts.count_words(len(tools), 'tool')}, in the order of registration"
        return parts.build_section(
            "Tools",
            "What agents may be given: who owns it, what it is, where it comes from.",
            build_filter_form(state, "/tools", given, has_agent=False),
            paging.build_links("/tools", given.to_parameters()),
            parts.build_table(_TITLES, rows, class_="listing tools", caption=caption)
            if rows else parts.build_note("No tool fits."),
        )  # fmt: skip

    def _build_row(self, state: AccessState, tool: AnyTool) -> Markup:
        meta = tool.metadata
        name = parts.build_link(build_code(parts.shorten(tool.name)), "/tools/show", name=tool.name)
        off = build_element("span", "disabled", class_="chip bad") if state.find_disabled_record(tool) else None
        shared = build_element("span", "shared", class_="rule shared") if meta.shared else None
        return build_row(
            build_element("th", name, *((" ", off) if off else ()), scope="row"),
            build_owner(tool, shared),
            parts.shorten(meta.category, 60),
            parts.shorten(", ".join(meta.all_tags) or "–", 80),
            build_risk(tool),
            get_source_kind(tool),
            build_call_count(self.access.index, "tool", tool.name),
            build_element("td", parts.shorten(tool.description, parts.MAX_PREVIEW), class_="long"),
        )

    async def show_tool(self, request: Request) -> Response:
        """Show one tool."""
        name, title = request.query_params.get("name", ""), "Tool"
        tool = await run_in_threadpool(self._find, name)
        if tool is None:
            content, status = await run_in_threadpool(self._build_missing, name), 404
        else:
            content, status = await run_in_threadpool(self._build_tool, tool), 200
            title = f"Tool {tool.name}"
        return self.host.render_page(request, title, content, status=status)

    async def show_schema(self, request: Request) -> Response:
        """Return description and schemas of a tool as plain text."""
        tool = await run_in_threadpool(self._find, request.query_params.get("name", ""))
        if tool is None:
            return PlainTextResponse("There is no such tool.\n", 404)
        definition = {
            "description": tool.description, "parameters": tool.parameters, "result": tool.result_schema
        }  # fmt: skip
        return make_text_response(write_json(definition))

    def _find(self, name: str) -> AnyTool | None:
        record = self.access.read_state().find_tool_record(name) if self.access.registry is not None else None
        return None if record is None else record.tool

    def _build_missing(self, name: str) -> Markup:
        if self.access.registry is None:
            usage = build_usage(self.access.index, "tool", name)
            return join_markup(parts.build_section("Tool", "", build_missing_program_note(self.access)), usage)
        similar = find_similar_names(name, self.access.read_state().tools)
        links = [piece for each in similar[:3] for piece in (" ", parts.build_link(each, "/tools/show", name=each))]
        text = build_element("p", "There is no such tool now.", *([" Similar names:", *links] if links else []))
        return join_markup(parts.build_section("Tool", "", text), build_usage(self.access.index, "tool", name))

    def _build_tool(self, tool: AnyTool) -> Markup:
        registry = self.access.get_registry()
        state = self.access.read_state()
        return join_markup(
            _build_facts(state, tool),
            _build_callers(registry, state, tool, self.access),
            _build_schema(tool),
            build_usage(self.access.index, "tool", tool.name),
        )


def build_owner(tool: AnyTool, *marks: Markup | None) -> Markup:
    """Return a link to the owner of a tool."""
    owner = tool.metadata.owned_by
    link = parts.build_link(owner, "/agents/show", name=owner) if owner else "–"
    return join_markup(link, *(piece for mark in marks if mark is not None for piece in (" ", mark)))


def build_risk(tool: AnyTool) -> Markup:
    """Return the risk of a tool, in its colour."""
    meta = tool.metadata
    risk = build_element("span", meta.risk_level, class_=f"chip {_RISK_CLASSES.get(meta.risk_level, 'bad')}")
    return join_markup(risk, " needs approval" if meta.requires_approval else None)


def _build_facts(state: AccessState, tool: AnyTool) -> Markup:
    meta, off, record = tool.metadata, state.find_disabled_record(tool), state.tools[tool.name]
    source = meta.source or Source()
    past = list(dict.fromkeys(owner for owner in record.past_owners if owner is not None))
    marks = [name for name in ("shared", "private") if getattr(meta, name)]
    facts: tuple[tuple[str, object], ...] = (
        ("owner", build_owner(tool)),
        ("owned before", parts.shorten(", ".join(past))),
        ("access", ", ".join(marks)),
        ("category", parts.shorten(meta.category)),
        ("tags", parts.shorten(", ".join(meta.all_tags), 500)),
        ("risk", build_risk(tool)),
        ("hints", ", ".join(name.replace("_", "-") for name in _HINTS if getattr(meta, name))),
        ("version", parts.shorten(meta.version)),
        ("source", parts.shorten(f"{source.kind}: {source}" + ("" if source.trusted else ", not trusted"), 500)),
        ("fingerprint", build_code(tool.fingerprint)),
    )
    rows = [build_row(build_element("th", name, scope="row"), value) for name, value in facts if value]
    is_cut = len(tool.description) > _MAX_DESCRIPTION
    rest = parts.build_link("All of it, as text", "/tools/schema", name=tool.name) if is_cut else None
    message = ""
    if off is not None:
        message = f"The {off.kind} {off.name} is disabled by {off.person or off.by}. {off.reason}"
    return build_element(
        "section",
        build_element("h2", "Tool ", build_code(parts.shorten(tool.name))),
        parts.build_message(sanitize_text(message, max_length=500), "message problem") if message else None,
        build_element("p", parts.shorten(tool.description, _MAX_DESCRIPTION), class_="description"),
        build_element("p", rest) if rest is not None else None,
        build_element("table", build_element("tbody", *rows), class_="facts"),
    )


def _build_schema(tool: AnyTool) -> Markup:
    link = build_element("p", parts.build_link("All of it, as text", "/tools/schema", name=tool.name), class_="fine")
    pieces: list[object] = []
    for title, schema in (("Parameters", tool.parameters), ("Result", tool.result_schema)):
        if schema is not None:
            text = parts.shorten(json.dumps(schema, ensure_ascii=False, default=str, indent=2), _MAX_SCHEMA)
            pieces += [
                build_element("h3", title),
                build_element("pre", text, tabindex=0, role="region", aria_label=f"Schema: {title.lower()}"),
            ]
    return parts.build_section("Schema", "", *pieces, link)


def _build_callers(registry: ToolRegistry, state: AccessState, tool: AnyTool, access: AccessReader) -> Markup:
    now, titles, rows = access.now(), list_agents(registry), list[Markup]()
    agents, allowed = list(titles)[:_MAX_AGENTS], 0
    for agent in agents:
        decision = resolve_access(state, resolve_agent(agent), tool.name, now).decision
        if not decision.allowed:
            continue
        allowed += 1
        if allowed <= _MAX_CALLERS:
            rows.append(
                build_row(
                    build_element(
                        "th", parts.build_link(titles[agent], "/agents/show", name=agent), scope="row"
                    ),
                    build_rule(decision.rule),
                    build_element("td", parts.shorten(decision.reason, 300), class_="long"),
                    build_element("a", "Every rule", href=parts.build_cell_url(agent, tool.name)),
                )
            )  # fmt: skip
    text = f"{parts.count_words(allowed, 'agent')} of {len(agents):,}."
    text += f" The first {_MAX_CALLERS} are shown." if allowed > _MAX_CALLERS else ""
    matrix = build_element("p", parts.build_link("Its row of the matrix", "/matrix", name=tool.name), class_="fine")
    table = parts.build_table(("agent", "rule", "because", "all rules"), rows, caption="Agents that may call it")
    return parts.build_section("Who may call it", text, matrix, table if rows else parts.build_note("Nobody."))
