"""From hint to hook through a cattrs converter that knows the rows of our table, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, Generic, Literal, TypeVar, get_origin

from praval_tools.schema.type_hints import is_alias, is_class, order_key

H = TypeVar("H", bound=Callable[..., Any])

_PLAIN_MODULES: Final = ("builtins", "collections.abc", "types")


def _is_named(hint: Any) -> bool:
    kind = get_origin(hint) or hint
    return is_alias(hint) or (isinstance(kind, type) and kind.__module__ not in _PLAIN_MODULES)


class Dispatcher(Generic[H]):
    """
    Finds the hook of a hint, made once per class or alias, which may contain themselves.

    A converter remembers every class that it met, so classes of the program's get one per tool.

    Args:
        side: Which hooks of the converter are meant.
        make: Makes the hook of a hint from the table.
    """

    def __init__(self, side: Literal["structure", "unstructure"], make: Callable[[Any], H]) -> None:
        from pathlib import Path

        from cattrs import BaseConverter

        converter: Any = BaseConverter(detailed_validation=False)
        # cattrs finds their hooks before it asks a predicate, for their subclasses as well: bool is one of int
        self._taken = (str, bytes, int, float, Path)
        self._make = make
        self._register: Callable[[Any, H], None] = getattr(converter, f"register_{side}_hook")
        self._find: Callable[..., H] = getattr(converter, f"get_{side}_hook")
        self._named: dict[Any, H] = {}
        self._open: set[Any] = set()
        self._lock = threading.RLock()
        getattr(converter, f"register_{side}_hook_factory")(lambda hint: True, make)
        for kind in (*self._taken, bool):
            self._register(kind, make(kind))

    def hook(self, hint: Any) -> H:
        """Return the hook of *hint*; `TypeError` if it has no row."""
        if not _is_named(hint):
            return self._find(hint, cache_result=False)
        key = order_key(hint)
        found = self._named.get(key)
        return self._build(key, hint) if found is None else found

    def _build(self, key: Any, hint: Any) -> H:
        with self._lock:
            if key in self._named:
                return self._named[key]
            if key in self._open:
                return self._later(key)
            self._open.add(key)
            try:
                if is_class(hint) and issubclass(hint, self._taken):
                    self._register(hint, self._make(hint))
                found = self._named[key] = self._find(hint, cache_result=False)
            finally:
                self._open.discard(key)
            return found

    def _later(self, key: Any) -> H:
        """Return a stand-in for a hook that is being made, for a class inside itself."""

        def hook(*given: Any) -> Any:
            with self._lock:  # another thread may still be at it
                found = self._named[key]
            return found(*given)

        return hook  # type: ignore[return-value]
