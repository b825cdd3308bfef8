"""Finds the tools of a registry by words: for each principal an index of what it may call, made at its first search."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import islice
from typing import Final
from weakref import WeakKeyDictionary

from praval_tools.access.records import Principal
from praval_tools.access.state import AccessState
from praval_tools.access.store import StateStore
from praval_tools.clock import Clock
from praval_tools.errors import ToolUsageError
from praval_tools.forks import ForkSafeLock
from praval_tools.names import shorten_repr
from praval_tools.search.index import ToolIndex, ToolText, make_tool_text
from praval_tools.search.visible_tools import VisibleTools
from praval_tools.tools.tool import AnyTool

_MAX_PRINCIPALS: Final = 32
"""Of how many principals the index is kept; that of the one who has not searched for the longest time goes first."""


class ToolFinder:
    """
    Finds tools by words, thread-safe: one search at a time, each by what counts at that moment.

    Args:
        access_store: The registry's.
        clock: Tells which grants have expired.
    """

    def __init__(self, access_store: StateStore, clock: Clock) -> None:
        self._access_store, self._clock = access_store, clock
        self._texts: WeakKeyDictionary[AnyTool, ToolText] = WeakKeyDictionary()
        self._searches: OrderedDict[Principal | None, _PrincipalSearch] = OrderedDict()
        self._lock = ForkSafeLock(waits=True)

    def find(
        self, principal: Principal | None, words: str, limit: int, accepts: Callable[[AnyTool], bool]
    ) -> list[AnyTool]:
        """
        Return the best tools, at most *limit*, of those that *principal* may call and *accepts* accepts.

        Raises:
            ToolUsageError: The words are not a text, the limit is not a whole number from 1 on, or SQLite lacks FTS5.
        """
        if not isinstance(words, str):
            raise ToolUsageError(f"{shorten_repr(words)} is not a text: search('send an invoice').")
        if type(limit) is not int or limit < 1:
            raise ToolUsageError(f"limit={shorten_repr(limit)} is not a whole number from 1 on.")
        self._access_store.get_fresh_state()
        with self._lock:
            search = self._searches.pop(principal, None) or _PrincipalSearch(principal, self._texts)
            search.update(self._access_store.get_current_state(), self._clock.now())
            tools = list(islice(filter(accepts, search.find(words)), limit))
            self._searches[principal] = search  # not where something was raised: it is made anew then
            if len(self._searches) > _MAX_PRINCIPALS:
                self._searches.popitem(last=False)
        return tools


class _PrincipalSearch:
    """What one principal may call, and the index of that."""

    def __init__(self, principal: Principal | None, texts: WeakKeyDictionary[AnyTool, ToolText]) -> None:
        self._visible = VisibleTools(principal)
        self._texts = texts
        self._index = ToolIndex()
        self._indexed: dict[str, tuple[int, ToolText]] = {}
        self._tools: dict[int, AnyTool] = {}

    def update(self, state: AccessState, now: datetime) -> None:
        """Let the index hold what may be called by *state* and *now*."""
        changed = self._visible.update(state, now)
        if not changed:
            return
        removed = dict(self._indexed.pop(name) for name in changed if name in self._indexed)
        for number in removed:
            del self._tools[number]
        records = [record for name in changed if (record := self._visible.records.get(name)) is not None]
        for record in sorted(records, key=lambda record: record.seq):
            self._indexed[record.tool.name] = record.seq, self._get_text(record.tool)
            self._tools[record.seq] = record.tool
        self._index.change(removed, dict(self._indexed[record.tool.name] for record in records))

    def _get_text(self, tool: AnyTool) -> ToolText:
        text = self._texts.get(tool)
        if text is None:
            text = self._texts[tool] = make_tool_text(tool)
        return text

    def find(self, words: str) -> Iterator[AnyTool]:
        """Yield the tools that have one of *words*, the best first."""
        return map(self._tools.__getitem__, self._index.find(words))
