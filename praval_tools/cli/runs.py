"""The command about runs: `runs`, with `show`, `resolve` and `replay`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import click
import msgspec
from rich.text import Text

from praval_tools.cli.app_option import app_options, load_app_registry
from praval_tools.cli.call_tree import build_call_tree
from praval_tools.cli.common import EXIT_PROBLEM, EXIT_USAGE, CommandError, CommandGroup, json_option, sanitize_text
from praval_tools.cli.journal_option import open_selected_journal
from praval_tools.cli.output import build_grid, make_console, print_json, print_parts, to_cell
from praval_tools.cli.plugin_commands import ensure_plugins_loaded
from praval_tools.cli.replay_preview import CallPreview, preview_replay
from praval_tools.cli.times import format_time
from praval_tools.errors import ToolUsageError
from praval_tools.journal import Journal, RecordedCall, RunInfo
from praval_tools.journal.journal import NOT_GIVEN
from praval_tools.journal.replay import FINAL_OUTCOMES, Recording
from praval_tools.names import find_similar_names

_MAX_HINTS = 5


@click.group("runs", cls=CommandGroup, invoke_without_command=True)
@json_option
@app_options
@click.pass_context
def runs_command(ctx: click.Context, as_json: bool) -> None:
    """List the runs, the oldest first; show one, resolve its calls in doubt."""
    if ctx.invoked_subcommand is not None:
        return
    found = list(open_selected_journal(ctx).runs())
    if as_json:
        print_json([_run_to_json(one) for one in found])
    elif not found:
        print_parts(make_console(stderr=True), Text("No runs are recorded."))
    else:
        rows = [
            (to_cell(one.run_id, "bold"), to_cell(format_time(one.first)), to_cell(format_time(one.last)), to_cell(f"{one.calls:,}"),
             to_cell(one.in_doubt, "bold red") if one.in_doubt else to_cell("-", "dim"))
            for one in found
        ]  # fmt: skip
        print_parts(
            make_console(),
            build_grid(("run", "first (UTC)", "last (UTC)", "calls", "in doubt"), rows, unwrapped_columns=(1, 2, 3, 4)),
        )


def _run_to_json(one: RunInfo) -> dict[str, Any]:
    return {
        "run_id": one.run_id, "first": one.first.isoformat(), "last": one.last.isoformat(), "calls": one.calls,
        "in_doubt": one.in_doubt,
    }  # fmt: skip


def _check_run_exists(journal: Journal, run_id: str) -> None:
    """
    Refuse a run that is not recorded.

    Raises:
        Failure: It is none; the text names similar ones.
    """
    if journal.has_run(run_id):
        return
    fix = find_similar_names(run_id, [one.run_id for one in journal.runs()])
    meant = f"Did you mean {' or '.join(map(repr, fix))}?" if fix else "praval-tools runs lists them."
    raise CommandError(f"No run {run_id!r} is recorded. {meant}")


# ── show ─────────────────────────────────────────────────────────────────────────────────────────


@runs_command.command("show")
@click.argument("run")
@json_option
@app_options
@click.pass_context
def show_command(ctx: click.Context, run: str, *, as_json: bool) -> None:
    """Show the calls of RUN, each below the one inside which it was made: outcome, duration, error."""
    journal = open_selected_journal(ctx)
    _check_run_exists(journal, run)
    calls = journal.calls(run)
    if as_json:
        print_json({"run_id": run, "calls": [_call_to_json(one) for one in calls]})
        return
    console = make_console()
    doubtful = [one for one in calls if one.in_doubt]
    doubt = Text(f", {len(doubtful):,} in doubt", style="bold red") if doubtful else Text("")
    recorded = sum(_is_replayable(one) for one in calls)
    counts = f": {len(calls):,} call{'' if len(calls) == 1 else 's'}, {recorded:,} with a result to replay"
    print_parts(console, Text.assemble(to_cell(run, "bold"), counts, doubt), build_call_tree(calls, console))
    print_parts(console, *_render_resolve_hints(run, doubtful))


def _call_to_json(one: RecordedCall) -> dict[str, Any]:
    return {**msgspec.to_builtins(one), "replays": _is_replayable(one)}


def _is_replayable(one: RecordedCall) -> bool:
    return not one.in_doubt and one.outcome in FINAL_OUTCOMES


def _render_resolve_hints(run: str, doubtful: list[RecordedCall]) -> Iterator[Text]:
    for one in doubtful[:_MAX_HINTS]:
        yield Text(f"\nIn doubt: {sanitize_text(one.tool_name)} began and nothing says how it ended. To say it:")
        command = f"praval-tools runs resolve {sanitize_text(run)} {sanitize_text(one.tool_call_id)}"
        yield Text(f"  {command} --result JSON | --error TEXT | --rerun", style="bold")
    if len(doubtful) > _MAX_HINTS:
        yield Text(f"\nand {len(doubtful) - _MAX_HINTS:,} more.")


# ── resolve ──────────────────────────────────────────────────────────────────────────────────────


@runs_command.command("resolve")
@click.argument("run")
@click.argument("call")
@click.option("--result", metavar="JSON", help="""It did its work and returned this; a text is '"in quotes"'.""")
@click.option("--error", metavar="TEXT", help="It failed, with this message.")
@click.option("--rerun", is_flag=True, help="It did not do its work: it may run again.")
@json_option
@app_options
@click.pass_context
def resolve_command(
    ctx: click.Context, run: str, call: str, *, result: str | None, error: str | None, rerun: bool, as_json: bool
) -> None:
    """Say what came of CALL, a call of RUN that is in doubt; the next start of the run goes by that."""
    if (result is not None) + (error is not None) + rerun != 1:
        raise click.UsageError("Say one of --result JSON, --error TEXT, --rerun.", ctx)
    value = NOT_GIVEN if result is None else _parse_result(result)
    journal = open_selected_journal(ctx)
    _check_run_exists(journal, run)
    try:
        journal.resolve(run, call, result=value, error=error, rerun=rerun)
    except ToolUsageError as wrong:
        raise CommandError(str(wrong)) from wrong
    said = "may run again" if rerun else "failed" if error is not None else "returned its result"
    if as_json:
        print_json({"run_id": run, "tool_call_id": call, "resolved": said})
    else:
        print_parts(make_console(), to_cell(f"Recorded: call {call} of run {run} {said}."))


def _parse_result(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        raise CommandError(
            f"""--result is no JSON ({error}); a text needs quotes: --result '"done"'.""", EXIT_USAGE
        ) from error


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


# ── replay ───────────────────────────────────────────────────────────────────────────────────────


@runs_command.command("replay")
@click.argument("run")
@click.option("--dry", is_flag=True, help="Only say what would happen; there is no other way from here.")
@json_option
@app_options
@click.pass_context
def replay_command(ctx: click.Context, run: str, *, dry: bool, as_json: bool) -> None:
    """
    Say which calls of RUN would run again if your program opened it now, and which would get their recorded result.

    --app tells which tools are there, and which of them are idempotent.
    Exits with 1 where a call in doubt would stop it.
    """
    if not dry:
        fix = f"with registry.run({run!r}): ... around the same calls. What that would do: --dry"
        raise click.UsageError(f"A run is replayed by your program, which opens it again: {fix}", ctx)
    registry = load_app_registry(ctx)
    ensure_plugins_loaded(registry)
    journal = open_selected_journal(ctx)
    _check_run_exists(journal, run)
    found = preview_replay(Recording(run, "id", journal.store.read(run_id=run)), registry)
    if as_json:
        print_json({"run_id": run, "calls": [one.to_json() for one in found]})
    else:
        _print_preview(run, found)
    if any(one.word == "stops" for one in found):
        sys.stdout.flush()
        ctx.exit(EXIT_PROBLEM)


_PREVIEW_STYLES = {"replays": "green", "runs again": "yellow", "stops": "bold red"}


def _print_preview(run: str, found: list[CallPreview]) -> None:
    rows = [
        (to_cell(one.word, _PREVIEW_STYLES[one.word]), to_cell(one.tool, "bold"), to_cell(one.agent or "operator"), to_cell(one.call_id),
         to_cell(one.why, "dim"))
        for one in found
    ]  # fmt: skip
    counts = ", ".join(f"{word} {sum(one.word == word for one in found):,}" for word in _PREVIEW_STYLES)
    print_parts(
        make_console(), build_grid(("", "tool", "agent", "call", "because"), rows, unwrapped_columns=(0, 1)),
        Text(f"\n{sanitize_text(run)}: {counts}. A call that is not recorded yet runs, and is recorded."),
    )  # fmt: skip
