"""The command `report`: a page for any journal, that says what the journal holds."""

# Tests of: command, page, document, call_sections, report/access_charts, report/run_charts, report/svg, report/markup

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from cli_journal_rig import JOURNAL, fill_journal, run_app
from cli_rig import App, Run, app, run  # noqa: F401

from praval_tools import Allow, Deny, ToolCall, ToolRegistry


class _TagChecker(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def read_tiles(page: str) -> dict[str, str]:
    """Return the figures at the top of a page."""
    return {text: number for number, text in re.findall(r"<li><b[^>]*>([\d,]+)</b><span>([^<]+)</span>", page)}


class TestReport:
    def test_run(self, run: Run, app: App) -> None:
        """
        The page of a run has its calls, refusals and figures, as `runs show` has them, and what is hostile is text.
        """
        run_app(app, "other")
        run_app(app, "night", crash="last")
        code, out, err = run("report", "--run", "night", "--out", "n.html", *JOURNAL)
        page = Path("n.html").read_text("utf-8")

        assert (code, out, err) == (0, "Wrote n.html: 6 calls.\n", "")
        assert "<h1>Run night</h1>" in page and _TagChecker(page).open == []
        tiles = read_tiles(page)
        assert (tiles["calls"], tiles["succeeded"], tiles["refused or failed"], tiles["in doubt"]) == (
            "6",
            "3",
            "2",
            "1",
        )
        assert "unknown_tool" in page and "\x1b" not in page and "[red]" in page
        assert not re.search(r"<script|https?://|killed", page)

    def test_answers_of_approvals(self, run: Run, app: App) -> None:
        """
        Who answered, and how; the reason where one was given.
        """
        registry = ToolRegistry(journal=JOURNAL[1])

        @registry.tool("pay", owned_by="clerk", requires_approval=True)
        def pay(to: str) -> str:
            """Pay somebody."""
            return to

        with registry.run("rent"):
            for id_, answer in (("a", Allow(by="eve")), ("b", Deny("too dear", by="olga"))):
                call = ToolCall(id_, "pay", {"to": id_}, agent="clerk")
                registry.execute(call)
                registry.approvals.answer(id_, answer)
                registry.execute(call)
        registry.close()
        assert run("report", *JOURNAL)[0] == 0
        page = Path("praval-report.html").read_text("utf-8")

        assert "Risk low. eve: allow.<" in page and "Risk low. olga: deny, too dear.<" in page

    def test_everything_with_access_and_changes(self, run: Run, app: App) -> None:
        """
        Without options the page holds every run and what is outside of runs; with an app, who may call what.
        """
        name = run_app(app, "night")
        at = ("--app", f"{name}:registry")
        run("call", "clerk", "look", "name=x", *at)
        run("call", "clerk", "look", "name=y", *at)
        run("block", "pay", "clerk", "--reason", "audit week", *at)
        assert run("report", *at)[:2] == (0, "Wrote praval-report.html: 9 calls.\n")
        page = Path("praval-report.html").read_text("utf-8")

        assert "audit week" in page and "Who owns what" in page and "blocked" in page
        assert read_tiles(page)["change of access"] == "1"

    def test_ids_that_repeat_outside_of_runs(self, run: Run, app: App) -> None:
        """
        Two calls with one id outside of a run are two calls.
        """
        name = app(
            "from praval_tools import ToolCall, ToolRegistry\nregistry = ToolRegistry(journal='work.db')\n"
            "@registry.tool(shared=True)\ndef look(name: str) -> str:\n    'Look.'\n    return name\n"
            "def make():\n    for name in 'abc':\n"
            "        call = ToolCall(tool_call_id='call_0', name='look', arguments={'name': name}, agent='x')\n"
            "        registry.execute(call)\n"
            "    return registry\n"
        )
        run("list", "--app", f"{name}:make")

        assert run("report", *JOURNAL)[1] == "Wrote praval-report.html: 3 calls.\n"

    def test_span(self, run: Run, app: App) -> None:
        """
        `--since` and `--until` choose what is on the page; an empty span is a page as well.
        """
        app()
        fill_journal("work.db", 100)
        span = ("--since", "2026-01-01T00:01:00", "--until", "2026-01-01T00:01:10")

        assert run("report", *span, *JOURNAL)[1] == "Wrote praval-report.html: 10 calls.\n"
        assert run("report", "--since", "1s", *JOURNAL)[1] == "Wrote praval-report.html: 0 calls.\n"
        assert "Nothing is recorded." in Path("praval-report.html").read_text("utf-8")

    def test_long_journal_is_cut_and_says_so(self, run: Run, app: App) -> None:
        """
        Of many calls the page shows the latest, and how many there are.
        """
        app()
        fill_journal("work.db", 1_200)
        run("report", *JOURNAL)
        page = Path("praval-report.html").read_text("utf-8")

        assert "The latest 1,000 of 1,200; praval-tools --journal work.db audit shows all." in page
        assert "The latest 150 of 1,200." in page

    @pytest.mark.parametrize(
        ("options", "code", "text"),
        [
            (["--run", "nope"], 2, "No run 'nope' is recorded."),
            (["--out", "missing/x.html"], 1, "the page could not be written: No such file or directory."),
            (["--since", "2026-02-01", "--until", "2026-01-01"], 2, "is not before --until"),
        ],
    )
    def test_what_goes_wrong(self, run: Run, app: App, options: list[str], code: int, text: str) -> None:
        """
        An unknown run, a folder that is missing, a span that ends before it begins: one line each.
        """
        app()
        fill_journal("work.db", 1)
        ended, out, err = run("report", *options, *JOURNAL)

        assert (ended, out) == (code, "") and text in err
