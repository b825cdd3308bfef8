"""Finding plugins: the entry points of the installed distributions, whatever state their metadata are in."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from attrs import frozen

from praval_tools.names import normalized, shorten_repr

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


@frozen(kw_only=True)
class InstalledPlugin:
    """
    One installed plugin.

    Args:
        distribution: What ships it; the normalized name.
        version: Of that distribution.
        entry_point: The name of its entry point.
        value: What that names: `module` or `module:object`.
        problem: Why it cannot be loaded; empty where nothing is known against it.
    """

    distribution: str
    version: str = ""
    entry_point: str = ""
    value: str = ""
    problem: str = ""

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}".strip() + (f" ({self.entry_point})" if self.entry_point else "")


def read_allow_list() -> frozenset[str] | None:
    """Return what the environment lets be loaded; None: it does not say, and all may."""
    said = os.environ.get(ALLOW_LIST_VARIABLE)
    return None if said is None else frozenset(normalized(one.strip()) for one in said.split(",") if one.strip())


def find_plugins(distributions: Iterable[Distribution] | None = None) -> tuple[InstalledPlugin, ...]:
    """
    Return the installed plugins, by distribution, then entry point: the same order in every process.

    Of a distribution that several folders of `sys.path` hold, the first counts, as it does for `import`.

    Args:
        among: The distributions, in the order of `sys.path`; None: those that are installed.
    """
    if distributions is None:
        from importlib.metadata import (
            distributions as installed_distributions,  # half of what starting the command line would cost
        )

        distributions = installed_distributions()
    chosen: dict[str, tuple[str, list[InstalledPlugin]]] = {}
    for one in distributions:
        for name, folder, plugins in _read_distribution(one):
            first, known = chosen.setdefault(name, (folder, []))
            if first != folder:
                continue
            fresh = [plugin for plugin in plugins if plugin not in known]
            chosen[name] = (folder, _mark_conflicts(known, fresh))
    everything = (plugin for _, plugins in chosen.values() for plugin in plugins)
    return tuple(sorted(everything, key=lambda one: (one.distribution, one.entry_point, one.value)))


def _mark_conflicts(known: list[InstalledPlugin], fresh: list[InstalledPlugin]) -> list[InstalledPlugin]:
    """Return all plugins of one distribution; two versions of it in one folder spoil it, and so do two of one name."""
    versions = sorted({one.version for one in (*known, *fresh)})
    names = [one.entry_point for one in (*known, *fresh)]
    made = []
    for one in (*known, *fresh):
        problem = one.problem
        if len(versions) > 1:
            problem = f"versions {' and '.join(versions)} are installed in one folder; uninstall both, and install one"
        elif names.count(one.entry_point) > 1:
            problem = f"it has two entry points of the name {one.entry_point!r}; its author has to rename one"
        made.append(_with_problem(one, problem))
    return made


def _with_problem(one: InstalledPlugin, problem: str) -> InstalledPlugin:
    return InstalledPlugin(
        distribution=one.distribution, version=one.version, entry_point=one.entry_point, value=one.value,
        problem=problem,
    )  # fmt: skip


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
        points = [one for one in distribution.entry_points if one.group == ENTRY_POINT_GROUP]
        header = _read_header(distribution)
        given, version = header.get("name"), header.get("version")
    except Exception as error:  # the seam to files of strangers
        yield (
            name,
            folder,
            [InstalledPlugin(distribution=name, problem=f"its metadata are broken ({type(error).__name__})")],
        )
        return
    problem = ""
    if given is None or not _DISTRIBUTION_NAME.fullmatch(given):
        problem = f"its metadata name it {shorten_repr(given)}, which is no name of a distribution" if given else (
            "its metadata have no name")  # fmt: skip
    elif version is None or not _VERSION.fullmatch(version):
        problem = f"its metadata give the version {shorten_repr(version)}, which is none" if version else (
            "its metadata have no version")  # fmt: skip
    if given is not None and _DISTRIBUTION_NAME.fullmatch(given):
        name = normalized(given)
    shown = version if version is not None and _VERSION.fullmatch(version) else ""
    yield name, folder, [_build_plugin(name, shown, one, problem) for one in points]


def _build_plugin(name: str, version: str, point: EntryPoint, problem: str) -> InstalledPlugin:
    entry, value = str(point.name), str(point.value)
    if not problem and not _ENTRY_POINT_NAME.fullmatch(entry):
        problem = f"its entry point is called {shorten_repr(entry)}; use letters, digits, spaces, '.', '_' and '-'"
    elif not problem and not _is_valid_value(value):
        problem = f"its entry point {entry!r} names {shorten_repr(value)}, which is no module or module:object"
    return InstalledPlugin(
        distribution=name, version=version, entry_point=entry if _ENTRY_POINT_NAME.fullmatch(entry) else shorten_repr(entry),
        value=value if _is_valid_value(value) else shorten_repr(value)[1:-1], problem=problem,
    )  # fmt: skip


def _is_valid_value(value: str) -> bool:
    """Tell whether an entry point may name this."""
    return len(value) <= _MAX_VALUE_LENGTH and _ENTRY_POINT_VALUE.fullmatch(value.split("[")[0].strip()) is not None


def _read_header(distribution: Distribution) -> dict[str, str]:
    """Return the first lines of the metadata by key; the whole of them takes a thousand times as long to read."""
    text, found = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or "", dict[str, str]()
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if not line.strip() or {"name", "version"} <= found.keys():
            break
        if colon:
            found.setdefault(key.strip().lower(), value.strip())
    return found


def _make_fallback_name(distribution: Distribution) -> str:
    """Return what a distribution without a name is called: its folder of metadata, made harmless."""
    stem = str(getattr(distribution, "_path", "")).replace("\\", "/").rstrip("/").rpartition("/")[2]
    plain = re.sub(r"[^A-Za-z0-9]+", "-", stem.partition("-")[0]).strip("-").lower()
    return plain[:98] or "unnamed"
