"""axe-core finds no serious problem on any page, light and dark, with typical and hostile data; on both stores."""

# Tests of: app, page, routes, start

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browser_rig import needs_chromium
from operator_page_rig import PageServer, serve_page
from store_rig import make_database
from web_access_rig import fill_grants, fill_registry

from praval_tools import ToolCall, ToolRegistry

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

axe = pytest.importorskip("axe_playwright_python", reason="axe-playwright-python, which brings axe-core, is missing")
pytestmark = needs_chromium

PAGES = (
    "/", "/calls", "/runs", "/runs/show?id=night", "/approvals", "/doubts", "/audit", "/statistics", "/matrix",
    "/matrix/cell?agent=intern&tool=pay", "/tools", "/tools/show?name=pay", "/agents", "/agents/show?name=intern",
    "/graph", "/grants?state=all", "/advice?days=7", "/nowhere",
)  # fmt: skip
SERIOUS = ("serious", "critical")


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    """The page of a program with grants of every state, calls, a run, and one that waits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRAVAL_TOOLS_KEY", "a key that all processes share")
        if request.param == "postgres":
            with make_database() as url:
                yield from _serve(url)
        else:
            yield from _serve(tmp_path_factory.mktemp("page") / "runs.db")


def _serve(place: str | Path) -> Iterator[PageServer]:
    with ToolRegistry(journal=place) as registry:
        fill_registry(registry)
        fill_grants(registry)
        registry.tool("ask", shared=True, requires_approval=True, description="Ask.")(lambda: 1)
        registry.execute(ToolCall("waits", "ask", {}, "intern"))
        with registry.run("night"):
            registry.execute(ToolCall("1", "pay", {"amount": 1}, "intern"))
        with serve_page(registry) as server:
            yield server


def _open_context(browser: Browser, server: PageServer, scheme: Any) -> BrowserContext:
    """Return a browser that is logged in, and may run axe-core, which the policy of the pages forbids to others."""
    context = browser.new_context(color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    page.goto(f"{server.url}/login")
    page.fill("#token", server.tokens.add("olga", role="operator"))
    page.keyboard.press("Enter")
    page.wait_for_url(f"{server.url}/")
    page.close()
    return context


class TestPages:
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_have_no_serious_problem(self, browser: Browser, server: PageServer, scheme: str) -> None:
        """By the rules of WCAG that axe-core checks; each page is one that this server has."""
        script = (files(axe) / "axe.min.js").read_text("utf-8")
        context, found = _open_context(browser, server, scheme), dict[str, list[str]]()
        for address in PAGES:
            page = context.new_page()
            answer = page.goto(server.url + address)
            assert answer is not None and answer.status == (404 if address == "/nowhere" else 200), address
            if address.startswith("/advice"):
                page.locator("table").first.wait_for()  # it is made beside the request
            page.evaluate(script)
            violations = page.evaluate("axe.run().then(result => result.violations)")
            serious = [one for one in violations if one["impact"] in SERIOUS]
            if serious:
                found[address] = [f"{one['id']}: {json.dumps(one['nodes'][0]['html'])[:300]}" for one in serious]
            page.close()
        context.close()
        assert {} == found
