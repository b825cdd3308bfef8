"""The views of agents: a list, and one agent with what it owns, lists, holds and may call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from attrs import frozen
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from praval_tools.access.queries import find_candidate_tools
from praval_tools.access.rules import resolve_access
from praval_tools.access.state import AccessState
from praval_tools.errors import InvalidNameError
from praval_tools.execution.context import resolve_agent
from praval_tools.report.access_matrix import list_agents
from praval_tools.report.markup import Markup, build_code, build_element, build_row, join_markup
from praval_tools.web.access.access import AccessReader, build_missing_program_note
from praval_tools.web.access.filters import ToolFilter, read_filter
from praval_tools.web.access.matrix import build_names, build_rule
from praval_tools.web.access.usage_parts import build_call_count, build_usage
from praval_tools.web.activity import parts
from praval_tools.web.activity.calls import parse_number
from praval_tools.web.activity.host import Host
from praval_tools.web.activity.paging import Paging

_PAGE_SIZE: Final = 50
_TOOLS: Final = 100
_MAX_DECISIONS: Final = 10_000
"""How many decisions a page makes to count what its agents may call."""
_TITLES: Final = ("agent", "may call", "owns", "calls", "lists", "requests")


@frozen
class AgentViews:
    """The views of agents."""

    access: AccessReader
    host: Host

    async def show_agents(self, request: Request) -> Response:
        """Show the agents whose names fit, a page of them."""
        given, start = read_filter(request), parse_number(request, "start") or 0
        content = await run_in_threadpool(self._build_list, ToolFilter(agent=given.agent), start)
        return self.host.render_page(request, "Agents", content)

    def _build_list(self, given: ToolFilter, start: int) -> Markup:
        registry = self.access.registry
        if registry is None:
            return parts.build_section("Agents", "", build_missing_program_note(self.access))
        state, titles = self.access.read_state(), list_agents(registry)
        names = given.select_agents(list(titles))
        paging = Paging(start=start, size=_PAGE_SIZE, total=len(names), word="agent")
        counts = self._count_callable(state, names[paging.slice])
        rows = [self._build_row(state, name, titles[name], counts.get(name)) for name in names[paging.slice]]
        field = build_element("input", type="search", name="agent", id="agent", value=given.agent, maxlength=200)
        form = build_element(
            "form", build_element("p", build_element("label", "Agent name has", for_="agent"), field),
            build_element("p", build_element("button", "Filter", type="submit")),
            method="get", action="/agents", class_="filters", role="search",
        )  # fmt: skip
        caption = f"{parts.count_words(len(names), 'agent')}, by name"
        return parts.build_section(
            "Agents",
            "What each owns, lists, requests by category, and so may call.",
            form,
            paging.build_links("/agents", given.to_parameters()),
            parts.build_table(_TITLES, rows, class_="listing agents", caption=caption)
            if rows else parts.build_note("No agent fits."),
        )  # fmt: skip

    def _count_callable(self, state: AccessState, names: Sequence[str]) -> dict[str, int]:
        """Return how many tools agents may call; those for whom that would take too long are left out."""
        counts, made, now = dict[str, int](), 0, self.access.now()
        for name in names:
            principal = resolve_agent(name)
            candidates = find_candidate_tools(state, principal)
            made += len(candidates)
            if made > _MAX_DECISIONS:
                break
            counts[name] = sum(
                resolve_access(state, principal, tool, now).refusal is None for tool in candidates
            )  # fmt: skip
        return counts

    def _build_row(self, state: AccessState, name: str, title: str, count: int | None) -> Markup:
        profile = state.get_profile(name)
        owned = len(state.get_tools_by_label("owner", name))
        return build_row(
            build_element("th", parts.build_link(title, "/agents/show", name=name), scope="row"),
            build_element("td", "many" if count is None else f"{count:,}", class_="number"),
            build_element("td", f"{owned:,}", class_="number"),
            build_call_count(self.access.index, "agent", name),
            build_names(list(profile.tools), "/tools/show", 3),
            parts.shorten(", ".join(profile.tool_categories) or "–", 80),
        )

    async def show_agent(self, request: Request) -> Response:
        """Show one agent."""
        name, start = request.query_params.get("name", ""), parse_number(request, "start") or 0
        try:
            content, status = await run_in_threadpool(self._build_agent, name, start), 200
        except InvalidNameError as error:
            content, status = parts.build_message(str(error), "message problem"), 404
        return self.host.render_page(request, "Agent", content, status=status)

    def _build_agent(self, name: str, start: int) -> Markup:
        usage = build_usage(self.access.index, "agent", name)
        if self.access.registry is None:
            return join_markup(parts.build_section("Agent", "", build_missing_program_note(self.access)), usage)
        state, principal, now = self.access.read_state(), resolve_agent(name), self.access.now()
        names = find_candidate_tools(state, principal)
        paging = Paging(start=start, size=_TOOLS, total=len(names), word="tool")
        rows = []
        for tool in names[paging.slice]:
            decision = resolve_access(state, principal, tool, now).decision
            link = parts.build_link(build_code(parts.shorten(tool)), "/tools/show", name=tool)
            rows.append(
                build_row(
                    build_element("th", link, scope="row"),
                    build_rule(decision.rule),
                    build_element("td", parts.shorten(decision.reason, 300), class_="long"),
                    build_element("a", "Every rule", href=parts.build_cell_url(name, tool)),
                )
            )
        titles = ("tool", "rule", "because", "all rules")
        table = parts.build_table(titles, rows, caption="Tools, and the rule that decides")
        tools = parts.build_section(
            "Tools",
            "Every tool that a rule could give it, refused ones too.",
            paging.build_links("/agents/show", {"name": name}),
            table if rows else parts.build_note("No rule could give it a tool."),
        )
        return join_markup(self._build_facts(state, name), tools, usage)

    def _build_facts(self, state: AccessState, name: str) -> Markup:
        profile = state.get_profile(name)
        kind = "retired" if profile.retired else "declared" if profile.declared else "not declared by the program"
        facts: tuple[tuple[str, object], ...] = (
            ("is", kind),
            ("owns", build_names(list(state.get_tools_by_label("owner", name)), "/tools/show", 20)),
            ("lists", build_names(list(profile.tools), "/tools/show", 20)),
            ("requests", parts.shorten(", ".join(profile.tool_categories) or "–", 500)),
            ("finds tools", "what it owns, and what is shared" if profile.auto_discover_tools else "no: lists them"),
            ("declared at", parts.shorten(profile.place or "–", 300)),
        )
        rows = [build_row(build_element("th", title, scope="row"), value) for title, value in facts]
        links = build_element(
            "p", parts.build_link("Its column of the matrix", "/matrix", agent=name), " · ",
            parts.build_link("Its grants", "/grants", agent=name), class_="fine",
        )  # fmt: skip
        table = build_element("table", build_element("tbody", *rows), class_="facts")
        return build_element("section", build_element("h2", "Agent ", parts.shorten(name)), links, table)
