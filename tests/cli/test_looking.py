"""Commands that only look write nothing into the journal of an app."""

# Tests of: app_option, listings, audit

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from cli_rig import BANK, App, Run, app, run  # noqa: F401
from plugin_rig import Site, site  # noqa: F401

OWN_JOURNAL = """
from praval_tools import ToolCall
registry.journal = "bank.db"
if not registry.grants():
    registry.assign_tool_to_agent("quote", "carol", where={"days": {"maximum": 5}})
    with registry.run("r1"):
        registry.execute(ToolCall("1", "quote", {"symbol": "X", "days": 60}, "carol"))
"""
LOOKS = (
    "list", "list --agent intern", "search money", "show quote", "agents", "matrix", "matrix --agent carol",
    "why intern quote", "export --agent intern", "grants", "approvals", "approvals list", "audit", "audit --json",
    "report --since 2020-01-01 --out page.html", "runs", "runs show r1", "journal", "journal path", "advise",
    "stats", "plugins", "plugins list", "plugins show acme", "tokens list", "docs build --out pages",
    "docs stubs --out .", "check", "--help",
)  # fmt: skip


def read_rows(file: Path) -> dict[str, list[object]]:
    """Return all rows of all tables of a journal."""
    with closing(sqlite3.connect(file)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: connection.execute(f'SELECT * FROM "{name}"').fetchall() for name in tables}


@pytest.fixture
def bank(site: Site, app: App, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An app with a journal of its own, whose program has run; a plugin is installed that it does not load."""
    site.good()
    name = f"{app(BANK + OWN_JOURNAL)}:registry"
    monkeypatch.syspath_prepend(tmp_path)
    run("--app", name, "list")
    return name


@pytest.mark.parametrize("words", LOOKS)
def test_writes_nothing(run: Run, bank: str, words: str) -> None:
    """Broken promise: looking is free of effects. A plugin that the app does not load was loaded and noted."""
    before = read_rows(Path("bank.db"))
    code, out, error = run("--app", bank, *words.split())

    assert 0 == code or (words == "check" and code == 1), error
    assert before == read_rows(Path("bank.db"))
    assert not Path("praval_tools.db").exists()
    assert words.startswith(("plugins", "--help")) or "acme" not in out


def test_a_refusal_by_bounds_is_named(run: Run, bank: str) -> None:
    """Broken promise: what is outside of a grant's bounds reads so in audit and report. It read `granted`."""
    run("--app", bank, "report", "--since", "2020-01-01", "--out", "page.html")

    assert "out-of-bounds: " in run("--app", bank, "audit", "--agent", "carol")[1]
    assert "out-of-bounds" in Path("page.html").read_text("utf-8")
