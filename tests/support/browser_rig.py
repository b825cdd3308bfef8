"""Pages in Chromium: opened so that nothing may be said on their consoles, and used by keyboard alone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed: apt-get install chromium")


class WebServer(Protocol):
    """A server whose users are named by the cookie `user`."""

    url: str


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Start Chromium without its sandbox, which root cannot use; skip the test where playwright is missing."""
    playwright_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def open_page(browser: Browser, server: WebServer | None = None, user: str = "olga", **options: Any) -> Iterator[Page]:
    """
    Open a page in a browser of its own; at the end nothing was said on its console: no policy was violated.

    Args:
        browser: Chromium.
        server: One that takes any user; the page is that of *user* there.
        user: Who uses it.
        options: How the page is shown, such as `color_scheme`.
    """
    context = browser.new_context(**options)
    if server is not None:
        context.add_cookies([{"name": "user", "value": user, "url": server.url}])
    page, problems = context.new_page(), list[str]()
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: problems.append(dialog.message))
    yield page
    context.close()
    assert [] == problems


def press_until(page: Page, expression: str) -> None:
    """Press the tabulator until this is true of what has the focus; the focus is seen all the time."""
    for _ in range(60):
        page.keyboard.press("Tab")
        style = "getComputedStyle(document.activeElement).outlineStyle"
        assert "none" != page.evaluate(style), page.evaluate("document.activeElement.outerHTML")
        if page.evaluate(f"(element => {expression})(document.activeElement)"):
            return
    raise AssertionError(f"nothing with {expression} takes the focus")
