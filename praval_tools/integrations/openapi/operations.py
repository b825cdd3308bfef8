"""Reads the operations of a document: each becomes the definition of a tool, or is refused with its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Final

import attrs
from attrs import define, field, frozen

from praval_tools.integrations.foreign_text import clean_text, repair_name
from praval_tools.integrations.openapi.bodies import Body, BodyReader
from praval_tools.integrations.openapi.errors import DocumentProblem
from praval_tools.integrations.openapi.nodes import Node, References, UnresolvedError
from praval_tools.integrations.openapi.parameters import BODY_ARGUMENT, OperationParameter, ParameterReader
from praval_tools.integrations.openapi.paths import TEMPLATE, DocumentPaths
from praval_tools.integrations.openapi.schemas import SchemaTable, limit_text
from praval_tools.integrations.openapi.security import Access, SecurityReader
from praval_tools.integrations.openapi.servers import ServerReader
from praval_tools.integrations.openapi.shapes import METHODS, Shape, find_shape_problems
from praval_tools.integrations.tool_changes import Listing
from praval_tools.names import get_collision_keys, shorten_repr, to_wire_name
from praval_tools.schema.json_values import to_canonical_json
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.schema.supplied_schema import check_supplied_schema

SAFE_METHODS: Final = frozenset(("GET", "HEAD", "OPTIONS", "TRACE"))
"""The methods that change nothing, so that a call may be made again."""

_MAX_NAME: Final = 128


@frozen(kw_only=True)
class Operation:
    """
    How a request is made of arguments.

    Args:
        method: The method, in capital letters.
        server_url: The server, without a slash at its end.
        path: The path below that, with `{names}`.
        parameters: Its parameters.
        body: Its body, if it may have one.
        access: What is sent besides, so that the service allows it.
    """

    method: str
    server_url: str
    path: str
    parameters: tuple[OperationParameter, ...] = ()
    body: Body | None = None
    access: Access = field(factory=Access)

    @property
    def is_safe(self) -> bool:
        """Whether it changes nothing, as its method promises."""
        return self.method in SAFE_METHODS


@frozen(kw_only=True)
class OperationDefinition:
    """
    An operation as a tool.

    Args:
        name: Its name here.
        operation_id: Its name there; where it has none, its method and path.
        title: For people.
        description: What a model reads.
        parameters: The JSON Schema of its arguments.
        operation: How a request is made of them.
        digest: Equal exactly where all of this is equal.
    """

    name: str
    operation_id: str
    title: str
    description: str
    parameters: JsonSchema
    operation: Operation
    digest: str

    @property
    def remote_name(self) -> str:
        """Its method and URL."""
        return f"{self.operation.method} {self.operation.server_url}{self.operation.path}"

    @property
    def result_schema(self) -> None:
        """None: results are what the service answers, and are not checked."""
        return

    @property
    def effects(self) -> Mapping[str, bool]:
        """What its method promises: one that changes nothing may be called again, any other may not."""
        effects = {"read_only": self.operation.is_safe, "idempotent": self.operation.is_safe, "open_world": True}
        return {**effects, "destructive": True} if self.operation.method == "DELETE" else effects


@frozen(kw_only=True)
class OperationSelection:
    """
    Which operations are taken, and what they are called here.

    Args:
        namespace: The prefix of their names.
        include: Only these: operation ids, or `GET /pets`, with `*` for any text; empty: all.
        exclude: But not these.
        names: The names here of some, after the prefix.
    """

    namespace: str
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    names: Mapping[str, str] = field(factory=dict)

    def has(self, keys: tuple[str, ...]) -> bool:
        """Tell whether an operation is taken that is called by *keys*."""
        return not _matches(self.exclude, keys) and (not self.include or _matches(self.include, keys))

    def build_name(self, keys: tuple[str, ...]) -> str | None:
        """Return the name here of an operation; None where none can be made."""
        given = next((self.names[key] for key in keys if key in self.names), None)
        own = given or repair_name(keys[0])
        return None if own is None else to_wire_name(f"{self.namespace}-{own}", _MAX_NAME)


def _matches(patterns: Iterable[str], keys: tuple[str, ...]) -> bool:
    return any(key == pattern or fnmatchcase(key, pattern.replace("[", "[[]")) for pattern in patterns for key in keys)


@define(eq=False)
class OperationReader:
    """
    Reads the operations of a document.

    Args:
        root: The document.
        references: Follows its references.
        selection: Which operations are taken.
        servers: Finds servers.
        security: Finds what operations need.
        problems: Receives what is wrong with the document: nothing of it is taken then.
        refusals: Receives why operations cannot be tools, although the document is right.
        paths: Receives the paths of all operations.
    """

    root: Node
    references: References
    selection: OperationSelection
    servers: ServerReader
    security: SecurityReader
    problems: list[DocumentProblem]
    refusals: list[DocumentProblem]
    paths: DocumentPaths
    _table: SchemaTable = field(init=False)
    _ids: dict[str, str] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        is_3_0 = str(self.root.members.get("openapi")).startswith("3.0.")
        self._table = SchemaTable(self.references, is_3_0)

    def read(self) -> Listing[OperationDefinition]:
        """Return the operations that can be used, and what is to be said of the others."""
        self.problems += find_shape_problems(self.root, "document")
        listing = Listing[OperationDefinition]()
        names_by_key, unused = dict[str, str](), dict.fromkeys(self.selection.include)
        for path, path_item in self._iter_path_items():
            for method in METHODS:
                node = path_item.get_child(method)
                if node.value is None or self._has_shape_problems(node, "operation"):
                    continue
                self.paths.add(method.upper(), path)
                keys = self._list_keys(node, method, path)
                if not self.selection.has(keys):
                    continue
                for pattern in [pattern for pattern in unused if _matches([pattern], keys)]:
                    del unused[pattern]
                refused = len(self.refusals)
                definition = self._read_operation(node, path_item, path, method, keys)
                if definition is not None and len(self.refusals) == refused:
                    self._add(listing, definition, node, names_by_key)
        left_out = dict.fromkeys(f"{problem}; the operation is left out." for problem in self.refusals)
        listing.problems += left_out
        listing.problems += [f"Operation {shorten_repr(name)} is to be included, and is not there." for name in unused]
        return listing

    def _iter_path_items(self) -> Iterator[tuple[str, Node]]:
        for path, node in self.root.get_child("paths").iter_children():
            if not isinstance(node.value, dict):
                continue  # reported with the shape of the document
            try:
                path_item = self.references.resolve(node)
            except UnresolvedError as error:
                self.problems.append(error.problem)
                continue
            self._has_shape_problems(path_item, "path item")
            yield path, path_item

    def _has_shape_problems(self, node: Node, shape: Shape) -> bool:
        problems = list(find_shape_problems(node, shape))
        self.problems += problems
        return bool(problems)

    def _list_keys(self, node: Node, method: str, path: str) -> tuple[str, ...]:
        """Return what an operation may be called by: its id, if it has one, and its method and path."""
        place, operation_id = f"{method.upper()} {path}", node.members.get("operationId")
        if not isinstance(operation_id, str) or not operation_id:
            return (place,)
        if (other := self._ids.setdefault(operation_id, place)) != place:
            text = f"the operationId {shorten_repr(operation_id)} is that of {other}, too"
            self.problems.append(DocumentProblem(node.place, text))
        return (operation_id, place)

    def _add(
        self, listing: Listing[OperationDefinition], definition: OperationDefinition, node: Node,
        names_by_key: dict[str, str],
    ) -> None:  # fmt: skip
        for key in get_collision_keys(definition.name):
            if (other := names_by_key.setdefault(key, definition.operation_id)) != definition.operation_id:
                text = f"its name {definition.name!r} is that of {other!r} but for case, '-', '_' or '.'"
                fix = f"pass names={{{definition.operation_id!r}: 'another_name'}}"
                self.refusals.append(DocumentProblem(node.place, f"{text}; {fix}"))
                return
        listing.definitions[definition.name] = definition

    def _read_operation(
        self, node: Node, path_item: Node, path: str, method: str, keys: tuple[str, ...]
    ) -> OperationDefinition | None:
        if (name := self.selection.build_name(keys)) is None:
            text = f"no name can be made of {shorten_repr(keys[0])}; pass names={{…: 'a_name'}}"
            self.refusals.append(DocumentProblem(node.place, text))
            return None
        parameters = ParameterReader(self.references, self._table, self.problems, self.refusals).read(path_item, node)
        self._check_path(node, path, parameters)
        body = BodyReader(self.references, self._table, self.problems).read(node)
        access = self.security.read(node)
        self._check_responses(node)
        sent = {(item.kind, item.name.lower() if item.kind == "header" else item.name) for item in access.credentials}
        operation = Operation(
            method=method.upper(), path=path, body=body, access=access,
            server_url=self.servers.read(node, path_item, self.root),
            parameters=tuple(parameter for parameter in parameters if parameter.key not in sent),
        )  # fmt: skip
        schema = self._build_schema(operation, node)
        title = limit_text(str(node.members.get("summary") or ""))
        description = _describe(node, title) or f"{operation.method} {clean_text(path)}"
        whole = [name, keys[0], title, description, schema, attrs.asdict(operation, value_serializer=_serialize)]
        return OperationDefinition(
            name=name, operation_id=keys[0], title=title, description=description, parameters=schema,
            operation=operation, digest=sha256(to_canonical_json(whole).encode()).hexdigest(),
        )  # fmt: skip

    def _check_path(self, node: Node, path: str, parameters: Iterable[OperationParameter]) -> None:
        if "?" in path or "#" in path:
            text = "its path holds a query or a fragment, so that its parameters would be read as something else"
            self.refusals.append(DocumentProblem(node.place, text))
        wanted = TEMPLATE.findall(path)
        declared = {parameter.style.name for parameter in parameters if parameter.style.place == "path"}
        for name in dict.fromkeys(wanted):
            if name not in declared:
                text = f"the path has {{{name}}}, and there is no path parameter of this name"
                self.problems.append(DocumentProblem(node.place, text))
        for name in sorted(declared - set(wanted)):
            text = f"there is the path parameter {name!r}, and the path has no {{{name}}}"
            self.problems.append(DocumentProblem(node.place, text))

    def _check_responses(self, node: Node) -> None:
        for _, response in node.get_child("responses").iter_children():
            try:
                self.problems += find_shape_problems(self.references.resolve(response), "response")
            except UnresolvedError as error:
                self.problems.append(error.problem)

    def _build_schema(self, operation: Operation, node: Node) -> JsonSchema:
        """Return the schema of the arguments of an operation, with all that it refers to."""
        properties = {parameter.argument: parameter.schema for parameter in operation.parameters}
        required = [parameter.argument for parameter in operation.parameters if parameter.is_required]
        links = {name for parameter in operation.parameters for name in parameter.links}
        if (body := operation.body) is not None:
            properties[BODY_ARGUMENT] = body.schema
            links |= body.links
            required += [BODY_ARGUMENT] if body.is_required else []
        schema: JsonSchema = {"type": "object", "properties": properties, "additionalProperties": False}
        if required:
            schema["required"] = required
        names = list(self._table.collect(links))
        problems = [problem for name in names for problem in self._table.problems[name]]
        self.problems += problems
        if names:
            schema["$defs"] = {name: self._table.schemas[name] for name in names}
        if not self.problems:
            checked, reasons = check_supplied_schema(schema)
            self.refusals += [DocumentProblem(node.place, reason) for reason in reasons]
            return checked
        return schema


def _describe(node: Node, title: str) -> str:
    description = str(node.members.get("description") or "").strip()
    text = description if description.startswith(title) else "\n\n".join(filter(None, (title, description)))
    return limit_text(f"Deprecated. {text}" if node.members.get("deprecated") is True else text)


def _serialize(_: object, attribute: object, value: object) -> object:
    return sorted(value) if isinstance(value, frozenset) else value
