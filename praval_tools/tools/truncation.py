"""What a model sees of what is too long for it: head and tail, and JSON that stays valid."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from praval_tools.schema.encode import to_json_bytes


def truncate_text(text: str, limit: int) -> str:
    """Return *text* cut to *limit* characters: head and tail, with a marker between."""
    if len(text) <= limit:
        return text
    marker = f"…[{len(text) - limit} characters left out]…"
    if len(marker) >= limit:
        return text[:limit]
    keep = limit - len(marker)
    return text[: keep - keep // 3] + marker + (text[-(keep // 3) :] if keep // 3 else "")


def truncate_json(value: Any, limit: int) -> str:
    """
    Return *value*, which is JSON already, as JSON text of at most *limit* characters.

    Lists and objects lose members from their middle, texts characters; a marker says how many.
    """
    text = to_json_bytes(value).decode()
    if len(text) <= limit:
        return text
    kind = type(value)
    if kind is str:
        return _truncate_json_text(value, limit)
    if kind is list:
        marker = to_json_bytes(f"…[{len(value)} items left out]…").decode()
        items = _MemberList(("", one) for one in value)
        return items.truncate(limit, marker, lambda left: f"…[{left} items left out]…", ("[", "]"))
    if kind is dict:
        name = "…"
        while name in value:
            name += "…"
        key = to_json_bytes(name).decode() + ":"
        marker = f'{key}"{len(value)} keys left out"'
        entries = _MemberList((to_json_bytes(key).decode() + ":", one) for key, one in value.items())
        return entries.truncate(limit, marker, lambda left: f"{left} keys left out", ("{", "}"), key)
    return _make_minimal_json(limit)


def _truncate_json_text(text: str, limit: int) -> str:
    room = limit - 2
    while room > 0:
        made = to_json_bytes(truncate_text(text, room)).decode()
        if len(made) <= limit:
            return made
        room -= len(made) - limit
    return _make_minimal_json(limit)


def _make_minimal_json(limit: int) -> str:
    """Return the shortest JSON text that says that something is left out."""
    return '"…"' if limit >= 3 else "0"


class _MemberList:
    """The members of a list or an object, each with the text before it."""

    def __init__(self, members: Iterable[tuple[str, Any]]) -> None:
        self._members = list(members)

    def truncate(
        self, limit: int, longest_marker: str, marker: Any, brackets: tuple[str, str], marker_prefix: str = ""
    ) -> str:
        """Return as many members as fit, two thirds of them from the head; *longest* is the longest marker."""
        opening, closing = brackets
        if len(self._members) < 2:
            key, only = self._members[0] if self._members else ("", None)
            inner = limit - 2 - len(key)
            return f"{opening}{key}{truncate_json(only, inner)}{closing}" if inner > 0 else _make_minimal_json(limit)
        budget = limit - 3 - len(longest_marker)
        head = self._take_fitting(self._members, budget * 2 // 3)
        used = sum(len(one) + 1 for one in head)
        tail = self._take_fitting(reversed(self._members[len(head) :]), budget - used)
        if not head and not tail:
            key, first = self._members[0]
            inner = budget - len(key)
            if inner < 3:
                return _make_minimal_json(limit)
            head = [key + truncate_json(first, inner)]
        left = len(self._members) - len(head) - len(tail)
        said = marker_prefix + to_json_bytes(marker(left)).decode()
        return opening + ",".join([*head, said, *reversed(tail)]) + closing

    @staticmethod
    def _take_fitting(members: Iterable[tuple[str, Any]], budget: int) -> list[str]:
        found: list[str] = []
        for key, one in members:
            text = key + to_json_bytes(one).decode()
            budget -= len(text) + 1
            if budget < 0:
                break
            found.append(text)
        return found
