"""Finds and reads configuration files, TOML and YAML, and knows the line of each key in them."""

from __future__ import annotations

import codecs
import os
import re
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from attrs import evolve, field, fields, frozen

from praval_tools.config.system import SystemConfig
from praval_tools.config.toml_lines import MAX_DEPTH, KeyPath, TooDeepError, find_lines
from praval_tools.config.yaml_reader import MAX_BYTES, read_yaml
from praval_tools.errors import ConfigError, ConfigProblem

OWN_FILE: Final = "praval_tools.toml"
SHARED_FILE: Final = "pyproject.toml"
YAML_FILES: Final = ("tools.yml", "config.yml", "mcp.yml")
"""Found in the working directory; other programs have files of these names too."""
_YAML_MARKS: Final = frozenset(("tools", "mcp_servers", "openapi", "agents", "grants"))
"""The keys of which a YAML file that is found has one at its top, if it is for praval_tools."""
_OTHER_MARKS: Final = frozenset(
    ("blocks", "limits", "approvals", "categories", "execution", "stats", "journal", "telemetry")
)
"""Keys that other programs use too: a file is for praval_tools if it has one, and none that is not known here."""
_KNOWN_KEYS: Final = frozenset(attribute.name for attribute in fields(SystemConfig))
_YAML_KEY: Final = re.compile(r"^(?:\{[ \t]*)?(['\"]?)([\w.-]+)\1[ \t]*:(?=\s|$)", re.MULTILINE)
_UTF_16_MARKS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
CONFIG_VARIABLE: Final = "PRAVAL_TOOLS_CONFIG"
_YAML_SUFFIXES: Final = (".yml", ".yaml")
_TABLE_PATH: Final = ("tool", "praval_tools")
_LONG_KEY: Final = re.compile(r"""(?:^|[{,])[ \t]*+\[{0,2}+[ \t]*+(?:[\w"'-]++[ \t]*+\.[ \t]*+){1000}""", re.MULTILINE)
_TOML_PLACE: Final = re.compile(r" \(at line (\d+), column \d+\)| \(at end of document\)")


FileSignature = tuple[str, int, int, int, int]
"""What tells a file from what it was: its path, its number, when its content and its state were changed, its size."""


def read_signature(path: Path) -> FileSignature:
    """
    Return the signature of a file.

    Raises:
        OSError: There is none.
    """
    stat = path.stat()
    return str(path), stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size


@frozen(kw_only=True)
class ConfigDocument:
    """
    The tables of one configuration.

    Args:
        data: The tables.
        file: The path of the file; empty where the program gives the tables.
        table_path: The table of the file that holds the whole configuration.
        text: The text of the file, where that is TOML.
        lines: The line of each value by its path, where that is known already.
        problems: What is wrong with the file itself, whatever its tables say.
        signature: That of the file, from before it was read; None where it could not be.
    """

    data: Mapping[str, Any] = field(factory=dict, repr=False)
    file: str = ""
    table_path: tuple[str, ...] = ()
    text: str = field(default="", repr=False)
    lines: Mapping[KeyPath, int] | None = field(default=None, repr=False)
    problems: tuple[ConfigProblem, ...] = ()
    signature: FileSignature | None = field(default=None, repr=False, eq=False)

    def build_problem(self, key: KeyPath, expected: str) -> ConfigProblem:
        """Return a problem at *key*, with its place in the file."""
        full = (*self.table_path, *key)
        return ConfigProblem(format_key(full), expected, self.file, self.find_line(key))

    def find_line(self, key: KeyPath) -> int:
        """Return the line of *key*, or of the nearest key around it that has a line; 0 where none is known."""
        lines, full = _find_toml_lines(self.text) if self.lines is None else self.lines, (*self.table_path, *key)
        return next((lines[full[:length]] for length in range(len(full), 0, -1) if full[:length] in lines), 0)


_find_toml_lines = lru_cache(4)(find_lines)


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
        ConfigError: It cannot be read, or is not valid TOML or YAML.
    """
    document = read_document(path)
    if document.problems:
        raise ConfigError(document.problems)
    return document


def find_documents(folder: Path) -> list[ConfigDocument]:
    """
    Return every configuration that *folder* holds: what `find_config` finds, and the files of `YAML_FILES`.

    A YAML file is another program's, and is left out, unless its top has `tools`, `mcp_servers`, `openapi`, `agents` or
    `grants`, or other keys of a configuration and no key that is none.

    Raises:
        ConfigError: `find_config` raises it.
        MissingExtraError: There is a YAML file, and PyYAML is not installed.
    """
    paths = [path for path in (folder / name for name in YAML_FILES) if os.path.lexists(path) and _may_be_own(path)]
    documents = [find_config(folder), *map(read_document, paths)]
    return [document for document in documents if document.file]


def _may_be_own(path: Path) -> bool:
    """
    Tell whether a YAML file is for praval_tools, by its text: it need not be right, nor its reader installed.

    One whose text cannot be read may be: what it refuses is not to be lost without a word.
    """
    if path.exists() and not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError:
        return True
    if len(content) > MAX_BYTES or content.startswith(_UTF_16_MARKS) or b"\0" in content:
        return True
    keys = {name for _, name in _YAML_KEY.findall(content.decode("utf-8-sig", "replace"))}
    return not keys.isdisjoint(_YAML_MARKS) or (keys <= _KNOWN_KEYS and not keys.isdisjoint(_OTHER_MARKS))


def list_config_paths(environment: Mapping[str, str] | None = None) -> list[Path]:
    """Return the files that the variable `PRAVAL_TOOLS_CONFIG` names, which `os.pathsep` separates."""
    text = (os.environ if environment is None else environment).get(CONFIG_VARIABLE, "")
    return [Path(name) for name in text.split(os.pathsep) if name]


def read_document(path: Path) -> ConfigDocument:
    """Return the configuration in a file, with what is wrong with the file itself among its problems."""
    document = ConfigDocument(file=str(path))
    try:
        if path.exists() and not path.is_file():  # a pipe or a device need not end
            return _with_problem(document, "is not a regular file")
        document = evolve(document, signature=(signature := read_signature(path)))
        if signature[-1] > MAX_BYTES:
            return _with_problem(document, f"is longer than {MAX_BYTES:,} bytes")
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:  # a ValueError: bytes that are no UTF-8, a path with a NUL
        return _with_problem(document, f"cannot be read ({type(error).__name__})")
    return parse_document(document, text)


def parse_document(document: ConfigDocument, text: str) -> ConfigDocument:
    """Return *document*, which has a file's path, with the tables of its *text*: YAML or TOML, by the suffix."""
    path = Path(document.file)
    document = _parse_yaml(document, text) if path.suffix in _YAML_SUFFIXES else _parse_toml(document, text)
    if path.name != SHARED_FILE:
        return document
    tool = document.data.get(_TABLE_PATH[0])
    table = tool.get(_TABLE_PATH[1], {}) if isinstance(tool, dict) else {}
    if isinstance(table, dict):
        return evolve(document, data=table, table_path=_TABLE_PATH)
    problem = document.build_problem(_TABLE_PATH, "expected a table")
    return evolve(document, data={}, problems=(*document.problems, problem))


def _with_problem(document: ConfigDocument, expected: str, line: int = 0) -> ConfigDocument:
    return evolve(document, problems=(*document.problems, ConfigProblem("", expected, document.file, line)))


def _parse_toml(document: ConfigDocument, text: str) -> ConfigDocument:
    if (match := _LONG_KEY.search(text)) is not None:  # tomllib takes the longer the square of its length
        return _with_problem(document, "has a key of 1,000 parts", text.count("\n", 0, match.start()) + 1)
    try:
        data = tomllib.loads(text)
        _find_toml_lines(text)
        return evolve(document, data=data, text=text)
    except TooDeepError as error:
        problem = ConfigProblem(
            format_key(error.path), f"is nested deeper than {MAX_DEPTH} levels", document.file, error.line
        )
        return evolve(document, problems=(*document.problems, problem))
    except RecursionError:
        return _with_problem(document, "is nested too deeply")
    except ValueError as error:
        if not isinstance(error, tomllib.TOMLDecodeError):
            return _with_problem(document, "holds a number or a date that cannot be read, as one of too many digits")
        match = _TOML_PLACE.search(str(error))
        line = int(match[1]) if match is not None and match[1] else text.count("\n") + 1
        return _with_problem(document, f"is not valid TOML: {_TOML_PLACE.sub('', str(error))}", line)


def _parse_yaml(document: ConfigDocument, text: str) -> ConfigDocument:
    content = read_yaml(text)
    document = evolve(document, lines=content.lines)
    problems = [
        ConfigProblem(format_key(path), expected, document.file, line) for path, line, expected in content.problems
    ]
    data = content.data
    if not isinstance(data, dict):
        problems.append(ConfigProblem("", "expected a mapping: `tools:`, `agents:`", document.file, 1))
        data = {}
    return evolve(document, data=data, problems=tuple(problems))


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
