"""The first page: each tile and the page under its link agree."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

from operator_page_rig import serve_page

from praval_tools import ToolCall, ToolRegistry


def test_tiles_and_the_searches_under_them_have_one_number(tmp_path: Path) -> None:
    """Calls of no tool and calls that wait are no refusals; calls that ended well are no failures."""
    with ToolRegistry(journal=tmp_path / "runs.db") as registry:

        @registry.tool("pay", owned_by="ann")
        def pay(amount: int) -> int:
            """Pay."""
            return 10 // amount

        @registry.tool("wire", owned_by="ann", requires_approval=True)
        def wire() -> None:
            """Wire."""

        for number, (tool, agent, arguments) in enumerate((
            ("pay", "ann", {"amount": 1}), ("pay", "ann", {"amount": 0}), ("pay", "bob", {"amount": 1}),
            ("pay", "ann", {"amount": "x"}), ("nothing", "ann", {}), ("wire", "ann", {}),
        )):  # fmt: skip
            registry.execute(ToolCall(f"c{number}", tool, arguments, agent))
        with serve_page(registry) as server, server.log_in() as client:
            page = client.get("/").text
            for word, number in (("refusals", 2), ("failure", 1)):
                url, shown = re.findall(rf'<a href="([^"]*)"><b[^>]*>(\d+)</b><span>{word}', page)[0]
                export = client.get(unescape(url).replace("/audit", "/audit.jsonl")).text
                assert (number, number) == (int(shown), len(export.splitlines()))
