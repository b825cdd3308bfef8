"""Whatever a document holds, it is registered or refused with places; no other error comes out."""

# Tests of: loading, operations, schemas, parameters, bodies, security, servers

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("httpx")

from openapi_rig import make_body, make_document, make_operation, make_parameter

from praval_tools import ToolRegistry
from praval_tools.integrations.openapi import OpenApiDocumentError

PET = {
    "type": "object", "required": ["name", "id"], "properties": {
        "id": {"type": "integer", "readOnly": True}, "name": {"type": "string", "default": "x", "nullable": True},
        "friends": {"type": "array", "items": {"$ref": "#/components/schemas/Pet"}},
    }, "additionalProperties": False, "allOf": [{"type": "object"}],
}  # fmt: skip
PATHS = {
    "/pets/{id}": {
        "parameters": [{"$ref": "#/components/parameters/Id"}],
        "servers": [{"url": "http://a.example/{v}", "variables": {"v": {"default": "v1", "enum": ["v1"]}}}],
        "get": make_operation("get", make_parameter("q", content={"application/json": {"schema": {}}})),
        "post": make_operation(
            "post", make_parameter("f", schema={"enum": [1]}, style="deepObject", explode=True), security=[{"key": []}],
            requestBody=make_body({"$ref": "#/components/schemas/Pet"}), tags=["a"], summary="s", description="d",
        ),
        "put": make_operation(
            "put", requestBody=make_body(
                {"type": "object", "properties": {"f": {"type": "string", "format": "binary"}}}, "multipart/form-data",
                encoding={"f": {"contentType": "image/png", "style": "form"}},
            ),
        ),
    }
}  # fmt: skip
DOCUMENT = make_document(
    PATHS, server="http://a.example", security=[{}, {"basic": []}],
    components={
        "schemas": {"Pet": PET}, "parameters": {"Id": make_parameter("id", "path", style="label", description="x")},
        "securitySchemes": {
            "key": {"type": "apiKey", "in": "header", "name": "X-Key"}, "basic": {"type": "http", "scheme": "basic"},
        },
    },
)  # fmt: skip


def list_places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the places of everything in a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*place, key)
        yield from list_places(item, (*place, key))


PLACES = [place for place in list_places(DOCUMENT) if place != ("openapi",)]
VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "x", "#", "#/", "#/components/schemas/Pet", "#/paths", "http://b.example/{x}", "../x"])
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["$ref", "type", "name", "in", "schema", "url", "get", "/a"]), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from(PLACES), VALUES, st.booleans()), min_size=1, max_size=3), st.booleans())
@settings(deadline=None)
def test_is_registered_or_refused(changes: list[tuple[tuple[Any, ...], Any, bool]], is_3_0: bool) -> None:
    """A document in which any values are others, or missing."""
    document = copy.deepcopy(DOCUMENT) | {"openapi": "3.0.3" if is_3_0 else "3.1.0"}
    for place, value, is_removed in changes:
        target: Any = document
        try:
            for step in place[:-1]:
                target = target[step]
            if is_removed:
                del target[place[-1]]
            else:
                target[place[-1]] = value
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change has taken the place away
    with ToolRegistry() as registry:
        try:
            source = registry.register_openapi(document, namespace="x")
        except OpenApiDocumentError as error:
            assert all("#" in problem.place and problem.text for problem in error.problems)
            assert [] == registry.list_all_tools()
        else:
            assert source.tools == [tool.name for tool in registry]
            registry.problems()
