"""Finds and reads the configuration file, and finds the line of a key in it."""

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
        data: The tables.
        file: The path of the file; empty where the program gives the tables.
        table_path: The table of the file that holds the whole configuration.
        text: The text of the file.
    """

    data: Mapping[str, Any] = field(factory=dict)
    file: str = ""
    table_path: tuple[str, ...] = ()
    text: str = field(default="", repr=False)

    def build_problem(self, key: KeyPath, expected: str) -> ConfigProblem:
        """Return a problem at *key*, with its place in the file."""
        full = (*self.table_path, *key)
        return ConfigProblem(format_key(full), expected, self.file, find_line(self.text, full))


def find_config(folder: Path) -> ConfigDocument:
    """
    Return the configuration of *folder*: of `praval_tools.toml`, or `[tool.praval_tools]` in `pyproject.toml`.

    It is empty where there is neither.

    Raises:
        ConfigError: Both are there, or a file is not valid TOML.
    """
    own, shared = folder / OWN_FILE, folder / SHARED_FILE
    documents = [read_config(path) for path in (own, shared) if os.path.lexists(path)]
    documents = [document for document in documents if document.data or document.file == str(own)]
    if len(documents) > 1:
        text = f"[tool.praval_tools] stands there, and {OWN_FILE} beside it; keep one of the two"
        raise ConfigError([ConfigProblem("tool.praval_tools", text, str(shared))])
    return documents[0] if documents else ConfigDocument()


def read_config(path: Path) -> ConfigDocument:
    """
    Return the configuration in a file.

    Raises:
        ConfigError: It cannot be read, or is not valid TOML.
    """
    if path.exists() and not path.is_file():  # a pipe or a device need not end
        raise ConfigError([ConfigProblem("", "is not a regular file", str(path))])
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([ConfigProblem("", f"cannot be read ({type(error).__name__})", str(path))]) from None
    except RecursionError:
        raise ConfigError([ConfigProblem("", "is nested too deeply", str(path))]) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([ConfigProblem("", f"is not valid TOML: {error}", str(path))]) from None
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
        is_bare = part.replace("_", "").isalnum() and part.isascii()
        escaped = part if is_bare else '"' + part.replace("\\", "\\\\").replace('"', '\\"') + '"'
        text += f".{escaped}" if text else escaped
    return text


def find_line(text: str, key: KeyPath) -> int:
    """
    Find the line of a key.

    Returns:
        The line of *key*, or of the nearest key around it that has a line; 0 where none is known.
    """
    names, lines = tuple(part for part in key if isinstance(part, str)), _index_lines(text)
    return next((lines[names[:length]] for length in range(len(names), 0, -1) if names[:length] in lines), 0)


@lru_cache(1)
def _index_lines(text: str) -> dict[tuple[str, ...], int]:
    """Return the line on which each key stands first."""
    table, lines = tuple[str, ...](), dict[tuple[str, ...], int]()
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if stripped.startswith("["):
            key = table = _parse_key(stripped.split("#")[0]) or _parse_key(stripped)
        else:
            name, equals, _ = stripped.partition("=")
            key = (*table, *_parse_key(f"{name} = 0")) if equals else ()
        if key:
            lines.setdefault(key, number)
    return lines


def _parse_key(line: str) -> tuple[str, ...]:
    """Return the path of the one key that *line* has; empty where it has none."""
    try:
        inner: object = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return ()
    path: list[str] = []
    while isinstance(inner, dict | list) and inner:
        if isinstance(inner, list):
            inner = inner[0]
        else:
            name, inner = next(iter(inner.items()))
            path.append(name)
    return tuple(path)
