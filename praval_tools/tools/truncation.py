"""What a model sees of what is too long for it: head and tail, and JSON that stays valid."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from praval_tools.schema.encode import json_text


def cut(text: str, limit: int) -> str:
    """Return *text* cut to *limit* characters: head and tail, with a marker between."""
    if len(text) <= limit:
        return text
    marker = f"…[{len(text) - limit} characters left out]…"
    if len(marker) >= limit:
        return text[:limit]
    keep = limit - len(marker)
    return text[: keep - keep // 3] + marker + (text[-(keep // 3) :] if keep // 3 else "")


def cut_json(value: Any, limit: int) -> str:
    """
    Return *value*, which is JSON already, as JSON text of at most *limit* characters.

    Lists and objects lose members from their middle, texts characters; a marker says how many.
    """
    text = json_text(value).decode()
    if len(text) <= limit:
        return text
    kind = type(value)
    if kind is str:
        return _cut_text(value, limit)
    if kind is list:
        marker = json_text(f"…[{len(value)} items left out]…").decode()
        items = _Members(("", one) for one in value)
        return items.within(limit, marker, lambda left: f"…[{left} items left out]…", ("[", "]"))
    if kind is dict:
        name = "…"
        while name in value:
            name += "…"
        key = json_text(name).decode() + ":"
        marker = f'{key}"{len(value)} keys left out"'
        entries = _Members((json_text(key).decode() + ":", one) for key, one in value.items())
        return entries.within(limit, marker, lambda left: f"{left} keys left out", ("{", "}"), key)
    return _least(limit)


def _cut_text(text: str, limit: int) -> str:
    room = limit - 2
    while room > 0:
        made = json_text(cut(text, room)).decode()
        if len(made) <= limit:
            return made
        room -= len(made) - limit
    return _least(limit)


def _least(limit: int) -> str:
    """Return the shortest JSON text that says that something is left out."""
    return '"…"' if limit >= 3 else "0"


class _Members:
    """The members of a list or an object, each with the text before it."""

    def __init__(self, members: Iterable[tuple[str, Any]]) -> None:
        self._members = list(members)

    def within(self, limit: int, longest: str, marker: Any, around: tuple[str, str], before: str = "") -> str:
        """Return as many members as fit, two thirds of them from the head; *longest* is the longest marker."""
        opening, closing = around
        if len(self._members) < 2:
            key, only = self._members[0] if self._members else ("", None)
            inner = limit - 2 - len(key)
            return f"{opening}{key}{cut_json(only, inner)}{closing}" if inner > 0 else _least(limit)
        budget = limit - 3 - len(longest)
        head = self._fitting(self._members, budget * 2 // 3)
        used = sum(len(one) + 1 for one in head)
        tail = self._fitting(reversed(self._members[len(head) :]), budget - used)
        if not head and not tail:
            key, first = self._members[0]
            inner = budget - len(key)
            if inner < 3:
                return _least(limit)
            head = [key + cut_json(first, inner)]
        left = len(self._members) - len(head) - len(tail)
        said = before + json_text(marker(left)).decode()
        return opening + ",".join([*head, said, *reversed(tail)]) + closing

    @staticmethod
    def _fitting(members: Iterable[tuple[str, Any]], budget: int) -> list[str]:
        found: list[str] = []
        for key, one in members:
            text = key + json_text(one).decode()
            budget -= len(text) + 1
            if budget < 0:
                break
            found.append(text)
        return found
