"""The command `report`: writes what a journal holds as an HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import click

from praval_tools.access.events import StateEvent
from praval_tools.cli.app_option import app_options, find_app_spec
from praval_tools.cli.common import CommandError, UsageError, find_command_line
from praval_tools.cli.journal_option import open_selected_journal, open_selected_registry
from praval_tools.cli.output import print_note, print_result, report_effect, to_cell
from praval_tools.cli.progress import track_progress
from praval_tools.cli.report.page import ReportContent, build_page
from praval_tools.cli.runs import check_run_exists
from praval_tools.cli.times import PastTimeParam, format_time
from praval_tools.errors import EventFormatError
from praval_tools.journal import Record
from praval_tools.journal.codec import from_json
from praval_tools.journal.history import build_history
from praval_tools.names import format_count
from praval_tools.plugins.click_contexts import pass_context
from praval_tools.report.access_charts import survey_access

DEFAULT_FILE = "praval-report.html"
_MAX_MATRIX_CELLS = 4_000


@click.command("report")
@click.option("--run", "run_id", metavar="RUN", help="Only this run.")
@click.option("--since", metavar="WHEN", type=PastTimeParam(), help="From then on: 15m, 2h, 7d ago, or an ISO time.")
@click.option("--until", metavar="WHEN", type=PastTimeParam(), help="Before then.")
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path(DEFAULT_FILE),
    help=f"Where the page goes; by default {DEFAULT_FILE}, here. A page that is there is replaced.",
)
@app_options
@pass_context
def report_command(
    ctx: click.Context, *, run_id: str | None, since: datetime | None, until: datetime | None, out: Path
) -> None:  # fmt: skip
    """
    Write what happened as one HTML page: calls, refusals, approvals, changes of access, charts.

    The page needs no network and runs no script. With an app it also shows who may call what now.
    """
    if since is not None and until is not None and since >= until:
        raise UsageError(f"--since {since.isoformat()} is not before --until {until.isoformat()}.")
    survey = None
    if find_app_spec(ctx) is not None:
        registry = open_selected_registry(ctx)
        tools, agents = registry.list_all_tools(), registry.agents
        if len(tools) * len(agents) <= _MAX_MATRIX_CELLS:
            survey = survey_access(registry, agents)
        else:
            counts = f"{format_count(len(agents), 'agent')} and {format_count(len(tools), 'tool')}"
            print_note(f"the page leaves out who may call what: {counts} are too many for it.")
    journal = open_selected_journal(ctx)
    if run_id is not None:
        check_run_exists(journal, run_id)
    records = list(
        track_progress(journal.store.read(run_id=run_id, since=since, until=until), journal.count(), "Reading")
    )
    content = ReportContent(
        title=_build_title(run_id, since, until),
        journal=journal.name,
        history=build_history(journal, records=records),
        changes=list(_iter_changes(records)),
        survey=survey,
        command_line=find_command_line(ctx),
    )
    _write_page(out, build_page(content))
    with report_effect(f"Wrote {out}."):
        print_result(to_cell(f"Wrote {out}: {format_count(len(content.history.calls), 'call')}."))


def _build_title(run_id: str | None, since: datetime | None, until: datetime | None) -> str:
    subject = "Everything" if run_id is None else f"Run {run_id}"
    begin = "" if since is None else f" from {format_time(since)}"
    end = "" if until is None else f" until {format_time(until)}"
    return f"{subject}{begin}{end}"


def _iter_changes(records: list[Record]) -> Iterator[StateEvent]:
    for record in records:
        if record.call_id is None:
            try:
                event = from_json(record.body, event_id=record.id)
            except EventFormatError:  # `audit` shows them
                continue
            if isinstance(event, StateEvent):
                yield event


def _write_page(path: Path, page: str) -> None:
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{path}: the page could not be written: {error.strerror or error}.") from error
