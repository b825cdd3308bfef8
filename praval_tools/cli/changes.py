"""What the commands share that change who may do what: the act is the operator's, and is kept."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import click
from attrs import field, frozen
from rich.text import Text

from praval_tools import ToolRegistry, plugin_reports
from praval_tools.cli.app_option import app_options, app_registry, complete_agent, complete_tool
from praval_tools.cli.common import REFUSED, USAGE, F, Failure, json_option
from praval_tools.cli.journal_option import MEMORY, place_of, registry_of
from praval_tools.cli.output import cell, print_all, print_json, screen
from praval_tools.cli.plugin_commands import fill
from praval_tools.errors import InvalidNameError, JournalWarning, ToolUsageError, UnknownToolError
from praval_tools.names import check_agent_name, near


@frozen(kw_only=True)
class Done:
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
    about: dict[str, Any] = field(factory=dict)
    notes: tuple[str, ...] = ()


Deed = Callable[[ToolRegistry], Done]

tool_argument = click.argument("tool", shell_complete=complete_tool)
agent_argument = click.argument("agent", shell_complete=complete_agent)


def act_options(command: F) -> F:
    """Add the options of every command that changes who may do what."""
    reason = click.option("--reason", metavar="TEXT", default="", help="Why; kept with it.")
    made: Any = reason(json_option(app_options(click.pass_context(command))))
    return made  # type: ignore[no-any-return]


def act(ctx: click.Context, verb: str, deed: Deed, *, as_json: bool) -> None:
    """
    Do *deed* as the operator and keep it in the journal, then say what was done, and where it is kept.

    Where there is no journal yet, it is tried on a copy first: what cannot be done makes no file.

    Raises:
        Failure: It cannot be done, or cannot be kept.
    """
    registry = app_registry(ctx)
    if registry.journal is not None and registry.journal.name == MEMORY:
        fix = "give the registry a file: ToolRegistry(journal='runs.db')."
        raise Failure(f"The registry keeps its journal in memory, where the act would end with this command; {fix}")
    own, place = registry.journal, place_of(ctx)
    if own is None and not place.there:
        trial = registry.fork()
        if not plugin_reports(registry):
            fill(trial, quiet=True)
        done, _ = _done(trial, deed)
        if not done.changed:
            _tell(verb, done, None, (), as_json=as_json)
            return
    registry = registry_of(ctx, make=True)
    done, notes = _done(registry, deed)
    journal = registry.journal.name if registry.journal is not None else str(place.path)
    _tell(verb, done, journal, notes, as_json=as_json, own=own is not None)


def _done(registry: ToolRegistry, deed: Deed) -> tuple[Done, tuple[str, ...]]:
    """Do it, and return what came of it, with the warnings that it gave."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            with registry.as_operator():
                done = deed(registry)
        except (InvalidNameError, ToolUsageError) as error:
            raise Failure(str(error), USAGE) from error
    if lost := [one for one in heard if issubclass(one.category, JournalWarning)]:
        raise Failure(f"It was not kept: {lost[0].message}")
    return done, (*(str(one.message) for one in heard), *done.notes)


def _tell(
    verb: str, done: Done, journal: str | None, notes: Iterable[str], *, as_json: bool, own: bool = False
) -> None:
    err = screen(stderr=True)
    for note in notes:
        print_all(err, cell(f"Note: {note}", "yellow"))
    if as_json:
        kept = journal if done.changed else None
        print_json({"done": verb, "changed": done.changed, **done.about, "journal": kept, "notes": list(notes)})
        return
    print_all(screen(), cell(done.text))
    if done.changed and journal is not None:
        hint = "" if own else f" Your program sees it with ToolRegistry(journal={journal!r})."
        print_all(err, Text.assemble(cell(f"Kept in the journal {journal!r}.{hint}", "dim")))


def known_tool(registry: ToolRegistry, tool: str, *, or_agent: str | None = None) -> None:
    """
    Refuse a tool that does not exist; one that something is recorded of for *or_agent* will do.

    Raises:
        UnknownToolError: There is none; the text names similar ones.
    """
    state = registry.state
    recorded = or_agent is not None and tool in (state.accesses.get(or_agent) or {})
    if tool not in state.tools and not recorded:
        raise UnknownToolError(tool, near(tool, state.tools))


def known_agent(registry: ToolRegistry, agent: str) -> tuple[str, ...]:
    """
    Return a note where nobody declares *agent*, which is no error: a grant or block may come before it.

    Raises:
        InvalidNameError: No agent can be called that.
    """
    if check_agent_name(agent) in registry.agents:
        return ()
    fix = near(agent, registry.agents)
    meant = f" Did you mean {' or '.join(map(repr, fix))}?" if fix else ""
    return (f"no agent {agent!r} is declared.{meant}",)


def refused(text: str) -> Failure:
    """Return what ends a command that the access rules refuse."""
    return Failure(f"{text} Nothing was changed.", REFUSED)
