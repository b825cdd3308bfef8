"""Finds the line of each key of a TOML text, which `tomllib` does not tell."""

from __future__ import annotations

import re
import tomllib
from typing import Final, TypeAlias

KeyPath: TypeAlias = tuple[str | int, ...]

MAX_DEPTH: Final = 64
"""How deep the values of a file may be nested."""


class TooDeepError(Exception):
    """Values are nested deeper than `MAX_DEPTH` levels; it has the path of the outer ones and the line."""

    def __init__(self, path: KeyPath, line: int) -> None:
        super().__init__(path, line)
        self.path, self.line = path, line


_BLANK: Final = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_SPACE: Final = re.compile(r"[ \t]*")
_KEY_PART: Final = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
_STRING: Final = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*"{3,5}|\'\'\'(?:[^\']|\'(?!\'\'))*\'{3,5}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'', re.DOTALL
)
_BARE: Final = re.compile(r"[^,\]}#\n]+")


def find_lines(text: str) -> dict[KeyPath, int]:
    """
    Return the line of each key, table and item of *text*, by its path; the text is valid TOML.

    Raises:
        TooDeepError: Some are nested too deeply.
    """
    return _LineScanner(text).scan()


class _LineScanner:
    """Walks over a valid text, and notes where values begin."""

    def __init__(self, text: str) -> None:
        self._text, self._position = text, 0
        self._line, self._counted = 1, 0
        self._lines: dict[KeyPath, int] = {}
        self._lengths: dict[KeyPath, int] = {}

    def scan(self) -> dict[KeyPath, int]:
        """Return the lines of all values."""
        table: KeyPath = ()
        self._skip(_BLANK)
        while self._position < len(self._text):
            if self._text[self._position] == "[":
                table = self._scan_header()
            else:
                self._scan_pair(table)
            self._skip(_BLANK)
        return self._lines

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self._text, self._position)
        self._position = self._position if match is None else match.end()

    def _get_line(self) -> int:
        self._line += self._text.count("\n", self._counted, self._position)
        self._counted = self._position
        return self._line

    def _note(self, path: KeyPath, line: int) -> None:
        if len(path) > MAX_DEPTH:
            raise TooDeepError(path[:4], line)
        for length in range(1, len(path) + 1):
            self._lines.setdefault(path[:length], line)

    def _scan_header(self) -> KeyPath:
        line, is_item = self._get_line(), self._text.startswith("[[", self._position)
        self._position += 2 if is_item else 1
        names = self._scan_key()
        if len(names) > MAX_DEPTH:
            raise TooDeepError(names[:4], line)
        path = self._resolve_items(names, keep_last=is_item)
        self._position += 2 if is_item else 1
        if is_item:
            self._lines.setdefault(path, line)
            index = self._lengths.get(path, 0)
            self._lengths[path] = index + 1
            path = (*path, index)
        self._note(path, line)
        return path

    def _resolve_items(self, names: KeyPath, *, keep_last: bool) -> KeyPath:
        """Return the path of a header: a name that stands for an array of tables means its last item."""
        path: KeyPath = ()
        for position, name in enumerate(names):
            path = (*path, name)
            if path in self._lengths and not (keep_last and position == len(names) - 1):
                path = (*path, self._lengths[path] - 1)
        return path

    def _scan_key(self) -> KeyPath:
        parts: list[str] = []
        while True:
            self._skip(_SPACE)
            match = _KEY_PART.match(self._text, self._position)
            assert match is not None, "the text is valid"
            parts.append(_read_key_part(match[0]))
            self._position = match.end()
            self._skip(_SPACE)
            if not self._text.startswith(".", self._position):
                return tuple(parts)
            self._position += 1

    def _scan_pair(self, table: KeyPath) -> None:
        line = self._get_line()
        path = (*table, *self._scan_key())
        self._note(path, line)
        self._position += 1  # the equals sign
        self._skip(_SPACE)
        self._scan_value(path)

    def _scan_value(self, path: KeyPath) -> None:
        opening = self._text[self._position]
        if opening == "[":
            self._scan_items(path, "]")
        elif opening == "{":
            self._scan_items(path, "}")
        else:
            self._skip(_STRING if opening in "\"'" else _BARE)

    def _scan_items(self, path: KeyPath, closing: str) -> None:
        self._position += 1
        index = 0
        self._skip(_BLANK)
        while self._text[self._position] != closing:
            if closing == "}":
                self._scan_pair(path)
            else:
                self._note((*path, index), self._get_line())
                self._scan_value((*path, index))
                index += 1
            self._skip(_BLANK)
            if self._text[self._position] == ",":
                self._position += 1
                self._skip(_BLANK)
        self._position += 1


def _read_key_part(text: str) -> str:
    if text[0] == "'":
        return text[1:-1]
    return next(iter(tomllib.loads(f"{text} = 0"))) if text[0] == '"' else text
