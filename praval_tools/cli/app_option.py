"""Finding the user's registry: what `--app module:registry` names."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from praval_tools import Agent, Tool, ToolRegistry, get_tool_registry
from praval_tools.cli.common import (
    EXIT_USAGE,
    CommandError,
    app_option,
    get_app_option,
    journal_option,
    traceback_option,
)
from praval_tools.cli.plugin_commands import ensure_plugins_loaded
from praval_tools.errors import ToolError
from praval_tools.names import find_similar_names
from praval_tools.plugins.discovery import find_plugins, read_allow_list

NO_APP_MESSAGE = (
    "Which registry? Name it: --app module:registry (a ToolRegistry, or a function that returns one), or --app module "
    "for the default registry that the module fills. To try it: praval-tools --app praval_tools.demo:registry list"
)

F = TypeVar("F", bound=Callable[..., Any])


def app_options(command: F) -> F:
    """Add the options of every command that works on the user's registry."""
    return app_option(journal_option(traceback_option(command)))


def load_app_registry(ctx: click.Context) -> ToolRegistry:
    """
    Return the registry that `--app` names as its module made it, importing its module from the working directory too.

    Without `--app`, where plugins are installed: the default registry.

    What the module prints goes to stderr, so that `--json` stays JSON.

    Raises:
        Failure: There is neither `--app` nor a plugin, or the module or registry is not there, or fails; with the fix.
    """
    spec = get_app_option(ctx)
    if spec is None and (read_allow_list() == frozenset() or not find_plugins()):
        raise CommandError(NO_APP_MESSAGE, EXIT_USAGE)
    if spec is None:  # plugins are installed, and fill it
        return get_tool_registry()
    with redirect_stdout(sys.stderr):
        return load_registry(spec)


def load_registry(spec: str) -> ToolRegistry:
    """
    Return the registry that *spec*, `module:attribute` or `module`, names.

    Raises:
        Failure: There is none; the text names the fix.
    """
    name, _, path = spec.partition(":")
    if name.endswith(".py") or "/" in name or "\\" in name:
        dotted = name.removesuffix(".py").strip("./\\").replace("/", ".").replace("\\", ".")
        raise CommandError(f"--app takes a module, not a file: --app {dotted}{':' + path if path else ''}", EXIT_USAGE)
    module = _import_app_module(name)
    if not path:
        return get_tool_registry()
    found: Any = module
    for part in path.split("."):
        if not hasattr(found, part):
            fix = find_similar_names(part, [known for known in vars(module) if not known.startswith("_")])
            raise CommandError(f"Module {name!r} has no {path!r}." + _format_suggestion(fix), EXIT_USAGE)
        found = getattr(found, part)
    return _resolve_registry(spec, found)


def _import_app_module(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise CommandError(f"--app takes MODULE[:REGISTRY], not {name!r}.", EXIT_USAGE)
    if (here := os.getcwd()) not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            text = f"No module {name!r} here or installed; run this in the folder that holds it."
            raise CommandError(text, EXIT_USAGE) from error
        raise CommandError(f"Importing {name!r} failed: {error}{_format_location(error)}.") from error
    except ToolError as error:
        raise CommandError(f"Importing {name!r} failed: {error}") from error
    except (Exception, SystemExit) as error:  # the user's code: whatever it raises, say where
        raise CommandError(
            f"Importing {name!r} failed: {type(error).__name__}: {error}{_format_location(error)}."
        ) from error


def _resolve_registry(spec: str, found: Any) -> ToolRegistry:
    if callable(found) and not isinstance(found, type | ToolRegistry | Tool | Agent):
        try:
            found = found()
        except (Exception, SystemExit) as error:  # the user's code: whatever it raises, say where
            raise CommandError(f"{spec} failed: {type(error).__name__}: {error}{_format_location(error)}.") from error
    if not isinstance(found, ToolRegistry):
        kind = _add_article(type(found).__name__)
        raise CommandError(f"{spec} is {kind}, not a ToolRegistry or a function that returns one.", EXIT_USAGE)
    return found


def _format_location(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    if isinstance(error, SyntaxError) or not frames or frames[-1].filename == __file__:
        return ""
    return f" ({os.path.relpath(frames[-1].filename)}, line {frames[-1].lineno})"


def _format_suggestion(names: tuple[str, ...]) -> str:
    return f" Did you mean {' or '.join(map(repr, names))}?" if names else ""


def _add_article(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


# ── completion ───────────────────────────────────────────────────────────────────────────────────


def complete_tool(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a tool, where `--app` stands before it."""
    return _complete_names(ctx, incomplete, lambda registry: [tool.name for tool in registry.list_all_tools()])


def complete_agent(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of an agent, where `--app` stands before it."""
    return _complete_names(ctx, incomplete, lambda registry: list(registry.agents))


def _complete_names(
    ctx: click.Context, incomplete: str, names: Callable[[ToolRegistry], list[str]]
) -> list[CompletionItem]:
    try:
        with redirect_stdout(sys.stderr):
            registry = load_app_registry(ctx)
            ensure_plugins_loaded(registry, quiet=True)
            known = names(registry)
    except CommandError:
        return []
    return [CompletionItem(name) for name in known if name.startswith(incomplete)]
