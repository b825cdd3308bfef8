# Tests of: ui, listening
"""`praval-tools ui`: which journal it serves, to whom, and what it says."""

from __future__ import annotations

import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from cli_rig import ENV, App, Run, app, run
from store_rig import make_database

from praval_tools import ToolCall, ToolRegistry
from praval_tools.journal import open_journal
from praval_tools.journal.tokens import open_tokens

__all__ = ["app", "run"]

APP = """
from praval_tools import ToolRegistry

registry = ToolRegistry(journal="own.db")

@registry.tool("count_sheep", owned_by="ann")
def count_sheep() -> int:
    "Count."
    return 3
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The test runs in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(ENV, "TMPDIR", str(tmp_path / "tmp"))
    return tmp_path


@contextmanager
def _serve(*arguments: str, is_terminal: bool = False) -> Iterator[tuple[str, str]]:
    """Start the command; give its address and what it said until then."""
    command = [sys.executable, "-m", "praval_tools", *arguments, "--port", "0"]
    reader, writer = pty.openpty() if is_terminal else os.pipe()
    with subprocess.Popen(command, stderr=writer, stdout=subprocess.PIPE, text=True, env=ENV) as process:
        os.close(writer)
        said = ""
        while "Ctrl-C" not in said and (part := os.read(reader, 4_096)):
            said += part.decode()
        try:
            found = re.search(r"is at\s+(https?://\S+)/\s", said)
            assert found is not None, said
            yield found[1], said
        finally:
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=30)
            with suppress(OSError):  # what a terminal says at its end
                said = os.read(reader, 65_536).decode()
            os.close(reader)
    assert ("", 130) == (out, process.returncode)
    assert "ERROR" not in said


@contextmanager
def _log_in(url: str, token: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, headers={"origin": url, "accept": "text/html"}, timeout=30) as client:
        assert 303 == client.post("/login", data={"token": token}).status_code
        yield client


def _make_journal(place: str | Path) -> str:
    """Write a refused call into a journal; return a token of an operator."""
    with ToolRegistry(journal=place) as registry:
        registry.execute(ToolCall("x", "none_of_these", {}, "ann"))
        return open_tokens(registry.journal).add("olga", role="operator")


class TestJournals:
    def test_a_file_is_served(self, folder: Path) -> None:
        """The one that is named; on no terminal no token is said."""
        token = _make_journal(folder / "runs.db")
        with _serve("ui", "runs.db") as (url, said), _log_in(url, token) as client:
            assert "none_of_these" in client.get("/calls").text
        assert "once_" not in said
        assert token not in said

    def test_a_note_names_the_command_that_opens_this_page(self, folder: Path) -> None:
        """Broken promise: the token of the command that was named opened the page of another journal."""
        open_journal(folder / "runs.db").close()
        with _serve("ui", "runs.db") as (_, said):
            assert "praval-tools --journal runs.db tokens add NAME --role operator" in said

    def test_that_of_this_folder_is_the_default(self, folder: Path) -> None:
        """As of other commands; a note says that nobody has a token yet."""
        open_journal(folder / "praval_tools.db").close()
        with _serve("ui") as (_, said):
            assert "praval_tools.db" in said
            assert "tokens add NAME --role operator" in said

    def test_that_of_an_app_is_served(self, folder: Path, app: App) -> None:
        """The registry's own, with who may call what."""
        name = app(APP)
        token = _make_journal(folder / "own.db")
        with _serve("--app", f"{name}:registry", "ui") as (url, _), _log_in(url, token) as client:
            assert "none_of_these" in client.get("/calls").text
            assert "count_sheep" in client.get("/matrix").text

    def test_a_named_one_is_not_that_of_the_surroundings(
        self, folder: Path, app: App, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where a variable names an app, the journal that is named is what is shown."""
        monkeypatch.setitem(ENV, "PRAVAL_TOOLS_APP", f"{app(APP)}:registry")
        token = _make_journal(folder / "runs.db")
        with _serve("ui", "runs.db") as (url, _), _log_in(url, token) as client:
            assert "runs.db" in client.get("/").text

    def test_of_the_demo_it_shows_who_may_call_what(self, run: Run, folder: Path) -> None:
        """The page knows the demo's tools and agents without an app, and access can be changed on it."""
        run("demo")
        with closing(open_journal(folder / "praval-demo" / "journal.db")) as journal:
            token = open_tokens(journal).add("olga", role="operator")
        with _serve("ui", "praval-demo/journal.db") as (url, _), _log_in(url, token) as client:
            assert "statistician" in client.get("/matrix").text
            assert "1 of 2" in client.get("/grants").text
            page = client.get("/matrix/cell", params={"agent": "analyst", "tool": "read_rows"})
            assert "samples, to see what the columns mean" in page.text

    def test_a_database_is_served(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """By its URL; its tokens are those of all servers."""
        for variables in (ENV, os.environ):
            monkeypatch.setitem(variables, "PRAVAL_TOOLS_KEY", "a key that all processes share")
        with make_database() as place:
            token = _make_journal(place)
            with _serve("ui", str(place)) as (url, _), _log_in(url, token) as client:
                assert "none_of_these" in client.get("/calls").text

    @pytest.mark.parametrize("place", ["missing.db", "memory", "oracle://x/y"])
    def test_what_is_none_is_an_error(self, run: Run, place: str) -> None:
        """Of one line; nothing listens and nothing is created."""
        code, out, error = run("ui", place, "--port", "0")
        assert (True, "", 1) == (code in (1, 2), out, len(error.splitlines()))
        assert not Path(place).exists()


class TestTerminal:
    def test_a_token_that_counts_once_is_said(self, folder: Path) -> None:
        """With the address; whoever has it is the terminal's user, once."""
        open_journal(folder / "runs.db").close()
        with _serve("ui", "runs.db", is_terminal=True) as (url, said):
            token = re.search(r"once_[\w-]+", said)
            assert token is not None
            with _log_in(url, token[0]) as client:
                assert 'class="chip good">operator' in client.get("/").text
            answer = httpx.post(f"{url}/login", data={"token": token[0]}, headers={"origin": url})
            assert 403 == answer.status_code
        with open_journal(folder / "runs.db") as journal:
            assert [] == open_tokens(journal).list()


class TestEnd:
    def test_ends_the_streams_of_open_pages(self, folder: Path) -> None:
        """At once and in silence; the index, which names what the journal holds, is gone."""
        token = _make_journal(folder / "runs.db")
        (folder / "tmp").mkdir()
        with ExitStack() as stack:
            with _serve("ui", "runs.db") as (url, _):
                client = stack.enter_context(_log_in(url, token))
                stream = stack.enter_context(client.stream("GET", "/activity/stream?topic=calls"))
                lines = stream.iter_lines()
                assert "retry: 1000" == next(lines)
                began = time.monotonic()
            assert time.monotonic() - began < 5
            assert "event: end" in list(lines)
        assert [] == list((folder / "tmp").iterdir())


class TestAddresses:
    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [
            (["--host", "0.0.0.0"], "--behind-https"),
            (["--host", "0.0.0.0", "--allow-host", "x"], "--tls-certificate"),
            (["--host", "0.0.0.0", "--behind-https"], "--allow-host NAME"),
            (["--host", "::", "--behind-https"], "DNS rebinding"),
            (["--tls-certificate", "runs.db"], "go together"),
        ],
    )
    def test_beyond_this_machine_need_https_and_a_name(
        self, run: Run, folder: Path, arguments: list[str], problem: str
    ) -> None:
        """What would show tokens to a network, or be open to any web page, is refused before anything listens."""
        open_journal(folder / "runs.db").close()
        code, _, error = run("ui", "runs.db", *arguments)
        assert 2 == code
        assert problem in error

    def test_that_are_taken_are_an_error(self, run: Run, folder: Path) -> None:
        """With the fix."""
        open_journal(folder / "runs.db").close()
        with socket.create_server(("127.0.0.1", 0)) as taken:
            code, _, error = run("ui", "runs.db", "--port", str(taken.getsockname()[1]))
        assert 1 == code
        assert "Try another --port" in error


def test_without_the_extra_it_says_which_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line, before anything is opened."""
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    code, _, error = run("ui", "none.db")
    assert 1 == code
    assert "pip install 'praval-tools[ui]'" in error
