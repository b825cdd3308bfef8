"""The commands `grants`, which lists live grants, and `revoke`, which ends one."""

from __future__ import annotations

import json

import click

from praval_tools import Grant, ToolRegistry
from praval_tools.cli.app_option import complete_agent, complete_tool, note_missing_app, report_options
from praval_tools.cli.change_command import ChangeResult, change_command, make_refusal
from praval_tools.cli.common import JsonObject, UsageError
from praval_tools.cli.journal_option import open_selected_registry
from praval_tools.cli.listings import warn_if_undeclared
from praval_tools.cli.output import build_grid, print_json, print_message, print_note, print_result, to_cell
from praval_tools.cli.times import format_time
from praval_tools.names import suggest_names

_TITLES = ("grant", "agent", "tool", "left", "until (UTC)", "where", "delegable", "by", "why")
_FIELDS = ("id", "agent", "tool", "key", "max_calls", "where", "delegable", "parent", "by", "person", "reason")


@click.command("grants")
@click.option("--agent", metavar="AGENT", shell_complete=complete_agent, help="Only grants to this agent.")
@click.option("--tool", metavar="TOOL", shell_complete=complete_tool, help="Only grants of this tool.")
@report_options
def grants_command(ctx: click.Context, *, agent: str | None, tool: str | None, as_json: bool) -> None:
    """
    List the live grants, the oldest first: what is left of each, within which bounds, by whom and why.

    A grant that has expired, is used up or was revoked is not live; `audit` shows it.
    """
    registry = open_selected_registry(ctx)
    grants = registry.grants(agent=agent, tool=tool)
    if agent is not None:
        warn_if_undeclared(registry, agent)
    if tool is not None and tool not in registry.state.tools:
        print_note(f"no tool {tool!r} is registered.{suggest_names(tool, registry.state.tools)}")
    lacks_app = not grants and note_missing_app(ctx)
    if as_json:
        print_json([_grant_to_json(registry, grant) for grant in grants])
    elif grants:
        rows = [_build_row(registry, grant) for grant in grants]
        print_result(build_grid(_TITLES, rows, unwrapped_columns=(0, 1, 2, 3, 4)))
    else:
        print_message(
            "No grants of the tools that are known here." if lacks_app
            else "No live grants match." if agent or tool else "There are no live grants."
        )  # fmt: skip


def _build_row(registry: ToolRegistry, grant: Grant) -> tuple[object, ...]:
    calls_left = registry.uses_left(grant)
    return (
        to_cell(grant.id, "bold"),
        grant.agent,
        grant.tool,
        "-" if calls_left is None else f"{calls_left:,} of {grant.max_calls:,}",
        "-" if grant.expires is None else format_time(grant.expires),
        "-" if grant.where is None else json.dumps(grant.where),
        "yes" if grant.delegable else "-",
        grant.person or grant.by,
        to_cell(grant.reason or "-", "dim"),
    )


def _grant_to_json(registry: ToolRegistry, grant: Grant) -> JsonObject:
    times = {name: None if (time := getattr(grant, name)) is None else time.isoformat() for name in ("made", "expires")}
    return {name: getattr(grant, name) for name in _FIELDS} | {"calls_left": registry.uses_left(grant)} | times


@change_command("revoke", click.argument("grant"))
def revoke_command(registry: ToolRegistry, grant: str, reason: str) -> ChangeResult:
    """
    End the grant of id GRANT, and every grant that its holder made from it; what else allows the call stays.

    `grants` lists the ids. To take the tool away whatever gives it: `unassign`.
    """
    ended = registry.state.find_known_grant(grant)
    if ended is None:
        fix = suggest_names(grant, registry.state.grants) or " praval-tools grants lists the ids."
        raise UsageError(f"No grant {grant!r} is recorded.{fix}")
    record = registry.state.find_grant(grant)
    if registry.journal is not None and record is not None and not record.stored:
        why = "the program makes it before it has a journal, so its end would not be recorded"
        fix = f"Take it out there, or take the tool away: remove_tool_from_agent({ended.tool!r}, {ended.agent!r})."
        raise make_refusal(f"The grant {grant} cannot be revoked: {why}. {fix}")
    details = {"grant": grant, "tool": ended.tool, "agent": ended.agent, "reason": reason}
    if not registry.revoke(grant, reason=reason):
        return ChangeResult(text=f"The grant {grant} had ended before.", changed=False, details=details)
    notes: tuple[str, ...] = ()
    if (decision := registry.explain(ended.agent, ended.tool)).allowed:
        notes = (f"{ended.agent} can call {ended.tool} all the same, by the rule {decision.rule!r}.",)
    text = f"Revoked the grant of {ended.tool} to {ended.agent}."
    return ChangeResult(text=text, details=details, notes=notes)
