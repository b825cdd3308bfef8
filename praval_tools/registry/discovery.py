"""Discovers tools: imports modules, packages and files, and returns the tools that they declare."""

from __future__ import annotations

import glob
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType

from praval_tools.errors import DiscoveryError
from praval_tools.misuse import explain_wrong_calls
from praval_tools.registry.default import get_tool_registry, use_registry
from praval_tools.registry.registry import ToolRegistry, get_runtime
from praval_tools.tools.tool import AnyTool, Tool


@explain_wrong_calls
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
    target = registry if registry is not None else get_tool_registry()
    if module is None and pattern is None:
        tools = target.list_all_tools()
        return [tool for tool in tools if category is None or tool.metadata.category == category]
    discovery = _Discovery(target)
    with use_registry(target):
        if module is not None:
            discovery.load_modules(module if isinstance(module, str) else module.__name__)
        if pattern is not None:
            discovery.load_files(pattern)
    tools = [tool for tool in discovery.tools.values() if category is None or tool.metadata.category == category]
    if errors := discovery.errors:
        texts = "; ".join(f"{_find_failed_source(error)} ({type(error).__name__}: {error})" for error in errors)
        group = DiscoveryError(f"{len(errors)} could not be loaded: {texts}", errors)
        group.found = tuple(tools)
        raise group
    return tools


_NOTE_PREFIX = "while discovering tools in "


def _find_failed_source(error: Exception) -> str:
    """Return the file or module in which *error* was raised."""
    return next((note[len(_NOTE_PREFIX) :] for note in error.__notes__ if note.startswith(_NOTE_PREFIX)), "a module")


class _Discovery:
    """The tools that modules and files brought to a registry, and the errors of those that could not be loaded."""

    def __init__(self, registry: ToolRegistry) -> None:
        self._registry = registry
        self.tools: dict[str, AnyTool] = {}
        self.errors: list[Exception] = []

    def load_modules(self, name: str) -> None:
        """Load a module, and the modules in it if it is a package."""
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError) as error:
            self._add_error(name, error)
            return
        names = [name]
        if spec is not None and spec.submodule_search_locations is not None:
            names += [info.name for info in pkgutil.walk_packages(list(spec.submodule_search_locations), f"{name}.")]
        for module in names:
            self._load(module, partial(importlib.import_module, module))

    def load_files(self, pattern: str) -> None:
        """Load the Python files that match a pattern."""
        for path in sorted(glob.glob(pattern, recursive=True)):
            if path.endswith(".py"):
                self._load(path, partial(_load_file, Path(path)))

    def _load(self, source: str, load: Callable[[], ModuleType]) -> None:
        """Load a module and collect its tools; without what modules declared that failed, inside of it too."""
        runtime = get_runtime(self._registry)
        declared_before = set(runtime.declared_agents)
        try:
            with runtime.access_store.draft(lambda name: name not in sys.modules):
                module = load()
        except (Exception, SystemExit) as error:  # isolation: one bad file does not stop the rest
            self._add_error(source, error)
            return
        finally:
            for name in set(runtime.declared_agents) - declared_before - set(self._registry.agents):
                runtime.declared_agents.pop(name, None)
        for tool in vars(module).values():  # loaded before, for another registry
            is_own = isinstance(tool, Tool) and tool.implementation.discoverable and _is_declared_in(module, tool)
            if is_own and tool.name not in self._registry:
                self._registry.register_tool(tool)
        self.tools.update((tool.name, tool) for tool in self._registry if _is_declared_in(module, tool))

    def _add_error(self, source: str, error: Exception | SystemExit) -> None:
        if isinstance(error, SystemExit):
            error = ImportError(f"{source} called sys.exit({error.code!r})")
        error.add_note(f"{_NOTE_PREFIX}{source}")
        self.errors.append(error)


def _is_declared_in(module: ModuleType, tool: AnyTool) -> bool:
    return tool.implementation.module == module.__name__


def _load_file(path: Path) -> ModuleType:
    """Load a file once per process under a name made of its path; loading it again is harmless."""
    file = path.resolve()
    for loaded in list(sys.modules.values()):
        if getattr(loaded, "__file__", None) == str(file):
            return loaded
    importable_name = _find_module_name(file)
    if importable_name is not None:
        return importlib.import_module(importable_name)
    name = "praval_tools_found_" + "".join(char if char.isalnum() else "_" for char in str(file.with_suffix("")))
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _find_module_name(file: Path) -> str | None:
    """Return the name by which `import` finds *file*, so that a file and its module are loaded once."""
    for entry in sys.path:
        base = Path(entry or ".").resolve()
        if base not in file.parents:
            continue
        parts = file.relative_to(base).with_suffix("").parts
        packages = (base.joinpath(*parts[:depth], "__init__.py") for depth in range(1, len(parts)))
        if all(part.isidentifier() for part in parts) and all(package.is_file() for package in packages):
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            spec = importlib.util.find_spec(name) if name else None
            if spec is not None and spec.origin is not None and Path(spec.origin).resolve() == file:
                return name
    return None
