"""Schemas of documents become the schemas of arguments, with the same meaning, for requests."""

# Tests of: schemas

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("httpx")

from jsonschema_rs import Draft202012Validator
from openapi_rig import make_body, make_document, make_operation, make_parameter

from praval_tools import ToolRegistry
from praval_tools.integrations.openapi import OpenApiDocumentError
from praval_tools.schema.schema_tree import iter_schemas


def convert(schema: Any, version: str = "3.1.0", **schemas: Any) -> dict[str, Any]:
    """Return what becomes of the schema of a body, with `$defs` if it refers to *schemas*."""
    operation = make_operation("op", requestBody=make_body(schema))
    document = make_document(
        {"/a": {"post": operation}}, version=version, server="http://a.example", components={"schemas": schemas}
    )
    with ToolRegistry() as registry:
        source = registry.register_openapi(document, namespace="x")
        tool = registry.get_tool("x-op")
        assert tool is not None, source.list_problems()
        body = {key: value for key, value in tool.parameters["properties"]["body"].items() if key != "description"}
        return body | ({"$defs": tool.parameters["$defs"]} if "$defs" in tool.parameters else {})


class TestConversion:
    @pytest.mark.parametrize(
        ("schema", "expected"),
        [
            ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
            ({"type": "string", "nullable": True, "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
            ({"nullable": True, "allOf": [{"type": "integer"}]},
             {"anyOf": [{"allOf": [{"type": "integer"}]}, {"type": "null"}]}),
            ({"type": "string", "nullable": False}, {"type": "string"}),
            ({"type": "integer", "minimum": 1, "exclusiveMinimum": True, "maximum": 5, "exclusiveMaximum": False},
             {"type": "integer", "exclusiveMinimum": 1, "maximum": 5}),
            ({"type": "string", "format": "binary"}, {"type": "string", "contentEncoding": "base64"}),
            ({"type": "string", "format": "byte"}, {"type": "string", "format": "byte"}),
            ({"type": "string", "example": "x", "xml": {}, "x-own": 1, "externalDocs": {}},
             {"type": "string", "examples": ["x"]}),
            ({"oneOf": [{"type": "string"}], "discriminator": {"propertyName": "a"}}, {"oneOf": [{"type": "string"}]}),
        ],
    )  # fmt: skip
    def test_of_3_0(self, schema: Any, expected: Any) -> None:
        """What 3.0 says in other words than JSON Schema, and what it adds."""
        assert expected == convert(schema, "3.0.3")

    @pytest.mark.parametrize(
        "schema",
        [
            {"type": ["string", "null"], "const": "a"},
            {"type": "array", "prefixItems": [{"type": "string"}], "items": False, "contains": True},
            {"type": "object", "patternProperties": {"^a": {"type": "integer"}}, "dependentRequired": {"a": ["b"]}},
            {"type": "number", "exclusiveMinimum": 1, "examples": [2]},
            {"if": {"type": "string"}, "then": {"minLength": 1}, "else": True},
            {"type": "object", "additionalProperties": {"type": "string"}, "propertyNames": {"maxLength": 3}},
        ],
    )
    def test_of_3_1(self, schema: Any) -> None:
        """Schemas of 3.1 are JSON Schema, and stay."""
        assert schema == convert(schema)

    @pytest.mark.parametrize("version", ["3.0.0", "3.1.0"])
    def test_refuses_what_only_answers_have(self, version: str) -> None:
        """What is read only is not sent, also where a body may hold anything else; what is write only is."""
        schema = {
            "type": "object",
            "required": ["id", "name", "made"],
            "properties": {
                "id": {"type": "integer", "readOnly": True},
                "made": {"$ref": "#/components/schemas/Time"},
                "seen": {"allOf": [{"$ref": "#/components/schemas/Time"}, {"description": "When it was seen."}]},
                "name": {"type": "string"},
                "word": {"type": "string", "writeOnly": True},
            },
        }
        converted = convert(schema, version, Time={"type": "string", "readOnly": True})

        given = {name for name, part in converted["properties"].items() if part is not False}
        assert ({"name", "word"}, ["name"]) == (given, converted["required"])
        assert {"id", "made", "seen"} == converted["properties"].keys() - given

    @pytest.mark.parametrize("version", ["3.0.0", "3.1.0"])
    @pytest.mark.parametrize(
        "schema",
        [
            {"allOf": [{"$ref": "#/components/schemas/Base"}], "required": ["id", "x-at", "name"]},
            {"allOf": [{"$ref": "#/components/schemas/Base"}, {"required": ["id", "x-at", "name"]}]},
            {"allOf": [{"$ref": "#/components/schemas/Base"}, {"allOf": [{"required": ["id", "name"]}]}]},
            {"allOf": [{"$ref": "#/components/schemas/More"}, {"required": ["id", "name"]}]},
            {"properties": {"id": {"readOnly": True}}, "allOf": [{"required": ["id", "name"]}]},
        ],
    )
    def test_requires_nothing_that_only_answers_have(self, schema: Any, version: str) -> None:
        """Broken promise: what is required in another part than the one that has it could never be given."""
        properties = {"id": {"readOnly": True}, "x-at": {"readOnly": True}, "name": {"type": "string"}}
        base = {"type": "object", "properties": properties}
        converted = convert(schema, version, Base=base, More={"allOf": [{"$ref": "#/components/schemas/Base"}]})
        required = [part["required"] for part in iter_schemas(converted) if "required" in part]

        assert [["name"]] == required

    @pytest.mark.parametrize("version", ["3.0.0", "3.1.0"])
    @pytest.mark.parametrize("name", ["Strict", "More", "Alias"])
    def test_what_a_reference_requires(self, name: str, version: str) -> None:
        """A part that is referred to requires no member that another part leaves to answers; elsewhere it does."""
        reference = {"$ref": f"#/components/schemas/{name}"}
        read_only = {"allOf": [reference, {"properties": {"id": {"readOnly": True}}}]}
        converted = convert(
            {"type": "object", "properties": {"new": read_only, "old": reference}},
            version,
            Strict={"type": "object", "required": ["id", "name"], "properties": {"name": {"type": "string"}}},
            More={"allOf": [{"$ref": "#/components/schemas/Strict"}]},
            Alias={"$ref": "#/components/schemas/More"},
        )
        fits = Draft202012Validator(converted).is_valid

        assert fits({"new": {"name": "n"}, "old": {"id": 1, "name": "n"}})
        assert not fits({"new": {"name": "n", "id": 1}})
        assert not fits({"new": {}})
        assert not fits({"old": {"name": "n"}})

    def test_refuses_any_other_member_that_only_answers_have(self) -> None:
        """All members beside the named ones, or those with some names, may be for answers only."""
        read_only = {"readOnly": True}
        schema = {"type": "object", "patternProperties": {"^x": read_only}, "additionalProperties": read_only}

        assert {"type": "object", "patternProperties": {"^x": False}, "additionalProperties": False} == convert(schema)

    def test_says_defaults_in_words(self) -> None:
        """As a keyword a default would be sent, and overwrite what the service has."""
        schema = {"type": "object", "properties": {"a": {"default": 5, "description": "How many."}}}

        assert {"description": "How many. Default: 5."} == convert(schema)["properties"]["a"]

    def test_bounds_texts(self) -> None:
        """Descriptions are limited, and free of what nobody sees."""
        schema = {"type": "object", "properties": {"a": {"description": "x\u202e" * 2_000}}}

        assert "x" * 999 + "…" == convert(schema)["properties"]["a"]["description"]


class TestReferences:
    def test_circles(self) -> None:
        """Schemas that refer to themselves and to each other stand once in `$defs`."""
        pet = {"type": "object", "properties": {"owner": {"$ref": "#/components/schemas/Owner"}}}
        pets = {"type": "array", "items": {"$ref": "#/components/schemas/Pet"}}
        owner = {"type": "object", "properties": {"pets": pets}}
        converted = convert({"$ref": "#/components/schemas/Pet"}, Pet=pet, Owner=owner, Unused={})

        assert "#/$defs/Pet" == converted["$ref"]
        assert {"Pet", "Owner"} == converted["$defs"].keys()
        assert {"$ref": "#/$defs/Pet"} == converted["$defs"]["Owner"]["properties"]["pets"]["items"]

    @pytest.mark.parametrize(("version", "has_more"), [("3.0.0", False), ("3.1.0", True)])
    def test_what_stands_beside(self, version: str, has_more: bool) -> None:
        """Beside a reference 3.1 has more keywords, which 3.0 ignores."""
        schema = {"$ref": "#/components/schemas/Text", "maxLength": 3}

        assert has_more is ("maxLength" in convert(schema, version, Text={"type": "string"}))

    def test_into_other_schemas(self) -> None:
        """A reference may lead to any schema of the document; names that are the same differ by numbers."""
        properties = {"a": {"$ref": "#/components/schemas/One/properties/x"}, "b": {"$ref": "#/components/schemas/x"}}
        one = {"properties": {"x": {"type": "string"}}}
        converted = convert({"type": "object", "properties": properties}, One=one, x={"type": "integer"})

        assert {"x": {"type": "string"}, "x_2": {"type": "integer"}} == converted["$defs"]

    def test_a_long_chain(self) -> None:
        """A chain of references is followed to its end."""
        schemas = {f"S{n}": {"items": {"$ref": f"#/components/schemas/S{n + 1}"}} for n in range(100)}

        assert 101 == len(convert({"$ref": "#/components/schemas/S0"}, **schemas, S100={"type": "string"})["$defs"])

    @pytest.mark.parametrize(
        ("schema", "place", "text"),
        [
            ({"type": "strnig"}, "/type", "is not a valid schema"),
            ({"properties": {"a": {"required": True}}}, "/properties/a/required", "is not a valid schema"),
            ({"items": [{"type": "string"}]}, "/items", "is not a schema"),
            ({"properties": {"a": {"$ref": "#/components/schemas/None"}}}, "/properties/a/$ref", "leads to nothing"),
            ({"allOf": [{"$ref": "http://127.0.0.1:9/x"}]}, "/allOf/0/$ref", "leads to another document"),
            ({"$ref": "#/components/schemas/Loop"}, "#/components/schemas/Loop", "leads back to itself"),
            ({"$ref": "#/components/schemas/Wrong"}, "#/components/schemas/Wrong/minLength", "is not a valid schema"),
            ({"$id": "http://a/b"}, "", "$id inside of schemas is not supported"),
        ],
    )
    def test_what_is_wrong_has_its_place(self, schema: Any, place: str, text: str) -> None:
        """Each with the pointer in the document, not in what became of it."""
        with pytest.raises(OpenApiDocumentError) as caught:
            convert(schema, Loop={"$ref": "#/components/schemas/Loop"}, Wrong={"minLength": "x"})
        prefix = "" if place.startswith("#") else "#/paths/~1a/post/requestBody/content/application~1json/schema"
        problems = [str(problem) for problem in caught.value.problems]

        assert any(line.startswith(f"{prefix}{place}: ") and text in line for line in problems), problems

    def test_a_chain_without_end(self) -> None:
        """An operation whose schemas lead too deep into each other is left out, and costs no other."""
        schemas = {f"S{n}": {"items": {"$ref": f"#/components/schemas/S{n + 1}"}} for n in range(3_000)}
        deep = make_operation("deep", requestBody=make_body({"$ref": "#/components/schemas/S0"}))
        paths = {"/a": {"post": deep, "get": make_operation("op")}}
        document = make_document(paths, server="http://a.example", components={"schemas": {**schemas, "S3000": {}}})
        with ToolRegistry() as registry:
            source = registry.register_openapi(document, namespace="x")
            (problem,) = source.list_problems()

            assert ["x-op"] == source.tools
            assert "#/paths/~1a/post: parameters: its references lead too deep into each other" in problem.message

    def test_of_parameters(self) -> None:
        """What a parameter says of itself is part of its schema."""
        parameter = make_parameter(
            "q", schema={"type": "string", "default": "x"}, description="A word.", deprecated=True
        )
        with ToolRegistry() as registry:
            document = make_document({"/a": {"get": make_operation("op", parameter)}}, server="http://a.example")
            registry.register_openapi(document, namespace="x")
            properties = registry.get_tool("x-op").parameters["properties"]  # type: ignore[union-attr]

        assert {"type": "string", "description": 'A word. Default: "x".', "deprecated": True} == properties["q"]
