"""The page of advice: for the days that are chosen, findings with evidence and commands, safe to show."""

# Tests of: advice

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import httpx
import pytest
from web_access_rig import serve_access

from praval_tools import Agent, ToolRegistry


class TestAdvice:
    def test_asks_for_the_days_first(self, reader: httpx.Client) -> None:
        """Reading many events takes a while, so nothing is read before it is asked for."""
        answer = reader.get("/advice")
        assert (200, True, False) == (answer.status_code, "7 days" in answer.text, "<table" in answer.text)

    def test_shows_findings_and_commands(self, reader: httpx.Client) -> None:
        """What was never used, with the command; no name is markup."""
        answer = reader.get("/advice?days=7")
        assert 200 == answer.status_code
        assert "never used its grant" in answer.text
        assert '<span class="word">praval-tools</span> <span class="word">revoke</span> ' in answer.text
        assert "<script>alert" not in answer.text and "\u202e" not in answer.text

    def test_says_that_there_is_too_much_to_read(self, reader: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
        """A page reads a number of events, and names the command that reads all."""
        monkeypatch.setattr("praval_tools.web.access.advice._MAX_EVENTS", 3)
        answer = reader.get("/advice?days=7")
        assert (200, True) == (answer.status_code, "choose fewer, or use praval-tools advise" in answer.text)

    def test_cuts_no_command(self, client: httpx.Client, registry: ToolRegistry) -> None:
        """One that is too long for the page is said by another."""
        names = [f"--{place}-{'x' * 118}" for place in range(40)]
        with registry.change():
            for name in names:
                registry.tool(f"peek_{name.strip('-')}", category="long", owned_by="clerk", description="Peek.")(
                    lambda: 1
                )
            Agent(names[0], registry=registry, tool_categories=["long"])
        text = unescape(re.sub("<[^>]*>", "", client.get("/advice?days=7").text))
        assert f"said by: praval-tools advise --agent={names[0]}" in text
        assert "…" not in text

    @pytest.mark.parametrize("days", ["x", "-1", "100000", "7' OR 1"])
    def test_takes_no_other_days(self, reader: httpx.Client, days: str) -> None:
        """The choice is shown again."""
        assert "<table" not in reader.get("/advice", params={"days": days}).text

    def test_without_a_program(self, tmp_path: Path) -> None:
        """The page names the command that it needs."""
        path = tmp_path / "runs.db"
        ToolRegistry(journal=path).close()
        with serve_access(path) as server, server.open_client() as reader:
            assert "praval-tools --app" in reader.get("/advice?days=7").text
