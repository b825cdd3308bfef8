"""The views in a real browser: live, by keyboard alone, narrow, dark, two operators, ends of sessions."""

# Tests of: routes

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from activity_rig import Server, serve_journal
from browser_rig import needs_chromium, open_page, press_until

from praval_tools import ToolCall, ToolRegistry

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = needs_chromium

DRIVER = Path(__file__).parents[1] / "support" / "approval_driver.py"
HOSTILE = '"><img src=x onerror=alert(1)><script>alert(1)</script>\u202e'
FOLLOWS = "text=Live: follows what happens."


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server over an empty journal."""
    with serve_journal(tmp_path / "runs.db") as server:
        yield server


@contextmanager
def _waiting_process(folder: Path) -> Iterator[subprocess.Popen[str]]:
    arguments = [sys.executable, str(DRIVER), "wait", str(folder), "r1"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


class TestApprovals:
    def test_a_call_of_another_process_is_approved_by_keyboard_alone(
        self, browser: Browser, server: Server, tmp_path: Path
    ) -> None:
        """It appears by itself, the process goes on, and it disappears from the page of a second operator."""
        with open_page(browser, server) as page, open_page(browser, server, "pia") as other:
            for each in (page, other):
                each.goto(f"{server.url}/approvals")
                each.locator(FOLLOWS).wait_for()
            with _waiting_process(tmp_path) as process:
                for each in (page, other):
                    each.get_by_role("button", name="Approve").wait_for()
                press_until(page, "element.name === 'reason'")
                page.keyboard.type("typed")
                press_until(page, "element.value === 'allow'")
                page.keyboard.press("Enter")
                page.get_by_text("Approved.").wait_for()
                out, _ = process.communicate(timeout=60)
            other.get_by_text("No call waits").wait_for()
        assert out.endswith("answered by olga\nok\n")
        (event,) = server.journal.events(type="approval_answered")
        assert "typed" == event.reason  # type: ignore[union-attr]

    def test_what_is_being_written_is_not_replaced_by_news(self, browser: Browser, server: Server) -> None:
        """The page says that there is news, and the other operator's answer makes the form stale."""
        with ToolRegistry(journal=server.journal.name) as registry:

            @registry.tool("zap", owned_by="ann", requires_approval=True)
            def zap(number: int) -> int:
                """Zap."""
                return number

            registry.execute(ToolCall("a", "zap", {"number": 1}, "ann"))
            with open_page(browser, server) as page, open_page(browser, server, "pia") as other:
                page.goto(f"{server.url}/approvals")
                other.goto(f"{server.url}/approvals")
                page.locator(FOLLOWS).wait_for()
                page.fill("input[name=reason]", "half a sen")
                other.get_by_role("button", name="Deny").click()
                page.get_by_text("There is news").wait_for()
                assert "half a sen" == page.input_value("input[name=reason]")
        # the form is stale: its answer is refused with 409, of which browsers write a line to the console
        assert 1 == len(list(server.journal.events(type="approval_answered")))


class TestLiveCalls:
    def test_calls_of_another_writer_appear(self, browser: Browser, server: Server) -> None:
        """On the page of all calls, and on that of their run."""
        with (
            ToolRegistry(journal=server.journal.name) as registry,
            open_page(browser, server) as page,
            open_page(browser, server) as run_page,
        ):

            @registry.tool("add", owned_by="ann")
            def add(number: int) -> int:
                """Add."""
                return number + 1

            with registry.run("r"):
                page.goto(f"{server.url}/calls")
                page.locator(FOLLOWS).wait_for()
                registry.execute(ToolCall("one", "add", {"number": 1}, "ann"))
                page.locator("table.calls tbody tr").wait_for()
                run_page.goto(f"{server.url}/runs/show?id=r")
                run_page.locator(FOLLOWS).wait_for()
                registry.execute(ToolCall("two", "add", {"number": 2}, "ann"))
                run_page.locator("table.calls tbody tr").nth(1).wait_for()
                page.locator("table.calls tbody tr").nth(1).wait_for()

    def test_a_session_that_is_over_is_said(self, browser: Browser, server: Server) -> None:
        """The stream ends, and is not opened again."""
        with open_page(browser, server) as page:
            page.goto(f"{server.url}/calls")
            page.locator(FOLLOWS).wait_for()
            server.host.ended_sessions.add("olga")
            with ToolRegistry(journal=server.journal.name) as registry:
                registry.execute(ToolCall("x", "none", {}, "ann"))
            page.get_by_text("Your session is over").wait_for()


class TestLayout:
    @pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (768, "dark"), (375, "light"), (375, "dark")])
    def test_no_page_is_wider_than_its_window_and_hostile_texts_run_nothing(
        self, browser: Browser, server: Server, width: int, scheme: str
    ) -> None:
        """Tables and charts scroll by themselves; nothing is said on the console, no policy is violated."""
        with ToolRegistry(journal=server.journal.name) as registry:

            @registry.tool("echo", owned_by="ann", requires_approval=True, approval_reason=HOSTILE)
            def echo(text: str) -> str:
                """Return a text."""
                return text

            with registry.run("r"):
                for text in (HOSTILE, "x" * 1_000_000, "word " * 2_000):
                    registry.execute(ToolCall(None, "echo", {"text": text}, "ann"))
                    registry.execute(ToolCall(None, HOSTILE, {"text": text}, HOSTILE))
        size = {"width": width, "height": 900}
        with open_page(browser, server, viewport=size, color_scheme=scheme) as page:
            for path in ("/calls", "/runs", "/runs/show?id=r", "/approvals", "/doubts", "/audit", "/statistics"):
                page.goto(server.url + path)
                overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
                assert (path, 0) == (path, page.evaluate(overflow))
