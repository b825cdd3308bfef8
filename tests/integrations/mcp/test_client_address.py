"""Where a server is: commands and URLs, what they pass on, and what is kept secret."""

# Tests of: address

from __future__ import annotations

import base64
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp_client_rig import OPERATOR, call, plain_command, register_plain
from mcp_http_fault import FaultyServer, serve_faults
from record_texts import read_journal

from praval_tools import Outcome, ToolRegistry, ToolUsageError
from praval_tools.integrations.mcp.client import McpServerError
from praval_tools.integrations.mcp.client.address import parse_address

SECRET = "s3cr3t-t0ken-0123456789"
MESSAGES = (
    {"method": "notifications/progress", "params": {"progressToken": None, "progress": SECRET}},
    {"method": "notifications/message", "params": {"level": SECRET, "data": "x"}},
    {"method": "notifications/cancelled", "params": {"requestId": {SECRET: 1}}},
    {"method": "notifications/resources/updated", "params": {"uri": [SECRET]}},
    {"method": f"notifications/{SECRET}", "params": {}},
    {"method": f"x/{SECRET}", "id": "a", "params": {}},
    {"method": "sampling/createMessage", "id": SECRET, "params": {"messages": SECRET}},
    {"method": "ping", "id": SECRET},
    {"id": SECRET, "result": {}},
    {"id": SECRET, "error": {"code": 1, "message": SECRET}},
    {"unknown": SECRET},
    {"method": "notifications/message", "params": {"level": "info", "data": json.loads("[" * 900 + "]" * 900)}},
)
"""What a server may send beside answers, with its token."""
PRINT_SPANS = """
import sys
from pathlib import Path
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from mcp_client_rig import call, register_plain
from praval_tools import ToolRegistry

trace.set_tracer_provider(TracerProvider())
trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
with ToolRegistry(telemetry=True) as registry:
    register_plain(registry, "tells its token in errors", Path(sys.argv[1]), env="TOKEN_OF_MINE")
    call(registry, "plain-work", x=1)
"""
"""Prints the spans of a call whose server answers with an error that quotes its token."""
VARIABLE = "BANK_AUTHORIZATION"
HEADERS = {"Authorization": VARIABLE}
FAULTS = (
    "",
    "echo",
    "echo bytes",
    "echo error",
    "echo refusal",
    "echo malformed",
    "echo escapes",
    "echo events",
    "echo in pieces",
    "echo notifications",
    "401",
    "reset",
)
"""What the server does with what it got, one call after the other."""


class TestAddresses:
    @pytest.mark.parametrize(
        ("server", "namespace"),
        [
            ("https://mcp.example.com/v1/mcp?key=1", "mcp_example_com"),
            ("python weather.py --fast", "weather"),
            (["python", "-m", "weather_server"], "weather_server"),
            (["/opt/bin/git-server", "-v"], "git_server"),
            ("npx -y files", "npx"),
        ],
    )
    def test_a_namespace_comes_from_the_operators_words(self, server: str | list[str], namespace: str) -> None:
        """Without `namespace=` it is made of the URL or command: a server cannot choose the names of its tools."""
        assert namespace == parse_address(server, None, ()).propose_namespace()

    @pytest.mark.parametrize("server", [f"https://mcp.example.com/{SECRET}/mcp?key={SECRET}", ["/opt/serve", SECRET]])
    def test_are_shown_without_what_may_be_a_key(self, server: str | list[str]) -> None:
        """Broken promise: the path of a URL, which some servers take a key in, was in each message about the server."""
        address = parse_address(server, None, ())

        assert address.text in ("https://mcp.example.com", "serve")
        assert SECRET not in repr(address)

    @pytest.mark.parametrize(
        ("server", "text"),
        [
            ("ws://example.com/mcp", "MCP defines no WebSocket transport, so ws: is refused"),
            ("wss://example.com/mcp", "streamable HTTP endpoint, or a command"),
            ("ftp://example.com", "this is not the http:// or https:// URL"),
            ("https://", "this is not the http:// or https:// URL"),
            ("https://ann:pa55word@example.com/mcp", "headers_env="),
            ("", "a command, as text or list of texts, or the URL"),
            ([], "a command, as text or list of texts, or the URL"),
            (["a", 1], "a command, as text or list of texts, or the URL"),
            (["a\0b"], "a command, as text or list of texts, or the URL"),
            ('say "hello', "No closing quotation"),
            (7, "a command, as text or list, or a URL"),
        ],
    )
    def test_what_cannot_be_used_is_refused(self, server: object, text: str) -> None:
        """The error says why, and what to pass instead; a password in a URL is not repeated."""
        with ToolRegistry() as registry, pytest.raises(ToolUsageError) as caught:
            registry.register_mcp(server)  # type: ignore[arg-type]

        assert text in str(caught.value)
        assert "pa55word" not in str(caught.value)

    @pytest.mark.parametrize(
        ("options", "error", "text"),
        [
            ({"headers_env": HEADERS}, ToolUsageError, "headers_env= is for a URL"),
            ({"bearer_env": VARIABLE}, ToolUsageError, "bearer_env= is for a URL"),
            ({"names": {"work": "a b"}}, ValueError, "'a b' is not a valid tool name"),
            ({"timeuot": 3}, TypeError, "timeout"),
            ({"max_tools": 0}, ToolUsageError, "a positive number as max_tools="),
            ({"connect_timeout": "3"}, ToolUsageError, "a positive number as connect_timeout="),
            ({"namespace": "a b"}, ValueError, "'a b' is not a valid tool name"),
            ({"env": ["NO_SUCH_VARIABLE"]}, McpServerError, "the variable 'NO_SUCH_VARIABLE', which it is to get"),
        ],
    )
    def test_options_are_checked(
        self, options: dict[str, object], error: type[Exception], text: str, tmp_path: Path
    ) -> None:
        """A wrong option is an error that names it, before anything is started."""
        with ToolRegistry() as registry, pytest.raises(error, match=text):
            registry.register_mcp(plain_command("normal", tmp_path / "notes"), **options)  # type: ignore[arg-type]

        assert not (tmp_path / "notes").exists()


class TestEnvironment:
    def test_a_process_gets_what_it_is_given(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A server's process sees a few usual variables and those that the operator names, and no others."""
        monkeypatch.setenv("GIVEN", "yes")
        monkeypatch.setenv("KEPT_BACK", SECRET)
        with ToolRegistry() as registry:
            register_plain(registry, "environment", tmp_path / "notes", env=["GIVEN"])
            seen = json.loads(str(call(registry, "plain-work", x=1).result))

        assert ("yes", True, False) == (seen["GIVEN"], "PATH" in seen, "KEPT_BACK" in seen)

    def test_the_values_do_not_come_back(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A value that a server got from the operator is taken out of what it answers."""
        monkeypatch.setenv("TOKEN_OF_MINE", SECRET)
        with ToolRegistry() as registry:
            register_plain(registry, "environment", tmp_path / "notes", env="TOKEN_OF_MINE")
            text = str(call(registry, "plain-work", x=1).result)

        assert SECRET not in text
        assert "[secret]" in text

    def test_the_values_do_not_come_back_in_pieces(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Broken promise: a token came out where the invisible characters that a server put into it were removed."""
        text = "\u200b".join(SECRET)
        schema = {"type": "object", "title": text, "properties": {"x": {"description": text}}}
        definition = {"title": text, "description": text, "inputSchema": schema, "outputSchema": schema}
        monkeypatch.setenv("TOKEN_OF_MINE", SECRET)
        monkeypatch.setenv("MCP_DEFINITION", json.dumps(definition))
        with ToolRegistry(journal="memory") as registry:
            names = ["TOKEN_OF_MINE", "MCP_DEFINITION"]
            register_plain(registry, "tells its token in pieces", tmp_path / "notes", env=names)
            errors = [call(registry, "plain-work", x=x).error for x in (1, 2)]
            tool = registry.get_tool("plain-work")
            written = f"{tool!r} {tool and tool.parameters} {tool and tool.result_schema} {read_journal(registry)}"

        assert ["[secret]", "[secret]"] == errors
        assert "[secret]" in written and SECRET not in written

    def test_the_values_are_in_no_error(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        Broken promise: credentials are in no error. One of a later listing held them, and so `registry.problems()`.

        So did what a process said last, where the beginning of the value was cut off.
        """
        monkeypatch.setenv("TOKEN_OF_MINE", SECRET)
        with ToolRegistry() as registry:
            source = register_plain(registry, "tells its token", tmp_path / "notes", env="TOKEN_OF_MINE")
            texts = [str(source.list_problems())]
            with pytest.raises(McpServerError) as caught:
                source.refresh()
            texts += [str(caught.value), str(source.list_problems()), str(call(registry, "plain-work", x=1).error)]

        expected = ["Tool '[secret]' is left out", *["[secret] has expired"] * 2, "exit code 1, and said"]
        assert [True] * 4 == [part in text for part, text in zip(expected, texts, strict=True)]
        assert not any(SECRET[-8:] in text for text in texts)

    def test_the_values_are_in_no_log(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Broken promise: the SDK wrote malformed requests and notifications into its log, with what was in them."""
        caplog.set_level(logging.DEBUG)
        monkeypatch.setenv("TOKEN_OF_MINE", SECRET)
        monkeypatch.setenv("MCP_MESSAGES", json.dumps(MESSAGES))
        with ToolRegistry() as registry:
            register_plain(
                registry, "tells its token in messages", tmp_path / "notes", env=["TOKEN_OF_MINE", "MCP_MESSAGES"]
            )
            result = call(registry, "plain-work", x=1)

        assert Outcome.OK is result.outcome
        assert "[secret]" in caplog.text
        assert SECRET not in caplog.text

    def test_the_values_are_in_no_span(self, tmp_path: Path) -> None:
        """Broken promise: credentials are in no record. What an error of the server said was in a span of the SDK."""
        command = [sys.executable, "-c", PRINT_SPANS, str(tmp_path / "notes")]
        environment = {**os.environ, "TOKEN_OF_MINE": SECRET, "PYTHONPATH": os.pathsep.join(sys.path)}
        spans = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60).stdout

        assert "Bad key: [secret]" in spans
        assert SECRET not in spans

    def test_a_value_of_digits_is_found_as_a_number(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Broken promise: the value of a variable is blacked out where it comes back; as a number it was not."""
        monkeypatch.setenv("TOKEN_OF_MINE", "73519284650192")
        with ToolRegistry() as registry:
            register_plain(registry, "tells its number", tmp_path / "notes", env="TOKEN_OF_MINE")
            result = call(registry, "plain-work", x=1)

        assert {"number": "[secret]", "numbers": ["[secret]"]} == result.result


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyServer]:
    """A server over HTTP, and the variable with its credentials."""
    monkeypatch.setenv(VARIABLE, f"Bearer {SECRET}")
    with serve_faults() as server:
        yield server


class TestHeaders:
    def test_hold_the_values_of_variables(self, faulty: FaultyServer) -> None:
        """Each request has the header, with the whole value of the variable."""
        with ToolRegistry() as registry:
            registry.register_mcp(faulty.url, namespace="bank", owned_by=OPERATOR, headers_env=HEADERS)
            call(registry, "bank-work", x=1)

        assert {f"Bearer {SECRET}"} == {headers["authorization"] for headers in faulty.seen}

    def test_a_bearer_token_is_the_value_of_a_variable(
        self, faulty: FaultyServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """`bearer_env` names it; the token is kept out of what the server answers, and goes beside no other one."""
        monkeypatch.setenv("TOKEN_OF_MINE", SECRET)
        with ToolRegistry() as registry:
            options = {"namespace": "bank", "owned_by": OPERATOR, "bearer_env": "TOKEN_OF_MINE"}
            with pytest.raises(ToolUsageError, match="both give the header Authorization"):
                registry.register_mcp(faulty.url, headers_env=HEADERS, **options)  # type: ignore[arg-type]
            source = registry.register_mcp(faulty.url, **options)  # type: ignore[arg-type]
            assert SECRET not in str(call(registry, "bank-work", x=1))
            assert SECRET not in repr(source)

        assert {f"Bearer {SECRET}"} == {headers["authorization"] for headers in faulty.seen}

    def test_of_basic_authentication_are_blacked_out_as_they_were_before(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Broken promise: credentials reach no record. A password that a server had decoded did."""
        monkeypatch.setenv(VARIABLE, f"Basic {base64.b64encode(f'ann:{SECRET}'.encode()).decode()}")

        assert {f"ann:{SECRET}", SECRET} <= set(parse_address("https://a.example", HEADERS, ()).list_secrets())

    def test_are_blacked_out_without_the_end_of_their_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Broken promise: a token from a file, which ends with a line, came back without that and was recorded."""
        monkeypatch.setenv(VARIABLE, f"{SECRET}\n")

        assert SECRET in parse_address(["server"], None, [VARIABLE]).list_secrets()

    def test_reach_no_record(
        self, faulty: FaultyServer, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
    ) -> None:
        """A token is in no log, journal, error, result or repr, even where the server sends it back."""
        caplog.set_level(logging.DEBUG)
        path, texts, outcomes = tmp_path / "runs.db", list[object](), set[Outcome]()
        with ToolRegistry(journal=path) as registry:
            source = registry.register_mcp(faulty.url, namespace="bank", owned_by=OPERATOR, headers_env=HEADERS)
            with registry.run("night"):
                for number, faulty.fault in enumerate(FAULTS):
                    result = call(registry, "bank-work", x=number)
                    outcomes.add(result.outcome)
                    texts += [result, result.for_model(), repr(result.exception), getattr(result.result, "data", b"")]
            texts += [repr(source), registry.problems(), [tool.metadata for tool in registry]]
        written = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
        captured = capfd.readouterr()

        assert {Outcome.OK, Outcome.TOOL_ERROR, Outcome.IN_DOUBT} == outcomes
        for text in (str(texts), caplog.text, captured.out, captured.err, written.decode("utf-8", "replace")):
            assert SECRET not in text
        assert "[secret]" in str(texts)

    @pytest.mark.parametrize("fault", ["echo escapes", "echo in pieces"])
    def test_reach_no_log_where_a_server_escapes_them(
        self, faulty: FaultyServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fault: str
    ) -> None:
        """Broken promise: credentials are in no log or error. Parts of a token with a slash, written `\\/`, were."""
        caplog.set_level(logging.DEBUG)
        pieces = [f"{number:08x}" for number in range(0x12345678, 0x92345678, 0x11111111)]
        monkeypatch.setenv(VARIABLE, f"Bearer {'/'.join(pieces)}")
        with ToolRegistry() as registry:
            registry.register_mcp(faulty.url, namespace="bank", owned_by=OPERATOR, headers_env=HEADERS)
            faulty.fault = fault
            result = call(registry, "bank-work", x=1)

        assert Outcome.IN_DOUBT is result.outcome
        assert [] == [piece for piece in pieces if piece in caplog.text + str(result)]

    def test_are_blacked_out_in_headers_of_answers(
        self, faulty: FaultyServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A server that sends a token back as the id of a session, or a type of content, puts it into no log."""
        caplog.set_level(logging.INFO)
        with ToolRegistry() as registry:
            registry.register_mcp(faulty.url, namespace="bank", owned_by=OPERATOR, headers_env=HEADERS)
            faulty.fault = "echo header"
            result = call(registry, "bank-work", x=1)

        assert "[secret]" in (result.error or "")
        assert SECRET not in caplog.text

    @pytest.mark.parametrize("value", ["", "two\nlines", "ümlaut", " space"])
    def test_a_value_that_cannot_be_a_header_is_refused(
        self, faulty: FaultyServer, value: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The error names the variable and the header, and not the value."""
        monkeypatch.setenv(VARIABLE, value)
        with ToolRegistry() as registry, pytest.raises(McpServerError) as caught:
            registry.register_mcp(faulty.url, namespace="bank", headers_env=HEADERS)

        assert f"the variable '{VARIABLE}', for the header 'Authorization'" in str(caught.value)
        assert not value or value not in str(caught.value)
        assert [] == faulty.seen

    def test_are_not_sent_elsewhere(self, faulty: FaultyServer) -> None:
        """A redirect to another host is not followed, so that no other server gets the credentials."""
        with ToolRegistry() as registry:
            registry.register_mcp(faulty.url, namespace="bank", owned_by=OPERATOR, headers_env=HEADERS)
            faulty.fault = "redirect"
            result = call(registry, "bank-work", x=1)

        assert (Outcome.TOOL_ERROR, True) == (result.outcome, "not followed" in (result.error or ""))
