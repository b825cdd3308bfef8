"""The commands about plugins: `plugins`, with `list`, `show`, `check` and `new`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.padding import Padding
from rich.text import Text

from praval_tools import PluginReport, ToolRegistry, get_tool_registry, plugin_reports
from praval_tools.cli.app_option import app_options
from praval_tools.cli.common import (
    EXIT_PROBLEM,
    EXIT_USAGE,
    CommandError,
    CommandGroup,
    get_app_option,
    json_option,
    sanitize_text,
)
from praval_tools.cli.journal_option import open_selected_registry
from praval_tools.cli.output import build_grid, make_console, print_json, print_parts, to_cell
from praval_tools.cli.plugin_commands import ensure_plugins_loaded
from praval_tools.cli.plugin_template import derive_plugin_names, write_plugin
from praval_tools.cli.progress import track_progress
from praval_tools.names import find_similar_names, normalize_distribution_name
from praval_tools.plugins.discovery import find_plugins
from praval_tools.plugins.probe import probe_in_subprocess, report_to_json

strict_option = click.option("--strict", is_flag=True, help="Exit with 1 where any plugin failed.")


@click.group("plugins", cls=CommandGroup, invoke_without_command=True)
@strict_option
@json_option
@app_options
@click.pass_context
def plugins_command(ctx: click.Context, *, strict: bool, as_json: bool) -> None:
    """List the plugins, show what one asks for, start one of your own."""
    if ctx.invoked_subcommand is None:
        _print_reports(ctx, _load_reports(ctx), strict=strict, as_json=as_json)


@plugins_command.command("list")
@strict_option
@json_option
@app_options
@click.pass_context
def list_command(ctx: click.Context, *, strict: bool, as_json: bool) -> None:
    """List the installed plugins: what became of each, and why."""
    _print_reports(ctx, _load_reports(ctx), strict=strict, as_json=as_json)


@plugins_command.command("show")
@click.argument("name")
@json_option
@app_options
@click.pass_context
def show_command(ctx: click.Context, *, name: str, as_json: bool) -> None:
    """Show one plugin, by its distribution or entry point: tools, hooks, what it asks for, its error in full."""
    registry = _open_registry(ctx)
    wanted, reports = normalize_distribution_name(name), plugin_reports(registry)
    mine = [one for one in reports if wanted in (one.distribution, normalize_distribution_name(one.entry_point))]
    if not mine:
        known = sorted({one.distribution for one in reports})
        fix = (
            f" Did you mean {' or '.join(map(repr, find_similar_names(wanted, known)))}?"
            if find_similar_names(wanted, known)
            else ""
        )
        raise CommandError(f"No plugin {name!r} is installed.{fix}", EXIT_USAGE)
    if as_json:
        print_json([_report_to_json(one) for one in mine])
        return
    for number, one in enumerate(mine):
        _print_report(one, is_first=not number)


@plugins_command.command("check")
@click.option("--timeout", type=click.FloatRange(min=0.1), default=30.0, show_default=True,
              help="Seconds that each plugin may take.")  # fmt: skip
@json_option
@app_options
@click.pass_context
def check_command(ctx: click.Context, *, timeout: float, as_json: bool) -> None:
    """Load each plugin alone, in a process that is killed where it hangs; exits with 1 where one fails."""
    installed = find_plugins()
    reports = tuple(
        probe_in_subprocess(one, timeout=timeout)
        for one in track_progress(installed, len(installed), "Checking plugins")
    )
    _print_reports(ctx, reports, strict=True, as_json=as_json)


@plugins_command.command("new")
@click.argument("name")
@click.option("--into", "folder", type=click.Path(path_type=Path, file_okay=False), default=Path(),
              help="Where the new folder goes; by default here.")  # fmt: skip
@app_options
def new_command(*, name: str, folder: Path) -> None:
    """Start a plugin of your own: a package called NAME, with a tool, its tests and a README."""
    home = write_plugin(derive_plugin_names(name), folder)
    console = make_console()
    print_parts(console, Text.assemble("Wrote ", (sanitize_text(home), "bold")))
    for step in (f"cd {home}", "pip install -e '.[test]'", "python -m pytest", "praval-tools list"):
        print_parts(console, Text(f"  {step}"))


def _open_registry(ctx: click.Context) -> ToolRegistry:
    if get_app_option(ctx) is not None or find_plugins():
        return open_selected_registry(ctx)
    registry = get_tool_registry()
    ensure_plugins_loaded(registry)
    return registry


def _load_reports(ctx: click.Context) -> tuple[PluginReport, ...]:
    return plugin_reports(_open_registry(ctx))


def _print_reports(ctx: click.Context, reports: tuple[PluginReport, ...], *, strict: bool, as_json: bool) -> None:
    if as_json:
        print_json([_report_to_json(one) for one in reports])
    elif not reports:
        print_parts(
            make_console(stderr=True), Text("No plugins are installed. Start one: praval-tools plugins new NAME")
        )
    else:
        rows = [
            (to_cell(one.distribution, "bold"), to_cell(one.version), _render_status(one), to_cell(len(one.tools)),
             to_cell(_describe_report(one), "" if one.failed else "dim", max_length=160))
            for one in reports
        ]  # fmt: skip
        print_parts(make_console(), build_grid(("plugin", "version", "", "tools", ""), rows))
    if strict and any(one.failed for one in reports):
        ctx.exit(EXIT_PROBLEM)


def _render_status(report: PluginReport) -> Text:
    if report.failed:
        return Text(f"failed: {sanitize_text(report.stage)}", style="red")
    return Text(report.stage, style="green" if report.loaded else "dim")


def _describe_report(report: PluginReport) -> str:
    if report.error is not None:
        return report.error.problem
    if report.changed:
        return f"changed: {', '.join(report.changed)}"
    if report.wishes:
        return f"asks for {len(report.wishes)} more: plugins show {report.distribution}"
    return report.reason


def _print_report(report: PluginReport, *, is_first: bool) -> None:
    console = make_console()
    print_parts(console, *([] if is_first else [""]),
              Text.assemble(to_cell(f"{report.distribution} {report.version}", "bold"), " ", _render_status(report)))  # fmt: skip
    rows = [
        ("entry point", report.entry_point), ("why", report.reason), ("tools", ", ".join(report.tools)),
        ("not allowed", ", ".join(report.withheld)), ("hooks", ", ".join(report.hooks)),
        ("changed", ", ".join(report.changed) + (f" since {report.upgraded_from}" if report.upgraded_from else "")),
        ("error", report.error.problem if report.error is not None else ""),
    ]  # fmt: skip
    table = build_grid(("", ""), [(to_cell(name, "dim"), to_cell(value)) for name, value in rows if value])
    table.show_header = False
    print_parts(console, Padding(table, (0, 0, 0, 2)))
    if report.wishes:
        key = f'[plugins."{report.distribution}"]'
        print_parts(console, Text(f"  It asks for, and has not (to grant it: trust = true in {key}):"))
        print_parts(console, *(Text(f"    {sanitize_text(wish)}") for wish in report.wishes))
    if report.traceback:
        print_parts(
            console, Padding(Text(sanitize_text(report.traceback, keep_line_breaks=True), style="dim"), (1, 0, 0, 2))
        )


def _report_to_json(report: PluginReport) -> dict[str, Any]:
    return report_to_json(report)
