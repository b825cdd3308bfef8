"""The calls of a run as a tree, with bars for their durations."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from praval_tools.cli.common import sanitize_text
from praval_tools.cli.demo.text_charts import Glyphs, select_glyphs
from praval_tools.cli.output import build_grid, to_cell
from praval_tools.cli.times import format_duration
from praval_tools.journal import RecordedCall
from praval_tools.names import OPERATOR
from praval_tools.tools.call import Outcome

_BAR_WIDTH = 8
_MAX_INDENT_DEPTH = 12
_MIN_WIDE_WIDTH = 120
_MAX_ARGUMENTS_LENGTH = 40


def build_call_tree(calls: Sequence[RecordedCall], console: Console) -> Table:
    """Return a table of *calls*, each below the one inside which it was made."""
    signs, wide = select_glyphs(console.encoding), console.width >= _MIN_WIDE_WIDTH
    longest = max((one.latency_ms or 0.0 for one in calls), default=0.0) or 1.0
    rows = []
    for depth, one in _walk_calls(calls):
        indent = "  " * min(depth, _MAX_INDENT_DEPTH)
        what = Text.assemble(_render_mark(one, signs), " ", indent, to_cell(one.tool_name, "bold"))
        if wide:
            what.append(
                f"({sanitize_text(_format_arguments(one), max_length=None if console.width > 1_000 else _MAX_ARGUMENTS_LENGTH)})",
                style="dim",
            )
        error = Text(f"\n  {indent}{sanitize_text(one.error)}", style="dim") if one.error and not wide else Text("")
        row = [what + error, to_cell(one.agent or OPERATOR), _render_state(one), to_cell(format_duration(one.latency_ms) or "-"),
               Text(_render_bar(one, longest, signs), style="magenta")]  # fmt: skip
        rows.append([*row, to_cell(one.error or "", "dim"), to_cell(one.tool_call_id, "dim")] if wide else row)
    titles = ["call", "agent", "outcome", "took", "", *(["error", "id"] if wide else [])]
    table = build_grid(titles, rows, unwrapped_columns=(2, 3, 4))
    table.columns[3].justify = "right"
    return table


def _walk_calls(calls: Sequence[RecordedCall]) -> Iterator[tuple[int, RecordedCall]]:
    """Yield depth and call; one whose parent is not of this run, or is its own child, stands at the top."""
    known = {one.tool_call_id for one in calls}
    inside: dict[str | None, list[RecordedCall]] = {}
    for one in calls:
        inside.setdefault(one.parent_id if one.parent_id in known else None, []).append(one)
    seen: set[str] = set()
    for top in (*inside.get(None, ()), *calls):
        waiting = [(0, top)]
        while waiting:
            depth, one = waiting.pop()
            if one.tool_call_id not in seen:
                seen.add(one.tool_call_id)
                yield depth, one
                waiting.extend((depth + 1, child) for child in reversed(inside.get(one.tool_call_id, ())))


def _render_mark(one: RecordedCall, signs: Glyphs) -> Text:
    if one.in_doubt or one.outcome is None:
        return Text("?", style="bold red" if one.in_doubt else "yellow")
    return Text(signs.yes, style="green") if one.outcome is Outcome.OK else Text(signs.no, style="bold red")


def _render_state(one: RecordedCall) -> Text:
    if one.in_doubt:
        return Text(f"in doubt ({one.outcome.value})" if one.outcome else "in doubt", style="bold red")
    if one.outcome is None:
        return Text("may run again", style="yellow")
    return Text(one.outcome.value, style="" if one.outcome is Outcome.OK else "red")


def _format_arguments(one: RecordedCall) -> str:
    if not isinstance(one.arguments, dict):
        return json.dumps(one.arguments, default=str)
    return ", ".join(f"{name}={json.dumps(value, default=str)}" for name, value in one.arguments.items())


def _render_bar(one: RecordedCall, longest: float, signs: Glyphs) -> str:
    length = round((one.latency_ms or 0.0) / longest * _BAR_WIDTH)
    return signs.bar * max(length, 1 if one.latency_ms else 0)
