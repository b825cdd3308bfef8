"""Finding plain text in the files below a folder; no patterns of text, which can take for ever."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from fnmatch import fnmatchcase
from time import monotonic
from typing import Final

from attrs import define, field, frozen

from praval_tools_files.errors import FilesError, FileSystemError, PathMissingError, PathRefusedError
from praval_tools_files.read import chunks, kind_of, names_in
from praval_tools_files.roots import Roots, parts_of
from praval_tools_files.settings import FilesSettings

_LINE: Final = 300
_LONG_LINE: Final = 1_048_576


@frozen(kw_only=True)
class Match:
    """A line that holds the text; long lines are cut around it."""

    path: str
    line: int
    text: str


@frozen(kw_only=True)
class Found:
    """
    What a search found, files by name.

    `stopped` says why the search ended early, None where everything was searched.
    `skipped` counts what was left out: links, devices and pipes, files that are not text, what could not be opened.
    """

    matches: list[Match]
    files: int
    stopped: str | None
    skipped: dict[str, int]


class _Stop(Exception):
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
    left: int = 0

    def skip(self, why: str) -> None:
        self.skipped[why] = self.skipped.get(why, 0) + 1

    def check(self) -> None:
        if monotonic() > self.deadline or self.cancelled():
            raise _Stop(f"time: {self.settings.timeout} s were not enough; search a smaller folder")
        if self.left < 0:
            raise _Stop(f"size: {self.settings.max_search_bytes} bytes were read; search a smaller folder")

    def folder(self, at: int, path: str, depth: int) -> None:
        names, unnameable, complete = names_in(at, path, self.settings.max_entries)
        for _ in range(unnameable):
            self.skip("names that are not UTF-8")
        if not complete:
            self.skip("entries of folders with too many")
        for name in names:
            self.check()
            try:
                self.entry(at, name, f"{path}/{name}", depth)
            except (PathMissingError, PathRefusedError, FileSystemError, OSError):
                self.skip("changed or not readable")

    def entry(self, at: int, name: str, path: str, depth: int) -> None:
        kind = kind_of(os.stat(name, dir_fd=at, follow_symlinks=False))
        if kind == "folder":
            self.below(at, name, path, depth)
        elif kind != "file":
            self.skip("links" if kind == "link" else "devices, pipes and sockets")
        elif fnmatchcase(name, self.pattern):
            with self.roots.file_in(at, name, path) as (file, _):
                self.files += 1
                self.file(file, path)

    def below(self, at: int, name: str, path: str, depth: int) -> None:
        if depth >= self.settings.max_depth:
            self.skip("folders too deep")
            return
        with self.roots.folder_in(at, name, path) as inner:
            self.folder(inner, path, depth + 1)

    def file(self, file: int, path: str) -> None:
        for number, line in enumerate(self.lines(file, path), 1):
            if line is None:
                self.skip("files that are not text, or have lines too long")
                return
            at = (line.casefold() if self.ignore_case else line).find(self.needle)
            if at < 0:
                continue
            if len(self.matches) >= self.limit:
                raise _Stop(f"matches: there are more than {self.limit}; search for something rarer")
            start = max(0, min(at, len(line)) - _LINE // 2)
            self.matches.append(Match(path=path, line=number, text=line[start : start + _LINE]))
        self.check()

    def lines(self, file: int, path: str) -> Iterator[str | None]:
        """Yield the lines of a file; None and nothing more where it is no text."""
        rest = b""
        for piece in chunks(file, path, 0, self.left + 1):
            self.check()
            self.left -= len(piece)
            *whole, rest = (rest + piece).split(b"\n")
            yield from map(_text, whole)
            if len(rest) > _LONG_LINE:
                yield None
                return
        if rest:
            yield _text(rest)


def _text(line: bytes) -> str | None:
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
) -> Found:
    """Search the files below *path*, or the file *path*, whose names match *pattern*, for lines that hold *text*."""
    if "\n" in text:
        raise FilesError(path, "the text has a line break in it, and lines have none", "Search for one line of it.")
    search = _Search(
        roots, settings, text.casefold() if ignore_case else text, ignore_case, pattern, limit, cancelled,
        monotonic() + settings.timeout, left=settings.max_search_bytes,
    )  # fmt: skip
    parts, stopped = parts_of(path, settings.max_depth), None
    with ExitStack() as stack:
        try:
            at = stack.enter_context(roots.folder(path, parts))
        except PathRefusedError:  # a file, unless it is refused as one, too
            file, _ = stack.enter_context(roots.file(path))
            begin: Callable[[], None] = lambda: search.file(file, path)
            search.files = 1
        else:
            begin = lambda: search.folder(at, path.removesuffix("/"), len(parts) - 1)
        try:
            begin()
        except _Stop as why:
            stopped = str(why)
    return Found(matches=search.matches, files=search.files, stopped=stopped, skipped=search.skipped)
