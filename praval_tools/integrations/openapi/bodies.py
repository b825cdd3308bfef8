"""Reads the bodies of requests, and writes them: JSON, forms, multipart, text and bytes."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final, Literal

import httpx
from attrs import field, frozen

from praval_tools.integrations.openapi.errors import DocumentProblem, OpenApiRequestError
from praval_tools.integrations.openapi.nodes import Node, References, UnresolvedError
from praval_tools.integrations.openapi.parameters import is_json_type
from praval_tools.integrations.openapi.schemas import (
    SchemaTable,
    is_binary,
    iter_members,
    limit_text,
    list_member_names,
)
from praval_tools.integrations.openapi.shapes import find_shape_problems
from praval_tools.integrations.openapi.styles import (
    ParameterStyle,
    check_header,
    check_names,
    check_not_empty,
    to_text,
    write_query_pairs,
)
from praval_tools.schema.json_values import to_compact_json
from praval_tools.schema.schema_tree import SchemaPart
from praval_tools.schema.secret_marks import has_secret_schema

BodyKind = Literal["json", "form", "multipart", "text", "bytes"]
_ORDER: Final[tuple[BodyKind, ...]] = ("json", "form", "multipart", "text", "bytes")
"""Which kind is taken where a body may be of several types."""

_GENERAL_TYPES: Final[Mapping[BodyKind, str]] = {
    "json": "application/json", "text": "text/plain", "bytes": "application/octet-stream",
}  # fmt: skip
_TEXT_TYPES: Final = tuple(
    f"application/{kind}" for kind in ("xml", "yaml", "x-yaml", "x-ndjson", "jsonl", "graphql", "javascript", "sql")
)


@frozen(kw_only=True)
class Body:
    """
    The body of a request.

    Args:
        media_type: What it is sent as.
        kind: How it is written.
        schema: The schema of the argument.
        is_required: Whether it has to be given.
        links: The names of the schemas that its schema refers to.
        names: The members of a form that the document names.
        encodings: How the members of a form are written, where the document says so.
        files: The members of a multipart form that are bytes, given in base64.
        media_types: The content type of each part, where the document says it.
    """

    media_type: str
    kind: BodyKind
    schema: SchemaPart
    is_required: bool
    links: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    encodings: Mapping[str, ParameterStyle] = field(factory=dict)
    files: frozenset[str] = frozenset()
    media_types: Mapping[str, str] = field(factory=dict)


def classify_media_type(media_type: str) -> BodyKind:
    """Return how a body of a media type is written."""
    kind = media_type.partition(";")[0].strip().lower()
    if is_json_type(kind) or kind in ("*/*", "application/*"):
        return "json"
    if kind == "application/x-www-form-urlencoded":
        return "form"
    if kind == "multipart/form-data":
        return "multipart"
    return "text" if kind.startswith("text/") or kind in _TEXT_TYPES or kind.endswith("+xml") else "bytes"


class BodyReader:
    """
    Reads the bodies of requests.

    Args:
        references: Follows references.
        table: Converts schemas.
        problems: Receives what is wrong.
    """

    def __init__(self, references: References, table: SchemaTable, problems: list[DocumentProblem]) -> None:
        self._references, self._table, self._problems = references, table, problems

    def read(self, operation: Node) -> Body | None:
        """Return the body of an operation, of the first kind that it may be of; None for one without."""
        if "requestBody" not in operation.members:
            return None
        try:
            node = self._references.resolve(operation.get_child("requestBody"))
        except UnresolvedError as error:
            self._problems.append(error.problem)
            return None
        if shape_problems := list(find_shape_problems(node, "request body")):
            self._problems += shape_problems
            return None
        types = sorted(
            node.get_child("content").iter_children(), key=lambda item: _ORDER.index(classify_media_type(item[0]))
        )
        media_type, media = types[0]
        self._problems += find_shape_problems(media, "media type")
        return self._read_media(node, media_type, media)

    def _read_media(self, node: Node, media_type: str, media: Node) -> Body:
        kind, schema_node = classify_media_type(media_type), media.get_child("schema")
        schema: SchemaPart = {}
        links, members, files = set[str](), list[tuple[str, Node]](), frozenset[str]()
        if kind in ("text", "bytes"):
            schema = {"type": "string"} if kind == "text" else {"type": "string", "contentEncoding": "base64"}
            if self._has_secret(schema_node):
                schema["writeOnly"] = True
        elif schema_node.value is not None:
            schema, links, problems = self._table.convert(schema_node)
            self._problems += problems
            if kind in ("form", "multipart"):
                members = list(iter_members(self._references, schema_node))
                files = frozenset(name for name, member in members if kind == "multipart" and self._is_binary(member))
        if kind in ("form", "multipart") and schema_node.value is None:
            schema = {"type": "object"}
        encodings, media_types = self._read_encodings(media, dict(members))
        if isinstance(schema, dict):
            schema = {**schema, "description": _describe(node, schema, kind, media_type)}
        return Body(
            media_type=_choose_media_type(media_type, kind), kind=kind, schema=schema,
            is_required=node.members.get("required") is True, links=frozenset(links),
            names=frozenset((*dict(members), *encodings)), encodings=encodings, files=files, media_types=media_types,
        )  # fmt: skip

    def _has_secret(self, node: Node) -> bool:
        """Tell whether a schema marks anything as secret, or may: nobody can say of what is not valid, or not there."""
        if node.value is None:
            return False
        schema, links, problems = self._table.convert(node)
        parts = [(schema, problems)]
        parts += [(self._table.schemas[name], self._table.problems[name]) for name in self._table.collect(links)]
        return any(problems or (isinstance(part, dict) and has_secret_schema(part)) for part, problems in parts)

    def _is_binary(self, node: Node, outer: tuple[Node, ...] = ()) -> bool:
        """Tell whether a member of a form is bytes, or a list of such, or may be left out as null."""
        try:
            schema = self._references.resolve(node)
        except UnresolvedError:
            return False
        if is_binary(schema.members):
            return True
        if schema in outer:
            return False
        is_part_binary = partial(self._is_binary, outer=(*outer, schema))
        conjuncts = [part for _, part in schema.get_child("allOf").iter_children()]
        items = [schema.get_child("items")] if "items" in schema.members else []
        if any(map(is_part_binary, [*conjuncts, *items])):
            return True
        branches = [part for word in ("anyOf", "oneOf") for _, part in schema.get_child(word).iter_children()]
        given = [part for part in branches if part.members.get("type") != "null"]
        return bool(given) and all(map(is_part_binary, given))

    def _read_encodings(
        self, media: Node, fields: Mapping[str, Node]
    ) -> tuple[dict[str, ParameterStyle], dict[str, str]]:
        """Return how the document says that fields of a form are written, and the content types of their parts."""
        encodings, media_types = dict[str, ParameterStyle](), dict[str, str]()
        for name, node in media.get_child("encoding").iter_children():
            if shape_problems := list(find_shape_problems(node, "encoding")):
                self._problems += shape_problems
                continue
            members = node.members
            if isinstance(kind := members.get("contentType"), str):
                media_types[name] = kind.partition(",")[0].strip()
            if members.keys() & {"style", "explode", "allowReserved"}:
                style, explode = str(members.get("style") or "form"), members.get("explode")
                encodings[name] = ParameterStyle(
                    name=name, place="query", style=style, allow_reserved=members.get("allowReserved") is True,
                    explode=style == "form" if explode is None else explode is True,
                    members=list_member_names(self._references, fields.get(name)),
                )  # fmt: skip
        return encodings, media_types


_HOW_TO_GIVE: Final[Mapping[BodyKind, str]] = {
    "json": "", "form": "", "multipart": "Files are given in base64.", "text": "The text of a document of the type {}.",
    "bytes": "The bytes, in base64, of a document of the type {}.",
}  # fmt: skip


def _choose_media_type(media_type: str, kind: BodyKind) -> str:
    """Return what a body is sent as: of a range, such as `image/*`, the most general type; in UTF-8, always."""
    if "*" in media_type:
        return _GENERAL_TYPES[kind]
    bare, *parameters = (part.strip() for part in media_type.split(";"))
    kept = [part for part in parameters if part and not part.lower().startswith("charset")]
    return "; ".join((bare, *kept)) if kind in ("json", "bytes") else bare


def _describe(node: Node, schema: Mapping[str, object], kind: BodyKind, media_type: str) -> str:
    description = node.members.get("description") or schema.get("description") or "The body of the request."
    return limit_text(" ".join(filter(None, (str(description).strip(), _HOW_TO_GIVE[kind].format(media_type)))))


# ── writing ──────────────────────────────────────────────────────────────────────────────────────


def write_body(body: Body, value: object) -> tuple[bytes, str]:
    """
    Return the bytes of a body, and their content type.

    Raises:
        OpenApiRequestError: The value cannot be written so.
    """
    if body.kind == "json":
        return to_compact_json(value).encode(), check_header("Content-Type", body.media_type)
    if body.kind == "bytes":
        return decode_base64("body", value), check_header("Content-Type", body.media_type)
    if body.kind == "text":
        return to_text(value).encode(), f"{body.media_type}; charset=utf-8"
    if not isinstance(value, dict):
        raise OpenApiRequestError("The body is a form: give an object, whose members are its fields.")
    fields = [(name, item) for name, item in value.items() if item is not None]
    check_names("body", value.keys() - body.names, _list_names(body, value))
    if body.kind == "form":
        pairs = [pair for name, item in fields for pair in _write_field(body, value, name, item)]
        return "&".join(f"{name}={text}" for name, text in pairs).encode(), body.media_type
    parts = [part for name, item in fields for part in _iter_parts(body, name, item)]
    return _write_multipart(parts)


def _write_field(body: Body, fields: Mapping[str, object], name: str, item: object) -> list[tuple[str, str]]:
    default = ParameterStyle(name=name, place="query", style="form", explode=True)
    style = body.encodings.get(name, default)
    is_json = isinstance(item, dict) or is_json_type(body.media_types.get(name, ""))
    if is_json and style is default:  # of objects that is what the specification says
        items = item if isinstance(item, list) else [item]
        check_not_empty(name, items)
        return [pair for part in items for pair in write_query_pairs(default, to_compact_json(part))]
    return write_query_pairs(style, item, (_list_names(body, fields, left_out=name) | fields.keys()) - {name})


def _list_names(body: Body, fields: Mapping[str, object], left_out: str | None = None) -> set[str]:
    """Return the names that stand in a form for the fields that its document names, without one, and their members."""
    names = {name for name in body.names if name != left_out}
    for name, style in body.encodings.items() if body.kind == "form" else ():
        if name != left_out:
            names |= style.list_names(fields.get(name))
    return names


_Part = tuple[str, tuple[str | None, bytes, str]]


def _iter_parts(body: Body, name: str, item: object) -> Iterable[_Part]:
    media_type = check_header("Content-Type", body.media_types.get(name, ""))
    values = item if isinstance(item, list) else [item]
    check_not_empty(name, values)
    for value in values:
        if name in body.files:
            yield name, (name, decode_base64(name, value), media_type or "application/octet-stream")
        elif isinstance(value, dict | list) or is_json_type(media_type):
            yield name, (None, to_compact_json(value).encode(), media_type or "application/json")
        else:
            yield name, (None, to_text(value).encode(), media_type or "text/plain; charset=utf-8")


def _write_multipart(parts: list[_Part]) -> tuple[bytes, str]:
    if not parts:
        raise OpenApiRequestError("The body is a form with no field in it; give at least one.")
    request = httpx.Request("POST", "http://localhost", files=parts)
    return request.read(), request.headers["content-type"]


def decode_base64(name: str, value: object) -> bytes:
    """
    Return the bytes that *value* is in base64.

    Raises:
        OpenApiRequestError: It is none.
    """
    try:
        return base64.b64decode(to_text(value), validate=True)
    except (binascii.Error, ValueError):
        raise OpenApiRequestError(f"{name!r} holds bytes: give them in base64.") from None
