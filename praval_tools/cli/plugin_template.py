"""Creates a new plugin for `plugins new`: the files of the template, with the names filled in."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from keyword import iskeyword
from pathlib import Path

from attrs import frozen

from praval_tools.cli.common import CommandError, UsageError

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
    Return the names for a plugin called *name*.

    Raises:
        UsageError: It is not a valid name of a distribution.
    """
    if not _NAME_PATTERN.fullmatch(name) or len(name) > 60:
        rule = "use small letters, digits and '-', like praval-tools-weather."
        raise UsageError(f"{name!r} is not a valid plugin name: {rule}")
    distribution = name.replace("_", "-")
    entry, module = distribution.removeprefix("praval-tools-").replace("-", "_"), distribution.replace("-", "_")
    if iskeyword(module) or module in sys.stdlib_module_names or module in _RESERVED_MODULES:
        fix = f"try praval-tools-{distribution.removeprefix('praval-tools-')}."
        raise UsageError(f"A plugin {name!r} would be the module {module!r}, which is reserved or taken: {fix}")
    if entry[0].isdigit():
        raise UsageError(f"{name!r} is not a valid plugin name: its tools would begin with {entry[0]!r}, a digit.")
    return PluginNames(distribution, module, entry)


def write_plugin(names: PluginNames, into: Path) -> Path:
    """
    Write a new plugin into a folder of its name inside *into*; return that folder.

    Raises:
        CommandError: The folder exists; nothing in it is changed.
    """
    home = into / names.distribution
    try:
        home.mkdir(parents=True)
    except FileExistsError:
        raise CommandError(f"{str(home)!r} exists; choose another name, or another folder with --into.") from None
    for path, text in render_plugin_files(names).items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text, encoding="utf-8")
    return home


def render_plugin_files(names: PluginNames) -> dict[str, str]:
    """Return the files of a new plugin by path."""
    root = files("praval_tools.cli") / "template"
    return {_fill_placeholders(path, names): _fill_placeholders(text, names) for path, text in _read_template(root)}


def _read_template(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield path and text of every template file."""
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _read_template(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(_TEMPLATE_SUFFIX):
            yield prefix + entry.name.removesuffix(_TEMPLATE_SUFFIX), entry.read_text(encoding="utf-8")


def _fill_placeholders(text: str, names: PluginNames) -> str:
    for key in ("distribution", "module", "entry"):
        text = text.replace(f"__{key}__", getattr(names, key))
    return text
