"""The view of one agent and one tool: every rule in order, what would change it, and the forms that do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from attrs import Factory, frozen
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from praval_tools.access.permissions import Grant
from praval_tools.access.state import AccessState
from praval_tools.errors import EventFormatError, InvalidNameError, JournalError, ToolError
from praval_tools.journal.codec import from_json
from praval_tools.journal.events import AgentToolCall, CallRefused
from praval_tools.journal.recorded_decisions import RecordedDecision
from praval_tools.registry.registry import ToolRegistry
from praval_tools.report.access_matrix import NO_ACCESS_RULES
from praval_tools.report.command_line import CommandLine
from praval_tools.report.markup import Markup, build_code, build_element, build_row, join_markup
from praval_tools.report.text import format_arguments, format_time, sanitize_text
from praval_tools.tools.decision import Decision
from praval_tools.web.access.access import AccessReader, build_missing_program_note
from praval_tools.web.access.changes import (
    CHANGES,
    MAX_REASON,
    TIME_HELP,
    TYPED_FIELDS,
    compute_revision,
    list_changes_since,
    make_change,
)
from praval_tools.web.access.matrix import build_rule
from praval_tools.web.activity import parts
from praval_tools.web.activity.activity import StaleFormError
from praval_tools.web.activity.calls import parse_number
from praval_tools.web.activity.forms import read_operator_form
from praval_tools.web.activity.host import Host
from praval_tools.web.activity.typed import build_area, build_input, build_typed_list

_MAX_GRANTS: Final = 50
_WHERE_EXAMPLE: Final = '{"amount": {"maximum": 100}}'


@frozen(kw_only=True)
class CellForms:
    """
    What every form of the page holds.

    Args:
        token: Shows that the form comes from a page of the session.
        agent: The agent.
        tool: The tool.
        revision: Tells whether what the form is about is still the same.
        seq: The number of the latest event when the page was made.
        sent: The fields of a form that was refused; its form holds what was typed.
    """

    token: Markup
    agent: str
    tool: str
    revision: str
    seq: int = 0
    sent: Mapping[str, str] = Factory(dict)

    def get_typed(self, change: str, name: str) -> str:
        """Return what was typed into a field of the form of *change*."""
        return self.sent.get(name, "") if self.sent.get("change") == change else ""

    def build(
        self, change: str, button: str, *fields: object, class_: str = "", title: str = "", about: str = ""
    ) -> Markup:  # fmt: skip
        """Return a form that does *change*; *about* tells its button from others of the same text."""
        label = f"{button} {about}" if about else None
        return build_element(
            "form",
            self.token,
            *(parts.build_hidden(name, getattr(self, name)) for name in ("agent", "tool")),
            build_element("input", type="hidden", name="revision", value=self.revision),
            build_element("input", type="hidden", name="seq", value=self.seq),
            build_element("input", type="hidden", name="change", value=change),
            build_element("h3", title) if title else None,
            *fields,
            build_element("button", button, type="submit", class_=class_ or None, aria_label=label),
            method="post", action="/matrix/change",
        )  # fmt: skip


@frozen
class CellViews:
    """The view of one agent and one tool, and its forms."""

    access: AccessReader
    host: Host

    async def show_cell(self, request: Request) -> Response:
        """Show who decides, and why."""
        agent, tool = (request.query_params.get(name, "") for name in ("agent", "tool"))
        done = CHANGES.get(request.query_params.get("done", ""), "")
        note = parts.build_message(done) if done else None
        if (number := parse_number(request, "event")) is not None:
            note = join_markup(note, await run_in_threadpool(self._build_call, agent, tool, number))
        return await self._show(request, agent, tool, note)

    def _build_call(self, agent: str, tool: str, number: int) -> Markup | None:
        """Return how a call of the two was decided, by the number of its first event; None where it is none."""
        for record in self.access.store.read(numbers=[number]):
            if (record.agent, record.tool) != (agent, tool):
                continue
            with suppress(EventFormatError):  # of a damaged one nothing is known
                event = from_json(record.body, event_id=record.id)
                if isinstance(event, AgentToolCall | CallRefused) and event.decision is not None:
                    return _build_recorded_decision(event, event.decision)
        return None

    async def change_access(self, request: Request) -> Response:
        """Make the change of a form; one that is refused is shown again, with what was typed."""
        operator, fields = await read_operator_form(request, self.host)
        agent, tool = (parts.read_hidden(fields, name) for name in ("agent", "tool"))
        registry = self.access.registry
        if registry is None or not self.access.is_changeable:
            text = "No program with a journal is known here. Nothing was changed."
            return await self._show_refusal(request, fields, text, 409)
        try:
            notes = await run_in_threadpool(make_change, registry, operator, fields)
        except StaleFormError as error:
            text = f"{error} Nothing was changed by your form: look at what holds now before you send it again."
            changes = await run_in_threadpool(list_changes_since, self.access, fields)
            return await self._show_refusal(request, fields, text, 409, changes)
        except JournalError:
            raise
        except (ToolError, ValueError) as error:
            text = "Nothing was changed: correct the form and send it again."
            text = f"{self.access.command_line.rewrite(str(error))} {text}"
            return await self._show_refusal(request, fields, text, 400)
        url = parts.build_cell_url(agent, tool)
        if notes:
            text = " ".join((CHANGES[fields["change"]], *map(self.access.command_line.rewrite, notes)))
            back = build_element("p", build_element("a", "What holds now", href=url))
            message = parts.build_message(sanitize_text(text, max_length=4_000))
            return self.host.render_page(request, "Changed", parts.build_section("Changed", "", message, back))
        return RedirectResponse(f"{url}&done={fields['change']}", 303)

    async def _show_refusal(
        self, request: Request, fields: Mapping[str, str], text: str, status: int, changes: Sequence[str] = ()
    ) -> Response:
        agent, tool = (parts.read_hidden(fields, name) for name in ("agent", "tool"))
        items = [build_element("li", parts.shorten(each, 500)) for each in changes]
        is_shown = self._has_form(agent, tool, fields.get("change", ""))
        note = join_markup(
            parts.build_message(sanitize_text(text, max_length=4_000), "message problem"),
            build_element("p", "What was changed meanwhile:") if items else None,
            build_element("ul", *items) if items else None,
            None if is_shown else build_typed_list(fields, TYPED_FIELDS),
            build_element("p", build_element("a", "What holds now", href=parts.build_cell_url(agent, tool))),
        )
        return await self._show(request, agent, tool, note, sent=fields, status=status)

    def _has_form(self, agent: str, tool: str, change: str) -> bool:
        """Tell whether the page has the form of a change that somebody may type into."""
        if not self.access.is_changeable or change not in CHANGES:
            return False
        state = self.access.read_state()
        access, is_known = state.get_access(agent, tool), tool in state.tools
        match change:
            case "grant":
                return is_known and not access.blocks and not state.get_profile(agent).retired
            case "block":
                return is_known and not access.blocks
            case "lift":
                return is_known and bool(access.blocks)
            case _:
                return is_known and change == "remove" and self.access.get_registry().explain(agent, tool).allowed

    async def _show(
        self, request: Request, agent: str, tool: str, note: Markup | None, *, sent: Mapping[str, str] | None = None,
        status: int | None = None,
    ) -> Response:  # fmt: skip
        operator = self.host.find_operator(request)
        token = self.host.build_form_token(request) if operator is not None else None
        try:
            content, found = await run_in_threadpool(self._build, agent, tool, token, note, sent or {})
        except InvalidNameError as error:
            content, found = join_markup(note, parts.build_message(str(error), "message problem")), 404
        title = f"{sanitize_text(agent, max_length=80)} and {sanitize_text(tool, max_length=80)}"
        return self.host.render_page(request, title, content, status=status or found)

    def _build(
        self, agent: str, tool: str, token: Markup | None, note: Markup | None, sent: Mapping[str, str]
    ) -> tuple[Markup, int]:
        registry = self.access.registry
        if registry is None:
            title = join_markup(parts.shorten(agent), " → ", build_code(parts.shorten(tool)))
            links = _build_links(agent, tool, is_known=True)
            return parts.build_section(title, "", note, links, build_missing_program_note(self.access)), 200
        seq, state = self.access.index.progress.seq, self.access.read_state()
        decision = registry.explain(agent, tool)
        is_known, forms = tool in state.tools, None
        if token is not None and self.access.is_changeable:
            revision = compute_revision(state, agent, tool)
            forms = CellForms(token=token, agent=agent, tool=tool, revision=revision, seq=seq, sent=sent)
        title = join_markup(parts.shorten(agent), " → ", build_code(parts.shorten(tool)))
        section = build_element(
            "section",
            build_element("h2", title),
            note,
            _build_verdict(
                "allowed" if decision.allowed else decision.outcome, decision.rule, decision.reason,
                is_allowed=decision.allowed,
            ),
            _build_remedy(decision, self.access.command_line, has_forms=forms is not None and is_known),
            _build_links(agent, tool, is_known=is_known),
            _build_rules(decision, self.access.command_line),
        )  # fmt: skip
        grants = registry.grants(tool=tool, agent=agent)
        sections = [section, _build_grants(registry, grants, forms)]
        if not self.access.is_changeable:
            sections.append(_build_unchangeable_note())
        elif forms is not None and is_known:
            sections.append(_build_changes(state, decision, forms))
        return join_markup(*sections), 200 if is_known else 404


def _build_recorded_decision(event: AgentToolCall | CallRefused, decision: RecordedDecision) -> Markup:
    outcome = "allowed" if decision.allowed else event.outcome.value if isinstance(event, CallRefused) else "refused"
    arguments = "" if event.arguments is None else format_arguments(event.arguments)[:1_000]
    remedy = "To allow such a call: grant the tool with wider bounds." if decision.rule == "out-of-bounds" else ""
    return build_element(
        "div",
        build_element("p", "The call of ", parts.build_time(event.time), " UTC ", build_code(f"({arguments})")),
        _build_verdict(outcome, decision.rule, decision.reason, is_allowed=decision.allowed),
        build_element("p", remedy, class_="fine") if remedy else None,
        class_="message recorded" if decision.allowed else "message recorded problem",
    )


def _build_verdict(outcome: str, rule: str, reason: str, *, is_allowed: bool) -> Markup:
    verdict = build_element("span", outcome.replace("_", " "), class_=f"chip {'good' if is_allowed else 'bad'}")
    known = None if rule == outcome or rule in NO_ACCESS_RULES else build_rule(rule)  # "unknown" is both
    return build_element("p", verdict, " ", known, " ", parts.shorten(reason, 1_000))


def _build_remedy(decision: Decision, command_line: CommandLine, *, has_forms: bool) -> Markup | None:
    remedy = command_line.format_remedy(decision)
    if not remedy:
        return None
    forms = (" Or ", build_element("a", "change it here", href="#change"), ".") if has_forms else ()
    return build_element("p", "To change it: ", parts.shorten(remedy, 1_000), *forms, class_="fine")


def _build_links(agent: str, tool: str, *, is_known: bool) -> Markup:
    return build_element(
        "p",
        parts.build_link("The agent", "/agents/show", name=agent), " · ",
        *([parts.build_link("The tool", "/tools/show", name=tool), " · "] if is_known else []),
        parts.build_link("What happened between them", "/audit", agent=agent, tool=tool), " · ",
        parts.build_link("Matrix", "/matrix"),
        class_="fine",
    )  # fmt: skip


def _build_rules(decision: Decision, command_line: CommandLine) -> Markup:
    rows = []
    for number, tried in enumerate(decision.tried, start=1):
        is_decisive = tried.rule == decision.rule
        rule = build_element("b", tried.rule) if is_decisive else tried.rule
        rows.append(
            build_row(
                build_element("td", number, class_="number"),
                build_element("th", rule, scope="row"),
                "yes" if tried.holds else "no",
                build_element("td", parts.shorten(tried.why, 1_000), class_="long"),
                build_element("td", parts.shorten(command_line.get_useful_change(tried) or "–", 1_000), class_="long"),
                class_="decisive" if is_decisive else None,
            )
        )
    titles = ("no.", "rule", "holds", "because", "would change with")
    caption = "Every rule, in order; the one that decides is bold"
    return parts.build_table(titles, rows, class_="listing rules", caption=caption)


def _build_grants(registry: ToolRegistry, grants: Sequence[Grant], forms: CellForms | None) -> Markup | None:
    if not grants:
        return None
    rows = [_build_grant_row(registry, grant, forms) for grant in grants[:_MAX_GRANTS]]
    titles = ("grant", *(["change"] if forms else []), "left", "until (UTC)", "where", "delegable", "by", "why")
    table = parts.build_table(titles, rows, caption="Live grants to this agent for this tool, the oldest first")
    more = len(grants) - _MAX_GRANTS
    return parts.build_section("Grants", f"The first {_MAX_GRANTS} of {len(grants):,}." if more > 0 else "", table)


def _build_grant_row(registry: ToolRegistry, grant: Grant, forms: CellForms | None) -> Markup:
    left, where = registry.uses_left(grant), "–" if grant.where is None else build_code(parts.format_value(grant.where))
    form = []
    if forms is not None:
        form = [forms.build("revoke", "Revoke", parts.build_hidden("grant", grant.id), about=grant.id)]
    return build_row(
        build_element("th", build_code(parts.shorten(grant.id, 12)), scope="row", title=grant.id),
        *form,
        build_element("td", "any" if left is None else f"{left:,} of {grant.max_calls:,}", class_="number"),
        "–" if grant.expires is None else format_time(grant.expires),
        build_element("td", where, class_="long"),
        "yes" if grant.delegable else "–",
        parts.shorten(grant.person or grant.by),
        build_element("td", parts.shorten(grant.reason or "–", 300), class_="long"),
    )


def _build_unchangeable_note() -> Markup:
    text = (
        "Nothing can be changed here: the program has no journal that lasts, so a change would end with this page. "
        "Give its registry one: ToolRegistry(journal='runs.db')."
    )
    return parts.build_section("Change it", "", parts.build_note(text))


def _build_changes(state: AccessState, decision: Decision, forms: CellForms) -> Markup:
    access, is_retired = state.get_access(forms.agent, forms.tool), state.get_profile(forms.agent).retired
    shown = []
    if access.blocks:
        shown.append(_build_plain_form(forms, "lift", "Lift the block", "Remove every block between the two."))
    elif is_retired:
        shown.append(parts.build_note("The agent is retired and can call nothing: the program declares it again."))
    else:
        shown.append(_build_grant_form(forms))
    if decision.allowed:
        text = "Whatever gives it access, until it is granted again."
        shown.append(_build_plain_form(forms, "remove", "Take the tool away", text, class_="danger"))
    if not access.blocks:
        text = "Forbid it, whatever else allows it: no grant overrides a block."
        shown.append(_build_plain_form(forms, "block", "Block", text, class_="danger"))
    lead = "Every change is recorded, with your name and the reason."
    return parts.build_section("Change it", lead, build_element("div", *shown, class_="choices"), id_="change")


def _build_text_field(forms: CellForms, name: str, change: str, label: str, **attributes: object) -> Markup:
    id_ = f"{change}-{name}"
    field = build_input(forms.get_typed(change, name), name=name, id=id_, **attributes)
    return join_markup(build_element("label", label, for_=id_), field)


def _build_plain_form(forms: CellForms, change: str, button: str, text: str, class_: str = "primary") -> Markup:
    reason = _build_text_field(forms, "reason", change, "Reason, which is recorded", maxlength=MAX_REASON)
    return forms.build(change, button, build_element("p", text, class_="fine"), reason, class_=class_, title=button)


def _build_grant_form(forms: CellForms) -> Markup:
    id_, where = "grant-where", forms.get_typed("grant", "where")
    is_delegable = forms.get_typed("grant", "delegable") == "yes"
    return forms.build(
        "grant",
        "Grant",
        build_element("p", "Let the agent call the tool, within limits or without.", class_="fine"),
        _build_text_field(
            forms, "max_calls", "grant", "For at most so many calls", inputmode="numeric", maxlength=11,
            placeholder="no limit",
        ),
        _build_text_field(forms, "expires", "grant", "Until", placeholder=TIME_HELP, maxlength=60),
        build_element("label", "Bounds on the arguments, as JSON: parameter to JSON Schema", for_=id_),
        build_area(where, name="where", id=id_, rows=3, placeholder=_WHERE_EXAMPLE),
        build_element(
            "label",
            build_element(
                "input", type="checkbox", name="delegable", value="yes", checked="" if is_delegable else None
            ),
            " It may grant it to others, within the same limits",
        ),
        _build_text_field(forms, "reason", "grant", "Reason, which is recorded", maxlength=MAX_REASON),
        class_="primary", title="Grant",
    )  # fmt: skip
