"""The command `plugins`, with `list`, `show`, `check` and `new`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from attrs import evolve
from rich.padding import Padding
from rich.text import Text

from praval_tools import PluginReport, ToolRegistry, get_tool_registry, plugin_reports
from praval_tools.cli.app_option import app_options, find_app_spec, report_options
from praval_tools.cli.common import EXIT_PROBLEM, CommandGroup, UsageError, find_command_line, sanitize_text
from praval_tools.cli.journal_option import open_selected_registry
from praval_tools.cli.output import (
    build_grid,
    build_key_value_grid,
    print_json,
    print_message,
    print_note,
    print_result,
    to_cell,
)
from praval_tools.cli.plugin_commands import ensure_plugins_loaded, format_changes
from praval_tools.cli.plugin_template import derive_plugin_names, write_plugin
from praval_tools.cli.progress import track_progress
from praval_tools.names import normalize_distribution_name, suggest_names
from praval_tools.plugins.click_contexts import pass_context
from praval_tools.plugins.discovery import find_plugins
from praval_tools.plugins.probe import probe_in_subprocess, report_to_json
from praval_tools.report.command_line import PROGRAM

strict_option = click.option("--strict", is_flag=True, help="Exit with 1 where any plugin failed.")


@click.group("plugins", cls=CommandGroup, invoke_without_command=True)
@strict_option
@report_options
def plugins_command(ctx: click.Context, *, strict: bool, as_json: bool) -> None:
    """List the plugins, show what one requests, start one of your own."""
    if ctx.invoked_subcommand is None:
        _print_reports(ctx, plugin_reports(_open_registry(ctx)), strict=strict, as_json=as_json)


@plugins_command.command("list")
@strict_option
@report_options
def list_command(ctx: click.Context, *, strict: bool, as_json: bool) -> None:
    """List the installed plugins: whether each was loaded, and why not."""
    _print_reports(ctx, plugin_reports(_open_registry(ctx)), strict=strict, as_json=as_json)


@plugins_command.command("show")
@click.argument("name")
@report_options
def show_command(ctx: click.Context, *, name: str, as_json: bool) -> None:
    """Show one plugin, by its distribution or entry point: tools, hooks, what it requests, its error in full."""
    reports = plugin_reports(_open_registry(ctx))
    key = normalize_distribution_name(name)
    matching = [
        report for report in reports if key in (report.distribution, normalize_distribution_name(report.entry_point))
    ]
    if not matching:
        fix = suggest_names(key, sorted({report.distribution for report in reports}))
        raise UsageError(f"No plugin {name!r} is installed.{fix}")
    if as_json:
        print_json([report_to_json(report) for report in matching])
        return
    for number, report in enumerate(matching):
        if number:
            print_result("")
        _print_report(report)


@plugins_command.command("check")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.1),
    default=30.0,
    show_default=True,
    help="Seconds that each plugin may take.",
)
@report_options
def check_command(ctx: click.Context, *, timeout: float, as_json: bool) -> None:
    """Load each plugin in a process of its own, which is killed if it hangs; exits with 1 where one fails."""
    installed = find_plugins()
    plugins = track_progress(installed, len(installed), "Checking plugins")
    reports = [probe_in_subprocess(plugin, timeout=timeout) for plugin in plugins]
    _print_reports(ctx, reports, strict=True, as_json=as_json)


@plugins_command.command("new")
@click.argument("name")
@click.option(
    "--into",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="Where the new folder is created; by default here.",
)
@app_options
@pass_context
def new_command(ctx: click.Context, *, name: str, folder: Path) -> None:
    """Start a plugin of your own: a package called NAME, with a tool, its tests and a README."""
    home = write_plugin(derive_plugin_names(name), folder)
    print_result(Text.assemble("Wrote ", (sanitize_text(home), "bold")))
    list_tools = evolve(find_command_line(ctx), program=[PROGRAM]).write("list")  # a path may be relative to here
    for step in (f"cd {home}", "pip install -e '.[test]'", "python -m pytest", list_tools):
        print_result(Text(f"  {step}"))


def _open_registry(ctx: click.Context) -> ToolRegistry:
    is_app = find_app_spec(ctx) is not None
    registry = open_selected_registry(ctx) if is_app or find_plugins() else get_tool_registry()
    if is_app and not plugin_reports(registry) and find_plugins():
        print_note("the app loads no plugins; this is what autoload(registry) would bring.")
    ensure_plugins_loaded(registry, ctx)
    return registry


def _print_reports(ctx: click.Context, reports: Sequence[PluginReport], *, strict: bool, as_json: bool) -> None:
    if as_json:
        print_json([report_to_json(report) for report in reports])
    elif not reports:
        print_message(f"No plugins are installed. Start one: {find_command_line(ctx).write('plugins new', ['NAME'])}")
    else:
        rows = [
            (
                to_cell(report.distribution, "bold"),
                report.version,
                _render_status(report),
                len(report.tools),
                to_cell(_summarize_report(report), "" if report.failed else "dim", max_length=160),
            )
            for report in reports
        ]
        print_result(build_grid(("plugin", "version", "", "tools", ""), rows))
    if strict and any(report.failed for report in reports):
        ctx.exit(EXIT_PROBLEM)


def _render_status(report: PluginReport) -> Text:
    if report.failed:
        return Text(f"failed: {sanitize_text(report.stage)}", style="red")
    return Text(report.stage, style="green" if report.loaded else "dim")


def _summarize_report(report: PluginReport) -> str:
    if report.error is not None:
        return report.error.problem
    if report.changed:
        return f"changed: {', '.join(report.changed)}"
    if report.wishes:
        return f"requests {len(report.wishes)} more: plugins show {report.distribution}"
    return report.reason


def _print_report(report: PluginReport) -> None:
    title = to_cell(f"{report.distribution} {report.version}", "bold")
    details = build_key_value_grid(
        (
            ("entry point", report.entry_point),
            ("why", report.reason),
            ("tools", ", ".join(report.tools)),
            ("not allowed", ", ".join(report.withheld)),
            ("hooks", ", ".join(report.hooks)),
            ("changed", format_changes(report)),
            ("error", report.error.problem if report.error is not None else ""),
        )
    )
    print_result(Text.assemble(title, " ", _render_status(report)), Padding(details, (0, 0, 0, 2)))
    if report.wishes:
        key = f'[plugins."{report.distribution}"]'
        print_result(Text(f"  It requests, and was not granted (to grant it: trust = true in {key}):"))
        print_result(*(Text(f"    {sanitize_text(request)}") for request in report.wishes))
    if report.traceback:
        text = Text(sanitize_text(report.traceback, keep_line_breaks=True), style="dim")
        print_result(Padding(text, (1, 0, 0, 2)))
