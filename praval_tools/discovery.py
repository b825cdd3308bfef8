"""Finding tools in modules, packages and files."""

from __future__ import annotations

import glob
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from praval_tools.errors import DiscoveryError
from praval_tools.model.tool import Tool
from praval_tools.registry import ToolRegistry, get_tool_registry, use_registry


def discover_tools(
    module: str | ModuleType | None = None,
    pattern: str | None = None,
    category: str | None = None,
    registry: ToolRegistry | None = None,
) -> list[Tool[..., Any]]:
    """
    Import modules and files and return the tools that they declare; filters combine.

    Args:
        module: A module or package, which is walked.
        pattern: Files relative to the working directory; `**` walks.
        category: Only tools of this category; alone, it filters what is registered.
        registry: None: the default one.

    Raises:
        DiscoveryError: A group with the error of each file that failed, after the rest was loaded; the tools
            of a failed file are withdrawn, `found` holds the others.
    """
    home = registry if registry is not None else get_tool_registry()
    if module is None and pattern is None:
        return [tool for tool in home.list_all_tools() if category is None or tool.metadata.category == category]
    found: dict[str, Tool[..., Any]] = {}
    errors: list[Exception] = []
    with use_registry(home):
        for label, load in [*_modules(module, errors), *_files(pattern)]:
            _scan(home, label, load, found, errors)
    tools = [tool for tool in found.values() if category is None or tool.metadata.category == category]
    if errors:
        group = DiscoveryError("some modules could not be loaded", errors)
        group.found = tuple(tools)
        raise group
    return tools


Load = Callable[[], ModuleType]


def _scan(
    home: ToolRegistry, label: str, load: Load, found: dict[str, Tool[..., Any]], errors: list[Exception]
) -> None:
    before = {tool.name for tool in home.list_all_tools()}
    try:
        loaded = load()
    except (Exception, SystemExit) as error:  # isolation: one bad file does not stop the rest
        for tool in home.list_all_tools():
            if tool.name not in before:
                home.unregister_tool(tool.name)
        wrapped = error if isinstance(error, Exception) else ImportError(f"{label} called sys.exit({error.code!r})")
        wrapped.add_note(f"while discovering tools in {label}")
        errors.append(wrapped)
        return
    for tool in home.list_all_tools():
        if tool.definition_.module == loaded.__name__ or tool.name not in before:
            found[tool.name] = tool


def _modules(module: str | ModuleType | None, errors: list[Exception]) -> Iterable[tuple[str, Load]]:
    if module is None:
        return []
    name = module if isinstance(module, str) else module.__name__
    names = [name]
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError) as error:
        error.add_note(f"while discovering tools in {name}")
        errors.append(error)
        return []
    if spec is not None and spec.submodule_search_locations is not None:
        names += [one.name for one in pkgutil.walk_packages(list(spec.submodule_search_locations), f"{name}.")]
    return [(one, partial(importlib.import_module, one)) for one in names]


def _files(pattern: str | None) -> Iterable[tuple[str, Load]]:
    if pattern is None:
        return []
    paths = sorted(path for path in glob.glob(pattern, recursive=True) if path.endswith(".py"))
    return [(path, partial(_load_file, Path(path))) for path in paths]


def _load_file(path: Path) -> ModuleType:
    """Load a file once per process under a name made of its path; scanning it again is harmless."""
    full = path.resolve()
    known = next((one for one in list(sys.modules.values()) if getattr(one, "__file__", None) == str(full)), None)
    if known is not None:
        return known
    name = "praval_tools_found_" + "".join(char if char.isalnum() else "_" for char in str(full.with_suffix("")))
    spec = importlib.util.spec_from_file_location(name, full)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    try:
        spec.loader.exec_module(made)
    except BaseException:
        del sys.modules[name]
        raise
    return made
