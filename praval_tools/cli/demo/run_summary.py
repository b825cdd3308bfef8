"""The demo's run in retrospect: a line per call, and the sum of what was done to the world."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from praval_tools.cli.demo.text_charts import Glyphs
from praval_tools.cli.output import to_cell
from praval_tools.demo.phrases import join_names
from praval_tools.demo.run_report import DemoCall, RunReport


def build_calls_table(account: RunReport, signs: Glyphs) -> Table:
    """Return the calls in order, those inside of others indented; a heading per process."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_edge=False)
    for title in ("", "agent", "tool", "outcome"):
        table.add_column(title, no_wrap=True, overflow="ellipsis")
    table.add_column("ms", justify="right", no_wrap=True)
    table.add_column("afterwards", overflow="fold")
    process = 0
    for line in account.calls:
        if line.process_number != process:
            process = line.process_number
            table.add_row("", Text(f"process {process}", "dim italic"))
        table.add_row(*_build_row(line, signs))
    return table


def _build_row(line: DemoCall, signs: Glyphs) -> tuple[Text, ...]:
    call, outcome = line.record, get_outcome_name(line)
    inside = f"{'  ' * (line.depth - 1)}{signs.inside}" if line.depth else ""
    return (
        Text(str(line.number), "dim"),
        to_cell(call.agent or "operator"),
        Text.assemble((inside, "dim"), to_cell(call.tool_name)),
        Text(outcome, "green" if outcome == "ok" else "bold red"),
        Text("-" if call.latency_ms is None else f"{call.latency_ms:.1f}", "dim"),
        Text(describe_recovery(line), {"": "cyan", "again": "bold yellow", "resolved": "bold yellow"}[line.recovery]),
    )


def get_outcome_name(line: DemoCall) -> str:
    """Return how a call ended."""
    return "in_doubt" if line.record.outcome is None else line.record.outcome.value


def describe_recovery(line: DemoCall) -> str:
    """Return what later processes made of a call."""
    if line.recovery == "again":
        return "again, same key"
    if line.recovery == "resolved":
        return "in doubt, resolved"
    if not line.replay_count:
        return ""
    return "replayed" if line.replay_count == 1 else "replayed twice"


def summarize_effects(account: RunReport) -> str:
    """Return how many effects there were, and whether each happened once."""
    effects, tools = account.effects, sorted({one.tool for one in account.effects})
    keys = len({one.key for one in effects})
    told = (
        f"{account.process_count} processes made {len(account.calls)} calls. Those of {join_names(tools)} have an effect, a line "
        f"in effects.jsonl: {len(effects)} lines of {keys} calls. "
    )
    if account.repeated_effects or account.missing_effects:
        return f"{told}{account.repeated_effects} happened twice, {account.missing_effects} are missing."
    return f"{told}Nothing happened twice, nothing is missing."
