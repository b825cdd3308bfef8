"""The commands that plugins bring to the command line; no registry is filled for them."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Any

from praval_tools.config.plugins import PluginsConfig
from praval_tools.errors import PluginError
from praval_tools.plugins.discovery import InstalledPlugin, find_plugins
from praval_tools.plugins.hook_caller import CONTAINED_ERRORS, HOOK_PREFIX, collect_hooks, create_plugin_manager
from praval_tools.plugins.report import PluginReport, build_failure_report
from praval_tools.plugins.selection import PluginSelection
from praval_tools.plugins.staging import PluginModules, StagingRegistry, act_as_plugin, import_plugin

if TYPE_CHECKING:
    import click

_COMMANDS_HOOK = f"{HOOK_PREFIX}commands"


def load_plugin_commands(
    taken: Container[str], config: PluginsConfig
) -> tuple[dict[str, click.Command], list[PluginReport]]:
    """
    Return the commands of the installed plugins by name, and what went wrong; each plugin's commands, or none of them.

    Args:
        taken: The names of the command line's own commands.
        config: What the operator says of plugins.
    """
    installed, choice, known = find_plugins(), PluginSelection(None, (), config), create_plugin_manager()
    packages = PluginModules.from_plugins(installed)
    found: dict[str, click.Command] = {}
    owners: dict[str, str] = {}
    failed: list[PluginReport] = []
    for one in installed:
        if one.problem or choice.get_exclusion_reason(one):  # loading tells of it
            continue
        stage, staging = "import", StagingRegistry(one)
        try:
            with act_as_plugin(one, staging):
                plugin, _ = import_plugin(one, staging, packages)
                hook = collect_hooks(one, plugin, known).get(_COMMANDS_HOOK)
                if hook is None:
                    continue
                stage = _COMMANDS_HOOK
                fresh = _collect_commands(one, hook, taken, owners)
        except CONTAINED_ERRORS as error:  # isolation: this plugin's commands are left out
            failed.append(build_failure_report(one, stage, error))
            continue
        finally:
            staging.seal()
        found.update(fresh)
        owners.update(dict.fromkeys(fresh, one.distribution))
    return found, failed


def _collect_commands(
    found: InstalledPlugin, hook: Any, taken: Container[str], owners: Mapping[str, str]
) -> dict[str, Any]:
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
            raise PluginError(str(found), _COMMANDS_HOOK, problem)
    return dict(group.commands)
