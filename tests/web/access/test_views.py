"""Tools, agents, ownership and grants over real HTTP: content, filters, hostile texts, a journal without program."""

# Tests of: tools, agents, graph, grants, usage_parts

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from web_access_rig import HOSTILE_AGENT, fill_many, fill_registry, serve_access

from praval_tools import ToolRegistry

PAGES = ("/tools", "/tools/show?name=pay", "/agents", "/agents/show?name=intern", "/graph", "/grants")


def list_heads(text: str) -> list[str]:
    """Return the texts of the heads of rows."""
    cells = re.findall(r'<th scope="row"[^>]*>(.*?)</th>', text)
    return [unescape(re.sub("<[^>]*>", "", cell)).strip() for cell in cells]


class TestEveryView:
    @pytest.mark.parametrize("page", PAGES)
    def test_tables_have_captions_and_scopes(self, reader: httpx.Client, page: str) -> None:
        """Of tables with heads of columns; those of facts have heads of rows."""
        text = reader.get(page).text
        assert 1 <= text.count("<table")
        assert text.count("<caption") == text.count("<thead")
        assert not re.search(r"<th(?![^>]*scope)[^>]*>", text.replace("<thead", "<x"))
        assert not re.search(r"<th[^>]*></th>", text)
        assert all(f'for="{name}"' in text for name in re.findall(r'<(?:input|select)[^>]* id="([^"]*)"', text))

    @pytest.mark.parametrize(
        "page", [*PAGES, "/tools/show?name=hostile", f"/agents/show?name={quote(HOSTILE_AGENT)}", "/grants?state=all"]
    )
    def test_no_name_or_text_is_markup(self, reader: httpx.Client, page: str) -> None:
        """Nor a character that turns the direction of what follows."""
        answer = reader.get(page)
        assert 200 == answer.status_code
        assert "<script>alert" not in answer.text and "<img" not in answer.text and "\u202e" not in answer.text

    @pytest.mark.parametrize("page", PAGES)
    def test_a_journal_alone_says_what_is_missing(self, reader: httpx.Client, tmp_path: Path, page: str) -> None:
        """Nothing fails without a program."""
        with serve_access(tmp_path / "runs.db") as server, server.open_client() as other:
            answer = other.get(page)
            assert 200 == answer.status_code or page.startswith("/tools/show")
            assert "--app MODULE:REGISTRY" in answer.text


class TestTools:
    @pytest.mark.parametrize(
        ("query", "tools"),
        [("owner=clerk", ["pay", "secret_plan", "long_text"]), ("risk=high", ["pay"]), ("tag=none", [])],
    )
    def test_they_are_filtered(self, reader: httpx.Client, query: str, tools: list[str]) -> None:
        """As in the matrix."""
        assert tools == list_heads(reader.get(f"/tools?{query}").text)

    def test_one_tool(self, reader: httpx.Client) -> None:
        """Schema, source, fingerprint, who may call it, use, outcomes, durations."""
        page = unescape(reader.get("/tools/show?name=pay").text)
        for text in ('"amount"', "fingerprint", "code: ", "may call", "granted", "By agent", "Durations", "slowest"):
            assert text in page
        assert "3 agents of 4." in page

    def test_a_long_description_is_cut_and_all_there(self, reader: httpx.Client) -> None:
        """A megabyte does not make the page long."""
        page = reader.get("/tools/show?name=long_text").text
        assert len(page) < 30_000 and "/tools/schema?name=long_text" in page
        assert len(reader.get("/tools").text) < 60_000
        answer = reader.get("/tools/schema?name=long_text")
        assert answer.headers["content-type"].startswith("text/plain") and "x" * 1_000_000 in answer.text

    def test_an_unknown_tool_is_not_found(self, reader: httpx.Client) -> None:
        """Similar names are proposed."""
        answer = reader.get("/tools/show?name=payy")
        assert 404 == answer.status_code and "/tools/show?name=pay" in answer.text
        assert 404 == reader.get("/tools/schema?name=payy").status_code


class TestAgents:
    def test_the_list_counts_what_each_may_call(self, reader: httpx.Client) -> None:
        """By the same rules as a call."""
        page = reader.get("/agents?agent=analyst").text
        assert ["analyst"] == list_heads(page)
        assert '<td class="number" data-label="may call">3</td>' in page

    def test_one_agent(self, reader: httpx.Client) -> None:
        """What it is, and the rule for each tool that it could be given."""
        page = unescape(reader.get("/agents/show?name=intern").text)
        for text in ("declared", "granted", "shared", "By tool", "Its grants"):
            assert text in page

    def test_a_wrong_name_is_not_found(self, reader: httpx.Client) -> None:
        """It is not a name of an agent."""
        assert 404 == reader.get("/agents/show?name=a:b").status_code
        assert 200 == reader.get("/agents/show?name=nobody").status_code


class TestGraph:
    def test_the_picture_and_the_table_say_the_same(self, reader: httpx.Client) -> None:
        """Owners, who owned before, who may call."""
        page = reader.get("/graph?name=clock").text
        assert "<svg" in page and 'role="img"' in page
        assert ["clock"] == list_heads(page)
        assert "/agents/show?name=clerk" in page

    def test_it_is_bounded(self, tmp_path: Path) -> None:
        """A picture holds a part of many."""
        with ToolRegistry(journal=tmp_path / "runs.db") as registry:
            fill_many(registry, 60, 200)
            with serve_access(tmp_path / "runs.db", registry) as server, server.open_client() as reader:
                page = reader.get("/graph?start=24").text
        assert "Tools 25 to 48 of 200." in page and "Of 60 agents 24 are shown" in page
        assert len(page) < 400_000


class TestGrants:
    @pytest.mark.parametrize(
        ("state", "reasons"),
        [
            ("live", {"two", "unused", "soon"}),
            ("expiring", {"soon"}),
            ("unused", {"unused", "soon"}),
            ("spent", {"once"}),
            ("revoked", {f"gone {HOSTILE_AGENT}"}),
            ("expired", set()),
            ("all", {"two", "unused", "soon", "once", f"gone {HOSTILE_AGENT}"}),
            ("nonsense", {"two", "unused", "soon"}),
        ],
    )
    def test_they_are_shown_by_state(self, reader: httpx.Client, state: str, reasons: set[str]) -> None:
        """What is left of each, and why it was given."""
        page = reader.get(f"/grants?state={state}").text
        rows = re.findall(r"<tr><th scope=\"row\".*?</tr>", page, re.DOTALL)
        found = {unescape(re.findall(r'<td class="long" data-label="why"[^>]*>([^<]*)</td>', row)[0]) for row in rows}
        assert reasons == found

    def test_one_call_is_not_plural(self, reader: httpx.Client) -> None:
        """A grant of one call has "0 of 1 call left", one of two "1 of 2 calls left"."""
        assert "0 of 1 call left" in reader.get("/grants?state=spent").text
        assert "1 of 2 calls left" in reader.get("/grants?state=live").text

    def test_they_are_filtered(self, reader: httpx.Client) -> None:
        """By agent and tool."""
        assert 1 == len(list_heads(reader.get("/grants?agent=intern&tool=pay").text))
        assert [] == list_heads(reader.get("/grants?agent=nobody").text)

    def test_the_latest_comes_first_also_after_a_restart(self, tmp_path: Path) -> None:
        """What a journal restores has no order of its own."""
        for reason in ("first", "second", "third"):
            with ToolRegistry(journal=tmp_path / "runs.db") as registry:
                fill_registry(registry)
                registry.grant("csv_parse" if reason == "second" else "pay", "intern", reason=reason)
        with ToolRegistry(journal=tmp_path / "runs.db") as registry:
            fill_registry(registry)
            with serve_access(tmp_path / "runs.db", registry) as server, server.open_client() as reader:
                page = reader.get("/grants").text
        assert ["third", "second", "first"] == re.findall(r">(first|second|third)<", page)

    def test_a_journal_alone_shows_what_it_holds(self, tmp_path: Path) -> None:
        """Grants wait for the program that has their tools; those that ended are shown as such."""
        with ToolRegistry(journal=tmp_path / "runs.db") as registry:
            fill_registry(registry)
            registry.grant("pay", "intern", max_calls=2)
            registry.grant("csv_parse", "intern", expires=datetime.now(UTC) + timedelta(milliseconds=1))
        with serve_access(tmp_path / "runs.db") as server, server.open_client() as reader:
            assert "2 of 2" in reader.get("/grants?state=waiting").text
            assert 1 == len(list_heads(reader.get("/grants?state=expired").text))
