"""Searches plain text in the files below a folder; no text patterns, which can take for ever."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from fnmatch import fnmatchcase
from time import monotonic
from typing import Final

from attrs import define, field, frozen

from praval_tools_files.errors import FilesError, FileSystemError, PathMissingError, PathRefusedError
from praval_tools_files.read import get_entry_kind, list_names, read_chunks
from praval_tools_files.roots import Roots, split_path
from praval_tools_files.settings import FilesSettings

_MAX_SHOWN_CHARACTERS: Final = 300
_MAX_LINE_BYTES: Final = 1_048_576


@frozen(kw_only=True)
class Match:
    """A line that holds the text; long lines are cut around it."""

    path: str
    line: int
    text: str


@frozen(kw_only=True)
class SearchResult:
    """
    What a search found, files by name.

    `stopped` says why the search ended early, None where everything was searched.
    `skipped` counts what was left out: links, devices and pipes, files that are not text, what could not be opened.
    """

    matches: list[Match]
    files: int
    stopped: str | None
    skipped: dict[str, int]


class _SearchStopped(Exception):
    """The search ends early; says why."""


@define
class _Search:
    roots: Roots
    settings: FilesSettings
    needle: str
    ignore_case: bool
    pattern: str
    limit: int
    cancelled: Callable[[], bool]
    deadline: float
    matches: list[Match] = field(factory=list)
    skipped: dict[str, int] = field(factory=dict)
    files: int = 0
    bytes_left: int = 0

    def count_skipped(self, why: str) -> None:
        self.skipped[why] = self.skipped.get(why, 0) + 1

    def check_limits(self) -> None:
        if monotonic() > self.deadline or self.cancelled():
            raise _SearchStopped(f"time: {self.settings.timeout} s were not enough; search a smaller folder")
        if self.bytes_left < 0:
            raise _SearchStopped(f"size: {self.settings.max_search_bytes} bytes were read; search a smaller folder")

    def search_folder(self, at: int, path: str, depth: int) -> None:
        names, unnameable, complete = list_names(at, path, self.settings.max_entries)
        for _ in range(unnameable):
            self.count_skipped("names that are not UTF-8")
        if not complete:
            self.count_skipped("entries of folders with too many")
        for name in names:
            self.check_limits()
            try:
                self.search_entry(at, name, f"{path}/{name}", depth)
            except (PathMissingError, PathRefusedError, FileSystemError, OSError):
                self.count_skipped("changed or not readable")

    def search_entry(self, at: int, name: str, path: str, depth: int) -> None:
        kind = get_entry_kind(os.stat(name, dir_fd=at, follow_symlinks=False))
        if kind == "folder":
            self.search_subfolder(at, name, path, depth)
        elif kind != "file":
            self.count_skipped("links" if kind == "link" else "devices, pipes and sockets")
        elif fnmatchcase(name, self.pattern):
            with self.roots.open_file_in(at, name, path) as (file, _):
                self.files += 1
                self.search_file(file, path)

    def search_subfolder(self, at: int, name: str, path: str, depth: int) -> None:
        if depth >= self.settings.max_depth:
            self.count_skipped("folders too deep")
            return
        with self.roots.open_folder_in(at, name, path) as inner:
            self.search_folder(inner, path, depth + 1)

    def search_file(self, file: int, path: str) -> None:
        for number, line in enumerate(self.read_lines(file, path), 1):
            if line is None:
                self.count_skipped("files that are not text, or have lines too long")
                return
            at = (line.casefold() if self.ignore_case else line).find(self.needle)
            if at < 0:
                continue
            if len(self.matches) >= self.limit:
                raise _SearchStopped(f"matches: there are more than {self.limit}; search for something rarer")
            start = max(0, min(at, len(line)) - _MAX_SHOWN_CHARACTERS // 2)
            self.matches.append(Match(path=path, line=number, text=line[start : start + _MAX_SHOWN_CHARACTERS]))
        self.check_limits()

    def read_lines(self, file: int, path: str) -> Iterator[str | None]:
        """Yield the lines of a file; None, and nothing more, where it is not text."""
        rest = b""
        for piece in read_chunks(file, path, 0, self.bytes_left + 1):
            self.check_limits()
            self.bytes_left -= len(piece)
            *whole, rest = (rest + piece).split(b"\n")
            yield from map(_decode_line, whole)
            if len(rest) > _MAX_LINE_BYTES:
                yield None
                return
        if rest:
            yield _decode_line(rest)


def _decode_line(line: bytes) -> str | None:
    if b"\0" in line:
        return None
    try:
        return line.decode("utf-8").removesuffix("\r")
    except UnicodeDecodeError:
        return None


def search_text(
    roots: Roots,
    settings: FilesSettings,
    path: str,
    text: str,
    *,
    pattern: str,
    ignore_case: bool,
    limit: int,
    cancelled: Callable[[], bool],
) -> SearchResult:
    """Search the files below *path*, or the file *path*, whose names match *pattern*, for lines that hold *text*."""
    if "\n" in text:
        raise FilesError(path, "the text has a line break in it, and lines have none", "Search for one line of it.")
    search = _Search(
        roots, settings, text.casefold() if ignore_case else text, ignore_case, pattern, limit, cancelled,
        monotonic() + settings.timeout, bytes_left=settings.max_search_bytes,
    )  # fmt: skip
    parts, stopped = split_path(path, settings.max_depth), None
    with ExitStack() as stack:
        try:
            at = stack.enter_context(roots.open_folder(path, parts))
        except PathRefusedError:  # a file, unless it is refused as one, too
            file, _ = stack.enter_context(roots.open_file(path))
            begin: Callable[[], None] = lambda: search.search_file(file, path)
            search.files = 1
        else:
            begin = lambda: search.search_folder(at, path.removesuffix("/"), len(parts) - 1)
        try:
            begin()
        except _SearchStopped as why:
            stopped = str(why)
    return SearchResult(matches=search.matches, files=search.files, stopped=stopped, skipped=search.skipped)
