"""Builds the HTML report of the demo from the steps of its run."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator

from attrs import define, field

from praval_tools.cli.demo.report.comparison import render_comparison
from praval_tools.cli.report import call_sections
from praval_tools.cli.report.document import render_document
from praval_tools.demo import phrases
from praval_tools.demo.question import Question
from praval_tools.demo.run_report import RunReport
from praval_tools.demo.steps import AccessStep, AnswerStep, PictureStep, RunReportStep, Step
from praval_tools.journal.history import HistoryCall
from praval_tools.names import format_count
from praval_tools.report import access_charts, run_charts
from praval_tools.report.markup import (
    Markup,
    build_code,
    build_element,
    build_row,
    join_markup,
)

_RECOVERY_TEXTS = {
    "again": "in doubt. The tool is idempotent, so it ran again with the same key, found that key in the file, and "
    "wrote nothing.",
    "resolved": "in doubt. The tool is not idempotent, so it did not run again: the operator found its effect in the "
    "file, and resolved the call with its result.",
}


@define
class ReportBuilder:
    """Takes in every step, and builds the page at the end."""

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
            self._survey = access_charts.survey_access(step.registry, step.agents)
        elif isinstance(step, PictureStep):
            self._picture = step

    def build_page(self) -> str:
        """Return the whole page; the demo is over."""
        answer, run_report, survey = self._answer, self._run_report, self._survey
        assert answer is not None and run_report is not None and survey is not None
        content = (
            _build_answer(answer)
            | _build_run(run_report)
            | {
                "tiles": join_markup(*_iter_tiles(run_report, survey)),
                "picture": None if self._picture is None else _build_picture(self._picture),
                "matrix": access_charts.render_matrix(survey),
                "ownership": access_charts.render_ownership(survey),
            }
        )
        return render_document(f"praval-tools demo: {self.question.text}", "praval_tools.cli.demo.report", content)


def _build_answer(step: AnswerStep) -> dict[str, object]:
    question, table = step.question, step.question.table
    findings = phrases.list_findings(step.report, step.words)
    return {
        "question": question.text,
        "data_name": table.name,
        "row_count": format_count(len(table), table.unit),
        "headline": step.report.headline,
        "findings": join_markup(*(build_element("li", finding) for finding in findings)),
        "comparison": render_comparison(question, step.groups),
        "expectation": phrases.describe_expectation(question),
        "credits": build_element("p", f"Data: {question.credits}") if question.credits else None,
    }


def _build_run(run_report: RunReport) -> dict[str, object]:
    is_exact = not run_report.repeated_effects and not run_report.missing_effects
    build_dim_cell = call_sections.build_dim_cell
    effects = enumerate(run_report.effects, start=1)
    return {
        "timeline": run_charts.render_timeline(run_report, process_end="killed"),
        "doubts": join_markup(*(_build_doubt(call) for call in run_report.calls if call.recovery)),
        "effects_title": f"{format_count(len(run_report.effects), 'effect')}, "
        + ("each exactly once" if is_exact else "and something is wrong"),
        "effects": join_markup(
            *(build_row(build_dim_cell(number), effect.tool, effect.by, effect.text) for number, effect in effects)
        ),
        "refusals": join_markup(*call_sections.iter_refusals(run_report)),
        "approvals": join_markup(*call_sections.iter_approvals(run_report)),
        "outcomes": run_charts.render_outcomes(run_report),
        "calls_per_agent": run_charts.render_calls_per_agent(run_report),
        "latencies": run_charts.render_latencies(run_report),
        "calls": join_markup(*map(call_sections.build_call_row, run_report.calls)),
    }


def _iter_tiles(run_report: RunReport, survey: access_charts.AccessSurvey) -> Iterator[Markup]:
    outcomes = run_report.outcome_counts.elements()
    for number, text, class_ in (
        (len(survey.matrix.agents), "agents", None),
        (len(survey.matrix.tools), "tools", None),
        (len(run_report.calls), "calls", None),
        (sum(run_charts.get_outcome_class(outcome) == "bad" for outcome in outcomes), "refused", "bad"),
        (run_report.process_count - 1, "times killed", "bad"),
        (run_report.replayed_calls, "replayed, not repeated", "good"),
        (run_report.repeated_effects, "effects repeated", "good"),
    ):
        yield build_element("li", build_element("b", number, class_=class_), build_element("span", text))


def _build_doubt(call: HistoryCall) -> Markup:
    tool = build_code(call.record.tool_name)
    return build_element("li", build_element("b", call.agent), " ", tool, ": ", _RECOVERY_TEXTS[call.recovery])


def _build_picture(step: PictureStep) -> Markup:
    source = f"data:image/png;base64,{b64encode(step.png).decode()}"
    picture = build_element("img", src=source, alt="The figures of the answer")
    text = "Its tools were in the registry, and nobody could call them; the operator granted one call."
    return build_element(
        "section",
        build_element("h2", "Drawn by an installed package"),
        build_element("p", text, class_="lead"),
        build_element("figure", picture, build_element("figcaption", step.caption, class_="fine")),
    )
