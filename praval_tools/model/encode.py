"""Python values → JSON values: by the declared hint where there is one, else by the value's own type."""

from __future__ import annotations

import collections.abc as abc
from enum import Enum
from typing import Any

from cattrs import BaseConverter

from praval_tools.model.containers import in_order
from praval_tools.model.form import Encode, Mismatch, Unencodable
from praval_tools.model.forms import form_of
from praval_tools.model.hints import hint_text, order_key
from praval_tools.model.jsonvalue import DEPTH_LIMIT
from praval_tools.model.keys import key_text
from praval_tools.model.structure import TAKEN, hookable, is_named


class Encoder:
    """
    Makes encode hooks.

    Args:
        keep_decimal: Leave `Decimal` as it is, for exact comparison.
    """

    def __init__(self, *, keep_decimal: bool = False) -> None:
        self.keep_decimal = keep_decimal
        self._converter = BaseConverter(detailed_validation=False)
        self._converter.register_unstructure_hook_factory(hookable, self._made)
        for kind in TAKEN:
            self._converter.register_unstructure_hook(kind, self._made(kind))
        self._named: dict[Any, Encode | None] = {}
        self._depth = 0

    def hook(self, hint: Any) -> Encode:
        """Return the encode hook of *hint*; the same one each time for a class."""
        if not is_named(hint):
            return self._converter.get_unstructure_hook(hint, cache_result=False)
        key = order_key(hint)
        if key not in self._named:
            self._named[key] = None
            self._named[key] = self._dispatched(hint)
        return self._named[key] or self._later(key)

    def value(self, value: Any) -> Any:
        """Encode *value* by its own type, and what is in it by theirs."""
        return self._any(value, 0)

    def _any(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind is str or kind is int or kind is float or kind is bool or value is None:
            return self.hook(kind)(value)
        if depth > DEPTH_LIMIT:
            raise Unencodable("is nested too deeply, or inside itself")
        if isinstance(value, abc.Mapping) and kind.__module__ in ("builtins", "collections", "types"):
            return self._mapping(value, depth + 1)
        if kind in (list, tuple, set, frozenset):
            return self._items(value, depth + 1)
        if form_of(kind) is not None and kind not in (abc.Mapping,):
            return self.hook(kind)(value)
        return self._foreign(value, depth + 1)

    def _mapping(self, value: abc.Mapping[Any, Any], depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, one in value.items():
            try:
                name = key if type(key) is str else key_text(self._any(key, DEPTH_LIMIT))
                made[self.hook(str)(name)] = self._any(one, depth)
            except Unencodable as error:
                raise error.at(str(key)) from None
        return made

    def _items(self, value: abc.Iterable[Any], depth: int) -> list[Any]:
        made: list[Any] = []
        try:
            for one in value:
                made.append(self._any(one, depth))
        except Unencodable as error:
            raise error.at(len(made)) from None
        return in_order(made) if isinstance(value, set | frozenset) else made

    def _foreign(self, value: Any, depth: int) -> Any:
        """Encode a value of another library's: an array, a scalar, a table, or a subclass of what we know."""
        for name in ("to_dicts", "tolist"):
            if callable(method := getattr(value, name, None)):
                return self._any(method(), depth)
        if callable(method := getattr(value, "to_dict", None)) and hasattr(value, "columns"):
            return self._any(method(orient="records"), depth)
        for base in type(value).__mro__[1:-1]:
            if base in (str, int, float, dict, list, tuple, set, frozenset) and not isinstance(value, Enum):
                return self._any(base(value), depth)
            if form_of(base) is not None:
                return self.hook(base)(value)
        if isinstance(value, abc.Iterator | abc.Mapping | abc.Sequence):
            return self._mapping(value, depth) if isinstance(value, abc.Mapping) else self._items(value, depth)
        raise Unencodable(f"{type(value).__qualname__} has no JSON form; return a dict, a list or a dataclass")

    def _dispatched(self, hint: Any) -> Encode:
        if isinstance(hint, type) and issubclass(hint, TAKEN) and hint not in TAKEN:
            self._converter.register_unstructure_hook(hint, self._made(hint))
        return self._converter.get_unstructure_hook(hint, cache_result=False)

    def _later(self, key: Any) -> Encode:
        def hook(value: Any) -> Any:
            return self._named[key](value)  # type: ignore[misc]

        return hook

    def _made(self, hint: Any) -> Encode:
        form = form_of(hint)
        if form is None:
            raise TypeError(f"{hint_text(hint)} has no JSON form")
        return form.encode(hint, self)
