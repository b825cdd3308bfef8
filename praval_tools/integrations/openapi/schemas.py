"""Converts the schemas of a document, of OpenAPI 3.0 or 3.1, to JSON Schema for the arguments of a request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Final

from attrs import define, field

from praval_tools.integrations.foreign_text import clean_text, repair_name
from praval_tools.integrations.openapi.errors import DocumentProblem
from praval_tools.integrations.openapi.nodes import Node, References, UnresolvedError
from praval_tools.names import shorten_repr
from praval_tools.schema.json_values import to_compact_json
from praval_tools.schema.schema_tree import JsonSchema, SchemaPart
from praval_tools.schema.secret_marks import has_secret_schema
from praval_tools.schema.validator import iter_errors, shorten_text

if TYPE_CHECKING:
    import jsonschema_rs

MAX_DESCRIPTION: Final = 1_000
_MAX_DEFAULT: Final = 100
_SCHEMA_KEYWORDS: Final = frozenset(
    ("additionalProperties", "items", "not", "if", "then", "else", "contains", "propertyNames", "unevaluatedItems",
     "unevaluatedProperties", "contentSchema")
)  # fmt: skip
_SCHEMA_LIST_KEYWORDS: Final = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_SCHEMA_MAP_KEYWORDS: Final = frozenset(("properties", "patternProperties", "dependentSchemas"))
_MEMBER_KEYWORDS: Final = frozenset(("properties", "patternProperties"))
_KEPT_KEYWORDS: Final = frozenset(
    ("type", "enum", "const", "format", "multipleOf", "maximum", "exclusiveMaximum", "minimum",
     "exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "maxContains",
     "minContains", "maxProperties", "minProperties", "required", "dependentRequired", "deprecated", "examples",
     "writeOnly", "contentEncoding", "contentMediaType")
)  # fmt: skip
_UNSUPPORTED_KEYWORDS: Final = ("$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef")
_LIMITS: Final = (("maximum", "exclusiveMaximum"), ("minimum", "exclusiveMinimum"))

Key = tuple[str, tuple[str, ...], frozenset[str]]
"""Identifies a schema: the address of its document, its pointer, and the members that need not be given."""


@define(eq=False)
class SchemaTable:
    """
    The schemas of a document that others refer to, each converted once, for all operations.

    Args:
        references: Follows the references.
        is_3_0: Whether the document is of OpenAPI 3.0, whose schemas are not quite those of JSON Schema.
        schemas: The converted schemas by their names in `$defs`.
        links: The names of the schemas that each refers to.
        problems: What is wrong with each.
    """

    references: References
    is_3_0: bool
    schemas: dict[str, SchemaPart] = field(factory=dict)
    links: dict[str, set[str]] = field(factory=dict)
    problems: dict[str, list[DocumentProblem]] = field(factory=dict)
    _names: dict[Key, str] = field(factory=dict)
    _waiting: list[tuple[str, Node, Set[str]]] = field(factory=list)

    def convert(self, node: Node) -> tuple[SchemaPart, set[str], list[DocumentProblem]]:
        """Return a schema, the names of the schemas that it refers to, and what is wrong with it itself."""
        converter = _Converter(self)
        schema = converter.convert(node)
        while self._waiting:  # not by recursion: a chain of references may be long
            name, target, read_only = self._waiting.pop()
            inner = _Converter(self)
            self.schemas[name] = inner.convert(target, read_only)
            self.links[name], self.problems[name] = inner.links, inner.problems
            self.problems[name] += _find_schema_problems(target, self.schemas[name])
        return schema, converter.links, [*converter.problems, *_find_schema_problems(node, schema)]

    def collect(self, names: Iterable[str]) -> Iterator[str]:
        """Yield *names*, and the names of all schemas that these lead to, each once."""
        seen, waiting = set[str](), sorted(names, reverse=True)
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                yield name
                waiting.extend(sorted(self.links[name] - seen, reverse=True))

    def get_name(self, target: Node, read_only: Set[str] = frozenset()) -> str:
        """Return the name in `$defs` of a node that a reference leads to, which is not to require *read_only*."""
        key = (target.document.address, target.pointer, frozenset(read_only))
        if key not in self._names:
            base = repair_name(target.pointer[-1] if target.pointer else "") or "schema"
            name, number = base, 1
            while name in self.links:
                number += 1
                name = f"{base}_{number}"
            self._names[key] = name
            self.links[name] = set()
            self._waiting.append((name, target, read_only))
        return self._names[key]


@define(eq=False)
class _Converter:
    """Converts one schema with all that is in it."""

    table: SchemaTable
    links: set[str] = field(factory=set)
    problems: list[DocumentProblem] = field(factory=list)

    def convert(self, node: Node, read_only: Set[str] = frozenset()) -> SchemaPart:
        """Return a schema; *read_only* are the members that only answers have by what it is a part of."""
        if isinstance(node.value, bool) and not self.table.is_3_0:
            return node.value
        if not isinstance(node.value, dict):
            self.problems.append(DocumentProblem(node.place, f"{shorten_repr(node.value)} is not a schema"))
            return True
        if "$ref" not in node.value:
            return self._convert_members(node, read_only)
        reference = self._convert_reference(node, read_only)
        more = {} if self.table.is_3_0 else self._convert_members(node, read_only)
        return {**more, **reference}

    def _convert_reference(self, node: Node, read_only: Set[str]) -> JsonSchema:
        try:
            self.table.references.resolve(node)  # to the end: it may lead in a circle
            target = self.table.references.follow(node, str(node.members["$ref"]))
        except UnresolvedError as error:
            self.problems.append(error.problem)
            return {}
        required = {str(name) for part in self._iter_conjuncts(target) for name in _list_required(part)}
        name = self.table.get_name(target, read_only & required)
        self.links.add(name)
        return {"$ref": f"#/$defs/{name}"}

    def _convert_members(self, node: Node, read_only: Set[str]) -> JsonSchema:
        converted: JsonSchema = {}
        if node.members.keys() & {"allOf", "required"}:
            read_only = read_only | self._list_read_only(node)
        for keyword, value in node.members.items():
            child = node.get_child(keyword)
            if keyword in _KEPT_KEYWORDS:
                converted[keyword] = value
            elif keyword in ("title", "description"):
                converted[keyword] = limit_text(value) if isinstance(value, str) else value
            elif keyword in _SCHEMA_MAP_KEYWORDS and isinstance(value, dict):
                members = {name: child.get_child(name) for name in value}
                convert = self._convert_member if keyword in _MEMBER_KEYWORDS else self.convert
                converted[keyword] = {name: convert(member) for name, member in members.items()}
            elif keyword == "allOf" and isinstance(value, list):
                converted[keyword] = [self.convert(item, read_only) for _, item in child.iter_children()]
            elif keyword in _SCHEMA_LIST_KEYWORDS and isinstance(value, list):
                converted[keyword] = [self.convert(item) for _, item in child.iter_children()]
            elif keyword == "additionalProperties" and isinstance(value, bool):
                converted[keyword] = value
            elif keyword in _SCHEMA_KEYWORDS:
                convert = self._convert_member if keyword == "additionalProperties" else self.convert
                converted[keyword] = convert(child)
            elif keyword in _UNSUPPORTED_KEYWORDS:
                self.problems.append(DocumentProblem(node.place, f"{keyword} inside of schemas is not supported"))
        if isinstance(required := converted.get("required"), list):
            converted["required"] = [name for name in required if str(name) not in read_only]
            if not converted["required"]:
                del converted["required"]
        if "default" in node.members and not has_secret_schema(converted):
            _describe_default(converted, node.members["default"])
        if "example" in node.members and "examples" not in converted:
            converted["examples"] = [node.members["example"]]
        if is_binary(converted):
            converted.pop("format", None)
            converted["contentEncoding"] = "base64"
        return _convert_from_3_0(node, converted) if self.table.is_3_0 else converted

    def _convert_member(self, node: Node) -> SchemaPart:
        """Return the schema of a member of an object; False, which nothing fits, for one that only answers have."""
        return not self._is_read_only(node) and self.convert(node)

    def _list_read_only(self, node: Node) -> set[str]:
        """Return the members of an object that only answers have, by any part of its schema."""
        parts = [part.get_child("properties") for part in self._iter_conjuncts(node)]
        members = [(name, part.get_child(name)) for part in parts for name in part.members]
        return {name for name, member in members if self._is_read_only(member)}

    def _is_read_only(self, node: Node) -> bool:
        """Tell whether a property is only for answers; also where that is said of what it refers to or consists of."""
        return any(part.members.get("readOnly") is True for part in self._iter_conjuncts(node))

    def _iter_conjuncts(self, node: Node) -> Iterator[Node]:
        """Yield a schema, what it refers to, and what it consists of, each once."""
        waiting, seen = [node], set[Node]()
        while waiting:
            part = waiting.pop()
            if part in seen:
                continue
            seen.add(part)
            yield part
            with suppress(UnresolvedError):  # reported where it is converted
                waiting.append(self.table.references.resolve(part))
            waiting += [conjunct for _, conjunct in part.get_child("allOf").iter_children()]


def _list_required(node: Node) -> list[object]:
    required = node.members.get("required")
    return required if isinstance(required, list) else []


def _describe_default(converted: JsonSchema, value: object) -> None:
    """Say in words what the service takes by default: as a keyword, it would be sent, and overwrite what is there."""
    if len(text := to_compact_json(value)) <= _MAX_DEFAULT:
        description = str(converted.get("description") or "").rstrip()
        converted["description"] = f"{description} Default: {text}.".lstrip()


def iter_members(references: References, schema: Node) -> Iterator[tuple[str, Node]]:
    """Yield the members that a schema names, itself and by what it refers to or is put together from."""
    waiting, seen = [schema], set[Node]()
    while waiting:
        try:
            part = references.resolve(waiting.pop())
        except UnresolvedError:
            continue  # reported where it is converted
        if part not in seen:
            seen.add(part)
            yield from part.get_child("properties").iter_children()
            waiting += [
                node for keyword in ("allOf", "anyOf", "oneOf") for _, node in part.get_child(keyword).iter_children()
            ]


def list_member_names(references: References, schema: Node | None) -> frozenset[str]:
    """Return the names of the members that a schema names; None has none."""
    return frozenset() if schema is None else frozenset(name for name, _ in iter_members(references, schema))


def is_binary(schema: Mapping[str, object]) -> bool:
    """Tell whether a schema of a text means bytes, which arguments have in base64."""
    if schema.get("format") == "binary":
        return True
    return schema.get("contentMediaType") == "application/octet-stream" and "contentEncoding" not in schema


def limit_text(text: str) -> str:
    """Return a text of a document for a model: without invisible characters, and not too long."""
    cleaned = clean_text(text).strip()
    return cleaned if len(cleaned) <= MAX_DESCRIPTION else f"{cleaned[: MAX_DESCRIPTION - 1].rstrip()}…"


def _convert_from_3_0(node: Node, schema: JsonSchema) -> JsonSchema:
    for limit, exclusive in _LIMITS:
        if isinstance(schema.get(exclusive), bool):
            is_exclusive = schema.pop(exclusive)
            if is_exclusive and limit in schema:
                schema[exclusive] = schema.pop(limit)
    if node.members.get("nullable") is not True:
        return schema
    kind, choices = schema.get("type"), schema.get("enum")
    if isinstance(choices, list) and None not in choices:
        schema["enum"] = [*choices, None]
    if isinstance(kind, str):
        return {**schema, "type": [kind, "null"]}
    return {"anyOf": [schema, {"type": "null"}]} if schema.keys() & _SCHEMA_LIST_KEYWORDS else schema


@cache
def _get_meta_validator() -> jsonschema_rs.Validator:
    import jsonschema_rs

    return jsonschema_rs.Draft202012Validator({"$ref": "https://json-schema.org/draft/2020-12/schema"})


def _find_schema_problems(node: Node, schema: SchemaPart) -> Iterator[DocumentProblem]:
    """Yield what is not valid JSON Schema in a converted schema."""
    for error in iter_errors(_get_meta_validator(), schema):
        steps = _find_common_steps(node.value, map(str, error.instance_path))
        place = Node(node.document, (*node.pointer, *steps)).place
        yield DocumentProblem(place, f"is not a valid schema: {shorten_text(error.message)}")


def _find_common_steps(value: object, steps: Iterable[str]) -> Iterator[str]:
    """Yield those of *steps* that lead somewhere in a schema as it was before it was converted."""
    for step in steps:
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return
        yield step
