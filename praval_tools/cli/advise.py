"""The command `advise`: what was permitted and not needed, by the journal, and what is refused again and again."""

from __future__ import annotations

from datetime import datetime

import attrs
import click
from rich.text import Text

from praval_tools.cli.app_option import report_options
from praval_tools.cli.common import UsageError, find_command_line
from praval_tools.cli.journal_option import locate_journal, open_selected_registry
from praval_tools.cli.output import make_console, print_json, print_message, print_parts, unwrap
from praval_tools.cli.progress import track_progress
from praval_tools.cli.times import PastTimeParam, format_time
from praval_tools.names import format_count
from praval_tools.report.advice import Advice, collect_advice
from praval_tools.report.text import sanitize_text


@click.command("advise")
@click.option(
    "--since", metavar="WHEN", type=PastTimeParam(), help="Calls from then on: 90s, 15m, 30d ago, or an ISO time (UTC)."
)
@click.option("--until", metavar="WHEN", type=PastTimeParam(), help="Calls before then.")
@click.option("--agent", metavar="AGENT", help="Only what is about this agent.")
@click.option("--tool", metavar="TOOL", help="Only what is about this tool.")
@report_options
def advise_command(
    ctx: click.Context, /, *, since: datetime | None, until: datetime | None, agent: str | None, tool: str | None,
    as_json: bool,
) -> None:  # fmt: skip
    """
    Say which permissions the calls in the journal did not need, and which commands take them away; nothing changes.

    Grants, shares and categories that nobody used, bounds, counts and expiries that would have sufficed, tools that
    nobody calls, and refusals that repeat. Calls under what is advised would all have been allowed.
    """
    if since is not None and until is not None and since >= until:
        raise UsageError(f"--since {since.isoformat()} is not before --until {until.isoformat()}.")
    registry = open_selected_registry(ctx)
    journal = registry.journal
    if journal is None:
        raise locate_journal(ctx).make_missing_error()
    records = track_progress(journal.store.read(since=since, until=until), journal.count(), "Reading")
    found = [
        advice for advice in collect_advice(registry, records, find_command_line(ctx))
        if (agent is None or advice.agent == agent) and (tool is None or advice.tool == tool)
    ]  # fmt: skip
    if as_json:
        print_json([_to_json(advice) for advice in found])
    elif found:
        console = make_console()
        for number, advice in enumerate(found):
            print_parts(console, *([""] if number else []), *_describe(advice))
    else:
        print_message("Nothing to advise: all that is permitted was used.")


def _describe(advice: Advice) -> list[Text]:
    """Return the lines of one advice: what was found, the evidence, the commands."""
    lines = [Text(sanitize_text(advice.text), "bold")]
    if advice.first is not None and advice.last is not None:
        calls = format_count(advice.calls, "call")
        lines.append(Text(f"  {calls}, {format_time(advice.first)} to {format_time(advice.last)} (UTC)", "dim"))
    return [*lines, *(unwrap(Text(f"  {command}")) for command in advice.commands)]


def _to_json(advice: Advice) -> dict[str, object]:
    fields = attrs.asdict(advice, recurse=False)
    times = {name: None if fields[name] is None else fields[name].isoformat() for name in ("first", "last")}
    terms = {name: value.isoformat() if isinstance(value, datetime) else value for name, value in advice.terms.items()}
    return fields | times | {"terms": terms, "commands": list(advice.commands)}
