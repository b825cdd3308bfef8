"""The commands about a tool as such: `transfer`, `share`, `unshare`, `disable`, `enable`."""

from __future__ import annotations

from typing import Any, cast

import click

from praval_tools import ToolRegistry
from praval_tools.access.commands import target
from praval_tools.cli.app_option import complete_agent, complete_tool
from praval_tools.cli.changes import Done, act, act_options, known_agent, known_tool, tool_argument
from praval_tools.cli.common import USAGE, Failure
from praval_tools.errors import ToolUsageError

_KINDS = ("tool", "namespace", "category", "tag")


@click.command("transfer")
@tool_argument
@click.argument("to", shell_complete=complete_agent)
@act_options
def transfer_command(ctx: click.Context, tool: str, to: str, *, reason: str, as_json: bool) -> None:
    """Hand TOOL over to another owner, the agent TO."""

    def deed(registry: ToolRegistry) -> Done:
        known_tool(registry, tool)
        notes, old = known_agent(registry, to), _owner(registry, tool)
        about = {"tool": tool, "from": old, "to": to, "reason": reason}
        if old == to:
            return Done(text=f"{to} owns {tool} already.", changed=False, about=about)
        registry.transfer_ownership(tool, to, reason=reason)
        return Done(text=f"Handed {tool} over from {old or 'nobody'} to {to}.", about=about, notes=notes)

    act(ctx, "transfer", deed, as_json=as_json)


def _owner(registry: ToolRegistry, tool: str) -> str | None:
    found = registry.get_tool(tool)
    return None if found is None else found.metadata.owned_by


@click.command("share")
@tool_argument
@act_options
def share_command(ctx: click.Context, tool: str, *, reason: str, as_json: bool) -> None:
    """Let every agent call TOOL that discovers tools by itself."""
    act(ctx, "share", lambda registry: _sharing(registry, tool, reason, on=True), as_json=as_json)


@click.command("unshare")
@tool_argument
@act_options
def unshare_command(ctx: click.Context, tool: str, *, reason: str, as_json: bool) -> None:
    """Share TOOL no more; grants, lists and categories stay."""
    act(ctx, "unshare", lambda registry: _sharing(registry, tool, reason, on=False), as_json=as_json)


def _sharing(registry: ToolRegistry, tool: str, reason: str, *, on: bool) -> Done:
    known_tool(registry, tool)
    about, found = {"tool": tool, "reason": reason}, registry.get_tool(tool)
    if found is not None and found.metadata.shared is on:
        return Done(text=f"{tool} is {'shared already' if on else 'not shared'}.", changed=False, about=about)
    (registry.share_tool if on else registry.unshare_tool)(tool, reason=reason)
    return Done(text=f"Shared {tool} with every agent." if on else f"{tool} is shared no more.", about=about)


def _switch_options(command: Any) -> Any:
    kind = click.option("--kind", type=click.Choice(_KINDS), help="What NAME is, where several things are called so.")
    return click.argument("name", shell_complete=complete_tool)(kind(act_options(command)))


@click.command("disable")
@_switch_options
def disable_command(ctx: click.Context, name: str, *, kind: str | None, reason: str, as_json: bool) -> None:
    """Switch off NAME, a tool, namespace, category or tag, for everybody."""
    act(ctx, "disable", lambda registry: _switched(registry, name, kind, reason, on=False), as_json=as_json)


@click.command("enable")
@_switch_options
def enable_command(ctx: click.Context, name: str, *, kind: str | None, reason: str, as_json: bool) -> None:
    """Switch NAME, a tool, namespace, category or tag, on again."""
    act(ctx, "enable", lambda registry: _switched(registry, name, kind, reason, on=True), as_json=as_json)


def _switched(registry: ToolRegistry, name: str, kind: str | None, reason: str, *, on: bool) -> Done:
    state, given = registry.state, cast(Any, {} if kind is None else {kind: name})
    try:
        what, text = target(state, name if kind is None else None, given, on)
    except ToolUsageError as error:
        raise Failure(f"{str(error).partition(';')[0]}; say which with --kind.", USAGE) from error
    about, exact = {"kind": what, "name": text, "reason": reason}, cast(Any, {what: text})
    off = (what, text) in state.disabled
    if off is not on:
        word = "not disabled" if on else "disabled already"
        return Done(text=f"The {what} {text} is {word}.", changed=False, about=about)
    (registry.enable if on else registry.disable)(reason=reason, **exact)
    return Done(text=f"{'Enabled' if on else 'Disabled'} the {what} {text}.", about=about)
