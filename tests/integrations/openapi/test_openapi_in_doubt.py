"""A request is sent once: where it is cut, its outcome says whether it may have had an effect."""

# Tests of: http_client

from __future__ import annotations

import asyncio
import gzip
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("httpx")

from openapi_raw_server import RawServer, make_answer, serve_raw
from openapi_rig import OPERATOR, call, make_body, make_document, make_operation, to_json

from praval_tools import Outcome, ToolCall, ToolRegistry

METHODS = ("get", "head", "post", "put", "patch", "delete")


def make_service(url: str) -> dict[str, object]:
    """Return a document with an operation of each method, named after it."""
    body = {"requestBody": make_body({})}
    operations = {name: make_operation(name, **(body if name in ("post", "put", "patch") else {})) for name in METHODS}
    return make_document({"/a": operations}, server=url)


@pytest.fixture
def server() -> Iterator[RawServer]:
    """The service."""
    with serve_raw() as server:
        yield server


@pytest.fixture
def registry(server: RawServer) -> Iterator[ToolRegistry]:
    """A registry that tries again whatever it may, with the operations as `x`."""
    with ToolRegistry(retries=1, retry_wait=0.01) as registry:
        registry.register_openapi(make_service(server.url), namespace="x", owned_by=OPERATOR, max_answer_bytes=1_000)
        yield registry


CUTS = [
    (b"", "disconnected"),
    (b"HTTP/1.1 200 OK\r\ncontent-len", "disconnected"),
    (b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{", "of status 200, cannot be read"),
    (b"nonsense\r\n\r\n", "RemoteProtocolError"),
    (make_answer(b"x" * 1_001), "it is longer than 1,000 bytes"),
    (make_answer(gzip.compress(b"x" * 10_000_000), "content-encoding: gzip"), "it is compressed"),
    (make_answer(b"x", "content-encoding: br"), "it is compressed"),
    (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffff\r\n" + b"x" * 5_000, "it is longer than"),
]


class TestCuts:
    @pytest.mark.parametrize(("answer", "text"), CUTS)
    def test_of_what_changes_something_are_in_doubt(
        self, registry: ToolRegistry, server: RawServer, answer: bytes, text: str
    ) -> None:
        """Whatever is wrong with the answer: it is unknown what came of the request, and it is not sent again."""
        server.answer = answer
        for method in ("post", "put", "patch", "delete"):
            body = {} if method == "delete" else {"body": {}}
            result = call(registry, f"x-{method}", body)

            assert (Outcome.IN_DOUBT, True) == (result.outcome, text in str(result.error)), result
            assert f"{method.upper()} {server.url}/a was sent" in str(result.error)
        assert 4 == len(server.requests)

    @pytest.mark.parametrize(("answer", "text"), CUTS)
    def test_of_what_changes_nothing_are_errors(
        self, registry: ToolRegistry, server: RawServer, answer: bytes, text: str
    ) -> None:
        """GET is sent again, as the registry says, and then it is an error."""
        server.answer = answer
        result = call(registry, "x-get")

        assert (Outcome.TOOL_ERROR, "OpenApiConnectionError", 2) == (
            result.outcome,
            result.error_type,
            len(server.requests),
        )
        assert text in str(result.error)

    def test_what_was_not_sent_is_an_error(self) -> None:
        """Where there is no server nothing is sent, whatever the method: it may be tried again."""
        with serve_raw() as server:
            url = server.url
        with ToolRegistry() as registry:
            registry.register_openapi(make_service(url), namespace="x", owned_by=OPERATOR)
            for method in ("get", "post"):
                result = call(registry, f"x-{method}", {"body": 1} if method == "post" else {})

                assert (Outcome.TOOL_ERROR, "OpenApiConnectionError") == (result.outcome, result.error_type)
                assert f"{method.upper()} {url}/a was not sent" in str(result.error)

    @pytest.mark.parametrize(
        ("status", "method", "outcome"),
        [
            ("302 Found", "post", Outcome.IN_DOUBT), ("303 See Other", "delete", Outcome.IN_DOUBT),
            ("307 Temporary Redirect", "post", Outcome.TOOL_ERROR), ("308 Moved", "put", Outcome.TOOL_ERROR),
            ("302 Found", "get", Outcome.TOOL_ERROR), ("500 Internal Server Error", "post", Outcome.TOOL_ERROR),
            ("404 Not Found", "delete", Outcome.TOOL_ERROR),
        ],
    )  # fmt: skip
    def test_answers_say_what_came_of_it(
        self, registry: ToolRegistry, server: RawServer, status: str, method: str, outcome: Outcome
    ) -> None:
        """A redirect that is not followed may come after the work; 307 and 308 say that nothing was done."""
        server.answer = make_answer(b"", "location: http://elsewhere.example/", status=status)
        result = call(registry, f"x-{method}", {"body": 1} if method in ("post", "put") else {})

        assert (outcome, 1) == (result.outcome, len(server.requests)), result

    @pytest.mark.parametrize(
        ("status", "outcome"), [("303 See Other", Outcome.IN_DOUBT), ("307 Moved", Outcome.TOOL_ERROR)]
    )
    def test_a_redirect_to_what_is_gone(
        self, registry: ToolRegistry, server: RawServer, status: str, outcome: Outcome
    ) -> None:
        """After a 303 the work may be done: that the next place cannot be reached does not allow to do it again."""
        server.answer, server.ends = make_answer(b"", "location: /b", "connection: close", status=status), True
        result = call(registry, "x-post", body=1)

        assert (outcome, 1) == (result.outcome, len(server.requests)), result

    @pytest.mark.parametrize("status", ["301 Moved", "302 Found"])
    @pytest.mark.parametrize("method", ["post", "put", "delete"])
    def test_a_redirect_that_says_nothing_of_the_work(
        self, registry: ToolRegistry, server: RawServer, method: str, status: str
    ) -> None:
        """Broken promise: `ok` is what was done; the answer of the GET that came after it says nothing of it."""
        server.answer = make_answer(b"", "location: /b", status=status)
        result = call(registry, f"x-{method}", {} if method == "delete" else {"body": 1})

        assert (Outcome.IN_DOUBT, 1) == (result.outcome, len(server.requests)), result
        assert "redirects by a status that does not say what came of the request" in str(result.error)

    def test_a_time_out_ends_the_request(self, server: RawServer) -> None:
        """A service that is silent costs its own call, which is not sent again."""
        server.held = b"POST"
        with ToolRegistry(retries=2, retry_wait=0.01) as registry:
            registry.register_openapi(make_service(server.url), namespace="x", owned_by=OPERATOR, timeout=1.0)

            assert call(registry, "x-post", body=1).outcome is Outcome.TIMEOUT
        assert 1 == len(server.requests)

    def test_a_cancelled_call_ends_its_request(self, server: RawServer) -> None:
        """Cancelling the task of a call is enough: nothing waits for the service any longer."""
        server.held = b"POST"

        async def main() -> bool:
            async with ToolRegistry() as registry:
                await asyncio.to_thread(
                    registry.register_openapi, make_service(server.url), namespace="x", owned_by=OPERATOR
                )
                task = asyncio.create_task(registry.aexecute(ToolCall(None, "x-post", {"body": 1}, OPERATOR)))
                await asyncio.to_thread(server.has_request.wait, 30)
                task.cancel()
                await asyncio.wait([task])
                return task.cancelled()

        assert asyncio.run(main())


PROGRAM = """
import sys
from praval_tools import ToolCall, ToolRegistry
registry = ToolRegistry(journal=sys.argv[2])
registry.register_openapi(sys.argv[1], namespace="x", owned_by="ops")
with registry.run("night") as run:
    for name, arguments in (("x-get", {}), ("x-post", {"body": 1})):
        result = registry.execute(ToolCall(None, name, arguments, "ops"))
        print(result.outcome.value, flush=True)
"""


class TestRuns:
    @pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL here")
    @pytest.mark.parametrize(
        ("method", "outcomes", "sent"), [("GET", ["ok", "ok"], ["GET", "POST"]), ("POST", ["ok", "in_doubt"], [])]
    )
    def test_a_killed_process_leaves_its_request_in_doubt(
        self, server: RawServer, tmp_path: Path, method: str, outcomes: list[str], sent: list[str]
    ) -> None:
        """Of a process that is killed while a request is under way, a POST is in doubt, and a GET is sent again."""
        document, journal = tmp_path / "api.json", tmp_path / "runs.db"
        document.write_bytes(to_json(make_service(server.url)))
        command = [sys.executable, "-c", PROGRAM, str(document), str(journal)]
        server.answer, server.held = make_answer(b"1"), method.encode()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert server.has_request.wait(30)
            process.kill()
        server.may_answer.set()
        sent_before = len(server.requests)
        again = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

        assert (outcomes, sent) == (
            again,
            [str(request.split()[0], "ascii") for request in server.requests[sent_before:]],
        )

    def test_a_run_waits_for_a_person(self, server: RawServer, tmp_path: Path) -> None:
        """A run holds a request that was cut as in doubt, and sends it no second time until that is resolved."""
        with ToolRegistry(journal=tmp_path / "runs.db") as registry:
            registry.register_openapi(make_service(server.url), namespace="x", owned_by=OPERATOR)
            for _ in range(2):
                with registry.run("night") as run:
                    assert call(registry, "x-post", body=1).outcome is Outcome.IN_DOUBT
                    (doubtful,) = run.in_doubt
            with registry.run("night") as run:
                run.resolve(doubtful.tool_call_id, result="seen in the books")
                assert "seen in the books" == call(registry, "x-post", body=1).result
        assert 1 == len(server.requests)
