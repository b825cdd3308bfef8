"""Finds the decode or encode function of a type hint, by a cattrs converter that uses our type table only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, Literal, TypeVar, get_origin

from praval_tools.forks import FIRST_USE_LOCK
from praval_tools.schema.hint_keys import make_hint_key
from praval_tools.schema.type_hints import Hint, is_class, is_type_alias

HookT = TypeVar("HookT", bound=Callable[..., Any])

_BUILTIN_MODULES: Final = ("builtins", "collections.abc", "types")


def _is_user_type(hint: Hint) -> bool:
    kind = get_origin(hint) or hint
    return is_type_alias(hint) or (isinstance(kind, type) and kind.__module__ not in _BUILTIN_MODULES)


class HookDispatcher(Generic[HookT]):
    """
    Finds the hook of a hint, made once per class or alias, which may contain themselves.

    A converter remembers every class that it has handled, so the program's own classes get one per tool.

    Args:
        side: Which hooks of the converter are used.
        make: Makes the hook of a hint from the type table.
    """

    def __init__(self, side: Literal["structure", "unstructure"], make: Callable[[Hint], HookT]) -> None:
        from pathlib import Path

        from cattrs import BaseConverter

        converter: Any = BaseConverter(detailed_validation=False)
        # cattrs finds their hooks before it asks a predicate, for their subclasses as well: bool is one of int
        self._cattrs_types = (str, bytes, int, float, Path)
        self._make_hook = make
        self._register_hook: Callable[[Hint, HookT], None] = getattr(converter, f"register_{side}_hook")
        self._find_hook: Callable[..., HookT] = getattr(converter, f"get_{side}_hook")
        self._hooks_by_key: dict[object, HookT] = {}
        self._keys_in_progress: set[object] = set()
        getattr(converter, f"register_{side}_hook_factory")(lambda hint: True, make)
        for kind in (*self._cattrs_types, bool):
            self._register_hook(kind, make(kind))

    def get_hook(self, hint: Hint) -> HookT:
        """Return the hook of *hint*; `TypeError` if it has no handler."""
        if not _is_user_type(hint):
            return self._find_hook(hint, cache_result=False)
        key = make_hint_key(hint)
        hook = self._hooks_by_key.get(key)
        return self._build_hook(key, hint) if hook is None else hook

    def _build_hook(self, key: object, hint: Hint) -> HookT:
        with FIRST_USE_LOCK:
            if key in self._hooks_by_key:
                return self._hooks_by_key[key]
            if key in self._keys_in_progress:
                return self._make_deferred_hook(key)
            self._keys_in_progress.add(key)
            try:
                if is_class(hint) and issubclass(hint, self._cattrs_types):
                    self._register_hook(hint, self._make_hook(hint))
                hook = self._hooks_by_key[key] = self._find_hook(hint, cache_result=False)
            finally:
                self._keys_in_progress.discard(key)
            return hook

    def _make_deferred_hook(self, key: object) -> HookT:
        """Return a stand-in for a hook that is being made, for a class inside itself."""

        def call_hook(*args: Any) -> Any:
            with FIRST_USE_LOCK:  # another thread may still be making it
                hook = self._hooks_by_key[key]
            return hook(*args)

        return call_hook  # type: ignore[return-value]
