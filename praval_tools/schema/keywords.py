"""Keywords of JSON Schema that the validator library checks too slowly or with rounding, and the words for each."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import ClassVar, Final

from praval_tools.schema.json_values import is_multiple, to_equality_text
from praval_tools.schema.schema_tree import SchemaPart

REASONS: Final = {
    "enum": "is none of the allowed values",
    "const": "is not the one allowed value",
    "falseSchema": "cannot be given",
    "not": "has a value that is not allowed",
    "required": "has no {0.property!r}",
    "additionalProperties": "has a key that is not allowed",
    "unevaluatedProperties": "has a key that is not allowed",
    "unevaluatedItems": "has an item that is not allowed",
    "propertyNames": "has a name that is not allowed",
    "contains": "has too few, or too many, items of one form",
    "allOf": "does not fit, or something in it",
    "anyOf": "fits none of the allowed forms",
    "oneOf": "fits none, or more than one, of the allowed forms",
    "maximum": "is larger than {0.limit}",
    "minimum": "is smaller than {0.limit}",
    "exclusiveMaximum": "is not smaller than {0.limit}",
    "exclusiveMinimum": "is not larger than {0.limit}",
    "uniqueItems": "has equal items",
    "pattern": "does not have the right form",
    "format": "is not in the form {0.format}",
}
"""JSON Schema keyword → what is wrong with a value that breaks it; `{0}` is the kind of the error."""


class _UniqueItems:
    """The keyword `uniqueItems` in linear time; the library compares large integers one by one."""

    def __init__(self, parent: object, is_wanted: object, path: object) -> None:
        self._is_wanted = is_wanted is True

    def validate(self, instance: object) -> None:
        """Raise `ValueError` where two items are equal."""
        if not self._is_wanted or not isinstance(instance, list | tuple):
            return
        if len(set(map(to_equality_text, instance))) < len(instance):
            raise ValueError(REASONS["uniqueItems"])


class _MultipleOf:
    """The keyword `multipleOf` without rounding; the library divides a `Decimal` as a double."""

    def __init__(self, parent: object, step: float, path: object) -> None:
        self._step = step

    def validate(self, instance: object) -> None:
        """Raise `ValueError` for a number that is none, or not finite."""
        if not isinstance(instance, int | float | Decimal) or isinstance(instance, bool):
            return
        if not is_multiple(instance, self._step):
            raise ValueError(f"is not a multiple of {self._step}")


class _Limit:
    """
    A limit of a number, compared exactly: integers and floats with its value, a `Decimal` with what its text says.

    The library takes a large float for the number that its text says, also where it compares it with a float.
    """

    name: ClassVar[str]
    holds: ClassVar[Callable[..., bool]]

    def __init__(self, parent: object, limit: float, path: object) -> None:
        self.limit, self._decimal_limit = limit, _to_decimals(limit)

    def validate(self, instance: object) -> None:
        """Raise `ValueError` for a number that is outside, or none."""
        if not isinstance(instance, int | float | Decimal) or isinstance(instance, bool):
            return
        limit = self._decimal_limit if isinstance(instance, Decimal) else self.limit
        if isinstance(instance, Decimal) and instance.is_nan() or not type(self).holds(instance, limit):
            raise ValueError(REASONS[self.name].format(self))


class _Minimum(_Limit):
    name, holds = "minimum", operator.ge


class _Maximum(_Limit):
    name, holds = "maximum", operator.le


class _ExclusiveMinimum(_Limit):
    name, holds = "exclusiveMinimum", operator.gt


class _ExclusiveMaximum(_Limit):
    name, holds = "exclusiveMaximum", operator.lt


class _Enum:
    """The keyword `enum` with numbers that are compared exactly: a float counts as its value and as its text."""

    name = "enum"

    def __init__(self, parent: object, allowed: Iterable[object], path: object) -> None:
        self._texts = frozenset(to_equality_text(form) for value in allowed for form in (value, _to_decimals(value)))

    def validate(self, instance: object) -> None:
        """Raise `ValueError` for a value that is none of those allowed."""
        if to_equality_text(instance) not in self._texts:
            raise ValueError(REASONS[self.name])


class _Const(_Enum):
    """The keyword `const` with numbers that are compared exactly."""

    name = "const"

    def __init__(self, parent: object, allowed: object, path: object) -> None:
        super().__init__(parent, [allowed], path)


_KEYWORDS: Final[Mapping[str, type]] = {"uniqueItems": _UniqueItems, "multipleOf": _MultipleOf}
_EXACT_KEYWORDS: Final[Mapping[str, type]] = {
    kind.name: kind for kind in (_Minimum, _Maximum, _ExclusiveMinimum, _ExclusiveMaximum, _Enum, _Const)
}
FIRST_INEXACT_FLOAT: Final = 1 << 53
"""From here on the text of a float may be that of another whole number than its own."""


def _to_decimals(value: object) -> object:
    """Return *value* with what the text of each float in it says instead of the float."""
    if isinstance(value, float):
        return Decimal(repr(value))
    if isinstance(value, list):
        return list(map(_to_decimals, value))
    return {key: _to_decimals(item) for key, item in value.items()} if isinstance(value, dict) else value


def get_keywords(schema: SchemaPart) -> dict[str, type]:
    """Return the keywords by which *schema* is checked instead of the library's own, which are faster."""
    return {**_KEYWORDS, **_EXACT_KEYWORDS} if _has_large_number(schema) else dict(_KEYWORDS)


def _has_large_number(schema: SchemaPart) -> bool:
    """Tell whether *schema* has a number so large that the text of a float may be inexact there."""
    left: list[object] = [schema]
    while left:
        item = left.pop()
        if isinstance(item, Mapping):
            left.extend(item.values())
        elif isinstance(item, list):
            left.extend(item)
        elif isinstance(item, int | float) and abs(item) >= FIRST_INEXACT_FLOAT:
            return True
    return False
