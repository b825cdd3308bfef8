"""Lists folders and reads text."""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from itertools import islice
from typing import Final, Literal

from attrs import frozen

from praval_tools_files.errors import NotTextError, PathMissingError
from praval_tools_files.roots import Roots, raise_file_error
from praval_tools_files.settings import FilesSettings

EntryKind = Literal["file", "folder", "link", "other", "unknown"]
InvalidBytes = Literal["refuse", "replace"]

_MAX_CHARACTER_BYTES: Final = 4
"""Bytes of the longest character in UTF-8."""


@frozen(kw_only=True)
class FolderEntry:
    """
    What a folder holds: `size` in bytes for files, `writable` as declared for the folders at the top.

    `kind` is "other" for devices, pipes and sockets, "unknown" where the system does not let it be looked at.
    """

    name: str
    kind: EntryKind
    size: int | None = None
    modified: datetime | None = None
    writable: bool | None = None


@frozen(kw_only=True)
class Listing:
    """
    The entries of a folder, by name.

    `complete` is False where more match than are shown, or the folder has more than the operator lets be looked at.
    `unnameable` counts the names that are not UTF-8, which no path can say.
    """

    path: str
    entries: list[FolderEntry]
    complete: bool
    unnameable: int = 0


@frozen(kw_only=True)
class TextPart:
    """Text of a file from `offset` on; `next_offset` is where to go on reading, None at the end. All in bytes."""

    path: str
    text: str
    size: int
    offset: int
    next_offset: int | None


def list_folder(roots: Roots, settings: FilesSettings, path: str, *, pattern: str, limit: int) -> Listing:
    """Return what is in a folder; the declared folders for an empty *path*."""
    if not path:
        if not roots.roots:
            roots.find_root(path, ("",))
        tops = [FolderEntry(name=root.name, kind="folder", writable=root.writable) for root in roots.roots]
        found = [top for top in tops if fnmatchcase(top.name, pattern)]
        return Listing(path=path, entries=found[:limit], complete=len(found) <= limit)
    with roots.open_folder(path) as folder:
        names, unnameable, complete = list_names(folder, path, settings.max_entries)
        matching = [name for name in names if fnmatchcase(name, pattern)]
        entries = [one for name in matching[:limit] if (one := _build_entry(folder, name)) is not None]
    return Listing(path=path, entries=entries, complete=complete and len(matching) <= limit, unnameable=unnameable)


def list_names(folder: int, path: str, most: int) -> tuple[list[str], int, bool]:
    """Return the names in an open folder, sorted, how many are not UTF-8, and whether these are all."""
    try:
        with os.scandir(folder) as entries:
            seen = [entry.name for entry in islice(entries, most + 1)]
    except OSError as error:
        raise_file_error(path, error)
    names = [name for name in seen[:most] if not any("\udc80" <= letter <= "\udcff" for letter in name)]
    return sorted(names), len(seen[:most]) - len(names), len(seen) <= most


def _build_entry(folder: int, name: str) -> FolderEntry | None:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:  # gone since the folder was read
        return None
    except OSError:  # as in a folder whose names may be read, and nothing else
        return FolderEntry(name=name, kind="unknown")
    kind = get_entry_kind(status)
    return FolderEntry(
        name=name,
        kind=kind,
        size=status.st_size if kind == "file" else None,
        modified=datetime.fromtimestamp(int(status.st_mtime), UTC) if 0 <= status.st_mtime < 2**37 else None,
    )


def get_entry_kind(status: os.stat_result) -> EntryKind:
    """Return what *status* is the status of."""
    if stat.S_ISREG(status.st_mode):
        return "file"
    if stat.S_ISDIR(status.st_mode):
        return "folder"
    return "link" if stat.S_ISLNK(status.st_mode) else "other"


def read_text(roots: Roots, path: str, *, offset: int, length: int, invalid: InvalidBytes) -> TextPart:
    """
    Read at most *length* bytes of a file as text, from *offset* on, whole characters only.

    Where *length* is less than 4 it is taken as 4, so that each part has a character.

    Raises:
        NotTextError: The bytes are not UTF-8.
    """
    with roots.open_file(path) as (file, status):
        if offset > max(status.st_size, 0):
            raise PathMissingError(path, f"it ends at byte {status.st_size}", "Read from a smaller offset.")
        data = read_bytes(file, path, offset, max(length, _MAX_CHARACTER_BYTES) + 1)
    whole, more = data[: max(length, _MAX_CHARACTER_BYTES)], len(data) > max(length, _MAX_CHARACTER_BYTES)
    text, used = _decode_part(path, whole, offset, invalid, final=not more)
    following = offset + used if more else None
    return TextPart(path=path, text=text, size=max(status.st_size, offset + used), offset=offset, next_offset=following)


def read_bytes(file: int, path: str, offset: int, most: int) -> bytes:
    """Read at most *most* bytes of an open file, from *offset* on."""
    return b"".join(read_chunks(file, path, offset, most))


def read_chunks(file: int, path: str, offset: int, most: int) -> Iterator[bytes]:
    """Yield at most *most* bytes of an open file, from *offset* on, piece by piece."""
    end = offset + most
    while offset < end:
        try:
            piece = os.pread(file, min(end - offset, 1_048_576), offset)
        except OSError as error:
            raise_file_error(path, error)
        if not piece:
            return
        offset += len(piece)
        yield piece


def _decode_part(path: str, data: bytes, offset: int, invalid: InvalidBytes, *, final: bool) -> tuple[str, int]:
    """Return the text, and how many bytes it is; an unfinished character at the end is left for the next part."""
    decoder = codecs.getincrementaldecoder("utf-8")("strict" if invalid == "refuse" else "replace")
    try:
        text = decoder.decode(data, final)
    except UnicodeDecodeError as error:
        problem = f"it is not UTF-8 text: byte {offset + error.start} is 0x{data[error.start]:02x}"
        fix = "Pass invalid='replace' to read it all the same, or an offset where a character begins."
        raise NotTextError(path, problem, fix) from None
    return text, len(data) - len(decoder.getstate()[0])
