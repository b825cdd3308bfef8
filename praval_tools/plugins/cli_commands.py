"""The commands that plugins bring to the command line; no registry is filled for them."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Any

from praval_tools.config.plugins import PluginsConfig
from praval_tools.errors import PluginError
from praval_tools.plugins.discovery import Found, find
from praval_tools.plugins.hook_caller import CONTAINED, PREFIX, hooks_of, manager
from praval_tools.plugins.report import PluginReport, failure
from praval_tools.plugins.selection import Choice
from praval_tools.plugins.staging import Packages, Staging, imported, staged

if TYPE_CHECKING:
    import click

_HOOK = f"{PREFIX}commands"


def plugin_commands(
    taken: Container[str], config: PluginsConfig
) -> tuple[dict[str, click.Command], list[PluginReport]]:
    """
    Return the commands of the installed plugins by name, and what went wrong; each plugin's commands, or none of them.

    Args:
        taken: The names of the command line's own commands.
        config: What the operator says of plugins.
    """
    installed, choice, known = find(), Choice(None, (), config), manager()
    packages = Packages.of(installed)
    found: dict[str, click.Command] = {}
    owners: dict[str, str] = {}
    failed: list[PluginReport] = []
    for one in installed:
        if one.problem or choice.reason(one):  # loading tells of it
            continue
        stage, staging = "import", Staging(one)
        try:
            with staged(one, staging):
                plugin, _ = imported(one, staging, packages)
                hook = hooks_of(one, plugin, known).get(_HOOK)
                if hook is None:
                    continue
                stage = _HOOK
                fresh = _collected(one, hook, taken, owners)
        except CONTAINED as error:  # isolation: this plugin's commands are left out
            failed.append(failure(one, stage, error))
            continue
        finally:
            staging.seal()
        found.update(fresh)
        owners.update(dict.fromkeys(fresh, one.distribution))
    return found, failed


def _collected(found: Found, hook: Any, taken: Container[str], owners: Mapping[str, str]) -> dict[str, Any]:
    """Return the commands of one plugin, checked."""
    import click

    group = click.Group("praval-tools")
    hook(None, {"cli": group})
    for name, command in group.commands.items():
        problem = ""
        if not isinstance(command, click.Command) or not isinstance(name, str) or not name.isprintable():
            problem = f"{name!r} is no command"
        elif not isinstance(command.get_short_help_str(80), str):
            problem = f"the command {name!r} has no help"
        elif name in taken:
            problem = f"the command {name!r} is praval_tools' own; name yours otherwise"
        elif name in owners:
            problem = f"the command {name!r} comes from {owners[name]} already"
        if problem:
            raise PluginError(str(found), _HOOK, problem)
    return dict(group.commands)
