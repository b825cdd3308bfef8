"""The commands about a tool as such: `transfer`, `share`, `unshare`, `disable`, `enable`."""

from __future__ import annotations

from typing import Any, cast

import click

from praval_tools import ToolRegistry
from praval_tools.access.commands import resolve_switch_target
from praval_tools.cli.app_option import complete_agent, complete_tool
from praval_tools.cli.changes import (
    ChangeResult,
    apply_change,
    change_options,
    check_tool_exists,
    collect_agent_notes,
    tool_argument,
)
from praval_tools.cli.common import EXIT_USAGE, CommandError
from praval_tools.errors import ToolUsageError

_TARGET_KINDS = ("tool", "namespace", "category", "tag")


@click.command("transfer")
@tool_argument
@click.argument("to", shell_complete=complete_agent)
@change_options
def transfer_command(ctx: click.Context, tool: str, to: str, *, reason: str, as_json: bool) -> None:
    """Hand TOOL over to another owner, the agent TO."""

    def transfer_tool(registry: ToolRegistry) -> ChangeResult:
        check_tool_exists(registry, tool)
        notes, old = collect_agent_notes(registry, to), _get_owner(registry, tool)
        about = {"tool": tool, "from": old, "to": to, "reason": reason}
        if old == to:
            return ChangeResult(text=f"{to} owns {tool} already.", changed=False, details=about)
        registry.transfer_ownership(tool, to, reason=reason)
        return ChangeResult(text=f"Handed {tool} over from {old or 'nobody'} to {to}.", details=about, notes=notes)

    apply_change(ctx, "transfer", transfer_tool, as_json=as_json)


def _get_owner(registry: ToolRegistry, tool: str) -> str | None:
    found = registry.get_tool(tool)
    return None if found is None else found.metadata.owned_by


@click.command("share")
@tool_argument
@change_options
def share_command(ctx: click.Context, tool: str, *, reason: str, as_json: bool) -> None:
    """Let every agent call TOOL that discovers tools by itself."""
    apply_change(ctx, "share", lambda registry: _set_shared(registry, tool, reason, shared=True), as_json=as_json)


@click.command("unshare")
@tool_argument
@change_options
def unshare_command(ctx: click.Context, tool: str, *, reason: str, as_json: bool) -> None:
    """Share TOOL no more; grants, lists and categories stay."""
    apply_change(ctx, "unshare", lambda registry: _set_shared(registry, tool, reason, shared=False), as_json=as_json)


def _set_shared(registry: ToolRegistry, tool: str, reason: str, *, shared: bool) -> ChangeResult:
    check_tool_exists(registry, tool)
    about, found = {"tool": tool, "reason": reason}, registry.get_tool(tool)
    if found is not None and found.metadata.shared is shared:
        return ChangeResult(
            text=f"{tool} is {'shared already' if shared else 'not shared'}.", changed=False, details=about
        )
    (registry.share_tool if shared else registry.unshare_tool)(tool, reason=reason)
    return ChangeResult(
        text=f"Shared {tool} with every agent." if shared else f"{tool} is shared no more.", details=about
    )


def _switch_options(command: Any) -> Any:
    kind = click.option(
        "--kind", type=click.Choice(_TARGET_KINDS), help="What NAME is, where several things are called so."
    )
    return click.argument("name", shell_complete=complete_tool)(kind(change_options(command)))


@click.command("disable")
@_switch_options
def disable_command(ctx: click.Context, name: str, *, kind: str | None, reason: str, as_json: bool) -> None:
    """Switch off NAME, a tool, namespace, category or tag, for everybody."""
    apply_change(
        ctx, "disable", lambda registry: _set_enabled(registry, name, kind, reason, enabled=False), as_json=as_json
    )


@click.command("enable")
@_switch_options
def enable_command(ctx: click.Context, name: str, *, kind: str | None, reason: str, as_json: bool) -> None:
    """Switch NAME, a tool, namespace, category or tag, on again."""
    apply_change(
        ctx, "enable", lambda registry: _set_enabled(registry, name, kind, reason, enabled=True), as_json=as_json
    )


def _set_enabled(registry: ToolRegistry, name: str, kind: str | None, reason: str, *, enabled: bool) -> ChangeResult:
    state, given = registry.state, cast(Any, {} if kind is None else {kind: name})
    try:
        what, text = resolve_switch_target(state, name if kind is None else None, given, enabled)
    except ToolUsageError as error:
        raise CommandError(f"{str(error).partition(';')[0]}; say which with --kind.", EXIT_USAGE) from error
    about, exact = {"kind": what, "name": text, "reason": reason}, cast(Any, {what: text})
    off = (what, text) in state.disabled
    if off is not enabled:
        word = "not disabled" if enabled else "disabled already"
        return ChangeResult(text=f"The {what} {text} is {word}.", changed=False, details=about)
    (registry.enable if enabled else registry.disable)(reason=reason, **exact)
    return ChangeResult(text=f"{'Enabled' if enabled else 'Disabled'} the {what} {text}.", details=about)
