"""Loads the registry that `--app module:registry` names, and completes names of its tools and agents in the shell."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from contextlib import nullcontext, redirect_stdout
from importlib import import_module
from types import ModuleType
from typing import Concatenate, ParamSpec

import click
from click.shell_completion import CompletionItem

from praval_tools import Agent, Tool, ToolRegistry, get_tool_registry
from praval_tools.cli.common import (
    CommandError,
    F,
    UsageError,
    app_option,
    config_option,
    get_app_option,
    journal_option,
    json_option,
    traceback_option,
)
from praval_tools.cli.config_option import build_configured_registry, configure_app_registry, select_config
from praval_tools.cli.output import print_note
from praval_tools.cli.plugin_commands import ensure_plugins_loaded, has_plugins_as_program
from praval_tools.config_loading.loader import LoadingContext
from praval_tools.errors import ConfigError, ToolError
from praval_tools.names import (
    call_or_default,
    enter_object_context,
    get_class_name,
    has_type,
    suggest_names,
    to_plain_text,
)
from praval_tools.plugins.click_contexts import hide_contexts, pass_context
from praval_tools.plugins.discovery import AppFolder, find_plugins, read_allow_list
from praval_tools.registry.registry import get_runtime

APP_VARIABLE = "PRAVAL_TOOLS_APP"
NO_APP_MESSAGE = (
    "Which registry? Name it: --app module:registry (a ToolRegistry, or a function that returns one), or --app module "
    "for the default registry that the module fills; for good: PRAVAL_TOOLS_APP, or app in [tool.praval_tools] of "
    "pyproject.toml; or declare it in a file: --config FILE. "
    "To try it: praval-tools --app praval_tools.demo:registry list"
)

P = ParamSpec("P")


def app_options(command: F) -> F:
    """Add the options of every command that works on the user's registry."""
    return app_option(config_option(journal_option(traceback_option(command))))


def report_options(function: Callable[Concatenate[click.Context, P], None]) -> Callable[P, None]:
    """Add `--json` and the options for the user's registry; the function also gets the context."""
    return json_option(app_options(pass_context(function)))


def find_app_spec(ctx: click.Context) -> str | None:
    """
    Return where the registry is: by `--app`, else `PRAVAL_TOOLS_APP`, else `app` in the configuration.

    Raises:
        CommandError: The configuration has problems.
    """
    try:
        return get_app_option(ctx) or os.environ.get(APP_VARIABLE) or select_config(ctx).read_app_config().app
    except ConfigError as error:
        raise CommandError(str(error)) from error


def load_app_registry(ctx: click.Context, context: LoadingContext = nullcontext) -> ToolRegistry:
    """
    Return the registry that `--app` or the surroundings name; its module is also looked for in the working directory.

    Where none is named, it is that of the configuration, if there is one, and else, with plugins, the default one.
    What the module prints goes to stderr, so that `--json` stays JSON.

    Args:
        ctx: Of the command.
        context: In which files are loaded; it opens the journal, since what was done counts before what is declared.

    Raises:
        CommandError: There is neither an app nor a plugin, or the module or registry is missing or fails.
    """
    try:
        registry = _find_registry(ctx, context)
    except ConfigError as error:
        raise CommandError(str(error)) from error
    get_runtime(registry).access_store.before_first_lookup = None  # each command decides: a look writes nothing
    return registry


def _find_registry(ctx: click.Context, context: LoadingContext) -> ToolRegistry:
    spec, config = find_app_spec(ctx), select_config(ctx)
    with redirect_stdout(sys.stderr):
        if spec is not None:
            registry = load_registry(spec)
            if config.paths:
                configure_app_registry(registry, config, context)
            return registry
        if config.declares_registry:
            add_working_folder()
            return build_configured_registry(config, context)
    if read_allow_list() == frozenset() or not find_plugins():
        raise UsageError(NO_APP_MESSAGE)
    return get_tool_registry()  # the plugins fill it


def note_missing_app(ctx: click.Context) -> bool:
    """Tell whether no app is named: what the program declares is not known then, which a note says."""
    is_missing = find_app_spec(ctx) is None and not select_config(ctx).declares_registry
    if is_missing:
        print_note("no app is named, so only installed plugins are known; name yours: --app MODULE:REGISTRY.")
    return is_missing


def load_registry(spec: str) -> ToolRegistry:
    """
    Return the registry that *spec*, `module:attribute` or `module`, names.

    Raises:
        CommandError: There is none; the text names the fix.
    """
    name, _, path = spec.partition(":")
    if name.endswith(".py") or "/" in name or "\\" in name:
        dotted = name.removesuffix(".py").strip("./\\").replace("/", ".").replace("\\", ".")
        raise UsageError(f"--app takes a module, not a file: --app {dotted}{':' + path if path else ''}")
    module = _import_app_module(name)
    if not path:
        return _get_filled_default(module)
    value: object = module
    for part in path.split("."):
        if not hasattr(value, part):
            fix = suggest_names(part, [known for known in vars(module) if not known.startswith("_")])
            raise UsageError(f"Module {name!r} has no {path!r}.{fix}")
        value = getattr(value, part)
    return _resolve_registry(spec, value)


def _get_filled_default(module: ModuleType) -> ToolRegistry:
    registry = get_tool_registry()
    state = get_runtime(registry).access_store.state
    if registry.journal is None and not state.tools and not state.profiles:
        for attribute, value in vars(module).items():
            if isinstance(value, ToolRegistry) and value is not registry:
                name = module.__name__
                fix = f"it has one of its own: --app {name}:{attribute}"
                raise UsageError(f"Module {name!r} declares nothing in the default registry; {fix}.")
    return registry


def add_working_folder() -> None:
    """Have modules of the working directory found."""
    if (folder := os.getcwd()) not in sys.path and "" not in sys.path:
        sys.path.insert(0, AppFolder(folder))


def _import_app_module(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(f"--app takes MODULE[:REGISTRY], not {name!r}.")
    add_working_folder()
    try:
        return import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # user code may raise anything: say where
        raise _make_app_error(f"Importing {name!r}", error, name) from error


def _resolve_registry(spec: str, value: object) -> ToolRegistry:
    if callable(value) and not isinstance(value, type | ToolRegistry | Tool | Agent):
        try:
            value = value()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # user code may raise anything: say where
            raise _make_app_error(spec, error) from error
    if isinstance(value, ToolRegistry):
        return value
    kind = type(value).__name__
    article = "an" if kind[:1].lower() in "aeiou" else "a"
    raise UsageError(f"{spec} is {article} {kind}, not a ToolRegistry or a function that returns one.")


def _make_app_error(subject: str, error: BaseException, module: str = "") -> CommandError:
    """Return the error that says what failed, and where; the texts of *error* may be code of its class."""
    unknown = CommandError(f"{subject} failed: {get_class_name(type(error))}, which cannot be shown.")
    with enter_object_context(), hide_contexts():
        return call_or_default(lambda: _describe_app_error(subject, error, module), unknown)


def _describe_app_error(subject: str, error: BaseException, module: str) -> CommandError:
    if module and has_type(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
        return UsageError(
            f"No module {module!r} in this folder or installed; run the command in the folder that holds it."
        )
    is_own = has_type(error, ToolError)
    kind = "" if module and (is_own or has_type(error, ModuleNotFoundError)) else f"{get_class_name(type(error))}: "
    location = "" if module and is_own else f"{_format_location(error)}."
    return CommandError(f"{subject} failed: {kind}{to_plain_text(error)}{location}")


def _format_location(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    if isinstance(error, SyntaxError) or not frames or frames[-1].filename == __file__:
        return ""
    return f" ({os.path.relpath(frames[-1].filename)}, line {frames[-1].lineno})"


# ── completion ───────────────────────────────────────────────────────────────────────────────────


def complete_tool(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a tool, where `--app` stands before it."""
    return _complete_names(ctx, incomplete, lambda registry: [tool.name for tool in registry.list_all_tools()])


def complete_agent(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of an agent, where `--app` stands before it."""
    return _complete_names(ctx, incomplete, lambda registry: list(registry.agents))


def _complete_names(
    ctx: click.Context, incomplete: str, list_names: Callable[[ToolRegistry], list[str]]
) -> list[CompletionItem]:
    try:
        with redirect_stdout(sys.stderr), hide_contexts():
            registry = load_app_registry(ctx)
            if has_plugins_as_program(registry):
                ensure_plugins_loaded(registry)
            names = list_names(registry)
    except CommandError:
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]
