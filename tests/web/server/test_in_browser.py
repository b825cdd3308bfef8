"""The page in a real browser: by keyboard from the log-in to an approval, narrow and dark, no policy violated."""

# Tests of: app, login_views, page, start

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser_rig import needs_chromium, open_page, press_until
from operator_page_rig import HOSTILE, PageServer, serve_page

from praval_tools import ToolCall, ToolRegistry

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = needs_chromium

DRIVER = Path(__file__).parents[2] / "support" / "approval_driver.py"
FOLLOWS = "text=Live: follows what happens."
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PageServer]:
    """A page over an empty journal."""
    with serve_page(tmp_path / "runs.db") as server:
        yield server


def _log_in(page: Page, server: PageServer, path: str = "/") -> None:
    page.goto(server.url + path)
    page.locator("#token:focus").wait_for()
    page.keyboard.type(server.tokens.add("olga", role="operator"))
    page.keyboard.press("Enter")
    page.wait_for_url(server.url + path)


class TestKeyboard:
    def test_an_operator_logs_in_and_approves_what_waits(
        self, browser: Browser, server: PageServer, tmp_path: Path
    ) -> None:
        """From the form to the approval without a mouse; the process that waits goes on, and the journal says who."""
        arguments = [sys.executable, str(DRIVER), "wait", str(tmp_path), "r1"]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process, open_page(browser) as page:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("asked")
            _log_in(page, server)
            page.get_by_text("1call waits for you").wait_for()
            page.keyboard.press("Tab")
            assert "Skip to the content" == page.evaluate("document.activeElement.textContent")
            page.keyboard.press("Enter")
            assert "content" == page.evaluate("document.activeElement.id")
            press_until(page, "element.getAttribute('href') === '/approvals'")
            page.keyboard.press("Enter")
            page.locator(FOLLOWS).wait_for()
            press_until(page, "element.value === 'allow'")
            page.keyboard.press("Enter")
            page.get_by_text("Approved.").wait_for()
            out, _ = process.communicate(timeout=60)
            press_until(page, "element.textContent === 'Log out'")
            page.keyboard.press("Enter")
            page.get_by_text("You are logged out.").wait_for()
        assert "answered by olga\nok" in out

    def test_a_session_that_is_over_leads_back_to_its_page(self, browser: Browser, server: PageServer) -> None:
        """Through the log-in, also where a link was followed."""
        with open_page(browser) as page:
            _log_in(page, server)
            page.locator(FOLLOWS).wait_for()
            server.clock.go_on(timedelta(hours=2))
            page.get_by_role("link", name="Audit").click()
            page.get_by_text("Log in to go on").wait_for()
            page.locator("#token:focus").wait_for()
            page.keyboard.type(server.tokens.add("olga", role="operator"))
            page.keyboard.press("Enter")
            page.wait_for_url(f"{server.url}/audit")

    def test_the_start_follows_what_happens(self, browser: Browser, server: PageServer) -> None:
        """A call that waits appears by itself."""
        with ToolRegistry(journal=server.journal.name) as registry, open_page(browser) as page:

            @registry.tool("pay", owned_by="ann", requires_approval=True)
            def pay(to: str) -> str:
                """Pay."""
                return to

            _log_in(page, server)
            page.locator(FOLLOWS).wait_for()
            registry.execute(ToolCall("x", "pay", {"to": "bob"}, "ann"))
            page.get_by_text("1call waits for you").wait_for()


class TestLayout:
    def test_a_phone_shows_rows_as_cards_and_where_one_is_in_the_menu(
        self, browser: Browser, server: PageServer
    ) -> None:
        """No column is beyond the edge; the menu is one row, and the entry of the page is in view."""
        with ToolRegistry(journal=server.journal.name) as registry:
            registry.tool("ask_for_a_long_name", shared=True, requires_approval=True, description="Ask.")(lambda: 1)
            registry.execute(ToolCall("x", "ask_for_a_long_name", {}, "ann"))
        with open_page(browser, viewport={"width": 375, "height": 700}) as page:
            _log_in(page, server)
            cell = page.locator("#live-requests td[data-label=tool]")
            assert "ask_for_a_long_name" == cell.inner_text()
            box = cell.bounding_box()
            assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 375
            page.goto(f"{server.url}/grants")
            entry, menu = (page.locator(f"header nav{part}").bounding_box() for part in (" a[aria-current]", ""))
            assert entry is not None and menu is not None
            assert entry["x"] >= 0 and entry["x"] + entry["width"] <= 375
            assert menu["height"] < 2.5 * entry["height"]

    @pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (768, "dark"), (375, "light"), (375, "dark")])
    def test_no_page_is_wider_than_its_window_and_no_policy_is_violated(
        self, browser: Browser, server: PageServer, width: int, scheme: str
    ) -> None:
        """From the log-in to the errors, with hostile texts and long names."""
        with ToolRegistry(journal=server.journal.name) as registry:

            @registry.tool("echo", owned_by="ann", requires_approval=True, approval_reason=HOSTILE)
            def echo(text: str) -> str:
                """Return a text."""
                return text

            with registry.run("r"):
                for text in (HOSTILE, "x" * 100_000):
                    registry.execute(ToolCall(None, "echo", {"text": text}, "ann"))
                    registry.execute(ToolCall(None, HOSTILE, {"text": text}, HOSTILE))
        size = {"width": width, "height": 900}
        with open_page(browser, viewport=size, color_scheme=scheme) as page:
            page.goto(f"{server.url}/login?why=out")
            assert 0 == page.evaluate(OVERFLOW)
            page.locator("#token:focus").wait_for()
            page.keyboard.type(server.tokens.add("long-name-" * 12, role="operator"))
            page.keyboard.press("Enter")
            page.wait_for_url(f"{server.url}/")
            for path in ("/", "/calls", "/runs/show?id=r", "/approvals", "/doubts", "/audit", "/statistics", "/login"):
                page.goto(server.url + path)
                assert (path, 0) == (path, page.evaluate(OVERFLOW))
