"""Every error of the package: what went wrong, and what to do."""

from __future__ import annotations

from typing import ClassVar, Final

from praval_tools import ToolError


class SqlError(ToolError, ValueError):
    """Base of the errors of this package; `problem` says why not, `fix` what to do. Neither shows the URL."""

    code: ClassVar[str] = "sql"

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(problem, fix)
        self.problem, self.fix = problem, fix

    def __str__(self) -> str:
        return f"{self.problem}. {self.fix}"


class SqlSettingsError(SqlError):
    """No database is declared, or one that cannot be used."""

    code: ClassVar[str] = "sql-settings"


class SqlConnectionError(SqlError):
    """The database does not answer, or lets nobody in."""

    code: ClassVar[str] = "sql-connection"


class SqlStatementError(SqlError):
    """The database does not understand the statement, or its parameters do not fit."""

    code: ClassVar[str] = "sql-statement"


class SqlRefusedError(SqlError):
    """The statement would do what this tool must not do."""

    code: ClassVar[str] = "sql-refused"


class SqlLimitError(SqlError):
    """The statement took too long, or too much memory."""

    code: ClassVar[str] = "sql-limit"


ERRORS_BY_KIND: Final[dict[str, type[SqlError]]] = {
    "settings": SqlSettingsError,
    "connection": SqlConnectionError,
    "statement": SqlStatementError,
    "refused": SqlRefusedError,
    "limit": SqlLimitError,
    "failed": SqlError,
}
"""What the process that runs a statement calls them."""
