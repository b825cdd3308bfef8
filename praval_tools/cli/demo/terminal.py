"""Prints each step of the demo in a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import singledispatchmethod

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from praval_tools import Allow
from praval_tools.access.events import OwnershipTransferred, ToolAssigned, ToolRegistered
from praval_tools.cli.common import sanitize_text
from praval_tools.cli.demo import text_charts
from praval_tools.cli.matrix import build_matrix_tables
from praval_tools.cli.output import (
    build_grid,
    build_key_value_grid,
    build_rule_cell,
    build_tried_cells,
    print_parts,
    select_glyphs,
    to_cell,
    unwrap,
)
from praval_tools.demo import phrases, steps
from praval_tools.demo.run_report import RunReport
from praval_tools.names import format_count
from praval_tools.report.access_matrix import build_access_matrix

_MAX_WIDTH = 100
_BOUND_PHRASES = {"maximum": "at most", "minimum": "at least", "enum": "one of", "const": "only"}


def show_spinner(console: Console, text: str, *, is_enabled: bool = True) -> AbstractContextManager[object]:
    """Return a spinner for something that may take a second; in a pipe, or if it is not enabled, it shows nothing."""
    return console.status(f"{text} ...") if is_enabled and console.is_terminal else nullcontext()


def _indent(part: RenderableType, by: int = 3) -> Padding:
    return Padding(part, (0, 0, 0, by))


def _format_heading(text: str) -> Text:
    return Text(text, style="bold cyan")


class StepPrinter:
    """Prints each step as it happens."""

    def __init__(self, console: Console) -> None:
        self._console = console
        console.width = min(console.width, _MAX_WIDTH)
        self._glyphs = select_glyphs(console.encoding)

    def __call__(self, step: steps.Step) -> None:
        print_parts(self._console, *self.render(step))

    @singledispatchmethod
    def render(self, step: object) -> Iterator[RenderableType]:
        """Yield what is printed for *step*."""
        raise TypeError(f"Nothing is defined for how to print {step!r}.")

    @render.register
    def _render_opening(self, step: steps.OpeningStep) -> Iterator[RenderableType]:
        table = step.question.table
        yield to_cell(step.question.text, "bold")
        yield to_cell(f"Data: {table.name}, {format_count(len(table), table.unit)}", "dim")
        yield ""
        yield _indent(build_key_value_grid(step.agents, key_style="bold"), 2)

    @render.register
    def _render_scene(self, step: steps.SceneStep) -> Iterator[RenderableType]:
        yield ""
        yield _format_heading(f"{step.number}  {step.title}")
        yield _indent(Text(step.text, style="dim"))

    @render.register
    def _render_call(self, step: steps.CallStep) -> Iterator[RenderableType]:
        result, decision = step.result, step.result.decision
        mark = Text(self._glyphs.yes, "green") if result.success else Text(self._glyphs.no, "bold red")
        end = Text(result.outcome.value, "bold red")
        if result.success and result.replayed:
            end = Text("from the journal", "cyan")
        elif result.success and decision is not None:
            end = build_rule_cell(decision.rule, decision.allowed)
        call = Text.assemble(mark, " ", to_cell(result.agent or "operator", "bold"), " ", to_cell(result.name))
        room = self._console.width - call.cell_len - end.cell_len - 6
        call.append(f"({_fit_arguments(step.arguments, max(room, 1))})")
        line = Table.grid(expand=True)
        line.add_column(overflow="fold")
        line.add_column(justify="right", no_wrap=True)
        line.add_row(call, end)
        yield _indent(line, 1)
        reason = (decision.reason if decision is not None else "") or result.error
        if text := step.summary if result.success else reason:
            yield _indent(to_cell(text, "dim" if result.success else "", max_length=230))

    @render.register
    def _render_change(self, step: steps.RegistryChangeStep) -> Iterator[RenderableType]:
        text = describe_change(step)
        if text is not None:
            yield _indent(Text.assemble((f"{self._glyphs.change} ", "yellow"), text), 1)

    @render.register
    def _render_decision(self, step: steps.DecisionStep) -> Iterator[RenderableType]:
        rows = (build_tried_cells(tried, step.decision) for tried in step.decision.tried)
        yield ""
        yield _indent(build_grid(("rule", "holds", "because"), rows, unwrapped_columns=(0, 1)))
        if step.decision.remedy:
            yield _indent(to_cell(f"To change it: {step.decision.remedy}"))
        yield ""

    @render.register
    def _render_remark(self, step: steps.RemarkStep) -> Iterator[RenderableType]:
        yield _indent(to_cell(step.text))

    @render.register
    def _render_toolset_change(self, step: steps.ToolsetChangeStep) -> Iterator[RenderableType]:
        new = ", ".join(name for name in step.after if name not in step.before)
        text = Text.assemble("Tools of ", to_cell(step.agent, "bold"), ": ", to_cell(", ".join(step.before)))
        yield _indent(Text.assemble(text, *((", ", to_cell(f"+ {new}", "bold green")) if new else ())))

    @render.register
    def _render_profile(self, step: steps.ProfileStep) -> Iterator[RenderableType]:
        yield ""
        for line in text_charts.render_hourly_averages(step.question, step.averages, glyphs=self._glyphs):
            yield _indent(line)
        yield ""

    @render.register
    def _render_answer(self, step: steps.AnswerStep) -> Iterator[RenderableType]:
        yield ""
        yield _format_heading("Answer")
        yield _indent(to_cell(step.report.headline, "bold green"), 2)
        bullets = Table.grid(padding=(0, 1, 0, 0))
        for sentence in phrases.list_findings(step.report, step.words):
            bullets.add_row(Text(self._glyphs.bullet, style="dim"), to_cell(sentence))
        yield _indent(bullets, 2)
        yield ""
        yield _indent(text_charts.build_comparison_table(step.question, step.groups, glyphs=self._glyphs), 2)
        yield _indent(to_cell(phrases.describe_expectation(step.question), "dim"), 2)

    @render.register
    def _render_picture(self, step: steps.PictureStep) -> Iterator[RenderableType]:
        yield _indent(Text(f"A picture of {len(step.png):,} bytes for the report.", style="dim"))

    @render.register
    def _render_approval(self, step: steps.ApprovalStep) -> Iterator[RenderableType]:
        request, answer = step.request, step.answer
        agent, verb = to_cell(request.agent or "operator", "bold"), "allows" if isinstance(answer, Allow) else "refuses"
        tool, risk = to_cell(request.tool), f", risk {request.risk_level}"
        yield _indent(Text.assemble(("? ", "bold yellow"), agent, " needs an approval: ", tool, risk), 1)
        yield _indent(Text(f"The demo, acting as the {answer.by}, {verb} it: {answer.reason}.", "dim"))

    @render.register
    def _render_crash(self, step: steps.CrashStep) -> Iterator[RenderableType]:
        text = f"SIGKILL during {step.tool}: it took effect, its result is not recorded."
        yield _indent(Text(f"{self._glyphs.no} {text}", "bold red"), 1)

    @render.register
    def _render_resume(self, step: steps.ResumeStep) -> Iterator[RenderableType]:
        yield ""
        yield _indent(
            Text(f"Process {step.process_number} opens the run again and starts the program from the top.", "bold")
        )

    @render.register
    def _render_doubt(self, step: steps.InDoubtStep) -> Iterator[RenderableType]:
        tool, agent = to_cell(step.call.tool_name, "bold"), to_cell(step.call.agent)
        yield _indent(Text.assemble("In doubt: ", tool, " by ", agent, " started, and its result was not recorded."))
        yield _indent(Text(describe_doubt(step), style="dim"))

    @render.register
    def _render_replay(self, step: steps.ReplayStep) -> Iterator[RenderableType]:
        text = f"{step.replayed_count} calls get their results from the journal; none of them runs again."
        if step.replayed_count == 1:
            text = "1 call gets its result from the journal; it does not run again."
        yield _indent(Text(text, "cyan"))

    @render.register
    def _render_run_report(self, step: steps.RunReportStep) -> Iterator[RenderableType]:
        yield ""
        yield _format_heading("What happened, call by call")
        yield _indent(text_charts.build_calls_table(step.run_report, self._glyphs), 2)
        yield ""
        yield _format_heading("What the calls did")
        yield _indent(Text(describe_effects(step.run_report)), 2)

    @render.register
    def _render_access(self, step: steps.AccessStep) -> Iterator[RenderableType]:
        matrix = build_access_matrix(step.registry, agents=step.agents, tools=step.registry.list_all_tools())
        yield ""
        yield _format_heading("Who may call what now, and by which rule")
        yield _indent(Group(*build_matrix_tables(matrix, self._console.width - 2)), 2)
        yield _indent(Text("-  nothing gives the agent this tool", style="dim"), 2)

    @render.register
    def _render_closing(self, step: steps.ClosingStep) -> Iterator[RenderableType]:
        yield ""
        if step.question.credits:
            yield Text(f"Data: {step.question.credits}", style="dim")
        for title, command in step.commands:
            yield Text(f"{title}:", style="dim")
            yield unwrap(Text(f"  {command}", style="dim"))


def describe_doubt(step: steps.InDoubtStep) -> str:
    """Return what is done about a call in doubt, in words."""
    if step.is_idempotent:
        return "It is idempotent, so it runs again with the same key; that key is done, so it writes nothing."
    if step.has_effect:
        return (
            "It is not idempotent, so it is not run again. "
            "The operator sees that it took effect, and resolves the call."
        )
    return "It is not idempotent. The operator sees that it took no effect, and lets it run again."


def describe_effects(run_report: RunReport) -> str:
    """Say how many effects there were, and whether each happened once."""
    effects = run_report.effects
    tools, keys = sorted({effect.tool for effect in effects}), {effect.key for effect in effects}
    text = (
        f"{format_count(run_report.process_count, 'process', 'processes')} made "
        f"{format_count(len(run_report.calls), 'call')}. Those of {' and '.join(tools)} have an effect, a line in "
        f"effects.jsonl: {format_count(len(effects), 'line')} of {format_count(len(keys), 'call')}."
    )
    if run_report.repeated_effects or run_report.missing_effects:
        return f"{text} Happened twice: {run_report.repeated_effects}. Missing: {run_report.missing_effects}."
    return f"{text} Nothing happened twice, nothing is missing."


def _fit_arguments(arguments: dict[str, object], room: int) -> str:
    """Return the arguments of a call; where there is no room, each is shortened and then the whole is cut."""
    text = sanitize_text(phrases.format_arguments(arguments))
    if len(text) <= room:
        return text
    return sanitize_text(phrases.format_arguments(arguments, max_length=46), max_length=room)


def describe_change(step: steps.RegistryChangeStep) -> Text | None:
    """Return a sentence about a change of the registry; None where it needs no mention."""
    event = step.event
    if isinstance(event, ToolAssigned):
        by, agent = to_cell(event.grant.by, "bold"), to_cell(event.grant.agent, "bold")
        tool, limits = to_cell(event.grant.tool), to_cell(describe_limits(event))
        return Text.assemble(by, " lends ", tool, " to ", agent, ": ", limits)
    if isinstance(event, OwnershipTransferred):
        by, owner = to_cell(event.by, "bold"), to_cell(event.to, "bold")
        reason = to_cell(f" ({event.reason})" if event.reason else "")
        return Text.assemble(
            by, " hands ", to_cell(event.tool), " over to ", owner, " " if event.reason else "", reason
        )
    if isinstance(event, ToolRegistered):
        return Text.assemble("Tool ", to_cell(event.tool.name, "bold"), " is declared.")
    return None


def describe_limits(event: ToolAssigned) -> str:
    """Return a grant's limits in words."""
    grant = event.grant
    limits = [] if grant.max_calls is None else [format_count(grant.max_calls, "call")]
    for name, bound in (grant.where or {}).items():
        limits.extend(f"{name} {words} {bound[key]}" for key, words in _BOUND_PHRASES.items() if key in bound)
    return ", ".join(limits) or "without limits"
