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
from praval_tools.cli.common import USAGE, Failure, app_option, chosen_app, journal_option, traceback_option
from praval_tools.cli.plugin_commands import fill
from praval_tools.errors import ToolError
from praval_tools.names import near
from praval_tools.plugins.discovery import allowed, find

NO_APP = (
    "Which registry? Name it: --app module:registry (a ToolRegistry, or a function that returns one), or --app module "
    "for the default registry that the module fills. To try it: praval-tools --app praval_tools.demo:registry list"
)

F = TypeVar("F", bound=Callable[..., Any])


def app_options(command: F) -> F:
    """Add the options of every command that works on the user's registry."""
    return app_option(journal_option(traceback_option(command)))


def app_registry(ctx: click.Context) -> ToolRegistry:
    """
    Return the registry that `--app` names as its module made it, importing its module from the working directory too.

    Without `--app`, where plugins are installed: the default registry.

    What the module prints goes to stderr, so that `--json` stays JSON.

    Raises:
        Failure: There is neither `--app` nor a plugin, or the module or registry is not there, or fails; with the fix.
    """
    spec = chosen_app(ctx)
    if spec is None and (allowed() == frozenset() or not find()):
        raise Failure(NO_APP, USAGE)
    if spec is None:  # plugins are installed, and fill it
        return get_tool_registry()
    with redirect_stdout(sys.stderr):
        return load(spec)


def load(spec: str) -> ToolRegistry:
    """
    Return the registry that *spec*, `module:attribute` or `module`, names.

    Raises:
        Failure: There is none; the text names the fix.
    """
    name, _, path = spec.partition(":")
    if name.endswith(".py") or "/" in name or "\\" in name:
        dotted = name.removesuffix(".py").strip("./\\").replace("/", ".").replace("\\", ".")
        raise Failure(f"--app takes a module, not a file: --app {dotted}{':' + path if path else ''}", USAGE)
    module = _imported(name)
    if not path:
        return get_tool_registry()
    found: Any = module
    for part in path.split("."):
        if not hasattr(found, part):
            fix = near(part, [known for known in vars(module) if not known.startswith("_")])
            raise Failure(f"Module {name!r} has no {path!r}." + _either(fix), USAGE)
        found = getattr(found, part)
    return _registry(spec, found)


def _imported(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise Failure(f"--app takes MODULE[:REGISTRY], not {name!r}.", USAGE)
    if (here := os.getcwd()) not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            text = f"No module {name!r} here or installed; run this in the folder that holds it."
            raise Failure(text, USAGE) from error
        raise Failure(f"Importing {name!r} failed: {error}{_place(error)}.") from error
    except ToolError as error:
        raise Failure(f"Importing {name!r} failed: {error}") from error
    except (Exception, SystemExit) as error:  # the user's code: whatever it raises, say where
        raise Failure(f"Importing {name!r} failed: {type(error).__name__}: {error}{_place(error)}.") from error


def _registry(spec: str, found: Any) -> ToolRegistry:
    if callable(found) and not isinstance(found, type | ToolRegistry | Tool | Agent):
        try:
            found = found()
        except (Exception, SystemExit) as error:  # the user's code: whatever it raises, say where
            raise Failure(f"{spec} failed: {type(error).__name__}: {error}{_place(error)}.") from error
    if not isinstance(found, ToolRegistry):
        kind = _a(type(found).__name__)
        raise Failure(f"{spec} is {kind}, not a ToolRegistry or a function that returns one.", USAGE)
    return found


def _place(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    if isinstance(error, SyntaxError) or not frames or frames[-1].filename == __file__:
        return ""
    return f" ({os.path.relpath(frames[-1].filename)}, line {frames[-1].lineno})"


def _either(names: tuple[str, ...]) -> str:
    return f" Did you mean {' or '.join(map(repr, names))}?" if names else ""


def _a(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


# ── completion ───────────────────────────────────────────────────────────────────────────────────


def complete_tool(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a tool, where `--app` stands before it."""
    return _completed(ctx, incomplete, lambda registry: [tool.name for tool in registry.list_all_tools()])


def complete_agent(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of an agent, where `--app` stands before it."""
    return _completed(ctx, incomplete, lambda registry: list(registry.agents))


def _completed(
    ctx: click.Context, incomplete: str, names: Callable[[ToolRegistry], list[str]]
) -> list[CompletionItem]:
    try:
        with redirect_stdout(sys.stderr):
            registry = app_registry(ctx)
            fill(registry, quiet=True)
            known = names(registry)
    except Failure:
        return []
    return [CompletionItem(name) for name in known if name.startswith(incomplete)]
