"""Python values → JSON values: by the declared hint where there is one, else by the value's own type."""

from __future__ import annotations

import collections.abc as abc
from functools import cache, cached_property
from typing import Any, Final

import msgspec

from praval_tools.schema.hook_dispatch import Dispatcher
from praval_tools.schema.json_values import in_order, key_text
from praval_tools.schema.scalars import PLAIN_ENCODES
from praval_tools.schema.type_handler import Encode, Unencodable
from praval_tools.schema.type_lookup import form_of, holds_anything, is_closed, row_of

_BUILTIN: Final = (str, int, float, dict, list, tuple, set, frozenset)


class Encoder:
    """
    Makes encode hooks; one per tool, because it remembers the classes that it met.

    Args:
        keep_decimal: Leave `Decimal` as it is, for exact comparison.
        shared: It is the one that all tools share, for hints of Python's own types.
    """

    def __init__(self, *, keep_decimal: bool = False, shared: bool = False) -> None:
        self.keep_decimal, self._shared = keep_decimal, shared

    @cached_property
    def _dispatcher(self) -> Dispatcher[Encode]:
        return Dispatcher("unstructure", lambda hint: row_of(hint).encode(hint, self))

    def hook(self, hint: Any) -> Encode:
        """Return the encode hook of *hint*."""
        if not self._shared and is_closed(hint) and not holds_anything(hint):
            return _shared_encoder(self.keep_decimal).hook(hint)
        return self._dispatcher.hook(hint)

    def value(self, value: Any) -> Any:
        """
        Encode *value* by its own type, and what is in it by theirs.

        Raises:
            Unencodable: Something in it has no JSON form; naming its type and place.
        """
        try:
            return self._any(value)
        except RecursionError:
            raise Unencodable("is nested too deeply, or inside itself") from None

    def _any(self, value: Any) -> Any:
        kind = type(value)
        if (encode := PLAIN_ENCODES.get(kind)) is not None:
            return encode(value)
        if kind is dict:
            return self._mapping(value)
        if kind is list or kind is tuple or kind is set or kind is frozenset:
            return self._items(value)
        if form_of(kind) is not None:
            return self.hook(kind)(value)
        return self._foreign(value)

    def _mapping(self, value: abc.Mapping[Any, Any]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, one in value.items():
            try:
                name = PLAIN_ENCODES[str](key if type(key) is str else key_text(self._any(key)))
                made[name] = self._any(one)
            except Unencodable as error:
                raise error.at(str(key)) from None
        return made

    def _items(self, value: abc.Iterable[Any]) -> list[Any]:
        made: list[Any] = []
        try:
            for one in value:
                made.append(self._any(one))
        except Unencodable as error:
            raise error.at(len(made)) from None
        return in_order(made) if isinstance(value, abc.Set) else made

    def _foreign(self, value: Any) -> Any:
        """Encode what another library made, an array, a scalar or a table, and subclasses of what we know."""
        for name in ("to_dicts", "tolist"):
            if callable(method := getattr(value, name, None)):
                return self._any(method())
        if callable(method := getattr(value, "to_dict", None)) and hasattr(value, "columns"):
            return self._any(method(orient="records"))
        for base in type(value).__mro__[1:-1]:
            if base in _BUILTIN:
                return self._any(base(value))
            if form_of(base) is not None:
                return self.hook(base)(value)
        if isinstance(value, abc.Mapping):
            return self._mapping(value)
        if isinstance(value, abc.Iterator | abc.Sequence | abc.Set):
            return self._items(value)
        raise Unencodable(f"{type(value).__qualname__} has no JSON form; return a dict, a list or a dataclass")


@cache
def _shared_encoder(keep_decimal: bool) -> Encoder:
    return Encoder(keep_decimal=keep_decimal, shared=True)


def json_text(value: Any) -> bytes:
    """Return *value*, which is JSON already, as JSON text."""
    try:
        return msgspec.json.encode(value)
    except (OverflowError, ValueError):  # integers of more than 64 bits
        import json

        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def encode(value: Any) -> Any:
    """
    Encode *value* by its own type, and what is in it by theirs.

    Raises:
        Unencodable: Something in it has no JSON form; naming its type and place.
    """
    return Encoder().value(value)
