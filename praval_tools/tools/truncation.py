"""Truncates texts, content blocks and JSON that are too long for a model: head and tail stay, and JSON stays valid."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from praval_tools.names import format_count
from praval_tools.schema.encode import to_json_bytes
from praval_tools.tools.content import Content, describe_blocks

_MIN_MARKED: Final = 3
"""Characters of the shortest JSON that says that something is left out; less than that would be taken for a value."""


def _describe_omission(number: int, noun: str) -> str:
    return f"{format_count(number, noun)} left out"


def truncate_text(text: str, limit: int) -> str:
    """Return *text* cut to *limit* characters: head and tail, with a marker between."""
    if len(text) <= limit:
        return text
    marker = f"…[{_describe_omission(len(text) - limit, 'character')}]…"
    if len(marker) >= limit:
        return text[:limit]
    keep = limit - len(marker)
    return text[: keep - keep // 3] + marker + (text[-(keep // 3) :] if keep // 3 else "")


def truncate_json(value: object, limit: int) -> str:
    """
    Return *value*, which is JSON already, as JSON text of at most *limit* characters.

    Lists and objects lose members from their middle, texts characters; a marker says how many.
    """
    text = _to_text(value)
    if len(text) <= limit:
        return text
    if isinstance(value, str):
        return _truncate_json_text(value, limit)
    if isinstance(value, list):
        members = [("", item) for item in value]
        return _truncate_members(members, limit, "[]", lambda left: _to_text(f"…[{_describe_omission(left, 'item')}]…"))
    if isinstance(value, dict):
        marker_name = "…"
        while marker_name in value:
            marker_name += "…"
        members = [(_to_text(name) + ":", item) for name, item in value.items()]
        return _truncate_members(
            members, limit, "{}", lambda left: f"{_to_text(marker_name)}:{_to_text(_describe_omission(left, 'key'))}"
        )
    return _make_minimal_json(limit)


def truncate_blocks(blocks: list[Content], limit: int) -> list[Content]:
    """
    Return *blocks* with at most *limit* characters of text; what has bytes stays.

    Texts, and what is described in words, become one text, which is cut as all others are.
    """
    text = describe_blocks(block for block in blocks if block.data is None)
    if len(text) <= limit:
        return blocks
    return [Content.of_text(truncate_text(text, limit)), *(block for block in blocks if block.data is not None)]


def _to_text(value: object) -> str:
    return to_json_bytes(value).decode()


def _truncate_json_text(text: str, limit: int) -> str:
    room = limit - 2
    while room > 0:
        shortened = _to_text(truncate_text(text, room))
        if len(shortened) <= limit:
            return shortened
        room -= len(shortened) - limit
    return _make_minimal_json(limit)


def _make_minimal_json(limit: int) -> str:
    """Return the shortest JSON text that says that something is left out."""
    return '"…"' if limit >= _MIN_MARKED else "0"


def _truncate_members(
    members: list[tuple[str, object]], limit: int, brackets: str, make_marker: Callable[[int], str]
) -> str:
    """
    Return as many members as fit, two thirds of them from the head.

    Args:
        members: The members of a list or an object, each with the text before it.
        limit: The greatest length.
        brackets: The opening and the closing one.
        make_marker: Makes the text that stands for so many members.
    """
    opening, closing = brackets[0], brackets[1]
    if len(members) < 2:
        prefix, value = members[0] if members else ("", None)
        room = limit - 2 - len(prefix)
        if room < _MIN_MARKED:
            return _make_minimal_json(limit)
        return f"{opening}{prefix}{truncate_json(value, room)}{closing}"
    budget = limit - 3 - len(make_marker(len(members)))
    head = _take_fitting(members, budget * 2 // 3)
    used = sum(len(text) + 1 for text in head)
    tail = _take_fitting(reversed(members[len(head) :]), budget - used)
    if not head and not tail:
        prefix, value = members[0]
        room = budget - len(prefix)
        if room < _MIN_MARKED:
            return _make_minimal_json(limit)
        head = [prefix + truncate_json(value, room)]
    left = len(members) - len(head) - len(tail)
    return opening + ",".join([*head, make_marker(left), *reversed(tail)]) + closing


def _take_fitting(members: Iterable[tuple[str, object]], budget: int) -> list[str]:
    texts: list[str] = []
    for prefix, value in members:
        text = prefix + _to_text(value)
        budget -= len(text) + 1
        if budget < 0:
            break
        texts.append(text)
    return texts
