"""The classes of a documentation page and its parts, such as `Heading` and `Grid`, before it is rendered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from attrs import frozen

MARKER: Final = "<!-- Made by praval-tools docs build, which overwrites this file. -->"
"""What a page has at its beginning, so that a build recognizes its own files."""


@frozen
class Code:
    """A name or a value, shown as code."""

    text: str


@frozen
class Link:
    """A link to another page of the same folder, or to an anchor of it."""

    content: str | Code
    page: str
    anchor: str = ""


Inline: TypeAlias = str | Code | Link
"""A part of a line; a plain text is escaped by whoever renders it."""

Line: TypeAlias = Sequence[Inline]


@frozen
class Heading:
    """The title of what follows, up to the next one of its level."""

    level: int
    content: str | Code
    anchor: str = ""


@frozen
class Paragraph:
    """Some text."""

    line: Line


@frozen
class CodeBlock:
    """Lines shown as they are; with a *title* they are a detail that few read."""

    text: str
    language: str = ""
    title: str = ""


@frozen
class Grid:
    """Rows of cells; without *titles* each row is a name and its value."""

    titles: Sequence[str]
    rows: Sequence[Sequence[Line]]


Block: TypeAlias = Heading | Paragraph | CodeBlock | Grid


@frozen
class Page:
    """
    A page.

    Args:
        name: Of its file, without the suffix.
        title: What it is about.
        make_blocks: Makes its parts; called when the page is rendered, so that one page at a time is in memory.
    """

    name: str
    title: str
    make_blocks: Callable[[], Iterator[Block]]
