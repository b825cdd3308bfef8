"""The demo's run in retrospect: a line per call, and the sum of what was done to the world."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from praval_tools.cli.output import cell
from praval_tools.cli.text_charts import Glyphs
from praval_tools.demo.phrases import both
from praval_tools.demo.run_report import Account, Line


def timeline(account: Account, signs: Glyphs) -> Table:
    """Return the calls in order, those inside of others indented; a heading per process."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_edge=False)
    for title in ("", "agent", "tool", "outcome"):
        table.add_column(title, no_wrap=True, overflow="ellipsis")
    table.add_column("ms", justify="right", no_wrap=True)
    table.add_column("afterwards", overflow="fold")
    process = 0
    for line in account.lines:
        if line.process != process:
            process = line.process
            table.add_row("", Text(f"process {process}", "dim italic"))
        table.add_row(*_cells(line, signs))
    return table


def _cells(line: Line, signs: Glyphs) -> tuple[Text, ...]:
    call, outcome = line.call, outcome_of(line)
    inside = f"{'  ' * (line.depth - 1)}{signs.inside}" if line.depth else ""
    return (
        Text(str(line.number), "dim"),
        cell(call.agent or "operator"),
        Text.assemble((inside, "dim"), cell(call.tool_name)),
        Text(outcome, "green" if outcome == "ok" else "bold red"),
        Text("-" if call.latency_ms is None else f"{call.latency_ms:.1f}", "dim"),
        Text(fate_of(line), {"": "cyan", "again": "bold yellow", "resolved": "bold yellow"}[line.fate]),
    )


def outcome_of(line: Line) -> str:
    """Return how a call ended."""
    return "in_doubt" if line.call.outcome is None else line.call.outcome.value


def fate_of(line: Line) -> str:
    """Return what later processes made of a call."""
    if line.fate == "again":
        return "again, same key"
    if line.fate == "resolved":
        return "in doubt, resolved"
    if not line.replays:
        return ""
    return "replayed" if line.replays == 1 else "replayed twice"


def balance(account: Account) -> str:
    """Return how many effects there were, and whether each happened once."""
    effects, tools = account.effects, sorted({one.tool for one in account.effects})
    keys = len({one.key for one in effects})
    told = (
        f"{account.processes} processes made {len(account.lines)} calls. Those of {both(tools)} have an effect, a line "
        f"in effects.jsonl: {len(effects)} lines of {keys} calls. "
    )
    if account.repeated or account.missing:
        return f"{told}{account.repeated} happened twice, {account.missing} are missing."
    return f"{told}Nothing happened twice, nothing is missing."
