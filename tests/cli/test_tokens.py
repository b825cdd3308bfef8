# Tests of: tokens, mcp, mcp_serve
"""`praval-tools tokens` and the addresses of `mcp serve`: who may connect, and from where."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from cli_rig import App, Run, app, run

from praval_tools.integrations.mcp import open_tokens
from praval_tools.journal import open_journal

__all__ = ["app", "run"]


@pytest.fixture(params=["journal", "file"], autouse=True)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder with a journal, or without."""
    monkeypatch.chdir(tmp_path)
    if request.param == "journal":
        open_journal(tmp_path / "praval_tools.db").close()
    return str(request.param)


class TestTokens:
    def test_are_printed_once_and_listed_without(self, run: Run) -> None:
        """`add` prints the token alone on stdout; `list` begins each line with the id, and shows no secret."""
        code, token, note = run("tokens", "add", "analyst", "--expires", "30d")
        _, _, _ = run("tokens", "add", "clerk")
        _, listed, _ = run("tokens", "list")

        assert (0, 1) == (code, len(token.splitlines()))
        assert "stands for analyst" in note
        _, token_id, secret = token.strip().split("_", 2)
        lines = listed.splitlines()[1:]
        assert [[token_id, "analyst", "agent"], ["clerk"]] == [lines[0].split()[:3], lines[1].split()[1:2]]
        assert secret not in listed and "never" in lines[1]

    def test_of_people_have_a_role(self, run: Run) -> None:
        """`--role` makes them for the page, and the list says so."""
        _, token, note = run("tokens", "add", "olga", "--role", "viewer")

        assert "stands for olga, viewer of the page" in note
        assert ["viewer"] == [token["role"] for token in json.loads(run("tokens", "list", "--json")[1])]
        assert 2 == run("tokens", "add", "olga", "--role", "admin")[0]

    def test_are_where_the_server_looks(self, run: Run, place: str, tmp_path: Path) -> None:
        """They are in the journal of the folder, or in a file of their own where there is none."""
        _, token, _ = run("tokens", "add", "analyst")

        assert (place == "file") is (tmp_path / "praval_tools.tokens").exists()
        if place == "file":
            found = open_tokens(None).find(token.strip())
        else:
            journal = open_journal(tmp_path / "praval_tools.db")
            found = open_tokens(journal).find(token.strip())
            journal.close()
        assert found is not None and "analyst" == found.agent

    def test_are_revoked_by_their_ids(self, run: Run) -> None:
        """`revoke` ends a token; an unknown id is an error of one line."""
        run("tokens", "add", "analyst")
        (token,) = json.loads(run("tokens", "list", "--json")[1])

        assert 0 == run("tokens", "revoke", token["id"])[0]
        assert [] == json.loads(run("tokens", "list", "--json")[1])
        code, out, error = run("tokens", "revoke", token["id"])
        assert (2, "") == (code, out) and "There is no token" in error

    @pytest.mark.parametrize("when", ["soon", "2020-01-01"])
    def test_need_an_expiry_that_can_be(self, run: Run, when: str) -> None:
        """What is not a time, or is over, is refused, and no token is made."""
        code, out, _ = run("tokens", "add", "analyst", "--expires", when)

        assert (code != 0, "") == (True, out)
        assert [] == json.loads(run("tokens", "list", "--json")[1])

    def test_of_a_file_beside_the_journal_are_named(self, run: Run, place: str, tmp_path: Path) -> None:
        """Where tokens are in a file and a journal comes later, a note says which are used."""
        run("tokens", "add", "analyst", "--tokens", "praval_tools.tokens")
        _, _, note = run("tokens", "list")

        assert (place == "journal") is ("the tokens of the journal are used" in note)


class TestServe:
    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [
            ([], "Name the agent"),
            (["--http", "--host", "0.0.0.0"], "--allow-host NAME"),
            (["--http", "--host", "0.0.0.0", "--agent", "clerk"], "without tokens"),
            (["--http", "--host", "0.0.0.0", "--agent", "clerk", "--allow-host", "x"], "without tokens"),
        ],
    )
    def test_beyond_this_machine_needs_tokens_and_a_name(
        self, run: Run, app: App, arguments: list[str], problem: str
    ) -> None:
        """What would be open to everybody, or to any web page, is refused before anything listens."""
        code, _, error = run("--app", f"{app()}:registry", "mcp", "serve", *arguments)

        assert 2 == code
        assert problem in error

    def test_at_a_taken_port_is_an_error(self, run: Run, app: App) -> None:
        """A port that is taken is named, with the fix."""
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            code, _, error = run("--app", f"{app()}:registry", "mcp", "serve", "--http", "--port", port)

        assert 1 == code
        assert f"Cannot listen at 127.0.0.1:{port}" in error and "--port" in error
