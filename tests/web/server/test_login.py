"""Logging in and out, over real HTTP: guessed tokens, sessions and their ends, cookies, where a log-in leads."""

# Tests of: guard, logins, login_views, login_limits, sessions, settings

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlencode

import httpx
import pytest
from clocks import HandClock
from operator_page_rig import PageServer, read_form, serve_page

from praval_tools import ToolCall, ToolRegistry
from praval_tools.journal.tokens import open_tokens
from praval_tools.web.server.login_limits import MAX_ADDRESSES, MAX_ATTEMPTS, MAX_ATTEMPTS_OF_ADDRESS, LoginLimits
from praval_tools.web.server.logins import ONE_TIME_SPAN, Login, Logins
from praval_tools.web.server.sessions import MAX_SESSIONS_OF_PERSON, Sessions
from praval_tools.web.server.settings import PageSettings


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PageServer]:
    """A page over an empty journal."""
    with serve_page(tmp_path / "runs.db") as server:
        yield server


def _is_in(client: httpx.Client) -> bool:
    return 200 == client.get("/").status_code


class TestTokens:
    @pytest.mark.parametrize("role", ["operator", "viewer"])
    def test_of_people_log_in(self, server: PageServer, role: str) -> None:
        """The page names the person and the role; the token is in no page."""
        token = server.tokens.add("olga", role=role)
        with server.open_client() as client:
            assert 303 == client.post("/login", data={"token": token}).status_code
            page = client.get("/").text
        assert f'olga</span> <span class="chip {"good" if role == "operator" else "calm"}">{role}' in page
        assert token not in page

    def test_of_agents_and_wrong_ones_do_not(self, server: PageServer) -> None:
        """Nor what is empty, cut, revoked or expired; what was given is not shown again."""
        revoked = server.tokens.add("olga", role="operator")
        server.tokens.revoke(server.tokens.list()[0].id)
        short = server.tokens.add("pia", role="operator", expires=timedelta(hours=1))
        server.clock.go_on(timedelta(hours=1))
        right = server.tokens.add("pia", role="operator")
        with server.open_client() as client:
            for token in (server.tokens.add("analyst"), revoked, short, "", right[:-1], "<script>", "é\u202e"):
                answer = client.post("/login", data={"token": token})
                assert 403 == answer.status_code
                assert "set-cookie" not in answer.headers
                assert not token or token not in answer.text
                assert not _is_in(client)

    def test_that_count_once_count_once(self, server: PageServer) -> None:
        """Of many browsers that try at one moment one gets in; later nobody does."""
        token = server.logins.make_one_time_token("olga")

        def try_token(_: int) -> int:
            with server.open_client() as client:
                return client.post("/login", data={"token": token}).status_code

        with ThreadPoolExecutor(8) as pool:
            codes = list(pool.map(try_token, range(8)))
        assert [303, *[403] * 7] == sorted(codes)
        assert 403 == try_token(0)
        assert [] == server.tokens.list()

    def test_that_count_once_expire(self, tmp_path: Path) -> None:
        """A terminal that was left open lets nobody in."""
        clock = HandClock()
        logins = Logins(tokens=open_tokens(None, file=tmp_path / "tokens", clock=clock), clock=clock)
        token = logins.make_one_time_token("olga")
        clock.moment += ONE_TIME_SPAN
        assert logins.find(token) is None


class TestGuesses:
    def test_are_limited_for_an_address_even_at_one_moment(self, server: PageServer) -> None:
        """Ten a minute; then not even the right token is looked at, and a minute later it is."""
        right = server.tokens.add("olga", role="operator")

        def guess(token: str) -> int:
            with server.open_client() as client:
                return client.post("/login", data={"token": token}).status_code

        with ThreadPoolExecutor(8) as pool:
            codes = list(pool.map(guess, ["wrong"] * 30))
        assert MAX_ATTEMPTS_OF_ADDRESS == codes.count(403)
        assert 30 - MAX_ATTEMPTS_OF_ADDRESS == codes.count(429)
        with server.open_client() as client:
            answer = client.post("/login", data={"token": right})
            assert (429, True) == (answer.status_code, 0 < int(answer.headers["retry-after"]) <= 61)
            server.clock.go_on(timedelta(minutes=1))
            assert 303 == client.post("/login", data={"token": right}).status_code

    def test_do_not_end_sessions_that_there_are(self, server: PageServer) -> None:
        """Whoever is logged in goes on."""
        with server.log_in() as inside, server.open_client() as outside:
            for _ in range(20):
                outside.post("/login", data={"token": "wrong"})
            assert _is_in(inside)

    def test_right_tokens_are_no_attempts(self) -> None:
        """They are taken back."""
        limits = LoginLimits(HandClock())
        for _ in range(MAX_ATTEMPTS * 2):
            assert 0 == limits.count_attempt("a")
            limits.take_back("a")

    def test_from_many_addresses_are_limited_in_all_and_in_memory(self) -> None:
        """However many addresses somebody has."""
        clock = HandClock()
        limits = LoginLimits(clock)
        taken = sum(limits.count_attempt(f"address {number}") == 0 for number in range(3_000))
        assert taken == MAX_ATTEMPTS
        assert limits.address_count <= MAX_ADDRESSES
        clock.seconds += 60
        assert 0 == limits.count_attempt("address 1")

    def test_behind_a_proxy_count_for_the_address_that_it_adds(self, tmp_path: Path) -> None:
        """Not for what the client wrote before it."""
        with serve_page(tmp_path / "runs.db", is_https=True, is_behind_proxy=True) as server:
            codes = []
            with server.open_client() as client:
                for number in range(20):
                    headers = {"x-forwarded-for": f"10.0.0.{number}, 192.0.2.{number % 2}"}
                    codes.append(client.post("/login", data={"token": "x"}, headers=headers).status_code)
                headers = {"x-forwarded-for": "192.0.2.0"}
                assert 429 == client.post("/login", data={"token": "x"}, headers=headers).status_code
        assert [403] * 20 == codes

    def test_behind_a_proxy_that_adds_a_line_count_for_it(self, tmp_path: Path) -> None:
        """Some add a line of their own after those of the client: the last one counts."""
        with serve_page(tmp_path / "runs.db", is_https=True, is_behind_proxy=True) as server:
            codes = []
            with server.open_client() as client:
                for number in range(12):
                    lines = [("x-forwarded-for", f"10.0.0.{number}"), ("x-forwarded-for", "192.0.2.1")]
                    codes.append(client.post("/login", data={"token": "x"}, headers=lines).status_code)
        assert [*[403] * 10, 429, 429] == codes

    def test_that_do_not_come_end(self, server: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whoever announces a form and does not send it holds no connection."""
        monkeypatch.setattr("praval_tools.web.activity.forms.MAX_FORM_SECONDS", 0.2)
        head = f"POST /login HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nOrigin: {server.origin}\r\n"
        head += "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\ntoken="
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
            connection.sendall(head.encode())
            answer = b"".join(iter(lambda: connection.recv(65_536), b""))
        assert answer.startswith(b"HTTP/1.1 408 ")


class TestSessions:
    def test_begin_with_a_cookie_that_the_server_chose(self, server: PageServer) -> None:
        """What a browser brought begins no session, before and after; what it had of an earlier log-in ends."""
        name = server.settings.cookie_name
        with server.open_client() as client:
            client.cookies.set(name, "planted", domain="127.0.0.1")
            assert not _is_in(client)
            client.cookies.clear()
            answer = client.post(
                "/login",
                data={"token": server.tokens.add("olga", role="operator")},
                headers={"cookie": f"{name}=planted"},
            )
            assert "planted" not in answer.headers["set-cookie"]
            first = client.cookies[name]
            client.post("/login", data={"token": server.tokens.add("olga", role="operator")})
            second = client.cookies[name]
            assert first != second
            assert _is_in(client)
        with server.open_client() as thief:
            for cookie in ("planted", first):
                assert 303 == thief.get("/", headers={"cookie": f"{name}={cookie}"}).status_code

    @pytest.mark.parametrize("is_https", [False, True])
    def test_cookies_are_for_this_server_alone(self, tmp_path: Path, is_https: bool) -> None:
        """No script reads them, no other site's page sends them, and with https nothing but https does."""
        with serve_page(tmp_path / "runs.db", is_https=is_https) as server, server.open_client() as client:
            token = server.tokens.add("olga", role="operator")
            cookie = client.post("/login", data={"token": token}).headers["set-cookie"]
        parts = {part.strip().lower() for part in cookie.split(";")[1:]}
        assert {"httponly", "samesite=strict", "path=/"} <= parts
        assert is_https is ("secure" in parts) is cookie.startswith("__Host-")

    def test_end_without_use_and_after_a_day(self, server: PageServer) -> None:
        """Pages that a person opens let it go on, what a script fetches does not; 12 hours are the end."""
        with server.log_in() as client:
            for _ in range(13):
                server.clock.go_on(timedelta(minutes=50))
                assert _is_in(client)
            server.clock.go_on(timedelta(minutes=50))
            for _ in range(3):
                client.get("/", headers={"sec-fetch-dest": "empty"})
            server.clock.go_on(timedelta(minutes=10))
            assert not _is_in(client)
        with server.log_in() as client:
            for _ in range(23):
                server.clock.go_on(timedelta(minutes=30))
                assert _is_in(client)
            server.clock.go_on(timedelta(minutes=30))
            assert not _is_in(client)

    def test_end_with_their_token(self, server: PageServer) -> None:
        """Revoked or expired: from the next request on."""
        with server.log_in() as revoked, server.log_in("pia") as other:
            server.tokens.revoke(next(token.id for token in server.tokens.list() if token.agent == "olga"))
            assert (False, True) == (_is_in(revoked), _is_in(other))
        token = server.tokens.add("short", role="operator", expires=timedelta(minutes=5))
        with server.open_client() as client:
            client.post("/login", data={"token": token})
            assert _is_in(client)
            server.clock.go_on(timedelta(minutes=5))
            assert not _is_in(client)

    def test_end_with_a_log_out(self, server: PageServer) -> None:
        """By a form of the session alone; the cookie counts no more, wherever it is."""
        with server.log_in("vera", "viewer") as client:
            cookie = client.cookies[server.settings.cookie_name]
            assert 403 == client.post("/logout", data={"form_token": "forged"}).status_code
            assert _is_in(client)
            fields = read_form(client.get("/").text, "/logout")
            assert "/login?why=out" == client.post("/logout", data=fields).headers["location"]
            assert not _is_in(client)
            assert 303 == client.get("/", headers={"cookie": f"{server.settings.cookie_name}={cookie}"}).status_code

    @pytest.mark.parametrize("end", ["revoked", "logged out", "expired"])
    def test_end_for_forms_that_come_slowly(self, tmp_path: Path, end: str) -> None:
        """Broken promise: a form whose rest came after its session had ended approved a call, in its person's name."""
        with ToolRegistry(journal=tmp_path / "runs.db") as registry, serve_page(registry) as server:

            @registry.tool("wire", owned_by="ann", requires_approval=True)
            def wire(amount: int) -> int:
                """Send."""
                return amount

            registry.agent("ann").execute(ToolCall("c1", "wire", {"amount": 1}))
            with server.log_in() as client:
                form = read_form(client.get("/approvals").text, "/approvals/answer")
                body = urlencode({**form, "answer": "allow", "reason": ""}).encode()
                cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
                head = (
                    f"POST /approvals/answer HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nOrigin: {server.origin}\r\n"
                    f"Cookie: {cookie}\r\nContent-Type: application/x-www-form-urlencoded\r\n"
                    f"Content-Length: {len(body)}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
                )
                with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
                    connection.sendall(head.encode())
                    assert b"100" in connection.recv(1_000)  # the session was found: the form is waited for
                    if end == "revoked":
                        server.tokens.revoke(server.tokens.list()[0].id)
                    elif end == "expired":
                        server.clock.go_on(timedelta(hours=13))
                    else:
                        assert (
                            303 == client.post("/logout", data=read_form(client.get("/").text, "/logout")).status_code
                        )
                    connection.sendall(body)
                    answer = b"".join(iter(lambda: connection.recv(65_536), b""))
                assert b"401" in answer[:20] and b"your session is over" in answer
            assert ["wire"] == [request.tool for request in registry.approvals.pending()]

    def test_of_a_person_are_limited(self) -> None:
        """One more ends the one that was used longest ago, and nobody else's; memory is bounded."""
        clock = HandClock()
        sessions = Sessions(PageSettings(), clock)
        other, _ = sessions.begin(Login(name="pia", role="viewer"))
        cookies = []
        for _ in range(MAX_SESSIONS_OF_PERSON + 3):
            clock.moment += timedelta(seconds=1)
            cookies.append(sessions.begin(Login(name="olga", role="operator"))[1])
        assert [None] * 3 == [sessions.find(cookie) for cookie in cookies[:3]]
        assert None not in [sessions.find(cookie) for cookie in cookies[3:]]
        assert sessions.is_live(other)
        clock.moment += timedelta(days=1)
        sessions.begin(Login(name="olga", role="operator"))
        assert 1 == len(list(sessions.list()))


class TestTargets:
    def test_a_log_in_goes_on_to_the_page_that_was_asked_for(self, server: PageServer) -> None:
        """With its query."""
        with server.open_client() as client:
            location = client.get("/audit?agent=a%26b&tool=x").headers["location"]
            fields = read_form(client.get(location).text, "/login")
            token = server.tokens.add("olga", role="operator")
            answer = client.post("/login", data={**fields, "token": token})
        assert "/audit?agent=a%26b&tool=x" == answer.headers["location"]

    @pytest.mark.parametrize("target", [
        "//evil.example/audit", "https://evil.example/audit", "/\\evil.example", "/audit/../x", "javascript:alert(1)",
        "/audit\r\nset-cookie: a=b", "/login", "/logout", "/none", "/audit?" + "x" * 2_500, "\\\\evil.example", "",
    ])  # fmt: skip
    def test_it_goes_nowhere_else(self, server: PageServer, target: str) -> None:
        """Neither to another site nor to another kind of address."""
        with server.open_client() as client:
            form = client.get("/login", params={"next": target, "why": "over"}).text
            fields = {**read_form(form, "/login"), "token": server.tokens.add("olga", role="operator")}
            assert "next" not in fields
            client.post("/login", data={"next": target, "token": "wrong"})
            answer = client.post("/login", data={**fields, "next": target})
        assert (303, "/") == (answer.status_code, answer.headers["location"])
