"""Every error of the package: the file, what is wrong with it or with what was asked, and what to do."""

from __future__ import annotations

from typing import ClassVar, Final

from praval_tools import ToolError


class DataError(ToolError, ValueError):
    """Base of the errors of this package; `path` is the file, `problem` what is wrong, `fix` what to do."""

    code: ClassVar[str] = "data"

    def __init__(self, path: str, problem: str, fix: str) -> None:
        super().__init__(path, problem, fix)
        self.path, self.problem, self.fix = path, problem, fix

    def __str__(self) -> str:
        return f"{self.path!r}: {self.problem}. {self.fix}"


class DataFormatError(DataError):
    """The file is not what its format says, or the format is not known."""

    code: ClassVar[str] = "data-format"


class DataLimitError(DataError):
    """The file, or what was asked for, takes more room or time than the settings allow."""

    code: ClassVar[str] = "data-limit"


class DataColumnError(DataError):
    """A column is not there, or its type does not fit what was asked for."""

    code: ClassVar[str] = "data-column"


class DataSettingsError(DataError):
    """The settings of the package cannot be used."""

    code: ClassVar[str] = "data-settings"


ERRORS_BY_KIND: Final[dict[str, type[DataError]]] = {
    "format": DataFormatError,
    "limit": DataLimitError,
    "column": DataColumnError,
    "settings": DataSettingsError,
    "failed": DataError,
}
"""What the process that works on data calls them."""
