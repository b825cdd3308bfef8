"""Writes values for logs, whose `repr` must hold no secret: arguments by their names, other values by their types."""

from __future__ import annotations

from collections.abc import Container, Mapping

import msgspec

from praval_tools.names import get_class_name


class _HiddenArguments:
    """Stands for arguments where a value is written for logs: any of them may be a secret, so only names are shown."""

    __slots__ = ("_arguments",)

    def __init__(self, arguments: Mapping[str, object]) -> None:
        self._arguments = arguments

    def __repr__(self) -> str:
        return f"{{{', '.join(f'{name!r}: …' for name in self._arguments)}}}"


class _HiddenValue:
    """Stands for a value that may be a secret, or quote one: only its type is shown."""

    __slots__ = ("_name",)

    def __init__(self, value: object) -> None:
        self._name = get_class_name(type(value))

    def __repr__(self) -> str:
        return f"<{self._name}>"


def list_shown_fields(value: msgspec.Struct, hidden: Container[str] = ()) -> list[tuple[str, object]]:
    """Return the fields of *value* as its `repr` shows them: of `arguments` the names, of *hidden* fields the types."""
    return [(name, _hide_value(name, getattr(value, name), hidden)) for name in value.__struct_fields__]


def _hide_value(name: str, value: object, hidden: Container[str]) -> object:
    if name == "arguments" and isinstance(value, Mapping):
        return _HiddenArguments(value)
    return _HiddenValue(value) if name in hidden and value is not None else value


def write_repr(value: msgspec.Struct, fields: list[tuple[str, object]]) -> str:
    """Return the `repr` of *value* with these of its fields."""
    return f"{get_class_name(type(value))}({', '.join(f'{name}={field!r}' for name, field in fields)})"
