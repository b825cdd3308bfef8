"""What a journal holds, as text."""

from __future__ import annotations

from praval_tools import ToolRegistry


def read_journal(registry: ToolRegistry) -> str:
    """Return all records of the journal as they are stored."""
    assert registry.journal is not None
    return "\n".join(map(str, registry.journal.events()))
