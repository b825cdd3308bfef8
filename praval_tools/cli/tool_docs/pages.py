"""Lays a reference of tools out on pages: an index, a page per owner and per category, and the changes."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from praval_tools.cli.tool_docs.blocks import Block, Code, CodeBlock, Grid, Heading, Line, Link, Page, Paragraph
from praval_tools.cli.tool_docs.changes import ToolChange
from praval_tools.cli.tool_docs.reference import ParameterDescription, ToolDescription, ToolReference
from praval_tools.cli.tool_docs.schema_text import to_json_text
from praval_tools.names import format_count

TOOLS_PER_PAGE: Final = 200
ROWS_PER_PAGE: Final = 1_000
_MAX_NAMES: Final = 100
_MAX_TEXT: Final = 20_000
_PLAIN_NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_MAX_NAME_LENGTH: Final = 60


def make_file_name(kind: str, name: str, number: int = 0) -> str:
    """
    Return the name of the file for an owner or a category, without its suffix.

    It is safe on every file system, whatever *name* is: of small ASCII letters, digits and `-`, never reserved since
    it starts with *kind*. Names that are not plain get a part of their digest, so that no two share a file, in
    whichever case.
    """
    if _PLAIN_NAME.fullmatch(name) and len(name) <= _MAX_NAME_LENGTH:
        slug = name
    else:
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        readable = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:_MAX_NAME_LENGTH].strip("-")
        slug = f"{readable or 'x'}--{digest}"
    return f"{kind}-{slug}{f'.{number + 1}' if number else ''}"


def make_anchor(tool: str) -> str:
    """Return the anchor of a tool on the page of its owner."""
    return f"tool-{tool}"


def build_pages(reference: ToolReference, changes: Sequence[ToolChange] | None) -> list[Page]:
    """
    Return every page; their parts are made when they are rendered.

    Args:
        reference: The tools.
        changes: What the last build that found a difference changed; None: there was no build before.
    """
    by_owner, by_category = _group_tools(reference.tools)
    places = {
        tool.name: (_make_owner_file(owner, number), make_anchor(tool.name))
        for owner, tools in by_owner.items()
        for number, part in enumerate(_split(tools, TOOLS_PER_PAGE))
        for tool in part
    }
    pages = [Page("index", reference.title, partial(_iter_index_blocks, reference, by_owner, by_category, changes))]
    pages.append(Page("changes", "Changes", partial(_iter_change_blocks, changes, places)))
    for owner, tools in by_owner.items():
        title = f"Tools of {owner}" if owner is not None else "Tools without an owner"
        for number, part in enumerate(parts := _split(tools, TOOLS_PER_PAGE)):
            make_blocks = partial(_iter_owner_blocks, owner, part, number, len(parts))
            pages.append(Page(_make_owner_file(owner, number), title, make_blocks))
    for category, tools in by_category.items():
        for number, part in enumerate(parts := _split(tools, ROWS_PER_PAGE)):
            make_blocks = partial(_iter_category_blocks, category, part, places, (number, len(parts)))
            name = make_file_name("category", category, number)
            pages.append(Page(name, f"Category {category}", make_blocks))
    return pages


def _group_tools(
    tools: Iterable[ToolDescription],
) -> tuple[dict[str | None, list[ToolDescription]], dict[str, list[ToolDescription]]]:
    """Return the tools by owner, those without one last, and by category."""
    by_owner: dict[str | None, list[ToolDescription]] = defaultdict(list)
    by_category: dict[str, list[ToolDescription]] = defaultdict(list)
    for tool in tools:
        by_owner[tool.owner].append(tool)
        by_category[tool.category].append(tool)
    owners = sorted(by_owner, key=lambda owner: (owner is None, owner or ""))
    return {owner: by_owner[owner] for owner in owners}, {name: by_category[name] for name in sorted(by_category)}


def _split(tools: Sequence[ToolDescription], size: int) -> list[Sequence[ToolDescription]]:
    return [tools[start : start + size] for start in range(0, len(tools), size)]


def _make_owner_file(owner: str | None, number: int = 0) -> str:
    if owner is not None:
        return make_file_name("owner", owner, number)
    return f"unowned{f'.{number + 1}' if number else ''}"


# ── the pages ────────────────────────────────────────────────────────────────────────────────────


def _iter_index_blocks(
    reference: ToolReference, by_owner: dict[str | None, list[ToolDescription]],
    by_category: dict[str, list[ToolDescription]], changes: Sequence[ToolChange] | None,
) -> Iterator[Block]:  # fmt: skip
    counts = f"{format_count(len(reference.tools), 'tool')}, {format_count(reference.agent_count, 'agent')}."
    yield Paragraph((counts,))
    yield Paragraph(("Last changes: ", Link(_summarize_changes(changes), "changes")))
    if by_owner:
        rows: list[list[Line]] = []
        for owner, tools in by_owner.items():
            name = Code(owner) if owner is not None else "nobody"
            rows.append([(Link(name, _make_owner_file(owner)),), (f"{len(tools):,}",), _name_some(tools)])
        yield Heading(2, "By owner")
        yield Grid(("owner", "tools", "names"), rows)
        yield Heading(2, "By category")
        yield Grid(
            ("category", "tools", "names"),
            [
                [(Link(Code(category), make_file_name("category", category)),), (f"{len(tools):,}",), _name_some(tools)]
                for category, tools in by_category.items()
            ],
        )


def _name_some(tools: Sequence[ToolDescription], count: int = 8) -> Line:
    names: list[Code | str] = []
    for tool in tools[:count]:
        names += [*([", "] if names else []), Code(tool.name)]
    return [*names, *([f" and {len(tools) - count:,} more"] if len(tools) > count else [])]


def _summarize_changes(changes: Sequence[ToolChange] | None) -> str:
    if changes is None:
        return "none, this is the first build"
    kinds = [change.kind for change in changes]
    parts = [f"{kinds.count(kind):,} {kind}" for kind in ("added", "changed", "removed") if kind in kinds]
    return ", ".join(parts) or "none"


def _iter_change_blocks(
    changes: Sequence[ToolChange] | None, places: dict[str, tuple[str, str]]
) -> Iterator[Block]:
    yield Paragraph((Link("All tools", "index"),))
    yield Paragraph(("What the last build that found a difference changed here. A build that finds none leaves this.",))
    if changes is None:
        yield Paragraph(("This is the first build.",))
    rows: list[list[Line]] = []
    for change in changes or ():
        name = Code(change.tool)
        place = places.get(change.tool)
        rows.append(
            [(name if place is None else Link(name, *place),), (change.kind,), ("; ".join(change.details)[:_MAX_TEXT],)]
        )
    if rows:
        yield Grid(("tool", "was", "what"), rows)


def _iter_owner_blocks(
    owner: str | None, tools: Sequence[ToolDescription], number: int, page_count: int
) -> Iterator[Block]:
    yield Paragraph((Link("All tools", "index"), *_link_pages(partial(_make_owner_file, owner), number, page_count)))
    for tool in tools:
        yield Heading(2, Code(tool.name), make_anchor(tool.name))
        yield from _iter_tool_blocks(tool)


def _link_pages(make_name: partial[str], number: int, count: int) -> Iterator[str | Link]:
    """Yield links to the page before and the one after, where there are several."""
    if count > 1:
        yield f" · page {number + 1} of {count}"
        if number:
            yield from (" · ", Link("previous", make_name(number - 1)))
        if number + 1 < count:
            yield from (" · ", Link("next", make_name(number + 1)))


def _iter_category_blocks(
    category: str, tools: Sequence[ToolDescription], places: dict[str, tuple[str, str]], position: tuple[int, int]
) -> Iterator[Block]:
    others = _link_pages(partial(make_file_name, "category", category), *position)
    yield Paragraph((Link("All tools", "index"), *others))
    rows = [
        [
            (Link(Code(tool.name), *places[tool.name]),),
            (Code(tool.owner) if tool.owner is not None else "nobody",),
            (tool.facts["risk"],),
            (_shorten(tool.description.partition("\n")[0], 300),),
        ]
        for tool in tools
    ]
    yield Grid(("tool", "owner", "risk", "description"), rows)


# ── one tool ─────────────────────────────────────────────────────────────────────────────────────


def _iter_tool_blocks(tool: ToolDescription) -> Iterator[Block]:
    yield from _iter_description_blocks(_shorten(tool.description, _MAX_TEXT))
    category = Link(Code(tool.category), make_file_name("category", tool.category))
    yield Grid((), [[("category",), (category,)], *([(name,), (text,)] for name, text in tool.facts.items())])
    yield Heading(3, "Parameters")
    if tool.parameters:
        yield Grid(
            ("name", "type", "presence", "about"),
            [
                [(Code(row.name),), (_shorten(row.type, 2_000),), (_shorten(row.presence, 2_000),), (_describe(row),)]
                for row in tool.parameters
            ],
        )
    else:
        yield Paragraph(("It takes none.",))
    for example in tool.examples:
        yield Paragraph(("Example:",))
        yield CodeBlock(_shorten(example, _MAX_TEXT), "json")
    yield Heading(3, "Who may call it")
    yield from _iter_caller_blocks(tool)
    yield _make_schema_block("JSON Schema of the arguments", tool.parameters_schema)
    if tool.result_schema is not None:
        yield _make_schema_block("JSON Schema of the result", tool.result_schema)


def _describe(parameter: ParameterDescription) -> str:
    parts = [parameter.description, *parameter.constraints]
    return _shorten("; ".join(part for part in parts if part), 4_000)


def _iter_description_blocks(text: str) -> Iterator[Block]:
    """Yield the paragraphs; lines that are indented or typed in, as of an example, are code."""
    for chunk in re.split(r"\n\s*\n", text.strip("\n")):
        lines = chunk.split("\n")
        is_code = [line.startswith(("  ", "\t", ">>>", "...")) for line in lines]
        start = is_code.index(True) if True in is_code else len(lines)
        if words := " ".join(line.strip() for line in lines[:start]).strip():
            yield Paragraph((words,))
        if code := "\n".join(lines[start:]).rstrip():
            yield CodeBlock(code)


def _iter_caller_blocks(tool: ToolDescription) -> Iterator[Block]:
    if tool.disabled:
        yield Paragraph((f"Nobody: {tool.disabled}.",))
        return
    agents: dict[str, list[str]] = defaultdict(list)
    for agent, rule in tool.callers.items():
        agents[rule].append(agent)
    if not agents:
        yield Paragraph(("Nobody.",))
        return
    rows: list[list[Line]] = []
    for rule, names in sorted(agents.items()):
        shown: list[Code | str] = []
        for name in names[:_MAX_NAMES]:
            shown += [*([", "] if shown else []), Code(name)]
        more = len(names) - _MAX_NAMES
        rows.append([(_shorten(rule, 4_000),), [*shown, *([f" and {more:,} more"] if more > 0 else [])]])
    yield Grid(("by the rule", "agents"), rows)


def _make_schema_block(title: str, schema: object) -> CodeBlock:
    text = to_json_text(schema, indent=2)
    if len(text) > _MAX_TEXT:
        text = f"It has {len(text):,} characters; praval-tools show --json prints it."
    return CodeBlock(text, "json", title)


def _shorten(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
