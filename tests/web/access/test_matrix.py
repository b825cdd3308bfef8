"""The matrix over real HTTP: rules, filters, parts of long lists, hostile names, tables that screen readers read."""

# Tests of: matrix, filters, access, routes

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest
from web_access_rig import HOSTILE_AGENT, fill_many, fill_registry, serve_access

from praval_tools import ToolRegistry


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a server of a typical program."""
    path = tmp_path_factory.mktemp("journal") / "runs.db"
    with ToolRegistry(journal=path) as registry:
        fill_registry(registry)
        registry.grant("pay", "intern", max_calls=3)
        registry.block("clock", "intern")
        with serve_access(path, registry) as server, server.open_client() as client:
            yield client


def list_tools(text: str) -> list[str]:
    """Return the tools whose rows a page has."""
    return re.findall(r'<th scope="row"><a href="/tools/show\?name=([^"]*)"', text)


def read_cell(text: str, agent: str, tool: str) -> str:
    """Return what a cell says."""
    found = re.search(rf'<td><a href="/matrix/cell\?agent={agent}&amp;tool={tool}"[^>]*>([^<]*)</a></td>', text)
    assert found is not None
    return found[1]


class TestMatrix:
    @pytest.mark.parametrize(
        ("agent", "tool", "rule"),
        [
            ("analyst", "csv_parse", "owner"),
            ("analyst", "pay", "category"),
            ("analyst", "clock", "shared"),
            ("intern", "pay", "granted (3 left)"),
            ("intern", "clock", "blocked"),
            ("intern", "secret_plan", "–"),
        ],
    )
    def test_a_cell_says_the_rule(self, client: httpx.Client, agent: str, tool: str, rule: str) -> None:
        """The rule that decides, and how many calls a grant has left."""
        assert rule == read_cell(client.get("/matrix").text, agent, tool)

    @pytest.mark.parametrize(
        ("parameters", "tools"),
        [
            ({"owner": "clerk"}, ["pay", "secret_plan", "long_text"]),
            ({"category": "finance"}, ["pay"]),
            ({"tag": "files"}, ["csv_parse"]),
            ({"risk": "high"}, ["pay"]),
            ({"source": "plugin"}, []),
            ({"source": "code", "name": "CLO"}, ["clock"]),
            ({"owner": "nobody"}, []),
        ],
    )
    def test_it_is_filtered(self, client: httpx.Client, parameters: dict[str, str], tools: list[str]) -> None:
        """By owner, category, tag, risk, source and name; the form shows by what."""
        page = client.get("/matrix", params=parameters).text
        assert tools == list_tools(page)
        for value in parameters.values():
            assert f'value="{value}"' in page

    def test_agents_are_filtered(self, client: httpx.Client) -> None:
        """By a part of their names."""
        page = client.get("/matrix", params={"agent": "INT"}).text
        assert ["intern"] == re.findall(r'<th scope="col"><a href="/agents/show\?name=([^"]*)"', page)

    def test_names_are_never_markup(self, client: httpx.Client) -> None:
        """An agent's name may hold quotes and angle brackets."""
        page = client.get("/matrix").text
        assert HOSTILE_AGENT not in page
        assert "<img" not in page and "<script>alert" not in page
        address = re.findall(r'<a href="(/matrix/cell\?agent=%22[^"]*tool=hostile)"', page)[0].replace("&amp;", "&")
        assert 200 == client.get(address).status_code

    def test_tables_have_captions_and_scopes(self, client: httpx.Client) -> None:
        """A screen reader says which agent and tool a cell is about."""
        page = client.get("/matrix").text
        assert 1 == page.count("<caption") == page.count("<table")
        assert not re.search(r"<th(?![^>]*scope)[^>]*>", page.replace("<thead", "<x"))

    @pytest.mark.parametrize("query", ["agents=99", "tools=99", "tools=x&agents=-1", "name=%00&tag=%ff", "risk=x"])
    def test_odd_addresses_have_pages(self, client: httpx.Client, query: str) -> None:
        """A part beyond the end, and nonsense."""
        assert 200 == client.get(f"/matrix?{query}").status_code


class TestLongLists:
    def test_parts_hold_everything_once(self, tmp_path: object) -> None:
        """The links lead from part to part, with the filter, until all was shown."""
        with ToolRegistry(journal=f"{tmp_path}/runs.db") as registry:
            fill_many(registry, 90, 120)
            with serve_access(f"{tmp_path}/runs.db", registry) as server, server.open_client() as client:
                url, seen = "/matrix?name=tool", list[str]()
                while url:
                    page = client.get(url).text
                    seen += list_tools(page)
                    links = re.findall(r'<a href="([^"]*)">Later tools</a>', page)
                    url = links[0].replace("&amp;", "&") if links else ""
                assert [tool.name for tool in registry.list_all_tools()] == seen
                page = client.get("/matrix?agents=80").text
                assert 10 == len(re.findall(r'<th scope="col"><a', page))
                assert "Agents 81 to 90 of 90." in page


class TestWithoutProgram:
    def test_it_says_what_is_missing(self, tmp_path: object) -> None:
        """A journal alone does not know the tools."""
        with serve_access(f"{tmp_path}/runs.db") as server, server.open_client() as client:
            for address in ("/matrix", "/matrix/cell?agent=a&tool=b"):
                assert "--app MODULE:REGISTRY" in client.get(address).text

    def test_an_empty_program_has_a_page(self, tmp_path: object) -> None:
        """Neither agents nor tools."""
        with (
            ToolRegistry(journal=f"{tmp_path}/runs.db") as registry,
            serve_access(f"{tmp_path}/runs.db", registry) as server,
            server.open_client() as client,
        ):
            assert "0 agents and 0 tools fit" in client.get("/matrix").text
