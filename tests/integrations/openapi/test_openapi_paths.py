"""A path is read as it was judged: as its own operation, with each parameter as it was given."""

# Tests of: paths

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("fastapi")

from openapi_rig import (
    OPERATOR,
    Recorder,
    call,
    make_document,
    make_operation,
    make_parameter,
    recorder,  # noqa: F401
    serve,
    server,  # noqa: F401
    service,  # noqa: F401
)
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from praval_tools import Outcome, ToolRegistry

TEXT = {"type": "string"}


def make_paths(*paths: str, method: str = "delete", **members: Any) -> dict[str, Any]:
    """Return operations `op0`, `op1`, … whose parameters are those of their paths."""
    made = {}
    for number, path in enumerate(paths):
        names = [part.partition("}")[0] for part in path.split("{")[1:]]
        parameters = (make_parameter(name, "path", schema=TEXT, **members) for name in names)
        made[path] = {method: make_operation(f"op{number}", *parameters)}
    return made


def send(server: str, recorder: Recorder, paths: Sequence[str], options: Any = None, **values: str) -> list[str]:
    """Call the operation of the first path; return the paths of the requests that came."""
    recorder.requests.clear()
    document = make_document(make_paths(*paths), server=server)
    with ToolRegistry() as registry:
        registry.register_openapi(document, namespace="x", owned_by=OPERATOR, **(options or {}))
        result = call(registry, "x-op0", values)
    assert (result.outcome is Outcome.OK) == bool(recorder.requests), result
    assert result.outcome in (Outcome.OK, Outcome.TOOL_ERROR)
    return [request["path"] for request in recorder.requests]


class TestOperations:
    @pytest.mark.parametrize(
        ("paths", "value"),
        [
            (("/items/{id}", "/items/all"), "all"),
            (("/items/{id}", "/items/all"), "ALL"),
            (("/items/{id}", "/items/all"), " all "),
            (("/items/{id}", "/items/all"), "all;v=1"),
            (("/items/{id}", "/items/%61ll"), "all"),
            (("/items/{id}", "/items/all?hard=true"), "all"),
            (("/items/{id}", "/items/{id}:wipe"), "5:wipe"),
            (("/items/{id}", "/items/{id}.json"), "5.json"),
            (("/items/{id}/rows", "/items/all/{row}"), "all"),
            (("/{kind}/rows", "/items/{row}"), "items"),
        ],
    )
    def test_no_value_reaches_another(self, server: str, recorder: Recorder, paths: Sequence[str], value: str) -> None:
        """What was lent is one operation; the path of another is a permission of its own."""
        name = paths[0].split("{")[1].partition("}")[0]

        assert send(server, recorder, paths, **{name: value}) == []
        assert len(send(server, recorder, paths, **{name: "other"})) == 1

    @pytest.mark.parametrize("options", [{"include": ["op0"]}, {"exclude": ["op1"]}])
    def test_those_that_are_no_tools_count_too(self, server: str, recorder: Recorder, options: Any) -> None:
        """What the operator left out is reached least of all."""
        assert send(server, recorder, ("/items/{id}", "/items/all"), options, id="all") == []

    def test_slashes_that_are_allowed_reach_no_other(self, server: str, recorder: Recorder) -> None:
        """A server may decode a path before it looks at its slashes."""
        paths, options = ("/files/{path}", "/files/{id}/shares"), {"slash_parameters": ["path"]}

        assert send(server, recorder, paths, options, path="a/shares") == []
        assert send(server, recorder, paths, options, path="a/b") == ["/files/a%2Fb"]

    @pytest.mark.parametrize(
        "paths",
        [
            ("/items/{id}:wipe", "/items/{id}"),
            ("/items/{id}", "/items/{name}"),
            ("/items/{id}.json", "/items/{name}"),
            ("/items/all/{id}", "/items/{name}/{id}"),
            ("/items/{id}", "/items/{id}/rows"),
        ],
    )
    def test_that_are_more_general_forbid_nothing(self, server: str, recorder: Recorder, paths: Sequence[str]) -> None:
        """The path of a document that says more is taken first, whatever its parameters are."""
        assert len(send(server, recorder, paths, id="5")) == 1

    def test_of_other_methods_forbid_nothing(self, server: str, recorder: Recorder) -> None:
        """The path of another method is free."""
        document = make_document(
            {**make_paths("/items/{id}"), "/items/all": {"get": make_operation("all")}}, server=server
        )
        with ToolRegistry() as registry:
            registry.register_openapi(document, namespace="x", owned_by=OPERATOR)

            assert call(registry, "x-op0", id="all").outcome is Outcome.OK

    def test_that_come_later_count(self, server: str, recorder: Recorder) -> None:
        """An operation that the document has since it was read again is one of the others."""
        document = make_document(make_paths("/items/{id}"), server=server)
        with ToolRegistry() as registry:
            registry.register_openapi(document, namespace="x", owned_by=OPERATOR)
            before = call(registry, "x-op0", id="all").outcome
            document["paths"] |= {"/items/all": {"delete": make_operation("all")}}
            registry.refresh()
            after = call(registry, "x-op0", id="all").outcome

        assert (before, after) == (Outcome.OK, Outcome.TOOL_ERROR)


class TestParameters:
    @pytest.mark.parametrize(
        ("path", "values", "is_sent"),
        [
            ("/rates/{a}-{b}", ("1", "2"), True),
            ("/rates/{a}-{b}", ("1", "2-3"), False),
            ("/rates/{a}-{b}", ("1-2", "3"), False),
            ("/rates/{a}X{b}", ("1", "2x3"), False),
            ("/rates/{a}...{b}", ("main", "v1.0"), True),
            ("/rates/{a}...{b}", ("main", "v...x"), False),
            ("/rates/{a}{b}", ("1", "2"), True),
            ("/rates/{a}{b}", ("1", "23"), False),
            ("/rates/{a}%2D{b}", ("1", "2-3"), False),
            ("/rates/{a}/{b}", ("1-2", "3-4"), True),
            ("/rates/v{a}.{b}.json", ("1", "json"), True),
            ("/rates/v{a}.{b}.json", ("1", "json.json"), False),
        ],
    )
    def test_of_one_part_are_read_as_they_are_given(
        self, server: str, recorder: Recorder, path: str, values: tuple[str, str], is_sent: bool
    ) -> None:
        """Where another pair of values makes the same path, a service may read that one."""
        assert len(send(server, recorder, (path,), a=values[0], b=values[1])) == is_sent

    def test_within_bounds_are_what_a_real_server_reads(self) -> None:
        """Its router takes the longest first value, whatever was lent."""

        def answer(request: Request) -> JSONResponse:
            return JSONResponse(dict(request.path_params))

        with serve(Starlette(routes=[Route("/rates/{a}-{b}", answer)])) as url, ToolRegistry() as registry:
            document = make_document(make_paths("/rates/{a}-{b}", method="get"), server=url)
            registry.register_openapi(document, namespace="x", owned_by=OPERATOR)
            read = [call(registry, "x-op0", a="eur", b=b).result for b in ("usd", "usd-gbp")]

        assert read == [{"a": "eur", "b": "usd"}, None]

    @pytest.mark.parametrize("style", ["label", "matrix"])
    def test_of_styles_that_part_them(self, server: str, recorder: Recorder, style: str) -> None:
        """What a style writes before a value tells where it begins."""
        document = make_document(make_paths("/points/{x}{y}", style=style), server=server)
        with ToolRegistry() as registry:
            registry.register_openapi(document, namespace="x", owned_by=OPERATOR)
            outcomes = [call(registry, "x-op0", x="10", y=y).outcome for y in ("20", "2.0;y=3")]

        assert outcomes == [Outcome.OK, Outcome.TOOL_ERROR]


@pytest.mark.parametrize("path", ["/items?kind=a", "/items#kind"])
def test_a_path_with_a_query_makes_no_tool(server: str, path: str) -> None:
    """Its own parameters would be read as a part of what is there."""
    document = make_document(
        {path: {"get": make_operation("find", make_parameter("name"))}, "/items": {"get": make_operation("all")}},
        server=server,
    )
    with ToolRegistry() as registry:
        source = registry.register_openapi(document, namespace="x", owned_by=OPERATOR)

        assert source.tools == ["x-all"]
        assert "holds a query or a fragment" in " ".join(problem.message for problem in registry.problems())
