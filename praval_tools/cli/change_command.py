"""Makes commands that change access: the change is made as the operator, recorded in the journal, and printed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable

import click
from attrs import field, frozen

from praval_tools import ToolRegistry, plugin_reports
from praval_tools.access.state import AccessState
from praval_tools.cli.app_option import complete_agent, complete_tool, find_app_spec, load_app_registry, report_options
from praval_tools.cli.common import EXIT_REFUSED, CommandError, JsonObject, UsageError, find_command_line
from praval_tools.cli.journal_option import MEMORY_JOURNAL_NAME, locate_journal, open_selected_registry
from praval_tools.cli.output import print_json, print_message, print_note, print_result, report_effect, to_cell
from praval_tools.cli.plugin_commands import ensure_plugins_loaded, has_plugins_as_program
from praval_tools.errors import InvalidNameError, JournalWarning, ToolUsageError, UnknownToolError
from praval_tools.names import check_agent_name, find_similar_names, suggest_names
from praval_tools.report.command_line import CommandLine


@frozen(kw_only=True)
class ChangeResult:
    """
    What a command did.

    Args:
        text: In a sentence.
        changed: False where nothing had to be changed.
        details: For `--json`: what was changed.
        notes: What a person should know besides.
    """

    text: str
    changed: bool = True
    details: JsonObject = field(factory=dict)
    notes: tuple[str, ...] = ()


tool_argument = click.argument("tool", shell_complete=complete_tool)
agent_argument = click.argument("agent", shell_complete=complete_agent)
_reason_option = click.option("--reason", metavar="TEXT", default="", help="Why; recorded with the change.")


def change_command(
    name: str, *parameters: Callable[[Callable[..., object]], Callable[..., object]]
) -> Callable[[Callable[..., ChangeResult]], click.Command]:
    """
    Make a command of a function that changes a registry; it gets the registry, the parameters and `reason`.

    Args:
        name: Of the command.
        parameters: Its own arguments and options; those that all such commands have come after them.
    """

    def decorate(function: Callable[..., ChangeResult]) -> click.Command:
        def command(ctx: click.Context, /, *, as_json: bool, **values: object) -> None:
            _apply_change(ctx, lambda registry: function(registry, **values), as_json=as_json)

        decorated: Callable[..., object] = _reason_option(report_options(command))
        for parameter in reversed(parameters):
            decorated = parameter(decorated)
        return click.command(name, help=function.__doc__)(decorated)

    return decorate


def _apply_change(ctx: click.Context, change: Callable[[ToolRegistry], ChangeResult], *, as_json: bool) -> None:
    """
    Make a change as the operator and record it in the journal, then print what was done and where it is recorded.

    Where there is no journal yet, the change is tried on a copy first, so that a change that fails creates no file.

    Raises:
        CommandError: It cannot be made, or cannot be recorded.
    """
    registry = load_app_registry(ctx)
    own, location, command_line = registry.journal, locate_journal(ctx), find_command_line(ctx)
    if own is not None and own.name == MEMORY_JOURNAL_NAME:
        fix = "give the registry a file: ToolRegistry(journal='runs.db')."
        raise CommandError(
            f"The registry keeps its journal in memory, where the change would end with this command; {fix}"
        )
    if own is None and not location.exists:
        trial = registry.fork()
        if not plugin_reports(registry) and has_plugins_as_program(registry):
            ensure_plugins_loaded(trial)
        result, _ = _run_change(trial, change, command_line)
        if not result.changed:
            _print_change(ctx, result, (), None, as_json=as_json)
            return
    registry = open_selected_registry(ctx, is_change=True, create_journal=True)
    result, notes = _run_change(registry, change, command_line)
    journal = registry.journal.name if registry.journal is not None else location.name
    hint = "" if own is not None else f" Your program sees it with ToolRegistry(journal={journal!r})"
    if hint and find_app_spec(ctx) is None:
        hint += " and load_plugins(registry)"
    _print_change(ctx, result, notes, journal, as_json=as_json, hint=hint and f"{hint}.")


def _run_change(
    registry: ToolRegistry, change: Callable[[ToolRegistry], ChangeResult], command_line: CommandLine
) -> tuple[ChangeResult, tuple[str, ...]]:
    """Make the change; return its result, and its notes after the warnings that it gave."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with registry.as_operator():
                result = change(registry)
        except (InvalidNameError, ToolUsageError) as error:
            raise UsageError(str(error)) from error
    for warning in caught:
        if issubclass(warning.category, JournalWarning):
            raise CommandError(f"It was not recorded: {warning.message}")
    return result, (*(command_line.rewrite(str(warning.message)) for warning in caught), *result.notes)


def _print_change(
    ctx: click.Context,
    result: ChangeResult,
    notes: Iterable[str],
    journal: str | None,
    *,
    as_json: bool,
    hint: str = "",
) -> None:
    for note in notes:
        print_note(note)
    journal = journal if result.changed else None
    with report_effect(result.text):
        if as_json:
            done = {"done": ctx.command.name, "changed": result.changed}
            print_json({**done, **result.details, "journal": journal, "notes": list(notes)})
        else:
            print_result(to_cell(result.text))
    if journal is not None and not as_json:
        print_message(f"Recorded in the journal {journal!r}.{hint}", "dim")


def check_tool_exists(registry: ToolRegistry, tool: str, *, recorded_for: str | None = None) -> None:
    """
    Check that a tool exists, or that the agent *recorded_for* lists it, or something is recorded of the two.

    Raises:
        UnknownToolError: There is none; the text names similar ones.
    """
    state = registry.state
    if tool not in state.tools and not (recorded_for is not None and _is_recorded(state, tool, recorded_for)):
        raise UnknownToolError(tool, find_similar_names(tool, state.tools))


def _is_recorded(state: AccessState, tool: str, agent: str) -> bool:
    waiting = [grant.agent for _, grant in state.iter_pending_grants(tool)]
    listed = state.get_profile(agent).tools
    return tool in (state.access_by_agent.get(agent) or ()) or tool in listed or agent in waiting


def collect_agent_notes(registry: ToolRegistry, agent: str) -> tuple[str, ...]:
    """
    Return a note where nobody declares *agent*, which is allowed: a grant or block may precede the declaration.

    Raises:
        InvalidNameError: It is not a valid agent name.
    """
    if check_agent_name(agent) in registry.agents:
        return ()
    return (f"no agent {agent!r} is declared.{suggest_names(agent, registry.agents)}",)


def make_refusal(text: str) -> CommandError:
    """Return the error of a command that the access rules refuse."""
    return CommandError(f"{text} Nothing was changed.", EXIT_REFUSED)
