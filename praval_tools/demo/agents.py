"""What the demo's four agents do: one function per agent, which calls its tools."""

from __future__ import annotations

from typing import Any

from attrs import define, field

from praval_tools.demo import phrases
from praval_tools.demo.question import Question
from praval_tools.demo.statistics import MIN_GROUP_ROWS, Average, Comparison
from praval_tools.demo.steps import CallStep, DecisionStep, ProfileStep, RemarkStep, StepCallback
from praval_tools.demo.tools import Report, Word
from praval_tools.errors import ToolUsageError
from praval_tools.registry.agents import Agent
from praval_tools.registry.decorators import current_agent
from praval_tools.registry.registry import ToolRegistry
from praval_tools.tools.call import ToolCall, ToolResult

MAX_SAMPLE_ROWS = 20
MAX_SAMPLE_CALLS = 2
SAMPLE_GRANT = "samples"
"""The key of the grant by which the raw rows are lent."""

AGENT_DESCRIPTIONS = (
    ("librarian", "owns the data: describe_data, shared with all, and read_rows"),
    ("analyst", 'requests the category "tables"; owns publish, which needs an approval'),
    ("statistician", "lists two tools by name: average, fair_comparison"),
    ("reporter", "owns the notebook: note, shared with all, and read_notes"),
)


@define
class AgentContext:
    """What an agent's function gets: the question, the registry, and methods to call tools and report it."""

    question: Question
    registry: ToolRegistry
    emit: StepCallback
    groups: list[Comparison] = field(factory=list)
    common_words: list[Word] = field(factory=list)

    def call(self, name: str, /, **arguments: object) -> Any:
        """
        Call a tool as the agent whose function runs, emit the step, and return the value.

        Raises:
            ToolUsageError: The call did not succeed.
        """
        result = self.try_call(name, **arguments)
        if not result.success:
            raise ToolUsageError(f"The demo's {result.agent} could not call {name}: {result.error}")
        return result.result

    def try_call(self, name: str, /, **arguments: object) -> ToolResult:
        """Call a tool as the agent whose function runs, and emit the step."""
        return self.try_call_as(current_agent(), name, **arguments)

    def try_call_as(self, caller: Agent, name: str, /, **arguments: object) -> ToolResult:
        """Call a tool as *caller*, and emit the step."""
        result = caller.execute(ToolCall(name=name, arguments=arguments))
        summary = phrases.summarize_result(result.result, self.question.table.unit) if result.success else ""
        self.emit(CallStep(result, arguments, summary))
        return result

    def build_filter_arguments(self) -> dict[str, object]:
        """Return the rows that the question is about, as the argument `only`, or no argument."""
        only = {name: list(values) for name, values in self.question.only.items()}
        return {"only": only} if only else {}


def lend_rows(registry: ToolRegistry, *, by: str | None = None) -> None:
    """Lend the raw rows to the analyst, in the name of *by* or of the running agent: a few calls, a few rows each."""
    registry.grant(
        "read_rows",
        "analyst",
        by=by,
        key=SAMPLE_GRANT,  # the same grant, with the calls that it has left, when the run is resumed
        max_calls=MAX_SAMPLE_CALLS,
        where={"count": {"maximum": MAX_SAMPLE_ROWS}},
        reason="samples, to see what the columns mean",
    )


def run_librarian(context: AgentContext) -> None:
    """Look at the data, and lend the raw rows to the analyst within limits."""
    context.call("describe_data")
    lend_rows(context.registry)


def run_analyst(context: AgentContext) -> None:
    """Look at a sample, try to read everything, and compute the naive answer."""
    question, only = context.question, context.build_filter_arguments()
    context.call("read_rows", count=3, **only)
    everything = {"count": max(len(question.table), MAX_SAMPLE_ROWS + 1)}
    context.try_call("read_rows", **everything)
    context.emit(DecisionStep(context.registry.explain("analyst", "read_rows", everything)))
    context.call("count_rows", by=question.by, **only)
    if question.profile:
        averages = context.call("average", measure=question.measure, by=list(question.profile), **only)
        context.emit(ProfileStep(question, averages))
    if question.table.unit == "line":
        context.common_words = context.call("common_words")
    averages = context.call("average", measure=question.measure, by=[question.by], **only)
    naive_answer = _describe_naive_answer(question, averages)
    context.emit(RemarkStep(naive_answer))
    context.call("note", text=naive_answer)


def run_statistician(context: AgentContext) -> None:
    """Correct the figures: compare each group with what its rows would have by chance."""
    question, arguments = context.question, context.build_filter_arguments()
    if question.within:
        arguments = {"within": list(question.within)} | arguments
    context.groups = context.call("fair_comparison", measure=question.measure, by=question.by, **arguments)
    for sentence in phrases.build_findings(question, context.groups):
        context.call("note", text=sentence)


def run_reporter(context: AgentContext) -> Report:
    """Read the notebook and publish the answer."""
    findings = [note.text for note in context.call("read_notes") if note.author == "statistician"]
    headline = phrases.build_headline(context.question, context.groups)
    report: Report = context.call("publish", headline=headline, findings=findings)
    return report


def _describe_naive_answer(question: Question, averages: list[Average]) -> str:
    large = [average for average in averages if average.rows >= MIN_GROUP_ROWS] or averages
    low, high = (
        f"{average.group} ({phrases.format_mean(question, average.mean)})"
        for average in (pick(large, key=lambda average: average.mean) for pick in (min, max))
    )
    return f"At first sight: {low} lowest, {high} highest."
