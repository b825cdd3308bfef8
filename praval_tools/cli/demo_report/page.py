"""The page itself: what is told during the play, put together at its end."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from html import escape
from importlib.resources import files

from attrs import define, field

from praval_tools.cli.demo_report import access_charts, run_charts
from praval_tools.cli.demo_report.markup import Markup, joined, tag, text
from praval_tools.cli.demo_summary import fate_of, outcome_of
from praval_tools.demo import phrases
from praval_tools.demo.question import Question
from praval_tools.demo.run_report import Account, Line
from praval_tools.demo.steps import Answered, Pictured, Recounted, Step, Surveyed

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_OPEN = """from praval_tools.journal import open_journal

with open_journal("journal.db") as journal:
    for call in journal.calls("demo"):
        print(call.agent, call.tool_name, call.outcome)"""


@define
class Reporter:
    """Hears every step, and writes the page once it is over."""

    question: Question
    _answered: Answered | None = field(default=None, init=False)
    _account: Account | None = field(default=None, init=False)
    _survey: access_charts.Survey | None = field(default=None, init=False)
    _picture: Pictured | None = field(default=None, init=False)

    def __call__(self, step: Step) -> None:
        """Take in the next step."""
        if isinstance(step, Answered):
            self._answered = step
        elif isinstance(step, Recounted):
            self._account = step.account
        elif isinstance(step, Surveyed):
            self._survey = access_charts.survey_of(step)
        elif isinstance(step, Pictured):
            self._picture = step

    def page(self) -> str:
        """Return the whole page; the play is over."""
        answered, account, survey = self._answered, self._account, self._survey
        assert answered is not None and account is not None and survey is not None
        head = tag(
            "head", tag("meta", charset="utf-8"), tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", name="color-scheme", content="light dark"),
            tag("meta", name="generator", content="praval-tools"),
            tag("title", f"praval-tools demo: {self.question.text}"), tag("style", _style()),
        )  # fmt: skip
        parts = (
            _opening(answered), _tiles(account, survey), _survival(account),
            None if self._picture is None else _pictured(self._picture), _permissions(survey), _refusals(account),
            _approvals(account), _figures(account), _calls(account), _ending(self.question),
        )  # fmt: skip
        return f"<!doctype html>\n{tag('html', head, tag('body', tag('main', *parts)), lang='en')}\n"


def _style() -> Markup:
    return Markup((files("praval_tools.cli.demo_report") / "style.css").read_text("utf-8"))


def _section(title: str, lead: str, *parts: object) -> Markup:
    return tag("section", tag("h2", title), tag("p", lead, class_="lead"), *parts)


def _opening(step: Answered) -> Markup:
    question, table = step.question, step.question.table
    told = list(step.report.findings)
    if step.words:
        told.append(f"Most frequent long words: {phrases.summary(step.words)}.")
    return tag(
        "header",
        tag("p", f"praval-tools demo · {table.name} · {len(table):,} {table.unit}", class_="eyebrow"),
        tag("h1", question.text),
        tag("p", step.report.headline, class_="answer"),
        tag("ul", *(tag("li", one) for one in told)),
        run_charts.comparison(question, step.groups),
        tag("p", f"Expected: the average of {phrases.expectation(question)}. "
                 "Rows are taken as independent of each other.", class_="fine"),
    )  # fmt: skip


def _tiles(account: Account, survey: access_charts.Survey) -> Markup:
    refused = sum(run_charts.colour(outcome) == "bad" for outcome in account.outcomes.elements())
    told = (
        (len(survey.matrix.agents), "agents", ""), (len(survey.matrix.tools), "tools", ""),
        (len(account.lines), "calls", ""), (refused, "refused", "bad"), (account.processes - 1, "times killed", "bad"),
        (account.kept, "replayed, not repeated", "good"), (account.repeated, "effects repeated", "good"),
    )  # fmt: skip
    tiles = (tag("li", tag("b", number, class_=kind or None), tag("span", words)) for number, words, kind in told)
    return tag("ul", *tiles, class_="tiles")


def _survival(account: Account) -> Markup:
    doubts = [tag("li", _doubt(line)) for line in account.lines if line.fate]
    effects = [
        tag("tr", tag("td", number, class_="dim"), *(tag("td", told) for told in (one.tool, one.by, one.text)))
        for number, one in enumerate(account.effects, start=1)
    ]
    head = tag("tr", *(tag("th", title) for title in ("", "tool", "by", "what was done")))
    once = "each exactly once" if not account.repeated and not account.missing else "and something is wrong"
    return _section(
        "Killed, and nothing happened twice",
        "The process killed itself between the effect of a call and its record. The next one opened the same run: what "
        "was recorded got its recorded result, and only what was open was settled.",
        run_charts.lanes(account),
        tag("ul", *doubts, class_="doubts"),
        tag("h3", f"{len(account.effects)} effects, {once}"),
        tag("div", tag("table", tag("thead", head), tag("tbody", *effects)), class_="wide"),
    )


def _doubt(line: Line) -> Markup:
    who = joined(tag("b", line.call.agent or "operator"), " ", tag("code", line.call.tool_name), ": ")
    if line.fate == "again":
        return joined(who, "in doubt. The tool is idempotent, so it ran again with the same key, found that key in the "
                      "file, and wrote nothing.")  # fmt: skip
    return joined(who, "in doubt. The tool is not idempotent, so it did not run again: the operator found its effect "
                  "in the file, and resolved the call with its result.")  # fmt: skip


def _pictured(step: Pictured) -> Markup:
    picture = tag("img", src=f"data:image/png;base64,{b64encode(step.png).decode()}", alt="The figures of the answer")
    return _section(
        "Drawn by an installed package",
        "Its tools were in the registry, and nobody could call them; the operator granted one call.",
        tag("figure", picture, tag("figcaption", step.caption, class_="fine")),
    )


def _permissions(survey: access_charts.Survey) -> Markup:
    return _section(
        "Who may call what, and by which rule",
        "At the end of the run. Every cell is what the registry would decide for that call.",
        access_charts.matrix(survey), tag("h3", "Who owns what"), access_charts.ownership(survey),
    )  # fmt: skip


def _refusals(account: Account) -> Markup:
    found = [line for line in account.lines if line.call.decision is not None and not line.call.decision.allowed]
    cards = [
        tag("li", tag("p", tag("b", line.call.agent or "operator"), " → ", tag("code", _call(line))),
            tag("p", line.call.decision.reason if line.call.decision else ""),
            tag("p", f"rule: {line.call.decision.rule if line.call.decision else ''} · outcome: {outcome_of(line)}",
                class_="fine"))
        for line in found
    ]  # fmt: skip
    return _section("Refused, and why", "A refusal is recorded like a call, with the rule that decided it.",
                    tag("ul", *cards, class_="cards"))  # fmt: skip


def _approvals(account: Account) -> Markup:
    answers = {line.call.tool_call_id: line.answer for line in account.lines}
    cards = []
    for one in account.asked:
        answer = answers.get(one.tool_call_id)
        told = "nobody answered" if answer is None else f"{answer.by}: {answer.answer}, {answer.reason}"
        cards.append(tag("li", tag("p", tag("b", one.agent or "operator"), " → ", tag("code", one.tool_name)),
                         tag("p", f"Risk {one.risk_level}. {told}."), class_="asked"))  # fmt: skip
    return _section("Approved", "What is declared to need an approval waits for a person; here the demo played one.",
                    tag("ul", *cards, class_="cards"))  # fmt: skip


def _figures(account: Account) -> Markup:
    return _section(
        "How the calls went", "As the journal has it.",
        tag("h3", "Outcomes"), run_charts.outcomes(account), tag("h3", "Calls per agent"),
        run_charts.per_agent(account),
        tag("h3", "How long each took"), run_charts.latency(account),
    )  # fmt: skip


def _calls(account: Account) -> Markup:
    titles = ("", "process", "agent", "call", "rule", "outcome", "ms", "afterwards")
    head = tag("tr", *(tag("th", title, class_="number" if title == "ms" else None) for title in titles))
    table = tag("table", tag("thead", head), tag("tbody", *_rows(account)), class_="calls")
    return _section("Every call", "In order; those that a tool made are indented under its own.",
                    tag("div", table, class_="wide"))  # fmt: skip


def _rows(account: Account) -> Iterator[Markup]:
    for line in account.lines:
        call, outcome = line.call, outcome_of(line)
        inside = "inside" if line.depth else None
        yield tag(
            "tr", tag("td", line.number, class_="dim"), tag("td", line.process, class_="dim"),
            tag("td", call.agent or "operator"), tag("td", tag("code", _call(line)), class_=inside),
            tag("td", call.decision.rule if call.decision else "–"),
            tag("td", tag("span", outcome, class_=f"chip {run_charts.colour(outcome)}")),
            tag("td", "–" if call.latency_ms is None else f"{call.latency_ms:.1f}", class_="number"),
            tag("td", fate_of(line), class_="doubtful" if line.fate else "dim"),
            class_="even" if line.process % 2 == 0 else None,
        )  # fmt: skip


def _call(line: Line) -> Markup:
    given = line.call.arguments
    told = phrases.arguments(given, each=60) if isinstance(given, dict) else str(given)
    return text(f"{line.call.tool_name}({told})", most=160)


def _ending(question: Question) -> Markup:
    source = tag("p", f"Data: {question.credits}") if question.credits else None
    return tag(
        "footer", source,
        tag("p", "Beside this page lie ", tag("code", "journal.db"), ", the journal of the run, and ",
            tag("code", "effects.jsonl"), ", what was done. To read the journal:"),
        tag("pre", Markup(escape(_OPEN))),
    )  # fmt: skip

