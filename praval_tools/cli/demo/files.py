"""Writes the demo's files in a hidden folder, and moves them to the target folder when the demo is complete."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from attrs import frozen

from praval_tools.cli.common import CommandError, UsageError
from praval_tools.cli.program import find_program
from praval_tools.demo.input_files import MARKER_FILE
from praval_tools.report.command_line import CommandLine

DEFAULT_FOLDER = "praval-demo"
JOURNAL_FILE, EFFECTS_FILE, REPORT_FILE = "journal.db", "effects.jsonl", "report.html"
_OUTPUT_FILES = (JOURNAL_FILE, f"{JOURNAL_FILE}.key", EFFECTS_FILE, REPORT_FILE)
_SQLITE_SIDE_FILES = (f"{JOURNAL_FILE}-wal", f"{JOURNAL_FILE}-shm")
_MAX_FOLDER_NUMBER = 1_000


@frozen
class DemoFiles:
    """
    The files while they are being written.

    Args:
        working_folder: Where they are now.
        target_folder: Where they will be.
    """

    working_folder: Path
    target_folder: Path

    @property
    def journal(self) -> Path:
        """The journal of the run."""
        return self.working_folder / JOURNAL_FILE

    @property
    def effects(self) -> Path:
        """A line per effect of a tool."""
        return self.working_folder / EFFECTS_FILE

    @property
    def report(self) -> Path:
        """The HTML report."""
        return self.working_folder / REPORT_FILE

    def move_to_target(self) -> None:
        """Move every file to the target folder; an earlier demo's files are replaced, no others are touched."""
        self.target_folder.mkdir(parents=True, exist_ok=True)
        (self.target_folder / MARKER_FILE).touch()
        for name in _SQLITE_SIDE_FILES:  # of an earlier journal that somebody still reads; they do not fit the new one
            (self.target_folder / name).unlink(missing_ok=True)
        for name in _OUTPUT_FILES:
            with suppress(FileNotFoundError):
                os.replace(self.working_folder / name, self.target_folder / name)


@contextmanager
def prepare_files(out: Path | None) -> Iterator[DemoFiles]:
    """
    Create a hidden folder beside the target folder, and remove it in the end, whatever happens.

    Raises:
        CommandError: The folder *out* holds other files, or cannot be written to.
    """
    target = _find_free_folder(Path(DEFAULT_FOLDER)) if out is None else _check_folder(out)
    parent = next(folder for folder in (target, *target.absolute().parents) if folder.is_dir())
    try:
        folder = Path(tempfile.mkdtemp(prefix=f".{DEFAULT_FOLDER}-", dir=parent))
    except OSError as error:
        again = CommandLine(program=find_program()).write("demo", [], ["--out", "DIR"])
        fix = "" if out is not None else f" Name another folder: {again}"
        raise CommandError(f"{parent}: nothing can be written here: {error.strerror or error}.{fix}") from error
    try:
        yield DemoFiles(folder, target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _check_folder(folder: Path) -> Path:
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: a file, where a folder is needed.")
    if not _can_write_to(folder):
        raise UsageError(f"{folder}: holds other files; name a folder that is new, empty, or an earlier demo's.")
    return folder


def _find_free_folder(folder: Path) -> Path:
    names = (folder.name, *(f"{folder.name}-{number}" for number in range(2, _MAX_FOLDER_NUMBER)))
    last = folder.with_name(f"{folder.name}-{_MAX_FOLDER_NUMBER}")
    return next((path for name in names if _can_write_to(path := folder.with_name(name))), last)


def _can_write_to(folder: Path) -> bool:
    """Whether *folder* does not exist, is empty, or was made by an earlier demo."""
    try:
        if not os.path.lexists(folder):
            return True
        return folder.is_dir() and ((folder / MARKER_FILE).exists() or not os.listdir(folder))
    except OSError:
        return False
