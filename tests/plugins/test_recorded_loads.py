# Tests of: plugins/plugin_load, plugins/report_store, access/store, journal/change_store
"""The journal says of a plugin that it is loaded where it is in force, and not otherwise: both are one write."""

from __future__ import annotations

import signal
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import pytest
from plugin_rig import Site, site, write_tool  # noqa: F401  # fixtures

from praval_tools import ConfigError, JournalError, JournalWarning, ToolRegistry
from praval_tools.journal.storage.memory import MemoryStore
from praval_tools.journal.storage.protocol import Answer, Item

TABLE = "[plugins.acme]\nowned_by = 'bob'\n"
GRANT = "[[grants]]\ntool = 'ping'\nagent = 'ann'\n"


class CountingStore(MemoryStore):
    """A store that fails at one of its writes, counted from 1."""

    fails_at = 0

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0

    def append(self, items: Sequence[Item]) -> list[Answer]:
        """Append *items*, or raise as a full disk does."""
        self.writes += 1
        if self.writes == self.fails_at:
            raise JournalError("runs.db", "the disk is full", "Make room.")
        return super().append(items)


def list_loaded(registry: ToolRegistry) -> list[str]:
    """Return the tools of each plugin that the journal says is loaded."""
    assert registry.journal is not None
    return [name for event in registry.journal.events(type="plugin_loaded") for name in event.tools]


@pytest.fixture
def store(site: Site) -> CountingStore:
    """A store, where a plugin with one tool is installed."""
    site.install("acme", write_tool("ping"))
    return CountingStore()


@pytest.mark.parametrize("text", [TABLE, TABLE + GRANT], ids=["plugin", "plugin and grant"])
@pytest.mark.parametrize("fails_at", [1, 2, 3])
def test_a_load_that_cannot_be_written_is_not_recorded(store: CountingStore, text: str, fails_at: int) -> None:
    """Broken promise: the journal said that a plugin was loaded, and the change that loaded it was not stored."""
    Path("a.toml").write_text(text)
    store.fails_at = fails_at
    registry = ToolRegistry(journal=store)
    try:
        registry.configure_from("a.toml")
    except JournalError:
        assert ([], []) == (list(registry), list_loaded(registry))
    else:
        assert (1, ["ping"]) == (len(list(registry)), list_loaded(registry))
        assert store.writes < fails_at
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        registry.configure_from("a.toml")
    assert (1, ["ping"]) == (len(list(registry)), list_loaded(registry))


def test_a_load_that_is_planned_again_is_recorded_once(store: CountingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process changes something just before the load is stored; subscribers hear of no record."""
    Path("a.toml").write_text(TABLE + GRANT)
    registry, other, heard = ToolRegistry(journal=store), ToolRegistry(journal=store), list[object]()
    other.tool("look", owned_by="bob", description="Look.")(lambda: None)
    registry.subscribe(heard.append)

    def append(items: Sequence[Item]) -> list[Answer]:
        monkeypatch.undo()
        other.block("look", "eve")
        return store.append(items)

    monkeypatch.setattr(store, "append", append)
    registry.configure_from("a.toml")

    assert (["ping"], 3) == (list_loaded(registry), store.writes)
    assert registry.explain("ann", "ping").allowed
    assert heard and not any("Records" in type(event).__name__ for event in heard)


def test_a_store_that_may_fail(store: CountingStore) -> None:
    """The load counts in this process where the operator goes on without the journal, and is recorded by none."""
    Path("a.toml").write_text(TABLE + GRANT)
    registry = ToolRegistry(journal=store, journal_errors="continue")
    store.fails_at = 1
    with pytest.warns(JournalWarning, match="counts in this process alone"):
        registry.configure_from("a.toml")

    assert (True, []) == (registry.explain("ann", "ping").allowed, list_loaded(registry))


def test_a_load_that_is_refused_is_not_recorded(store: CountingStore) -> None:
    """A mistake that shows once the plugin's tools are known leaves no record of it, whatever was in force before."""
    mistake = "[[grants]]\ntool = 'nosuch'\nagent = 'ann'\n"
    registry, recorded = ToolRegistry(journal=store), list[list[str]]()
    for text in (TABLE + mistake, TABLE, TABLE + mistake):
        Path("a.toml").write_text(text)
        try:
            registry.configure_from("a.toml")
        except ConfigError:
            assert mistake in text
        recorded.append(list_loaded(registry))

    assert [[], ["ping"], ["ping"]] == recorded


KILLED = """
import os, signal, sys
from pathlib import Path
from praval_tools import ToolRegistry
from praval_tools.journal.storage.sql_store import SqlStore

class KillingStore(SqlStore):
    writes = 0
    def append(self, items):
        self.writes += 1
        if (self.writes, "before") == KILLED_AT:
            os.kill(os.getpid(), signal.SIGKILL)
        answers = super().append(items)
        if (self.writes, "after") == KILLED_AT:
            os.kill(os.getpid(), signal.SIGKILL)
        return answers

sys.path.insert(0, sys.argv[1])
KILLED_AT = int(sys.argv[2]), sys.argv[3]
registry = ToolRegistry(journal=KillingStore(Path("runs.db")))
registry.configure_from("a.toml")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("at", [1, 2])
def test_a_process_that_is_killed_leaves_both_or_neither(site: Site, at: int, side: str) -> None:
    """Broken promise: killed between two writes, it left the record of a plugin, and nothing of the load."""
    site.install("acme", write_tool("ping"))
    Path("a.toml").write_text(TABLE + GRANT)
    command = [sys.executable, "-c", KILLED, str(site.folder), str(at), side]
    assert -signal.SIGKILL == subprocess.run(command, timeout=120).returncode

    with ToolRegistry(journal="runs.db") as registry:
        assert registry.journal is not None
        granted = [event.grant.tool for event in registry.journal.events(type="tool_assigned")]
        assert ([] if (at, side) == (1, "before") else ["ping"]) == granted == list_loaded(registry)
        registry.configure_from("a.toml")
        assert ["ping"] == list_loaded(registry)
        assert registry.explain("ann", "ping").allowed
