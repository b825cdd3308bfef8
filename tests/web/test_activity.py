"""The views of what happens, over real HTTP: calls, runs, audit, exports, statistics; hostile texts; viewers."""

# Tests of: calls, audit, statistics, usage_charts, parts, routes, host

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from datetime import date
from urllib.parse import quote

import httpx
import pytest
from activity_rig import Server, serve_journal

from praval_tools import ToolCall, ToolRegistry
from praval_tools.journal.index.usage import CallSum
from praval_tools.report.event_lines import protect_cell
from praval_tools.report.markup import build_code, build_element, build_row
from praval_tools.web.activity.audit import parse_query
from praval_tools.web.activity.parts import build_table, build_values
from praval_tools.web.activity.usage_charts import find_whole_ticks, render_days

HOSTILE = '"><script>alert(1)</script>\u202e=cmd|calc'
RUN = '=1"><script>alert(1)</script> a/b?c&d%41'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server over a journal with a run, a failure, a refusal, hostile texts and a megabyte of arguments."""
    path = tmp_path_factory.mktemp("journal") / "runs.db"
    with ToolRegistry(journal=path) as registry:

        @registry.tool("echo", owned_by="ann")
        def echo(text: str, fail: bool = False) -> str:
            """Return a text."""
            if fail:
                raise ValueError(text)
            return text

        with registry.run(RUN):
            registry.execute(ToolCall("c1", "echo", {"text": HOSTILE}, "ann"))
            registry.execute(ToolCall("c2", "echo", {"text": HOSTILE, "fail": True}, "ann"))
            registry.execute(ToolCall("c3", "echo", {"text": "no"}, "bob"))
            registry.execute(ToolCall("c4", "echo", {"text": "x" * 1_000_000}, "ann"))
        registry.execute(ToolCall("c5", "echo", {"text": "-2+3"}, HOSTILE))
        registry.execute(ToolCall(None, HOSTILE, {"a": 1}, "ann"))
    with serve_journal(path) as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    """A browser without scripts, logged in as an operator."""
    with httpx.Client(base_url=server.url, cookies={"user": "olga"}, timeout=30) as client:
        yield client


PAGES = ["/calls", "/runs", "/approvals", "/doubts", "/audit", "/statistics", "/statistics?days="]


class TestPages:
    @pytest.mark.parametrize("page", PAGES)
    def test_hostile_texts_are_shown_as_texts_and_cut(self, client: httpx.Client, page: str) -> None:
        """No text becomes markup, turns the direction, or makes a page long."""
        answer = client.get(page)

        assert 200 == answer.status_code
        assert "<script>alert" not in answer.text
        assert "\u202e" not in answer.text
        assert len(answer.content) < 100_000

    def test_the_latest_calls_are_shown_with_rule_outcome_and_result(self, client: httpx.Client) -> None:
        """The timeline and a row for each call."""
        text = client.get("/calls").text
        assert "<svg" in text
        for word in ("tool error", "forbidden", "owner", "data-stream"):
            assert word in text

    def test_a_refused_call_leads_to_what_changes_it(self, client: httpx.Client, server: Server) -> None:
        """With the reason that is meant for operators, not the message that the caller got."""
        (refusal,) = (record for record in server.journal.store.read() if record.agent == "bob")
        link = f'<a href="/matrix/cell?agent=bob&amp;tool=echo&amp;event={refusal.seq}">What changes it</a>'
        for page in ("/calls", f"/runs/show?id={quote(RUN)}", "/audit?outcome=refused"):
            text = client.get(page).text
            assert "may not call &#x27;echo&#x27;: nothing gives it this tool. " + link in text
        assert 3 == client.get("/audit").text.count("What changes it")

    def test_a_run_is_shown_whatever_its_id(self, client: httpx.Client) -> None:
        """Its calls in order, with links to the whole of them."""
        answer = client.get("/runs/show", params={"id": RUN})
        assert 200 == answer.status_code
        rows = answer.text.partition("<tbody>")[2]
        assert rows.index("tool error") < rows.index("forbidden")
        assert "<b>4</b><span>calls" in answer.text
        assert "<script>alert" not in answer.text
        assert 404 == client.get("/runs/show", params={"id": "none"}).status_code
        assert "&lt;script&gt;" in client.get("/runs").text

    def test_all_of_a_call_is_plain_text(self, client: httpx.Client) -> None:
        """However long; no browser takes it for a page."""
        answer = client.get("/calls/content", params={"run": RUN, "call": "c4"})
        assert len(answer.text) > 2_000_000
        assert answer.headers["content-type"].startswith("text/plain")
        assert "nosniff" == answer.headers["x-content-type-options"]
        assert 404 == client.get("/calls/content", params={"run": RUN, "call": "none"}).status_code


class TestAudit:
    def test_a_search_selects_and_links_go_on(self, client: httpx.Client) -> None:
        """By agent, outcome and rule; the form keeps what was searched."""
        text = client.get("/audit", params={"agent": "bob"}).text
        assert "forbidden" in text
        assert "tool error" not in text.partition("</form>")[2]
        assert 'value="bob"' in text
        text = client.get("/audit", params={"outcome": "ok", "rule": "owner"}).text.partition("</form>")[2]
        assert 'class="chip good"' in text
        assert 'class="chip bad"' not in text

    @pytest.mark.parametrize(
        ("fields", "problem"),
        [
            ({"since": "soon"}, "since: this is not a time"),
            ({"since": "99999999999999999999d"}, "since: "),
            ({"since": "1h", "until": "2h"}, "The span is empty"),
        ],
    )
    def test_a_time_that_cannot_be_read_is_said(
        self, client: httpx.Client, fields: dict[str, str], problem: str
    ) -> None:
        """On the page, and by the exports."""
        for path in ("/audit", "/audit.csv"):
            answer = client.get(path, params=fields)
            assert 400 == answer.status_code
            assert problem in answer.text

    def test_the_export_as_lines_of_json_holds_every_event(self, client: httpx.Client, server: Server) -> None:
        """As the command line prints them."""
        answer = client.get("/audit.jsonl")
        lines = [json.loads(line) for line in answer.text.splitlines()]
        assert [record.seq for record in server.journal.store.read()] == [line["seq"] for line in lines]
        assert "attachment" in answer.headers["content-disposition"]

    def test_no_cell_of_the_export_as_csv_is_a_formula(self, client: httpx.Client) -> None:
        """Not where an agent, a tool or an argument begins with `=`, `+`, `-` or `@`, nor behind quotes or spaces."""
        rows = list(csv.reader(io.StringIO(client.get("/audit.csv").text)))
        assert "seq" == rows[0][0]
        assert any(HOSTILE.split("\u202e")[0] in cell for row in rows for cell in row)
        for row in rows[1:]:
            for cell in row[1:]:
                assert not cell.lstrip('" \t').startswith(("=", "+", "-", "@"))

    def test_what_is_asked_for_often_is_a_click_away(self, client: httpx.Client) -> None:
        """Failures, refusals, approvals, changes of access; agent, tool and times are kept."""
        text = client.get("/audit", params={"agent": "ann", "since": "1h", "outcome": "failed"}).text
        assert '<a href="/audit?agent=ann&amp;since=1h&amp;type=access_changes">changes of access</a>' in text
        assert '<a href="/audit?agent=ann&amp;since=1h&amp;outcome=failed" aria-current="true">failed</a>' in text

    def test_a_search_without_fields_is_of_everything(self) -> None:
        """Empty fields do not count."""
        assert parse_query({"agent": "", "since": ""}) == parse_query({})


class TestStatistics:
    def test_figures_are_of_all_calls_a_tool_or_an_agent(self, client: httpx.Client) -> None:
        """With charts that the server draws; other spans than the known ones are the usual one."""
        for query, words in (
            ("", ("echo", "ann", "Durations", "<svg")),
            ("?tool=echo&days=1", ("Statistics of tool echo", "By agent")),
            ("?agent=bob&days=hm", ("Statistics of agent bob", "By tool")),
            ("?tool=none", ("No calls in this span",)),
        ):
            text = client.get(f"/statistics{query}").text
            for word in words:
                assert word in text

    def test_tiles_charts_and_chips_have_one_word_and_one_colour_for_each_end(self, client: httpx.Client) -> None:
        """A failure is not coloured as a refusal, and what ended well is called so in the legend, too."""
        text = client.get("/statistics").text
        assert '<b class="failed">1</b><span>failed' in text
        assert '<b class="bad">2</b><span>refused' in text
        assert (
            '<span><i class="key good"></i>ended well</span><span><i class="key failed"></i>failed</span>'
            '<span><i class="key bad"></i>refused</span>' in text
        )
        calls = client.get("/calls").text
        assert '<span class="chip failed">tool error' in calls
        assert '<span class="chip bad">forbidden' in calls
        assert '<span class="chip failed">tool error' in client.get("/audit").text

    def test_days_have_a_scale_and_dates(self, client: httpx.Client) -> None:
        """The axis says what it counts, in whole numbers; there are dates between the first and the last."""
        chart = client.get("/statistics?days=30").text.partition('viewBox="0 0 1100')[2].partition("</svg>")[0]
        labels = re.findall(r"<text[^>]*>([^<]*)</text>", chart)
        assert ["calls", "0", "2", "4", "6"] == labels[:5]
        assert 15 == len(labels[5:])
        assert 4 == chart.count('class="grid"')

    def test_the_span_that_is_chosen_is_marked(self, client: httpx.Client) -> None:
        """Like the choices of the other pages."""
        text = client.get("/statistics?days=30&tool=echo").text
        assert '<a href="/statistics?days=30&amp;tool=echo" aria-current="true">30 days</a>' in text


class TestValues:
    def test_a_text_of_several_lines_is_shown_as_lines(self) -> None:
        """Escaped, and with marks that turn the direction spelled out; other values are JSON."""
        text = build_values({"body": "Dear <Ann>,\r\n\n\u202epay", "to": "a\\nb"}, "/all")
        assert '<pre class="lines">Dear &lt;Ann&gt;,\n\n\\u202epay</pre>' in text
        assert "<code>&quot;a\\\\nb&quot;</code>" in text

    @pytest.mark.parametrize("value", ["x" * 2_001, "\u200b" * 1_000, "a\n" + "\t" * 1_000, ["\U000e0041" * 300]])
    @pytest.mark.parametrize("is_named", [True, False])
    def test_what_is_cut_is_behind_a_link(self, value: object, *, is_named: bool) -> None:
        """Also where spelling out what shows nothing makes it longer than the page shows."""
        text = build_values({"to": value} if is_named else value, "/all")
        assert "…" in text and "All of it" in text

    def test_cells_say_their_column(self) -> None:
        """For windows where a row is shown as a card; empty ones are marked, and no text is taken for a cell."""
        row = build_row(build_element("th", "x", scope="row"), "<td>–</td>", "–", build_code(""))
        expected = (
            '<tr><th scope="row">x</th><td data-label="made">&lt;td&gt;–&lt;/td&gt;</td>'
            '<td data-label="why" data-empty="">–</td>'
            '<td data-label="arguments" data-empty=""><code></code></td></tr>'
        )
        assert expected in build_table(("name", "made (UTC)", "why", "arguments"), [row])


@pytest.mark.parametrize(("highest", "ticks"), [
    (0, [0, 1]), (1, [0, 1]), (3, [0, 1, 2, 3]), (29, [0, 10, 20, 30]), (40, [0, 10, 20, 30, 40]),
])  # fmt: skip
def test_ticks_of_counts_are_whole_numbers(highest: int, ticks: list[int]) -> None:
    """From 0 to the highest count or a little beyond."""
    assert ticks == find_whole_ticks(highest)


@pytest.mark.parametrize(("text", "cell"), [
    ("=1", "'=1"), ("\uff1d1", "'\uff1d1"), ("\uff20x", "'\uff20x"), ("a;=1+1", "a;'=1+1"), ('a; "+1', "a; \"'+1"),
    ("a;b", "a;b"), ("a=-1, b=2", "a=-1, b=2"),
])  # fmt: skip
def test_no_spreadsheet_runs_a_cell(text: str, cell: str) -> None:
    """Neither one of wide characters nor one that begins at a semicolon, where languages separate cells by it."""
    assert cell == protect_cell(text)


@pytest.mark.parametrize("calls", [7, 95_000, 190_000, 1_900_000, 190_000_000])
def test_the_scale_of_a_chart_shows_whole_numbers(calls: int) -> None:
    """Broken promise: a label of a chart is cut where it has no room. From 100,000 on, numbers with room were."""
    day = date(2026, 1, 1)
    chart = render_days([CallSum(day=day, ok=calls)], day, day)
    ticks = [f"{tick:,}" for tick in find_whole_ticks(calls)]
    assert ticks * 2 == re.findall(r'text-anchor="end"[^>]*>([^<]*)<', chart)
