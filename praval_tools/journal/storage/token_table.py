"""Stores bearer tokens in a journal's database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import SQLAlchemyError

from praval_tools.journal.storage.database import Database
from praval_tools.journal.storage.protocol import TokenRow
from praval_tools.journal.storage.rows import from_microseconds, to_microseconds
from praval_tools.journal.storage.tables import tokens


class TokenTable:
    """
    The tokens in a journal's database; see `TokenStorage`.

    Tokens are written seldom, so each change has a connection of its own and does not go through the writer.

    Args:
        database: Where the table is.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def find_token(self, token_id: str) -> TokenRow | None:
        """Return a token, or None where there is none."""
        with self._translate_errors(), self._database.readers.connect() as connection:
            row = connection.execute(sa.select(tokens).where(tokens.c.id == token_id)).one_or_none()
        return None if row is None else _to_token(*row)

    def list_tokens(self) -> list[TokenRow]:
        """Return the tokens, the oldest first."""
        with self._translate_errors(), self._database.readers.connect() as connection:
            rows = connection.execute(sa.select(tokens).order_by(tokens.c.created, tokens.c.id))
            return [_to_token(*row) for row in rows]

    def add_token(self, row: TokenRow) -> None:
        """Store a token."""
        values = {
            "id": row.id, "agent": row.agent, "salt": row.salt, "digest": row.digest,
            "created": to_microseconds(row.created),
            "expires": None if row.expires is None else to_microseconds(row.expires),
            "role": row.role,
        }  # fmt: skip
        with self._write() as connection:
            connection.execute(sa.insert(tokens).values(values))

    def delete_token(self, token_id: str) -> bool:
        """Forget a token; tell whether there was one."""
        with self._write() as connection:
            return connection.execute(sa.delete(tokens).where(tokens.c.id == token_id)).rowcount > 0

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        """Write inside it, all or nothing."""
        with self._translate_errors(), self._database.connect_for_writing() as connection:
            self._database.begin_write(connection)
            try:
                yield connection
                self._database.commit(connection)
            finally:
                self._database.rollback(connection)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            raise self._database.translate_error(error) from error


def _to_token(
    token_id: str, agent: str, salt: bytes, digest: bytes, created: int, expires: int | None, role: str
) -> TokenRow:
    return TokenRow(
        id=token_id, agent=agent, salt=salt, digest=digest, created=from_microseconds(created),
        expires=None if expires is None else from_microseconds(expires), role=role,
    )  # fmt: skip
