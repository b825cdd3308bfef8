"""Values whose methods note who runs, for tests of whose code runs as whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from praval_tools.tools.frames import get_current_actor

METHODS = (
    "__hash__", "__eq__", "__ne__", "__len__", "__iter__", "__str__", "__repr__", "__getitem__", "__contains__",
    "__bytes__", "encode", "decode", "strip", "lower", "items", "keys", "split",
)  # fmt: skip

actors: list[str] = []
"""Who ran, each time that code of a value did; tests clear it."""


def look(name: str, base: type) -> Callable[..., Any]:
    """Return the method *name* of a class, which notes who runs."""

    def method(self: object, *args: Any) -> Any:
        actors.append(get_current_actor())
        return getattr(base, name)(self, *args)

    return method


def make_watcher(base: type, methods: tuple[str, ...] = METHODS) -> Any:
    """Return a subclass of *base* whose methods note who runs."""
    return type("Watcher", (base,), {name: look(name, base) for name in methods if getattr(base, name, None)})


class WatchedClass(type):
    """
    The class of a class that notes who runs when that is looked up or compared, and is equal to every other.

    Its hash is its own: Python's caches of abstract classes keep it for the whole process, and a look-up of another
    class of the same hash would be noted in every later test.
    """

    def __hash__(cls) -> int:
        actors.append(get_current_actor())
        return type.__hash__(cls)

    def __eq__(cls, other: object) -> bool:
        actors.append(get_current_actor())
        return True


class Odd:
    """An object that notes who runs when it is hashed, compared or shown; its hash is that of a text."""

    def __init__(self, text: str = "R") -> None:
        self.text = text

    def __hash__(self) -> int:
        actors.append(get_current_actor())
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        actors.append(get_current_actor())
        return self is other

    def __repr__(self) -> str:
        actors.append(get_current_actor())
        return "Odd()"
