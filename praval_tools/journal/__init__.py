"""The journal: what happened, in an append-only store, and the acts that still hold."""

from praval_tools.journal.events import AgentToolCall, AgentToolResult, CallRefused, EventType
from praval_tools.journal.journal import Journal, JournalEntry, RecordedCall, open_journal
from praval_tools.journal.memory import MemoryStore
from praval_tools.journal.opening import open_store
from praval_tools.journal.protocol import (
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
