"""Secrets come from the environment at each call, go to the server alone, and reach no record."""

# Tests of: security

from __future__ import annotations

import base64
import logging
from typing import Any

import pytest

pytest.importorskip("uvicorn")

from openapi_rig import (  # noqa: F401
    OPERATOR,
    Recorder,
    call,
    make_body,
    make_document,
    make_operation,
    make_parameter,
    recorder,
    server,
    service,
)
from starlette.responses import JSONResponse, RedirectResponse

from praval_tools import Outcome, ToolRegistry, ToolUsageError
from praval_tools.integrations.openapi import OpenApiDocumentError

SECRET = "sesame/open+now"
SCHEMES: dict[str, Any] = {
    "header": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "query": {"type": "apiKey", "in": "query", "name": "key"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": "key"},
    "basic": {"type": "http", "scheme": "Basic"},
    "bearer": {"type": "http", "scheme": "bearer"},
    "oauth": {"type": "oauth2", "flows": {}},
    "openid": {"type": "openIdConnect", "openIdConnectUrl": "https://a.example"},
    "digest": {"type": "http", "scheme": "digest"},
    "tls": {"type": "mutualTLS"},
}


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables that hold secrets."""
    monkeypatch.setenv("KEY", SECRET)
    monkeypatch.setenv("USER_AND_WORD", "ann:pässword")


def register(
    registry: ToolRegistry, server: str, needs: Any, auth_env: Any, *schemes: str, parameters: Any = (), **members: Any
) -> Any:  # fmt: skip
    """Register an operation `x-op` that needs *needs*."""
    own = {} if needs is None else {"security": needs}
    components = {"securitySchemes": {name: SCHEMES[name] for name in schemes}}
    document = make_document(
        {"/a": {"get": make_operation("op", *parameters, **own)}}, server=server, components=components, **members
    )
    return registry.register_openapi(document, namespace="x", owned_by=OPERATOR, auth_env=auth_env)


class TestPlaces:
    @pytest.mark.parametrize(
        ("scheme", "variable", "place", "sent"),
        [
            ("header", "KEY", "x-key", SECRET),
            ("query", "KEY", "query", "key=sesame%2Fopen%2Bnow"),
            ("cookie", "KEY", "cookie", "key=sesame%2Fopen%2Bnow"),
            ("bearer", "KEY", "authorization", f"Bearer {SECRET}"),
            ("oauth", "KEY", "authorization", f"Bearer {SECRET}"),
            ("openid", "KEY", "authorization", f"Bearer {SECRET}"),
            ("basic", "USER_AND_WORD", "authorization",
             f"Basic {base64.b64encode('ann:pässword'.encode()).decode()}"),
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("is_mapping", [True, False])
    def test_each_scheme_has_its_own(
        self, recorder: Recorder, server: str, scheme: str, variable: str, place: str, sent: str, is_mapping: bool
    ) -> None:
        """The value is where the scheme says; one variable stands for the only scheme."""
        auth_env = {scheme: variable} if is_mapping else variable
        with ToolRegistry() as registry:
            register(registry, server, [{scheme: []}], auth_env, scheme)
            result = call(registry, "x-op")

        assert result.outcome is Outcome.OK
        assert sent == (recorder.last["query"] if place == "query" else recorder.last["headers"][place])

    def test_a_document_without_schemes(self, recorder: Recorder, server: str) -> None:
        """One variable is sent as a bearer token, but not to operations that say that they need none."""
        with ToolRegistry() as registry:
            register(registry, server, None, "KEY")
            call(registry, "x-op")
            first = recorder.last["headers"].get("authorization")
        with ToolRegistry() as registry:
            register(registry, server, [], "KEY")
            call(registry, "x-op")

        assert (f"Bearer {SECRET}", None) == (first, recorder.last["headers"].get("authorization"))

    def test_callers_cannot_take_its_place(self, recorder: Recorder, server: str) -> None:
        """A parameter that is the key is not an argument, and no object of free keys can give it."""
        anything = make_parameter("more", schema={"type": "object"})
        parameters = [make_parameter("x-KEY", "header"), anything]
        with ToolRegistry() as registry:
            register(
                registry, server, [{"header": [], "query": []}], {"header": "KEY", "query": "KEY"}, "header", "query",
                parameters=parameters,
            )  # fmt: skip
            count = len(recorder.requests)
            results = [call(registry, "x-op", {"x-KEY": "mine"}), call(registry, "x-op", more={"key": "mine"})]
            properties = registry.get_tool("x-op").parameters["properties"]  # type: ignore[union-attr]

            assert {"more"} == properties.keys()
        assert [Outcome.INVALID_ARGUMENTS, Outcome.TOOL_ERROR] == [result.outcome for result in results]
        assert count == len(recorder.requests)


class TestRequirements:
    @pytest.mark.parametrize(
        ("security", "auth_env", "sent"),
        [
            ([{"header": []}, {"bearer": []}], {"bearer": "KEY"}, {"authorization"}),
            ([{"header": [], "bearer": []}], {"bearer": "KEY", "header": "KEY"}, {"authorization", "x-key"}),
            ([{}, {"header": []}], {"header": "KEY"}, {"x-key"}),
            ([{}, {"header": []}], {}, set()),
            ([], {"header": "KEY"}, set()),
            (None, {"header": "KEY"}, {"x-key"}),
        ],
    )  # fmt: skip
    def test_one_of_several_or_all(
        self, recorder: Recorder, server: str, security: Any, auth_env: Any, sent: set[str]
    ) -> None:
        """Alternatives, schemes that belong together, none at all, and those of the whole document."""
        with ToolRegistry() as registry:
            register(registry, server, security, auth_env, "header", "bearer", security=[{"header": []}])
            assert call(registry, "x-op").outcome is Outcome.OK

        assert sent == {"authorization", "x-key"} & recorder.last["headers"].keys()

    def test_what_is_missing_is_said(self, recorder: Recorder, server: str) -> None:
        """A call that needs more than is configured is not sent; a problem says so before."""
        count = len(recorder.requests)
        with ToolRegistry() as registry:
            source = register(
                registry, server, [{"header": [], "bearer": []}, {"tls": []}], None, "header", "bearer", "tls"
            )
            (problem,) = source.list_problems()
            result = call(registry, "x-op")

        assert (
            "1 of its operations, such as 'x-op', need the security scheme 'header' and 'bearer' or 'tls'"
            in problem.message
        )
        assert (Outcome.TOOL_ERROR, "OpenApiRequestError") == (result.outcome, result.error_type)
        assert count == len(recorder.requests)

    def test_an_unknown_scheme_is_wrong(self, server: str) -> None:
        """A requirement of a scheme that the document does not have."""
        with ToolRegistry() as registry, pytest.raises(OpenApiDocumentError, match="no security scheme 'bearer'"):
            register(registry, server, [{"bearer": []}], None, "header")

    @pytest.mark.parametrize(
        ("auth_env", "text"),
        [
            ({"haeder": "KEY"}, "the document has no such scheme. Did you mean 'header'"),
            ({"header": "not a name"}, "takes names of environment variables, not their values"),
            ("KEY", "has the security schemes 'digest', 'header'; say which"),
            ({"digest": "KEY"}, "'digest' cannot be used by auth_env="),
            (5, "is the name of a variable, or a mapping"),
        ],
    )
    def test_wrong_configurations(self, server: str, auth_env: Any, text: str) -> None:
        """What is configured has to make sense; what may be a secret is not repeated."""
        with ToolRegistry() as registry, pytest.raises(ToolUsageError) as caught:
            register(registry, server, None, auth_env, "header", "digest")

        assert text in str(caught.value)
        assert "not a name" not in str(caught.value)


class TestSecrets:
    def test_are_read_at_each_call(self, recorder: Recorder, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """A value that changes counts at the next call; one that is missing, or cannot be sent, is an error."""
        texts = []
        with ToolRegistry() as registry:
            monkeypatch.delenv("KEY")
            register(registry, server, [{"header": []}], "KEY", "header")
            for value in ("", "first-one", "a\r\nX-Admin: 1"):
                monkeypatch.setenv("KEY", value)
                texts.append(str(call(registry, "x-op").error))

        assert "The variable 'KEY', for the security scheme 'header', is not set; nothing was sent." == texts[0]
        assert ("None", "first-one") == (texts[1], recorder.last["headers"]["x-key"])
        assert "The variable 'KEY' holds something that cannot be the value of a header" in texts[2]

    @pytest.mark.parametrize(("scheme", "variable"), [("query", "KEY"), ("header", "KEY"), ("basic", "USER_AND_WORD")])
    @pytest.mark.parametrize("status", [200, 400, 500, 302])
    def test_reach_no_record(
        self, recorder: Recorder, server: str, scheme: str, variable: str, status: int, caplog: pytest.LogCaptureFixture
    ) -> None:  # fmt: skip
        """A service that sends them back does not bring them into results, errors, logs, the journal or a `repr`."""

        def respond(request: Any) -> Any:
            words = ["ann:pässword", base64.b64encode("ann:pässword".encode()).decode()] if scheme == "basic" else []
            seen = [str(request.url), dict(request.headers), *words]
            if status == 302:
                return RedirectResponse(f"http://elsewhere.example/{SECRET}")
            return JSONResponse(seen, status)

        caplog.set_level(logging.INFO if status == 302 else logging.DEBUG)
        recorder.respond = respond
        try:
            with ToolRegistry(journal="memory") as registry:
                source = register(registry, server, [{scheme: []}], variable, scheme)
                result = call(registry, "x-op")
                tool = registry.get_tool("x-op")
                assert registry.journal is not None and tool is not None
                events = [str(event) for event in registry.journal.events()]
        finally:
            recorder.respond = None
        logs = [record.getMessage() for record in caplog.records if not record.name.startswith("uvicorn")]
        everything = str([result, repr(result.exception), source, tool, tool.metadata.to_dict(), events, logs])

        assert (status == 200) is (result.outcome is Outcome.OK)
        for secret in (SECRET, "sesame%2Fopen%2Bnow", "pässword", "YW5uOnDDpHNzd29yZA=="):
            assert secret not in everything

    @pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
    def test_of_callers_are_hidden_where_the_document_marks_them(
        self, recorder: Recorder, server: str, version: str
    ) -> None:
        """Broken promise: what is `writeOnly` was recorded as it is, and models read the defaults of passwords."""
        secret, default = "kT7vQ2xW9zR", "hJ5bN8mL4pQ"
        code = {"type": "string", "writeOnly": True, "default": default, "example": default}
        word = {"type": "string", "format": "password", "default": default}
        body = {
            "content": {"application/json": {"schema": {"type": "object", "properties": {"code": code, "word": word}}}}
        }
        operation = make_operation("log-in", make_parameter("pin", schema=word), requestBody=body)
        document = make_document({"/a": {"post": operation}}, version=version, server=server)
        with ToolRegistry(journal="memory") as registry:
            registry.register_openapi(document, namespace="x", owned_by=OPERATOR)
            call(registry, "x-log-in", pin=secret, body={"code": secret, "word": secret})
            records = repr(list(registry.journal.events()))

            assert default not in repr([registry.schemas(OPERATOR, form) for form in ("openai-chat", "mcp")])
        assert secret not in records
        assert recorder.last["body"].count(secret.encode()) == 2

    @pytest.mark.parametrize("media_type", ["text/plain", "application/xml", "application/octet-stream"])
    @pytest.mark.parametrize(
        ("schema", "is_secret"),
        [
            ({"type": "string", "format": "password"}, True),
            ({"type": "string", "format": "binary", "writeOnly": True}, True),
            ({"type": "object", "properties": {"of": {"type": "array", "items": {"format": "password"}}}}, True),
            ({"$ref": "#/components/schemas/Person"}, True),
            ({"allOf": [{"properties": {"friend": {"$ref": "#/components/schemas/Person"}}}]}, True),
            ({"$ref": "#/components/schemas/None"}, True),
            ({"type": "object", "properties": {"name": {"$ref": "#/components/schemas/Name"}}}, False),
            ({"type": "string", "format": "binary"}, False),
        ],
    )
    def test_of_callers_are_hidden_in_text_and_bytes(
        self, recorder: Recorder, server: str, schema: dict[str, Any], is_secret: bool, media_type: str
    ) -> None:
        """Broken promise: a body that is not taken apart was recorded as it is, whatever its schema marked in it."""
        sent = "kT7vQ2xW9zR4"
        schemas = {
            "Person": {"properties": {"word": {"$ref": "#/components/schemas/Word"}}},
            "Word": {"type": "string", "format": "password"},
            "Name": {"type": "string"},
        }
        operation = make_operation("log-in", requestBody=make_body(schema, media_type))
        document = make_document({"/a": {"post": operation}}, server=server, components={"schemas": schemas})
        with ToolRegistry(journal="memory") as registry:
            registry.register_openapi(document, namespace="x", owned_by=OPERATOR)
            result = call(registry, "x-log-in", body=sent)
            records = repr(list(registry.journal.events()))

        assert result.outcome is Outcome.OK
        assert is_secret is (sent not in records)
        assert recorder.last["body"] == (base64.b64decode(sent) if "octet" in media_type else sent.encode())
