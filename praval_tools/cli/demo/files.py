"""Where the demo leaves its files: a folder of its own, filled at the end or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from attrs import field, frozen

from praval_tools.cli.common import EXIT_PROBLEM, EXIT_USAGE, CommandError
from praval_tools.demo.input_files import MARKER_FILE

DEFAULT_FOLDER = "praval-demo"
JOURNAL_FILE, EFFECTS_FILE, REPORT_FILE = "journal.db", "effects.jsonl", "report.html"
_OUTPUT_FILES = (JOURNAL_FILE, f"{JOURNAL_FILE}.key", EFFECTS_FILE, REPORT_FILE)
_SQLITE_SIDE_FILES = (f"{JOURNAL_FILE}-wal", f"{JOURNAL_FILE}-shm")
_MAX_FOLDER_NUMBER = 1_000


@frozen
class DemoFiles:
    """
    The files as long as they are being written.

    Args:
        folder: Where they are now.
        place: Where they will be.
    """

    working_folder: Path
    target_folder: Path
    journal: Path = field(init=False)
    effects: Path = field(init=False)
    report: Path = field(init=False)

    def __attrs_post_init__(self) -> None:
        for name, file in (("journal", JOURNAL_FILE), ("effects", EFFECTS_FILE), ("report", REPORT_FILE)):
            object.__setattr__(self, name, self.working_folder / file)

    def move_to_target(self) -> None:
        """Put every file in its place; an earlier demo's are replaced, nobody else's are touched."""
        self.target_folder.mkdir(parents=True, exist_ok=True)
        (self.target_folder / MARKER_FILE).touch()
        for (
            name
        ) in _SQLITE_SIDE_FILES:  # of an earlier journal that somebody still reads; they would not fit the new one
            with suppress(FileNotFoundError):
                (self.target_folder / name).unlink()
        for name in _OUTPUT_FILES:
            with suppress(FileNotFoundError):
                os.replace(self.working_folder / name, self.target_folder / name)


@contextmanager
def prepare_files(wanted: Path | None) -> Iterator[DemoFiles]:
    """
    Make a hidden folder beside where the files will be, and remove it in the end, whatever happens.

    Raises:
        Failure: The wanted folder holds what is not the demo's, or cannot be written to.
    """
    place = _find_free_folder(Path(DEFAULT_FOLDER)) if wanted is None else _check_folder(wanted)
    above = next(folder for folder in (place, *place.absolute().parents) if folder.is_dir())
    try:
        folder = Path(tempfile.mkdtemp(prefix=f".{DEFAULT_FOLDER}-", dir=above))
    except OSError as error:
        fix = "" if wanted is not None else " Name another folder: praval-tools demo --out DIR"
        raise CommandError(
            f"{above}: nothing can be written here: {error.strerror or error}.{fix}", EXIT_PROBLEM
        ) from error
    try:
        yield DemoFiles(folder, place)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _check_folder(place: Path) -> Path:
    if place.exists() and not place.is_dir():
        raise CommandError(f"{place}: a file, where a folder is needed.", EXIT_USAGE)
    if not _can_write_to(place):
        raise CommandError(
            f"{place}: holds other files; name a folder that is new, empty, or an earlier demo's.", EXIT_USAGE
        )
    return place


def _find_free_folder(place: Path) -> Path:
    names = (
        place if number == 1 else place.with_name(f"{place.name}-{number}") for number in range(1, _MAX_FOLDER_NUMBER)
    )
    return next((one for one in names if _can_write_to(one)), place.with_name(f"{place.name}-{_MAX_FOLDER_NUMBER}"))


def _can_write_to(place: Path) -> bool:
    """Tell whether *place* may be written to: it is not there yet, is empty, or an earlier demo made it."""
    try:
        return not os.path.lexists(place) or (
            place.is_dir() and ((place / MARKER_FILE).exists() or not os.listdir(place))
        )
    except OSError:
        return False
