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

OWN_FILE: Final = "praval_tools.toml"
SHARED_FILE: Final = "pyproject.toml"
_TABLE_PATH: Final = ("tool", "praval_tools")

KeyPath = tuple[str | int, ...]


@frozen(kw_only=True)
class ConfigDocument:
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
    table_path: tuple[str, ...] = ()
    text: str = field(default="", repr=False)

    def build_problem(self, key: KeyPath, expected: str) -> ConfigProblem:
        """Return what is wrong at *key*, with its place."""
        full = (*self.table_path, *key)
        return ConfigProblem(format_key(full), expected, self.file, find_line(self.text, full))


def find_config(folder: Path) -> ConfigDocument:
    """
    Return the configuration of *folder*: `praval_tools.toml`, or `[tool.praval_tools]` in `pyproject.toml`; else none.

    Raises:
        ConfigError: Both are there, or a file is no TOML.
    """
    own, shared = folder / OWN_FILE, folder / SHARED_FILE
    documents = [read_config(one) for one in (own, shared) if os.path.lexists(one)]
    documents = [one for one in documents if one.data or Path(one.file).name == OWN_FILE]
    if len(documents) > 1:
        text = f"[tool.praval_tools] stands there, and {OWN_FILE} beside it; keep one of the two"
        raise ConfigError([ConfigProblem("tool.praval_tools", text, str(shared))])
    return documents[0] if documents else ConfigDocument()


def read_config(path: Path) -> ConfigDocument:
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
    if path.name != SHARED_FILE:
        return ConfigDocument(data=data, file=str(path), text=text)
    tool = data.get(_TABLE_PATH[0])
    table = tool.get(_TABLE_PATH[1], {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        raise ConfigError([ConfigProblem("tool.praval_tools", "expected a table", str(path))])
    return ConfigDocument(data=table, file=str(path), table_path=_TABLE_PATH, text=text)


def format_key(key: KeyPath) -> str:
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


def find_line(text: str, key: KeyPath) -> int:
    """Return the line of *key* or, where it stands inside of another, of that one; 0: it is not known."""
    wanted, lines = tuple(one for one in key if isinstance(one, str)), _index_lines(text)
    return next((lines[wanted[:most]] for most in range(len(wanted), 0, -1) if wanted[:most] in lines), 0)


@lru_cache(1)
def _index_lines(text: str) -> dict[tuple[str, ...], int]:
    """Return the line on which each key stands first."""
    table, found = tuple[str, ...](), dict[tuple[str, ...], int]()
    for number, line in enumerate(text.splitlines(), start=1):
        bare = line.strip()
        if bare.startswith("["):
            here = table = _parse_key(bare.split("#")[0]) if _parse_key(bare.split("#")[0]) else _parse_key(bare)
        else:
            name, equals, _ = bare.partition("=")
            here = (*table, *_parse_key(f"{name} = 0")) if equals else ()
        if here:
            found.setdefault(here, number)
    return found


def _parse_key(line: str) -> tuple[str, ...]:
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
