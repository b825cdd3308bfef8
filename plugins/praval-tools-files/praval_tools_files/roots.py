"""
Opens files and folders under declared folders, one step at a time.

Each part of a path is opened relative to the folder before it, without following a link.
What was checked is therefore what was opened, whatever others do to the names meanwhile.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

from attrs import frozen

from praval_tools_files.errors import (
    FileLimitError,
    FilesSettingsError,
    FileSystemError,
    FileTakenError,
    NoRootsError,
    PathMissingError,
    PathRefusedError,
    PlatformError,
)
from praval_tools_files.settings import HOW_TO_DECLARE_ROOT, Root

_MAX_PATH_LENGTH: Final = 4096
_FOLDER_FLAGS: Final = ("O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC")
_FILE_FLAGS: Final = ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY")
_DIR_FD_FUNCTIONS: Final = ("open", "stat", "link", "rename", "unlink")
_PATH_SYNTAX_FIX: Final = (
    "Begin with the name of a declared folder, and separate names by single slashes: reports/may.txt."
)
_OTHER_NAME_FIX: Final = "Use another name, or overwrite it where the tool has a mode for that."
_NO_LINKS_FIX: Final = "Only files and folders themselves are opened, links are not followed."


def check_platform(path: str) -> None:
    """
    Refuse to work where files cannot be opened step by step; there is no other way that is as safe.

    Raises:
        PlatformError: The system lacks what is needed.
    """
    missing = [name for name in {*_FOLDER_FLAGS, *_FILE_FLAGS} if not hasattr(os, name)]
    missing += [f"dir_fd of os.{name}" for name in _DIR_FD_FUNCTIONS if getattr(os, name) not in os.supports_dir_fd]
    if missing or os.scandir not in os.supports_fd:
        lacking = ", ".join(sorted(missing)) or "os.scandir of an open folder"
        raise PlatformError(path, f"this system lacks {lacking}", "Use Linux, macOS or another POSIX system.")


def split_path(path: str, max_depth: int) -> tuple[str, ...]:
    """
    Return the names that *path* is made of, the first the name of a folder that is declared.

    Raises:
        PathRefusedError: It is absolute, has an empty name, `.` or `..`, or a NUL, or cannot be the name of a file.
        FileLimitError: It is too long or too deep.
    """
    if len(path) > _MAX_PATH_LENGTH:
        raise FileLimitError(path, "the path is too long", f"Use at most {_MAX_PATH_LENGTH} characters.")
    if path.startswith("/"):
        raise PathRefusedError(path, "absolute paths are refused", _PATH_SYNTAX_FIX)
    parts = tuple(path.removesuffix("/").split("/"))
    if any(part in ("", ".", "..") for part in parts):
        raise PathRefusedError(path, "empty names, '.' and '..' are refused", _PATH_SYNTAX_FIX)
    if "\0" in path or not _is_unicode(path):
        raise PathRefusedError(path, "it has a character that no name may have", _PATH_SYNTAX_FIX)
    if len(parts) - 1 > max_depth:
        raise FileLimitError(path, f"it is more than {max_depth} folders deep", "Ask the operator to raise max_depth.")
    return parts


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


@frozen
class Roots:
    """
    The declared folders, and the only way into them.

    Args:
        roots: The folders.
        package: The distribution whose settings declare them, for messages.
        refuse_hard_links: Whether a file with a second name is refused.
        max_depth: How many folders deep a path may go.
    """

    roots: tuple[Root, ...]
    package: str
    refuse_hard_links: bool = False
    max_depth: int = 32

    def find_root(self, path: str, parts: tuple[str, ...]) -> Root:
        """Return the declared folder that the first of *parts* names."""
        how = HOW_TO_DECLARE_ROOT.format(package=self.package)
        if not self.roots:
            raise NoRootsError(path, "no folder is declared", how)
        for root in self.roots:
            if root.name == parts[0]:
                return root
        names = ", ".join(repr(root.name) for root in self.roots)
        raise PathRefusedError(path, f"no folder of the name {parts[0][:64]!r} is declared", f"Begin with {names}.")

    @contextmanager
    def open_folder(self, path: str, parts: tuple[str, ...] | None = None) -> Iterator[int]:
        """
        Open a folder; its descriptor is closed at the end.

        Raises:
            FilesError: It is missing, no folder, a link, or not under a declared folder.
        """
        check_platform(path)
        parts = parts if parts is not None else split_path(path, self.max_depth)
        at = _open_root(path, self.find_root(path, parts))
        try:
            for part in parts[1:]:
                at, before = _open(path, part, at, _FOLDER_FLAGS), at
                os.close(before)
            yield at
        finally:
            os.close(at)

    @contextmanager
    def open_folder_in(self, folder: int, name: str, path: str) -> Iterator[int]:
        """Open the folder *name* of an open folder, as `folder` does; *path* is for messages."""
        at = _open(path, name, folder, _FOLDER_FLAGS)
        try:
            yield at
        finally:
            os.close(at)

    @contextmanager
    def open_file(self, path: str) -> Iterator[tuple[int, os.stat_result]]:
        """
        Open a regular file for reading; gives its descriptor, closed at the end, and its status.

        Raises:
            FilesError: It is missing, no regular file, a link, or not under a declared folder.
        """
        parts = split_path(path, self.max_depth)
        self.find_root(path, parts)
        if len(parts) == 1:
            raise PathRefusedError(path, "it is a folder, not a file", "Name a file in it, or list it.")
        with self.open_folder(path, parts[:-1]) as folder, self.open_file_in(folder, parts[-1], path) as opened:
            yield opened

    @contextmanager
    def open_file_in(self, folder: int, name: str, path: str) -> Iterator[tuple[int, os.stat_result]]:
        """Open the regular file *name* of an open folder, as `file` does; *path* is for messages."""
        _check_regular_file(path, _get_status(path, name, folder))  # opening a device may do something: look first
        at = _open(path, name, folder, _FILE_FLAGS)
        try:
            status = os.fstat(at)
            _check_regular_file(path, status)
            if self.refuse_hard_links and status.st_nlink > 1:
                fix = "Copy the file, or ask the operator to set refuse_hard_links = false."
                raise PathRefusedError(path, "the file has a second name, which may lie elsewhere", fix)
            yield at, status
        finally:
            os.close(at)

    def write_file(self, path: str, data: bytes, *, overwrite: bool) -> bool:
        """
        Write a whole file: it is there complete and on disk, or as it was before.

        The name of the file changes hands; what another hard link names stays as it was.

        Returns:
            True where there was no file of that name before.

        Raises:
            FileTakenError: There is one, and *overwrite* is False.
            FilesError: The folder may not be written, or the name is that of something else than a file.
        """
        parts = self._split_writable_path(path)
        with self.open_folder(path, parts[:-1]) as folder:
            return _replace_file(folder, parts[-1], path, data, overwrite=overwrite)

    def check_new_file(self, path: str) -> None:
        """
        Refuse now what `write` would refuse for a new file; by then it may be otherwise.

        Raises:
            FileTakenError: There is such a file.
            FilesError: The folder is missing or may not be written.
        """
        parts = self._split_writable_path(path)
        with self.open_folder(path, parts[:-1]) as folder:
            _check_target(path, parts[-1], folder, overwrite=False)

    def _split_writable_path(self, path: str) -> tuple[str, ...]:
        parts = split_path(path, self.max_depth)
        root = self.find_root(path, parts)
        if not root.writable:
            fix = f"Write under another folder, or ask the operator to set writable = true for {root.name!r}."
            raise PathRefusedError(path, f"the folder {root.name!r} is declared read-only", fix)
        if len(parts) == 1:
            raise PathRefusedError(path, "it is a folder, not a file", "Name a file in it.")
        return parts


def _open_root(path: str, root: Root) -> int:
    try:
        return _open(path, root.path, None, _FOLDER_FLAGS)
    except (PathMissingError, PathRefusedError) as error:
        fix = f"Ask the operator to create it, or to correct the path of {root.name!r}; it must not be a link."
        raise FilesSettingsError(path, f"the declared folder {root.name!r} is missing or not a folder", fix) from error


def _open(path: str, name: str, folder: int | None, flags: tuple[str, ...]) -> int:
    mode = os.O_RDONLY
    for flag in flags:
        mode |= getattr(os, flag)
    try:
        return os.open(name, mode, dir_fd=folder)
    except OSError as error:
        if _is_link(name, folder):
            raise PathRefusedError(path, "it is a symbolic link, or leads through one", _NO_LINKS_FIX) from error
        raise_file_error(path, error)


def _is_link(name: str, folder: int | None) -> bool:
    """Tell whether *name* is a link now; only for the message."""
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _get_status(path: str, name: str, folder: int) -> os.stat_result:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        raise_file_error(path, error)


def _check_regular_file(path: str, status: os.stat_result) -> None:
    if stat.S_ISREG(status.st_mode):
        return
    if stat.S_ISLNK(status.st_mode):
        raise PathRefusedError(path, "it is a symbolic link, or leads through one", _NO_LINKS_FIX)
    if stat.S_ISDIR(status.st_mode):
        raise PathRefusedError(path, "it is a folder, not a file", "Name a file in it, or list it.")
    raise PathRefusedError(path, "it is a device, a pipe or a socket", "Name a regular file.")


def raise_file_error(path: str, error: OSError) -> NoReturn:
    """Raise the error of this package for one of the operating system; the real path is not shown."""
    if error.errno == errno.ENOENT:
        raise PathMissingError(path, "there is nothing of this name", "List the folder to see its names.") from error
    if error.errno == errno.ENOTDIR:
        raise PathRefusedError(path, "a part of it is not a folder", "List the folder to see its names.") from error
    if error.errno == errno.ENAMETOOLONG:
        raise FileLimitError(path, "a name in it is too long for the system", "Use a shorter name.") from error
    raise FileSystemError(path, str(error.strerror), "Ask the operator about the rights on the folder.") from error


def _replace_file(folder: int, name: str, path: str, data: bytes, *, overwrite: bool) -> bool:
    taken = _check_target(path, name, folder, overwrite=overwrite)
    spare = f".{secrets.token_hex(8)}.praval-tools.tmp"
    try:
        _write_bytes(spare, folder, data, taken)
        try:
            _rename_file(spare, name, folder, overwrite=overwrite)
        except FileExistsError:
            raise FileTakenError(path, "somebody else wrote the file meanwhile", _OTHER_NAME_FIX) from None
        os.fsync(folder)
    except OSError as error:
        raise_file_error(path, error)
    finally:
        _remove_file(spare, folder)
    return taken is None


def _check_target(path: str, name: str, folder: int, *, overwrite: bool) -> os.stat_result | None:
    """Return the status of the file that is to be replaced; None where there is none yet."""
    try:
        taken = _get_status(path, name, folder)
    except PathMissingError:
        return None
    _check_regular_file(path, taken)
    if not overwrite:
        raise FileTakenError(path, "the file is there already", _OTHER_NAME_FIX)
    return taken


def _write_bytes(name: str, folder: int, data: bytes, taken: os.stat_result | None) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    at = os.open(name, flags, 0o666, dir_fd=folder)
    try:
        if taken is not None:
            os.fchmod(at, stat.S_IMODE(taken.st_mode) & 0o777)
        left = memoryview(data)
        while left:
            left = left[os.write(at, left) :]
        os.fsync(at)
    finally:
        os.close(at)


def _rename_file(spare: str, name: str, folder: int, *, overwrite: bool) -> None:
    if overwrite:
        os.rename(spare, name, src_dir_fd=folder, dst_dir_fd=folder)
    else:  # unlike a rename, a link never takes the place of a file
        os.link(spare, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)


def _remove_file(name: str, folder: int) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return
