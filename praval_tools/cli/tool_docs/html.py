"""Renders pages as HTML in the style of the report: no script, no network, every text escaped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from praval_tools.cli.report.document import render_document
from praval_tools.cli.tool_docs.blocks import (
    MARKER,
    Block,
    Code,
    CodeBlock,
    Grid,
    Heading,
    Inline,
    Line,
    Link,
    Page,
    Paragraph,
)
from praval_tools.report.markup import Markup, build_code, build_element, build_row, join_markup

_DOCTYPE: Final = "<!doctype html>\n"


def render_html(page: Page) -> Iterator[str]:
    """Yield the document of a page."""
    parts = {"title": page.title, "content": join_markup(*_iter_sections(page.make_blocks()))}
    document = render_document(page.title, "praval_tools.cli.tool_docs", parts)
    yield f"{_DOCTYPE}{MARKER}\n{document.removeprefix(_DOCTYPE)}"


def _iter_sections(blocks: Iterable[Block]) -> Iterator[Markup]:
    """Yield the parts before the first heading of the second level, then a section for each of these headings."""
    parts: list[Markup] = []
    anchor: str | None = None
    has_heading = False
    for block in blocks:
        if isinstance(block, Heading) and block.level == 2:
            yield _build_section(parts, anchor) if has_heading else join_markup(*parts)
            parts, anchor, has_heading = [], block.anchor or None, True
        parts.append(_render_block(block))
    yield _build_section(parts, anchor) if has_heading else join_markup(*parts)


def _build_section(parts: Iterable[Markup], anchor: str | None) -> Markup:
    return join_markup(build_element("section", *parts, id=anchor, class_="tool"), "\n")


def _render_block(block: Block) -> Markup:
    match block:
        case Heading():
            return build_element(f"h{block.level}", _render_inline(block.content))
        case Paragraph():
            return build_element("p", *map(_render_inline, block.line))
        case CodeBlock():
            code = build_element("pre", build_element("code", block.text))
            if not block.title:
                return code
            return build_element("details", build_element("summary", block.title), code)
        case Grid():
            return _render_table(block)


def _render_table(table: Grid) -> Markup:
    head = build_element("thead", build_row(*(build_element("th", title, scope="col") for title in table.titles)))
    rows = [build_row(_render_row_title(row[0]), *map(_render_cell, row[1:])) for row in table.rows]
    body = build_element("tbody", *rows)
    class_ = "listing" if table.titles else "facts"
    element = build_element("table", head if table.titles else None, body, class_=class_)
    return build_element("div", element, class_="wide")


def _render_row_title(line: Line) -> Markup:
    return build_element("th", *map(_render_inline, line), scope="row")


def _render_cell(line: Line) -> Markup:
    return build_element("td", *map(_render_inline, line))


def _render_inline(part: Inline) -> Markup:
    match part:
        case Code():
            return build_code(part.text)
        case Link():
            anchor = f"#{part.anchor}" if part.anchor else ""
            return build_element("a", _render_inline(part.content), href=f"{part.page}.html{anchor}")
        case _:
            return join_markup(part)
