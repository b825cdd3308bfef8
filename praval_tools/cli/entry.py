"""Runs the command line: finds the command, prints errors in one line, sets the exit code."""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress

import click
from click.shell_completion import CompletionItem

from praval_tools import __version__
from praval_tools.cli.common import (
    EXIT_OK,
    EXIT_PROBLEM,
    EXIT_USAGE,
    CommandError,
    CommandGroup,
    OutputError,
    app_option,
    config_option,
    find_command_line,
    journal_option,
    sanitize_text,
    traceback_option,
)
from praval_tools.errors import ToolError
from praval_tools.lazy_import import load
from praval_tools.names import call_or_default, has_type, to_plain_text
from praval_tools.plugins.click_contexts import hide_contexts
from praval_tools.plugins.discovery import AppFolder, find_plugins, read_allow_list
from praval_tools.tools.frames import activate_tool_frame

_PLUGIN_COMMANDS_KEY = "praval_tools.cli.plugin_commands"

COMMANDS = {
    "demo": ("demo.command", "Watch four agents answer a question about real data, or about yours."),
    "list": ("listings", "List the tools, or those that one agent may call."),
    "search": ("listings", "Find tools by words, or those that one agent may call."),
    "show": ("listings", "Show one tool: parameters, result, owner, who may call it."),
    "agents": ("listings", "List the agents: what they own, list and request."),
    "matrix": ("matrix", "Show agents x tools, with the deciding rule in each cell."),
    "why": ("call", "Explain why an agent may call a tool, or may not, rule by rule."),
    "call": ("call", "Call a tool as an agent, with every check."),
    "export": ("listings", "Write an agent's tools in a provider's format."),
    "assign": ("grants", "Let an agent call a tool, permanently or within limits."),
    "unassign": ("grants", "Take a tool from an agent."),
    "block": ("grants", "Forbid an agent to call a tool, whatever else allows it."),
    "unblock": ("grants", "Remove the blocks of an agent from a tool."),
    "grants": ("grant_listing", "List the live grants: what is left of each, by whom and why."),
    "revoke": ("grant_listing", "End one grant, and every grant made from it."),
    "transfer": ("tool_state", "Give a tool another owner."),
    "share": ("tool_state", "Let every agent call a tool."),
    "unshare": ("tool_state", "Stop sharing a tool."),
    "disable": ("tool_state", "Disable a tool, namespace, category or tag for every agent."),
    "enable": ("tool_state", "Enable a disabled tool, namespace, category or tag."),
    "approvals": ("approvals", "List the calls that wait for a person; approve or deny one."),
    "audit": ("audit", "Show who called what, what was changed, and why."),
    "report": ("report.command", "Write what happened as a page for the browser, for any journal."),
    "runs": ("runs", "List the runs; show one, resolve its calls in doubt."),
    "journal": ("journal", "Show where the journal is and what it holds; delete old events."),
    "worker": ("worker", "Run the tools of owners for processes of any machine."),
    "db": ("db", "Make or upgrade the tables of a journal's database; show their version."),
    "advise": ("advise", "Say which permissions were never needed, and what narrows them."),
    "stats": ("stats", "Show how often each tool is used, and how its calls end."),
    "mcp": ("mcp", "Serve an agent's tools to MCP clients."),
    "ui": ("ui", "Serve the operator's page: what happens, and what waits for you."),
    "tokens": ("tokens", "Add, list and revoke the tokens of MCP clients and of people."),
    "plugins": ("plugins", "List the plugins, show what one requests, start one of your own."),
    "docs": ("tool_docs.command", "Write documents of the tools: a reference, type stubs."),
    "check": ("check", "Import the app, resolve every reference, report what is wrong."),
}
"""Command → the module of `praval_tools.cli` that holds it as `<name>_command`, and its help in one line."""


def get_plugin_commands(ctx: click.Context) -> dict[str, click.Command]:
    """Return the commands that installed plugins add; without plugins nothing is imported for them."""
    if _PLUGIN_COMMANDS_KEY not in ctx.meta:
        has_plugins = read_allow_list() != frozenset() and bool(find_plugins())
        ctx.meta[_PLUGIN_COMMANDS_KEY] = (
            load("praval_tools.cli.plugin_commands").load_plugin_commands(ctx, COMMANDS) if has_plugins else {}
        )
    commands: dict[str, click.Command] = ctx.meta[_PLUGIN_COMMANDS_KEY]
    return commands


class RootCommandGroup(CommandGroup):
    """The commands by name; a command's module is imported when it runs, not for help and completion."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *get_plugin_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return get_plugin_commands(ctx).get(cmd_name)
        command: click.Command = getattr(load(f"praval_tools.cli.{COMMANDS[cmd_name][0]}"), f"{cmd_name}_command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])
        if plugin_commands := get_plugin_commands(ctx):
            with formatter.section("Commands of plugins"):
                formatter.write_dl(
                    [
                        (sanitize_text(name), sanitize_text(command.get_short_help_str(80)))
                        for name, command in plugin_commands.items()
                    ]
                )

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [CompletionItem(name, help=text) for name, (_, text) in COMMANDS.items() if name.startswith(incomplete)]
        return names + [item for item in click.Command.shell_complete(self, ctx, incomplete) if item not in names]

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except OSError as error:  # caught here because Click would exit with 1 for a broken pipe
            if isinstance(error, BrokenPipeError) or _flush_stdout() is not None:
                raise OutputError(error) from error
            raise
        except BaseException as error:
            if has_type(error, OutputError) or not has_type(error, (CommandError, ToolError)):
                raise
            text, code = _describe_error(error)
            raise CommandError(find_command_line(ctx).rewrite(text), code) from error


@click.command(
    cls=RootCommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 success, 1 a problem was found, 2 wrong usage, 3 refused by the access rules, "
    "4 done, but stdout could not take the result.",
)
@app_option
@config_option
@journal_option
@traceback_option
@click.version_option(__version__, message="%(prog)s %(version)s", help="Print the version and exit.")
def root_command() -> None:
    """
    Who owns each tool, which agent may call it, and why.

    Start with: praval-tools demo
    """


def run(arguments: list[str], has_working_folder: bool = False) -> int:
    """Run the command line and return its exit code; an error is one line, with --traceback the whole traceback."""
    if has_working_folder:
        sys.path[0] = AppFolder(sys.path[0])
    _prepare_streams()
    code = _run_command(arguments or ["--help"])
    if (error := _flush_stdout()) is not None:
        code = _print_output_error(OutputError(error)) if code == EXIT_OK else code
        _discard_output()
    return code


def _prepare_streams() -> None:
    """Have stdout and stderr take every text in every encoding, and open the null device for closed ones."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:  # in this order, so that no file opened later takes the number of a standard stream
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
        elif mode == "w" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _run_command(arguments: list[str]) -> int:
    try:
        result = root_command.main(arguments, prog_name="praval-tools", standalone_mode=False)
        return result if isinstance(result, int) else EXIT_OK
    except click.Abort:
        raise KeyboardInterrupt from None
    except click.UsageError as error:
        hint = f" See: {error.ctx.command_path} --help" if error.ctx is not None else ""
        return _print_error("Error:", f"{error.format_message()}{hint}", EXIT_USAGE)
    except click.ClickException as error:
        return _print_error("Error:", error.format_message(), EXIT_PROBLEM)
    except OutputError as error:
        return _print_output_error(error)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # every remaining error is shown to a person, in one line
        text, code = _describe_error(error)
        if "--traceback" in arguments and (lines := _format_traceback(error)):
            return _write_error(lines, code)
        return _print_error("Error:", text, code)


def _describe_error(error: BaseException) -> tuple[str, int]:
    """Return the text of an error, and the exit code."""
    with activate_tool_frame("(praval-tools)"), hide_contexts():  # its class may be that of a tool, an app or a plugin
        if not has_type(error, (CommandError, ToolError)):
            return f"{type(error).__name__}: {error} (for the full traceback add --traceback)", EXIT_PROBLEM
        is_unknown = to_plain_text(getattr(error, "code", "")).startswith("unknown-")
        default = EXIT_USAGE if is_unknown else EXIT_PROBLEM
        return to_plain_text(error), getattr(error, "exit_code", default)


def _format_traceback(error: BaseException) -> str:
    """
    Return what Python would print of an error; nothing where that fails.

    Its texts, notes and causes may be code of a tool, an app or a plugin.
    """
    with activate_tool_frame("(praval-tools)"), hide_contexts():
        lines = call_or_default(lambda: "".join(traceback.format_exception(error)), "")
    return sanitize_text(lines.rstrip(), keep_line_breaks=True)


def _print_error(label: str, message: str, code: int) -> int:
    text = f"{click.style(label, fg='red', bold=True)} {sanitize_text(message, keep_line_breaks=True)}"
    return _write_error(text, code)


def _write_error(text: str, code: int) -> int:
    with suppress(OSError):  # stderr takes nothing: nobody reads it
        click.echo(text, err=True, color=sys.stderr.isatty() and not os.environ.get("NO_COLOR"))
    return code


def _print_output_error(error: OutputError) -> int:
    return _print_error("Error:", error.message, error.exit_code) if error.message else error.exit_code


def _flush_stdout() -> OSError | None:
    """Write what is still buffered; return what prevents it."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return error
    return None


def _discard_output() -> None:
    """Send what is still buffered nowhere: stdout does not take it."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError:  # a stream without a number
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
