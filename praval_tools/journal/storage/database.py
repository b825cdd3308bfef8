"""The interface of a database below the journal's SQL store: connections, transactions, locking and errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from sqlalchemy.engine import Connection, Engine

from praval_tools.errors import JournalError
from praval_tools.journal.storage.group_commit import WriteGroup


class Database(Protocol):
    """One kind of database, as the writer and the readers need it."""

    begin_snapshot_sql: str
    """SQL that starts a read transaction on one consistent snapshot."""

    list_numbers_sql: str
    """A query that returns the numbers of a JSON list, given as the parameter `numbers`."""

    autocommits: bool
    """A statement outside of a transaction is one of its own, which waits for others as long as it must."""

    now_sql: str
    """SQL of the microseconds since 1970, by the clock of the database."""

    max_group_rows: int
    """How many rows of events and runs `insert_group` takes."""

    renumbers_groups: bool
    """`insert_group` also takes a group whose numbers others have used meanwhile, and gives it the next ones."""

    @property
    def name(self) -> str:
        """The store's name in error messages, without secrets."""

    @property
    def readers(self) -> Engine:
        """Connections for reading, for any thread."""

    def connect_for_writing(self) -> Connection:
        """Return a connection for writing, without a transaction."""

    def begin_write(self, connection: Connection) -> None:
        """Start a transaction that writes; the store's row is locked directly after it."""

    def insert_group(self, connection: Connection, group: WriteGroup, tokens: Mapping[str, str]) -> WriteGroup:
        """
        Write a group in a transaction of its own, which fails as a whole where the store is not as the group expects.

        Args:
            connection: Without a transaction.
            group: What is written.
            tokens: By runs that this process has open: the tokens of the leases that must still be the last ones.

        Returns:
            The group, with the numbers that it got.
        """

    def commit(self, connection: Connection, *, new_revision: int | None = None, is_awaited: bool = True) -> None:
        """
        Make the transaction durable.

        Args:
            connection: With a transaction.
            new_revision: Others are notified that the state has changed.
            is_awaited: Wait for the disk; else it may be lost where the machine fails in the next moments.
        """

    def rollback(self, connection: Connection) -> None:
        """Undo the transaction, where there still is one."""

    def is_disconnected(self, connection: Connection) -> bool:
        """Tell whether the connection was cut, so that nobody knows whether the last transaction was committed."""

    def identify_session(self, connection: Connection) -> object:
        """Return what the server calls a connection, for `end_session`."""

    def end_session(self, connection: Connection, session: object) -> None:
        """Make sure, over a new connection, that what was sent over one that was cut writes nothing any more."""

    def translate_error(self, error: BaseException) -> JournalError:
        """Return *error* as the journal's error, with its meaning and the fix."""

    def reset_after_fork(self) -> None:
        """Start anew in a forked child: no connection of the parent is used, or closed."""

    def close(self) -> None:
        """Close the readers' connections."""
