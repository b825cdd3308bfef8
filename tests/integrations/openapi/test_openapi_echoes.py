"""A secret that a service sends back reaches no result, error or record, however the service writes it."""

# Tests of: answers, foreign_text, http_client

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus, unquote

import pytest

pytest.importorskip("fastapi")

from openapi_raw_server import RawServer, serve_raw
from openapi_rig import OPERATOR, call, make_document, make_operation

from praval_tools import Content, Outcome, ToolRegistry
from praval_tools.integrations.foreign_text import remove_secrets

SECRETS = ["ab/cd+sesame-open==", "am&p<er'sesame", 'qu"ote\\sesame']
SCHEMES = {
    "header": {"type": "apiKey", "in": "header", "name": "X-KEY"},
    "query": {"type": "apiKey", "in": "query", "name": "key"},
    "basic": {"type": "http", "scheme": "basic"},
}


@pytest.fixture
def server() -> Iterator[RawServer]:
    """A service that answers with given bytes."""
    with serve_raw() as server:
        yield server


def make_head(status: str, *headers: str) -> bytes:
    """Return the head of an answer."""
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode()


def make_bodies(secret: str) -> Iterator[tuple[str, bytes]]:
    """Yield types of content, with a secret as services write it in bodies of them."""
    text = json.dumps(secret)
    for written in (text, text.replace("/", "\\/"), json.dumps(text), json.dumps(text.replace("/", "\\/"))):
        yield "application/json", written.encode()
        yield "application/json", f"{written} and no JSON".encode()
    yield "application/json", '"{}"'.format("".join(f"\\u{ord(char):04X}" for char in secret)).encode()
    for written in (secret, html.escape(secret), quote(secret), quote(secret, safe=""), repr(secret)):
        yield "text/plain", written.encode()
        yield "text/plain", re.sub("%..", lambda match: match[0].lower(), written).encode()
    yield "text/plain", b" " * 3_994 + secret.encode()
    for charset in ("utf-16", "utf-16le", "utf-16be", "utf-32", "utf-32le", "utf-32be"):
        for media_type in ("text/plain", "application/json", "text/html"):
            yield f"{media_type}; charset={charset}", secret.encode(charset)
    for charset in ("utf-16", "utf-32"):  # which begin with a byte order mark
        yield "application/xml", secret.encode(charset)
        yield "text/plain; charset=utf-8", secret.encode(charset)
    for media_type in ("application/octet-stream", "image/png", "audio/wav"):
        yield media_type, secret.encode()


def make_answers(secret: str) -> Iterator[bytes]:
    """Yield answers that hold a secret somewhere."""
    for status in ("200 OK", "400 Bad"):
        for media_type, body in make_bodies(secret):
            yield make_head(status, f"Content-Type: {media_type}", f"Content-Length: {len(body)}") + body
    yield f"{secret}\r\n\r\n".encode()
    yield make_head(f"200 OK\r\n{secret}")
    yield make_head("200 OK", "Transfer-Encoding: chunked") + f"{secret}\r\n\r\n".encode()
    for target in (quote(secret, safe=""), secret):
        yield make_head("302 Found", f"Location: /{target}", "Content-Length: 0")


def undo_writing(text: str) -> str:
    """Return a text without the ways in which a secret may be written."""
    plain = html.unescape(unquote(re.sub(r"\\+(?:u00|x)(..)", r"%\1", text)))
    return plain.replace("\\", "").replace("\0", "")


@pytest.mark.parametrize(("scheme", "secret"), list(zip(SCHEMES, SECRETS, strict=True)))
def test_is_found_however_it_is_written(
    server: RawServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, secret: str
) -> None:
    """In JSON, HTML, addresses, bytes, redirects, and what the HTTP library quotes of malformed answers."""
    monkeypatch.setenv("KEY", f"user:{secret}" if scheme == "basic" else secret)
    operations = {"/a": {"post": make_operation("post")}}
    document = make_document(
        operations, server=server.url, security=[{"s": []}], components={"securitySchemes": {"s": SCHEMES[scheme]}}
    )
    texts = list[str]()
    with ToolRegistry(journal=tmp_path / "runs.db") as registry:
        registry.register_openapi(document, namespace="x", owned_by=OPERATOR, auth_env="KEY")
        for server.answer in make_answers(secret):
            result = call(registry, "x-post")
            value: Any = result.result
            data = value.data or b"" if isinstance(value, Content) else b""
            texts += [str(result), result.for_model(), str(value), str(result.error), data.decode()]
    written = b"".join(file.read_bytes() for file in tmp_path.glob("runs.db*") if file.is_file()).decode(
        "utf-8", "replace"
    )
    plain = secret.replace("\\", "")

    for text in (*texts, written):
        assert plain not in undo_writing(text)
        assert plain[:6] not in undo_writing(text)
        assert base64.b64encode(secret.encode()).decode() not in text
    assert "[secret]" in str(texts)


@pytest.mark.parametrize(
    "answer",
    [
        make_head("503 Busy", f"Retry-After: {'1' * 40}{SECRETS[0]}", "Content-Length: 0"),
        make_head(f"401 {'n' * 90} {SECRETS[0]}", "Content-Length: 0"),
        make_head("400 Bad", "Content-Type: text/plain", "Content-Length: 55200")
        + (SECRETS[0] + " " * 165).encode() * 300,
    ],
    ids=["header", "reason", "body"],
)
def test_is_not_cut_in_two(server: RawServer, monkeypatch: pytest.MonkeyPatch, answer: bytes) -> None:
    """Broken promise: a secret reaches no error. The first part of one did where a header or a reason was cut."""
    monkeypatch.setenv("KEY", SECRETS[0])
    document = make_document(
        {"/a": {"get": make_operation("get")}}, server=server.url, security=[{"s": []}],
        components={"securitySchemes": {"s": SCHEMES["header"]}},
    )  # fmt: skip
    server.answer = answer
    with ToolRegistry() as registry:
        registry.register_openapi(document, namespace="x", owned_by=OPERATOR, auth_env="KEY")
        error = str(call(registry, "x-get").error)

    assert "[sec" in error
    assert SECRETS[0][:6] not in error


@pytest.mark.parametrize("body", [b"73519284650192", b'{"a": [73519284650192.0]}'])
def test_is_found_as_a_number(server: RawServer, monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    """Broken promise: a secret reaches no result. One of digits did where a service sent it back as a number."""
    monkeypatch.setenv("KEY", "73519284650192")
    server.answer = make_head("200 OK", "Content-Type: application/json", f"Content-Length: {len(body)}") + body
    document = make_document({"/a": {"get": make_operation("get")}}, server=server.url)
    with ToolRegistry() as registry:
        registry.register_openapi(document, namespace="x", owned_by=OPERATOR, auth_env="KEY")
        result = call(registry, "x-get")

    assert ("[secret]" if body[:1] == b"7" else {"a": ["[secret]"]}) == result.result


def test_other_texts_stay() -> None:
    """Escapes of other texts are not touched, and a long run of them costs little."""
    text = 'C:\\new\\table 100%25 &amp; "x" \\u0041'

    assert text == remove_secrets(text, ["a\\\\\\b-secret"])
    assert "\\" * 200_000 == remove_secrets("\\" * 200_000, ["\\\\\\\\-secret"])


@pytest.mark.parametrize(
    "secret", ["sesame 😀", "näßé-open", "line\none\ttwo", 'it\'s "all" <open> & shut', "back\\slash"]
)
def test_is_found_in_every_usual_spelling(secret: str) -> None:
    """Broken promise: a secret with an emoji or the end of a line was shown where JSON, or a `repr`, wrote it."""
    written = [
        json.dumps(secret), json.dumps(json.dumps(secret)), repr(secret), ascii(secret), repr(secret.encode()),
        json.dumps(secret).replace("/", "\\/"), "".join(f"&#{ord(char):03};" for char in secret),
        "".join(f"&#x{ord(char):04X};" for char in secret), html.escape(secret).replace("&#x27;", "&apos;"),
        json.dumps(html.escape(secret)), html.escape(json.dumps(secret)[1:-1]), quote(secret, safe=""),
        quote_plus(secret), "".join(f"%{octet:02x}" for octet in secret.encode()),
    ]  # fmt: skip

    for text in written:
        assert "[secret]" == str(remove_secrets(text, [secret])).strip("b'\"\\"), text


@pytest.mark.parametrize("begun", ["&", "%", "\\", "\\\\\\"])
def test_a_text_that_is_nearly_a_secret_costs_little(begun: str) -> None:
    """Broken promise: a service cannot make its caller stand still. The work doubled with each character of these."""
    secret = "token+/=" * 40
    texts = [begun + secret[:length] + "!" for length in range(len(secret))]
    texts += [begun + "".join(f"%{ord(char):02x}" for char in secret[:-1]) + "!"]
    texts += [begun + "".join(f"&#{ord(char)};" for char in secret[:-1]) + "!"]

    assert texts == remove_secrets(texts, [secret])


def test_truth_values_stay() -> None:
    """A secret of digits hides the number that it is read as, but no `true` or `false`, which equal 1 and 0 here."""
    assert [True, False, "[secret]"] == remove_secrets([True, False, 1], ["000001", "000000"])


def test_a_service_that_sends_nothing_back_is_read_as_it_is(server: RawServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes without the secret are the bytes of the answer."""
    monkeypatch.setenv("KEY", "sesame-open")
    body = bytes(range(256))
    server.answer = make_head("200 OK", "Content-Type: image/png", "Content-Length: 256") + body
    with ToolRegistry() as registry:
        registry.register_openapi(
            make_document({"/a": {"get": make_operation("get")}}, server=server.url),
            namespace="x", owned_by=OPERATOR, auth_env="KEY",
        )  # fmt: skip
        result = call(registry, "x-get")

    assert (Outcome.OK, body) == (result.outcome, result.result.data)  # type: ignore[union-attr]


def test_is_found_without_the_end_of_its_line(server: RawServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken promise: a key from a file, which ends with a line, came back without that, and was in the result."""
    monkeypatch.setenv("KEY", f"{SECRETS[0]}\n")
    body = json.dumps({"key": SECRETS[0]}).encode()
    server.answer = make_head("200 OK", "Content-Type: application/json", f"Content-Length: {len(body)}") + body
    document = make_document(
        {"/a": {"get": make_operation("get")}}, server=server.url, security=[{"s": []}],
        components={"securitySchemes": {"s": {"type": "apiKey", "in": "query", "name": "k"}}},
    )  # fmt: skip
    with ToolRegistry() as registry:
        registry.register_openapi(document, namespace="x", owned_by=OPERATOR, auth_env="KEY")
        assert {"key": "[secret]"} == call(registry, "x-get").result
