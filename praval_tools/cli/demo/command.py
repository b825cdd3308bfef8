"""The command `demo`: four agents answer a question about real data, and their process crashes twice."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import click
from attrs import evolve
from rich.console import Console

from praval_tools.cli.common import EXIT_PROBLEM, EXIT_USAGE, CommandError, UsageError, sanitize_text, traceback_option
from praval_tools.cli.demo.files import JOURNAL_FILE, REPORT_FILE, DemoFiles, prepare_files
from praval_tools.cli.demo.processes import CRASH_POINTS, ConsoleSettings, ProcessTask, run_in_subprocess
from praval_tools.cli.demo.terminal import StepPrinter, show_spinner
from praval_tools.cli.output import make_console
from praval_tools.cli.program import find_pip, find_program, is_installed, shorten_path
from praval_tools.demo.app import APP
from praval_tools.demo.effects import EffectLog
from praval_tools.demo.input_files import UnreadableDataError
from praval_tools.demo.plugin_scene import find_package_folders, is_package_available
from praval_tools.demo.question import Question, load_question
from praval_tools.demo.run_report import build_run_report
from praval_tools.demo.scenario import RUN_ID
from praval_tools.demo.steps import ClosingStep, CrashStep, ResumeStep
from praval_tools.errors import ToolUsageError
from praval_tools.journal import open_journal
from praval_tools.names import format_count
from praval_tools.report.command_line import CommandLine

_PIPE_WIDTH = 80
_MCP_SCENE = "mcp"
_MIN_SPINNER_ROWS = 50_000
_OUT_HELP = (
    "Where the report and the journal go: a folder that is new, empty, or an earlier demo's. "
    "Default: praval-demo, here."
)


@click.command("demo")
@click.argument("path", required=False, type=click.Path(path_type=Path))
@click.option("--measure", metavar="COLUMN", help="The column to average: numbers, or yes and no.")
@click.option("--by", metavar="COLUMN", help="The column whose values are compared.")
@click.option("--out", metavar="DIR", type=click.Path(path_type=Path), help=_OUT_HELP)
@traceback_option
def demo_command(path: Path | None, *, measure: str | None, by: str | None, out: Path | None) -> None:
    """
    Watch four agents answer a question about real data, while their process is killed twice.

    PATH is a CSV file of yours, a text file, or a folder of text or code; by default 7,033 flights of a week with a
    blizzard, shipped with the package. Nothing is installed or sent; a report and the journal are written.

    `praval-tools demo mcp` plays another scene: an MCP client in a process of its own works as one of the agents.
    """
    console = make_console(width=_PIPE_WIDTH)
    if str(path) == _MCP_SCENE and not os.path.exists(_MCP_SCENE):
        from praval_tools.cli.demo.mcp_scene import play_mcp_scene

        play_mcp_scene(console)
        return
    printer = StepPrinter(console)
    with show_spinner(console, "Reading the data"):
        question = _load_question(path, measure=measure, by=by)
    with prepare_files(out) as files:
        with show_spinner(console, "The agents are at work", is_enabled=len(question.table) > _MIN_SPINNER_ROWS):
            kill_count = _run_processes(console, printer, question, files)
        closing_lines = _build_closing_lines(files, kill_count)
        files.move_to_target()
    command_line = CommandLine(program=find_program())
    printer(ClosingStep(question, tuple(_list_commands(command_line, has_own_data=path is not None))))
    for title, name in (
        ("Journal: ", JOURNAL_FILE),
        ("Report:  ", REPORT_FILE),
    ):  # unwrapped, so that they can be copied
        console.out(f"{title}{sanitize_text(files.target_folder / name, keep_line_breaks=True)}", highlight=False)
    console.print()
    for line in closing_lines:
        console.print(sanitize_text(line), highlight=False, markup=False)
    console.print()
    need = "" if all(map(is_installed, ("starlette", "uvicorn"))) else ", which needs the extra ui"
    console.print(f"Look at it as its operator{need}:", highlight=False, markup=False)
    console.out(sanitize_text(command_line.write("ui", [str(files.target_folder / JOURNAL_FILE)])), highlight=False)


def _list_commands(command_line: CommandLine, *, has_own_data: bool) -> Iterator[tuple[str, str]]:
    """Yield what a reader may want to do next, and the command for it; none that cannot work here."""
    if not has_own_data:
        yield "Your own data, a CSV file or a folder of text", command_line.write("demo", ["PATH"])
    folders, pip = find_package_folders(), find_pip()
    if not is_package_available() and folders and pip:
        install = shlex.join([*pip, "install", *map(shorten_path, folders)])
        yield "For a chart of the answer, install a package of tools", install
    yield "Ask why", evolve(command_line, options=["--app", APP]).write("why", ["analyst", "read_rows", "count=21"])


def _build_closing_lines(files: DemoFiles, kill_count: int) -> tuple[str, str, str]:
    """Return what was answered, what was refused, and what the kills did, from the journal and the effects."""
    with open_journal(files.journal) as journal:
        run_report = build_run_report(journal, RUN_ID, EffectLog(files.effects).read_all())
    published = [
        call.record for call in run_report.calls if call.record.tool_name == "publish" and call.outcome == "ok"
    ]
    refused = [call for call in run_report.calls if call.outcome == "forbidden"]
    repeated = format_count(run_report.repeated_effects, "repeated effect")
    return (
        f"Answered: {published[-1].arguments['headline']}",
        f"Refused: {', '.join(f'{call.record.tool_name} to {call.agent}' for call in refused)}.",
        f"{format_count(kill_count, 'kill')}, {repeated}.",
    )


def _run_processes(console: Console, printer: StepPrinter, question: Question, files: DemoFiles) -> int:
    """Run one process after the other, each of which resumes the run, until one finishes; return how many died."""
    kill_count = 0
    for number, crash_point in enumerate((*CRASH_POINTS, None), start=1):
        if number > 1:
            printer(ResumeStep(number))
        task = ProcessTask(question, files, crash_point, ConsoleSettings.from_console(console))
        with closing(run_in_subprocess(task)) as lines:
            for line in lines:
                console.out(line, end="", highlight=False)
        if crash_point is not None:
            kill_count += 1  # its exit code was that of a kill
            printer(CrashStep(crash_point.tool))
    return kill_count


def _load_question(path: Path | None, *, measure: str | None, by: str | None) -> Question:
    try:
        return load_question(path, measure=measure, by=by)
    except UnreadableDataError as error:
        is_missing = path is not None and not os.path.exists(path)
        raise CommandError(str(error), EXIT_USAGE if is_missing else EXIT_PROBLEM) from error
    except ToolUsageError as error:
        raise UsageError(str(error)) from error
