"""The views of access in a real browser: narrow, by keyboard alone, hostile texts, two operators."""

# Tests of: routes, cell

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from browser_rig import needs_chromium, open_page
from web_access_rig import AccessServer, fill_grants

from praval_tools import Agent, ToolCall, ToolRegistry

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = needs_chromium

PAGES = (
    "/matrix", "/matrix/cell?agent=intern&tool=pay", "/tools", "/tools/show?name=hostile", "/agents",
    "/agents/show?name=clerk", "/graph", "/grants?state=all",
)  # fmt: skip
NARROW = {"width": 375, "height": 800}
LONG_TOOL = ("transfer_money_between_accounts_" * 2)[:60]
LONG_AGENT = ("accounting_" * 6)[:60]
LONG_PAGES = (
    f"/matrix/cell?agent={LONG_AGENT}&tool={LONG_TOOL}", f"/tools/show?name={LONG_TOOL}",
    f"/statistics?tool={LONG_TOOL}",
    f"/agents/show?name={LONG_AGENT}", f"/agents/show?name={LONG_AGENT}_unknown", f"/statistics?agent={LONG_AGENT}",
    "/grants?state=all", "/graph", "/calls", "/statistics?days=1", "/tools", "/agents", "/matrix",
)  # fmt: skip
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
CUT_AT_THE_LEFT = """[...document.querySelectorAll('svg text')].filter(label => label.getBBox().x < 0)
    .map(label => label.textContent)"""
OUTSIDE = """[...document.querySelectorAll('.listing:not(.figures) :is(td, th, a), .figures th[scope="row"]')]
    .filter(part => part.getBoundingClientRect().right
        > document.documentElement.clientWidth / (part.closest('.figures') ? 2 : 1))
    .map(part => part.textContent)"""


class TestNarrow:
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_no_page_is_wider_than_a_phone(
        self, browser: Browser, server: AccessServer, registry: ToolRegistry, scheme: str
    ) -> None:
        """Tables scroll by themselves; hostile texts run nothing."""
        fill_grants(registry)
        with open_page(browser, server, viewport=NARROW, color_scheme=scheme) as page:
            for address in PAGES:
                page.goto(f"{server.url}{address}")
                assert 375 == page.evaluate("document.documentElement.scrollWidth"), address
                assert page.locator("h2").first.is_visible()

    def test_long_names_are_broken_or_cut_at_their_ends(
        self, browser: Browser, server: AccessServer, registry: ToolRegistry
    ) -> None:
        """
        No heading, cell or label of a chart is wider than its place; figures stand beside the name, not beyond it.

        Broken promise: no page is wider than a phone. Headings with a name of 60 characters were.
        """
        Agent(LONG_AGENT, registry=registry)
        registry.tool(LONG_TOOL, owned_by=LONG_AGENT, description="Transfer.")(lambda: 1)
        registry.grant(LONG_TOOL, "intern", reason="because_" * 40)
        registry.revoke(registry.grant("pay", LONG_AGENT, reason="because_" * 40), reason="over_" * 60)
        for agent in (LONG_AGENT, "intern", "undeclared_" * 5):
            registry.execute(ToolCall(None, LONG_TOOL, {}, agent))
        with open_page(browser, server, viewport={"width": 400, "height": 800}) as page:
            for address in LONG_PAGES:
                page.goto(f"{server.url}{address}")
                found = tuple(page.evaluate(expression) for expression in (OVERFLOW, CUT_AT_THE_LEFT, OUTSIDE))
                assert (address, 0, [], []) == (address, *found)


class TestKeyboard:
    def test_a_tool_is_granted_from_the_matrix(
        self, browser: Browser, server: AccessServer, registry: ToolRegistry
    ) -> None:
        """Filter, cell, form: no mouse, on a phone's width."""
        with open_page(browser, server, viewport=NARROW) as page:
            page.goto(f"{server.url}/matrix")
            page.get_by_label("Tool name has").focus()
            page.keyboard.type("pay")
            page.keyboard.press("Enter")
            page.wait_for_url("**name=pay**")
            page.locator('a[href="/matrix/cell?agent=intern&tool=pay"]').focus()
            page.keyboard.press("Enter")
            page.wait_for_url("**/matrix/cell**")
            page.get_by_label("For at most so many calls").focus()
            page.keyboard.type("3")
            page.keyboard.press("Tab")
            page.keyboard.type("2h")
            page.keyboard.press("Tab")
            page.keyboard.type('{"amount": {"maximum": 100}}')
            page.keyboard.press("Tab")
            page.keyboard.press("Tab")
            page.keyboard.type("as agreed")
            page.keyboard.press("Enter")
            page.get_by_text("Granted.", exact=True).wait_for()
        (grant,) = registry.grants(tool="pay", agent="intern")
        assert (3, {"amount": {"maximum": 100}}, "olga", "as agreed", False) == (
            grant.max_calls, grant.where, grant.person, grant.reason, grant.delegable
        )  # fmt: skip

    def test_a_form_with_wrong_bounds_is_corrected_and_sent_again(
        self, browser: Browser, server: AccessServer, registry: ToolRegistry
    ) -> None:
        """Nothing that was typed is lost: the answer page holds it, and its form counts."""
        context = browser.new_context()
        context.add_cookies([{"name": "user", "value": "olga", "url": server.url}])
        page = context.new_page()
        page.goto(f"{server.url}/matrix/cell?agent=intern&tool=pay")
        page.fill("#grant-where", '\n\n{"amount": {"maximum": 100}')
        page.fill("#grant-max_calls", "3")
        page.fill("#grant-reason", "a long reason \u202e")
        page.get_by_role("button", name="Grant").click()
        page.get_by_text("The bounds are not JSON").wait_for()
        assert '\n\n{"amount": {"maximum": 100}' == page.input_value("#grant-where")
        assert "a long reason \u202e" == page.input_value("#grant-reason")
        page.fill("#grant-where", '{"amount": {"maximum": 100}}')
        registry.grant("pay", "intern", max_calls=9)
        page.get_by_role("button", name="Grant").click()
        page.get_by_text("What was changed meanwhile").wait_for()
        page.get_by_role("button", name="Grant").click()
        page.get_by_text("Granted.", exact=True).wait_for()
        context.close()
        assert {3, 9} == {grant.max_calls for grant in registry.grants(tool="pay", agent="intern")}

    def test_a_table_is_scrolled_with_the_keyboard(self, browser: Browser, server: AccessServer) -> None:
        """It can be focused."""
        with open_page(browser, server, viewport=NARROW) as page:
            page.goto(f"{server.url}/matrix")
            region = page.get_by_role("region", name="Matrix")
            region.focus()
            page.keyboard.press("ArrowRight")
            for _ in range(100):  # the policy of the page forbids `wait_for_function`, which evaluates a text there
                if page.evaluate("document.querySelector('.tall').scrollLeft > 0"):
                    return
                page.wait_for_timeout(50)
        raise AssertionError("the table was not scrolled")

    def test_a_command_is_copied_as_it_is(self, browser: Browser, server: AccessServer, registry: ToolRegistry) -> None:
        """Several spaces in a name are not one, which would be the name of another agent."""
        Agent("odd  name", registry=registry, tool_categories=["finance"])
        with open_page(browser, server) as page:
            page.goto(f"{server.url}/advice?days=7")
            page.locator("td.commands code").first.wait_for()
            commands = page.locator("td.commands code").all_inner_texts()
        assert "praval-tools unassign pay 'odd  name'" in commands


class TestTwoOperators:
    def test_the_second_reads_that_something_changed(
        self, browser: Browser, server: AccessServer, registry: ToolRegistry
    ) -> None:
        """Both have opened the same cell."""
        address = f"{server.url}/matrix/cell?agent=intern&tool=pay"
        with open_page(browser, server) as first, _open_refused(browser, server) as second:
            first.goto(address)
            second.goto(address)
            first.get_by_role("button", name="Block").click()
            first.get_by_text("Blocked.", exact=True).wait_for()
            second.get_by_role("button", name="Grant").click()
            second.get_by_text("has changed since this page was made").wait_for()
            second.get_by_role("link", name="What holds now").click()
            second.get_by_role("button", name="Lift the block").wait_for()
        assert [] == registry.grants()


@contextmanager
def _open_refused(browser: Browser, server: AccessServer) -> Iterator[Page]:
    """Open a page whose console may name a refusal."""
    context = browser.new_context()
    context.add_cookies([{"name": "user", "value": "pia", "url": server.url}])
    yield context.new_page()
    context.close()
