"""The demo in a terminal: one method per kind of step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import singledispatchmethod
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from praval_tools import Allow
from praval_tools.access.events import OwnershipTransferred, ToolAssigned, ToolRegistered
from praval_tools.cli.common import sanitize_text
from praval_tools.cli.demo import text_charts
from praval_tools.cli.demo.run_summary import build_calls_table, summarize_effects
from praval_tools.cli.matrix import build_access_matrix, build_matrix_tables
from praval_tools.cli.output import build_grid, build_rule_cell, print_parts, to_cell
from praval_tools.demo import phrases, steps

_MAX_WIDTH = 100


def show_spinner(console: Console, text: str, *, is_enabled: bool = True) -> AbstractContextManager[Any]:
    """Return a spinner for something that may take a second; nothing in a pipe, or where *when* is false."""
    return console.status(f"{text} ...") if is_enabled and console.is_terminal else nullcontext()


class StepPrinter:
    """Prints each step as it is told."""

    def __init__(self, console: Console) -> None:
        self._console = console
        console.width = min(console.width, _MAX_WIDTH)
        self._glyphs = text_charts.select_glyphs(console.encoding)

    def __call__(self, step: steps.Step) -> None:
        self._print(*self.render(step))

    def _print(self, *parts: RenderableType) -> None:
        print_parts(self._console, *parts)

    def _indent(self, part: RenderableType, by: int = 2) -> Padding:
        return Padding(part, (0, 0, 0, by))

    @singledispatchmethod
    def render(self, step: Any) -> Iterator[RenderableType]:
        """Yield what is printed for *step*."""
        raise TypeError(f"No way to show {step!r}.")

    @render.register
    def _render_opening(self, step: steps.OpeningStep) -> Iterator[RenderableType]:
        table = step.question.table
        yield Text(sanitize_text(step.question.text), style="bold")
        yield Text(f"Data: {sanitize_text(table.name)}, {len(table):,} {table.unit}", style="dim")
        yield ""
        ways = build_grid(("", ""), [(to_cell(name, "bold"), to_cell(way)) for name, way in step.agents])
        ways.show_header = False
        yield self._indent(ways)

    @render.register
    def _render_scene(self, step: steps.SceneStep) -> Iterator[RenderableType]:
        yield ""
        yield Text.assemble((f"{step.number}  {step.title}", "bold cyan"))
        yield self._indent(Text(step.text, style="dim"), 3)

    @render.register
    def _render_call(self, step: steps.CallStep) -> Iterator[RenderableType]:
        result, decision = step.result, step.result.decision
        mark = Text(self._glyphs.yes, "green") if result.success else Text(self._glyphs.no, "bold red")
        end = Text(result.outcome.value, "bold red")
        if result.success and result.replayed:
            end = Text("from the journal", "cyan")
        elif result.success and decision is not None:
            end = build_rule_cell(decision.rule, decision.allowed)
        called = Text.assemble(mark, " ", to_cell(result.agent or "operator", "bold"), " ", to_cell(result.name))
        room = self._console.width - called.cell_len - end.cell_len - 6
        called.append(f"({_fit_arguments(step.arguments, max(room, 1))})")
        line = Table.grid(expand=True)
        line.add_column(overflow="fold")
        line.add_column(justify="right", no_wrap=True)
        line.add_row(called, end)
        yield self._indent(line, 1)
        told = step.summary if result.success else (decision.reason if decision is not None else "") or result.error
        if told:
            yield self._indent(to_cell(told, "dim" if result.success else "", max_length=230), 3)

    @render.register
    def _render_change(self, step: steps.RegistryChangeStep) -> Iterator[RenderableType]:
        text = describe_change(step)
        if text is not None:
            yield self._indent(Text.assemble((f"{self._glyphs.change} ", "yellow"), text), 1)

    @render.register
    def _render_decision(self, step: steps.DecisionStep) -> Iterator[RenderableType]:
        rows = [
            (
                Text(one.rule, style="bold" if one.rule == step.decision.rule else ""),
                Text("yes" if one.holds else "no", style="" if one.holds else "dim"),
                to_cell(one.why, "" if one.holds else "dim"),
            )
            for one in step.decision.tried
        ]
        yield ""
        yield self._indent(build_grid(("rule", "holds", "because"), rows, unwrapped_columns=(0, 1)), 3)
        if step.decision.remedy:
            yield self._indent(Text(f"To change it: {sanitize_text(step.decision.remedy)}"), 3)
        yield ""

    @render.register
    def _render_remark(self, step: steps.RemarkStep) -> Iterator[RenderableType]:
        yield self._indent(to_cell(step.text), 3)

    @render.register
    def _render_toolset_change(self, step: steps.ToolsetChangeStep) -> Iterator[RenderableType]:
        new = [name for name in step.after if name not in step.before]
        held = Text.assemble(
            "Tools of ", (sanitize_text(step.agent), "bold"), f": {sanitize_text(', '.join(step.before))}"
        )
        held.append_text(Text.assemble(", ", (f"+ {sanitize_text(', '.join(new))}", "bold green")) if new else Text(""))
        yield self._indent(held, 3)

    @render.register
    def _render_profile(self, step: steps.ProfileStep) -> Iterator[RenderableType]:
        question = step.question
        yield ""
        for line in text_charts.render_hourly_averages(question, step.averages, glyphs=self._glyphs):
            yield self._indent(line, 3)
        yield ""

    @render.register
    def _render_answer(self, step: steps.AnswerStep) -> Iterator[RenderableType]:
        yield ""
        yield Text("Answer", style="bold cyan")
        yield self._indent(Text(sanitize_text(step.report.headline), style="bold green"))
        told = list(step.report.findings)
        if step.words:
            told.append(f"Most frequent long words: {phrases.summarize_result(step.words)}.")
        bullets = Table.grid(padding=(0, 1, 0, 0))
        for sentence in told:
            bullets.add_row(Text(self._glyphs.bullet, style="dim"), to_cell(sentence))
        yield self._indent(bullets)
        yield ""
        yield self._indent(text_charts.build_comparison_table(step.question, step.groups, glyphs=self._glyphs))
        yield self._indent(
            Text(f"Expected: the average of {phrases.describe_expectation(step.question)}. "
                 f"Rows are taken as independent of each other.", style="dim")
        )  # fmt: skip

    @render.register
    def _render_picture(self, step: steps.PictureStep) -> Iterator[RenderableType]:
        yield self._indent(Text(f"A picture of {len(step.png):,} bytes, for the report.", style="dim"), 3)

    @render.register
    def _render_approval(self, step: steps.ApprovalStep) -> Iterator[RenderableType]:
        request, answer = step.request, step.answer
        who, verb = to_cell(request.agent or "operator", "bold"), "allows" if isinstance(answer, Allow) else "refuses"
        yield self._indent(Text.assemble(("? ", "bold yellow"), who, " needs an approval: ", to_cell(request.tool),
                                           f", risk {request.risk_level}"), 1)  # fmt: skip
        yield self._indent(Text(f"The {answer.by}, played by the demo, {verb} it: {answer.reason}.", "dim"), 3)

    @render.register
    def _render_crash(self, step: steps.CrashStep) -> Iterator[RenderableType]:
        told = f"Killed by SIGKILL inside of {step.tool}: its effect is there, its result is not."
        yield self._indent(Text(f"{self._glyphs.no} {told}", "bold red"), 1)

    @render.register
    def _render_resume(self, step: steps.ResumeStep) -> Iterator[RenderableType]:
        yield ""
        yield self._indent(
            Text(f"Process {step.process_number} opens the run again, and plays from the top.", "bold"), 3
        )

    @render.register
    def _render_doubt(self, step: steps.InDoubtStep) -> Iterator[RenderableType]:
        call = step.call
        yield self._indent(Text.assemble(
            "In doubt: ", (sanitize_text(call.tool_name), "bold"), f" by {sanitize_text(call.agent)} began, and nobody knows how it "
            "ended."
        ), 3)  # fmt: skip
        yield self._indent(Text(describe_doubt(step), style="dim"), 3)

    @render.register
    def _render_replay(self, step: steps.ReplayStep) -> Iterator[RenderableType]:
        told = f"{step.replayed_count} calls get their results from the journal; none of them runs again."
        yield self._indent(Text(told, "cyan"), 3)

    @render.register
    def _render_run_report(self, step: steps.RunReportStep) -> Iterator[RenderableType]:
        yield ""
        yield Text("What happened, call by call", style="bold cyan")
        yield self._indent(build_calls_table(step.run_report, self._glyphs))
        yield ""
        yield Text("What was done to the world", style="bold cyan")
        yield self._indent(Text(summarize_effects(step.run_report)))

    @render.register
    def _render_access(self, step: steps.AccessStep) -> Iterator[RenderableType]:
        found = build_access_matrix(step.registry, agents=step.agents, tools=step.registry.list_all_tools())
        yield ""
        yield Text("Who may call what now, and by which rule", style="bold cyan")
        yield self._indent(Group(*build_matrix_tables(found, self._console.width - 2)))
        yield self._indent(Text("-  nothing gives the agent this tool", style="dim"))

    @render.register
    def _render_closing(self, step: steps.ClosingStep) -> Iterator[RenderableType]:
        yield ""
        if step.question.credits:
            yield Text(f"Data: {step.question.credits}", style="dim")
        if not step.has_own_data:
            yield Text("Your own data, a CSV file or a folder of text:\n  praval-tools demo PATH", style="dim")
        if step.missing_package:
            yield Text(
                f"With a package of tools, which draws the answer:\n  pip install {step.missing_package}", style="dim"
            )
        yield Text(f"Ask why:\n  {_EXAMPLE_COMMAND}", style="dim")


_EXAMPLE_COMMAND = "praval-tools --app praval_tools.demo:registry why analyst read_rows count=21"


def describe_doubt(step: steps.InDoubtStep) -> str:
    """Return what is done about a call in doubt, in words."""
    if step.is_idempotent:
        return "It is idempotent, so it runs again with the same key; it finds that key done, and writes nothing."
    if step.has_effect:
        return "It is not idempotent, so it does not run again. The operator finds its effect, and resolves the call."
    return "It is not idempotent. The operator finds no effect of it, and lets it run again."


def _fit_arguments(arguments: dict[str, Any], room: int) -> str:
    """Return the arguments of a call, each shortened and then the whole cut where they are longer than *room*."""
    told = sanitize_text(phrases.format_arguments(arguments))
    return (
        told
        if len(told) <= room
        else sanitize_text(phrases.format_arguments(arguments, max_length=46), max_length=room)
    )


def describe_change(step: steps.RegistryChangeStep) -> Text | None:
    """Return a sentence about a change of the registry; None where it is not worth one."""
    event = step.event
    if isinstance(event, ToolAssigned):
        grant = event.grant
        return Text.assemble(to_cell(grant.by, "bold"), f" lends {sanitize_text(grant.tool)} to ", to_cell(grant.agent, "bold"),
                             f": {sanitize_text(describe_limits(event))}")  # fmt: skip
    if isinstance(event, OwnershipTransferred):
        why = f" ({sanitize_text(event.reason)})" if event.reason else ""
        to = to_cell(event.to, "bold")
        return Text.assemble(to_cell(event.by, "bold"), f" hands {sanitize_text(event.tool)} over to ", to, why)
    if isinstance(event, ToolRegistered):
        return Text.assemble("Tool ", to_cell(event.tool.name, "bold"), " is declared.")
    return None


def describe_limits(event: ToolAssigned) -> str:
    """Return a grant's limits in words."""
    grant = event.grant
    told = [] if grant.max_calls is None else [f"{grant.max_calls} call{'s' if grant.max_calls != 1 else ''}"]
    for name, bound in (grant.where or {}).items():
        told.extend(f"{name} {words} {bound[key]}" for key, words in _BOUND_PHRASES.items() if key in bound)
    return ", ".join(told) or "without limits"


_BOUND_PHRASES = {"maximum": "at most", "minimum": "at least", "enum": "one of", "const": "only"}
