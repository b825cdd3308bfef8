"""Finding and reading the file of a configuration, and the line of a key in it."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from attrs import field, frozen

from praval_tools.errors import ConfigError, ConfigProblem

OWN: Final = "praval_tools.toml"
SHARED: Final = "pyproject.toml"
_TABLE: Final = ("tool", "praval_tools")

Key = tuple[str | int, ...]


@frozen(kw_only=True)
class Document:
    """
    The tables of one configuration.

    Args:
        data: What it says.
        file: Where it stands; empty where the program gave it.
        root: The table of the file in which the whole of it is.
        text: The file.
    """

    data: Mapping[str, Any] = field(factory=dict)
    file: str = ""
    root: tuple[str, ...] = ()
    text: str = field(default="", repr=False)

    def problem(self, key: Key, expected: str) -> ConfigProblem:
        """Return what is wrong at *key*, with its place."""
        full = (*self.root, *key)
        return ConfigProblem(spelled(full), expected, self.file, line_of(self.text, full))


def found(folder: Path) -> Document:
    """
    Return the configuration of *folder*: `praval_tools.toml`, or `[tool.praval_tools]` in `pyproject.toml`; else none.

    Raises:
        ConfigError: Both are there, or a file is no TOML.
    """
    own, shared = folder / OWN, folder / SHARED
    documents = [read(one) for one in (own, shared) if os.path.lexists(one)]
    documents = [one for one in documents if one.data or Path(one.file).name == OWN]
    if len(documents) > 1:
        text = f"[tool.praval_tools] stands there, and {OWN} beside it; keep one of the two"
        raise ConfigError([ConfigProblem("tool.praval_tools", text, str(shared))])
    return documents[0] if documents else Document()


def read(path: Path) -> Document:
    """
    Return the configuration in a file.

    Raises:
        ConfigError: It cannot be read, or is no TOML.
    """
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([ConfigProblem("", f"cannot be read ({type(error).__name__})", str(path))]) from None
    except RecursionError:
        raise ConfigError([ConfigProblem("", "is nested too deeply", str(path))]) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([ConfigProblem("", f"is no TOML: {error}", str(path))]) from None
    if path.name != SHARED:
        return Document(data=data, file=str(path), text=text)
    tool = data.get(_TABLE[0])
    table = tool.get(_TABLE[1], {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        raise ConfigError([ConfigProblem("tool.praval_tools", "expected a table", str(path))])
    return Document(data=table, file=str(path), root=_TABLE, text=text)


def spelled(key: Key) -> str:
    """Return the path of a key as TOML writes it."""
    text = ""
    for part in key:
        if isinstance(part, int):
            text += f"[{part}]"
            continue
        plain = part.replace("_", "").replace("-", "").isalnum() and part.isascii() and "-" not in part
        quoted = part if plain else '"' + part.replace("\\", "\\\\").replace('"', '\\"') + '"'
        text += f".{quoted}" if text else quoted
    return text


def line_of(text: str, key: Key) -> int:
    """Return the line of *key* or, where it stands inside of another, of that one; 0: it is not known."""
    wanted, lines = tuple(one for one in key if isinstance(one, str)), _lines(text)
    return next((lines[wanted[:most]] for most in range(len(wanted), 0, -1) if wanted[:most] in lines), 0)


@lru_cache(1)
def _lines(text: str) -> dict[tuple[str, ...], int]:
    """Return the line on which each key stands first."""
    table, found = tuple[str, ...](), dict[tuple[str, ...], int]()
    for number, line in enumerate(text.splitlines(), start=1):
        bare = line.strip()
        if bare.startswith("["):
            here = table = _path(bare.split("#")[0]) if _path(bare.split("#")[0]) else _path(bare)
        else:
            name, equals, _ = bare.partition("=")
            here = (*table, *_path(f"{name} = 0")) if equals else ()
        if here:
            found.setdefault(here, number)
    return found


def _path(line: str) -> tuple[str, ...]:
    """Return the path of the one key that *line* has; empty where it has none."""
    try:
        inner: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return ()
    found: list[str] = []
    while isinstance(inner, dict | list) and inner:
        inner = inner[0] if isinstance(inner, list) else inner
        if isinstance(inner, dict) and inner:
            name, inner = next(iter(inner.items()))
            found.append(name)
    return tuple(found)
