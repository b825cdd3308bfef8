"""The site of the documentation in a browser, as wide as a phone and as a screen: nothing is cut off or missing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from browser_rig import needs_chromium, open_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, ViewportSize

pytestmark = needs_chromium

NARROW: ViewportSize = {"width": 400, "height": 800}
WIDE: ViewportSize = {"width": 1280, "height": 800}
IS_AT_REST = """
    width => innerWidth === width && document.getAnimations().length === 0 &&
        [...document.querySelectorAll("article table:not([class])")].every(table => table.closest(".md-typeset__table"))
"""
"""The parts of the page have moved to their places, and the site's script has let each table scroll by itself."""
SCROLLS_SIDEWAYS = "document.scrollingElement.scrollWidth > innerWidth"
PICTURES = "Array.from(document.images, picture => [picture.src, picture.naturalWidth])"


class _Files(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def url(site: Path) -> Iterator[str]:
    """The address of the site, on a server of this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Files, directory=str(site))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@contextmanager
def open_site(browser: Browser, site: Path) -> Iterator[Page]:
    """Open a page as wide as a phone; searches find nothing, since each page would build the index of all of them."""
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    with open_page(browser, viewport=NARROW) as page:
        page.route("**/search_index.json", lambda route: route.fulfill(json={**index, "docs": []}))
        yield page


def list_pages(site: Path) -> list[str]:
    """Return the paths of all pages."""
    return [path.relative_to(site).as_posix().removesuffix("index.html") for path in sorted(site.rglob("*.html"))]


def find_faults(page: Page, pages: dict[str, str]) -> list[str]:
    """Return what a reader of these pages, given by names, cannot see: sides beyond the window, and pictures."""
    faults = []
    for name, url in pages.items():
        page.goto(url)
        page.add_style_tag(content="*, ::before, ::after { transition: none !important }")  # nothing to wait for
        for size in (NARROW, WIDE):
            page.set_viewport_size(size)
            page.wait_for_function(IS_AT_REST, arg=size["width"])
            if page.evaluate(SCROLLS_SIDEWAYS):
                faults.append(f"{name} scrolls sideways at {size['width']} px")
        faults += [f"{name} lacks {source}" for source, width in page.evaluate(PICTURES) if not width]
    return faults


class TestSite:
    def test_no_page_scrolls_sideways_and_every_picture_is_there(self, browser: Browser, site: Path, url: str) -> None:
        """Each page, the one for addresses that are not there included, at 400 and at 1280 pixels."""
        pages = list_pages(site)
        assert {"", "404.html", "tutorial/", "reference/registry/"} < set(pages)
        with open_site(browser, site) as page:
            assert [] == find_faults(page, {name: f"{url}/{name}" for name in pages})

    def test_planted_faults_are_seen(self, browser: Browser, tmp_path: Path) -> None:
        """The check sees a page that is wider than a phone, one wider than a screen, and a picture that is missing."""
        texts = {
            "fits": "<p>text",
            "narrow": "<div style='width: 500px'>text</div>",
            "wide": "<html style='overflow-x: hidden'><div style='width: 1300px'>text</div>",
            "picture": "<img src='data:image/png;base64,'>",
        }
        pages = {name: f"data:text/html,<!doctype html>{text}" for name, text in texts.items()}
        with open_page(browser, viewport=NARROW) as page:
            assert [
                "narrow scrolls sideways at 400 px",
                "wide scrolls sideways at 400 px",
                "wide scrolls sideways at 1280 px",
                "picture lacks data:image/png;base64,",
            ] == find_faults(page, pages)

    def test_its_navigation_opens_on_a_phone(self, browser: Browser, site: Path, url: str) -> None:
        """It is hidden until it is opened; then it leads to a page, and by a section to one of its pages."""
        with open_site(browser, site) as page:
            page.goto(f"{url}/")
            navigation, button = page.locator("nav.md-nav--primary"), page.locator("header label[for=__drawer]")
            tutorial = navigation.get_by_role("link", name="Tutorial", exact=True)
            right_edge = "link => link.getBoundingClientRect().right"
            assert 0 >= tutorial.evaluate(right_edge)
            button.click()
            tutorial.click()
            page.wait_for_url(f"{url}/tutorial/")
            button.click()
            navigation.get_by_text("How to", exact=True).first.click()
            navigation.get_by_role("link", name="Declare tools", exact=True).click()
            page.wait_for_url(f"{url}/how-to/declare/")
