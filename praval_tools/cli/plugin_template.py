"""Rendering the template of a plugin: files of this package, with the names filled in."""

from __future__ import annotations

import re
import sys
from importlib.resources import files
from importlib.resources.abc import Traversable
from keyword import iskeyword
from pathlib import Path

from attrs import frozen

from praval_tools.cli.common import EXIT_USAGE, CommandError

_NAME_PATTERN = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")
_TEMPLATE_SUFFIX = ".in"
_RESERVED_MODULES = frozenset(("praval", "praval_tools", "test", "tests"))


@frozen
class PluginNames:
    """The names of a new plugin: of its distribution, its module, its entry point and its first tool."""

    distribution: str
    module: str
    entry: str


def derive_plugin_names(name: str) -> PluginNames:
    """
    Return the names of a plugin that is to be called *name*.

    Raises:
        Failure: It is no name of a distribution.
    """
    if not _NAME_PATTERN.fullmatch(name) or len(name) > 60:
        text = f"{name!r} is no name for a plugin: use small letters, digits and '-', like praval-tools-weather."
        raise CommandError(text, EXIT_USAGE)
    distribution = name.replace("_", "-")
    entry, module = distribution.removeprefix("praval-tools-").replace("-", "_"), distribution.replace("-", "_")
    if iskeyword(module) or module in sys.stdlib_module_names or module in _RESERVED_MODULES:
        text = f"A plugin {name!r} would be the module {module!r}, which is Python's or another's: try"
        raise CommandError(f"{text} praval-tools-{distribution.removeprefix('praval-tools-')}.", EXIT_USAGE)
    if entry[0].isdigit():
        raise CommandError(
            f"{name!r} is no name for a plugin: its tools would begin with {entry[0]!r}, a digit.", EXIT_USAGE
        )
    return PluginNames(distribution, module, entry)


def write_plugin(names: PluginNames, into: Path) -> Path:
    """
    Write a new plugin into a folder of its name inside of *into*; return that folder.

    Raises:
        Failure: The folder is there; nothing of it is changed.
    """
    home = into / names.distribution
    try:
        home.mkdir(parents=True)
    except FileExistsError:
        raise CommandError(
            f"{str(home)!r} is there already; choose another name, or another place with --into."
        ) from None
    for path, text in render_plugin_files(names).items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text, encoding="utf-8")
    return home


def render_plugin_files(names: PluginNames) -> dict[str, str]:
    """Return the files of a new plugin by path."""
    root = files("praval_tools.cli") / "template"
    return {
        _fill_placeholders(path, names): _fill_placeholders(text, names)
        for path, text in sorted(_read_template_files(root, ""))
    }


def _read_template_files(folder: Traversable, prefix: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for one in folder.iterdir():
        if one.is_dir():
            found += _read_template_files(one, f"{prefix}{one.name}/")
        elif one.name.endswith(_TEMPLATE_SUFFIX):
            found.append((prefix + one.name.removesuffix(_TEMPLATE_SUFFIX), one.read_text(encoding="utf-8")))
    return found


def _fill_placeholders(text: str, names: PluginNames) -> str:
    for key in ("distribution", "module", "entry"):
        text = text.replace(f"__{key}__", getattr(names, key))
    return text
