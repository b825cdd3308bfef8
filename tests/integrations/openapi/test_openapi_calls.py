"""The operations of a real service are tools: its own generated document, and real requests."""

# Tests of: api_source, answers, registry/sources, registry/openapi_services

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from fastapi import FastAPI
from openapi_rig import OPERATOR, Recorder, call, make_document, make_operation, make_parameter, serve
from openapi_shop import make_shop
from starlette.responses import Response

from praval_tools import Content, Outcome, ToolCall, ToolRegistry
from praval_tools.integrations.openapi import OpenApiSource, OpenApiStatusError


@pytest.fixture(scope="module")
def shop() -> FastAPI:
    """The application."""
    return make_shop()


@pytest.fixture(scope="module")
def url(shop: FastAPI) -> Iterator[str]:
    """Its URL."""
    with serve(shop) as url:
        yield url


@pytest.fixture(scope="module")
def registry(url: str) -> Iterator[ToolRegistry]:
    """A registry with the operations, as `shop`."""
    with ToolRegistry() as registry:
        registry.register_openapi(f"{url}/openapi.json", namespace="shop", owned_by=OPERATOR)
        yield registry


class TestTools:
    def test_are_all_operations(self, registry: ToolRegistry, shop: FastAPI) -> None:
        """Every operation of the document that FastAPI generates is a tool, with its id behind the namespace."""
        document = shop.openapi()
        ids = {operation["operationId"] for item in document["paths"].values() for operation in item.values()}

        assert 17 == len(ids)
        assert ids == {tool.name.removeprefix("shop-") for tool in registry.list_all_tools()}
        assert {"no-owner"} == {problem.kind for problem in registry.problems()}

    def test_are_granted_to_nobody(self, registry: ToolRegistry) -> None:
        """Only their owner may call them."""
        result = registry.execute(ToolCall(None, "shop-find_pets", {"words": "x"}, "somebody"))

        assert result.outcome is Outcome.FORBIDDEN

    def test_describe_themselves(self, registry: ToolRegistry) -> None:
        """Summary and description, deprecation, schema, and where they come from."""
        show, find = registry.get_tool("shop-show_pet"), registry.get_tool("shop-find_pets")
        assert show is not None and find is not None
        limit = {"type": "integer", "maximum": 50, "minimum": 1, "title": "Limit", "description": "Default: 20."}

        assert ("Show a pet.", "Show a pet.\n\nIt need not exist.") == (show.metadata.title, show.description)
        assert find.description.startswith("Deprecated. ")
        assert ["words"] == find.parameters["required"]
        assert limit == find.parameters["properties"]["limit"]
        assert ("openapi", "shop", "2.1", "external") == (
            show.metadata.source.kind, show.metadata.source.distribution, show.metadata.source.version,
            show.metadata.safety,
        )  # fmt: skip

    @pytest.mark.parametrize(
        ("name", "read_only", "idempotent", "destructive"),
        [
            ("show_pet", True, True, None), ("measure", True, True, None), ("add_pet", False, False, None),
            ("change_pet", False, False, None), ("replace_file", False, False, None),
            ("remove_pet", False, False, True),
        ],
    )  # fmt: skip
    def test_say_what_they_may_do(
        self, registry: ToolRegistry, name: str, read_only: bool, idempotent: bool, destructive: bool | None
    ) -> None:
        """What GET and HEAD do may be done again; of all others nobody knows."""
        meta = registry.get_tool(f"shop-{name}").metadata  # type: ignore[union-attr]

        assert (read_only, idempotent, destructive) == (meta.read_only, meta.idempotent, meta.destructive)

    def test_metadata_is_the_operators(self, url: str) -> None:
        """What the operator says of an operation counts."""
        fields: Any = {"remove_pet": {"requires_approval": True, "risk_level": "high"}}
        with ToolRegistry() as registry:
            registry.register_openapi(f"{url}/openapi.json", namespace="shop", owned_by=OPERATOR, metadata=fields)

            assert call(registry, "shop-remove_pet", pet_id="1").outcome is Outcome.APPROVAL_REQUIRED


class TestCalls:
    def test_parameters_reach_their_places(self, registry: ToolRegistry) -> None:
        """Path, query, header and cookie."""
        arguments = {"pet_id": 7, "tags": ["a b", "c&d"], "x-trace": "t-1", "session": "s1"}
        result = call(registry, "shop-show_pet", arguments)

        assert {"id": 7, "tags": ["a b", "c&d"], "trace": "t-1", "session": "s1"} == result.result

    def test_arguments_are_checked_before(self, registry: ToolRegistry, shop: FastAPI) -> None:
        """What does not fit the document is not sent."""
        count = len(shop.state.pets)
        results = [call(registry, "shop-add_pet", body=body) for body in ({}, {"name": ""}, {"name": "x", "age": "y"})]
        results.append(call(registry, "shop-add_pet", body={"name": "x"}, more=1))

        assert {Outcome.INVALID_ARGUMENTS} == {result.outcome for result in results}
        assert "$.body.name" in str(results[0].error)
        assert count == len(shop.state.pets)

    def test_bodies_are_json(self, registry: ToolRegistry) -> None:
        """With what refers to itself."""
        result = call(registry, "shop-add_pet", body={"name": "rex", "friends": [{"name": "ann"}]})

        assert ("rex", "ann") == (result.result["name"], result.result["friends"][0]["name"])

    def test_defaults_are_not_sent(self, registry: ToolRegistry) -> None:
        """What a caller leaves out is left out: a change of one field changes no other."""
        result = call(registry, "shop-change_pet", pet_id="1", body={"name": "rex"})

        assert {"name": "rex"} == result.result["sent"]

    def test_forms(self, registry: ToolRegistry) -> None:
        """A form, whose lists are repeated fields."""
        result = call(registry, "shop-log_in", body={"user": "ann & bob", "rights": ["read", "write"]})

        assert {"user": "ann & bob", "rights": ["read", "write"]} == result.result

    def test_files(self, registry: ToolRegistry) -> None:
        """Files are given in base64, several as a list."""
        files = [base64.b64encode(text).decode() for text in (b"one", b"two")]
        result = call(registry, "shop-upload", body={"files": files, "note": "ü"})

        assert ["ü", ["files", "one"], ["files", "two"]] == result.result
        assert 3 == call(registry, "shop-replace_file", name="x", body={"content": files[0]}).result

    def test_bytes_that_are_none(self, registry: ToolRegistry) -> None:
        """Text that is not base64 is an error, and nothing is sent."""
        result = call(registry, "shop-replace_file", name="x", body={"content": "§"})

        assert (Outcome.TOOL_ERROR, "OpenApiRequestError") == (result.outcome, result.error_type)

    def test_from_async_code_and_many_threads(self, registry: ToolRegistry) -> None:
        """One client serves several event loops and threads at once."""

        async def call_many() -> list[Any]:
            calls = [ToolCall(None, "shop-show_pet", {"pet_id": number}, OPERATOR) for number in range(10)]
            return [result.result["id"] for result in await asyncio.gather(*map(registry.aexecute, calls))]

        with ThreadPoolExecutor(4) as pool:
            loops = [pool.submit(asyncio.run, call_many()) for _ in range(2)]
            results = pool.map(lambda number: call(registry, "shop-show_pet", pet_id=number).result["id"], range(20))

            assert list(range(20)) == list(results)
            assert [list(range(10))] * 2 == [loop.result() for loop in loops]

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
    @pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
    def test_in_a_forked_process(self, registry: ToolRegistry) -> None:
        """A child has connections of its own."""
        assert 1 == call(registry, "shop-show_pet", pet_id=1).result["id"]
        if (child := os.fork()) == 0:
            result = call(registry, "shop-show_pet", pet_id=2)
            os._exit(0 if result.outcome is Outcome.OK and result.result["id"] == 2 else 1)

        assert 0 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert 3 == call(registry, "shop-show_pet", pet_id=3).result["id"]


class TestAnswers:
    def test_text_and_nothing(self, registry: ToolRegistry) -> None:
        """Text is text, and an answer without a body is None."""
        assert "grüezi" == call(registry, "shop-read_text").result
        assert (Outcome.OK, None) == ((done := call(registry, "shop-remove_pet", pet_id="1")).outcome, done.result)

    def test_media(self, registry: ToolRegistry, url: str) -> None:
        """Pictures and other bytes are content."""
        assert Content.image(b"\x89PNG", "image/png") == call(registry, "shop-draw").result
        archive = Content.resource(f"{url}/archive", data=b"PK\0", mime_type="application/zip")
        assert archive == call(registry, "shop-pack").result

    def test_headers_of_head(self, registry: ToolRegistry) -> None:
        """HEAD has no body, so the headers are the value; without cookies."""
        headers = call(registry, "shop-measure", pet_id=5).result

        assert '"5"' == headers["etag"]
        assert "set-cookie" not in headers

    def test_json_that_is_none_is_text(self, registry: ToolRegistry) -> None:
        """The service did its work, so that is not an error."""
        assert '{"a": NaN' == call(registry, "shop-answer_badly").result

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, 429, 500, 503])
    def test_errors_have_their_status(self, registry: ToolRegistry, status: int) -> None:
        """4xx and 5xx are errors of the tool, which say the status, and what the service says."""
        result = call(registry, "shop-fail", status=status)

        assert result.outcome is Outcome.TOOL_ERROR
        assert f"GET /fail/{{status}} was answered with the status {status}" in str(result.error)
        assert "no such thing" in str(result.error)
        assert isinstance(result.exception, OpenApiStatusError) and status == result.exception.status

    def test_what_may_come_later_is_tried_again(self, url: str) -> None:
        """A safe request that was answered with 503 is tried again as the registry says; another one never is."""
        recorder = Recorder()
        with serve(recorder.app) as other, ToolRegistry(retries=2, retry_wait=0.01) as registry:
            recorder.respond = lambda _: Response(status_code=503)
            document = make_document(
                {"/a": {"get": make_operation("read"), "post": make_operation("write")}}, server=other
            )
            registry.register_openapi(document, namespace="x", owned_by=OPERATOR)
            outcomes = [call(registry, f"x-{name}").outcome for name in ("read", "write")]

        assert [Outcome.TOOL_ERROR] * 2 == outcomes
        assert ["GET", "GET", "GET", "POST"] == [request["method"] for request in recorder.requests]

    def test_a_request_to_wait_is_reported(self, registry: ToolRegistry) -> None:
        """`Retry-After` is part of the error, and nobody waits for it."""
        assert "Retry-After: 3600" in str(call(registry, "shop-fail", status=429).error)


class TestSource:
    def test_refresh_takes_over_changes(self, url: str) -> None:
        """A document that changed replaces, adds and removes tools; a change of one is reported until accepted."""
        before = make_document({"/a": {"get": make_operation("a"), "post": make_operation("b")}}, server=url)
        changed = make_operation("a", make_parameter("q"))
        with ToolRegistry() as registry:
            source = registry.register_openapi(before, namespace="x")
            assert isinstance(source, OpenApiSource)
            before["paths"] = {"/a": {"get": changed, "put": make_operation("c")}}
            registry.refresh()
            problems = [problem.kind for problem in source.list_problems()]
            source.accept("x-a")

            assert ["x-a", "x-c"] == source.tools == [tool.name for tool in registry.list_all_tools()]
            assert (["definition-changed"], []) == (problems, source.list_problems())

    def test_another_place_is_a_change(self, url: str) -> None:
        """An operation that means another request now is reported, whatever its schema."""
        document = make_document({"/a": {"get": make_operation("a")}}, server=url)
        with ToolRegistry() as registry:
            source = registry.register_openapi(document, namespace="x")
            document["paths"] = {"/b": {"get": make_operation("a")}}
            source.refresh()
            (problem,) = source.list_problems()

        assert f"it is 'GET {url}/b' there" in problem.message

    def test_one_that_a_program_closes_is_that_of_others_still(self, url: str, tmp_path: Path) -> None:
        """Grants go on there, and wait here; those of an operation that a document lost have ended everywhere."""
        path, document = tmp_path / "runs.db", make_document({"/a": {"get": make_operation("a")}}, server=url)
        with ToolRegistry(journal=path) as here, ToolRegistry(journal=path) as there:
            sources = [one.register_openapi(document, namespace="x") for one in (here, there)]
            there.assign_tool_to_agent("x-a", "guest")
            sources[0].close()
            assert [[], ["x-a"]] == [list(one.toolset("guest")) for one in (here, there)]
            again = here.register_openapi(document, namespace="x")
            assert [["x-a"], ["x-a"]] == [list(one.toolset("guest")) for one in (here, there)]
            for paths in ({"/b": {"get": make_operation("b")}}, {"/a": {"get": make_operation("a")}}):
                document["paths"] = paths
                again.refresh()
            guest = ToolCall(None, "x-a", {}, "guest")
            assert [Outcome.FORBIDDEN] * 2 == [one.execute(guest).outcome for one in (here, there)]

    def test_close_is_safe_after_the_registry(self, url: str) -> None:
        """A source may be closed when its registry is closed, twice too."""
        with ToolRegistry() as registry:
            source = registry.register_openapi(f"{url}/openapi.json", namespace="shop", owned_by=OPERATOR)
            call(registry, "shop-find_pets", words="x")
        source.close()
        source.close()

        assert "<OpenApiSource 'shop': 17 tools>" == repr(source)

    def test_close_takes_the_tools_out(self, url: str) -> None:
        """A closed source has no tools, and its name is free again."""
        with ToolRegistry() as registry:
            for _ in range(2):
                source = registry.register_openapi(f"{url}/openapi.json", namespace="shop", owned_by=OPERATOR)
                tool = registry.get_tool("shop-add_pet")
                source.close()
                source.close()

                assert [] == registry.list_all_tools()
            assert tool is not None
            registry.register_tool(tool)
            result = call(registry, "shop-add_pet", body={"name": "x"})

            assert (Outcome.TOOL_ERROR, "OpenApiConnectionError") == (result.outcome, result.error_type)
