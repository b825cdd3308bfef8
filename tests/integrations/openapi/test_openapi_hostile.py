"""Services, documents and callers that mean harm cost their own calls, and nothing else."""

# Tests of: answers, http_client, requests, tool_changes

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("fastapi")

from openapi_raw_server import make_answer, serve_raw
from openapi_rig import (  # noqa: F401
    OPERATOR,
    Recorder,
    call,
    make_body,
    make_document,
    make_operation,
    make_parameter,
    recorder,
    serve,
    server,
    service,
    to_json,
)
from openapi_shop import make_shop
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

from praval_tools import Allow, NotOwnerError, Outcome, ToolCall, ToolRegistry, ToolUsageError
from praval_tools.integrations.openapi import OpenApiDocumentError


@pytest.fixture
def other() -> Iterator[tuple[Recorder, str]]:
    """Another server, to which nothing is to be sent, and its URL."""
    recorder = Recorder()
    with serve(recorder.app) as url:
        yield recorder, url


def make_service(server: str, *parameters: Any) -> dict[str, Any]:
    """Return a document with `get` and `post`, which have *parameters*."""
    return make_document({"/a": {name: make_operation(name, *parameters) for name in ("get", "post")}}, server=server)


class TestOtherHosts:
    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    def test_redirects_are_not_followed(
        self, recorder: Recorder, server: str, other: tuple[Recorder, str], monkeypatch: pytest.MonkeyPatch, status: int
    ) -> None:
        """Neither to another host nor to another port or scheme, with the secret or without."""
        monkeypatch.setenv("KEY", "sesame-open")
        with ToolRegistry() as registry:
            registry.register_openapi(make_service(server), namespace="x", owned_by=OPERATOR, auth_env="KEY")
            for target in (
                f"{other[1]}/a",
                "//elsewhere.invalid/",
                "file:///etc/passwd",
                "https://127.0.0.1:1/",
            ):
                recorder.respond = lambda _, to=target: RedirectResponse(to, status)
                result = call(registry, "x-get")

                assert result.outcome is Outcome.TOOL_ERROR
                assert "redirects to another host, which is not followed" in str(result.error)
        assert [] == other[0].requests

    def test_redirects_at_the_same_host_are_followed(
        self, recorder: Recorder, server: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With the secret; 307 sends the same request again, 303 asks for what there is; circles end."""
        monkeypatch.setenv("KEY", "sesame-open")

        def respond(request: Request) -> Response:
            if request.url.path == "/a":
                return RedirectResponse("/b?x=1", 307 if request.method == "POST" else 302)
            return RedirectResponse("c", 303) if request.url.path == "/b" else JSONResponse(request.url.path)

        recorder.respond = respond
        with ToolRegistry() as registry:
            registry.register_openapi(make_service(server), namespace="x", owned_by=OPERATOR, auth_env="KEY")
            results = [call(registry, f"x-{name}").result for name in ("get", "post")]
            sent = [(request["method"], request["path"]) for request in recorder.requests]
            recorder.respond = lambda _: RedirectResponse("/a", 302)
            endless = call(registry, "x-get")

        assert ["/c", "/c"] == results
        assert [("GET", "/a"), ("GET", "/b"), ("GET", "/c"), ("POST", "/a"), ("POST", "/b"), ("GET", "/c")] == sent
        assert {"Bearer sesame-open"} == {request["headers"]["authorization"] for request in recorder.requests}
        assert "redirects without end" in str(endless.error)

    @pytest.mark.parametrize(
        ("status", "then", "outcome"),
        [(303, 404, "in_doubt"), (303, 503, "in_doubt"), (307, 404, "tool_error"), (303, 200, "ok")],
    )
    def test_an_error_after_a_redirect(
        self, recorder: Recorder, server: str, status: int, then: int, outcome: str
    ) -> None:
        """Broken promise: an error means that nothing was done; one of the GET after a 303 does not."""

        def respond(request: Request) -> Response:
            return RedirectResponse("/b", status) if request.url.path == "/a" else PlainTextResponse("x", then)

        recorder.respond = respond
        with ToolRegistry() as registry:
            registry.register_openapi(make_service(server), namespace="x", owned_by=OPERATOR)
            result = call(registry, "x-post")

        assert outcome == result.outcome

    def test_documents_do_not_name_other_servers(
        self, recorder: Recorder, server: str, other: tuple[Recorder, str]
    ) -> None:
        """A document from a URL may have its own server alone; any other one is the operator's to allow."""
        recorder.respond = lambda _: JSONResponse(make_service(f"{other[1]}/v1"))
        with ToolRegistry() as registry:
            with pytest.raises(OpenApiDocumentError, match=r"#/servers/0: the server .* is another one than"):
                registry.register_openapi(f"{server}/api.json", namespace="x")
            assert [] == registry.list_all_tools()
            for options in ({"allow_servers": other[1]}, {"base_url": f"{other[1]}/v1"}):
                source = registry.register_openapi(f"{server}/api.json", namespace="x", owned_by=OPERATOR, **options)  # type: ignore[arg-type]
                assert call(registry, "x-get").outcome is Outcome.OK
                source.close()
        assert ["/v1/a", "/v1/a"] == [request["path"] for request in other[0].requests]

    def test_documents_are_fetched_without_secrets(
        self, recorder: Recorder, server: str, other: tuple[Recorder, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """From the URL alone, not from where it redirects to, and never with a secret."""
        monkeypatch.setenv("KEY", "sesame-open")
        recorder.respond = lambda _: RedirectResponse(f"{other[1]}/api.json")
        with ToolRegistry() as registry, pytest.raises(OpenApiDocumentError, match="redirects to another host"):
            registry.register_openapi(f"{server}/api.json", auth_env="KEY", namespace="x")

        assert [] == other[0].requests
        assert "authorization" not in recorder.last["headers"]


class TestDocuments:
    @pytest.mark.parametrize(
        ("response", "text"),
        [
            (Response(status_code=404), "answered with the status 404"),
            (Response(b"x" * 2_000), "it is longer than 1,000 bytes"),
            (Response(b"{}", headers={"content-encoding": "gzip"}), "it is compressed"),
            (PlainTextResponse("hello"), "expected an object"),
            (PlainTextResponse("\x00"), "is not valid YAML"),
        ],
    )
    def test_answers_that_hold_none(self, recorder: Recorder, server: str, response: Response, text: str) -> None:
        """What is not a document is an error, and nothing is registered."""
        recorder.respond = lambda _: response
        with ToolRegistry() as registry:
            with pytest.raises(OpenApiDocumentError, match=text):
                registry.register_openapi(f"{server}/api.json", max_document_bytes=1_000)

            assert [] == registry.list_all_tools()

    def test_a_silent_server(self) -> None:
        """Whoever fetches a document waits only so long."""
        with serve_raw() as server, ToolRegistry() as registry:
            server.held = b"GET"
            with pytest.raises(OpenApiDocumentError, match=r"it was not answered within 0\.2 s"):
                registry.register_openapi(f"{server.url}/api.json", fetch_timeout=0.2)

    def test_a_bad_refresh_changes_nothing(self, recorder: Recorder, server: str) -> None:
        """A document that has become wrong, or that is gone, leaves the tools as they are."""
        recorder.respond = lambda _: JSONResponse(make_service(server))
        with ToolRegistry() as registry:
            source = registry.register_openapi(f"{server}/api.json", namespace="x")
            for answer in (JSONResponse({"openapi": "3.1.0"}), Response(status_code=500)):
                recorder.respond = lambda _, answer=answer: answer
                with pytest.raises(ExceptionGroup):
                    registry.refresh()

            assert ["x-get", "x-post"] == source.tools == [tool.name for tool in registry.list_all_tools()]

    def test_texts_hide_nothing(self) -> None:
        """Marks of direction and invisible characters are taken out of what models read; names have none."""
        operation = make_operation("a", make_parameter("q", description="a\u202eb"), summary="x\u200b\u202ey")
        evil = make_operation("de\u202elete")
        document = make_document({"/a": {"get": operation, "put": evil}}, server="http://a.example")
        with ToolRegistry() as registry:
            source = registry.register_openapi(document, namespace="x")
            tool = registry.get_tool("x-a")
            assert tool is not None

            assert ("xy", "ab") == (tool.description, tool.parameters["properties"]["q"]["description"])
            assert ["x-a"] == source.tools
            assert "no name can be made of 'de\\u202elete'" in source.list_problems()[0].message


class TestCallers:
    def test_no_value_reaches_another_operation(self) -> None:
        """A real server decodes paths before it looks at them; no value makes one of its other paths."""
        with serve(make_shop()) as url, ToolRegistry() as registry:
            registry.register_openapi(f"{url}/openapi.json", namespace="shop", owned_by=OPERATOR)
            for name in ("ann/secrets", "..", "../pets/1", "ann%2Fsecrets", "ann\\secrets", "", ".", "a\n"):
                result = call(registry, "shop-show_user", name=name)

                assert result.outcome is Outcome.TOOL_ERROR or result.result == name
                assert "secrets of" not in str(result)

    def test_slashes_may_be_allowed(self, recorder: Recorder, server: str) -> None:
        """Where the operator says so, slashes are sent percent-encoded, and dots still do not lead up."""
        path = {"/files/{path}": {"get": make_operation("get", make_parameter("path", "path"))}}
        with ToolRegistry() as registry:
            registry.register_openapi(
                make_document(path, server=server), namespace="x", owned_by=OPERATOR, slash_parameters=["path"]
            )
            results = [call(registry, "x-get", path=value).outcome for value in ("a/b.txt", "a/../../b", "a/./b")]

        assert [Outcome.OK, Outcome.TOOL_ERROR, Outcome.TOOL_ERROR] == results
        assert ["/files/a%2Fb.txt"] == [request["path"] for request in recorder.requests]

    def test_headers_and_cookies_stay_in_theirs(self, recorder: Recorder, server: str) -> None:
        """No value brings a header or a cookie of its own."""
        document = make_service(server, make_parameter("X-A", "header"), make_parameter("c", "cookie"))
        with ToolRegistry() as registry:
            registry.register_openapi(document, namespace="x", owned_by=OPERATOR)
            bad = [call(registry, "x-get", {"X-A": value}) for value in ("a\r\nX-B: 1", "a\n\nGET / HTTP/1.1", "\0")]
            good = call(registry, "x-get", {"c": "1; admin=1\r\nX-B: 1"})

        assert {Outcome.TOOL_ERROR} == {result.outcome for result in bad}
        assert good.outcome is Outcome.OK
        assert [("c=1%3B%20admin%3D1%0D%0AX-B%3A%201", None)] == [
            (request["headers"]["cookie"], request["headers"].get("x-b")) for request in recorder.requests
        ]

    @pytest.mark.parametrize("media_type", ["application/json", "application/x-www-form-urlencoded"])
    def test_nothing_is_sent_that_only_answers_have(self, recorder: Recorder, server: str, media_type: str) -> None:
        """A caller could set what the service says of itself, wherever a body may hold other members, too."""
        level = {"level": {"type": "integer", "readOnly": True}}
        schema = {"properties": {**level, "name": {}, "of": {"type": "object", "properties": level}}}
        body = {"requestBody": make_body(schema, media_type)}
        document = make_document({"/a": {"post": make_operation("post", **body)}}, server=server)
        with ToolRegistry() as registry:
            registry.register_openapi(document, namespace="x", owned_by=OPERATOR)
            bodies: list[Any] = [
                {"level": 9},
                {"name": "a", "level": None},
                {"of": {"level": 9}},
                {"name": "a", "b": 1},
            ]
            results = [call(registry, "x-post", body=value) for value in bodies]

        outcomes = [Outcome.INVALID_ARGUMENTS, Outcome.OK, Outcome.INVALID_ARGUMENTS, Outcome.OK]
        assert outcomes == [result.outcome for result in results]
        assert "$.body.level: cannot be given" in str(results[0].error)
        assert [False, False] == [b"level" in request["body"] for request in recorder.requests]

    def test_cookies_of_one_caller_are_not_anothers(self, recorder: Recorder, server: str) -> None:
        """What a service sets is not sent back with the next call, which may be another agent's."""
        recorder.respond = lambda _: Response(headers={"set-cookie": "session=ann; Path=/"})
        with ToolRegistry() as registry:
            registry.register_openapi(make_service(server), namespace="x", owned_by=OPERATOR)
            for _ in range(2):
                call(registry, "x-get")

        assert ["", ""] == [request["headers"].get("cookie", "") for request in recorder.requests]

    def test_only_the_operator_registers(self, server: str) -> None:
        """An agent neither brings services in nor takes them out, nor reads their documents again."""
        with ToolRegistry() as registry:
            source = registry.register_openapi(make_service(server), namespace="x", owned_by=OPERATOR)
            attempts = (
                lambda: registry.register_openapi(make_service(server), namespace="y"),
                source.refresh, source.close, lambda: source.accept("x-get"), source.register,
            )  # fmt: skip
            refused = list[str]()

            @registry.tool("attempt", owned_by=OPERATOR)
            def attempt(number: int) -> None:
                """Try what only the operator may do."""
                try:
                    attempts[number]()
                except NotOwnerError as error:
                    refused.append(error.code)

            for number in range(len(attempts)):
                call(registry, "attempt", number=number)

            assert len(attempts) == len(refused)


class TestAnswers:
    def test_errors_are_short_and_clean(self, recorder: Recorder, server: str) -> None:
        """Of a long page of an error its beginning is shown, without escapes; a bare status is enough."""
        recorder.respond = lambda _: PlainTextResponse("\x1b[31m\u202e" + "x" * 100_000, 400)
        with ToolRegistry() as registry:
            registry.register_openapi(make_service(server), namespace="x", owned_by=OPERATOR)
            text = str(call(registry, "x-get").error)

        assert len(text) < 1_200
        assert "\x1b" not in text and "\u202e" not in text

    @pytest.mark.parametrize(
        ("body", "content_type", "expected"),
        [
            (b'"a\xff"', "application/json", '"a\ufffd"'),
            (b"[" * 1_000, "application/json", "[" * 1_000),
            (b'{"a":1,"a":2}', "application/json", '{"a":1,"a":2}'),
            (b'"\\ud800"', "application/json", '"\\ud800"'),
            (b"\xe4", "text/plain; charset=latin1", "ä"),
            (b"\xe4", "text/plain; charset=nonsense", "\ufffd"),
        ],
    )
    def test_what_cannot_be_read_is_text(
        self, recorder: Recorder, server: str, body: bytes, content_type: str, expected: str
    ) -> None:
        """A successful answer that is not what it says does not mean that the work is to be done again."""
        recorder.respond = lambda _: Response(body, headers={"content-type": content_type})
        with ToolRegistry(journal="memory") as registry:
            registry.register_openapi(make_service(server), namespace="x", owned_by=OPERATOR)

            assert expected == call(registry, "x-post").result

    def test_huge_headers_are_refused(self) -> None:
        """A head without end costs its own call."""
        with serve_raw() as server, ToolRegistry() as registry:
            server.answer = make_answer(b"{}", "x: " + "y" * 5_000_000)
            registry.register_openapi(make_service(server.url), namespace="x", owned_by=OPERATOR)

            assert call(registry, "x-get").outcome is Outcome.TOOL_ERROR
            assert call(registry, "x-post").outcome is Outcome.IN_DOUBT


class TestLoops:
    def test_a_document_is_not_fetched_by_the_loop_that_would_wait(self, server: str) -> None:
        """A tool on the background loop of the registry gets an error at once, instead of waiting for itself."""
        with ToolRegistry() as registry:

            @registry.tool("reload", owned_by=OPERATOR)
            async def reload() -> str:
                """Register a document."""
                with registry.as_operator(), pytest.raises(ToolUsageError, match="must not wait"):
                    registry.register_openapi(f"{server}/api.json", namespace="y")
                await asyncio.sleep(0)
                return "refused"

            assert "refused" == call(registry, "reload").result


def test_a_file_may_say_where_it_is_served(tmp_path: Any, server: str, recorder: Recorder) -> None:
    """The first server of a file, which the operator has, counts; one of an operation is left out, if it is another."""
    file = tmp_path / "api.json"
    document = make_service(server)
    document["paths"]["/a"]["post"]["servers"] = [{"url": "http://169.254.169.254/"}]
    file.write_bytes(to_json(document))
    with ToolRegistry() as registry:
        source = registry.register_openapi(file, owned_by=OPERATOR)

        assert ["api-get"] == source.tools
        assert "the server http://169.254.169.254:80 is another one" in source.list_problems()[0].message


class TestApprovals:
    @pytest.mark.parametrize("change", ["nothing", "method", "path", "place"])
    def test_are_for_the_request_that_the_document_meant(self, recorder: Recorder, server: str, change: str) -> None:
        """An answer was bound to what callers see: the document made another request of the approved call."""
        place = "header" if change == "place" else "query"
        before, after = (make_operation("op", make_parameter("n", at), description="Do it.") for at in ("query", place))
        document = make_document({"/orders": {"post": before}}, server=server)
        with ToolRegistry() as registry:
            approved = {"op": {"requires_approval": True}}
            source = registry.register_openapi(document, namespace="x", owned_by=OPERATOR, metadata=approved)
            request = ToolCall("1", "x-op", {"n": "1"}, OPERATOR)
            registry.approvals.answer(registry.execute(request).approval_id, Allow())
            path, method = "/accounts" if change == "path" else "/orders", "delete" if change == "method" else "post"
            document["paths"] = {path: {method: after}}
            source.refresh()
            outcome = registry.execute(request).outcome

        assert (Outcome.OK if change == "nothing" else Outcome.APPROVAL_REQUIRED) == outcome
        assert (1 if change == "nothing" else 0) == len(recorder.requests)
