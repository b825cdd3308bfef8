"""The command about runs: `runs`, with `show`, `resolve` and `replay`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import click
import msgspec
from rich.text import Text

from praval_tools.cli.app_option import app_options, app_registry
from praval_tools.cli.call_tree import timeline
from praval_tools.cli.common import PROBLEM, USAGE, Branch, Failure, json_option, shown
from praval_tools.cli.journal_option import journal_of
from praval_tools.cli.output import cell, grid, print_all, print_json, screen
from praval_tools.cli.plugin_commands import fill
from praval_tools.cli.replay_preview import Fate, fates
from praval_tools.cli.times import clock
from praval_tools.errors import ToolUsageError
from praval_tools.journal import Journal, RecordedCall, RunInfo
from praval_tools.journal.journal import NOT_GIVEN
from praval_tools.journal.replay import FINAL, Recording
from praval_tools.names import near

_MOST_TOLD = 5


@click.group("runs", cls=Branch, invoke_without_command=True)
@json_option
@app_options
@click.pass_context
def runs_command(ctx: click.Context, as_json: bool) -> None:
    """List the runs, the oldest first; show one, resolve its calls in doubt."""
    if ctx.invoked_subcommand is not None:
        return
    found = list(journal_of(ctx).runs())
    if as_json:
        print_json([_run_json(one) for one in found])
    elif not found:
        print_all(screen(stderr=True), Text("No runs are recorded."))
    else:
        rows = [
            (cell(one.run_id, "bold"), cell(clock(one.first)), cell(clock(one.last)), cell(f"{one.calls:,}"),
             cell(one.in_doubt, "bold red") if one.in_doubt else cell("-", "dim"))
            for one in found
        ]  # fmt: skip
        print_all(screen(), grid(("run", "first (UTC)", "last (UTC)", "calls", "in doubt"), rows, keep=(1, 2, 3, 4)))


def _run_json(one: RunInfo) -> dict[str, Any]:
    return {
        "run_id": one.run_id, "first": one.first.isoformat(), "last": one.last.isoformat(), "calls": one.calls,
        "in_doubt": one.in_doubt,
    }  # fmt: skip


def _known(journal: Journal, run_id: str) -> None:
    """
    Refuse a run that is not recorded.

    Raises:
        Failure: It is none; the text names similar ones.
    """
    if next(iter(journal.store.read(run_id=run_id)), None) is not None:
        return
    fix = near(run_id, [one.run_id for one in journal.runs()])
    meant = f"Did you mean {' or '.join(map(repr, fix))}?" if fix else "praval-tools runs lists them."
    raise Failure(f"No run {run_id!r} is recorded. {meant}")


# ── show ─────────────────────────────────────────────────────────────────────────────────────────


@runs_command.command("show")
@click.argument("run")
@json_option
@app_options
@click.pass_context
def show_command(ctx: click.Context, run: str, *, as_json: bool) -> None:
    """Show the calls of RUN, each below the one inside which it was made: outcome, duration, error."""
    journal = journal_of(ctx)
    _known(journal, run)
    calls = journal.calls(run)
    if as_json:
        print_json({"run_id": run, "calls": [_call_json(one) for one in calls]})
        return
    console = screen()
    doubtful = [one for one in calls if one.in_doubt]
    doubt = Text(f", {len(doubtful):,} in doubt", style="bold red") if doubtful else Text("")
    recorded = sum(_replays(one) for one in calls)
    counts = f": {len(calls):,} call{'' if len(calls) == 1 else 's'}, {recorded:,} with a result to replay"
    print_all(console, Text.assemble(cell(run, "bold"), counts, doubt), timeline(calls, console))
    print_all(console, *_how_to_resolve(run, doubtful))


def _call_json(one: RecordedCall) -> dict[str, Any]:
    return {**msgspec.to_builtins(one), "replays": _replays(one)}


def _replays(one: RecordedCall) -> bool:
    return not one.in_doubt and one.outcome in FINAL


def _how_to_resolve(run: str, doubtful: list[RecordedCall]) -> Iterator[Text]:
    for one in doubtful[:_MOST_TOLD]:
        yield Text(f"\nIn doubt: {shown(one.tool_name)} began and nothing says how it ended. To say it:")
        command = f"praval-tools runs resolve {shown(run)} {shown(one.tool_call_id)}"
        yield Text(f"  {command} --result JSON | --error TEXT | --rerun", style="bold")
    if len(doubtful) > _MOST_TOLD:
        yield Text(f"\nand {len(doubtful) - _MOST_TOLD:,} more.")


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
    value = NOT_GIVEN if result is None else _parsed(result)
    journal = journal_of(ctx)
    _known(journal, run)
    try:
        journal.resolve(run, call, result=value, error=error, rerun=rerun)
    except ToolUsageError as wrong:
        raise Failure(str(wrong)) from wrong
    said = "may run again" if rerun else "failed" if error is not None else "returned its result"
    if as_json:
        print_json({"run_id": run, "tool_call_id": call, "resolved": said})
    else:
        print_all(screen(), cell(f"Recorded: call {call} of run {run} {said}."))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise Failure(f"""--result is no JSON ({error}); a text needs quotes: --result '"done"'.""", USAGE) from error


def _refuse(name: str) -> None:
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
    registry = app_registry(ctx)
    fill(registry)
    journal = journal_of(ctx)
    _known(journal, run)
    found = fates(Recording(run, "id", journal.store.read(run_id=run)), registry)
    if as_json:
        print_json({"run_id": run, "calls": [one.as_json() for one in found]})
    else:
        _print_fates(run, found)
    if any(one.word == "stops" for one in found):
        sys.stdout.flush()
        ctx.exit(PROBLEM)


_STYLES = {"replays": "green", "runs again": "yellow", "stops": "bold red"}


def _print_fates(run: str, found: list[Fate]) -> None:
    rows = [
        (cell(one.word, _STYLES[one.word]), cell(one.tool, "bold"), cell(one.agent or "operator"), cell(one.call_id),
         cell(one.why, "dim"))
        for one in found
    ]  # fmt: skip
    counts = ", ".join(f"{word} {sum(one.word == word for one in found):,}" for word in _STYLES)
    print_all(
        screen(), grid(("", "tool", "agent", "call", "because"), rows, keep=(0, 1)),
        Text(f"\n{shown(run)}: {counts}. A call that is not recorded yet runs, and is recorded."),
    )  # fmt: skip
