"""The commands that change a tool for everybody: `transfer`, `share`, `unshare`, `disable`, `enable`."""

from __future__ import annotations

from typing import cast

import click

from praval_tools import ToolRegistry
from praval_tools.access.commands import plan_unshare, resolve_switch_target
from praval_tools.access.permissions import SwitchTarget
from praval_tools.cli.app_option import complete_agent, complete_tool
from praval_tools.cli.change_command import (
    ChangeResult,
    change_command,
    check_tool_exists,
    collect_agent_notes,
    tool_argument,
)
from praval_tools.cli.common import UsageError
from praval_tools.errors import ToolUsageError
from praval_tools.names import OPERATOR

_new_owner_argument = click.argument("to", shell_complete=complete_agent)
_name_argument = click.argument("name", shell_complete=complete_tool)
_kind_option = click.option(
    "--kind",
    type=click.Choice(("tool", "namespace", "category", "tag")),
    help="What NAME is, where several things have this name.",
)


@change_command("transfer", tool_argument, _new_owner_argument)
def transfer_command(registry: ToolRegistry, tool: str, to: str, reason: str) -> ChangeResult:
    """Make the agent TO the owner of TOOL."""
    check_tool_exists(registry, tool)
    notes, owner = collect_agent_notes(registry, to), registry.state.tools[tool].tool.metadata.owned_by
    details = {"tool": tool, "from": owner, "to": to, "reason": reason}
    if owner == to:
        return ChangeResult(text=f"{to} owns {tool} already.", changed=False, details=details)
    registry.transfer_ownership(tool, to, reason=reason)
    return ChangeResult(text=f"Transferred {tool} from {owner or 'nobody'} to {to}.", details=details, notes=notes)


@change_command("share", tool_argument)
def share_command(registry: ToolRegistry, tool: str, reason: str) -> ChangeResult:
    """Let every agent with automatic discovery call TOOL."""
    if _is_shared(registry, tool):
        return ChangeResult(text=f"{tool} is shared already.", changed=False, details={"tool": tool, "reason": reason})
    registry.share_tool(tool, reason=reason)
    return ChangeResult(text=f"Shared {tool} with every agent.", details={"tool": tool, "reason": reason})


@change_command("unshare", tool_argument)
def unshare_command(registry: ToolRegistry, tool: str, reason: str) -> ChangeResult:
    """Stop sharing TOOL; grants, lists and categories stay."""
    is_shared, details = _is_shared(registry, tool), {"tool": tool, "reason": reason}
    if not plan_unshare(registry.state, tool, OPERATOR, reason):
        return ChangeResult(text=f"{tool} is not shared.", changed=False, details=details)
    registry.unshare_tool(tool, reason=reason)
    text = f"Stopped sharing {tool}." if is_shared else f"Ended the sharing of {tool} that waited."
    return ChangeResult(text=text, details=details)


def _is_shared(registry: ToolRegistry, tool: str) -> bool:
    check_tool_exists(registry, tool)
    return registry.state.tools[tool].tool.metadata.shared


@change_command("disable", _name_argument, _kind_option)
def disable_command(registry: ToolRegistry, name: str, kind: str | None, reason: str) -> ChangeResult:
    """Disable NAME, a tool, namespace, category or tag, for every agent."""
    return _set_enabled(registry, name, kind, reason, enabled=False)


@change_command("enable", _name_argument, _kind_option)
def enable_command(registry: ToolRegistry, name: str, kind: str | None, reason: str) -> ChangeResult:
    """Enable NAME, a disabled tool, namespace, category or tag."""
    return _set_enabled(registry, name, kind, reason, enabled=True)


def _set_enabled(registry: ToolRegistry, name: str, kind: str | None, reason: str, *, enabled: bool) -> ChangeResult:
    target = cast(SwitchTarget, {} if kind is None else {kind: name})
    try:
        kind, name = resolve_switch_target(registry.state, name if kind is None else None, target, enabled)
    except ToolUsageError as error:
        raise UsageError(f"{str(error).partition(';')[0]}; say which with --kind.") from error
    details = {"kind": kind, "name": name, "reason": reason}
    records = registry.state.disabled.get((kind, name), ())
    is_unchanged = not records if enabled else any(record.by == OPERATOR for record in records)
    if is_unchanged:
        text = f"The {kind} {name} is {'not disabled' if enabled else 'disabled already'}."
        return ChangeResult(text=text, changed=False, details=details)
    (registry.enable if enabled else registry.disable)(reason=reason, **cast(SwitchTarget, {kind: name}))
    return ChangeResult(text=f"{'Enabled' if enabled else 'Disabled'} the {kind} {name}.", details=details)
