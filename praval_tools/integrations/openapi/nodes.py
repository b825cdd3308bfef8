"""Places in OpenAPI documents: values with the JSON pointers that lead to them, and the references between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final
from urllib.parse import unquote

from attrs import define, field, frozen

from praval_tools.integrations.openapi.errors import DocumentProblem
from praval_tools.names import shorten_repr
from praval_tools.schema.json_pointer import join_pointer, resolve_pointer, split_pointer

_MISSING: Final = object()


@frozen(eq=False)
class Document:
    """
    A document: the one that is registered, or another one that it refers to.

    Args:
        address: Its URL or file; empty for a mapping.
        root: What it holds.
        is_main: Whether it is the one that is registered.
    """

    address: str
    root: object
    is_main: bool = True


@frozen
class Node:
    """
    A value in a document, and where it is.

    Args:
        document: The document.
        pointer: The keys and indexes that lead to it.
        value: What is there.
    """

    document: Document
    pointer: tuple[str, ...] = ()
    value: object = field(default=None, eq=False)

    @property
    def place(self) -> str:
        """The JSON pointer, after the address of a document that is not the main one."""
        address = "" if self.document.is_main else self.document.address
        return address + join_pointer(self.pointer)

    @property
    def members(self) -> Mapping[str, object]:
        """What an object holds; nothing for any other value."""
        return self.value if isinstance(self.value, dict) else {}

    def get_child(self, key: str) -> Node:
        """Return what an object holds at *key*; None where there is nothing."""
        return Node(self.document, (*self.pointer, key), self.members.get(key))

    def iter_children(self) -> Iterator[tuple[str, Node]]:
        """Yield what an object holds, extensions left out, or the items of a list."""
        members = enumerate(self.value) if isinstance(self.value, list) else self.members.items()
        for key, value in members:
            if not str(key).startswith("x-"):
                yield str(key), Node(self.document, (*self.pointer, str(key)), value)


class UnresolvedError(Exception):
    """A reference is unresolved, circular, or not allowed; `problem` says which."""

    def __init__(self, problem: DocumentProblem) -> None:
        super().__init__(problem)
        self.problem = problem


@define(eq=False)
class References:
    """
    Follows the references of documents.

    Args:
        load_document: Returns the document at the address that a reference names; raises `ValueError` with the reason
            where it is not to be loaded.
    """

    load_document: Callable[[Document, str], Document]

    def resolve(self, node: Node) -> Node:
        """
        Return what *node* stands for: itself, or what its reference leads to in the end.

        Raises:
            UnresolvedError: That is nothing.
        """
        followed = set[Node]()
        while isinstance(reference := node.members.get("$ref"), str):
            if node in followed:
                raise UnresolvedError(DocumentProblem(node.place, "the reference leads back to itself"))
            followed.add(node)
            node = self.follow(node, reference)
        if "$ref" in node.members:
            raise UnresolvedError(DocumentProblem(f"{node.place}/$ref", "expected a text"))
        return node

    def follow(self, node: Node, reference: str) -> Node:
        """
        Return what one reference leads to, which may be another reference.

        Raises:
            UnresolvedError: That is nothing.
        """
        address, _, fragment = reference.partition("#")
        document, place = node.document, f"{node.place}/$ref"
        if address:
            try:
                document = self.load_document(document, address)
            except ValueError as error:
                raise UnresolvedError(DocumentProblem(place, f"{shorten_repr(reference)} {error}")) from None
        pointer = unquote(fragment)
        value = resolve_pointer(document.root, f"#{pointer}", _MISSING)
        if value is _MISSING or (pointer and not pointer.startswith("/")):
            problem = DocumentProblem(place, f"{shorten_repr(reference)} leads to nothing")
            raise UnresolvedError(problem)
        return Node(document, split_pointer(pointer), value)
