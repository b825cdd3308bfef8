"""Reads the parameters of an operation: what each is called as an argument, its schema, and how it is written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, cast

from attrs import evolve, frozen

from praval_tools.integrations.openapi.errors import DocumentProblem
from praval_tools.integrations.openapi.nodes import Node, References, UnresolvedError
from praval_tools.integrations.openapi.schemas import SchemaTable, limit_text, list_member_names
from praval_tools.integrations.openapi.shapes import STYLES, find_shape_problems
from praval_tools.integrations.openapi.styles import ParameterStyle, Place
from praval_tools.names import to_wire_name
from praval_tools.schema.schema_tree import SchemaPart

_IGNORED_HEADERS: Final = frozenset(("accept", "content-type", "authorization"))
"""The specification has these ignored as parameters."""

_REFUSED_HEADERS: Final = frozenset(
    ("host", "content-length", "transfer-encoding", "connection", "cookie", "upgrade", "te", "trailer", "expect",
     "keep-alive", "proxy-authorization", "proxy-connection", "content-encoding", "accept-encoding")
)  # fmt: skip
"""What the connection rests on, which no caller is to say."""

_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OTHER: Final = re.compile(r"[^A-Za-z0-9_.-]+")


@frozen(kw_only=True)
class OperationParameter:
    """
    A parameter of an operation.

    Args:
        argument: What it is called as an argument of the tool.
        style: Its name, place and style.
        schema: The converted schema, with its description.
        is_required: Whether it has to be given.
        links: The names of the schemas that its schema refers to.
    """

    argument: str
    style: ParameterStyle
    schema: SchemaPart
    is_required: bool
    links: frozenset[str] = frozenset()

    @property
    def key(self) -> tuple[str, str]:
        """Its place and name; of headers, whose names have no case, in small letters."""
        return self.style.place, self.style.name.lower() if self.style.place == "header" else self.style.name


class ParameterReader:
    """
    Reads parameters.

    Args:
        references: Follows references.
        table: Converts schemas.
        problems: Receives what is wrong with the document.
        refusals: Receives why an operation cannot be a tool, although the document is right.
    """

    def __init__(
        self, references: References, table: SchemaTable, problems: list[DocumentProblem],
        refusals: list[DocumentProblem],
    ) -> None:  # fmt: skip
        self._references, self._table = references, table
        self._problems, self._refusals = problems, refusals

    def read(self, path_item: Node, operation: Node) -> list[OperationParameter]:
        """Return the parameters of an operation: those of its path, and its own, which replace these."""
        found: dict[tuple[str, str], OperationParameter] = {}
        for owner in (path_item, operation):
            own: dict[tuple[str, str], OperationParameter] = {}
            for _, node in owner.get_child("parameters").iter_children():
                if (parameter := self._read_parameter(node)) is None:
                    continue
                if parameter.key in own:
                    text = f"the {parameter.style.place} parameter {parameter.style.name!r} stands here twice"
                    self._problems.append(DocumentProblem(node.place, text))
                own[parameter.key] = parameter
            found |= own
        return list(_with_distinct_arguments(found))

    def _read_parameter(self, node: Node) -> OperationParameter | None:
        try:
            node = self._references.resolve(node)
        except UnresolvedError as error:
            self._problems.append(error.problem)
            return None
        if shape_problems := list(find_shape_problems(node, "parameter")):
            self._problems += shape_problems
            return None
        name, place = str(node.members["name"]), cast("Place", node.members["in"])
        if place == "header" and not self._is_usable_header(node, name):
            return None
        if place == "path" and node.members.get("required") is not True:
            self._problems.append(DocumentProblem(node.place, "a path parameter has required: true"))
        schema, links, style = self._read_value(node, name, place)
        return OperationParameter(
            argument=make_argument_name(name), style=style, schema=schema, links=frozenset(links),
            is_required=node.members.get("required") is True,
        )  # fmt: skip

    def _is_usable_header(self, node: Node, name: str) -> bool:
        if name.lower() in _REFUSED_HEADERS or not _HEADER_NAME.fullmatch(name):
            text = f"a caller cannot give the header {name!r}"
            self._refusals.append(DocumentProblem(node.place, text))
            return False
        return name.lower() not in _IGNORED_HEADERS

    def _read_value(self, node: Node, name: str, place: Place) -> tuple[SchemaPart, set[str], ParameterStyle]:
        """Return the schema of a parameter, what that refers to, and its style."""
        members = node.members
        style, is_json, schema_node = str(members.get("style") or STYLES[place][0]), False, node.get_child("schema")
        if "content" in members:
            (media_type, media), = node.get_child("content").iter_children()
            is_json, schema_node = is_json_type(media_type), media.get_child("schema")
            if not is_json:
                text = f"a parameter of the type {media_type!r} is not supported; only JSON is"
                self._refusals.append(DocumentProblem(media.place, text))
        if schema_node.value is None:
            schema: SchemaPart = {}
            links = set[str]()
        else:
            schema, links, problems = self._table.convert(schema_node)
            self._problems += problems
        explode = members.get("explode")
        written = ParameterStyle(
            name=name, place=place, style=style, explode=style == "form" if explode is None else explode is True,
            allow_reserved=place == "query" and members.get("allowReserved") is True, is_json=is_json,
            members=list_member_names(self._references, schema_node),
        )  # fmt: skip
        return _describe(schema, members), links, written


def _describe(schema: SchemaPart, members: Mapping[str, object]) -> SchemaPart:
    """Return the schema of a parameter with what the parameter itself says of it."""
    described = dict(schema) if isinstance(schema, dict) else {}
    if isinstance(text := members.get("description"), str) and text.strip():
        own = str(described.get("description") or "")
        described["description"] = " ".join(filter(None, (limit_text(text), "" if own in text else own)))
    if members.get("deprecated") is True:
        described["deprecated"] = True
    return described if isinstance(schema, dict) else schema


def is_json_type(media_type: str) -> bool:
    """Tell whether a media type is JSON."""
    kind = media_type.partition(";")[0].strip().lower()
    return kind in ("application/json", "text/json") or kind.endswith("+json")


def make_argument_name(name: str) -> str:
    """Return what models may have as the name of an argument: `[A-Za-z0-9_.-]`, at most 64 characters."""
    return to_wire_name(_OTHER.sub("_", name).strip("_").replace(".", "_") or "parameter")


def _with_distinct_arguments(parameters: Mapping[tuple[str, str], OperationParameter]) -> Iterator[OperationParameter]:
    """Yield parameters whose arguments differ: where names are the same, with their places, then with numbers."""
    arguments = [parameter.argument for parameter in parameters.values()]
    taken = set[str]()
    for parameter in parameters.values():
        argument = parameter.argument
        if arguments.count(argument) > 1 or argument == BODY_ARGUMENT:
            argument = make_argument_name(f"{parameter.style.place}_{argument}")
        base, number = argument, 1
        while argument in taken:
            number += 1
            argument = f"{base}_{number}"
        taken.add(argument)
        yield evolve(parameter, argument=argument)


BODY_ARGUMENT: Final = "body"
"""The argument that holds the body of a request; a parameter of this name is called by its place and name."""
