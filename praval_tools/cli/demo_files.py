"""Where the demo leaves its files: a folder of its own, filled at the end or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from attrs import field, frozen

from praval_tools.cli.common import PROBLEM, USAGE, Failure
from praval_tools.demo.input_files import MARK

FOLDER = "praval-demo"
JOURNAL, EFFECTS, REPORT = "journal.db", "effects.jsonl", "report.html"
_LEFT = (JOURNAL, f"{JOURNAL}.key", EFFECTS, REPORT)
_BESIDE = (f"{JOURNAL}-wal", f"{JOURNAL}-shm")
_MOST = 1_000


@frozen
class Draft:
    """
    The files as long as they are being written.

    Args:
        folder: Where they are now.
        place: Where they will be.
    """

    folder: Path
    place: Path
    journal: Path = field(init=False)
    effects: Path = field(init=False)
    report: Path = field(init=False)

    def __attrs_post_init__(self) -> None:
        for name, file in (("journal", JOURNAL), ("effects", EFFECTS), ("report", REPORT)):
            object.__setattr__(self, name, self.folder / file)

    def leave(self) -> None:
        """Put every file in its place; an earlier demo's are replaced, nobody else's are touched."""
        self.place.mkdir(parents=True, exist_ok=True)
        (self.place / MARK).touch()
        for name in _BESIDE:  # of an earlier journal that somebody still reads; they would not fit the new one
            with suppress(FileNotFoundError):
                (self.place / name).unlink()
        for name in _LEFT:
            with suppress(FileNotFoundError):
                os.replace(self.folder / name, self.place / name)


@contextmanager
def draft(wanted: Path | None) -> Iterator[Draft]:
    """
    Make a hidden folder beside where the files will be, and remove it in the end, whatever happens.

    Raises:
        Failure: The wanted folder holds what is not the demo's, or cannot be written to.
    """
    place = _free(Path(FOLDER)) if wanted is None else _checked(wanted)
    above = next(folder for folder in (place, *place.absolute().parents) if folder.is_dir())
    try:
        folder = Path(tempfile.mkdtemp(prefix=f".{FOLDER}-", dir=above))
    except OSError as error:
        fix = "" if wanted is not None else " Name another folder: praval-tools demo --out DIR"
        raise Failure(f"{above}: nothing can be written here: {error.strerror or error}.{fix}", PROBLEM) from error
    try:
        yield Draft(folder, place)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _checked(place: Path) -> Path:
    if place.exists() and not place.is_dir():
        raise Failure(f"{place}: a file, where a folder is needed.", USAGE)
    if not _ours(place):
        raise Failure(f"{place}: holds other files; name a folder that is new, empty, or an earlier demo's.", USAGE)
    return place


def _free(place: Path) -> Path:
    names = (place if number == 1 else place.with_name(f"{place.name}-{number}") for number in range(1, _MOST))
    return next((one for one in names if _ours(one)), place.with_name(f"{place.name}-{_MOST}"))


def _ours(place: Path) -> bool:
    """Tell whether *place* may be written to: it is not there yet, is empty, or an earlier demo made it."""
    try:
        return not os.path.lexists(place) or (place.is_dir() and ((place / MARK).exists() or not os.listdir(place)))
    except OSError:
        return False
