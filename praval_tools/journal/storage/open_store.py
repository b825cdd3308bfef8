"""Opens a journal's store by its path or URL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from praval_tools.errors import ToolUsageError
from praval_tools.journal.storage.memory import MemoryStore
from praval_tools.journal.storage.protocol import Store
from praval_tools.lazy_import import load

_SQLITE_PREFIX = "sqlite:///"
_DATABASE_PREFIXES = ("postgresql://", "postgres://")


def open_store(where: str | Path, more: Mapping[str, Callable[[str], Store]] | None = None) -> Store:
    """
    Open the store at *where*: a path, `sqlite:///runs.db`, `postgresql://user@host/database`, or `memory`.

    SQLAlchemy is imported here, and only for a store that needs it.

    Args:
        where: The path or URL.
        more: Openers that plugins add, by the scheme of their URLs.

    Raises:
        JournalError: The database cannot be reached, or its tables are missing or of another version.
        JournalFileError: The path cannot hold a journal, or holds something else; it is left as it is.
        ToolUsageError: There is no such kind of store.
    """
    opener = (more or {}).get(str(where).partition("://")[0]) if "://" in str(where) else None
    if opener is not None:
        return opener(str(where))
    path = str(where) if is_database_url(where) else parse_store_path(where)
    if path is None:
        return MemoryStore()
    store: Store = load("praval_tools.journal.storage.sql_store").SqlStore(path)
    return store


def is_database_url(where: str | Path) -> bool:
    """Tell whether *where* is the URL of a database on a server."""
    return str(where).startswith(_DATABASE_PREFIXES)


def get_store_name(where: str | Path) -> str:
    """Return what errors call the store at *where*, which is not opened: the path, or the URL without secrets."""
    if is_database_url(where):
        load_postgres = load("praval_tools.journal.storage.open_database").load_postgres
        return str(load_postgres("postgres").get_url_name(str(where)))
    return str(where)


def parse_store_path(where: str | Path) -> Path | None:
    """
    Return the file that *where*, as `open_store` takes it, names; None for `memory`. Nothing is opened.

    Raises:
        ToolUsageError: There is no such kind of store.
    """
    text = str(where)
    if text == "memory":
        return None
    if text.startswith(_SQLITE_PREFIX):
        text = text.removeprefix(_SQLITE_PREFIX)
    elif "://" in text:
        kind = text.partition("://")[0]  # the rest may hold a password
        raise ToolUsageError(
            f"No journal can be kept in {kind!r}. Give a path, sqlite:///PATH, postgresql://USER@HOST/DATABASE or "
            f"'memory'; "
            f"to use {kind!r}, load a plugin for it first.",
            "journal-url",
        )
    if text in ("", ":memory:", "memory:"):
        raise ToolUsageError("A journal in memory is called 'memory'; one in a file needs its path.", "journal-url")
    return Path(text)
