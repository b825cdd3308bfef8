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
from praval_tools.cli import text_charts
from praval_tools.cli.common import shown
from praval_tools.cli.demo_summary import balance, timeline
from praval_tools.cli.matrix import matrix_of, matrix_tables
from praval_tools.cli.output import cell, grid, print_all, rule_cell
from praval_tools.demo import phrases, steps

_WIDEST = 100


def working(console: Console, text: str, *, when: bool = True) -> AbstractContextManager[Any]:
    """Return a spinner for something that may take a second; nothing in a pipe, or where *when* is false."""
    return console.status(f"{text} ...") if when and console.is_terminal else nullcontext()


class Show:
    """Prints each step as it is told."""

    def __init__(self, console: Console) -> None:
        self._console = console
        console.width = min(console.width, _WIDEST)
        self._glyphs = text_charts.glyphs(console.encoding)

    def __call__(self, step: steps.Step) -> None:
        self._print(*self.render(step))

    def _print(self, *parts: RenderableType) -> None:
        print_all(self._console, *parts)

    def _indented(self, part: RenderableType, by: int = 2) -> Padding:
        return Padding(part, (0, 0, 0, by))

    @singledispatchmethod
    def render(self, step: Any) -> Iterator[RenderableType]:
        """Yield what is printed for *step*."""
        raise TypeError(f"No way to show {step!r}.")

    @render.register
    def _opened(self, step: steps.Opened) -> Iterator[RenderableType]:
        table = step.question.table
        yield Text(shown(step.question.text), style="bold")
        yield Text(f"Data: {shown(table.name)}, {len(table):,} {table.unit}", style="dim")
        yield ""
        ways = grid(("", ""), [(cell(name, "bold"), cell(way)) for name, way in step.agents])
        ways.show_header = False
        yield self._indented(ways)

    @render.register
    def _scene_begins(self, step: steps.Scene) -> Iterator[RenderableType]:
        yield ""
        yield Text.assemble((f"{step.number}  {step.title}", "bold cyan"))
        yield self._indented(Text(step.text, style="dim"), 3)

    @render.register
    def _called(self, step: steps.Called) -> Iterator[RenderableType]:
        result, decision = step.result, step.result.decision
        mark = Text(self._glyphs.yes, "green") if result.success else Text(self._glyphs.no, "bold red")
        end = Text(result.outcome.value, "bold red")
        if result.success and result.replayed:
            end = Text("from the journal", "cyan")
        elif result.success and decision is not None:
            end = rule_cell(decision.rule, decision.allowed)
        called = Text.assemble(mark, " ", cell(result.agent or "operator", "bold"), " ", cell(result.name))
        room = self._console.width - called.cell_len - end.cell_len - 6
        called.append(f"({_fitting(step.arguments, max(room, 1))})")
        line = Table.grid(expand=True)
        line.add_column(overflow="fold")
        line.add_column(justify="right", no_wrap=True)
        line.add_row(called, end)
        yield self._indented(line, 1)
        told = step.summary if result.success else (decision.reason if decision is not None else "") or result.error
        if told:
            yield self._indented(cell(told, "dim" if result.success else "", most=230), 3)

    @render.register
    def _changed(self, step: steps.Changed) -> Iterator[RenderableType]:
        text = changed(step)
        if text is not None:
            yield self._indented(Text.assemble((f"{self._glyphs.change} ", "yellow"), text), 1)

    @render.register
    def _explained(self, step: steps.Explained) -> Iterator[RenderableType]:
        rows = [
            (
                Text(one.rule, style="bold" if one.rule == step.decision.rule else ""),
                Text("yes" if one.holds else "no", style="" if one.holds else "dim"),
                cell(one.why, "" if one.holds else "dim"),
            )
            for one in step.decision.tried
        ]
        yield ""
        yield self._indented(grid(("rule", "holds", "because"), rows, keep=(0, 1)), 3)
        if step.decision.remedy:
            yield self._indented(Text(f"To change it: {shown(step.decision.remedy)}"), 3)
        yield ""

    @render.register
    def _remarked(self, step: steps.Remarked) -> Iterator[RenderableType]:
        yield self._indented(cell(step.text), 3)

    @render.register
    def _compared(self, step: steps.Compared) -> Iterator[RenderableType]:
        new = [name for name in step.after if name not in step.before]
        held = Text.assemble("Tools of ", (shown(step.agent), "bold"), f": {shown(', '.join(step.before))}")
        held.append_text(Text.assemble(", ", (f"+ {shown(', '.join(new))}", "bold green")) if new else Text(""))
        yield self._indented(held, 3)

    @render.register
    def _profiled(self, step: steps.Profiled) -> Iterator[RenderableType]:
        question = step.question
        yield ""
        for line in text_charts.hours(question, step.averages, signs=self._glyphs):
            yield self._indented(line, 3)
        yield ""

    @render.register
    def _answered(self, step: steps.Answered) -> Iterator[RenderableType]:
        yield ""
        yield Text("Answer", style="bold cyan")
        yield self._indented(Text(shown(step.report.headline), style="bold green"))
        told = list(step.report.findings)
        if step.words:
            told.append(f"Most frequent long words: {phrases.summary(step.words)}.")
        bullets = Table.grid(padding=(0, 1, 0, 0))
        for sentence in told:
            bullets.add_row(Text(self._glyphs.bullet, style="dim"), cell(sentence))
        yield self._indented(bullets)
        yield ""
        yield self._indented(text_charts.comparisons(step.question, step.groups, signs=self._glyphs))
        yield self._indented(
            Text(f"Expected: the average of {phrases.expectation(step.question)}. "
                 f"Rows are taken as independent of each other.", style="dim")
        )  # fmt: skip

    @render.register
    def _pictured(self, step: steps.Pictured) -> Iterator[RenderableType]:
        yield self._indented(Text(f"A picture of {len(step.png):,} bytes, for the report.", style="dim"), 3)

    @render.register
    def _asked_for(self, step: steps.Asked) -> Iterator[RenderableType]:
        request, answer = step.request, step.answer
        who, verb = cell(request.agent or "operator", "bold"), "allows" if isinstance(answer, Allow) else "refuses"
        yield self._indented(Text.assemble(("? ", "bold yellow"), who, " needs an approval: ", cell(request.tool),
                                           f", risk {request.risk_level}"), 1)  # fmt: skip
        yield self._indented(Text(f"The {answer.by}, played by the demo, {verb} it: {answer.reason}.", "dim"), 3)

    @render.register
    def _died(self, step: steps.Died) -> Iterator[RenderableType]:
        told = f"Killed by SIGKILL inside of {step.tool}: its effect is there, its result is not."
        yield self._indented(Text(f"{self._glyphs.no} {told}", "bold red"), 1)

    @render.register
    def _resumed(self, step: steps.Resumed) -> Iterator[RenderableType]:
        yield ""
        yield self._indented(Text(f"Process {step.process} opens the run again, and plays from the top.", "bold"), 3)

    @render.register
    def _doubted(self, step: steps.Doubted) -> Iterator[RenderableType]:
        call = step.call
        yield self._indented(Text.assemble(
            "In doubt: ", (shown(call.tool_name), "bold"), f" by {shown(call.agent)} began, and nobody knows how it "
            "ended."
        ), 3)  # fmt: skip
        yield self._indented(Text(doubt(step), style="dim"), 3)

    @render.register
    def _replayed(self, step: steps.Replayed) -> Iterator[RenderableType]:
        told = f"{step.calls} calls get their results from the journal; none of them runs again."
        yield self._indented(Text(told, "cyan"), 3)

    @render.register
    def _recounted(self, step: steps.Recounted) -> Iterator[RenderableType]:
        yield ""
        yield Text("What happened, call by call", style="bold cyan")
        yield self._indented(timeline(step.account, self._glyphs))
        yield ""
        yield Text("What was done to the world", style="bold cyan")
        yield self._indented(Text(balance(step.account)))

    @render.register
    def _surveyed(self, step: steps.Surveyed) -> Iterator[RenderableType]:
        found = matrix_of(step.registry, agents=step.agents, tools=step.registry.list_all_tools())
        yield ""
        yield Text("Who may call what now, and by which rule", style="bold cyan")
        yield self._indented(Group(*matrix_tables(found, self._console.width - 2)))
        yield self._indented(Text("-  nothing gives the agent this tool", style="dim"))

    @render.register
    def _closed(self, step: steps.Closed) -> Iterator[RenderableType]:
        yield ""
        if step.question.credits:
            yield Text(f"Data: {step.question.credits}", style="dim")
        if not step.own:
            yield Text("Your own data, a CSV file or a folder of text:\n  praval-tools demo PATH", style="dim")
        if step.missing:
            yield Text(f"With a package of tools, which draws the answer:\n  pip install {step.missing}", style="dim")
        yield Text(f"Ask why:\n  {_ASK}", style="dim")


_ASK = "praval-tools --app praval_tools.demo:registry why analyst read_rows count=21"


def doubt(step: steps.Doubted) -> str:
    """Return what is done about a call in doubt, in words."""
    if step.idempotent:
        return "It is idempotent, so it runs again with the same key; it finds that key done, and writes nothing."
    if step.happened:
        return "It is not idempotent, so it does not run again. The operator finds its effect, and resolves the call."
    return "It is not idempotent. The operator finds no effect of it, and lets it run again."


def _fitting(arguments: dict[str, Any], room: int) -> str:
    """Return the arguments of a call, each shortened and then the whole cut where they are longer than *room*."""
    told = shown(phrases.arguments(arguments))
    return told if len(told) <= room else shown(phrases.arguments(arguments, each=46), most=room)


def changed(step: steps.Changed) -> Text | None:
    """Return a sentence about a change of the registry; None where it is not worth one."""
    event = step.event
    if isinstance(event, ToolAssigned):
        grant = event.grant
        return Text.assemble(cell(grant.by, "bold"), f" lends {shown(grant.tool)} to ", cell(grant.agent, "bold"),
                             f": {shown(limits(event))}")  # fmt: skip
    if isinstance(event, OwnershipTransferred):
        why = f" ({shown(event.reason)})" if event.reason else ""
        to = cell(event.to, "bold")
        return Text.assemble(cell(event.by, "bold"), f" hands {shown(event.tool)} over to ", to, why)
    if isinstance(event, ToolRegistered):
        return Text.assemble("Tool ", cell(event.tool.name, "bold"), " is declared.")
    return None


def limits(event: ToolAssigned) -> str:
    """Return a grant's limits in words."""
    grant = event.grant
    told = [] if grant.max_calls is None else [f"{grant.max_calls} call{'s' if grant.max_calls != 1 else ''}"]
    for name, bound in (grant.where or {}).items():
        told.extend(f"{name} {words} {bound[key]}" for key, words in _BOUNDS.items() if key in bound)
    return ", ".join(told) or "without limits"


_BOUNDS = {"maximum": "at most", "minimum": "at least", "enum": "one of", "const": "only"}
