"""The page of advice: for the days that are chosen, findings with evidence and commands, safe to show."""

# Tests of: advice

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from web_access_rig import fill_grants, fill_registry, serve_access

from praval_tools import ToolRegistry


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a server of a program with grants of every state, and some calls."""
    path = tmp_path_factory.mktemp("journal") / "runs.db"
    with ToolRegistry(journal=path) as registry:
        fill_registry(registry)
        fill_grants(registry)
        with serve_access(path, registry) as server, server.open_client() as client:
            yield client


class TestAdvice:
    def test_asks_for_the_days_first(self, client: httpx.Client) -> None:
        """Reading many events takes a while, so nothing is read before it is asked for."""
        answer = client.get("/advice")
        assert (200, True, False) == (answer.status_code, "7 days" in answer.text, "<table" in answer.text)

    def test_shows_findings_and_commands(self, client: httpx.Client) -> None:
        """What was never used, with the command; no name is markup."""
        answer = client.get("/advice?days=7")
        assert 200 == answer.status_code
        assert "never used its grant" in answer.text
        assert '<span class="word">praval-tools</span> <span class="word">revoke</span> ' in answer.text
        assert "<script>alert" not in answer.text and "\u202e" not in answer.text

    @pytest.mark.parametrize("days", ["x", "-1", "100000", "7' OR 1"])
    def test_takes_no_other_days(self, client: httpx.Client, days: str) -> None:
        """The choice is shown again."""
        assert "<table" not in client.get("/advice", params={"days": days}).text

    def test_without_a_program(self, tmp_path: Path) -> None:
        """The page names the command that it needs."""
        path = tmp_path / "runs.db"
        ToolRegistry(journal=path).close()
        with serve_access(path) as server, server.open_client() as client:
            assert "praval-tools --app" in client.get("/advice?days=7").text
