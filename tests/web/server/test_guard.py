"""What no page of this server sends is refused: foreign names and origins, forged and stale forms, viewers, tricks."""

# Tests of: guard, app, page, http_server

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from operator_page_rig import HOSTILE, PageServer, read_form, serve_page
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from praval_tools import ToolCall, ToolRegistry
from praval_tools.errors import JournalError
from praval_tools.report.markup import Markup
from praval_tools.web.activity.activity import Activity
from praval_tools.web.activity.host import Host
from praval_tools.web.server.guard import POLICY
from praval_tools.web.server.page import ViewPackage
from praval_tools.web.server.settings import PageSettings

HEADERS = {
    "content-security-policy": POLICY, "x-content-type-options": "nosniff", "x-frame-options": "DENY",
    "referrer-policy": "no-referrer", "cache-control": "no-store", "cross-origin-resource-policy": "same-origin",
}  # fmt: skip
GET_PATHS = [
    "/",
    "/matrix",
    "/calls",
    "/runs",
    "/approvals",
    "/doubts",
    "/audit",
    "/audit.csv",
    "/audit.jsonl",
    "/statistics",
]


class _MoreViews:
    """Views of another package, which fail."""

    def __init__(self, host: Host) -> None:
        self.host = host

    async def fail(self, request: Request) -> Response:
        raise RuntimeError(f"secret {HOSTILE}")

    async def miss_journal(self, request: Request) -> Response:
        raise JournalError("runs.db", f"it is gone {HOSTILE}", "Restore it.")

    async def show(self, request: Request) -> Response:
        return self.host.render_page(request, HOSTILE, Markup("<p>more</p>"))


def _build_more_routes(host: Host) -> list[Route]:
    views = _MoreViews(host)
    return [
        Route("/more", views.show),
        Route("/more/fail", views.fail),
        Route("/more/journal", views.miss_journal),
        Route("/more/change", views.show, methods=["POST"]),
    ]


MORE = ViewPackage(
    menu=[("/more", HOSTILE)], build_routes=_build_more_routes, styles=["/more.css"], scripts=["/more.js"]
)  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    """A page over a registry and its journal, with a call that waits, hostile texts, and views of another package."""
    path = tmp_path_factory.mktemp("journal") / "runs.db"
    with ToolRegistry(journal=path) as registry:

        @registry.tool("pay", owned_by="ann", requires_approval=True, approval_reason=HOSTILE)
        def pay(to: str) -> str:
            """Pay."""
            return to

        registry.execute(ToolCall("one", "pay", {"to": HOSTILE}, "ann"))
        registry.execute(ToolCall("two", HOSTILE, {"to": HOSTILE}, HOSTILE))
        with serve_page(registry, (MORE,)) as server:
            yield server


def _list_post_paths(server: PageServer) -> list[str]:
    """Return the addresses of all forms, as the routes say."""
    return [route.path for route in server.routes if "POST" in (route.methods or ()) and route.path != "/login"]


def _send_raw(server: PageServer, request: bytes) -> bytes:
    """Send bytes as they are; return what comes, also where the server hangs up before it has read all."""
    answer = b""
    with suppress(ConnectionError), socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(request)
        while chunk := connection.recv(65_536):
            answer += chunk
    return answer or b"HTTP/1.1 400 hung up"


class TestHeaders:
    def test_are_on_every_answer(self, server: PageServer) -> None:
        """Pages, files, exports, redirects, refusals, errors: nothing inline runs, nothing is framed or kept."""
        seen = set()
        with server.log_in() as client, server.open_client() as outside:
            answers = [client.get(path) for path in (*GET_PATHS, "/more", "/more/fail", "/more/journal", "/none")]
            answers += [outside.get(path) for path in ("/", "/login", "/page.css", "/icon.svg", "/activity/live.js")]
            answers += [client.post(path) for path in ("/calls", "/approvals/answer", "/login")]
            answers += [outside.post("/login", data={"token": "x"}), outside.post("/calls")]
            answers += [client.post("/approvals/answer", content=b"x" * 3_000_000), client.request("TRACE", "/")]
            answers += [client.get("/", headers={"host": "evil.example"}), client.get("/?" + "x" * 20_000)]
        for answer in answers:
            seen.add(answer.status_code)
            assert HEADERS == {name: answer.headers.get(name) for name in HEADERS}, answer.url
            assert "server" not in answer.headers
        assert {200, 303, 400, 401, 403, 404, 405, 413, 414, 500, 503} <= seen

    def test_pages_hold_nothing_inline(self, server: PageServer) -> None:
        """No script, style or handler in the page itself: the policy would stop it."""
        with server.log_in() as client:
            for path in ("/", "/calls", "/approvals", "/audit", "/statistics", "/login", "/more"):
                text = client.get(path).text
                assert not re.search(
                    r"<style|<script(?! src=)|\son\w+=|\sstyle=|javascript:|https?://(?!www\.w3\.org)", text
                )


class TestNames:
    @pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "[::1]:{port}", "LOCALHOST"])
    def test_of_the_loopback_are_taken(self, server: PageServer, host: str) -> None:
        """With the port or another, as a forwarded one has."""
        with server.open_client() as client:
            assert 200 == client.get("/login", headers={"host": host.format(port=server.port)}).status_code

    @pytest.mark.parametrize("host", [
        "evil.example", "evil.example:8790", "127.0.0.1.evil.example", "127.0.0.1@evil.example", "localhost:80:80", "",
        "localhost:x", "[::1", "0.0.0.0", "127.0.0.1, evil.example",
    ])  # fmt: skip
    def test_of_others_are_refused(self, server: PageServer, host: str) -> None:
        """A page whose name was rebound to the loopback reads nothing and sends nothing."""
        with server.open_client() as client:
            for method in ("GET", "POST"):
                assert 400 == client.request(method, "/login", headers={"host": host}).status_code

    def test_must_be_given_once(self, server: PageServer) -> None:
        """None, or two of them, say nothing."""
        for head in (b"GET /login HTTP/1.0\r\n", b"GET /login HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n"):
            assert b" 400 " in _send_raw(server, head + b"Connection: close\r\n\r\n").split(b"\r\n")[0]

    def test_that_were_named_are_taken(self) -> None:
        """Those of `--allow-host`."""
        settings = PageSettings(hosts=["Page.example.com"])
        assert settings.is_host_allowed("page.example.com:443")
        assert not settings.is_host_allowed("example.com")


class TestForms:
    @pytest.mark.parametrize("headers", [
        {"origin": "http://evil.example"}, {"origin": "http://127.0.0.1:1"}, {"origin": "https://127.0.0.1:{port}"},
        {"origin": "null"}, {}, {"origin": "null", "sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"},
        {"origin": "http://evil.example", "sec-fetch-site": "same-origin"}, {"origin": ""},
    ])  # fmt: skip
    def test_of_other_pages_are_refused(self, server: PageServer, headers: dict[str, str]) -> None:
        """Also the form of the log-in, and of pages on other ports of this machine."""
        with server.log_in() as client:
            fields = {**read_form(client.get("/approvals").text, "/approvals/answer"), "answer": "deny"}
            token = server.tokens.add("olga", role="operator")
            del client.headers["origin"]
            sent = {name: value.format(port=server.port) for name, value in headers.items()}
            for path, data in (("/approvals/answer", fields), ("/login", {"token": token}), ("/logout", fields)):
                assert 403 == client.post(path, data=data, headers=sent).status_code
            assert 200 == client.get("/").status_code
        assert [] == list(server.journal.read(type="approval_answered"))

    def test_that_a_browser_calls_its_own_are_taken(self, server: PageServer) -> None:
        """Where it may not say the origin, it says whether that is the same."""
        with server.open_client() as client:
            del client.headers["origin"]
            data, sent = {"token": "wrong"}, {"origin": "null", "sec-fetch-site": "same-origin"}
            assert "does not count" in client.post("/login", data=data, headers=sent).text
        server.clock.go_on(timedelta(minutes=2))

    def test_without_the_token_of_the_session_change_nothing(self, server: PageServer) -> None:
        """Each form has one, of its own session: that of another person or an earlier log-in is stale."""
        with server.log_in() as client, server.log_in("pia") as other:
            fields = {**read_form(client.get("/approvals").text, "/approvals/answer"), "answer": "deny"}
            for token in ("", "forged", "é", read_form(other.get("/approvals").text, "/logout")["form_token"]):
                answer = client.post("/approvals/answer", data={**fields, "form_token": token})
                assert (403, True) == (answer.status_code, "not of this session" in answer.text)
            for path in _list_post_paths(server):
                answer = client.post(path, data={**fields, "form_token": "forged"})
                assert 403 == answer.status_code or path == "/more/change"
            client.post("/login", data={"token": server.tokens.add("olga", role="operator")})
            assert 403 == client.post("/approvals/answer", data=fields).status_code
        assert [] == list(server.journal.read(type="approval_answered"))

    def test_of_a_session_that_is_over_say_so(self, server: PageServer) -> None:
        """Nothing was changed by them; what was typed can be copied, unless it is long."""
        with server.log_in() as client:
            fields = {**read_form(client.get("/approvals").text, "/approvals/answer"), "answer": "deny"}
            server.clock.go_on(timedelta(hours=2))
            answer = client.post("/approvals/answer", data={**fields, "reason": "not <b>today</b>"})
            long_answer = client.post("/approvals/answer", data={**fields, "reason": "no " * 5_000})
        assert (401, 401) == (answer.status_code, long_answer.status_code)
        assert "Nothing was changed" in answer.text and "Nothing was changed" in long_answer.text
        assert "not &lt;b&gt;today&lt;/b&gt;" in answer.text
        assert fields["form_token"] not in answer.text and "no no" not in long_answer.text
        assert [] == list(server.journal.read(type="approval_answered"))

    def test_of_viewers_are_refused_everywhere(self, server: PageServer) -> None:
        """Whatever the address, also those of other packages; they see no form but the log-out."""
        paths = _list_post_paths(server)
        assert {"/approvals/answer", "/doubts/resolve", "/matrix/change", "/more/change", "/logout"} <= set(paths)
        with server.log_in("vera", "viewer") as client, server.log_in() as operator:
            page = client.get("/approvals").text
            assert ["/logout"] == re.findall(r'<form[^>]*method="post"[^>]*action="([^"]*)"', page)
            own = read_form(page, "/logout")
            fields = {**read_form(operator.get("/approvals").text, "/approvals/answer"), "answer": "deny", **own}
            for path in paths:
                for method in ("POST", "PUT", "DELETE", "PATCH"):
                    if (path, method) != ("/logout", "POST"):
                        assert client.request(method, path, data=fields).status_code in (403, 405)
            assert 200 == client.get("/").status_code
        assert [] == list(server.journal.read(type="approval_answered"))

    def test_without_a_session_reach_nothing(self, server: PageServer) -> None:
        """Neither pages nor files nor forms, but those of the log-in."""
        with server.open_client() as client:
            for path in (*GET_PATHS, "/activity/stream?topic=calls", "/activity/live.js", "/none", "/calls/content"):
                assert "/login" == client.get(path).headers["location"].partition("?")[0]
                assert 401 == client.get(path, headers={"accept": "*/*"}).status_code
            for path in _list_post_paths(server):
                assert 401 == client.post(path, data={"answer": "allow"}).status_code


class TestTricks:
    @pytest.mark.parametrize("target", [
        b"/../../etc/passwd", b"/activity/../../../page.py", b"/%2e%2e/%2e%2e/etc/passwd", b"/page.css%00", b"/%00",
        b"/login/../calls", b"/page.css/../calls", b"/page.css%2f..%2fcalls", b"//calls", b"/calls/", b"/CALLS", b"*",
        b"/\xff\xfe", b"/%ff%fe", b"/login;/calls", b"/login%3f/calls", b"/./calls", b"http://evil.example/calls",
        b"/" + b"a" * 20_000, b"/" + b"a" * 200_000, b"/calls?x=" + b"%00" * 8_000,
    ])  # fmt: skip
    def test_of_paths_lead_to_the_log_in_or_nowhere(self, server: PageServer, target: bytes) -> None:
        """Without a session no spelling of an address shows a page; with one it is a page or there is none."""
        host = f"Host: 127.0.0.1:{server.port}\r\nConnection: close\r\nAccept: text/html\r\n".encode()
        answer = _send_raw(server, b"GET " + target + b" HTTP/1.1\r\n" + host + b"\r\n")
        status = int(answer.split(b" ", 2)[1])
        assert status in (303, 400, 404, 414, 431)
        assert b"root:" not in answer
        if status == 303:
            assert re.search(rb"\r\nlocation: /login[?\r]", answer)
        with server.log_in() as client:
            cookie = f"Cookie: {server.settings.cookie_name}={client.cookies[server.settings.cookie_name]}\r\n"
            inside = _send_raw(server, b"GET " + target + b" HTTP/1.1\r\n" + host + cookie.encode() + b"\r\n")
        assert int(inside.split(b" ", 2)[1]) in (400, 404, 414, 431)

    @pytest.mark.parametrize("head", [
        b"Content-Length: 99999999999999999999", b"Content-Length: -1", b"Content-Length: 3000000",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5", b"Cookie: " + b"a=b; " * 10_000, b"X: \x00", b"X\x00: 1",
    ])  # fmt: skip
    def test_of_heads_are_refused(self, server: PageServer, head: bytes) -> None:
        """Nobody is let in by them, and the server goes on."""
        own = f"Host: 127.0.0.1:{server.port}\r\nOrigin: {server.origin}\r\nConnection: close\r\n".encode()
        answer = _send_raw(server, b"POST /login HTTP/1.1\r\n" + own + head + b"\r\n\r\n")
        assert int(answer.split(b" ", 2)[1]) in (400, 413, 431)
        with server.open_client() as client:
            assert 200 == client.get("/login").status_code

    def test_of_sizes_are_refused_while_they_come(self, server: PageServer) -> None:
        """A body without a length is not read further than the bound; a log-in is short."""
        form = {"content-type": "application/x-www-form-urlencoded"}
        with server.log_in() as client, server.open_client() as outside:
            chunks = (b"a" * 100_000 for _ in range(30))
            assert 413 == client.post("/approvals/answer", content=chunks, headers=form).status_code
            assert 413 == outside.post("/login", content=b"token=" + b"a" * 100_000, headers=form).status_code
        server.clock.go_on(timedelta(minutes=2))


class TestPages:
    def test_hostile_texts_are_texts(self, server: PageServer) -> None:
        """Also in the menu, titles and errors."""
        with server.log_in() as client:
            for path in ("/", "/calls", "/approvals", "/audit", "/more", "/more/journal"):
                text = client.get(path).text
                assert "<script>alert" not in text
                assert "\u202e" not in text

    def test_errors_show_nothing_of_the_inside(self, server: PageServer) -> None:
        """An error of a view is a page without its text; one of the journal says what to do."""
        with server.log_in() as client:
            answer = client.get("/more/fail")
            assert 500 == answer.status_code
            assert "secret" not in answer.text
            assert "Traceback" not in answer.text
            assert "Restore it." in client.get("/more/journal").text

    def test_the_frame_has_what_readers_and_keyboards_need(self, server: PageServer) -> None:
        """A link past the menu first, one heading of the page, the entry of the menu that is shown, all packages."""
        with server.log_in() as client:
            text = client.get("/runs").text
        assert text.index('class="skip"') < text.index("<nav")
        assert 1 == text.count("<h1")
        assert ['<a href="/runs" aria-current="page">Runs</a>'] == re.findall(r"<a[^>]*aria-current[^>]*>.*?</a>", text)
        for part in ('href="/more"', 'href="/more.css"', 'src="/more.js"', 'lang="en"', server.journal.name):
            assert part in text


class TestStart:
    def test_shows_what_waits_and_what_happened(self, tmp_path: Path) -> None:
        """Calls that wait, calls, refusals and failures of the last hour, each with its link."""
        with ToolRegistry(journal=tmp_path / "runs.db") as registry, serve_page(tmp_path / "runs.db") as server:

            @registry.tool("work", owned_by="ann")
            def work(fail: bool = False) -> int:
                """Work."""
                return 1 // (not fail)

            @registry.tool("pay", owned_by="ann", requires_approval=True)
            def pay(to: str) -> str:
                """Pay."""
                return to

            for name, arguments, agent in (
                ("work", {}, "ann"), ("work", {"fail": True}, "ann"), ("work", {}, "bob"), ("work", {}, "eve"),
                ("pay", {"to": "x"}, "ann"),
            ):  # fmt: skip
                registry.execute(ToolCall(None, name, arguments, agent))
            server.activity.index.catch_up()
            with server.log_in() as client:
                text = client.get("/").text
        assert all(word in text for word in ("Calls that wait", "by zero", "Latest calls", "to=&quot;x"))
        assert re.search("nothing gives it this tool. <a href=./matrix/cell[?]agent=eve&amp;tool=work&amp;event=", text)
        counts = re.findall(r"<b[^>]*>([\d,]+)</b><span>([^<]*)</span>", text)
        assert [
            ("1", "call waits for you"), ("0", "calls in doubt"), ("4", "calls in the last hour"),
            ("2", "refusals in the last hour"), ("1", "failure in the last hour"),
        ] == counts  # fmt: skip

    def test_says_what_to_expect_where_nothing_is_recorded(self, tmp_path: Path) -> None:
        """Figures of 0 stand back, and pages of what waits say once that nothing does."""
        with serve_page(tmp_path / "runs.db") as server, server.log_in() as client:
            assert "No call is recorded yet" in client.get("/").text
            assert 5 == client.get("/").text.count('<b class="zero">0</b>')
            assert "0 calls" not in client.get("/approvals").text + client.get("/doubts").text


def test_streams_end_when_the_token_does(tmp_path: Path) -> None:
    """A page that is open learns it at the next heart-beat or news."""
    with serve_page(tmp_path / "runs.db") as server, server.log_in() as client:
        accept = {"accept": "text/event-stream"}
        with client.stream("GET", "/activity/stream?topic=calls", headers=accept) as stream:
            lines = stream.iter_lines()
            assert "retry: 1000" == next(lines)
            server.tokens.revoke(server.tokens.list()[0].id)
            assert 303 == client.get("/").status_code
            with ToolRegistry(journal=server.journal.name) as registry:
                registry.execute(ToolCall("x", "none", {}, "ann"))
            assert any("The session is over." in line for line in lines)


def test_activity_is_what_the_server_follows(tmp_path: Path) -> None:
    """It is started with the server, and closed with it."""
    with serve_page(tmp_path / "runs.db") as server:
        assert isinstance(server.activity, Activity)
        with server.open_client() as client:
            assert 200 == client.get("/login").status_code
        assert server.activity.index._thread is not None
    assert not server.activity.index._thread.is_alive()
