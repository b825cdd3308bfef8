"""Writes generated files into a folder: only what differs, each file at once, and nothing that is somebody else's."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from praval_tools.cli.common import CommandError
from praval_tools.names import format_count

_TEMPORARY_PREFIX, _TEMPORARY_SUFFIX = ".praval-tools-docs-", ".tmp"
_MARKER_RANGE: Final = 300
"""The first bytes of a file, in which a marker shows that a build wrote it."""
SAFE_FILE_NAME: Final = re.compile(r"[a-z0-9][a-z0-9.-]{0,120}\.(?:md|html)")
"""The names of the pages; an index that names another file is not followed."""

FileMakers = Mapping[str, Callable[[], str]]
"""The names of files, each with what makes its text."""


class OutputFolder:
    """
    The folder of generated files; its files are never reached through links.

    Args:
        path: Where it is.
        marker: What the files have at their beginning that were generated.
    """

    def __init__(self, path: Path, marker: str) -> None:
        self.path, self._marker = path, marker

    def read(self, name: str) -> str | None:
        """
        Return the text of a file; None where there is none.

        Raises:
            CommandError: It is not a regular file, or cannot be read.
        """
        path = self.path / name
        try:
            if not stat.S_ISREG(path.lstat().st_mode):
                raise CommandError(f"{path} is not a regular file; remove it, or choose another folder with --out.")
            return path.read_bytes().decode("utf-8", "replace").replace("\r\n", "\n")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise CommandError(f"{path} cannot be read: {error.strerror or error}.") from error

    def find_differences(self, files: FileMakers, known: Iterable[str]) -> Iterator[str]:
        """Yield what `write` would do, one file at a time."""
        for name, make_text in files.items():
            there = self.read(name)
            if there is None:
                yield f"{name} is missing"
            elif there != make_text():
                yield f"{name} differs"
        for name in self._list_obsolete(files, known):
            yield f"{name} is left over"

    def write(self, files: FileMakers, known: Iterable[str]) -> int:
        """
        Write the files that differ, in order, then remove the *known* ones that are no more; return how many changed.

        A crash leaves each file as it was or as it is to be; the next build completes the rest.

        Raises:
            CommandError: A file of somebody else has one of the names, or one cannot be written.
        """
        known = set(known)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._refuse_foreign_files(files, known)
            self._remove_temporary_files()
            count = sum(self._write_file(name, make_text()) for name, make_text in files.items())
            for name in self._list_obsolete(files, known):
                (self.path / name).unlink()
                count += 1
        except OSError as error:
            reason = error.strerror or error
            raise CommandError(f"{error.filename or self.path}: the files could not be written: {reason}.") from error
        return count

    def _refuse_foreign_files(self, files: FileMakers, known: set[str]) -> None:
        foreign = [name for name in files if name not in known and not self._is_generated(name)]
        if foreign:
            more = f" (and {format_count(len(foreign) - 1, 'other file')})" if len(foreign) > 1 else ""
            fix = "move it away, or choose another folder with --out."
            raise CommandError(f"{self.path / foreign[0]} was not written by this command{more}; {fix}")

    def _is_generated(self, name: str) -> bool:
        """Tell whether a file is none, or one that was generated."""
        text = self.read(name)
        return text is None or self._marker in text[:_MARKER_RANGE]

    def _write_file(self, name: str, text: str) -> bool:
        if self.read(name) == text:
            return False
        handle, temporary = tempfile.mkstemp(_TEMPORARY_SUFFIX, _TEMPORARY_PREFIX, self.path)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text.encode("utf-8"))
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o666 & ~_get_umask())
            os.replace(temporary, self.path / name)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
        return True

    def _remove_temporary_files(self) -> None:
        """Remove what a build that was killed left."""
        for path in self.path.glob(f"{_TEMPORARY_PREFIX}*{_TEMPORARY_SUFFIX}"):
            path.unlink(missing_ok=True)

    def _list_obsolete(self, files: FileMakers, known: Iterable[str]) -> list[str]:
        """Return the files of the last build that are no more; only generated ones of safe names that are there."""
        names = sorted(name for name in known if name not in files and SAFE_FILE_NAME.fullmatch(name))
        return [name for name in names if self._is_there(name) and self._is_generated(name)]

    def _is_there(self, name: str) -> bool:
        try:
            return stat.S_ISREG((self.path / name).lstat().st_mode)
        except OSError:
            return False


def _get_umask() -> int:
    umask = os.umask(0o077)
    os.umask(umask)
    return umask
