"""The journal: an append-only record of calls, runs and changes of access, in memory or in a file."""

from praval_tools.journal.events import AgentToolCall, AgentToolResult, CallRefused, EventType
from praval_tools.journal.journal import Journal, JournalEntry, RecordedCall, open_journal
from praval_tools.journal.storage.memory import MemoryStore
from praval_tools.journal.storage.open_store import open_store
from praval_tools.journal.storage.protocol import (
    INTENT,
    Answer,
    Item,
    Lease,
    Record,
    RunInfo,
    StateRow,
    StateView,
    Status,
    Store,
    Uses,
)  # fmt: skip

__all__ = [
    "INTENT", "AgentToolCall", "AgentToolResult", "Answer", "CallRefused", "EventType", "Item", "Journal",
    "JournalEntry", "Lease", "MemoryStore", "Record", "RecordedCall", "RunInfo", "StateRow", "StateView", "Status",
    "Store", "Uses", "open_journal", "open_store",
]  # fmt: skip
