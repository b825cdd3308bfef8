"""Answers on the page: approvals that other processes wait for, calls in doubt, stale forms, viewers, wrong forms."""

# Tests of: approvals, doubts, forms, typed, activity, paging

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from activity_rig import Server, serve_journal
from store_rig import make_location

from praval_tools import Allow, ApprovalRequest, ToolCall, ToolInDoubtError, ToolRegistry
from praval_tools.schema.json_input import parse_typed_json
from praval_tools.web.activity.activity import edit_arguments

DRIVER = Path(__file__).parents[1] / "support" / "approval_driver.py"
Process = subprocess.Popen[str]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server over the journal of the other process."""
    with serve_journal(tmp_path / "runs.db") as server:
        yield server


@pytest.fixture
def waiting(server: Server, tmp_path: Path) -> Iterator[Process]:
    """Another process, which waits for an approval."""
    with _start_driver(tmp_path) as process:
        yield process
        process.kill()


def _start_driver(folder: Path, journal: str | Path | None = None) -> Process:
    place = str(journal or folder / "runs.db")
    arguments = [sys.executable, str(DRIVER), "wait", str(folder), "r1", place]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("asked")
    return process


def _open_client(server: Server, user: str = "olga") -> httpx.Client:
    return httpx.Client(base_url=server.url, cookies={"user": user}, timeout=30)


def _read_form(text: str, action: str, number: int = 0) -> dict[str, str]:
    """Return the fields of a form of a page, as a browser would send them."""
    form = re.findall(rf'<form[^>]*action="{action}".*?</form>|<form.*?action="{action}".*?</form>', text, re.DOTALL)[
        number
    ]
    fields = dict(re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', form))
    return {name: unescape(value) for name, value in fields.items()}


class TestApprovals:
    @pytest.mark.parametrize("kind", ["sqlite", "postgres"])
    def test_a_process_that_waits_goes_on_when_the_page_approves(
        self, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What will run is shown, and who asked; who answered is in the journal, whichever store it is in."""
        monkeypatch.setenv("PRAVAL_TOOLS_KEY", "a key that all processes share")
        with make_location(kind, tmp_path) as where, serve_journal(where) as server, _open_client(server) as client:
            waiting = _start_driver(tmp_path, where)
            page = client.get("/approvals").text
            for word in ("clerk", "pay", "risk", "bob", "amount", "1 call waiting"):
                assert word in page
            fields = _read_form(page, "/approvals/answer")
            answer = client.post("/approvals/answer", data={**fields, "answer": "allow", "reason": "as agreed"})
            assert 303 == answer.status_code
            assert "Approved." in client.get(answer.headers["location"]).text
            assert "No call waits" in client.get("/approvals").text
            out, _ = waiting.communicate(timeout=60)
            (event,) = server.journal.read(type="approval_answered")
        assert ["answered by olga", "ok"] == out.split("\n")[:2]
        assert ("olga", "as agreed") == (event.event.by, event.event.reason)  # type: ignore[union-attr]

    def test_a_denial_ends_the_call(self, server: Server, waiting: Process) -> None:
        """The tool does not run."""
        with _open_client(server) as client:
            fields = _read_form(client.get("/approvals").text, "/approvals/answer")
            client.post("/approvals/answer", data={**fields, "answer": "deny", "reason": "no"})
        out, _ = waiting.communicate(timeout=60)
        assert "approval_denied" in out

    def test_edited_arguments_run(self, server: Server, waiting: Process, tmp_path: Path) -> None:
        """All of them are in the form; one that is changed is what runs."""
        with _open_client(server) as client:
            page = client.get("/approvals").text
            assert "{&quot;to&quot;: &quot;bob&quot;, &quot;amount&quot;: 5}" in page
            fields = _read_form(page, "/approvals/answer")
            edit = {"answer": "allow", "arguments": '{"to": "bob", "amount": 2}'}
            assert 303 == client.post("/approvals/answer", data={**fields, **edit}).status_code
        out, _ = waiting.communicate(timeout=60)
        assert "ok" in out
        assert "2 to bob\n" == (tmp_path / "effects").read_text()

    def test_the_second_of_two_operators_gets_a_message_and_changes_nothing(
        self, server: Server, waiting: Process
    ) -> None:
        """A form that was opened before somebody else answered."""
        with _open_client(server) as first, _open_client(server, "pia") as second:
            fields = _read_form(first.get("/approvals").text, "/approvals/answer")
            stale = _read_form(second.get("/approvals").text, "/approvals/answer")
            first.post("/approvals/answer", data={**fields, "answer": "deny"})
            answer = second.post("/approvals/answer", data={**stale, "answer": "allow"})
        assert 409 == answer.status_code
        assert "Nothing was changed" in answer.text
        assert 1 == len(list(server.journal.read(type="approval_answered")))
        out, _ = waiting.communicate(timeout=60)
        assert "approval_denied" in out

    def test_what_was_typed_comes_back_with_a_refusal(self, server: Server, waiting: Process) -> None:
        """In the form where it is wrong; to be copied where somebody else answered."""
        typed = {"answer": "allow", "arguments": '{"amount": <2>', "reason": 'half an hour of "words"'}
        with _open_client(server) as client, _open_client(server, "pia") as other:
            fields = {**_read_form(client.get("/approvals").text, "/approvals/answer"), **typed}
            wrong = client.post("/approvals/answer", data=fields)
            assert 'value="half an hour of &quot;words&quot;"' in wrong.text
            assert "\n{&quot;amount&quot;: &lt;2&gt;</textarea>" in wrong.text
            denial = {**_read_form(other.get("/approvals").text, "/approvals/answer"), "answer": "deny"}
            assert 303 == other.post("/approvals/answer", data=denial).status_code
            stale = client.post("/approvals/answer", data=fields)
        assert [400, 409] == [wrong.status_code, stale.status_code]
        assert "half an hour of &quot;words&quot;" in stale.text

    @pytest.mark.parametrize(
        ("user", "changed", "status"),
        [
            ("viewer", {}, 403),
            ("olga", {"token": "forged"}, 403),
            ("olga", {"answer": "perhaps"}, 400),
            ("olga", {"arguments": "[1]"}, 400),
            ("olga", {"arguments": "{"}, 400),
            ("olga", {"arguments": '{"amount": 1, "amount": 2}'}, 400),
            ("olga", {"id": "none"}, 409),
            ("olga", {"reason": "x" * 3_000_000}, 413),
        ],
    )
    def test_a_form_that_may_not_or_cannot_count_changes_nothing(
        self, server: Server, waiting: Process, user: str, changed: dict[str, str], status: int
    ) -> None:
        """Viewers, forged and damaged forms."""
        with _open_client(server) as operator, _open_client(server, user) as client:
            fields = {**_read_form(operator.get("/approvals").text, "/approvals/answer"), "answer": "allow", **changed}
            assert status == client.post("/approvals/answer", data=fields).status_code
            assert 400 == operator.post("/approvals/answer", json=fields).status_code
            twice = b"&".join([f"token={quote(fields['token'])}".encode()] * 2)
            form = {"content-type": "application/x-www-form-urlencoded"}
            assert 400 == operator.post("/approvals/answer", content=twice, headers=form).status_code
        assert [] == list(server.journal.read(type="approval_answered"))

    def test_a_viewer_sees_no_form(self, server: Server, waiting: Process) -> None:
        """What waits is shown to look at."""
        with _open_client(server, "viewer") as client:
            page = client.get("/approvals").text
        assert "bob" in page
        assert "<button" not in page


class TestManyApprovals:
    def test_are_shown_a_page_at_a_time(self, server: Server, tmp_path: Path) -> None:
        """Each page says how many wait in all; each call is on one of them, and an answer leads back to its page."""
        with ToolRegistry(journal=tmp_path / "runs.db") as registry, _open_client(server) as client:
            registry.tool("zap", owned_by="ann", requires_approval=True)(_zap)
            for number in range(1, 121):
                registry.execute(ToolCall(f"call-{number:03}", "zap", {"number": number}, "ann"))
            texts, address = list[str](), "/approvals"
            for _ in range(3):
                texts.append(client.get(address).text)
                links = re.findall('<a href="([^"]*)">Later calls</a>', texts[-1])
                address = links[0] if links else ""
            assert ("", 3) == (address, sum("120 calls waiting" in text for text in texts))
            shown = [sorted(set(re.findall(r"<code>(call-\d+)</code>", text))) for text in texts]
            assert [50, 50, 20] == [len(calls) for calls in shown]
            assert [f"call-{number:03}" for number in range(1, 121)] == sum(shown, [])
            assert "Calls 51 to 100 of 120." in texts[1]
            assert '<a href="/approvals">Earlier calls</a>' in texts[1]

            fields = _read_form(texts[2], "/approvals/answer", 0)
            answer = client.post("/approvals/answer", data={**fields, "answer": "deny"})
            after = client.get(answer.headers["location"]).text
        assert ("/approvals?done=deny&start=100", True) == (answer.headers["location"], "101 to 119 of 119" in after)

    def test_the_call_of_a_refused_form_is_shown_first(self, server: Server, tmp_path: Path) -> None:
        """Whichever page it was on, with what was typed; the address of a page that does not exist says so."""
        with ToolRegistry(journal=tmp_path / "runs.db") as registry, _open_client(server) as client:
            registry.tool("zap", owned_by="ann", requires_approval=True)(_zap)
            for number in range(51):
                registry.execute(ToolCall(f"call-{number:03}", "zap", {"number": number}, "ann"))
            fields = _read_form(client.get("/approvals?start=50").text, "/approvals/answer")
            wrong = client.post("/approvals/answer", data={**fields, "answer": "allow", "arguments": "[]"})
            assert (400, "call-050") == (wrong.status_code, re.findall("<code>(call-[0-9]+)</code>", wrong.text)[0])
            assert "There are only 51 calls." in client.get("/approvals?start=900").text


def _zap(number: int) -> int:
    """Zap."""
    return number


def _request(**arguments: object) -> ApprovalRequest:
    from datetime import UTC, datetime

    now = datetime.now(UTC)
    return ApprovalRequest(
        id="a", tool_call_id="c", tool="t", agent="x", chain=(), arguments=arguments, risk_level="low", reason="",
        run_id=None, fingerprint="", asked=now, expires=now, digest="",
    )  # fmt: skip


class TestEdits:
    @pytest.mark.parametrize(
        ("text", "are_changes", "expected"),
        [
            ("", False, None),
            ('{"to": "ann", "amount": 5}', False, None),
            ('{"amount": 5, "to": "ann"}', False, None),
            ('{"to": "ann"}', False, {"to": "ann"}),
            ('{"to": "ann", "amount": true}', False, {"to": "ann", "amount": True}),
            ('{"amount": 7}', True, {"to": "ann", "amount": 7}),
            ("{}", True, None),
        ],
    )
    def test_what_is_written_is_what_runs(
        self, text: str, are_changes: bool, expected: dict[str, object] | None
    ) -> None:
        """All arguments, or what differs; a form that changes nothing does not edit."""
        assert expected == edit_arguments(_request(to="ann", amount=5), text, are_changes=are_changes)

    def test_a_form_has_the_fields_that_a_class_makes(self) -> None:
        """Broken promise: a form that was sent with another note refused the call for a field that it showed."""

        @dataclass
        class Order:
            amount: int
            total: int = field(init=False, default=9)

        def pay(order: Any, note: str = "") -> str:
            """Pay."""
            return f"{order.total} {note}"

        pay.__annotations__["order"] = Order
        with ToolRegistry(journal="memory") as registry:
            registry.tool(owned_by="ann", requires_approval=True)(pay)
            call = ToolCall("c", "pay", {"order": {"amount": 1}}, "ann")
            registry.execute(call)
            (request,) = registry.approvals.pending()
            text = json.dumps({**request.arguments, "note": "checked"})
            registry.approvals.answer("c", Allow(edit_arguments(request, text, are_changes=False)))

            assert "9 checked" == registry.execute(call).result

    @pytest.mark.parametrize("text", ["NaN", '{"a": 1, "a": 2}', "[" * 100_000, "{"])
    def test_what_is_not_plain_json_is_refused(self, text: str) -> None:
        """Also where Python's parser takes it."""
        with pytest.raises(ValueError, match="."):
            parse_typed_json(text)


PROGRAM = """
import os, sys
from praval_tools import ToolCall, ToolRegistry

registry = ToolRegistry(journal=sys.argv[1])

@registry.tool("wire", owned_by="ann")
def wire(amount: int) -> str:
    "Wire."
    os._exit(7)

with registry.run("=1/&%41 <b>"):
    registry.execute(ToolCall("c1", "wire", {"amount": 3}, "ann"))
"""


def test_brackets_in_texts_are_no_nesting() -> None:
    """Also behind quotes with a backslash; a text that does not end is refused at once."""
    assert ["[" * 500 + '"'] == parse_typed_json('["' + "[" * 500 + '\\""]')
    with pytest.raises(ValueError):
        parse_typed_json('["' + '\\"' * 500_000)


class TestDoubts:
    @pytest.fixture
    def doubt(self, server: Server, tmp_path: Path) -> str:
        """A run whose process died in a call; its id is hostile."""
        run = [sys.executable, "-c", PROGRAM, str(tmp_path / "runs.db")]
        assert 7 == subprocess.run(run, check=False, timeout=60).returncode
        return "=1/&%41 <b>"

    def test_a_call_that_runs_is_not_called_in_doubt(self, server: Server, tmp_path: Path) -> None:
        """Neither among the latest calls nor on the page of its run; both offer nothing to resolve."""
        with ToolRegistry(journal=tmp_path / "runs.db") as registry, _open_client(server) as client:
            pages = list[str]()

            @registry.tool("look", owned_by="ann")
            def look() -> int:
                """Look at the page meanwhile."""
                server.activity.index.catch_up()
                pages.extend(client.get(path).text for path in ("/calls", "/runs/show?id=r"))
                return 1

            with registry.run("r"):
                assert "ok" == registry.execute(ToolCall("c1", "look", {}, "ann")).outcome
        for page in pages:
            assert '<span class="chip calm">running</span>' in page
            assert "/doubts/show" not in page

    def test_a_run_shows_where_another_process_went_on(self, server: Server, doubt: str, tmp_path: Path) -> None:
        """Between the calls of both, in the chart and in the table; the call without a result leads to its form."""
        with _open_client(server) as client:
            assert "Another process" not in client.get("/runs/show", params={"id": doubt}).text
            with ToolRegistry(journal=tmp_path / "runs.db") as registry:
                registry.tool("look", owned_by="ann", description="Look.")(lambda: 1)
                with registry.run(doubt):
                    registry.execute(ToolCall("c2", "look", {}, "ann"))
            server.activity.index.catch_up()
            page = client.get("/runs/show", params={"id": doubt}).text
        rows = page.partition("<tbody>")[2]
        assert rows.index("wire") < rows.index("Another process opened the run again") < rows.index("look")
        assert ">next process</text>" in page
        assert re.search('<a href="/doubts"><b class="ask">1</b><span>without a result', page)

    @staticmethod
    def _go_on(path: Path, run_id: str) -> str:
        """Open the run again, as its program would; return what the call gives."""
        with ToolRegistry(journal=path) as registry:

            @registry.tool("wire", owned_by="ann")
            def wire(amount: int) -> str:
                """Wire."""
                return f"ran again with {amount}"

            with registry.run(run_id):
                try:
                    ended = registry.execute(ToolCall("c1", "wire", {"amount": 3}, "ann"))
                    return f"{ended.result} {ended.error}"
                except ToolInDoubtError:
                    return "in doubt"

    @pytest.mark.parametrize(
        ("answer", "outcome"),
        [
            ({"answer": "result", "result": '"sent"'}, "sent"),
            ({"answer": "error", "error": "the bank was closed"}, "bank was closed"),
            ({"answer": "rerun"}, "ran again with 3"),
        ],
    )
    def test_a_doubt_that_is_resolved_lets_the_run_go_on(
        self, server: Server, doubt: str, tmp_path: Path, answer: dict[str, str], outcome: str
    ) -> None:
        """With the result, the error, or by running again; the journal says by whom."""
        with _open_client(server) as client:
            page = client.get("/doubts/show", params={"run": doubt, "call": "c1"}).text
            number = ["result", "error", "rerun"].index(answer["answer"])
            fields = _read_form(page, "/doubts/resolve", number)
            done = client.post("/doubts/resolve", data={**fields, **answer})
            assert 303 == done.status_code
            again = client.post("/doubts/resolve", data={**fields, **answer})
            assert 409 == again.status_code
        assert outcome in self._go_on(tmp_path / "runs.db", doubt)
        assert any("olga" == getattr(event, "by", "") for event in server.journal.events())

    def test_a_form_of_an_earlier_doubt_does_not_resolve_a_later_one(
        self, server: Server, doubt: str, tmp_path: Path
    ) -> None:
        """It was resolved, ran again, and crashed again: somebody has to look anew."""
        with _open_client(server) as client:
            page = client.get("/doubts/show", params={"run": doubt, "call": "c1"}).text
            stale = _read_form(page, "/doubts/resolve", 0)
            rerun = _read_form(page, "/doubts/resolve", 2)
            client.post("/doubts/resolve", data=rerun)
            subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path / "runs.db")], check=False, timeout=60)
            answer = client.post("/doubts/resolve", data={**stale, "result": "1"})
        assert 409 == answer.status_code
        assert "once more" in answer.text

    @pytest.mark.parametrize("result", ["1e999", "[-1e999]", '"\\ud800"', '{"\\ud800": 1}', "[" * 900 + "]" * 900])
    def test_a_result_that_no_store_takes_is_refused_with_its_reason(
        self, server: Server, doubt: str, result: str
    ) -> None:
        """Numbers that are too large, half of a surrogate pair, deep nesting: nothing is changed."""
        with _open_client(server) as client:
            page = client.get("/doubts/show", params={"run": doubt, "call": "c1"}).text
            fields = {**_read_form(page, "/doubts/resolve", 0), "result": result}
            answer = client.post("/doubts/resolve", data=fields)
        assert (400, True) == (answer.status_code, "Nothing was changed" in answer.text)

    def test_what_was_typed_comes_back_with_a_refusal(self, server: Server, doubt: str) -> None:
        """In the form where it is wrong; to be copied where somebody else resolved it."""
        with _open_client(server) as client:
            page = client.get("/doubts/show", params={"run": doubt, "call": "c1"}).text
            fields = {**_read_form(page, "/doubts/resolve", 0), "result": "half an hour of <words>"}
            wrong = client.post("/doubts/resolve", data=fields)
            assert "\nhalf an hour of &lt;words&gt;</textarea>" in wrong.text
            client.post("/doubts/resolve", data=_read_form(page, "/doubts/resolve", 2))
            stale = client.post("/doubts/resolve", data={**fields, "result": '"half an hour"'})
        assert [400, 409] == [wrong.status_code, stale.status_code]
        assert "&quot;half an hour&quot;" in stale.text

    def test_a_run_that_is_open_is_left_to_its_process(self, server: Server, doubt: str, tmp_path: Path) -> None:
        """The form says so, and changes nothing."""
        with _open_client(server) as client, ToolRegistry(journal=tmp_path / "runs.db") as registry:
            fields = _read_form(
                client.get("/doubts/show", params={"run": doubt, "call": "c1"}).text, "/doubts/resolve", 2
            )
            with registry.run(doubt):
                answer = client.post("/doubts/resolve", data=fields)
        assert 409 == answer.status_code
        assert "Nothing was changed" in answer.text

    @pytest.mark.parametrize(
        ("user", "changed", "status"),
        [
            ("viewer", {}, 403),
            ("olga", {"token": ""}, 403),
            ("olga", {"result": "sent"}, 400),
            ("olga", {"answer": "error", "error": " "}, 400),
            ("olga", {"answer": "x"}, 400),
            ("olga", {"seq": "x"}, 400),
            ("olga", {"call": "none"}, 409),
        ],
    )
    def test_wrong_forms_change_nothing(
        self, server: Server, doubt: str, user: str, changed: dict[str, str], status: int
    ) -> None:
        """Viewers, forged and damaged forms."""
        count = server.journal.count()
        with _open_client(server) as operator, _open_client(server, user) as client:
            page = operator.get("/doubts/show", params={"run": doubt, "call": "c1"}).text
            fields = {**_read_form(page, "/doubts/resolve", 0), "result": "1", **changed}
            assert status == client.post("/doubts/resolve", data=fields).status_code
            assert 404 == client.get("/doubts/show", params={"run": doubt, "call": "none"}).status_code
        assert count == server.journal.count()
