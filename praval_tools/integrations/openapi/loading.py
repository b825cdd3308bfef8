"""Loads OpenAPI documents: from a mapping, a file or a URL, in JSON or YAML, with limits; and those they refer to."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urldefrag, urljoin

from attrs import define, field

from praval_tools.config.yaml_reader import read_yaml
from praval_tools.errors import ToolUsageError
from praval_tools.integrations.openapi.addresses import (
    check_web_address,
    find_address_problem,
    is_below,
    is_web_address,
)
from praval_tools.integrations.openapi.errors import DocumentProblem, OpenApiDocumentError
from praval_tools.integrations.openapi.nodes import Document
from praval_tools.names import shorten_repr
from praval_tools.schema.json_input import MalformedArgumentsError, copy_json, normalize_json, parse_json

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
MAX_DOCUMENT_BYTES: Final = 32 * 1_048_576
_MAX_DEPTH: Final = 200
_MAX_OTHER_DOCUMENTS: Final = 200
_VERSIONS: Final = ("3.0", "3.1")
_SWAGGER_FIX: Final = (
    "this is a Swagger 2.0 document; convert it to OpenAPI 3, as by `npx swagger2openapi` or at converter.swagger.io"
)

Fetch = Callable[[str], bytes]
"""Returns what is at a URL; raises `ValueError` with the reason where it cannot be had."""


@define(eq=False)
class DocumentLoader:
    """
    Loads a document, and others that it may refer to.

    Args:
        fetch: Gets what is at a URL.
        allowed: The URLs and folders below which documents may be that others refer to.
        max_bytes: How long a document may be.
    """

    fetch: Fetch
    allowed: tuple[str, ...] = ()
    max_bytes: int = MAX_DOCUMENT_BYTES
    _loaded: dict[str, Document] = field(factory=dict)

    def load_main(self, spec: object) -> Document:
        """
        Return the document that *spec* is, or names.

        Raises:
            OpenApiDocumentError: It cannot be read, or has a version that is not known.
            ToolUsageError: No document can be read from it.
        """
        self._loaded.clear()
        address = "" if isinstance(spec, Mapping) else locate_document(spec)
        try:
            document = Document(address, self._read(address) if address else _check_json(spec))
        except ValueError as error:
            raise OpenApiDocumentError(address or "a mapping", [DocumentProblem("#", str(error))]) from None
        self._loaded[address] = document
        if problem := _find_version_problem(document.root):
            raise OpenApiDocumentError(address or "a mapping", [problem])
        return document

    def load_other(self, document: Document, reference: str) -> Document:
        """
        Return a document to which *document* refers.

        Raises:
            ValueError: It is not to be loaded, or cannot be read.
        """
        target = _join(document.address, reference)
        if target not in self._loaded:
            if not any(is_below(target, place) for place in self.allowed):
                raise ValueError("leads to another document; pass allow_references= with the URLs or folders of such")
            if len(self._loaded) > _MAX_OTHER_DOCUMENTS:
                raise ValueError(f"leads to a document beyond the {_MAX_OTHER_DOCUMENTS} that are loaded")
            self._loaded[target] = Document(target, self._read(target), is_main=False)
        return self._loaded[target]

    def _read(self, address: str) -> object:
        if is_web_address(address):
            content = self.fetch(address)
        else:
            content = _read_file(Path(address), self.max_bytes)
        if len(content) > self.max_bytes:
            raise ValueError(f"it is longer than {self.max_bytes:,} bytes")
        return parse_document(content, self.max_bytes)


def locate_document(spec: object) -> str:
    """
    Return the URL, or the absolute path, of the document that *spec* names.

    Raises:
        ToolUsageError: It names none.
    """
    if isinstance(spec, str) and is_web_address(spec):
        return check_web_address(spec, "the document")
    if isinstance(spec, str) and _SCHEME.match(spec):
        raise ToolUsageError(f"{shorten_repr(spec)}: an OpenAPI document is at an http:// or https:// URL, or a path.")
    if not isinstance(spec, str | os.PathLike) or not (path := os.fspath(spec)) or not isinstance(path, str):
        raise ToolUsageError("An OpenAPI document is given as a mapping, a path, or a URL.")
    if path.lstrip().startswith("{") or "\n" in path:
        raise ToolUsageError("This is the text of an OpenAPI document; pass what json.loads makes of it, or its path.")
    return str(Path(path).absolute())


def _join(base: str, reference: str) -> str:
    """Return the address that *reference* means in the document at *base*."""
    if is_web_address(reference) or is_web_address(base):
        target = urldefrag(urljoin(base, reference)).url
        if not is_web_address(target):
            raise ValueError("leads to another document, and not an http:// or https:// URL")
        if problem := find_address_problem(target):
            raise ValueError(f"leads to another document, and its address {problem}")
        return target
    if ":" in reference.partition("/")[0] or not base:
        raise ValueError("leads to another document, which cannot be found from here")
    return str((Path(base).parent / reference).resolve())


def _read_file(path: Path, max_bytes: int) -> bytes:
    if path.exists() and not path.is_file():
        raise ValueError("it is not a regular file")
    try:
        if path.stat().st_size > max_bytes:
            raise ValueError(f"it is longer than {max_bytes:,} bytes")
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"it cannot be read: {error.strerror or type(error).__name__}") from None


def parse_document(content: bytes, max_bytes: int = MAX_DOCUMENT_BYTES) -> object:
    """
    Return the value of a text in JSON or YAML.

    Raises:
        ValueError: It is neither.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    if text.lstrip()[:1] in "{[":
        try:
            return parse_json(text, max_bytes=max_bytes, max_depth=_MAX_DEPTH)
        except MalformedArgumentsError as error:
            if text.lstrip().startswith("["):
                raise ValueError(_describe(error)) from None
            json_error = error
        try:
            return _parse_yaml(text)  # a mapping of YAML may begin with a brace, too
        except ValueError:
            raise ValueError(_describe(json_error)) from None
    return _parse_yaml(text)


def _parse_yaml(text: str) -> object:
    content = read_yaml(text, is_foreign=True, feature="An OpenAPI document in YAML")
    if content.problems:
        _, line, problem = content.problems[0]
        raise ValueError(f"line {line} {problem}")
    return _check_json(content.data)


def _check_json(value: object) -> object:
    try:
        return copy_json(normalize_json(value, _MAX_DEPTH))
    except MalformedArgumentsError as error:
        raise ValueError(_describe(error)) from None


def _describe(error: MalformedArgumentsError) -> str:
    return "; ".join(f"{problem.path} {problem.reason}" for problem in error.problems[:5])


def _find_version_problem(root: object) -> DocumentProblem | None:
    if not isinstance(root, dict):
        return DocumentProblem("#", "expected an object")
    if "swagger" in root:
        return DocumentProblem("#/swagger", _SWAGGER_FIX)
    version = root.get("openapi")
    if not isinstance(version, str):
        return DocumentProblem("#", "missing: openapi, the version of the specification, such as '3.1.0'")
    if not version.startswith(tuple(f"{known}." for known in _VERSIONS)):
        return DocumentProblem("#/openapi", f"{shorten_repr(version)} is unknown; known are {' and '.join(_VERSIONS)}")
    return None
