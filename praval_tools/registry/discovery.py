"""Discovery: import modules, packages and files, and return the tools that they declare."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from types import ModuleType

from praval_tools.errors import DiscoveryError
from praval_tools.registry.default import get_tool_registry, use_registry
from praval_tools.registry.registry import ToolRegistry
from praval_tools.tools.tool import AnyTool, Tool


def discover_tools(
    module: str | ModuleType | None = None,
    pattern: str | None = None,
    category: str | None = None,
    registry: ToolRegistry | None = None,
) -> list[AnyTool]:
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
    found: dict[str, AnyTool] = {}
    errors: list[Exception] = []
    with use_registry(home):
        for label, load in [*_list_module_loaders(module, errors), *_list_file_loaders(pattern)]:
            _load_and_register(home, label, load, found, errors)
    tools = [tool for tool in found.values() if category is None or tool.metadata.category == category]
    if errors:
        said = "; ".join(f"{_find_failed_source(one)} ({type(one).__name__}: {one})" for one in errors)
        group = DiscoveryError(f"{len(errors)} could not be loaded: {said}", errors)
        group.found = tuple(tools)
        raise group
    return tools


_NOTE_PREFIX = "while discovering tools in "


def _find_failed_source(error: Exception) -> str:
    """Return the file or module in which *error* arose."""
    return next((note[len(_NOTE_PREFIX) :] for note in error.__notes__ if note.startswith(_NOTE_PREFIX)), "a module")


ModuleLoader = Callable[[], ModuleType]


def _load_and_register(
    home: ToolRegistry, label: str, load: ModuleLoader, found: dict[str, AnyTool], errors: list[Exception]
) -> None:
    declared = set(home._declared_agents)
    try:
        with home._access_store.draft(lambda name: name not in sys.modules):
            loaded = load()
    except (Exception, SystemExit) as error:  # isolation: one bad file does not stop the rest
        for name in set(home._declared_agents) - declared - set(home.agents):
            home._declared_agents.pop(name, None)
        wrapped = error if isinstance(error, Exception) else ImportError(f"{label} called sys.exit({error.code!r})")
        wrapped.add_note(f"{_NOTE_PREFIX}{label}")
        errors.append(wrapped)
        return
    for tool in vars(loaded).values():  # loaded before, for another registry
        if (
            isinstance(tool, Tool)
            and tool.implementation.discoverable
            and _is_declared_in(loaded, tool)
            and tool.name not in home
        ):
            home.register_tool(tool)
    found.update((tool.name, tool) for tool in home if _is_declared_in(loaded, tool))


def _is_declared_in(module: ModuleType, tool: AnyTool) -> bool:
    return tool.implementation.module == module.__name__


def _list_module_loaders(
    module: str | ModuleType | None, errors: list[Exception]
) -> Iterable[tuple[str, ModuleLoader]]:
    if module is None:
        return []
    name = module if isinstance(module, str) else module.__name__
    names = [name]
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError) as error:
        error.add_note(f"{_NOTE_PREFIX}{name}")
        errors.append(error)
        return []
    if spec is not None and spec.submodule_search_locations is not None:
        import pkgutil

        names += [one.name for one in pkgutil.walk_packages(list(spec.submodule_search_locations), f"{name}.")]
    return [(one, partial(importlib.import_module, one)) for one in names]


def _list_file_loaders(pattern: str | None) -> Iterable[tuple[str, ModuleLoader]]:
    if pattern is None:
        return []
    import glob

    paths = sorted(path for path in glob.glob(pattern, recursive=True) if path.endswith(".py"))
    return [(path, partial(_load_file, Path(path))) for path in paths]


def _load_file(path: Path) -> ModuleType:
    """Load a file once per process under a name made of its path; scanning it again is harmless."""
    full = path.resolve()
    known = next((one for one in list(sys.modules.values()) if getattr(one, "__file__", None) == str(full)), None)
    if known is not None:
        return known
    dotted = _find_module_name(full)
    if dotted is not None:
        return importlib.import_module(dotted)
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


def _find_module_name(file: Path) -> str | None:
    """Return the name by which `import` finds *file*, so that a file and its module are one and the same."""
    for entry in sys.path:
        base = Path(entry or ".").resolve()
        if base not in file.parents:
            continue
        parts = file.relative_to(base).with_suffix("").parts
        packages = (base.joinpath(*parts[:deep], "__init__.py") for deep in range(1, len(parts)))
        if all(part.isidentifier() for part in parts) and all(one.is_file() for one in packages):
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            spec = importlib.util.find_spec(name) if name else None
            if spec is not None and spec.origin is not None and Path(spec.origin).resolve() == file:
                return name
    return None
