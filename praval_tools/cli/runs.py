"""The command `runs`: lists recorded runs; `show` and `replay` print one, `resolve` settles a call in doubt."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Literal

import click
import msgspec
from rich.text import Text

from praval_tools import ToolRegistry
from praval_tools.cli.app_option import load_app_registry, report_options
from praval_tools.cli.call_tree import build_call_tree
from praval_tools.cli.common import (
    EXIT_PROBLEM,
    CommandError,
    CommandGroup,
    JsonObject,
    UsageError,
    find_command_line,
    sanitize_text,
)
from praval_tools.cli.journal_option import open_selected_journal
from praval_tools.cli.output import (
    build_grid,
    make_console,
    print_json,
    print_message,
    print_parts,
    print_result,
    report_effect,
    to_cell,
    unwrap,
)
from praval_tools.cli.plugin_commands import ensure_plugins_loaded, has_plugins_as_program
from praval_tools.cli.times import format_time
from praval_tools.errors import ToolUsageError
from praval_tools.journal import Journal, RecordedCall, RunInfo
from praval_tools.journal.replay import Recording
from praval_tools.journal.replay_entry import FINAL_OUTCOMES, ReplayEntry
from praval_tools.names import OPERATOR, format_count, suggest_names
from praval_tools.report.command_line import CommandLine
from praval_tools.schema.json_values import reject_constant

_MAX_HINTS = 5


@click.group("runs", cls=CommandGroup, invoke_without_command=True)
@report_options
def runs_command(ctx: click.Context, as_json: bool) -> None:
    """List the runs, the oldest first; show one, resolve its calls in doubt."""
    if ctx.invoked_subcommand is not None:
        return
    runs = list(open_selected_journal(ctx).runs())
    if as_json:
        print_json([_run_to_json(run) for run in runs])
    elif not runs:
        print_message("No runs are recorded.")
    else:
        rows = [
            (
                to_cell(run.run_id, "bold"),
                format_time(run.first),
                format_time(run.last),
                f"{run.calls:,}",
                to_cell(run.in_doubt or "-", "bold red" if run.in_doubt else "dim"),
            )
            for run in runs
        ]
        titles = ("run", "first (UTC)", "last (UTC)", "calls", "in doubt")
        print_result(build_grid(titles, rows, unwrapped_columns=(1, 2, 3, 4)))


def _run_to_json(run: RunInfo) -> JsonObject:
    times = {"first": run.first.isoformat(), "last": run.last.isoformat()}
    return {"run_id": run.run_id, **times, "calls": run.calls, "in_doubt": run.in_doubt}


def check_run_exists(journal: Journal, run_id: str) -> None:
    """
    Check that a run is recorded.

    Raises:
        UsageError: It is not; the text names similar ones.
    """
    if not journal.has_run(run_id):
        fix = suggest_names(run_id, [run.run_id for run in journal.runs()]) or " praval-tools runs lists them."
        raise UsageError(f"No run {run_id!r} is recorded.{fix}")


# ── show ─────────────────────────────────────────────────────────────────────────────────────────


@runs_command.command("show")
@click.argument("run")
@report_options
def show_command(ctx: click.Context, run: str, *, as_json: bool) -> None:
    """Show the calls of RUN, each below the call inside which it was made: outcome, duration, error."""
    journal = open_selected_journal(ctx)
    check_run_exists(journal, run)
    calls = journal.calls(run)
    if as_json:
        calls_json = [{**msgspec.to_builtins(call), "replays": _is_replayable(call)} for call in calls]
        print_json({"run_id": run, "calls": calls_json})
        return
    console = make_console()
    doubtful = [call for call in calls if call.in_doubt]
    doubt = Text(f", {len(doubtful):,} in doubt" if doubtful else "", style="bold red")
    began = sum(call.started is not None for call in calls)  # as `runs` counts them
    refused = f", {len(calls) - began:,} refused" if len(calls) > began else ""
    counts = f": {format_count(began, 'call')}{refused}, {sum(map(_is_replayable, calls)):,} with a result to replay"
    print_parts(
        console,
        Text.assemble(to_cell(run, "bold"), counts, doubt),
        build_call_tree(calls, console),
        *_render_resolve_hints(run, doubtful, find_command_line(ctx)),
    )


def _is_replayable(call: RecordedCall) -> bool:
    return not call.in_doubt and call.outcome in FINAL_OUTCOMES


def _render_resolve_hints(run: str, doubtful: list[RecordedCall], command_line: CommandLine) -> Iterator[Text]:
    for call in doubtful[:_MAX_HINTS]:
        name = sanitize_text(call.tool_name)
        yield Text(f"\nIn doubt: {name} started, and its result was not recorded. To resolve it:")
        command = sanitize_text(command_line.write("runs resolve", [run, call.tool_call_id]))
        yield unwrap(Text(f"  {command} --result JSON | --error TEXT | --rerun", style="bold"))
    if len(doubtful) > _MAX_HINTS:
        yield Text(f"\nand {len(doubtful) - _MAX_HINTS:,} more.")


# ── resolve ──────────────────────────────────────────────────────────────────────────────────────


@runs_command.command("resolve")
@click.argument("run")
@click.argument("call")
@click.option("--result", metavar="JSON", help="""It did its work and returned this; a text is '"in quotes"'.""")
@click.option("--error", metavar="TEXT", help="It failed, with this message.")
@click.option("--rerun", is_flag=True, help="It did not do its work: it may run again.")
@report_options
def resolve_command(
    ctx: click.Context, run: str, call: str, *, result: str | None, error: str | None, rerun: bool, as_json: bool
) -> None:
    """Record how CALL, a call of RUN that is in doubt, ended; the next start of the run relies on it."""
    if (result is not None) + (error is not None) + rerun != 1:
        raise click.UsageError("Give exactly one of --result JSON, --error TEXT, --rerun.", ctx)
    value = msgspec.UNSET if result is None else _parse_result(result)
    journal = open_selected_journal(ctx, knows_tools=True)
    check_run_exists(journal, run)
    try:
        journal.resolve(run, call, result=value, error=error, rerun=rerun)
    except ToolUsageError as problem:
        raise CommandError(str(problem)) from problem
    resolution = "may run again" if rerun else "failed" if error is not None else "returned its result"
    text = f"Recorded: call {call} of run {run} {resolution}."
    with report_effect(text):
        if as_json:
            print_json({"run_id": run, "tool_call_id": call, "resolved": resolution})
        else:
            print_result(to_cell(text))


def _parse_result(text: str) -> object:
    try:
        return json.loads(text, parse_constant=reject_constant)
    except (ValueError, RecursionError) as error:
        fix = """a text needs quotes: --result '"done"'."""
        raise UsageError(f"--result is not valid JSON ({error}); {fix}") from error


# ── replay ───────────────────────────────────────────────────────────────────────────────────────

ReplayAction = Literal["replays", "runs again", "stops"]
_ACTION_STYLES: dict[ReplayAction, str] = {"replays": "green", "runs again": "yellow", "stops": "bold red"}


class CallPreview(msgspec.Struct, frozen=True):
    """
    What would happen to one recorded call if its run were opened now.

    Args:
        call_id: The call.
        tool: Its tool.
        agent: Who called; None for the operator.
        word: It gets its recorded result, runs again, or stops the run.
        why: In a sentence.
    """

    call_id: str
    tool: str
    agent: str | None
    word: ReplayAction
    why: str = ""


@runs_command.command("replay")
@click.argument("run")
@click.option("--dry", is_flag=True, help="Preview only; required, since your program does the replay.")
@report_options
def replay_command(ctx: click.Context, run: str, *, dry: bool, as_json: bool) -> None:
    """
    Preview a replay: which calls of RUN would run again if your program opened it now, and which get recorded results.

    --app names the registry whose tools would run.
    Exits with 1 where a call in doubt would stop the run.
    """
    if not dry:
        fix = f"with registry.run({run!r}): ... around the same calls. What that would do: --dry"
        raise click.UsageError(f"A run is replayed by your program, which opens it again: {fix}", ctx)
    registry = load_app_registry(ctx)
    if has_plugins_as_program(registry):
        ensure_plugins_loaded(registry, ctx)
    journal = open_selected_journal(ctx)
    check_run_exists(journal, run)
    entries = Recording(run, "content", journal.store.read(run_id=run)).entries.values()
    previews = [_preview_call(entry, registry) for entry in entries if entry.status != "new" and not entry.is_replaced]
    if as_json:
        print_json({"run_id": run, "calls": msgspec.to_builtins(previews)})
    else:
        _print_previews(run, previews)
    if any(preview.word == "stops" for preview in previews):
        sys.stdout.flush()
        ctx.exit(EXIT_PROBLEM)


def _preview_call(entry: ReplayEntry, registry: ToolRegistry) -> CallPreview:
    tool = registry.get_tool(entry.tool)
    missing = f"there is no tool {entry.tool!r} any more"
    action: ReplayAction = "runs again"
    if entry.status == "done":
        action, why = "replays", ""
        if tool is None and entry.start is not None:
            why = f"{missing}; its result is recorded"
        elif tool is not None and entry.fingerprint and entry.fingerprint != tool.fingerprint:
            why = "its definition has changed; the recorded result stays"
    elif entry.is_released:
        why = "it was stopped before its tool was entered"
    elif entry.status == "rerun":
        why = "it was resolved with --rerun"
    elif entry.status != "doubt":
        why = "it waits for an approval, which is requested again"
    elif tool is not None and tool.metadata.idempotent is True:
        why = "in doubt, and its tool is idempotent: same idempotency key"
    else:
        action, why = "stops", f"in doubt, and {missing if tool is None else 'its tool is not idempotent'}"
    return CallPreview(entry.call_id, entry.tool, entry.agent, action, why)


def _print_previews(run: str, previews: list[CallPreview]) -> None:
    rows = [
        (
            to_cell(preview.call_id, "dim"),
            to_cell(preview.word, _ACTION_STYLES[preview.word]),
            to_cell(preview.tool, "bold"),
            preview.agent or OPERATOR,
            to_cell(preview.why, "dim"),
        )
        for preview in previews
    ]
    counts = ", ".join(f"{word} {sum(preview.word == word for preview in previews):,}" for word in _ACTION_STYLES)
    print_result(
        build_grid(("call", "", "tool", "agent", "because"), rows, unwrapped_columns=(0, 1, 2)),
        Text(f"\n{sanitize_text(run)}: {counts}. A call that is not recorded yet runs, and is recorded."),
    )
