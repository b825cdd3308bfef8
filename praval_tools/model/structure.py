"""JSON values → Python values: a cattrs converter that knows only the hooks of our table."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

from cattrs import BaseConverter

from praval_tools.model.form import Hook, Mismatch
from praval_tools.model.forms import form_of
from praval_tools.model.hints import hint_text, is_alias, order_key

TAKEN: Final = (str, bytes, int, float, Path)
"""Classes for which cattrs has hooks of its own, found before any predicate is asked, subclasses included."""


def hookable(hint: Any) -> bool:
    """Tell whether *hint* has a row in the table."""
    return form_of(hint) is not None


def is_named(hint: Any) -> bool:
    """Tell whether *hint* may occur inside itself: a class of the program's, or an alias."""
    kind = getattr(hint, "__origin__", hint)
    return is_alias(hint) or (isinstance(kind, type) and kind.__module__ not in ("builtins", "collections.abc"))


class Structurer:
    """
    Makes structure hooks, strictly: nothing is converted that is not of the right JSON type.

    The converter remembers the classes that it met, so there is one per tool:
    with the tool go its classes.

    Args:
        exact: Values must come in their own JSON type; an integer is no float.
    """

    def __init__(self, *, exact: bool = False) -> None:
        self.exact = exact
        self._converter = BaseConverter(detailed_validation=False)
        self._converter.register_structure_hook_factory(hookable, self._made)
        for kind in TAKEN:
            self._converter.register_structure_hook(kind, self._made(kind))
        self._named: dict[Any, Hook | None] = {}
        self._exactly: Structurer | None = self if exact else None

    def hook(self, hint: Any) -> Hook:
        """Return the hook of *hint*; the same one each time for a class."""
        if not is_named(hint):
            return self._converter.get_structure_hook(hint, cache_result=False)
        key = order_key(hint)
        if key not in self._named:
            self._named[key] = None
            self._named[key] = self._dispatched(hint)
        return self._named[key] or self._later(key)

    def exactly(self, hint: Any) -> Hook:
        """Return the hook of *hint* that does not widen."""
        if self._exactly is None:
            self._exactly = Structurer(exact=True)
        return self._exactly.hook(hint)

    def _dispatched(self, hint: Any) -> Hook:
        if isinstance(hint, type) and issubclass(hint, TAKEN) and hint not in TAKEN:
            self._converter.register_structure_hook(hint, self._made(hint))
        return self._converter.get_structure_hook(hint, cache_result=False)

    def _later(self, key: Any) -> Hook:
        def hook(value: Any, hint: Any) -> Any:
            return self._named[key](value, hint)  # type: ignore[misc]

        return hook

    def _made(self, hint: Any) -> Hook:
        form = form_of(hint)
        if form is None:
            raise TypeError(f"{hint_text(hint)} has no JSON form")
        return form.structure(hint, self)


def guarded(hook: Hook) -> Callable[[Any], Any]:
    """Return *hook* with what only hostile values cause turned into `Mismatch`."""

    def structure(value: Any) -> Any:
        try:
            return hook(value, None)
        except RecursionError:
            raise Mismatch("is nested too deeply") from None

    return structure


@cache
def plain_structurer() -> Structurer:
    """Return the structurer that all tools share for hints without classes of the program's."""
    return Structurer()
