"""What differs between databases; everything else is the same SQL for all."""

from __future__ import annotations

from typing import Protocol

from sqlalchemy.engine import Connection, Engine

from praval_tools.errors import JournalError


class Database(Protocol):
    """One kind of database, as the writer and the readers need it."""

    begin_snapshot_sql: str
    """What starts a transaction that reads, and sees one moment."""

    list_seqs_sql: str
    """A query for the numbers in the JSON list that its one parameter, `places`, is."""

    @property
    def name(self) -> str:
        """What errors call the store."""

    @property
    def readers(self) -> Engine:
        """Connections for reading, for any thread."""

    def connect_for_writing(self) -> Connection:
        """Return a connection for writing, without a transaction."""

    def raise_if_file_replaced(self) -> None:
        """Raise where what is written would be found by nobody, as another file is in the place of ours."""

    def begin_write(self, connection: Connection) -> None:
        """Start a transaction that writes; the store's row is locked directly after it."""

    def build_group_insert(self, rows: int) -> str | None:
        """
        Return the statement that begins, writes a group and commits, or does nothing and fails; None: there is none.

        See `group` for its rows.
        """

    def rollback(self, connection: Connection) -> None:
        """Undo the transaction, where there still is one."""

    def translate_error(self, error: BaseException) -> JournalError:
        """Return what *error* means, with the fix."""

    def reset_after_fork(self) -> None:
        """Start anew in a forked child: no connection of the parent is used, or closed."""

    def close(self) -> None:
        """Close the readers' connections."""
