"""Every error of the package: what was asked for, why not, and what to do."""

from __future__ import annotations

from typing import ClassVar

from praval_tools import ToolError


class FilesError(ToolError, ValueError):
    """Base of the errors of this package; `path` is what was asked for, `problem` why not, `fix` what to do."""

    code: ClassVar[str] = "files"

    def __init__(self, path: str, problem: str, fix: str) -> None:
        super().__init__(path, problem, fix)
        self.path, self.problem, self.fix = path, problem, fix

    def __str__(self) -> str:
        return f"{_format_path(self.path)}: {self.problem}. {self.fix}"


class FilesSettingsError(FilesError):
    """The settings of the package cannot be used."""

    code: ClassVar[str] = "files-settings"


class NoRootsError(FilesSettingsError):
    """No folder is declared, or none that may be written."""

    code: ClassVar[str] = "files-no-roots"


class PlatformError(FilesError):
    """This system cannot open a file so that what was checked is what was opened."""

    code: ClassVar[str] = "files-platform"


class PathRefusedError(FilesError):
    """The path leads, or could lead, out of the declared folders, or to something that is not a file."""

    code: ClassVar[str] = "files-path-refused"


class PathMissingError(FilesError):
    """There is nothing of this name."""

    code: ClassVar[str] = "files-missing"


class FileTakenError(FilesError):
    """There is a file of this name already."""

    code: ClassVar[str] = "files-taken"


class FileLimitError(FilesError):
    """The file, the text or the folder is larger than the settings allow."""

    code: ClassVar[str] = "files-limit"


class NotTextError(FilesError):
    """What should be text is not UTF-8."""

    code: ClassVar[str] = "files-not-text"


class FileSystemError(FilesError):
    """The operating system refused."""

    code: ClassVar[str] = "files-system"


def _format_path(path: str) -> str:
    """Return *path* as a model and a terminal can read it: no control characters, not too long."""
    text = repr(path.encode("utf-8", "backslashreplace").decode("utf-8"))
    return text if len(text) <= 200 else f"{text[:150]}…' ({len(path)} characters)"
