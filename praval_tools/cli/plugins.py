"""The commands about plugins: `plugins`, with `list`, `show`, `check` and `new`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.padding import Padding
from rich.text import Text

from praval_tools import PluginReport, ToolRegistry, get_tool_registry, plugin_reports
from praval_tools.cli.app_option import app_options
from praval_tools.cli.common import PROBLEM, USAGE, Branch, Failure, chosen_app, json_option, shown
from praval_tools.cli.journal_option import registry_of
from praval_tools.cli.output import cell, grid, print_all, print_json, screen
from praval_tools.cli.plugin_commands import fill
from praval_tools.cli.plugin_template import render, rendered_name
from praval_tools.cli.progress import watched
from praval_tools.names import near, normalized
from praval_tools.plugins.discovery import find
from praval_tools.plugins.probe import as_json, probed

strict_option = click.option("--strict", is_flag=True, help="Exit with 1 where any plugin failed.")


@click.group("plugins", cls=Branch, invoke_without_command=True)
@strict_option
@json_option
@app_options
@click.pass_context
def plugins_command(ctx: click.Context, *, strict: bool, as_json: bool) -> None:
    """List the plugins, show what one asks for, start one of your own."""
    if ctx.invoked_subcommand is None:
        _list(ctx, _reports(ctx), strict=strict, json=as_json)


@plugins_command.command("list")
@strict_option
@json_option
@app_options
@click.pass_context
def list_command(ctx: click.Context, *, strict: bool, as_json: bool) -> None:
    """List the installed plugins: what became of each, and why."""
    _list(ctx, _reports(ctx), strict=strict, json=as_json)


@plugins_command.command("show")
@click.argument("name")
@json_option
@app_options
@click.pass_context
def show_command(ctx: click.Context, *, name: str, as_json: bool) -> None:
    """Show one plugin, by its distribution or entry point: tools, hooks, what it asks for, its error in full."""
    registry = _registry(ctx)
    wanted, reports = normalized(name), plugin_reports(registry)
    mine = [one for one in reports if wanted in (one.distribution, normalized(one.entry_point))]
    if not mine:
        known = sorted({one.distribution for one in reports})
        fix = f" Did you mean {' or '.join(map(repr, near(wanted, known)))}?" if near(wanted, known) else ""
        raise Failure(f"No plugin {name!r} is installed.{fix}", USAGE)
    if as_json:
        print_json([_json(one) for one in mine])
        return
    for number, one in enumerate(mine):
        _show(one, first=not number)


@plugins_command.command("check")
@click.option("--timeout", type=click.FloatRange(min=0.1), default=30.0, show_default=True,
              help="Seconds that each plugin may take.")  # fmt: skip
@json_option
@app_options
@click.pass_context
def check_command(ctx: click.Context, *, timeout: float, as_json: bool) -> None:
    """Load each plugin alone, in a process that is killed where it hangs; exits with 1 where one fails."""
    installed = find()
    reports = tuple(probed(one, timeout=timeout) for one in watched(installed, len(installed), "Checking plugins"))
    _list(ctx, reports, strict=True, json=as_json)


@plugins_command.command("new")
@click.argument("name")
@click.option("--into", "folder", type=click.Path(path_type=Path, file_okay=False), default=Path(),
              help="Where the new folder goes; by default here.")  # fmt: skip
@app_options
def new_command(*, name: str, folder: Path) -> None:
    """Start a plugin of your own: a package called NAME, with a tool, its tests and a README."""
    home = render(rendered_name(name), folder)
    console = screen()
    print_all(console, Text.assemble("Wrote ", (shown(home), "bold")))
    for step in (f"cd {home}", "pip install -e '.[test]'", "python -m pytest", "praval-tools list"):
        print_all(console, Text(f"  {step}"))


def _registry(ctx: click.Context) -> ToolRegistry:
    if chosen_app(ctx) is not None or find():
        return registry_of(ctx)
    registry = get_tool_registry()
    fill(registry)
    return registry


def _reports(ctx: click.Context) -> tuple[PluginReport, ...]:
    return plugin_reports(_registry(ctx))


def _list(ctx: click.Context, reports: tuple[PluginReport, ...], *, strict: bool, json: bool) -> None:
    if json:
        print_json([_json(one) for one in reports])
    elif not reports:
        print_all(screen(stderr=True), Text("No plugins are installed. Start one: praval-tools plugins new NAME"))
    else:
        rows = [
            (cell(one.distribution, "bold"), cell(one.version), _status(one), cell(len(one.tools)),
             cell(_told(one), "" if one.failed else "dim", most=160))
            for one in reports
        ]  # fmt: skip
        print_all(screen(), grid(("plugin", "version", "", "tools", ""), rows))
    if strict and any(one.failed for one in reports):
        ctx.exit(PROBLEM)


def _status(report: PluginReport) -> Text:
    if report.failed:
        return Text(f"failed: {shown(report.stage)}", style="red")
    return Text(report.stage, style="green" if report.loaded else "dim")


def _told(report: PluginReport) -> str:
    if report.error is not None:
        return report.error.problem
    if report.changed:
        return f"changed: {', '.join(report.changed)}"
    if report.wishes:
        return f"asks for {len(report.wishes)} more: plugins show {report.distribution}"
    return report.reason


def _show(report: PluginReport, *, first: bool) -> None:
    console = screen()
    print_all(console, *([] if first else [""]),
              Text.assemble(cell(f"{report.distribution} {report.version}", "bold"), " ", _status(report)))  # fmt: skip
    rows = [
        ("entry point", report.entry_point), ("why", report.reason), ("tools", ", ".join(report.tools)),
        ("not allowed", ", ".join(report.withheld)), ("hooks", ", ".join(report.hooks)),
        ("changed", ", ".join(report.changed) + (f" since {report.upgraded_from}" if report.upgraded_from else "")),
        ("error", report.error.problem if report.error is not None else ""),
    ]  # fmt: skip
    table = grid(("", ""), [(cell(name, "dim"), cell(value)) for name, value in rows if value])
    table.show_header = False
    print_all(console, Padding(table, (0, 0, 0, 2)))
    if report.wishes:
        key = f'[plugins."{report.distribution}"]'
        print_all(console, Text(f"  It asks for, and has not (to grant it: trust = true in {key}):"))
        print_all(console, *(Text(f"    {shown(wish)}") for wish in report.wishes))
    if report.traceback:
        print_all(console, Padding(Text(shown(report.traceback, lines=True), style="dim"), (1, 0, 0, 2)))


def _json(report: PluginReport) -> dict[str, Any]:
    return as_json(report)
