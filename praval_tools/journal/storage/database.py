"""The interface of a database below the journal's SQL store: connections, transactions, locking and errors."""

from __future__ import annotations

from typing import Protocol

from sqlalchemy.engine import Connection, Engine

from praval_tools.errors import JournalError


class Database(Protocol):
    """One kind of database, as the writer and the readers need it."""

    begin_snapshot_sql: str
    """SQL that starts a read transaction on one consistent snapshot."""

    list_numbers_sql: str
    """A query that returns the numbers of a JSON list, given as the parameter `numbers`."""

    @property
    def name(self) -> str:
        """The store's name in error messages."""

    @property
    def readers(self) -> Engine:
        """Connections for reading, for any thread."""

    def connect_for_writing(self) -> Connection:
        """Return a connection for writing, without a transaction."""

    def raise_if_file_replaced(self) -> None:
        """Raise where the store's file was replaced by another, so that nobody would find what is written."""

    def begin_write(self, connection: Connection) -> None:
        """Start a transaction that writes; the store's row is locked directly after it."""

    def build_group_insert(self, row_count: int) -> str | None:
        """
        Return the statement that begins a transaction, writes a group and commits, or fails as a whole.

        See `group_commit` for its rows. None: this database has no such statement.
        """

    def rollback(self, connection: Connection) -> None:
        """Undo the transaction, where there still is one."""

    def translate_error(self, error: BaseException) -> JournalError:
        """Return *error* as the journal's error, with its meaning and the fix."""

    def reset_after_fork(self) -> None:
        """Start anew in a forked child: no connection of the parent is used, or closed."""

    def close(self) -> None:
        """Close the readers' connections."""
