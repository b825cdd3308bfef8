"""Builds the HTML of a report's calls: cards for refusals and for approvals, rows of the table of calls."""

from __future__ import annotations

from collections.abc import Iterator

from praval_tools.cli.common import format_arguments
from praval_tools.journal.history import History, HistoryCall
from praval_tools.report import run_charts
from praval_tools.report.markup import Markup, build_code, build_element, build_row, escape_text


def _build_card(agent: str, code: Markup, *lines: object, class_: str | None = None) -> Markup:
    title = build_element("p", build_element("b", agent), " → ", build_code(code))
    return build_element("li", title, *lines, class_=class_)


def iter_refusals(history: History) -> Iterator[Markup]:
    """Yield a card for each refused call: the call, the reason, the rule."""
    for call in history.calls:
        decision = call.record.decision
        if decision is not None and not decision.allowed:
            rule = build_element("p", f"rule: {decision.rule} · outcome: {call.outcome}", class_="fine")
            yield _build_card(call.agent, _format_call(call), build_element("p", decision.reason), rule)


def iter_approvals(history: History) -> Iterator[Markup]:
    """Yield a card for each approval that was requested, with its answer."""
    for request in history.approval_requests:
        answer = history.find_answer(request)
        reason = f", {answer.reason}" if answer is not None and answer.reason else ""
        text = "nobody answered" if answer is None else f"{answer.by}: {answer.answer}{reason}"
        risk = build_element("p", f"Risk {request.risk_level}. {text}.")
        yield _build_card(request.agent or "operator", escape_text(request.tool_name), risk, class_="asked")


def build_dim_cell(content: object) -> Markup:
    """Return a cell that stands back."""
    return build_element("td", content, class_="dim")


def build_call_row(call: HistoryCall) -> Markup:
    """Return a call as a row of the table of calls."""
    record = call.record
    outcome_class = f"chip {run_charts.get_outcome_class(call.outcome)}"
    latency = "–" if record.latency_ms is None else f"{record.latency_ms:.1f}"
    return build_row(
        build_dim_cell(call.number),
        build_dim_cell(call.process_number),
        call.agent,
        build_element("td", build_code(_format_call(call)), class_="call inside" if call.depth else "call"),
        record.decision.rule if record.decision else "–",
        build_element("span", call.outcome.replace("_", " "), class_=outcome_class),
        build_element("td", latency, class_="number"),
        build_element("td", call.recovery_text, class_="doubtful" if call.recovery else "dim"),
        class_="even" if call.process_number % 2 == 0 else None,
    )


def _format_call(call: HistoryCall) -> Markup:
    return escape_text(f"{call.record.tool_name}({format_arguments(call.record.arguments)})", max_length=160)
