"""The page of an agent and a tool: every rule, and the forms that change access; viewers, stale and wrong forms."""

# Tests of: cell, changes

from __future__ import annotations

import csv
import io
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from html import escape
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from operator_page_rig import serve_page
from web_access_rig import HOSTILE, AccessServer, fill_registry, read_form, serve_access

from praval_tools import ToolCall, ToolRegistry
from praval_tools.report.event_text import describe_event

CELL = "/matrix/cell?agent=intern&tool=pay"


def send(client: httpx.Client, change: str, url: str = CELL, **fields: str) -> httpx.Response:
    """Send the form of a page."""
    return client.post("/matrix/change", data={**read_form(client.get(url).text, change), **fields})


def find_form(text: str, change: str) -> str:
    """Return the form of a page that does *change*."""
    forms: list[str] = re.findall(r"<form.*?</form>", text, re.DOTALL)
    return next(form for form in forms if f'name="change" value="{change}"' in form)


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait for what another process learns several times a second."""
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class TestRules:
    def test_every_rule_is_there_in_order(self, client: httpx.Client, registry: ToolRegistry) -> None:
        """As `explain` says it, with what would change it as a command."""
        page = client.get(CELL).text
        rules = re.findall(r'<th scope="row">(?:<b>)?([a-z]+)', page)
        assert [tried.rule for tried in registry.explain("intern", "pay").tried] == rules
        assert "praval-tools assign pay intern" in page

    def test_a_recorded_call_is_explained_beside_what_holds_now(
        self, server: AccessServer, client: httpx.Client, registry: ToolRegistry
    ) -> None:
        """With its arguments, also where only the journal is known; an event of others, or none, is not shown."""
        registry.grant("pay", "intern", where={"amount": {"maximum": 100}})
        registry.execute(ToolCall("c", "pay", {"to": HOSTILE, "amount": 200}, "intern"))
        (refusal,) = (record for record in server.journal.store.read() if record.type == "call_refused")
        page = client.get(f"{CELL}&event={refusal.seq}").text
        for words in ("amount is larger than 100", "amount=200", "wider bounds", '<span class="chip good">allowed'):
            assert words in page
        assert "<script>alert" not in page
        for url in (f"{CELL}&event={2**62}", f"/matrix/cell?agent=intern&tool=csv_parse&event={refusal.seq}"):
            assert "amount=200" not in client.get(url).text
        with serve_access(server.journal.name) as alone, alone.open_client() as other:
            assert "amount is larger than 100" in other.get(f"{CELL}&event={refusal.seq}").text

    def test_an_unknown_tool_is_not_found(self, client: httpx.Client) -> None:
        """Similar names are proposed, and nothing can be changed."""
        answer = client.get("/matrix/cell?agent=intern&tool=payy")
        assert 404 == answer.status_code
        assert "pay" in answer.text and "/matrix/change" not in answer.text
        assert 404 == client.get("/matrix/cell?agent=&tool=pay").status_code
        assert 404 == client.get(f"/matrix/cell?agent={quote('a:<b>')}&tool=pay").status_code


class TestChanges:
    def test_a_grant_with_all_its_terms(self, client: httpx.Client, registry: ToolRegistry) -> None:
        """Bounds, expiry, count, reason; who granted it is in the journal."""
        answer = send(
            client, "grant", where='{"amount": {"maximum": 100}}', expires="2h", max_calls="3", delegable="yes",
            reason="month's end",
        )  # fmt: skip
        assert 303 == answer.status_code
        (grant,) = registry.grants(tool="pay", agent="intern")
        assert (3, {"amount": {"maximum": 100}}, True) == (grant.max_calls, grant.where, grant.delegable)
        assert grant.expires is not None and grant.made is not None
        assert 7200 == round((grant.expires - grant.made).total_seconds())
        assert ("operator", "olga", "month's end") == (grant.by, grant.person, grant.reason)
        page = client.get(answer.headers["location"]).text
        assert "Granted." in page and "3 of 3" in page and ">olga</td>" in page

    def test_each_change_is_journaled_with_who_made_it(
        self, client: httpx.Client, registry: ToolRegistry, server: AccessServer
    ) -> None:
        """Grant, revoke, take away, block, lift: one after the other."""
        for change in ("grant", "revoke", "grant", "remove", "block", "lift"):
            before = registry.state
            answer = send(client, change, reason=f"for {change}")
            assert 303 == answer.status_code, answer.text
            assert before is not registry.state
        changes = [record.event for record in server.journal.read() if hasattr(record.event, "reason")]
        texts = [describe_event(event) for event in changes]
        assert ["assigned", "grant revoked", "assigned", "unassigned", "blocked", "unblocked"] == [
            text.action for text in texts
        ]
        assert all("for " in text.reason and "olga" == text.actor for text in texts)
        assert {("operator", "olga")} == {(event.by, event.person) for event in changes}

    def test_who_made_a_change_is_shown_wherever_it_decides(
        self, client: httpx.Client, registry: ToolRegistry, server: AccessServer
    ) -> None:
        """In the rules, under Grants and in the audit trail, also once the grant has ended."""
        send(client, "grant", reason="as agreed")
        decision = registry.explain("intern", "pay")
        assert "'olga' (operator) granted 'pay' to 'intern': as agreed." == decision.reason
        wait_until(lambda: "olga" in client.get("/audit?type=tool_assigned").text)
        send(client, "revoke")
        assert "by olga" in client.get("/grants?state=revoked").text
        assert "revoked by &#x27;olga&#x27; (operator)" in client.get("/grants?state=revoked").text
        send(client, "block", reason="for now")
        assert "'olga' (operator) blocked 'intern' from 'pay': for now." == registry.explain("intern", "pay").reason
        wait_until(lambda: "tool_blocked" in client.get("/audit.jsonl").text)
        assert 3 == client.get("/audit.jsonl").text.count('"person":"olga","id"')
        rows = list(csv.DictReader(io.StringIO(client.get("/audit.csv").text)))
        assert ["olga"] * 3 == [row["who"] for row in rows]

    def test_who_disabled_a_tool_is_named(self, client: httpx.Client, registry: ToolRegistry) -> None:
        """In the rules and on the page of the tool; disabled again by somebody else, nothing changes."""
        with registry.as_operator(person="olga"):
            registry.disable("pay", reason="for now")
        with registry.as_operator(person="pia"):
            registry.disable("pay", reason="for now")
        assert "'olga' (operator)" in registry.explain("intern", "pay").reason
        assert "is disabled by olga" in client.get("/tools/show?name=pay").text

    def test_another_process_sees_it(self, client: httpx.Client, tmp_path: Path) -> None:
        """The same journal, opened by the program itself."""
        with ToolRegistry(journal=tmp_path / "runs.db") as program:
            fill_registry(program)
            assert not program.explain("intern", "pay").allowed
            for change, rule in (("grant", "granted"), ("block", "blocked")):
                assert 303 == send(client, change).status_code
                wait_until(lambda rule=rule: rule == program.explain("intern", "pay").rule)  # type: ignore[misc]

    def test_a_tool_is_granted_again_after_it_was_taken_away(
        self, client: httpx.Client, registry: ToolRegistry
    ) -> None:
        """A grant of the page is a new one."""
        for change in ("grant", "remove", "grant"):
            assert 303 == send(client, change).status_code
        assert registry.explain("intern", "pay").allowed

    def test_what_a_change_does_not_do_is_said(self, client: httpx.Client, registry: ToolRegistry) -> None:
        """A grant of what is shared narrows nothing; it is made all the same."""
        answer = send(client, "grant", "/matrix/cell?agent=intern&tool=clock", max_calls="1")
        assert 200 == answer.status_code
        assert "Granted." in answer.text and "narrows nothing" in answer.text and "unassign" in answer.text
        assert 1 == len(registry.grants(tool="clock"))

    def test_the_first_of_two_grants_is_revoked(self, client: httpx.Client, registry: ToolRegistry) -> None:
        """The button is that of its grant."""
        first, second = registry.grant("pay", "intern", max_calls=1), registry.grant("pay", "intern", max_calls=2)
        assert 303 == send(client, "revoke").status_code
        assert [second.id] == [grant.id for grant in registry.grants(tool="pay")]
        assert first.id not in client.get(CELL).text


class TestRefusals:
    @pytest.mark.parametrize(
        ("fields", "text"),
        [
            ({"where": "{"}, "bounds are not JSON"),
            ({"where": "[1]"}, "not a JSON object"),
            ({"where": '{"amount": 1, "amount": 2}'}, "twice"),
            ({"where": '{"no_such": {}}'}, "no_such"),
            ({"max_calls": "0"}, "number of calls"),
            ({"max_calls": "1e9"}, "number of calls"),
            ({"expires": "soon"}, "not a time"),
            ({"expires": "2020-01-01"}, ""),
            ({"expires": "999999999w"}, ""),
            ({"change": "destroy"}, "nothing that can be done"),
            ({"change": "revoke", "grant": "unknown"}, "no such grant"),
        ],
    )
    def test_a_wrong_form_changes_nothing(
        self, client: httpx.Client, registry: ToolRegistry, fields: dict[str, str], text: str
    ) -> None:
        """What is wrong is said."""
        before = registry.state.access_by_agent
        answer = client.post("/matrix/change", data={**read_form(client.get(CELL).text, "grant"), **fields})
        assert 400 == answer.status_code
        assert text in answer.text and "Nothing was changed" in answer.text
        assert before == registry.state.access_by_agent

    def test_a_wrong_form_comes_back_with_what_was_typed(self, client: httpx.Client, registry: ToolRegistry) -> None:
        """Exactly, also where it is markup; sent again, it counts."""
        typed = {"where": '\n{"amount": </textarea><script>', "max_calls": "7", "expires": "2h", "delegable": "yes"}
        typed["reason"] = "\"><b>month's\u202e end"
        answer = send(client, "grant", **typed)
        form = find_form(answer.text, "grant")
        assert f">\n{escape(typed['where'])}</textarea>" in form
        for name in ("max_calls", "expires", "reason"):
            assert f'value="{escape(typed[name])}"' in form
        assert 'value="yes" checked=""' in form
        assert "<script>" not in answer.text
        fields = {**read_form(answer.text, "grant"), **typed, "where": '{"amount": {"maximum": 1}}'}
        assert 303 == client.post("/matrix/change", data=fields).status_code
        assert [7] == [grant.max_calls for grant in registry.grants(tool="pay", agent="intern")]

    def test_a_stale_form_comes_back_with_what_was_changed_meanwhile(
        self, client: httpx.Client, registry: ToolRegistry, server: AccessServer
    ) -> None:
        """By whom, and why; sent again knowingly, it counts."""
        fields = {**read_form(client.get(CELL).text, "grant"), "reason": "half an hour of words", "max_calls": "4"}
        registry.grant("clock", "clerk", reason="of others")
        with server.open_client("pia") as other:
            assert 303 == send(other, "grant", reason="by pia", max_calls="2").status_code
        answer = client.post("/matrix/change", data=fields)
        assert 409 == answer.status_code
        assert "pia: assigned" in answer.text and "by pia" in answer.text and "of others" not in answer.text
        assert 'value="half an hour of words"' in find_form(answer.text, "grant")
        again = {**read_form(answer.text, "grant"), "reason": fields["reason"], "max_calls": "4"}
        assert 303 == client.post("/matrix/change", data=again).status_code
        assert [2, 4] == sorted(grant.max_calls or 0 for grant in registry.grants(tool="pay", agent="intern"))

    def test_what_was_typed_into_a_form_that_is_there_no_more_is_shown(
        self, client: httpx.Client, registry: ToolRegistry
    ) -> None:
        """It can be copied."""
        fields = {**read_form(client.get(CELL).text, "block"), "reason": "half an hour of <words>"}
        registry.block("pay", "intern")
        answer = client.post("/matrix/change", data=fields)
        assert (409, True) == (answer.status_code, "half an hour of &lt;words&gt;" in answer.text)

    def test_a_viewer_gets_no_form_and_may_send_none(self, server: AccessServer, registry: ToolRegistry) -> None:
        """Also one that an operator's page had."""
        with server.open_client() as operator, server.open_client("viewer") as viewer:
            fields = read_form(operator.get(CELL).text, "grant")
            assert "<form" not in viewer.get(CELL).text
            assert 403 == viewer.post("/matrix/change", data={**fields, "token": "token-of-viewer"}).status_code
            assert 403 == operator.post("/matrix/change", data={**fields, "token": "forged"}).status_code
            assert 405 == operator.get("/matrix/change").status_code
        assert [] == registry.grants()

    @pytest.mark.parametrize("change", ["grant", "block", "remove", "lift", "revoke"])
    def test_a_stale_form_changes_nothing(
        self, client: httpx.Client, registry: ToolRegistry, server: AccessServer, change: str
    ) -> None:
        """Somebody else was faster."""
        registry.grant("pay", "intern", key="old")
        if change == "lift":
            registry.block("pay", "intern")
        fields = read_form(client.get(CELL).text, change)
        with server.open_client("pia") as other:
            assert 303 == send(other, "lift" if change == "lift" else "block").status_code
        before = registry.state.access_by_agent
        answer = client.post("/matrix/change", data=fields)
        assert 409 == answer.status_code
        assert "has changed since" in answer.text and "Nothing was changed" in answer.text
        assert before == registry.state.access_by_agent

    @pytest.mark.parametrize("change", ["grant", "block"])
    def test_a_change_of_another_process_makes_a_form_stale(
        self, client: httpx.Client, tmp_path: Path, registry: ToolRegistry, change: str
    ) -> None:
        """Also one that this process does not know of yet."""
        fields = read_form(client.get(CELL).text, change)
        with ToolRegistry(journal=tmp_path / "runs.db") as program:
            fill_registry(program)
            program.block("pay", "intern", reason="of the program")
        assert 409 == client.post("/matrix/change", data=fields).status_code
        assert ["of the program"] == [block.reason for block in registry.state.get_access("intern", "pay").blocks]

    def test_of_many_forms_at_once_one_counts(self, client: httpx.Client, registry: ToolRegistry) -> None:
        """A button that is pressed again and again."""
        fields = read_form(client.get(CELL).text, "grant")
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: client.post("/matrix/change", data=fields).status_code, range(8)))
        assert [303, *[409] * 7] == sorted(answers)
        assert 1 == len(registry.grants(tool="pay", agent="intern"))

    def test_calls_and_changes_of_others_make_no_form_stale(self, client: httpx.Client, registry: ToolRegistry) -> None:
        """A busy program can be operated."""
        registry.grant("pay", "intern", max_calls=5)
        fields = read_form(client.get(CELL).text, "block")
        registry.agent("intern").tools.call("pay", to="bob", amount=1)
        registry.grant("clock", "clerk")
        assert 303 == client.post("/matrix/change", data=fields).status_code

    def test_a_program_without_a_journal_is_not_changed(self, tmp_path: Path) -> None:
        """The change would end with the page."""
        with ToolRegistry() as registry:
            fill_registry(registry)
            with serve_access(tmp_path / "runs.db", registry) as server, server.open_client() as client:
                page = client.get(CELL).text
                assert "<form" not in page and "no journal that lasts" in page
                fields = {"change": "grant", "agent": "intern", "tool": "pay", "token": "token-of-olga", "revision": ""}
                assert 409 == client.post("/matrix/change", data=fields).status_code
            assert [] == registry.grants()


class TestWholePage:
    def test_who_logged_in_is_recorded_and_a_viewer_changes_nothing(self, registry: ToolRegistry) -> None:
        """With the server's own log-in and form tokens."""
        with serve_page(registry) as server:
            with server.log_in("vera", role="viewer") as viewer, server.log_in("olga") as operator:
                assert "<h2>" in viewer.get(CELL).text and "/matrix/change" not in viewer.get(CELL).text
                fields = read_form(operator.get(CELL).text, "grant")
                assert 403 == viewer.post("/matrix/change", data=fields).status_code
                assert [] == registry.grants()
                answer = operator.post("/matrix/change", data={**fields, "reason": "as agreed"})
                assert 303 == answer.status_code
            assert [("olga", "as agreed")] == [(grant.person, grant.reason) for grant in registry.grants()]
