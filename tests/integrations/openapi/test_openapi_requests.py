"""What a call sends: each argument in its place, each body in its form, to the URL that the document says."""

# Tests of: requests, http_client, bodies, parameters

from __future__ import annotations

import json
from email import message_from_bytes
from typing import Any
from urllib.parse import parse_qsl

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

from praval_tools import Outcome, ToolCall, ToolRegistry


class TestRequests:
    def send(
        self, recorder: Recorder, server: str, operation: dict[str, Any], arguments: dict[str, Any],
        path: str = "/x", method: str = "post", **options: Any,
    ) -> dict[str, Any]:  # fmt: skip
        """Send one call of an operation; returns the request that came."""
        document = make_document({path: {method: operation}}, server=server)
        with ToolRegistry() as registry:
            registry.register_openapi(document, namespace="x", owned_by=OPERATOR, **options)
            result = call(registry, "x-op", arguments)
        assert result.outcome is Outcome.OK, result.error
        return recorder.last

    @pytest.mark.parametrize("media_type", ["application/x-www-form-urlencoded", "multipart/form-data"])
    def test_empty_lists_are_not_sent_as_nothing(self, recorder: Recorder, server: str, media_type: str) -> None:
        """What a bound admits as a choice of nothing is not sent as if there were no choice."""
        schema = {"type": "array", "items": {"type": "string"}}
        operation = make_operation(
            "op", make_parameter("ids", schema=schema),
            requestBody=make_body({"type": "object", "properties": {"to": schema}}, media_type),
        )  # fmt: skip
        with ToolRegistry() as registry:
            document = make_document({"/x": {"delete": operation}}, server=server)
            registry.register_openapi(document, namespace="x", owned_by=OPERATOR)
            registry.assign_tool_to_agent("x-op", "clerk", where={"ids": {"items": {"enum": ["a", "b"]}}})
            results = [
                registry.execute(ToolCall(None, "x-op", {"ids": ids, "body": {"note": "x", "to": to}}, "clerk"))
                for ids, to in (([], ["z"]), (["a"], []), (["a"], ["z"]))
            ]

        assert [Outcome.TOOL_ERROR, Outcome.TOOL_ERROR, Outcome.OK] == [result.outcome for result in results]
        assert ["ids=a"] == [request["query"] for request in recorder.requests]

    @pytest.mark.parametrize("method", ["get", "put", "post", "delete", "options", "head", "patch", "trace"])
    def test_all_methods(self, recorder: Recorder, server: str, method: str) -> None:
        """Each method of the specification is sent."""
        request = self.send(recorder, server, make_operation("op"), {}, method=method)

        assert (method.upper(), "/x") == (request["method"], request["path"])

    def test_the_url_is_joined(self, recorder: Recorder, server: str) -> None:
        """The path of the server stays, whatever slashes there are."""
        request = self.send(recorder, f"{server}/v1/", make_operation("op"), {}, path="/pets")

        assert "/v1/pets" == request["path"]

    def test_base_url_counts(self, recorder: Recorder, server: str) -> None:
        """`base_url=` stands for every server that the document names."""
        operation = make_operation("op", servers=[{"url": "https://example.invalid/a"}])
        request = self.send(recorder, "https://example.invalid", operation, {}, base_url=f"{server}/v2")

        assert "/v2/x" == request["path"]

    def test_one_name_in_several_places(self, recorder: Recorder, server: str) -> None:
        """Parameters of one name are arguments with their places; `body` is the body."""
        operation = make_operation(
            "op", make_parameter("id", "path"), make_parameter("id"), make_parameter("id", "header"),
            make_parameter("id", "cookie"), make_parameter("body"), requestBody=make_body({}),
        )  # fmt: skip
        arguments = {"path_id": 1, "query_id": 2, "header_id": 3, "cookie_id": 4, "query_body": 5, "body": 6}
        request = self.send(recorder, server, operation, arguments, path="/x/{id}")
        headers = request["headers"]

        assert ("/x/1", "id=2&body=5", b"6") == (request["path"], request["query"], request["body"])
        assert ("3", "id=4") == (headers["id"], headers["cookie"])

    def test_names_that_models_cannot_use(self, recorder: Recorder, server: str) -> None:
        """Arguments have names of letters, digits, `_` and `-`; parameters keep their own."""
        operation = make_operation("op", make_parameter("filter[name]"), make_parameter("$top"), make_parameter("a.b"))
        request = self.send(recorder, server, operation, {"filter_name": "x", "top": 1, "a_b": 2})

        assert "filter%5Bname%5D=x&%24top=1&a.b=2" == request["query"]

    @pytest.mark.parametrize(
        ("media_type", "value", "content_type", "sent"),
        [
            ("application/json", {"a": "ü"}, "application/json", '{"a":"ü"}'.encode()),
            ("application/merge-patch+json", {"a": None}, "application/merge-patch+json", b'{"a":null}'),
            ("*/*", [1], "application/json", b"[1]"),
            ("text/plain", "ü", "text/plain; charset=utf-8", "ü".encode()),
            ("application/xml", "<a/>", "application/xml; charset=utf-8", b"<a/>"),
            ("application/octet-stream", "AAH/", "application/octet-stream", b"\0\1\xff"),
            ("image/*", "AAH/", "application/octet-stream", b"\0\1\xff"),
            ("text/*", "ü", "text/plain; charset=utf-8", "ü".encode()),
            ("application/json; version=2", {"a": 1}, "application/json; version=2", b'{"a":1}'),
            ("application/json; Charset=ISO-8859-1; v=1", {"a": "ü"}, "application/json; v=1", '{"a":"ü"}'.encode()),
            ("application/json;", {"a": 1}, "application/json", b'{"a":1}'),
            ("image/png", "AAH/", "image/png", b"\0\1\xff"),
            ("application/x-www-form-urlencoded", {"a": [1, 2], "b": {"c": "&"}, "d": None},
             "application/x-www-form-urlencoded", b"a=1&a=2&b=%7B%22c%22%3A%22%26%22%7D"),
        ],
    )  # fmt: skip
    def test_bodies_of_each_kind(
        self, recorder: Recorder, server: str, media_type: str, value: object, content_type: str, sent: bytes
    ) -> None:
        """A body is written as its type asks."""
        operation = make_operation("op", requestBody=make_body({}, media_type))
        request = self.send(recorder, server, operation, {"body": value})

        assert (content_type, sent) == (request["headers"]["content-type"], request["body"])

    def test_the_styles_of_fields(self, recorder: Recorder, server: str) -> None:
        """The `encoding` of a form says how its fields are written."""
        encoding = {"a": {"style": "deepObject", "explode": True}, "b": {"style": "pipeDelimited"}}
        body = make_body({"type": "object"}, "application/x-www-form-urlencoded", encoding=encoding)
        request = self.send(
            recorder, server, make_operation("op", requestBody=body), {"body": {"a": {"x": 1}, "b": [1, 2]}}
        )

        assert b"a%5Bx%5D=1&b=1%7C2" == request["body"]

    @pytest.mark.parametrize("media_type", ["application/x-www-form-urlencoded", "multipart/form-data"])
    def test_fields_that_are_json(self, recorder: Recorder, server: str, media_type: str) -> None:
        """A text in a field whose `encoding` says JSON is read as that text, whatever it looks like."""
        encoding = {name: {"contentType": "application/json"} for name in ("a", "b")}
        body = make_body({"type": "object"}, media_type, encoding=encoding)
        given = {"a": '{"admin":true}', "b": ["true", "[1]"], "c": "null"}
        request = self.send(recorder, server, make_operation("op", requestBody=body), {"body": given})
        kind = request["headers"]["content-type"].encode()
        if media_type == "multipart/form-data":
            parts = list(message_from_bytes(b"Content-Type: " + kind + b"\r\n\r\n" + request["body"]).walk())[1:]
            sent = [(str(part.get_param("name", header="content-disposition")), part.get_payload()) for part in parts]
        else:
            sent = parse_qsl(request["body"].decode())

        wanted = [("a", json.dumps('{"admin":true}')), ("b", '"true"'), ("b", '"[1]"'), ("c", "null")]
        assert wanted == sent

    def test_the_simplest_type_is_taken(self, recorder: Recorder, server: str) -> None:
        """Of several types of a body, JSON is taken before forms, text and bytes."""
        body = make_body({}, "application/octet-stream")
        body["content"] |= make_body({}, "text/plain")["content"] | make_body({"type": "array"})["content"]
        request = self.send(recorder, server, make_operation("op", requestBody=body), {"body": [1]})

        assert ("application/json", b"[1]") == (request["headers"]["content-type"], request["body"])

    def test_multipart_names_stay_in_their_place(self, recorder: Recorder, server: str) -> None:
        """No name of a field begins another header or part."""
        operation = make_operation("op", requestBody=make_body({"type": "object"}, "multipart/form-data"))
        request = self.send(recorder, server, operation, {"body": {'a"\r\nX: 1': "x", "b": {"c": 1}}})

        assert b'name="a%22%0D%0AX: 1"' in request["body"]
        assert b'Content-Type: application/json\r\n\r\n{"c":1}' in request["body"]

    @pytest.mark.parametrize(
        "member",
        [
            {"anyOf": [{"type": "string", "format": "binary"}, {"type": "null"}]},
            {"type": "array", "items": {"type": "string", "contentMediaType": "application/octet-stream"}},
            {"oneOf": [{"type": "array", "items": {"type": "string", "format": "binary"}}, {"type": "null"}]},
            {"allOf": [{"type": "string", "format": "binary"}, {"minLength": 1}]},
        ],
        ids=str,
    )
    def test_files_that_may_be_left_out(self, member: dict[str, Any], recorder: Recorder, server: str) -> None:
        """Broken promise: an optional file, as FastAPI describes it, was sent as its base64."""
        body = make_body({"type": "object", "properties": {"file": member}}, "multipart/form-data")
        given = ["/wBh"] if "array" in str(member) else "/wBh"
        request = self.send(recorder, server, make_operation("op", requestBody=body), {"body": {"file": given}})

        assert b'filename="file"' in request["body"]
        assert b"\r\n\r\n\xff\x00a\r\n" in request["body"]
