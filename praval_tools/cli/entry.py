"""
The entry point: options that every command has, errors in one line, exit codes.

Imports Click and nothing else of weight: a command's module is imported when that command runs, so that
`--help` and `--version` answer at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from praval_tools import __version__
from praval_tools.cli.common import (
    EXIT_OK,
    EXIT_PROBLEM,
    EXIT_USAGE,
    CommandError,
    app_option,
    journal_option,
    reject_unknown_command,
    sanitize_text,
    traceback_option,
)
from praval_tools.errors import ToolError
from praval_tools.lazy_import import load
from praval_tools.plugins.discovery import find_plugins, read_allow_list

EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
_PLUGIN_COMMANDS_KEY = "praval_tools.cli.plugged"

COMMANDS = {
    "demo": ("demo.command", "Watch four agents answer a question about real data, or about yours."),
    "list": ("listings", "List the tools, or those that one agent may call."),
    "show": ("listings", "Show one tool: parameters, result, owner, who may call it."),
    "agents": ("listings", "List the agents: what they own, list and request."),
    "matrix": ("listings", "Show agents x tools, with the deciding rule in each cell."),
    "why": ("call", "Explain why an agent may call a tool, or may not, rule by rule."),
    "call": ("call", "Call a tool as an agent, with every check."),
    "export": ("export", "Write an agent's tools in a provider's format."),
    "assign": ("grants", "Let an agent call a tool, for ever or within limits."),
    "unassign": ("grants", "Take a tool from an agent."),
    "block": ("grants", "Refuse a tool to an agent, whatever permits it."),
    "unblock": ("grants", "Lift the blocks of an agent from a tool."),
    "transfer": ("tool_state", "Hand a tool over to another owner."),
    "share": ("tool_state", "Let every agent call a tool."),
    "unshare": ("tool_state", "Share a tool no more."),
    "disable": ("tool_state", "Switch off a tool, namespace, category or tag, for everybody."),
    "enable": ("tool_state", "Switch it on again."),
    "audit": ("audit", "Show who called what, what was changed, and why."),
    "runs": ("runs", "List the runs; show one, resolve its calls in doubt."),
    "journal": ("journal", "Say where the journal is and what it holds; forget old events."),
    "stats": ("stats", "Show how often each tool is used, and how it goes."),
    "plugins": ("plugins", "List the plugins, show what one asks for, start one of your own."),
    "check": ("check", "Import the app, resolve every reference, report what is wrong."),
}


def get_plugin_commands(ctx: click.Context) -> dict[str, click.Command]:
    """Return the commands of plugins; their modules are imported where any plugin is installed, and only then."""
    found: dict[str, click.Command] | None = ctx.meta.get(_PLUGIN_COMMANDS_KEY)
    if found is None:
        found = {}
        if read_allow_list() != frozenset() and find_plugins():
            found = load("praval_tools.cli.plugin_commands").load_plugin_commands(COMMANDS)
        ctx.meta[_PLUGIN_COMMANDS_KEY] = found
    return found


class RootCommandGroup(click.Group):
    """The commands by name; help and completion know them without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *get_plugin_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return get_plugin_commands(ctx).get(cmd_name)
        module = load(f"praval_tools.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])
        if more := get_plugin_commands(ctx):
            with formatter.section("Commands of plugins"):
                formatter.write_dl(
                    [(sanitize_text(name), sanitize_text(one.get_short_help_str(80))) for name, one in more.items()]
                )

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [CompletionItem(name, help=text) for name, (_, text) in COMMANDS.items() if name.startswith(incomplete)]
        return names + [item for item in click.Command.shell_complete(self, ctx, incomplete) if item not in names]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS:
            reject_unknown_command(ctx, args, self.list_commands(ctx))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # here, because Click's own handling would say exit code 1
            _discard_output()
            return EXIT_BROKEN_PIPE


@click.command(
    cls=RootCommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 fine, 1 a problem was found, 2 wrong usage, 3 the access rules refuse.",
)
@app_option
@journal_option
@traceback_option
@click.version_option(__version__, message="%(prog)s %(version)s", help="Print the version and exit.")
def root_command() -> None:
    """
    Who owns each tool, which agent may call it, and why.

    Start with: praval-tools demo
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit; an error is one readable line, with --traceback the whole of it."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    given = given or ["--help"]
    code = _run_command(given)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        code = EXIT_BROKEN_PIPE
    sys.exit(code)


def _run_command(arguments: list[str]) -> int:
    try:
        answer: Any = root_command.main(arguments, prog_name="praval-tools", standalone_mode=False)
        return answer if isinstance(answer, int) else EXIT_OK
    except click.Abort:
        return _print_error("Stopped:", "interrupted.", EXIT_INTERRUPTED)
    except click.UsageError as error:
        place = f" See: {error.ctx.command_path} --help" if error.ctx is not None else ""
        return _print_error("Error:", f"{error.format_message()}{place}", EXIT_USAGE)
    except click.ClickException as error:
        return _print_error("Error:", error.format_message(), EXIT_PROBLEM)
    except Exception as error:  # the last seam: whatever it is, a person reads one line
        if "--traceback" in arguments:
            raise
        return _print_error("Error:", *_describe_error(error))


def _describe_error(error: Exception) -> tuple[str, int]:
    if isinstance(error, CommandError):
        return str(error), error.exit_code
    if isinstance(error, ToolError):
        return str(error), EXIT_PROBLEM
    return f"{type(error).__name__}: {error} (the whole of it: add --traceback)", EXIT_PROBLEM


def _print_error(label: str, message: str, code: int) -> int:
    colour = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    click.echo(
        f"{click.style(label, fg='red', bold=True)} {sanitize_text(message, keep_line_breaks=True)}",
        err=True,
        color=colour,
    )
    return code


def _discard_output() -> None:
    """Let the interpreter's last flush go nowhere: who read our output has left."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115
