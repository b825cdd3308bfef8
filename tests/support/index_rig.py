"""A registry with a journal and an index of it, for the tests of the index."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from store_rig import make_location

from praval_tools import ToolCall, ToolRegistry
from praval_tools.journal import Journal, Store
from praval_tools.journal.index.index import JournalIndex


class IndexRig:
    """Tools that end well and badly, called by `ann` and `bob`, and an index of what was recorded."""

    def __init__(self, where: str | Path) -> None:
        self.registry = ToolRegistry(journal=str(where))

        @self.registry.tool("double", owned_by="ann")
        def double(number: int) -> int:
            """Double a number."""
            return 2 * number

        @self.registry.tool("fail", owned_by="ann")
        def fail(number: int) -> int:
            """Fail."""
            raise ValueError(f"not {number}")

        @self.registry.tool("pay", owned_by="ann", requires_approval=True, risk_level="high")
        def pay(to: str, amount: int) -> str:
            """Pay."""
            return f"{to} got {amount}"

        self.registry.agent("bob")
        assert self.registry.journal is not None
        self.journal: Journal = self.registry.journal
        self.store: Store = self.journal.store
        self.index = JournalIndex(self.store)

    def call(self, tool: str = "double", number: object = 1, agent: str = "ann", call_id: str | None = None) -> Any:
        """Call a tool; return the result."""
        return self.registry.execute(ToolCall(call_id, tool, {"number": number}, agent))

    def close(self) -> None:
        """Close everything."""
        self.index.close()
        self.registry.close()


@contextmanager
def open_index_rig(kind: str, folder: Path) -> Iterator[IndexRig]:
    """Open a rig over a kind of store."""
    with pytest.MonkeyPatch.context() as patch, make_location(kind, folder) as where:
        patch.setenv("PRAVAL_TOOLS_KEY", "a key that all processes share")
        rig = IndexRig(where)
        try:
            yield rig
        finally:
            rig.close()
