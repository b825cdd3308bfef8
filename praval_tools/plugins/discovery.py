"""Finds the installed plugins: entry points of distributions, whose metadata may be broken."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from attrs import evolve, frozen

from praval_tools.errors import PluginError
from praval_tools.names import normalize_distribution_name, shorten_repr

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

ENTRY_POINT_GROUP: Final = "praval_tools"
"""The group of entry points that name plugins."""

ALLOW_LIST_VARIABLE: Final = "PRAVAL_TOOLS_PLUGINS"
"""The environment variable that lists which plugins may be loaded."""

_DISTRIBUTION_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
_VERSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.!+_-]{0,63}")
_ENTRY_POINT_VALUE: Final = re.compile(r"[A-Za-z_][\w.]*(:[A-Za-z_][\w.]*)?")
_MAX_VALUE_LENGTH: Final = 1_000
_ENTRY_POINT_NAME: Final = re.compile(r"[\w][\w .-]{0,98}")


class AppFolder(str):
    """An entry of `sys.path` for the modules of a program, in which no plugins are looked for: nobody installed it."""

    __slots__ = ()


PluginKey = tuple[str, str]
"""Distribution and entry point."""


@frozen(kw_only=True)
class InstalledPlugin:
    """
    One installed plugin, named by an entry point of a distribution.

    Args:
        distribution: The normalized name of the distribution that ships it.
        version: The version of that distribution.
        entry_point: The name of the entry point.
        value: What the entry point refers to: `module` or `module:object`.
        problem: Why it cannot be loaded; empty where no reason is known.
    """

    distribution: str
    version: str = ""
    entry_point: str = ""
    value: str = ""
    problem: str = ""

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}".strip() + (f" ({self.entry_point})" if self.entry_point else "")

    @property
    def key(self) -> PluginKey:
        """What identifies the plugin: distribution and entry point."""
        return self.distribution, self.entry_point

    @property
    def qualified_name(self) -> str:
        """Its distribution and its entry point, with a colon: no other distribution's plugin can have it."""
        return f"{self.distribution}:{normalize_distribution_name(self.entry_point)}"

    @property
    def principal(self) -> str:
        """The name that the plugin runs under, and that owns its tools; no agent can have it."""
        return f"plugin:{self.distribution}"

    def make_error(self, stage: str, problem: str) -> PluginError:
        """Return the error to raise where *problem* was met at *stage* of loading this plugin."""
        return PluginError(str(self), stage, problem)


def normalize_plugin_name(name: str) -> str:
    """Return the name of a distribution, or `distribution:entry-point`, as names are compared."""
    return ":".join(normalize_distribution_name(part.strip()) for part in name.split(":"))


def read_allow_list() -> frozenset[str] | None:
    """
    Read which plugins the environment allows to be loaded.

    Returns:
        Normalized names of distributions, or `distribution:entry-point`; None where the variable is not set, and all
        are allowed.
    """
    text = os.environ.get(ALLOW_LIST_VARIABLE)
    return None if text is None else frozenset(map(normalize_plugin_name, filter(str.strip, text.split(","))))


def find_plugins(distributions: Iterable[Distribution] | None = None) -> tuple[InstalledPlugin, ...]:
    """
    Return the installed plugins, by distribution, then entry point: the same order in every process.

    Of a distribution that several folders of `sys.path` hold, the first counts, as it does for `import`.

    Args:
        distributions: In the order of `sys.path`; None: the installed ones.
    """
    if distributions is None:
        import importlib.metadata  # half of what starting the command line would cost

        distributions = importlib.metadata.distributions(path=list_plugin_folders())
    folders: dict[str, str] = {}
    plugins: dict[str, list[InstalledPlugin]] = {}
    for distribution in distributions:
        for name, folder, fresh in _read_distribution(distribution):
            if folders.setdefault(name, folder) == folder:
                known = plugins.setdefault(name, [])
                known += (plugin for plugin in fresh if plugin not in known)
    checked = (plugin for group in plugins.values() for plugin in _mark_conflicts(group))
    return tuple(sorted(checked, key=lambda plugin: (*plugin.key, plugin.value)))


def list_plugin_folders() -> list[str]:
    """Return the entries of `sys.path` in which installed plugins are looked for."""
    return [entry for entry in sys.path if not isinstance(entry, AppFolder)]


def _mark_conflicts(plugins: list[InstalledPlugin]) -> Iterator[InstalledPlugin]:
    """Yield the plugins of one distribution, marked where two versions, or two entry points of one name, conflict."""
    versions = sorted({plugin.version for plugin in plugins})
    names = [plugin.entry_point for plugin in plugins]
    for plugin in plugins:
        if len(versions) > 1:
            problem = f"versions {' and '.join(versions)} are installed in one folder; uninstall both, and install one"
            yield evolve(plugin, problem=problem)
        elif names.count(plugin.entry_point) > 1:
            problem = f"it has two entry points of the name {plugin.entry_point!r}; its author has to rename one"
            yield evolve(plugin, problem=problem)
        else:
            yield plugin


def _read_distribution(distribution: Distribution) -> Iterator[tuple[str, str, list[InstalledPlugin]]]:
    """Yield name, folder and plugins of a distribution that has any; broken metadata are a plugin with a problem."""
    try:
        text = distribution.read_text("entry_points.txt") or ""
    except Exception:  # the seam to files of strangers: what cannot be read names no plugin
        return
    if ENTRY_POINT_GROUP not in text:
        return
    name, folder = _make_fallback_name(distribution), ""
    try:
        folder = str(distribution.locate_file(""))
        points = [point for point in distribution.entry_points if point.group == ENTRY_POINT_GROUP]
        header = _read_header(distribution)
    except Exception as error:  # the seam to files of strangers
        problem = f"its metadata are broken ({type(error).__name__})"
        yield name, folder, [InstalledPlugin(distribution=name, problem=problem)]
        return
    problem, declared, version = "", header.get("name", ""), header.get("version", "")
    has_valid_name = _DISTRIBUTION_NAME.fullmatch(declared) is not None
    has_valid_version = _VERSION.fullmatch(version) is not None
    if not has_valid_name:
        invalid = f"its metadata name it {shorten_repr(declared)}, which is not a valid name of a distribution"
        problem = invalid if declared else "its metadata have no name"
    elif not has_valid_version:
        invalid = f"its metadata give the version {shorten_repr(version)}, which is not a valid one"
        problem = invalid if version else "its metadata have no version"
    name, version = (
        normalize_distribution_name(declared) if has_valid_name else name,
        version if has_valid_version else "",
    )
    yield name, folder, [_build_plugin(name, version, point, problem) for point in points]


def _build_plugin(name: str, version: str, point: EntryPoint, problem: str) -> InstalledPlugin:
    entry_point, value = str(point.name), str(point.value)
    has_valid_name, has_valid_value = _ENTRY_POINT_NAME.fullmatch(entry_point) is not None, _is_valid_value(value)
    if not problem and not has_valid_name:
        problem = (
            f"its entry point is called {shorten_repr(entry_point)}; use letters, digits, spaces, '.', '_' and '-'"
        )
    elif not problem and not has_valid_value:
        problem = f"its entry point {entry_point!r} names {shorten_repr(value)}, which is not module or module:object"
    return InstalledPlugin(
        distribution=name,
        version=version,
        entry_point=entry_point if has_valid_name else shorten_repr(entry_point),
        value=value if has_valid_value else shorten_repr(value)[1:-1],
        problem=problem,
    )


def _is_valid_value(value: str) -> bool:
    """Tell whether an entry point may refer to *value*."""
    return len(value) <= _MAX_VALUE_LENGTH and _ENTRY_POINT_VALUE.fullmatch(value.split("[")[0].strip()) is not None


def _read_header(distribution: Distribution) -> dict[str, str]:
    """Return the first fields of the metadata by key; reading all of them takes a thousand times as long."""
    text, header = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or "", dict[str, str]()
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if not line.strip() or {"name", "version"} <= header.keys():
            break
        if colon:
            header.setdefault(key.strip().lower(), value.strip())
    return header


def _make_fallback_name(distribution: Distribution) -> str:
    """Return a name for a distribution without one: its metadata folder's, in safe characters."""
    stem = str(getattr(distribution, "_path", "")).replace("\\", "/").rstrip("/").rpartition("/")[2]
    plain = re.sub(r"[^A-Za-z0-9]+", "-", stem.partition("-")[0]).strip("-").lower()
    return plain[:98] or "unnamed"
