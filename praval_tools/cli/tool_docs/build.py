"""Builds the reference of tools: compares with the last build, makes the pages, writes or checks them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from attrs import frozen

from praval_tools import ToolRegistry
from praval_tools.cli.tool_docs.blocks import MARKER, Page
from praval_tools.cli.tool_docs.changes import (
    INDEX_FILE,
    INDEX_VERSION,
    BuildIndex,
    DocFormat,
    ToolChange,
    compare_tools,
    find_changes,
    index_tools,
    parse_index,
)
from praval_tools.cli.tool_docs.folder import FileMakers, OutputFolder
from praval_tools.cli.tool_docs.html import render_html
from praval_tools.cli.tool_docs.markdown import render_markdown
from praval_tools.cli.tool_docs.pages import build_pages
from praval_tools.cli.tool_docs.reference import read_reference

RENDERERS: Final[dict[DocFormat, Callable[[Page], Iterator[str]]]] = {"md": render_markdown, "html": render_html}


@frozen
class DocsBuild:
    """
    A build that can be written or checked.

    Args:
        folder: Where its files go.
        files: The files.
        known: The files that the last build wrote.
        changes: What is different from the last build.
        tool_count: How many tools it has.
    """

    folder: OutputFolder
    files: FileMakers
    known: tuple[str, ...]
    changes: tuple[ToolChange, ...]
    tool_count: int

    def write(self) -> int:
        """Write the files; return how many were changed."""
        return self.folder.write(self.files, self.known)

    def find_differences(self) -> list[str]:
        """Return what is not as `write` would leave it."""
        return list(self.folder.find_differences(self.files, self.known))


def prepare_build(registry: ToolRegistry, out: Path, format: DocFormat) -> DocsBuild:
    """
    Return the build of *registry* into a folder; nothing is written yet.

    Raises:
        CommandError: The index of the last build cannot be read.
    """
    folder = OutputFolder(out, MARKER)
    text = folder.read(INDEX_FILE)
    last = None if text is None else parse_index(text, str(out / INDEX_FILE))
    reference = read_reference(registry)
    tools = index_tools(reference)
    changes = find_changes(last, tools)
    pages = build_pages(reference, changes)
    names = tuple(f"{page.name}.{format}" for page in pages)
    index = BuildIndex(INDEX_VERSION, format, names, tools, changes)
    # the index comes last: a build that is killed before compares with the same one again
    files = {name: partial(_render, page, format) for name, page in zip(names, pages, strict=True)}
    differences = () if last is None else tuple(compare_tools(last.tools, tools))
    known = (*last.files, INDEX_FILE) if last is not None else ()
    return DocsBuild(folder, {**files, INDEX_FILE: index.to_text}, known, differences, len(tools))


def _render(page: Page, format: DocFormat) -> str:
    return "".join(RENDERERS[format](page))
