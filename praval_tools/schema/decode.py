"""JSON values → Python values, strictly: nothing is converted that is not of the right JSON type."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

from praval_tools.schema.hook_dispatch import Dispatcher
from praval_tools.schema.json_values import containers
from praval_tools.schema.type_handler import Hook, Mismatch
from praval_tools.schema.type_lookup import is_closed, row_of


class Structurer:
    """
    Makes structure hooks; one per tool, because it remembers the classes that it met.

    Args:
        exact: Values must come in their own JSON type; an integer is no float.
        shared: It is the one that all tools share, for hints of Python's own types.
    """

    def __init__(self, *, exact: bool = False, shared: bool = False) -> None:
        self.exact, self._shared = exact, shared

    @cached_property
    def _dispatcher(self) -> Dispatcher[Hook]:
        return Dispatcher("structure", lambda hint: row_of(hint).structure(hint, self))

    @cached_property
    def _exact(self) -> Structurer:
        return self if self.exact else Structurer(exact=True, shared=self._shared)

    def hook(self, hint: Any) -> Hook:
        """Return the hook of *hint*."""
        if not self._shared and is_closed(hint):
            return _shared_structurer(self.exact).hook(hint)
        return self._dispatcher.hook(hint)

    def exactly(self, hint: Any) -> Hook:
        """Return the hook of *hint* that does not widen."""
        return self._exact.hook(hint)


def guarded(hook: Hook) -> Callable[[Any], Any]:
    """Return *hook* for one value, with what only hostile values cause turned into `Mismatch`."""

    def structure(value: Any) -> Any:
        try:
            return hook(value, None)
        except RecursionError:
            raise Mismatch("is nested too deeply") from None

    return structure


def bounded(structure: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return *structure* for a hint that may contain itself: how deep a value is has to be looked at first."""

    def shallow(value: Any) -> Any:
        for _ in containers(value):
            pass
        return structure(value)

    return shallow


@cache
def _shared_structurer(exact: bool) -> Structurer:
    return Structurer(exact=exact, shared=True)
