"""The page itself: what is told during the play, put together at its end."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from html import escape
from importlib.resources import files

from attrs import define, field

from praval_tools.cli.demo.report import access_charts, run_charts
from praval_tools.cli.demo.report.markup import Markup, build_element, escape_text, join_markup
from praval_tools.cli.demo.run_summary import describe_recovery, get_outcome_name
from praval_tools.demo import phrases
from praval_tools.demo.question import Question
from praval_tools.demo.run_report import DemoCall, RunReport
from praval_tools.demo.steps import AccessStep, AnswerStep, PictureStep, RunReportStep, Step

_CONTENT_SECURITY_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_READ_JOURNAL_EXAMPLE = """from praval_tools.journal import open_journal

with open_journal("journal.db") as journal:
    for call in journal.calls("demo"):
        print(call.agent, call.tool_name, call.outcome)"""


@define
class ReportBuilder:
    """Hears every step, and writes the page once it is over."""

    question: Question
    _answer: AnswerStep | None = field(default=None, init=False)
    _run_report: RunReport | None = field(default=None, init=False)
    _survey: access_charts.AccessSurvey | None = field(default=None, init=False)
    _picture: PictureStep | None = field(default=None, init=False)

    def __call__(self, step: Step) -> None:
        """Take in the next step."""
        if isinstance(step, AnswerStep):
            self._answer = step
        elif isinstance(step, RunReportStep):
            self._run_report = step.run_report
        elif isinstance(step, AccessStep):
            self._survey = access_charts.survey_access(step)
        elif isinstance(step, PictureStep):
            self._picture = step

    def build_page(self) -> str:
        """Return the whole page; the play is over."""
        answered, account, survey = self._answer, self._run_report, self._survey
        assert answered is not None and account is not None and survey is not None
        head = build_element(
            "head", build_element("meta", charset="utf-8"), build_element("meta", http_equiv="Content-Security-Policy", content=_CONTENT_SECURITY_POLICY),
            build_element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            build_element("meta", name="color-scheme", content="light dark"),
            build_element("meta", name="generator", content="praval-tools"),
            build_element("title", f"praval-tools demo: {self.question.text}"), build_element("style", _read_style()),
        )  # fmt: skip
        parts = (
            _build_header(answered), _build_tiles(account, survey), _build_crash_section(account),
            None if self._picture is None else _build_picture_section(self._picture), _build_access_section(survey), _build_refusals_section(account),
            _build_approvals_section(account), _build_charts_section(account), _build_calls_section(account), _build_footer(self.question),
        )  # fmt: skip
        return f"<!doctype html>\n{build_element('html', head, build_element('body', build_element('main', *parts)), lang='en')}\n"


def _read_style() -> Markup:
    return Markup((files("praval_tools.cli.demo.report") / "style.css").read_text("utf-8"))


def _build_section(title: str, lead: str, *parts: object) -> Markup:
    return build_element("section", build_element("h2", title), build_element("p", lead, class_="lead"), *parts)


def _build_header(step: AnswerStep) -> Markup:
    question, table = step.question, step.question.table
    told = list(step.report.findings)
    if step.words:
        told.append(f"Most frequent long words: {phrases.summarize_result(step.words)}.")
    return build_element(
        "header",
        build_element("p", f"praval-tools demo · {table.name} · {len(table):,} {table.unit}", class_="eyebrow"),
        build_element("h1", question.text),
        build_element("p", step.report.headline, class_="answer"),
        build_element("ul", *(build_element("li", one) for one in told)),
        run_charts.render_comparison(question, step.groups),
        build_element("p", f"Expected: the average of {phrases.describe_expectation(question)}. "
                 "Rows are taken as independent of each other.", class_="fine"),
    )  # fmt: skip


def _build_tiles(account: RunReport, survey: access_charts.AccessSurvey) -> Markup:
    refused = sum(run_charts.get_outcome_class(outcome) == "bad" for outcome in account.outcome_counts.elements())
    told = (
        (len(survey.matrix.agents), "agents", ""), (len(survey.matrix.tools), "tools", ""),
        (len(account.calls), "calls", ""), (refused, "refused", "bad"), (account.process_count - 1, "times killed", "bad"),
        (account.replayed_calls, "replayed, not repeated", "good"), (account.repeated_effects, "effects repeated", "good"),
    )  # fmt: skip
    tiles = (
        build_element("li", build_element("b", number, class_=kind or None), build_element("span", words))
        for number, words, kind in told
    )
    return build_element("ul", *tiles, class_="tiles")


def _build_crash_section(account: RunReport) -> Markup:
    doubts = [build_element("li", _build_doubt_item(line)) for line in account.calls if line.recovery]
    effects = [
        build_element(
            "tr",
            build_element("td", number, class_="dim"),
            *(build_element("td", told) for told in (one.tool, one.by, one.text)),
        )
        for number, one in enumerate(account.effects, start=1)
    ]
    head = build_element("tr", *(build_element("th", title) for title in ("", "tool", "by", "what was done")))
    once = (
        "each exactly once"
        if not account.repeated_effects and not account.missing_effects
        else "and something is wrong"
    )
    return _build_section(
        "Killed, and nothing happened twice",
        "The process killed itself between the effect of a call and its record. The next one opened the same run: what "
        "was recorded got its recorded result, and only what was open was settled.",
        run_charts.render_swimlanes(account),
        build_element("ul", *doubts, class_="doubts"),
        build_element("h3", f"{len(account.effects)} effects, {once}"),
        build_element(
            "div", build_element("table", build_element("thead", head), build_element("tbody", *effects)), class_="wide"
        ),
    )


def _build_doubt_item(line: DemoCall) -> Markup:
    who = join_markup(
        build_element("b", line.record.agent or "operator"), " ", build_element("code", line.record.tool_name), ": "
    )
    if line.recovery == "again":
        return join_markup(who, "in doubt. The tool is idempotent, so it ran again with the same key, found that key in the "
                      "file, and wrote nothing.")  # fmt: skip
    return join_markup(who, "in doubt. The tool is not idempotent, so it did not run again: the operator found its effect "
                  "in the file, and resolved the call with its result.")  # fmt: skip


def _build_picture_section(step: PictureStep) -> Markup:
    picture = build_element(
        "img", src=f"data:image/png;base64,{b64encode(step.png).decode()}", alt="The figures of the answer"
    )
    return _build_section(
        "Drawn by an installed package",
        "Its tools were in the registry, and nobody could call them; the operator granted one call.",
        build_element("figure", picture, build_element("figcaption", step.caption, class_="fine")),
    )


def _build_access_section(survey: access_charts.AccessSurvey) -> Markup:
    return _build_section(
        "Who may call what, and by which rule",
        "At the end of the run. Every cell is what the registry would decide for that call.",
        access_charts.render_matrix(survey), build_element("h3", "Who owns what"), access_charts.render_ownership(survey),
    )  # fmt: skip


def _build_refusals_section(account: RunReport) -> Markup:
    found = [line for line in account.calls if line.record.decision is not None and not line.record.decision.allowed]
    cards = [
        build_element("li", build_element("p", build_element("b", line.record.agent or "operator"), " → ", build_element("code", _format_call(line))),
            build_element("p", line.record.decision.reason if line.record.decision else ""),
            build_element("p", f"rule: {line.record.decision.rule if line.record.decision else ''} · outcome: {get_outcome_name(line)}",
                class_="fine"))
        for line in found
    ]  # fmt: skip
    return _build_section("Refused, and why", "A refusal is recorded like a call, with the rule that decided it.",
                    build_element("ul", *cards, class_="cards"))  # fmt: skip


def _build_approvals_section(account: RunReport) -> Markup:
    answers = {line.record.tool_call_id: line.approval_answer for line in account.calls}
    cards = []
    for one in account.approval_requests:
        answer = answers.get(one.tool_call_id)
        told = "nobody answered" if answer is None else f"{answer.by}: {answer.answer}, {answer.reason}"
        cards.append(build_element("li", build_element("p", build_element("b", one.agent or "operator"), " → ", build_element("code", one.tool_name)),
                         build_element("p", f"Risk {one.risk_level}. {told}."), class_="asked"))  # fmt: skip
    return _build_section("Approved", "What is declared to need an approval waits for a person; here the demo played one.",
                    build_element("ul", *cards, class_="cards"))  # fmt: skip


def _build_charts_section(account: RunReport) -> Markup:
    return _build_section(
        "How the calls went", "As the journal has it.",
        build_element("h3", "Outcomes"), run_charts.render_outcomes(account), build_element("h3", "Calls per agent"),
        run_charts.render_calls_per_agent(account),
        build_element("h3", "How long each took"), run_charts.render_latencies(account),
    )  # fmt: skip


def _build_calls_section(account: RunReport) -> Markup:
    titles = ("", "process", "agent", "call", "rule", "outcome", "ms", "afterwards")
    head = build_element(
        "tr", *(build_element("th", title, class_="number" if title == "ms" else None) for title in titles)
    )
    table = build_element(
        "table", build_element("thead", head), build_element("tbody", *_build_call_rows(account)), class_="calls"
    )
    return _build_section("Every call", "In order; those that a tool made are indented under its own.",
                    build_element("div", table, class_="wide"))  # fmt: skip


def _build_call_rows(account: RunReport) -> Iterator[Markup]:
    for line in account.calls:
        call, outcome = line.record, get_outcome_name(line)
        inside = "inside" if line.depth else None
        yield build_element(
            "tr", build_element("td", line.number, class_="dim"), build_element("td", line.process_number, class_="dim"),
            build_element("td", call.agent or "operator"), build_element("td", build_element("code", _format_call(line)), class_=inside),
            build_element("td", call.decision.rule if call.decision else "–"),
            build_element("td", build_element("span", outcome, class_=f"chip {run_charts.get_outcome_class(outcome)}")),
            build_element("td", "–" if call.latency_ms is None else f"{call.latency_ms:.1f}", class_="number"),
            build_element("td", describe_recovery(line), class_="doubtful" if line.recovery else "dim"),
            class_="even" if line.process_number % 2 == 0 else None,
        )  # fmt: skip


def _format_call(line: DemoCall) -> Markup:
    given = line.record.arguments
    told = phrases.format_arguments(given, max_length=60) if isinstance(given, dict) else str(given)
    return escape_text(f"{line.record.tool_name}({told})", max_length=160)


def _build_footer(question: Question) -> Markup:
    source = build_element("p", f"Data: {question.credits}") if question.credits else None
    return build_element(
        "footer", source,
        build_element("p", "Beside this page lie ", build_element("code", "journal.db"), ", the journal of the run, and ",
            build_element("code", "effects.jsonl"), ", what was done. To read the journal:"),
        build_element("pre", Markup(escape(_READ_JOURNAL_EXAMPLE))),
    )  # fmt: skip
