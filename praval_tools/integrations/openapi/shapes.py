"""The shapes of the objects of an OpenAPI document, as JSON Schema: what is wrong with one, with its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Final, Literal

from praval_tools.integrations.openapi.errors import DocumentProblem
from praval_tools.integrations.openapi.nodes import Node
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.schema.validator import iter_errors, shorten_text

if TYPE_CHECKING:
    import jsonschema_rs

METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
STYLES: Final[Mapping[str, tuple[str, ...]]] = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
"""The styles of parameters by their place; the first is the default."""

_TEXT: Final = {"type": "string"}
_FLAG: Final = {"type": "boolean"}
_OBJECTS: Final = {"type": "object", "additionalProperties": {"type": "object"}}
_SERVERS: Final = {"type": "array", "items": {"type": "object"}}

Shape = Literal[
    "document", "path item", "operation", "parameter", "media type", "request body", "encoding", "server",
    "security scheme", "flow", "security requirement", "response",
]  # fmt: skip


def _define_object(required: tuple[str, ...] = (), /, **properties: object) -> JsonSchema:
    return {"type": "object", "required": list(required), "properties": properties}


_SHAPES: Final[Mapping[str, JsonSchema]] = {
    "document": _define_object(
        ("openapi", "info"),
        openapi=_TEXT,
        info=_define_object(("title", "version"), title=_TEXT, version=_TEXT),
        servers=_SERVERS,
        paths=_OBJECTS | {"propertyNames": {"pattern": "^(/|x-)"}},
        security={"type": "array"},
        components={"type": "object", "additionalProperties": {"type": "object"}},
    ),
    "path item": _define_object(servers=_SERVERS, parameters={"type": "array", "items": {"type": "object"}}),
    "operation": _define_object(
        operationId=_TEXT, summary=_TEXT, description=_TEXT, tags={"type": "array", "items": _TEXT}, deprecated=_FLAG,
        servers=_SERVERS, parameters={"type": "array", "items": {"type": "object"}}, requestBody={"type": "object"},
        responses=_OBJECTS | {"propertyNames": {"pattern": "^([1-5][0-9X]{2}|default|x-.*)$"}},
        security={"type": "array"},
    ),
    "parameter": _define_object(
        ("name", "in"), name={"type": "string", "minLength": 1}, description=_TEXT, required=_FLAG, deprecated=_FLAG,
        explode=_FLAG, allowReserved=_FLAG, allowEmptyValue=_FLAG, **{"in": {"enum": [*STYLES]}},
        content=_OBJECTS | {"minProperties": 1, "maxProperties": 1},
    ) | {
        "oneOf": [{"required": ["schema"]}, {"required": ["content"]}],
        "allOf": [
            {"if": {"required": ["in"], "properties": {"in": {"const": place}}},
             "then": {"properties": {"style": {"enum": [*styles]}}}}
            for place, styles in STYLES.items()
        ],
    },
    "media type": _define_object(encoding=_OBJECTS),
    "request body": _define_object(
        ("content",), content=_OBJECTS | {"minProperties": 1}, required=_FLAG, description=_TEXT
    ),
    "encoding": _define_object(
        contentType=_TEXT, style={"enum": [*STYLES["query"]]}, explode=_FLAG, allowReserved=_FLAG
    ),
    "server": _define_object(
        ("url",), url=_TEXT,
        variables={
            "type": "object",
            "additionalProperties": _define_object(
                ("default",), default=_TEXT, enum={"type": "array", "items": _TEXT, "minItems": 1}
            ),
        },
    ),
    "security scheme": _define_object(
        ("type",), type={"enum": ["apiKey", "http", "oauth2", "openIdConnect", "mutualTLS"]},
    ) | {
        "allOf": [
            {"if": {"properties": {"type": {"const": "apiKey"}}},
             "then": _define_object(("name", "in"), name=_TEXT, **{"in": {"enum": ["query", "header", "cookie"]}})},
            {"if": {"properties": {"type": {"const": "http"}}}, "then": _define_object(("scheme",), scheme=_TEXT)},
        ]
    },
    "security requirement": {"type": "object", "additionalProperties": {"type": "array", "items": _TEXT}},
    "response": _define_object(description=_TEXT),
}  # fmt: skip


@cache
def _get_validator(shape: str) -> jsonschema_rs.Validator:
    import jsonschema_rs

    return jsonschema_rs.Draft202012Validator(_SHAPES[shape])


def find_shape_problems(node: Node, shape: Shape) -> Iterator[DocumentProblem]:
    """Yield what is wrong with an object itself; what is in it and may be a reference is looked at by itself."""
    for error in iter_errors(_get_validator(shape), node.value):
        place = Node(node.document, (*node.pointer, *map(str, error.instance_path))).place
        yield DocumentProblem(place, f"{describe_shape_error(node, shape, error)}")


def describe_shape_error(node: Node, shape: Shape, error: jsonschema_rs.ValidationError) -> str:
    """Return what is expected instead, in words of the specification where those of JSON Schema say little."""
    if shape == "parameter" and "oneOf" in map(str, error.schema_path):
        return "expected either schema or content"
    if "propertyNames" in map(str, error.schema_path):
        what = "a path that begins with /" if shape == "document" else "a status such as '200', '2XX' or 'default'"
        return f"expected {what}: {shorten_text(error.message)}"
    return f"{shape}: {shorten_text(error.message)}"
