"""Stores in files of SQLite, for the tests of the journal."""

from __future__ import annotations

from pathlib import Path

import pytest
from journal_rig import note

from praval_tools.journal.storage.sql_store import SqlStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a store may be made."""
    return tmp_path / "runs.db"


@pytest.fixture
def filled(path: Path) -> Path:
    """A closed store with some records."""
    with SqlStore(path) as store:
        store.append([note(str(at), body=b"x" * 500) for at in range(200)])
    return path


def list_ids(store: SqlStore) -> list[str]:
    """Return the ids of what a store holds, in order."""
    return [record.id for record in store.read()]
