"""What the commands share that change who may do what: the act is the operator's, and is kept."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import click
from attrs import field, frozen
from rich.text import Text

from praval_tools import ToolRegistry, plugin_reports
from praval_tools.cli.app_option import app_options, complete_agent, complete_tool, load_app_registry
from praval_tools.cli.common import EXIT_REFUSED, EXIT_USAGE, CommandError, F, json_option
from praval_tools.cli.journal_option import MEMORY_JOURNAL_NAME, locate_journal, open_selected_registry
from praval_tools.cli.output import make_console, print_json, print_parts, to_cell
from praval_tools.cli.plugin_commands import ensure_plugins_loaded
from praval_tools.errors import InvalidNameError, JournalWarning, ToolUsageError, UnknownToolError
from praval_tools.names import check_agent_name, find_similar_names


@frozen(kw_only=True)
class ChangeResult:
    """
    What a command did.

    Args:
        text: In a sentence.
        changed: False: it was so already.
        about: For `--json`: what it was done to.
        notes: What a person should know besides.
    """

    text: str
    changed: bool = True
    details: dict[str, Any] = field(factory=dict)
    notes: tuple[str, ...] = ()


ChangeFunction = Callable[[ToolRegistry], ChangeResult]

tool_argument = click.argument("tool", shell_complete=complete_tool)
agent_argument = click.argument("agent", shell_complete=complete_agent)


def change_options(command: F) -> F:
    """Add the options of every command that changes who may do what."""
    reason = click.option("--reason", metavar="TEXT", default="", help="Why; kept with it.")
    made: Any = reason(json_option(app_options(click.pass_context(command))))
    return made  # type: ignore[no-any-return]


def apply_change(ctx: click.Context, verb: str, deed: ChangeFunction, *, as_json: bool) -> None:
    """
    Do *deed* as the operator and keep it in the journal, then say what was done, and where it is kept.

    Where there is no journal yet, it is tried on a copy first: what cannot be done makes no file.

    Raises:
        Failure: It cannot be done, or cannot be kept.
    """
    registry = load_app_registry(ctx)
    if registry.journal is not None and registry.journal.name == MEMORY_JOURNAL_NAME:
        fix = "give the registry a file: ToolRegistry(journal='runs.db')."
        raise CommandError(
            f"The registry keeps its journal in memory, where the act would end with this command; {fix}"
        )
    own, place = registry.journal, locate_journal(ctx)
    if own is None and not place.exists:
        trial = registry.fork()
        if not plugin_reports(registry):
            ensure_plugins_loaded(trial, quiet=True)
        done, _ = _run_change(trial, deed)
        if not done.changed:
            _print_change(verb, done, None, (), as_json=as_json)
            return
    registry = open_selected_registry(ctx, create_journal=True)
    done, notes = _run_change(registry, deed)
    journal = registry.journal.name if registry.journal is not None else str(place.path)
    _print_change(verb, done, journal, notes, as_json=as_json, has_own_journal=own is not None)


def _run_change(registry: ToolRegistry, deed: ChangeFunction) -> tuple[ChangeResult, tuple[str, ...]]:
    """Do it, and return what came of it, with the warnings that it gave."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            with registry.as_operator():
                done = deed(registry)
        except (InvalidNameError, ToolUsageError) as error:
            raise CommandError(str(error), EXIT_USAGE) from error
    if lost := [one for one in heard if issubclass(one.category, JournalWarning)]:
        raise CommandError(f"It was not kept: {lost[0].message}")
    return done, (*(str(one.message) for one in heard), *done.notes)


def _print_change(
    verb: str,
    done: ChangeResult,
    journal: str | None,
    notes: Iterable[str],
    *,
    as_json: bool,
    has_own_journal: bool = False,
) -> None:
    err = make_console(stderr=True)
    for note in notes:
        print_parts(err, to_cell(f"Note: {note}", "yellow"))
    if as_json:
        kept = journal if done.changed else None
        print_json({"done": verb, "changed": done.changed, **done.details, "journal": kept, "notes": list(notes)})
        return
    print_parts(make_console(), to_cell(done.text))
    if done.changed and journal is not None:
        hint = "" if has_own_journal else f" Your program sees it with ToolRegistry(journal={journal!r})."
        print_parts(err, Text.assemble(to_cell(f"Kept in the journal {journal!r}.{hint}", "dim")))


def check_tool_exists(registry: ToolRegistry, tool: str, *, recorded_for: str | None = None) -> None:
    """
    Refuse a tool that does not exist; one that something is recorded of for *or_agent* will do.

    Raises:
        UnknownToolError: There is none; the text names similar ones.
    """
    state = registry.state
    recorded = recorded_for is not None and tool in (state.access_by_agent.get(recorded_for) or {})
    if tool not in state.tools and not recorded:
        raise UnknownToolError(tool, find_similar_names(tool, state.tools))


def collect_agent_notes(registry: ToolRegistry, agent: str) -> tuple[str, ...]:
    """
    Return a note where nobody declares *agent*, which is no error: a grant or block may come before it.

    Raises:
        InvalidNameError: No agent can be called that.
    """
    if check_agent_name(agent) in registry.agents:
        return ()
    fix = find_similar_names(agent, registry.agents)
    meant = f" Did you mean {' or '.join(map(repr, fix))}?" if fix else ""
    return (f"no agent {agent!r} is declared.{meant}",)


def make_refusal(text: str) -> CommandError:
    """Return what ends a command that the access rules refuse."""
    return CommandError(f"{text} Nothing was changed.", EXIT_REFUSED)
