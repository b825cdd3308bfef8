"""Finds the server of an operation: its URL, and whether requests may be sent there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import urljoin, urlsplit

from attrs import define, field

from praval_tools.integrations.openapi.addresses import (
    find_address_problem,
    get_origin,
    is_same_service,
    is_web_address,
)
from praval_tools.integrations.openapi.errors import DocumentProblem
from praval_tools.integrations.openapi.nodes import Document, Node
from praval_tools.integrations.openapi.shapes import find_shape_problems
from praval_tools.names import shorten_repr

_VARIABLE: Final = re.compile(r"\{([^{}]*)\}")


def _read_origins(urls: Iterable[str]) -> Sequence[str]:
    return [get_origin(url) for url in urls]


@define(eq=False)
class ServerReader:
    """
    Finds servers.

    Args:
        document: The document; its URL is what relative ones start from.
        base_url: Where all requests go, whatever the document says; None: where it says.
        allowed: The servers that operations may have besides the document's own, given by URLs and kept as origins.
        problems: Receives what is wrong with the document.
        refusals: Receives why an operation cannot be a tool, although the document is right.
    """

    document: Document
    base_url: str | None
    allowed: Sequence[str] = field(converter=_read_origins)
    problems: list[DocumentProblem]
    refusals: list[DocumentProblem]
    _own_origin: str = ""

    def __attrs_post_init__(self) -> None:
        if is_web_address(self.document.address):
            self._own_origin = get_origin(self.document.address)

    def read(self, operation: Node, path_item: Node, root: Node) -> str:
        """Return the URL of the server of an operation, without a slash at its end; empty where there is none."""
        if self.base_url is not None:
            return self.base_url.rstrip("/")
        owner = next((node for node in (operation, path_item) if node.members.get("servers")), root)
        servers = [node for _, node in owner.get_child("servers").iter_children()]
        node = servers[0] if servers else Node(root.document, root.pointer, {"url": "/"})
        if shape_problems := list(find_shape_problems(node, "server")):
            self.problems += shape_problems
            return ""
        if (url := self._build_url(node)) is None:
            return ""
        if not self._own_origin:  # a file or a mapping, which the operator has: its own first server counts
            self._own_origin = get_origin(url)
        if not any(is_same_service(url, origin) for origin in (self._own_origin, *self.allowed)):
            text = f"the server {get_origin(url)} is another one than {self._own_origin}"
            fix = f"pass allow_servers=[{get_origin(url)!r}], or base_url="
            problem = DocumentProblem(node.place, f"{text}; {fix}")
            (self.problems if owner is root else self.refusals).append(problem)
            return ""
        return url.rstrip("/")

    def _build_url(self, node: Node) -> str | None:
        variables = node.get_child("variables")
        template, place = str(node.members["url"]), node.place

        def fill_in(match: re.Match[str]) -> str:
            variable = variables.get_child(match[1])
            if variable.value is None:
                text = f"the variable {shorten_repr(match[1])} of the server is not among its variables"
                self.problems.append(DocumentProblem(place, text))
            default, choices = str(variable.members.get("default")), variable.members.get("enum")
            if isinstance(choices, list) and default not in choices:
                text = f"the default {shorten_repr(default)} is none of its enum"
                self.problems.append(DocumentProblem(variable.place, text))
            return default

        url = _VARIABLE.sub(fill_in, template)
        if not is_web_address(url):
            if not is_web_address(self.document.address):
                text = f"the URL of the server, {shorten_repr(url)}, is relative, and the document is from no URL"
                self.problems.append(DocumentProblem(place, f"{text}; pass base_url="))
                return None
            url = urljoin(self.document.address, url)
        problem = find_address_problem(url)
        if not problem and (urlsplit(url).query or urlsplit(url).fragment):
            problem = "holds a query or a fragment"
        if problem:
            self.problems.append(DocumentProblem(place, f"the URL of the server {problem}"))
            return None
        return url
