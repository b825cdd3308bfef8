"""Reads the demo's input into a table: a CSV file, a text file, or a folder of text."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import stat
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from praval_tools.demo.table import Column, Table
from praval_tools.errors import ToolError
from praval_tools.names import format_count

if TYPE_CHECKING:
    from _csv import Reader as _Reader

_TABLE_SUFFIXES = {".csv", ".tsv", ".tab", ".psv"}
_SKIPPED_FOLDERS = {"node_modules", "__pycache__", "venv", "dist", "build", "site-packages"}
_MISSING_VALUES = {"NA", "N/A", "NaN", "nan", "NULL", "null"}
_CONTROL_BYTES = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_WORD_PATTERN = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")

MARKER_FILE = ".praval-demo"
"""A file of this name marks the output folder of an earlier demo, which is not read as data."""
MAX_ROWS = 200_000
MAX_LINES = 200_000
MAX_BYTES = 1 << 28
_MAX_TEXT_FILE_BYTES = 1 << 21
_MAX_COLUMNS = 1000


class UnreadableDataError(ToolError):
    """The file or folder holds nothing that the demo can read; the text says what and where."""

    code: ClassVar[str] = "unreadable-data"

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path, self.problem = path, problem

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


def read_table(path: Path) -> Table:
    """
    Return what is at *path* as a table: the rows of a CSV file, or the lines of a text file or of a folder of them.

    Of a very large file or folder only the beginning is read; `Table.name` says so.

    Raises:
        UnreadableDataError: It does not exist, cannot be read, is empty, binary or broken.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            return read_folder(path)
        if not stat.S_ISREG(mode):
            raise UnreadableDataError(str(path), "neither a file nor a folder.")
        suffixes = [suffix.lower() for suffix in path.suffixes]
        plain = suffixes[-2:-1] if suffixes[-1:] == [".gz"] else suffixes[-1:]
        if plain and plain[0] in _TABLE_SUFFIXES:
            return read_csv(path)
        return read_text(path)
    except FileNotFoundError:
        raise UnreadableDataError(str(path), "no such file or folder.") from None
    except PermissionError:
        raise UnreadableDataError(str(path), "not readable: permission denied.") from None
    except OSError as error:
        raise UnreadableDataError(str(path), f"not readable: {error.strerror or error}.") from None


# ── CSV ──────────────────────────────────────────────────────────────────────────────────────────


def read_csv(path: Path, *, unit: str = "row") -> Table:
    """
    Read a CSV file with a heading; the separator may be `,` `;` tab or `|`, `.gz` is unpacked.

    Raises:
        UnreadableDataError: It is empty, binary, has no rows, or a row does not have as many fields as the heading.
    """
    text = _decode_content(path, _read_content(path))
    if not text.strip():
        raise UnreadableDataError(str(path), "the file is empty.")
    first = text[: text.index("\n")] if "\n" in text else text
    separator = max(",;\t|", key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        heading, rows = _parse_rows(path, reader)
    except csv.Error as error:
        problem = f"not a well-formed CSV file: {error} (line {reader.line_num})."
        raise UnreadableDataError(str(path), problem) from None
    if not rows:
        raise UnreadableDataError(str(path), "there is a heading but no rows under it.")
    columns = zip(_make_unique_names(heading), zip(*rows, strict=True), strict=True)
    cut = f" (its first {len(rows):,} rows)" if len(rows) == MAX_ROWS else ""
    return Table(
        name=path.name + cut, unit=unit, columns=tuple(Column(name=name, values=values) for name, values in columns)
    )


def _parse_rows(path: Path, reader: _Reader) -> tuple[list[str], list[list[str]]]:
    heading = next(filled for filled in reader if filled)
    if len(heading) > _MAX_COLUMNS:
        raise UnreadableDataError(str(path), f"{len(heading):,} columns are too many; the maximum is {_MAX_COLUMNS:,}.")
    rows: list[list[str]] = []
    for row in reader:
        if not row:
            continue
        if len(row) != len(heading):
            count = format_count(len(row), "field")
            problem = f"line {reader.line_num} has {count} where the heading has {len(heading)}."
            raise UnreadableDataError(str(path), problem)
        rows.append(["" if (text := cell.strip()) in _MISSING_VALUES else text for cell in row])
        if len(rows) == MAX_ROWS:
            break
    return heading, rows


def _make_unique_names(heading: list[str]) -> list[str]:
    names: list[str] = []
    for number, given in enumerate(heading, start=1):
        name = stem = " ".join(given.split()) or f"column {number}"
        again = 2
        while name in names:
            name, again = f"{stem} ({again})", again + 1
        names.append(name)
    return names


def _read_content(path: Path) -> bytes:
    if path.stat().st_size > MAX_BYTES:
        raise UnreadableDataError(str(path), f"larger than {MAX_BYTES >> 20} MB; give the demo a part of it.")
    if path.suffix.lower() != ".gz":
        return path.read_bytes()
    try:
        with gzip.open(path) as file:
            content = file.read(MAX_BYTES + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise UnreadableDataError(str(path), "not a whole gzip file.") from None
    if len(content) > MAX_BYTES:
        raise UnreadableDataError(str(path), f"unpacks to more than {MAX_BYTES >> 20} MB.")
    return content


def _decode_content(path: Path, content: bytes) -> str:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16", errors="replace")
    if _CONTROL_BYTES.search(content[:65536]):
        raise UnreadableDataError(str(path), "a binary file, not text.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("cp1252", errors="replace")


# ── text ─────────────────────────────────────────────────────────────────────────────────────────


def read_text(path: Path) -> Table:
    """
    Read one text file: a row per line that is not blank.

    Raises:
        UnreadableDataError: It is empty or binary.
    """
    text = _decode_content(path, _read_content(path))
    return _build_lines_table(path, path.name, [(path.name, path.suffix, text)], problem="the file is empty.")


def read_folder(folder: Path) -> Table:
    """
    Read all text files under *folder*, hidden ones and those of build tools left out: a row per line that is not blank.

    Files that are binary, unreadable or larger than 2 MB are skipped, links are not followed.

    Raises:
        UnreadableDataError: There is no text in it.
    """
    os.listdir(folder)  # an unreadable folder raises here; `os.walk` would report it as empty
    name = f"{folder.resolve().name or folder}/"
    return _build_lines_table(folder, name, _read_texts(folder), problem="no text files in this folder.")


def _read_texts(folder: Path) -> Iterator[tuple[str, str, str]]:
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED_FOLDERS)
        if MARKER_FILE in files:
            folders.clear()
            continue
        for name in sorted(files):
            path = Path(parent, name)
            if name.startswith(".") or path.is_symlink() or not path.is_file():
                continue
            try:
                if path.stat().st_size <= _MAX_TEXT_FILE_BYTES:
                    yield str(path.relative_to(folder)), path.suffix, path.read_bytes().decode("utf-8-sig")
            except (OSError, UnicodeDecodeError):
                continue


def _build_lines_table(path: Path, name: str, texts: Iterable[tuple[str, str, str]], *, problem: str) -> Table:
    rows: list[tuple[str, str, str, str, str, str]] = []
    for file, suffix, text in texts:
        if "\0" in text:
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            if line := line.strip():
                words = len(_WORD_PATTERN.findall(line))
                rows.append((file, suffix.lower() or "none", str(number), str(words), str(len(line)), line))
        if len(rows) >= MAX_LINES:
            name += f" (its first {MAX_LINES:,} lines)"
            break
    if not rows:
        raise UnreadableDataError(str(path), problem)
    names = ("file", "kind", "line", "words", "characters", "text")
    columns = zip(names, zip(*rows[:MAX_LINES], strict=True), strict=True)
    return Table(name=name, unit="line", columns=tuple(Column(name=n, values=values) for n, values in columns))


def iter_words(lines: Iterator[str]) -> Iterator[str]:
    """Yield the words of *lines* in lower case."""
    for line in lines:
        yield from (word.lower() for word in _WORD_PATTERN.findall(line))
