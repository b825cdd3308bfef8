"""
Renders pages as Markdown, for GitHub and for MkDocs.

Whatever a name or a description says, it is text there: every character that Markdown could read is written as an
HTML entity, which both kinds of Markdown show as the character and neither reads as its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from praval_tools.cli.common import sanitize_text
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

_SPECIAL: Final = re.compile(r"[\\`*\[\]<>{}|~!#$^=&\"']|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_LINKS: Final = re.compile(r":(?=//)|(?<=www)\.|:(?=[A-Za-z0-9_+-]+:)|(?<=mailto):|(?<=xmpp):", re.IGNORECASE)
_LINE_START: Final = re.compile(r"^(?:([-+:])|(\d+)([.)])(?=\s|$))")
_PLAIN_CODE: Final = re.compile(r"[A-Za-z0-9_.,:/()-]+(?: [A-Za-z0-9_.,:/()-]+)*")


def render_markdown(page: Page) -> Iterator[str]:
    """Yield the text of a page in parts."""
    yield f"{MARKER}\n\n# {escape_markdown(page.title)}\n"
    for block in page.make_blocks():
        yield f"\n{_render_block(block)}\n"


def escape_markdown(text: object) -> str:
    """Return *text* in one line, so that Markdown shows it as it is: no markup, no HTML, no link, no table cell."""
    safe = sanitize_text(text)
    safe = _SPECIAL.sub(_to_entity, safe)
    safe = _LINE_START.sub(lambda match: f"{match[2] or ''}&#{ord(match[1] or match[3])};", safe)
    safe = _LINKS.sub(_to_entity, safe)
    return safe.replace("@", "<span>@</span>")  # an address is only found in one piece of text


def _to_entity(match: re.Match[str]) -> str:
    return f"&#{ord(match[0])};"


def render_code(text: str) -> str:
    """Return *text* as code in a line."""
    safe = sanitize_text(text)
    return f"`{safe}`" if _PLAIN_CODE.fullmatch(safe) else f"<code>{escape_markdown(safe)}</code>"


def _render_block(block: Block) -> str:
    match block:
        case Heading():
            anchor = f'<a id="{block.anchor}"></a>\n\n' if block.anchor else ""
            return f"{anchor}{'#' * block.level} {_render_inline(block.content)}"
        case Paragraph():
            return _render_line(block.line)
        case CodeBlock():
            title = f"{escape_markdown(block.title)}:\n\n" if block.title else ""
            return f"{title}{_render_fence(block)}"
        case Grid():
            return _render_table(block)


def _render_fence(block: CodeBlock) -> str:
    text = sanitize_text(block.text, keep_line_breaks=True)
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{block.language or 'text'}\n{text}\n{fence}"


def _render_table(table: Grid) -> str:
    titles = table.titles or ("", "")
    rows = [" | ".join(map(escape_markdown, titles)), " | ".join("---" for _ in titles)]
    rows += [" | ".join(_render_line(cell) or " " for cell in row) for row in table.rows]
    return "\n".join(f"| {row} |" for row in rows)


def _render_line(line: Line) -> str:
    return "".join(map(_render_inline, line)).strip()  # spaces in front would make it code


def _render_inline(part: Inline) -> str:
    match part:
        case Code():
            return render_code(part.text)
        case Link():
            anchor = f"#{part.anchor}" if part.anchor else ""
            return f"[{_render_inline(part.content)}]({part.page}.md{anchor})"
        case _:
            # a line starts only once: spaces around a part belong to the text beside it
            start, end = part[: len(part) - len(part.lstrip(" "))], part[len(part.rstrip(" ")) :]
            return f"{start}{escape_markdown(part)}{end if part.strip() else ''}"
