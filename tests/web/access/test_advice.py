"""The page of advice: for the days that are chosen, findings with evidence and commands, safe to show."""

# Tests of: advice

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from web_access_rig import serve_access

from praval_tools import ToolRegistry


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
