"""Tasks that came one after another, each alone while it worked, have one path: any later one may go on with it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterable

from praval_tools.journal.equal_calls import get_outer_path, get_sequential_path
from praval_tools.journal.replay_entry import ReplayEntry


def merge_sequential_tasks(entries: Iterable[ReplayEntry]) -> None:
    """
    Give the calls of tasks that were alone while they worked the path that they share, if the same task began them.

    So it does not matter whether a call is made in a task of its own, as `asyncio.wait_for` may begin one, or how often
    a task was begun again.
    """
    calls: dict[str | None, dict[str, list[ReplayEntry]]] = {}
    for entry in entries:
        calls.setdefault(entry.parent_id, {}).setdefault(entry.task, []).append(entry)
    for by_path in calls.values():
        if len(by_path) > 1 or "" not in by_path:
            _merge_in_scope(by_path)


def _merge_in_scope(by_path: dict[str, list[ReplayEntry]]) -> None:
    spans: dict[str, tuple[int, int]] = {}  # of the calls of each task, and of those that it began
    for path, made in by_path.items():
        first, last = min(map(_get_number, made)), max(map(_get_number, made))
        while True:
            before = spans.get(path, (first, last))
            spans[path] = min(before[0], first), max(before[1], last)
            if not path:
                break
            path = get_outer_path(path)
    begun: dict[str, list[str]] = {}
    for path in spans:
        if path:
            begun.setdefault(get_outer_path(path), []).append(path)
    for outer in sorted(begun, key=len, reverse=True):  # the innermost first
        own_numbers = sorted(map(_get_number, by_path.get(outer, ())))
        for path in begun[outer]:
            first, last = spans[path]
            has_call_beside = bisect_right(own_numbers, first) < bisect_left(own_numbers, last)
            if _is_alone_in_group(path, spans) and not has_call_beside:
                made = [*by_path.pop(path, []), *by_path.pop(get_sequential_path(path), [])]
                for entry in made:
                    entry.task = get_sequential_path(outer)
                by_path.setdefault(get_sequential_path(outer), []).extend(made)


def _is_alone_in_group(path: str, spans: Container[str]) -> bool:
    """Tell whether no other task of its group made calls: that would be the second one."""
    number_path, _, group = path.rpartition(":")
    outer, _, number = number_path.rpartition(".")
    second = f"{outer}{'.' if outer else ''}2:{group}"
    return number == "1" and second not in spans


def _get_number(entry: ReplayEntry) -> int:
    return entry.first_position
