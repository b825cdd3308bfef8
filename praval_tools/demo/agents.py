"""The house and who works in it: four agents, each a function that calls its tools as itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attrs import define, field

from praval_tools import ToolCall, ToolRegistry, ToolResult, agent, current_agent
from praval_tools.demo import phrases
from praval_tools.demo.effects import EffectLog
from praval_tools.demo.question import Question
from praval_tools.demo.statistics import MIN_GROUP_ROWS, Average, Comparison
from praval_tools.demo.steps import CallStep, DecisionStep, ProfileStep, RemarkStep, StepCallback
from praval_tools.demo.tools import (
    Report,
    Word,
    Workspace,
    declare_data_tools,
    declare_report_tools,
    declare_table_tools,
)
from praval_tools.errors import ToolUsageError
from praval_tools.registry.agents import Agent

MAX_SAMPLE_ROWS = 20
MAX_SAMPLE_CALLS = 2

AGENT_DESCRIPTIONS = (
    ("librarian", "owns the data: describe_data, shared with all, and read_rows"),
    ("analyst", 'requests the category "tables"; owns publish, which needs an approval'),
    ("statistician", "lists two tools by name: average, fair_comparison"),
    ("reporter", "owns the notebook: note, shared with all, and read_notes"),
)


@define
class DemoApp:
    """A registry with the demo's tools and agents, the desk that the tools work on, and the agents by name."""

    registry: ToolRegistry
    workspace: Workspace
    agents: dict[str, Agent]


def build_app(question: Question, *, journal: Path | None = None, effects: EffectLog | None = None) -> DemoApp:
    """Declare every tool but the late one, and the four agents; what is done is kept in *journal*, if there is one."""
    registry = ToolRegistry(name="demo", journal=journal)
    desk = Workspace(question.table, effects if effects is not None else EffectLog())
    declare_data_tools(registry, desk)
    declare_table_tools(registry, desk)
    declare_report_tools(registry, desk)
    agents = (
        agent("librarian", registry=registry)(run_librarian),
        agent("analyst", tool_categories=["tables"], registry=registry)(run_analyst),
        agent("statistician", tools=["average", "fair_comparison"], registry=registry)(run_statistician),
        agent("reporter", registry=registry)(run_reporter),
    )
    return DemoApp(registry, desk, {one.name: one for one in agents})


def lend_rows(registry: ToolRegistry, *, by: str | None = None) -> None:
    """Lend the raw rows to the analyst, in the name of *by* or of whoever runs: a few calls, a few rows in each."""
    registry.grant(
        "read_rows",
        "analyst",
        by=by,
        key="samples",  # the same grant, with what is left of it, when the play is resumed
        max_calls=MAX_SAMPLE_CALLS,
        where={"count": {"maximum": MAX_SAMPLE_ROWS}},
        reason="samples, to see what the columns mean",
    )


@define
class AgentContext:
    """What an agent's function is handed: the question, and the one way to call tools, which is as the agent it is."""

    question: Question
    registry: ToolRegistry
    emit: StepCallback
    groups: list[Comparison] = field(factory=list)
    common_words: list[Word] = field(factory=list)

    def call(self, name: str, /, **arguments: Any) -> Any:
        """
        Call a tool as the agent whose function runs, tell what came of it, and return the value.

        Raises:
            ToolUsageError: The call did not succeed.
        """
        result = self.try_call(name, **arguments)
        if not result.success:
            raise ToolUsageError(f"The demo's {result.agent} could not call {name}: {result.error}")
        return result.result

    def try_call(self, name: str, /, **arguments: Any) -> ToolResult:
        """Call a tool as the agent whose function runs, and tell what came of it."""
        return self.try_call_as(current_agent(), name, **arguments)

    def try_call_as(self, caller: Agent, name: str, /, **arguments: Any) -> ToolResult:
        """Call a tool as *caller*, and tell what came of it."""
        result = caller.execute(ToolCall(name=name, arguments=arguments))
        summary = phrases.summarize_result(result.result, self.question.table.unit) if result.success else ""
        self.emit(CallStep(result, arguments, summary))
        return result

    def build_filter_arguments(self) -> dict[str, Any]:
        """Return the rows that the question is about, as the argument `only`, or no argument."""
        wanted = {name: list(values) for name, values in self.question.only.items()}
        return {"only": wanted} if wanted else {}


# ── what each of them does ───────────────────────────────────────────────────────────────────────


def run_librarian(stage: AgentContext) -> None:
    """Look at the data, and lend the raw rows to the analyst within limits."""
    stage.call("describe_data")
    lend_rows(stage.registry)


def run_analyst(stage: AgentContext) -> None:
    """Look at a sample, try to take everything, and compute the naive answer."""
    question = stage.question
    stage.call("read_rows", count=3, **stage.build_filter_arguments())
    everything = {"count": max(len(question.table), MAX_SAMPLE_ROWS + 1)}
    stage.try_call("read_rows", **everything)
    stage.emit(DecisionStep(stage.registry.explain("analyst", "read_rows", everything)))
    stage.call("count_rows", by=question.by, **stage.build_filter_arguments())
    if question.profile:
        found = stage.call(
            "average", measure=question.measure, by=list(question.profile), **stage.build_filter_arguments()
        )
        stage.emit(ProfileStep(question, found))
    if question.table.unit == "lines":
        stage.common_words = stage.call("common_words")
    naive = stage.call("average", measure=question.measure, by=[question.by], **stage.build_filter_arguments())
    stage.emit(RemarkStep(_describe_naive_answer(question, naive)))
    stage.call("note", text=_describe_naive_answer(question, naive))


def run_statistician(stage: AgentContext) -> None:
    """Set the figures right: compare each group with what its rows let expect."""
    question = stage.question
    within = {"within": list(question.within)} if question.within else {}
    stage.groups = stage.call(
        "fair_comparison", measure=question.measure, by=question.by, **within, **stage.build_filter_arguments()
    )
    for sentence in phrases.build_findings(question, stage.groups):
        stage.call("note", text=sentence)


def run_reporter(stage: AgentContext) -> Report:
    """Read the notebook and publish the answer."""
    notes = stage.call("read_notes")
    findings = [note.text for note in notes if note.author == "statistician"]
    report: Report = stage.call(
        "publish", headline=phrases.build_headline(stage.question, stage.groups), findings=findings
    )
    return report


def _describe_naive_answer(question: Question, found: list[Average]) -> str:
    large = [one for one in found if one.rows >= MIN_GROUP_ROWS] or found
    lowest, highest = (pick(large, key=lambda one: one.mean) for pick in (min, max))
    low, high = (f"{one.group} ({phrases.format_mean(question, one.mean)})" for one in (lowest, highest))
    return f"At first sight: {low} lowest, {high} highest."
