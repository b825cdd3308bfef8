"""Prints the calls of a run as a tree, with bars for their durations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from praval_tools.cli.common import format_arguments, sanitize_text
from praval_tools.cli.output import Glyphs, build_grid, select_glyphs, to_cell
from praval_tools.cli.times import format_duration
from praval_tools.journal import RecordedCall
from praval_tools.names import OPERATOR
from praval_tools.tools.call import Outcome

_BAR_WIDTH = 8
_MAX_INDENT_DEPTH = 12
_MIN_WIDE_WIDTH = 120
_MAX_ARGUMENTS_LENGTH = 40


def build_call_tree(calls: Sequence[RecordedCall], console: Console) -> Table:
    """Return a table of *calls*, each below its parent; arguments, errors and ids are columns where there is room."""
    glyphs, is_wide = select_glyphs(console.encoding), console.width >= _MIN_WIDE_WIDTH
    max_length = None if console.width > 1_000 else _MAX_ARGUMENTS_LENGTH
    longest = max((call.latency_ms or 0.0 for call in calls), default=0.0) or 1.0
    rows = []
    for depth, call in _walk_calls(calls):
        indent = "  " * min(depth, _MAX_INDENT_DEPTH)
        name = Text.assemble(_render_mark(call, glyphs), " ", indent, to_cell(call.tool_name, "bold"))
        if is_wide:
            name.append(f"({sanitize_text(format_arguments(call.arguments), max_length=max_length)})", style="dim")
        elif call.error:
            name.append(f"\n  {indent}{sanitize_text(call.error)}", style="dim")
        bar_length = max(round((call.latency_ms or 0.0) / longest * _BAR_WIDTH), 1 if call.latency_ms else 0)
        bar = Text(glyphs.bar * bar_length, style="magenta")
        duration = format_duration(call.latency_ms) or "-"
        first = (to_cell(call.tool_call_id, "dim"),) if is_wide else ()
        last = (to_cell(call.error or "", "dim"),) if is_wide else ()
        rows.append((*first, name, call.agent or OPERATOR, _render_state(call), duration, bar, *last))
    ids, errors = (("id",), ("error",)) if is_wide else ((), ())
    shift = len(ids)
    table = build_grid(
        (*ids, "call", "agent", "outcome", "took", "", *errors), rows,
        unwrapped_columns=(*range(shift), *(shift + column for column in (2, 3, 4))),
    )  # fmt: skip
    table.columns[shift + 3].justify = "right"
    return table


def _walk_calls(calls: Sequence[RecordedCall]) -> Iterator[tuple[int, RecordedCall]]:
    """Yield depth and call; one whose parent is not in this run, or is its own descendant, is at the top."""
    ids = {call.tool_call_id for call in calls}
    children: dict[str | None, list[RecordedCall]] = {}
    for call in calls:
        children.setdefault(call.parent_id if call.parent_id in ids else None, []).append(call)
    seen: set[str] = set()
    for top in (*children.get(None, ()), *calls):
        waiting = [(0, top)]
        while waiting:
            depth, call = waiting.pop()
            if call.tool_call_id not in seen:
                seen.add(call.tool_call_id)
                yield depth, call
                waiting.extend((depth + 1, child) for child in reversed(children.get(call.tool_call_id, ())))


def _render_mark(call: RecordedCall, glyphs: Glyphs) -> Text:
    if call.in_doubt or call.outcome is None:
        return Text("?", style="bold red" if call.in_doubt else "yellow")
    return Text(glyphs.yes, style="green") if call.outcome is Outcome.OK else Text(glyphs.no, style="bold red")


def _render_state(call: RecordedCall) -> Text:
    if call.in_doubt:
        how = "" if call.outcome in (None, Outcome.IN_DOUBT) else f" ({call.outcome.value})"
        return Text(f"in doubt{how}", style="bold red")
    if call.outcome is None:
        return Text("may run again", style="yellow")
    return Text(call.outcome.value, style="" if call.outcome is Outcome.OK else "red")
