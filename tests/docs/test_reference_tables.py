"""The tables of the reference say what the docstrings say."""

from __future__ import annotations

from pathlib import Path

import pytest
from reference_tables import PAGES, write_table

pytest.importorskip("mcp", reason="the pages document what needs the SDK of MCP")

PAGE = "# Calls\n\nWhat a call is.\n\n::: praval_tools.ToolCall\n"


class TestReferenceTables:
    @pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
    def test_a_page_says_what_the_docstrings_say(self, page: Path) -> None:
        """
        Each name that a page documents is in its table, with the first paragraph of its docstring.

        If not, `python tests/support/reference_tables.py` writes the tables again.
        """
        text = page.read_text(encoding="utf-8")

        assert write_table(text) == text

    def test_a_difference_is_seen(self) -> None:
        """Another text is replaced by that of the docstring, and a table that is right stays."""
        right = write_table(PAGE)

        assert "| `ToolCall` | One request of an agent to run a tool. |" in right
        assert right == write_table(right.replace("One request", "Two requests"))

    def test_no_row_is_empty(self) -> None:
        """Whatever is public says what it is."""
        rows = [row for page in PAGES for row in page.read_text(encoding="utf-8").splitlines()]

        assert [] == [row for row in rows if row.startswith("| `") and row.endswith("|  |")]
