"""
The path of a task of asyncio, by which its recorded calls are found again.

`2:1` is the second task of the first group of tasks that the program began; `2:1.1:3` is the first task of the third
group that this one began. Tasks are in one group if one of them began its calls while another was at work. The task
that opened the run, or that runs a tool, has the empty path.
"""

from __future__ import annotations

from typing import Final

MAX_DEPTH: Final = 20
"""How many tasks of a path may each have begun the next one; paths are recorded with each call."""


def join_path(outer: str, number: int, group: int) -> str:
    """Return the path of the task of that number in that group of those that the one of *outer* began."""
    return f"{outer}{'.' if outer else ''}{number}:{group}"


def split_path(path: str) -> tuple[str, int, int]:
    """Return the path of the task that began the one of *path*, its number and its group."""
    outer, _, name = path.rpartition(".")
    number, _, group = name.partition(":")
    return outer, int(number), int(group)


def get_outer_path(path: str) -> str:
    """Return the path of the task that began the one of *path*."""
    return path.rpartition(".")[0]


def get_turn(path: str) -> tuple[int, int]:
    """Return when the task of *path* made its first call, among those that the same task began."""
    _, number, group = split_path(path)
    return group, number


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
