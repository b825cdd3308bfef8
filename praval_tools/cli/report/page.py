"""Builds the HTML page of the command `report`: calls, refusals, approvals and changes of access."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import evolve, frozen

from praval_tools.access.events import StateEvent
from praval_tools.cli.report import call_sections
from praval_tools.cli.report.document import render_document
from praval_tools.cli.times import format_time
from praval_tools.journal.history import History
from praval_tools.names import format_count
from praval_tools.report import access_charts, run_charts
from praval_tools.report.command_line import CommandLine
from praval_tools.report.event_text import describe_event
from praval_tools.report.markup import Markup, build_element, build_row, join_markup

_MAX_CALLS, _MAX_TIMELINE_CALLS, _MAX_CARDS, _MAX_CHANGES = 1_000, 150, 60, 200


@frozen(kw_only=True)
class ReportContent:
    """
    What a report shows.

    Args:
        title: What it is about.
        journal: The journal that was read.
        history: The calls.
        changes: Changes of who may call what, in order.
        survey: Who may call what now; None where no app says so.
        command_line: How commands begin that read this journal.
    """

    title: str
    journal: str
    history: History
    changes: Sequence[StateEvent] = ()
    survey: access_charts.AccessSurvey | None = None
    command_line: CommandLine = CommandLine()


def build_page(content: ReportContent) -> str:
    """Return the whole page."""
    parts = {
        "title": content.title,
        "journal": content.journal,
        "span": _describe_span(content),
        "tiles": join_markup(*_iter_tiles(content)),
        "sections": join_markup(*_iter_sections(content)),
    }
    return render_document(f"praval-tools report: {content.title}", "praval_tools.cli.report", parts)


def _describe_span(content: ReportContent) -> str:
    moments = [moment for call in content.history.calls for moment in (call.record.started, call.record.ended)]
    moments += [event.time for event in content.changes]
    times = [moment for moment in moments if moment is not None]
    span = f"{format_time(min(times))} to {format_time(max(times))} UTC." if times else "Nothing is recorded."
    unreadable = content.history.unreadable_count
    return f"{span} {format_count(unreadable, 'record')} could not be read." if unreadable else span


def _iter_tiles(content: ReportContent) -> Iterator[Markup]:
    history = content.history
    outcomes = list(history.outcome_counts.elements())
    classes = [run_charts.get_outcome_class(outcome) for outcome in outcomes]
    for number, singular, plural, class_ in (
        (len(history.calls), "call", "calls", None),
        (outcomes.count("ok"), "succeeded", "succeeded", "good"),
        (classes.count("bad") + classes.count("failed"), "refused or failed", "refused or failed", "bad"),
        (outcomes.count("in_doubt"), "in doubt", "in doubt", "bad"),
        (len({call.agent for call in history.calls}), "agent", "agents", None),
        (len({call.record.tool_name for call in history.calls}), "tool", "tools", None),
        (history.process_count, "process", "processes", None),
        (len(content.changes), "change of access", "changes of access", None),
    ):
        text = singular if number == 1 else plural
        value = build_element("b", f"{number:,}", class_=class_ if number else None)
        yield build_element("li", value, build_element("span", text))


def _iter_sections(content: ReportContent) -> Iterator[Markup]:
    history = content.history
    if history.calls:
        latest = evolve(history, calls=history.calls[-_MAX_TIMELINE_CALLS:])
        timeline = run_charts.render_timeline(latest, process_end="next process")
        yield _build_section("What happened", _describe_truncation(latest, history), timeline)
    refusals = list(call_sections.iter_refusals(history))
    if refusals:
        lead = "A refusal is recorded like a call, with the rule that decided it."
        yield _build_section("Refused, and why", lead, _build_cards(refusals))
    if approvals := list(call_sections.iter_approvals(history)):
        lead = "What needs an approval waits for a person."
        yield _build_section("Approvals", lead, _build_cards(approvals))
    if content.changes:
        yield _build_section("Who changed what", "Changes of access, in order.", _build_changes(content.changes))
    if content.survey is not None and content.survey.matrix.agents and content.survey.matrix.tools:
        yield _build_access_section(content.survey)
    if history.calls:
        took = build_element("h3", "How long each took"), run_charts.render_latencies(history)
        yield _build_section(
            "How the calls went",
            "From the journal.",
            build_element("h3", "Outcomes"),
            run_charts.render_outcomes(history),
            build_element("h3", "Calls per agent"),
            run_charts.render_calls_per_agent(history),
            *(took if any(call.record.latency_ms is not None for call in history.calls) else ()),
        )
        calls = _build_calls(history, content.command_line)
        yield _build_section("Every call", "In order; those that a tool made are indented.", calls)


def _build_section(title: str, lead: str, *parts: object) -> Markup:
    return build_element("section", build_element("h2", title), build_element("p", lead, class_="lead"), *parts)


def _describe_truncation(shown: History, history: History) -> str:
    text = "The calls from left to right, a row per agent."
    if len(shown.calls) == len(history.calls):
        return text
    return f"{text} The latest {len(shown.calls):,} of {len(history.calls):,}."


def _build_cards(cards: list[Markup]) -> Markup:
    shown = build_element("ul", *cards[-_MAX_CARDS:], class_="cards")
    if len(cards) <= _MAX_CARDS:
        return shown
    return join_markup(build_element("p", f"The latest {_MAX_CARDS} of {len(cards):,}.", class_="fine"), shown)


def _build_changes(changes: Sequence[StateEvent]) -> Markup:
    rows = []
    for event in changes[-_MAX_CHANGES:]:
        text = describe_event(event)
        time = call_sections.build_dim_cell("-" if event.time is None else format_time(event.time))
        rows.append(build_row(time, text.actor, text.action, build_element("code", text.tool), text.reason))
    return _build_table(("UTC", "who", "did", "what", "why"), rows, class_="changes")


def _build_access_section(survey: access_charts.AccessSurvey) -> Markup:
    return _build_section(
        "Who may call what, and by which rule",
        "Now. Every cell is what the registry would decide for that call.",
        access_charts.render_matrix(survey),
        build_element("h3", "Who owns what"),
        access_charts.render_ownership(survey),
    )


def _build_calls(history: History, command_line: CommandLine) -> Markup:
    calls = history.calls[-_MAX_CALLS:]
    titles = ("", "process", "agent", "call", "rule", "outcome", "ms", "afterwards")
    table = _build_table(titles, list(map(call_sections.build_call_row, calls)), class_="calls")
    if len(calls) == len(history.calls):
        return table
    text = f"The latest {len(calls):,} of {len(history.calls):,}; {command_line.write('audit')} shows all."
    return join_markup(build_element("p", text, class_="fine"), table)


def _build_table(titles: Sequence[str], rows: Sequence[Markup], *, class_: str | None = None) -> Markup:
    head = build_row(*(build_element("th", title, class_="number" if title == "ms" else None) for title in titles))
    table = build_element("table", build_element("thead", head), build_element("tbody", *rows), class_=class_)
    return build_element("div", table, class_="wide")
