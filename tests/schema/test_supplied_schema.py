"""Schemas that are supplied with tools are checked before they are used, whatever is in them."""

from __future__ import annotations

from typing import Any

import pytest
from type_strategies import ask, given_tool

from praval_tools import Content, Outcome, Tool, ToolRegistry
from praval_tools.schema.supplied_schema import check_supplied_schema


def make_chain(length: int) -> dict[str, Any]:
    """Return a schema whose references lead on, one into the other."""
    chain = {f"S{number}": {"items": {"$ref": f"#/$defs/S{number + 1}"}} for number in range(length)}
    return {"type": "object", "properties": {"a": {"$ref": "#/$defs/S0"}}, "$defs": {**chain, f"S{length}": {}}}


class TestReferences:
    @pytest.mark.parametrize(
        ("length", "problems"),
        [(50, ()), (5_000, ("parameters: its references lead too deep into each other",))],
    )
    def test_chains_are_bounded(self, length: int, problems: tuple[str, ...]) -> None:
        """A chain of references that is too long is a problem like any other."""
        assert problems == check_supplied_schema(make_chain(length))[1]


INSIDE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "count": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "again": {"$ref": "#/properties/count"},
        "either": {"anyOf": [{"$ref": "#/properties/count/anyOf/0"}, {"type": "array", "items": {"$ref": "#"}}]},
        "limit": {"$ref": "#/properties/count/anyOf/0"},
    },
    "additionalProperties": False,
}
"""A schema whose references lead anywhere inside of it, as zod and some MCP servers write them."""


DRAFTS = [None, *(f"http://json-schema.org/draft-{number}/schema#" for number in ("04", "06", "07")),
          "https://json-schema.org/draft/2019-09/schema", "https://json-schema.org/draft/2020-12/schema"]  # fmt: skip


def with_draft(schema: dict[str, Any], draft: str | None) -> dict[str, Any]:
    """Return *schema* of a draft of JSON Schema."""
    return schema if draft is None else {"$schema": draft, **schema}


@pytest.mark.parametrize("draft", DRAFTS)
class TestReferencesToAnyPlace:
    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            ({"again": "3"}, {"again": 3}),
            ({"either": "3"}, {"either": 3}),
            ({"either": [{"count": "3", "again": None}]}, {"either": [{"count": 3, "again": None}]}),
            ({"either": '[{"limit": 1}]'}, {"either": [{"limit": 1}]}),
            ({"limit": None}, {}),
        ],
        ids=str,
    )
    def test_arguments_are_repaired(self, given: dict[str, Any], expected: dict[str, Any], draft: str | None) -> None:
        """Broken promise: the call was refused, as if its arguments could not be read as JSON."""
        assert expected == ask(given_tool(with_draft(INSIDE, draft)), given).result

    @pytest.mark.parametrize(
        ("given", "problem"),
        [
            ({"again": "x"}, ("$.again", "fits none of the allowed forms")),
            ({"limit": "x"}, ("$.limit", "is not an integer")),
        ],
        ids=str,
    )
    def test_problems_are_named(self, given: dict[str, Any], problem: tuple[str, str], draft: str | None) -> None:
        """So was a call with a mistake; where the schema is inside of itself, only the parameter is named."""
        properties = {name: part for name, part in INSIDE["properties"].items() if name != "either"}
        result = ask(given_tool(with_draft({**INSIDE, "properties": properties}, draft)), given)
        assert f"{problem[0]}: does not fit" in str(ask(given_tool(with_draft(INSIDE, draft)), given).error)
        assert Outcome.INVALID_ARGUMENTS is result.outcome
        assert problem[0] in str(result.error) and problem[1] in str(result.error)

    @pytest.mark.parametrize("keyword", ["$defs", "definitions"])
    def test_into_a_definition(self, keyword: str, draft: str | None) -> None:
        """Broken promise: a branch of a union in a definition was found no more, and each mistake refused the call."""
        shape = {"anyOf": [{"type": "string"}, {"type": "object", "properties": {"size": {"type": "integer"}}}]}
        schema = {
            "type": "object", keyword: {"Shape": shape},
            "properties": {"a": {"$ref": f"#/{keyword}/Shape"}, "b": {"$ref": f"#/{keyword}/Shape/anyOf/1"}},
        }  # fmt: skip
        tool = given_tool(with_draft(schema, draft))

        assert {"a": "x", "b": {"size": 3}} == ask(tool, {"a": "x", "b": {"size": "3"}}).result
        assert "$.b.size: is not an integer" in str(ask(tool, {"a": "x", "b": {"size": "x"}}).error)

    def test_beside_a_definition_that_is_called_root(self, draft: str | None) -> None:
        """Broken promise: it was the whole schema, for which the name was used, where a mistake was looked for."""
        schema = {
            "type": "object", "$defs": {"root": {"type": "integer"}}, "definitions": {"root": {"type": "integer"}},
            "properties": {"n": {"$ref": "#/definitions/root"}, "m": {"$ref": "#/$defs/root"},
                           "again": {"$ref": "#/properties/n"}},
        }  # fmt: skip
        tool = given_tool(with_draft(schema, draft))

        assert {"n": 1, "m": 2, "again": 3} == ask(tool, {"n": "1", "m": "2", "again": "3"}).result
        error = str(ask(tool, {"n": 1, "m": 2, "again": "x"}).error)
        assert "$.again: is not an integer" in error and "$.n" not in error and "$.m" not in error

    @pytest.mark.parametrize("reference", ["#/parts/row", "#row"])
    def test_from_any_keyword(self, reference: str, draft: str | None) -> None:
        """Broken promise: a place under a keyword of its own, or an anchor, had each mistake refuse the call."""
        row = {"type": "object", "properties": {"count": {"type": "integer"}}, "$anchor": "row"}
        schema = {
            "$id": "https://example.com/given", "type": "object",
            "properties": {"row": {"anyOf": [{"$ref": reference}, {"type": "null"}]}, "n": {"type": "integer"}},
        }  # fmt: skip
        schema |= {"$defs": {"row": row}} if reference == "#row" else {"parts": {"row": row}}
        if reference == "#row" and draft is not None and "draft-0" in draft:
            pytest.skip("these drafts have no anchors")
        schema = with_draft(schema, draft)

        assert {"row": {"count": 3}, "n": 1} == ask(given_tool(schema), {"row": {"count": 3}, "n": "1"}).result
        assert "$.n: is not an integer" in str(ask(given_tool(schema), {"row": {"count": 3}, "n": "x"}).error)


def test_a_model_reads_what_references_lead_to() -> None:
    """Broken promise: it read that null alone is wanted where a class may be left out."""
    schema = {
        "type": "object", "$defs": {"size": {"type": "string", "enum": ["small", "large"]}},
        "properties": {"size": {"anyOf": [{"$ref": "#/$defs/size"}, {"type": "null"}]}},
    }  # fmt: skip

    assert 'wanted one of "small", "large" or null' in str(ask(given_tool(schema), {"size": "medium"}).error)


def is_content(value: object) -> bool:
    """Tell whether there are contents in a value, which are no arguments."""
    return isinstance(value, Content) or (isinstance(value, list) and any(map(is_content, value)))


@pytest.mark.parametrize(
    "value",
    [
        Content.image(b"\x89PNG", "image/png"),
        ["before", Content.audio(b"RIFF", "audio/wav"), Content.of_text("after")],
        Content.resource("file:///a", text=""),
        [Content.link("file:///a", "a")],
        ["a", "b"],
        {"type": "image", "data": "iVBO"},
        {"type": "text", "text": "hi", "data": None, "mime_type": "", "uri": "", "name": ""},
        [],
    ],
)
def test_contents_are_contents_in_a_replay(value: object) -> None:
    """Broken promise: pictures of services and MCP servers were dicts when their run was resumed."""
    with ToolRegistry(journal="memory") as registry:
        registry.register_tool(Tool("given", "Give it.", {"type": "object"}, lambda **values: value, owned_by="ann"))
        for _ in range(2):
            with registry.run("r"):
                assert value == registry.toolset("ann").call("given", **({} if is_content(value) else {"x": value}))
