"""Writes type hints as text for a stub, with the imports that it needs."""

from __future__ import annotations

import collections
import inspect
import sys
import types
import unicodedata
from collections.abc import Collection
from enum import Enum
from keyword import iskeyword
from typing import Annotated, Any, Final, Literal, NewType, TypeVar

from praval_tools.schema.type_hints import (
    Hint,
    InvalidHintError,
    RecursiveReference,
    get_origin,
    is_class,
    is_type_alias,
    is_union,
    resolve_alias,
)

ANY: Final = "typing.Any"
"""The type of what is not known."""

_MAX_NESTING: Final = 30
_ONE_PARAMETER: Final = frozenset(
    (list, set, frozenset, collections.deque, collections.Counter, *(
        getattr(collections.abc, name)
        for name in ("Sequence", "MutableSequence", "Set", "MutableSet", "Iterable", "Iterator", "Collection",
                     "Container", "Reversible")
    ))
)  # fmt: skip
_TWO_PARAMETERS: Final = frozenset(
    (dict, collections.defaultdict, collections.OrderedDict, collections.abc.Mapping, collections.abc.MutableMapping)
)


class UnwritableHintError(Exception):
    """A hint names something that a stub cannot import."""


class TypeWriter:
    """Writes hints, and remembers the modules that they name."""

    def __init__(self) -> None:
        self.modules: set[str] = set()

    def write(self, hint: Hint, nesting: int = 0) -> str:
        """
        Return *hint* as text.

        Raises:
            UnwritableHintError: A class in it is local, or in the program that was started.
        """
        if nesting > _MAX_NESTING or isinstance(hint, RecursiveReference | TypeVar):
            raise UnwritableHintError(repr(hint))
        if hint is Any:
            return self._use_any()
        if hint is None or hint is type(None):
            return "None"
        if get_origin(hint) is Annotated:
            return self.write(hint.__origin__, nesting + 1)
        if isinstance(hint, NewType):
            return self.write(hint.__supertype__, nesting + 1)
        if is_type_alias(hint):
            return self._write_alias(hint, nesting)
        if is_union(hint):
            return " | ".join(dict.fromkeys(self.write(member, nesting + 1) for member in hint.__args__))
        if get_origin(hint) is Literal:
            return f"{self._use('typing', 'Literal')}[{', '.join(map(self._write_literal, hint.__args__))}]"
        if is_class(hint):
            return self._write_class(hint)
        return self._write_generic(hint, nesting)

    def _use(self, module: str, name: str) -> str:
        if module == "builtins":
            return name
        self.modules.add(module)
        return f"{module}.{name}"

    def _use_any(self) -> str:
        self.modules.add("typing")
        return ANY

    def _write_alias(self, hint: Hint, nesting: int) -> str:
        try:
            return self.write(resolve_alias(hint), nesting + 1)
        except InvalidHintError as error:
            raise UnwritableHintError(str(error)) from error

    def _write_literal(self, value: object) -> str:
        if isinstance(value, Enum):
            if not is_plain_name(value.name):
                raise UnwritableHintError(repr(value))
            return f"{self._name_class(type(value))}.{value.name}"
        return ascii(value)

    def _write_class(self, kind: type) -> str:
        if kind in _ONE_PARAMETER or kind in _TWO_PARAMETERS:
            return f"{self._name_class(kind)}[{', '.join([self._use_any()] * self._count(kind))}]"
        if kind is tuple:
            return f"tuple[{self._use_any()}, ...]"
        parameters = getattr(kind, "__parameters__", ())
        if isinstance(parameters, tuple) and parameters:
            return f"{self._name_class(kind)}[{', '.join([self._use_any()] * len(parameters))}]"
        subscribe = inspect.getattr_static(kind, "__class_getitem__", None)
        is_plain = isinstance(subscribe, classmethod) and subscribe.__func__ is types.GenericAlias
        if is_plain or isinstance(subscribe, types.ClassMethodDescriptorType):
            raise UnwritableHintError(f"{kind!r} has parameters, how many is not known")
        return self._name_class(kind)

    @staticmethod
    def _count(kind: type) -> int:
        return 1 if kind in _ONE_PARAMETER else 2

    def _name_class(self, kind: type) -> str:
        """Return the name by which a stub can import a class; that of a public module where it is in a private one."""
        path = kind.__qualname__
        parts = kind.__module__.split(".")
        if not all(map(is_plain_name, (*parts, *path.split(".")))):
            raise UnwritableHintError(f"{kind!r} is local")
        private = next((place for place, part in enumerate(parts) if part.startswith("_")), None)
        candidates = [kind.__module__] if private is None else [".".join(parts[:private]), kind.__module__]
        for module in filter(None, candidates):
            if module != "__main__" and _look_up(module, path) is kind:
                return self._use(module, path)
        raise UnwritableHintError(f"{kind!r} cannot be imported")

    def _write_generic(self, hint: Hint, nesting: int) -> str:
        origin, args = get_origin(hint), getattr(hint, "__args__", ())
        if origin is collections.abc.Callable or not isinstance(origin, type):
            raise UnwritableHintError(repr(hint))
        if not args:
            return "tuple[()]" if origin is tuple else self._write_class(origin)
        shown = ("..." if arg is ... else self.write(arg, nesting + 1) for arg in args)
        return f"{self._name_class(origin)}[{', '.join(shown)}]"


def _look_up(module: str, path: str) -> object:
    value: object = sys.modules.get(module)
    for name in path.split("."):
        value = inspect.getattr_static(value, name, None)
    return value


def make_unique_name(name: str, taken: Collection[str]) -> str:
    """Return *name*, with a number behind it where it is taken."""
    number, unique = 1, name
    while unique in taken:
        number += 1
        unique = f"{name}{number}"
    return unique


def is_plain_name(name: str) -> bool:
    """Tell whether Python reads *name* as a name, and as this one."""
    return name.isidentifier() and not iskeyword(name) and unicodedata.normalize("NFKC", name) == name


def to_class_name(name: str) -> str:
    """Return *name* as that of a class: `csv_parse` is `CsvParse`; letters beyond ASCII stay."""
    plain = unicodedata.normalize("NFKC", name)  # as Python reads identifiers
    words = "".join(char if f"_{char}".isidentifier() else " " for char in plain).replace("_", " ").split()
    class_name = "".join(word[:1].upper() + word[1:] for word in words)
    return class_name if class_name.isidentifier() else f"Agent{class_name}"


