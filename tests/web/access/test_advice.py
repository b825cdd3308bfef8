"""The page of advice: for the days that are chosen, findings with evidence and commands, made beside the requests."""

# Tests of: advice, advice_making

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import timedelta
from html import unescape
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import httpx
import pytest
from browser_rig import needs_chromium, open_page
from clocks import HandClock
from mcp_client_rig import wait_until
from operator_page_rig import serve_page
from web_access_rig import AccessServer, fill_grants, fill_registry, read_advice, serve_access

from praval_tools import Agent, ToolRegistry
from praval_tools.errors import JournalError
from praval_tools.journal import Record
from praval_tools.report.advice import Advice, collect_advice
from praval_tools.report.command_line import CommandLine

if TYPE_CHECKING:
    from playwright.sync_api import Browser


class TestAdvice:
    def test_asks_for_the_days_first(self, reader: httpx.Client) -> None:
        """Reading many events takes a while, so nothing is read before it is asked for."""
        answer = reader.get("/advice")
        assert (200, True, False) == (answer.status_code, "7 days" in answer.text, "<table" in answer.text)

    def test_shows_findings_and_commands(self, reader: httpx.Client) -> None:
        """What was never used, with the command; no name is markup."""
        text = read_advice(reader)
        assert "never used its grant" in text
        assert '<span class="word">praval-tools</span> <span class="word">revoke</span> ' in text
        assert "<script>alert" not in text and "\u202e" not in text

    def test_says_that_there_is_too_much_to_read(self, reader: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
        """A page reads a number of events, and names the command that reads all."""
        monkeypatch.setattr("praval_tools.web.access.advice_making.MAX_EVENTS", 3)
        assert "choose fewer, or use praval-tools advise" in read_advice(reader, 30)

    def test_cuts_no_command(self, client: httpx.Client, registry: ToolRegistry) -> None:
        """One that is too long for the page is said by another."""
        names = [f"--{place}-{'x' * 118}" for place in range(40)]
        with registry.change():
            for name in names:
                registry.tool(f"peek_{name.strip('-')}", category="long", owned_by="clerk", description="Peek.")(
                    lambda: 1
                )
            Agent(names[0], registry=registry, tool_categories=["long"])
        text = unescape(re.sub("<[^>]*>", "", read_advice(client)))
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
            assert "praval-tools ui --app MODULE:REGISTRY" in reader.get("/advice?days=7").text


class HeldMaking:
    """Makes advice as ever, but not before it may; counts how often, and how often at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.may_go_on, self.count, self.now, self.most = Event(), 0, 0, 0
        self.error: Exception | None = None
        monkeypatch.setattr("praval_tools.web.access.advice_making.collect_advice", self._collect)

    def _collect(self, registry: ToolRegistry, records: Iterable[Record], command_line: CommandLine) -> list[Advice]:
        self.count, self.now = self.count + 1, self.now + 1
        self.most = max(self.most, self.now)
        read = list(records)
        assert self.may_go_on.wait(60)
        self.now -= 1
        if self.error is not None:
            raise self.error
        return collect_advice(registry, read, command_line)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldMaking]:
    """Advice that is made when the test says so."""
    held = HeldMaking(monkeypatch)
    yield held
    held.may_go_on.set()


class TestMaking:
    def test_is_made_once_at_a_time_beside_the_requests(self, server: AccessServer, held: HeldMaking) -> None:
        """Whoever asks meanwhile reads how far it is, and for other days which go first; the browser asks again."""
        with server.open_client() as client, server.open_client("viewer") as viewer:
            first = client.get("/advice?days=7")
            wait_until(lambda: held.count)
            others = [viewer.get(f"/advice?days={days}") for days in (7, 1, 30, 90, 7, 7)]
            assert ["1"] * 7 == [page.headers["refresh"] for page in (first, *others)]
            assert "The advice is being made" in others[0].text
            assert re.search(r"First the advice of 7 days is being made: [\d,]+ of [\d,]+ events? ", others[1].text)
            assert 1 == held.count
            held.may_go_on.set()
            texts = [read_advice(each, days) for days in (7, 1) for each in (client, viewer)]
        assert all("Nobody called" in text for text in texts)
        assert (2, 1) == (held.count, held.most)

    def test_is_kept_for_a_minute(self, tmp_path: Path, held: HeldMaking) -> None:
        """However many ask, and whatever is recorded meanwhile."""
        held.may_go_on.set()
        clock = HandClock()
        with ToolRegistry(journal=tmp_path / "runs.db", clock=clock) as registry:
            fill_registry(registry)
            fill_grants(registry)
            with serve_access(tmp_path / "runs.db", registry) as server, server.open_client() as client:
                counts = list[int]()
                for seconds in (0, 30, 29, 1):
                    clock.moment += timedelta(seconds=seconds)
                    registry.block("clock", "clerk", reason=str(seconds))
                    read_advice(client)
                    counts.append(held.count)
        assert [1, 1, 1, 2] == counts

    def test_what_it_fails_with_is_said_once_and_it_is_tried_again(self, tmp_path: Path, held: HeldMaking) -> None:
        """As on any page of a journal that cannot be read."""
        held.error = JournalError("runs.db", "the disk is gone", "Look for it.")
        with ToolRegistry(journal=tmp_path / "runs.db") as registry:
            fill_registry(registry)
            with serve_page(registry) as server, server.log_in(role="viewer") as client:
                assert "refresh" in client.get("/advice?days=7").headers
                held.may_go_on.set()
                answers = list[httpx.Response]()
                wait_until(lambda: answers.append(client.get("/advice?days=7")) or answers[-1].status_code != 200)
                assert (503, True) == (answers[-1].status_code, "the disk is gone" in answers[-1].text)
                assert "refresh" not in answers[-1].headers
                held.error = None
                assert "Nobody called" in read_advice(client)

    def test_ends_with_the_server(
        self, registry: ToolRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:  # fmt: skip
        """No event more is read: the process need not wait for it."""
        fill_grants(registry)
        read, is_over = list[Record](), list[bool]()
        has_begun, is_closed = Event(), Event()

        def collect(registry: ToolRegistry, records: Iterable[Record], command_line: CommandLine) -> list[Advice]:
            try:
                for record in records:
                    read.append(record)
                    has_begun.set()
                    assert is_closed.wait(60)
            finally:
                is_over.append(True)
            return []

        monkeypatch.setattr("praval_tools.web.access.advice_making.collect_advice", collect)
        with serve_access(tmp_path / "runs.db", registry) as server, server.open_client() as client:
            client.get("/advice?days=7")
            assert has_begun.wait(60)
        is_closed.set()
        wait_until(lambda: is_over)
        assert 1 == len(read)

    @needs_chromium
    def test_appears_by_itself_without_scripts(self, browser: Browser, server: AccessServer, held: HeldMaking) -> None:
        """The page that says how far it is becomes the one with the advice."""
        with open_page(browser, server, java_script_enabled=False) as page:
            page.goto(f"{server.url}/advice?days=7")
            page.get_by_text("This page shows the advice when it is done.").wait_for()
            held.may_go_on.set()
            page.get_by_text("Nobody called 'csv_parse'.").wait_for()
