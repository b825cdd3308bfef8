"""
The path of a task of asyncio, by which its recorded calls are found again.

`2:1` is the second task that the program began and that makes calls, in the first group of these; `2:1.4:3` is the
fourth that this one began, in the third group. Tasks are in one group if one of them made its first call while another
was at work. The task that opened the run, or that runs a tool, has the empty path.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

MAX_DEPTH: Final = 20
"""How many tasks of a path may each have begun the next one; paths are recorded with each call."""


def join_path(outer: str, number: int, group: int) -> str:
    """Return the path of the task of that number, and in that group, of those that the one of *outer* began."""
    return f"{outer}{'.' if outer else ''}{number}:{group}"


def split_path(path: str) -> tuple[str, int, int]:
    """Return the path of the task that began the one of *path*, its number and its group."""
    outer, _, name = path.rpartition(".")
    number, _, group = name.partition(":")
    return outer, int(number), int(group)


def get_outer_path(path: str) -> str:
    """Return the path of the task that began the one of *path*."""
    return path.rpartition(".")[0]


def iter_outer_paths(path: str) -> Iterator[str]:
    """Yield *path*, that of the task that began its task, and so on up to the first one."""
    yield path
    while path:
        path = get_outer_path(path)
        yield path


def get_number(path: str) -> int:
    """Return how many tasks, with this one, had made a call when it made its first, of those beside it."""
    return split_path(path)[1]


def is_inside(path: str, outer: str) -> bool:
    """Tell whether the task of *path* is that of *outer*, or was begun inside of it."""
    return not outer or path == outer or path.startswith(f"{outer}.")


def get_branch(path: str, other: str) -> str:
    """Return the shortest path that leads to the task of *path*, and not to that of *other*."""
    parts = path.split(".")
    for length in range(1, len(parts)):
        branch = ".".join(parts[:length])
        if not is_inside(other, branch):
            return branch
    return path
