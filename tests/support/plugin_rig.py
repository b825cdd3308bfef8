"""What the tests of plugins share: real distributions, installed into a folder of `sys.path`."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import praval_tools
from praval_tools import PluginReport, PluginWarning, ToolRegistry, load_plugins, plugin_reports

HEAD = "from praval_tools import hookimpl, tool, Tool, Agent, agent, get_tool_registry\n"
"""The first line of most plugins."""

ROOT = Path(praval_tools.__file__).parent.parent

GOOD = '''
from praval_tools import hookimpl, tool

@tool("{name}_query", register=False, category="sql", shared=True, owned_by="analyst")
def query(text: str) -> str:
    """Query."""
    return "{name}: " + text

def {name}_count(items: list[int]) -> int:
    """Count."""
    return len(items)

@hookimpl
def praval_tools_register_tools():
    return [query, {name}_count]
'''

HELPER = """
@tool
def hidden() -> str:
    "Hide."
    return "hidden"
@agent("helper", tools=["hidden"])
def helper():
    return helper.call("hidden")
"""
"""A tool, and an agent that lists it."""

TWO_TOOLS = """
from praval_tools import tool
@tool
def one(x: {hint}) -> int:
    "One."
    return 1
@tool
def two() -> int:
    "Two."
    return 2
"""
"""Two tools, one of them with a parameter whose hint is left open."""


class Site:
    """A folder that packages are installed into, as pip leaves them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.modules: list[str] = []

    def install(
        self, name: str, source: str = "", *, version: str = "1.0", module: str = "", value: str = "",
        entry: str = "", metadata: str | None = None, points: str | None = None,
    ) -> str:  # fmt: skip
        """Install a distribution with one module, and return the module's name."""
        module = module or name.replace("-", "_").replace(".", "_").lower()
        (self.folder / f"{module}.py").write_text(dedent(source), encoding="utf-8")
        dist_info = self.folder / f"{name.replace('-', '_')}-{version}.dist-info"
        dist_info.mkdir()
        head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" if metadata is None else metadata
        (dist_info / "METADATA").write_text(head, encoding="utf-8")
        listed = f"[praval_tools]\n{entry or module} = {value or module}\n" if points is None else points
        (dist_info / "entry_points.txt").write_text(listed, encoding="utf-8")
        (dist_info / "RECORD").write_text(f"{module}.py,,\n", encoding="utf-8")
        self.modules.append(module)
        return module

    def good(self, name: str = "acme", **more: Any) -> str:
        """Install a plugin that works, with two tools."""
        return self.install(name, GOOD.format(name=name.replace("-", "_")), **more)

    def remove(self, name: str) -> None:
        """Uninstall a distribution."""
        import shutil

        for dist_info in self.folder.glob(f"{name.replace('-', '_')}-*.dist-info"):
            shutil.rmtree(dist_info)
        self.forget()

    def forget(self) -> None:
        """Let the modules be imported anew."""
        for name in [one for one in sys.modules if one.split(".")[0] in self.modules]:
            del sys.modules[name]
        import importlib

        importlib.invalidate_caches()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A folder for packages, first on the path; nothing else is installed, as far as plugins go."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delenv("PRAVAL_TOOLS_PLUGINS", raising=False)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    made = Site(folder)
    yield made
    made.forget()


@pytest.fixture
def host(site: Site) -> ToolRegistry:
    """The registry of a program, with a tool of its own, which plugins can find."""
    site.install("host-of-plugins", "from praval_tools import ToolRegistry\nregistry = ToolRegistry()\n", points="")
    import host_of_plugins

    registry: ToolRegistry = host_of_plugins.registry

    @registry.tool("hosts_sum", owned_by="analyst")
    def hosts_sum(items: list[int]) -> list[int]:
        """Add."""
        return [sum(items)]

    return registry


def loaded(registry: ToolRegistry, **options: Any) -> dict[str, PluginReport]:
    """Load all plugins and return the reports by distribution; failures are warned of, and expected here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PluginWarning)
        return {one.distribution: one for one in load_plugins(registry, **options)}


def names(registry: ToolRegistry) -> list[str]:
    """Return the names of the tools, in order."""
    return [tool.name for tool in registry]


def write_tool(name: str, head: str = HEAD) -> str:
    """Return the source of a module with one tool, declared at import."""
    return f"{head}@tool\ndef {name}() -> int:\n    'One.'\n    return 1\n"


def return_one() -> int:
    """One."""
    return 1


def load_and_list(registry: ToolRegistry) -> list[PluginReport]:
    """Load all plugins and return every report."""
    loaded(registry)
    return list(plugin_reports(registry))


def build_environment(site: Site) -> dict[str, str]:
    """Return the environment of a process that finds the packages of *site*."""
    keeps = {name: value for name, value in os.environ.items() if name != "PRAVAL_TOOLS_PLUGINS"}
    return {**keeps, "PYTHONPATH": f"{site.folder}{os.pathsep}{ROOT}"}


def write_config(text: str, name: str = "praval_tools.toml") -> Path:
    """Write a configuration into the working directory."""
    path = Path(name)
    path.write_text(text, encoding="utf-8")
    return path


PLUGIN_WITH_SETTINGS = """
from pathlib import Path
from typing import Annotated
from attrs import field, frozen
from praval_tools import Secret, hookimpl, tool

def positive(one, attribute, value):
    if value < 1:
        raise ValueError(f"{value} is not positive")

def unrefused(one, attribute, value):
    if value.startswith("refused"):
        raise ValueError(f"{value!r} is refused")

@frozen(kw_only=True)
class Inner:
    hosts: list[str] = field(factory=list)
    ports: dict[str, int] = field(factory=dict)

@frozen(kw_only=True)
class Settings:
    url: str
    rows: int = field(default=10, validator=positive)
    ratio: float = 0.5
    fast: bool = False
    root: Path | None = None
    password: str = field(default="", validator=unrefused)
    code: Annotated[str, Secret] = ""
    inner: Inner = field(factory=Inner)

@hookimpl
def praval_tools_settings():
    return Settings

@hookimpl
def praval_tools_register_tools(settings):
    def output() -> str:
        "Tell."
        return repr(settings)
    if settings.url == "fail":
        raise ValueError(f"no connection with {settings.password} and {settings.code!r} at {settings.url}")
    if settings.url.startswith("postgresql:"):
        raise ValueError(f"no connection to {settings.url}")
    return [output]
"""
"""The source of a plugin with settings of every kind."""
