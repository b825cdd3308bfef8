"""Loads the commands that plugins add to the command line, without filling a registry."""

from __future__ import annotations

import errno
from collections.abc import Container, Mapping
from types import NoneType

import click
from click.shell_completion import CompletionItem, ShellComplete

from praval_tools.config.plugins import PluginsConfig
from praval_tools.execution.failures import is_builtin
from praval_tools.execution.plugin_code import run_as, take_value
from praval_tools.names import call_or_default, get_class_name, has_type, to_plain_text
from praval_tools.plugins.click_contexts import hide_contexts
from praval_tools.plugins.discovery import InstalledPlugin, find_plugins
from praval_tools.plugins.plugin_hooks import HOOK_PREFIX, PluginHook, collect_hooks
from praval_tools.plugins.report import CONTAINED_ERRORS, PluginReport, build_failure_report
from praval_tools.plugins.selection import PluginSelection
from praval_tools.plugins.staging import PluginModules, StagingRegistry, import_plugin, run_as_plugin

_COMMANDS_HOOK = f"{HOOK_PREFIX}commands"


class PluginCommand(click.Command):
    """
    A command of a plugin: whatever it does, from reading its arguments to closing its context, is in the plugin's name.

    Args:
        name: Its name.
        command: The command.
        actor: The name of its plugin.
    """

    def __init__(self, name: str, command: click.Command, actor: str) -> None:
        super().__init__(name, add_help_option=False, hidden=bool(command.hidden))
        self._command, self._actor = command, actor

    def get_short_help_str(self, limit: int = 45) -> str:
        with run_as(self._actor), hide_contexts():
            return to_plain_text(self._command.get_short_help_str(limit))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Leave all arguments to the command."""
        ctx.args = list(args)
        return ctx.args

    def invoke(self, ctx: click.Context) -> int | None:
        """Return the exit code, if the command gives one."""
        with run_as(self._actor), hide_contexts():
            try:
                with _make_parent(ctx) as parent, self._command.make_context(self.name, ctx.args, parent) as own:
                    code: object = self._command.invoke(own)
            except click.exceptions.Exit as end:
                code = end.exit_code
            except BaseException as error:  # its class may be the plugin's
                if (plain := self._make_plain_error(error)) is error:
                    raise
                raise plain from error
            return int.__int__(code) if has_type(code, int) else None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        with run_as(self._actor), hide_contexts():
            completion = ShellComplete(self._command, {"parent": _make_parent(ctx)}, str(self.name), "")
            items = [(each.value, each.type, each.help) for each in completion.get_completions(ctx.args, incomplete)]
        return [CompletionItem(*item) for item in take_value(items, self._actor)]

    def _make_plain_error(self, error: BaseException) -> BaseException:
        """Return an error that says the same without code of the plugin; another one is only asked for its text."""
        unknown: BaseException = click.ClickException(f"{get_class_name(type(error))}, which cannot be shown")
        if has_type(error, click.ClickException):
            return call_or_default(lambda: self._make_click_error(error), unknown)
        if has_type(error, SystemExit):
            return call_or_default(lambda: SystemExit(_make_plain_code(error.code)), unknown)
        if has_type(error, OSError):  # click asks it for its number
            return call_or_default(lambda: _make_os_error(error), unknown)
        ends = (kind for kind in (click.Abort, KeyboardInterrupt, EOFError) if has_type(error, kind))
        return next((kind() for kind in ends), error)

    def _make_click_error(self, error: click.ClickException) -> click.ClickException:
        text = to_plain_text(error.format_message())
        if not has_type(error, click.UsageError):
            return click.ClickException(text)
        path = None if error.ctx is None else to_plain_text(error.ctx.command_path)
        return click.UsageError(text, None if path is None else click.Context(self, info_name=path))


def _make_plain_code(code: object) -> str | int | None:
    """Return the code of a `SystemExit` as Python takes it."""
    if code is None:
        return None
    return int.__int__(code) if has_type(code, int) else to_plain_text(code)


def _make_os_error(error: OSError) -> OSError:
    """Return an error that says the same; itself where it is one of Python's own."""
    if is_builtin(type(error)) and type(error.errno) in (int, NoneType) and type(error.strerror) in (str, NoneType):
        return error
    text = to_plain_text(error)
    return BrokenPipeError(errno.EPIPE, text) if has_type(error, BrokenPipeError) else OSError(text)


def _make_parent(ctx: click.Context) -> click.Context:
    """Return a context for that of a plugin's command that is as its parent, shares nothing with it, and ends first."""
    root = ctx.find_root()
    parent = click.Context(click.Group(root.info_name), info_name=root.info_name)
    parent.params.update(root.params)
    parent.meta.update({name: value for name, value in root.meta.items() if type(value) in (str, tuple)})
    return parent


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
            with run_as_plugin(plugin, StagingRegistry(plugin)) as staging, hide_contexts():
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
    names = {to_plain_text(name): command for name, command in group.commands.items()}
    return {name: PluginCommand(name, command, plugin.principal) for name, command in names.items()}
