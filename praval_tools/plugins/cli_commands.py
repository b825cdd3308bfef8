"""Loads the commands that plugins add to the command line, without filling a registry."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import TYPE_CHECKING

from praval_tools.config.plugins import PluginsConfig
from praval_tools.execution.plugin_code import bind_function
from praval_tools.plugins.discovery import InstalledPlugin, find_plugins
from praval_tools.plugins.plugin_hooks import HOOK_PREFIX, PluginHook, collect_hooks
from praval_tools.plugins.report import CONTAINED_ERRORS, PluginReport, build_failure_report
from praval_tools.plugins.selection import PluginSelection
from praval_tools.plugins.staging import PluginModules, StagingRegistry, import_plugin, run_as_plugin

if TYPE_CHECKING:
    import click

_COMMANDS_HOOK = f"{HOOK_PREFIX}commands"
_COMMAND_METHODS = ("make_context", "invoke", "get_help", "get_short_help_str", "shell_complete")
"""What the command line calls of a command; each runs in the plugin's name."""


def load_plugin_commands(
    taken: Container[str], config: PluginsConfig
) -> tuple[dict[str, click.Command], list[PluginReport]]:
    """
    Load the commands of the installed plugins: for each plugin all of them, or none.

    Args:
        taken: The names of the command line's own commands.
        config: The operator's plugin tables.

    Returns:
        The commands by name, and a report for each plugin that failed.
    """
    installed, selection = find_plugins(), PluginSelection(None, (), config)
    modules = PluginModules.from_plugins(installed)
    commands: dict[str, click.Command] = {}
    owners: dict[str, str] = {}
    failures: list[PluginReport] = []
    for plugin in installed:
        if plugin.problem or selection.get_exclusion_reason(plugin):  # loading the tools reports it
            continue
        stage = "import"
        try:
            with run_as_plugin(plugin, StagingRegistry(plugin)) as staging:
                plugin_object, _ = import_plugin(plugin, staging, modules)
                hook = collect_hooks(plugin, plugin_object).get(_COMMANDS_HOOK)
                if hook is not None:
                    stage = _COMMANDS_HOOK
                    fresh = _collect_commands(plugin, hook, taken, owners)
                    commands |= fresh
                    owners |= dict.fromkeys(fresh, plugin.distribution)
        except CONTAINED_ERRORS as error:  # isolation: this plugin's commands are left out
            failures.append(build_failure_report(plugin, stage, error))
    return commands, failures


def _collect_commands(
    plugin: InstalledPlugin, hook: PluginHook, taken: Container[str], owners: Mapping[str, str]
) -> dict[str, click.Command]:
    """Return the commands of one plugin, checked."""
    import click

    group = click.Group("praval-tools")
    hook(None, {"cli": group})
    for name, command in group.commands.items():
        problem = ""
        if not isinstance(command, click.Command) or not isinstance(name, str) or not name.isprintable():
            problem = f"{name!r} is not a valid command"
        elif not isinstance(command.get_short_help_str(80), str):
            problem = f"the command {name!r} has no help"
        elif name in taken:
            problem = f"the command {name!r} is praval_tools' own; give yours another name"
        elif name in owners:
            problem = f"the command {name!r} comes from {owners[name]} already"
        if problem:
            raise plugin.make_error(_COMMANDS_HOOK, problem)
    for command in group.commands.values():
        for method in _COMMAND_METHODS:
            setattr(command, method, bind_function(getattr(command, method), plugin.principal))
    return dict(group.commands)
